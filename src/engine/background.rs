//! Background processes: started, followed, ended, and found again by the next daemon.
//!
//! Invariant: what is believed of one comes from its backend alone, where its number, its start time and the boot id were compared;
//! until then it is `unknown`, which is never shown as ended.

use super::core::State;
use super::follow::follow;
use super::place::Place;
use super::run::One;
use super::{Core, EngineError};
use crate::backend::{Ask, Members};
use crate::model::{EndedBy, Event, ExecResult, Outcome, ProcessId, ProcessInfo, ProcessState, Stream, Warning, WarningCode};
use crate::session::{Begin, Begun, Cap, Followed, Heard, Input, Spot, Stop, log::Log};
use futures::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};

/// After so many bytes a log is brought to the disk.
const SYNC_EVERY: u64 = 4 << 20;
/// After an ending that was verified its code comes within so long, or never.
pub(super) const CODE_LIMIT: Duration = Duration::from_secs(10);

/// One that runs.
pub(super) struct Background {
    /// Where it is; with a number of 0 nobody knows yet whether it was started.
    pub(super) spot: Spot,
    /// Bytes of its log that were read.
    pub(super) offset: u64,
    /// Of these, what is known to be on this machine's disk.
    synced: u64,
    ended: watch::Sender<bool>,
    /// What we did to it that may be its end.
    why: Option<Why>,
}

impl Background {
    /// Makes one of which so much was read; `ended` is told its end.
    pub(super) fn new(spot: Spot, offset: u64, ended: watch::Sender<bool>) -> Self {
        Self { spot, offset, synced: 0, ended, why: None }
    }
}

/// What we did to it.
#[derive(Clone, Copy, Debug)]
enum Why {
    Ended(EndedBy),
    Killed,
}

/// All that run, and who follows them.
#[derive(Default)]
pub(crate) struct Backgrounds {
    pub(super) running: BTreeMap<ProcessId, Background>,
    /// Those that are being started.
    pub(super) intents: BTreeMap<ProcessId, Spot>,
    /// By backend: wakes its follower.
    followers: BTreeMap<String, Arc<Notify>>,
}

impl One {
    /// Starts the command in the background; the result says that it runs, or why not.
    pub(super) async fn run_background(
        self,
        stdin: Option<Input>,
        mut stops: mpsc::Receiver<Stop>,
        tell: oneshot::Sender<ExecResult>,
        ended_tell: watch::Sender<bool>,
    ) {
        let began = std::time::Instant::now();
        let launched = match self.reach(&mut stops).await {
            Ok(()) => self.launch(stdin, &mut stops).await,
            Err(outcome) => Err(outcome),
        };
        let Begun { spot, cwd, warnings } = match launched {
            Ok(launched) => launched,
            Err(outcome) => {
                let intent = self.core.state().background.intents.remove(&self.info.id);
                // Once it was written down that it will be started, what is sent may have arrived.
                if let (Some(spot), Outcome::BackendUnavailable { reason }) = (intent, &outcome) {
                    return self.in_doubt(spot, reason, began.elapsed(), tell, ended_tell).await;
                }
                self.log.finish();
                let ended = self.not_run(outcome, began.elapsed());
                let result = self.result(ended).await;
                self.core.finish(&self.place, &self.info.id, &result);
                ended_tell.send_replace(true);
                let _ = tell.send(result);
                // Whoever started it has heard that it did not start.
                self.core.end_was_told(&self.info.id);
                self.core.checkpoint().await;
                self.core.after_end(&self.place);
                return;
            }
        };
        self.core.begin(&self.place, &self.info.id, spot.pid, cwd.clone());
        let family = spot.family();
        if spot.open {
            self.core.open_background_stdin(&spot, &self.info.backend);
        }
        let one = Background::new(spot, 0, ended_tell);
        {
            let mut state = self.core.state();
            state.background.intents.remove(&self.info.id);
            state.background.running.insert(self.info.id.clone(), one);
            if let Some(entry) = state.table.get_mut(&self.info.id) {
                entry.info.warnings.extend(warnings.iter().cloned());
            }
        }
        self.core.checkpoint().await;
        self.core.follow(&self.info.backend);
        let mut ended = self.not_run(Outcome::Running, began.elapsed());
        ended.cwd = cwd;
        ended.warnings = warnings;
        let result = self.result(ended).await;
        let _ = tell.send(result);
        self.core.after_end(&self.place);
        self.core.use_changed(&self.place);
        // Somebody wanted it ended while it was being started.
        if let Ok(Stop::End { by, grace }) = stops.try_recv() {
            self.core.note_why(&self.info.id, Why::Ended(by));
            if let Err(error) = self.place.connection.backend().family(family, Ask::End { grace }).await {
                tracing::warn!(%error, id = self.info.id, "a background process could not be ended at its start");
            }
        }
    }
}

