//! One command in a pane: its row of the process table, and what has been read of its output.
//!
//! Invariant: `next` is the offset after the last byte that went into the screen; a byte goes in once and in order.

use crate::model::{Chunk, EndedBy, LogStart, Outcome, ProcessInfo, ProcessState};
use crate::tui::screen::Screen;

/// Bytes read at once.
pub(in crate::tui) const READ_MAX: u64 = 64 * 1024;
/// Bytes of a new long output that are read from its beginning, before skipping to the present.
const HEAD_MAX: u64 = 24 * 1024;
/// Bytes before the end that are read after skipping: more than fits on any screen.
const TAIL_BYTES: u64 = 32 * 1024;
/// Output of an old command that is small enough to be read without opening it.
const SMALL: u64 = 2 * 1024;

/// A command in a pane.
pub(in crate::tui) struct Block {
    pub(in crate::tui) info: ProcessInfo,
    /// What its output looks like; none until something was read, or after it was let go.
    pub(in crate::tui) screen: Option<Screen>,
    /// Bytes of its log, as far as we were told.
    pub(in crate::tui) total: u64,
    /// The next byte to read.
    pub(in crate::tui) next: u64,
    /// A read is under way.
    pub(in crate::tui) reading: bool,
    /// A read gave nothing: wait until the log grows.
    stuck: bool,
    /// Opened or folded by the person; none: by age.
    pub(in crate::tui) open: Option<bool>,
    /// The daemon that ran it is gone.
    pub(in crate::tui) lost: bool,
    /// Not in any process table: a command that was refused.
    pub(in crate::tui) refused: bool,
    /// Why its log cannot be read.
    pub(in crate::tui) error: Option<String>,
    /// When it was last on screen, for letting go.
    pub(in crate::tui) seen: u64,
    /// How fast it writes.
    rate: Rate,
}

/// Bytes a second, over the last stretch of at least a second.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    since: u64,
    from: u64,
    per_second: u64,
    heard: u64,
}

/// After so many milliseconds without output it writes nothing.
const SILENT_MS: u64 = 2_500;

impl Block {
    /// Makes a block from a row.
    pub(in crate::tui) fn new(info: ProcessInfo) -> Self {
        let total = info.output_bytes;
        Self {
            info,
            screen: None,
            total,
            next: 0,
            reading: false,
            stuck: false,
            open: None,
            lost: false,
            refused: false,
            error: None,
            seen: 0,
            rate: Rate { from: total, ..Rate::default() },
        }
    }

    /// Takes a newer row.
    pub(in crate::tui) fn update(&mut self, info: ProcessInfo) {
        self.grow(info.output_bytes);
        self.lost = false;
        self.info = info;
    }

    /// Takes the length of the log.
    pub(in crate::tui) fn grow(&mut self, total: u64) {
        if total > self.total {
            self.total = total;
            self.stuck = false;
        }
    }

    /// Takes the length of the log at a moment of [`super::State::mono`].
    pub(in crate::tui) fn grow_at(&mut self, total: u64, now: u64) {
        self.grow(total);
        let rate = &mut self.rate;
        if now.saturating_sub(rate.heard) > SILENT_MS {
            *rate = Rate { since: now, from: total, per_second: 0, heard: now };
            return;
        }
        rate.heard = now;
        let past = now.saturating_sub(rate.since);
        if past >= 1000 {
            let per_second = total.saturating_sub(rate.from) * 1000 / past;
            *rate = Rate { since: now, from: total, per_second, heard: now };
        }
    }

    /// Gives how many bytes a second it writes.
    pub(in crate::tui) fn rate(&self, now: u64) -> u64 {
        if now.saturating_sub(self.rate.heard) > SILENT_MS { 0 } else { self.rate.per_second }
    }

    /// Tells whether it has not ended, as far as is known.
    pub(in crate::tui) fn is_live(&self) -> bool {
        !self.lost && !self.info.state.is_ended()
    }

    /// Tells whether a person should look: it failed in a way that nobody expected.
    pub(in crate::tui) fn failed(&self) -> bool {
        match &self.info.state {
            ProcessState::Ended(Outcome::Exited { exit_code }) => match exit_code {
                0 => false,
                // Nothing ran, whatever these mean.
                126 | 127 => true,
                _ => self.info.exit_code_meaning.is_none(),
            },
            // A stray that has ended: nobody waited for it.
            ProcessState::Ended(Outcome::CodeUnknown) => false,
            ProcessState::Ended(_) if self.was_stopped() => false,
            ProcessState::Ended(_) => true,
            _ => self.lost,
        }
    }

