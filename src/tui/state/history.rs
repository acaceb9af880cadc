//! Earlier commands of the operator: of this backend first, then of all others.
//!
//! Invariant: newest first, each text once.

use super::State;
use crate::model::WhoKind;
use std::collections::HashSet;

/// Where a person is in the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) struct Place {
    /// The entries when the walk began.
    entries: Vec<String>,
    /// The entry shown; none: the line as it was typed.
    at: Option<usize>,
    /// The line as it was typed.
    typed: String,
}

impl Place {
    /// Goes to an earlier entry that begins with what was typed; gives it.
    pub(in crate::tui) fn earlier(&mut self) -> Option<&str> {
        let from = self.at.map_or(0, |at| at + 1);
        let at = (from..self.entries.len()).find(|i| self.entries[*i].starts_with(&self.typed))?;
        self.at = Some(at);
        self.entries.get(at).map(String::as_str)
    }

    /// Goes to a later entry, or back to what was typed; none when nothing is later.
    pub(in crate::tui) fn later(&mut self) -> Option<&str> {
        let at = self.at?;
        self.at = (0..at).rev().find(|i| self.entries[*i].starts_with(&self.typed));
        Some(self.at.map_or(self.typed.as_str(), |i| &self.entries[i]))
    }
}

impl State {
    /// Gives earlier commands for a backend's input line.
    pub(in crate::tui) fn history(&self, backend: &str) -> Vec<String> {
        let mut rows: Vec<_> = self.blocks.values().filter(|b| b.info.who.kind == WhoKind::Operator).collect();
        rows.sort_by(|a, b| (b.info.started, &b.info.id).cmp(&(a.info.started, &a.info.id)));
        let mut seen = HashSet::new();
        let (mine, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|b| b.info.backend == backend);
        let texts = mine.into_iter().chain(others).map(|b| &b.info.command);
        texts.filter(|c| !c.trim().is_empty() && seen.insert(c.as_str())).cloned().collect()
    }

    /// Begins a walk through the history from what is typed.
    pub(in crate::tui) fn history_place(&self, backend: &str, typed: &str) -> Place {
        Place { entries: self.history(backend), at: None, typed: typed.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use crate::tui::testing;

    #[test]
    fn the_backends_own_commands_come_first_and_each_once() {
        let mut state = testing::state();
        testing::run(&mut state, "p1", "web", "make", 1);
        testing::run(&mut state, "p2", "local", "ls", 2);
        testing::run(&mut state, "p3", "web", "git status", 3);
        testing::run(&mut state, "p4", "local", "make", 4);
        assert_eq!(state.history("web"), ["git status", "make", "ls"]);
        let mut place = state.history_place("web", "");
        assert_eq!(place.earlier(), Some("git status"));
        assert_eq!(place.earlier(), Some("make"));
        assert_eq!(place.earlier(), Some("ls"));
        assert_eq!(place.earlier(), None);
        assert_eq!(place.later(), Some("make"));
        assert_eq!(place.later(), Some("git status"));
        assert_eq!(place.later(), Some(""));
        assert_eq!(place.later(), None);
        assert_eq!(state.history_place("web", "ma").earlier(), Some("make"));
    }
}
