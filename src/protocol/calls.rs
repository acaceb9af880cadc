//! The calls that a client can make, each with its reply.
//!
//! Invariant: a reply means that the effect has happened.

use crate::model::{
    Answer, Exec, ExecResult, HostKeyChange, HostKeys, Kept, LogRead, LogStart, Overview, ProcessInfo, SessionDetail, SessionInfo,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// What comes as an item on the stream of a followed command after the first one, in the order of the output, to a client
/// that asked for `files`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogItem {
    /// The file of the log, for the client to open; it answers with a frame `Opened`.
    File(String),
    /// The next stretch of the output is in the file.
    Kept(Kept),
}

/// A call: its parameters are the type itself.
pub trait Call: Serialize + DeserializeOwned + Send + 'static {
    /// The method's name on the wire; never renamed.
    const METHOD: &'static str;
    /// What the daemon answers at the end.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($method:literal) -> $reply:ty { $($(#[$fdoc:meta])* $field:ident : $ty:ty),* $(,)? })*) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name { $($(#[$fdoc])* pub $field: $ty),* }
        impl Call for $name { const METHOD: &'static str = $method; type Reply = $reply; })*
        /// All methods, for the daemon's dispatch and the golden test.
        pub const METHODS: &[&str] = &[$($method),*];
    };
}

calls! {
    /// Runs a command and answers with its result. On the same stream: first an item `Started` (a `ProcessInfo`), then, when
    /// `follow` is set, its output as it arrives, as data frames. The client may send stdin (data frames, then end) when
    /// `exec.stdin` is set, and cancel. When the client goes away before the end, the command is cancelled.
    ExecCall("exec") -> ExecResult {
        /// The command.
        exec: Exec,
        /// Whether the output follows as data frames.
        follow: bool,
        /// Whether the client can read files of the daemon's machine: of much output it is told the log's file, and once it
        /// says that it has that open, stretches of it are named instead of sent.
        files: bool,
    }
    /// Everything at one moment.
    OverviewCall("overview") -> Overview {}
    /// Streams `Event` items until cancelled. The first item comes after the subscription is in force, so an overview asked
    /// for after it misses nothing.
    Watch("watch") -> () {}
    /// A piece of a log; the bytes come as one data frame before the reply.
    Read("read") -> crate::model::Chunk {
        /// Which piece.
        read: ReadParams,
    }
    /// Streams a log as data frames from the start given, until the process ends (or at once at the present end, without
    /// `until_end`).
    Follow("follow") -> ProcessInfo {
        /// The process, by id or unique prefix.
        process: String,
        /// Where to start.
        start: StartParams,
        /// Whether to wait for more until the process has ended.
        until_end: bool,
    }
    /// Waits until each of the processes has ended; answers with their rows in the order asked. With `told` on the same stream items
    /// `Told`: what they told and no wait has heard yet, then what they tell meanwhile.
    Wait("wait") -> Vec<ProcessInfo> {
        /// The processes, by id or unique prefix.
        processes: Vec<String>,
        /// Longest wait in milliseconds; then the rows come as they are.
        timeout_ms: Option<u64>,
        /// Whether what they tell is wanted too.
        told: bool,
    }
    /// Waits until a command reads its stdin and nothing is there: true; or until it has ended: false. Refused where that cannot be
    /// known, and for a command without an open stdin.
    WaitInput("wait_input") -> bool {
        /// The process, by id or unique prefix.
        process: String,
    }
    /// Ends processes, or sends them one signal; answers with their rows once the ending is done (with a signal: once sent). All of
    /// them are tried. What fails of one alone is an error (as a signal that nobody got); of several, its row says it.
    Kill("kill") -> Vec<Killed> {
        /// The processes, by id or unique prefix.
        processes: Vec<String>,
        /// A signal's name for one plain signal; none: the whole ladder.
        signal: Option<String>,
        /// Between TERM and KILL, in milliseconds (2,000).
        grace_ms: Option<u64>,
    }
    /// Looks through a backend for processes that commands of this daemon or of an earlier one left running. They get rows as
    /// strays, those that had one already too.
    FindCall("find") -> Found {
        /// The backend.
        backend: String,
    }
    /// Makes a background process of a stray; answers with its row. Its exit code is known on `local` alone, and only while the
    /// daemon lives that ran the command.
    AdoptCall("adopt") -> ProcessInfo {
        /// The stray, by id or unique prefix.
        process: String,
    }
    /// Writes to the stdin of a command that was started with one. Answers when it is written, or after a second with what waits.
    SendCall("send") -> Sent {
        /// The process, by id or unique prefix.
        process: String,
        /// What to write.
        text: String,
        /// Whether the stdin ends after it.
        eof: bool,
        /// How long the output was when the caller looked: refused as `outdated` when it is longer by now.
        expect_offset: Option<u64>,
    }
    /// Has a background process looked for on its backend, by number and start time; answers with its row once it was. An error where
    /// the backend cannot be asked.
    Recheck("recheck") -> ProcessInfo {
        /// The process, by id or unique prefix.
        process: String,
    }
    /// Connects a backend now, skipping any wait; answers when the attempt has succeeded.
    Connect("connect") -> crate::model::BackendInfo {
        /// The backend.
        backend: String,
    }
    /// Closes a backend's connection.
    Disconnect("disconnect") -> crate::model::BackendInfo {
        /// The backend.
        backend: String,
    }
    /// What a session holds.
    SessionShow("session_show") -> SessionDetail {
        /// The backend; none: the default one.
        backend: Option<String>,
        /// The session; none: `main`.
        session: Option<String>,
    }
    /// Captures a session's login environment anew; its directory becomes the first one again.
    SessionReset("session_reset") -> SessionInfo {
        /// The backend; none: the default one.
        backend: Option<String>,
        /// The session; none: `main`.
        session: Option<String>,
    }
    /// Closes a session: its files on the backend and its name are gone. Refused while a command runs in it.
    SessionClose("session_close") -> SessionInfo {
        /// The backend; none: the default one.
        backend: Option<String>,
        /// The session; none: `main`.
        session: Option<String>,
    }
    /// Completes a word of the operator's input line on a backend: paths, or commands for a first word.
    Complete("complete") -> Vec<String> {
        /// The backend.
        backend: String,
        /// The session.
        session: String,
        /// The word so far, unquoted.
        word: String,
        /// Whether it is the first word of a command.
        command: bool,
    }
    /// Answers a question of a login. Operators alone; refused when the question is not asked any more.
    AnswerCall("answer") -> () {
        /// The question's id.
        id: u64,
        /// The answer.
        answer: Answer,
    }
    /// What is known of a backend's host key. Operators alone.
    HostKeysCall("host_keys") -> HostKeys {
        /// The backend.
        backend: String,
        /// Whether the host is asked for its key now; else the one that it showed last counts.
        look: bool,
    }
    /// Writes host keys down, replaces or removes them. Operators alone.
    HostKeyChangeCall("host_key_change") -> HostKeys {
        /// The backend.
        backend: String,
        /// What to do.
        change: HostKeyChange,
        /// The fingerprint of the key that the operator was shown; nothing is written for another one.
        fingerprint: String,
    }
    /// Ends the daemon in order; the reply comes before it goes.
    Shutdown("shutdown") -> ShutdownReply {
        /// Even when commands are running: they are ended.
        force: bool,
    }
    /// Examines a backend. On the same stream an item `Finding` for each check, as it is made; the reply comes after the last.
    /// When the client goes away before, it ends.
    Doctor("doctor") -> () {
        /// The backend.
        backend: String,
    }
}

