//! The full-screen lists.
//!
//! Invariant: a key acts on the row that is drawn under the cursor.

use super::motion::steps;
use crate::tui::effect::Effect;
use crate::tui::input::table::Action;
use crate::tui::state::processes::Part;
use crate::tui::state::{State, View};
use ratatui::layout::Position;

impl State {
    pub(super) fn list_action(&mut self, action: Action) -> Vec<Effect> {
        if let Some(by) = steps(action, self.drawn.list_rows) {
            self.move_list(by);
            return Vec::new();
        }
        match action {
            Action::Filter => self.list.typing = true,
            Action::Help => self.show(View::Help),
            Action::Back => {
                if self.list.filter.is_empty() {
                    self.view = if self.view == View::Help { self.help_from } else { View::Panes };
                } else {
                    self.list = Default::default();
                }
            }
            Action::Open => self.open_row(),
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

    /// Moves the cursor of whichever list is shown.
    pub(super) fn move_in_list(&mut self, by: isize) {
        match self.view {
            View::Processes => self.move_process(by),
            View::Feed => self.move_feed(by),
            View::Details => {
                let action = if by < 0 { Action::Up } else { Action::Down };
                for _ in 0..by.unsigned_abs() {
                    self.details_action(action);
                }
            }
            View::Backends | View::Messages | View::Help => self.move_list(by),
            View::Panes => {}
        }
    }

    /// Puts the cursor on the row that was pressed; false when that is no row.
    pub(super) fn press_list(&mut self, at: Position) -> bool {
        let Some((rows, first)) = self.drawn.list.filter(|(rows, _)| rows.contains(at)) else { return false };
        let to = first + (at.y - rows.y) as usize;
        match self.view {
            View::Processes => {
                let all = self.process_rows();
                let now = self.process_at(&all).unwrap_or(0);
                if to < all.len() {
                    self.processes.part = Part::Table;
                    self.move_process(to as isize - now as isize);
                }
            }
            View::Feed => {
                let all = self.feed_rows();
                let (now, _) = self.feed_place(&all, self.drawn.list_rows);
                if to < all.len() {
                    self.move_feed(to as isize - now as isize);
                }
            }
            View::Backends | View::Messages | View::Help => self.list.at = to.min(self.list_len().saturating_sub(1)),
            View::Panes | View::Details => return false,
        }
        true
    }

    fn row_backend(&self) -> Option<usize> {
        match self.view {
            View::Backends => self.backend_rows().get(self.list.at).map(|(i, _)| *i),
            View::Messages => self.message_rows().get(self.list.at).and_then(|m| m.backend.as_deref()).and_then(|b| self.backend_index(b)),
            _ => None,
        }
    }

    /// Goes to what a row is about: a process in the process view, else the pane of its backend.
    fn open_row(&mut self) {
        let rows = if self.view == View::Messages { self.message_rows() } else { Vec::new() };
        let process = rows.get(self.list.at).and_then(|m| m.process.clone()).filter(|id| self.blocks.contains_key(id));
        if let Some(id) = process {
            return self.go_to_process(&id);
        }
        let Some(at) = self.row_backend() else { return };
        self.view = View::Panes;
        self.focus_on(at);
    }
}
