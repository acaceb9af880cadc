//! Moving in the log pane of the process view.
//!
//! Invariant: scrolled back it stays where it is whatever arrives, and the way back to the end is one key.

use crate::tui::effect::Effect;
use crate::tui::input::table::Action;
use crate::tui::state::State;
use crate::tui::state::log::{Kind, Place};

/// Columns that one key moves a log that is not wrapped.
const SIDEWAYS: usize = 16;

impl State {
    /// Gives the size of the log pane's rows.
    pub(super) fn log_size(&self) -> (usize, usize) {
        self.drawn.log.as_ref().map_or((78, 10), |l| (l.width, l.rows.height as usize))
    }

    fn log_is_whole(&self) -> bool {
        self.processes.log.is_whole(|id| self.blocks.get(id).map_or(0, |b| b.total))
    }

    pub(super) fn log_action(&mut self, action: Action) {
        let whole = self.log_is_whole();
        let log = &mut self.processes.log;
        match action {
            Action::Follow if log.place == Place::Follow => {
                let (width, height) = self.log_size();
                let log = &mut self.processes.log;
                let top = log.rows(width, height).first().map(|r| Place::At { seq: r.seq, sub: r.sub });
                log.place = top.unwrap_or(Place::Follow);
            }
            Action::Follow => log.follow(whole),
            Action::Wrap => {
                log.wrap = !log.wrap;
                log.column = 0;
                if let Place::At { sub, .. } = &mut log.place {
                    *sub = 0;
                }
            }
            Action::Pause => log.paused = !log.paused,
            Action::Left => log.column = log.column.saturating_sub(SIDEWAYS),
            Action::Right if !log.wrap => log.column = (log.column + SIDEWAYS).min(2_000),
            Action::Right => {}
            Action::SearchNext => self.step_hit(-1),
            Action::SearchPrevious => self.step_hit(1),
            _ => {}
        }
    }

    pub(super) fn scroll_log(&mut self, by: isize) {
        let (whole, (width, height)) = (self.log_is_whole(), self.log_size());
        let log = &mut self.processes.log;
        match by {
            ..=-1_000_000 => {
                if !log.is_merged() && !log.is_at_beginning() && log.filter.is_empty() {
                    log.reload_at(0);
                } else {
                    log.place = Place::At { seq: log.first(), sub: 0 };
                }
            }
            1_000_000.. => log.follow(whole),
            _ => {
                if by < 0 {
                    log.search_on();
                }
                log.scroll(by, width, height, whole);
            }
        }
    }

    fn step_hit(&mut self, by: i64) {
        let (width, height) = self.log_size();
        if self.processes.log.filter.is_empty() {
            return self.notice("no lines are looked for: / in the log does that");
        }
        let log = &mut self.processes.log;
        if by < 0 {
            log.search_on();
        }
        if !log.step_hit(by, width, height) {
            let where_to = if by < 0 { "above" } else { "below" };
            self.notice(format!("no more lines with that {where_to}"));
        }
    }

    /// Shows a hit among the lines around it.
    pub(super) fn open_hit(&mut self) {
        let log = &self.processes.log;
        let hit = log.hit.filter(|_| !log.filter.is_empty()).and_then(|seq| log.line(seq)).map(|l| (l.member, l.offset));
        let Some((member, offset)) = hit else {
            self.processes.zoom = !self.processes.zoom;
            return;
        };
        let Some(id) = log.ids().nth(member).cloned() else { return };
        if log.is_merged() {
            self.processes.marked.clear();
            self.processes.cursor = Some(id);
            self.sync_log();
        }
        self.processes.log.filter.clear();
        self.processes.log.reload_around(offset);
    }

    /// Copies what was read of the log, the newest part of it.
    pub(super) fn copy_log(&mut self) -> Vec<Effect> {
        let log = &self.processes.log;
        let ids: Vec<String> = log.ids().map(|id| self.log_label(id)).collect();
        let mut text = String::new();
        for line in log.lines() {
            if log.is_merged() {
                text.push_str(ids.get(line.member).map_or("", String::as_str));
                text.push_str(": ");
            }
            match &line.kind {
                Kind::Text(line) => text.push_str(line.text()),
                Kind::Gap(bytes) => text.push_str(&format!("... {} not shown ...", crate::tui::format::bytes(*bytes))),
                Kind::Note(note) => text.push_str(&format!("[{note}]")),
            }
            text.push('\n');
        }
        if text.is_empty() {
            self.notice("there is no output to copy");
            return Vec::new();
        }
        let part = !log.filter.is_empty() || log.is_merged() || log.start().0 > 0 || !self.log_is_whole();
        self.copy(text, if part { "log (the part that was read)" } else { "log" })
    }
}
