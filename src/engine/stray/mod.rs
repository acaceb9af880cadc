//! What commands leave running, as rows of their own: told, ended, and taken over as background processes.
//!
//! Invariant: a stray is named by what proves that its processes are of its command (the cookie, the shell's session, descent),
//! and by their start times; a number that is somebody else's by now is never signalled.

mod find;
mod kept;
mod watch;

use super::table::Entry;
use super::{Core, EngineError};
use crate::backend::{Ask, Family, Members};
use crate::model::redact::Redactor;
use crate::model::{EndedBy, Event, Millis, Outcome, ProcessId, ProcessInfo, ProcessState, Stray, Warning, WarningCode, Who};
use crate::session::{Look, Seen, Spot, log::Log};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch as channel};

/// Strays that have rows on one backend: more are told with their commands alone.
const MOST: usize = 256;
/// Characters of a stray's command line that a row shows.
const SHOWN_TEXT: usize = 4_000;
/// The number of no process: of what it names only the cookie tells.
const NOBODY: u32 = 4_194_304;
/// What is alive this long after a background process has ended is not merely on its way out.
const MOMENT: Duration = Duration::from_millis(200);

/// What a command left, when it gets a row.
pub(crate) struct Left {
    pub(crate) of: ProcessId,
    pub(crate) backend: String,
    pub(crate) session: String,
    pub(crate) who: Who,
    pub(crate) cwd: String,
    pub(crate) family: Family,
    pub(crate) pids: Vec<u32>,
    /// The backend's boot id when it began, where that is known.
    pub(crate) boot: Option<String>,
    /// Where its output goes.
    pub(crate) log: Arc<Log>,
}

/// What is known of one beside its row.
#[derive(Clone, Debug)]
struct Held {
    of: ProcessId,
    backend: String,
    family: Family,
    /// The backend's boot id, once it was looked at.
    boot: Option<String>,
    /// Its processes with their start times, once they were looked at.
    known: Vec<(u32, u64)>,
    adopted: bool,
    why: Option<Why>,
    ended: channel::Sender<bool>,
}

/// What we did to one.
#[derive(Clone, Copy, Debug)]
enum Why {
    Ended(EndedBy),
    Killed,
}

/// All that are alive.
pub(crate) struct Strays {
    held: BTreeMap<ProcessId, Held>,
    /// Wakes whoever waits for their ends: the config has changed.
    turned: channel::Sender<()>,
}

impl Default for Strays {
    fn default() -> Self {
        Self { held: BTreeMap::new(), turned: channel::Sender::new(()) }
    }
}

impl Held {
    /// Takes in what was seen of it. False when none of the processes that are known of it is there.
    fn see(&mut self, look: &Look) -> bool {
        self.boot = Some(look.boot.clone());
        let is_known = |seen: &&Seen| self.known.is_empty() || self.known.contains(&(seen.pid, seen.start));
        let known: Vec<(u32, u64)> = look.seen.iter().filter(is_known).map(|seen| (seen.pid, seen.start)).collect();
        let first = self.known.is_empty();
        if known.is_empty() {
            // The number of its shell may be another's session by now.
            self.family = Family { pid: NOBODY, start_time: None, age: None, ..self.family.clone() };
            return first;
        }
        if first && self.family.start_time.is_none() {
            // Nothing of it began before the first of them that is left.
            self.family.start_time = known.iter().map(|(_, start)| *start).min();
        }
        self.known = known;
        true
    }
}

