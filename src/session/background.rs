//! Background processes of a session: starting one that nobody waits for, and following all of a backend over one shell.
//!
//! Invariant: a process is started at most once and only read from afterwards: its state is never the session's, and a link
//! that breaks costs nothing but time, because what was read is counted in bytes of its log there.

use super::errand::Errand;
use super::error::SessionError;
use super::handle::Session;
use super::{Command, Settings};
use crate::backend::{Backend, BackendError, Environment, ErrorKind, Exit, Family, Ready, Shell, Start};
use crate::model::Outcome;
use crate::shell::background::{self, Head, How, Launch, Launched};
use crate::shell::record::{Parser, Record};
use crate::shell::wrap::{self, COOKIE, First, Second, Source, framed};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Notify;

/// Limit of a launch, beyond the start of the shell.
const LIMIT: Duration = Duration::from_secs(30);
/// Longest line of ours in an answer.
const LINE_MAX: usize = 256;
/// Most bytes of what a shell told us at its end.
const TOLD_MAX: u64 = 64 * 1024;
/// Set where nothing else is said: output that nobody waits for is wanted as it comes.
const UNBUFFERED: (&str, &str) = ("PYTHONUNBUFFERED", "1");

/// Where a background process is, and what proves that it is the one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spot {
    /// Its id, the name of its folder.
    pub id: String,
    /// The folder of all background processes there.
    pub root: String,
    /// The number of its guardian, which is also its group.
    pub pid: u32,
    /// When that began, in the backend's own words.
    pub start: String,
    /// The backend's boot id then.
    pub boot: String,
    /// The nonce of its shell.
    pub nonce: String,
}

impl Spot {
    /// Names its processes.
    pub fn family(&self) -> Family {
        Family { pid: self.pid, start_time: self.start.parse().ok(), age: None, cookie: format!("{COOKIE}={}", self.id) }
    }
}

/// Is told where a process will be, before it is started.
pub type Intend<'a> = &'a (dyn Fn(Spot) -> BoxFuture<'static, ()> + Send + Sync);

/// What was heard of a background process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Output, next in order.
    Output(Vec<u8>),
    /// It has ended.
    Ended {
        /// How.
        outcome: Outcome,
        /// Whether nothing ran, because its directory could not be entered.
        no_directory: bool,
    },
}

impl Session {
    /// Starts a command in the background, from the session's state and directory as they are now. Gives where it is and the
    /// directory that it starts in. What `intend` gives is waited for before anything is sent: it is told where the process will
    /// be, with a number of 0. Not cancel safe: dropped, it may run.
    pub async fn launch(self: &Arc<Self>, command: &Command, intend: Intend<'_>) -> Result<(Spot, String), SessionError> {
        let mut snapshot = self.ready().await?;
        let secrets = if command.agent.is_none() { self.secrets().await } else { Vec::new() };
        // A wiped folder is met once; then its files are there again.
        for _ in 0..2 {
            let (folder, kind, base) = {
                let state = self.state();
                (state.folder.clone(), state.kind.clone(), state.base.clone())
            };
            // <root>/<daemon>/<session>
            let root = folder.as_deref().and_then(|f| f.rsplitn(3, '/').nth(2)).map(|root| format!("{root}/background"));
            let (Some(folder), Some(root)) = (folder, root) else {
                return Err(self.no_launch("nothing is writable there, and its output needs a file".into()));
            };
            let (bash, nonce) = (kind == "bash", super::random_hex(8));
            let files = format!("{folder}/{}", snapshot.id);
            let leave = format!("{root}/{}/s", command.id);
            let log = format!("{root}/{}/log", command.id);
            let transient = self.transient();
            let first = First {
                nonce: &nonce,
                source: Source::Files(&files),
                leave: &leave,
                // It has its command from the beginning.
                late: true,
                options: &snapshot.options,
                base: &base,
                transient: &transient,
                shim: false,
            };
            let (input, cwd) = self.with_second(command, false, &secrets, |second| {
                let defaults: Vec<_> = second.defaults.iter().copied().chain([UNBUFFERED]).collect();
                let second = Second { output: Some(&log), defaults: &defaults, split: false, ..*second };
                match bash {
                    true => [wrap::first(&first), wrap::second(&first, &second)].concat(),
                    false => crate::shell::wrap_sh::script(&first, &second),
                }
            });
            let check = format!("{files}.v");
            let launch = Launch { root: &root, id: &command.id, nonce: &nonce, input: &input, check: Some(&check), bash };
            let unborn = |root: &str, nonce: &str| Spot {
                id: command.id.clone(),
                root: root.to_owned(),
                pid: 0,
                start: String::new(),
                boot: String::new(),
                nonce: nonce.to_owned(),
            };
            intend(unborn(&root, &nonce)).await;
            match self.launch_with(&launch, &kind).await? {
                Launched::Runs { pid, start, boot } => {
                    return Ok((Spot { id: command.id.clone(), root, pid, start, boot, nonce }, cwd));
                }
                Launched::NoSnapshot => snapshot = self.resend(snapshot).await?,
                Launched::Not(why) => return Err(self.no_launch(why)),
            }
        }
        Err(self.no_launch("the session's snapshot cannot be loaded: `qd session reset` makes a new one".into()))
    }

