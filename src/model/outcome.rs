//! How a command ended, and the result that an agent or script reads.

use serde::{Deserialize, Serialize};

/// Who ended a command that did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// A person, from the TUI or with `qd kill`.
    Operator,
    /// An agent or a script, with a kill of its own.
    Agent,
    /// The caller itself (Ctrl-C, a cancelled call).
    Client,
    /// The caller's connection closed while the command ran.
    ClientGone,
    /// The daemon was stopping.
    Daemon,
}

/// How a command ended. A non-zero exit is an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// Ended by itself, with its own code (126 with nothing run when the directory was not reachable).
    Exited {
        /// The command's exit code.
        exit_code: i32,
    },
    /// Ended by a signal.
    Signaled {
        /// The signal's name, as `SIGKILL`.
        signal: String,
    },
    /// Ended by us at its deadline.
    TimedOut,
    /// Ended by us on somebody's wish.
    Cancelled {
        /// Whose wish.
        ended_by: EndedBy,
    },
    /// The link broke: unknown whether it finished. Never retried.
    TransportLost {
        /// What happened, in plain words.
        reason: String,
    },
    /// The backend answered but no shell could be started.
    SpawnFailed {
        /// Why, and what to do.
        reason: String,
    },
    /// The backend could not be reached; nothing ran.
    BackendUnavailable {
        /// Why, and what to do.
        reason: String,
    },
    /// It has not ended: it runs in the background, under the same id.
    Running,
    /// Its backend is there and the process is not: its exit code is not known.
    Lost {
        /// What is known of it.
        reason: String,
    },
    /// A stray that has ended by itself: nobody of ours waited for it, so nobody was told its exit code.
    CodeUnknown,
}

impl Outcome {
    /// Gives the stable word of the result's `outcome` field.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Exited { .. } => "exited",
            Self::Signaled { .. } => "signaled",
            Self::TimedOut => "timed_out",
            Self::Cancelled { .. } => "cancelled",
            Self::TransportLost { .. } => "transport_lost",
            Self::SpawnFailed { .. } => "spawn_failed",
            Self::BackendUnavailable { .. } => "backend_unavailable",
            Self::Running => "running",
            Self::Lost { .. } => "lost",
            Self::CodeUnknown => "code_unknown",
        }
    }

    /// Gives what `qd exec` exits with (the table in execution.md "Ending").
    pub fn process_exit_code(&self) -> i32 {
        match self {
            Self::Exited { exit_code } => *exit_code,
            Self::Signaled { signal } => 128 + signal_number(signal),
            Self::TimedOut => 124,
            Self::Cancelled { .. } => 130,
            Self::TransportLost { .. } | Self::Lost { .. } | Self::CodeUnknown => 255,
            Self::Running => 0,
            Self::SpawnFailed { .. } => 125,
            Self::BackendUnavailable { .. } => 69,
        }
    }
}

/// Gives the Linux number of a signal's name, with or without `SIG`; 0 when unknown.
pub fn signal_number(name: &str) -> i32 {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "STKFLT",
        "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let short = name.strip_prefix("SIG").unwrap_or(name);
    NAMES.iter().position(|n| *n == short).map_or(0, |i| i as i32 + 1)
}

/// The stable codes of warnings: something about the state that the caller must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningCode {
    /// The session's state was lost and captured anew.
    StateLost,
    /// A parallel command changed the same name; the newest won.
    StateConflict,
    /// This command's changes to the session were not kept.
    StateNotSaved,
    /// The login environment could not be captured; a login shell runs per command.
    SnapshotFailed,
    /// The session's directory is gone; its nearest existing ancestor was used.
    CwdFallback,
    /// Processes of the command are still running.
    OrphansLeft,
    /// It could not be verified that every process ended.
    KillUnverified,
    /// The output holds NUL or other binary bytes.
    BinaryOutput,
    /// Invalid bytes were shown as U+FFFD.
    EncodingReplaced,
    /// Secrets were taken out of the output.
    Redacted,
    /// The backend is slow or missed a check.
    DegradedBackend,
    /// Part of the output is not in the log.
    OutputLost,
    /// The backend's environment was made anew (a container was recreated, a machine rebooted).
    EnvironmentRecreated,
    /// It is not known whether what was sent to its stdin arrived.
    InputInDoubt,
}

/// Something about the state that the caller must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The stable code.
    pub code: WarningCode,
    /// What happened, for a person.
    pub message: String,
    /// The processes meant, with `orphans_left` and `kill_unverified`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// The names meant, with `state_conflict`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The row that these processes have, with `orphans_left` and `kill_unverified`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stray: Option<super::ProcessId>,
}

impl Warning {
    /// Makes a warning that names nothing.
    pub fn new(code: WarningCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), pids: Vec::new(), names: Vec::new(), stray: None }
    }
}

/// Advice; never changes the exit code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hint {
    /// The stable code.
    pub code: String,
    /// The advice.
    pub message: String,
}

/// The result of one command: what `qd exec --json` prints (agents.md "The result").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecResult {
    /// The process's id.
    pub process_id: String,
    /// The backend it ran on.
    pub backend: String,
    /// The session it ran in.
    pub session: String,
    /// How it ended; gives `outcome` and, where they hold, `exit_code`, `signal`, `ended_by`, `reason`.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What an expected non-zero code means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code_meaning: Option<String>,
    /// The output as text, cut at both ends of what is too long.
    pub output: String,
    /// Whether `output` was cut.
    pub truncated: bool,
    /// Bytes of the whole output.
    pub total_bytes: u64,
    /// Offset after the last byte of the output.
    pub next_offset: u64,
    /// The log with the whole output, on the daemon's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_path: Option<String>,
    /// The session's directory after the command.
    pub cwd: String,
    /// The session's generation after the command.
    pub generation: u64,
    /// How long it ran.
    pub duration_ms: u64,
    /// Its deadline; absent when it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What the caller must know about the state.
    pub warnings: Vec<Warning>,
    /// Advice.
    pub hints: Vec<Hint>,
}