impl Core {
    /// Gives what a command left a row, and the row's id; none above the limit. A command has one such row.
    pub(crate) fn add_stray(self: &Arc<Self>, left: Left) -> Option<ProcessId> {
        let id = self.fresh_id();
        let mut state = self.state();
        let same = state.strays.held.iter().find(|(_, held)| held.of == left.of && held.backend == left.backend).map(|(id, _)| id.clone());
        if let Some(id) = same {
            let entry = state.table.get_mut(&id)?;
            if let Some(stray) = entry.info.stray.as_mut().filter(|stray| stray.pids != left.pids) {
                stray.pids = left.pids;
                self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
            }
            return Some(id);
        }
        if state.strays.held.values().filter(|held| held.backend == left.backend).count() >= MOST {
            tracing::warn!(of = left.of, backend = left.backend, "too many strays: this one gets no row");
            return None;
        }
        let Left { of, backend, session, who, cwd, family, pids, boot, log } = left;
        let info = ProcessInfo {
            id: id.clone(),
            backend: backend.clone(),
            session,
            command: format!("(left by {of})"),
            who,
            state: ProcessState::Stray,
            started: self.shared.clock.now(),
            ended: None,
            pid: None,
            stray: Some(Box::new(Stray { of: of.clone(), pids, adopted_by: None })),
            timeout_ms: None,
            variables: Vec::new(),
            restarts: 0,
            output_bytes: 0,
            reads_stdin: false,
            background: false,
            detached: true,
            notify: false,
            watch: Vec::new(),
            cwd,
            exit_code_meaning: None,
            warnings: Vec::new(),
            hints: Vec::new(),
        };
        let held = Held { of, backend, family, boot, known: Vec::new(), adopted: false, why: None, ended: channel::Sender::new(false) };
        self.hold_stray(&mut state, info, log, held);
        Some(id)
    }

    /// Adds the row and has its end waited for.
    fn hold_stray(self: &Arc<Self>, state: &mut super::State, info: ProcessInfo, log: Arc<Log>, held: Held) {
        let id = info.id.clone();
        state.table.add(info, log, mpsc::channel(1).0, held.ended.subscribe());
        if let Some(entry) = state.table.get_mut(&id) {
            self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
        }
        state.strays.held.insert(id.clone(), held);
        tokio::spawn(watch::watch(Arc::downgrade(self), id));
    }

    /// Gives what a command left a row, and says so in its warnings.
    pub(super) fn name_left(self: &Arc<Self>, left: Left, warnings: &mut [Warning]) {
        let Some(id) = self.add_stray(left) else { return };
        for warning in warnings.iter_mut().filter(|warning| !warning.pids.is_empty()) {
            warning.message.push_str(&format!(" (stray {id})"));
            warning.stray = Some(id.clone());
        }
    }

    /// Looks for what a background process left, once it has ended.
    pub(super) async fn look_for_left(self: Arc<Self>, id: ProcessId, spot: Spot) {
        let family = spot.family();
        let place = self.row_with_log(&id).and_then(|(info, _)| self.place(Some(&info.backend)).ok());
        let Some(place) = place else { return };
        let mut alive: Option<Vec<u32>> = None;
        for _ in 0..2 {
            let found = match place.connection.backend().family(family.clone(), Ask::Survivors).await {
                Ok(found) => found.alive,
                Err(error) => return tracing::debug!(%error, id, "what is left of a background process could not be asked"),
            };
            // Its guardian goes when it has written down the end.
            let found = found.into_iter().filter(|pid| *pid != family.pid && alive.as_ref().is_none_or(|before| before.contains(pid)));
            let found: Vec<u32> = found.collect();
            if found.is_empty() {
                return;
            }
            if alive.is_none() {
                tokio::time::sleep(MOMENT).await;
            }
            alive = Some(found);
        }
        let (Some(pids), Some((info, log))) = (alive, self.row_with_log(&id)) else { return };
        let mut warnings = crate::session::orphans(pids.clone()).into_iter().collect::<Vec<_>>();
        self.name_left(Left { boot: Some(spot.boot), ..Left::of(&info, family, pids, log) }, &mut warnings);
        let mut state = self.state();
        if let Some(entry) = state.table.get_mut(&id) {
            entry.info.warnings.append(&mut warnings);
            self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
        }
    }

