//! What is done for a session between commands: its own file, the copy of its snapshot, old files on the backend.
//!
//! Invariant: it never delays a result, never starts a command, and never sources or changes the state of the session.

use super::error::SessionError;
use super::files;
use super::handle::Session;
use super::own::Texts;
use super::state::{Snapshot, files_of};
use crate::model::WarningCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// After a command the copy is made when the session has been quiet for so long: a burst of commands then costs one copy.
const QUIET: Duration = Duration::from_secs(1);

/// The one task that keeps a session.
#[derive(Default)]
pub(super) struct Keeper {
    /// Whether the own file is older than the state.
    dirty: AtomicBool,
    changed: Notify,
    running: Mutex<bool>,
    /// Whether left files were looked for since the session was opened.
    swept: AtomicBool,
    /// Held while the own file is written, so that an older state never follows a newer one.
    saving: tokio::sync::Mutex<()>,
}

impl Session {
    /// Says that the state has changed: it is written to the session's own file soon. Must be called on a runtime.
    pub(super) fn keep(self: &Arc<Self>) {
        self.keeper.dirty.store(true, Ordering::Release);
        let mut running = self.keeper.running.lock().unwrap_or_else(PoisonError::into_inner);
        if *running {
            self.keeper.changed.notify_one();
        } else {
            *running = true;
            tokio::spawn(keeper(self.clone()));
        }
    }

    /// Writes the session's own file now: at an orderly end of the daemon. Cancel safe.
    pub async fn flush(&self) {
        self.save().await;
    }

    /// Whether nothing is left to be done between commands.
    #[cfg(test)]
    pub(super) fn is_kept(&self) -> bool {
        !*self.keeper.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn save(&self) {
        let _held = self.keeper.saving.lock().await;
        let kept = {
            let state = self.state();
            if state.closed {
                return;
            }
            state.to_kept(&self.place.id, self.place.backend_name(), &self.place.name)
        };
        let own = self.own.clone();
        if let Err(error) = files::blocking(move || own.save(&kept)).await {
            tracing::error!(%error, session = self.place.name, "the session's file could not be written");
            let text = format!(
                "the session's file on the daemon's machine could not be written ({error}): a restart of the daemon would lose changes"
            );
            self.state().say(WarningCode::StateNotSaved, text);
        }
    }

    /// Removes the copies of other generations than this one; with none, everything on the daemon's side.
    pub(super) async fn remove_own(&self, keep: Option<u64>) -> Result<(), SessionError> {
        let _held = self.keeper.saving.lock().await;
        let own = self.own.clone();
        let path = self.place.settings.state_dir.clone();
        files::blocking(move || own.remove_others(keep)).await.map_err(|source| SessionError::Own { path, source })
    }

    /// Copies the snapshot to the daemon's side and removes files that are not needed any more.
    async fn tidy(&self) -> Result<(), SessionError> {
        let (snapshot, copy, folder, closed) = {
            let state = self.state();
            (state.snapshot.clone(), state.copy, state.folder.clone(), state.closed)
        };
        // It waits for the next command where the link is down: a person may have closed it.
        if !self.place.backend.about().link.borrow().up {
            return Ok(());
        }
        let Some(snapshot) = snapshot.filter(|_| !closed) else { return Ok(()) };
        if copy != Some(snapshot.generation) {
            let texts = self.texts(&snapshot).await?;
            let (own, generation) = (self.own.clone(), snapshot.generation);
            let copied = files::blocking(move || own.save_copy(generation, &texts)).await;
            copied.map_err(|source| SessionError::Own { path: self.place.settings.state_dir.clone(), source })?;
            self.state().copy = Some(generation);
            self.save().await;
            if let Err(error) = self.remove_own(Some(generation)).await {
                tracing::debug!(%error, "old copies stay");
            }
        }
        let Some(folder) = folder else { return Ok(()) };
        if !self.keeper.swept.swap(true, Ordering::AcqRel) {
            let mut keep: Vec<String> = self.state().past.iter().map(|s| s.id.clone()).collect();
            keep.push(snapshot.id.clone());
            files::sweep(&self.place, &folder, &keep).await?;
        }
        drop(snapshot);
        let ids = self.state().take_removable();
        // On a far machine this costs a shell: not for a few files.
        let few = if self.place.same_files() { 0 } else { 10 };
        if ids.len() <= few {
            self.state().litter.extend(ids);
            return Ok(());
        }
        let names: Vec<String> = ids.iter().flat_map(|id| files_of(id)).collect();
        if let Err(error) = files::remove(&self.place, &folder, &names).await {
            self.state().litter.extend(ids);
            return Err(error);
        }
        Ok(())
    }

    /// The texts of a snapshot.
    pub(super) async fn texts(&self, snapshot: &Snapshot) -> Result<Texts, SessionError> {
        if let Some(texts) = &snapshot.carried {
            return Ok(texts.clone());
        }
        let mut all = self.texts_of(&[&snapshot.id]).await?;
        Ok(all.pop().unwrap_or_default())
    }

    /// The texts of several snapshots, by the names of their files.
    pub(super) async fn texts_of(&self, ids: &[&str]) -> Result<Vec<Texts>, SessionError> {
        let (folder, is_bash) = {
            let state = self.state();
            (state.folder.clone().unwrap_or_default(), state.kind == "bash")
        };
        let ends: &[&str] = if is_bash { &["v", "f"] } else { &["v"] };
        let names: Vec<String> = ids.iter().flat_map(|id| ends.iter().map(move |end| format!("{id}.{end}"))).collect();
        let found = files::read(&self.place, &folder, &names).await?;
        let whole: Option<Vec<Vec<u8>>> = found.into_iter().collect();
        let whole = whole.ok_or_else(|| SessionError::Errand {
            what: "read the session's snapshot",
            backend: self.place.backend_name().to_owned(),
            why: format!("a file in {folder} is gone"),
        })?;
        let texts = |pair: &[Vec<u8>]| Texts { variables: pair[0].clone(), functions: pair.get(1).cloned().unwrap_or_default() };
        Ok(whole.chunks(ends.len()).map(texts).collect())
    }
}

/// Runs as long as there is something to keep.
async fn keeper(session: Arc<Session>) {
    let mut tidied = false;
    loop {
        if session.keeper.dirty.swap(false, Ordering::AcqRel) {
            session.save().await;
            tidied = false;
        }
        if tidied {
            let mut running = session.keeper.running.lock().unwrap_or_else(PoisonError::into_inner);
            if !session.keeper.dirty.load(Ordering::Acquire) {
                *running = false;
                return;
            }
            continue;
        }
        tokio::select! {
            () = session.keeper.changed.notified() => {}
            () = tokio::time::sleep(QUIET) => {
                if let Err(error) = session.tidy().await {
                    tracing::debug!(%error, session = session.place.name, "the copy of the snapshot waits for the next command");
                }
                tidied = true;
            }
        }
    }
}
