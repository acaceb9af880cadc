//! What a process told and its waits have not all heard.
//!
//! Invariant: bounded; a wait hears each thing once and in order, and what it hears no later wait begins with.

use crate::model::{News, Told};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Most that is kept: a quarter of an hour of it.
const MOST: usize = 64;

/// The queue of one process.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    kept: VecDeque<Told>,
    /// The number of the last that some wait heard.
    heard: u64,
}

impl Queue {
    /// Adds what was told.
    pub(crate) fn push(&self, told: Told) {
        let mut inner = self.lock();
        inner.kept.push_back(told);
        if inner.kept.len() > MOST
            && let Some(Told { number, news: News::Matched { lines, dropped }, .. }) = inner.kept.pop_front()
            && number > inner.heard
            && let Some(Told { news: News::Matched { dropped: next, .. }, .. }) = inner.kept.front_mut()
        {
            *next += lines.len() as u64 + dropped;
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Waits for what comes after a number; without one, for what no wait has heard. Cancel safe.
    pub(crate) async fn after(&self, number: Option<u64>) -> Told {
        let number = number.unwrap_or_else(|| self.lock().heard);
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut inner = self.lock();
                if let Some(told) = inner.kept.iter().find(|told| told.number > number).cloned() {
                    inner.heard = inner.heard.max(told.number);
                    return told;
                }
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn told(number: u64) -> Told {
        Told { number, at: 0, of: None, news: News::Matched { lines: vec!["x".into()], dropped: 0 } }
    }

    #[test]
    fn each_is_heard_once_and_waits_at_the_same_time_hear_the_same() {
        let queue = Queue::default();
        let next = |after: Option<u64>| queue.after(after).now_or_never().map(|told| told.number);
        assert_eq!(next(None), None);
        queue.push(told(3));
        queue.push(told(5));
        assert_eq!((next(None), next(Some(3)), next(Some(5))), (Some(3), Some(5), None));
        assert_eq!(next(Some(0)), Some(3), "a wait that was there before");
        assert_eq!(next(None), None, "a later one");
    }

    #[test]
    fn it_is_bounded_and_what_goes_unheard_is_counted() {
        let queue = Queue::default();
        (1..=100).for_each(|n| queue.push(told(n)));
        let first = queue.after(None).now_or_never().unwrap();
        assert_eq!((first.number, first.news), (37, News::Matched { lines: vec!["x".into()], dropped: 36 }));
    }
}
