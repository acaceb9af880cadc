//! The daemon's life: lock, engine, socket, clients, and the end in order.
//!
//! Invariant: clients find the socket only once the engine is there; from the first sign of the end on no call is accepted,
//! and within [`END_LIMIT`] and [`LAST_WORDS`] everything is over.

use super::connection::serve;
use super::detach::{report, silence};
use super::door::{Door, Knock};
use super::hub::{Hub, now};
use super::idle::idle;
use super::lock::DaemonLock;
use super::reload::Reload;
use super::service::Service;
use super::signals::Signals;
use super::{DaemonError, Listening, Options};
use crate::config::{self, Config, Sources};
use crate::engine::{Again, Engine, EngineError};
use crate::logging;
use crate::model::redact::Redactor;
use crate::model::{DaemonInfo, Level};
use crate::paths::Paths;
use crate::protocol::launch::Report;
use crate::report::chain;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;

/// The engine promises to end foreground commands within 2 s; one that does not is left behind after this.
const END_LIMIT: Duration = Duration::from_millis(2500);
/// After the engine's end clients get this long to read what they were told.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// Pause after a client could not be accepted (no descriptors left): it is tried again, not in a tight loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Runs the daemon until it is told to end, or has been idle for long. Errors are about starting; a client that waits for
/// this process has been told by then. Must not be dropped while it runs.
pub async fn run(options: Options) -> Result<(), DaemonError> {
    let detached = options.detached;
    let end = start(options).await;
    if let (Err(error), true) = (&end, detached) {
        report(&match error {
            DaemonError::Config(error) => Report::BadConfig { message: error.to_string() },
            error => Report::Failed { message: chain(error) },
        });
    }
    end
}

async fn start(options: Options) -> Result<(), DaemonError> {
    let signals = Signals::new(options.detached).map_err(|source| DaemonError::System { what: "hear signals", source })?;
    let sources = Sources::from_env(options.config);
    let loaded = {
        let sources = sources.clone();
        blocking(move || {
            let paths = Paths::resolve(&sources.vars)?;
            let config = config::load(&sources)?;
            paths.ensure()?;
            Ok((config, paths))
        })
    };
    let (config, paths) = loaded.await?;
    let mut notices = config.notices.clone();
    let redactor = Redactor::of_variables(sources.vars.texts(), &config.redact.names);
    // Without a log file the daemon serves all the same, and says so: a full disk must not take the work with it.
    let _log = logging::init(&paths, &sources.vars, &config.log_level, redactor).map_err(|error| notices.push(chain(&error))).ok();
    let life = Life { config, paths, sources, notices, signals, detached: options.detached, ready: options.ready };
    life.run(|config, paths| Engine::start(config, paths, again())).await
}

/// How this program is started for its reaper; none when the system does not say where it is.
fn again() -> Option<Again> {
    let program = std::env::current_exe().ok()?;
    Some(Again { program, reap: vec!["qd".into(), "reap".into()] })
}

/// All that a daemon starts from.
pub(super) struct Life {
    pub(super) config: Config,
    pub(super) paths: Paths,
    pub(super) sources: Sources,
    /// What is told to whoever watches.
    pub(super) notices: Vec<String>,
    pub(super) signals: Signals,
    pub(super) detached: bool,
    pub(super) ready: Option<oneshot::Sender<Listening>>,
}

