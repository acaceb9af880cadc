//! Running a command once more, with what it was started with.
//!
//! Invariant: it is started with all of that or not at all, and as the same text on the same backend: else anybody could have the
//! values of its variables. They are never written to disk.

use super::{Core, EngineError};
use crate::model::Exec;

impl Core {
    /// Takes over what a row does not show when a command is run again on this backend; gives how often it was before, with this time.
    pub(super) fn repeated(&self, mut exec: Exec, backend: &str) -> Result<(Exec, u32), EngineError> {
        let Some(id) = &exec.again else { return Ok((exec, 0)) };
        let state = self.state();
        let Some(entry) = state.table.get(id) else {
            return Err(EngineError::NotFound(format!("{id} is not kept any more, so it is not known what it was started with")));
        };
        let info = &entry.info;
        if info.command != exec.command || info.backend != backend {
            return Err(EngineError::Usage(format!(
                "{id} ran another command, or on {}: what it was started with is its own",
                info.backend
            )));
        }
        if entry.env.is_empty() && !info.variables.is_empty() {
            let text = format!(
                "the values of {} that {id} was started with went with the daemon that started it; `qd exec -d -e` gives them anew",
                info.variables.join(", ")
            );
            return Err(EngineError::Refused(text));
        }
        exec.env.clone_from(&entry.env);
        exec.timeout_ms = info.timeout_ms;
        let restarts = info.restarts + 1;
        drop(state);
        Ok((exec, restarts))
    }
}
