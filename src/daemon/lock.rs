//! Being the one daemon of a user and state folder.
//!
//! Invariant: the lock is held from before the socket is made until the process ends; the file names the socket only while
//! the socket answers.

use super::DaemonError;
use crate::config;
use crate::paths::Paths;
use crate::protocol::launch::LockContent;
use crate::protocol::lock::{self, LockError};
use std::fs::File;
use std::io::{Seek, Write};
use std::time::Duration;
use tokio::net::UnixStream;

/// A daemon that is ending is gone within 2 s; this allows for a machine that swaps.
const PATIENCE: Duration = Duration::from_secs(10);

/// A daemon that cannot start because we have the socket holds the lock for a moment; one that has it for longer lives.
const RETAKE: Duration = Duration::from_secs(2);

/// The lock, held.
pub(super) struct DaemonLock {
    file: File,
}

impl DaemonLock {
    /// Takes the lock; waits for a daemon that is ending. One that listens is an error at once.
    pub(super) async fn take(paths: &Paths) -> Result<Self, DaemonError> {
        let path = paths.lock_file();
        let file = match lock::try_take(&path).map_err(DaemonError::Lock)? {
            Some(file) => file,
            None => {
                let holder = holder(paths).await;
                if let Some(holder) = &holder
                    && UnixStream::connect(&holder.socket).await.is_ok()
                {
                    return Err(DaemonError::AlreadyRuns { pid: holder.pid });
                }
                let taken = tokio::select! {
                    taken = lock::take(&path, PATIENCE) => taken,
                    pid = listens_again(paths) => return Err(DaemonError::AlreadyRuns { pid }),
                };
                taken.map_err(|error| match (error, holder) {
                    (LockError::Held { .. }, Some(holder)) => DaemonError::Deaf { pid: holder.pid },
                    (error, _) => DaemonError::Lock(error),
                })?
            }
        };
        let mut lock = Self { file };
        // What a killed daemon left behind leads nowhere.
        lock.clear()?;
        Ok(lock)
    }

    /// Tells whether the file is still there: a lock on one that was removed keeps nobody out.
    pub(super) fn is_in_place(&self, paths: &Paths) -> bool {
        lock::is_the_one(&self.file, &paths.lock_file())
    }

    /// Takes the lock anew after its file was removed. An error when another daemon has it by now.
    pub(super) async fn take_again(&mut self, paths: &Paths) -> Result<(), LockError> {
        let path = paths.lock_file();
        self.file = tokio::select! {
            taken = lock::take(&path, RETAKE) => taken?,
            _ = listens_again(paths) => return Err(LockError::Held { path: path.display().to_string(), waited: Duration::ZERO }),
        };
        Ok(())
    }

    /// Says where the daemon listens.
    pub(super) fn publish(&mut self, content: &LockContent) -> Result<(), DaemonError> {
        self.clear()?;
        self.file.write_all(content.line().as_bytes()).map_err(write_failed)
    }

    /// Says that nobody listens.
    pub(super) fn clear(&mut self) -> Result<(), DaemonError> {
        self.file.set_len(0).and_then(|()| self.file.rewind()).map_err(write_failed)
    }
}

/// Waits until the holder of the lock listens: one that starts says so in the file, and so does one whose socket was removed
/// when it is back.
async fn listens_again(paths: &Paths) -> u32 {
    let path = paths.lock_file();
    let watch = tokio::task::spawn_blocking(move || config::watch(&path)).await;
    if let Ok(Ok(mut watch)) = watch {
        loop {
            if let Some(holder) = holder(paths).await
                && UnixStream::connect(&holder.socket).await.is_ok()
            {
                return holder.pid;
            }
            if watch.changed().await.is_none() {
                break;
            }
        }
    }
    std::future::pending().await
}

async fn holder(paths: &Paths) -> Option<LockContent> {
    let text = tokio::fs::read(paths.lock_file()).await.ok()?;
    LockContent::parse(&text)
}

fn write_failed(source: std::io::Error) -> DaemonError {
    DaemonError::LockWrite { source }
}
