//! The health of one backend's link as a state machine, with its back-off.
//!
//! Invariant: pure. `now` is an argument, and what should happen next is returned as data ([`Machine::due`]), so every
//! sequence of events can be written down as a table.

use super::{Health, HealthState, Millis};

/// Seconds between attempts: the last one repeats.
const BACK_OFF_S: [i64; 6] = [1, 2, 4, 8, 15, 30];
/// Up for this long, and the next loss starts the back-off from the beginning.
const RESET_AFTER: Millis = 60_000;
/// Time between checks while something is there that would notice a loss.
const BUSY_CHECK: Millis = 3_000;
/// Checks that may be missed in a row before the link counts as lost.
const MISSES: u32 = 3;
/// A round trip above this is slow.
const SLOW_US: u64 = 2_000_000;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Somebody needs the backend now, or asked for a reconnect: skip any wait.
    Wanted,
    /// An attempt has started.
    Trying,
    /// The connection is made.
    Connected {
        /// The round trip, in microseconds.
        round_trip_us: u64,
    },
    /// An attempt failed.
    Failed {
        /// Why.
        reason: String,
        /// What a person can do.
        fix: Option<String>,
        /// Whether nothing will change before a person acts.
        needs_person: bool,
    },
    /// A check was answered.
    Answered {
        /// The round trip, in microseconds.
        round_trip_us: u64,
    },
    /// A check was not answered in time.
    Missed,
    /// The link broke.
    Lost {
        /// Why.
        reason: String,
    },
    /// The connection was closed by us, on purpose.
    Closed,
    /// Whether a command, a process or an attached pane is there.
    InUse(bool),
}

/// What should happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Try to connect.
    Attempt,
    /// Check the link.
    Check,
    /// Close the link: three checks were missed.
    GiveUp,
    /// Close the link: it was idle for its lifetime.
    CloseIdle,
}

/// The state machine of one backend's link.
#[derive(Clone, Debug)]
pub struct Machine {
    health: Health,
    in_use: bool,
    misses: u32,
    up_since: Option<Millis>,
    /// Last time that it was used, for the lifetime.
    last_use: Millis,
    /// Last time that something arrived, as far as we were told.
    last_answer: Millis,
    idle_interval: Millis,
    lifetime: Millis,
    wanted: bool,
    /// Whether there was a connection that nobody closed on purpose: a lost one is made again for as long as it would have
    /// been kept, used or not, so that what was running there is looked after.
    was_up: bool,
}

impl Machine {
    /// Makes the machine of a link that was not used yet. The interval is for checks of an idle link; after `lifetime`
    /// without use it is closed.
    pub fn new(now: Millis, idle_interval: Millis, lifetime: Millis) -> Self {
        let health = Health { since: now, ..Health::default() };
        Self {
            health,
            in_use: false,
            misses: 0,
            up_since: None,
            last_use: now,
            last_answer: now,
            idle_interval,
            lifetime,
            wanted: false,
            was_up: false,
        }
    }

    /// Gives the health as it is shown.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Takes in what happened. `jitter` in -1.0..=1.0 spreads the next attempt by up to 20 %.
    pub fn apply(&mut self, input: Input, now: Millis, jitter: f64) {
        match input {
            Input::Wanted => {
                self.last_use = now;
                if !self.connected() {
                    self.wanted = true;
                }
            }
            Input::InUse(yes) => {
                if self.in_use || yes {
                    self.last_use = now;
                }
                self.in_use = yes;
            }
            Input::Trying => self.trying(now),
            Input::Connected { round_trip_us } => {
                self.up_since = Some(now);
                self.was_up = true;
                self.answered(round_trip_us, now);
            }
            Input::Answered { round_trip_us } => self.answered(round_trip_us, now),
            Input::Missed => self.missed(now),
            Input::Failed { reason, fix, needs_person } => self.failed(reason, fix, needs_person, now, jitter),
            Input::Lost { reason } => self.lost(reason, now, jitter),
            Input::Closed => {
                self.up_since = None;
                self.was_up = false;
                self.health =
                    Health { state: HealthState::Idle, since: now, round_trip_us: self.health.round_trip_us, ..Health::default() };
            }
        }
    }

    /// Tells what should happen next and when. None: nothing until something happens.
    pub fn due(&self) -> Option<(Millis, Action)> {
        match self.health.state {
            HealthState::Connecting => None,
            HealthState::Idle => (self.wanted || self.in_use).then_some((self.health.since, Action::Attempt)),
            HealthState::Down => self.wanted.then_some((self.health.since, Action::Attempt)),
            HealthState::Reconnecting if self.wanted => Some((self.health.since, Action::Attempt)),
            HealthState::Reconnecting => self.health.next_try.map(|at| (at, Action::Attempt)),
            HealthState::Up | HealthState::Degraded if self.misses >= MISSES => Some((self.last_answer, Action::GiveUp)),
            HealthState::Up | HealthState::Degraded => Some(self.due_while_up()),
        }
    }

