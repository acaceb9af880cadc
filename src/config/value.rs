//! Words of the config that stand for something: durations, sizes, directories, secrets.
//!
//! Invariant: pure but for [`Secrets`], which reads the environment's copy and the files that are named.

use crate::paths::Vars;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest duration that is accepted; more would overflow a clock somewhere.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Reads a duration: a number of seconds (`90`, `0.5`) or numbers with units (`500ms`, `90s`, `5m`, `2h`, `1d`, `1m30s`).
/// The error says what was expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected seconds or a duration as 90s, 5m or 500ms".to_owned();
    let text = text.trim();
    let number = |digits: &str| -> Result<f64, String> {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        digits.parse::<f64>().ok().filter(|_| plain).ok_or_else(expected)
    };
    let mut seconds = 0.0;
    if text.ends_with(|c: char| c.is_ascii_digit() || c == '.') && !text.contains(char::is_alphabetic) {
        seconds = number(text)?;
    } else {
        let mut rest = text;
        while !rest.is_empty() {
            let digits_end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(expected)?;
            let (digits, after) = rest.split_at(digits_end);
            let unit_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
            let (unit, after) = after.split_at(unit_end);
            let factor = match unit {
                "ms" => 0.001,
                "s" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(expected()),
            };
            seconds += number(digits)? * factor;
            rest = after;
        }
        if text.is_empty() {
            return Err(expected());
        }
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration <= LONGEST => Ok(duration),
        _ => Err("expected at most 10 years".to_owned()),
    }
}

/// Writes a duration as [`parse_duration`] reads it.
pub fn show_duration(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 { duration.as_secs().to_string() } else { format!("{}ms", duration.as_millis()) }
}

/// Reads a size in bytes: a number, or a number with `KB`, `MB`, `GB` (thousands) or `KiB`, `MiB`, `GiB`.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let expected = || "expected bytes or a size as 50KB, 10MB or 1GiB".to_owned();
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "K" | "KB" | "kB" => 1000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "T" | "TB" => 1_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(expected()),
    };
    let number: u64 = digits.replace('_', "").parse().map_err(|_| expected())?;
    number.checked_mul(factor).ok_or_else(|| "expected a size below 16 EiB".to_owned())
}

/// Replaces a leading `~` by the home folder. A relative path is refused: it would mean another file for every caller.
pub(super) fn expand_home(text: &str, home: Option<&Path>) -> Result<PathBuf, String> {
    let need = || home.ok_or_else(|| "no home folder is known: give an absolute path".to_owned());
    if text == "~" {
        return Ok(need()?.to_owned());
    }
    if let Some(rest) = text.strip_prefix("~/") {
        return Ok(need()?.join(rest));
    }
    if text.starts_with('~') {
        return Err("only ~ and ~/... are understood, not another account's home".to_owned());
    }
    let path = Path::new(text);
    if path.is_absolute() {
        Ok(path.to_owned())
    } else {
        Err(format!("expected an absolute path or ~/..., found \"{}\"", text.escape_debug()))
    }
}

fn variable_of(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    let legal = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    legal.then_some(name)
}

fn file_of(text: &str) -> Option<&str> {
    // `file:x.db` and `file:///x` are values of their own in many programs: only a plain path is ours.
    let path = text.strip_prefix("file:")?;
    ((path.starts_with('/') && !path.starts_with("//")) || path.starts_with("~/")).then_some(path)
}

/// Where secrets come from.
pub(super) struct Secrets<'s> {
    pub(super) vars: &'s Vars,
    pub(super) home: Option<&'s Path>,
}

/// What a reference led to.
pub(super) enum Found {
    /// The text was no reference.
    Plain,
    /// The secret.
    Secret(String),
    /// The variable is not set here.
    Unset(String),
}

