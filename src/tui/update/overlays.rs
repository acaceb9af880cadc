//! Keys for what lies on top: the first start, questions, the choice of a session.
//!
//! Invariant: `y` alone says yes; Enter, Esc and every other key leave things as they are.

use crate::tui::effect::Effect;
use crate::tui::input::key::{Code, Key};
use crate::tui::state::Mood;
use crate::tui::state::State;
use crate::tui::state::overlay::{Confirm, GUARD_MS, Moot, Overlay};

impl State {
    pub(super) fn overlay_key(&mut self, key: Key) -> Vec<Effect> {
        match self.overlay.take() {
            Some(Overlay::Setup { doubted, .. }) => self.setup_key(key, doubted),
            Some(Overlay::Confirm(confirm)) => self.confirm_key(key, confirm),
            Some(Overlay::Sessions { backend, rows, at, text }) => {
                self.session_key(key, backend, rows, at, text);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Takes away a question that nobody can have read and that has become needless: the last own command ended just as the
    /// person left. Gives what was asked about.
    pub(in crate::tui) fn settle_question(&mut self) -> Vec<Effect> {
        match &self.overlay {
            Some(Overlay::Confirm(c))
                if c.moot == Moot::NoneRuns && self.own.is_empty() && self.mono.saturating_sub(c.opened) < GUARD_MS =>
            {
                let effects = c.effects.clone();
                self.overlay = None;
                effects
            }
            _ => Vec::new(),
        }
    }

    fn setup_key(&mut self, key: Key, doubted: Option<Key>) -> Vec<Effect> {
        if key == Key::plain(Code::Esc) {
            // The usual leader, asked again at the next start.
            return Vec::new();
        }
        if let Err(why) = key.can_be_leader() {
            let refused = Some(format!("{} cannot be it: {why}", key.short()));
            self.overlay = Some(Overlay::Setup { refused, doubted: None });
            return Vec::new();
        }
        let taken = self.facts.outer.iter().find(|(_, k)| *k == key).map(|(name, _)| *name);
        if let Some(name) = taken.filter(|_| doubted != Some(key)) {
            let refused =
                Some(format!("{} is {name}'s own key, which may take it first; press it again to use it all the same", key.short()));
            self.overlay = Some(Overlay::Setup { refused, doubted: Some(key) });
            return Vec::new();
        }
        vec![Effect::SaveLeader { leader: key }]
    }

    fn confirm_key(&mut self, key: Key, confirm: Confirm) -> Vec<Effect> {
        if self.mono.saturating_sub(confirm.opened) < GUARD_MS {
            self.overlay = Some(Overlay::Confirm(confirm));
            return Vec::new();
        }
        if key != Key::char('y') && key != Key::char('Y') {
            return Vec::new();
        }
        let leaves = confirm.effects.iter().any(|e| matches!(e, Effect::Leave));
        if self.is_blind() && !leaves {
            self.notice("too small to ask: nothing was done");
            return Vec::new();
        }
        // What was asked about may be gone by now.
        let mut effects = confirm.effects;
        effects.retain(|e| match e {
            Effect::End { process, .. } => self.blocks.get(process).is_some_and(|b| b.is_live()),
            _ => true,
        });
        for effect in &effects {
            if let Effect::Restart { backend, .. } = effect
                && let Some(why) = self.backend_index(backend).and_then(|at| self.away(at))
            {
                self.notice(format!("{why}: nothing was run"));
                return Vec::new();
            }
            if let Effect::Exec { exec, .. } = effect {
                let backend = exec.backend.clone().unwrap_or_default();
                let at = self.backend_index(&backend);
                if let Some(why) = at.and_then(|at| self.away(at)) {
                    self.notice(format!("{why}: nothing was run"));
                    return Vec::new();
                }
                if let Some(pane) = at.and_then(|at| self.panes.get_mut(at)) {
                    pane.editor.take();
                    pane.pasted = 0;
                }
            }
        }
        effects
    }

    fn session_key(&mut self, key: Key, backend: String, rows: Vec<String>, mut at: usize, mut text: String) {
        match key {
            Key { code: Code::Esc, .. } | Key { code: Code::Char('c'), ctrl: true, .. } => return,
            Key { code: Code::Up, .. } => at = at.saturating_sub(1),
            Key { code: Code::Down, .. } => at = (at + 1).min(rows.len().saturating_sub(1)),
            Key { code: Code::Backspace, .. } => {
                text.pop();
            }
            Key { code: Code::Enter, .. } => {
                let name = if text.is_empty() { rows.get(at).cloned() } else { Some(text) };
                let pane = self.backend_index(&backend).and_then(|i| self.panes.get_mut(i));
                if let (Some(name), Some(pane)) = (name, pane) {
                    pane.session = name;
                    // What is typed next is a command for it, and no single keys about old ones.
                    self.mood = Mood::Input;
                }
                return;
            }
            // The characters of a name; the daemon has the last word.
            Key { code: Code::Char(c), ctrl: false, alt: false, .. } if c.is_ascii_alphanumeric() || "-_.".contains(c) => text.push(c),
            _ => {}
        }
        self.overlay = Some(Overlay::Sessions { backend, rows, at, text });
    }
}
