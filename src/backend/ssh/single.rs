//! Keeps the one connection of a backend and makes it when there is none.
//!
//! Invariant: at most one attempt is under way, whoever asks shares it, and the watched link changes the moment a connection
//! comes or goes.

use super::attendant::{Attendant, Habits};
use super::conn::{self, Conn};
use super::lanes::Lanes;
use super::link::LinkState;
use super::route::Route;
use crate::backend::{BackendError, ErrorKind, Link};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

type Connecting = Shared<BoxFuture<'static, Result<Connected, BackendError>>>;

/// A connection and who looks after what runs on it.
#[derive(Clone)]
pub(super) struct Connected {
    /// The connection.
    pub(super) conn: Arc<Conn>,
    /// Where commands are started.
    pub(super) lanes: Arc<Lanes>,
    /// Looks after the processes.
    pub(super) attendant: Arc<Attendant>,
}

/// The connection of one backend.
pub(super) struct Connector {
    route: Route,
    habits: Arc<Habits>,
    /// Told when somebody waits for room for a command.
    pub(super) short: Arc<Notify>,
    link: watch::Sender<Link>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    conn: Option<Connected>,
    /// The attempt under way, and what gives it up when dropped.
    attempt: Option<(u64, Connecting, DropGuard)>,
    attempts: u64,
}

impl Connector {
    /// Makes one that is not connected.
    pub(super) fn new(route: Route, habits: Habits) -> Arc<Self> {
        Arc::new(Self {
            route,
            habits: Arc::new(habits),
            short: Arc::default(),
            link: watch::Sender::new(Link::default()),
            state: Mutex::default(),
        })
    }

    /// Watches the link.
    pub(super) fn watch(&self) -> watch::Receiver<Link> {
        self.link.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the connection, made if need be, and whether it was made now. Cancel safe: the attempt goes on.
    pub(super) async fn conn(self: &Arc<Self>) -> Result<(Connected, bool), BackendError> {
        let connecting = {
            let mut state = self.lock();
            match (&state.conn, &state.attempt) {
                (Some(conn), _) if !conn.conn.link.closed.is_cancelled() => return Ok((conn.clone(), false)),
                (_, Some((_, connecting, _))) => connecting.clone(),
                _ => self.attempt(&mut state),
            }
        };
        Ok((connecting.await?, true))
    }

    /// Gives the connection with this number, if it is still there. Connects nothing.
    pub(super) fn present(&self, number: u64) -> Result<Connected, BackendError> {
        let state = self.lock();
        let there = state.conn.as_ref().filter(|c| !c.conn.link.closed.is_cancelled() && self.link.borrow().epoch == number);
        let gone = || BackendError::new(ErrorKind::Lost, format!("the connection to {} is not there any more", self.route.address()));
        there.cloned().ok_or_else(gone)
    }

    /// Begins an attempt in a task of its own.
    fn attempt(self: &Arc<Self>, state: &mut State) -> Connecting {
        state.attempts += 1;
        let number = state.attempts;
        let given_up = CancellationToken::new();
        let guard = given_up.clone().drop_guard();
        let (route, me) = (self.route.clone(), Arc::downgrade(self));
        let given_up_on = format!("connecting to {} was given up", self.route.address());
        let task = tokio::spawn(async move {
            let made = tokio::select! {
                made = connect(&route) => made,
                () = given_up.cancelled() => Err(BackendError::new(ErrorKind::Lost, given_up_on.clone())),
            };
            match me.upgrade() {
                Some(me) => me.done(number, made),
                None => Err(BackendError::new(ErrorKind::Lost, given_up_on)),
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
    fn done(self: &Arc<Self>, number: u64, made: Result<Arc<Conn>, BackendError>) -> Result<Connected, BackendError> {
        let mut state = self.lock();
        if state.attempt.as_ref().is_none_or(|(n, ..)| *n != number) {
            return Err(BackendError::new(ErrorKind::Lost, format!("connecting to {} was given up", self.route.address())));
        }
        state.attempt = None;
        match made {
            Ok(conn) => {
                let attendant = Attendant::new(conn.clone(), conn.target().clone(), self.habits.clone());
                let lanes = Lanes::new(conn.clone(), conn.target().clone(), self.short.clone());
                let connected = Connected { conn: conn.clone(), lanes, attendant };
                state.conn = Some(connected.clone());
                self.link.send_modify(|link| {
                    link.up = true;
                    link.epoch += 1;
                    link.address = Some(conn.target().address());
                    link.last_heard = conn.link.heard.last();
                    link.lost = None;
                });
                let (link, me) = (conn.link.clone(), Arc::downgrade(self));
                tokio::spawn(watch_over(link, me));
                Ok(connected)
            }
            Err(e) => {
                self.link.send_modify(|link| link.lost = Some(e.clone()));
                Err(e)
            }
        }
    }

    /// Notes when the connection was last heard.
    pub(super) fn heard(&self, conn: &Conn) {
        let at = conn.link.heard.last();
        self.link.send_if_modified(|link| {
            let new = link.up && link.last_heard != at;
            if new {
                link.last_heard = at;
            }
            new
        });
    }

    fn lost(&self, gone: &Arc<LinkState>) {
        let mut state = self.lock();
        // One that was closed on purpose, or replaced, says nothing about the link.
        if state.conn.as_ref().is_some_and(|c| Arc::ptr_eq(&c.conn.link, gone)) {
            let conn = state.conn.take();
            self.link.send_modify(|link| {
                link.up = false;
                link.last_heard = gone.heard.last();
                link.lost = gone.lost();
            });
            drop(state);
            if let Some(Connected { lanes, .. }) = conn {
                lanes.close();
            }
        }
    }

    /// Lets go of the connection, and of an attempt that is under way.
    pub(super) fn close(&self) {
        let (conn, attempt) = {
            let mut state = self.lock();
            (state.conn.take(), state.attempt.take())
        };
        drop(attempt);
        let Some(Connected { conn, lanes, .. }) = conn else { return };
        let silent = conn.shut();
        lanes.close();
        self.link.send_modify(|link| {
            link.up = false;
            link.last_heard = conn.link.heard.last();
            link.lost = silent;
        });
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        // An opening that hangs would otherwise hold the connection.
        self.close();
    }
}

/// Looks up the way as it is now, and connects.
async fn connect(route: &Route) -> Result<Arc<Conn>, BackendError> {
    // A mistake in an ssh_config is looked for again at the next attempt, which asks nobody: it may have been corrected.
    let target = route.target().await.map_err(|e| match e.kind {
        ErrorKind::Config => BackendError { kind: ErrorKind::Unreachable, ..e },
        _ => e,
    })?;
    conn::connect(&target).await
}

/// Tells the backend when a connection ends.
async fn watch_over(link: Arc<LinkState>, backend: Weak<Connector>) {
    link.closed.cancelled().await;
    if let Some(backend) = backend.upgrade() {
        backend.lost(&link);
    }
}
