//! Numbers, sizes and times as the screen says them.
//!
//! Invariant: pure; the clock and the time zone come from the caller.

use crate::model::{Millis, Outcome, ProcessInfo, ProcessState};
use jiff::{Timestamp, tz::TimeZone};

/// Gives `1 line`, `3 lines`, `1,234 lines`.
pub(super) fn count(n: u64, word: &str) -> String {
    format!("{} {word}{}", thousands(n), if n == 1 { "" } else { "s" })
}

/// Gives a number with separators.
pub(super) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Gives a size: `512 B`, `5.0 kB`, `12.3 MB`.
pub(super) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if n < 1000 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Gives a finished duration: `12ms`, `16.9s`, `4m05s`, `2h03m`.
pub(super) fn duration(ms: i64) -> String {
    let ms = ms.max(0);
    match ms {
        0..1000 => format!("{ms}ms"),
        1000..60_000 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        60_000..3_600_000 => format!("{}m{:02}s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{}h{:02}m", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// Gives a duration that goes on: `00:42`, `1:02:03`.
pub(super) fn running(ms: i64) -> String {
    let s = ms.max(0) / 1000;
    if s < 3600 { format!("{:02}:{:02}", s / 60, s % 60) } else { format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60) }
}

/// Gives a round trip: `0.4ms`, `23ms`, `1.2s`.
pub(super) fn round_trip(us: u64) -> String {
    match us {
        0..1000 => format!("0.{}ms", us / 100),
        1000..1_000_000 => format!("{}ms", us / 1000),
        _ => format!("{}.{}s", us / 1_000_000, us / 100_000 % 10),
    }
}

/// Gives the time of day in a zone: `08:52:11`.
pub(super) fn time_of_day(at: Millis, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(at) {
        Ok(t) => t.to_zoned(zone.clone()).strftime("%H:%M:%S").to_string(),
        Err(_) => "--:--:--".to_owned(),
    }
}

/// Says how a command ended, without its duration.
pub(super) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited { exit_code } => format!("exit {exit_code}"),
        Outcome::Signaled { signal } => super::text::clean(signal),
        Outcome::TimedOut => "timed out".to_owned(),
        Outcome::Cancelled { ended_by } => {
            use crate::model::EndedBy;
            let by = match ended_by {
                EndedBy::Operator => "you",
                EndedBy::Agent => "an agent",
                EndedBy::Client => "its caller",
                EndedBy::ClientGone => "its caller's end",
                EndedBy::Daemon => "the daemon's end",
            };
            format!("stopped by {by}")
        }
        Outcome::TransportLost { .. } => "link lost".to_owned(),
        Outcome::SpawnFailed { .. } => "not started".to_owned(),
        Outcome::BackendUnavailable { .. } => "not run".to_owned(),
        Outcome::Running => "running".to_owned(),
        Outcome::Lost { .. } => "lost".to_owned(),
        Outcome::CodeUnknown => "code unknown".to_owned(),
    }
}

/// Says how a command ended, with the reason where there is one.
pub(super) fn reason(ended: &Outcome) -> String {
    match ended {
        Outcome::TransportLost { reason }
        | Outcome::SpawnFailed { reason }
        | Outcome::BackendUnavailable { reason }
        | Outcome::Lost { reason } => reason.clone(),
        other => outcome(other),
    }
}

/// Says how a process is, in a word or two.
pub(super) fn standing(info: &ProcessInfo) -> String {
    match &info.state {
        ProcessState::Starting => "waiting".to_owned(),
        ProcessState::Running => "running".to_owned(),
        ProcessState::Stopping => "stopping".to_owned(),
        ProcessState::Unknown => "unknown".to_owned(),
        ProcessState::Stray => "stray".to_owned(),
        ProcessState::Ended(ended) => outcome(ended),
    }
}

/// Gives how long a process has run, or ran.
pub(super) fn elapsed(info: &ProcessInfo, now: Millis) -> i64 {
    match info.state {
        ProcessState::Ended(_) => info.ended.unwrap_or(info.started) - info.started,
        _ => now - info.started,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([count(1, "line"), count(0, "line"), count(12_345, "line")], ["1 line", "0 lines", "12,345 lines"]);
        assert_eq!([bytes(999), bytes(5000), bytes(999_999), bytes(12_345_678)], ["999 B", "5.0 kB", "1.0 MB", "12.3 MB"]);
        assert_eq!([duration(12), duration(16_940), duration(245_000), duration(7_400_000)], ["12ms", "16.9s", "4m05s", "2h03m"]);
        assert_eq!([running(42_900), running(3_723_000), running(-5)], ["00:42", "1:02:03", "00:00"]);
        assert_eq!([round_trip(420), round_trip(23_400), round_trip(1_250_000)], ["0.4ms", "23ms", "1.2s"]);
        assert_eq!(time_of_day(1_796_028_731_000, &TimeZone::UTC), "08:52:11");
    }
}
