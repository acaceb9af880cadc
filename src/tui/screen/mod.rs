//! The screen of one block: output as a person would have seen it, in bounded memory.
//!
//! Invariant: at most [`HEAD`] + [`TAIL`] + [`LIVE`] lines of at most [`COLUMNS`] columns and about [`HISTORY_BYTES`] bytes are
//! kept, whatever is fed; the same bytes give the same lines wherever they are cut.
//!
//! Only what a plain command uses is applied: colours, carriage return, backspace, tab, moving up and down, erasing. The last
//! [`LIVE`] lines can still be changed by the command; older ones are fixed and stored compactly. Lines from the middle of a
//! long output are dropped and counted.

mod line;
mod perform;

use line::{Cell, Row};
pub(super) use line::{Line, Pen};
use std::borrow::Cow;
use std::collections::VecDeque;

/// Lines kept from the beginning.
pub(super) const HEAD: usize = 220;
/// Lines kept before the live ones.
pub(super) const TAIL: usize = 220;
/// Lines that the command can still reach.
pub(super) const LIVE: usize = 60;
/// Columns kept of a line.
pub(super) const COLUMNS: usize = 2000;
/// Bytes of text kept in fixed lines.
const HISTORY_BYTES: usize = 192 * 1024;
/// An unfinished escape sequence longer than this is given up.
const MAX_SEQUENCE: usize = 64 * 1024;

/// The screen of one block.
pub(super) struct Screen {
    parser: vte::Parser,
    quiet: usize,
    grid: Grid,
}

/// What the parser writes on.
pub(in crate::tui) struct Grid {
    head: Vec<Line>,
    tail: VecDeque<Line>,
    live: VecDeque<Row>,
    /// Lines that left the live part so far.
    pushed: u64,
    /// Lines dropped from the middle, as far as they were seen.
    dropped: u64,
    /// Bytes that were never read.
    skipped: u64,
    history_bytes: usize,
    x: usize,
    y: usize,
    pen: Pen,
    calls: u64,
}

/// One entry of the screen, top down.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Entry<'a> {
    /// A line with its number, which never changes.
    Line(u64, Cow<'a, Line>),
    /// Lines that are not kept, and bytes that were not read.
    Gap {
        /// Number of lines dropped.
        lines: u64,
        /// Bytes never read.
        bytes: u64,
    },
}

impl Default for Screen {
    fn default() -> Self {
        let grid = Grid {
            head: Vec::new(),
            tail: VecDeque::new(),
            live: VecDeque::from([Row::default()]),
            pushed: 0,
            dropped: 0,
            skipped: 0,
            history_bytes: 0,
            x: 0,
            y: 0,
            pen: Pen::default(),
            calls: 0,
        };
        Self { parser: vte::Parser::new(), quiet: 0, grid }
    }
}

impl Screen {
    /// Takes the next bytes of the output.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(4096) {
            let before = self.grid.calls;
            self.parser.advance(&mut self.grid, piece);
            if self.grid.calls != before {
                self.quiet = 0;
                continue;
            }
            self.quiet += piece.len();
            if self.quiet > MAX_SEQUENCE {
                self.parser = vte::Parser::new();
                self.quiet = 0;
            }
        }
    }

    /// Says that bytes between the last ones and the next ones are left out.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.parser = vte::Parser::new();
        self.quiet = 0;
        self.grid.skip(bytes);
    }

    /// Gives how many entries there are.
    pub(super) fn len(&self) -> usize {
        let grid = &self.grid;
        grid.head.len() + usize::from(grid.has_gap()) + grid.tail.len() + grid.shown_live()
    }

    /// Gives the entry at a place, counted from the top.
    pub(super) fn entry(&self, at: usize) -> Option<Entry<'_>> {
        let grid = &self.grid;
        let mut at = at;
        if let Some(line) = grid.head.get(at) {
            return Some(Entry::Line(at as u64, Cow::Borrowed(line)));
        }
        at -= grid.head.len();
        if grid.has_gap() {
            if at == 0 {
                return Some(Entry::Gap { lines: grid.dropped, bytes: grid.skipped });
            }
            at -= 1;
        }
        if let Some(line) = grid.tail.get(at) {
            return Some(Entry::Line(grid.pushed - (grid.tail.len() - at) as u64, Cow::Borrowed(line)));
        }
        at -= grid.tail.len();
        (at < grid.shown_live()).then(|| Entry::Line(grid.pushed + at as u64, Cow::Owned(grid.live[at].fixed())))
    }

    /// Gives the number of lines seen; exact only when nothing was skipped.
    pub(super) fn line_count(&self) -> u64 {
        self.grid.pushed + self.grid.shown_live() as u64
    }

    /// Tells whether bytes were left out.
    pub(super) fn has_gap(&self) -> bool {
        self.grid.has_gap()
    }

    /// Gives the text as it stands, without colours.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for entry in (0..self.len()).filter_map(|i| self.entry(i)) {
            match entry {
                Entry::Line(_, line) => out.push_str(line.text()),
                Entry::Gap { lines, bytes } => out.push_str(&gap_text(lines, bytes)),
            }
            out.push('\n');
        }
        out
    }

    /// Gives the first line, for a screen that was fed one.
    pub(super) fn into_line(self) -> Line {
        self.grid.head.into_iter().next().or_else(|| self.grid.live.front().map(Row::fixed)).unwrap_or_default()
    }

    /// Gives about how many bytes of memory it takes.
    pub(super) fn memory(&self) -> usize {
        self.grid.history_bytes + self.grid.live.iter().map(Row::memory).sum::<usize>() + 512
    }
}

