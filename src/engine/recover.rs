//! Writing the background processes down, and taking over those of a daemon before this one.
//!
//! Invariant: what is taken over is only shown until its own backend was asked; of each log as much is kept as its file has whole,
//! and what is fetched again is said.

use super::Core;
use super::background::Background;
use super::checkpoint::{self, Checkpoint, Kept, KeptEnd};
use super::notify::Notify;
use super::place::Place;
use super::texts::Texts;
use crate::backend::BackendError;
use crate::model::{Level, Outcome, ProcessInfo, ProcessState, Warning, WarningCode};
use crate::session::log::{self, Log};
use crate::session::{Became, Cap, Heard, Spot, became};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{mpsc, watch};

/// One that runs, with its log as it was found.
struct Found {
    kept: Kept,
    log: Arc<Log>,
    /// What of the log is fetched once more, and why.
    anew: Option<String>,
}

/// One that has ended, with its log as it was found: when that is not whole, what there is of it and why.
struct FoundEnd {
    kept: KeptEnd,
    log: Arc<Log>,
    broken: Option<String>,
}

/// What was written down last.
#[derive(Default)]
pub(crate) struct Written {
    /// How often that had been asked for then.
    asked: u64,
    texts: Texts,
}

impl Core {
    fn checkpoint_path(&self) -> PathBuf {
        self.shared.paths.background_file()
    }

    /// Writes down that a process is about to be started.
    pub(super) async fn intend(self: Arc<Self>, spot: Spot) {
        self.state().background.intents.insert(spot.id.clone(), spot);
        self.checkpoint().await;
    }

    /// Writes down what runs and has run in the background; when it returns, all that was so at the call is on the disk. Those who ask
    /// while it is being written share the next write.
    pub(super) async fn checkpoint(self: &Arc<Self>) {
        let mine = self.checkpoints.fetch_add(1, Ordering::AcqRel) + 1;
        let mut last = self.checkpointing.clone().lock_owned().await;
        if last.asked >= mine {
            return;
        }
        let asked = self.checkpoints.load(Ordering::Acquire);
        let (processes, ended) = self.to_keep();
        let (path, core) = (self.checkpoint_path(), self.clone());
        // The lock goes with the write: when the caller is dropped that goes on.
        let written = tokio::task::spawn_blocking(move || {
            let mut checkpoint = Checkpoint::new(boot_id(), processes, ended);
            last.texts.clean(&core, checkpoint.texts());
            checkpoint::write(&path, &checkpoint).map(|()| last.asked = asked)
        });
        if let Ok(Err(error)) = written.await {
            let text = format!(
                "what runs in the background could not be written down ({error}): after a restart of the daemon it is not found again"
            );
            self.shared.notice(Level::Alert, None, text);
        }
    }

    /// Writes it down because of one process, when that is of those.
    pub(super) async fn checkpoint_of(self: &Arc<Self>, id: &str) {
        let kept = self.state().table.find(id).is_ok_and(|entry| entry.info.background);
        if kept {
            self.checkpoint().await;
        }
    }

    fn to_keep(&self) -> (Vec<Kept>, Vec<KeptEnd>) {
        let state = self.state();
        let (mut processes, mut ended) = (Vec::new(), Vec::new());
        for entry in state.table.entries().into_iter().filter(|entry| entry.info.background) {
            let id = &entry.info.id;
            let intended = state.background.intents.get(id);
            if entry.info.state.is_ended() {
                ended.push(KeptEnd::new(entry.shown(), &entry.log, entry.notify.is_open()));
            } else if let Some(spot) = state.background.running.get(id).map(|one| &one.spot).or(intended) {
                processes.push(Kept {
                    read: entry.log.written(),
                    log_cap: Some(entry.log.cap()),
                    holes: entry.log.holes(),
                    watched: entry.watching.as_ref().map_or(0, super::watch::Watching::told_to),
                    ..Kept::new(&entry.info, spot.clone())
                });
            }
        }
        (processes, ended)
    }

    /// Takes in what a daemon before this one had in the background. Nothing of what runs is believed before its backend was asked.
    pub(super) async fn take_in_checkpoint(self: &Arc<Self>) {
        let path = self.checkpoint_path();
        let shown = path.display().to_string();
        let (logs, cap) = (self.shared.paths.logs(), self.limits().log_bytes);
        let read = tokio::task::spawn_blocking(move || {
            let checkpoint = checkpoint::read(&path)?;
            let found: Vec<Found> = checkpoint.processes.into_iter().map(|kept| reopen(&logs, kept, cap)).collect();
            let ended: Vec<_> = checkpoint.ended.into_iter().map(|kept| reopen_ended(&logs, kept)).collect();
            Ok::<_, String>((found, ended))
        });
        let (found, ended) = match read.await {
            Ok(Ok(all)) => all,
            Ok(Err(why)) => {
                let text = format!("the background processes in {shown} are not taken over: {why}");
                return self.shared.notice(Level::Alert, None, text);
            }
            Err(error) => return tracing::error!(%error, "the background processes could not be taken over"),
        };
        for one in ended {
            self.take_in_ended(one);
        }
        let mut backends = Vec::new();
        for one in found {
            backends.push(one.kept.backend.clone());
            self.take_in(one);
        }
        self.trim(&mut self.state());
        backends.sort_unstable();
        backends.dedup();
        backends.iter().for_each(|backend| self.follow(backend));
    }

