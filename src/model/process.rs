//! One command that was started, as the process table shows it.

use super::{Hint, Millis, Outcome, Warning};
use serde::{Deserialize, Serialize};

/// The short id of a process; never reused. Any unique prefix of four characters names it.
pub type ProcessId = String;

/// What kind of caller started something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhoKind {
    /// A person: the TUI, or a command line with a controlling terminal.
    Operator,
    /// An MCP client, or a command line that names itself or has no terminal.
    Agent,
    /// Quarterdeck itself.
    System,
}

/// Who started something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// The kind.
    pub kind: WhoKind,
    /// The declared name: `you` for an operator, else the client's.
    pub name: String,
    /// The process id of the peer on the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_pid: Option<u32>,
}

/// The state of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ProcessState {
    /// Accepted: waiting for its backend or its shell.
    Starting,
    /// Runs.
    Running,
    /// Being ended: asked politely, grace running.
    Stopping,
    /// Runs in the background of a backend that cannot be asked now: never shown as ended.
    Unknown,
    /// Left running by a command that has ended: [`ProcessInfo::stray`] says by which.
    Stray,
    /// Ended.
    Ended(
        /// How.
        Outcome,
    ),
}

impl ProcessState {
    /// Tells whether the process has ended.
    pub fn is_ended(&self) -> bool {
        matches!(self, Self::Ended(_))
    }
}

/// What a command left running, as a row of its own. The row's command is what its processes' own command lines say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    /// The command that left it; its row may be gone.
    pub of: ProcessId,
    /// Its processes on the backend, as they were when they were looked at last.
    pub pids: Vec<u32>,
    /// Who made a background process of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted_by: Option<Who>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

/// One row of the process table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Its id.
    pub id: ProcessId,
    /// The backend it belongs to.
    pub backend: String,
    /// The session it runs in.
    pub session: String,
    /// The command's text (decoded for show; at most 4,000 characters).
    pub command: String,
    /// Who started it.
    pub who: Who,
    /// How it is.
    #[serde(flatten)]
    pub state: ProcessState,
    /// When it was started.
    pub started: Millis,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Millis>,
    /// Process id of its shell on the backend, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// What it is of, when no one started it as a command: it was left by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stray: Option<Box<Stray>>,
    /// Bytes of output so far.
    #[serde(default)]
    pub output_bytes: u64,
    /// Whether it reads stdin from its caller.
    #[serde(default)]
    pub reads_stdin: bool,
    /// Whether nobody waits for it.
    #[serde(default)]
    pub background: bool,
    /// Whether it goes on when the daemon ends.
    #[serde(default)]
    pub detached: bool,
    /// Whether its end is to be told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify: bool,
    /// The patterns that its output is looked through for; none any more once that was turned off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
    /// The directory it started in.
    #[serde(default)]
    pub cwd: String,
    /// Its deadline, when it was given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The names of the variables that were set for it alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// How often its command was run again before.
    #[serde(default, skip_serializing_if = "is_none")]
    pub restarts: u32,
    /// What an expected non-zero code means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code_meaning: Option<String>,
    /// What the caller must know about the state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Advice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<Hint>,
}
