//! The engine: owns every backend, session and process.
//!
//! Invariant: it knows no protocol and no terminal; a command runs only on the backend that was named, and only once.

mod aftermath;
mod again;
mod background;
mod checkpoint;
pub mod clock;
pub mod connection;
mod core;
mod doctor;
mod file;
mod follow;
mod hints;
mod input;
mod journal;
mod notify;
mod place;
mod prompts;
mod recheck;
mod recover;
mod retention;
mod run;
mod send;
mod shared;
mod signal;
mod stdin;
mod stray;
mod sweep;
mod table;
mod texts;
mod watch;

use crate::backend::BackendError;
use crate::config::Config;
use crate::model::{
    Answer, BackendInfo, Chunk, EndedBy, Event, Exec, ExecResult, HostKeyChange, HostKeys, Kept, LogRead, Overview, ProcessInfo,
    SessionDetail, SessionInfo, Told, Who,
};
use crate::paths::Paths;
pub use crate::session::log::{Hold, Reader};
use crate::session::{Session, log::Log};
pub use notify::Waiting;
use place::Place;
pub use send::{Write, Written};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot};

pub(crate) use self::core::{Core, State};

/// The name of this machine as a backend.
pub const LOCAL: &str = "local";
/// The session of callers that name none.
pub const MAIN_SESSION: &str = "main";
/// How long a shutdown waits for commands to end: with what follows it stays under two seconds.
const SHUTDOWN_LIMIT: Duration = Duration::from_millis(1_400);
/// Between TERM and KILL at a shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(700);
/// How long a shutdown waits for sessions to be written, and then for connections to close.
const CLOSE_LIMIT: Duration = Duration::from_millis(250);

/// A handle on the engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    core: Arc<Core>,
}

/// Why the engine did not do what was asked (apart from how commands end).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The name does not exist; the text names the known ones and the nearest.
    #[error("{0}")]
    NotFound(String),
    /// Used wrongly.
    #[error("{0}")]
    Usage(String),
    /// The backend cannot be reached.
    #[error("{message}")]
    Unavailable {
        /// Why.
        message: String,
        /// What to do.
        fix: Option<String>,
    },
    /// Refused in the present state.
    #[error("{0}")]
    Refused(String),
    /// Refused, because more has happened than the caller had seen.
    #[error("{message}")]
    Outdated {
        /// What.
        message: String,
        /// How to see it.
        fix: String,
    },
    /// A fault of our own.
    #[error("{0}")]
    Internal(String),
}

/// A command that was accepted.
pub struct Running {
    /// Its row at the start.
    pub process: ProcessInfo,
    /// Its result; the sender never goes without a result.
    pub result: oneshot::Receiver<ExecResult>,
    /// Holds its output for the caller, from its beginning on; a caller that does not follow it drops this.
    pub output: Hold,
}

/// How this very program is started again for what has to outlive a killed daemon.
#[derive(Clone, Debug)]
pub struct Again {
    /// The program.
    pub program: std::path::PathBuf,
    /// Its arguments, the program's own name first; with them it must call [`reap`] and nothing else.
    pub reap: Vec<String>,
}

/// The life of the child that ends local commands when the daemon is killed. Blocking.
pub fn reap() -> std::io::Result<()> {
    crate::backend::guard::reap()
}

impl Engine {
    /// Starts the engine: opens the backends (without connecting) and the kept sessions, and takes in what a daemon before
    /// this one left unfinished.
    ///
    /// With `again` the process becomes the one that orphans of its commands come to, and a child is started that ends local
    /// commands when this process is killed.
    pub async fn start(config: Config, paths: Paths, again: Option<Again>) -> Result<Self, EngineError> {
        Ok(Self { core: Core::start(config, paths, again).await? })
    }

