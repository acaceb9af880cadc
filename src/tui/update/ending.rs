//! Ending processes: asked first where somebody else's work is at stake.
//!
//! Invariant: what is ended is what the question named, by id and backend, taken when the key was pressed.

use crate::model::{ProcessId, WhoKind};
use crate::tui::effect::Effect;
use crate::tui::state::State;
use crate::tui::state::overlay::{Confirm, Moot, Overlay};
use crate::tui::text::clean;

/// Processes named in a question; the others are counted.
const NAMED: usize = 8;

impl State {
    /// Ends processes; asks first when it is more than one, when one is someone else's, or when they are killed.
    pub(super) fn ask_end(&mut self, ids: &[ProcessId], grace_ms: Option<u64>) -> Vec<Effect> {
        let live: Vec<ProcessId> = ids.iter().filter(|id| self.blocks.get(*id).is_some_and(|b| b.is_live())).cloned().collect();
        if live.is_empty() {
            if !ids.is_empty() {
                self.notice(if ids.len() == 1 { "that command has ended" } else { "all of them have ended" });
            }
            return Vec::new();
        }
        let effects: Vec<Effect> = live.iter().flat_map(|id| self.end(id, grace_ms)).collect();
        let others = live.iter().filter_map(|id| self.blocks.get(id)).any(|b| b.info.who.kind != WhoKind::Operator);
        if grace_ms.is_none() && live.len() == 1 && !others {
            return effects;
        }
        let verb = if grace_ms.is_some() { "kill" } else { "stop" };
        let (title, lines) = match live.as_slice() {
            [id] => {
                let Some(info) = self.blocks.get(id).map(|b| &b.info) else { return Vec::new() };
                let (backend, command) = (clean(&info.backend), clean(info.command.lines().next().unwrap_or_default()));
                let who = self.blocks.get(id).map(|b| b.who()).unwrap_or_default();
                let about = format!("on {backend}, started by {who}, process {}", clean(id));
                (format!("{verb} on {backend}"), vec![command, about])
            }
            all => {
                let mut lines: Vec<String> = all.iter().take(NAMED).filter_map(|id| self.named(id)).collect();
                if all.len() > NAMED {
                    lines.push(format!("and {} more", all.len() - NAMED));
                }
                (format!("{verb} {} processes", all.len()), lines)
            }
        };
        self.ask_first(title, lines, verb, effects);
        Vec::new()
    }

    /// Names a process in a list: machine, command, who, id.
    fn named(&self, id: &str) -> Option<String> {
        let block = self.blocks.get(id)?;
        let command = crate::tui::text::cut(&clean(block.info.command.lines().next().unwrap_or_default()), 36, self.theme.glyphs.ascii);
        Some(format!("{}  {command}  ({}, {})", clean(&block.info.backend), block.who(), clean(id)))
    }

    /// Opens a question; `y` has the effects done.
    pub(super) fn ask_first(&mut self, title: String, lines: Vec<String>, yes: &str, effects: Vec<Effect>) {
        self.overlay = Some(Overlay::Confirm(Confirm { title, lines, yes: yes.to_owned(), effects, opened: self.mono, moot: Moot::Never }));
    }

    pub(super) fn end(&mut self, id: &str, grace_ms: Option<u64>) -> Vec<Effect> {
        let Some(block) = self.blocks.get(id) else { return Vec::new() };
        vec![Effect::End { process: block.info.id.clone(), backend: block.info.backend.clone(), grace_ms }]
    }
}