    /// A row and its log; none when it is gone.
    pub(super) fn row_with_log(&self, id: &str) -> Option<(ProcessInfo, Arc<Log>)> {
        let mut state = self.state();
        state.table.get_mut(id).map(|entry| (entry.info.clone(), entry.log.clone()))
    }

    /// Takes in what was seen of a stray. Gives what names it now; none when it has ended.
    fn looked(self: &Arc<Self>, id: &str, look: &Look) -> Option<Family> {
        let now = self.shared.clock.now();
        let mut state = self.state();
        let held = state.strays.held.get_mut(id)?;
        let first = held.known.is_empty();
        held.see(look);
        let (family, adopted) = (held.family.clone(), held.adopted);
        let seen: Vec<&Seen> = look.seen.iter().filter(|seen| held.known.contains(&(seen.pid, seen.start))).collect();
        let entry = state.table.get_mut(id)?;
        if !seen.is_empty() {
            if first {
                self.keep_strays_later();
                entry.info.started = seen.iter().map(|seen| now - Millis::try_from(seen.age_ms).unwrap_or(0)).min().unwrap_or(now);
            }
            entry.info.command = command_of(&seen);
            if let Some(stray) = &mut entry.info.stray {
                stray.pids = seen.iter().map(|seen| seen.pid).collect();
            }
        }
        if entry.info.state == ProcessState::Unknown {
            entry.info.state = if adopted { ProcessState::Running } else { ProcessState::Stray };
        }
        self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
        Some(family)
    }

    /// Shows an adopted one as unknown: its backend cannot be asked.
    fn stray_unknown(&self, id: &str) {
        let mut state = self.state();
        if let Some(entry) = state.table.get_mut(id).filter(|entry| entry.info.state == ProcessState::Running) {
            entry.info.state = ProcessState::Unknown;
            self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
        }
    }

    /// Writes the end of a stray into its row.
    async fn stray_ended(self: &Arc<Self>, id: &str, outcome: Outcome) {
        let now = self.shared.clock.now();
        let held = {
            let mut state = self.state();
            let Some(held) = state.strays.held.remove(id) else { return };
            let outcome = match (held.why, outcome) {
                (Some(Why::Ended(ended_by)), _) => Outcome::Cancelled { ended_by },
                (Some(Why::Killed), Outcome::CodeUnknown) => Outcome::Signaled { signal: "SIGKILL".into() },
                (_, outcome) => outcome,
            };
            if let Some(entry) = state.table.get_mut(id) {
                entry.info.state = ProcessState::Ended(outcome);
                entry.info.ended = Some(now);
                self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
            }
            self.trim(&mut state);
            held
        };
        self.keep_strays().await;
        held.ended.send_replace(true);
        self.idle.notify_waiters();
        if let Ok(place) = self.place(Some(&held.backend)) {
            self.use_changed(&place);
        }
    }

    /// Whether strays that were adopted run on a backend.
    pub(crate) fn has_adopted(&self, backend: &str) -> bool {
        self.state().strays.held.values().any(|held| held.adopted && held.backend == backend)
    }

    /// Has whoever waits for the ends of strays look again: the config has changed.
    pub(super) fn wake_strays(&self) {
        self.state().strays.turned.send_replace(());
    }

    fn stray(&self, id: &str) -> Option<Held> {
        self.state().strays.held.get(id).cloned()
    }

    fn note_stray(&self, id: &str, why: Option<Why>) {
        if let Some(held) = self.state().strays.held.get_mut(id) {
            held.why = why;
        }
    }

    async fn ask_stray(&self, id: &str, held: &Held, ask: Ask) -> Result<Members, EngineError> {
        let place = self.place(Some(&held.backend))?;
        let failed = |e: crate::backend::BackendError| EngineError::Unavailable {
            message: format!("{} cannot be asked about {id}, which was not ended: {}", held.backend, e.message),
            fix: e.fix,
        };
        place.reach(None, false).await.map_err(failed)?;
        place.connection.backend().family(held.family.clone(), ask).await.map_err(failed)
    }

