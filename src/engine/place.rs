//! A backend as the engine holds it: its settings, its supervised connection, its sessions.
//!
//! Invariant: a place belongs to one reading of the config; a changed backend gets a new place, and commands that run finish
//! on the old one.

use super::EngineError;
use super::clock::Clock;
use super::connection::{Connection, Pace};
use super::prompts::Desk;
use super::shared::Shared;
use crate::backend::absent::Absent;
use crate::backend::person::Person;
use crate::backend::{Backend, BackendError, ErrorKind};
use crate::config::{BackendSettings, KindSettings};
use crate::model::{BackendInfo, Health, HealthState};
use crate::session::{Cap, FollowSettings, Session, Settings};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// Longer than any login takes: the limits are others'.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Longest session name, so that it fits into a file name with every byte escaped.
const LONGEST_NAME: usize = 80;
/// How long capturing a login environment may take.
const CAPTURE_LIMIT: Duration = Duration::from_secs(30);

/// Shells that may wait for the next command of their session on a far side: each one takes a channel, and a server grants
/// ten to a connection by default.
const WARM_FAR: usize = 2;
/// Commands at once on a far side from which on no channel is spared for shells that only wait.
const CROWDED: u32 = 4;

/// One backend.
pub(crate) struct Place {
    pub(crate) settings: BackendSettings,
    pub(crate) connection: Connection,
    desk: Arc<Desk>,
    person: Arc<Person>,
    sessions: Mutex<BTreeMap<String, Arc<Session>>>,
    /// Its number now: it changes when another backend comes or goes.
    slot: AtomicU32,
    running: AtomicU32,
    idle_turn: AtomicU32,
    /// Names of the sessions whose next shell may be waiting, the newest first.
    warm: Mutex<VecDeque<String>>,
    /// Held while it is examined.
    pub(crate) examined: tokio::sync::Mutex<()>,
    /// Gives room to commands that wait for it.
    _room: AbortOnDropHandle<()>,
}

impl Place {
    /// What a shell that looks after background processes is started with; `cap` is what a log keeps there.
    pub(super) fn follow_settings(&self, cap: Cap) -> FollowSettings {
        FollowSettings { shell: self.settings.shell, timeout: self.settings.connect_timeout, cap }
    }

    /// Makes the place of one backend. Does not connect.
    pub(crate) fn new(settings: BackendSettings, shared: &Shared, lifetime: Duration) -> Arc<Self> {
        let kind = settings.kind.kind();
        let desk = Desk::new(&settings.name, shared);
        let person = Arc::new(Person::new(desk.clone()));
        let backend: Arc<dyn Backend> = match crate::backend::open::open(&settings, &shared.client_env, &shared.guard, &person) {
            Ok(backend) => backend,
            Err(why) => Arc::new(Absent::new(&settings.name, kind, why)),
        };
        let connection = connect(&settings, backend, shared.clock, lifetime);
        Arc::new_cyclic(|me| {
            let room = tokio::spawn(give_room(me.clone(), connection.backend().clone()));
            Self {
                slot: AtomicU32::new(settings.slot),
                settings,
                connection,
                desk,
                person,
                sessions: Mutex::default(),
                running: AtomicU32::new(0),
                idle_turn: AtomicU32::new(0),
                warm: Mutex::default(),
                examined: tokio::sync::Mutex::default(),
                _room: AbortOnDropHandle::new(room),
            }
        })
    }

    /// Waits for the connection: for one attempt at most, unless there is a connection and no `check` of it is wanted.
    ///
    /// An operator, whose call is named, answers what the login asks, and the time that takes does not count. Anybody else is told at once that a person
    /// is waited for. Cancel safe: the attempt goes on, and questions are taken back when no other operator waits.
    pub(crate) async fn reach(&self, operator: Option<&str>, check: bool) -> Result<(), BackendError> {
        let limit = self.settings.connect_timeout;
        let wait = async {
            // The limit is this function's own.
            if check { self.connection.reconnect(LONGEST).await } else { self.connection.ready(LONGEST).await }
        };
        let late = || self.connection.late(limit);
        if let Some(what) = operator {
            let _attending = self.desk.attend(what);
            return self.person.within(limit, wait).await.unwrap_or_else(|| Err(late()));
        }
        tokio::select! {
            biased;
            done = tokio::time::timeout(limit, wait) => done.unwrap_or_else(|_| Err(late())),
            () = self.person.asked() => Err(BackendError::new(ErrorKind::Authentication, "its login waits for a person's answer")
                .with_fix("an operator answers in qd's terminal UI or where `qd backends connect` was started; then run the command again")),
        }
    }

    /// Gives its number.
    pub(crate) fn slot(&self) -> u32 {
        self.slot.load(Ordering::Acquire)
    }

