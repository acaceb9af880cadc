//! This machine as a backend.
//!
//! Invariant: every shell is a child of the daemon in a session of its own, with pipes and nothing inherited; looking for
//! processes and ending them never touches one that another command or another program owns.

mod children;
mod end;
mod family;
mod gone;
mod login;
mod procfs;
pub(super) mod program;
pub mod reaper;
mod spawn;
pub(super) mod streams;
mod survivors;
#[cfg(test)]
pub(super) mod tests;
mod waits;

pub use children::become_subreaper;
pub use reaper::Reaper;

use super::ready::{self, Came};
use super::{
    About, Ask, Backend, BackendError, Environment, ErrorKind, Exit, Family, Link, Members, Reached, Ready, Shell, ShellChoice, Start,
};
use crate::model::{BackendKind, Capabilities, Finding};
use crate::shell::start::{reader_bash, reader_sh};
use futures::FutureExt;
use futures::future::BoxFuture;
use nix::errno::Errno;
use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;
use streams::{Room, Stdin, Stdout};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot, watch};

/// Variables that an operator's newest client handed over; the engine replaces them as clients come.
pub type ClientEnv = Arc<RwLock<Vec<(String, String)>>>;

/// Size of the pipe that a command's output comes through: large, so that a fast writer seldom waits for us.
const PIPE_BYTES: usize = 1 << 20;
/// This machine.
pub struct Local {
    about: About,
    /// Kept, or the receivers in [`About`] would see the link's end.
    _link: watch::Sender<Link>,
    client_env: ClientEnv,
    programs: Mutex<Programs>,
    large_pipes: Arc<AtomicUsize>,
    reaper: Option<Reaper>,
}

/// The shells found, so that a start does not search the PATH again.
#[derive(Default)]
struct Programs {
    bash: Option<PathBuf>,
    sh: Option<PathBuf>,
}

impl Local {
    /// Makes the backend. Shells start in the directory of this process: the daemon's is `/`.
    pub fn new(client_env: ClientEnv) -> Self {
        let up = Link { up: true, epoch: 1, last_heard: Some(Instant::now()), ..Link::default() };
        let (sender, link) = watch::channel(up);
        let capabilities = Capabilities { pty: false, separate_streams: true, verified_kill: true, same_files: true };
        let about = About { name: "local".into(), kind: BackendKind::Local, address: String::new(), capabilities, link };
        Self { about, _link: sender, client_env, programs: Mutex::default(), large_pipes: Arc::default(), reaper: None }
    }

    /// Has every shell noted with the reaper while it runs, so that none outlives a killed daemon.
    #[must_use]
    pub fn with_reaper(mut self, reaper: Reaper) -> Self {
        self.reaper = Some(reaper);
        self
    }

    /// Finds the shell to start and its kind.
    fn program(&self, choice: ShellChoice) -> Result<(PathBuf, bool), BackendError> {
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if choice != ShellChoice::Sh {
            if programs.bash.is_none() {
                programs.bash = login::find("bash");
            }
            if let Some(bash) = &programs.bash {
                return Ok((bash.clone(), true));
            }
        }
        if choice == ShellChoice::Bash {
            return Err(BackendError::new(ErrorKind::NoShell, "there is no bash on local")
                .with_fix("install bash, or set `shell: auto` for local: it then uses sh"));
        }
        if programs.sh.is_none() {
            programs.sh = login::find("sh");
        }
        let sh = programs.sh.clone().ok_or_else(|| BackendError::new(ErrorKind::NoShell, "there is neither bash nor sh on local"))?;
        Ok((sh, false))
    }

