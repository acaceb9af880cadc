//! The process view: which rows it has, which are marked, and what its log pane shows.
//!
//! Invariant: cursor and marks are ids, so that a list that moves never makes a key act on another process; a process whose backend
//! cannot be asked is `unknown`, never ended.

use super::State;
use super::block::Block;
use super::log::{LogView, Need, Wanted};
use super::query::{Subject, lets_through};
use crate::model::{ProcessId, ProcessState};
use crate::tui::effect::Effect;

/// The groups of the table, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tui) enum Standing {
    Failed,
    Unknown,
    /// Left running by a command that has ended.
    Stray,
    Running,
    Ended,
}

/// Which rows are shown beside those that run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) enum Shown {
    /// Background processes that have ended.
    #[default]
    Background,
    /// All that have ended.
    All,
    /// None.
    Live,
}

impl Shown {
    pub(in crate::tui) fn next(self) -> Self {
        match self {
            Self::Background => Self::All,
            Self::All => Self::Live,
            Self::Live => Self::Background,
        }
    }
}

/// Which part of the view the keys move in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) enum Part {
    #[default]
    Table,
    Log,
}

/// What a line at the bottom is typed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) enum Asking {
    /// Which rows are shown.
    Filter,
    /// Which lines of the log are shown.
    Find,
    /// The stdin of a process.
    Stdin(ProcessId),
}

/// The process view.
#[derive(Debug, Default)]
pub(in crate::tui) struct Processes {
    pub(in crate::tui) cursor: Option<ProcessId>,
    /// Where the cursor was, for when its row is gone.
    pub(in crate::tui) at: usize,
    pub(in crate::tui) marked: Vec<ProcessId>,
    /// Where a range of marks began.
    pub(in crate::tui) range: Option<ProcessId>,
    pub(in crate::tui) shown: Shown,
    /// The one backend that is shown; none: all.
    pub(in crate::tui) only: Option<String>,
    pub(in crate::tui) filter: String,
    pub(in crate::tui) part: Part,
    pub(in crate::tui) zoom: bool,
    pub(in crate::tui) asking: Option<(Asking, String)>,
    pub(in crate::tui) log: LogView,
}

/// How many processes there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) struct Tally {
    /// Background processes that run. Strays are counted apart.
    pub(in crate::tui) running: usize,
    pub(in crate::tui) failed: usize,
    pub(in crate::tui) unknown: usize,
    pub(in crate::tui) stray: usize,
}

impl Block {
    /// Tells how a process stands.
    pub(in crate::tui) fn standing(&self) -> Standing {
        match &self.info.state {
            ProcessState::Ended(_) if self.failed() => Standing::Failed,
            ProcessState::Ended(_) => Standing::Ended,
            ProcessState::Unknown => Standing::Unknown,
            _ if self.lost => Standing::Unknown,
            ProcessState::Stray => Standing::Stray,
            ProcessState::Starting | ProcessState::Running | ProcessState::Stopping => Standing::Running,
        }
    }

    /// The words for its state that a filter finds.
    fn state_words(&self) -> Vec<&'static str> {
        let mut words = match (&self.info.state, self.standing()) {
            (_, Standing::Unknown) => vec!["unknown"],
            (_, Standing::Stray) => vec!["stray", "running"],
            (ProcessState::Starting, _) => vec!["starting"],
            (ProcessState::Stopping, _) => vec!["stopping", "running"],
            (ProcessState::Ended(outcome), Standing::Failed) => vec!["failed", outcome.word(), "ended"],
            (ProcessState::Ended(outcome), _) => vec![outcome.word(), "ended"],
            _ => vec!["running"],
        };
        words.push(if self.info.background { "background" } else { "foreground" });
        words
    }

    /// Who started it, as the screen says it: clean, and `you` for an operator.
    pub(in crate::tui) fn who(&self) -> String {
        let operator = self.info.who.kind == crate::model::WhoKind::Operator;
        if operator { "you".to_owned() } else { crate::tui::text::clean(&self.info.who.name) }
    }
}

impl State {
    /// Tells whether a query lets a process through.
    pub(in crate::tui) fn is_let_through(&self, query: &str, block: &Block) -> bool {
        if query.trim().is_empty() {
            return true;
        }
        let info = &block.info;
        let backend = self.backends.iter().find(|b| b.name == info.backend);
        let pid = info.pid.map(|pid| pid.to_string()).unwrap_or_default();
        let (who, states) = (block.who(), block.state_words());
        let kind = backend.map_or("", |b| b.kind.as_str());
        let texts = [info.backend.as_str(), kind, &info.session, &who, &info.command, &info.id, &pid];
        let tags = backend.map_or(&[][..], |b| &b.tags);
        lets_through(query, &Subject { texts: &texts, states: &states, by: &who, tags })
    }

