//! The engine's clock: milliseconds since the epoch that never run backwards.
//!
//! Invariant: a jump of the system's clock changes no order and no wait; only what is shown is off by it.

use crate::model::Millis;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// A clock that starts at the system's time and then follows the monotonic one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    epoch: Millis,
}

impl Clock {
    /// Starts the clock now.
    pub fn start() -> Self {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as Millis);
        Self { start: Instant::now(), epoch }
    }

    /// Gives the time at which the clock was started.
    pub fn started(&self) -> Millis {
        self.epoch
    }

    /// Gives the time now.
    pub fn now(&self) -> Millis {
        self.epoch + self.start.elapsed().as_millis() as Millis
    }

    /// Gives the instant at which the clock shows `at` (now, when that has passed).
    pub fn instant(&self, at: Millis) -> Instant {
        self.start + Duration::from_millis((at - self.epoch).max(0) as u64)
    }
}
