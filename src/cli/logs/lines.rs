//! From the bytes of a log to its lines, however the pieces are cut.
//!
//! Invariant: memory is bounded by one line of at most 1 MiB; a longer one comes in pieces.

use crate::model::clean::Clean;
use regex::bytes::Regex;

/// The longest line that is taken as one.
const LONGEST: usize = 1 << 20;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Where it begins in the log.
    pub(super) offset: u64,
    /// Its text, without its end.
    pub(super) text: Vec<u8>,
}

/// Cuts a log into lines and gives those that are wanted.
pub(super) struct Lines {
    /// Whether escape sequences stay.
    raw: bool,
    grep: Option<Regex>,
    line: Vec<u8>,
    begun: u64,
}

impl Lines {
    pub(super) fn new(raw: bool, grep: Option<Regex>) -> Self {
        Self { raw, grep, line: Vec::new(), begun: 0 }
    }

    /// Takes a piece of the log and gives the lines that it ends. A piece that does not follow the one before begins a line.
    pub(super) fn feed(&mut self, mut offset: u64, bytes: &[u8], mut give: impl FnMut(Line)) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            if self.line.is_empty() {
                self.begun = offset;
            }
            offset += piece.len() as u64;
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() >= LONGEST {
                self.end(&mut give);
            }
        }
    }

    /// Gives the line that was begun, at the end of the log or before a gap.
    pub(super) fn end(&mut self, mut give: impl FnMut(Line)) {
        if self.line.is_empty() {
            return;
        }
        let mut text = std::mem::take(&mut self.line);
        if !self.raw {
            // No sequence goes on over a line end, so a line is cleaned for itself.
            let mut clean = Clean::default();
            text = clean.feed(&text);
            text.extend(clean.end());
        }
        if text.ends_with(b"\n") {
            text.pop();
        }
        if self.grep.as_ref().is_none_or(|grep| grep.is_match(&text)) {
            give(Line { offset: self.begun, text });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &mut Lines, pieces: &[&str]) -> Vec<(u64, String)> {
        let (mut found, mut offset) = (Vec::new(), 100);
        let mut give = |line: Line| found.push((line.offset, String::from_utf8(line.text).unwrap()));
        for piece in pieces {
            lines.feed(offset, piece.as_bytes(), &mut give);
            offset += piece.len() as u64;
        }
        lines.end(give);
        found
    }

    #[test]
    fn lines_are_whole_wherever_the_pieces_end() {
        let text = "one error\ntwo\n\x1b[31mthree\x1b[0m error\r\nlast error";
        let want = [(100, "one error".to_owned()), (114, "three error".to_owned()), (136, "last error".to_owned())];
        let error = Regex::new("error$").unwrap();
        for size in [1, 2, 3, 7, 100] {
            let pieces: Vec<&str> = text.as_bytes().chunks(size).map(|p| std::str::from_utf8(p).unwrap()).collect();
            let mut errors = Lines::new(false, Some(error.clone()));
            assert_eq!(all(&mut errors, &pieces), want, "in pieces of {size}");
        }
    }

    #[test]
    fn raw_lines_keep_everything_but_their_end() {
        let lines = all(&mut Lines::new(true, None), &["a\x1b[1m\r\n\n", "b"]);
        assert_eq!(lines, [(100, "a\x1b[1m\r".into()), (107, String::new()), (108, "b".into())]);
    }

    #[test]
    fn a_line_without_end_comes_in_pieces() {
        let mut lines = Lines::new(true, None);
        let mut lens = Vec::new();
        for i in 0..5 {
            lines.feed(i * 600_000, &[b'x'; 600_000], |line| lens.push(line.text.len()));
        }
        assert_eq!(lens, [1_200_000, 1_200_000]);
        assert!(lines.line.len() < LONGEST);
    }
}
