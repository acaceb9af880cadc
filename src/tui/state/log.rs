//! The log of one process, or of several as one: a window of lines around what is on screen.
//!
//! Invariant: the window of one log is a stretch without a gap, unless it is filtered; of several logs it is in the order of arrival, and
//! what was passed over is a line of its own. At most [`BYTES`] are kept, and at most one read is under way.

pub(in crate::tui) mod rows;

use crate::model::{Chunk, LogStart, ProcessId};
use crate::tui::screen::{Line, Screen};
use std::collections::VecDeque;

/// Memory of the lines kept.
const BYTES: usize = 512 << 10;
/// Lines kept.
const LINES: usize = 8_000;
/// Bytes read at once.
const PIECE: u64 = 64 << 10;
/// Bytes before the end that are read first.
const TAIL: u64 = 32 << 10;
/// The same of each of several logs.
const SHARE: u64 = 4 << 10;
/// Bytes read at once while lines are looked for.
const SEARCH_PIECE: u64 = 512 << 10;
/// Bytes that are looked through backwards without being asked again.
const SEARCHED: u64 = 128 << 20;
/// A line without an end is shown as ended after so many bytes.
const LONGEST: usize = 16 << 10;

/// What a line holds.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tui) enum Kind {
    /// A line of the log.
    Text(Line),
    /// So many bytes were passed over.
    Gap(u64),
    /// Something said about the process.
    Note(String),
}

/// One line of the window.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tui) struct LogLine {
    /// Whose, counted among the logs shown.
    pub(in crate::tui) member: usize,
    /// Where it begins in its log.
    pub(in crate::tui) offset: u64,
    pub(in crate::tui) kind: Kind,
}

/// One of the logs shown.
#[derive(Debug, Default)]
struct Member {
    id: ProcessId,
    /// The stretch that was read, in bytes of the log.
    start: u64,
    next: u64,
    loaded: bool,
    /// Nothing before `start` is kept.
    hole: bool,
    /// The beginning of a line whose end has not come, and where it is shown.
    held: Vec<u8>,
    shown: Option<i64>,
    /// A read gave nothing at this length of the log.
    stuck: Option<u64>,
    /// When it was read last, counted in reads.
    read: u64,
    noted: bool,
    error: Option<String>,
}

/// Where the window is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tui) enum Place {
    /// At the end, as it grows.
    Follow,
    /// From a row of a line on, downwards.
    At { seq: i64, sub: usize },
}

/// What a read is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Newer,
    Older { from: u64 },
}

/// A read that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    turn: u64,
    member: usize,
    way: Way,
    /// The length of the log then.
    total: u64,
}

/// What the screen shows of the window, which decides what is read next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) struct Need {
    /// Rows that there is room for.
    pub(in crate::tui) rows: usize,
    /// Whether the first line of the window is on screen.
    pub(in crate::tui) top: bool,
    /// Whether the last line of the window is on screen.
    pub(in crate::tui) end: bool,
}

/// A read to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct Wanted {
    pub(in crate::tui) turn: u64,
    pub(in crate::tui) process: ProcessId,
    pub(in crate::tui) start: LogStart,
    pub(in crate::tui) max: u64,
}

/// The window.
#[derive(Debug)]
pub(in crate::tui) struct LogView {
    members: Vec<Member>,
    lines: VecDeque<LogLine>,
    /// The number of the first line; lines before it get smaller numbers.
    first: i64,
    memory: usize,
    pub(in crate::tui) place: Place,
    pub(in crate::tui) wrap: bool,
    pub(in crate::tui) paused: bool,
    /// Only lines with this text; small letters find both.
    pub(in crate::tui) filter: String,
    /// Columns left out on the left of lines that are not wrapped.
    pub(in crate::tui) column: usize,
    /// The line that the person goes through hits with.
    pub(in crate::tui) hit: Option<i64>,
    /// Where the first read begins, instead of at the end.
    begin: Option<u64>,
    asked: Option<Asked>,
    turn: u64,
    searched: u64,
}

impl Default for LogView {
    fn default() -> Self {
        Self {
            members: Vec::new(),
            lines: VecDeque::new(),
            first: 0,
            memory: 0,
            place: Place::Follow,
            wrap: false,
            paused: false,
            filter: String::new(),
            column: 0,
            hit: None,
            begin: None,
            asked: None,
            turn: 0,
            searched: 0,
        }
    }
}

impl LogView {
    /// Shows the logs of these processes; the ones shown already stay as they are.
    pub(in crate::tui) fn show(&mut self, ids: &[ProcessId]) {
        if self.members.len() == ids.len() && self.members.iter().zip(ids).all(|(m, id)| m.id == *id) {
            return;
        }
        self.members = ids.iter().map(|id| Member { id: id.clone(), ..Member::default() }).collect();
        self.filter.clear();
        self.paused = false;
        self.column = 0;
        self.reload();
    }

