//! After the shell's end: when is the command complete, and what is left of it.
//!
//! Invariant: what ends by itself just now is waited for, as long as it writes; a child in the background is not, and nothing
//! waits for mere silence when the shell has said that it is done.

use super::drive::{Drive, Event};
use crate::model::{Warning, WarningCode};
use crate::shell::record::Record;
use std::time::Duration;
use tokio::time::Instant;

/// Without a last word of the shell (`exec`, `kill -9`): so long must the streams be silent. Near: everything is in a pipe
/// already. Far: it may be on its way.
const DRAIN_NEAR: Duration = Duration::from_millis(30);
const DRAIN_FAR: Duration = Duration::from_millis(400);
/// Far, the end of the streams is told right behind the shell's exit, in a message of its own: so long it is waited for before
/// somebody is asked who else may hold them, which takes a round trip.
pub(super) const END_FAR: Duration = Duration::from_millis(20);
/// A process substitution that was just forked does not show yet what it will read and write: what is left is looked at
/// again within so long of the shell's end.
const YOUNG: Duration = Duration::from_millis(20);
/// What is about to end by itself and writes nothing to us is waited for so long in all.
const LATE: Duration = Duration::from_millis(100);
/// A process substitution that writes to our stdout is waited for until it has been silent for so long.
const TAIL_QUIET: Duration = Duration::from_secs(2);
/// How long after a verified end the streams may take to end.
const AFTER_KILL: Duration = Duration::from_millis(200);

/// Waits until the command is complete; gives the processes that it left.
pub(super) async fn settle(drive: &mut Drive<'_>, same_files: bool) -> Vec<u32> {
    if drive.why.is_some() {
        until_streams_end(drive, Instant::now() + AFTER_KILL).await;
        return Vec::new();
    }
    until_last_word(drive, if same_files { DRAIN_NEAR } else { DRAIN_FAR }).await;
    let background = drive.watch.seen().records.iter().any(|r| matches!(r, Record::End(end) if end.background));
    if !same_files && !background {
        until_streams_end(drive, Instant::now() + END_FAR).await;
    }
    // Here it costs next to nothing to ask; far away it would cost every command a round trip.
    if drive.reading.is_none() && !background && !same_files {
        return Vec::new();
    }
    left_behind(drive).await
}

/// Waits until both streams have ended, or the shell has said its last word, or has been silent without one.
async fn until_last_word(drive: &mut Drive<'_>, drain: Duration) {
    while drive.reading.is_some() && drive.why.is_none() {
        if drive.watch.seen().held > 0 {
            drive.step(None).await;
            continue;
        }
        let silent = {
            let seen = drive.watch.seen();
            let trap_follows = seen.records.iter().any(|r| matches!(r, Record::End(end) if end.trap_follows));
            if seen.fence && seen.end && !trap_follows {
                return;
            }
            seen.last.max(drive.exited_at)
        };
        let until = Instant::from_std(silent) + drain;
        if until <= Instant::now() {
            return;
        }
        drive.step(Some(until)).await;
    }
}

async fn until_streams_end(drive: &mut Drive<'_>, until: Instant) {
    while drive.reading.is_some() && !matches!(drive.step(Some(until)).await, Event::Timer) {}
}

/// Waits for tails; gives the processes that stay.
async fn left_behind(drive: &mut Drive<'_>) -> Vec<u32> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        let members = match drive.survivors().await {
            Ok(members) => members,
            Err(error) => {
                tracing::debug!(%error, "what is left of a command could not be asked");
                return Vec::new();
            }
        };
        if drive.watch.seen().held > 0 && drive.reading.is_some() && drive.why.is_none() {
            // Output waits for room in the log: it is there, and more may be behind it.
            drive.step(None).await;
            continue;
        }
        let now = Instant::now();
        let last = Instant::from_std(drive.watch.seen().last);
        let tail = !members.tails.is_empty() && now < last + TAIL_QUIET;
        // With nobody left the streams end at once, unless somebody holds them whom we cannot know.
        let late = (!members.ending.is_empty() || (members.alive.is_empty() && drive.reading.is_some())) && now < began + LATE;
        let young = drive.reading.is_some() && members.alive.len() > members.ending.len() && drive.exited_at.elapsed() < YOUNG;
        if drive.why.is_some() || !(tail || late || young) {
            return members.alive;
        }
        let streams_open = drive.reading.is_some();
        let until = now + pause;
        while !matches!(drive.step(Some(until)).await, Event::Timer | Event::StreamsEnded) {}
        if streams_open && drive.reading.is_none() && members.alive.iter().all(|p| members.ending.contains(p)) {
            // What was to end has closed our streams: it is on its way out.
            return Vec::new();
        }
        pause = (pause * 2).min(Duration::from_millis(if tail { 250 } else { 20 }));
    }
}

/// Tells what was left.
pub fn orphans(pids: Vec<u32>) -> Option<Warning> {
    let (number, verb) = if pids.len() == 1 { ("a process", "is") } else { ("processes", "are") };
    let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let text = format!("{number} of this command {verb} still running in the background: {list}");
    (!pids.is_empty()).then(|| Warning { pids, ..Warning::new(WarningCode::OrphansLeft, text) })
}
