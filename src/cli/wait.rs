//! `qd wait`: waits until commands have ended, or until their output has come to something.
//!
//! Invariant: the exit code of one command is its own; of several the highest; 124 when the time ran out first. Waiting is the
//! daemon's: here nothing is asked again and again. A daemon that goes takes no wait with it: the next one is asked.

mod told;
mod until;

pub(crate) use until::{Until, from, parse as until};

use super::again::again;
use super::args::{Global, WaitArgs};
use super::caller;
use super::failure::{Failure, code};
use super::ps;
use super::screen::Screen;
use super::words;
use crate::client::{Client, ClientError};
use crate::model::{ProcessInfo, ProcessState, Told};
use crate::protocol::calls::{CallError, ErrorCode, Wait};
use crate::report::ExitCode;
use futures::future::join_all;
use serde::Serialize;
use tokio::time::Instant;
use told::Ear;
use until::Seek;

/// Waits for processes.
pub(crate) async fn run(global: &Global, args: &WaitArgs, screen: &Screen) -> Result<u8, Failure> {
    let client = caller::need(global, &args.ids).await?;
    if args.offset.is_some() && !args.until.is_from() {
        return Err(Failure::usage("--offset goes with --until output or pattern=RE"));
    }
    let deadline = args.timeout.map(|time| Instant::now() + time);
    let link = Link { global, screen, deadline, client, told: false };
    if matches!(args.until, Until::Exit) { exit(link, args, screen).await } else { output(link, args, screen).await }
}

/// The daemon that is there now.
struct Link<'a> {
    global: &'a Global,
    screen: &'a Screen,
    deadline: Option<Instant>,
    client: Client,
    /// Whether it was said that one went.
    told: bool,
}

impl Link<'_> {
    /// Waits for the next daemon; false when the time ran out first.
    async fn again(&mut self, why: String) -> Result<bool, Failure> {
        if !std::mem::replace(&mut self.told, true) {
            self.screen.insist(&format!("the daemon is gone ({why}); the wait goes on as soon as one is there"));
        }
        let next = again(self.global, why);
        let next = match self.deadline {
            None => next.await,
            Some(deadline) => match tokio::time::timeout_at(deadline, next).await {
                Ok(next) => next,
                Err(_) => return Ok(false),
            },
        };
        self.client = next?;
        Ok(true)
    }

    /// What is left of the time, in milliseconds.
    fn left_ms(&self) -> Option<u64> {
        let left = self.deadline?.saturating_duration_since(Instant::now());
        Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    /// Says what a failure means after a daemon went.
    fn explain(&self, error: ClientError) -> Failure {
        match error {
            ClientError::Call(CallError { code: ErrorCode::NotFound, message, .. }) if self.told => {
                Failure::Refused(format!("{message}: what it knew went with the daemon before"))
            }
            other => other.into(),
        }
    }
}

/// Waits for the end of all.
async fn exit(mut link: Link<'_>, args: &WaitArgs, screen: &Screen) -> Result<u8, Failure> {
    let mut ear = Ear::new(screen, args.json);
    let rows = loop {
        let call = Wait { processes: args.ids.clone(), timeout_ms: link.left_ms(), told: true };
        match ear.listen(&link.client, call).await {
            Ok(rows) => break rows,
            Err(ClientError::Gone(why)) => {
                if !link.again(why).await? {
                    screen.insist("the time ran out while no daemon was there");
                    return Ok(code(ExitCode::TIMED_OUT));
                }
            }
            Err(error) => return Err(link.explain(error)),
        }
    };
    if args.json {
        screen.json(&rows.iter().map(|process| Row { process, came: None, told: ear.of(process) }).collect::<Vec<_>>())?;
    } else {
        show(&rows, false, screen)?;
    }
    let open = rows.iter().filter(|row| !row.state.is_ended()).count();
    if open > 0 {
        screen.say(&format!("{open} of {} commands have not ended", rows.len()));
    }
    Ok(worst(&rows))
}

