//! What of a log can be read in its file by somebody else: large output is named to a reader on this machine, not sent.
//!
//! Invariant: what is named is in the main file at its own offset, whole, and is never written again.

use super::{Log, lock};
use crate::model::Kept;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Less than this is sent sooner than it is named.
const LEAST: u64 = 64 * 1024;
/// Most bytes named at once.
const MOST: u64 = 8 * 1024 * 1024;
/// Most changes of the stream in what is named at once.
const RUNS: usize = 256;
/// So long may what has come be on its way to the file before it is sent from memory instead.
const SOON: Duration = Duration::from_millis(5);

impl Log {
    /// The file, once output is in it.
    pub fn file(&self) -> Option<&Path> {
        (self.in_file(0) > 0).then(|| self.path())
    }

    /// What follows `offset` in the file. None when that is not much, is not there or has no simple form: then it is read
    /// with [`Log::read`]. Waits only a moment, and only for what is on its way to the file. Cancel safe.
    pub async fn kept(&self, offset: u64) -> io::Result<Option<Kept>> {
        if self.total() <= offset {
            return Ok(None);
        }
        if !self.finished() {
            // Whether it came in time shows below.
            let _ = tokio::time::timeout(SOON, self.stored(offset)).await;
        }
        let len = self.in_file(offset).min(MOST);
        if len < LEAST {
            return Ok(None);
        }
        let runs = self.runs(offset, len).await?;
        Ok((runs.len() <= RUNS).then_some(Kept { offset, runs }))
    }

    /// Bytes that follow an offset in the file.
    fn in_file(&self, offset: u64) -> u64 {
        let state = lock(&self.inner.state);
        if offset < state.sound_from { 0 } else { state.memory.written().min(self.inner.cap).saturating_sub(offset) }
    }

    /// Waits until what follows an offset was given to the disk.
    async fn stored(&self, offset: u64) {
        loop {
            let mut written = std::pin::pin!(self.inner.written.notified());
            written.as_mut().enable();
            if lock(&self.inner.state).memory.written() > offset || self.finished() {
                return;
            }
            written.await;
        }
    }
}
