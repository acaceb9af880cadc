//! The config file: its shape after validation, with every default filled in.
//!
//! Invariant: a `Config` that exists is whole: names are unique and legal, `local` is always there, the default backend
//! exists. Everything below this layer trusts it.

mod backend;
mod check;
mod command;
mod defaults;
mod error;
mod fields;
mod legacy;
mod nearest;
mod read;
mod render;
mod show;
mod sources;
mod ssh;
mod value;
mod watch;
mod yaml;

pub use check::{Migrated, WhichFile, check, migrate, migrate_text, which_file};
pub(crate) use defaults::CONNECT_TIMEOUT;
pub use error::{ConfigError, Problem};
pub use nearest::nearest;
pub use show::show;
pub use sources::{Chosen, Sources, load};
pub(crate) use ssh::{HostParts, split_host};
pub use value::{parse_duration, parse_size, show_duration};
pub use watch::{ConfigWatch, WatchError, watch};

use crate::backend::ShellChoice;
use crate::model::BackendKind;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A validated config.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The file it was read from; none when there is no file.
    pub source: Option<PathBuf>,
    /// Things to tell the person once: an old form that was read.
    pub notices: Vec<String>,
    /// The backend of commands that name none.
    pub default_backend: String,
    /// Deadline of agents' commands without one of their own (`timeout`, 180 s).
    pub timeout: Duration,
    /// Longest deadline of an agent's foreground command (`max_foreground`, 600 s).
    pub max_foreground: Duration,
    /// Idle time after which a backend's connection is closed (`lifetime_seconds`, 300 s).
    pub lifetime: Duration,
    /// All backends: `local` first (slot 0), then the others in the order of the file or by their `slot`.
    pub backends: Vec<BackendSettings>,
    /// How the TUI looks.
    pub ui: UiSettings,
    /// The TUI's keys: action name to keys, as written; validated by the TUI's keymap.
    pub keys: BTreeMap<String, Vec<String>>,
    /// What is kept from agents and out of logs.
    pub redact: RedactSettings,
    /// Bounds on what is kept.
    pub limits: Limits,
    /// Variables that an operator's client hands over; `*` at the end matches any rest.
    pub client_env: Vec<String>,
    /// Time without client and process after which the daemon ends (`idle_exit`, 30 min); none: never.
    pub idle_exit: Option<Duration>,
    /// Level of the log file when `QD_LOG` is not set.
    pub log_level: String,
}

/// The settings of one backend. Its `Debug` shows no value of `env`.
#[derive(Clone, PartialEq)]
pub struct BackendSettings {
    /// Its name.
    pub name: String,
    /// Its number in the TUI; 0 is local.
    pub slot: u32,
    /// Its kind with the keys of the kind.
    pub kind: KindSettings,
    /// First directory of a new session: `~` and `~/x` mean the home directory there; `.` on local the client's.
    pub cwd: String,
    /// Deadline of agents' commands there.
    pub timeout: Duration,
    /// Whether sessions keep a snapshot; false gives each command the bare login environment.
    pub snapshot: bool,
    /// Which shell.
    pub shell: ShellChoice,
    /// Time between checks of an idle link (30 s).
    pub health_interval: Duration,
    /// Longest wait for one connection attempt (10 s).
    pub connect_timeout: Duration,
    /// What becomes of foreground commands whose link is lost.
    pub on_lost: OnLost,
    /// Variables set in every session.
    pub env: BTreeMap<String, String>,
    /// Variables of the daemon's side given to commands there, by name, agents' commands too.
    pub forward_env: Vec<String>,
    /// Labels.
    pub tags: Vec<String>,
}

/// What becomes of a foreground command whose link is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLost {
    /// Ended on the far side after 30 s.
    #[default]
    End,
    /// Left running.
    Keep,
}

/// The keys of a kind.
#[derive(Clone, Debug, PartialEq)]
pub enum KindSettings {
    /// This machine.
    Local,
    /// A machine reached over ssh.
    Ssh(SshSettings),
    /// A place that a command leads to.
    Command(CommandSettings),
    /// A kind that this version knows by name but cannot run yet: the backend is listed as down and says so.
    Later(BackendKind),
}

