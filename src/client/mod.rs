//! The client: every front end's way to the daemon.
//!
//! Invariant: a client finds the one daemon of its user and state folder, whatever its environment, and starts it when
//! there is none.

mod find;
mod findings;
mod greet;
mod items;
mod link;
mod start;
mod stop;
#[cfg(test)]
mod tests;
mod waits;

use crate::model::{Chunk, Event, ExecResult, Kept, LogRead, ProcessInfo, Stream};
use crate::protocol::calls::{Call, CallError, Doctor, ExecCall, Follow, Read, ReadParams, Wait, Watch};
use link::{Handle, Incoming};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

pub use findings::Findings;
pub use items::{Items, Stdin};
pub use waits::{Waited, Waits};

/// Events that may wait for a front end before the daemon is held back (it says `Lagged` when it has to drop some).
const EVENT_QUEUE: usize = 256;

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

/// A connection to the daemon. Cheap to clone; the connection closes with the last clone (and the last [`Items`]).
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
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
    /// The file of the log, when the call asked for it and there is much output: to be opened, and then
    /// [`Items::file_opened`].
    File(String),
    /// The next output is a stretch of that file.
    Kept(Kept),
    /// The end of an exec.
    Result(Box<ExecResult>),
    /// The end of a followed log.
    Followed(Box<ProcessInfo>),
}

impl Client {
    /// Finds or starts the daemon and says hello. Dropping the future leaves a daemon that was being started to itself.
    pub async fn connect(how: &Connect) -> Result<Self, ClientError> {
        find::connect(how).await
    }

    /// Says hello on a stream that somebody else connected, such as an in-memory one.
    pub async fn over<IO>(stream: IO, how: &Connect) -> Result<Self, ClientError>
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        greet::greet(stream, how).await.map_err(greet::GreetError::for_the_only_try)
    }

    /// Ends the daemon of this user and state folder, also one that speaks another protocol, and waits until it is gone. With
    /// commands running and without `force` it stays, and the reply says so. [`ClientError::NoDaemon`] when there is none.
    /// Dropping the future leaves the daemon to its ending.
    pub async fn stop(how: &Connect, force: bool) -> Result<crate::protocol::calls::ShutdownReply, ClientError> {
        stop::stop(how, force).await
    }

    /// Makes one call and waits for its reply. Dropping the future cancels the call.
    pub async fn call<C: Call>(&self, call: C) -> Result<C::Reply, ClientError> {
        let mut stream = self.handle.open(C::METHOD, &call)?;
        loop {
            match stream.next().await {
                Incoming::Reply(text) => return link::parse(&text),
                Incoming::Failed(error) => return Err(error),
                Incoming::Item(_) | Incoming::Event(_) | Incoming::Data { .. } => {}
            }
        }
    }

    /// Reads a piece of a log. Dropping the future cancels the call.
    pub async fn read(&self, read: LogRead) -> Result<Chunk, ClientError> {
        let mut stream = self.handle.open(Read::METHOD, &Read { read: ReadParams(read) })?;
        let mut all = Vec::new();
        loop {
            match stream.next().await {
                Incoming::Data { bytes, .. } if all.is_empty() => all = bytes,
                Incoming::Data { bytes, .. } => all.extend(bytes),
                Incoming::Reply(text) => return Ok(Chunk { bytes: all, ..link::parse(&text)? }),
                Incoming::Failed(error) => return Err(error),
                Incoming::Item(_) | Incoming::Event(_) => {}
            }
        }
    }

    /// Runs a command; the items tell how it goes. Never waits; wrong use shows in the first item.
    pub async fn exec(&self, call: ExecCall) -> Result<Items, ClientError> {
        Ok(Items::of_exec(self.handle.open(ExecCall::METHOD, &call)?, self.handle.clone()))
    }

    /// Follows a log. Never waits; an unknown process shows in the first item.
    pub async fn follow(&self, call: Follow) -> Result<Items, ClientError> {
        Ok(Items::of_follow(self.handle.open(Follow::METHOD, &call)?, self.handle.clone()))
    }

    /// Waits for processes, and hears what they tell meanwhile when the call asks for it. Never waits; an unknown process shows in
    /// the first item.
    pub async fn wait(&self, call: Wait) -> Result<Waits, ClientError> {
        Ok(Waits::new(self.handle.open(Wait::METHOD, &call)?, self.handle.clone()))
    }

    /// Examines a backend. Never waits; an unknown backend shows in the first finding.
    pub async fn doctor(&self, call: Doctor) -> Result<Findings, ClientError> {
        Ok(Findings::new(self.handle.open(Doctor::METHOD, &call)?, self.handle.clone()))
    }

    /// Watches everything: events arrive in the channel (bounded; the daemon says `Lagged` when some were dropped). The
    /// channel ends when the connection does. Dropping the receiver ends the watch.
    pub async fn watch(&self) -> Result<mpsc::Receiver<Event>, ClientError> {
        let mut stream = self.handle.open(Watch::METHOD, &Watch {})?;
        match stream.next().await {
            Incoming::Failed(error) => return Err(error),
            // The first item says that the subscription is in force.
            Incoming::Item(_) | Incoming::Event(_) | Incoming::Data { .. } | Incoming::Reply(_) => {}
        }
        let (sender, receiver) = mpsc::channel(EVENT_QUEUE);
        tokio::spawn(async move {
            loop {
                let event = tokio::select! {
                    incoming = stream.next() => match incoming {
                        // An event of a later version is one that this front end has no use for.
                        Incoming::Event(text) => link::parse::<Event>(&text).ok(),
                        Incoming::Item(_) | Incoming::Data { .. } => None,
                        Incoming::Reply(_) | Incoming::Failed(_) => return,
                    },
                    () = sender.closed() => return,
                };
                if let Some(event) = event
                    && sender.send(event).await.is_err()
                {
                    return;
                }
            }
        });
        Ok(receiver)
    }
}
