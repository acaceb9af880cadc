//! The engine's errors as those of calls.
//!
//! Invariant: each kind of failure has its own code, and its text is passed on whole.

use crate::engine::EngineError;
use crate::protocol::calls::{CallError, ErrorCode};

/// Translates a failure of the engine.
pub(super) fn call_error(error: EngineError) -> CallError {
    let (code, message, fix) = match error {
        EngineError::NotFound(message) => (ErrorCode::NotFound, message, None),
        EngineError::Usage(message) => (ErrorCode::Usage, message, None),
        EngineError::Unavailable { message, fix } => (ErrorCode::Unavailable, message, fix),
        EngineError::Refused(message) => (ErrorCode::Refused, message, None),
        EngineError::Outdated { message, fix } => (ErrorCode::Outdated, message, Some(fix)),
        EngineError::Internal(message) => {
            tracing::error!(message, "the engine failed");
            let fix = "this is a fault of quarterdeck; its log file says more".to_owned();
            (ErrorCode::Internal, message, Some(fix))
        }
    };
    CallError { code, message, fix }
}

/// The failure of turning a value of ours into JSON.
pub(super) fn no_json(error: serde_json::Error) -> CallError {
    CallError { code: ErrorCode::Internal, message: format!("the answer has no JSON form: {error}"), fix: None }
}

/// A call that was used wrongly.
pub(super) fn usage(message: String, fix: Option<String>) -> CallError {
    CallError { code: ErrorCode::Usage, message, fix }
}

/// A call that is refused in the present state.
pub(super) fn refused(message: &str) -> CallError {
    CallError { code: ErrorCode::Refused, message: message.into(), fix: None }
}
