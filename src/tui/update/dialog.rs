//! Keys for the questions of logins.
//!
//! Invariant: the default is the safe answer: Esc refuses, and a new key is trusted only by the end of its fingerprint and Enter; a
//! changed key cannot be accepted here. What is not shown whole is not answered: it can only be refused.

use crate::model::{Answer, Question};
use crate::tui::effect::Effect;
use crate::tui::input::key::{Code, Key};
use crate::tui::state::State;
use crate::tui::state::dialog::{Choice, Dialog, LONGEST, TAIL};
use crate::tui::view;

impl State {
    /// Gives a key to the question in front.
    pub(super) fn dialog_key(&mut self, key: Key) -> Vec<Effect> {
        let whole = view::asked_is_whole(self);
        let Some(dialog) = self.asked.front_mut() else { return Vec::new() };
        let cancel = key == Key::plain(Code::Esc) || key == Key::ctrl('c');
        let answer = match &dialog.prompt.question {
            _ if !whole => cancel.then_some(Answer::Cancel),
            _ if cancel && dialog.choice.is_some() => {
                dialog.choice = None;
                return Vec::new();
            }
            _ if cancel => Some(Answer::Cancel),
            Question::HostKey { .. } => dialog.host_key(key),
            Question::HostKeyChanged { .. } => return self.changed_key(key),
            _ if dialog.texts.is_empty() => (key == Key::plain(Code::Enter)).then_some(Answer::Cancel),
            _ => dialog.text_key(key),
        };
        answer.map_or_else(Vec::new, |answer| self.close_asked(answer))
    }

    /// Puts pasted text into the question in front.
    pub(super) fn dialog_paste(&mut self, text: &str) {
        if !view::asked_is_whole(self) {
            return;
        }
        if let Some(dialog) = self.asked.front_mut() {
            text.lines().next().unwrap_or_default().chars().for_each(|c| dialog.typed(c));
        }
    }

    fn close_asked(&mut self, answer: Answer) -> Vec<Effect> {
        let Some(dialog) = self.take_asked() else { return Vec::new() };
        if dialog.waits() { vec![Effect::Answer { id: dialog.prompt.id, answer }] } else { Vec::new() }
    }

    fn changed_key(&mut self, key: Key) -> Vec<Effect> {
        let Some(dialog) = self.asked.front_mut() else { return Vec::new() };
        match key {
            Key { code: Code::Char('d'), ctrl: false, alt: false, .. } => dialog.whole = !dialog.whole,
            Key { code: Code::Char('c'), ctrl: false, alt: false, .. } => {
                return vec![Effect::Copy { text: format!("qd hostkey replace {}", dialog.prompt.backend) }];
            }
            _ => {}
        }
        Vec::new()
    }
}

impl Dialog {
    fn typed(&mut self, c: char) {
        if let Some(Choice { tail, .. }) = &mut self.choice {
            if tail.len() < TAIL && !c.is_control() {
                tail.push(c);
            }
        } else if let Some(text) = self.texts.get_mut(self.at)
            && text.expose().len() < LONGEST
            && !c.is_control()
        {
            text.push(c);
        }
    }

    /// Answers of texts: a passphrase, a password, a code.
    fn text_key(&mut self, key: Key) -> Option<Answer> {
        let last = self.texts.len().saturating_sub(1);
        match key {
            Key { code: Code::Enter, alt: false, .. } if self.at >= last => {
                let texts = std::mem::take(&mut self.texts);
                // The dialog still waits: what it was is told by its number of texts.
                self.texts = vec![Default::default(); texts.len()];
                return Some(Answer::Texts { texts, keep: self.keep && self.may_keep() });
            }
            Key { code: Code::Enter | Code::Tab | Code::Down, alt: false, .. } => self.at = (self.at + 1).min(last),
            Key { code: Code::Up, .. } => self.at = self.at.saturating_sub(1),
            Key { code: Code::Char('r'), ctrl: true, .. } => self.shown = !self.shown,
            Key { code: Code::Char('k'), ctrl: true, .. } => self.keep = !self.keep && self.may_keep(),
            Key { code: Code::Char('u'), ctrl: true, .. } => self.texts[self.at.min(last)].clear(),
            Key { code: Code::Backspace, .. } => self.texts[self.at.min(last)].pop(),
            Key { code: Code::Char(c), ctrl: false, alt: false, .. } => self.typed(c),
            _ => {}
        }
        None
    }

    /// Whether an unknown key is right.
    fn host_key(&mut self, key: Key) -> Option<Answer> {
        let Question::HostKey { key: shown, .. } = &self.prompt.question else { return None };
        if let Some(Choice { save, tail }) = &mut self.choice {
            match key {
                Key { code: Code::Enter, ctrl: false, alt: false, .. }
                    if tail.len() == TAIL && shown.fingerprint.ends_with(tail.as_str()) =>
                {
                    return Some(Answer::Trust { save: *save });
                }
                Key { code: Code::Enter, .. } => tail.clear(),
                Key { code: Code::Backspace, .. } => drop(tail.pop()),
                Key { code: Code::Char(c), ctrl: false, alt: false, .. } => self.typed(c),
                _ => {}
            }
            return None;
        }
        match key {
            Key { code: Code::Char(c @ ('o' | 's')), ctrl: false, alt: false, .. } => {
                self.choice = Some(Choice { save: c == 's', tail: String::new() });
            }
            Key { code: Code::Char('n'), ctrl: false, alt: false, .. } => return Some(Answer::Cancel),
            Key { code: Code::Char('f'), ctrl: false, alt: false, .. } => self.whole = !self.whole,
            _ => {}
        }
        None
    }
}
