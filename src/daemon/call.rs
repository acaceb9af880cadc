//! One call in progress: its stream, what its client wishes, and its stdin.
//!
//! Invariant: a call ends with exactly one reply or error, unless the client forgot it or is gone.

use super::hello::Guest;
use super::hub::Hub;
use crate::model::Stream;
use crate::protocol::calls::CallError;
use crate::protocol::credit::{Credit, STDIN_WINDOW, Taken, WINDOW, cost};
use crate::protocol::frame::Kind;
use crate::protocol::outbox::{Outbox, Room};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use tokio_util::bytes::Bytes;

/// What the client wants of a call now; only ever goes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    /// Go on.
    Go,
    /// End it, and tell how it ended.
    Cancel,
    /// End it; nothing more is wanted.
    Forget,
    /// The client is gone.
    Gone,
}

/// A call's state, shared with the connection that hears its client.
pub(super) struct State {
    wish: watch::Sender<Wish>,
    /// The window of what we send.
    pub(super) credit: Credit,
    pub(super) stdin: StdinQueue,
    /// Whether the client has the log's file open.
    pub(super) opened: AtomicBool,
}

/// What a call's handler works with.
pub(super) struct Call<S> {
    pub(super) id: u32,
    pub(super) hub: Arc<Hub<S>>,
    pub(super) guest: Arc<Guest>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) state: Arc<State>,
}

impl State {
    pub(super) fn new() -> Self {
        Self {
            wish: watch::Sender::new(Wish::Go),
            credit: Credit::new(WINDOW),
            stdin: StdinQueue::default(),
            opened: AtomicBool::new(false),
        }
    }

    /// Takes up a wish of the client.
    pub(super) fn wish(&self, wish: Wish) {
        self.wish.send_modify(|now| *now = wish.max(*now));
        if wish >= Wish::Forget {
            // Nobody takes output any more: what waits for the window must not wait for ever.
            self.credit.close();
            self.stdin.end();
        }
    }
}

impl<S> Call<S> {
    /// Gives the wish of the client now.
    pub(super) fn wish(&self) -> Wish {
        *self.state.wish.borrow()
    }

    /// Waits until the client wishes at least this. Cancel safe.
    pub(super) async fn wished(&self, least: Wish) -> Wish {
        let mut wish = self.state.wish.subscribe();
        match wish.wait_for(|now| *now >= least).await {
            Ok(now) => *now,
            // The state, and with it the sender, lives as long as this call.
            Err(_) => Wish::Gone,
        }
    }

    /// Sends something on the way to the reply. Never waits.
    pub(super) fn item<T: Serialize>(&self, value: &T) -> Result<(), CallError> {
        let text = serde_json::to_vec(value).map_err(super::errors::no_json)?;
        self.state.credit.spend(cost(text.len()));
        self.outbox.push_text(Kind::Item, self.id, text);
        Ok(())
    }

    /// Sends data for which there is room.
    pub(super) fn data(&self, room: Room, pieces: Vec<(u64, Stream, Bytes)>) {
        self.state.credit.spend(pieces.iter().map(|(_, _, bytes)| cost(bytes.len())).fold(0, u32::saturating_add));
        self.outbox.push_data(room, self.id, pieces);
    }

    /// Ends the stream.
    pub(super) fn end(&self, end: Result<Vec<u8>, CallError>) {
        if self.wish() >= Wish::Forget {
            return;
        }
        match end {
            Ok(text) => self.outbox.push_text(Kind::Reply, self.id, text),
            Err(error) => {
                tracing::debug!(id = self.id, %error, "a call failed");
                if let Err(error) = self.outbox.push_json(Kind::Error, self.id, &error) {
                    tracing::error!(%error, "an error has no JSON form");
                }
            }
        }
    }
}

/// The stdin that has arrived and was not taken yet.
#[derive(Default)]
pub(super) struct StdinQueue {
    inner: Mutex<Queue>,
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Vec<u8>>,
    waiting: u32,
    ended: bool,
}

impl StdinQueue {
    /// Adds what arrived; false when the client sent more than its window holds.
    pub(super) fn push(&self, bytes: Vec<u8>) -> bool {
        let mut queue = self.lock();
        if queue.ended {
            return true;
        }
        // One frame may overdraw the window.
        if queue.waiting > STDIN_WINDOW {
            return false;
        }
        queue.waiting = queue.waiting.saturating_add(cost(bytes.len()));
        queue.pieces.push_back(bytes);
        drop(queue);
        self.changed.notify_one();
        true
    }

    /// Says that no more comes.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }

    /// Says that nobody reads: what comes is dropped.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        *queue = Queue { ended: true, ..Queue::default() };
    }

    /// Waits for the next piece; none at the end. Cancel safe.
    pub(super) async fn next(&self, taken: &mut Taken) -> Option<(Vec<u8>, Option<u32>)> {
        loop {
            {
                let mut queue = self.lock();
                if let Some(bytes) = queue.pieces.pop_front() {
                    queue.waiting = queue.waiting.saturating_sub(cost(bytes.len()));
                    let grant = taken.take(cost(bytes.len()));
                    return Some((bytes, grant));
                }
                if queue.ended {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn stdin_over_its_window_is_noticed() {
        let queue = StdinQueue::default();
        let mut sent = 0;
        while queue.push(vec![0; 64 << 10]) {
            sent += 1;
            assert!(sent < 100);
        }
        assert_eq!(sent, 8);
    }

    #[test]
    fn stdin_arrives_in_order_and_then_ends() {
        let queue = StdinQueue::default();
        let mut taken = Taken::new(STDIN_WINDOW);
        assert!(queue.next(&mut taken).now_or_never().is_none());
        assert!(queue.push(b"a".to_vec()) && queue.push(b"b".to_vec()));
        queue.end();
        let mut next = || queue.next(&mut taken).now_or_never().unwrap().map(|(bytes, _)| bytes);
        assert_eq!((next(), next(), next()), (Some(b"a".to_vec()), Some(b"b".to_vec()), None));
    }

    #[test]
    fn a_wish_never_goes_back() {
        let state = State::new();
        state.wish(Wish::Gone);
        state.wish(Wish::Cancel);
        assert_eq!(*state.wish.borrow(), Wish::Gone);
    }
}