    /// Makes this program its sh.
    #[cfg(test)]
    pub(crate) fn with_sh(self, program: &std::path::Path) -> Self {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).sh = Some(program.to_owned());
        self
    }

    /// Forgets the shells found: one of them has moved.
    fn forget_programs(&self) {
        *self.programs.lock().unwrap_or_else(PoisonError::into_inner) = Programs::default();
    }

    async fn begin(&self, start: Start) -> Result<Shell, BackendError> {
        let env = match start.environment {
            Environment::Empty => Vec::new(),
            Environment::Login => {
                let client = self.client_env.clone();
                let asked = tokio::task::spawn_blocking(move || login::environment(&client)).await;
                asked.map_err(|e| BackendError::new(ErrorKind::Internal, format!("the account could not be looked up: {e}")))?
            }
        };
        let (program, is_bash) = self.program(start.shell)?;
        let spawned = launch(&program, is_bash, &start.nonce, env).map_err(|e| {
            self.forget_programs();
            refused(&program, &e)
        })?;
        self.receive(spawned, &start).await
    }

    /// Waits for READY and puts the handle together. A shell that does not come up is ended.
    async fn receive(&self, spawned: spawn::Spawned, start: &Start) -> Result<Shell, BackendError> {
        let internal = |e: io::Error| BackendError::new(ErrorKind::Internal, format!("a pipe of a local shell failed: {e}"));
        let known = spawned.child.known.clone();
        let mut unborn = Unborn { known: Some(known.clone()) };
        if let Some(reaper) = &self.reaper {
            reaper.watch(&Family { pid: known.pid, start_time: Some(known.start), age: None, cookie: String::new() });
        }
        let mut exit = watch_exit(spawned.child, self.reaper.clone());
        let room = Room::take(&self.large_pipes);
        if room.is_some() {
            // Refused when the account has too many large pipes already: then the pipe stays as it is.
            let _ = rustix::pipe::fcntl_setpipe_size(&spawned.stdout, PIPE_BYTES);
        }
        let stdin = Stdin::new(pipe::Sender::from_owned_fd(spawned.stdin).map_err(internal)?);
        let mut stdout = Stdout::new(pipe::Receiver::from_owned_fd(spawned.stdout).map_err(internal)?, room);
        let mut stderr = pipe::Receiver::from_owned_fd(spawned.stderr).map_err(internal)?;
        let came = ready::wait(&start.nonce, start.timeout, &mut stdout, &mut stderr, &mut exit).await;
        let Came { line, noise, early } = came.map_err(|why| why.into_error("local"))?;
        unborn.known = None;
        // Its own word for it differs where the program is a wrapper that forks; session and group are those of our child.
        let ready = Ready { pid: known.pid, boot_id: line.boot_id, kind: line.kind, version: line.version, start_time: Some(known.start) };
        let stderr: Box<dyn tokio::io::AsyncRead + Send + Unpin> =
            if early.is_empty() { Box::new(stderr) } else { Box::new(io::Cursor::new(early).chain(stderr)) };
        Ok(Shell { ready, noise, stdin: Box::new(stdin), stdout: Box::new(stdout), stderr, exit, held_up: None })
    }
}

impl Backend for Local {
    fn about(&self) -> &About {
        &self.about
    }

    fn check(&self) -> BoxFuture<'_, Result<Reached, BackendError>> {
        async {
            let began = Instant::now();
            self.program(ShellChoice::Auto)?;
            Ok(Reached { round_trip: began.elapsed(), fresh: false })
        }
        .boxed()
    }

    fn start(&self, start: Start) -> BoxFuture<'_, Result<Shell, BackendError>> {
        self.begin(start).boxed()
    }

    fn family(&self, family: Family, ask: Ask) -> BoxFuture<'_, Result<Members, BackendError>> {
        async move {
            if ask == Ask::Gone {
                return gone::gone(family).await;
            }
            // On a thread of its own: it reads /proc, and an ending waits for the grace. It goes on when nobody waits any more.
            let done = tokio::task::spawn_blocking(move || answer(&family, ask)).await;
            done.map_err(|e| BackendError::new(ErrorKind::Internal, format!("looking for processes failed: {e}")))?
        }
        .boxed()
    }

    /// There is no way to this machine: shells are started as always, apart from all others.
    fn examine<'a>(&'a self, _tell: &'a mpsc::Sender<Finding>) -> BoxFuture<'a, Option<Arc<dyn Backend>>> {
        let own = Self::new(self.client_env.clone());
        let own: Arc<dyn Backend> = Arc::new(Self { reaper: self.reaper.clone(), ..own });
        futures::future::ready(Some(own)).boxed()
    }

    /// There is no connection to close: local shells go on.
    fn close(&self) -> BoxFuture<'_, ()> {
        futures::future::ready(()).boxed()
    }
}