impl Secrets<'_> {
    /// Follows `${NAME}` and `file:PATH`; the error tells why not, without any content.
    pub(super) fn follow(&self, text: &str) -> Result<Found, String> {
        if let Some(name) = variable_of(text) {
            return Ok(match self.vars.text(name) {
                Some(value) => Found::Secret(value.to_owned()),
                None => Found::Unset(name.to_owned()),
            });
        }
        let Some(path) = file_of(text) else { return Ok(Found::Plain) };
        let path = expand_home(path, self.home)?;
        let shown = path.display();
        let meta = std::fs::metadata(&path).map_err(|error| format!("cannot read the secret in {shown}: {error}"))?;
        if !meta.is_file() || meta.len() > 65_536 {
            return Err(format!("the secret in {shown} must be a file of at most 64 KiB"));
        }
        let content = std::fs::read_to_string(&path).map_err(|error| format!("cannot read the secret in {shown}: {error}"))?;
        let content = content.strip_suffix('\n').unwrap_or(&content);
        let content = content.strip_suffix('\r').unwrap_or(content);
        if content.contains('\0') { Err(format!("the secret in {shown} holds a NUL byte")) } else { Ok(Found::Secret(content.to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let table = [
            ("90", Ok(90_000)),
            ("0", Ok(0)),
            ("0.5", Ok(500)),
            ("90s", Ok(90_000)),
            ("5m", Ok(300_000)),
            ("500ms", Ok(500)),
            ("1m30s", Ok(90_000)),
            ("2h", Ok(7_200_000)),
            ("1d", Ok(86_400_000)),
            (" 3s ", Ok(3_000)),
            ("", Err("expected seconds or a duration as 90s, 5m or 500ms")),
            ("-1", Err("expected seconds or a duration as 90s, 5m or 500ms")),
            ("1e3", Err("expected seconds or a duration as 90s, 5m or 500ms")),
            ("5 minutes", Err("expected seconds or a duration as 90s, 5m or 500ms")),
            ("s", Err("expected seconds or a duration as 90s, 5m or 500ms")),
            ("1m30", Err("expected seconds or a duration as 90s, 5m or 500ms")),
            ("inf", Err("expected seconds or a duration as 90s, 5m or 500ms")),
            ("NaN", Err("expected seconds or a duration as 90s, 5m or 500ms")),
            ("1..5", Err("expected seconds or a duration as 90s, 5m or 500ms")),
            ("99999999999999999999", Err("expected at most 10 years")),
            ("4000d", Err("expected at most 10 years")),
        ];
        for (text, expected) in table {
            let found = parse_duration(text).map(|duration| duration.as_millis());
            assert_eq!(found, expected.map_err(str::to_owned), "{text:?}");
        }
        for millis in [0, 1, 999, 1000, 90_000, 1_500] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
        }
    }

    #[test]
    fn sizes() {
        let table = [
            ("50000", Ok(50_000)),
            ("50KB", Ok(50_000)),
            ("1GiB", Ok(1 << 30)),
            ("10 MB", Ok(10_000_000)),
            ("", Err("expected bytes or a size as 50KB, 10MB or 1GiB")),
            ("1.5GB", Err("expected bytes or a size as 50KB, 10MB or 1GiB")),
            ("-5", Err("expected bytes or a size as 50KB, 10MB or 1GiB")),
            ("99999999999999TB", Err("expected a size below 16 EiB")),
        ];
        for (text, expected) in table {
            assert_eq!(parse_size(text), expected.map_err(str::to_owned), "{text:?}");
        }
    }

    #[test]
    fn homes() {
        let home = Some(Path::new("/h"));
        assert_eq!(expand_home("~", home), Ok("/h".into()));
        assert_eq!(expand_home("~/.ssh/id", home), Ok("/h/.ssh/id".into()));
        assert_eq!(expand_home("/abs", None), Ok("/abs".into()));
        assert_eq!(expand_home("rel", home), Err("expected an absolute path or ~/..., found \"rel\"".to_owned()));
        assert!(expand_home("~bob/x", home).is_err() && expand_home("~/x", None).is_err());
    }

    #[test]
    fn references() {
        let table = [
            ("${TOKEN}", true),
            ("${}", false),
            ("${1X}", false),
            ("x${TOKEN}", false),
            ("file:/run/secret", true),
            ("file:~/secret", true),
            ("file:./dev.db", false),
            ("file:///etc/x", false),
            ("plain", false),
        ];
        for (text, expected) in table {
            assert_eq!(variable_of(text).is_some() || file_of(text).is_some(), expected, "{text}");
        }
    }
}
