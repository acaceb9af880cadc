//! Waiting for a shell's end, and for the verdict of an ending.
//!
//! Invariant: a shell that is told late to have ended is asked about, and an ending that was not verified is never silent.

use super::drive::{Drive, Event};
use super::settle::END_FAR;
use crate::backend::{BackendError, Exit, Members};
use crate::model::{Warning, WarningCode};
use std::time::Duration;
use tokio::time::Instant;

/// Between questions whether a shell that has said its last is gone, where its end is told late.
const LONGEST_DOUBT: Duration = Duration::from_secs(2);
/// How long a shell may take to end after its whole family was ended.
const AFTER_END: Duration = Duration::from_secs(2);

/// Waits for the shell's end; an ending of ours that leaves the shell there is given up after a while.
pub(super) async fn until_exit(drive: &mut Drive<'_>, warnings: &mut Vec<Warning>) -> Option<Exit> {
    let mut until = None;
    let mut patience = END_FAR;
    loop {
        let doubtful = drive.may_be_over();
        match drive.step(if doubtful { Some(Instant::now() + patience) } else { until }).await {
            Event::Exit(exit) => return Some(exit),
            Event::Timer if doubtful => {
                if drive.is_over().await {
                    return None;
                }
                patience = (patience * 2).min(LONGEST_DOUBT);
            }
            Event::Ended(result) => {
                warnings.extend(unverified(result));
                until = Some(Instant::now() + AFTER_END);
            }
            Event::Timer => return None,
            Event::Seen | Event::StreamsEnded => {}
        }
    }
}

/// The shell has ended before our ending was done: waits for its verdict.
pub(super) async fn until_ended(drive: &mut Drive<'_>, warnings: &mut Vec<Warning>) {
    while drive.is_ending() {
        if let Event::Ended(result) = drive.step(None).await {
            warnings.extend(unverified(result));
        }
    }
}

/// What must be said of an ending that was not verified.
fn unverified(result: Result<Members, BackendError>) -> Option<Warning> {
    let (pids, text) = match result {
        Ok(members) if members.verified => return None,
        Ok(members) if members.alive.is_empty() => (members.alive, "it could not be verified that every process of it ended".to_owned()),
        Ok(members) => (members.alive, "some of its processes could not be ended".to_owned()),
        Err(error) => (Vec::new(), format!("it could not be verified that every process of it ended: {error}")),
    };
    Some(Warning { pids, ..Warning::new(WarningCode::KillUnverified, text) })
}
