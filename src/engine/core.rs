//! The engine's state and what changes it.
//!
//! Invariant: events are told while the state is locked, so that their order is true; the lock is never held over a wait.

use super::background::Backgrounds;
use super::journal;
use super::place::Place;
use super::retention::{self, Retention};
use super::shared::Shared;
use super::stray::Strays;
use super::table::Table;
use super::texts::Texts;
use super::watch::Together;
use super::{Again, CLOSE_LIMIT, EngineError, SHUTDOWN_GRACE, SHUTDOWN_LIMIT, aftermath};
use crate::backend::Guard;
use crate::config::{Config, Limits, nearest};
use crate::model::{DaemonInfo, EndedBy, Event, Level, Overview, ProcessInfo};
use crate::paths::Paths;
use crate::session::{Stop, log::Log};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};

/// A shell that waits for its next command is thrown away after this long without one, when no pane is attached.
const COOL_AFTER: Duration = Duration::from_secs(60);

/// What the lock protects.
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) places: BTreeMap<String, Arc<Place>>,
    pub(crate) table: Table,
    pub(crate) lost: Vec<aftermath::Lost>,
    /// Backend, session and command of what a daemon before this one left unfinished, until the session was told.
    pub(crate) lost_sessions: Vec<(String, String, String)>,
    pub(crate) background: Backgrounds,
    pub(crate) strays: Strays,
    pub(crate) retention: Retention,
    pub(crate) together: Together,
    watchers: usize,
    stopping: bool,
}

/// The engine behind its handle.
pub(crate) struct Core {
    pub(crate) shared: Arc<Shared>,
    state: Mutex<State>,
    /// Wakes the journal.
    pub(crate) changed: Arc<Notify>,
    /// Wakes whoever waits for idleness.
    pub(crate) idle: Notify,
    /// Held while the background processes are written down, so that an older state never follows a newer one.
    pub(crate) checkpointing: Arc<tokio::sync::Mutex<super::recover::Written>>,
    /// How often that was asked for.
    pub(crate) checkpoints: AtomicU64,
    /// As that, for strays.
    pub(crate) keeping_strays: Arc<tokio::sync::Mutex<Texts>>,
    /// Wakes what drops rows and logs.
    pub(crate) retained: Arc<Notify>,
}

impl Core {
    /// Starts the engine (see [`super::Engine::start`]).
    pub(crate) async fn start(config: Config, paths: Paths, again: Option<Again>) -> Result<Arc<Self>, EngineError> {
        let fault = |e: crate::paths::PathError| EngineError::Internal(e.to_string());
        let daemon_id = paths.daemon_id().map_err(fault)?;
        let guard = again.as_ref().map(guard).unwrap_or_default();
        let shared = Shared::new(paths, daemon_id, config.redact.names.clone(), guard);
        let lifetime = config.lifetime;
        let places = config.backends.iter().map(|b| (b.name.clone(), Place::new(b.clone(), &shared, lifetime))).collect();
        for text in &config.notices {
            shared.notice(Level::Notice, None, text.clone());
        }
        let state = State {
            config,
            places,
            table: Table::default(),
            lost: vec![],
            lost_sessions: vec![],
            background: Backgrounds::default(),
            strays: Strays::default(),
            retention: Retention::default(),
            together: Together::default(),
            watchers: 0,
            stopping: false,
        };
        let core = Arc::new(Self {
            shared,
            state: Mutex::new(state),
            changed: Arc::new(Notify::new()),
            idle: Notify::new(),
            checkpointing: Arc::default(),
            checkpoints: AtomicU64::default(),
            keeping_strays: Arc::default(),
            retained: Arc::new(Notify::new()),
        });
        let journal_path = core.journal_path();
        let path = journal_path.clone();
        let (logs, cap) = (core.shared.paths.logs(), core.limits().log_bytes);
        let left = tokio::task::spawn_blocking(move || {
            let lines = journal::left_behind(&path).into_iter();
            (
                lines.map(|line| (aftermath::log_of(&logs, &line, cap), line)).map(|(log, line)| (line, log)).collect(),
                journal::written(&path),
            )
        });
        let (lines, written): (Vec<_>, _) = left.await.unwrap_or_default();
        core.take_in_journal(lines, written);
        let places: Vec<Arc<Place>> = core.state().places.values().cloned().collect();
        for place in &places {
            place.load_sessions(&core.shared).await;
            tokio::spawn(aftermath::follow_health(Arc::downgrade(&core), Arc::downgrade(place)));
        }
        let weak = Arc::downgrade(&core);
        let running = move || weak.upgrade().map(|core| core.attended());
        core.take_in_checkpoint().await;
        core.take_in_strays().await;
        let (weak, texts) = (Arc::downgrade(&core), Mutex::new(Texts::default()));
        let clean = move |lines: &mut [journal::Line]| {
            if let Some(core) = weak.upgrade() {
                let mut texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
                texts.clean(&core, lines.iter_mut().map(journal::Line::text));
            }
        };
        tokio::spawn(journal::keep(journal_path, core.changed.clone(), running, clean));
        core.changed.notify_one();
        core.take_in_logs().await;
        // Nobody waits for it: old logs may go while the first commands run.
        tokio::spawn(retention::keep(Arc::downgrade(&core)));
        Ok(core)
    }