    fn take_in(self: &Arc<Self>, Found { kept, log, anew }: Found) {
        let Kept { backend, session, command, who, started, cwd, spot, notify, watch, watched, timeout_ms, variables, restarts, .. } = kept;
        if let Some(why) = anew {
            let text = format!("what {backend} still has of the output of {} is fetched again: {why}", spot.id);
            self.shared.notice(Level::Notice, Some(&backend), text);
        }
        let (ended_tell, ended) = watch::channel(false);
        let info = ProcessInfo {
            id: spot.id.clone(),
            backend,
            session,
            command,
            who,
            state: ProcessState::Unknown,
            started,
            ended: None,
            pid: (spot.pid > 0).then_some(spot.pid),
            output_bytes: 0,
            stray: None,
            timeout_ms,
            variables,
            restarts,
            reads_stdin: false,
            background: true,
            detached: true,
            notify,
            watch,
            cwd,
            exit_code_meaning: None,
            warnings: Vec::new(),
            hints: Vec::new(),
        };
        let (id, offset) = (spot.id.clone(), log.total());
        let (open, on) = (spot.open.then(|| spot.clone()), info.backend.clone());
        {
            let mut state = self.state();
            state.table.add(info, log, mpsc::channel(1).0, ended);
            state.background.running.insert(id.clone(), Background::new(spot, offset, ended_tell));
        }
        if let Some(spot) = open {
            self.open_background_stdin(&spot, &on);
        }
        self.look_through(&id, watched);
    }

    fn take_in_ended(self: &Arc<Self>, FoundEnd { kept, log, broken }: FoundEnd) {
        let KeptEnd { mut row, notify, .. } = kept;
        if let Some(why) = broken {
            row.warnings.push(Warning::new(WarningCode::OutputLost, format!("its output is not known any more: {why}")));
        }
        log.finish();
        let id = row.id.clone();
        {
            let mut state = self.state();
            state.table.add(row, log, mpsc::channel(1).0, watch::channel(true).1);
            if let Some(entry) = state.table.get_mut(&id) {
                entry.notify = Notify::new(notify);
            }
        }
        self.tell_end(&id);
    }

    fn found(&self, spot: Spot) {
        let mut state = self.state();
        if let Some(entry) = state.table.get_mut(&spot.id) {
            entry.info.pid = Some(spot.pid);
        }
        if let Some(one) = state.background.running.get_mut(&spot.id) {
            one.spot = spot;
        }
    }

    fn told_of(&self, spot: &Spot, what: &str) {
        let backend = self.state().table.get(&spot.id).map(|entry| entry.info.backend.clone());
        self.shared.notice(Level::Alert, backend.as_deref(), format!("{} {what}", spot.id));
    }

    /// Takes in what became of a process whose start nobody heard of.
    pub(super) async fn settle(self: &Arc<Self>, spot: &Spot, what: Became) {
        let outcome = match what {
            Became::Started(spot) => {
                self.found(spot);
                return self.checkpoint().await;
            }
            Became::NotStarted => {
                self.told_of(spot, "was never started: the link or the daemon went before it was");
                Outcome::SpawnFailed { reason: "the link or the daemon went before it was started: it did not run; run it again".into() }
            }
            Became::Unknown => {
                self.told_of(spot, "was being started when the link or the daemon went, and it is not known what came of it");
                Outcome::Lost { reason: "the link or the daemon went while it was being started: it is not known whether it ran".into() }
            }
        };
        self.heard(spot.id.clone(), Heard::Ended { outcome, no_directory: false }).await;
    }
}

/// Asks a backend about those of its processes whose start nobody heard of.
pub(super) async fn look_for(place: &Place, unborn: &[Spot], cap: Cap) -> Result<Vec<Became>, BackendError> {
    let settings = place.follow_settings(cap);
    let mut all = Vec::with_capacity(unborn.len());
    for spot in unborn {
        all.push(became(place.connection.backend(), &settings, spot).await?);
    }
    Ok(all)
}

/// Takes up the log of one that runs, where it ends: what was fetched is given back to its backend's disk, and may be nowhere else. One
/// that cannot be taken up is put aside. Blocking.
fn reopen(logs: &Path, kept: Kept, cap: u64) -> Found {
    let path = logs.join(format!("{}.log", kept.spot.id));
    let cap = kept.log_cap.unwrap_or(cap);
    let why = match Log::reopen(path.clone(), cap) {
        Ok(log) => {
            log.take_holes(&kept.holes);
            let short = kept.read.saturating_sub(log.total());
            let anew = (short > 0).then(|| format!("the last {short} bytes that it had are not in {}", path.display()));
            return Found { kept, log, anew };
        }
        Err(why) => why,
    };
    let aside = match log::put_aside(&path) {
        Ok(()) => format!("{why}; what there was is in {}.damaged", path.display()),
        Err(error) => format!("{why}; it could not be put aside: {error}"),
    };
    Found { log: Log::create(path, cap), anew: Some(aside), kept }
}

/// Takes up the log of one that has ended; without it an empty one, and why. Blocking.
fn reopen_ended(logs: &Path, kept: KeptEnd) -> FoundEnd {
    let path = logs.join(format!("{}.log", kept.row.id));
    let (log, broken) = match Log::reopen(path.clone(), kept.log_cap) {
        Ok(log) if log.total() == kept.row.output_bytes => {
            log.take_holes(&kept.holes);
            (log, None)
        }
        Ok(log) => {
            let why = format!("{} has {} of {} bytes", path.display(), log.total(), kept.row.output_bytes);
            (log, Some(why))
        }
        Err(why) => (Log::create(path, kept.log_cap), Some(why)),
    };
    FoundEnd { kept, log, broken }
}

/// The boot id of this machine; none where there is no such thing. Blocking.
fn boot_id() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|text| text.trim().to_owned())
}
