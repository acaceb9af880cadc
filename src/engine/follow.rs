//! Follows the background processes of one backend, over links that come and go.
//!
//! Invariant: it waits for the backend, never for one process; what it cannot ask about is shown as unknown.

use super::Core;
use super::place::Place;
use super::recover::look_for;
use crate::session::{FollowSettings, Follower};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Notify;

/// After a failure without a link's loss (a shell that cannot be started) it is tried again so much later.
const AGAIN: Duration = Duration::from_secs(5);

/// Follows the background processes of one backend until there are none.
pub(super) async fn follow(core: Weak<Core>, backend: String, wake: Arc<Notify>) {
    let mut open: Option<Follower> = None;
    loop {
        let Some(now) = core.upgrade() else { return };
        let Some(list) = now.followed(&backend) else { return };
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
            drop(now);
            match opened(&place, &list[0].0.root).await {
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
        drop(now);
        let unborn: Vec<_> = list.iter().map(|(spot, _)| spot).filter(|spot| spot.pid == 0).cloned().collect();
        if !unborn.is_empty() {
            match look_for(&place, &unborn).await {
                Ok(became) => {
                    let Some(core) = core.upgrade() else { return };
                    for (spot, became) in unborn.iter().zip(became) {
                        core.settle(spot, became).await;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, backend, "what was about to be started cannot be looked for now");
                    open = None;
                    pause(&place, &wake).await;
                }
            }
            continue;
        }
        let Some(follower) = open.as_mut() else { continue };
        let heard = follower.ask(&list, &wake).await;
        let Some(now) = core.upgrade() else { return };
        match heard {
            Ok(heard) => {
                now.show_background(&backend, true);
                let mut ended = Vec::new();
                for (id, heard) in heard {
                    ended.extend(now.heard(id, heard).await);
                }
                if !ended.is_empty() {
                    follower.remove(&ended).await;
                }
                if now.followed(&backend).is_none() {
                    now.use_changed(&place);
                    return;
                }
            }
            Err(error) => {
                tracing::debug!(%error, backend, "the follower of background processes is gone");
                open = None;
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

async fn opened(place: &Place, root: &str) -> Result<Follower, crate::backend::BackendError> {
    place.reach(None, false).await?;
    let settings = FollowSettings { shell: place.settings.shell, timeout: place.settings.connect_timeout };
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
