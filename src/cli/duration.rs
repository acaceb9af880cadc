//! Times on the command line: `90s`, `1.5m`, `500ms`, `1m30s`, or plain seconds, as in the config.
//!
//! Invariant: a time that is accepted is not negative and at most ten years.

use crate::config::parse_duration;
use std::time::Duration;

/// Parses a time that must be more than zero.
pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    match zero_or_more(text)? {
        time if time.as_millis() == 0 => Err("a time must be at least 1ms; leave it out for none".into()),
        time => Ok(time),
    }
}

/// Parses a time that may be zero.
pub(crate) fn zero_or_more(text: &str) -> Result<Duration, String> {
    if text.trim_start().strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')) {
        return Err("a time cannot be negative".into());
    }
    parse_duration(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        let table = [
            ("90s", 90_000),
            ("90", 90_000),
            ("1.5m", 90_000),
            ("500ms", 500),
            ("1m30s", 90_000),
            ("0.25", 250),
            (".5s", 500),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            (" 3s ", 3_000),
        ];
        for (text, want) in table {
            assert_eq!(positive(text).map(|d| d.as_millis()), Ok(want), "{text}");
        }
    }

    #[test]
    fn zero_is_refused_where_it_means_nothing() {
        for text in ["0", "0s", "0.0001ms", "0m0s"] {
            assert!(positive(text).is_err_and(|e| e.contains("at least 1ms")), "{text}");
            assert!(zero_or_more(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "s", ".", "5x", "1m30", "1,5s", "5 s", "nan", "inf", "--", "1.2.3s", "１s"] {
            assert!(positive(text).is_err_and(|e| e.contains("expected seconds")), "{text:?}");
        }
        assert!(positive("-5s").is_err_and(|e| e.contains("negative")));
        assert!(positive("99999999999999999999").is_err_and(|e| e.contains("10 years")));
        assert!(positive(&"9".repeat(400)).is_err_and(|e| e.contains("10 years")));
    }
}
