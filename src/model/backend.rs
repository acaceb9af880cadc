//! What is known of a backend: its description, its capabilities and its health.

use super::Millis;
use serde::{Deserialize, Serialize};

/// The kinds of backend that the config knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// This machine.
    Local,
    /// A machine reached over ssh.
    Ssh,
    /// A container of a Docker engine.
    Docker,
    /// An Apptainer or Singularity instance.
    Apptainer,
    /// Any argument list that can start a shell.
    Command,
    /// A Slurm allocation.
    Slurm,
    /// A Modal sandbox.
    Modal,
    /// Managed Modal behind the HTTP tool gateway.
    Gateway,
    /// A Daytona sandbox.
    Daytona,
}

impl BackendKind {
    /// Gives the word used in the config and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Ssh => "ssh",
            Self::Docker => "docker",
            Self::Apptainer => "apptainer",
            Self::Command => "command",
            Self::Slurm => "slurm",
            Self::Modal => "modal",
            Self::Gateway => "gateway",
            Self::Daytona => "daytona",
        }
    }
}

/// What a backend can do; asked before calling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Processes on a PTY can be started.
    pub pty: bool,
    /// stdout and stderr arrive apart.
    pub separate_streams: bool,
    /// Ending a command can be verified.
    pub verified_kill: bool,
    /// The backend's files are the daemon's own files.
    pub same_files: bool,
}

/// The state of a backend's link (backends.md "Health and reconnect").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthState {
    /// Not connected; connects on first use.
    #[default]
    Idle,
    /// The first connection is being made.
    Connecting,
    /// Answers.
    Up,
    /// Slow, or missed one check.
    Degraded,
    /// Lost; the next attempt is scheduled or under way.
    Reconnecting,
    /// Needs a person: authentication, host key or config.
    Down,
}

impl HealthState {
    /// Gives the word shown beside the glyph.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Connecting => "connecting",
            Self::Up => "up",
            Self::Degraded => "degraded",
            Self::Reconnecting => "reconnecting",
            Self::Down => "down",
        }
    }
}

/// The health of a backend at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The state.
    pub state: HealthState,
    /// When the state began.
    pub since: Millis,
    /// Number of the present or last attempt since the link was whole; 0 when up.
    pub attempt: u32,
    /// When the next attempt starts, while one is scheduled.
    pub next_try: Option<Millis>,
    /// The last measured round trip in microseconds.
    pub round_trip_us: Option<u64>,
    /// When bytes last arrived from the backend.
    pub last_heard: Option<Millis>,
    /// Why the state is not `up`, in plain words.
    pub reason: Option<String>,
    /// What the person can do about it.
    pub fix: Option<String>,
}

/// One row of `qd backends`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendInfo {
    /// The name in the config; `local` for this machine.
    pub name: String,
    /// The stable number of the backend: 0 is local.
    pub slot: u32,
    /// The kind.
    pub kind: BackendKind,
    /// Where it is, for a person: `ada@gpu.lab:22`; empty for local.
    #[serde(default)]
    pub address: String,
    /// Labels from the config, for `@tag`.
    #[serde(default)]
    pub tags: Vec<String>,
    /// What it can do.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// How it is.
    #[serde(default)]
    pub health: Health,
    /// The shell found there, as `bash 5.2.15(1)-release`, once known.
    #[serde(default)]
    pub shell: Option<String>,
    /// Commands that run there now.
    #[serde(default)]
    pub running: u32,
}
