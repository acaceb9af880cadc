//! Room for channels on one connection.
//!
//! Invariant: no more channels are opened at a time than the server is known to take, and one is always left for the control
//! shell; the number only shrinks, to one at least, and starts anew with each connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Commands at a time. sshd takes ten sessions but frees them late; with one for the control shell these are eight, of which
/// hardly one is ever refused.
const COMMANDS: usize = 7;

/// The slots of one connection.
pub(super) struct Slots {
    room: Arc<Semaphore>,
    /// How many there are, taken or free.
    limit: AtomicUsize,
    /// Slots to throw away when they come back.
    owed: Mutex<usize>,
}

impl Slots {
    /// All free.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { room: Arc::new(Semaphore::new(COMMANDS)), limit: AtomicUsize::new(COMMANDS), owed: Mutex::new(0) })
    }

    /// Waits for a free one. Cancel safe.
    pub(super) async fn take(self: &Arc<Self>) -> Slot {
        let permit = self.room.clone().acquire_owned().await.ok();
        Slot { permit, slots: self.clone() }
    }

    /// How many are taken.
    pub(super) fn used(&self) -> usize {
        let owed = *self.owed.lock().unwrap_or_else(PoisonError::into_inner);
        (self.limit.load(Ordering::Relaxed) + owed).saturating_sub(self.room.available_permits())
    }

    /// Learns that there is less room than thought: as much as is taken now, but one at least.
    pub(super) fn shrink(&self) {
        let limit = self.limit.load(Ordering::Relaxed);
        let fits = self.used().max(1);
        if fits < limit {
            self.limit.store(fits, Ordering::Relaxed);
            let mut owed = self.owed.lock().unwrap_or_else(PoisonError::into_inner);
            let gone = self.room.forget_permits(limit - fits);
            *owed += limit - fits - gone;
        }
    }

    /// How many commands fit at a time.
    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }
}

/// A taken slot. Dropping it frees it.
pub(super) struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    slots: Arc<Slots>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut owed = self.slots.owed.lock().unwrap_or_else(PoisonError::into_inner);
        if *owed > 0 {
            if let Some(permit) = self.permit.take() {
                permit.forget();
                *owed -= 1;
            }
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
        let a = slots.take().await;
        let b = slots.take().await;
        assert_eq!((slots.used(), slots.limit()), (2, COMMANDS));
        slots.shrink();
        assert_eq!((slots.used(), slots.limit()), (2, 2));
        assert!(slots.take().now_or_never().is_none());
        drop(a);
        let c = slots.take().now_or_never().expect("one is free");
        drop((b, c));
        assert_eq!((slots.used(), slots.limit()), (0, 2));
        slots.shrink();
        assert_eq!(slots.limit(), 1);
        let only = slots.take().now_or_never().expect("one is left");
        assert!(slots.take().now_or_never().is_none());
        drop(only);
        slots.shrink();
        assert_eq!(slots.limit(), 1);
    }
}
