//! One backend's supervisor: connects, checks, backs off, and tells how it stands.
//!
//! Invariant: each backend has a task of its own and shares no lock with the others, so a dead one delays nothing else.
//! At most one attempt is under way, whoever waits for it.

use super::clock::Clock;
use crate::backend::{Backend, BackendError, ErrorKind, Reached};
use crate::model::health::{Action, Input, Machine};
use crate::model::{Health, HealthState, Millis};
use futures::future::{BoxFuture, FutureExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// How long one check may take.
const CHECK_LIMIT: Duration = Duration::from_secs(3);
/// Wishes that may wait for the supervisor; more wait in their senders.
const WISHES: usize = 64;

/// A wish to the supervisor.
enum Wish {
    /// Connect now, skipping any wait; tell how the attempt went.
    Ready(oneshot::Sender<Result<(), BackendError>>),
    /// Close the connection.
    Close(oneshot::Sender<()>),
    /// Whether something uses the backend.
    InUse(bool),
}

/// A backend with its supervisor. Dropping it ends the supervisor and closes the connection.
pub struct Connection {
    backend: Arc<dyn Backend>,
    wishes: mpsc::Sender<Wish>,
    health: watch::Receiver<Health>,
}

/// The times that a supervisor goes by.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between checks of an idle link.
    pub health_interval: Duration,
    /// Without use, after which the link is closed.
    pub lifetime: Duration,
}

impl Connection {
    /// Starts the supervisor. It connects only when somebody needs the backend.
    pub fn start(backend: Arc<dyn Backend>, pace: Pace, clock: Clock) -> Self {
        let (wishes, inbox) = mpsc::channel(WISHES);
        let machine = Machine::new(clock.now(), pace.health_interval.as_millis() as Millis, pace.lifetime.as_millis() as Millis);
        let (shown, health) = watch::channel(machine.health().clone());
        let supervisor = Supervisor {
            backend: backend.clone(),
            clock,
            machine,
            shown,
            waiting: Vec::new(),
            work: None,
            name: backend.about().name.clone(),
        };
        tokio::spawn(supervisor.run(inbox));
        Self { backend, wishes, health }
    }

    /// Makes the connection of a backend that needs no supervisor: always up, or never.
    pub fn fixed(backend: Arc<dyn Backend>, health: Health) -> Self {
        Self { backend, wishes: mpsc::channel(1).0, health: watch::channel(health).1 }
    }

    /// Gives the backend.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Gives the health as it changes.
    pub fn health(&self) -> &watch::Receiver<Health> {
        &self.health
    }

    /// Waits for a connection: at once when there is one, else for one attempt, at most `limit`. Cancel safe: the attempt
    /// goes on.
    pub async fn ready(&self, limit: Duration) -> Result<(), BackendError> {
        if self.backend.about().link.borrow().up {
            return Ok(());
        }
        self.reconnect(limit).await
    }

    /// Tells whether a person has to act before another attempt makes sense.
    pub fn needs_person(&self) -> bool {
        self.health.borrow().state == HealthState::Down
    }

    /// Connects now, skipping any wait, or checks the link when there is one. Cancel safe.
    pub async fn reconnect(&self, limit: Duration) -> Result<(), BackendError> {
        let (tell, told) = oneshot::channel();
        if self.wishes.is_closed() {
            return self.backend.check().await.map(|_| ());
        }
        let gone = || BackendError::new(ErrorKind::Internal, "the backend was removed from the config");
        let wait = async {
            self.wishes.send(Wish::Ready(tell)).await.map_err(|_| gone())?;
            told.await.map_err(|_| gone())?
        };
        tokio::time::timeout(limit, wait).await.unwrap_or_else(|_| Err(self.late(limit)))
    }

    /// Gives the error of a wait that was too long.
    pub(crate) fn late(&self, limit: Duration) -> BackendError {
        BackendError::new(ErrorKind::TimedOut, format!("no connection within {} s", limit.as_secs_f32()))
            .with_fix("the attempt goes on in the background; look at `qd backends`")
    }

    /// Closes the connection.
    pub async fn close(&self) {
        let (tell, told) = oneshot::channel();
        if self.wishes.send(Wish::Close(tell)).await.is_ok() {
            // The supervisor answers, or is gone and has closed the link itself.
            let _ = told.await;
        }
    }

    /// Says whether a command, a process or an attached pane is there. Never waits: a supervisor that is behind by a whole
    /// queue learns it with the next change.
    pub fn set_in_use(&self, yes: bool) {
        if let Err(mpsc::error::TrySendError::Full(_)) = self.wishes.try_send(Wish::InUse(yes)) {
            tracing::warn!(backend = %self.backend.about().name, yes, "the supervisor is behind and missed a change of use");
        }
    }
}

