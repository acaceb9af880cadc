//! The waist: a backend is a named place where a shell can run, and starting shells is all it does.
//!
//! Invariant: a backend knows nothing of sessions, snapshots, deadlines, retries or logs; those are written once, above.
//! It uses `shell::quote` and `shell::start` (how a shell is started on it) and nothing else of the shell text.

pub mod absent;
pub mod command;
pub mod control;
pub mod error;
#[doc(hidden)]
pub mod fake;
pub mod guard;
pub mod local;
pub mod open;
pub mod person;
pub mod ready;
pub mod ssh;
mod tended;

pub use error::{BackendError, ErrorKind};
pub use guard::Guard;
pub use local::ClientEnv;

use crate::model::{BackendKind, Capabilities, Finding, HostKeyChange, HostKeys, Outcome, Verdict};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};

/// A place where shells can be started.
///
/// Contract, each bullet tested for every kind:
/// - `about` never blocks and never changes but for the link it watches.
/// - `check` makes the connection when there is none (one attempt, never a loop), else makes one round trip. At most one
///   attempt is under way: concurrent callers share it. Dropping the future abandons the wait, not the attempt.
/// - `start` never runs anything twice, and never anywhere else than here. It returns when the shell said that it is
///   ready, or with the reason why not; then nothing of the attempt is left running.
/// - `start` connects when there is no connection, as `check` does.
/// - A shell that was started and dropped before its script was sent ends by itself.
/// - `family` looks and acts only on processes that belong to the shell that is named.
/// - When the link breaks, every open shell's `exit` resolves to [`Exit::Lost`] and its streams end; nothing hangs.
/// - `close` lets go of the connection; shells that still run are lost. A later `check` or `start` connects again.
pub trait Backend: Send + Sync {
    /// Describes the backend without connecting.
    fn about(&self) -> &About;

    /// Connects, or checks the connection with one round trip. Cancel safe: the attempt goes on for whoever asks next.
    fn check(&self) -> BoxFuture<'_, Result<Reached, BackendError>>;

    /// Starts a shell that waits for its script on stdin. Cancel safe: a shell that came up for nobody is ended.
    fn start(&self, start: Start) -> BoxFuture<'_, Result<Shell, BackendError>>;

    /// Looks for what is left of a command's processes, or ends them. Not cancel safe once it has begun to end them: the
    /// ending goes on although nobody hears of its result.
    fn family(&self, family: Family, ask: Ask) -> BoxFuture<'_, Result<Members, BackendError>>;

    /// Resolves when somebody waits for room that idle shells take up: who keeps shells warm should let go of them. Never,
    /// where there is room enough. Cancel safe.
    fn pressed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Whether how a shell ended is told by something between (a program, an engine). Then its end may be told only when nothing
    /// holds its streams any more, and a signal that ended it as the code 128 and its number.
    fn is_secondhand(&self) -> bool {
        false
    }

    /// Gives its book of host keys, where a backend has such a thing.
    fn host_keys(&self) -> Option<&dyn HostKeyBook> {
        None
    }

    /// Examines the way to the place step by step and tells each finding as it comes: in one attempt, within the time limits of a
    /// connection, asking nobody anything, on a connection of its own, so that nothing else is disturbed.
    ///
    /// Gives what further checks can start shells on; its connection ends when the last handle goes. None when it got no
    /// further: then a finding says why. Cancel safe: dropped, nothing of it is left here or there.
    fn examine<'a>(&'a self, tell: &'a mpsc::Sender<Finding>) -> BoxFuture<'a, Option<Arc<dyn Backend>>> {
        Box::pin(async move {
            let finding = match self.check().await {
                Ok(_) => Finding::new("connection", Verdict::Ok, "it answers; more is not looked at for this kind of backend"),
                Err(why) => Finding { fix: why.fix, ..Finding::new("connection", Verdict::Fail, why.message) },
            };
            // Whoever does not listen any more drops the examination.
            let _ = tell.send(finding).await;
            None
        })
    }

    /// Closes the connection. Idempotent.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The host keys of a backend as its files have them.
pub trait HostKeyBook: Send + Sync {
    /// Tells what is known, and how the key stands that the host shows: now when `look` is set (a connection that ends before the
    /// login), else when it was seen last. Cancel safe.
    fn show(&self, look: bool) -> BoxFuture<'_, Result<HostKeys, BackendError>>;

    /// Changes what is known, on the operator's word; `fingerprint` names the key that they were shown. Once begun, a change of a
    /// file is finished, also when the future is dropped.
    fn change<'a>(&'a self, change: HostKeyChange, fingerprint: &'a str) -> BoxFuture<'a, Result<HostKeys, BackendError>>;
}

/// What is known of a backend without asking it.
#[derive(Clone, Debug)]
pub struct About {
    /// Its name in the config.
    pub name: String,
    /// Its kind.
    pub kind: BackendKind,
    /// Where it is, for a person.
    pub address: String,
    /// What it can do.
    pub capabilities: Capabilities,
    /// The state of the link, changed by the backend the moment it knows.
    pub link: watch::Receiver<Link>,
}

/// The state of a backend's link as the backend itself sees it.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// Whether there is a connection.
    pub up: bool,
    /// Counts connections made; a changed number means that it was lost in between.
    pub epoch: u64,
    /// Where the last connection led, when that says more than the backend's own address.
    pub address: Option<String>,
    /// When bytes last arrived (sampled at every change and at every check).
    pub last_heard: Option<Instant>,
    /// Why the last connection ended, or why the last attempt failed.
    pub lost: Option<BackendError>,
}