impl Life {
    /// Lives it, with the engine that `engine` starts.
    pub(super) async fn run<S, F>(self, engine: impl FnOnce(Config, Paths) -> F) -> Result<(), DaemonError>
    where
        S: Service,
        F: Future<Output = Result<S, EngineError>>,
    {
        let lock = DaemonLock::take(&self.paths).await?;
        let info = info(&self.config, &self.paths).await?;
        let service = engine(self.config.clone(), self.paths.clone()).await.map_err(DaemonError::Engine)?;
        let uid = rustix::process::geteuid().as_raw();
        let hub = Hub::new(service, info, uid, self.config.client_env.clone());
        for notice in self.notices {
            hub.tell(Level::Notice, notice);
        }
        let opened = Door::open(lock, &self.paths, self.sources.vars.clone(), hub.info.pid, &hub.info.version).await;
        let door = match opened {
            Ok(door) => door,
            Err(error) => {
                hub.service.shutdown().await;
                return Err(error);
            }
        };
        let listening = Listening { socket: door.path(), config: self.config.source.clone() };
        if let Some(ready) = self.ready {
            // Whoever asked may have gone; the daemon runs all the same.
            let _nobody_asks = ready.send(listening.clone());
        }
        if self.detached {
            report(&Report::Ready { pid: hub.info.pid });
            if let Err(error) = silence() {
                tracing::warn!(%error, "the starting client's pipes stay open");
            }
        }
        tracing::info!(socket = %listening.socket.display(), config = ?listening.config, version = hub.info.version, "listening");
        let (limit, limits) = watch::channel(self.config.idle_exit);
        let reload = Reload::new(hub.clone(), self.sources, limit).await;
        let clients = TaskTracker::new();
        let mut door = door;
        live(&hub, &mut door, self.signals, reload, limits, &clients).await;
        end(&hub, door, clients).await;
        Ok(())
    }
}

/// Serves clients until something ends the daemon.
async fn live<S: Service>(
    hub: &Arc<Hub<S>>,
    door: &mut Door,
    mut signals: Signals,
    reload: Reload<S>,
    limits: watch::Receiver<Option<Duration>>,
    clients: &TaskTracker,
) {
    let mut unused = std::pin::pin!(idle(hub, limits));
    // Once another daemon has taken our place, what is under way here is brought to its end and no more.
    let (_no_wait, at_once) = watch::channel(Some(Duration::ZERO));
    let mut drained = std::pin::pin!(idle(hub, at_once));
    let mut replaced = false;
    let mut reload = std::pin::pin!(reload.run());
    loop {
        tokio::select! {
            knock = door.next() => match knock {
                Knock::Client(stream, peer) => {
                    clients.spawn(serve(stream, hub.clone(), peer));
                }
                Knock::Failed(error) => {
                    tracing::warn!(%error, "a client could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                Knock::Lost => if !door.mend().await {
                    replaced = true;
                    hub.tell(Level::Alert, "another daemon has taken this one's place: this one ends when its commands and clients have".into());
                },
            },
            signal = signals.ending() => {
                tracing::info!(signal, "told to end");
                return;
            }
            () = hub.stopping.cancelled() => return,
            () = &mut unused => {
                tracing::info!("no client and no process for long");
                return;
            }
            () = &mut drained, if replaced => {
                tracing::info!("another daemon has taken our place, and nothing is under way here");
                return;
            }
            never = &mut reload => match never {},
        }
    }
}

/// Ends in order: no new client, commands ended and callers told, then the lock.
async fn end<S: Service>(hub: &Hub<S>, door: Door, clients: TaskTracker) {
    hub.stopping.cancel();
    let _held_until_the_end = door.close();
    if tokio::time::timeout(END_LIMIT, hub.service.shutdown()).await.is_err() {
        tracing::error!("the engine did not end within its time");
    }
    hub.ended.cancel();
    clients.close();
    if tokio::time::timeout(LAST_WORDS, clients.wait()).await.is_err() {
        tracing::warn!(clients = clients.len(), "clients that did not read to the end are cut off");
    }
    tracing::info!("ended");
}

async fn info(config: &Config, paths: &Paths) -> Result<DaemonInfo, DaemonError> {
    let source = config.source.clone();
    let config = blocking(move || Ok(source.map(|source| whole_path(&source)))).await?;
    Ok(DaemonInfo {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").into(),
        started: now(),
        config,
        state_dir: paths.state.to_string_lossy().into_owned(),
        host: paths.host.clone(),
    })
}

/// Gives a path as a client names it: with links followed.
fn whole_path(path: &Path) -> String {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, DaemonError> + Send + 'static) -> Result<T, DaemonError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| DaemonError::System { what: "look at the file system", source: std::io::Error::other(error) })?
}
