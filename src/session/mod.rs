//! Snapshot sessions: how one command runs on a backend, what it keeps, how it ends.
//!
//! Invariant: a session never names a concrete kind of backend; the state of a session changes only by adopting the files of
//! a command whose record says that they are whole.

mod adopt;
mod background;
pub mod collect;
mod completions;
mod drive;
mod errand;
mod error;
pub mod examine;
mod feed;
mod files;
mod follow;
mod handle;
mod input;
mod intent;
mod keep;
pub mod log;
mod look;
mod open;
mod own;
mod place;
mod prepare;
mod run;
mod settle;
mod state;
mod streams;
#[cfg(test)]
mod tests;
mod until;

pub use crate::shell::background::{Cap, Stdin};
pub use crate::shell::explain::explain as exit_code_meaning;
pub use background::{Begin, Begun, Intend, Spot, write_input};
pub use error::SessionError;
pub use follow::{FollowSettings, Followed, Follower, Heard};
pub use handle::Session;
pub use input::{Batches, Input, Typing, Untaken};
pub use intent::{Became, became};
pub use look::{Look, Seen, look};
pub use run::not_started;
pub use settle::orphans;

use crate::backend::{BackendError, Family, ShellChoice};
use crate::model::{EndedBy, Outcome, ProcessId, Warning};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::oneshot;

/// What a session needs to know of its backend's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// First directory of a new session, as in the config (`~`, `~/x`, an absolute path, or `.`: then `client_cwd`).
    pub cwd: String,
    /// The client's directory, for `.`.
    pub client_cwd: Option<String>,
    /// Whether snapshots are kept at all.
    pub snapshot: bool,
    /// Which shell.
    pub shell: ShellChoice,
    /// Limit of one start of a shell.
    pub start_timeout: Duration,
    /// Limit of the login capture (30 s).
    pub capture_timeout: Duration,
    /// Variables set in every session of the backend.
    pub env: BTreeMap<String, String>,
    /// Variables of the daemon's side, given by name, resolved by the engine; in no snapshot.
    pub forwarded: BTreeMap<String, String>,
    /// Names (`*` at the end matches any rest) that are kept out of snapshots and given per command from the login capture,
    /// to operators' commands only.
    pub secret_names: Vec<String>,
    /// The daemon's id: the first part of the session's folder on the backend.
    pub daemon_id: String,
    /// Folder of the daemon where this session's own file and its copy of the snapshot live (0700).
    pub state_dir: PathBuf,
}

/// One command to run.
pub struct Command {
    /// Its id, also the text of its cookie (`QD_PROCESS=<id>`).
    pub id: ProcessId,
    /// Its text.
    pub text: String,
    /// Directory for this command alone.
    pub workdir: Option<String>,
    /// Variables for this command alone.
    pub env: Vec<(String, String)>,
    /// stdout and stderr apart.
    pub split: bool,
    /// Deadline, counted from the start of the command itself.
    pub timeout: Option<Duration>,
    /// Its stdin. None: an empty one.
    pub stdin: Option<Input>,
    /// Whether an agent asked: secrets are left out and AI_AGENT is set.
    pub agent: Option<String>,
}

/// A wish about a command that runs.
#[derive(Debug)]
pub enum Stop {
    /// End it and its whole tree.
    End {
        /// Whose wish.
        by: EndedBy,
        /// Between TERM and KILL.
        grace: Duration,
    },
    /// Send one signal to its tree; the command then ends as it likes.
    Signal {
        /// The signal.
        number: i32,
        /// Is told which processes got it; goes without a word when nothing runs that could get it.
        tell: oneshot::Sender<Result<Vec<u32>, BackendError>>,
    },
}

/// How a command ended, and the state of its session after it.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// The session's directory now.
    pub cwd: String,
    /// The session's generation now.
    pub generation: u64,
    /// Whether nothing ran, because the command's own directory could not be entered.
    pub no_directory: bool,
    /// From the start of the command to its end.
    pub duration: Duration,
    /// What the caller must know.
    pub warnings: Vec<Warning>,
    /// Whether a shell read it.
    pub ran: bool,
    /// What is still alive of it, with what names it: the processes of the warnings `orphans_left` and `kill_unverified`.
    pub left: Option<(Family, Vec<u32>)>,
}

impl Ended {
    /// What [`Session::after`] is to be given.
    pub fn after(&self) -> After {
        After { ran: self.ran, lost: matches!(self.outcome, Outcome::TransportLost { .. }) }
    }
}

/// What is remembered of a command for what follows its result.
#[derive(Clone, Copy, Debug)]
pub struct After {
    ran: bool,
    lost: bool,
}

/// Gives `bytes` random bytes as hex digits.
fn random_hex(bytes: usize) -> String {
    let random = uuid::Uuid::new_v4();
    // The fixed bits of a UUID stand in bytes 6 and 8.
    let free = random.as_bytes().iter().enumerate().filter(|(i, _)| *i != 6 && *i != 8).map(|(_, b)| b);
    free.take(bytes).map(|b| format!("{b:02x}")).collect()
}

/// Waits for a task of ours; a task that panicked is a fault of our own.
async fn joined<T>(task: tokio::task::JoinHandle<Result<T, SessionError>>) -> Result<T, SessionError> {
    task.await.unwrap_or_else(|error| {
        let text = format!("a task of the session failed: {error}");
        Err(SessionError::Backend(crate::backend::BackendError::new(crate::backend::ErrorKind::Internal, text)))
    })
}
