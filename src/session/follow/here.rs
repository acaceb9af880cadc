//! Following background processes whose files are this machine's own: the kernel says when one writes or ends.
//!
//! Invariant: nothing happens here while no process writes or ends; a flood costs one message for each look, not for each write.

use super::{FollowSettings, Followed, Heard};
use crate::backend::{BackendError, ErrorKind};
use look::Look;
use rustix::event::epoll;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::Instant;

mod look;

/// Looks come at most this often: a steady trickle is told in pieces.
const PAUSE: Duration = Duration::from_millis(10);
/// Where the kernel cannot tell (its watches are used up), files are looked at this often.
const BLIND: Duration = Duration::from_millis(250);

/// Follows processes of this machine.
pub(super) struct Here {
    /// Ready when a file was written to or a process has ended.
    events: AsyncFd<OwnedFd>,
    /// None while a thread has it.
    look: Option<Look>,
    list: Vec<Followed>,
    heard: VecDeque<(String, Heard)>,
    /// Something was told since it was asked.
    told: bool,
    looked: Option<Instant>,
    /// Nobody has heard yet that it looks: its first look is answered whatever it finds.
    new: bool,
}

impl Here {
    /// Starts to follow.
    pub(super) fn open(settings: &FollowSettings) -> Result<Self, BackendError> {
        let fault = |e: io::Error| BackendError::new(ErrorKind::Internal, format!("background processes cannot be followed: {e}"));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| fault(e.into()))?;
        let look = Look::new(epoll.try_clone().map_err(fault)?, settings.cap);
        let events = events(epoll).map_err(fault)?;
        Ok(Self { events, look: Some(look), list: Vec::new(), heard: VecDeque::new(), told: false, looked: None, new: true })
    }

    /// See [`super::Follower::ask`].
    pub(super) async fn ask(&mut self, list: &[Followed]) -> Result<(), BackendError> {
        self.list = list.to_vec();
        self.told = false;
        Ok(())
    }

    /// See [`super::Follower::next`].
    pub(super) async fn next(&mut self, wake: &Notify) -> Result<Option<(String, Heard)>, BackendError> {
        loop {
            if let Some(heard) = self.heard.pop_front() {
                self.told = true;
                return Ok(Some(heard));
            }
            if self.told {
                return Ok(None);
            }
            if let Some(looked) = self.looked {
                tokio::time::sleep_until(looked + PAUSE).await;
            }
            let (blind, more) = self.look().await?;
            self.looked = Some(Instant::now());
            let new = std::mem::replace(&mut self.new, false);
            if more || !self.heard.is_empty() {
                continue;
            }
            if new {
                return Ok(None);
            }
            tokio::select! {
                biased;
                ready = self.events.readable() => match ready {
                    // First the mark, then the events: what comes in between is marked again.
                    Ok(mut ready) => ready.clear_ready(),
                    Err(e) => return Err(BackendError::new(ErrorKind::Internal, format!("background processes cannot be followed: {e}"))),
                },
                () = wake.notified() => return Ok(None),
                () = tokio::time::sleep(BLIND), if blind => {}
            }
        }
    }

    /// Looks once at what was written to, on a thread; tells whether the kernel's word is missing, and whether there is more to read.
    async fn look(&mut self) -> Result<(bool, bool), BackendError> {
        let gone = || BackendError::new(ErrorKind::Internal, "the follower of background processes failed");
        let mut look = self.look.take().ok_or_else(gone)?;
        let list = std::mem::take(&mut self.list);
        let done = tokio::task::spawn_blocking(move || {
            let heard = look.at(&list);
            (look, list, heard)
        });
        let (look, list, heard) = done.await.map_err(|_| gone())?;
        let state = (look.is_blind(), look.has_more());
        (self.look, self.list) = (Some(look), list);
        self.heard.extend(heard);
        Ok(state)
    }
}

#[expect(deprecated, reason = "the safe form is sound for a descriptor that is owned; its successor is unsafe")]
fn events(epoll: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(epoll, tokio::io::Interest::READABLE)
}

/// Removes the folders of processes whose end was taken in.
pub(super) async fn remove(root: &str, ids: &[String]) {
    let folders: Vec<_> = ids.iter().map(|id| std::path::Path::new(root).join(id)).collect();
    let removed = tokio::task::spawn_blocking(move || folders.iter().filter_map(|f| std::fs::remove_dir_all(f).err()).collect::<Vec<_>>());
    for error in removed.await.unwrap_or_default() {
        if error.kind() != io::ErrorKind::NotFound {
            // A later launch removes it.
            tracing::warn!(%error, "the files of a background process could not be removed");
        }
    }
}
