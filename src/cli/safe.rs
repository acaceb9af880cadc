//! Text from elsewhere, made safe to show: commands, names, reasons and paths may hold anything.
//!
//! Invariant: what comes out moves no cursor, changes no colour and reorders nothing.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Shows a text on one line: control characters, and characters that hide or reorder others, become visible escapes.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_unsafe)
}

/// Shows a text of several lines: as [`line()`], but line ends stay.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c != '\n' && is_unsafe(c))
}

fn escape(text: &str, bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&bad) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !bad(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // Writing to a String cannot fail.
            c if (c as u32) < 0x100 => drop(write!(out, "\\x{:02x}", c as u32)),
            c => drop(write!(out, "\\u{{{:x}}}", c as u32)),
        }
    }
    Cow::Owned(out)
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_or_hides_is_shown() {
        let table = [
            ("plain text, ünï 日本", "plain text, ünï 日本"),
            ("a\tb\nc\r", "a\\tb\\nc\\r"),
            ("\x1b[31mred\x7f", "\\x1b[31mred\\x7f"),
            ("\u{9b}31m", "\\x9b31m"),
            ("a\u{202e}b\u{200b}\u{e0041}", "a\\u{202e}b\\u{200b}\\u{e0041}"),
        ];
        for (text, want) in table {
            assert_eq!(line(text), want);
        }
        assert_eq!(lines("a\n\x07b"), "a\n\\x07b");
    }
}