/// One row of the reply to [`Kill`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    /// The process.
    #[serde(flatten)]
    pub process: ProcessInfo,
    /// With a signal: who got it, as process ids on the backend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signalled: Vec<u32>,
    /// Why it was not done to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<CallError>,
}

/// The reply to [`FindCall`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Found {
    /// What is stray there.
    pub strays: Vec<ProcessInfo>,
    /// Processes of commands of another daemon, or of which it cannot be told whose they are: they may be in use, so they have no
    /// rows here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<u32>,
}

/// The reply to [`SendCall`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The process.
    #[serde(flatten)]
    pub process: ProcessInfo,
    /// Bytes that wait until the command reads; they will be written in order. Zero: all is written.
    #[serde(default)]
    pub waiting: u64,
}

/// The parameters of [`Read`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadParams(pub LogRead);

impl Default for ReadParams {
    fn default() -> Self {
        Self(LogRead { process: String::new(), start: LogStart::Offset(0), max: 0 })
    }
}

/// Where [`Follow`] starts; the default is the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartParams(pub LogStart);

impl Default for StartParams {
    fn default() -> Self {
        Self(LogStart::Offset(0))
    }
}

/// The reply to [`Shutdown`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShutdownReply {
    /// Whether the daemon is ending. False when commands run and `force` was not given.
    pub stopping: bool,
    /// The commands that run.
    pub running: Vec<ProcessInfo>,
}

/// A failure of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct CallError {
    /// The stable code.
    pub code: ErrorCode,
    /// What happened.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// The stable codes of failures of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// No such method in this daemon.
    UnknownMethod,
    /// The parameters are not of the method's form.
    BadParameters,
    /// The names do not exist: backend, session, process. The message names the known ones and the nearest.
    NotFound,
    /// The caller used it wrongly (NUL in a command, a zero time-out).
    Usage,
    /// The config in force is another one than the client named.
    Config,
    /// The backend cannot be reached.
    Unavailable,
    /// Refused in the present state (a session with a running command).
    Refused,
    /// A fault of our own.
    Internal,
    /// Refused, because more has happened than the caller had seen.
    Outdated,
}