impl One {
    /// Keeps a process of which nobody knows whether it was started, until its backend can be asked.
    async fn in_doubt(self, spot: Spot, reason: &str, took: Duration, tell: oneshot::Sender<ExecResult>, ended_tell: watch::Sender<bool>) {
        let (id, backend) = (self.info.id.clone(), self.info.backend.clone());
        if spot.open {
            self.core.open_background_stdin(&spot, &backend);
        }
        {
            let mut state = self.core.state();
            state.background.running.insert(id.clone(), Background::new(spot, 0, ended_tell));
            if let Some(entry) = state.table.get_mut(&id) {
                entry.info.state = ProcessState::Unknown;
                self.core.shared.tell(Event::Process { process: Box::new(entry.shown()) });
            }
        }
        self.core.checkpoint().await;
        self.core.follow(&backend);
        let reason = format!(
            "{reason}; it is unknown whether the command was started: it is looked for once {backend} is there, and `qd ps -a` says what became of it"
        );
        let result = self.result(self.not_run(Outcome::TransportLost { reason }, took)).await;
        let _ = tell.send(result);
        self.core.after_end(&self.place);
        self.core.use_changed(&self.place);
    }

    /// Brings its stdin there, when it has one, and starts it.
    async fn launch(&self, stdin: Option<Input>, stops: &mut mpsc::Receiver<Stop>) -> Result<Begun, Outcome> {
        let begin = Begin { stdin: self.stdin_kind(stdin.is_some()), cap: self.core.far_cap() };
        if let Some(input) = stdin {
            let id = &self.info.id;
            let brought = tokio::select! {
                brought = self.session.bring_input(id, input) => brought.map_err(crate::session::not_started),
                by = ending(stops) => Err(Outcome::Cancelled { ended_by: by }),
            };
            if let Err(outcome) = brought {
                if let Err(error) = self.session.forget_input(id).await {
                    tracing::warn!(%error, id, "the stdin of a process that was not started stays on its backend for a week");
                }
                return Err(outcome);
            }
        }
        let core = self.core.clone();
        let intend = move |spot: Spot| -> BoxFuture<'static, ()> { Box::pin(core.clone().intend(spot)) };
        self.session.launch(&self.command(None), begin, &intend).await.map_err(crate::session::not_started)
    }
}

/// Waits until somebody wants it ended.
async fn ending(stops: &mut mpsc::Receiver<Stop>) -> EndedBy {
    loop {
        match stops.recv().await {
            Some(Stop::End { by, .. }) => return by,
            // Whoever asked hears that nothing runs that could get it.
            Some(Stop::Signal { .. }) => {}
            None => return EndedBy::Daemon,
        }
    }
}

impl State {
    /// Refuses one more where there are too many; asked under the lock that it is added under.
    pub(super) fn room_in_background(&self, backend: &str) -> Result<(), EngineError> {
        let most = self.config.limits.background;
        let here = self.table.running().iter().filter(|row| row.background && row.backend == backend).count();
        if here < most {
            return Ok(());
        }
        let text = format!(
            "{here} background processes run on {backend}, and the limit is {most} (limits.background); `qd ps -b {backend}` lists them, `qd kill` ends some"
        );
        Err(EngineError::Refused(text))
    }
}

impl Core {
    /// What a log keeps on its backend of what is not fetched: as much as ours does.
    pub(super) fn far_cap(&self) -> Cap {
        let head = self.limits().log_bytes;
        Cap { head, tail: crate::session::log::tail(head) }
    }

    /// Whether background processes run on a backend.
    pub(crate) fn has_background(&self, backend: &str) -> bool {
        self.state().background.followers.contains_key(backend)
    }

    /// Has the background processes of a backend followed, or its follower look again.
    pub(super) fn follow(self: &Arc<Self>, backend: &str) {
        let mut state = self.state();
        if let Some(wake) = state.background.followers.get(backend) {
            return wake.notify_one();
        }
        let wake = Arc::new(Notify::new());
        state.background.followers.insert(backend.to_owned(), wake.clone());
        drop(state);
        tokio::spawn(follow(Arc::downgrade(self), backend.to_owned(), wake));
    }

    /// Has every follower look again: the config has changed.
    pub(super) fn wake_followers(&self) {
        self.state().background.followers.values().for_each(|wake| wake.notify_one());
    }

