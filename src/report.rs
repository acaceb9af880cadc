//! From errors to what a person and a script get: one text, one exit code.
//!
//! Invariant: a chain of errors is told once, with nothing said twice, and nothing in it can move the cursor.

use std::error::Error;
use std::fmt;

/// What `qd` itself exits with; a command's own code is passed on as it is, and one that a signal ended gives 128 plus the
/// signal's number.
pub struct ExitCode;

impl ExitCode {
    /// Done.
    pub const OK: i32 = 0;
    /// Refused in the present state.
    pub const REFUSED: i32 = 1;
    /// Used wrongly.
    pub const USAGE: i32 = 64;
    /// The backend cannot be reached; nothing ran.
    pub const UNAVAILABLE: i32 = 69;
    /// Waiting for a person's approval.
    pub const APPROVAL: i32 = 75;
    /// Denied.
    pub const DENIED: i32 = 77;
    /// The config cannot be used.
    pub const CONFIG: i32 = 78;
    /// The command still runs, in the background (`--yield`).
    pub const STILL_RUNS: i32 = 79;
    /// The command was ended at its deadline.
    pub const TIMED_OUT: i32 = 124;
    /// A fault of our own.
    pub const FAULT: i32 = 125;
    /// The directory cannot be reached; nothing ran.
    pub const DIRECTORY: i32 = 126;
    /// Interrupted.
    pub const INTERRUPTED: i32 = 130;
    /// The reader of our stdout went away (128 + SIGPIPE).
    pub const OUTPUT_CLOSED: i32 = 141;
    /// The link was lost: unknown whether the command finished.
    pub const LINK_LOST: i32 = 255;
}

/// The kind of a failure; it decides the exit code and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Refused in the present state.
    Refused,
    /// Used wrongly.
    Usage,
    /// The backend cannot be reached.
    Unavailable,
    /// Waiting for approval.
    Approval,
    /// Denied.
    Denied,
    /// The config cannot be used.
    Config,
    /// Ended at the deadline.
    TimedOut,
    /// A fault of our own.
    Fault,
    /// The directory cannot be reached.
    Directory,
    /// Interrupted.
    Interrupted,
    /// The reader of our stdout went away.
    OutputClosed,
    /// The link was lost.
    LinkLost,
}

impl Kind {
    /// Gives the exit code.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Refused => ExitCode::REFUSED,
            Self::Usage => ExitCode::USAGE,
            Self::Unavailable => ExitCode::UNAVAILABLE,
            Self::Approval => ExitCode::APPROVAL,
            Self::Denied => ExitCode::DENIED,
            Self::Config => ExitCode::CONFIG,
            Self::TimedOut => ExitCode::TIMED_OUT,
            Self::Fault => ExitCode::FAULT,
            Self::Directory => ExitCode::DIRECTORY,
            Self::Interrupted => ExitCode::INTERRUPTED,
            Self::OutputClosed => ExitCode::OUTPUT_CLOSED,
            Self::LinkLost => ExitCode::LINK_LOST,
        }
    }
}

/// A failure as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What decides the exit code.
    pub kind: Kind,
    /// What happened, on which backend.
    pub message: String,
    /// What to do next.
    pub fix: Option<String>,
}

impl Report {
    /// Makes one from a message.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), fix: None }
    }

    /// Makes one from an error and its causes.
    pub fn of(kind: Kind, error: &(dyn Error + 'static)) -> Self {
        Self::new(kind, chain(error))
    }

    /// Adds what to do next.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Gives the exit code.
    pub fn exit_code(&self) -> i32 {
        self.kind.exit_code()
    }

    /// Gives the text for stderr, each line behind `qd: `, with a newline at the end.
    pub fn text(&self) -> String {
        let fix = self.fix.iter().flat_map(|fix| fix.lines());
        self.message.lines().chain(fix).map(|line| format!("qd: {}\n", visible(line))).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Report {}

/// Joins an error and its causes with `: `; a cause that the text before it tells already is left out.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let own = error.to_string();
        if !own.is_empty() && !text.contains(&own) {
            text.push_str(": ");
            text.push_str(&own);
        }
        cause = error.source();
    }
    text
}

/// Makes control and direction characters visible, so that text from elsewhere cannot act on the terminal.
fn visible(line: &str) -> String {
    let acts = |c: char| {
        (c.is_control() && c != '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        if acts(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    fn links(texts: &[&'static str]) -> Link {
        let (text, rest) = texts.split_first().unwrap();
        Link { text, source: (!rest.is_empty()).then(|| Box::new(links(rest))) }
    }

    #[test]
    fn a_chain_is_told_once() {
        let table: &[(&[&str], &str)] = &[
            (&["failed to x"], "failed to x"),
            (&["failed to x", "no route"], "failed to x: no route"),
            (&["failed to x: no route", "no route"], "failed to x: no route"),
            (&["a", "", "c"], "a: c"),
            (&["a", "b", "b"], "a: b"),
        ];
        for (texts, expected) in table {
            assert_eq!(chain(&links(texts)), *expected);
        }
    }

    #[test]
    fn every_line_is_ours_and_harmless() {
        let report = Report::new(Kind::Unavailable, "gpu: \x1b[2Jgone\nsecond\tline \u{202e}x").with_fix("try again");
        assert_eq!(report.text(), "qd: gpu: \\u{1b}[2Jgone\nqd: second\tline \\u{202e}x\nqd: try again\n");
        assert_eq!(report.exit_code(), 69);
    }

    #[test]
    fn kinds_have_their_codes() {
        let table = [
            (Kind::Refused, 1),
            (Kind::Usage, 64),
            (Kind::Unavailable, 69),
            (Kind::Approval, 75),
            (Kind::Denied, 77),
            (Kind::Config, 78),
            (Kind::TimedOut, 124),
            (Kind::Fault, 125),
            (Kind::Directory, 126),
            (Kind::Interrupted, 130),
            (Kind::OutputClosed, 141),
            (Kind::LinkLost, 255),
        ];
        for (kind, code) in table {
            assert_eq!(kind.exit_code(), code);
        }
    }
}
