//! The words of the product as plain data, shared by the engine, the protocol and every front end.
//!
//! Invariant: nothing here does I/O, reads a clock or knows tokio; every type can be sent as JSON, and a reader
//! tolerates fields that it does not know.

mod backend;
pub mod clean;
mod event;
mod exec;
mod finding;
pub mod health;
mod outcome;
mod pattern;
mod process;
mod prompt;
pub mod redact;
pub mod scrub;
mod session;
mod told;

pub use backend::{BackendInfo, BackendKind, Capabilities, Health, HealthState};
pub use event::{DaemonInfo, Event, Level, Notice, Overview};
pub use exec::{Chunk, Exec, Kept, LogRead, LogStart, Run, Stream};
pub use finding::{Finding, Verdict};
pub use outcome::{EndedBy, ExecResult, Hint, Outcome, Warning, WarningCode, signal_number};
pub use pattern::{WATCH_PATTERNS, watch_pattern};
pub use process::{ProcessId, ProcessInfo, ProcessState, Stray, Who, WhoKind};
pub use prompt::{Answer, Field, HostKeyChange, HostKeys, KnownKey, Prompt, Question, Secret, ShownKey, Standing};
pub use session::{SessionDetail, SessionInfo};
pub use told::{News, Of, TOLD_CHARS, TOLD_LINES, Told};

/// Milliseconds since the Unix epoch, as all times are sent.
pub type Millis = i64;
