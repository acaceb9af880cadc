//! The rows of a pane: every command with its output, broken to a width.
//!
//! Invariant: the rows of a block have ids that rise from top to bottom and stay the same while output arrives, so that a view
//! can be pinned to one; only as many rows are made as are asked for.

use super::format;
use super::screen::{Entry, Line, gap_text};
use super::state::State;
use super::state::block::Block;
use super::state::pane::{Anchor, RowId};
use super::text::{clean, wrap, wrap_words};
use crate::model::{Outcome, ProcessState};
use std::borrow::Cow;
use std::ops::Range;

/// Rows of output shown of a folded block.
const FOLDED: usize = 3;
/// Further rows shown of a command of several lines.
const COMMAND_ROWS: usize = 12;

/// How a row under the output is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Note,
    Warning,
    Error,
}

/// What a row shows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    /// The command and how it is.
    Head,
    /// A further line of the command.
    Command(String),
    /// A part of a line of output.
    Line(Cow<'a, Line>, Range<usize>),
    /// Something said about the block.
    Said(Tone, String),
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row<'a> {
    pub(super) block: &'a str,
    pub(super) id: RowId,
    pub(super) kind: Kind<'a>,
}

/// Tells whether the meaning of an exit code stands beside the code in a pane of a width, or in a row of its own.
pub(super) fn meaning_beside(meaning: &str, pane: usize) -> bool {
    super::text::width(meaning) + 64 <= pane
}

/// Gives the rows that a pane of a size shows, top down, and whether the last one is the newest there is.
pub(super) fn visible(state: &State, pane: usize, width: usize, height: usize) -> Vec<Row<'_>> {
    let Some(p) = state.panes.get(pane) else { return Vec::new() };
    if height == 0 {
        return Vec::new();
    }
    let mut rows = upward(state, pane, width, height, p.anchor.as_ref());
    if rows.len() < height && p.anchor.is_some() {
        // Pinned near the beginning: fill up with what comes after.
        let missing = height - rows.len();
        let from = rows.last().map(|r| (r.block, r.id));
        let more = downward(state, pane, width, missing, from);
        rows.extend(more);
    }
    rows
}

/// Gives up to `max` rows that end at an anchor, or at the newest one, top down.
pub(super) fn upward<'a>(state: &'a State, pane: usize, width: usize, max: usize, anchor: Option<&Anchor>) -> Vec<Row<'a>> {
    let Some(p) = state.panes.get(pane) else { return Vec::new() };
    let at = anchor.and_then(|a| p.blocks.iter().position(|id| *id == a.block));
    let limit = at.and(anchor).map(|a| a.row);
    let last = at.unwrap_or(p.blocks.len().wrapping_sub(1));
    let mut parts: Vec<Vec<Row<'_>>> = Vec::new();
    let mut have = 0;
    for i in (0..p.blocks.len().min(last.wrapping_add(1))).rev() {
        let Some(block) = state.blocks.get(&p.blocks[i]) else { continue };
        let rows = block_rows(state, pane, block, width, max - have, limit.filter(|_| i == last));
        have += rows.len();
        parts.push(rows);
        if have >= max {
            break;
        }
    }
    parts.into_iter().rev().flatten().collect()
}

/// Gives up to `max` rows after a row, top down; all from the beginning without one.
pub(super) fn downward<'a>(state: &'a State, pane: usize, width: usize, max: usize, after: Option<(&str, RowId)>) -> Vec<Row<'a>> {
    let Some(p) = state.panes.get(pane) else { return Vec::new() };
    let first = after.and_then(|(block, _)| p.blocks.iter().position(|id| id == block)).unwrap_or(0);
    let mut out = Vec::new();
    for (i, id) in p.blocks.iter().enumerate().skip(first) {
        let Some(block) = state.blocks.get(id) else { continue };
        let rows = block_rows(state, pane, block, width, usize::MAX, None);
        let skip = |r: &Row<'_>| i == first && after.is_some_and(|(_, row)| r.id <= row);
        out.extend(rows.into_iter().filter(|r| !skip(r)));
        if out.len() >= max {
            out.truncate(max);
            break;
        }
    }
    out
}

