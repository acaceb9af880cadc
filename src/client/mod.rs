//! The client: every front end's way to the daemon.
//!
//! Invariant: a client finds the one daemon of its user and state folder, whatever its environment, and starts it when
//! there is none.

use crate::model::{ExecResult, ProcessInfo, Stream};
use crate::protocol::calls::{Call, CallError, ExecCall, Follow};
use std::path::PathBuf;

/// How to find or start the daemon, and who is calling.
#[derive(Clone, Debug, Default)]
pub struct Connect {
    /// The config file that the person named (`--config`), if any.
    pub config: Option<PathBuf>,
    /// What kind of front end: `tui`, `cli`.
    pub kind: String,
    /// The declared name of an agent (`--client`, `QD_CLIENT`, AI_AGENT).
    pub agent: Option<String>,
    /// Whether to start a daemon when there is none.
    pub start: bool,
}

/// A failure of the connection or of a call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon runs, and none was to be started.
    #[error("no daemon is running")]
    NoDaemon,
    /// The daemon could not be started or reached.
    #[error("failed to reach the daemon: {0}")]
    Unreachable(String),
    /// The daemon speaks another protocol; the text names the command that repairs it.
    #[error("{0}")]
    Mismatch(String),
    /// The daemon runs with another config than the one named.
    #[error("{0}")]
    OtherConfig(String),
    /// The config cannot be used (the whole message with file and line).
    #[error("{0}")]
    BadConfig(String),
    /// The connection ended: the daemon is gone.
    #[error("the daemon is gone: {0}")]
    Gone(String),
    /// The daemon refused or failed.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A connection to the daemon. Cheap to clone; the connection closes with the last clone.
#[derive(Clone)]
pub struct Client {
    _private: (),
}

/// What a running command or a followed log says, in order.
#[derive(Debug)]
pub enum Item {
    /// The command has started.
    Started(Box<ProcessInfo>),
    /// Output arrived.
    Data {
        /// Absolute offset of the first byte.
        offset: u64,
        /// Which stream.
        stream: Stream,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The end of an exec.
    Result(Box<ExecResult>),
    /// The end of a followed log.
    Followed(Box<ProcessInfo>),
}

/// A running streaming call. Dropping it cancels the call.
pub struct Items {
    _private: (),
}

/// The way to a running command's stdin, apart from its items: a command that writes before it reads blocks only this.
pub struct Stdin {
    _private: (),
}

impl Stdin {
    /// Sends bytes to the command's stdin; waits while the command does not read. An error means that it no longer can.
    pub async fn send(&mut self, _bytes: Vec<u8>) -> Result<(), ClientError> {
        Err(ClientError::NoDaemon)
    }

    /// Ends the command's stdin.
    pub fn end(&mut self) {}
}

impl Client {
    /// Finds or starts the daemon and says hello.
    pub async fn connect(_how: &Connect) -> Result<Self, ClientError> {
        Err(ClientError::NoDaemon)
    }

    /// Ends the daemon of this user and state folder and waits until it is gone. With commands running and without `force` it
    /// stays, and the reply says so.
    pub async fn stop(_how: &Connect, _force: bool) -> Result<crate::protocol::calls::ShutdownReply, ClientError> {
        Err(ClientError::NoDaemon)
    }

    /// Makes one call and waits for its reply. Dropping the future cancels the call.
    pub async fn call<C: Call>(&self, _call: C) -> Result<C::Reply, ClientError> {
        Err(ClientError::NoDaemon)
    }

    /// Reads a piece of a log.
    pub async fn read(&self, _read: crate::model::LogRead) -> Result<crate::model::Chunk, ClientError> {
        Err(ClientError::NoDaemon)
    }

    /// Runs a command; the items tell how it goes.
    pub async fn exec(&self, _call: ExecCall) -> Result<Items, ClientError> {
        Err(ClientError::NoDaemon)
    }

    /// Follows a log.
    pub async fn follow(&self, _call: Follow) -> Result<Items, ClientError> {
        Err(ClientError::NoDaemon)
    }

    /// Watches everything: events arrive in the channel (bounded; the daemon says `Lagged` when some were dropped). The
    /// channel ends when the connection does.
    pub async fn watch(&self) -> Result<tokio::sync::mpsc::Receiver<crate::model::Event>, ClientError> {
        Err(ClientError::NoDaemon)
    }
}

impl Items {
    /// Waits for the next item; none after the last one. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Item, ClientError>> {
        None
    }

    /// Takes the way to the command's stdin, once; it can be used while [`Items::next`] waits.
    pub fn take_stdin(&mut self) -> Option<Stdin> {
        None
    }

    /// Sends bytes to the command's stdin; waits while the command does not read. An error means that it no longer can.
    pub async fn send_stdin(&mut self, _bytes: Vec<u8>) -> Result<(), ClientError> {
        Err(ClientError::NoDaemon)
    }

    /// Ends the command's stdin.
    pub async fn end_stdin(&mut self) -> Result<(), ClientError> {
        Err(ClientError::NoDaemon)
    }

    /// Asks for the command to be ended (Ctrl-C); its result still comes.
    pub async fn cancel(&mut self) -> Result<(), ClientError> {
        Err(ClientError::NoDaemon)
    }
}
