//! Ending by itself: no client and no process for `idle_exit`.
//!
//! Invariant: it wakes only when something changes; a client or a process starts the time anew.

use super::hub::Hub;
use super::service::Service;
use crate::model::Event;
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

/// Waits until there was no client and no process for the time in `limit`, whose changes count at once; for ever while it
/// holds none. Cancel safe, but the time starts anew.
pub(super) async fn idle<S: Service>(hub: &Hub<S>, mut limit: watch::Receiver<Option<Duration>>) {
    let mut clients = hub.clients();
    loop {
        // Only the sender's owner ends this wait, by dropping it.
        if clients.wait_for(|count| *count == 0).await.is_err() {
            return;
        }
        let mut events = hub.service.events();
        let (mut since, mut ran) = (Instant::now(), false);
        loop {
            let runs = !hub.service.running().is_empty();
            if runs || std::mem::replace(&mut ran, runs) {
                since = Instant::now();
            }
            let deadline = limit.borrow_and_update().filter(|_| !runs).map(|limit| since + limit);
            tokio::select! {
                biased;
                _ = clients.wait_for(|count| *count > 0) => break,
                () = process_changed(&mut events) => {}
                changed = limit.changed() => if changed.is_err() {
                    return;
                },
                () = at(deadline) => return,
            }
        }
    }
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Waits until a process may have started or ended.
async fn process_changed(events: &mut broadcast::Receiver<Event>) {
    loop {
        match events.recv().await {
            Ok(Event::Process { .. }) | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
