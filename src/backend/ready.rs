//! Waits for the READY line of a shell that was just started, and says why it did not come.
//!
//! Invariant: what comes before READY is noise (banners, start files), kept for diagnosis and never taken for output of a
//! command; what comes after READY is never lost.

use super::{BackendError, ErrorKind, Exit};
use crate::shell::start::{self, ReadyLine};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Most bytes of noise that are kept; the rest is dropped.
pub const NOISE_MAX: usize = 64 * 1024;
/// A READY line is much shorter than this: so much of the end of the noise is searched again when more arrives.
const LINE_MAX: usize = 4096;
/// How long the streams of a shell that has ended may still take to end: its last words explain the failure.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A shell that said READY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    /// What it said.
    pub line: ReadyLine,
    /// What came before, of both streams, at most [`NOISE_MAX`] bytes.
    pub noise: Vec<u8>,
    /// What was already read of stderr after READY; goes in front of the rest of stderr.
    pub early: Vec<u8>,
}

/// Why there is no READY.
#[derive(Clone, Debug)]
pub enum NotReady {
    /// It did not come in time.
    TimedOut {
        /// How long it was waited for.
        limit: Duration,
        /// What came instead.
        noise: Vec<u8>,
    },
    /// The shell ended first.
    Ended {
        /// How.
        exit: Exit,
        /// What it said.
        noise: Vec<u8>,
    },
}

/// Waits until the shell of this nonce says READY on its stderr. What comes on stdout before is noise too. Not cancel safe:
/// what was read is gone, so a start whose wait is dropped must be given up.
pub async fn wait<O, E, X>(nonce: &str, limit: Duration, stdout: &mut O, stderr: &mut E, exit: &mut X) -> Result<Came, NotReady>
where
    O: AsyncRead + Unpin,
    E: AsyncRead + Unpin,
    X: Future<Output = Exit> + Unpin,
{
    let mut seen = Seen::new(nonce);
    let mut ended = None;
    let mut deadline = std::pin::pin!(tokio::time::sleep(limit));
    let (mut out_buf, mut err_buf) = ([0_u8; 2048], [0_u8; 4096]);
    let (mut out_open, mut err_open) = (true, true);
    loop {
        if !err_open && let Some(exit) = ended.take() {
            return Err(NotReady::Ended { exit, noise: seen.noise() });
        }
        tokio::select! {
            biased;
            got = stderr.read(&mut err_buf), if err_open => match got {
                Ok(n) if n > 0 => {
                    if let Some(came) = seen.stderr(&err_buf[..n]) {
                        return Ok(came);
                    }
                }
                _ => err_open = false,
            },
            got = stdout.read(&mut out_buf), if out_open => match got {
                Ok(n) if n > 0 => seen.stdout(&out_buf[..n]),
                _ => out_open = false,
            },
            how = &mut *exit, if ended.is_none() => {
                ended = Some(how);
                let last_words = tokio::time::Instant::now() + LAST_WORDS;
                if last_words < deadline.deadline() {
                    deadline.as_mut().reset(last_words);
                }
            }
            () = &mut deadline => return Err(match ended.take() {
                Some(exit) => NotReady::Ended { exit, noise: seen.noise() },
                None => NotReady::TimedOut { limit, noise: seen.noise() },
            }),
        }
    }
}

/// Waits for READY of a boxed exit, as a backend holds it.
pub type ExitFuture = Pin<Box<dyn Future<Output = Exit> + Send>>;

/// What was seen so far.
struct Seen<'a> {
    nonce: &'a str,
    /// Noise that cannot be part of the READY line any more.
    kept: Vec<u8>,
    /// The end of stderr that may hold the beginning of READY.
    open: Vec<u8>,
}

impl<'a> Seen<'a> {
    fn new(nonce: &'a str) -> Self {
        Self { nonce, kept: Vec::new(), open: Vec::new() }
    }

