//! Times as people write them: `90s`, `1.5m`, `500ms`, `1m30s`, or plain seconds.
//!
//! Invariant: a time that is accepted is finite and at most ten years.

use std::time::Duration;

/// The longest time that is accepted.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// Parses a time that must be more than zero.
pub(crate) fn positive(text: &str) -> Result<Duration, String> {
    match zero_or_more(text)? {
        time if time.as_millis() == 0 => Err("a time must be at least 1ms; leave it out for none".into()),
        time => Ok(time),
    }
}

/// Parses a time that may be zero.
pub(crate) fn zero_or_more(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    if trimmed.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')) {
        return Err("a time cannot be negative".into());
    }
    let mut rest = trimmed;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        // Only a lone number may go without a unit: in `1m30` the 30 could be anything.
        let scale = if unit.is_empty() && rest.len() == trimmed.len() && tail.is_empty() { Some(1.0) } else { scale_of(unit) };
        let number = number.parse::<f64>().ok().filter(|_| number.contains(|c: char| c.is_ascii_digit()));
        let (Some(number), Some(scale)) = (number, scale) else { return Err(expected()) };
        seconds += number * scale;
        rest = tail;
    }
    if trimmed.is_empty() {
        return Err(expected());
    }
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|time| *time <= LONGEST)
        .ok_or_else(|| "a time can be ten years at most; leave it out for none".into())
}

fn scale_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" => 0.001,
        "s" | "sec" | "secs" => 1.0,
        "m" | "min" | "mins" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    })
}

fn expected() -> String {
    "expected a time such as 90s, 1.5m, 500ms or plain seconds".into()
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
            assert!(positive(text).is_err_and(|e| e.contains("expected a time")), "{text:?}");
        }
        assert!(positive("-5s").is_err_and(|e| e.contains("negative")));
        assert!(positive("99999999999999999999").is_err_and(|e| e.contains("ten years")));
        assert!(positive(&"9".repeat(400)).is_err_and(|e| e.contains("ten years")));
    }
}
