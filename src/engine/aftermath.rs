//! What becomes of commands whose link, or whose daemon, was lost.
//!
//! Invariant: never run again; each one is named to a person exactly once, with what is known of it.

use super::journal::Line;
use super::place::Place;
use super::stray::Left;
use super::{Core, State};
use crate::backend::{Ask, Family};
use crate::config::OnLost;
use crate::model::{Event, Health, HealthState, Level, Millis, Outcome, ProcessInfo, ProcessState, Warning, WarningCode};
use crate::session::log::Log;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// Between TERM and KILL for what a lost link left behind.
const GRACE: Duration = Duration::from_secs(2);
/// Lost commands remembered per engine; above it the oldest are forgotten (the far side ends them by itself).
const MOST_LOST: usize = 256;
/// Differences between round trips that no watcher is told of, beside a quarter of the time itself.
const ROUND_TRIP_NOISE_US: u64 = 500;

/// A command whose link was lost.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    backend: String,
    id: String,
    pid: u32,
    /// A moment at which its shell was there: a process of its number that began later is another's.
    there: Millis,
}

/// The log of a command that a daemon before this one left, as far as it was written; an empty one where it cannot be taken up.
/// Blocking.
pub(crate) fn log_of(logs: &std::path::Path, line: &Line, cap: u64) -> Arc<Log> {
    let path = logs.join(format!("{}.log", line.id));
    Log::reopen(path.clone(), cap).unwrap_or_else(|error| {
        tracing::warn!(error, id = line.id, "the log of a command that was lost cannot be read");
        Log::create(path, 0)
    })
}

impl Core {
    /// Remembers a command whose link was lost, to look for it when the link is back.
    pub(crate) fn lost_on(&self, state: &mut State, place: &Place, id: &str) {
        let found = state.table.get_mut(id).and_then(|entry| entry.info.pid.zip(entry.begun));
        let Some((pid, there)) = found else { return };
        if state.lost.len() >= MOST_LOST {
            state.lost.remove(0);
        }
        state.lost.push(Lost { backend: place.settings.name.clone(), id: id.to_owned(), pid, there });
    }

    /// Takes in what a daemon before this one left in its journal: rows that say so, a notice, and a warning for the next
    /// command of each session.
    pub(crate) fn take_in_journal(self: &Arc<Self>, lines: Vec<(Line, Arc<Log>)>, written: Millis) {
        for (line, log) in lines {
            let text = format!("{} `{}`", line.id, short(&line.command));
            let reason = "the daemon before this one ended unexpectedly while it ran: unknown whether it finished; it was not run again";
            self.shared.notice(
                Level::Alert,
                Some(&line.backend),
                format!("{text} on {} was running when the daemon before this one ended unexpectedly; it was ended or lost, and is not run again", line.backend),
            );
            let mut state = self.state();
            state.lost_sessions.push((line.backend.clone(), line.session.clone(), text));
            if let (Some(pid), true) = (line.pid, line.backend != crate::engine::LOCAL) {
                state.lost.push(Lost { backend: line.backend.clone(), id: line.id.clone(), pid, there: written });
            }
            log.finish();
            let id = line.id.clone();
            let info = ProcessInfo {
                id: line.id,
                backend: line.backend,
                session: line.session,
                command: line.command,
                who: line.who,
                state: ProcessState::Ended(Outcome::TransportLost { reason: reason.into() }),
                started: line.started,
                ended: Some(self.shared.clock.now()),
                pid: line.pid,
                stray: None,
                timeout_ms: None,
                variables: Vec::new(),
                restarts: 0,
                output_bytes: 0,
                reads_stdin: false,
                background: false,
                detached: false,
                notify: line.notify,
                watch: Vec::new(),
                cwd: line.cwd,
                exit_code_meaning: None,
                warnings: Vec::new(),
                hints: Vec::new(),
            };
            state.table.add(info, log, mpsc::channel(1).0, watch::channel(true).1);
            drop(state);
            self.tell_end(&id);
        }
    }

    /// Gives the warning that the first command of a session gets after a daemon was lost.
    pub(crate) fn take_lost_warning(&self, backend: &str, session: &str) -> Option<Warning> {
        let mut state = self.state();
        let mut mine = Vec::new();
        state.lost_sessions.retain(|(b, s, text)| {
            let hit = b == backend && s == session;
            if hit {
                mine.push(text.clone());
            }
            !hit
        });
        (!mine.is_empty()).then(|| {
            let list = mine.join(", ");
            Warning::new(
                WarningCode::StateNotSaved,
                format!("the daemon ended unexpectedly while this session ran {list}: what that changed in the session was not kept"),
            )
        })
    }
}

