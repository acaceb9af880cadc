//! Background processes of a session: starting one that nobody waits for, and writing to its stdin later.
//!
//! Invariant: a process is started at most once, and its state is never the session's; what is to be its stdin to its end is there
//! before it starts, so that neither a link nor a daemon is needed to bring it.

use super::errand::Errand;
use super::error::SessionError;
use super::handle::Session;
use super::input::Input;
use super::{Command, FollowSettings, Settings};
use crate::backend::{Backend, Environment, ErrorKind, Exit, Family, Ready, Shell, Start};
use crate::model::{Warning, WarningCode};
use crate::shell::background::{self, Cap, Launch, Launched, Stdin};
use crate::shell::wrap::{self, COOKIE, Directory, First, Second, Source, framed};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Limit of a launch, beyond the start of the shell.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a write waits for a process that does not read its stdin; then what it did not take is dropped, and said to be.
const WRITE_LIMIT: Duration = Duration::from_secs(600);
/// Most bytes of an answer of ours.
const SAID_MAX: u64 = 4096;
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
    /// Whether its stdin was left open for others to write to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

impl Spot {
    /// Names its processes.
    pub fn family(&self) -> Family {
        Family { pid: self.pid, start_time: self.start.parse().ok(), age: None, cookie: format!("{COOKIE}={}", self.id) }
    }
}

/// Is told where a process will be, before it is started.
pub type Intend<'a> = &'a (dyn Fn(Spot) -> BoxFuture<'static, ()> + Send + Sync);

/// How a background process is started.
#[derive(Clone, Copy, Debug)]
pub struct Begin {
    /// What its stdin is.
    pub stdin: Stdin,
    /// What its log keeps on the backend.
    pub cap: Cap,
}

/// One that was started.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Where it is.
    pub spot: Spot,
    /// The directory that it starts in.
    pub cwd: String,
    /// What must be said of its start.
    pub warnings: Vec<Warning>,
}

impl Session {
    /// Starts a command in the background, from the session's state and directory as they are now. Its deadline is kept by its guardian on the backend. What `intend` gives is waited for before anything
    /// is sent: it is told where the process will be, with a number of 0. Not cancel safe: dropped, it may run.
    pub async fn launch(self: &Arc<Self>, command: &Command, begin: Begin, intend: Intend<'_>) -> Result<Begun, SessionError> {
        let mut snapshot = self.ready().await?;
        let secrets = if command.agent.is_none() { self.secrets().await } else { Vec::new() };
        // A wiped folder is met once; then its files are there again.
        for _ in 0..2 {
            let (folder, kind, base) = {
                let state = self.state();
                (state.folder.clone(), state.kind.clone(), state.base.clone())
            };
            let (Some(folder), Some(root)) = (folder, self.background_root()) else {
                return Err(self.no_launch("nothing is writable there, and its output needs a file".into()));
            };
            let (bash, nonce) = (kind == "bash", super::random_hex(8));
            let files = format!("{folder}/{}", snapshot.id);
            let leave = format!("{root}/{}/s", command.id);
            let log = format!("{root}/{}/log", command.id);
            let stdin = background::stdin_path(&root, &command.id);
            let input = (begin.stdin != Stdin::Empty).then_some(stdin.as_str());
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
            let mut dir = None;
            let (text, cwd) = self.with_second(command, false, &secrets, |second| {
                dir = if let Directory::Session(dir) = second.directory { Some(dir.to_vec()) } else { None };
                let defaults: Vec<_> = second.defaults.iter().copied().chain([UNBUFFERED]).collect();
                let second = Second { input, output: Some(&log), defaults: &defaults, split: false, ..*second };
                match bash {
                    true => [wrap::first(&first), wrap::second(&first, &second)].concat(),
                    false => crate::shell::wrap_sh::script(&first, &second),
                }
            });
            let check = format!("{files}.v");
            let launch = Launch {
                root: &root,
                id: &command.id,
                nonce: &nonce,
                input: &text,
                dir: dir.as_deref(),
                check: Some(&check),
                bash,
                stdin: begin.stdin,
                limit: command.timeout,
                cap: begin.cap,
            };
            let unborn = Spot {
                id: command.id.clone(),
                root: root.clone(),
                pid: 0,
                start: String::new(),
                boot: String::new(),
                nonce: nonce.clone(),
                open: begin.stdin == Stdin::Open,
            };
            intend(unborn).await;
            match self.launch_with(&launch, &kind).await.map_err(|error| self.silent(error))? {
                Launched::Runs { pid, start, boot, instead } => {
                    let open = begin.stdin == Stdin::Open;
                    let spot = Spot { id: command.id.clone(), root, pid, start, boot, nonce, open };
                    let Some(instead) = instead else { return Ok(Begun { spot, cwd, warnings: Vec::new() }) };
                    let text = format!("the session's directory {cwd} is gone: the command runs in {instead}");
                    return Ok(Begun { spot, cwd: instead, warnings: vec![Warning::new(WarningCode::CwdFallback, text)] });
                }
                Launched::NoSnapshot => snapshot = self.resend(snapshot).await?,
                Launched::Not(why) => return Err(self.no_launch(why)),
            }
        }
        Err(self.no_launch("the session's snapshot cannot be loaded: `qd session reset` makes a new one".into()))
    }