/// Gives the last `max` rows of a block up to a row, top down.
pub(super) fn block_rows<'a>(
    state: &'a State,
    pane: usize,
    block: &'a Block,
    width: usize,
    max: usize,
    until: Option<RowId>,
) -> Vec<Row<'a>> {
    let open = state.is_open(pane, block);
    let mut up = Up { block: &block.info.id, max, until, rows: Vec::new() };
    let feet = feet(block, width);
    for (i, (tone, text)) in feet.into_iter().enumerate().rev() {
        up.push(RowId::Foot(i as u16), || Kind::Said(tone, text));
    }
    let output = width.saturating_sub(2).max(2);
    if open {
        open_output(block, output, &mut up)
    } else {
        folded_output(block, output, &mut up)
    }
    if block.open == Some(true) {
        for (i, line) in block.info.command.lines().skip(1).take(COMMAND_ROWS).enumerate().collect::<Vec<_>>().into_iter().rev() {
            up.push(RowId::Head(i as u16 + 1), || Kind::Command(clean(line)));
        }
    }
    up.push(RowId::Head(0), || Kind::Head);
    up.rows.reverse();
    up.rows
}

/// Collects rows from the bottom up.
struct Up<'a> {
    block: &'a str,
    max: usize,
    until: Option<RowId>,
    rows: Vec<Row<'a>>,
}

impl<'a> Up<'a> {
    fn full(&self) -> bool {
        self.rows.len() >= self.max
    }

    fn push(&mut self, id: RowId, kind: impl FnOnce() -> Kind<'a>) {
        if !self.full() && self.until.is_none_or(|until| id <= until) {
            self.rows.push(Row { block: self.block, id, kind: kind() });
        }
    }
}

fn open_output<'a>(block: &'a Block, width: usize, up: &mut Up<'a>) {
    if let Some(why) = &block.error {
        up.push(RowId::Line(u64::MAX, 0), || Kind::Said(Tone::Error, format!("its output cannot be read: {why}")));
    }
    let Some(screen) = &block.screen else { return };
    for at in (0..screen.len()).rev() {
        if up.full() {
            return;
        }
        push_entry(screen, at, width, up);
    }
}

fn push_entry<'a>(screen: &'a super::screen::Screen, at: usize, width: usize, up: &mut Up<'a>) {
    match screen.entry(at) {
        Some(Entry::Line(n, line)) => {
            let ranges = wrap(line.text(), width);
            for (sub, range) in ranges.into_iter().enumerate().rev() {
                let line = line.clone();
                up.push(RowId::Line(n, sub as u16), || Kind::Line(line, range));
            }
        }
        Some(Entry::Gap { lines, bytes }) => {
            let before = match at.checked_sub(1).and_then(|i| screen.entry(i)) {
                Some(Entry::Line(n, _)) => RowId::Line(n, u16::MAX),
                _ => RowId::Fold,
            };
            let whole: String = up.block.chars().take(8).collect();
            up.push(before, || Kind::Said(Tone::Note, format!("{}  (all: qd logs {})", gap_text(lines, bytes), clean(&whole))));
        }
        None => {}
    }
}

fn folded_output<'a>(block: &'a Block, width: usize, up: &mut Up<'a>) {
    let hidden = match &block.screen {
        None if block.total == 0 => return,
        None => format!("{} of output (enter opens)", format::bytes(block.total)),
        Some(screen) => {
            let whole = screen.len();
            let shown = if whole <= FOLDED { whole } else { FOLDED - 1 };
            for at in (whole - shown..whole).rev() {
                if let Some(Entry::Line(n, line)) = screen.entry(at) {
                    let end = wrap(line.text(), width).first().map_or(0, |r| r.end);
                    up.push(RowId::Line(n, 0), || Kind::Line(line, 0..end));
                }
            }
            if shown == whole && !screen.has_gap() && block.next >= block.total {
                return;
            }
            if screen.has_gap() || block.next < block.total {
                format!("{} of output (enter opens)", format::bytes(block.total))
            } else {
                match whole - shown {
                    1 => "1 more line (enter opens)".to_owned(),
                    n => format!("{} more lines (enter opens)", format::thousands(n as u64)),
                }
            }
        }
    };
    up.push(RowId::Fold, || Kind::Said(Tone::Note, hidden));
}

