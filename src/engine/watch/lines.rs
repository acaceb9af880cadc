//! Finds the lines of an output that match, whatever pieces it comes in.
//!
//! Invariant: memory is bounded whatever the output is; a line is looked at once it is whole, at the end also the last one, and a
//! line that is longer than the bound in pieces that overlap.

use crate::model::clean::Clean;
use crate::model::redact::Redactor;
use regex::bytes::Regex;

/// Longest line that is held whole.
const LONGEST: usize = 64 * 1024;
/// What of a longer line stays when a piece of it was looked at: what matches across the border is not longer.
const OVERLAP: usize = 4 * 1024;
/// Most characters that are told of one line.
pub(super) const SHOWN: usize = 500;
const CUT: &str = "...";

/// A line that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// Where it begins in the log.
    pub(super) offset: u64,
    /// It, clean and cut.
    pub(super) text: String,
}

/// Looks for patterns in one output.
pub(super) struct Matcher {
    patterns: Vec<Regex>,
    redactor: Redactor,
    clean: Clean,
    line: Vec<u8>,
    /// Where in `line` the search begins: what stands before it is only what the line had before.
    from: usize,
    /// It matched already; the rest of it is passed over.
    matched: bool,
    /// Where the line begins in the log.
    start: u64,
    /// The next byte of the log.
    next: u64,
}

impl Matcher {
    /// Makes one that begins at an offset of the log, which is the beginning of a line.
    pub(super) fn new(patterns: Vec<Regex>, redactor: Redactor, offset: u64) -> Self {
        Self { patterns, redactor, clean: Clean::default(), line: Vec::new(), from: 0, matched: false, start: offset, next: offset }
    }

    /// The next byte of the log that it wants.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Where the line begins that is not whole yet.
    pub(super) fn line_start(&self) -> u64 {
        self.start
    }

    /// Takes a piece of the log; gives the lines that it ends and that match.
    pub(super) fn feed(&mut self, offset: u64, bytes: &[u8]) -> Vec<Hit> {
        let mut hits = Vec::new();
        if offset != self.next {
            // What is not kept joins nothing; what was held of the line is looked at as it is.
            hits.extend(self.finish());
            self.begin(offset);
        }
        for piece in bytes.split_inclusive(|b| matches!(b, b'\n' | b'\r')) {
            self.next += piece.len() as u64;
            let body = piece.strip_suffix(b"\n").or_else(|| piece.strip_suffix(b"\r")).unwrap_or(piece);
            self.take(body, &mut hits);
            if body.len() < piece.len() {
                hits.extend(self.finish());
                self.begin(self.next);
            }
        }
        hits
    }

    /// Looks at the last line, which has no end.
    pub(super) fn end(&mut self) -> Option<Hit> {
        let hit = self.finish();
        self.begin(self.next);
        hit
    }

    fn begin(&mut self, offset: u64) {
        (self.clean, self.from, self.matched) = (Clean::default(), 0, false);
        self.line.clear();
        (self.start, self.next) = (offset, offset);
    }

    fn take(&mut self, bytes: &[u8], hits: &mut Vec<Hit>) {
        for bytes in bytes.chunks(LONGEST) {
            if self.matched {
                return;
            }
            let clean = self.clean.feed(bytes);
            self.line.extend_from_slice(&clean);
            if self.line.len() <= LONGEST {
                continue;
            }
            // A match that ends at the border may be one only because the line is cut there: the next piece tells.
            let border = self.line.len();
            match self.search().filter(|end| *end < border) {
                Some(end) => {
                    hits.push(self.hit(end));
                    self.matched = true;
                    self.line = Vec::new();
                }
                None => {
                    // One byte more stays, so that what the overlap begins with is not taken for the line's beginning.
                    self.line.drain(..border - OVERLAP - 1);
                    self.from = 1;
                }
            }
        }
    }

    fn finish(&mut self) -> Option<Hit> {
        if self.matched {
            return None;
        }
        let held = self.clean.end();
        // What is held back of a line's end is that end.
        self.line.extend(held.into_iter().filter(|b| *b != b'\r'));
        self.search().map(|end| self.hit(end))
    }

    /// Where the first match ends.
    fn search(&self) -> Option<usize> {
        self.patterns.iter().filter_map(|re| re.shortest_match_at(&self.line, self.from)).min()
    }

    /// Makes what is told of the line: around the match, when it is long.
    fn hit(&self, end: usize) -> Hit {
        // A secret that is cut in two would not be known any more, so they go first.
        let whole = String::from_utf8_lossy(&self.line);
        let whole = self.redactor.text(&whole);
        let text = match whole.chars().count() > SHOWN {
            false => whole.into_owned(),
            true => {
                let end = if whole.len() == self.line.len() { end } else { 0 };
                around(&whole, end)
            }
        };
        Hit { offset: self.start, text }
    }
}

