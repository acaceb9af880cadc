//! Keeps the one connection of such a place and makes it when there is none.
//!
//! Invariant: at most one attempt is under way, whoever asks shares it, and the watched link changes the moment a connection
//! comes or goes.

use super::Way;
use super::care::Care;
use crate::backend::{BackendError, ErrorKind, Link};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

type Connecting<W> = Shared<BoxFuture<'static, Result<Arc<Care<W>>, BackendError>>>;

/// The connection of one backend.
pub(super) struct Connector<W: Way> {
    way: Arc<W>,
    keep: bool,
    linger: u32,
    limit: Duration,
    link: watch::Sender<Link>,
    state: Mutex<State<W>>,
}

struct State<W: Way> {
    care: Option<Arc<Care<W>>>,
    /// The attempt under way, and what gives it up when dropped.
    attempt: Option<(u64, Connecting<W>, DropGuard)>,
    attempts: u64,
}

impl<W: Way> Connector<W> {
    /// Makes one that is not connected. `limit` is how long the control shell may take to come up.
    pub(super) fn new(way: W, keep: bool, linger: u32, limit: Duration) -> Arc<Self> {
        let state = Mutex::new(State { care: None, attempt: None, attempts: 0 });
        Arc::new(Self { way: Arc::new(way), keep, linger, limit, link: watch::Sender::new(Link::default()), state })
    }

    /// Watches the link.
    pub(super) fn watch(&self) -> watch::Receiver<Link> {
        self.link.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the connection, made if need be, and whether it was made now. Cancel safe: the attempt goes on.
    pub(super) async fn care(self: &Arc<Self>) -> Result<(Arc<Care<W>>, bool), BackendError> {
        let connecting = {
            let mut state = self.lock();
            match (&state.care, &state.attempt) {
                (Some(care), _) if care.lost().is_none() => return Ok((care.clone(), false)),
                (_, Some((_, connecting, _))) => connecting.clone(),
                _ => self.attempt(&mut state),
            }
        };
        Ok((connecting.await?, true))
    }

    /// Gives the connection with this number, if it is still there. Connects nothing.
    pub(super) fn present(&self, number: u64) -> Result<Arc<Care<W>>, BackendError> {
        let state = self.lock();
        let there = state.care.as_ref().filter(|care| care.lost().is_none() && self.link.borrow().epoch == number);
        there.cloned().ok_or_else(|| BackendError::new(ErrorKind::Lost, "the connection is not there any more"))
    }

    /// Begins an attempt in a task of its own.
    fn attempt(self: &Arc<Self>, state: &mut State<W>) -> Connecting<W> {
        state.attempts += 1;
        let number = state.attempts;
        let given_up = CancellationToken::new();
        let guard = given_up.clone().drop_guard();
        let (way, me) = (self.way.clone(), Arc::downgrade(self));
        let (keep, linger, limit) = (self.keep, self.linger, self.limit);
        let task = tokio::spawn(async move {
            let made = tokio::select! {
                made = Care::connect(way, keep, linger, limit) => made,
                () = given_up.cancelled() => Err(given_up_on()),
            };
            match me.upgrade() {
                Some(me) => me.done(number, made),
                None => Err(given_up_on()),
            }
        });
        let connecting = async move {
            task.await.unwrap_or_else(|e| Err(BackendError::new(ErrorKind::Internal, format!("the task that connects failed: {e}"))))
        };
        let connecting = connecting.boxed().shared();
        state.attempt = Some((number, connecting.clone(), guard));
        connecting
    }

    /// Takes over the result of an attempt, unless it was given up meanwhile.
    fn done(self: &Arc<Self>, number: u64, made: Result<Arc<Care<W>>, BackendError>) -> Result<Arc<Care<W>>, BackendError> {
        let mut state = self.lock();
        if state.attempt.as_ref().is_none_or(|(n, ..)| *n != number) {
            return Err(given_up_on());
        }
        state.attempt = None;
        match made {
            Ok(care) => {
                state.care = Some(care.clone());
                self.link.send_modify(|link| {
                    link.up = true;
                    link.epoch += 1;
                    link.last_heard = Some(Instant::now());
                    link.lost = None;
                });
                let (me, gone) = (Arc::downgrade(self), care.clone());
                tokio::spawn(async move {
                    gone.clone().tend().await;
                    if let Some(me) = me.upgrade() {
                        me.lost(&gone);
                    }
                });
                Ok(care)
            }
            Err(e) => {
                self.link.send_modify(|link| link.lost = Some(e.clone()));
                Err(e)
            }
        }
    }

    /// Notes that something was heard now.
    pub(super) fn heard(&self) {
        self.link.send_if_modified(|link| {
            if link.up {
                link.last_heard = Some(Instant::now());
            }
            link.up
        });
    }

    fn lost(&self, gone: &Arc<Care<W>>) {
        let mut state = self.lock();
        // One that was closed on purpose, or replaced, says nothing about the link.
        if state.care.as_ref().is_some_and(|care| Arc::ptr_eq(care, gone)) {
            state.care = None;
            self.link.send_modify(|link| {
                link.up = false;
                link.lost = gone.lost();
            });
        }
    }

    /// Lets go of the connection, and of an attempt that is under way.
    pub(super) fn close(&self) {
        let (care, attempt) = {
            let mut state = self.lock();
            (state.care.take(), state.attempt.take())
        };
        drop(attempt);
        let Some(care) = care else { return };
        care.lose(BackendError::new(ErrorKind::Lost, "the connection was closed"));
        self.link.send_modify(|link| link.up = false);
    }
}

impl<W: Way> Drop for Connector<W> {
    fn drop(&mut self) {
        self.close();
    }
}

fn given_up_on() -> BackendError {
    BackendError::new(ErrorKind::Lost, "connecting was given up")
}
