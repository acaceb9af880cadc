//! What goes into the window of a log, and what is let go of.
//!
//! Invariant: at most [`BYTES`] and [`LINES`] are kept; a line is whole, or the beginning of one whose end has not come, which is held; what
//! is let go of at one end is read again when it is wanted.

use super::{Kind, LogLine, LogView, Place, found};
use crate::model::Chunk;
use crate::tui::screen::{Line, Screen};

/// Memory of the lines kept.
pub(super) const BYTES: usize = 512 << 10;
/// Lines kept.
const LINES: usize = 8_000;
/// A line without an end is shown as ended after so many bytes.
const LONGEST: usize = 16 << 10;
/// Lines shown above a line that is looked at among those around it.
const ABOVE: i64 = 6;
/// Lines that a screen can show at most.
const SCREEN: i64 = 400;

impl LogView {
    /// Takes a piece that follows what was read of a log.
    pub(super) fn newer(&mut self, at: usize, chunk: &Chunk) {
        let one = self.members.len() == 1;
        let Some(m) = self.members.get_mut(at) else { return };
        let end = chunk.offset + chunk.bytes.len() as u64;
        if chunk.bytes.is_empty() || (m.loaded && end <= m.next) {
            m.loaded = true;
            m.stuck = Some(chunk.total);
            return;
        }
        m.stuck = None;
        let mut bytes = &chunk.bytes[..];
        let mut offset = chunk.offset;
        if m.loaded && offset <= m.next {
            bytes = &bytes[(m.next - offset) as usize..];
            offset = m.next;
        } else if offset > 0 && (self.begin != Some(offset) || self.seek.is_some_and(|wanted| wanted != offset)) {
            // Begin with a whole line, unless that is all there is.
            let cut = bytes.iter().position(|b| *b == b'\n').map(|i| i + 1).filter(|i| *i < bytes.len()).unwrap_or(0);
            bytes = &bytes[cut..];
            offset += cut as u64;
        }
        let passed = if m.loaded { offset - m.next } else { 0 };
        m.next = end;
        if !m.loaded || (passed > 0 && one && self.filter.is_empty()) {
            m.loaded = true;
            m.start = offset;
            m.hole = false;
            m.held.clear();
            m.shown = None;
            if one {
                self.lines.clear();
                self.memory = 0;
            }
        } else if passed > 0 {
            m.held.clear();
            m.shown = None;
            self.push(LogLine { member: at, offset, kind: Kind::Gap(passed) });
        }
        self.append(at, bytes, offset);
        self.trim_front();
        if one {
            self.trim_back();
        }
        if let Some(wanted) = self.seek.take()
            && let Some(i) = self.lines.iter().position(|l| l.offset >= wanted)
        {
            let seq = self.first + i as i64;
            self.hit = Some(seq);
            self.place = Place::At { seq: (seq - ABOVE).max(self.first), sub: 0 };
        }
    }