    /// Ends a stray, adopted or not; none when it is not one.
    pub(super) async fn end_stray(self: &Arc<Self>, id: &str, by: EndedBy, grace: Duration) -> Option<Result<ProcessInfo, EngineError>> {
        let held = self.stray(id)?;
        self.note_stray(id, Some(Why::Ended(by)));
        let failed = match self.ask_stray(id, &held, Ask::End { grace }).await {
            Ok(done) if done.verified => {
                self.stray_ended(id, Outcome::CodeUnknown).await;
                return Some(self.state().table.find(id).map(Entry::shown));
            }
            Ok(done) => {
                let text = format!("some of its processes could not be ended: {:?}", done.alive);
                Ok(Warning { pids: done.alive, ..Warning::new(WarningCode::KillUnverified, text) })
            }
            Err(error) => Err(error),
        };
        let mut state = self.state();
        // It may have ended by itself meanwhile.
        if let Some(held) = state.strays.held.get_mut(id) {
            held.why = None;
            let as_it_was = if held.adopted { ProcessState::Running } else { ProcessState::Stray };
            if let Some(entry) = state.table.get_mut(id) {
                entry.info.state = as_it_was;
                entry.info.warnings.retain(|warning| warning.code != WarningCode::KillUnverified);
                entry.info.warnings.extend(failed.as_ref().ok().cloned());
                self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
            }
        }
        Some(failed.and_then(|_| state.table.find(id).map(Entry::shown)))
    }

    /// Sends a signal to a stray, adopted or not; none when it is not one.
    pub(super) async fn signal_stray(&self, id: &str, signal: i32) -> Option<Result<(ProcessInfo, Vec<u32>), EngineError>> {
        let held = self.stray(id)?;
        let sent = self.ask_stray(id, &held, Ask::Signal(signal)).await;
        if signal == nix::libc::SIGKILL && sent.as_ref().is_ok_and(|members| !members.alive.is_empty()) {
            self.note_stray(id, Some(Why::Killed));
        }
        Some(sent.and_then(|members| {
            if members.alive.is_empty() {
                let text = format!("no process of {id} got the signal: it has just ended, or belongs to another account");
                return Err(EngineError::Refused(text));
            }
            self.state().table.find(id).map(|entry| (entry.shown(), members.alive))
        }))
    }

    /// Makes a background process of a stray. Refused for what is none, and above the limit of background processes.
    pub(super) async fn adopt(self: &Arc<Self>, who: Who, process: &str) -> Result<ProcessInfo, EngineError> {
        let (row, backend) = {
            let mut state = self.state();
            let info = &state.table.find(process)?.info;
            may_be_adopted(info)?;
            let (id, backend) = (info.id.clone(), info.backend.clone());
            state.room_in_background(&backend)?;
            let Some(held) = state.strays.held.get_mut(&id) else {
                return Err(EngineError::Refused(format!("{id} has just ended")));
            };
            held.adopted = true;
            let entry = state.table.get_mut(&id).ok_or_else(|| EngineError::Internal(format!("{id} has no row")))?;
            entry.info.state = ProcessState::Running;
            entry.info.background = true;
            entry.info.pid = entry.info.stray.as_ref().and_then(|stray| stray.pids.first().copied());
            if let Some(stray) = &mut entry.info.stray {
                stray.adopted_by = Some(who);
            }
            let row = entry.shown();
            self.shared.tell(Event::Process { process: Box::new(row.clone()) });
            (row, backend)
        };
        self.keep_strays().await;
        if let Ok(place) = self.place(Some(&backend)) {
            self.use_changed(&place);
            if !place.connection.backend().about().link.borrow().up {
                // Who waits for its end connects from now on.
                self.wake_strays();
            }
        }
        Ok(row)
    }
}

