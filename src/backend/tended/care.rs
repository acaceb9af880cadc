//! One connection to a place: its control shell, made anew when it dies, and the shells that run.
//!
//! Invariant: what runs is known here, so that a new control shell is told all of it. The connection is lost once, with one
//! reason, and from then on every shell of it resolves as lost.

use super::{Cut, Way, open};
use crate::backend::control::Control;
use crate::backend::{Ask, BackendError, Environment, ErrorKind, Exit, Family, Members, Shell, ShellChoice, Start};
use futures::FutureExt;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// How long the control shell may take to say that it is there, when a shell ended in a way that a lost link also shows.
const DOUBT: Duration = Duration::from_secs(3);

/// How long after its last task a control shell's way is let go of.
const AFTER_LINGER: Duration = Duration::from_secs(15);

/// A control shell with its way.
struct Attendant {
    control: Control,
    _way: Passing,
}

/// A way that is let go of a while after its control shell was: that shell has its time to look after what runs, and a way that
/// hangs (a paused container) does not stay.
struct Passing {
    cut: Option<Cut>,
    after: Duration,
}

impl Drop for Passing {
    fn drop(&mut self) {
        let (Some(cut), Ok(runtime)) = (self.cut.take(), tokio::runtime::Handle::try_current()) else { return };
        let after = self.after;
        runtime.spawn(async move {
            tokio::time::sleep(after).await;
            cut();
        });
    }
}

/// A connection.
pub(super) struct Care<W: Way> {
    way: Arc<W>,
    address: String,
    keep: bool,
    linger: u32,
    limit: Duration,
    /// The control shell that is there. Held locked while one is made.
    control: tokio::sync::Mutex<Attendant>,
    running: Mutex<BTreeSet<u32>>,
    lost: watch::Sender<Option<BackendError>>,
}

impl<W: Way> Care<W> {
    /// Connects: makes the place ready and starts its control shell.
    pub(super) async fn connect(way: Arc<W>, keep: bool, linger: u32, limit: Duration) -> Result<Arc<Self>, BackendError> {
        way.prepare().await?;
        let address = way.address();
        let attendant = attend(&*way, &address, linger, limit).await?;
        if keep {
            attendant.control.keep().await?;
        }
        let me = Self {
            way,
            address,
            keep,
            linger,
            limit,
            control: tokio::sync::Mutex::new(attendant),
            running: Mutex::default(),
            lost: watch::Sender::new(None),
        };
        Ok(Arc::new(me))
    }

    pub(super) fn way(&self) -> &W {
        &self.way
    }

    fn running(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why it was lost, once it is.
    pub(super) fn lost(&self) -> Option<BackendError> {
        self.lost.borrow().clone()
    }

    /// Says that it is lost; the first reason stays.
    pub(super) fn lose(&self, why: BackendError) {
        self.lost.send_if_modified(|lost| {
            let first = lost.is_none();
            if first {
                *lost = Some(why);
            }
            first
        });
    }

    /// Waits until it is lost. Cancel safe.
    async fn gone(&self) -> BackendError {
        let mut lost = self.lost.subscribe();
        match lost.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_else(|| vanished(&self.address)),
            Err(_) => vanished(&self.address),
        }
    }

    /// Keeps a control shell there until the connection is lost.
    pub(super) async fn tend(self: Arc<Self>) {
        loop {
            let control = self.control.lock().await.control.clone();
            let why = tokio::select! {
                why = control.gone() => why,
                _ = self.gone() => return,
            };
            tracing::debug!("the control shell on {} is gone: {why}", self.address);
            tokio::select! {
                made = self.control_now() => {
                    if let Err(again) = made {
                        tracing::debug!("no new one: {again}");
                        return self.lose(BackendError { kind: ErrorKind::Lost, ..again });
                    }
                }
                _ = self.gone() => return,
            }
        }
    }

    /// Gives the control shell, made anew if it is gone.
    async fn control_now(&self) -> Result<Control, BackendError> {
        let mut current = self.control.lock().await;
        if let Some(why) = self.lost() {
            return Err(why);
        }
        if current.control.lost().is_none() {
            return Ok(current.control.clone());
        }
        let attendant = attend(&*self.way, &self.address, self.linger, self.limit).await?;
        let control = attendant.control.clone();
        if self.keep {
            control.keep().await?;
        }
        let running: Vec<u32> = self.running().iter().copied().collect();
        for pid in running {
            control.note(unnamed(pid)).await?;
        }
        *current = attendant;
        Ok(control)
    }

