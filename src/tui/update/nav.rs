//! NAV: acting on the commands of a pane.
//!
//! Invariant: what acts on a command names its id, taken when the key was pressed; what destroys asks, with the backend and the
//! command in the question.

use crate::model::ProcessId;
use crate::tui::effect::Effect;
use crate::tui::input::key::Key;
use crate::tui::input::table::Action;
use crate::tui::state::overlay::Overlay;
use crate::tui::state::pane::{Anchor, MAIN, RowId};
use crate::tui::state::{Mood, State, View};

impl State {
    pub(super) fn nav_action(&mut self, action: Action, key: Key) -> Vec<Effect> {
        let focus = self.focus;
        match action {
            Action::Down => self.move_cursor(1),
            Action::Up => self.move_cursor(-1),
            Action::Top => self.move_cursor(isize::MIN / 2),
            Action::Bottom => self.move_cursor(isize::MAX / 2),
            Action::PageUp => self.scroll_page(focus, -1),
            Action::PageDown => self.scroll_page(focus, 1),
            Action::HalfUp => self.scroll_half(focus, -1),
            Action::HalfDown => self.scroll_half(focus, 1),
            Action::Open => self.toggle_open(),
            Action::Stop => return self.cursor_block().map_or_else(Vec::new, |id| self.ask_end(&[id], None)),
            Action::Kill => return self.cursor_block().map_or_else(Vec::new, |id| self.ask_end(&[id], Some(0))),
            Action::CopyOutput => return self.copy_output(self.cursor_block()),
            Action::CopyCommand => return self.copy_command(self.cursor_block()),
            Action::Stdin => self.type_into_stdin(),
            Action::Session => self.choose_session(),
            Action::Search => self.begin_find(),
            Action::SearchNext => self.find_step(-1),
            Action::SearchPrevious => self.find_step(1),
            Action::Reconnect => return self.reconnect(focus),
            Action::Zoom => self.toggle_zoom(),
            Action::Slot => self.go_to_slot(key),
            Action::Help => self.show(View::Help),
            Action::ToInput => {
                self.mood = Mood::Input;
                if let Some(pane) = self.pane_mut() {
                    pane.follow();
                }
            }
            _ => {}
        }
        Vec::new()
    }

    /// Gives the command under the cursor.
    pub(in crate::tui) fn cursor_block(&self) -> Option<ProcessId> {
        let pane = self.pane()?;
        pane.cursor.clone().filter(|id| pane.blocks.contains(id)).or_else(|| pane.blocks.last().cloned())
    }

    /// Moves the cursor over the commands and brings it into sight.
    pub(super) fn move_cursor(&mut self, by: isize) {
        let focus = self.focus;
        let Some(pane) = self.panes.get_mut(focus) else { return };
        let Some(last) = pane.blocks.len().checked_sub(1) else { return };
        let at = pane.cursor.as_ref().and_then(|id| pane.blocks.iter().position(|b| b == id)).unwrap_or(last);
        let to = (at as isize).saturating_add(by).clamp(0, last as isize) as usize;
        pane.cursor = Some(pane.blocks[to].clone());
        if to == last {
            pane.follow();
            return;
        }
        let id = pane.blocks[to].clone();
        let shown = self.drawn.panes.iter().find(|p| p.pane == focus);
        let whole = shown.is_some_and(|p| p.blocks.iter().any(|(b, whole)| *b == id && *whole));
        if !whole {
            self.panes[focus].anchor = Some(Anchor { block: id, row: RowId::Foot(u16::MAX) });
            self.settle(focus);
        }
    }

    fn toggle_open(&mut self) {
        let (Some(id), focus) = (self.cursor_block(), self.focus) else { return };
        let Some(block) = self.blocks.get(&id) else { return };
        let open = !self.is_open(focus, block);
        if let Some(block) = self.blocks.get_mut(&id) {
            block.open = Some(open);
        }
        if let Some(pane) = self.panes.get_mut(focus).filter(|p| p.anchor.as_ref().is_some_and(|a| a.block == id)) {
            pane.anchor = Some(Anchor { block: id, row: RowId::Foot(u16::MAX) });
        }
    }

    /// Gives the newest command of the focused pane that has output here.
    pub(super) fn newest_with_output(&self) -> Option<ProcessId> {
        let pane = self.pane()?;
        pane.blocks.iter().rev().find(|id| self.blocks.get(*id).is_some_and(|b| b.screen.is_some())).cloned()
    }

    pub(super) fn copy_output(&mut self, id: Option<ProcessId>) -> Vec<Effect> {
        let screen =
            id.and_then(|id| self.blocks.get(&id)).and_then(|b| b.screen.as_ref().map(|s| (s.text(), s.has_gap() || b.next < b.total)));
        let Some((text, part)) = screen else {
            self.notice("there is no output to copy here; enter opens a folded one");
            return Vec::new();
        };
        self.copy(text, if part { "output (the part that is shown)" } else { "output" })
    }

    pub(super) fn copy_command(&mut self, id: Option<ProcessId>) -> Vec<Effect> {
        match id.and_then(|id| self.blocks.get(&id)).map(|b| b.info.command.clone()) {
            Some(text) => self.copy(text, "command"),
            None => Vec::new(),
        }
    }

    /// Copies text, as much as terminals take.
    pub(super) fn copy(&mut self, mut text: String, what: &str) -> Vec<Effect> {
        const MAX: usize = 74_000;
        let mut note = format!("copied the {what}: {}", crate::tui::format::bytes(text.len() as u64));
        if text.len() > MAX {
            let mut from = text.len() - MAX;
            while !text.is_char_boundary(from) {
                from += 1;
            }
            text = text.split_off(from);
            note = format!("copied the last {} of the {what}: terminals take no more", crate::tui::format::bytes(text.len() as u64));
        }
        self.notice(note);
        vec![Effect::Copy { text }]
    }

    fn type_into_stdin(&mut self) {
        let Some(id) = self.cursor_block() else { return };
        let why = match self.blocks.get(&id) {
            Some(b) if !b.is_live() => Some("that command has ended"),
            Some(b) if !b.info.reads_stdin => Some("its stdin is empty; Ctrl-O instead of Enter runs a command with an open one"),
            Some(_) => None,
            None => return,
        };
        if let Some(why) = why {
            self.notice(why);
            return;
        }
        self.mood = Mood::Input;
        if let Some(pane) = self.pane_mut() {
            pane.stdin = Some(id);
            pane.follow();
        }
    }

    fn choose_session(&mut self) {
        let Some((backend, session)) = self.pane().map(|p| (p.backend.clone(), p.session.clone())) else { return };
        let mut rows: Vec<String> = self.sessions.iter().filter(|s| s.backend == backend).map(|s| s.name.clone()).collect();
        for name in [MAIN, session.as_str()] {
            if !rows.iter().any(|r| r == name) {
                rows.push(name.to_owned());
            }
        }
        rows.sort();
        let at = rows.iter().position(|r| *r == session).unwrap_or(0);
        self.overlay = Some(Overlay::Sessions { backend, rows, at, text: String::new() });
    }
}
