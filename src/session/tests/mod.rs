//! Sessions against real shells on this machine.

mod background;
mod cases;
mod ends;
mod life;
mod readonly;

use super::log::Log;
use super::{Command, Ended, Session, Settings, Stop};
use crate::backend::local::Local;
use crate::backend::{Backend, ShellChoice};
use crate::model::{LogStart, Outcome, WarningCode};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A place for sessions: a home of its own, a folder for the daemon's side, a backend.
pub(super) struct Rig {
    pub(super) dir: tempfile::TempDir,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) settings: Settings,
}

/// A command's end and its output.
pub(super) struct Done {
    pub(super) ended: Ended,
    pub(super) output: String,
    pub(super) log: Arc<Log>,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with(&[])
    }

    /// A rig whose login has these variables too.
    pub(super) fn with(env: &[(&str, &str)]) -> Self {
        Self::on(env, |local| local)
    }

    /// A rig on this machine, set up in some way.
    pub(super) fn on(env: &[(&str, &str)], set_up: impl FnOnce(Local) -> Local) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        std::fs::create_dir(&home).unwrap();
        std::fs::create_dir(dir.path().join("daemon")).unwrap();
        let mut client = vec![
            ("HOME".to_owned(), home.to_str().unwrap().to_owned()),
            ("SHELL".to_owned(), "/bin/bash".to_owned()),
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ];
        client.extend(env.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
        let backend = Arc::new(set_up(Local::new(Arc::new(std::sync::RwLock::new(client)))));
        let settings = Settings {
            cwd: "~".into(),
            client_cwd: None,
            snapshot: true,
            shell: ShellChoice::Auto,
            start_timeout: Duration::from_secs(60),
            capture_timeout: Duration::from_secs(20),
            env: BTreeMap::new(),
            forwarded: BTreeMap::new(),
            secret_names: Vec::new(),
            daemon_id: "d1".into(),
            state_dir: dir.path().join("daemon"),
        };
        Self { dir, backend, settings }
    }

    pub(super) fn home(&self) -> std::path::PathBuf {
        self.dir.path().join("home")
    }

    pub(super) fn session(&self, name: &str) -> Arc<Session> {
        Session::open(self.backend.clone(), name, self.settings.clone()).unwrap()
    }

    pub(super) fn log(&self) -> Arc<Log> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Log::create(self.dir.path().join(format!("{number}.log")), 1 << 30)
    }

    /// Runs a command to its end.
    pub(super) async fn run(&self, session: &Arc<Session>, text: &str) -> Done {
        self.run_it(session, command(text)).await
    }

    pub(super) async fn run_it(&self, session: &Arc<Session>, command: Command) -> Done {
        let (_keep, stops) = mpsc::channel(4);
        self.run_with(session, command, stops).await
    }

    pub(super) async fn run_with(&self, session: &Arc<Session>, command: Command, stops: mpsc::Receiver<Stop>) -> Done {
        let log = self.log();
        let ended = bounded(&log, session.run(command, log.clone(), |_, _| {}, stops)).await;
        session.after(&ended.after());
        let output = text(&log).await;
        Done { ended, output, log }
    }

    /// Runs a command, and does something once it has written.
    pub(super) async fn run_and<F: Future<Output = ()>>(
        &self,
        session: &Arc<Session>,
        command: Command,
        stops: mpsc::Receiver<Stop>,
        then: impl FnOnce() -> F,
    ) -> Done {
        let log = self.log();
        let both = async {
            tokio::join!(session.run(command, log.clone(), |_, _| {}, stops), async {
                log.grown(0).await;
                then().await;
            })
        };
        let (ended, ()) = bounded(&log, both).await;
        session.after(&ended.after());
        let output = text(&log).await;
        Done { ended, output, log }
    }
}

/// Waits for something around a command, with a limit: a test that hangs tells nobody why.
async fn bounded<T>(log: &Log, doing: impl Future<Output = T>) -> T {
    let Ok(done) = tokio::time::timeout(Duration::from_secs(150), doing).await else {
        let tree = std::process::Command::new("ps").args(["-eo", "pid,ppid,sid,stat,wchan:20,args", "--forest"]).output();
        let tree = tree.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
        panic!("no end in time; output so far {:?}; processes:\n{tree}", text(log).await);
    };
    done
}

impl Done {
    /// The exit code of a command that exited.
    pub(super) fn code(&self) -> i32 {
        match self.ended.outcome {
            Outcome::Exited { exit_code } => exit_code,
            ref other => panic!("not exited: {other:?}, warnings {:?}", self.ended.warnings),
        }
    }

    pub(super) fn codes(&self) -> Vec<WarningCode> {
        self.ended.warnings.iter().map(|w| w.code).collect()
    }
}

/// A command with nothing beside its text.
pub(super) fn command(text: &str) -> Command {
    let id = format!("t{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    Command { id, text: text.into(), workdir: None, env: Vec::new(), split: false, timeout: None, stdin: None, agent: None }
}

/// The whole text of a log.
pub(super) async fn text(log: &Log) -> String {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < log.total() {
        bytes.extend(log.read(LogStart::Offset(bytes.len() as u64), 1 << 20).await.unwrap().bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Stdin with this content.
pub(super) fn stdin(content: Vec<u8>) -> crate::session::Input {
    let (send, receive) = mpsc::channel(2);
    tokio::spawn(async move {
        for chunk in content.chunks(32 * 1024) {
            if send.send(chunk.to_vec()).await.is_err() {
                return;
            }
        }
    });
    receive.into()
}

/// Waits for a condition, at most ten seconds.
pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(10), "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process is there and no zombie.
pub(super) fn alive(pid: u32) -> bool {
    std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))
        .is_ok_and(|s| !s.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])))
}