    /// Tells whether there is a connection.
    pub fn connected(&self) -> bool {
        matches!(self.health.state, HealthState::Up | HealthState::Degraded)
    }

    fn due_while_up(&self) -> (Millis, Action) {
        // A missed check has waited already: the next one goes out at once.
        let every = match (self.misses, self.in_use) {
            (0, true) => BUSY_CHECK,
            (0, false) => self.idle_interval,
            _ => 0,
        };
        let check = (self.last_answer + every, Action::Check);
        let close = (self.last_use + self.lifetime, Action::CloseIdle);
        if !self.in_use && close.0 <= check.0 { close } else { check }
    }

    fn trying(&mut self, now: Millis) {
        self.wanted = false;
        self.health.next_try = None;
        self.health.attempt += 1;
        if matches!(self.health.state, HealthState::Idle | HealthState::Down) {
            self.set(HealthState::Connecting, now);
        }
    }

    fn answered(&mut self, round_trip_us: u64, now: Millis) {
        self.misses = 0;
        self.wanted = false;
        self.last_answer = now;
        self.health.last_heard = Some(now);
        self.health.round_trip_us = Some(round_trip_us);
        self.health.next_try = None;
        if self.up_since.is_none() {
            self.up_since = Some(now);
        }
        if round_trip_us > SLOW_US {
            self.set(HealthState::Degraded, now);
            self.health.reason = Some(format!("slow: the last round trip took {:.1} s", round_trip_us as f64 / 1e6));
        } else {
            self.set(HealthState::Up, now);
            self.health.reason = None;
        }
        self.health.fix = None;
        if self.up_since.is_some_and(|since| now - since >= RESET_AFTER) {
            self.health.attempt = 0;
        }
    }

    fn missed(&mut self, now: Millis) {
        self.misses += 1;
        self.set(HealthState::Degraded, now);
        self.health.reason = Some(format!("no answer to {} of {MISSES} checks", self.misses));
    }

    fn failed(&mut self, reason: String, fix: Option<String>, needs_person: bool, now: Millis, jitter: f64) {
        self.up_since = None;
        self.wanted = false;
        self.health.reason = Some(reason);
        self.health.fix = fix;
        if needs_person {
            self.health.next_try = None;
            self.set(HealthState::Down, now);
        } else {
            self.health.next_try = Some(now + back_off(self.health.attempt, jitter));
            self.set(HealthState::Reconnecting, now);
            // Nobody waits for it: it is tried again when somebody does.
            let keep_trying = self.in_use || (self.was_up && now - self.last_use < self.lifetime);
            if !keep_trying {
                self.was_up = false;
                self.health.next_try = None;
                self.set(HealthState::Idle, now);
            }
        }
    }

    fn lost(&mut self, reason: String, now: Millis, jitter: f64) {
        if self.up_since.is_some_and(|since| now - since >= RESET_AFTER) {
            self.health.attempt = 0;
        }
        self.up_since = None;
        self.misses = 0;
        self.health.reason = Some(reason);
        self.health.fix = None;
        self.health.next_try = Some(now + back_off(self.health.attempt.max(1), jitter));
        self.set(HealthState::Reconnecting, now);
    }

    fn set(&mut self, state: HealthState, now: Millis) {
        if self.health.state != state {
            self.health.state = state;
            self.health.since = now;
        }
    }
}

/// Gives the wait before the next attempt, after `attempt` failed ones (1 at least).
pub fn back_off(attempt: u32, jitter: f64) -> Millis {
    let index = (attempt.max(1) as usize - 1).min(BACK_OFF_S.len() - 1);
    let base = BACK_OFF_S[index] * 1000;
    base + (base as f64 * 0.2 * jitter.clamp(-1.0, 1.0)) as Millis
}

#[cfg(test)]
mod tests {
    use super::*;
    use Input::*;

    fn fail() -> Input {
        Failed { reason: "refused".into(), fix: None, needs_person: false }
    }

    fn run(inputs: &[(Millis, Input)]) -> Machine {
        let mut m = Machine::new(0, 30_000, 300_000);
        for (at, input) in inputs {
            m.apply(input.clone(), *at, 0.0);
        }
        m
    }

    #[test]
    fn idle_until_wanted() {
        let m = run(&[]);
        assert_eq!((m.health().state, m.due()), (HealthState::Idle, None));
        let m = run(&[(5, Wanted)]);
        assert_eq!(m.due().map(|d| d.1), Some(Action::Attempt));
        let m = run(&[(5, Wanted), (6, Trying)]);
        assert_eq!((m.health().state, m.due()), (HealthState::Connecting, None));
    }

    #[test]
    fn back_off_grows_to_thirty_seconds_and_stays() {
        let waits: Vec<Millis> = (1..9).map(|n| back_off(n, 0.0)).collect();
        assert_eq!(waits, [1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 30_000, 30_000]);
        assert_eq!((back_off(1, 1.0), back_off(1, -1.0), back_off(0, 0.0)), (1_200, 800, 1_000));
    }

