//! `qd wait`: waits until commands have ended, or until their output has come to something.
//!
//! Invariant: the exit code of one command is its own; of several the highest; 124 when the time ran out first. Waiting is the
//! daemon's: here nothing is asked again and again.

mod until;

pub(crate) use until::{Until, from, parse as until};

use super::args::{Global, WaitArgs};
use super::caller;
use super::failure::{Failure, code};
use super::ps;
use super::screen::Screen;
use super::words;
use crate::client::{Client, ClientError};
use crate::model::{ProcessInfo, ProcessState};
use crate::protocol::calls::Wait;
use crate::report::ExitCode;
use futures::future::try_join_all;
use serde::Serialize;
use std::time::Duration;

/// Waits for processes.
pub(crate) async fn run(global: &Global, args: &WaitArgs, screen: &Screen) -> Result<u8, Failure> {
    let client = caller::need(global, &args.ids.join(", ")).await?;
    if args.offset.is_some() && !args.until.is_from() {
        return Err(Failure::usage("--offset goes with --until output or pattern=RE"));
    }
    if !matches!(args.until, Until::Exit) {
        return output(&client, args, screen).await;
    }
    let timeout_ms = args.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let rows = client.call(Wait { processes: args.ids.clone(), timeout_ms, told: false }).await?;
    show(&rows, args.json, screen)?;
    let open = rows.iter().filter(|row| !row.state.is_ended()).count();
    if open > 0 {
        screen.say(&format!("{open} of {} commands have not ended", rows.len()));
    }
    Ok(worst(&rows))
}

/// Waits for something in the output of each: 0 when it has come, 1 when a command ended without it, 124 after the time.
async fn output(client: &Client, args: &WaitArgs, screen: &Screen) -> Result<u8, Failure> {
    let one = |id| within(args.timeout, until::come(client, id, &args.until, args.offset));
    let come = try_join_all(args.ids.iter().map(|id| one(id))).await?;
    let rows = client.call(Wait { processes: args.ids.clone(), timeout_ms: Some(0), told: false }).await?;
    if args.json {
        let rows: Vec<Row<'_>> = rows.iter().zip(&come).map(|(process, came)| Row { process, came: *came == Some(true) }).collect();
        screen.json(&rows)?;
    } else {
        show(&rows, false, screen)?;
    }
    for (row, come) in rows.iter().zip(&come) {
        match come {
            Some(true) => {}
            Some(false) => screen.say(&format!("{} ended before that came", row.id)),
            None => screen.say(&format!("{}: the time ran out before that came", row.id)),
        }
    }
    let code_of = |come: &Option<bool>| come.map_or(ExitCode::TIMED_OUT, |came| if came { ExitCode::OK } else { ExitCode::REFUSED });
    Ok(code(come.iter().map(code_of).max().unwrap_or(ExitCode::OK)))
}

/// A row with whether what was waited for came.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    process: &'a ProcessInfo,
    came: bool,
}

/// Gives none when the time, if any, ran out first.
async fn within<T>(time: Option<Duration>, work: impl Future<Output = Result<T, ClientError>>) -> Result<Option<T>, ClientError> {
    match time {
        None => work.await.map(Some),
        Some(time) => tokio::time::timeout(time, work).await.map_or(Ok(None), |done| done.map(Some)),
    }
}

/// Prints the rows that a call answered with.
pub(crate) fn show(rows: &[ProcessInfo], json: bool, screen: &Screen) -> Result<(), Failure> {
    if json {
        return screen.json(&rows);
    }
    let rows: Vec<&ProcessInfo> = rows.iter().collect();
    screen.print(&ps::table(&rows, words::now()).text(screen))
}

fn worst(rows: &[ProcessInfo]) -> u8 {
    let of = |row: &ProcessInfo| match &row.state {
        ProcessState::Ended(outcome) => code(outcome.process_exit_code()),
        _ => code(ExitCode::TIMED_OUT),
    };
    if rows.iter().any(|row| !row.state.is_ended()) {
        return code(ExitCode::TIMED_OUT);
    }
    rows.iter().map(of).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ps::tests::process;
    use crate::model::Outcome;

    #[test]
    fn the_worst_code_counts() {
        let ended = |exit_code| process("k7f3", ProcessState::Ended(Outcome::Exited { exit_code }));
        assert_eq!(worst(&[ended(3)]), 3);
        assert_eq!(worst(&[ended(0), ended(7), ended(2)]), 7);
        assert_eq!(worst(&[ended(200), process("b2c4", ProcessState::Running)]), 124);
        assert_eq!(worst(&[process("b2c4", ProcessState::Ended(Outcome::Signaled { signal: "SIGKILL".into() }))]), 137);
    }
}