/// Waits for something in the output of each: 0 when it has come, 1 when a command ended without it, 124 after the time.
async fn output(mut link: Link<'_>, args: &WaitArgs, screen: &Screen) -> Result<u8, Failure> {
    let mut rows = rows_now(&link.client, args).await?;
    let matches = matches!(args.until, Until::Match);
    if matches && let Some(row) = rows.iter().find(|row| row.watch.is_empty() && !row.state.is_ended()) {
        let text = format!("{} has no match to wait for: it was not started with --watch, or that was turned off", row.id);
        return Err(Failure::usage_with(text, "`qd wait --until pattern=RE` looks for something in its output"));
    }
    let mut ear = Ear::new(screen, args.json);
    let mut seeks: Vec<Seek<'_>> = rows.iter().map(|row| Seek::new(row, &args.until, args.offset)).collect();
    loop {
        let client = link.client.clone();
        let open: Vec<String> = seeks.iter().filter(|seek| seek.came.is_none()).map(|seek| seek.id.clone()).collect();
        let call = Wait { processes: open, timeout_ms: None, told: true };
        let come = async {
            if matches {
                return ear.matches(&client, call, &mut seeks).await;
            }
            let all = join_all(seeks.iter_mut().map(|seek| seek.go(&client)));
            tokio::select! {
                biased;
                done = all => first_failure(done),
                // When that is over they have ended, which the others see too.
                failed = ear.beside(&client, call) => failed,
            }
        };
        match within(link.deadline, come).await {
            None | Some(Ok(())) => break,
            Some(Err(Failure::Client(ClientError::Gone(why)))) => {
                if !link.again(why).await? {
                    break;
                }
            }
            Some(Err(Failure::Client(error))) => return Err(link.explain(error)),
            Some(Err(failure)) => return Err(failure),
        }
    }
    let came: Vec<Option<bool>> = seeks.into_iter().map(|seek| seek.came).collect();
    // Without a daemon they are shown as they were.
    if let Ok(now) = rows_now(&link.client, args).await {
        rows = now;
    }
    finish(&rows, &came, &ear, args, screen)
}

async fn rows_now(client: &Client, args: &WaitArgs) -> Result<Vec<ProcessInfo>, ClientError> {
    client.call(Wait { processes: args.ids.clone(), timeout_ms: Some(0), told: false }).await
}

/// Gives the failure that is told: that of the daemon, when it went, last of all.
fn first_failure(done: Vec<Result<(), ClientError>>) -> Result<(), Failure> {
    let (gone, others): (Vec<_>, Vec<_>) = done.into_iter().filter_map(Result::err).partition(|e| matches!(e, ClientError::Gone(_)));
    others.into_iter().chain(gone).next().map_or(Ok(()), |error| Err(error.into()))
}

/// Prints how it ended.
fn finish(rows: &[ProcessInfo], came: &[Option<bool>], ear: &Ear<'_>, args: &WaitArgs, screen: &Screen) -> Result<u8, Failure> {
    if args.json {
        let row = |(process, came): (_, &Option<bool>)| Row { process, came: Some(*came == Some(true)), told: ear.of(process) };
        screen.json(&rows.iter().zip(came).map(row).collect::<Vec<_>>())?;
    } else if !matches!(args.until, Until::Match) {
        show(rows, false, screen)?;
    }
    for (row, come) in rows.iter().zip(came) {
        match come {
            Some(true) => {}
            Some(false) if row.state.is_ended() => screen.say(&format!("{} ended before that came", row.id)),
            Some(false) => screen.say(&format!("{}: that does not come any more", row.id)),
            None => screen.say(&format!("{}: the time ran out before that came", row.id)),
        }
    }
    let code_of = |come: &Option<bool>| come.map_or(ExitCode::TIMED_OUT, |came| if came { ExitCode::OK } else { ExitCode::REFUSED });
    Ok(code(came.iter().map(code_of).max().unwrap_or(ExitCode::OK)))
}

/// A row with what came of the wait.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    process: &'a ProcessInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    came: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    told: Vec<Told>,
}

/// Gives none when the time, if any, ran out first.
async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        None => Some(work.await),
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.ok(),
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
