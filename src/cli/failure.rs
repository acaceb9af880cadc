//! Why a command line did not do what was asked: the message, what to do about it, and what `qd` exits with.
//!
//! Invariant: every failure has one exit code of the table in the help, and is printed once, by `main`.

use crate::client::ClientError;
use crate::protocol::calls::ErrorCode;
use crate::report::{Kind, Report};
use serde_json::json;
use std::io::{self, Write};

/// A failure of a command line.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Used wrongly.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to do.
        fix: Option<String>,
    },
    /// Refused in the present state.
    #[error("{0}")]
    Refused(String),
    /// The config cannot be used.
    #[error("{0}")]
    Config(String),
    /// The daemon, or the way to it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Our stdout could not be written.
    #[error("failed to write to stdout: {0}")]
    Output(io::Error),
    /// A fault of our own.
    #[error("{0}")]
    Internal(String),
}

impl Failure {
    /// Makes a failure of use.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), fix: None }
    }

    /// Makes a failure of use with advice.
    pub fn usage_with(message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), fix: Some(fix.into()) }
    }

    /// Gives the kind, which decides the exit code.
    fn kind(&self) -> Kind {
        match self {
            Self::Usage { .. } => Kind::Usage,
            Self::Refused(_) => Kind::Refused,
            Self::Config(_) => Kind::Config,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Kind::OutputClosed,
            Self::Output(_) | Self::Internal(_) => Kind::Fault,
            Self::Client(error) => match error {
                ClientError::OtherConfig(_) | ClientError::BadConfig(_) => Kind::Config,
                ClientError::NoDaemon => Kind::Refused,
                ClientError::Unreachable(_) | ClientError::Mismatch(_) | ClientError::Gone(_) => Kind::Fault,
                ClientError::Call(call) => match call.code {
                    ErrorCode::NotFound | ErrorCode::Usage => Kind::Usage,
                    ErrorCode::Config => Kind::Config,
                    ErrorCode::Unavailable => Kind::Unavailable,
                    ErrorCode::Refused | ErrorCode::Outdated => Kind::Refused,
                    ErrorCode::UnknownMethod | ErrorCode::BadParameters | ErrorCode::Internal => Kind::Fault,
                },
            },
        }
    }

    /// Gives what `qd` exits with.
    pub fn exit_code(&self) -> u8 {
        code(self.kind().exit_code())
    }

    /// Gives the stable word for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Usage { .. } => "usage",
            Self::Refused(_) => "refused",
            Self::Config(_) => "config",
            Self::Output(_) => "output",
            Self::Internal(_) => "internal",
            Self::Client(error) => match error {
                ClientError::OtherConfig(_) | ClientError::BadConfig(_) => "config",
                ClientError::NoDaemon => "no_daemon",
                ClientError::Unreachable(_) | ClientError::Gone(_) => "daemon",
                ClientError::Mismatch(_) => "version_mismatch",
                ClientError::Call(call) => match call.code {
                    ErrorCode::NotFound => "not_found",
                    ErrorCode::Usage => "usage",
                    ErrorCode::Config => "config",
                    ErrorCode::Unavailable => "unavailable",
                    ErrorCode::Refused => "refused",
                    ErrorCode::Outdated => "outdated",
                    ErrorCode::UnknownMethod | ErrorCode::BadParameters | ErrorCode::Internal => "internal",
                },
            },
        }
    }

    /// Gives what to do about it, where that is known.
    pub fn fix(&self) -> Option<&str> {
        match self {
            Self::Usage { fix, .. } => fix.as_deref(),
            Self::Client(ClientError::Call(call)) => call.fix.as_deref(),
            _ => None,
        }
    }

    /// Gives the object that `--json` prints in place of a result.
    pub fn json(&self) -> serde_json::Value {
        let mut error = json!({"code": self.word(), "message": self.to_string(), "exit": self.exit_code()});
        if let Some(fix) = self.fix() {
            error["fix"] = fix.into();
        }
        json!({ "error": error })
    }

    /// Prints the failure on stderr. A reader that went away is no news: that one is quiet.
    pub fn print(&self) {
        if self.kind() == Kind::OutputClosed {
            return;
        }
        let mut report = Report::new(self.kind(), self.to_string());
        report.fix = self.fix().map(str::to_owned);
        // When stderr cannot be written either, only the exit code is left to say it.
        drop(io::stderr().write_all(report.text().as_bytes()));
    }
}

/// Gives an exit code as the system takes it: its low eight bits.
pub(crate) fn code(code: i32) -> u8 {
    (code & 0xff) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::calls::CallError;

    fn call(code: ErrorCode) -> Failure {
        ClientError::Call(CallError { code, message: "m".into(), fix: Some("f".into()) }).into()
    }

    #[test]
    fn every_failure_has_its_exit_code() {
        let table = [
            (Failure::usage("x"), 64),
            (Failure::Config("x".into()), 78),
            (Failure::Refused("x".into()), 1),
            (Failure::Internal("x".into()), 125),
            (Failure::Output(io::ErrorKind::BrokenPipe.into()), 141),
            (Failure::Output(io::ErrorKind::StorageFull.into()), 125),
            (ClientError::NoDaemon.into(), 1),
            (ClientError::OtherConfig("x".into()).into(), 78),
            (ClientError::BadConfig("x".into()).into(), 78),
            (ClientError::Gone("x".into()).into(), 125),
            (call(ErrorCode::NotFound), 64),
            (call(ErrorCode::Usage), 64),
            (call(ErrorCode::Config), 78),
            (call(ErrorCode::Unavailable), 69),
            (call(ErrorCode::Refused), 1),
            (call(ErrorCode::Outdated), 1),
            (call(ErrorCode::Internal), 125),
        ];
        for (failure, want) in table {
            assert_eq!(failure.exit_code(), want, "{failure:?}");
        }
    }

    #[test]
    fn json_carries_the_code_the_message_and_the_fix() {
        let have = call(ErrorCode::NotFound).json().to_string();
        assert_eq!(have, r#"{"error":{"code":"not_found","exit":64,"fix":"f","message":"m"}}"#);
    }
}