/// What the supervisor is waiting for.
enum Done {
    Attempt(Result<Reached, BackendError>),
    Check(Result<Reached, BackendError>),
    Closed,
}

struct Supervisor {
    backend: Arc<dyn Backend>,
    name: String,
    clock: Clock,
    machine: Machine,
    shown: watch::Sender<Health>,
    waiting: Vec<oneshot::Sender<Result<(), BackendError>>>,
    work: Option<BoxFuture<'static, Done>>,
}

impl Supervisor {
    async fn run(mut self, mut inbox: mpsc::Receiver<Wish>) {
        let mut link = self.backend.about().link.clone();
        let mut was_up = link.borrow().up;
        if was_up {
            self.apply(Input::Connected { round_trip_us: 0 });
        }
        loop {
            let due = if self.work.is_some() { None } else { self.machine.due() };
            let at = due.map_or_else(tokio::time::Instant::now, |(at, _)| self.clock.instant(at));
            tokio::select! {
                wish = inbox.recv() => match wish {
                    Some(wish) => self.wish(wish).await,
                    None => break,
                },
                changed = link.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    was_up = self.link_changed(&link.borrow_and_update().clone(), was_up);
                }
                done = work_done(&mut self.work) => self.done(done),
                () = tokio::time::sleep_until(at), if due.is_some() => {
                    if let Some((_, action)) = due {
                        self.start(action);
                    }
                }
            }
        }
        self.backend.close().await;
    }

    fn apply(&mut self, input: Input) {
        self.machine.apply(input, self.clock.now(), jitter());
        let health = self.machine.health();
        self.shown.send_if_modified(|shown| {
            let changed = shown != health;
            if changed {
                if shown.state != health.state {
                    tracing::info!(backend = %self.name, from = shown.state.as_str(), to = health.state.as_str(), reason = health.reason.as_deref().unwrap_or(""), "health");
                }
                shown.clone_from(health);
            }
            changed
        });
    }

    async fn wish(&mut self, wish: Wish) {
        match wish {
            Wish::InUse(yes) => self.apply(Input::InUse(yes)),
            Wish::Ready(tell) => {
                self.waiting.push(tell);
                self.apply(Input::Wanted);
                // A link that is thought to be up is asked at once: a person who presses reconnect wants to know.
                if self.machine.connected() && self.work.is_none() {
                    self.start(Action::Check);
                }
            }
            Wish::Close(tell) => {
                self.work = None;
                self.backend.close().await;
                self.apply(Input::Closed);
                self.answer(Err(BackendError::new(ErrorKind::Unreachable, "the connection was closed on request")));
                // The caller may have gone.
                let _ = tell.send(());
            }
        }
    }

    fn start(&mut self, action: Action) {
        let backend = self.backend.clone();
        match action {
            Action::Attempt => {
                self.apply(Input::Trying);
                self.work = Some(async move { Done::Attempt(backend.check().await) }.boxed());
            }
            Action::Check => {
                let check = async move {
                    let answer = tokio::time::timeout(CHECK_LIMIT, backend.check()).await;
                    Done::Check(answer.unwrap_or_else(|_| Err(BackendError::new(ErrorKind::TimedOut, "no answer to a check"))))
                };
                self.work = Some(check.boxed());
            }
            Action::GiveUp => {
                self.apply(Input::Lost { reason: "no answer to 3 checks in a row: the link is dead".into() });
                self.work = Some(
                    async move {
                        backend.close().await;
                        Done::Closed
                    }
                    .boxed(),
                );
            }
            Action::CloseIdle => {
                self.apply(Input::Closed);
                self.work = Some(
                    async move {
                        backend.close().await;
                        Done::Closed
                    }
                    .boxed(),
                );
            }
        }
    }

    fn done(&mut self, done: Done) {
        self.work = None;
        match done {
            Done::Closed => {}
            Done::Attempt(Ok(reached)) => {
                self.apply(Input::Connected { round_trip_us: reached.round_trip.as_micros() as u64 });
                self.answer(Ok(()));
            }
            Done::Check(Ok(reached)) => {
                self.apply(Input::Answered { round_trip_us: reached.round_trip.as_micros() as u64 });
                self.answer(Ok(()));
            }
            Done::Attempt(Err(error)) => {
                let reason = error.message.clone();
                self.apply(Input::Failed { reason, fix: error.fix.clone(), needs_person: error.needs_person() });
                self.answer(Err(error));
            }
            Done::Check(Err(error)) if error.kind == ErrorKind::TimedOut => {
                self.apply(Input::Missed);
                self.answer(Err(error));
            }
            Done::Check(Err(error)) => {
                self.apply(Input::Lost { reason: error.message.clone() });
                self.answer(Err(error));
            }
        }
    }

    /// Takes in what the backend itself says of its link; gives whether it is up.
    fn link_changed(&mut self, link: &crate::backend::Link, was_up: bool) -> bool {
        if was_up && !link.up && self.machine.connected() {
            let reason = link.lost.as_ref().map_or_else(|| "the connection ended".to_owned(), |e| e.message.clone());
            self.apply(Input::Lost { reason });
        } else if link.up && !self.machine.connected() && self.work.is_none() {
            // A start of a shell made the connection.
            self.apply(Input::Connected { round_trip_us: self.machine.health().round_trip_us.unwrap_or(0) });
        }
        link.up
    }

    fn answer(&mut self, result: Result<(), BackendError>) {
        for tell in self.waiting.drain(..) {
            // Whoever asked may have stopped waiting.
            let _ = tell.send(result.clone());
        }
    }
}

