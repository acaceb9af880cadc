//! What the state wants done outside: the loop does it and answers with a message.
//!
//! Invariant: an effect names its backend and process as they were when the key was pressed.

use super::input::key::Key;
use crate::model::{Answer, Exec, LogStart, ProcessId};

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    /// Run a command; `line` goes back into the input line when it is refused before it began.
    Exec { ticket: u64, exec: Exec },
    /// End a command: ask politely, then kill after the grace (none: the usual one).
    End { process: ProcessId, backend: String, grace_ms: Option<u64> },
    /// Connect a backend now.
    Connect { backend: String },
    /// Answer a question of a login.
    Answer { id: u64, answer: Answer },
    /// Ask for completions.
    Complete { ticket: u64, backend: String, session: String, word: String, command: bool },
    /// Write to the stdin of a command started here.
    Stdin { process: ProcessId, bytes: Vec<u8> },
    /// End the stdin of a command started here.
    EndStdin { process: ProcessId },
    /// Read a piece of a log.
    Read { process: ProcessId, start: LogStart, max: u64 },
    /// Read a piece of a log for the log pane.
    ReadLog { turn: u64, process: ProcessId, start: LogStart, max: u64 },
    /// Write to the stdin of any command that was started with one.
    Send { process: ProcessId, backend: String, text: String, eof: bool },
    /// Have a process looked for on its machine.
    Recheck { process: ProcessId, backend: String },
    /// Make a background process of a stray.
    Adopt { process: ProcessId, backend: String },
    /// Look for strays on a backend.
    Find { backend: String },
    /// End a process if it runs (`end`), and only when that is done run the command.
    Restart { process: ProcessId, backend: String, end: bool, exec: Exec },
    /// Put text on the clipboard of the terminal.
    Copy { text: String },
    /// Try to reach the daemon now; start it if there is none.
    Redial,
    /// Keep the leader that the person chose.
    SaveLeader { leader: Key },
    /// Stop this program until it is continued.
    Suspend,
    /// Leave.
    Leave,
}
