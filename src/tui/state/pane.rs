//! The pane of one backend: its commands, its input line, and where a person is in it.
//!
//! Invariant: a pane shows the commands of all sessions of its backend, oldest first; `anchor` names a row that stays where it
//! is while output goes on.

use super::completion::Word;
use super::editor::Editor;
use super::history::Place;
use crate::model::ProcessId;

/// The session of a pane that nobody changed.
pub(in crate::tui) const MAIN: &str = "main";

/// A row of a block, named so that it keeps its name while the block grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tui) enum RowId {
    /// The row with the command, then further rows of the command.
    Head(u16),
    /// The row that says what is folded.
    Fold,
    /// A row of a line of output. What is left out after a line is its last row.
    Line(u64, u16),
    /// Meaning, warnings, hints.
    Foot(u16),
}

/// The bottom row of a pane that is scrolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct Anchor {
    pub(in crate::tui) block: ProcessId,
    pub(in crate::tui) row: RowId,
}

/// A search in a pane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) struct Find {
    pub(in crate::tui) text: String,
    /// Whether it is being typed.
    pub(in crate::tui) typing: bool,
}

/// A search in the history, as it is typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) struct HistorySearch {
    pub(in crate::tui) text: String,
    /// How many hits to pass over.
    pub(in crate::tui) nth: usize,
    /// The line before the search.
    pub(in crate::tui) before: String,
    pub(in crate::tui) entries: Vec<String>,
}

impl HistorySearch {
    /// Gives the hit; an empty text hits nothing.
    pub(in crate::tui) fn hit(&self) -> Option<&str> {
        if self.text.is_empty() {
            return None;
        }
        self.entries.iter().filter(|e| e.contains(&self.text)).nth(self.nth).map(String::as_str)
    }
}

/// A completion that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct Asked {
    pub(in crate::tui) ticket: u64,
    pub(in crate::tui) word: Word,
    /// The line when it was asked: another line drops the answer.
    pub(in crate::tui) line: String,
}

/// A pane.
#[derive(Clone, Debug)]
pub(in crate::tui) struct Pane {
    pub(in crate::tui) backend: String,
    /// The session of the input line.
    pub(in crate::tui) session: String,
    pub(in crate::tui) editor: Editor,
    /// Its commands, oldest first.
    pub(in crate::tui) blocks: Vec<ProcessId>,
    /// The command that NAV acts on.
    pub(in crate::tui) cursor: Option<ProcessId>,
    /// None follows the present.
    pub(in crate::tui) anchor: Option<Anchor>,
    /// Lines that arrived while it was scrolled back.
    pub(in crate::tui) arrived: u64,
    pub(in crate::tui) history: Option<Place>,
    pub(in crate::tui) history_search: Option<HistorySearch>,
    pub(in crate::tui) find: Find,
    pub(in crate::tui) asked: Option<Asked>,
    /// Candidates of the last completion.
    pub(in crate::tui) choices: Vec<String>,
    /// Why the last key did nothing, until the next key.
    pub(in crate::tui) note: Option<String>,
    /// The command whose stdin the line goes to.
    pub(in crate::tui) stdin: Option<ProcessId>,
    /// Lines that came by pasting and have not been looked at.
    pub(in crate::tui) pasted: usize,
}

impl Pane {
    /// Makes the pane of a backend.
    pub(in crate::tui) fn new(backend: &str) -> Self {
        Self {
            backend: backend.to_owned(),
            session: MAIN.to_owned(),
            editor: Editor::default(),
            blocks: Vec::new(),
            cursor: None,
            anchor: None,
            arrived: 0,
            history: None,
            history_search: None,
            find: Find::default(),
            asked: None,
            choices: Vec::new(),
            note: None,
            stdin: None,
            pasted: 0,
        }
    }

    /// Follows the present again.
    pub(in crate::tui) fn follow(&mut self) {
        self.anchor = None;
        self.arrived = 0;
    }

    /// Forgets what belongs to the last key only.
    pub(in crate::tui) fn fresh_key(&mut self) {
        self.note = None;
        self.choices.clear();
    }
}
