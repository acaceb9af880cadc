//! The output of one process: addressed by absolute offset, whole on disk, bounded in memory.

use crate::model::{Chunk, LogStart, Stream};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The log of one process. One writer, any number of readers.
pub struct Log {
    _private: (),
}

impl Log {
    /// Makes a log whose file will be `path` (made on the first write to disk), keeping `cap` bytes whole.
    pub fn create(_path: PathBuf, _cap: u64) -> Arc<Self> {
        Arc::new(Self { _private: () })
    }

    /// Appends bytes of a stream. Waits only when the disk is behind by more than the bound. A full disk loses output, which
    /// is counted and told by [`Log::lost`]; it never fails the command.
    pub async fn append(&self, _stream: Stream, _bytes: &[u8]) {}

    /// Bytes so far.
    pub fn total(&self) -> u64 {
        0
    }

    /// Says that the process has ended and its output is complete (late writers may still append).
    pub fn finish(&self) {}

    /// Whether it is finished.
    pub fn finished(&self) -> bool {
        true
    }

    /// Waits until it is longer than `offset` or finished. Cancel safe.
    pub async fn grown(&self, _offset: u64) {}

    /// Waits until all that was appended so far is in the file (or is lost, and counted).
    pub async fn flush(&self) {}

    /// Bytes that could not be written or were over the cap, with the reason of the last failure.
    pub fn lost(&self) -> Option<(u64, String)> {
        None
    }

    /// Reads at most `max` bytes. Never waits for more output.
    pub async fn read(&self, _start: LogStart, _max: u64) -> io::Result<Chunk> {
        Ok(Chunk::default())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        Path::new("")
    }
}