    async fn launch_with(&self, launch: &Launch<'_>, kind: &str) -> Result<Launched, SessionError> {
        let Settings { shell, start_timeout, .. } = self.place.settings;
        let errand = Errand {
            backend: &self.place.backend,
            shell,
            environment: Environment::Empty,
            start: start_timeout,
            limit: LIMIT,
            what: "start a background process",
        };
        let mut other = None;
        let script = |ready: &Ready, _: &str, _: &str| {
            if ready.kind == kind {
                return background::launch(launch);
            }
            other = Some(ready.kind.clone());
            b"exit 0\n".to_vec()
        };
        let answer = errand.run(script).await?;
        if let Some(now) = other {
            return Err(
                errand.failed(format!("the session's state is {kind}'s, and the backend now starts {now}: run a command in it first"))
            );
        }
        background::launched(&answer.stdout).ok_or_else(|| errand.failed("the shell there did not say what became of it".into()))
    }

    fn no_launch(&self, why: String) -> SessionError {
        SessionError::Errand { what: "start a background process", backend: self.place.backend_name().to_owned(), why }
    }
}

/// Follows the background processes of one backend.
pub struct Follower {
    nonce: String,
    stdin: Box<dyn AsyncWrite + Send + Unpin>,
    stdout: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    exit: BoxFuture<'static, Exit>,
    /// Closed, it would end what writes to it.
    _stderr: Box<dyn AsyncRead + Send + Unpin>,
}

impl Follower {
    /// Starts the shell that looks after them there; `root` as in their [`Spot`]s.
    pub async fn open(backend: &Arc<dyn Backend>, settings: &FollowSettings, root: &str) -> Result<Self, BackendError> {
        let nonce = super::random_hex(8);
        let FollowSettings { shell, timeout } = *settings;
        let start = Start { nonce: nonce.clone(), shell, environment: Environment::Empty, timeout, on: None };
        let Shell { ready, mut stdin, stdout, stderr, exit, .. } = backend.start(start).await?;
        let bash = ready.kind == "bash";
        let script = background::follow(root, &nonce, bash);
        let script = if bash { framed(&script, b":") } else { crate::shell::wrap_sh::framed(&script) };
        // A failure shows in the first answer.
        let _ = stdin.write_all(&script).await;
        Ok(Self { nonce, stdin, stdout: BufReader::new(stdout), exit, _stderr: stderr })
    }

    /// Asks for what is new of these, each from an offset on: waits until there is something, at most about half a minute. `wake` makes it
    /// answer sooner. Not cancel safe: dropped, the follower is of no use any more.
    pub async fn ask(&mut self, list: &[(Spot, u64)], wake: &Notify) -> Result<Vec<(String, Heard)>, BackendError> {
        let words = |(s, offset): &(Spot, u64)| format!("{} {offset} {} {} {}", s.id, s.pid, s.start, s.boot);
        let request = list.iter().map(words).collect::<Vec<_>>().join(" ") + "\n";
        match self.answer(&request, list, wake).await {
            Some(heard) => Ok(heard),
            None => Err(self.why().await),
        }
    }

    /// Has the folders of processes removed whose end was taken in.
    pub async fn remove(&mut self, ids: &[String]) {
        // Lost with the link, they are removed at a later launch.
        let _ = self.stdin.write_all(format!("- {}\n", ids.join(" ")).as_bytes()).await;
    }

    /// Reads one answer; none when the shell is gone or says what it should not.
    async fn answer(&mut self, request: &str, list: &[(Spot, u64)], wake: &Notify) -> Option<Vec<(String, Heard)>> {
        self.stdin.write_all(request.as_bytes()).await.ok()?;
        self.stdin.flush().await.ok()?;
        let mut heard = Vec::new();
        let mut line = Vec::new();
        let mut woken = false;
        loop {
            line.clear();
            loop {
                tokio::select! {
                    biased;
                    done = read_line(&mut self.stdout, &mut line) => break done?,
                    () = wake.notified(), if !woken => {
                        woken = true;
                        self.stdin.write_all(b"\n").await.ok()?;
                    }
                }
            }
            match background::head(&line, &self.nonce)? {
                Head::Done => return Some(heard),
                Head::Data { id, len } if len <= background::PIECE => heard.push((id, Heard::Output(self.take(len).await?))),
                Head::End { id, how, len } if len <= TOLD_MAX => {
                    let told = self.take(len).await?;
                    let nonce = list.iter().find(|(spot, _)| spot.id == id).map(|(spot, _)| spot.nonce.as_str())?;
                    heard.push((id, ended(how, &told, nonce)));
                }
                _ => return None,
            }
        }
    }