/// What is said under a block: how it ended where that needs words, warnings, hints.
fn feet(block: &Block, width: usize) -> Vec<(Tone, String)> {
    let mut out = Vec::new();
    let mut say = |tone, text: &str| {
        let text = clean(text);
        for range in wrap_words(&text, width.saturating_sub(2).max(8)).into_iter().take(4) {
            out.push((tone, text[range].to_owned()));
        }
    };
    if block.lost {
        say(Tone::Warning, "unknown: the daemon ended while it ran");
    }
    if let ProcessState::Ended(
        Outcome::TransportLost { reason }
        | Outcome::SpawnFailed { reason }
        | Outcome::BackendUnavailable { reason }
        | Outcome::Lost { reason },
    ) = &block.info.state
    {
        say(Tone::Error, reason);
    }
    if let Some(meaning) = block.info.exit_code_meaning.as_deref().filter(|m| !meaning_beside(&clean(m), width)) {
        say(Tone::Note, meaning);
    }
    for warning in &block.info.warnings {
        say(Tone::Warning, &format!("warning: {}", warning.message));
    }
    for hint in &block.info.hints {
        say(Tone::Note, &format!("hint: {}", hint.message));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing;

    fn text(rows: &[Row<'_>]) -> Vec<String> {
        rows.iter()
            .map(|r| match &r.kind {
                Kind::Head => format!("[{}]", r.block),
                Kind::Command(text) | Kind::Said(_, text) => format!("({text})"),
                Kind::Line(line, range) => line.text()[range.clone()].to_owned(),
            })
            .collect()
    }

    #[test]
    fn the_newest_rows_are_at_the_bottom_and_old_blocks_are_folded() {
        let mut state = testing::state();
        let web = testing::pane_of(&state, "web");
        testing::ran(&mut state, "p1", "web", "seq 5", 1, b"1\n2\n3\n4\n5\n");
        testing::ran(&mut state, "p2", "web", "echo hi", 2, b"hi\n");
        testing::ran(&mut state, "p3", "web", "echo ho", 3, b"ho\n");
        let rows = visible(&state, web, 40, 20);
        assert_eq!(text(&rows), ["[p1]", "(3 more lines (enter opens))", "4", "5", "[p2]", "hi", "[p3]", "ho"]);
        assert_eq!(text(&visible(&state, web, 40, 3)), ["hi", "[p3]", "ho"]);
        assert!(rows.windows(2).all(|w| w[0].block != w[1].block || w[0].id < w[1].id));
    }

    #[test]
    fn a_pinned_view_stays_while_output_arrives() {
        let mut state = testing::state();
        let web = testing::pane_of(&state, "web");
        let lines: String = (0..30).map(|i| format!("line {i}\n")).collect();
        testing::ran(&mut state, "p1", "web", "seq", 1, lines.as_bytes());
        state.panes[web].anchor = Some(Anchor { block: "p1".to_owned(), row: RowId::Line(10, 0) });
        let before = text(&visible(&state, web, 40, 5));
        assert_eq!(before, ["line 6", "line 7", "line 8", "line 9", "line 10"]);
        testing::ran(&mut state, "p2", "web", "more", 2, b"x\ny\n");
        assert_eq!(text(&visible(&state, web, 40, 5)), before);
        state.panes[web].anchor = Some(Anchor { block: "p1".to_owned(), row: RowId::Head(0) });
        assert_eq!(text(&visible(&state, web, 40, 3)), ["[p1]", "line 0", "line 1"]);
    }

    #[test]
    fn long_lines_are_broken_and_keep_their_ids() {
        let mut state = testing::state();
        let web = testing::pane_of(&state, "web");
        testing::ran(&mut state, "p1", "web", "x", 1, b"abcdefghijkl\nm\n");
        let rows = visible(&state, web, 7, 20);
        assert_eq!(text(&rows), ["[p1]", "abcde", "fghij", "kl", "m"]);
        assert_eq!(rows[2].id, RowId::Line(0, 1));
    }

    #[test]
    fn feet_say_what_must_be_known() {
        let mut state = testing::state();
        let web = testing::pane_of(&state, "web");
        testing::ran(&mut state, "p1", "web", "x", 1, b"");
        let block = state.blocks.get_mut("p1").unwrap();
        block.info.state = ProcessState::Ended(Outcome::TransportLost { reason: "the link broke".to_owned() });
        block.info.hints = vec![crate::model::Hint { code: "x".to_owned(), message: "try \x1b[31mthis".to_owned() }];
        assert_eq!(text(&visible(&state, web, 60, 20)), ["[p1]", "(the link broke)", "(hint: try ^[[31mthis)"]);
    }
}
