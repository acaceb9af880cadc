//! Waiting for a condition, with a cap.
//!
//! Invariant: the only place of the tests that sleeps, and only between two looks.

use std::time::{Duration, Instant};

/// Generous: reached only when something hangs.
pub(crate) const CAP: Duration = Duration::from_secs(30);

const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Looks until the probe gives a value; panics with `what` at the cap.
#[track_caller]
pub(crate) fn until<T>(what: &str, cap: Duration, mut probe: impl FnMut() -> Option<T>) -> T {
    match within(cap, &mut probe) {
        Some(value) => value,
        None => panic!("not within {cap:?}: {what}"),
    }
}

/// Looks until the probe gives a value; none at the cap.
pub(crate) fn within<T>(cap: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + cap;
    loop {
        if let Some(value) = probe() {
            return Some(value);
        }
        if Instant::now() >= end {
            return None;
        }
        pause();
    }
}

/// Tells whether the probe holds at every look for the whole time: for what must not happen.
pub(crate) fn stays(time: Duration, mut probe: impl FnMut() -> bool) -> bool {
    within(time, || (!probe()).then_some(())).is_none()
}

#[expect(clippy::disallowed_methods, reason = "the one pause of the tests, between two looks at a condition")]
fn pause() {
    std::thread::sleep(BETWEEN_LOOKS);
}
