//! What a process had to tell with `notify` or `watch`.
//!
//! Invariant: texts in it are clean: no escape sequences, no secrets of known shape, cut between characters and never longer
//! than said here.

use super::{Millis, Outcome, ProcessId, Who};
use serde::{Deserialize, Serialize};

/// Most lines that one [`News::Matched`] holds.
pub const TOLD_LINES: usize = 20;
/// Most characters of output in one [`Told`].
pub const TOLD_CHARS: usize = 2_000;

/// One thing that was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Its number: counts up from 1 with each daemon, so that one in the overview is not taken for another.
    pub number: u64,
    /// When.
    pub at: Millis,
    /// The process it is about; none for what is about all of them ([`News::Quiet`], [`News::QuietOver`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Of>,
    /// What.
    pub news: News,
}

/// The process that something is told of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Of {
    /// Its id.
    pub process: ProcessId,
    /// Its backend.
    pub backend: String,
    /// Its session.
    pub session: String,
    /// The beginning of its command's first line.
    pub command: String,
    /// Who started it.
    pub who: Who,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum News {
    /// It ended, and `notify` was asked for; told once, and not when a wait or a followed log told it already.
    Ended {
        /// How.
        #[serde(flatten)]
        outcome: Outcome,
        /// The end of its output, at most [`TOLD_CHARS`] characters.
        output: String,
        /// Whether there is more before that.
        truncated: bool,
        /// How long it ran, in milliseconds.
        duration_ms: u64,
    },
    /// Lines of its output match a pattern of its `watch`.
    Matched {
        /// The lines, at most [`TOLD_LINES`] and [`TOLD_CHARS`] characters together.
        lines: Vec<String>,
        /// Lines that matched too and are not among these; the log has them.
        dropped: u64,
    },
    /// Its output is not looked at any more.
    WatchOff {
        /// Why.
        reason: String,
    },
    /// Too much was told of all processes together: matches are only counted for a while.
    Quiet {
        /// How long, in milliseconds.
        for_ms: u64,
    },
    /// That is over.
    QuietOver {
        /// Lines that matched meanwhile and were not told; the logs have them.
        lines: u64,
    },
}

impl Told {
    /// Tells whether it is about this process, or about all.
    pub fn concerns(&self, process: &str) -> bool {
        self.of.as_ref().is_none_or(|of| of.process == process)
    }
}
