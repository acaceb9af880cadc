//! Learning what became of a background process whose start nobody heard of.
//!
//! Invariant: it starts nothing; what is said to have never started will not.

use super::background::{FollowSettings, Spot};
use super::errand::Errand;
use super::error::SessionError;
use crate::backend::{Backend, BackendError, Environment, ErrorKind};
use crate::shell::intent::{self, Found, PATIENCE};
use std::sync::Arc;
use std::time::Duration;

/// What the script may take beyond the time that it waits for a launch.
const LIMIT: Duration = Duration::from_secs(PATIENCE + 20);

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Became {
    /// It runs, or has run: here it is.
    Started(Spot),
    /// It never started.
    NotStarted,
    /// That cannot be told.
    Unknown,
}

/// Asks its backend what became of a process that was to be started. Not cancel safe.
pub async fn became(backend: &Arc<dyn Backend>, settings: &FollowSettings, spot: &Spot) -> Result<Became, BackendError> {
    let FollowSettings { shell, timeout } = *settings;
    let what = "look for a background process";
    let errand = Errand { backend, shell, environment: Environment::Empty, start: timeout, limit: LIMIT, what };
    let failed = |error: SessionError| match error {
        SessionError::Backend(error) => error,
        other => BackendError::new(ErrorKind::Internal, other.to_string()),
    };
    let answer = errand.demand(intent::look(&spot.root, &spot.id)).await.map_err(failed)?;
    match intent::found(&answer.stdout).map_err(|why| failed(errand.failed(why)))? {
        Found::Started { pid, start, boot } => Ok(Became::Started(Spot { pid, start, boot, ..spot.clone() })),
        Found::Not => Ok(Became::NotStarted),
        Found::Unknown => Ok(Became::Unknown),
    }
}
