//! The connections that commands run on: the first, and more when its room is used up.
//!
//! Invariant: a command is started on one of them, once. Further connections are made only for commands that would otherwise
//! wait or stand behind a flood, only when logging in asks nobody anything, and go again after a minute without use.

use super::channel::Channel;
use super::conn::{self, Conn, OpenError};
use super::slots::Slot;
use super::target::Target;
use crate::backend::{BackendError, ErrorKind, HeldUp};
use futures::future::select_all;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout, timeout_at};

/// Connections beside the first.
const MORE: usize = 2;
/// How long idle shells have to make room before another connection is made.
const ROOM_SOON: Duration = Duration::from_millis(150);
/// Time without use after which a further connection goes.
const UNUSED: Duration = Duration::from_secs(60);

/// The connections of a backend.
pub(super) struct Lanes {
    first: Arc<Conn>,
    target: Target,
    more: Mutex<Vec<Arc<Conn>>>,
    /// Held while another connection is made; tells when the last attempt failed.
    making: tokio::sync::Mutex<Option<Instant>>,
    /// Told when somebody waits for room.
    short: Arc<Notify>,
}

impl Lanes {
    /// Begins with one connection.
    pub(super) fn new(first: Arc<Conn>, target: Target, short: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { first, target, more: Mutex::default(), making: tokio::sync::Mutex::default(), short })
    }

    fn more(&self) -> MutexGuard<'_, Vec<Arc<Conn>>> {
        self.more.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<Conn>> {
        let mut all = vec![self.first.clone()];
        let mut more = self.more();
        more.retain(|conn| !conn.link.closed.is_cancelled());
        all.extend(more.iter().cloned());
        all
    }

    /// Runs a command on a channel of its own. Waits for room as long as the first connection lives: `limit` is for what
    /// comes then, and when it ends is given with the channel and its connection. Cancel safe: a channel that comes up for
    /// nobody is closed.
    pub(super) async fn exec(self: &Arc<Self>, command: &str, limit: Duration) -> Result<(Channel, Instant, Arc<Conn>), BackendError> {
        loop {
            let (conn, slot) = self.room(limit).await?;
            let by = Instant::now() + limit;
            match conn.exec(slot, command, by).await {
                Ok(channel) => return Ok((channel, by, conn)),
                Err(OpenError::Failed(e)) => return Err(e),
                // It was learned that there is less room: wait in line again.
                Err(OpenError::Full(_)) => {}
            }
        }
    }

    /// Takes a free slot: of a connection that carries little where there is one, or can be made, since everything on a
    /// connection waits behind a flood; else of any. Waits for one, and makes another connection when that takes long.
    async fn room(self: &Arc<Self>, limit: Duration) -> Result<(Arc<Conn>, Slot), BackendError> {
        let by = Instant::now() + limit;
        loop {
            let all = self.all();
            let (flooded, calm): (Vec<_>, Vec<_>) = all.iter().cloned().partition(|conn| conn.is_flooded());
            if let Some(found) = free(&calm) {
                return Ok(found);
            }
            if !flooded.is_empty() && self.add(all.len(), by).await {
                continue;
            }
            if let Some(found) = free(&flooded) {
                return Ok(found);
            }
            self.short.notify_one();
            let soon = by.min(Instant::now() + ROOM_SOON);
            if let Ok(found) = timeout_at(soon.into(), any(&all)).await {
                return found;
            }
            if Instant::now() < by && self.add(all.len(), by).await {
                continue;
            }
            let found = any(&self.all()).await;
            // A further connection that goes takes nothing with it from those who wait.
            if found.is_ok() || self.first.link.closed.is_cancelled() {
                return found;
            }
        }
    }

    /// Makes another connection, unless somebody else did since there were `had`. Tells whether there is one more.
    async fn add(self: &Arc<Self>, had: usize, by: Instant) -> bool {
        if !self.first.quiet || had > MORE {
            return false;
        }
        let Ok(mut failed) = timeout_at(by.into(), self.making.lock()).await else { return false };
        if self.all().len() > had {
            return true;
        }
        if failed.is_some_and(|at| at.elapsed() < UNUSED) || self.first.link.closed.is_cancelled() {
            return false;
        }
        let left = by.saturating_duration_since(Instant::now());
        match timeout(left, conn::connect(&self.target)).await {
            Ok(Ok(conn)) => {
                tracing::debug!(host = self.target.place(), "another connection for commands that wait");
                tokio::spawn(retire(Arc::downgrade(self), Arc::downgrade(&conn)));
                self.more().push(conn);
                true
            }
            Ok(Err(e)) => {
                tracing::info!(host = self.target.place(), "no further connection for commands that wait: {e}");
                *failed = Some(Instant::now());
                false
            }
            Err(_) => false,
        }
    }

    /// Gives what tells whether a shell on this connection is held up.
    pub(super) fn held_up(self: &Arc<Self>, conn: &Arc<Conn>) -> HeldUp {
        let (lanes, conn) = (Arc::downgrade(self), Arc::downgrade(conn));
        Box::new(move || {
            let (Some(lanes), Some(conn)) = (lanes.upgrade(), conn.upgrade()) else { return false };
            conn.is_flooded() && lanes.has_calm()
        })
    }

    /// Whether a command that starts now finds a connection that carries little.
    fn has_calm(&self) -> bool {
        let all = self.all();
        let calm = all.iter().any(|conn| !conn.is_flooded() && conn.slots.used() < conn.slots.limit());
        calm || self.first.quiet
            && all.len() <= MORE
            && self.making.try_lock().is_ok_and(|failed| failed.is_none_or(|at| at.elapsed() >= UNUSED))
    }

    /// Ends all connections but the first, which ends on its own.
    pub(super) fn close(&self) {
        for conn in std::mem::take(&mut *self.more()) {
            conn.shut();
        }
    }
}

/// Takes a slot of the first connection that has a free one.
fn free(conns: &[Arc<Conn>]) -> Option<(Arc<Conn>, Slot)> {
    conns.iter().find_map(|conn| Some((conn.clone(), conn.slots.try_take()?)))
}

/// Waits for a slot of any of the connections.
async fn any(all: &[Arc<Conn>]) -> Result<(Arc<Conn>, Slot), BackendError> {
    let waits = all.iter().map(|conn| {
        Box::pin(async move {
            tokio::select! {
                slot = conn.slots.take() => Ok((conn.clone(), slot)),
                () = conn.link.closed.cancelled() => {
                    Err(conn.link.lost().unwrap_or_else(|| BackendError::new(ErrorKind::Lost, "the connection ended")))
                }
            }
        })
    });
    select_all(waits).await.0
}

/// Lets a further connection go when it was not used for a while.
async fn retire(lanes: Weak<Lanes>, conn: Weak<Conn>) {
    loop {
        sleep(UNUSED).await;
        let (Some(lanes), Some(conn)) = (lanes.upgrade(), conn.upgrade()) else { return };
        if conn.slots.idle_for(UNUSED) {
            lanes.more().retain(|other| !Arc::ptr_eq(other, &conn));
            return;
        }
    }
}