    fn stdout(&mut self, bytes: &[u8]) {
        self.keep(bytes.len(), bytes);
    }

    /// Takes bytes of stderr; gives what came when READY is whole.
    fn stderr(&mut self, bytes: &[u8]) -> Option<Came> {
        self.open.extend_from_slice(bytes);
        if let Some((line, from, to)) = start::find_ready(&self.open, self.nonce) {
            let early = self.open.split_off(to);
            let before = std::mem::take(&mut self.open);
            self.keep(from, &before);
            return Some(Came { line, noise: std::mem::take(&mut self.kept), early });
        }
        if self.open.len() > LINE_MAX {
            let open = std::mem::take(&mut self.open);
            let done = open.len() - LINE_MAX;
            self.keep(done, &open);
            self.open = open[done..].to_vec();
        }
        None
    }

    fn keep(&mut self, len: usize, bytes: &[u8]) {
        let room = NOISE_MAX - self.kept.len();
        self.kept.extend_from_slice(&bytes[..len.min(room)]);
    }

    fn noise(&mut self) -> Vec<u8> {
        let open = std::mem::take(&mut self.open);
        self.keep(open.len(), &open);
        std::mem::take(&mut self.kept)
    }
}

impl NotReady {
    /// Says what happened at `place` (`local`, `ada@gpu.lab:22`) and what to do about it.
    pub fn into_error(self, place: &str) -> BackendError {
        match self {
            Self::TimedOut { limit, noise } => {
                // What is left of the limit after the connection has taken its part.
                let seconds = limit.as_secs_f32();
                BackendError::new(ErrorKind::TimedOut, format!("no shell was ready on {place} within {seconds:.2} s{}", said(&noise)))
                    .with_fix(
                        "a start file of the login shell there may wait for something: make it do so only in interactive shells, \
                         or give it more time with `connect_timeout`",
                    )
            }
            Self::Ended { exit: Exit::Lost(error), .. } => error,
            Self::Ended { exit: Exit::Signal(signal), noise } => BackendError::new(
                ErrorKind::Busy,
                format!("the shell on {place} was ended by {signal} before it was ready{}", said(&noise)),
            ),
            Self::Ended { exit: Exit::Code(code), noise } => ended(code, &noise, place),
        }
    }
}

/// Tells the known ways of a login that ends before our shell begins apart.
fn ended(code: i32, noise: &[u8], place: &str) -> BackendError {
    let text = String::from_utf8_lossy(noise);
    let short_of = ["Resource temporarily unavailable", "Cannot allocate memory", "Too many open files", "fork: retry"];
    if short_of.iter().any(|words| text.contains(words)) {
        return BackendError::new(ErrorKind::Busy, format!("{place} is short of resources: no shell could start{}", said(noise)));
    }
    if text.contains("qd: no bash here") {
        return BackendError::new(ErrorKind::NoShell, format!("there is no bash on {place}"))
            .with_fix("set `shell: auto` for this backend: it then uses sh");
    }
    let silent = text.trim().is_empty();
    if text.contains("sftp connections only") {
        return BackendError::new(ErrorKind::NoShell, format!("{place} allows sftp alone (ForceCommand internal-sftp){}", said(noise)))
            .with_fix("use an account that may run commands");
    }
    match code {
        0 if !silent => BackendError::new(
            ErrorKind::NoShell,
            format!("{place} ran something else than the shell that was asked for (a forced command){}", said(noise)),
        )
        .with_fix("use a key or an account without a forced command (`command=` in authorized_keys, ForceCommand of sshd)"),
        1 if !silent => BackendError::new(ErrorKind::NoShell, format!("the account on {place} refuses logins{}", said(noise)))
            .with_fix("give the account a login shell, or use another account"),
        _ => BackendError::new(
            ErrorKind::NoShell,
            format!("the login shell on {place} ended with code {code} before our shell could start{}", said(noise)),
        )
        .with_fix("look at the start files of the login shell there: one of them ends it"),
    }
}

