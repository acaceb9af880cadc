//! The log of one process, or of several as one: a window of lines around what is on screen.
//!
//! Invariant: the window of one log is a stretch without a gap, unless it is filtered; of several logs it is in the order of arrival, and
//! what was passed over is a line of its own. At most one read is under way.

pub(in crate::tui) mod rows;
mod window;

use crate::model::{Chunk, LogStart, ProcessId};
use crate::tui::screen::Line;
use std::collections::VecDeque;

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
/// Bytes that are read before a line that is looked at among those around it.
const BEFORE: u64 = 2 << 10;

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
    /// The line that is shown among those around it once it is read.
    seek: Option<u64>,
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
            seek: None,
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
        self.seek = None;
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

    /// Reads anew around the line at a place of the log, and shows that line as the hit.
    pub(in crate::tui) fn reload_around(&mut self, offset: u64) {
        self.reload_at(offset.saturating_sub(BEFORE));
        self.seek = Some(offset);
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

    /// Tells whether the window of one log begins at its beginning.
    pub(in crate::tui) fn is_at_beginning(&self) -> bool {
        self.members.first().is_none_or(|m| m.loaded && m.start == 0)
    }

    /// Tells whether lines are being looked for, for a screen of so many rows.
    pub(in crate::tui) fn searches(&self, rows: usize) -> bool {
        let Some(m) = self.members.first().filter(|_| !self.filter.is_empty()) else { return false };
        let more = m.start > 0 && !m.hole && self.searched < SEARCHED && self.lines.len() < rows;
        self.members.iter().any(|m| !m.loaded) || (self.members.len() == 1 && more)
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

    /// Says once how a process of several ended, after all of its output.
    pub(in crate::tui) fn note_end(&mut self, id: &str, total: u64, text: &str) {
        let Some(at) = self.members.iter().position(|m| m.id == id && !m.noted && m.next >= total) else { return };
        if self.members.len() > 1 && self.place == Place::Follow && !self.paused && self.filter.is_empty() {
            self.members[at].noted = true;
            let offset = self.members[at].next;
            self.push(LogLine { member: at, offset, kind: Kind::Note(text.to_owned()) });
        }
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

#[cfg(test)]
mod tests;