    /// Reads anew, from the end.
    pub(in crate::tui) fn reload(&mut self) {
        for member in &mut self.members {
            *member = Member { id: std::mem::take(&mut member.id), ..Member::default() };
        }
        self.lines.clear();
        self.first = 0;
        self.memory = 0;
        self.place = Place::Follow;
        self.hit = None;
        self.begin = None;
        self.searched = 0;
        // What an earlier read gives is dropped; until it has come nothing more is asked.
        self.turn += 1;
    }

    /// Reads anew from a place of the log on, and shows that.
    pub(in crate::tui) fn reload_at(&mut self, offset: u64) {
        self.reload();
        self.begin = Some(offset);
        self.place = Place::At { seq: 0, sub: 0 };
    }

    /// Follows the end; true when that is not in the window, so that it is read anew.
    pub(in crate::tui) fn follow(&mut self, whole: bool) {
        self.paused = false;
        if whole || self.members.len() > 1 {
            self.place = Place::Follow;
        } else {
            self.reload();
        }
    }

    /// Gives the processes shown.
    pub(in crate::tui) fn ids(&self) -> impl Iterator<Item = &ProcessId> {
        self.members.iter().map(|m| &m.id)
    }

    pub(in crate::tui) fn is_merged(&self) -> bool {
        self.members.len() > 1
    }

    pub(in crate::tui) fn holds(&self, id: &str) -> bool {
        self.members.iter().any(|m| m.id == id)
    }

    pub(in crate::tui) fn lines(&self) -> &VecDeque<LogLine> {
        &self.lines
    }

    pub(in crate::tui) fn first(&self) -> i64 {
        self.first
    }

    /// Gives the number after the last line.
    pub(in crate::tui) fn end(&self) -> i64 {
        self.first + self.lines.len() as i64
    }

    pub(in crate::tui) fn line(&self, seq: i64) -> Option<&LogLine> {
        usize::try_from(seq - self.first).ok().and_then(|at| self.lines.get(at))
    }

    /// Tells whether everything up to these lengths was read.
    pub(in crate::tui) fn is_whole(&self, total: impl Fn(&str) -> u64) -> bool {
        self.members.iter().all(|m| m.next >= total(&m.id))
    }

    /// Gives how many bytes came that were not read.
    pub(in crate::tui) fn unread(&self, total: impl Fn(&str) -> u64) -> u64 {
        self.members.iter().map(|m| total(&m.id).saturating_sub(m.next)).sum()
    }

    /// Gives the byte that the window of one log begins at, and whether what is before is no longer kept.
    pub(in crate::tui) fn start(&self) -> (u64, bool) {
        self.members.first().map_or((0, false), |m| (m.start, m.hole))
    }

    /// Tells whether lines are being looked for.
    pub(in crate::tui) fn searches(&self) -> bool {
        !self.filter.is_empty() && self.asked.as_ref().is_some_and(|a| matches!(a.way, Way::Older { .. }))
    }

    /// Tells whether looking for lines was given up because there is so much.
    pub(in crate::tui) fn gave_up(&self) -> bool {
        !self.filter.is_empty() && self.searched >= SEARCHED && self.start().0 > 0
    }

    /// Goes on looking for lines.
    pub(in crate::tui) fn search_on(&mut self) {
        self.searched = 0;
    }

    pub(in crate::tui) fn error(&self) -> Option<&str> {
        self.members.iter().find_map(|m| m.error.as_deref())
    }

    /// Nothing that was asked will be answered.
    pub(in crate::tui) fn forget_asked(&mut self) {
        self.asked = None;
    }

    /// Says where to read next; none when there is nothing to read. It counts as asked.
    pub(in crate::tui) fn ask(&mut self, total: impl Fn(&str) -> u64, need: Need) -> Option<Wanted> {
        let (member, way, start, max) = self.wants(&total, need)?;
        self.turn += 1;
        let known = total(&self.members.get(member)?.id);
        self.asked = Some(Asked { turn: self.turn, member, way, total: known });
        let one = self.members.get_mut(member)?;
        one.read = self.turn;
        Some(Wanted { turn: self.turn, process: one.id.clone(), start, max })
    }

