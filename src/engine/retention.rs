//! How long ended rows and logs are kept.
//!
//! Invariant: what runs keeps its row and its log. Nothing wakes up while there is nothing to drop.

use super::{Core, EngineError, State, sweep};
use crate::model::{Millis, ProcessId};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Weak;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Rows are dropped at most this often: many that end one after the other then cost one look.
const PAUSE: Duration = Duration::from_secs(1);
/// While rows come to their time, the logs' folder is looked at this often for their size.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// A command that ran for longer has its log dated at its end: what it wrote may be older than the logs that go.
const LONG: Millis = 3_600_000;

/// What is kept, and what is known of what was.
#[derive(Default)]
pub(crate) struct Retention {
    /// Ids whose rows are gone and whose logs may be there.
    logged: BTreeSet<ProcessId>,
    /// Whether rows' times are waited for.
    waits: bool,
}

impl Retention {
    /// Whether an id was another command's, whose log may be there.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.logged.contains(id)
    }
}

impl Core {
    /// Drops what the table need not keep, and has the next row's time waited for. Called with every end.
    pub(crate) fn trim(&self, state: &mut State) {
        self.drop_rows(state);
        if !state.retention.waits {
            self.retained.notify_one();
        }
    }

    fn drop_rows(&self, state: &mut State) {
        let limits = &state.config.limits;
        let before = self.shared.clock.now() - Millis::try_from(limits.ended_for.as_millis()).unwrap_or(Millis::MAX / 2);
        let dropped = state.table.trim(limits.ended_kept, before);
        state.retention.logged.extend(dropped);
    }

    /// When the next row's time is over.
    fn next_trim(&self) -> Option<Millis> {
        let mut state = self.state();
        // Without a word to whoever waits: that is who asks, and would never rest.
        self.drop_rows(&mut state);
        let keep = Millis::try_from(state.config.limits.ended_for.as_millis()).unwrap_or(Millis::MAX / 2);
        let due = state.table.oldest_end().map(|ended| ended.saturating_add(keep));
        state.retention.waits = due.is_some();
        due
    }

    /// The logs that must stay: of what runs, and of what writes to the log of the command that left it.
    fn logs_in_use(&self) -> BTreeSet<ProcessId> {
        let rows = self.state().table.running();
        rows.into_iter().flat_map(|row| [Some(row.id), row.stray.map(|stray| stray.of)]).flatten().collect()
    }

    /// Drops old logs; gives when the next one's time is over.
    async fn sweep(&self) -> Option<Instant> {
        let (folder, limits, keep) = (self.shared.paths.logs(), self.limits(), self.logs_in_use());
        let swept = tokio::task::spawn_blocking(move || sweep::old_logs(&folder, limits.log_days, limits.logs_bytes, &keep));
        let oldest = swept.await.ok().flatten()?;
        let due = oldest + Duration::from_secs(u64::from(self.limits().log_days) * 86_400);
        // One that is due and cannot be removed is tried again a while later.
        let left = due.duration_since(SystemTime::now()).unwrap_or(SWEEP_EVERY);
        Instant::now().checked_add(left)
    }

    /// Says where the log of a command is whose row is gone.
    pub(super) fn or_its_log(&self, process: &str, error: EngineError) -> EngineError {
        let path = self.log_path(process);
        match error {
            EngineError::NotFound(_) if self.state().retention.has(process) => EngineError::NotFound(format!(
                "{process} has ended and is no longer in the table; if its log is still kept, it is {}",
                path.display()
            )),
            error => error,
        }
    }

    /// Where the log of a command is.
    pub(crate) fn log_path(&self, id: &str) -> PathBuf {
        self.shared.paths.logs().join(format!("{id}.log"))
    }

    /// Has the days of a log begin with the end of its command.
    pub(super) fn date_log(&self, id: &str, started: Millis) {
        if self.shared.clock.now() - started < LONG {
            return;
        }
        let path = self.log_path(id);
        drop(tokio::task::spawn_blocking(move || {
            let dated = std::fs::File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            if let Err(error) = dated
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(%error, path = %path.display(), "failed to date a log");
            }
        }));
    }

    /// Takes in the ids of the logs that are there.
    pub(crate) async fn take_in_logs(&self) {
        let folder = self.shared.paths.logs();
        let ids = tokio::task::spawn_blocking(move || sweep::ids(&folder)).await.unwrap_or_default();
        self.state().retention.logged.extend(ids);
    }
}

/// Drops rows and logs when they are due, as long as the engine lives.
pub(crate) async fn keep(core: Weak<Core>) {
    let Some(retained) = core.upgrade().map(|core| core.retained.clone()) else { return };
    let mut log_due = None;
    let mut swept: Option<Instant> = None;
    loop {
        let row_due = {
            let Some(core) = core.upgrade() else { return };
            let now = Instant::now();
            if swept.is_none_or(|at| at + SWEEP_EVERY <= now) || log_due.is_some_and(|due| due <= now) {
                log_due = core.sweep().await;
                swept = Some(now);
            }
            core.next_trim().map(|at| core.shared.clock.instant(at).max(now + PAUSE))
        };
        let due = row_due.into_iter().chain(log_due).min();
        tokio::select! {
            () = retained.notified() => {}
            () = at(due) => {}
        }
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
