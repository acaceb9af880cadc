//! The pause that is asked of the person when a question of a login comes or goes: what is typed then was meant for something else.
//!
//! Invariant: from the moment that the question in front changes, keys and pastes are dropped until none has come for
//! [`GUARD_MS`]; each one that is dropped begins that time anew, so that nobody who is typing answers a question, and nothing
//! of a secret ends up in a command line.

use super::State;
use super::overlay::GUARD_MS;

/// What is said meanwhile.
pub(in crate::tui) const PAUSE: &str = "keys are dropped until you pause";

impl State {
    /// Begins to drop keys.
    pub(in crate::tui) fn pause(&mut self) {
        self.quiet_since = Some(self.mono);
        // What would have been its key is dropped.
        self.leader = None;
    }

    /// Gives when keys are taken again if none comes until then; none when they are taken now.
    pub(in crate::tui) fn pause_ends(&self) -> Option<u64> {
        self.quiet_since.map(|at| at + GUARD_MS).filter(|at| *at > self.mono)
    }

    /// Tells whether what was typed now is dropped; then the time begins anew. Part of a paste or of a key counts too.
    pub(in crate::tui) fn drops_keys(&mut self) -> bool {
        let drops = self.pause_ends().is_some();
        self.quiet_since = drops.then_some(self.mono);
        drops
    }
}