    #[test]
    fn a_lost_link_in_use_is_tried_again_with_growing_waits() {
        let mut m = run(&[(0, InUse(true)), (0, Trying), (10, Connected { round_trip_us: 500 }), (20, Lost { reason: "reset".into() })]);
        assert_eq!(m.due(), Some((1_020, Action::Attempt)));
        for (at, wait) in [(1_020, 2_000), (3_020, 4_000), (7_020, 8_000)] {
            m.apply(Trying, at, 0.0);
            assert_eq!(m.health().state, HealthState::Reconnecting);
            m.apply(fail(), at, 0.0);
            assert_eq!(m.due(), Some((at + wait, Action::Attempt)), "after the attempt at {at}");
        }
        m.apply(Wanted, 8_000, 0.0);
        assert!(m.due().is_some_and(|(at, action)| at <= 8_000 && action == Action::Attempt), "a wish skips the wait");
    }

    #[test]
    fn sixty_seconds_up_reset_the_back_off() {
        let mut m = run(&[(0, InUse(true)), (0, Trying), (0, fail()), (1_000, Trying), (1_000, fail()), (3_000, Trying)]);
        m.apply(Connected { round_trip_us: 1 }, 3_000, 0.0);
        m.apply(Lost { reason: "x".into() }, 4_000, 0.0);
        assert_eq!(m.due(), Some((8_000, Action::Attempt)), "soon lost again: the back-off goes on");
        m.apply(Trying, 8_000, 0.0);
        m.apply(Connected { round_trip_us: 1 }, 8_000, 0.0);
        m.apply(Lost { reason: "x".into() }, 70_000, 0.0);
        assert_eq!(m.due(), Some((71_000, Action::Attempt)));
    }

    #[test]
    fn three_misses_give_the_link_up_and_one_shows() {
        let mut m = run(&[(0, InUse(true)), (0, Trying), (0, Connected { round_trip_us: 1 })]);
        assert_eq!(m.due(), Some((3_000, Action::Check)));
        m.apply(Missed, 6_000, 0.0);
        assert_eq!((m.health().state, m.due().map(|d| d.1)), (HealthState::Degraded, Some(Action::Check)));
        m.apply(Answered { round_trip_us: 900 }, 6_500, 0.0);
        assert_eq!((m.health().state, m.health().reason.clone()), (HealthState::Up, None));
        for at in [12_000, 15_000, 18_000] {
            m.apply(Missed, at, 0.0);
        }
        assert_eq!(m.due().map(|d| d.1), Some(Action::GiveUp));
    }

    #[test]
    fn what_needs_a_person_is_not_repeated_by_itself() {
        let wrong = Failed { reason: "key refused".into(), fix: Some("add the key".into()), needs_person: true };
        let mut m = run(&[(0, InUse(true)), (0, Trying), (5, wrong)]);
        assert_eq!((m.health().state, m.due()), (HealthState::Down, None));
        m.apply(InUse(true), 10, 0.0);
        assert_eq!(m.due(), None);
        m.apply(Wanted, 20, 0.0);
        assert_eq!(m.due().map(|d| d.1), Some(Action::Attempt));
    }

    #[test]
    fn an_unused_link_is_checked_seldom_and_closed_after_its_lifetime() {
        let mut m = run(&[(0, Wanted), (0, Trying), (0, Connected { round_trip_us: 1 })]);
        assert_eq!(m.due(), Some((30_000, Action::Check)));
        m.apply(Answered { round_trip_us: 1 }, 290_000, 0.0);
        assert_eq!(m.due(), Some((300_000, Action::CloseIdle)));
        m.apply(Closed, 300_000, 0.0);
        assert_eq!((m.health().state, m.due()), (HealthState::Idle, None));
    }

    #[test]
    fn a_lost_link_is_made_again_without_use_until_its_lifetime_is_over() {
        let mut m = run(&[(0, Wanted), (0, Trying), (0, Connected { round_trip_us: 1 }), (10, Lost { reason: "reset".into() })]);
        assert_eq!(m.due(), Some((1_010, Action::Attempt)));
        m.apply(Trying, 1_010, 0.0);
        m.apply(fail(), 1_010, 0.0);
        assert_eq!((m.health().state, m.due()), (HealthState::Reconnecting, Some((3_010, Action::Attempt))));
        m.apply(Trying, 300_000, 0.0);
        m.apply(fail(), 300_000, 0.0);
        assert_eq!((m.health().state, m.due()), (HealthState::Idle, None));
    }

    #[test]
    fn a_failure_that_nobody_waits_for_is_left_alone() {
        let m = run(&[(0, Wanted), (0, Trying), (5, fail())]);
        assert_eq!((m.health().state, m.due()), (HealthState::Idle, None));
        assert_eq!(m.health().reason.as_deref(), Some("refused"));
    }
}
