//! The engine: owns every backend, session and process.
//!
//! Invariant: it knows no protocol and no terminal; a command runs only on the backend that was named, and only once.

use crate::config::Config;
use crate::model::{BackendInfo, Chunk, EndedBy, Event, Exec, ExecResult, LogRead, Overview, ProcessInfo, SessionDetail, SessionInfo, Who};
use crate::paths::Paths;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot};

/// A handle on the engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    _private: (),
}

/// Why the engine did not do what was asked (apart from how commands end).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The name does not exist; the text names the known ones and the nearest.
    #[error("{0}")]
    NotFound(String),
    /// Used wrongly.
    #[error("{0}")]
    Usage(String),
    /// The backend cannot be reached.
    #[error("{message}")]
    Unavailable {
        /// Why.
        message: String,
        /// What to do.
        fix: Option<String>,
    },
    /// Refused in the present state.
    #[error("{0}")]
    Refused(String),
    /// A fault of our own.
    #[error("{0}")]
    Internal(String),
}

/// A command that was accepted.
pub struct Running {
    /// Its row at the start.
    pub process: ProcessInfo,
    /// Its result; the sender never goes without a result.
    pub result: oneshot::Receiver<ExecResult>,
}

impl Engine {
    /// Starts the engine. `client_env` gives the newest operator client's variables.
    pub async fn start(_config: Config, _paths: Paths) -> Result<Self, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Events from now on. A receiver that falls behind gets `Lagged` from the channel.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        broadcast::channel(1).1
    }

    /// Accepts a command and starts it. Whether its backend can be reached shows in the result, not here; here only wrong use
    /// and unknown names fail. The command is ended with [`Engine::end`], also when the caller goes away.
    pub async fn exec(&self, _who: Who, _exec: Exec, _stdin: Option<mpsc::Receiver<Vec<u8>>>) -> Result<Running, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Ends a command on somebody's wish and waits until the ending is done.
    pub async fn end(&self, _process: &str, _by: EndedBy, _grace: Duration) -> Result<ProcessInfo, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Sends a signal to a command's tree.
    pub async fn signal(&self, _process: &str, _signal: i32) -> Result<ProcessInfo, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Everything at this moment.
    pub fn overview(&self) -> Overview {
        Overview::default()
    }

    /// One process's row.
    pub fn process(&self, _process: &str) -> Result<ProcessInfo, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Reads a piece of a log.
    pub async fn read(&self, _read: LogRead) -> Result<Chunk, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Waits until the log is longer than `offset` or its process has ended (and its log is complete).
    pub async fn grown(&self, _process: &str, _offset: u64) -> Result<(), EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Waits for the end of a process.
    pub async fn ended(&self, _process: &str) -> Result<ProcessInfo, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Connects a backend now.
    pub async fn connect(&self, _backend: &str) -> Result<BackendInfo, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Closes a backend's connection.
    pub async fn disconnect(&self, _backend: &str) -> Result<BackendInfo, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// What a session holds.
    pub async fn session_show(&self, _backend: Option<&str>, _session: Option<&str>) -> Result<SessionDetail, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Captures a session anew.
    pub async fn session_reset(&self, _backend: Option<&str>, _session: Option<&str>) -> Result<SessionInfo, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Closes a session.
    pub async fn session_close(&self, _backend: Option<&str>, _session: Option<&str>) -> Result<SessionInfo, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Completes a word on a backend.
    pub async fn complete(&self, _backend: &str, _session: &str, _word: &str, _command: bool) -> Result<Vec<String>, EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// Takes over the variables that an operator's client hands over.
    pub fn set_client_env(&self, _env: Vec<(String, String)>) {}

    /// Tells how many front ends watch (an attached pane raises the pace of health checks and keeps shells warm).
    pub fn set_watchers(&self, _count: usize) {}

    /// Takes up a changed config: backends come and go, running processes stay.
    pub async fn reload(&self, _config: Config) -> Result<(), EngineError> {
        Err(EngineError::Internal("not here yet".into()))
    }

    /// The number of commands that run.
    pub fn running(&self) -> Vec<ProcessInfo> {
        Vec::new()
    }

    /// Ends everything within 2 s: foreground commands are ended and their callers told.
    pub async fn shutdown(&self) {}
}

/// Kept so that the handle's shape is settled: the engine's own state lives behind an `Arc`.
pub type Shared = Arc<()>;
