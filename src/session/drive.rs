//! One shell while its command runs: everything that can happen to it, as one event at a time.
//!
//! Invariant: reading, writing, the deadline and stops go on side by side; none of them waits for another.

use super::feed::Feed;
use super::log::Log;
use super::prepare::Prepared;
use super::streams::{self, Watch};
use super::{Command, Stop};
use crate::backend::{Ask, Backend, BackendError, Exit, Family, Members};
use crate::model::EndedBy;
use crate::shell::record::Record;
use crate::shell::wrap::COOKIE;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

/// Between TERM and KILL at a deadline.
const GRACE: Duration = Duration::from_secs(2);

/// Why a command is being ended by us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Deadline,
    Wish(EndedBy),
}

/// What happened.
pub(super) enum Event {
    /// The shell has ended.
    Exit(Exit),
    /// Both streams have ended: nothing writes any more.
    StreamsEnded,
    /// A record or the fence has come.
    Seen,
    /// Our ending of the command is done.
    Ended(Result<Members, BackendError>),
    /// The time given to the step is over.
    Timer,
}

/// One shell while its command runs.
pub(super) struct Drive<'a> {
    pub(super) watch: Arc<Watch>,
    /// Why it is being ended, once it is.
    pub(super) why: Option<Why>,
    /// None once both streams have ended.
    pub(super) reading: Option<BoxFuture<'static, ()>>,
    pub(super) family: Family,
    /// When the shell ended; before that, when it was taken over.
    pub(super) exited_at: std::time::Instant,
    backend: Arc<dyn Backend>,
    exit: Option<BoxFuture<'static, Exit>>,
    feed: Option<&'a mut Feed>,
    ending: Option<BoxFuture<'static, Result<Members, BackendError>>>,
    stops: Option<&'a mut mpsc::Receiver<Stop>>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<'a> Drive<'a> {
    /// Takes over a prepared shell; `feed` holds what is to be written to it. The command's deadline begins to run.
    pub(super) fn new(
        prepared: Prepared,
        backend: Arc<dyn Backend>,
        command: &Command,
        log: Arc<Log>,
        feed: &'a mut Feed,
        stops: &'a mut mpsc::Receiver<Stop>,
    ) -> Self {
        let Prepared { shell, nonce, .. } = prepared;
        let (reading, watch) = streams::read(shell.stdout, shell.stderr, &nonce, command.split, log);
        feed.begin(shell.stdin);
        let family =
            Family { pid: shell.ready.pid, start_time: shell.ready.start_time, age: None, cookie: format!("{COOKIE}={}", command.id) };
        Self {
            watch,
            why: None,
            reading: Some(reading),
            family,
            exited_at: std::time::Instant::now(),
            backend,
            exit: Some(shell.exit),
            feed: Some(feed),
            ending: None,
            stops: Some(stops),
            // A deadline of centuries would overflow the clock.
            deadline: command.timeout.and_then(|t| Instant::now().checked_add(t)).map(|at| Box::pin(tokio::time::sleep_until(at))),
        }
    }

    /// Waits for the next event, at most until `until`. Cancel safe.
    pub(super) async fn step(&mut self, until: Option<Instant>) -> Event {
        loop {
            tokio::select! {
                biased;
                exit = some(self.exit.as_mut()) => {
                    self.exit = None;
                    self.exited_at = std::time::Instant::now();
                    return Event::Exit(exit);
                }
                () = some(self.reading.as_mut()) => {
                    self.reading = None;
                    return Event::StreamsEnded;
                }
                () = self.watch.changed() => return Event::Seen,
                done = some(self.ending.as_mut()) => {
                    self.ending = None;
                    return Event::Ended(done);
                }
                stop = received(self.stops.as_mut()) => match stop {
                    Some(stop) => self.stop(stop),
                    // Nobody can stop it any more.
                    None => self.stops = None,
                },
                () = some(self.deadline.as_mut()) => {
                    self.deadline = None;
                    self.end(Why::Deadline, GRACE);
                }
                () = fed(self.feed.as_mut()) => self.feed = None,
                () = at(until) => return Event::Timer,
            }
        }
    }

    /// Asks what is left of the command, while everything else goes on.
    pub(super) async fn survivors(&mut self) -> Result<Members, BackendError> {
        let mut asking = self.backend.family(self.family.clone(), Ask::Survivors);
        loop {
            tokio::select! {
                members = &mut asking => return members,
                () = some(self.reading.as_mut()), if self.reading.is_some() => self.reading = None,
            }
        }
    }

    fn stop(&mut self, stop: Stop) {
        match stop {
            Stop::End { by, grace } => self.end(Why::Wish(by), grace),
            Stop::Signal { number, tell } => {
                let (backend, family) = (self.backend.clone(), self.family.clone());
                tokio::spawn(async move {
                    let sent = backend.family(family, Ask::Signal(number)).await;
                    if let Err(error) = &sent {
                        tracing::warn!(%error, number, "a signal could not be sent");
                    }
                    // Whoever asked may have gone.
                    let _ = tell.send(sent.map(|members| members.alive));
                });
            }
        }
    }

    /// Begins to end the command; the first reason counts.
    fn end(&mut self, why: Why, grace: Duration) {
        if self.why.is_none() {
            self.why = Some(why);
            let (backend, family) = (self.backend.clone(), self.family.clone());
            self.ending = Some(async move { backend.family(family, Ask::End { grace }).await }.boxed());
        }
    }

    /// Whether the shell has said its last, and its end may be told later than it is: when nothing holds its streams any more.
    pub(super) fn may_be_over(&self) -> bool {
        if self.why.is_some() || !self.backend.is_secondhand() {
            return false;
        }
        let seen = self.watch.seen();
        let trap_follows = seen.records.iter().any(|r| matches!(r, Record::End(end) if end.trap_follows));
        seen.fence && seen.end && !trap_follows
    }

    /// Asks whether the shell is gone. What cannot be asked is not.
    pub(super) async fn is_over(&mut self) -> bool {
        let over = self.survivors().await.is_ok_and(|members| !members.alive.contains(&self.family.pid));
        if over {
            self.exited_at = std::time::Instant::now();
        }
        over
    }

    /// Whether our ending is still under way.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }
}

async fn some<F: Future + Unpin>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn received(stops: Option<&mut &mut mpsc::Receiver<Stop>>) -> Option<Stop> {
    match stops {
        Some(stops) => stops.recv().await,
        None => std::future::pending().await,
    }
}

async fn fed(feed: Option<&mut &mut Feed>) {
    match feed {
        Some(feed) => feed.go_on().await,
        None => std::future::pending().await,
    }
}

async fn at(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
