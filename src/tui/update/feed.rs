//! The keys of the feed, and of the details of one command.
//!
//! Invariant: a key acts on the row that is drawn under the cursor; what the cursor is on stays under it while rows arrive.

use super::motion::steps;
use crate::model::ProcessId;
use crate::tui::effect::Effect;
use crate::tui::input::table::Action;
use crate::tui::state::feed::Item;
use crate::tui::state::{Details, State, View};

impl State {
    pub(super) fn feed_action(&mut self, action: Action) -> Vec<Effect> {
        if let Some(by) = steps(action, self.drawn.list_rows) {
            self.move_feed(by);
            return Vec::new();
        }
        match action {
            Action::Filter => self.list.typing = true,
            Action::ByWho => self.toggle_by(),
            Action::Failures => {
                self.feed.failures = !self.feed.failures;
                self.move_feed(0);
            }
            Action::Pause => self.feed.paused = if self.feed.paused.is_some() { None } else { Some(self.now) },
            Action::Details => self.show_details(self.feed_process()),
            Action::ToPane => {
                let id = self.feed_process();
                self.go_to_pane(id, true);
            }
            Action::Stop => return self.feed_process().map_or_else(Vec::new, |id| self.ask_end(&[id], None)),
            Action::Kill => return self.feed_process().map_or_else(Vec::new, |id| self.ask_end(&[id], Some(0))),
            Action::CopyOutput => return self.copy_output(self.feed_process()),
            Action::CopyCommand => return self.copy_command(self.feed_process()),
            Action::Help => self.show(View::Help),
            Action::Back => {
                let plain = self.list.filter.is_empty() && self.feed.by.is_none() && !self.feed.failures && self.feed.paused.is_none();
                if plain {
                    self.view = View::Panes;
                } else {
                    self.list = Default::default();
                    self.feed = Default::default();
                }
            }
            _ => {}
        }
        Vec::new()
    }

    /// Moves the cursor of the feed; at the newest row it stays with whatever is the newest.
    pub(super) fn move_feed(&mut self, by: isize) {
        let height = self.drawn.list_rows.max(1);
        let rows = self.feed_rows();
        let (at, first) = self.feed_place(&rows, height);
        let last = rows.len().saturating_sub(1) as isize;
        let to = (at as isize).saturating_add(by).clamp(0, last) as usize;
        let first = first.min(to).max((to + 1).saturating_sub(height));
        let key = |at: usize| rows.get(at).map(Item::key).filter(|_| to > 0);
        let (key, top) = (key(to), key(first));
        self.feed.key = key;
        self.feed.top = top;
    }

    /// Gives the command under the cursor.
    fn feed_process(&self) -> Option<ProcessId> {
        let rows = self.feed_rows();
        let (at, _) = self.feed_place(&rows, self.drawn.list_rows);
        match rows.get(at)? {
            Item::Command { block, .. } => Some(block.info.id.clone()),
            Item::Said(message) => message.process.clone().filter(|id| self.blocks.contains_key(id)),
        }
    }

    /// Only what the one under the cursor started; again: all.
    fn toggle_by(&mut self) {
        self.feed.by = match self.feed.by.take() {
            Some(_) => None,
            None => self.feed_process().and_then(|id| self.blocks.get(&id)).map(|b| b.who()),
        };
        self.move_feed(0);
    }

    /// Shows everything about one command.
    pub(super) fn show_details(&mut self, id: Option<ProcessId>) {
        let Some(process) = id.filter(|id| self.blocks.contains_key(id)) else { return };
        self.details = Some(Details { process, from: self.view, at: 0 });
        self.view = View::Details;
    }

    pub(super) fn details_action(&mut self, action: Action) -> Vec<Effect> {
        let Some(details) = self.details.clone() else {
            self.view = View::Panes;
            return Vec::new();
        };
        let id = details.process.clone();
        match action {
            Action::Stop => return self.ask_end(&[id], None),
            Action::Kill => return self.ask_end(&[id], Some(0)),
            Action::CopyOutput => return self.copy_output(Some(id)),
            Action::CopyCommand => return self.copy_command(Some(id)),
            Action::ToPane => self.go_to_pane(Some(id), true),
            Action::OpenLog => self.go_to_process(&id),
            Action::Help => self.show(View::Help),
            Action::Back => {
                self.view = details.from;
                self.details = None;
            }
            other => self.scroll_details(other),
        }
        Vec::new()
    }

    fn scroll_details(&mut self, action: Action) {
        let Some(by) = steps(action, self.drawn.list_rows) else { return };
        let last = self.drawn.details_rows.saturating_sub(self.drawn.list_rows) as isize;
        if let Some(details) = &mut self.details {
            details.at = (details.at as isize).saturating_add(by).clamp(0, last.max(0)) as usize;
        }
    }
}
