//! `qd kill`: ends commands, or sends them one signal.
//!
//! Invariant: it returns when the ending is done, and says when something may be left.

use super::args::{Global, KillArgs};
use super::failure::{Failure, code};
use super::screen::Screen;
use super::{caller, wait, words};
use crate::client::ClientError;
use crate::model::{ProcessInfo, WarningCode};
use crate::protocol::calls::Kill;
use crate::report::ExitCode;

/// Ends processes.
pub(crate) async fn run(global: &Global, args: &KillArgs, screen: &Screen) -> Result<u8, Failure> {
    let client = caller::need(global, &args.ids).await?;
    let grace_ms = args.grace.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let killed = client.call(Kill { processes: args.ids.clone(), signal: args.signal.clone(), grace_ms }).await?;
    let rows: Vec<ProcessInfo> = killed.iter().map(|one| one.process.clone()).collect();
    let failures: Vec<(&ProcessInfo, Failure)> =
        killed.iter().filter_map(|one| one.failed.clone().map(|error| (&one.process, ClientError::Call(error).into()))).collect();
    if args.json {
        screen.json(&killed)?;
    } else {
        wait::show(&rows, false, screen)?;
    }
    if let Some(signal) = &args.signal {
        for one in killed.iter().filter(|one| one.failed.is_none()) {
            let pids: Vec<String> = one.signalled.iter().map(u32::to_string).collect();
            screen.say(&format!("{signal} went to {} of {}: {}", words::processes(pids.len()), one.process.id, pids.join(", ")));
        }
    }
    for row in &rows {
        for warning in row.warnings.iter().filter(|w| matches!(w.code, WarningCode::KillUnverified | WarningCode::OrphansLeft)) {
            screen.say(&format!("warning: {}: {}", row.id, warning.message));
        }
    }
    for (row, failure) in &failures {
        let fix = failure.fix().map(|fix| format!("; {fix}")).unwrap_or_default();
        screen.insist(&format!("{}: {failure}{fix}", row.id));
    }
    let done = args.signal.is_some() || rows.iter().all(|row| row.state.is_ended());
    let left = if done { 0 } else { code(ExitCode::REFUSED) };
    Ok(failures.iter().map(|(_, failure)| failure.exit_code()).max().unwrap_or(0).max(left))
}

/// Parses a signal: `TERM`, `SIGTERM`, `term` or `15` become `SIGTERM`.
pub(crate) fn signal_name(text: &str) -> Result<String, String> {
    use nix::sys::signal::Signal;
    let upper = text.to_ascii_uppercase();
    let long = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    let parsed = match text.parse::<i32>() {
        Ok(number) => Signal::try_from(number).ok(),
        Err(_) => long.parse::<Signal>().ok(),
    };
    parsed
        .map(|signal| signal.as_str().to_owned())
        .ok_or_else(|| "expected a signal such as TERM, INT, KILL, HUP, USR1, or its number".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_by_name_or_number() {
        for text in ["TERM", "SIGTERM", "term", "sigterm", "15"] {
            assert_eq!(signal_name(text).as_deref(), Ok("SIGTERM"), "{text}");
        }
        for text in ["", "0", "-1", "99", "SIG", "NOPE", "TERM "] {
            assert!(signal_name(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_names_are_those_of_the_model() {
        for signal in nix::sys::signal::Signal::iterator() {
            let outcome = crate::model::Outcome::Signaled { signal: signal.as_str().into() };
            assert_eq!(outcome.process_exit_code(), 128 + signal as i32, "{signal}");
        }
    }
}
