//! Looking at a process now, because somebody asked.
//!
//! Invariant: what is answered comes from its backend, by number, start time and boot id; a backend that cannot be asked is an error, and
//! changes nothing.

use super::background::CODE_LIMIT;
use super::table::Entry;
use super::{Core, EngineError};
use crate::backend::Ask;
use crate::model::{Event, ProcessInfo, ProcessState};
use std::sync::Arc;

impl Core {
    /// Looks for a process (see [`super::Engine::recheck`]).
    pub(super) async fn recheck(self: &Arc<Self>, process: &str) -> Result<ProcessInfo, EngineError> {
        let (id, backend) = {
            let state = self.state();
            let info = &state.table.find(process)?.info;
            (info.id.clone(), info.backend.clone())
        };
        // How one that somebody waits for stands is known: the connection that runs it says so.
        let Some((spot, place)) = self.background(&id) else { return self.state().table.find(&id).map(Entry::shown) };
        let seen = self.ask_background(place, &spot, Ask::Survivors).await?;
        // Whoever follows it looks too: at its output, and at how it ended.
        self.follow(&backend);
        if seen.alive.is_empty() {
            if let Ok(ended) = tokio::time::timeout(CODE_LIMIT, self.ended(&id)).await {
                return ended;
            }
        } else {
            self.is_there(&id);
        }
        self.state().table.find(&id).map(Entry::shown)
    }

    fn is_there(&self, id: &str) {
        let mut state = self.state();
        let Some(entry) = state.table.get_mut(id).filter(|entry| entry.info.state == ProcessState::Unknown) else { return };
        entry.info.state = ProcessState::Running;
        self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
    }
}