/// Looks or acts, blocking.
fn answer(family: &Family, ask: Ask) -> Result<Members, BackendError> {
    match ask {
        Ask::Survivors => {
            let alive: Vec<u32> = family::members(family).into_keys().collect();
            let ours = children::known(family.pid, family.start_time).map_or([0; 3], |k| k.pipes);
            let kinds = survivors::classify(alive.iter().copied(), &ours);
            let (ending, tails) = (kinds.ending.into_iter().collect(), kinds.tails.into_iter().collect());
            Ok(Members { alive, ending, tails, ..Members::default() })
        }
        Ask::Readers => {
            let stdin = children::known(family.pid, family.start_time).map(|known| known.pipes[0]);
            let stdin = stdin.ok_or_else(|| BackendError::new(ErrorKind::Internal, "the shell is not one of this daemon's"))?;
            let pids = waits::tree(family.pid).unwrap_or_else(|| family::members(family).into_keys().collect());
            waits::readers(pids, stdin)
        }
        Ask::End { grace } => Ok(end::end(family, grace)),
        // It waits, which no thread is kept for.
        Ask::Gone => Err(BackendError::new(ErrorKind::Internal, "a wait for an end was asked of a thread")),
        Ask::Signal(number) => match rustix::process::Signal::from_named_raw(number) {
            Some(signal) => Ok(end::signal(family, signal)),
            None => Err(BackendError::new(ErrorKind::Internal, format!("there is no signal {number} that can be sent"))),
        },
    }
}

/// Starts the program with the reader.
fn launch(program: &Path, is_bash: bool, nonce: &str, mut env: Vec<(Vec<u8>, Vec<u8>)>) -> io::Result<spawn::Spawned> {
    let args: Vec<CString> = if is_bash {
        spawn::words(["bash", "--norc", "--noprofile", "-c", reader_bash(nonce).as_str(), "bash"])?
    } else {
        spawn::words(["sh", "-c", reader_sh(nonce).as_str(), "sh"])?
    };
    if !is_bash && !env.iter().any(|(name, _)| name == b"PATH") {
        env.push((b"PATH".to_vec(), std::os::unix::ffi::OsStringExt::into_vec(login::search_path())));
    }
    let env = spawn::words(env.into_iter().map(|(name, value)| [name, value].join(&b'=')))?;
    spawn::piped(program, &args, &env)
}

/// Says why a program could not be started.
fn refused(program: &Path, error: &io::Error) -> BackendError {
    let text = format!("{} could not be started: {error}", program.display());
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE) => {
            BackendError::new(ErrorKind::Busy, text).with_fix("this machine is short of processes, memory or open files: end something")
        }
        _ => BackendError::new(ErrorKind::NoShell, text).with_fix("check that the shell can be executed"),
    }
}

/// Waits for the end of a child in a task of its own, so that it is collected whoever still holds the handle.
fn watch_exit(child: children::Own, reaper: Option<Reaper>) -> BoxFuture<'static, Exit> {
    let (tell, told) = oneshot::channel();
    let pid = child.known.pid;
    tokio::spawn(async move {
        let exit = match child.wait().await {
            Ok(children::Status::Code(code)) => Exit::Code(code),
            Ok(children::Status::Signal(number)) => Exit::Signal(signal_name(number)),
            Err(e) => Exit::Lost(BackendError::new(ErrorKind::Internal, format!("the shell's end could not be read: {e}"))),
        };
        if let Some(reaper) = reaper {
            reaper.forget(pid);
        }
        // Nobody may be left to hear it.
        let _ = tell.send(exit);
    });
    told.map(|exit| {
        exit.unwrap_or_else(|_| Exit::Lost(BackendError::new(ErrorKind::Internal, "the daemon is stopping: nobody waits for the shell")))
    })
    .boxed()
}

fn signal_name(number: i32) -> String {
    nix::sys::signal::Signal::try_from(number).map_or_else(|_| format!("SIG{number}"), |s| s.as_str().to_owned())
}

/// A shell that has not said READY: killed, with what it started, when it is given up.
struct Unborn {
    known: Option<children::Known>,
}

impl Drop for Unborn {
    fn drop(&mut self) {
        use rustix::process::{Pid, Signal, kill_process_group, pidfd_send_signal};
        let Some(known) = &self.known else { return };
        // Fails when it has ended and was collected: then its number may be somebody else's group.
        if pidfd_send_signal(&known.pidfd, Signal::KILL).is_ok()
            && let Some(group) = Pid::from_raw(known.pid.cast_signed())
        {
            // Fails when nothing is left of it.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