/// Cuts a text to what stands around a byte of it.
fn around(text: &str, at: usize) -> String {
    let room = SHOWN - 2 * CUT.len();
    let mut from = at.min(text.len());
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    // Two thirds stand before the match's end.
    from = text[..from].char_indices().rev().take(room * 2 / 3).last().map_or(from, |(at, _)| at);
    let shown: String = text[from..].chars().take(room).collect();
    let (before, after) = (if from > 0 { CUT } else { "" }, if from + shown.len() < text.len() { CUT } else { "" });
    format!("{before}{shown}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::watch_pattern;

    fn matcher(patterns: &[&str]) -> Matcher {
        let patterns = patterns.iter().map(|p| watch_pattern(p).unwrap()).collect();
        Matcher::new(patterns, Redactor::default(), 0)
    }

    /// What is found in a text that comes in pieces of this size.
    fn found(patterns: &[&str], text: &[u8], size: usize) -> Vec<String> {
        let mut m = matcher(patterns);
        let mut hits: Vec<Hit> = text.chunks(size).flat_map(|piece| m.feed(m.next(), piece)).collect();
        hits.extend(m.end());
        hits.into_iter().map(|hit| hit.text).collect()
    }

    #[test]
    fn pieces_make_no_difference() {
        let text = "starting\nlistening on \x1b[1m80\x1b[0m\r\nnot it\ndie größe stimmt\n50%\r100%\rlast: ready".as_bytes();
        let want = ["listening on 80", "die größe stimmt", "100%", "last: ready"];
        for size in [1, 2, 3, 5, 7, 100] {
            assert_eq!(found(&["re:^listening on [0-9]+$", "größe", "ready", "100"], text, size), want, "{size}");
        }
    }

    #[test]
    fn a_line_is_told_once_and_only_when_it_is_whole() {
        let mut m = matcher(&["a"]);
        assert_eq!(m.feed(0, b"a a a"), []);
        assert_eq!(m.line_start(), 0);
        assert_eq!(m.feed(5, b" a\nb\na"), [Hit { offset: 0, text: "a a a a".into() }]);
        assert_eq!((m.line_start(), m.next()), (10, 11));
        assert_eq!(m.end(), Some(Hit { offset: 10, text: "a".into() }));
        assert_eq!(m.end(), None);
    }

    #[test]
    fn a_gap_joins_nothing() {
        let mut m = matcher(&["ab"]);
        assert_eq!(m.feed(0, b"xa"), []);
        assert_eq!(m.feed(100, b"b\n"), []);
        assert_eq!(m.feed(102, b"ab"), []);
        assert_eq!(m.feed(200, b"ab").len(), 1, "what was held before the gap is looked at");
        assert_eq!(m.end().map(|hit| hit.offset), Some(200));
    }

    #[test]
    fn a_long_line_is_searched_through_in_bounded_memory() {
        let long = |at: usize, word: &str, len: usize| {
            let mut text = vec![b'x'; len];
            text[at..at + word.len()].copy_from_slice(word.as_bytes());
            text
        };
        for at in [0, 100, LONGEST - 3, LONGEST, LONGEST + 2, 69_000, 200_000] {
            for size in [1_000, 4_096, 300_000] {
                let text = [&long(at, "needle", 300_000)[..], b"\nneedle\n"].concat();
                let hits = found(&["needle"], &text, size);
                assert_eq!(hits.len(), 2, "at {at} in pieces of {size}: {hits:?}");
                assert!(hits[0].contains("needle") && hits[0].chars().count() <= SHOWN, "{}", hits[0]);
            }
        }
        let mut m = matcher(&["needle"]);
        for _ in 0..100 {
            m.feed(m.next(), &[b'x'; 10_000]);
            assert!(m.line.len() <= LONGEST + 10_000);
        }
        assert_eq!(found(&["re:^y", "re:x$"], &[&vec![b'y'; 10][..], &vec![b'x'; 200_000], b"z\n"].concat(), 999).len(), 1);
        assert_eq!(found(&["re:^x"], &[b"y", &vec![b'x'; 200_000][..]].concat(), 999), [""; 0], "no piece is a beginning");
        assert_eq!(found(&["re:x$"], &[&vec![b'x'; 200_000][..], b"y\n"].concat(), 999), [""; 0], "no border is an end");
        assert_eq!(found(&["re:x$"], &vec![b'x'; 200_000], 999).len(), 1);
    }

    #[test]
    fn what_is_told_is_cut_between_characters_and_holds_no_secret() {
        let text = format!("{}needle{}\n", "ü".repeat(2_000), "日".repeat(2_000));
        let hits = found(&["needle"], text.as_bytes(), 777);
        assert!(hits[0].contains("üneedle日") && hits[0].chars().count() == SHOWN, "{}", hits[0]);
        let text = format!("ok token ghp_{} {}\n", "aB3".repeat(12), "x".repeat(2_000));
        let hits = found(&["ok"], text.as_bytes(), 777);
        assert!(hits[0].starts_with("ok token [redacted] xx") && hits[0].ends_with("x..."), "{}", hits[0]);
    }
}
