//! What every part of the engine needs: the clock, the folders, the events, and the variables that clients hand over.

use super::clock::Clock;
use super::prompts::Prompts;
use crate::backend::{ClientEnv, Guard};
use crate::model::{Event, Level, News, Notice, Of, Told};
use crate::paths::Paths;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::broadcast;

/// Events that a watcher may be behind before it is told that it lagged.
const EVENTS: usize = 1024;
/// Notices kept for watchers that come later.
const NOTICES: usize = 200;
/// What processes told that is kept for watchers that come later.
const TOLD: usize = 100;

/// Shared by everything of one engine.
pub(crate) struct Shared {
    pub(crate) paths: Paths,
    pub(crate) clock: Clock,
    pub(crate) daemon_id: String,
    pub(crate) events: broadcast::Sender<Event>,
    /// Variables of the newest operator's client.
    pub(crate) client_env: ClientEnv,
    /// Ends local commands when this process is killed.
    pub(crate) guard: Guard,
    /// Questions of logins that wait for an answer.
    pub(crate) prompts: Arc<Prompts>,
    secret_names: Mutex<Vec<String>>,
    /// Counts the configs whose secrets were taken over.
    secrets_epoch: AtomicU64,
    notices: Mutex<VecDeque<Notice>>,
    /// What processes told, and the number of the last.
    told: Mutex<(VecDeque<Told>, u64)>,
}

impl Shared {
    /// Makes it.
    pub(crate) fn new(paths: Paths, daemon_id: String, secret_names: Vec<String>, guard: Guard) -> Arc<Self> {
        Arc::new(Self {
            paths,
            clock: Clock::start(),
            daemon_id,
            events: broadcast::channel(EVENTS).0,
            client_env: ClientEnv::default(),
            guard,
            prompts: Arc::default(),
            secret_names: Mutex::new(secret_names),
            secrets_epoch: AtomicU64::default(),
            notices: Mutex::default(),
            told: Mutex::default(),
        })
    }

    /// Sends an event to whoever watches.
    pub(crate) fn tell(&self, event: Event) {
        // An error means that nobody watches.
        let _ = self.events.send(event);
    }

    /// Says something that a person should know.
    pub(crate) fn notice(&self, level: Level, backend: Option<&str>, message: String) {
        tracing::info!(backend = backend.unwrap_or(""), %message, "notice");
        let notice = Notice { at: self.clock.now(), level, backend: backend.map(str::to_owned), message };
        {
            let mut kept = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == NOTICES {
                kept.pop_front();
            }
            kept.push_back(notice.clone());
        }
        self.tell(Event::Notice { notice });
    }

    /// Gives the notices kept, oldest first.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Makes a thing told of what a process had to tell; `loud`, to whoever watches now or later.
    pub(crate) fn news(&self, of: Option<Of>, news: News, loud: bool) -> Told {
        let mut kept = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        kept.1 += 1;
        let told = Told { number: kept.1, at: self.clock.now(), of, news };
        if !loud {
            return told;
        }
        if kept.0.len() == TOLD {
            kept.0.pop_front();
        }
        kept.0.push_back(told.clone());
        // Sent under the lock, so that the order is that of the numbers.
        self.tell(Event::Told { told: Box::new(told.clone()) });
        told
    }

    /// Gives what was told lately, oldest first.
    pub(crate) fn told_lately(&self) -> Vec<Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).0.iter().cloned().collect()
    }

    /// Takes over the variables that an operator's client hands over.
    pub(crate) fn set_client_env(&self, variables: Vec<(String, String)>) {
        *self.client_env.write().unwrap_or_else(PoisonError::into_inner) = variables;
    }

    /// Gives the names that are kept out of snapshots and from agents.
    pub(crate) fn secret_names(&self) -> Vec<String> {
        self.secret_names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over the names of a config that was read again.
    pub(crate) fn set_secret_names(&self, names: Vec<String>) {
        *self.secret_names.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Says that what is secret may have changed.
    pub(crate) fn secrets_changed(&self) {
        self.secrets_epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// A number that changes when what is secret may have.
    pub(crate) fn secrets_epoch(&self) -> u64 {
        self.secrets_epoch.load(Ordering::Acquire)
    }

    /// Resolves variables to forward: what the newest operator's client handed over, else the daemon's own.
    pub(crate) fn forwarded(&self, names: &[String]) -> BTreeMap<String, String> {
        let handed = self.client_env.read().unwrap_or_else(PoisonError::into_inner).clone();
        let find = |name: &String| {
            let from_client = handed.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
            from_client.or_else(|| std::env::var(name).ok()).map(|value| (name.clone(), value))
        };
        names.iter().filter_map(find).collect()
    }
}
