//! One signal to a command that runs.
//!
//! Invariant: the answer is what happened: who got the signal, or why nobody did.

use super::{Core, EngineError};
use crate::model::{ProcessInfo, ProcessState};
use crate::session::Stop;
use tokio::sync::oneshot;

impl Core {
    /// Sends a signal to a command's tree (see [`super::Engine::signal`]).
    pub(crate) async fn signal(&self, process: &str, number: i32) -> Result<(ProcessInfo, Vec<u32>), EngineError> {
        let (stops, id) = {
            let state = self.state();
            let entry = state.table.find(process)?;
            (entry.stops.clone(), entry.info.id.clone())
        };
        let (tell, told) = oneshot::channel();
        // When nobody takes it, or it is dropped untold, the row says why.
        let _ = stops.send(Stop::Signal { number, tell }).await;
        let told = told.await;
        let info = self.state().table.find(&id).map(super::table::Entry::shown)?;
        match told {
            Ok(Ok(got)) if !got.is_empty() => Ok((info, got)),
            Ok(Ok(_)) => Err(EngineError::Refused(format!("no process of {id} got the signal: {}", nobody(&info)))),
            Ok(Err(error)) => {
                let message = format!("{id} on {}: it is not known whether the signal was sent: {}", info.backend, error.message);
                Err(EngineError::Unavailable { message, fix: error.fix })
            }
            Err(_) => Err(EngineError::Refused(format!("nothing got the signal: {}", nobody(&info)))),
        }
    }
}

/// Says why nothing of a command could get a signal.
fn nobody(info: &ProcessInfo) -> String {
    match info.state {
        ProcessState::Ended(_) => format!("{} has ended", info.id),
        ProcessState::Starting => format!("{} has not begun to run; `qd kill {}` takes it back", info.id, info.id),
        ProcessState::Unknown => format!("{} cannot be reached", info.backend),
        ProcessState::Running | ProcessState::Stopping | ProcessState::Stray => {
            "what is left of it is ending, or belongs to another account".to_owned()
        }
    }
}