    /// Gives what is to be followed on a backend; with nothing left the follower ends.
    pub(super) fn followed(&self, backend: &str) -> Option<Vec<Followed>> {
        let mut state = self.state();
        let of = |id: &str| state.table.find(id).is_ok_and(|entry| entry.info.backend == backend);
        let kept = |id: &str| state.table.find(id).map_or(0, |entry| entry.log.safe_until());
        let list: Vec<_> = state
            .background
            .running
            .iter()
            .filter(|(id, _)| of(id))
            .map(|(id, one)| Followed { spot: one.spot.clone(), offset: one.offset, kept: kept(id).min(one.offset).min(one.synced) })
            .collect();
        if list.is_empty() {
            state.background.followers.remove(backend);
            return None;
        }
        Some(list)
    }

    /// Shows the background processes of a backend as running or as unknown.
    pub(super) fn show_background(&self, backend: &str, known: bool) {
        let mut state = self.state();
        let ids: Vec<ProcessId> = state.background.running.keys().cloned().collect();
        for id in ids {
            let Some(entry) = state.table.get_mut(&id).filter(|entry| entry.info.backend == backend) else { continue };
            let to = match (&entry.info.state, known) {
                (ProcessState::Unknown | ProcessState::Starting, true) => ProcessState::Running,
                (ProcessState::Running | ProcessState::Starting, false) => ProcessState::Unknown,
                _ => continue,
            };
            entry.info.state = to;
            self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
        }
    }

    /// Takes in what was heard of a process; gives its id when it has ended. That its log has grown is told by its follower.
    pub(super) async fn heard(self: &Arc<Self>, id: ProcessId, heard: Heard) -> Option<ProcessId> {
        match heard {
            Heard::Output(bytes) => {
                let log = self.log_of_background(&id)?;
                log.append(Stream::Out, &bytes).await;
                let due = {
                    let mut state = self.state();
                    let one = state.background.running.get_mut(&id)?;
                    one.offset += bytes.len() as u64;
                    one.offset - one.synced >= SYNC_EVERY
                };
                if due {
                    self.sync_log(&id, &log).await;
                }
                None
            }
            Heard::Gap(len) => {
                let log = self.log_of_background(&id)?;
                log.skip(len, "they were not on its backend any more when they were to be fetched").await;
                let mut state = self.state();
                state.background.running.get_mut(&id)?.offset += len;
                None
            }
            Heard::Ended { outcome, no_directory } => {
                let log = self.log_of_background(&id)?;
                // Its row is final when it is told: the file is whole by then.
                log.finish();
                log.flush().await;
                log.told();
                self.looked_through(&id).await;
                let one = self.state().background.running.remove(&id)?;
                self.end_background(&id, &one, outcome, no_directory);
                self.checkpoint().await;
                one.ended.send_replace(true);
                // An ending of ours was verified; what was never known to run has no number, and left nothing.
                if one.why.is_none() && one.spot.pid != 0 {
                    tokio::spawn(self.clone().look_for_left(id.clone(), one.spot));
                }
                self.tell_end(&id);
                self.idle.notify_waiters();
                Some(id)
            }
        }
    }

    /// Brings a log to the disk: only then its backend may let go of what was fetched.
    async fn sync_log(&self, id: &str, log: &Log) {
        let (until, path) = (log.safe_until(), self.log_path(id));
        match tokio::task::spawn_blocking(move || crate::session::log::sync(&path)).await {
            Ok(Ok(())) => {
                if let Some(one) = self.state().background.running.get_mut(id) {
                    one.synced = until;
                }
            }
            Ok(Err(error)) => tracing::warn!(%error, id, "a log could not be brought to the disk: its backend keeps what was fetched"),
            Err(error) => tracing::error!(%error, id, "a log could not be brought to the disk"),
        }
    }

    fn log_of_background(&self, id: &str) -> Option<Arc<Log>> {
        let state = self.state();
        state.background.running.get(id)?;
        state.table.find(id).ok().map(|entry| entry.log.clone())
    }

    fn end_background(&self, id: &str, one: &Background, outcome: Outcome, no_directory: bool) {
        let outcome = match (one.why, outcome) {
            // Its time was over before that.
            (_, Outcome::TimedOut) => Outcome::TimedOut,
            (Some(Why::Ended(ended_by)), _) => Outcome::Cancelled { ended_by },
            (Some(Why::Killed), Outcome::Lost { .. }) => Outcome::Signaled { signal: "SIGKILL".into() },
            (_, outcome) => outcome,
        };
        let now = self.shared.clock.now();
        let mut state = self.state();
        if let Some(entry) = state.table.get_mut(id) {
            entry.info.exit_code_meaning = match &outcome {
                Outcome::Exited { .. } if no_directory => Some("the directory cannot be entered; nothing ran".to_owned()),
                Outcome::Exited { exit_code } => crate::session::exit_code_meaning(&entry.info.command, *exit_code),
                _ => None,
            };
            // Its output is not at hand here, and a hint that needs it fails open.
            entry.info.hints = super::hints::of(&outcome, no_directory, &entry.info.command, "");
            if let Some((bytes, why)) = entry.log.lost() {
                let text = format!("{bytes} bytes of the output are not in the log: {why}");
                entry.info.warnings.push(Warning::new(WarningCode::OutputLost, text));
            }
            entry.info.state = ProcessState::Ended(outcome);
            entry.info.ended = Some(now);
            self.date_log(id, entry.info.started);
            self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
        }
        self.trim(&mut state);
    }

