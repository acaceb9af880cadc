//! How much is told: by one process, and by all together.
//!
//! Invariant: pure; the time is an argument. What matches is told, counted as dropped in what is told, or counted while all is
//! quiet: nothing goes without a word.

use super::lines::Hit;
use crate::model::{Millis, TOLD_CHARS, TOLD_LINES};
use std::collections::VecDeque;

/// One process tells at most once in this time.
const WINDOW: Millis = 15_000;
/// After so many windows in a row with more than can be told its watch is turned off.
const STRIKES: u8 = 3;
/// All processes together tell at most so often ...
const MOST: usize = 15;
/// ... in this time.
const WITHIN: Millis = 10_000;
/// Then matches are only counted for so long.
pub(super) const QUIET: Millis = 30_000;

/// Lines that are told together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) lines: Vec<String>,
    pub(super) dropped: u64,
    chars: usize,
    /// Where the first of them begins in the log.
    pub(super) first: Option<u64>,
}

impl Batch {
    /// Adds a line when there is room.
    fn add(&mut self, hit: Hit) -> Option<Hit> {
        let chars = hit.text.chars().count();
        if self.lines.len() >= TOLD_LINES || self.chars + chars > TOLD_CHARS {
            return Some(hit);
        }
        self.first.get_or_insert(hit.offset);
        self.chars += chars;
        self.lines.push(hit.text);
        None
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// All lines that it stands for.
    pub(super) fn count(&self) -> u64 {
        self.lines.len() as u64 + self.dropped
    }
}

/// What one process has to tell, and when it may.
#[derive(Debug, Default)]
pub(super) struct Windows {
    held: Batch,
    /// Nothing is told before this.
    until: Millis,
    strikes: u8,
}

impl Windows {
    /// Takes a line that matched. Gives what is to be told now, because one more did not fit and it may be told.
    pub(super) fn take(&mut self, hit: Hit, now: Millis) -> Option<Batch> {
        if self.held.is_empty() && now >= self.until {
            // The window before had nothing more to tell.
            self.strikes = 0;
        }
        let left = self.held.add(hit)?;
        if now < self.until {
            self.held.dropped += 1;
            return None;
        }
        let told = self.ready(now);
        // It fits into an empty one: a line is shorter than what may be told.
        self.held.add(left);
        told
    }

    /// Gives what is to be told now, if anything.
    pub(super) fn ready(&mut self, now: Millis) -> Option<Batch> {
        (now >= self.until).then(|| self.tell(now)).flatten()
    }

    /// Gives what is held, whatever the time: nothing comes after it.
    pub(super) fn last(&mut self, now: Millis) -> Option<Batch> {
        self.tell(now)
    }

    fn tell(&mut self, now: Millis) -> Option<Batch> {
        if self.held.is_empty() {
            return None;
        }
        let batch = std::mem::take(&mut self.held);
        self.until = now + WINDOW;
        self.strikes = if batch.dropped > 0 { self.strikes + 1 } else { 0 };
        Some(batch)
    }

    /// When what is held may be told; none when nothing is.
    pub(super) fn due(&self) -> Option<Millis> {
        (!self.held.is_empty()).then_some(self.until)
    }

    /// Where the first line begins that was not told.
    pub(super) fn first(&self) -> Option<u64> {
        self.held.first
    }

    /// Whether too much matched for too long.
    pub(super) fn is_too_much(&self) -> bool {
        self.strikes >= STRIKES
    }
}

/// What becomes of something that is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is told.
    Tell,
    /// It is too much: it is counted, and quiet begins.
    QuietBegins,
    /// It is counted.
    Counted,
}

/// What all processes together tell.
#[derive(Debug, Default)]
pub(crate) struct Together {
    told: VecDeque<Millis>,
    /// While it is quiet: the lines that were not told.
    quiet: Option<u64>,
}

impl Together {
    /// Decides about something that stands for so many lines.
    pub(super) fn ask(&mut self, lines: u64, now: Millis) -> Verdict {
        if let Some(counted) = &mut self.quiet {
            *counted += lines;
            return Verdict::Counted;
        }
        while self.told.front().is_some_and(|at| now - at >= WITHIN) {
            self.told.pop_front();
        }
        if self.told.len() < MOST {
            self.told.push_back(now);
            return Verdict::Tell;
        }
        self.quiet = Some(lines);
        Verdict::QuietBegins
    }

