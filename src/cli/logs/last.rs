//! The last lines of a log that match, found over the whole of it.
//!
//! Invariant: as many lines are held as were asked for, and never more than 16 MiB of them.

use super::lines::Line;
use std::collections::VecDeque;

/// Most bytes that are held.
const MOST: usize = 16 << 20;

/// Keeps the newest lines until the log's present end is reached.
pub(super) struct Last {
    wanted: usize,
    lines: VecDeque<Line>,
    bytes: usize,
    /// Lines that were wanted and went for want of room.
    pub(super) dropped: u64,
}

impl Last {
    pub(super) fn new(wanted: u64) -> Self {
        Self { wanted: usize::try_from(wanted).unwrap_or(usize::MAX), lines: VecDeque::new(), bytes: 0, dropped: 0 }
    }

    pub(super) fn push(&mut self, line: Line) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.lines.len() > self.wanted || (self.bytes > MOST && self.lines.len() > 1) {
            // Those that would have gone anyway are not missed: counted are the ones that had to make room.
            self.dropped += u64::from(self.lines.len() <= self.wanted);
            self.bytes -= self.lines.pop_front().map_or(0, |line| line.text.len());
        }
    }

    pub(super) fn take(&mut self) -> VecDeque<Line> {
        self.bytes = 0;
        std::mem::take(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_stay_and_memory_is_bounded() {
        let line = |offset, len| Line { offset, text: vec![b'x'; len] };
        let mut last = Last::new(2);
        (0..5).for_each(|i| last.push(line(i, 10)));
        assert_eq!(last.take().iter().map(|l| l.offset).collect::<Vec<_>>(), [3, 4]);
        assert_eq!(last.dropped, 0);
        let mut last = Last::new(100);
        (0..40).for_each(|i| last.push(line(i, 1 << 20)));
        assert_eq!((last.lines.len(), last.dropped), (16, 24));
        let mut none = Last::new(0);
        none.push(line(1, 1));
        assert!(none.take().is_empty());
    }
}