    /// Locks the state. Never hold it over a wait.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves whole rows: changes are single assignments.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal_path(&self) -> std::path::PathBuf {
        self.shared.paths.state.join(format!("running-{}.json", self.shared.paths.host))
    }

    /// Gives the place of a backend, the default one when none is named; an unknown name fails with the known ones.
    pub(crate) fn place(&self, name: Option<&str>) -> Result<Arc<Place>, EngineError> {
        let state = self.state();
        let name = name.unwrap_or(&state.config.default_backend);
        if let Some(place) = state.places.get(name) {
            return Ok(place.clone());
        }
        if name.starts_with('@') || name.contains(',') {
            return Err(EngineError::Usage(format!("{name:?} names several backends at once, which is not in this version; name one")));
        }
        let mut known: Vec<&Arc<Place>> = state.places.values().collect();
        known.sort_by_key(|p| p.slot());
        let names: Vec<&str> = known.iter().map(|p| p.settings.name.as_str()).collect();
        let near = nearest(name, names.iter().copied()).map_or_else(String::new, |n| format!("; did you mean {n}?"));
        Err(EngineError::NotFound(format!("no backend {name:?}: there are {}{near}", names.join(", "))))
    }

    /// Gives the bounds in force.
    pub(crate) fn limits(&self) -> Limits {
        self.state().config.limits.clone()
    }

    /// Gives the longest deadline of an agent's foreground command.
    pub(crate) fn max_foreground(&self) -> Duration {
        self.state().config.max_foreground
    }

    /// Adds a command that was accepted; refused while the daemon ends.
    pub(crate) fn add(
        &self,
        info: ProcessInfo,
        log: Arc<Log>,
        stops: mpsc::Sender<Stop>,
        ended: watch::Receiver<bool>,
    ) -> Result<(), EngineError> {
        let mut state = self.state();
        if state.stopping {
            return Err(EngineError::Refused("the daemon is ending; nothing was run".into()));
        }
        if info.background {
            state.room_in_background(&info.backend)?;
        }
        state.table.add(info.clone(), log, stops, ended);
        self.shared.tell(Event::Process { process: Box::new(info) });
        Ok(())
    }

    /// Tells the supervisor and the watchers that a backend's use has changed.
    pub(crate) fn use_changed(&self, place: &Arc<Place>) {
        let watched = self.state().watchers > 0;
        let name = &place.settings.name;
        let used = watched || place.running() > 0 || self.has_background(name) || self.has_adopted(name);
        place.connection.set_in_use(used);
        if watched {
            self.tell_backend(place);
        }
        if !used {
            cool_later(place);
        }
    }

    /// Tells watchers how a backend is.
    pub(crate) fn tell_backend(&self, place: &Place) {
        let _order = self.state();
        self.shared.tell(Event::Backend { backend: Box::new(place.info()) });
    }

    /// Takes in how many front ends watch.
    pub(crate) fn set_watchers(&self, count: usize) {
        let places: Vec<Arc<Place>> = {
            let mut state = self.state();
            state.watchers = count;
            state.places.values().cloned().collect()
        };
        for place in places {
            self.use_changed(&place);
        }
    }

    /// Gives everything at this moment.
    pub(crate) fn overview(&self) -> Overview {
        let state = self.state();
        let mut places: Vec<&Arc<Place>> = state.places.values().collect();
        places.sort_by_key(|p| p.slot());
        let daemon = DaemonInfo {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").into(),
            started: self.shared.clock.started(),
            config: state.config.source.as_ref().map(|p| p.display().to_string()),
            state_dir: self.shared.paths.state.display().to_string(),
            host: self.shared.paths.host.clone(),
        };
        Overview {
            daemon,
            default_backend: state.config.default_backend.clone(),
            backends: places.iter().map(|p| p.info()).collect(),
            processes: state.table.rows(),
            sessions: places.iter().flat_map(|p| p.open_sessions()).map(|s| s.info()).collect(),
            notices: self.shared.notices(),
            told: self.shared.told_lately(),
            prompts: self.shared.prompts.open(),
        }
    }

    /// The commands that end with this daemon.
    fn attended(&self) -> Vec<ProcessInfo> {
        self.state().table.running().into_iter().filter(|info| !info.detached).collect()
    }

    /// Ends a command and waits for it.
    pub(crate) async fn end(self: &Arc<Self>, process: &str, by: EndedBy, grace: Duration) -> Result<ProcessInfo, EngineError> {
        let (stops, id) = {
            let mut state = self.state();
            let entry = state.table.find(process)?;
            let (stops, id) = (entry.stops.clone(), entry.info.id.clone());
            if let Some(entry) = state.table.get_mut(&id).filter(|e| !e.info.state.is_ended()) {
                entry.info.state = crate::model::ProcessState::Stopping;
                self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
            }
            (stops, id)
        };
        if let Some(done) = self.end_stray(&id, by, grace).await {
            return done;
        }
        if let Some(done) = self.end_in_background(&id, by, grace).await {
            return done;
        }
        // An error means that it has ended already, which is what was wanted.
        let _ = stops.send(Stop::End { by, grace }).await;
        self.ended(&id).await
    }

    /// Waits for the end of a process.
    pub(crate) async fn ended(&self, process: &str) -> Result<ProcessInfo, EngineError> {
        let (mut ended, id) = {
            let state = self.state();
            let entry = state.table.find(process)?;
            (entry.ended.clone(), entry.info.id.clone())
        };
        // The sender goes only after it has said that the process has ended.
        let _ = ended.wait_for(|ended| *ended).await;
        self.state().table.find(&id).map(super::table::Entry::shown)
    }

    /// Takes up a changed config.
    pub(crate) async fn reload(self: &Arc<Self>, config: Config) {
        let (fresh, gone) = {
            let mut state = self.state();
            let lifetime = config.lifetime;
            let mut places = BTreeMap::new();
            let mut fresh = Vec::new();
            for settings in &config.backends {
                let old = state.places.remove(&settings.name).filter(|p| p.takes(settings) && state.config.lifetime == lifetime);
                let place = old.unwrap_or_else(|| {
                    let place = Place::new(settings.clone(), &self.shared, lifetime);
                    fresh.push(place.clone());
                    place
                });
                places.insert(settings.name.clone(), place);
            }
            // What is left is gone or was replaced; its commands hold it until they have ended.
            let gone: Vec<Arc<Place>> = std::mem::replace(&mut state.places, places).into_values().collect();
            self.shared.set_secret_names(config.redact.names.clone());
            for text in &config.notices {
                self.shared.notice(Level::Notice, None, text.clone());
            }
            state.config = config;
            (fresh, gone)
        };
        self.shared.secrets_changed();
        drop(gone);
        for place in &fresh {
            place.load_sessions(&self.shared).await;
            tokio::spawn(aftermath::follow_health(Arc::downgrade(self), Arc::downgrade(place)));
            self.use_changed(place);
        }
        self.wake_followers();
        self.wake_strays();
        self.retained.notify_one();
        self.shared.tell(Event::Config);
    }

    /// Ends everything within 2 s.
    pub(crate) async fn shutdown(self: &Arc<Self>) {
        let running = self.attended();
        let places = {
            let mut state = self.state();
            state.stopping = true;
            let places: Vec<Arc<Place>> = state.places.values().cloned().collect();
            places
        };
        self.shared.tell(Event::Stopping);
        let ends = running.iter().map(|info| self.end(&info.id, EndedBy::Daemon, SHUTDOWN_GRACE));
        if tokio::time::timeout(SHUTDOWN_LIMIT, futures::future::join_all(ends)).await.is_err() {
            let left: Vec<String> = self.attended().into_iter().map(|info| info.id).collect();
            tracing::warn!(?left, "commands did not end in time at the shutdown");
        }
        let sessions: Vec<_> = places.iter().flat_map(|place| place.open_sessions()).collect();
        let kept = futures::future::join_all(sessions.iter().map(|session| session.flush()));
        if tokio::time::timeout(CLOSE_LIMIT, kept).await.is_err() {
            tracing::warn!("a session's state was not written in time at the shutdown");
        }
        let closes = places.iter().map(|place| place.connection.close());
        if tokio::time::timeout(CLOSE_LIMIT, futures::future::join_all(closes)).await.is_err() {
            tracing::warn!("a connection did not close in time at the shutdown");
        }
        let (path, left, core) = (self.journal_path(), self.attended(), self.clone());
        let written = tokio::task::spawn_blocking(move || {
            let mut lines: Vec<journal::Line> = left.into_iter().map(Into::into).collect();
            Texts::default().clean(&core, lines.iter_mut().map(journal::Line::text));
            journal::write(&path, lines)
        });
        let written = written.await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "failed to write down that the daemon ended in order");
        }
    }
}

fn guard(again: &Again) -> Guard {
    let args: Vec<&str> = again.reap.iter().map(String::as_str).collect();
    Guard::start(&again.program, &args)
}

/// Throws away the waiting shells of a backend that is still unused after a while.
fn cool_later(place: &Arc<Place>) {
    let turn = place.next_idle_turn();
    let place = Arc::downgrade(place);
    tokio::spawn(async move {
        tokio::time::sleep(COOL_AFTER).await;
        if let Some(place) = place.upgrade().filter(|p| p.running() == 0 && p.idle_turn() == turn) {
            place.open_sessions().iter().for_each(|session| session.cool());
        }
    });
}