/// Says what a gap left out.
pub(super) fn gap_text(lines: u64, bytes: u64) -> String {
    match (lines, bytes) {
        (0, b) => format!("... {} not shown ...", super::format::bytes(b)),
        (n, 0) => format!("... {} not shown ...", super::format::count(n, "line")),
        (n, b) => format!("... {} and {} not shown ...", super::format::count(n, "line"), super::format::bytes(b)),
    }
}

impl Grid {
    fn has_gap(&self) -> bool {
        self.dropped > 0 || self.skipped > 0
    }

    /// The live lines without the empty one that a last newline leaves.
    fn shown_live(&self) -> usize {
        let last_empty = self.live.back().is_some_and(Row::is_empty) && self.y + 1 == self.live.len();
        self.live.len() - usize::from(last_empty)
    }

    fn skip(&mut self, bytes: u64) {
        // What is before the gap belongs to the beginning, as far as there is room.
        let live = std::mem::take(&mut self.live);
        for row in live.iter().take(if bytes > 0 { live.len().saturating_sub(usize::from(self.x == 0)) } else { live.len() }) {
            self.fix(row.fixed());
        }
        self.dropped += self.tail.len() as u64;
        for line in self.tail.drain(..) {
            self.history_bytes -= line.memory();
        }
        self.skipped += bytes;
        self.live.push_back(Row::default());
        self.x = 0;
        self.y = 0;
        self.pen = Pen::default();
    }

    /// Puts a line that can no longer change into the history.
    fn fix(&mut self, line: Line) {
        self.pushed += 1;
        self.history_bytes += line.memory();
        if self.head.len() < HEAD && !self.has_gap() && self.tail.is_empty() && self.history_bytes < HISTORY_BYTES / 2 {
            self.head.push(line);
            return;
        }
        self.tail.push_back(line);
        while self.tail.len() > TAIL || (self.history_bytes > HISTORY_BYTES && self.tail.len() > 1) {
            if let Some(old) = self.tail.pop_front() {
                self.history_bytes -= old.memory();
                self.dropped += 1;
            }
        }
    }

    fn newline(&mut self) {
        self.x = 0;
        if self.y + 1 < self.live.len() {
            self.y += 1;
            return;
        }
        self.live.push_back(Row::default());
        if self.live.len() > LIVE
            && let Some(row) = self.live.pop_front()
        {
            self.fix(row.fixed());
        }
        self.y = self.live.len() - 1;
    }

    fn row(&mut self) -> &mut Row {
        let at = self.y.min(self.live.len() - 1);
        &mut self.live[at]
    }

    fn write(&mut self, c: char) {
        let width = super::text::char_width(c);
        let (x, pen) = (self.x, self.pen);
        if width == 0 {
            self.row().mark(x, c);
            return;
        }
        if x + width <= COLUMNS {
            self.row().set(x, Cell::new(c, pen), width);
            self.x += width;
        } else {
            self.row().overflow();
        }
    }
}

#[cfg(test)]
mod tests;
