//! Asking for a command, and reading its log.

use super::ProcessId;
use serde::{Deserialize, Serialize};

/// Which stream output came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// stdout; in merged mode both streams in the order of writing.
    #[default]
    Out,
    /// stderr, in split mode only.
    Err,
}

/// Asks for one command. The backend is always the one named; there is no fallback.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Exec {
    /// The backend; none means the config's `default_backend`.
    pub backend: Option<String>,
    /// The session; none means `main`.
    pub session: Option<String>,
    /// The command's text: shell text, sent as bytes (base64 in JSON when it is not UTF-8 is not needed: the command
    /// line refuses such text before it gets here).
    pub command: String,
    /// Directory for this command alone; it must exist.
    pub workdir: Option<String>,
    /// The client's directory: the first directory of a new `local` session with `cwd: .`.
    pub client_cwd: Option<String>,
    /// The deadline in milliseconds; none: no deadline for an operator, the config's for an agent.
    pub timeout_ms: Option<u64>,
    /// Variables for this command alone.
    pub env: Vec<(String, String)>,
    /// Whether stdin follows (the caller's bytes until its end); without it the command's stdin is empty.
    pub stdin: bool,
    /// Whether the stdin of a background process is left open for others to write to (`send`); there is no other stdin then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stdin_open: bool,
    /// Split mode: stdout and stderr apart. Otherwise merged, in the order of writing.
    pub split: bool,
    /// Most bytes of `output` in the result; none means 50,000; 0 means no text (the caller reads the log).
    pub max_output_bytes: Option<u64>,
    /// Whether it runs in the background: the answer comes once it runs, and nobody waits for its end.
    pub background: bool,
    /// After so many milliseconds it becomes a background process of the same id, and the answer says `running`.
    pub yield_ms: Option<u64>,
    /// Whether its end is told once, to whoever watches, unless a wait or a followed log tells it.
    pub notify: bool,
    /// Lines of its output that hold one of these are told: plain text, or a regular expression after `re:`.
    pub watch: Vec<String>,
    /// What the caller says the command is for.
    pub description: Option<String>,
    /// The process whose command this is again, by its id: its variables and its deadline are taken over, and it is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<ProcessId>,
}

/// Where to start reading a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStart {
    /// At an absolute offset in bytes.
    Offset(u64),
    /// This many bytes before the present end.
    TailBytes(u64),
    /// This many lines before the present end (looked for in the last 1 MiB).
    TailLines(u64),
}

/// Asks for a piece of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRead {
    /// The process, by id or unique prefix.
    pub process: String,
    /// Where to start.
    pub start: LogStart,
    /// Most bytes wanted (capped at 1 MiB).
    pub max: u64,
}

/// A stretch of one stream inside a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Which stream.
    pub stream: Stream,
    /// How many bytes.
    pub len: u64,
}

/// A stretch of a log that is in the log's file at the same offset: named to a client that has the file open, not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Absolute offset of the first byte, and its position in the file.
    pub offset: u64,
    /// The streams of the bytes, in order; their lengths add up to the stretch.
    pub runs: Vec<Run>,
}

/// A piece of a log. On the wire the bytes travel raw, apart from this description.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chunk {
    /// Absolute offset of the first byte.
    pub offset: u64,
    /// Bytes of the whole log at this moment.
    pub total: u64,
    /// Whether the process has ended and the log is complete.
    pub ended: bool,
    /// Bytes that are no longer kept before `offset` (the log was over its cap), when reading skipped them.
    pub skipped: u64,
    /// The streams of the bytes, in order; their lengths add up to the bytes.
    pub runs: Vec<Run>,
    /// The bytes.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}
