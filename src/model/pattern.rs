//! The patterns of a `watch`: plain text, or a regular expression after `re:`.
//!
//! Invariant: a pattern that is taken can match a line, and is looked for in one line at a time.

use regex::bytes::{Regex, RegexBuilder};

/// What stands before a regular expression.
const RE: &str = "re:";
/// Longest pattern, in bytes.
const LONGEST: usize = 1_000;
/// Most memory of one compiled pattern, in bytes: some hundred times what people write.
const COMPILED: usize = 1 << 20;
/// Most patterns of one process.
pub const WATCH_PATTERNS: usize = 20;

/// Reads a pattern; an error says what is wrong with it.
pub fn watch_pattern(text: &str) -> Result<Regex, String> {
    if text.len() > LONGEST {
        return Err(format!("a pattern of {} bytes is too long: at most {LONGEST}", text.len()));
    }
    if text.contains(['\n', '\r']) {
        return Err(format!("the pattern {text:?} holds a line end, and it is looked for in one line at a time"));
    }
    let (source, shown) = match text.strip_prefix(RE) {
        Some(regex) => (regex.to_owned(), regex),
        None => (regex::escape(text), text),
    };
    if shown.is_empty() {
        return Err("an empty pattern matches every line; `re:` with `.` says so".into());
    }
    RegexBuilder::new(&source).size_limit(COMPILED).build().map_err(|error| format!("the pattern {text:?} is none: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_plain_and_an_expression_is_one() {
        let hit = |pattern: &str, line: &str| watch_pattern(pattern).unwrap().is_match(line.as_bytes());
        assert!(hit("a.b", "xa.by") && !hit("a.b", "axb"));
        assert!(hit("re:^a.b$", "axb") && !hit("re:^a.b$", "xaxb"));
        assert!(hit("re", "core") && hit("größe", "die größe") && hit("re:gr.ße", "größe"));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (pattern, want) in [
            ("", "every line"),
            ("re:", "every line"),
            ("re:(", "re:("),
            ("a\nb", "line end"),
            (&"x".repeat(1_001), "too long"),
            ("re:(((a{1000}){1000}){1000})", "size"),
        ] {
            let error = watch_pattern(pattern).unwrap_err();
            assert!(error.contains(want), "{pattern:?}: {error}");
        }
    }
}
