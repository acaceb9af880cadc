//! A home of its own for the real program, and the daemon in it.
//!
//! Invariant: the daemon of a home is gone when the home is dropped.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A cap for what must happen: long enough for a loaded machine.
pub(crate) const CAP: Duration = Duration::from_secs(30);

/// A folder with everything that the program reads and writes.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

/// What the lock file says.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Lock {
    pub(crate) pid: i32,
    pub(crate) socket: PathBuf,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Gives the program in this home, with the six variables that an agent's client hands on and no other.
    pub(crate) fn qd(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qd"));
        command.args(args).env_clear().current_dir(self.folder.path()).stdin(Stdio::null());
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        command.env("HOME", self.folder.path()).env("PATH", path);
        command.env("LOGNAME", "ada").env("USER", "ada").env("SHELL", "/bin/sh").env("TERM", "xterm");
        command
    }

    /// Runs the program to its end, which includes that nobody else holds its output open.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.qd(args).output().unwrap()
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        let state = self.path(".local/state/quarterdeck");
        let found = std::fs::read_dir(&state).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        found.into_iter().find(|path| path.extension().is_some_and(|end| end == "lock")).unwrap_or_else(|| state.join("no.lock"))
    }

    /// Gives what the lock file says; none when no daemon is ready.
    pub(crate) fn lock(&self) -> Option<Lock> {
        serde_json::from_slice(&std::fs::read(self.lock_file()).ok()?).ok()
    }

    /// Gives the daemon, which must be there.
    pub(crate) fn daemon(&self) -> Lock {
        self.lock().expect("a daemon")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Some(lock) = self.lock()
            && is_qd(lock.pid)
        {
            kill(lock.pid, rustix::process::Signal::KILL);
        }
    }
}

/// Tells whether the process is this program: a number may have been given to another.
fn is_qd(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(env!("CARGO_BIN_EXE_qd").as_bytes()))
}

pub(crate) fn kill(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    // A process that has gone by itself is what was wanted.
    let _gone = rustix::process::kill_process(pid, signal);
}

/// Waits until something holds; between two looks others get the processor.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < CAP, "not within the cap: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Waits until a process is gone; a zombie of somebody else's counts as gone.
pub(crate) fn until_gone(pid: i32) {
    until("the process is gone", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
    });
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