/// The answer to a check.
#[derive(Clone, Debug)]
pub struct Reached {
    /// How long the round trip took.
    pub round_trip: Duration,
    /// Whether this call made a new connection.
    pub fresh: bool,
}

/// Which shell to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShellChoice {
    /// bash where it is, else sh.
    #[default]
    Auto,
    /// bash, or an error.
    Bash,
    /// sh.
    Sh,
}

/// What environment the shell starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Environment {
    /// None at all (`env -i`): everything comes from the snapshot.
    Empty,
    /// What the place gives at a login before any rc file (sshd's variables; locally HOME, USER, LOGNAME, SHELL, PATH and
    /// the variables of `client_env`): only for capturing the login environment.
    Login,
}

/// Asks for a shell.
#[derive(Clone, Debug)]
pub struct Start {
    /// 16 hex digits, unique to this shell: marks its READY line.
    pub nonce: String,
    /// Which shell.
    pub shell: ShellChoice,
    /// Its environment.
    pub environment: Environment,
    /// How long it may take to be ready, from when the backend has room for it. The wait for room ends with the connection, or
    /// when the start is dropped.
    pub timeout: Duration,
    /// Only on the connection with this number ([`Link::epoch`]): without it the start fails as lost and connects nothing.
    /// For what is done ahead, which must not bring back a link that a person has closed.
    pub on: Option<u64>,
}

/// What the shell said when it was ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its process id, which is also its process group and session.
    pub pid: u32,
    /// The backend's boot id, `-` when there is none.
    pub boot_id: String,
    /// `bash` or `sh`.
    pub kind: String,
    /// The version of bash, `-` for sh.
    pub version: String,
    /// Field 22 of /proc/PID/stat where that is cheap to know: guards against a recycled pid.
    pub start_time: Option<u64>,
}

/// A shell that waits for its script. Dropping it lets go of it: its stdin ends, and where a dropped handle would leave
/// something behind (an ssh channel) that is closed. Dropping does not kill what the script started.
pub struct Shell {
    /// What it said.
    pub ready: Ready,
    /// What came before READY (banners, noise of rc files), at most 64 KiB.
    pub noise: Vec<u8>,
    /// Its stdin; `shutdown` ends it. A write fails, and never hangs, once the link is lost.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its stdout from READY on. Ends when every process that holds it is gone, or when the link is lost.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its stderr after READY.
    pub stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// How it ended. Resolves once, and at once when the link is lost; the streams may still hold output.
    pub exit: BoxFuture<'static, Exit>,
    /// Tells whether what it is sent and answers now would wait behind much output of others, and one that is started now
    /// would not. None where shells are never in each other's way. Asked of a shell that waits for its command; never blocks.
    pub held_up: Option<HeldUp>,
}

/// See [`Shell::held_up`].
pub type HeldUp = Box<dyn Fn() -> bool + Send + Sync>;

/// How a shell ended.
#[derive(Clone, Debug)]
pub enum Exit {
    /// With a code.
    Code(i32),
    /// By a signal (its name, as `SIGKILL`).
    Signal(String),
    /// Unknown: the link broke.
    Lost(BackendError),
}

impl Exit {
    /// What it stands for where a signal is told as the code 128 and its number.
    #[must_use]
    pub fn firsthand(self) -> Self {
        match self {
            Self::Code(code) if code > 128 => match nix::sys::signal::Signal::try_from(code - 128) {
                Ok(signal) => Self::Signal(signal.as_str().to_owned()),
                Err(_) => Self::Code(code),
            },
            other => other,
        }
    }
}

/// Names the processes of one command: its shell's session and group, whatever descends from it, whatever carries its
/// cookie (`QD_PROCESS=<id>` in the environment).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The shell's process id.
    pub pid: u32,
    /// The shell's start time, when known.
    pub start_time: Option<u64>,
    /// Where that is not known, at least how long ago the command began: a shell that is younger is another's, whose number was
    /// free again (after a restart of the machine all of them are). A backend whose link is never lost need not look.
    pub age: Option<Duration>,
    /// The cookie's whole text, `QD_PROCESS=k7f3...`.
    pub cookie: String,
}

/// What to do about a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Look only: what is still alive, and how it stands to the command's output (execution.md, NOTES "Completion").
    Survivors,
    /// End all of it: STOP until nothing new, TERM, CONT the shell alone, CONT the rest, grace, KILL, look again.
    End {
        /// Between TERM and KILL.
        grace: Duration,
    },
    /// Send one signal (a number) to all of it; alive is what got it.
    Signal(i32),
    /// Look only: alive is what reads the command's stdin now and finds nothing there. Unsupported where that cannot be known.
    Readers,
    /// Look only: answered when nothing of it is alive any more, however long that takes, and at no cost meanwhile where the place
    /// itself tells of an end.
    Gone,
}

/// What is alive of a family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Everything alive.
    pub alive: Vec<u32>,
    /// Of these, what is about to end by itself: it reads a pipe that nobody writes to any more.
    pub ending: Vec<u32>,
    /// Of these, what also writes to the command's stdout (a process substitution): worth waiting for.
    pub tails: Vec<u32>,
    /// After `End` and `Gone`: whether it was verified that nothing is left.
    pub verified: bool,
    /// After `Gone`: how the one process ended that all others of it came from, where that was told to us.
    pub ended: Option<Outcome>,
}
