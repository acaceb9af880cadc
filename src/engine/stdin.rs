//! The open stdin of background processes: written to by shells on their backend, one batch after the other.
//!
//! Invariant: nothing waits for a link: what cannot be brought now is refused, and what is not known to have arrived is said to be so.

use super::core::State;
use super::{Core, EngineError};
use crate::model::{Event, Level, ProcessInfo, ProcessState, Warning, WarningCode};
use crate::session::{Spot, Typing, write_input};
use std::sync::{Arc, Weak};

impl Core {
    /// Opens the stdin of a background process to those who send to it.
    pub(super) fn open_background_stdin(self: &Arc<Self>, spot: &Spot, backend: &str) {
        let (typing, mut batches) = Typing::alone();
        self.open_stdin(&spot.id, typing);
        let (core, spot, backend) = (Arc::downgrade(self), spot.clone(), backend.to_owned());
        // It ends with the row, which holds the other end.
        tokio::spawn(async move {
            while let Some(batch) = batches.next().await {
                match write(&core, &spot, &backend, &batch.bytes, batch.end).await {
                    Ok(true) => batch.receipt.written(),
                    // It has ended its stdin, or itself: dropped, the receipt says so.
                    Ok(false) => return,
                    Err(why) => {
                        tracing::info!(process = spot.id, why, "a write to a stdin failed");
                        if let Some(core) = core.upgrade() {
                            core.input_in_doubt(&spot.id, &backend, batch.bytes.len(), &why);
                        }
                        batch.receipt.failed(why);
                        continue;
                    }
                }
                if batch.end {
                    return;
                }
            }
        });
    }

    /// Says of a process, and to whoever looks, that input may not have arrived: its sender may have gone by now.
    fn input_in_doubt(&self, id: &str, backend: &str, bytes: usize, why: &str) {
        let text = format!("it is not known whether {bytes} bytes that were sent to the stdin of {id} arrived: {why}");
        let mut state = self.state();
        if let Some(entry) = state.table.get_mut(id) {
            entry.info.warnings.push(Warning::new(WarningCode::InputInDoubt, text.clone()));
            self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
        }
        drop(state);
        self.shared.notice(Level::Alert, Some(backend), text);
    }

    /// Refuses to write to a background process whose backend cannot be reached now.
    pub(super) fn reachable(&self, state: &State, info: &ProcessInfo) -> Result<(), EngineError> {
        let up = state.places.get(&info.backend).is_some_and(|place| place.connection.backend().about().link.borrow().up);
        if up && info.state != ProcessState::Unknown {
            return Ok(());
        }
        if up {
            let message = format!("{} has not been asked yet whether {} still runs; nothing was sent", info.backend, info.id);
            return Err(EngineError::Unavailable { message, fix: Some("send it again in a moment".into()) });
        }
        Err(EngineError::Unavailable {
            message: format!("{} cannot be reached now; nothing was sent to {}", info.backend, info.id),
            fix: Some(format!("`qd backends` tells why; `qd wait --until output {}` waits for more of it", info.id)),
        })
    }
}

async fn write(core: &Weak<Core>, spot: &Spot, backend: &str, bytes: &[u8], end: bool) -> Result<bool, String> {
    let now = core.upgrade().ok_or("the daemon is ending")?;
    let (place, cap) = (now.place(Some(backend)).map_err(|e| e.to_string())?, now.far_cap());
    drop(now);
    let settings = place.follow_settings(cap);
    write_input(place.connection.backend(), &settings, spot, bytes, end).await.map_err(|e| e.to_string())
}
