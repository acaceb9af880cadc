//! Follows the background processes of one backend, over links that come and go.
//!
//! Invariant: it waits for the backend, never for one process; what it cannot ask about is shown as unknown.

use super::Core;
use super::place::Place;
use super::recover::look_for;
use crate::backend::BackendError;
use crate::model::{Event, ProcessId};
use crate::session::{Cap, Followed, Follower, Heard};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// After a failure without a link's loss (a shell that cannot be started) it is tried again so much later.
const AGAIN: Duration = Duration::from_secs(5);

/// Watchers are told that logs have grown at most this often, later by as much for every further eight that have: sixty-four loud
/// processes are no more work for them than a few.
const TELL_EVERY: Duration = Duration::from_millis(8);

/// The processes whose logs have grown since that was told.
#[derive(Default)]
struct Grown {
    ids: Mutex<BTreeSet<ProcessId>>,
    more: Notify,
}

impl Grown {
    fn ids(&self) -> MutexGuard<'_, BTreeSet<ProcessId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, id: ProcessId) {
        self.ids().insert(id);
        self.more.notify_one();
    }
}

/// Tells watchers of logs that have grown, at a bounded rate.
async fn tell(core: Weak<Core>, grown: Arc<Grown>) {
    loop {
        grown.more.notified().await;
        let ids = std::mem::take(&mut *grown.ids());
        let Some(now) = core.upgrade() else { return };
        let pause = TELL_EVERY * u32::try_from(ids.len().div_ceil(8)).unwrap_or(1);
        {
            let state = now.state();
            for process in ids {
                if let Ok(entry) = state.table.find(&process) {
                    now.shared.tell(Event::Output { total: entry.log.total(), process });
                }
            }
        }
        drop(now);
        tokio::time::sleep(pause).await;
    }
}

/// Follows the background processes of one backend until there are none.
pub(super) async fn follow(core: Weak<Core>, backend: String, wake: Arc<Notify>) {
    let mut open: Option<Follower> = None;
    let grown = Arc::new(Grown::default());
    let _telling = AbortOnDropHandle::new(tokio::spawn(tell(core.clone(), grown.clone())));
    loop {
        let Some(now) = core.upgrade() else { return };
        let Some(mut list) = now.followed(&backend) else { return };
        let Ok(place) = now.place(Some(&backend)) else {
            // Not in the config any more: it may come back.
            open = None;
            now.show_background(&backend, false);
            drop(now);
            wake.notified().await;
            continue;
        };
        if open.is_none() {
            if !place.connection.backend().about().link.borrow().up {
                now.show_background(&backend, false);
            }
            now.use_changed(&place);
            let cap = now.far_cap();
            drop(now);
            match opened(cap, &place, &list[0].spot.root).await {
                Ok(follower) => open = Some(follower),
                Err(error) => {
                    tracing::debug!(%error, backend, "background processes cannot be followed now");
                    if let Some(core) = core.upgrade() {
                        core.show_background(&backend, false);
                    }
                    pause(&place, &wake).await;
                }
            }
            continue;
        }
        let cap = now.far_cap();
        drop(now);
        let unborn: Vec<_> = list.iter().map(|one| &one.spot).filter(|spot| spot.pid == 0).cloned().collect();
        if !unborn.is_empty() {
            match look_for(&place, &unborn, cap).await {
                Ok(became) => {
                    let Some(core) = core.upgrade() else { return };
                    for (spot, became) in unborn.iter().zip(became) {
                        core.settle(spot, became).await;
                    }
                }
                // The others are followed all the same; it is looked for again after their next answer.
                Err(error) if unborn.len() < list.len() => {
                    tracing::debug!(%error, backend, "what was about to be started cannot be looked for now");
                    list.retain(|one| one.spot.pid != 0);
                }
                Err(error) => {
                    tracing::debug!(%error, backend, "what was about to be started cannot be looked for now");
                    open = None;
                    pause(&place, &wake).await;
                }
            }
            if list.iter().any(|one| one.spot.pid == 0) {
                continue;
            }
        }
        let Some(follower) = open.as_mut() else { continue };
        match listen(&core, &backend, follower, &list, (&wake, &grown)).await {
            Ok(ended) => {
                if !ended.is_empty() {
                    follower.remove(&list[0].spot.root, &ended).await;
                }
                let Some(now) = core.upgrade() else { return };
                if now.followed(&backend).is_none() {
                    now.use_changed(&place);
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, backend, "the follower of background processes is gone");
                open = None;
                let Some(now) = core.upgrade() else { return };
                if !place.connection.backend().about().link.borrow().up {
                    now.show_background(&backend, false);
                }
                drop(now);
                if error.kind == crate::backend::ErrorKind::Internal {
                    pause(&place, &wake).await;
                }
            }
        }
    }
}

/// Asks once, and takes in what is told as it comes; gives those that have ended.
async fn listen(
    core: &Weak<Core>,
    backend: &str,
    follower: &mut Follower,
    list: &[Followed],
    (wake, grown): (&Notify, &Grown),
) -> Result<Vec<ProcessId>, BackendError> {
    follower.ask(list).await?;
    let mut ended = Vec::new();
    let mut known = false;
    loop {
        let next = follower.next(list, wake).await?;
        let Some(now) = core.upgrade() else { return Ok(ended) };
        if !std::mem::replace(&mut known, true) {
            now.show_background(backend, true);
        }
        let Some((id, heard)) = next else { return Ok(ended) };
        let grows = !matches!(heard, Heard::Ended { .. });
        let one = now.heard(id.clone(), heard).await;
        if grows {
            grown.add(id);
        }
        ended.extend(one);
    }
}

async fn opened(cap: Cap, place: &Place, root: &str) -> Result<Follower, BackendError> {
    place.reach(None, false).await?;
    let settings = place.follow_settings(cap);
    Follower::open(place.connection.backend(), &settings, root).await
}

/// Waits until the backend may be there again.
async fn pause(place: &Place, wake: &Notify) {
    let mut health = place.connection.health().clone();
    health.mark_unchanged();
    tokio::select! {
        changed = health.changed() => {
            if changed.is_err() {
                tokio::time::sleep(AGAIN).await;
            }
        }
        () = wake.notified() => {}
        () = tokio::time::sleep(AGAIN) => {}
    }
}