impl KindSettings {
    /// Gives the kind.
    pub fn kind(&self) -> BackendKind {
        match self {
            Self::Local => BackendKind::Local,
            Self::Ssh(_) => BackendKind::Ssh,
            Self::Command(_) => BackendKind::Command,
            Self::Later(kind) => *kind,
        }
    }

    /// Gives the kind's word.
    pub fn word(&self) -> &'static str {
        self.kind().as_str()
    }
}

/// The keys of a backend that a command leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandSettings {
    /// The program and its arguments, to which `sh` is added.
    pub words: Vec<String>,
    /// Whether it sees the files that this machine sees, at the same paths.
    pub same_files: bool,
}

/// The keys of an ssh backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SshSettings {
    /// Host name or address.
    pub host: String,
    /// Port; none means the ssh_config's, else 22.
    pub port: Option<u16>,
    /// Account; none means the ssh_config's, else the local account's name.
    pub user: Option<String>,
    /// Key files to offer, in order (`key`/`identity_file`, one or a list); when given they are offered alone.
    pub keys: Vec<PathBuf>,
    /// Whether the agent is asked (`agent`); none means yes, unless `keys` are given.
    pub agent: Option<bool>,
    /// known_hosts files (`known_hosts`); none means the ssh_config's, else `~/.ssh/known_hosts`.
    pub known_hosts: Vec<PathBuf>,
    /// What to do with a host that is in none of them; none means what the ssh_config's `StrictHostKeyChecking` comes to.
    pub host_key: Option<HostKeyPolicy>,
    /// Where what is not given here is looked up.
    pub ssh_config: SshConfig,
}

/// The ssh_config file of an ssh backend (`ssh_config`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SshConfig {
    /// `~/.ssh/config`, then `/etc/ssh/ssh_config`, as OpenSSH does (`usual`).
    #[default]
    Usual,
    /// None (`none`).
    Nothing,
    /// This one alone.
    File(PathBuf),
}

impl SshSettings {
    /// Gives where it leads, for a person: `ada@gpu.lab:22`, without the account and the port when they are not set.
    pub fn address(&self) -> String {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{user}{host}{port}")
    }
}

/// What to do with an unknown host key. A changed or revoked key is always refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostKeyPolicy {
    /// Accept it and write it down (`accept-new`).
    #[default]
    AcceptNew,
    /// Refuse (`strict`).
    Strict,
}

/// How the TUI looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UiSettings {
    /// Only ASCII glyphs.
    pub ascii: bool,
    /// The name shown in the top bar (`fleet`).
    pub fleet: Option<String>,
    /// Mouse capture.
    pub mouse: bool,
    /// The leader key, as `ctrl-]`; none means Ctrl-].
    pub leader: Option<String>,
    /// Whether an alert rings the terminal's bell.
    pub bell: bool,
    /// How an alert is shown by the terminal itself.
    pub osc: Osc,
    /// What is run for an alert: a program and its arguments; empty: nothing.
    pub on_alert: Vec<String>,
}

/// The escape sequence of a notification that terminals know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Osc {
    /// None.
    #[default]
    Off,
    /// OSC 9 (iTerm2, WezTerm, Ghostty, Windows Terminal, kitty).
    Nine,
    /// OSC 777 (urxvt, foot, VTE, Ghostty).
    SevenSevenSeven,
}

/// What is kept from agents and out of logs. Its `Debug` shows no value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RedactSettings {
    /// Variables kept out of snapshots and from agents' commands; `*` at the end matches any rest.
    pub names: Vec<String>,
    /// Values that the config refers to as secrets (`${NAME}`, `file:PATH`): never written to a log.
    pub values: Vec<String>,
}

/// Bounds on what is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one log kept whole (1 GB).
    pub log_bytes: u64,
    /// Most bytes of text in a result (50,000).
    pub max_output_bytes: u64,
    /// Days that logs stay on disk (7).
    pub log_days: u32,
    /// Bytes of all logs together (5 GB).
    pub logs_bytes: u64,
    /// Ended processes kept in the table (2,000).
    pub ended_kept: usize,
    /// How long one is kept there after its end (30 min).
    pub ended_for: Duration,
    /// Background processes that may run on one backend (64).
    pub background: usize,
}

#[cfg(test)]
mod files_tests;
#[cfg(test)]
mod tests;
