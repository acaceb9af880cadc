//! The control shell of a connection: there from the login on, made anew when it dies, told of every shell that runs.
//!
//! Invariant: there is at most one at a time, and what runs is known here, so that a new one is told all of it. It takes a
//! channel that commands do not count on; where the server has no room for it, it gets a connection of its own.

use super::conn::{self, Conn, OpenError};
use super::shell;
use super::target::Target;
use crate::backend::control::Control;
use crate::backend::{Ask, BackendError, Environment, ErrorKind, Family, Members, ShellChoice, Start};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// Limit for its start.
const START: Duration = Duration::from_secs(10);
/// Longest pause between attempts to make it anew.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What all connections of one backend share about their control shells.
#[derive(Debug)]
pub(super) struct Habits {
    /// The server has no room for it beside the commands.
    apart: AtomicBool,
    /// What was started stays when the daemon goes.
    keep: bool,
    /// Seconds until it is ended otherwise.
    linger: u32,
}

impl Habits {
    /// Those of a backend that has not connected yet.
    pub(super) fn new(keep: bool, linger: u32) -> Self {
        Self { apart: AtomicBool::new(false), keep, linger }
    }
}

/// Looks after the processes of one connection.
pub(super) struct Attendant {
    conn: Arc<Conn>,
    target: Target,
    habits: Arc<Habits>,
    /// The one that is there, with the connection of its own when it has one. Held locked while one is made.
    current: tokio::sync::Mutex<Option<(Control, Option<Arc<Conn>>)>>,
    /// Shells that run.
    running: Mutex<BTreeSet<u32>>,
}

impl Attendant {
    /// Takes up the care of a connection; the control shell is made in the background.
    pub(super) fn new(conn: Arc<Conn>, target: Target, habits: Arc<Habits>) -> Arc<Self> {
        let me = Arc::new(Self { conn, target, habits, current: tokio::sync::Mutex::default(), running: Mutex::default() });
        tokio::spawn(tend(Arc::downgrade(&me), me.conn.clone()));
        me
    }

    fn running(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for a command's processes or ends them. When the control shell dies over it, a new one is asked once more: each
    /// request does the same when done again.
    pub(super) async fn family(&self, family: Family, ask: Ask) -> Result<Members, BackendError> {
        if ask == Ask::Gone {
            let told = self.control().await?.gone_of(family).await?;
            return told.await;
        }
        let control = self.control().await?;
        match control.family(family.clone(), ask.clone()).await {
            Err(e) if e.kind == ErrorKind::Lost && self.conn.link.lost().is_none() => self.control().await?.family(family, ask).await,
            answer => answer,
        }
    }

    /// Notes a shell that runs until `ended` resolves.
    pub(super) fn watch(self: &Arc<Self>, pid: u32, ended: impl Future<Output = ()> + Send + 'static) {
        self.running().insert(pid);
        let me = self.clone();
        tokio::spawn(async move {
            me.tell(pid, true).await;
            tokio::select! {
                () = ended => {}
                () = me.conn.link.closed.cancelled() => return,
            }
            me.running().remove(&pid);
            me.tell(pid, false).await;
        });
    }

    /// Tells the control shell that is there, if one is; a new one is told by its maker.
    async fn tell(&self, pid: u32, runs: bool) {
        let control = self.current.lock().await.as_ref().map(|(control, _)| control.clone());
        let Some(control) = control else { return };
        let told = if runs { control.note(unnamed(pid)).await } else { control.forget(pid).await };
        if let Err(e) = told {
            tracing::debug!("the control shell was not told of {pid}: {e}");
        }
    }

    /// Gives the control shell, made if there is none.
    async fn control(&self) -> Result<Control, BackendError> {
        let mut current = self.current.lock().await;
        if let Some((control, _)) = current.as_ref()
            && control.lost().is_none()
        {
            return Ok(control.clone());
        }
        *current = None;
        let made = self.make().await?;
        let control = made.0.clone();
        *current = Some(made);
        if self.habits.keep {
            control.keep().await?;
        }
        let running: Vec<u32> = self.running().iter().copied().collect();
        for pid in running {
            control.note(unnamed(pid)).await?;
        }
        Ok(control)
    }

    async fn make(&self) -> Result<(Control, Option<Arc<Conn>>), BackendError> {
        if !self.habits.apart.load(Ordering::Relaxed) {
            match self.make_on(&self.conn).await {
                Ok(control) => return Ok((control, None)),
                Err(OpenError::Failed(e)) => return Err(e),
                Err(OpenError::Full(_)) => self.move_out(),
            }
        }
        let own = conn::connect(&self.target).await?;
        match self.make_on(&own).await {
            Ok(control) => Ok((control, Some(own))),
            Err(OpenError::Failed(e)) => Err(e),
            Err(OpenError::Full(_)) => {
                Err(BackendError::new(ErrorKind::Busy, format!("{} has no room for a control shell", self.target.place()))
                    .with_fix("MaxSessions of its sshd must be one at least"))
            }
        }
    }

    async fn make_on(&self, conn: &Arc<Conn>) -> Result<Control, OpenError> {
        let start = control_start();
        let by = Instant::now() + START;
        let line = shell::line(&start).map_err(OpenError::Failed)?;
        let late =
            || OpenError::Failed(BackendError::new(ErrorKind::TimedOut, format!("no control shell came up on {}", self.target.place())));
        let channel = timeout(START, conn.exec_in(None, &line)).await.unwrap_or_else(|_| Err(late()))?;
        let left = by.saturating_duration_since(Instant::now());
        let (shell, _) = shell::ready(channel, &start.nonce, left, &self.target.address()).await.map_err(OpenError::Failed)?;
        Ok(Control::new(shell, &start.nonce, self.habits.linger))
    }

    fn move_out(&self) {
        if !self.habits.apart.swap(true, Ordering::Relaxed) {
            tracing::info!(host = self.target.place(), "no room for the control shell beside commands: it gets a connection of its own");
        }
    }
}

/// What a control shell is asked for with.
pub(super) fn control_start() -> Start {
    Start {
        nonce: uuid::Uuid::new_v4().simple().to_string()[..16].to_owned(),
        shell: ShellChoice::Auto,
        environment: Environment::Login,
        timeout: START,
        on: None,
    }
}

/// Names a command of which only the shell is known.
fn unnamed(pid: u32) -> Family {
    Family { pid, start_time: None, age: None, cookie: "-".to_owned() }
}

/// Keeps a control shell there as long as the connection lives.
async fn tend(attendant: Weak<Attendant>, conn: Arc<Conn>) {
    let closed = conn.link.closed.clone();
    let crowded = conn.crowded.clone();
    drop(conn);
    let mut pause = Duration::from_secs(1);
    loop {
        let Some(me) = attendant.upgrade() else { return };
        let made = tokio::select! {
            () = closed.cancelled() => return,
            made = me.control() => made,
        };
        drop(me);
        match made {
            Ok(control) => {
                pause = Duration::from_secs(1);
                tokio::select! {
                    () = closed.cancelled() => return,
                    why = control.gone() => tracing::debug!("a new control shell is needed: {why}"),
                    () = crowded.cancelled(), if attendant.upgrade().is_some_and(|me| !me.habits.apart.load(Ordering::Relaxed)) => {
                        let Some(me) = attendant.upgrade() else { return };
                        me.move_out();
                        *me.current.lock().await = None;
                    }
                }
            }
            Err(e) => {
                tracing::debug!("no control shell: {e}");
                tokio::select! {
                    () = closed.cancelled() => return,
                    () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                }
            }
        }
    }
}