    /// Makes one round trip.
    pub(super) async fn ping(&self) -> Result<Duration, BackendError> {
        self.control_now().await?.ping().await
    }

    /// Whether it is lost, or its control shell does not answer: then it is given up.
    pub(super) async fn is_gone(&self) -> bool {
        if self.lost().is_some() {
            return true;
        }
        let answer = tokio::time::timeout(DOUBT, self.ping()).await;
        match answer {
            Ok(Ok(_)) => false,
            Ok(Err(why)) => {
                self.lose(BackendError { kind: ErrorKind::Lost, ..why });
                true
            }
            Err(_) => false,
        }
    }

    /// Looks for a command's processes or ends them. When the control shell dies over it, a new one is asked once more: each
    /// request does the same when done again.
    pub(super) async fn family(&self, family: Family, ask: Ask) -> Result<Members, BackendError> {
        let control = self.control_now().await?;
        match control.family(family.clone(), ask.clone()).await {
            Err(e) if e.kind == ErrorKind::Lost && self.lost().is_none() => self.control_now().await?.family(family, ask).await,
            answer => answer,
        }
    }

    /// Takes up a shell: its end is what the way says, or that the link was lost.
    pub(super) fn watch(self: &Arc<Self>, shell: Shell, cut: Cut) -> Shell {
        let pid = shell.ready.pid;
        self.running().insert(pid);
        let (tell, told) = oneshot::channel();
        let me = self.clone();
        let exit = shell.exit;
        tokio::spawn(async move {
            me.note(pid, true).await;
            let how = tokio::select! {
                how = exit => me.believed(how).await,
                why = me.gone() => Exit::Lost(why),
            };
            let lost = matches!(how, Exit::Lost(_));
            if lost {
                cut();
            }
            // Nobody may be left to hear it.
            let _ = tell.send(how);
            // One whose way was lost may run on there: it stays noted, so that its control shell ends it.
            if !lost {
                me.running().remove(&pid);
                me.note(pid, false).await;
            }
        });
        let address = self.address.clone();
        let exit = told.map(move |how| how.unwrap_or_else(|_| Exit::Lost(vanished(&address)))).boxed();
        Shell { exit, ..shell }
    }

    /// Gives what is to be believed of an end. A program that lost its way ends as a command does, with a code of its own; the control
    /// shell that was there meanwhile tells the two apart.
    async fn believed(&self, how: Exit) -> Exit {
        let why = match how {
            Exit::Code(0) => return how,
            Exit::Code(_) | Exit::Signal(_) => {
                // One that is made just now may be of another life of the place.
                let control = self.control.lock().await.control.clone();
                match tokio::time::timeout(DOUBT, control.ping()).await {
                    Ok(Ok(_)) => return how,
                    Ok(Err(why)) => BackendError { kind: ErrorKind::Lost, ..why },
                    Err(_) => BackendError::new(ErrorKind::Lost, format!("{} does not answer any more", self.address)),
                }
            }
            Exit::Lost(why) => why,
        };
        Exit::Lost(self.lost().unwrap_or(why))
    }

    /// Tells the control shell that is there of a shell; a new one is told by its maker.
    async fn note(&self, pid: u32, runs: bool) {
        let control = self.control.lock().await.control.clone();
        let told = if runs { control.note(unnamed(pid)).await } else { control.forget(pid).await };
        if let Err(e) = told {
            tracing::debug!("the control shell was not told of {pid}: {e}");
        }
    }
}

/// Starts a control shell.
async fn attend<W: Way>(way: &W, address: &str, linger: u32, limit: Duration) -> Result<Attendant, BackendError> {
    let start = Start {
        nonce: uuid::Uuid::new_v4().simple().to_string()[..16].to_owned(),
        shell: ShellChoice::Auto,
        environment: Environment::Login,
        timeout: limit,
        on: None,
    };
    let (shell, cut) = open(way, &start, address).await?;
    let after = Duration::from_secs(u64::from(linger)) + AFTER_LINGER;
    Ok(Attendant { control: Control::new(shell, &start.nonce, linger), _way: Passing { cut: Some(cut), after } })
}

fn vanished(address: &str) -> BackendError {
    BackendError::new(ErrorKind::Lost, format!("the connection to {address} was closed"))
}

/// Names a command of which only the shell is known.
fn unnamed(pid: u32) -> Family {
    Family { pid, start_time: None, age: None, cookie: "-".to_owned() }
}
