//! What all connections of the daemon share.
//!
//! Invariant: the counts here go down exactly as often as they went up, however a connection or watch ends.

use super::service::Service;
use crate::model::{DaemonInfo, Event, Level, Millis, Notice};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

/// Notices of the daemon's own that are kept for an overview.
const NOTICES: usize = 50;

/// The daemon as its connections see it.
pub struct Hub<S> {
    pub(super) service: S,
    pub(super) info: DaemonInfo,
    /// The account that may connect.
    pub(super) uid: u32,
    /// Set when the daemon begins to end: no new calls from then on.
    pub(super) stopping: CancellationToken,
    /// Set when the engine has ended: what was to be told has been told.
    pub(super) ended: CancellationToken,
    client_env: RwLock<Vec<String>>,
    clients: watch::Sender<usize>,
    watchers: Mutex<usize>,
    notices: Mutex<VecDeque<Notice>>,
    events: broadcast::Sender<Event>,
}

impl<S: Service> Hub<S> {
    /// Makes the hub of one daemon. `client_env` names the variables that an operator's client is asked for.
    pub fn new(service: S, info: DaemonInfo, uid: u32, client_env: Vec<String>) -> Arc<Self> {
        Arc::new(Self {
            service,
            info,
            uid,
            stopping: CancellationToken::new(),
            ended: CancellationToken::new(),
            client_env: RwLock::new(client_env),
            clients: watch::Sender::new(0),
            watchers: Mutex::new(0),
            notices: Mutex::default(),
            events: broadcast::Sender::new(NOTICES),
        })
    }

    /// Gives the config in force, with links followed.
    pub(super) fn config(&self) -> Option<PathBuf> {
        self.info.config.as_ref().map(PathBuf::from)
    }

    pub(super) fn client_env(&self) -> Vec<String> {
        self.client_env.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_client_env(&self, patterns: Vec<String>) {
        *self.client_env.write().unwrap_or_else(PoisonError::into_inner) = patterns;
    }

    /// Tells every watching client something about the daemon itself, and those that come later, and the log.
    pub(super) fn tell(&self, level: Level, message: String) {
        match level {
            Level::Info => tracing::info!("{message}"),
            Level::Notice | Level::Alert => tracing::warn!("{message}"),
        }
        let notice = Notice { at: now(), level, backend: None, message };
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if notices.len() == NOTICES {
            notices.pop_front();
        }
        notices.push_back(notice.clone());
        // Sent under the lock, so that the order is that of the overview; without a watcher there is nobody to tell.
        let _nobody_watches = self.events.send(Event::Notice { notice });
    }

    /// Gives the notices of the daemon's own.
    pub(super) fn notices(&self) -> Vec<Notice> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Gives the events of the daemon's own, from now on.
    pub(super) fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Gives the number of connections, and its changes.
    pub(super) fn clients(&self) -> watch::Receiver<usize> {
        self.clients.subscribe()
    }

    /// Counts a connection until the guard is dropped.
    pub(super) fn count_client(self: &Arc<Self>) -> impl Drop + use<S> {
        self.clients.send_modify(|count| *count += 1);
        let hub = self.clone();
        OnDrop(move || hub.clients.send_modify(|count| *count -= 1))
    }

    /// Counts a watch until the guard is dropped, and tells the engine.
    pub(super) fn count_watcher(self: &Arc<Self>) -> impl Drop + use<S> {
        self.change_watchers(|count| *count += 1);
        let hub = self.clone();
        OnDrop(move || hub.change_watchers(|count| *count -= 1))
    }

    fn change_watchers(&self, change: impl FnOnce(&mut usize)) {
        let mut count = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut count);
        // Told under the lock, so that the engine hears the counts in their order.
        self.service.set_watchers(*count);
    }
}

/// Gives the time now.
pub(super) fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
