//! Programs of the person's own that help to reach a machine: `ssh -G` and a ProxyCommand.
//!
//! Invariant: whoever lets go of one ends it, with what it started in its process group, by its process id, and its exit is
//! waited for.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Most output that is taken.
const MOST: usize = 1 << 20;
/// How much of what a program says on stderr is kept: its end.
const SAID: usize = 4 << 10;
/// How long a program may take to end by itself once its streams are closed, and once it was hung up.
const GRACE: Duration = Duration::from_millis(300);
/// How long the words and the status of a program that has closed its stdout are waited for.
const SETTLE: Duration = Duration::from_millis(500);
/// How long words still come from a program that has ended: others may hold its stderr open.
const REST: Duration = Duration::from_millis(100);

/// What a program gave.
pub(super) struct Output {
    /// How it ended.
    pub(super) status: ExitStatus,
    /// Its stdout.
    pub(super) stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Output {
    /// Its stderr in one line.
    pub(super) fn said(&self) -> String {
        words(&self.stderr)
    }
}

/// Why there is no output.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is no such program.
    Missing,
    /// It did not end in time.
    Late,
    /// Anything else.
    Broken(io::Error),
}

/// Runs a program to its end. Cancel safe: it is ended.
pub(super) async fn output(program: &Path, args: &[OsString], env: &[(String, String)], limit: Duration) -> Result<Output, Failure> {
    let mut command = Command::new(program);
    command.args(args).envs(env.iter().map(|(n, v)| (n, v))).stdin(Stdio::null());
    let mut child =
        spawn(&mut command).map_err(|e| if e.kind() == io::ErrorKind::NotFound { Failure::Missing } else { Failure::Broken(e) })?;
    let given_up = CancellationToken::new();
    let guard = given_up.clone().drop_guard();
    let task = tokio::spawn(async move {
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let ended = async {
            let (stdout, stderr, status) = tokio::join!(whole(out), whole(err), child.wait());
            Ok(Output { status: status?, stdout: stdout?, stderr: stderr? })
        };
        let done = tokio::select! {
            done = ended => Some(done),
            () = sleep(limit) => None,
            () = given_up.cancelled() => None,
        };
        match done {
            Some(done) => done.map_err(Failure::Broken),
            None => {
                end(&mut child).await;
                Err(Failure::Late)
            }
        }
    });
    let done = task.await.unwrap_or_else(|e| Err(Failure::Broken(io::Error::other(e))));
    drop(guard);
    done
}

fn spawn(command: &mut Command) -> io::Result<Child> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true).spawn()
}

async fn whole(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    if let Some(stream) = stream {
        stream.take(MOST as u64).read_to_end(&mut all).await?;
    }
    Ok(all)
}

/// Ends a program and what is in its group, and waits for its exit.
async fn end(child: &mut Child) {
    // Without an id it has been waited for already.
    let Some(group) = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw) else { return };
    for signal in [Signal::SIGHUP, Signal::SIGKILL] {
        if let Err(e) = killpg(group, signal) {
            tracing::debug!("{signal} to process group {group}: {e}");
        }
        if timeout(GRACE, child.wait()).await.is_ok() {
            return;
        }
    }
    tracing::warn!("process {group} does not end");
}

/// A program whose stdin and stdout carry a connection.
pub(super) struct Carrier {
    /// What it says and how it ends.
    pub(super) said: Arc<Said>,
    /// To it.
    pub(super) stdin: ChildStdin,
    /// From it.
    pub(super) stdout: ChildStdout,
    /// Ends it when dropped.
    pub(super) guard: DropGuard,
}

/// What a program said on stderr, and how it ended.
#[derive(Default)]
pub(super) struct Said {
    tail: Mutex<Vec<u8>>,
    status: Mutex<Option<ExitStatus>>,
    ended: CancellationToken,
    /// Cancelled when no more of its stderr will come.
    silent: CancellationToken,
}

impl Said {
    /// What it has said so far.
    pub(super) fn so_far(&self) -> Option<String> {
        let said = words(&self.tail.lock().unwrap_or_else(PoisonError::into_inner));
        (!said.is_empty()).then_some(said)
    }

    /// How it ended and what it said, in words, when it ends soon.
    pub(super) async fn ending(&self) -> Option<String> {
        let settled = async {
            self.ended.cancelled().await;
            self.silent.cancelled().await;
        };
        // Something else may hold its stderr open.
        timeout(SETTLE, settled).await.ok();
        let status = (*self.status.lock().unwrap_or_else(PoisonError::into_inner))?;
        let said = self.so_far();
        let status = match status.code() {
            Some(code) => format!("ended with code {code}"),
            None => format!("was ended ({status})"),
        };
        Some(said.map_or(status.clone(), |said| format!("{status}: {said}")))
    }
}

/// Starts a command line with the person's shell, as OpenSSH does.
pub(super) fn carry(shell: &Path, command: &str, env: &[(String, String)]) -> io::Result<Carrier> {
    let mut line = Command::new(shell);
    line.arg("-c").arg(format!("exec {command}")).envs(env.iter().map(|(n, v)| (n, v))).stdin(Stdio::piped());
    let mut child = spawn(&mut line)?;
    let missing = || io::Error::other("a stream of its own is missing");
    let (stdin, stdout) = (child.stdin.take().ok_or_else(missing)?, child.stdout.take().ok_or_else(missing)?);
    let stderr = child.stderr.take().ok_or_else(missing)?;
    let said = Arc::new(Said::default());
    let let_go = CancellationToken::new();
    tokio::spawn(listen(stderr, said.clone()));
    let (told, gone) = (said.clone(), let_go.clone());
    tokio::spawn(async move {
        let status = tokio::select! {
            biased;
            status = child.wait() => status.ok(),
            // Its streams are closed now, which most take as the end; how they end then is worth knowing.
            () = gone.cancelled() => match timeout(GRACE, child.wait()).await {
                Ok(status) => status.ok(),
                Err(_) => {
                    end(&mut child).await;
                    None
                }
            },
        };
        *told.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
        told.ended.cancel();
    });
    Ok(Carrier { said, stdin, stdout, guard: let_go.drop_guard() })
}

/// Keeps the end of what is said.
async fn listen(mut stderr: impl AsyncRead + Unpin, said: Arc<Said>) {
    let mut piece = [0; 1024];
    let ended = said.clone();
    let over = async move {
        ended.ended.cancelled().await;
        sleep(REST).await;
    };
    tokio::pin!(over);
    loop {
        let read = tokio::select! {
            read = stderr.read(&mut piece) => read,
            () = &mut over => break,
        };
        let Ok(len @ 1..) = read else { break };
        let mut tail = said.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&piece[..len]);
        let over = tail.len().saturating_sub(SAID);
        tail.drain(..over);
    }
    said.silent.cancel();
}

/// What was said, on one line and without control characters.
fn words(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").chars().filter(|c| !c.is_control()).collect()
}
