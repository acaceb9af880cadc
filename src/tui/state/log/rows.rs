//! Which rows of a log's window are on screen, and moving over them.
//!
//! Invariant: as many rows are made as the screen has; a window that is not at its end stays on its row whatever arrives.

use super::{Kind, LogView, Place};
use crate::tui::text::wrap;
use std::ops::Range;

/// A row: a line, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct LogRow {
    pub(in crate::tui) seq: i64,
    /// Which part of the line, from 0.
    pub(in crate::tui) sub: usize,
    pub(in crate::tui) range: Range<usize>,
}

impl LogView {
    fn parts(&self, seq: i64, width: usize) -> Vec<Range<usize>> {
        match self.line(seq).map(|l| &l.kind) {
            Some(Kind::Text(line)) if self.wrap => wrap(line.text(), width),
            Some(Kind::Text(line)) => std::iter::once(0..line.text().len()).collect(),
            Some(Kind::Gap(_) | Kind::Note(_)) => std::iter::once(0..0).collect(),
            None => Vec::new(),
        }
    }

    fn line_rows(&self, seq: i64, width: usize) -> impl DoubleEndedIterator<Item = LogRow> + use<> {
        self.parts(seq, width).into_iter().enumerate().map(move |(sub, range)| LogRow { seq, sub, range })
    }

    /// Gives the rows on screen, top down.
    pub(in crate::tui) fn rows(&self, width: usize, height: usize) -> Vec<LogRow> {
        let Place::At { seq, sub } = self.place else { return self.up_from(self.end(), usize::MAX, width, height) };
        let top = seq.max(self.first);
        let skip = if seq < self.first { 0 } else { sub };
        let mut out: Vec<LogRow> = Vec::new();
        for at in top..self.end() {
            out.extend(self.line_rows(at, width).filter(|r| at != top || r.sub >= skip));
            if out.len() >= height {
                out.truncate(height);
                return out;
            }
        }
        // Near the end: fill up with what is above.
        let mut above = self.up_from(top, skip, width, height - out.len());
        above.extend(out);
        above
    }

    /// Gives up to `max` rows before a row, top down.
    fn up_from(&self, seq: i64, sub: usize, width: usize, max: usize) -> Vec<LogRow> {
        let mut out = Vec::new();
        for at in (self.first..self.end().min(seq.saturating_add(1))).rev() {
            for row in self.line_rows(at, width).rev().filter(|r| at < seq || r.sub < sub) {
                if out.len() == max {
                    break;
                }
                out.push(row);
            }
            if out.len() == max {
                break;
            }
        }
        out.reverse();
        out
    }

    /// Moves by rows; below zero goes back. Past the last row of a log that was read to its end it follows again.
    pub(in crate::tui) fn scroll(&mut self, by: isize, width: usize, height: usize, whole: bool) {
        let rows = self.rows(width, height);
        let Some(top) = rows.first().map(|r| (r.seq, r.sub)) else { return };
        if by < 0 {
            let above = self.up_from(top.0, top.1, width, by.unsigned_abs());
            let (seq, sub) = above.first().map_or(top, |r| (r.seq, r.sub));
            // With nothing above, a window that follows goes on doing so.
            if (seq, sub) != top || self.place != Place::Follow {
                self.place = Place::At { seq, sub };
            }
            return;
        }
        if self.place == Place::Follow {
            return;
        }
        let mut left = by.unsigned_abs();
        let (mut seq, mut sub) = top;
        while left > 0 {
            let here = self.parts(seq, width).len();
            if sub + 1 < here {
                sub += 1;
            } else if seq + 1 < self.end() {
                (seq, sub) = (seq + 1, 0);
            } else {
                break;
            }
            left -= 1;
        }
        self.place = Place::At { seq, sub };
        let shown = self.rows(width, height);
        let end = shown.last().is_none_or(|r| r.seq + 1 == self.end() && r.sub + 1 == self.parts(r.seq, width).len());
        if end && whole {
            self.place = Place::Follow;
        } else if end && let Some(first) = shown.first() {
            self.place = Place::At { seq: first.seq, sub: first.sub };
        }
    }

    /// Moves over the lines, one hit at a time, and brings the hit into sight; false when there is none further on.
    pub(in crate::tui) fn step_hit(&mut self, by: i64, width: usize, height: usize) -> bool {
        let rows = self.rows(width, height);
        let (Some(first), Some(last)) = (rows.first().map(|r| r.seq), rows.last().map(|r| r.seq)) else { return false };
        let shown = |seq: i64| (self.first..self.end()).contains(&seq);
        let to = match self.hit.filter(|seq| shown(*seq)) {
            Some(at) => at + by,
            None if by < 0 => last,
            None => first,
        };
        if !shown(to) {
            return false;
        }
        self.hit = Some(to);
        if to < first {
            self.place = Place::At { seq: to, sub: 0 };
        } else if to > last {
            let above = self.up_from(to, usize::MAX, width, height);
            self.place = above.first().map_or(self.place, |r| Place::At { seq: r.seq, sub: r.sub });
        }
        true
    }
}