    /// Tells whether it was ended on somebody's wish.
    pub(in crate::tui) fn was_stopped(&self) -> bool {
        let by = match &self.info.state {
            ProcessState::Ended(Outcome::Cancelled { ended_by }) => ended_by,
            _ => return false,
        };
        matches!(by, EndedBy::Operator | EndedBy::Agent | EndedBy::Client)
    }

    /// Says where to read next; none when there is nothing to read.
    pub(in crate::tui) fn wants(&self, open: bool) -> Option<(LogStart, u64)> {
        if self.reading || self.stuck || self.refused || self.lost || self.total <= self.next {
            return None;
        }
        let small = self.info.state.is_ended() && self.total <= SMALL;
        if !open && !small {
            return None;
        }
        let left = self.total - self.next;
        if left <= READ_MAX {
            return Some((LogStart::Offset(self.next), READ_MAX));
        }
        if self.next == 0 {
            return Some((LogStart::Offset(0), HEAD_MAX));
        }
        Some((LogStart::TailBytes(TAIL_BYTES), READ_MAX))
    }

    /// Takes what a read gave.
    pub(in crate::tui) fn take(&mut self, chunk: &Chunk) {
        self.reading = false;
        self.error = None;
        self.total = self.total.max(chunk.total);
        let end = chunk.offset + chunk.bytes.len() as u64;
        if end <= self.next {
            self.stuck = true;
            return;
        }
        let screen = self.screen.get_or_insert_with(Screen::default);
        let mut bytes = &chunk.bytes[..];
        if chunk.offset > self.next {
            // Begin with a whole line, unless that is all there is.
            let cut = bytes.iter().position(|b| *b == b'\n').map(|i| i + 1).filter(|i| *i < bytes.len()).unwrap_or(0);
            bytes = &bytes[cut..];
            screen.skip(chunk.offset - self.next + cut as u64);
        } else {
            bytes = &bytes[(self.next - chunk.offset) as usize..];
        }
        screen.feed(bytes);
        self.next = end;
    }

    /// Takes the failure of a read.
    pub(in crate::tui) fn fail(&mut self, why: String) {
        self.reading = false;
        self.stuck = true;
        self.error = Some(why);
    }

    /// Lets the output go; it is read again when it is wanted.
    pub(in crate::tui) fn forget(&mut self) {
        self.screen = None;
        self.next = 0;
        self.stuck = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing::process;

    fn chunk(offset: u64, bytes: &[u8], total: u64) -> Chunk {
        Chunk { offset, total, bytes: bytes.to_vec(), ..Chunk::default() }
    }

    #[test]
    fn small_output_is_read_from_its_offset_and_never_twice() {
        let mut block = Block::new(process("p1", "web", "ls"));
        assert_eq!(block.wants(true), None);
        block.grow(4);
        assert_eq!(block.wants(true), Some((LogStart::Offset(0), READ_MAX)));
        assert_eq!(block.wants(false), None, "a folded block is not read");
        block.take(&chunk(0, b"a\nb\n", 4));
        assert_eq!(block.wants(true), None);
        block.grow(6);
        assert_eq!(block.wants(true), Some((LogStart::Offset(4), READ_MAX)));
        block.take(&chunk(2, b"b\nc\n", 6));
        assert_eq!(block.screen.as_ref().unwrap().text(), "a\nb\nc\n");
    }

    #[test]
    fn a_flood_keeps_its_beginning_and_skips_to_the_present() {
        let mut block = Block::new(process("p1", "web", "yes"));
        block.grow(10_000_000);
        assert_eq!(block.wants(true), Some((LogStart::Offset(0), HEAD_MAX)));
        block.take(&chunk(0, b"first\n", 10_000_000));
        assert!(matches!(block.wants(true), Some((LogStart::TailBytes(_), _))));
        block.take(&chunk(9_999_990, b"lf\nlast\n..", 10_000_000));
        assert_eq!(block.screen.as_ref().unwrap().text(), "first\n... 10.0 MB not shown ...\nlast\n..\n");
        assert_eq!(block.wants(true), None);
    }

    #[test]
    fn a_read_that_gives_nothing_is_not_repeated_until_the_log_grows() {
        let mut block = Block::new(process("p1", "web", "x"));
        block.grow(10);
        block.take(&chunk(0, b"", 10));
        assert_eq!(block.wants(true), None);
        block.grow(11);
        assert!(block.wants(true).is_some());
        block.fail("gone".to_owned());
        assert_eq!(block.wants(true), None);
    }
}
