//! The session itself: what the engine holds.
//!
//! Invariant: two handles of one session share everything; nothing here waits for a command.

use super::error::SessionError;
use super::own::{self, Own};
use super::place::{Place, listed};
use super::prepare::Warm;
use super::state::{State, show};
use super::{Settings, files, keep::Keeper};
use crate::backend::Backend;
use crate::model::{SessionDetail, SessionInfo};
use crate::shell::{functions, state};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A named shell state on one backend.
pub struct Session {
    pub(super) place: Place,
    pub(super) own: Own,
    state: Mutex<State>,
    /// Held while the login environment is captured or a lost snapshot is sent again.
    pub(super) opening: tokio::sync::Mutex<()>,
    /// Held while a command's state is taken over.
    pub(super) adopting: tokio::sync::Mutex<()>,
    pub(super) warm: Warm,
    pub(super) keeper: Keeper,
}

impl Session {
    /// Opens the session of that name: the one that was there before, or a new one. Reads one small file; does not connect.
    pub fn open(backend: Arc<dyn Backend>, name: &str, settings: Settings) -> Result<Arc<Self>, SessionError> {
        let own = Own::new(&settings.state_dir, &backend.about().name, name);
        let kept = own.load()?.filter(|kept| !kept.id.is_empty());
        let id = kept.as_ref().map_or_else(|| super::random_hex(8), |kept| kept.id.clone());
        let state = kept.map(State::from_kept).unwrap_or_default();
        let place = Place { backend, settings, name: name.to_owned(), id };
        Ok(Arc::new(Self {
            place,
            own,
            state: Mutex::new(state),
            opening: tokio::sync::Mutex::default(),
            adopting: tokio::sync::Mutex::default(),
            warm: Warm::default(),
            keeper: Keeper::default(),
        }))
    }

    /// Lists the sessions that have a file in the folder, open or not. Blocking, short.
    pub fn known(state_dir: &Path) -> std::io::Result<Vec<SessionInfo>> {
        let row = |kept: own::Kept| SessionInfo {
            cwd: show(&Vec::from(kept.cwd)),
            backend: kept.backend,
            name: kept.name,
            generation: kept.generation,
            running: 0,
        };
        Ok(own::all(state_dir)?.into_iter().map(row).collect())
    }

    /// Its row. The directory is empty before the first command of a new session.
    pub fn info(&self) -> SessionInfo {
        let state = self.state();
        SessionInfo {
            backend: self.place.backend_name().to_owned(),
            name: self.place.name.clone(),
            cwd: show(&state.cwd),
            generation: state.generation,
            running: state.running,
        }
    }

    /// The kind of shell that runs its commands, once that is known.
    pub fn shell_kind(&self) -> Option<String> {
        Some(self.state().kind.clone()).filter(|kind| !kind.is_empty())
    }

    /// What it holds. Connects when it must; captures the login environment of a new session. Cancel safe.
    pub async fn detail(self: &Arc<Self>) -> Result<SessionDetail, SessionError> {
        let snapshot = self.ready().await?;
        let base = self.state().base.clone();
        let texts = self.texts(&snapshot).await?;
        let damaged = || SessionError::Errand {
            what: "read the session's snapshot",
            backend: self.place.backend_name().to_owned(),
            why: "it is not what a shell wrote; `qd session reset` makes a new one".to_owned(),
        };
        let is_bash = self.state().kind == "bash";
        let read = if is_bash { state::variables } else { crate::shell::wrap_sh::variables };
        let mut variables = read(&texts.variables).ok_or_else(damaged)?;
        let functions = functions::read(&texts.functions).ok_or_else(damaged)?;
        let umask = variables.remove(state::UMASK).map(|s| show(&s).trim_start_matches("umask ").to_owned()).unwrap_or_default();
        let secret = &self.place.settings.secret_names;
        Ok(SessionDetail {
            info: self.info(),
            variables: variables.iter().map(|(k, v)| (show(k), show(v))).filter(|(name, _)| !listed(secret, name)).collect(),
            functions: functions::names(&functions),
            aliases: functions::aliases(&functions),
            options: snapshot.options.differences(&base),
            umask,
        })
    }

    /// Captures the login environment anew; the directory becomes the first one again. Refused while commands run. Cancel
    /// safe: the capture goes on.
    pub async fn reset(self: &Arc<Self>) -> Result<SessionInfo, SessionError> {
        if self.state().running > 0 {
            return Err(SessionError::Busy(self.place.name.clone()));
        }
        self.capture_again().await?;
        Ok(self.info())
    }

    /// Closes the session for good: its folder on the backend and its own file are removed. Refused while commands run. A
    /// backend that is away keeps the folder until it is cleared as a leftover. Cancel safe until the own file is gone.
    pub async fn close(self: &Arc<Self>) -> Result<(), SessionError> {
        let folder = {
            let mut state = self.state();
            if state.running > 0 {
                return Err(SessionError::Busy(self.place.name.clone()));
            }
            state.closed = true;
            state.folder.clone()
        };
        self.cool();
        self.remove_own(None).await?;
        if let Some(folder) = folder
            && let Err(error) = files::remove_all(&self.place, &folder).await
        {
            if !super::errand::is_away(&error) {
                return Err(error);
            }
            tracing::info!(%error, session = self.place.name, "the session's folder stays until the next connect");
        }
        Ok(())
    }

    /// The state, for a moment; never held across an await.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