    fn wants(&self, total: impl Fn(&str) -> u64, need: Need) -> Option<(usize, Way, LogStart, u64)> {
        if self.asked.is_some() {
            return None;
        }
        let one = self.members.len() == 1;
        let tail = if one { TAIL } else { SHARE };
        let piece = if self.filter.is_empty() { PIECE } else { SEARCH_PIECE };
        let new = |(at, m): (usize, &Member)| (!m.loaded && m.error.is_none() && total(&m.id) > 0).then_some((at, total(&m.id)));
        if let Some((at, total)) = self.members.iter().enumerate().find_map(new) {
            let start = match self.begin {
                Some(offset) if one => LogStart::Offset(offset),
                _ if total <= tail => LogStart::Offset(0),
                _ => LogStart::TailBytes(tail),
            };
            return Some((at, Way::Newer, start, piece.max(tail)));
        }
        if let Some(m) = self.members.first().filter(|m| one && m.loaded && m.start > 0 && !m.hole) {
            let short = self.lines.len() < need.rows && (self.filter.is_empty() || self.searched < SEARCHED);
            if short || (need.top && self.place != Place::Follow && self.searched < SEARCHED) {
                let from = m.start.saturating_sub(piece);
                return Some((0, Way::Older { from }, LogStart::Offset(from), m.start - from));
            }
        }
        let follows = self.place == Place::Follow;
        if self.paused || !(follows || one && need.end) {
            return None;
        }
        let longer = |m: &&(usize, &Member)| m.1.loaded && total(&m.1.id) > m.1.next && m.1.stuck != Some(total(&m.1.id));
        let all: Vec<(usize, &Member)> = self.members.iter().enumerate().collect();
        // The one that has waited longest, so that floods share.
        let (at, m) = all.iter().filter(longer).min_by_key(|(_, m)| m.read)?;
        let start = if total(&m.id) - m.next <= piece || !follows { LogStart::Offset(m.next) } else { LogStart::TailBytes(tail) };
        Some((*at, Way::Newer, start, piece))
    }

    /// Takes what a read gave.
    pub(in crate::tui) fn take(&mut self, turn: u64, chunk: Result<&Chunk, String>) {
        let Some(asked) = self.asked.take() else { return };
        if asked.turn != turn || turn != self.turn {
            return;
        }
        let Some(member) = self.members.get_mut(asked.member) else { return };
        match (chunk, asked.way) {
            (Err(why), _) => {
                member.error = Some(why);
                member.loaded = true;
                // It is tried again when the log has grown.
                member.stuck = Some(asked.total);
                member.hole = true;
            }
            (Ok(chunk), Way::Newer) => {
                member.error = None;
                self.newer(asked.member, chunk);
            }
            (Ok(chunk), Way::Older { from }) => self.older(chunk, from),
        }
    }

    fn newer(&mut self, at: usize, chunk: &Chunk) {
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
        } else if offset > 0 && self.begin != Some(offset) {
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

    fn push(&mut self, line: LogLine) {
        self.memory += memory(&line.kind);
        self.lines.push_back(line);
    }

    /// Says once how a process of several ended, after all of its output.
    pub(in crate::tui) fn note_end(&mut self, id: &str, total: u64, text: &str) {
        let Some(at) = self.members.iter().position(|m| m.id == id && !m.noted && m.next >= total) else { return };
        if self.members.len() > 1 && self.place == Place::Follow && !self.paused && self.filter.is_empty() {
            self.members[at].noted = true;
            let offset = self.members[at].next;
            self.push(LogLine { member: at, offset, kind: Kind::Note(text.to_owned()) });
        }
    }

    fn older(&mut self, chunk: &Chunk, from: u64) {
        let Some(m) = self.members.first_mut() else { return };
        if chunk.offset >= m.start || chunk.bytes.is_empty() {
            m.hole = true;
            return;
        }
        let mut bytes = &chunk.bytes[..chunk.bytes.len().min((m.start - chunk.offset) as usize)];
        let gap = chunk.offset > from || chunk.offset + (bytes.len() as u64) < m.start;
        let mut offset = chunk.offset;
        if offset > 0 && !gap {
            let cut = bytes.iter().position(|b| *b == b'\n').map(|i| i + 1).filter(|i| *i < bytes.len()).unwrap_or(0);
            bytes = &bytes[cut..];
            offset += cut as u64;
        }
        m.hole = gap;
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
        for line in lines.into_iter().rev() {
            self.memory += memory(&line.kind);
            self.lines.push_front(line);
            self.first -= 1;
        }
        self.trim_back();
    }

    fn over(&self) -> bool {
        self.lines.len() > 1 && (self.memory > BYTES || self.lines.len() > LINES)
    }

    fn trim_front(&mut self) {
        let mut cut = false;
        while self.over() {
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

    fn trim_back(&mut self) {
        while self.over() {
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

/// Gives where a text is in a line; small letters find both, a capital finds itself.
pub(in crate::tui) fn found(text: &str, wanted: &str) -> Option<std::ops::Range<usize>> {
    let at = if wanted.chars().any(char::is_uppercase) {
        text.find(wanted)
    } else {
        let low = text.to_lowercase();
        // Only where lowering changed no length is the place the same.
        if low.len() == text.len() { low.find(wanted) } else { text.find(wanted) }
    };
    at.map(|at| at..at + wanted.len()).filter(|r| text.is_char_boundary(r.start) && text.is_char_boundary(r.end))
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

#[cfg(test)]
mod tests;
