//! A shell that is ready for one command: started, with the snapshot loaded or about to be; and the one that is kept warm.
//!
//! Invariant: a warm shell runs nothing by itself, counts as nothing, and is used only for the generation and the connection
//! that it was made for.

use super::handle::Session;
use super::state::Snapshot;
use crate::backend::{BackendError, Environment, Shell, Start};
use crate::shell::options::Options;
use crate::shell::wrap::{First, Source};
use futures::FutureExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

/// The next shell is started so long after a command's end, unless it is wanted before: starting a program holds up the
/// thread that hands the result on.
const AFTERWARDS: Duration = Duration::from_millis(1);
/// Where the files of a command would be, where there is no place for them.
const NOWHERE: &str = "/dev/null/qd";

/// A shell that waits for its command.
pub(super) struct Prepared {
    pub(super) shell: Shell,
    pub(super) nonce: String,
    /// The name of the files that the command leaves.
    pub(super) leave: String,
    /// What it starts from.
    pub(super) base: Arc<Snapshot>,
    /// The session's folder when it was made.
    pub(super) folder: Option<String>,
    /// Whether it was made for a text with a trap on EXIT.
    pub(super) shim: bool,
}

/// The place of the warm shell.
#[derive(Default)]
pub(super) struct Warm(Mutex<Option<Slot>>);

struct Slot {
    generation: u64,
    epoch: u64,
    leave: String,
    coming: oneshot::Receiver<Prepared>,
    /// Somebody waits for it.
    wanted: Arc<Notify>,
    starting: AbortHandle,
}

impl Session {
    /// Starts a shell for the snapshot and sends it the first stage. `on`: only on the connection with this number.
    pub(super) async fn prepare(&self, base: Arc<Snapshot>, leave: String, shim: bool, on: Option<u64>) -> Result<Prepared, BackendError> {
        let nonce = super::random_hex(8);
        let settings = &self.place.settings;
        let start =
            Start { nonce: nonce.clone(), shell: settings.shell, environment: Environment::Empty, timeout: settings.start_timeout, on };
        let shell = self.place.backend.start(start).await?;
        let folder = self.state().folder.clone();
        let mut prepared = Prepared { shell, nonce, leave, base, folder, shim };
        if prepared.is_bash() {
            let base = self.state().base.clone();
            let stage = self.with_first(&prepared, &base, crate::shell::wrap::first);
            // A failure shows when the command is sent, or in the exit.
            let _ = prepared.shell.stdin.write_all(&stage).await;
        }
        Ok(prepared)
    }

    /// Gives what the first stage is made of. `base`: the options of a plain shell.
    pub(super) fn with_first<T>(&self, p: &Prepared, base: &Options, use_it: impl FnOnce(&First<'_>) -> T) -> T {
        let prefix = |id: &str| p.folder.as_ref().map_or_else(|| NOWHERE.to_owned(), |folder| format!("{folder}/{id}"));
        let files = prefix(&p.base.id);
        let source = match &p.base.carried {
            Some(texts) => Source::Carried { variables: &texts.variables, functions: &texts.functions },
            None => Source::Files(&files),
        };
        let transient = self.transient();
        use_it(&First {
            nonce: &p.nonce,
            source,
            leave: &prefix(&p.leave),
            late: p.base.late || !p.can_load_early(),
            options: &p.base.options,
            base,
            transient: &transient,
            shim: p.shim,
        })
    }

    /// Names that are never in a snapshot.
    pub(super) fn transient(&self) -> Vec<String> {
        let agent_set = self.state().agent_set;
        let settings = &self.place.settings;
        let mut names = settings.secret_names.clone();
        names.extend(settings.forwarded.keys().cloned());
        if !agent_set {
            names.push("AI_AGENT".to_owned());
        }
        names
    }

    /// Starts the next shell in the background, unless one for the present state is there or coming.
    pub(super) fn prewarm(self: &Arc<Self>) {
        let Some(base) = self.state().snapshot.clone() else { return };
        let epoch = self.place.epoch();
        let mut place = self.warm.0.lock().unwrap_or_else(PoisonError::into_inner);
        if place.as_ref().is_some_and(|slot| slot.generation == base.generation && slot.epoch == epoch) {
            return;
        }
        let (send, coming) = oneshot::channel();
        let leave = super::random_hex(6);
        let (session, generation, name) = (self.clone(), base.generation, leave.clone());
        let wanted = Arc::new(Notify::new());
        let want = wanted.clone();
        let task = tokio::spawn(async move {
            // Either way it is time.
            let _ = tokio::time::timeout(AFTERWARDS, want.notified()).await;
            match session.prepare(base, name, false, Some(epoch)).await {
                // Nobody may want it any more: dropped, it ends by itself.
                Ok(prepared) => drop(send.send(prepared)),
                Err(error) => tracing::debug!(%error, session = session.place.name, "no warm shell"),
            }
        });
        let old = place.replace(Slot { generation, epoch, leave, coming, wanted, starting: task.abort_handle() });
        drop(place);
        self.discard(old);
    }

    /// Takes the warm shell if it fits; waits for one that is just starting. Cancel safe: a shell that was waited for is
    /// dropped and ends.
    pub(super) async fn take_warm(&self, base: &Arc<Snapshot>) -> Option<Prepared> {
        let slot = self.warm.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        if slot.generation != base.generation || slot.epoch != self.place.epoch() {
            self.discard(Some(slot));
            return None;
        }
        slot.wanted.notify_one();
        let leave = slot.leave;
        // It may not have started, or have ended meanwhile (TMOUT, a kill).
        let mut came = slot.coming.await.ok();
        let alive = came.as_mut().is_some_and(|prepared| (&mut prepared.shell.exit).now_or_never().is_none());
        // One that stands behind a flood answers later than a new one that does not.
        let held_up = |p: &Prepared| p.shell.held_up.as_ref().is_some_and(|held_up| held_up());
        if !alive || came.as_ref().is_some_and(held_up) {
            self.state().litter.push(leave);
            return None;
        }
        came
    }

    /// Throws the warm shell away: when the session is idle for long or the backend is short of channels. The next command
    /// starts one of its own, and after it there is a warm one again.
    pub fn cool(&self) {
        let slot = self.warm.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.discard(slot);
    }

    /// Waits until the warm shell has ended by itself, and leaves it in its place.
    #[cfg(test)]
    pub(super) async fn warm_has_ended(&self) {
        let mut slot = self.warm.0.lock().unwrap_or_else(PoisonError::into_inner).take().expect("a warm shell is on its way");
        slot.wanted.notify_one();
        let mut prepared = slot.coming.await.expect("the warm shell starts");
        let exit = prepared.shell.exit.await;
        prepared.shell.exit = std::future::ready(exit).boxed();
        let (send, coming) = oneshot::channel();
        drop(send.send(prepared));
        slot.coming = coming;
        *self.warm.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(slot);
    }

    fn discard(&self, slot: Option<Slot>) {
        if let Some(slot) = slot {
            slot.starting.abort();
            self.state().litter.push(slot.leave);
        }
    }
}

impl Prepared {
    /// Whether it is bash.
    pub(super) fn is_bash(&self) -> bool {
        self.shell.ready.kind == "bash"
    }

    /// bash before 4.4 cannot tell what would break the waiting.
    fn can_load_early(&self) -> bool {
        let mut numbers = self.shell.ready.version.split(['.', '(']).map(|n| n.parse::<u32>().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (4, 4)
    }
}