async fn work_done(work: &mut Option<BoxFuture<'static, Done>>) -> Done {
    match work {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Gives a number in -1.0..1.0 that differs between backends and attempts: spreading needs no better randomness.
fn jitter() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let bits = RandomState::new().hash_one(0u8) % 2_000;
    bits as f64 / 1_000.0 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::fake::Fake;

    const PACE: Pace = Pace { health_interval: Duration::from_secs(30), lifetime: Duration::from_secs(300) };
    const CAP: Duration = Duration::from_secs(20);

    fn connection() -> (Arc<Fake>, Connection) {
        let fake = Fake::new("gpu");
        let connection = Connection::start(fake.clone(), PACE, Clock::start());
        (fake, connection)
    }

    async fn becomes(connection: &Connection, state: HealthState) -> Health {
        let mut health = connection.health().clone();
        let found = tokio::time::timeout(CAP, health.wait_for(|h| h.state == state)).await;
        found.expect("in time").expect("the supervisor lives").clone()
    }

    #[tokio::test]
    async fn callers_that_wait_at_once_share_one_attempt() {
        let (fake, connection) = connection();
        fake.delay(Duration::from_millis(50));
        let all = futures::future::join_all((0..8).map(|_| connection.ready(CAP))).await;
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        assert_eq!(fake.attempts(), 1);
        assert_eq!(becomes(&connection, HealthState::Up).await.attempt, 1);
    }

    #[tokio::test]
    async fn a_refusal_is_told_to_the_caller_and_shown_and_not_repeated() {
        let (fake, connection) = connection();
        let why = BackendError::new(ErrorKind::Authentication, "the key was refused").with_fix("add it");
        fake.refuse(Some(why.clone()));
        assert_eq!(connection.ready(CAP).await, Err(why));
        let health = becomes(&connection, HealthState::Down).await;
        assert_eq!((health.reason.as_deref(), health.fix.as_deref(), health.next_try), (Some("the key was refused"), Some("add it"), None));
        assert!(connection.needs_person());
        connection.set_in_use(true);
        fake.refuse(None);
        assert_eq!(connection.ready(CAP).await, Ok(()), "a wish tries again");
        assert_eq!(fake.attempts(), 2);
    }

    #[tokio::test]
    async fn a_lost_link_shows_its_countdown_and_a_wish_skips_it() {
        let (fake, connection) = connection();
        connection.set_in_use(true);
        connection.ready(CAP).await.expect("connected");
        fake.refuse(Some(BackendError::new(ErrorKind::Unreachable, "no route")));
        fake.lose("cable pulled");
        let health = becomes(&connection, HealthState::Reconnecting).await;
        assert!(health.next_try.is_some() && health.reason.as_deref().is_some_and(|r| r.contains("cable pulled")), "{health:?}");
        fake.refuse(None);
        connection.reconnect(CAP).await.expect("connected again");
        becomes(&connection, HealthState::Up).await;
    }

    #[tokio::test]
    async fn closing_answers_whoever_waits_and_leaves_it_idle() {
        let (fake, connection) = connection();
        fake.delay(Duration::from_secs(600));
        let (waited, ()) = tokio::join!(connection.ready(CAP), async {
            becomes(&connection, HealthState::Connecting).await;
            connection.close().await;
        });
        assert!(waited.is_err_and(|e| e.message.contains("closed on request")));
        becomes(&connection, HealthState::Idle).await;
    }
}
