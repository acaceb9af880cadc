//! Looks through a backend for what commands of earlier times left running.
//!
//! Invariant: what may be a living command of another daemon is never taken for a stray; it is told that there is such.

use super::super::table::is_id;
use super::super::{Core, EngineError};
use super::{Left, NOBODY, cookie};
use crate::backend::{Ask, Family};
use crate::model::{ProcessInfo, ProcessState, Who, WhoKind};
use crate::session::{Seen, log::Log, look};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whose a process is that carries a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// A command's that runs.
    Living,
    /// Left by a command of ours.
    Left,
    /// It may be a living command's of another daemon.
    Another,
}

impl Core {
    /// Looks for strays on a backend and gives them rows. Gives them, and the processes of which it cannot be told whether they are.
    pub(crate) async fn find(self: &Arc<Self>, backend: &str, operator: bool) -> Result<(Vec<ProcessInfo>, Vec<u32>), EngineError> {
        let place = self.place(Some(backend))?;
        let name = place.settings.name.clone();
        place
            .reach(operator.then_some("a look for strays"), false)
            .await
            .map_err(|e| EngineError::Unavailable { message: format!("{name}: {}", e.message), fix: e.fix })?;
        let settings = place.follow_settings(self.far_cap());
        let looked = look(place.connection.backend(), &settings, None).await;
        let looked = looked.map_err(|error| EngineError::Unavailable { message: error.to_string(), fix: None })?;
        let mut by_command: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
        for seen in looked.seen {
            // Our own scripts carry one too.
            if let Some(of) = seen.process.clone().filter(|of| is_id(of)) {
                by_command.entry(of).or_default().push(seen);
            }
        }
        let mut others = Vec::new();
        for (of, seen) in by_command {
            match self.whose(&of, &name, &seen) {
                Whose::Living => {}
                Whose::Another => others.extend(seen.iter().map(|seen| seen.pid)),
                Whose::Left => {
                    let family = Family { pid: NOBODY, start_time: None, age: None, cookie: cookie(&of) };
                    // It may have ended with its command just now.
                    match place.connection.backend().family(family.clone(), Ask::Survivors).await {
                        Ok(found) if found.alive.is_empty() => {}
                        Ok(found) => drop(self.add_stray(self.left(&of, &name, &seen, family, found.alive))),
                        Err(e) => return Err(EngineError::Unavailable { message: format!("{name}: {}", e.message), fix: e.fix }),
                    }
                }
            }
        }
        let mut rows = self.state().table.running();
        rows.retain(|row| row.backend == name && row.state == ProcessState::Stray);
        Ok((rows, others))
    }

    fn whose(&self, of: &str, backend: &str, seen: &[Seen]) -> Whose {
        let mine = seen.iter().any(|seen| seen.daemon.as_ref() == Some(&self.shared.daemon_id));
        let row = {
            let state = self.state();
            let held = state.strays.held.values().any(|held| held.of == of && held.backend == backend);
            if held {
                return Whose::Left;
            }
            let gone = state.retention.has(of).then_some(true);
            state.table.get(of).map(|entry| entry.info.state.is_ended()).or(gone)
        };
        match row {
            Some(false) => Whose::Living,
            Some(true) => Whose::Left,
            None if mine => Whose::Left,
            None => Whose::Another,
        }
    }

    fn left(&self, of: &str, backend: &str, seen: &[Seen], family: Family, pids: Vec<u32>) -> Left {
        if let Some((info, log)) = self.row_with_log(of) {
            return Left::of(&info, family, pids, log);
        }
        let named = seen.iter().map(|seen| seen.in_session.as_str()).find(|name| !name.is_empty() && !name.contains(char::is_control));
        Left {
            of: of.to_owned(),
            backend: backend.to_owned(),
            session: named.unwrap_or("-").chars().take(80).collect(),
            who: Who { kind: WhoKind::System, name: "quarterdeck".into(), peer_pid: None },
            cwd: String::new(),
            family,
            pids,
            boot: None,
            // Nothing of it comes here any more.
            log: finished(self.log_path(of)),
        }
    }
}

/// A log into which nothing is written.
pub(super) fn finished(path: std::path::PathBuf) -> Arc<Log> {
    let log = Log::create(path, 0);
    log.finish();
    log
}
