//! Which logs to read next, and letting go of what is over the memory budget.
//!
//! Invariant: at most one read is under way per pane; hidden panes and folded blocks are not read.

use super::block::Block;
use super::{State, View};
use crate::model::ProcessId;
use crate::tui::effect::Effect;

/// Memory of all blocks' screens together.
const BUDGET: usize = 12 << 20;

impl State {
    /// Tells whether a block shows all of its output.
    pub(in crate::tui) fn is_open(&self, pane: usize, block: &Block) -> bool {
        let newest = || self.panes.get(pane).is_some_and(|p| p.blocks.iter().rev().take(2).any(|id| *id == block.info.id));
        block.open.unwrap_or_else(|| block.is_live() || newest())
    }

    /// Gives the reads to start now, after a frame.
    pub(in crate::tui) fn next_reads(&mut self) -> Vec<Effect> {
        let mut out = Vec::new();
        for drawn in std::mem::take(&mut self.drawn.panes).into_iter() {
            if let Some(effect) = self.next_read(drawn.pane, &drawn.blocks) {
                out.push(effect);
            }
            self.drawn.panes.push(drawn);
        }
        if let Some(log) = &self.drawn.log {
            let need = log.need;
            out.extend(self.next_log_read(need));
        }
        if self.view == View::Details {
            out.extend(self.next_details_read());
        }
        out
    }

    /// Gives the read that the details of a command want: its output as far as a block keeps it.
    fn next_details_read(&mut self) -> Option<Effect> {
        let id = self.details.as_ref()?.process.clone();
        let now = self.mono;
        let block = self.blocks.get_mut(&id)?;
        let (start, max) = block.wants(true)?;
        block.reading = true;
        block.seen = now;
        Some(Effect::Read { process: id, start, max })
    }

    fn next_read(&mut self, pane: usize, shown: &[(ProcessId, bool)]) -> Option<Effect> {
        let known = self.panes.get(pane)?;
        if known.blocks.iter().any(|id| self.blocks.get(id).is_some_and(|b| b.reading)) {
            return None;
        }
        // The one that has waited longest, so that two floods in one pane share.
        let candidates = shown.iter().filter_map(|(id, _)| self.blocks.get(id));
        let (_, id, start, max) = candidates
            .filter_map(|b| b.wants(self.is_open(pane, b)).map(|(start, max)| (b.seen, b.info.id.clone(), start, max)))
            .min_by(|a, b| a.0.cmp(&b.0))?;
        let now = self.mono;
        let block = self.blocks.get_mut(&id)?;
        block.reading = true;
        block.seen = now;
        Some(Effect::Read { process: id, start, max })
    }

    /// Lets go of output that is not on screen, the longest unseen first, while all of it is over the budget.
    pub(in crate::tui) fn trim(&mut self) {
        let mut total: usize = self.blocks.values().filter_map(|b| b.screen.as_ref()).map(crate::tui::screen::Screen::memory).sum();
        if total <= BUDGET {
            return;
        }
        let shown: std::collections::HashSet<&ProcessId> = self
            .drawn
            .panes
            .iter()
            .flat_map(|p| p.blocks.iter().map(|(id, _)| id))
            .chain(self.details.as_ref().map(|d| &d.process))
            .collect();
        let mut old: Vec<(u64, ProcessId)> = self
            .blocks
            .values()
            .filter(|b| b.screen.is_some() && !b.reading && !b.lost && !shown.contains(&b.info.id))
            .map(|b| (b.seen, b.info.id.clone()))
            .collect();
        old.sort();
        for (_, id) in old {
            if total <= BUDGET {
                return;
            }
            if let Some(block) = self.blocks.get_mut(&id) {
                total -= block.screen.as_ref().map_or(0, crate::tui::screen::Screen::memory);
                block.forget();
            }
        }
    }
}