    /// Brings what is to be the stdin of a background process to its folder, to its end. Gives how many bytes that were. Cancel safe in
    /// so far as nothing runs; [`Session::forget_input`] removes what is there by then.
    pub async fn bring_input(self: &Arc<Self>, id: &str, mut input: Input) -> Result<u64, SessionError> {
        self.ready().await?;
        let root = self.background_root().ok_or_else(|| self.no_launch("nothing is writable there, and its stdin needs a file".into()))?;
        let Settings { shell, start_timeout, .. } = self.place.settings;
        let start = Start { nonce: super::random_hex(8), shell, environment: Environment::Empty, timeout: start_timeout, on: None };
        let Shell { ready, mut stdin, stdout, stderr: _stderr, exit, .. } = self.place.backend.start(start).await?;
        let script = background::upload(&root, id);
        let script = if ready.kind == "bash" { framed(&script, b":") } else { crate::shell::wrap_sh::framed(&script) };
        let write = async move {
            let mut total = 0;
            let mut wrote = stdin.write_all(&script).await;
            while wrote.is_ok()
                && let Some(bytes) = input.caller.recv().await
            {
                wrote = stdin.write_all(&bytes).await;
                total += bytes.len() as u64;
            }
            // A failure shows in the answer.
            let _ = stdin.shutdown().await;
            total
        };
        let read = async move {
            let mut said = Vec::new();
            // Cut short, it is no answer.
            let _ = stdout.take(SAID_MAX).read_to_end(&mut said).await;
            said
        };
        let (total, said, exit) = tokio::join!(write, read, exit);
        match (background::uploaded(&said), exit) {
            (Some(Ok(there)), _) if there == total => Ok(total),
            (Some(Ok(there)), _) => Err(self.no_launch(format!("of {total} bytes for its stdin only {there} came there"))),
            (Some(Err(why)), _) => Err(self.no_launch(why)),
            (None, Exit::Lost(error)) => Err(error.into()),
            (None, _) => Err(self.no_launch("the shell there did not say what became of its stdin".into())),
        }
    }

    /// Removes what was brought for a process that was never started.
    pub async fn forget_input(&self, id: &str) -> Result<(), SessionError> {
        let Some(root) = self.background_root() else { return Ok(()) };
        let folder = crate::shell::quote::text(&format!("{root}/{id}"));
        let Settings { shell, start_timeout, .. } = self.place.settings;
        let errand = errand(&self.place.backend, shell, start_timeout, LIMIT, "remove the stdin of a process that was not started");
        errand.demand(format!("rm -rf -- {folder}\nexit 0\n").into_bytes()).await.map(drop)
    }

    /// The folder of all background processes: `<root>/background`, where the session's is `<root>/<daemon>/<session>`.
    fn background_root(&self) -> Option<String> {
        let folder = self.state().folder.clone()?;
        folder.rsplitn(3, '/').nth(2).map(|root| format!("{root}/background"))
    }

    async fn launch_with(&self, launch: &Launch<'_>, kind: &str) -> Result<Launched, SessionError> {
        let Settings { shell, start_timeout, .. } = self.place.settings;
        let errand = errand(&self.place.backend, shell, start_timeout, LIMIT, "start a background process");
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

    /// A launch without an answer may have been one.
    fn silent(&self, error: SessionError) -> SessionError {
        match error {
            SessionError::Errand { why, .. } => SessionError::Silent { backend: self.place.backend_name().to_owned(), why },
            SessionError::Backend(error) if error.kind == ErrorKind::Internal => {
                SessionError::Silent { backend: self.place.backend_name().to_owned(), why: error.to_string() }
            }
            error => error,
        }
    }

    fn no_launch(&self, why: String) -> SessionError {
        SessionError::Errand { what: "start a background process", backend: self.place.backend_name().to_owned(), why }
    }
}

/// Writes to the open stdin of a background process and, when that is wanted, ends it: true once the process has all of it in its pipe,
/// false when it has no open stdin any more. Waits while it does not read. Not cancel safe: dropped, it may be written.
pub async fn write_input(
    backend: &Arc<dyn Backend>,
    settings: &FollowSettings,
    spot: &Spot,
    bytes: &[u8],
    end: bool,
) -> Result<bool, SessionError> {
    let FollowSettings { shell, timeout, .. } = *settings;
    let errand = errand(backend, shell, timeout, WRITE_LIMIT, "write to the stdin of a background process");
    let answer = errand.run(|_, _, _| background::send(&spot.root, &spot.id, bytes, end)).await?;
    background::sent(&answer.stdout).ok_or_else(|| errand.failed("the shell there did not say what became of it".into()))
}

fn errand<'a>(
    backend: &'a Arc<dyn Backend>,
    shell: crate::backend::ShellChoice,
    start: Duration,
    limit: Duration,
    what: &'static str,
) -> Errand<'a> {
    Errand { backend, shell, environment: Environment::Empty, start, limit, what }
}
