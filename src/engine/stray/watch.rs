//! Waits for the end of one stray, over links that come and go.
//!
//! Invariant: nothing is connected for the sake of one that nobody adopted, and what a link's loss left unknown is looked at again before it is believed.

use super::super::Core;
use super::super::place::Place;
use crate::backend::{Ask, Family};
use crate::model::{Outcome, ProcessId};
use crate::session::look;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// After a failure without a link's loss it is tried again so much later.
const AGAIN: Duration = Duration::from_secs(10);

/// Waits until a stray has ended.
pub(super) async fn watch(core: Weak<Core>, id: ProcessId) {
    let Some(mut turned) = core.upgrade().map(|core| core.state().strays.turned.subscribe()) else { return };
    loop {
        turned.mark_unchanged();
        let Some(now) = core.upgrade() else { return };
        let Some(held) = now.stray(&id) else { return };
        let place = now.place(Some(&held.backend));
        drop(now);
        let ended = async {
            match place {
                Ok(place) => until_gone(&core, &id, &place).await,
                // Not in the config any more: it may come back.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            outcome = ended => {
                let Some(now) = core.upgrade() else { return };
                return now.stray_ended(&id, outcome).await;
            }
            turned = turned.changed() => {
                if turned.is_err() {
                    return;
                }
            }
        }
    }
}

/// Gives how it ended.
async fn until_gone(core: &Weak<Core>, id: &str, place: &Place) -> Outcome {
    let backend = place.connection.backend();
    let mut link = backend.about().link.clone();
    loop {
        if !link.borrow_and_update().up {
            let adopted = core.upgrade().and_then(|core| {
                core.stray_unknown(id);
                core.stray(id).map(|held| held.adopted)
            });
            if adopted == Some(true) {
                reach(place).await;
                continue;
            }
            // Ends with the place, for which whoever drops this waits.
            if link.wait_for(|link| link.up).await.is_err() {
                return std::future::pending().await;
            }
        }
        match seen(core, id, place).await {
            Some(Ok(family)) => match backend.family(family, Ask::Gone).await {
                Ok(members) => return members.ended.unwrap_or(Outcome::CodeUnknown),
                Err(error) => tracing::debug!(%error, id, "the end of a stray cannot be waited for now"),
            },
            Some(Err(outcome)) => return outcome,
            None => {}
        }
        if link.borrow().up {
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Connects, or waits until that may succeed.
async fn reach(place: &Place) {
    let mut health = place.connection.health().clone();
    health.mark_unchanged();
    let Err(error) = place.reach(None, false).await else { return };
    tracing::debug!(%error, "an adopted stray cannot be asked about now");
    tokio::select! {
        changed = health.changed() => {
            if changed.is_err() {
                std::future::pending::<()>().await;
            }
        }
        () = tokio::time::sleep(AGAIN) => {}
    }
}

/// Looks at its processes. Gives what names them, or how it is known that it has ended; none when it could not be looked at.
async fn seen(core: &Weak<Core>, id: &str, place: &Place) -> Option<Result<Family, Outcome>> {
    let (pids, boot, family): (Vec<u32>, _, _) = {
        let core = core.upgrade()?;
        let held = core.stray(id)?;
        let pids = match held.known.is_empty() {
            true => core.state().table.find(id).ok()?.info.stray.as_ref()?.pids.clone(),
            false => held.known.iter().map(|(pid, _)| *pid).collect(),
        };
        (pids, held.boot, held.family)
    };
    let settings = place.follow_settings(core.upgrade()?.far_cap());
    let looked = match look(place.connection.backend(), &settings, Some(&pids)).await {
        Ok(looked) => looked,
        // Where nothing tells of processes, what names them has to do.
        Err(error) => {
            tracing::debug!(%error, id, "a stray cannot be looked at");
            return place.connection.backend().about().link.borrow().up.then_some(Ok(family));
        }
    };
    if boot.is_some_and(|boot| boot != looked.boot && boot != "-" && looked.boot != "-") {
        let reason = "the machine was started anew while it ran; its exit code is not known".to_owned();
        return Some(Err(Outcome::Lost { reason }));
    }
    let core: Arc<Core> = core.upgrade()?;
    core.looked(id, &looked).map(Ok)
}
