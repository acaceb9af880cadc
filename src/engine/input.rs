//! Whether a command waits for input.
//!
//! Invariant: nothing is looked at while nobody asks; who asks is told when it cannot be known.

use super::{Core, EngineError};
use crate::backend::{Ask, ErrorKind, Family};
use std::time::Duration;
use tokio::time::sleep;

/// The first pause between looks, and the one between the two that must agree: a reader that is being fed is in its read for
/// moments only.
const PAUSE: Duration = Duration::from_millis(40);
/// The longest pause while nothing happens.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Core {
    /// Waits for a command to want input (see [`super::Engine::wants_input`]).
    pub(crate) async fn wants_input(&self, process: &str) -> Result<bool, EngineError> {
        let id = self.state().table.find(process)?.info.id.clone();
        tokio::select! {
            biased;
            ended = self.ended(&id) => ended.map(|_| false),
            wanted = self.look(&id) => wanted.map(|()| true),
        }
    }

    /// Looks until it wants input. Output and time are what may announce it: no kernel tells of a process that begins to read.
    async fn look(&self, id: &str) -> Result<(), EngineError> {
        let (mut pause, mut seen) = (PAUSE, None);
        loop {
            let (log, now) = self.reads(id).await?;
            if now && seen.replace(log.total()) == Some(log.total()) {
                return Ok(());
            }
            if !now {
                seen = None;
            }
            sleep(PAUSE).await;
            if now {
                continue;
            }
            tokio::select! {
                () = log.grown(log.total()) => pause = PAUSE,
                () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }

    /// Looks once: whether something of the command reads its stdin, and nothing is there or on its way.
    async fn reads(&self, id: &str) -> Result<(std::sync::Arc<crate::session::log::Log>, bool), EngineError> {
        let (backend, log, pid, waiting) = {
            let state = self.state();
            let entry = state.table.find(id)?;
            if entry.info.detached {
                let text = format!("whether {id} waits for input cannot be known: nobody here holds the stdin of a background process");
                return Err(EngineError::Refused(format!("{text}; wait for its output, or for quiet=MS")));
            }
            let typing = entry.stdin.as_ref().filter(|typing| !typing.is_over());
            let typing = typing.ok_or_else(|| EngineError::Refused(format!("{id} has no open stdin: it never waits for input")))?;
            (entry.info.backend.clone(), entry.log.clone(), entry.info.pid, typing.waiting())
        };
        let Some(pid) = pid.filter(|_| waiting == 0) else { return Ok((log, false)) };
        let place = self.place(Some(&backend))?;
        let family = Family { pid, start_time: None, age: None, cookie: format!("QD_PROCESS={id}") };
        match place.connection.backend().family(family, Ask::Readers).await {
            Ok(members) => Ok((log, !members.alive.is_empty())),
            Err(error) if error.kind == ErrorKind::Unsupported => {
                let text = format!("whether {id} on {backend} waits for input cannot be known: {}", error.message);
                Err(EngineError::Refused(format!("{text}; wait for its output, or for quiet=MS")))
            }
            Err(error) => Err(EngineError::Unavailable { message: format!("{backend}: {}", error.message), fix: error.fix }),
        }
    }
}
