//! Readers for whose sake output stays when the disk does not keep it.
//!
//! Invariant: a hold only ever keeps what the disk did not take; one that is gone holds nothing. Who writes waits for the
//! caller of a command as long as it likes, as with a pipe, and for anybody else only while they read on.

use super::{Inner, lock};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a reader that is not the command's caller may stand still while the command waits for it.
pub(super) const PATIENCE: Duration = if cfg!(test) { Duration::from_millis(200) } else { Duration::from_secs(10) };

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The command's own caller, its consumer as at the end of a pipe.
    Caller,
    /// Anybody else, who looks at it.
    Watcher,
}

/// A reader's claim on the output from its place on. Dropping it gives the claim up.
#[derive(Default)]
pub struct Hold {
    held: Option<(Arc<Inner>, u64)>,
}

impl Hold {
    pub(super) fn new(inner: &Arc<Inner>, reader: Reader, at: u64) -> Self {
        let id = lock(&inner.state).holds.add(reader, at);
        Self { held: Some((inner.clone(), id)) }
    }

    /// Says that everything before `offset` was read. Never waits.
    pub fn passed(&self, offset: u64) {
        if let Some((inner, id)) = &self.held {
            let mut state = lock(&inner.state);
            state.holds.pass(*id, offset);
            inner.let_go(state);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some((inner, id)) = &self.held {
            let mut state = lock(&inner.state);
            state.holds.list.retain(|one| one.id != *id);
            inner.let_go(state);
        }
    }
}

/// All holds on one log.
#[derive(Debug, Default)]
pub(super) struct Holds {
    list: Vec<One>,
    next: u64,
}

#[derive(Debug)]
struct One {
    id: u64,
    reader: Reader,
    /// Everything before it was read.
    at: u64,
    moved: Instant,
    /// It stood still for too long; it holds again once it has moved.
    given_up: bool,
}

impl Holds {
    fn add(&mut self, reader: Reader, at: u64) -> u64 {
        self.next += 1;
        self.list.push(One { id: self.next, reader, at, moved: Instant::now(), given_up: false });
        self.next
    }

    fn pass(&mut self, id: u64, offset: u64) {
        if let Some(one) = self.list.iter_mut().find(|one| one.id == id) {
            (one.at, one.moved, one.given_up) = (one.at.max(offset), Instant::now(), false);
        }
    }

    /// Where the last of all readers is.
    pub(super) fn last(&self) -> Option<u64> {
        self.list.iter().filter(|one| !one.given_up).map(|one| one.at).min()
    }

    /// Where the last of the callers is.
    pub(super) fn last_caller(&self) -> Option<u64> {
        self.list.iter().filter(|one| one.reader == Reader::Caller).map(|one| one.at).min()
    }

    /// When the first watcher before `offset` will have stood still for too long, if somebody waits since `since`.
    pub(super) fn patience(&self, offset: u64, since: Instant) -> Option<Instant> {
        self.waited_for(offset).map(|one| one.moved.max(since) + PATIENCE).min()
    }

    /// Gives up the watchers before `offset` that have stood still for too long.
    pub(super) fn give_up(&mut self, offset: u64, since: Instant) {
        let now = Instant::now();
        let is_late = |one: &One| one.reader == Reader::Watcher && one.at < offset && one.moved.max(since) + PATIENCE <= now;
        self.list.iter_mut().filter(|one| is_late(one)).for_each(|one| one.given_up = true);
    }

    fn waited_for(&self, offset: u64) -> impl Iterator<Item = &One> {
        self.list.iter().filter(move |one| one.reader == Reader::Watcher && !one.given_up && one.at < offset)
    }
}
