//! The full-screen lists.
//!
//! Invariant: a key acts on the row that is drawn under the cursor.

use crate::model::ProcessId;
use crate::tui::effect::Effect;
use crate::tui::input::table::Action;
use crate::tui::state::pane::{Anchor, RowId};
use crate::tui::state::{Mood, State, View};

impl State {
    pub(super) fn list_action(&mut self, action: Action) -> Vec<Effect> {
        let page = self.drawn.list_rows.max(2) as isize - 1;
        match action {
            Action::Down => self.move_list(1),
            Action::Up => self.move_list(-1),
            Action::PageDown => self.move_list(page),
            Action::PageUp => self.move_list(-page),
            Action::Top => self.move_list(isize::MIN / 2),
            Action::Bottom => self.move_list(isize::MAX / 2),
            Action::Filter => self.list.typing = true,
            Action::Help => self.show(View::Help),
            Action::Back => {
                if self.list.filter.is_empty() {
                    self.view = View::Panes;
                } else {
                    self.list = Default::default();
                }
            }
            Action::Open => self.open_row(),
            Action::Stop => return self.row_process().map_or_else(Vec::new, |id| self.ask_end(&id, None)),
            Action::CopyOutput => {
                let row = self.row_process();
                return self.copy_output(row);
            }
            Action::CopyCommand => {
                let row = self.row_process();
                return self.copy_command(row);
            }
            Action::Reconnect => {
                if let Some(at) = self.row_backend() {
                    return self.reconnect(at);
                }
            }
            _ => {}
        }
        Vec::new()
    }

    pub(super) fn move_list(&mut self, by: isize) {
        let last = self.list_len().saturating_sub(1) as isize;
        self.list.at = (self.list.at as isize).saturating_add(by).clamp(0, last) as usize;
    }

    fn row_process(&self) -> Option<ProcessId> {
        (self.view == View::Feed).then(|| self.feed(&self.list.filter).get(self.list.at).map(|b| b.info.id.clone())).flatten()
    }

    fn row_backend(&self) -> Option<usize> {
        match self.view {
            View::Backends => self.backend_rows().get(self.list.at).map(|(i, _)| *i),
            View::Feed => self.row_process().and_then(|id| self.backend_index(&self.blocks.get(&id)?.info.backend)),
            View::Messages => self.message_rows().get(self.list.at).and_then(|m| m.backend.as_deref()).and_then(|b| self.backend_index(b)),
            View::Panes | View::Help => None,
        }
    }

    /// Goes to the pane of a row, and to its command.
    fn open_row(&mut self) {
        let Some(at) = self.row_backend() else { return };
        let process = self.row_process();
        self.view = View::Panes;
        self.focus_on(at);
        let Some(id) = process else { return };
        if let Some(block) = self.blocks.get_mut(&id) {
            block.open = Some(true);
        }
        self.mood = Mood::Nav;
        if let Some(pane) = self.pane_mut() {
            let newest = pane.blocks.last() == Some(&id);
            pane.anchor = (!newest).then(|| Anchor { block: id.clone(), row: RowId::Foot(u16::MAX) });
            pane.cursor = Some(id);
        }
    }
}
