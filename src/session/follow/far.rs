//! Following background processes over one shell that looks at their files.
//!
//! Invariant: what a process has written is taken by its length, never looked at for words of ours.

use super::{FollowSettings, Followed, Heard, ended};
use crate::backend::{Backend, BackendError, Environment, ErrorKind, Exit, Shell, Start};
use crate::shell::background::{self, Head};
use crate::shell::wrap::framed;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Notify;

/// Longest line of ours in an answer.
const LINE_MAX: usize = 256;
/// Most bytes of what a shell told us at its end.
const TOLD_MAX: u64 = 64 * 1024;

/// Follows the background processes of a far side.
pub(super) struct Far {
    nonce: String,
    stdin: Box<dyn AsyncWrite + Send + Unpin>,
    stdout: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    exit: BoxFuture<'static, Exit>,
    /// Closed, it would end what writes to it.
    _stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// Whether this answer was hurried already.
    woken: bool,
    /// Nobody has heard yet that it looks: its first answer is wanted at once.
    new: bool,
}

impl Far {
    /// Starts the shell that looks after them there; `root` as in their [`crate::session::Spot`]s.
    pub(super) async fn open(backend: &Arc<dyn Backend>, settings: &FollowSettings, root: &str) -> Result<Self, BackendError> {
        let nonce = crate::session::random_hex(8);
        let FollowSettings { shell, timeout, cap } = *settings;
        let start = Start { nonce: nonce.clone(), shell, environment: Environment::Empty, timeout, on: None };
        let Shell { ready, mut stdin, stdout, stderr, exit, .. } = backend.start(start).await?;
        let bash = ready.kind == "bash";
        let script = background::follow(root, &nonce, cap, bash);
        let script = if bash { framed(&script, b":") } else { crate::shell::wrap_sh::framed(&script) };
        // A failure shows in the first answer.
        let _ = stdin.write_all(&script).await;
        Ok(Self { nonce, stdin, stdout: BufReader::new(stdout), exit, _stderr: stderr, woken: false, new: true })
    }

    /// Asks for what is new of these, each from an offset on.
    pub(super) async fn ask(&mut self, list: &[Followed]) -> Result<(), BackendError> {
        let words = |f: &Followed| format!("{} {} {} {} {} {}", f.spot.id, f.offset, f.spot.pid, f.spot.start, f.spot.boot, f.kept);
        let request = list.iter().map(words).collect::<Vec<_>>().join(" ") + "\n";
        self.woken = std::mem::replace(&mut self.new, false);
        // An empty line hurries the answer to the one before it.
        let hurry = if self.woken { "\n" } else { "" };
        match self.write(format!("{request}{hurry}").as_bytes()).await {
            Some(()) => Ok(()),
            None => Err(self.why().await),
        }
    }

    /// Gives the next of what there is; none when that is all. Waits until there is something, at most about half a minute; `wake`
    /// makes it answer sooner. Not cancel safe: dropped, the follower is of no use any more.
    pub(super) async fn next(&mut self, list: &[Followed], wake: &Notify) -> Result<Option<(String, Heard)>, BackendError> {
        match self.answer(list, wake).await {
            Some(heard) => Ok(heard),
            None => Err(self.why().await),
        }
    }

    /// Has the folders of processes removed whose end was taken in.
    pub(super) async fn remove(&mut self, ids: &[String]) {
        // Lost with the link, they are removed at a later launch.
        let _ = self.write(format!("- {}\n", ids.join(" ")).as_bytes()).await;
    }

    async fn write(&mut self, line: &[u8]) -> Option<()> {
        self.stdin.write_all(line).await.ok()?;
        self.stdin.flush().await.ok()
    }

    /// Reads the next part of an answer; none when the shell is gone or says what it should not.
    async fn answer(&mut self, list: &[Followed], wake: &Notify) -> Option<Option<(String, Heard)>> {
        let mut line = Vec::new();
        loop {
            tokio::select! {
                biased;
                done = read_line(&mut self.stdout, &mut line) => break done?,
                () = wake.notified(), if !self.woken => {
                    self.woken = true;
                    self.stdin.write_all(b"\n").await.ok()?;
                }
            }
        }
        match background::head(&line, &self.nonce)? {
            Head::Done => Some(None),
            Head::Gap { id, len } => Some(Some((id, Heard::Gap(len)))),
            Head::Data { id, len } if len <= background::PIECE => Some(Some((id, Heard::Output(self.take(len).await?)))),
            Head::End { id, how, len } if len <= TOLD_MAX => {
                let told = self.take(len).await?;
                let nonce = list.iter().find(|f| f.spot.id == id).map(|f| f.spot.nonce.as_str())?;
                Some(Some((id, ended(how, &told, nonce))))
            }
            _ => None,
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
