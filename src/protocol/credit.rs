//! The window of one direction of one stream: how much its sender may still send.
//!
//! Invariant: a sender sends while the window is above zero, so what waits unread is at most the window and one frame; the
//! reader grants what it has taken out of its queue. A reader that stands still stops its own stream alone.

use std::sync::Mutex;
use tokio::sync::Notify;

/// The window of what the daemon sends on a stream: output and events.
pub const WINDOW: u32 = 2 << 20;
/// The window of what a client sends on a stream: stdin.
pub const STDIN_WINDOW: u32 = 512 << 10;
/// What a frame costs beyond its payload, so that many tiny frames are bounded too.
pub const FRAME_COST: u32 = 64;

/// Gives what a payload of `len` bytes takes from the window.
pub fn cost(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX).saturating_add(FRAME_COST)
}

/// The sender's side of a window.
#[derive(Debug)]
pub struct Credit {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    left: i64,
    closed: bool,
}

impl Credit {
    /// Makes a window of `window` bytes.
    pub fn new(window: u32) -> Self {
        Self { state: Mutex::new(State { left: i64::from(window), closed: false }), changed: Notify::new() }
    }

    /// Adds what the reader granted.
    pub fn grant(&self, amount: u32) {
        self.with(|state| state.left = state.left.saturating_add(i64::from(amount)));
        self.changed.notify_one();
    }

    /// Says that nothing more can be sent.
    pub fn close(&self) {
        self.with(|state| state.closed = true);
        self.changed.notify_one();
    }

    /// Takes what a frame costs. The window may go below zero by one frame.
    pub fn spend(&self, amount: u32) {
        self.with(|state| state.left -= i64::from(amount));
    }

    /// Waits until something may be sent; false when the window is closed. One waiter at a time. Cancel safe.
    pub async fn available(&self) -> bool {
        loop {
            let (left, closed) = self.with(|state| (state.left, state.closed));
            if closed {
                return false;
            }
            if left > 0 {
                return true;
            }
            self.changed.notified().await;
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        change(&mut state)
    }
}

/// The reader's side of a window: counts what was taken and says when to grant it.
#[derive(Debug)]
pub struct Taken {
    step: u32,
    pending: u32,
}

impl Taken {
    /// Counts for a window of `window` bytes; grants come in quarters of it, so a short stream never needs one.
    pub fn new(window: u32) -> Self {
        Self { step: window / 4, pending: 0 }
    }

    /// Counts a frame that was taken out of the queue; gives what is to be granted now, if anything.
    pub fn take(&mut self, amount: u32) -> Option<u32> {
        self.pending = self.pending.saturating_add(amount);
        (self.pending >= self.step).then(|| std::mem::take(&mut self.pending))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_sender_may_overdraw_by_one_frame_and_then_waits() {
        let credit = Credit::new(100);
        assert_eq!(credit.available().now_or_never(), Some(true));
        credit.spend(500);
        assert_eq!(credit.available().now_or_never(), None);
        credit.grant(400);
        assert_eq!(credit.available().now_or_never(), None);
        credit.grant(1);
        assert_eq!(credit.available().now_or_never(), Some(true));
        credit.close();
        assert_eq!(credit.available().now_or_never(), Some(false));
    }

    #[tokio::test]
    async fn a_grant_wakes_the_sender() {
        let credit = std::sync::Arc::new(Credit::new(0));
        let waiting = tokio::spawn({
            let credit = credit.clone();
            async move { credit.available().await }
        });
        tokio::task::yield_now().await;
        credit.grant(1);
        assert!(waiting.await.unwrap());
    }

    #[test]
    fn grants_come_in_quarters_and_lose_nothing() {
        let mut taken = Taken::new(400);
        assert_eq!(taken.take(99), None);
        assert_eq!(taken.take(51), Some(150));
        assert_eq!(taken.take(100), Some(100));
        assert_eq!(taken.take(1), None);
    }
}
