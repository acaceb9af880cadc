//! Why a backend could not do what was asked, and what the person can do about it.
//!
//! Invariant: the decision whether trying again may help is made here, where the knowledge is.

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// It cannot be reached now; a later attempt may succeed.
    Unreachable,
    /// The link broke while something was under way.
    Lost,
    /// It did not answer in time.
    TimedOut,
    /// Authentication failed; a person is needed.
    Authentication,
    /// The host key is unknown in strict mode, changed or revoked; a person is needed.
    HostKey,
    /// The settings are wrong; a person is needed.
    Config,
    /// No shell can be started there (nologin, a forced command, no bash where bash was demanded).
    NoShell,
    /// Too many channels; nothing was started, a later attempt may succeed.
    Busy,
    /// This kind of backend is not in this version.
    Unsupported,
    /// A fault of our own.
    Internal,
}

/// A failure of a backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BackendError {
    /// The kind.
    pub kind: ErrorKind,
    /// What happened, with the address: `connection refused by 10.0.0.7 port 22`.
    pub message: String,
    /// What to do about it, when there is something.
    pub fix: Option<String>,
}

impl BackendError {
    /// Makes an error without a fix.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), fix: None }
    }

    /// Adds what the person can do.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Tells whether a later attempt may succeed without a person.
    pub fn is_temporary(&self) -> bool {
        matches!(self.kind, ErrorKind::Unreachable | ErrorKind::Lost | ErrorKind::TimedOut | ErrorKind::Busy)
    }

    /// Tells whether a person is needed before another attempt makes sense.
    pub fn needs_person(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Authentication | ErrorKind::HostKey | ErrorKind::Config | ErrorKind::NoShell | ErrorKind::Unsupported
        )
    }
}