/// Follows one backend's health: tells watchers, says once that it was lost and once that it is back, and looks after the
/// commands that the loss took. Ends with the place.
pub(crate) async fn follow_health(core: Weak<Core>, place: Weak<Place>) {
    let Some(mut health) = place.upgrade().map(|p| p.connection.health().clone()) else { return };
    let mut lost = false;
    let mut told: Option<Health> = None;
    while health.changed().await.is_ok() {
        let now = health.borrow_and_update().clone();
        let (Some(core), Some(place)) = (core.upgrade(), place.upgrade()) else { return };
        if !told.as_ref().is_some_and(|told| is_alike(told, &now)) {
            told = Some(now.clone());
            core.tell_backend(&place);
        }
        let name = &place.settings.name;
        match now.state {
            HealthState::Reconnecting if !lost => {
                lost = true;
                let why = now.reason.unwrap_or_default();
                core.shared.notice(Level::Notice, Some(name), format!("{name}: {why}; trying again by itself"));
            }
            HealthState::Down if !lost => {
                lost = true;
                let (why, fix) = (now.reason.unwrap_or_default(), now.fix.unwrap_or_default());
                core.shared.notice(Level::Alert, Some(name), format!("{name}: {why}; {fix}"));
            }
            HealthState::Up => {
                if std::mem::take(&mut lost) {
                    core.shared.notice(Level::Notice, Some(name), format!("{name}: connected again"));
                }
                tokio::spawn(look_after(core, place));
            }
            _ => {}
        }
    }
}

/// Whether a check has brought nothing that a watcher would see: every answer comes at another time, and round trips vary.
fn is_alike(told: &Health, now: &Health) -> bool {
    let near = match (told.round_trip_us, now.round_trip_us) {
        (Some(before), Some(after)) => before.abs_diff(after) <= (before / 4).max(ROUND_TRIP_NOISE_US),
        (before, after) => before == after,
    };
    near && *told == Health { last_heard: told.last_heard, round_trip_us: told.round_trip_us, ..now.clone() }
}

/// Looks for the commands that the last loss took, ends them unless they are to be kept, and says what became of each.
async fn look_after(core: Arc<Core>, place: Arc<Place>) {
    let name = &place.settings.name;
    let mine: Vec<Lost> = {
        let mut state = core.state();
        let (mine, others) = state.lost.drain(..).partition(|lost| &lost.backend == name);
        state.lost = others;
        mine
    };
    for lost in mine {
        let what = core.became_of(&place, &lost).await;
        core.shared.notice(Level::Notice, Some(name), format!("{name}: the lost command {} {what}", lost.id));
        let mut state = core.state();
        if let Some(entry) = state.table.get_mut(&lost.id)
            && let ProcessState::Ended(Outcome::TransportLost { reason }) = &mut entry.info.state
        {
            reason.push_str(&format!("; when the link was back, it {what}"));
            core.shared.tell(Event::Process { process: Box::new(entry.shown()) });
        }
    }
}

impl Core {
    /// Looks for a lost command and ends it, unless it is to be kept; says what became of it.
    async fn became_of(self: &Arc<Self>, place: &Arc<Place>, lost: &Lost) -> String {
        let age = Duration::from_millis(u64::try_from(self.shared.clock.now() - lost.there).unwrap_or(0));
        let family = Family { pid: lost.pid, start_time: None, age: Some(age), cookie: format!("QD_PROCESS={}", lost.id) };
        let backend = place.connection.backend();
        let stray = |pids: Vec<u32>| {
            let (info, log) = self.row_with_log(&lost.id)?;
            self.add_stray(Left::of(&info, family.clone(), pids, log))
        };
        let row = |pids: &Vec<u32>| stray(pids.clone()).map_or_else(String::new, |id| format!("stray {id}, "));
        match backend.family(family.clone(), Ask::Survivors).await {
            Err(error) => format!("could not be looked for: {error}"),
            Ok(found) if found.alive.is_empty() => "had ended by itself (code unknown)".to_owned(),
            Ok(found) if place.settings.on_lost == OnLost::Keep => {
                format!("was still running and goes on ({}pids {:?}), as on_lost: keep says", row(&found.alive), found.alive)
            }
            Ok(_) => match backend.family(family.clone(), Ask::End { grace: GRACE }).await {
                Ok(done) if done.verified => "was still running and has been ended".to_owned(),
                Ok(done) => {
                    let row = row(&done.alive);
                    format!("was still running; it could not be verified that all of it ended ({row}left: {:?})", done.alive)
                }
                Err(error) => format!("was still running; ending it failed: {error}"),
            },
        }
    }
}

pub(super) fn short(command: &str) -> String {
    let line = command.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(60).collect();
    if cut.len() < command.len() { format!("{cut}...") } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_brings_nothing_new_is_not_told() {
        let told = Health { state: HealthState::Up, round_trip_us: Some(20_000), last_heard: Some(1), ..Health::default() };
        let after = |us| Health { round_trip_us: Some(us), last_heard: Some(9), ..told.clone() };
        assert!(is_alike(&told, &after(24_000)) && is_alike(&told, &after(16_000)));
        assert!(!is_alike(&told, &after(26_000)));
        assert!(!is_alike(&told, &Health { state: HealthState::Degraded, ..after(20_000) }));
        assert!(!is_alike(&told, &Health { round_trip_us: None, ..told.clone() }));
        let near = Health { round_trip_us: Some(300), ..told.clone() };
        assert!(is_alike(&near, &Health { round_trip_us: Some(700), ..near.clone() }));
    }
}