/// Quotes the last words of noise, short and without control characters.
fn said(noise: &[u8]) -> String {
    const MOST: usize = 200;
    let text = String::from_utf8_lossy(noise);
    let words: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() {
        return String::new();
    }
    let skip = words.chars().count().saturating_sub(MOST);
    let tail: String = words.chars().skip(skip).collect();
    let dots = if skip > 0 { "..." } else { "" };
    format!("; it said: {dots}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const NONCE: &str = "0123456789abcdef";

    fn never() -> ExitFuture {
        futures::future::pending().boxed()
    }

    #[tokio::test]
    async fn noise_is_kept_and_nothing_after_ready_is_lost() {
        let text = format!("Welcome\n\x1eR {NONCE} 42 boot bash 5.2\nafter");
        for cut in 1..text.len() {
            let reader = tokio_test_reader(&[&text.as_bytes()[..cut], &text.as_bytes()[cut..]]);
            let mut stderr = reader;
            let came = wait(NONCE, Duration::from_secs(5), &mut tokio::io::empty(), &mut stderr, &mut never()).await.expect("ready");
            assert_eq!((came.line.pid, came.noise.as_slice()), (42, &b"Welcome\n"[..]), "cut at {cut}");
            let mut rest = came.early;
            stderr.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, b"after", "cut at {cut}");
        }
    }

    /// A reader that gives the pieces one by one.
    fn tokio_test_reader(pieces: &[&[u8]]) -> impl AsyncRead + Unpin + use<> {
        let (a, b) = (std::io::Cursor::new(pieces[0].to_vec()), std::io::Cursor::new(pieces[1].to_vec()));
        a.chain(b)
    }

    #[tokio::test]
    async fn much_noise_is_bounded_and_ready_still_found() {
        let mut text = vec![b'x'; 300_000];
        text.extend_from_slice(format!("\x1eR {NONCE} 42 boot bash 5.2\n").as_bytes());
        let mut stderr = text.as_slice();
        let came = wait(NONCE, Duration::from_secs(5), &mut tokio::io::empty(), &mut stderr, &mut never()).await.expect("ready");
        assert_eq!((came.line.pid, came.noise.len()), (42, NOISE_MAX));
    }

    #[tokio::test]
    async fn silence_is_a_time_out() {
        let (mut stderr, _keep) = tokio::io::duplex(64);
        let (mut stdout, _keep_too) = tokio::io::duplex(64);
        let why = wait(NONCE, Duration::from_millis(50), &mut stdout, &mut stderr, &mut never()).await.unwrap_err();
        let error = why.into_error("ada@gpu:22");
        assert_eq!(error.kind, ErrorKind::TimedOut);
        assert_eq!(error.message, "no shell was ready on ada@gpu:22 within 0.05 s");
    }

    #[tokio::test]
    async fn the_ways_of_a_login_that_ends_are_told_apart() {
        for (code, out, kind, part) in [
            (1, "This account is currently not available.\n", ErrorKind::NoShell, "refuses logins; it said: This account"),
            (0, "hello from git\n", ErrorKind::NoShell, "forced command"),
            (3, "", ErrorKind::NoShell, "ended with code 3"),
            (127, "qd: no bash here\n", ErrorKind::NoShell, "no bash on x"),
            (254, "bash: fork: retry: Resource temporarily unavailable\n", ErrorKind::Busy, "short of resources"),
        ] {
            let mut exit = futures::future::ready(Exit::Code(code));
            let why = wait(NONCE, Duration::from_secs(10), &mut out.as_bytes(), &mut tokio::io::empty(), &mut exit).await.unwrap_err();
            let error = why.into_error("x");
            assert_eq!(error.kind, kind, "{code}");
            assert!(error.message.contains(part), "{}", error.message);
        }
    }
}
