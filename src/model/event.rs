//! What a watching client is told, and the whole at one moment.

use super::{BackendInfo, Millis, ProcessId, ProcessInfo, Prompt, SessionInfo, Told};
use serde::{Deserialize, Serialize};

/// How loud a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// For the feed only.
    Info,
    /// Shown for a moment.
    Notice,
    /// Stays until seen.
    Alert,
}

/// Something that a person should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// When.
    pub at: Millis,
    /// How loud.
    pub level: Level,
    /// The backend it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// What happened and what to do.
    pub message: String,
}

impl Event {
    /// Tells whether only a person's client may have it.
    pub fn is_for_operators(&self) -> bool {
        matches!(self, Self::Prompt { .. } | Self::PromptClosed { .. })
    }
}

/// A change. A client that fell behind gets `Lagged` and asks for the overview again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A backend's health, shell or number of commands changed.
    Backend {
        /// The row as it is now.
        backend: Box<BackendInfo>,
    },
    /// A process started, or its state changed, or it ended.
    Process {
        /// The row as it is now.
        process: Box<ProcessInfo>,
    },
    /// A process wrote output: its log is this long now. At most one per process every 8 ms.
    Output {
        /// The process.
        process: ProcessId,
        /// Bytes of its log now.
        total: u64,
    },
    /// A session was made or changed.
    Session {
        /// The row as it is now.
        session: SessionInfo,
    },
    /// A session was closed.
    SessionClosed {
        /// The backend.
        backend: String,
        /// The session.
        name: String,
    },
    /// The config was read again: the backends may be others now; ask for the overview.
    Config,
    /// Something that a person should know.
    Notice {
        /// What.
        notice: Notice,
    },
    /// A process told what its `notify` or `watch` was for.
    Told {
        /// What.
        told: Box<Told>,
    },
    /// A login has a question for a person. Operators' clients alone are told.
    Prompt {
        /// Which.
        prompt: Box<Prompt>,
    },
    /// A question was answered, by whichever client, or is not asked any more.
    PromptClosed {
        /// The question's id.
        id: u64,
    },
    /// Events were dropped for this client: ask for the overview.
    Lagged,
    /// The daemon is about to end.
    Stopping,
}

/// Facts about the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonInfo {
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// When it started.
    pub started: Millis,
    /// The config file in force; none when there is none.
    pub config: Option<String>,
    /// The state folder.
    pub state_dir: String,
    /// The host's name.
    pub host: String,
}

/// Everything at one moment: what a TUI starts from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overview {
    /// The daemon.
    pub daemon: DaemonInfo,
    /// The name of the default backend.
    pub default_backend: String,
    /// All backends, by slot.
    pub backends: Vec<BackendInfo>,
    /// All processes kept, oldest first.
    pub processes: Vec<ProcessInfo>,
    /// All sessions.
    pub sessions: Vec<SessionInfo>,
    /// Recent notices, oldest first.
    pub notices: Vec<Notice>,
    /// What processes told lately (`notify`, `watch`), oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<Told>,
    /// Questions of logins that wait for an answer; for operators' clients alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<Prompt>,
}
