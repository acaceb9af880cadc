//! The daemon: owns the engine, and serves clients over one socket.
//!
//! Invariant: it is the only place where engine and protocol meet; there is one per user, state folder and host; it prints
//! nothing; when it ends, every caller has been told, and the socket is gone before the lock is.
//!
//! `main` calls [`detach()`] first when a client started this process (`qd serve --detached`), then [`run()`] in a runtime, and
//! ends that runtime without waiting for blocking threads.

mod call;
mod connection;
mod detach;
mod dispatch;
mod door;
#[cfg(test)]
mod double;
mod errors;
mod hello;
mod hub;
mod idle;
mod lock;
mod reload;
mod run;
mod service;
mod signals;
mod socket;
mod stream;
#[cfg(test)]
mod tests;

use crate::config::ConfigError;
use crate::engine::EngineError;
use crate::paths::PathError;
use crate::protocol::lock::LockError;
use std::io;
use std::path::PathBuf;
use tokio::sync::oneshot;

pub use connection::serve;
pub use detach::detach;
pub use hello::Peer;
pub use hub::Hub;
pub use run::run;
pub use service::Service;

/// How to run the daemon.
#[derive(Debug, Default)]
pub struct Options {
    /// The config file that was named (`--config`), if any.
    pub config: Option<PathBuf>,
    /// Whether a client started this process and waits for its first words on stdout. [`detach()`] was called then.
    pub detached: bool,
    /// Told once the daemon listens.
    pub ready: Option<oneshot::Sender<Listening>>,
}

/// Where a daemon listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The socket.
    pub socket: PathBuf,
    /// The config file in force.
    pub config: Option<PathBuf>,
}

/// Why the daemon could not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The config cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A folder cannot be used.
    #[error(transparent)]
    Paths(#[from] PathError),
    /// There is one already.
    #[error("a daemon already runs here (process id {pid}): `qd` uses it, `qd stop` ends it")]
    AlreadyRuns {
        /// Its process id.
        pid: u32,
    },
    /// There is one that does not listen and does not end.
    #[error("a daemon that no longer listens holds the lock (process id {pid}): end it with `qd stop --force` and try again")]
    Deaf {
        /// Its process id.
        pid: u32,
    },
    /// The lock cannot be taken.
    #[error(transparent)]
    Lock(LockError),
    /// The lock file cannot be written.
    #[error("failed to write the lock file")]
    LockWrite {
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("failed to listen on {path}")]
    Socket {
        /// Its path.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The engine cannot start.
    #[error("failed to start the engine: {0}")]
    Engine(EngineError),
    /// The system refused.
    #[error("failed to {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
}