    async fn take(&mut self, len: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(len).ok()?];
        self.stdout.read_exact(&mut bytes).await.ok()?;
        Some(bytes)
    }

    async fn why(&mut self) -> BackendError {
        // Its stdin has not ended, so a shell that says nonsense would stay: it is let go of.
        match tokio::time::timeout(Duration::from_secs(1), &mut self.exit).await {
            Ok(Exit::Lost(error)) => error,
            Ok(_) | Err(_) => BackendError::new(ErrorKind::Internal, "the shell that follows background processes ended or failed"),
        }
    }
}

/// How a follower's shell is started.
#[derive(Clone, Copy, Debug)]
pub struct FollowSettings {
    /// Which shell.
    pub shell: crate::backend::ShellChoice,
    /// How long it may take to be ready.
    pub timeout: Duration,
}

/// Reads up to a line's end. Cancel safe: what was read is in `line`.
async fn read_line(from: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> Option<()> {
    loop {
        let bytes = from.fill_buf().await.ok()?;
        if bytes.is_empty() {
            return None;
        }
        let end = bytes.iter().position(|b| *b == b'\n').map(|at| at + 1);
        let n = end.unwrap_or(bytes.len());
        line.extend_from_slice(&bytes[..n]);
        from.consume(n);
        if end.is_some() {
            return Some(());
        }
        if line.len() > LINE_MAX {
            return None;
        }
    }
}

/// How a process ended, from what is known there and what its shell told.
fn ended(how: How, told: &[u8], nonce: &str) -> Heard {
    let (mut records, mut rest) = (Vec::new(), Vec::new());
    Parser::new(nonce).feed(told, &mut records, &mut rest);
    let no_directory = records.iter().any(|r| matches!(r, Record::NoDirectory(_)));
    let last_word = |code| records.iter().any(|r| matches!(r, Record::End(end) if end.code == code));
    let not_run = records.iter().any(|r| matches!(r, Record::NotRun(_)));
    let outcome = match how {
        How::Exit(_) if not_run => Outcome::SpawnFailed { reason: "the session's files were gone when it started: run it again".into() },
        // A shell whose last word was this code exited with it, whatever it looks like.
        How::Exit(code) if no_directory || last_word(code) => Outcome::Exited { exit_code: code },
        How::Exit(code) => match nix::sys::signal::Signal::try_from(code - 128) {
            Ok(signal) => Outcome::Signaled { signal: signal.as_str().to_owned() },
            Err(_) => Outcome::Exited { exit_code: code },
        },
        How::Gone => Outcome::Lost { reason: "its process is gone and left no exit code: it was killed, or its files were removed".into() },
        How::Boot => Outcome::Lost { reason: "the machine was started anew while it ran; its exit code is not known".into() },
    };
    Heard::Ended { outcome, no_directory }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_as_it_was() {
        let n = "0123456789abcdef";
        let check = |how, told: &str| match ended(how, told.as_bytes(), n) {
            Heard::Ended { outcome, no_directory } => (outcome.word(), outcome.process_exit_code(), no_directory),
            Heard::Output(_) => panic!("no end"),
        };
        let record = "\x1eE0123456789abcdef\x00143\x00/\x00/\x00\x00\x00\x00\x30\x00ok\x00";
        assert_eq!(check(How::Exit(0), ""), ("exited", 0, false));
        assert_eq!(check(How::Exit(143), ""), ("signaled", 143, false));
        assert_eq!(check(How::Exit(143), record), ("exited", 143, false));
        assert_eq!(check(How::Exit(126), "\x1eW0123456789abcdef\0no such directory\0"), ("exited", 126, true));
        assert_eq!(check(How::Exit(97), "\x1eX0123456789abcdef\0nosnap\0"), ("spawn_failed", 125, false));
        assert_eq!(check(How::Exit(255), ""), ("exited", 255, false));
        assert_eq!(check(How::Gone, ""), ("lost", 255, false));
        assert_eq!(check(How::Boot, ""), ("lost", 255, false));
    }
}
