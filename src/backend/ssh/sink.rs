//! Where the session puts what arrives for one channel: its two streams and how it stands.
//!
//! Invariant: nothing here waits, because it runs inside the session; once the link is lost every waiter learns of it.

use super::slots::Slot;
use super::spool::Spool;
use crate::backend::{BackendError, Exit};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How a channel stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Status {
    /// The server's answer to the request to run the command.
    pub(super) accepted: Option<bool>,
    /// How the command ended.
    pub(super) exit: Option<Exit>,
    /// Whether the server closed the channel.
    pub(super) closed: bool,
    /// Why the link was lost, if it was.
    pub(super) lost: Option<BackendError>,
}

/// The receiving side of one channel.
pub(super) struct Sink {
    pub(super) stdout: Arc<Spool>,
    pub(super) stderr: Arc<Spool>,
    status: watch::Sender<Status>,
    /// The room that it takes on the server.
    slot: Mutex<Option<Slot>>,
    /// Cancelled when nothing can be sent on the channel any more.
    pub(super) gone: CancellationToken,
}

impl Sink {
    /// Makes one. `link` is cancelled when the connection ends.
    pub(super) fn new(runtime: &tokio::runtime::Handle, link: &CancellationToken, slot: Option<Slot>) -> Arc<Self> {
        Arc::new(Self {
            stdout: Spool::new(runtime),
            stderr: Spool::new(runtime),
            status: watch::Sender::new(Status::default()),
            slot: Mutex::new(slot),
            gone: link.child_token(),
        })
    }

    /// Watches how it stands.
    pub(super) fn watch(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// Takes output. When its reader is behind, gives the spool to wait for and how long.
    pub(super) fn data(&self, stderr: bool, data: &[u8]) -> Option<(Arc<Spool>, Duration)> {
        let spool = if stderr { &self.stderr } else { &self.stdout };
        spool.push(data).map(|patience| (spool.clone(), patience))
    }

    /// The server answered the request to run the command.
    pub(super) fn answered(&self, accepted: bool) {
        self.status.send_modify(|s| s.accepted = Some(accepted));
    }

    /// The command ended.
    pub(super) fn exited(&self, exit: Exit) {
        self.status.send_modify(|s| {
            s.exit.get_or_insert(exit);
        });
    }

    /// No more output will come.
    pub(super) fn eof(&self) {
        self.stdout.end();
        self.stderr.end();
    }

    /// Gives its room free.
    pub(super) fn free(&self) {
        drop(self.slot.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The server closed the channel.
    pub(super) fn close(&self) {
        self.eof();
        self.free();
        self.gone.cancel();
        self.status.send_modify(|s| s.closed = true);
    }

    /// The link is lost.
    pub(super) fn lose(&self, why: &BackendError) {
        self.eof();
        self.free();
        self.gone.cancel();
        self.status.send_modify(|s| s.lost = Some(why.clone()));
    }
}