    fn note_why(&self, id: &str, why: Why) {
        if let Some(one) = self.state().background.running.get_mut(id) {
            one.why = Some(why);
        }
    }

    /// Where a background process is, and its backend; none when it is not one, or has ended.
    pub(super) fn background(&self, id: &str) -> Option<(Spot, Result<Arc<Place>, EngineError>)> {
        let (spot, backend) = {
            let state = self.state();
            let spot = state.background.running.get(id)?.spot.clone();
            (spot, state.table.find(id).ok()?.info.backend.clone())
        };
        Some((spot, self.place(Some(&backend))))
    }

    /// Asks a backend about the processes of one that runs there.
    pub(super) async fn ask_background(
        &self,
        place: Result<Arc<Place>, EngineError>,
        spot: &Spot,
        ask: Ask,
    ) -> Result<Members, EngineError> {
        let place = place?;
        let name = &place.settings.name;
        if spot.pid == 0 {
            let message = format!("it is not known yet whether {} was started on {name}, so nothing was sent to it", spot.id);
            return Err(EngineError::Unavailable { message, fix: Some(format!("`qd ps` shows once {name} was asked")) });
        }
        let failed = |e: crate::backend::BackendError| EngineError::Unavailable {
            message: format!("{name} cannot be asked about {}, to which nothing was done: {}", spot.id, e.message),
            fix: e.fix,
        };
        place.reach(None, false).await.map_err(failed)?;
        place.connection.backend().family(spot.family(), ask).await.map_err(failed)
    }

    /// Ends a background process and waits for its end; none when it is not one.
    pub(super) async fn end_in_background(
        self: &Arc<Self>,
        id: &str,
        by: EndedBy,
        grace: Duration,
    ) -> Option<Result<ProcessInfo, EngineError>> {
        let (spot, place) = self.background(id)?;
        self.note_why(id, Why::Ended(by));
        let done = match self.ask_background(place, &spot, Ask::End { grace }).await {
            Ok(done) => done,
            Err(error) => {
                self.restore(id, None);
                return Some(Err(error));
            }
        };
        if !done.verified {
            let text = format!("some of its processes could not be ended: {:?}", done.alive);
            self.restore(id, Some(Warning { pids: done.alive, ..Warning::new(WarningCode::KillUnverified, text) }));
            return Some(self.state().table.find(id).map(super::table::Entry::shown));
        }
        let backend = self.state().table.find(id).map(|entry| entry.info.backend.clone());
        if let Ok(backend) = backend {
            self.follow(&backend);
        }
        match tokio::time::timeout(CODE_LIMIT, self.ended(id)).await {
            Ok(ended) => Some(ended),
            Err(_) => {
                self.restore(id, None);
                Some(self.state().table.find(id).map(super::table::Entry::shown))
            }
        }
    }

    /// Sends a signal to a background process; none when it is not one.
    pub(super) async fn signal_in_background(&self, id: &str, signal: i32) -> Option<Result<(ProcessInfo, Vec<u32>), EngineError>> {
        let (spot, place) = self.background(id)?;
        let sent = self.ask_background(place, &spot, Ask::Signal(signal)).await;
        if signal == nix::libc::SIGKILL && sent.as_ref().is_ok_and(|members| !members.alive.is_empty()) {
            self.note_why(id, Why::Killed);
        }
        Some(sent.and_then(|members| {
            if members.alive.is_empty() {
                return Err(EngineError::Refused(format!(
                    "no process of {id} got the signal: it has just ended, or belongs to another account"
                )));
            }
            self.state().table.find(id).map(|entry| (entry.shown(), members.alive))
        }))
    }

    /// Shows one that could not be ended as it was: as running where its backend can be asked, until its follower says more.
    fn restore(&self, id: &str, warning: Option<Warning>) {
        let mut state = self.state();
        let Some(one) = state.background.running.get_mut(id) else { return };
        one.why = None;
        let backend = state.table.find(id).map(|entry| entry.info.backend.clone()).unwrap_or_default();
        let up = state.places.get(&backend).is_some_and(|place| place.connection.backend().about().link.borrow().up);
        if let Some(entry) = state.table.get_mut(id) {
            entry.info.state = if up { ProcessState::Running } else { ProcessState::Unknown };
            entry.info.warnings.extend(warning);
            self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
        }
    }
}
