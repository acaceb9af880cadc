//! A small script of ours in a shell of its own on the backend: capturing, reading and writing the session's files.
//!
//! Invariant: an errand never touches a session's state by itself, is bounded in time and output, and leaves nothing running.

use super::error::SessionError;
use crate::backend::{Ask, Backend, BackendError, Environment, ErrorKind, Exit, Family, Ready, Shell, ShellChoice, Start};
use crate::shell::wrap::{COOKIE, framed};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

/// Most bytes of an errand's answer: a snapshot is the largest thing that comes back.
const ANSWER_MAX: u64 = 64 << 20;

/// What an errand needs.
pub(super) struct Errand<'a> {
    /// Where.
    pub(super) backend: &'a Arc<dyn Backend>,
    /// In which shell.
    pub(super) shell: ShellChoice,
    /// With what environment.
    pub(super) environment: Environment,
    /// How long the shell may take to start.
    pub(super) start: Duration,
    /// How long the script may take.
    pub(super) limit: Duration,
    /// What it does, for the error: `read the session's files`.
    pub(super) what: &'static str,
}

/// What came back.
pub(super) struct Answer {
    /// What the shell said at its start.
    pub(super) ready: Ready,
    /// Its stdout.
    pub(super) stdout: Vec<u8>,
    /// Its exit code; none when it was ended.
    pub(super) code: Option<i32>,
}

impl Errand<'_> {
    /// Runs the script that `make` gives for the shell's kind, nonce and cookie. When it takes too long everything that it
    /// started is ended. Not cancel safe: dropped, the script may run on; its shell ends when it writes or reads.
    pub(super) async fn run(&self, make: impl FnOnce(&Ready, &str, &str) -> Vec<u8> + Send) -> Result<Answer, SessionError> {
        let nonce = super::random_hex(8);
        let start = Start { nonce: nonce.clone(), shell: self.shell, environment: self.environment, timeout: self.start, on: None };
        let Shell { ready, mut stdin, stdout, stderr, exit, .. } = self.backend.start(start).await?;
        let id = format!("errand-{nonce}");
        let script = make(&ready, &nonce, &id);
        let script = if ready.kind == "bash" { framed(&script, b":") } else { crate::shell::wrap_sh::framed(&script) };
        let family = Family { pid: ready.pid, start_time: ready.start_time, age: None, cookie: format!("{COOKIE}={id}") };
        let talk = async {
            let write = async move {
                // The shell may end before it has read everything: its answer says why.
                let _ = stdin.write_all(&script).await;
                let _ = stdin.shutdown().await;
            };
            let ((), stdout, _, exit) = tokio::join!(write, read(stdout), read(stderr), exit);
            (stdout, exit)
        };
        match tokio::time::timeout(self.limit, talk).await {
            Ok((stdout, Exit::Code(code))) => Ok(Answer { ready, stdout, code: Some(code) }),
            Ok((stdout, Exit::Signal(_))) => Ok(Answer { ready, stdout, code: None }),
            Ok((_, Exit::Lost(error))) => Err(error.into()),
            Err(_) => {
                if let Err(error) = self.backend.family(family, Ask::End { grace: Duration::ZERO }).await {
                    tracing::warn!(%error, what = self.what, "an errand that took too long could not be ended");
                }
                Err(self.failed(format!("it took longer than {} s", self.limit.as_secs())))
            }
        }
    }

    /// Runs a script and demands that it succeeds.
    pub(super) async fn demand(&self, script: Vec<u8>) -> Result<Answer, SessionError> {
        let answer = self.run(|_, _, _| script).await?;
        match answer.code {
            Some(0) => Ok(answer),
            code => Err(self.failed(format!("the script ended with {}", code.map_or("a signal".into(), |c| format!("code {c}"))))),
        }
    }

    /// Makes an error of this errand.
    pub(super) fn failed(&self, why: String) -> SessionError {
        SessionError::Errand { what: self.what, backend: self.backend.about().name.clone(), why }
    }
}

async fn read(stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut out = Vec::new();
    // A broken stream is a short answer, which the reader of the answer notices.
    let _ = stream.take(ANSWER_MAX).read_to_end(&mut out).await;
    out
}

/// Tells whether an error means that the backend is away rather than that the errand failed.
pub(super) fn is_away(error: &SessionError) -> bool {
    matches!(error, SessionError::Backend(BackendError { kind, .. }) if *kind != ErrorKind::Internal)
}