    /// Events from now on. A receiver that falls behind gets `Lagged` from the channel.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.core.shared.events.subscribe()
    }

    /// Accepts a command and starts it. Whether its backend can be reached shows in the result, not here; here only wrong use
    /// and unknown names fail. The command is ended with [`Engine::end`], also when the caller goes away.
    pub async fn exec(&self, who: Who, exec: Exec, stdin: Option<mpsc::Receiver<Vec<u8>>>) -> Result<Running, EngineError> {
        run::start(&self.core, who, exec, stdin).await
    }

    /// Ends a command on somebody's wish and waits until the ending is done. Cancel safe: the ending goes on.
    pub async fn end(&self, process: &str, by: EndedBy, grace: Duration) -> Result<ProcessInfo, EngineError> {
        self.core.end(process, by, grace).await
    }

    /// Sends a signal to a command's tree and tells which processes got it: at least one, or it is an error that says why none
    /// did. Cancel safe: a signal that was asked for is sent.
    pub async fn signal(&self, process: &str, signal: i32) -> Result<(ProcessInfo, Vec<u32>), EngineError> {
        let id = self.core.state().table.find(process)?.info.id.clone();
        if let Some(done) = self.core.signal_stray(&id, signal).await {
            return done;
        }
        if let Some(done) = self.core.signal_in_background(&id, signal).await {
            return done;
        }
        self.core.signal(&id, signal).await
    }

    /// Looks through a backend for what commands left running: gives the strays there, and processes that carry the cookie of a command
    /// of which it cannot be told whether it runs for another daemon. Connects when it must. Cancel safe: what was found has its row.
    pub async fn find(&self, backend: &str, operator: bool) -> Result<(Vec<ProcessInfo>, Vec<u32>), EngineError> {
        self.core.find(backend, operator).await
    }

    /// Makes a background process of a stray. Cancel safe.
    pub async fn adopt(&self, who: &Who, process: &str) -> Result<ProcessInfo, EngineError> {
        self.core.adopt(who.clone(), process).await
    }

    /// Writes to the stdin of a command that was started with one, beside its caller; see [`Written`]. Cancel safe: what was
    /// accepted is written all the same.
    pub async fn send(&self, who: &Who, process: &str, write: Write) -> Result<Written, EngineError> {
        self.core.send(who, process, write).await
    }

    /// Waits until a command reads its stdin and nothing is there: true; or until it has ended: false. Refused for one without an open
    /// stdin, and where it cannot be known. Cancel safe.
    pub async fn wants_input(&self, process: &str) -> Result<bool, EngineError> {
        self.core.wants_input(process).await
    }

    /// Looks for a background process on its backend now, and answers with what was found: an error where the backend cannot be asked.
    /// Of any other process this is its row. Cancel safe.
    pub async fn recheck(&self, process: &str) -> Result<ProcessInfo, EngineError> {
        self.core.recheck(process).await
    }

    /// Everything at this moment.
    pub fn overview(&self) -> Overview {
        self.core.overview()
    }

    /// One process's row.
    pub fn process(&self, process: &str) -> Result<ProcessInfo, EngineError> {
        let found = self.core.state().table.find(process).map(table::Entry::shown);
        found.map_err(|error| self.core.or_its_log(process, error))
    }

    /// The log of a process.
    pub fn log(&self, process: &str) -> Result<Arc<Log>, EngineError> {
        let found = self.core.state().table.find(process).map(|entry| entry.log.clone());
        found.map_err(|error| self.core.or_its_log(process, error))
    }

    /// Reads a piece of a log. Cancel safe.
    pub async fn read(&self, read: LogRead) -> Result<Chunk, EngineError> {
        let log = self.log(&read.process)?;
        let fault = |e: std::io::Error| EngineError::Internal(format!("failed to read the log of {}: {e}", read.process));
        log.read(read.start, read.max).await.map_err(fault)
    }

    /// Waits until the log is longer than `offset` or its process has ended (and its log is complete). Cancel safe.
    pub async fn grown(&self, process: &str, offset: u64) -> Result<(), EngineError> {
        let log = self.log(process)?;
        log.grown(offset).await;
        Ok(())
    }

    /// Holds a log for somebody who looks at it, from `offset` on: while the disk is full they miss nothing.
    pub fn hold(&self, process: &str, offset: u64) -> Result<Hold, EngineError> {
        Ok(self.log(process)?.hold(Reader::Watcher, offset))
    }

    /// What of a log is in its file from `offset` on; see [`Log::kept`]. Cancel safe.
    pub async fn kept(&self, process: &str, offset: u64) -> Result<Option<Kept>, EngineError> {
        let fault = |e: std::io::Error| EngineError::Internal(format!("failed to look the log of {process} up: {e}"));
        self.log(process)?.kept(offset).await.map_err(fault)
    }

    /// The file of a log, once output is in it. None too for a path that is not UTF-8.
    pub fn log_file(&self, process: &str) -> Result<Option<String>, EngineError> {
        Ok(self.log(process)?.file().and_then(|path| path.to_str()).map(str::to_owned))
    }

    /// Waits for the end of a process. Cancel safe.
    pub async fn ended(&self, process: &str) -> Result<ProcessInfo, EngineError> {
        self.core.ended(process).await
    }

    /// Notes that a call is under way that tells the end of a process once it reaches it, so that `notify` need not.
    pub fn waits(&self, process: &str) -> Result<Waiting, EngineError> {
        self.core.waits(process)
    }

    /// Waits for what a process tells of its output after the number given; without one, for what no such call has heard. Cancel
    /// safe.
    pub async fn told(&self, process: &str, after: Option<u64>) -> Result<Told, EngineError> {
        let queue = self.core.state().table.find(process)?.told.clone();
        Ok(queue.after(after).await)
    }

    /// Connects a backend now. What its login asks goes to the operators' clients while an operator's call waits here; for anybody
    /// else a login that needs a person fails. Cancel safe: the attempt goes on, its questions are taken back.
    pub async fn connect(&self, backend: &str, operator: bool) -> Result<BackendInfo, EngineError> {
        let place = self.core.place(Some(backend))?;
        // An attempt that only a person can bring to its end is not repeated for others: it could lock the account.
        if !operator && place.connection.needs_person() {
            let health = place.connection.health().borrow().clone();
            let message = format!("{backend} needs a person: {}", health.reason.unwrap_or_default());
            return Err(EngineError::Unavailable { message, fix: health.fix });
        }
        place.reach(operator.then_some("connect"), true).await.map_err(|e| unavailable(backend, e))?;
        Ok(place.info())
    }

    /// Answers a question of a login.
    pub fn answer(&self, id: u64, answer: Answer) -> Result<(), EngineError> {
        self.core.shared.prompts.answer(id, answer)
    }

    /// Tells what is known of a backend's host key; with `look` the host is asked for it now, without a login. Cancel safe.
    pub async fn host_keys(&self, backend: &str, look: bool) -> Result<HostKeys, EngineError> {
        let place = self.core.place(Some(backend))?;
        let book = place.connection.backend().host_keys().ok_or_else(|| no_book(backend))?;
        book.show(look).await.map_err(|e| unavailable(backend, e))
    }

    /// Changes what is known of a backend's host key. Once begun a change is finished.
    pub async fn change_host_keys(&self, backend: &str, change: HostKeyChange, fingerprint: &str) -> Result<HostKeys, EngineError> {
        let place = self.core.place(Some(backend))?;
        let book = place.connection.backend().host_keys().ok_or_else(|| no_book(backend))?;
        book.change(change, fingerprint).await.map_err(|e| unavailable(backend, e))
    }

    /// Closes a backend's connection.
    pub async fn disconnect(&self, backend: &str) -> Result<BackendInfo, EngineError> {
        let place = self.core.place(Some(backend))?;
        place.connection.close().await;
        Ok(place.info())
    }

    /// What a session holds.
    pub async fn session_show(&self, backend: Option<&str>, session: Option<&str>) -> Result<SessionDetail, EngineError> {
        let (place, session) = self.known_session(backend, session).await?;
        self.reached(&place).await?;
        session.detail().await.map_err(|e| EngineError::Internal(e.to_string()))
    }

    /// Gives a session in which no command runs.
    async fn resting_session(
        &self,
        backend: Option<&str>,
        session: Option<&str>,
    ) -> Result<(Arc<Place>, Arc<Session>, SessionInfo), EngineError> {
        let (place, session) = self.known_session(backend, session).await?;
        let info = session.info();
        if info.running > 0 {
            let (name, on) = (&info.name, &info.backend);
            let text = format!("session {name:?} on {on} has a running command; wait for it or kill it first");
            return Err(EngineError::Refused(text));
        }
        Ok((place, session, info))
    }

    /// Captures a session anew.
    pub async fn session_reset(&self, backend: Option<&str>, session: Option<&str>) -> Result<SessionInfo, EngineError> {
        let (place, session, _) = self.resting_session(backend, session).await?;
        self.reached(&place).await?;
        session.reset().await.map_err(|e| EngineError::Internal(e.to_string()))?;
        let info = session.info();
        self.core.shared.tell(Event::Session { session: info.clone() });
        Ok(info)
    }

    /// Closes a session.
    pub async fn session_close(&self, backend: Option<&str>, session: Option<&str>) -> Result<SessionInfo, EngineError> {
        let (place, session, info) = self.resting_session(backend, session).await?;
        if let Err(error) = session.close().await {
            // Its name goes all the same: what is left on the far side is removed a day later, at a connect.
            let text = format!("the files of session {} on {} could not be removed now: {error}", info.name, info.backend);
            self.core.shared.notice(crate::model::Level::Notice, Some(&info.backend), text);
        }
        place.forget_session(&info.name, &self.core.shared).await;
        self.core.shared.tell(Event::SessionClosed { backend: info.backend.clone(), name: info.name.clone() });
        Ok(info)
    }

    /// Completes a word on a backend.
    pub async fn complete(&self, backend: &str, session: &str, word: &str, command: bool) -> Result<Vec<String>, EngineError> {
        let place = self.core.place(Some(backend))?;
        let session = place.session(session, &self.core.shared, None).await?;
        session.completions(word, command).await.map_err(|e| EngineError::Internal(e.to_string()))
    }

    /// Takes over the variables that an operator's client hands over.
    pub fn set_client_env(&self, env: Vec<(String, String)>) {
        self.core.shared.set_client_env(env);
    }

    /// Tells how many front ends watch (an attached pane raises the pace of health checks and keeps shells warm).
    pub fn set_watchers(&self, count: usize) {
        self.core.set_watchers(count);
    }

    /// Takes up a changed config: backends come and go, running processes stay.
    pub async fn reload(&self, config: Config) -> Result<(), EngineError> {
        self.core.reload(config).await;
        Ok(())
    }

    /// The commands that run; strays that nobody adopted are none.
    pub fn running(&self) -> Vec<ProcessInfo> {
        let mut rows = self.core.state().table.running();
        rows.retain(|row| row.stray.as_ref().is_none_or(|stray| stray.adopted_by.is_some()));
        rows
    }

    /// Waits until the next command has ended: for whoever waits for idleness. Cancel safe.
    pub async fn changed(&self) {
        self.core.idle.notified().await;
    }

    /// Ends everything within 2 s: foreground commands are ended and their callers told. No command is accepted any more.
    pub async fn shutdown(&self) {
        self.core.shutdown().await;
    }

    async fn known_session(&self, backend: Option<&str>, session: Option<&str>) -> Result<(Arc<Place>, Arc<Session>), EngineError> {
        let place = self.core.place(backend)?;
        let name = session.unwrap_or(MAIN_SESSION);
        let known = place.open_sessions();
        if let Some(session) = known.iter().find(|s| s.info().name == name) {
            return Ok((place, session.clone()));
        }
        let names: Vec<String> = known.iter().map(|s| s.info().name).collect();
        let list = if names.is_empty() { "it has none yet".to_owned() } else { format!("it has {}", names.join(", ")) };
        Err(EngineError::NotFound(format!("no session {name:?} on {}; {list}", place.settings.name)))
    }

    async fn reached(&self, place: &Place) -> Result<(), EngineError> {
        let ready = place.connection.ready(place.settings.connect_timeout).await;
        ready.map_err(|e| EngineError::Unavailable { message: format!("{}: {}", place.settings.name, e.message), fix: e.fix })
    }
}

fn unavailable(backend: &str, e: BackendError) -> EngineError {
    EngineError::Unavailable { message: format!("{backend}: {}", e.message), fix: e.fix }
}

fn no_book(backend: &str) -> EngineError {
    EngineError::Usage(format!("{backend} has no host key: only backends that are reached over ssh have one"))
}
