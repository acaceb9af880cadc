//! Moving back in a pane, and searching there.
//!
//! Invariant: a scrolled pane stays on its row whatever arrives; reaching the newest row follows the present again.

use crate::tui::input::table::Action;
use crate::tui::rows::{self, Kind, Row};
use crate::tui::state::pane::Anchor;
use crate::tui::state::{Mood, State, View};

/// Rows looked through by one search.
const FIND_ROWS: usize = 60_000;

impl State {
    pub(super) fn scroll_action(&mut self, action: Action) {
        let focus = self.focus;
        match action {
            Action::Down => self.scroll_by(focus, 1),
            Action::Up => self.scroll_by(focus, -1),
            Action::PageUp => self.scroll_page(focus, -1),
            Action::PageDown => self.scroll_page(focus, 1),
            Action::HalfUp => self.scroll_half(focus, -1),
            Action::HalfDown => self.scroll_half(focus, 1),
            Action::Top => self.scroll_by(focus, isize::MIN / 2),
            Action::Bottom => {
                if let Some(pane) = self.pane_mut() {
                    pane.follow();
                }
            }
            Action::Search => self.begin_find(),
            Action::SearchNext => self.find_step(-1),
            Action::SearchPrevious => self.find_step(1),
            Action::Help => self.show(View::Help),
            Action::Back => {
                self.mood = Mood::Input;
                if let Some(pane) = self.pane_mut() {
                    pane.follow();
                    pane.find = Default::default();
                }
            }
            _ => {}
        }
    }

    pub(super) fn enter_scroll(&mut self) {
        self.view = View::Panes;
        self.mood = Mood::Scroll;
        let focus = self.focus;
        let (width, height) = self.rows_size(focus);
        let last = rows::upward(self, focus, width, height.max(1), None).last().map(anchor);
        if let Some(pane) = self.pane_mut().filter(|p| p.anchor.is_none()) {
            pane.anchor = last;
            pane.arrived = 0;
        }
    }

    pub(super) fn scroll_page(&mut self, pane: usize, pages: isize) {
        let (_, height) = self.rows_size(pane);
        self.scroll_by(pane, pages * (height as isize - 1).max(1));
    }

    pub(super) fn scroll_half(&mut self, pane: usize, halves: isize) {
        let (_, height) = self.rows_size(pane);
        self.scroll_by(pane, halves * (height as isize / 2).max(1));
    }

    /// Scrolls a pane by rows; below zero goes back.
    pub(super) fn scroll_by(&mut self, pane: usize, by: isize) {
        let (width, height) = self.rows_size(pane);
        let Some(p) = self.panes.get(pane) else { return };
        let to = if by < 0 {
            let back = by.unsigned_abs();
            // Never further than until the first row is at the top.
            let rows = rows::upward(self, pane, width, back.saturating_add(height.max(1)), p.anchor.as_ref());
            let least = height.min(rows.len());
            let keep = rows.len().saturating_sub(back).max(least);
            Some(keep.checked_sub(1).and_then(|i| rows.get(i)).map(anchor))
        } else {
            match &p.anchor {
                None => None,
                Some(at) => {
                    let steps = by as usize;
                    let rows = rows::downward(self, pane, width, steps + 1, Some((&at.block, at.row)));
                    // With nothing after it, that row is the newest one.
                    let row = (rows.len() > steps).then(|| rows.get(steps.saturating_sub(1)).map(anchor)).flatten();
                    Some(row)
                }
            }
        };
        let at_end = match (&to, by < 0) {
            (Some(Some(a)), true) => {
                let after = rows::downward(self, pane, width, 1, Some((&a.block, a.row)));
                after.is_empty()
            }
            _ => false,
        };
        let Some(p) = self.panes.get_mut(pane) else { return };
        match to {
            Some(Some(row)) if !at_end => {
                if p.anchor.is_none() {
                    p.arrived = 0;
                }
                p.anchor = Some(row);
            }
            // There is nothing further back: a view that is pinned stays so.
            Some(_) if by < 0 => {}
            Some(_) => p.follow(),
            None => {}
        }
    }

    /// Puts the anchor on a row that exists.
    pub(super) fn settle(&mut self, pane: usize) {
        let (width, height) = self.rows_size(pane);
        let Some(at) = self.panes.get(pane).and_then(|p| p.anchor.clone()) else { return };
        let rows = rows::upward(self, pane, width, height.max(1), Some(&at));
        let row = rows.last().map(anchor);
        if let Some(p) = self.panes.get_mut(pane) {
            p.anchor = row;
        }
    }

    /// Gives the size of a pane's rows on screen.
    fn rows_size(&self, pane: usize) -> (usize, usize) {
        let drawn = self.drawn.panes.iter().find(|p| p.pane == pane);
        drawn.map_or((78, 20), |p| (p.rows.width as usize, p.rows.height as usize))
    }

    pub(super) fn begin_find(&mut self) {
        self.view = View::Panes;
        if self.mood == Mood::Input {
            self.enter_scroll();
        }
        if let Some(pane) = self.pane_mut() {
            pane.find.text.clear();
            pane.find.typing = true;
        }
    }

    /// Goes to the next row with the searched text; below zero looks upwards.
    pub(super) fn find_step(&mut self, by: isize) {
        let focus = self.focus;
        let Some(pane) = self.panes.get(focus) else { return };
        let text = pane.find.text.clone();
        if text.is_empty() {
            self.notice("nothing is searched yet");
            return;
        }
        // Small letters find both; a capital finds itself.
        let exact = text.chars().any(char::is_uppercase);
        let (width, _) = self.rows_size(focus);
        let hit = |row: &&Row<'_>| {
            let content = self.row_text(row);
            if exact { content.contains(&text) } else { content.to_lowercase().contains(&text.to_lowercase()) }
        };
        let found = if by < 0 {
            let at = pane.anchor.clone();
            let mut rows = rows::upward(self, focus, width, FIND_ROWS, at.as_ref());
            if at.is_some() {
                rows.pop();
            }
            rows.iter().rev().find(hit).map(anchor)
        } else {
            let at = pane.anchor.as_ref().map(|a| (a.block.as_str(), a.row));
            at.and_then(|at| rows::downward(self, focus, width, FIND_ROWS, Some(at)).iter().find(hit).map(anchor))
        };
        match found {
            Some(row) => {
                if let Some(p) = self.panes.get_mut(focus) {
                    p.cursor = Some(row.block.clone());
                    p.anchor = Some(row);
                }
            }
            None => self.notice(format!("no more \"{}\" {}", crate::tui::text::clean(&text), if by < 0 { "above" } else { "below" })),
        }
    }

    fn row_text(&self, row: &Row<'_>) -> String {
        match &row.kind {
            Kind::Head => {
                self.blocks.get(row.block).map_or_else(String::new, |b| b.info.command.lines().next().unwrap_or_default().to_owned())
            }
            Kind::Command(text) | Kind::Said(_, text) => text.clone(),
            Kind::Line(line, range) => line.text()[range.clone()].to_owned(),
        }
    }
}

fn anchor(row: &Row<'_>) -> Anchor {
    Anchor { block: row.block.to_owned(), row: row.id }
}