    /// Ends the quiet; gives the lines that were not told.
    pub(super) fn over(&mut self) -> u64 {
        self.told.clear();
        self.quiet.take().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(n: u64) -> Hit {
        Hit { offset: n * 10, text: format!("line {n}") }
    }

    #[test]
    fn the_first_match_is_told_at_once_and_the_next_at_the_windows_end() {
        let mut w = Windows::default();
        assert_eq!(w.take(hit(1), 1_000_000), None);
        assert_eq!(w.ready(1_000_000).map(|b| b.lines), Some(vec!["line 1".to_owned()]));
        assert_eq!((w.due(), w.ready(1_020_000)), (None, None));
        let mut w = Windows { until: 1_015_000, ..Windows::default() };
        for n in 2..5 {
            assert_eq!(w.take(hit(n), 1_001_000 + n as Millis), None);
        }
        assert_eq!((w.ready(1_014_999), w.due(), w.first()), (None, Some(1_015_000), Some(20)));
        let batch = w.ready(1_015_000).unwrap();
        assert_eq!((batch.lines.len(), batch.dropped, batch.first), (3, 0, Some(20)));
        assert_eq!((w.due(), w.first()), (None, None));
    }

    #[test]
    fn nothing_of_a_burst_is_dropped_that_can_be_told_later() {
        let mut w = Windows::default();
        let told: Vec<Batch> = (0..30).filter_map(|n| w.take(hit(n), 50_000)).collect();
        assert_eq!((told.len(), told[0].lines.len(), told[0].dropped), (1, TOLD_LINES, 0));
        let rest = w.ready(65_000).unwrap();
        assert_eq!((rest.lines.len(), rest.dropped), (10, 0));
        let mut w = Windows::default();
        let told: u64 = (0..100).filter_map(|n| w.take(hit(n), 50_000)).map(|b| b.count()).sum();
        assert_eq!(told + w.ready(65_000).unwrap().count(), 100, "told or counted");
    }

    #[test]
    fn characters_are_bounded_too() {
        let mut w = Windows { until: 99, ..Windows::default() };
        for n in 0..6 {
            assert_eq!(w.take(Hit { offset: n, text: "日".repeat(super::super::lines::SHOWN) }, 1), None);
        }
        let batch = w.ready(99).unwrap();
        assert_eq!((batch.lines.len(), batch.dropped), (4, 2));
    }

    /// What is told of a flood of lines, one each 10 ms, until the watch is off or for this long.
    fn flood(w: &mut Windows, from: Millis, ms: Millis) -> (Vec<Millis>, Millis) {
        let mut at = Vec::new();
        for now in (from..from + ms).step_by(10) {
            if w.take(hit(1), now).or_else(|| w.ready(now)).is_some() {
                at.push(now - from);
            }
            if w.is_too_much() {
                return (at, now - from);
            }
        }
        (at, ms)
    }

    #[test]
    fn three_full_windows_in_a_row_are_too_much() {
        let mut w = Windows::default();
        assert_eq!(flood(&mut w, 1_000_000, 60_000), (vec![0, 15_000, 30_000, 45_000], 45_000));
        let mut w = Windows::default();
        flood(&mut w, 1_000_000, 40_000);
        assert!(w.ready(1_045_000).is_some(), "the third window");
        assert!(w.is_too_much());
    }

    #[test]
    fn a_calm_window_forgives() {
        let mut w = Windows::default();
        flood(&mut w, 1_000_000, 31_000);
        assert_eq!(w.strikes, 2);
        assert!(w.ready(1_045_000).is_some_and(|b| b.dropped > 0));
        assert!(w.is_too_much());
        let mut w = Windows::default();
        flood(&mut w, 1_000_000, 30_001);
        let held = w.ready(1_045_000).map(|b| b.dropped);
        assert_eq!((held, w.strikes), (Some(0), 0), "a window in which all could be told");
        let mut w = Windows { until: 1_000, strikes: 2, ..Windows::default() };
        assert_eq!(w.take(hit(1), 1_500), None);
        assert_eq!(w.strikes, 0, "a window without a match");
    }

    #[test]
    fn all_together_are_quiet_for_a_while_and_it_is_counted() {
        let mut all = Together::default();
        for n in 0..15 {
            assert_eq!(all.ask(1, 1_000 + n), Verdict::Tell);
        }
        assert_eq!(all.ask(3, 1_100), Verdict::QuietBegins);
        assert_eq!(all.ask(4, 20_000), Verdict::Counted);
        assert_eq!(all.over(), 7);
        assert_eq!(all.ask(1, 31_100), Verdict::Tell);
        let mut all = Together::default();
        assert!((0..100).all(|n| all.ask(1, n * 700) == Verdict::Tell), "as often as that is well");
    }
}