    /// Gives the rows of the process view: what needs a look first, background before foreground, newest first.
    pub(in crate::tui) fn process_rows(&self) -> Vec<&Block> {
        let view = &self.processes;
        let wanted = |b: &&Block| {
            let standing = match (b.info.state.is_ended(), view.shown) {
                (false, _) | (true, Shown::All) => true,
                (true, Shown::Background) => b.info.background,
                (true, Shown::Live) => false,
            };
            standing && !b.refused && view.only.as_ref().is_none_or(|only| *only == b.info.backend)
        };
        let mut rows: Vec<&Block> = self.blocks.values().filter(wanted).filter(|b| self.is_let_through(&view.filter, b)).collect();
        rows.sort_by(|a, b| {
            let key = |x: &Block| (x.standing(), !x.info.background, std::cmp::Reverse(x.info.ended.unwrap_or(x.info.started)));
            key(a).cmp(&key(b)).then_with(|| a.info.id.cmp(&b.info.id))
        });
        rows
    }

    /// Gives where the cursor is among the rows; none without rows.
    pub(in crate::tui) fn process_at(&self, rows: &[&Block]) -> Option<usize> {
        let last = rows.len().checked_sub(1)?;
        let view = &self.processes;
        let found = view.cursor.as_ref().and_then(|id| rows.iter().position(|b| b.info.id == *id));
        Some(found.unwrap_or(view.at.min(last)))
    }

    /// Gives the process under the cursor.
    pub(in crate::tui) fn process_cursor(&self) -> Option<ProcessId> {
        let rows = self.process_rows();
        self.process_at(&rows).map(|at| rows[at].info.id.clone())
    }

    /// Gives what a key acts on: what is marked, else what is under the cursor.
    pub(in crate::tui) fn targets(&self) -> Vec<ProcessId> {
        let marked: Vec<ProcessId> = self.processes.marked.iter().filter(|id| self.blocks.contains_key(*id)).cloned().collect();
        if marked.is_empty() { self.process_cursor().into_iter().collect() } else { marked }
    }

    /// Counts the background processes of a backend, or of all.
    pub(in crate::tui) fn tally(&self, backend: Option<&str>) -> Tally {
        let mut tally = Tally::default();
        let counted = |b: &&Block| b.info.background || b.standing() == Standing::Stray;
        for block in self.blocks.values().filter(counted).filter(|b| backend.is_none_or(|name| b.info.backend == name)) {
            match block.standing() {
                Standing::Failed => tally.failed += 1,
                Standing::Unknown => tally.unknown += 1,
                Standing::Stray => tally.stray += 1,
                Standing::Running => tally.running += 1,
                Standing::Ended => {}
            }
        }
        tally
    }

    /// Has the log pane show what the table says: the marked ones together, else the one under the cursor.
    pub(in crate::tui) fn sync_log(&mut self) {
        let marked: Vec<ProcessId> = self.processes.marked.iter().filter(|id| self.blocks.contains_key(*id)).cloned().collect();
        self.processes.marked = marked;
        let cursor = self.process_cursor();
        if let Some(id) = &cursor {
            let rows = self.process_rows();
            let at = self.process_at(&rows).unwrap_or(0);
            self.processes.at = at;
            self.processes.cursor = Some(id.clone());
        }
        let shown = if self.processes.marked.len() > 1 { self.processes.marked.clone() } else { cursor.into_iter().collect() };
        self.processes.log.show(&shown);
    }

    /// Gives the read that the log pane wants next.
    pub(in crate::tui) fn next_log_read(&mut self, need: Need) -> Option<Effect> {
        self.sync_log();
        // What is on screen is seen.
        if let Some(id) = self.processes.cursor.clone() {
            self.settle_alerts(|about| about.process.as_ref() == Some(&id));
        }
        let blocks = &self.blocks;
        // Without its daemon a log cannot be read, and without a row there is no log.
        let total = |id: &str| blocks.get(id).filter(|b| !b.refused).map_or(0, |b| b.total);
        let ended: Vec<(ProcessId, u64, String)> = self
            .processes
            .log
            .ids()
            .filter_map(|id| blocks.get(id).filter(|b| b.info.state.is_ended()).map(|b| (id.clone(), b.total, b.end_words())))
            .collect();
        for (id, total, text) in ended {
            self.processes.log.note_end(&id, total, &text);
        }
        if !matches!(self.link, super::Link::Connected) {
            return None;
        }
        let Wanted { turn, process, start, max } = self.processes.log.ask(total, need)?;
        Some(Effect::ReadLog { turn, process, start, max })
    }
}

impl Block {
    /// Says how it ended: `exit 2 after 2.1s`.
    pub(in crate::tui) fn end_words(&self) -> String {
        let ProcessState::Ended(outcome) = &self.info.state else { return String::new() };
        let after = crate::tui::format::duration(crate::tui::format::elapsed(&self.info, self.info.started));
        let meaning = self.info.exit_code_meaning.as_deref().map_or_else(String::new, |m| format!("  {}", crate::tui::text::clean(m)));
        format!("{} after {after}{meaning}", crate::tui::format::outcome(outcome))
    }
}
