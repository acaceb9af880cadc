//! Starting a daemon: one client at a time, and the child's failure is told with its whole text.
//!
//! Invariant: the client goes on only after the child has said that it listens, or why it does not.

use super::find::unusable;
use super::greet::whole_path;
use super::{ClientError, Connect};
use crate::paths::Paths;
use crate::protocol::launch::{ARGV, NOT_INHERITED, Report};
use crate::protocol::lock::{self, LockError};
use crate::report::chain;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

/// A daemon starts in some 20 ms; on a loaded machine with its files on a network, in some seconds.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Most of what a failing child said that is shown.
const NOISE: u64 = 16 << 10;

/// How to start a daemon.
#[derive(Clone, Debug)]
pub(super) struct Launcher {
    pub(super) program: PathBuf,
    /// Arguments before `--config` and the hidden words.
    pub(super) args: Vec<OsString>,
    /// Variables set for the daemon.
    pub(super) env: Vec<(OsString, OsString)>,
}

impl Launcher {
    /// This very program.
    pub(super) fn this_program() -> io::Result<Self> {
        let program = std::env::current_exe()?;
        // After an upgrade the file may be gone; the kernel still knows the one that runs.
        let program = if program.exists() { program } else { PathBuf::from("/proc/self/exe") };
        Ok(Self { program, args: Vec::new(), env: Vec::new() })
    }
}

/// Waits until no other client is starting a daemon. The file is the turn: dropping it passes it on.
pub(super) async fn wait_for_turn(paths: &Paths) -> Result<File, ClientError> {
    let folders = paths.clone();
    let made = tokio::task::spawn_blocking(move || folders.ensure()).await;
    made.map_err(|error| ClientError::Unreachable(error.to_string()))?.map_err(unusable)?;
    lock::take(&paths.lock_file().with_extension("start"), START_TIMEOUT).await.map_err(|error| match error {
        LockError::Held { .. } => ClientError::Unreachable(format!("another qd is starting it and does not get on with it: {error}")),
        LockError::Io { .. } => ClientError::Unreachable(chain(&error)),
    })
}

/// Starts a daemon and waits until it listens.
pub(super) async fn start(launcher: &Launcher, how: &Connect) -> Result<(), ClientError> {
    let mut command = Command::new(&launcher.program);
    command.args(&launcher.args);
    if let Some(config) = &how.config {
        command.arg("--config").arg(whole_path(config));
    }
    command.args(ARGV).current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(launcher.env.iter().cloned());
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    let shown = launcher.program.display().to_string();
    let mut child = command.spawn().map_err(|error| ClientError::Unreachable(format!("{shown} could not be started: {error}")))?;
    match tokio::time::timeout(START_TIMEOUT, first_words(&mut child)).await {
        Ok(result) => result,
        Err(_) => Err(ClientError::Unreachable(format!(
            "it was started (process id {}) and did not become ready within {} s",
            child.id().unwrap_or_default(),
            START_TIMEOUT.as_secs()
        ))),
    }
}

/// Waits for the child's report; a child that ends without one is told with what it said instead.
async fn first_words(child: &mut Child) -> Result<(), ClientError> {
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(ClientError::Unreachable("its first words cannot be read".into()));
    };
    let mut noise = Vec::new();
    let (report, ()) = tokio::join!(report(stdout), collect(stderr, &mut noise));
    let (report, said) = report;
    match report {
        Some(Report::Ready { .. }) => Ok(()),
        Some(Report::BadConfig { message }) => Err(ClientError::BadConfig(message)),
        Some(Report::Failed { message }) => Err(ClientError::Unreachable(message)),
        None => {
            let status = child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
            let said = [said.trim(), String::from_utf8_lossy(&noise).trim()].join("\n");
            let said = if said.trim().is_empty() { String::new() } else { format!(": {}", said.trim()) };
            Err(ClientError::Unreachable(format!("it ended while it was starting ({status}){said}")))
        }
    }
}

/// Reads lines until the report; gives it, with what came before it.
async fn report(stdout: impl AsyncRead + Unpin) -> (Option<Report>, String) {
    let mut said = String::new();
    let mut lines = BufReader::new(stdout.take(NOISE)).lines();
    // A line that cannot be read is as good as the end: the exit status says the rest.
    while let Ok(Some(line)) = lines.next_line().await {
        if let Ok(report) = serde_json::from_str(&line) {
            return (Some(report), said);
        }
        said.push_str(&line);
        said.push('\n');
    }
    (None, said)
}

async fn collect(stderr: impl AsyncRead + Unpin, noise: &mut Vec<u8>) {
    // What could be read is shown; there is no better place for a failure to read it.
    let _incomplete = stderr.take(NOISE).read_to_end(noise).await;
}
