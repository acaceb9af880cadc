//! Room for channels on one connection.
//!
//! Invariant: no more channels are opened at a time than the server is known to take, and one is always left for the control
//! shell; the number only shrinks, to one at least, and starts anew with each connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Commands at a time. sshd takes ten sessions but frees them late; with one for the control shell these are eight, of which
/// hardly one is ever refused.
const COMMANDS: usize = 7;

/// The slots of one connection.
pub(super) struct Slots {
    room: Arc<Semaphore>,
    /// How many there are, taken or free.
    limit: AtomicUsize,
    /// How many of those taken hold a channel that the server has confirmed.
    open: AtomicUsize,
    /// Slots to throw away when they come back.
    owed: Mutex<usize>,
    /// When one was last given back.
    freed: Mutex<Instant>,
}

impl Slots {
    /// All free.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(COMMANDS)),
            limit: AtomicUsize::new(COMMANDS),
            open: AtomicUsize::new(0),
            owed: Mutex::new(0),
            freed: Mutex::new(Instant::now()),
        })
    }

    /// Waits for a free one. Cancel safe.
    pub(super) async fn take(self: &Arc<Self>) -> Slot {
        let permit = self.room.clone().acquire_owned().await.ok();
        Slot { permit, open: false, slots: self.clone() }
    }

    /// Takes a free one, if there is one.
    pub(super) fn try_take(self: &Arc<Self>) -> Option<Slot> {
        let permit = self.room.clone().try_acquire_owned().ok()?;
        Some(Slot { permit: Some(permit), open: false, slots: self.clone() })
    }

    /// Whether none was taken for so long.
    pub(super) fn idle_for(&self, long: Duration) -> bool {
        self.used() == 0 && self.freed.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= long
    }

    /// How many are taken.
    pub(super) fn used(&self) -> usize {
        let owed = *self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        (self.limit.load(Ordering::Relaxed) + owed).saturating_sub(self.room.available_permits())
    }

    /// Learns that there is less room than thought: as much as is open now, but one at least.
    pub(super) fn shrink(&self) {
        let limit = self.limit.load(Ordering::Relaxed);
        let fits = self.open().max(1);
        if fits < limit {
            self.limit.store(fits, Ordering::Relaxed);
            let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
            let gone = self.room.forget_permits(limit - fits);
            *owed += limit - fits - gone;
        }
    }

    /// How many are open.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// How many commands fit at a time.
    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }
}

/// A taken slot. Dropping it frees it.
pub(super) struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    open: bool,
    slots: Arc<Slots>,
}

impl Slot {
    /// The server has confirmed its channel.
    pub(super) fn confirmed(&mut self) {
        if !self.open {
            self.open = true;
            self.slots.open.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.open {
            self.slots.open.fetch_sub(1, Ordering::Relaxed);
        }
        *self.slots.freed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let mut owed = self.slots.owed.lock().unwrap_or_else(PoisonError::into_inner);
        if *owed > 0
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
            *owed -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[tokio::test]
    async fn room_shrinks_to_what_fits_and_not_below_one() {
        let slots = Slots::new();
        let (mut a, mut b, waiting) = (slots.take().await, slots.take().await, slots.take().await);
        a.confirmed();
        b.confirmed();
        assert_eq!((slots.used(), slots.open(), slots.limit()), (3, 2, COMMANDS));
        // The third was refused: two is what fits.
        slots.shrink();
        assert_eq!((slots.used(), slots.open(), slots.limit()), (3, 2, 2));
        drop(waiting);
        assert!(slots.take().now_or_never().is_none());
        drop(a);
        let c = slots.take().now_or_never().expect("one is free");
        drop((b, c));
        assert_eq!((slots.used(), slots.open(), slots.limit()), (0, 0, 2));
        slots.shrink();
        assert_eq!(slots.limit(), 1);
        let only = slots.take().now_or_never().expect("one is left");
        assert!(slots.take().now_or_never().is_none());
        drop(only);
        slots.shrink();
        assert_eq!(slots.limit(), 1);
    }
}
