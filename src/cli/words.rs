//! States, ages and sizes in words.
//!
//! Invariant: a state is never a glyph or a colour alone.

use super::table::{Cell, Look};
use crate::model::{EndedBy, HealthState, Millis, Outcome, ProcessState};

/// Gives the moment, in milliseconds since the epoch.
pub(crate) fn now() -> Millis {
    jiff::Timestamp::now().as_millisecond()
}

/// Says how long ago a moment was, in its largest unit or two.
pub(crate) fn age(now: Millis, then: Millis) -> String {
    span(now.saturating_sub(then).max(0) as u64)
}

/// Says a time in its largest unit or two: `840ms`, `12s`, `4m10s`, `3h05m`, `2d07h`.
pub(crate) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms}ms"),
        1..10 => format!("{}.{}s", seconds, ms % 1000 / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Says a round trip.
pub(crate) fn round_trip(us: Option<u64>) -> String {
    match us {
        None => String::new(),
        Some(us) if us < 1000 => format!("{us}us"),
        Some(us) if us < 10_000 => format!("{}.{}ms", us / 1000, us % 1000 / 100),
        Some(us) => format!("{}ms", us / 1000),
    }
}

/// Says the state of a process.
pub(crate) fn state(state: &ProcessState) -> Cell {
    match state {
        ProcessState::Starting => Cell::new("starting", Look::Busy),
        ProcessState::Running => Cell::new("running", Look::Good),
        ProcessState::Stopping => Cell::new("stopping", Look::Busy),
        ProcessState::Unknown => Cell::new("unknown", Look::Busy),
        ProcessState::Stray => Cell::new("stray", Look::Busy),
        ProcessState::Ended(outcome) => {
            let look = if matches!(outcome, Outcome::Exited { exit_code: 0 }) { Look::Dim } else { Look::Bad };
            Cell::new(ended(outcome), look)
        }
    }
}

/// Says how many processes.
pub(crate) fn processes(count: usize) -> String {
    if count == 1 { "1 process".into() } else { format!("{count} processes") }
}

/// Says how a command ended, in two or three words.
pub(crate) fn ended(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited { exit_code } => format!("exit {exit_code}"),
        Outcome::Signaled { signal } => signal.clone(),
        Outcome::TimedOut => "timed out".into(),
        Outcome::Cancelled { ended_by: EndedBy::Operator } => "ended by operator".into(),
        Outcome::Cancelled { ended_by: EndedBy::Agent } => "ended by agent".into(),
        Outcome::Cancelled { ended_by: EndedBy::Client } => "ended by caller".into(),
        Outcome::Cancelled { ended_by: EndedBy::ClientGone } => "caller went away".into(),
        Outcome::Cancelled { ended_by: EndedBy::Daemon } => "daemon stopped".into(),
        Outcome::TransportLost { .. } => "link lost".into(),
        Outcome::SpawnFailed { .. } => "not started".into(),
        Outcome::BackendUnavailable { .. } => "unavailable".into(),
        Outcome::Running => "running".into(),
        Outcome::Lost { .. } => "lost".into(),
        Outcome::CodeUnknown => "ended, code unknown".into(),
    }
}

/// Says the state of a backend: glyph and word.
pub(crate) fn health(state: HealthState, unicode: bool) -> Cell {
    let (glyph, ascii, look) = match state {
        HealthState::Idle => ("○", ".", Look::Dim),
        HealthState::Connecting => ("◐", "~", Look::Busy),
        HealthState::Up => ("●", "+", Look::Good),
        HealthState::Degraded => ("~", "!", Look::Busy),
        HealthState::Reconnecting => ("◐", "~", Look::Busy),
        HealthState::Down => ("✕", "x", Look::Bad),
    };
    Cell::new(format!("{} {}", if unicode { glyph } else { ascii }, state.as_str()), look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_well() {
        let table = [
            (0, "0ms"),
            (840, "840ms"),
            (1_250, "1.2s"),
            (12_900, "12s"),
            (250_000, "4m10s"),
            (11_100_000, "3h05m"),
            (198_000_000, "2d07h"),
        ];
        for (ms, want) in table {
            assert_eq!(span(ms), want);
        }
        assert_eq!(age(1000, 5000), "0ms", "a clock that went back is no age");
        assert_eq!(age(i64::MAX, i64::MIN), span(i64::MAX as u64));
    }

    #[test]
    fn round_trips_read_well() {
        let have: Vec<String> = [None, Some(80), Some(1_540), Some(23_400)].into_iter().map(round_trip).collect();
        assert_eq!(have, ["", "80us", "1.5ms", "23ms"]);
    }
}