    /// Adds bytes that follow the ones before.
    fn append(&mut self, at: usize, bytes: &[u8], offset: u64) {
        let mut offset = offset;
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let Some(m) = self.members.get_mut(at) else { return };
            let begins = offset - m.held.len() as u64;
            offset += piece.len() as u64;
            let mut whole = std::mem::take(&mut m.held);
            whole.extend_from_slice(piece);
            let done = whole.last() == Some(&b'\n');
            let shown = m.shown.take();
            if done {
                whole.pop();
            }
            let line = line_of(&whole);
            let place = if self.lets_through(&line) { self.put(at, begins, line, shown) } else { None };
            if !done
                && whole.len() < LONGEST
                && let Some(m) = self.members.get_mut(at)
            {
                m.held = whole;
                m.shown = place;
            }
        }
    }

    /// Puts a line in the place of its beginning, or after all others; gives its number.
    fn put(&mut self, member: usize, offset: u64, line: Line, shown: Option<i64>) -> Option<i64> {
        let first = self.first;
        let old = shown.and_then(|seq| Some((seq, self.lines.get_mut(usize::try_from(seq - first).ok()?)?)));
        match old {
            Some((seq, old)) => {
                self.memory = (self.memory + line.memory()).saturating_sub(memory(&old.kind));
                old.kind = Kind::Text(line);
                Some(seq)
            }
            None => {
                self.push(LogLine { member, offset, kind: Kind::Text(line) });
                Some(self.end() - 1)
            }
        }
    }

    pub(super) fn push(&mut self, line: LogLine) {
        self.memory += memory(&line.kind);
        self.lines.push_back(line);
    }

    /// Takes a piece from before what was read of one log.
    pub(super) fn older(&mut self, chunk: &Chunk, from: u64) {
        let Some(m) = self.members.first_mut() else { return };
        if chunk.offset >= m.start || chunk.bytes.is_empty() {
            // The middle of a log over its cap; its beginning is shown on request.
            m.hole = true;
            let gap = Kind::Gap(m.start);
            self.memory += memory(&gap);
            self.lines.push_front(LogLine { member: 0, offset: 0, kind: gap });
            self.first -= 1;
            return;
        }
        let mut bytes = &chunk.bytes[..chunk.bytes.len().min((m.start - chunk.offset) as usize)];
        let end = chunk.offset + bytes.len() as u64;
        let gap = Some(m.start - end).filter(|gap| *gap > 0);
        let mut offset = chunk.offset;
        if offset > 0 && offset == from {
            let cut = bytes.iter().position(|b| *b == b'\n').map(|i| i + 1).filter(|i| *i < bytes.len()).unwrap_or(0);
            bytes = &bytes[cut..];
            offset += cut as u64;
        }
        m.start = offset;
        self.searched += bytes.len() as u64;
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let line = line_of(piece.strip_suffix(b"\n").unwrap_or(piece));
            if self.lets_through(&line) {
                lines.push(LogLine { member: 0, offset, kind: Kind::Text(line) });
            }
            offset += piece.len() as u64;
        }
        if let Some(gap) = gap {
            lines.push(LogLine { member: 0, offset: end, kind: Kind::Gap(gap) });
        }
        for line in lines.into_iter().rev() {
            self.memory += memory(&line.kind);
            self.lines.push_front(line);
            self.first -= 1;
        }
        self.trim_back();
        self.trim_front();
    }

    fn over(&self) -> bool {
        self.lines.len() > 1 && (self.memory > BYTES || self.lines.len() > LINES)
    }

    /// Gives which lines are near what is looked at: they stay.
    fn kept(&self) -> std::ops::Range<i64> {
        match self.place {
            Place::Follow => i64::MAX..i64::MAX,
            Place::At { seq, .. } => seq - ABOVE..seq + SCREEN,
        }
    }

    /// Lets go of the first lines, as far as there is too much and they are not looked at.
    fn trim_front(&mut self) {
        let kept = self.kept();
        let mut cut = false;
        while self.over() && self.first < kept.start {
            if let Some(line) = self.lines.pop_front() {
                self.memory = self.memory.saturating_sub(memory(&line.kind));
                self.first += 1;
                cut = true;
            }
        }
        if cut
            && self.members.len() == 1
            && let (Some(line), Some(m)) = (self.lines.front(), self.members.first_mut())
        {
            m.start = line.offset;
        }
    }

    /// Lets go of the last lines, as far as there is too much and they are not looked at.
    fn trim_back(&mut self) {
        let kept = self.kept();
        while self.over() && self.end() > kept.end {
            let Some(line) = self.lines.pop_back() else { return };
            self.memory = self.memory.saturating_sub(memory(&line.kind));
            if let Some(m) = self.members.first_mut() {
                m.next = line.offset;
                m.held.clear();
                m.shown = None;
                m.stuck = None;
            }
        }
    }

    fn lets_through(&self, line: &Line) -> bool {
        self.filter.is_empty() || found(line.text(), &self.filter).is_some()
    }
}

fn memory(kind: &Kind) -> usize {
    match kind {
        Kind::Text(line) => line.memory(),
        Kind::Gap(_) => 32,
        Kind::Note(text) => text.len() + 32,
    }
}

/// Makes a line as a terminal would have left it.
fn line_of(bytes: &[u8]) -> Line {
    let mut screen = Screen::default();
    screen.feed(bytes);
    screen.into_line()
}