    /// Takes over settings that differ in the number alone, which costs neither its connection nor what a login was told; false
    /// for others.
    pub(crate) fn takes(&self, settings: &BackendSettings) -> bool {
        let same = self.settings == BackendSettings { slot: self.settings.slot, ..settings.clone() };
        if same {
            self.slot.store(settings.slot, Ordering::Release);
        }
        same
    }

    /// Gives a session, opening it when it is not open: its state is what the state folder holds, or a new one.
    pub(crate) async fn session(&self, name: &str, shared: &Shared, client_cwd: Option<&str>) -> Result<Arc<Session>, EngineError> {
        check_name(name)?;
        if let Some(session) = lock(&self.sessions).get(name) {
            return Ok(session.clone());
        }
        let settings = self.session_settings(name, shared, client_cwd);
        let (backend, owned) = (self.connection.backend().clone(), name.to_owned());
        let opened = tokio::task::spawn_blocking(move || {
            private_folder(&settings.state_dir).map_err(|e| format!("{}: {e}", settings.state_dir.display()))?;
            Session::open(backend, &owned, settings).map_err(|e| e.to_string())
        });
        let fault = |text: String| EngineError::Internal(format!("failed to open session {name:?} on {}: {text}", self.settings.name));
        let session = opened.await.map_err(|e| fault(e.to_string()))?.map_err(fault)?;
        // Two callers may have opened it at once: the first one's stays, the other was not used yet.
        Ok(lock(&self.sessions).entry(name.to_owned()).or_insert(session).clone())
    }

    /// Gives the sessions that are open in this daemon.
    pub(crate) fn open_sessions(&self) -> Vec<Arc<Session>> {
        lock(&self.sessions).values().cloned().collect()
    }

    /// Forgets a closed session and removes its own folder.
    pub(crate) async fn forget_session(&self, name: &str, shared: &Shared) {
        lock(&self.sessions).remove(name);
        let folder = session_folder(shared, &self.settings.name, name);
        if let Err(error) = tokio::fs::remove_dir_all(&folder).await
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%error, folder = %folder.display(), "failed to remove the folder of a closed session");
        }
    }

    /// Opens every session that the state folder holds for this backend, so that they are listed after a restart.
    pub(crate) async fn load_sessions(&self, shared: &Shared) {
        let folder = shared.paths.sessions().join(file_name(&self.settings.name));
        let names = tokio::task::spawn_blocking(move || kept_names(&folder)).await.unwrap_or_default();
        for name in names {
            if let Err(error) = self.session(&name, shared, None).await {
                tracing::warn!(backend = %self.settings.name, session = %name, %error, "a kept session cannot be opened");
            }
        }
    }

    /// Counts a command that starts here (`true`) or has ended (`false`); gives how many run now.
    pub(crate) fn count(&self, starts: bool) -> u32 {
        if starts { self.running.fetch_add(1, Ordering::AcqRel) + 1 } else { self.running.fetch_sub(1, Ordering::AcqRel) - 1 }
    }

    /// Gives how many commands run here.
    pub(crate) fn running(&self) -> u32 {
        self.running.load(Ordering::Acquire)
    }

    /// Makes room for a command of this session: on a far side shells that only wait give way to one that runs.
    pub(crate) fn make_room(&self, session: &str) {
        if self.connection.backend().about().capabilities.same_files || self.running() < CROWDED {
            return;
        }
        let waiting: Vec<String> = {
            let mut warm = lock(&self.warm);
            let all = std::mem::take(&mut *warm);
            let (mine, others): (Vec<String>, Vec<String>) = all.into_iter().partition(|name| name == session);
            warm.extend(mine);
            others
        };
        self.cool(&waiting);
    }

    /// Notes that a command of this session has ended, so that its next shell waits; the oldest that are too many go.
    pub(crate) fn has_ended(&self, session: &str) {
        if self.connection.backend().about().capabilities.same_files {
            return;
        }
        let crowded = self.running() >= CROWDED;
        let surplus: Vec<String> = {
            let mut warm = lock(&self.warm);
            warm.retain(|name| name != session);
            warm.push_front(session.to_owned());
            let keep = if crowded { 0 } else { WARM_FAR.min(warm.len()) };
            warm.split_off(keep).into()
        };
        self.cool(&surplus);
    }

    fn cool(&self, names: &[String]) {
        let sessions = lock(&self.sessions);
        names.iter().filter_map(|name| sessions.get(name)).for_each(|session| session.cool());
    }

    /// Begins a stretch without use; gives its number.
    pub(crate) fn next_idle_turn(&self) -> u32 {
        self.idle_turn.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Gives the number of the present stretch without use: it changes whenever one begins.
    pub(crate) fn idle_turn(&self) -> u32 {
        self.idle_turn.load(Ordering::Acquire)
    }

    /// Gives the row.
    pub(crate) fn info(&self) -> BackendInfo {
        let about = self.connection.backend().about();
        let led = about.link.borrow().address.clone();
        BackendInfo {
            name: self.settings.name.clone(),
            slot: self.slot(),
            kind: self.settings.kind.kind(),
            address: led.unwrap_or_else(|| about.address.clone()),
            tags: self.settings.tags.clone(),
            capabilities: about.capabilities,
            health: self.connection.health().borrow().clone(),
            shell: self.open_sessions().iter().find_map(|s| s.shell_kind()),
            running: self.running(),
        }
    }

    fn session_settings(&self, name: &str, shared: &Shared, client_cwd: Option<&str>) -> Settings {
        let s = &self.settings;
        Settings {
            cwd: s.cwd.clone(),
            client_cwd: client_cwd.map(str::to_owned),
            snapshot: s.snapshot,
            shell: s.shell,
            start_timeout: s.connect_timeout,
            capture_timeout: CAPTURE_LIMIT,
            env: s.env.clone(),
            forwarded: shared.forwarded(&s.forward_env),
            secret_names: shared.secret_names(),
            daemon_id: shared.daemon_id.clone(),
            state_dir: session_folder(shared, &s.name, name),
        }
    }
}

