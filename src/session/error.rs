//! Why a session could not do what was asked, apart from how commands end.
//!
//! Invariant: the text says what happened and on which backend; a backend's own error keeps its advice.

use crate::backend::BackendError;
use std::io;
use std::path::PathBuf;

/// A failure of a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The backend could not be reached, or no shell could be started there.
    #[error("{0}")]
    Backend(#[from] BackendError),
    /// The session's own file on the daemon's side cannot be read or written.
    #[error("failed to use the session's file {path}")]
    Own {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A script of ours failed on the backend.
    #[error("failed to {what} on {backend}: {why}")]
    Errand {
        /// What it was to do.
        what: &'static str,
        /// The backend.
        backend: String,
        /// Why.
        why: String,
    },
    /// What was sent to a backend may have been done: no answer came.
    #[error("{backend} did not tell what became of it: {why}")]
    Silent {
        /// The backend.
        backend: String,
        /// Why.
        why: String,
    },
    /// Refused while a command runs in the session.
    #[error("session {0} has running commands: end them first (`qd ps` lists them)")]
    Busy(String),
}