impl Left {
    /// What a command of which there is a row left.
    pub(crate) fn of(info: &ProcessInfo, family: Family, pids: Vec<u32>, log: Arc<Log>) -> Self {
        Self {
            of: info.id.clone(),
            backend: info.backend.clone(),
            session: info.session.clone(),
            who: info.who.clone(),
            cwd: info.cwd.clone(),
            family,
            pids,
            boot: None,
            log,
        }
    }
}

/// Refuses to adopt what is no stray.
fn may_be_adopted(info: &ProcessInfo) -> Result<(), EngineError> {
    let id = &info.id;
    let text = match (&info.stray, &info.state) {
        (Some(_), ProcessState::Ended(_)) => format!("{id} has ended"),
        (Some(stray), _) => match &stray.adopted_by {
            Some(who) => format!("{id} is a background process already: {} adopted it", who.name),
            None if info.state == ProcessState::Stopping => format!("{id} is being ended"),
            None => return Ok(()),
        },
        (None, ProcessState::Ended(_)) => format!("{id} has ended; what it left running has a row of its own (`qd ps`)"),
        (None, _) if info.background => format!("{id} is a background process already"),
        (None, _) => format!("{id} is no stray: it runs, and somebody waits for it"),
    };
    Err(EngineError::Refused(text))
}

/// The cookie of a command.
fn cookie(of: &str) -> String {
    format!("QD_PROCESS={of}")
}

/// What the command lines of some processes say, of those that are nobody's child of the others.
fn command_of(seen: &[&Seen]) -> String {
    let is_child = |one: &Seen| seen.iter().any(|other| other.pid == one.parent);
    let roots: Vec<&str> = seen.iter().filter(|one| !is_child(one)).map(|one| one.command.as_str()).collect();
    let text = roots.join(" & ");
    let text = if text.trim().is_empty() { "(without a command line)".to_owned() } else { text };
    Redactor::default().text(&text).chars().take(SHOWN_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pid: u32, parent: u32, start: u64, command: &str) -> Seen {
        Seen {
            pid,
            parent,
            session: 1,
            start,
            age_ms: 0,
            process: None,
            daemon: None,
            in_session: String::new(),
            command: command.to_owned(),
        }
    }

    fn held() -> Held {
        let family = Family { pid: 5, start_time: None, age: None, cookie: "QD_PROCESS=k7f3q2".into() };
        Held {
            of: "k7f3q2".into(),
            backend: "gpu".into(),
            family,
            boot: None,
            known: vec![],
            adopted: false,
            why: None,
            ended: channel::Sender::new(false),
        }
    }

    #[test]
    fn a_number_that_is_anothers_now_names_nothing() {
        let look = |seen| Look { boot: "b".into(), seen };
        let mut one = held();
        assert!(one.see(&look(vec![seen(10, 1, 100, "a"), seen(11, 10, 120, "b")])));
        assert_eq!((one.family.pid, one.family.start_time), (5, Some(100)));
        // One of them has ended, and its number is another's.
        assert!(one.see(&look(vec![seen(10, 1, 900, "other"), seen(11, 1, 120, "b")])));
        assert_eq!((one.family.pid, one.known.as_slice()), (5, [(11, 120)].as_slice()));
        assert!(!one.see(&look(vec![seen(11, 1, 950, "other")])));
        assert_eq!((one.family.pid, one.family.start_time), (NOBODY, None), "the cookie alone tells");
    }

    #[test]
    fn a_stray_is_called_what_its_own_command_lines_say() {
        let (a, b, c) =
            (seen(10, 1, 1, "sh -c x"), seen(11, 10, 1, "child"), seen(12, 1, 1, "curl -H 'Authorization: Bearer abcdefgh12345678'"));
        let text = command_of(&[&a, &b, &c]);
        assert!(text.starts_with("sh -c x & curl") && !text.contains("child") && !text.contains("abcdefgh12345678"), "{text}");
        assert_eq!(command_of(&[&seen(1, 0, 0, "")]), "(without a command line)");
    }
}