fn connect(settings: &BackendSettings, backend: Arc<dyn Backend>, clock: Clock, lifetime: Duration) -> Connection {
    match settings.kind {
        KindSettings::Local => Connection::fixed(backend, Health { state: HealthState::Up, since: clock.now(), ..Health::default() }),
        KindSettings::Later(_) => {
            let why = backend.about().link.borrow().lost.clone();
            let reason = why.as_ref().map(|e| e.message.clone());
            let fix = why.and_then(|e| e.fix);
            Connection::fixed(backend, Health { state: HealthState::Down, since: clock.now(), reason, fix, ..Health::default() })
        }
        KindSettings::Ssh(_) | KindSettings::Command(_) => {
            let pace = Pace { health_interval: settings.health_interval, lifetime };
            Connection::start(backend, pace, clock)
        }
    }
}

fn session_folder(shared: &Shared, backend: &str, session: &str) -> PathBuf {
    shared.paths.sessions().join(file_name(backend)).join(file_name(session))
}

/// Refuses names that would be unreadable in a table or too long for a file name.
fn check_name(name: &str) -> Result<(), EngineError> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(EngineError::Usage(format!("session name {name:?}: wanted 1 to {LONGEST_NAME} bytes without control characters")));
    }
    Ok(())
}

/// Writes a name so that it is one safe file name and can be read back.
fn file_name(name: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(name.len());
    for b in name.bytes() {
        if b.is_ascii_alphanumeric() || b"-_".contains(&b) || (b == b'.' && !out.is_empty()) {
            out.push(char::from(b));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{b:02x}");
        }
    }
    out
}

/// Reads a name back; none when it is no name of ours.
fn from_file_name(file: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = file.bytes();
    while let Some(b) = bytes.next() {
        if b == b'%' {
            let hex = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()?);
        } else {
            out.push(b);
        }
    }
    String::from_utf8(out).ok()
}

/// Lets go of waiting shells when a command waits for the room that they take up.
async fn give_room(place: Weak<Place>, backend: Arc<dyn Backend>) {
    loop {
        backend.pressed().await;
        let Some(place) = place.upgrade() else { return };
        lock(&place.warm).clear();
        // All of them, not only those that are noted: a shell begins to wait a moment before it is.
        place.open_sessions().iter().for_each(|session| session.cool());
    }
}

fn private_folder(folder: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn kept_names(folder: &std::path::Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.filter_map(|e| from_file_name(e.ok()?.file_name().to_str()?)).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held left whole values: every change under these locks is one assignment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells whether an error means that nothing was reached, so that nothing ran.
pub(crate) fn unreachable(kind: ErrorKind) -> bool {
    !matches!(kind, ErrorKind::NoShell | ErrorKind::Internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_as_file_names() {
        for name in ["main", "a b", "../../etc", ".hidden", "ü%", "a/b", "x.y"] {
            let file = file_name(name);
            assert!(!file.contains('/') && !file.starts_with('.'), "{file}");
            assert_eq!(from_file_name(&file).as_deref(), Some(name));
        }
        assert!(file_name(&"ü".repeat(LONGEST_NAME / 2)).len() <= 255);
        assert!(check_name("").is_err() && check_name("a\nb").is_err() && check_name(&"x".repeat(81)).is_err());
    }
}
