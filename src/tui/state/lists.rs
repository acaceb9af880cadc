//! The rows of the full-screen lists.
//!
//! Invariant: what the cursor counts is exactly what is drawn.

use super::block::Block;
use super::messages::Message;
use super::{State, View};
use crate::model::{BackendInfo, WhoKind};
use crate::tui::input::keymap::HelpLine;
use crate::tui::input::table::Context;

impl State {
    /// Gives the backends as the filter lets through.
    pub(in crate::tui) fn backend_rows(&self) -> Vec<(usize, &BackendInfo)> {
        let keep = |b: &BackendInfo| {
            matches(&self.list.filter, &[&b.name, &b.address, b.kind.as_str(), b.health.state.as_str(), &b.tags.join(" ")])
        };
        self.backends.iter().enumerate().filter(|(_, b)| keep(b)).collect()
    }

    /// Gives the messages, newest first.
    pub(in crate::tui) fn message_rows(&self) -> Vec<&Message> {
        self.messages.iter().rev().filter(|m| matches(&self.list.filter, &[&m.text, m.backend.as_deref().unwrap_or("")])).collect()
    }

    /// Gives the lines of help; the keys of the place a person came from stand first after the leader's.
    pub(in crate::tui) fn help_rows(&self) -> Vec<HelpLine> {
        let rows = self.keymap.help(&Context::ALL).into_iter();
        rows.filter(|l| matches(&self.list.filter, &[&l.keys, l.label, l.name, l.group])).collect()
    }

    /// Gives how many rows the list on screen has.
    pub(in crate::tui) fn list_len(&self) -> usize {
        match self.view {
            View::Panes | View::Details => 0,
            View::Backends => self.backend_rows().len(),
            View::Processes => self.process_rows().len(),
            View::Feed => self.feed_rows().len(),
            View::Messages => self.message_rows().len(),
            View::Help => self.help_rows().len(),
        }
    }

    /// Gives who runs what on a backend, newest first, for bars.
    pub(in crate::tui) fn live_on(&self, backend: &str) -> Vec<&Block> {
        let mut rows: Vec<&Block> = self.blocks.values().filter(|b| b.info.backend == backend && b.is_live()).collect();
        rows.sort_by(|a, b| (b.info.started, &b.info.id).cmp(&(a.info.started, &a.info.id)));
        rows
    }

    /// Gives the newest running command of an agent.
    pub(in crate::tui) fn newest_agent(&self) -> Option<&Block> {
        let rows = self.blocks.values().filter(|b| b.is_live() && b.info.who.kind == WhoKind::Agent);
        rows.max_by(|a, b| (a.info.started, &a.info.id).cmp(&(b.info.started, &b.info.id)))
    }
}

fn matches(filter: &str, fields: &[&str]) -> bool {
    if filter.is_empty() {
        return true;
    }
    let all = fields.join(" ").to_lowercase();
    filter.to_lowercase().split_whitespace().all(|word| all.contains(word))
}
