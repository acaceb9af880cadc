//! What is said on stderr about a command that has ended.
//!
//! Invariant: what its exit code alone cannot tell is said even to a quiet caller; warnings and hints are not.

use crate::cli::screen::Screen;
use crate::cli::words;
use crate::model::{EndedBy, ExecResult, Outcome};

/// Says how a command ended, its warnings and its hints.
pub(crate) fn tell(result: &ExecResult, screen: &Screen, interrupted: bool) {
    if let Some(line) = ending(result, interrupted) {
        screen.insist(&line);
    }
    for line in remarks(result, screen) {
        screen.say(&line);
    }
}

fn ending(result: &ExecResult, interrupted: bool) -> Option<String> {
    let backend = &result.backend;
    let after = words::span(result.duration_ms);
    Some(match &result.outcome {
        Outcome::Exited { .. } => return None,
        Outcome::Signaled { signal } => format!("the command was ended by {signal} on {backend}"),
        Outcome::TimedOut => format!("timed out after {after} on {backend}; the command was ended"),
        Outcome::Cancelled { ended_by: EndedBy::Client } if interrupted => return None,
        Outcome::Cancelled { ended_by } => {
            let who = match ended_by {
                EndedBy::Operator => "an operator",
                EndedBy::Agent => "an agent",
                EndedBy::Client => "its caller",
                EndedBy::ClientGone => "the daemon, because its caller went away",
                EndedBy::Daemon => "the daemon, which was stopping",
            };
            format!("the command was ended by {who} after {after} on {backend}")
        }
        Outcome::TransportLost { reason } => {
            let reason = once(backend, reason);
            // The daemon's reason says it; one of our own does not.
            let unknown = if reason.contains("whether") { "" } else { "it is unknown whether the command finished, and " };
            format!("the link to {backend} was lost: {reason}; {unknown}it is not run again")
        }
        Outcome::SpawnFailed { reason } => format!("no shell could be started on {backend}: {}", once(backend, reason)),
        Outcome::Running => format!(
            "{id} runs in the background on {backend} (`qd logs -f {id}` shows its output, `qd kill {id}` ends it)",
            id = result.process_id
        ),
        Outcome::CodeUnknown => "the command has ended; its exit code is not known".into(),
        Outcome::Lost { reason } => format!("the command is lost on {backend}: {}", once(backend, reason)),
        Outcome::BackendUnavailable { reason } => format!("{backend} is not available: {}; nothing was run", once(backend, reason)),
    })
}

/// Gives a reason without the backend's name in front, for a sentence that names it already.
fn once<'r>(backend: &str, reason: &'r str) -> &'r str {
    reason.strip_prefix(backend).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(reason)
}

fn remarks(result: &ExecResult, screen: &Screen) -> Vec<String> {
    let mut lines = Vec::new();
    if let (Some(meaning), Outcome::Exited { exit_code }, true) = (&result.exit_code_meaning, &result.outcome, screen.stderr_terminal) {
        lines.push(format!("exit {exit_code}: {meaning}"));
    }
    lines.extend(result.warnings.iter().map(|warning| format!("warning: {}", warning.message)));
    lines.extend(result.hints.iter().map(|hint| format!("hint: {}", hint.message)));
    if screen.verbose > 0 {
        let (id, backend, session) = (&result.process_id, &result.backend, &result.session);
        let (ended, took) = (words::ended(&result.outcome), words::span(result.duration_ms));
        lines.push(format!(
            "{id} on {backend}, session {session}, generation {}: {ended} after {took}, now in {}",
            result.generation, result.cwd
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exec::tests::result;
    use crate::model::{Hint, Warning, WarningCode};

    #[test]
    fn an_ending_that_the_code_does_not_tell_is_said() {
        let say = |outcome| ending(&result(outcome), false);
        assert_eq!(say(Outcome::Exited { exit_code: 3 }), None);
        let timed_out = say(Outcome::TimedOut).unwrap();
        assert_eq!(timed_out, "timed out after 1.0s on gpu; the command was ended");
        let lost = say(Outcome::TransportLost { reason: "no answer for 12s".into() }).unwrap();
        assert!(lost.contains("no answer for 12s") && lost.contains("unknown whether"), "{lost}");
        let lost = say(Outcome::TransportLost { reason: "gpu: gone; it is not known whether the command finished".into() }).unwrap();
        assert_eq!(lost, "the link to gpu was lost: gone; it is not known whether the command finished; it is not run again");
        let away = say(Outcome::BackendUnavailable { reason: "gpu: connection refused".into() }).unwrap();
        assert_eq!(away, "gpu is not available: connection refused; nothing was run");
        let by_operator = say(Outcome::Cancelled { ended_by: EndedBy::Operator }).unwrap();
        assert!(by_operator.contains("an operator"), "{by_operator}");
        assert_eq!(ending(&result(Outcome::Cancelled { ended_by: EndedBy::Client }), true), None);
    }

    #[test]
    fn meanings_are_for_people_and_warnings_for_all() {
        let mut result = result(Outcome::Exited { exit_code: 1 });
        result.exit_code_meaning = Some("grep: no lines matched (not an error)".into());
        result.warnings.push(Warning::new(WarningCode::OrphansLeft, "2 processes are still running"));
        result.hints.push(Hint { code: "x".into(), message: "use -i".into() });
        let person = Screen { stderr_terminal: true, ..Screen::default() };
        let want = ["exit 1: grep: no lines matched (not an error)", "warning: 2 processes are still running", "hint: use -i"];
        assert_eq!(remarks(&result, &person), want);
        assert_eq!(remarks(&result, &Screen::default()), want[1..]);
    }
}
