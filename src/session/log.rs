//! The output of one process: addressed by absolute offset, whole on disk, bounded in memory.
//!
//! Invariant: an append is one copy into memory; the disk is another thread's business, so a small command pays no file I/O
//! before its result, and a full or slow disk never fails a command. What the disk does not keep, whoever holds it still gets.

mod disk;
mod gap;
mod hold;
mod index;
mod kept;
mod memory;
mod reopen;

pub use disk::{put_aside, segment as tail, sync};
pub use hold::{Hold, Reader};

use crate::model::{Chunk, LogStart, Run, Stream};
use disk::{Disk, Place};
use hold::Holds;
use index::Index;
use memory::Memory;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Bytes at the end that stay in memory, for those who watch.
const RING: u64 = 256 * 1024;
/// Most bytes that wait for the disk; then the writer of output waits.
const BEHIND: u64 = 4 * 1024 * 1024;
/// How long a few bytes may wait for the disk: longer than a short command takes.
const LINGER: Duration = Duration::from_millis(100);
/// How far back lines are looked for.
const LINES_WITHIN: u64 = 1024 * 1024;
/// Most bytes of one read.
const READ_MAX: u64 = 8 * 1024 * 1024;
/// An ended log this short stays in memory: most are, and most are looked at once more.
const SHORT: u64 = 4096;
/// Of an ended log that the disk did not take so much of the end stays in memory.
const REST: usize = 16 * 1024;

/// The log of one process. One writer, any number of readers.
pub struct Log {
    inner: Arc<Inner>,
    path: PathBuf,
}

struct Inner {
    state: Mutex<State>,
    disk: Mutex<Disk>,
    cap: u64,
    total: AtomicU64,
    finished: AtomicBool,
    /// It is longer, or finished.
    grown: Notify,
    /// Something was written.
    written: Notify,
}

struct State {
    memory: Memory,
    index: Index,
    /// A thread writes now.
    writing: bool,
    /// Everything before this offset is to be written now, also a block that is not full.
    wanted: u64,
    /// A timer runs that will want what is there.
    lingering: bool,
    lost: u64,
    reason: Option<String>,
    /// From here on nothing is missing in the main file, but for what is over the cap.
    sound_from: u64,
    holds: Holds,
    /// Whether the caller has been waited for so long that it was said.
    stalled: bool,
    /// Its result was told: no more than the rest of what was lost is kept.
    told: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// Makes a log whose file will be `path` (made on the first write to disk), keeping `cap` bytes whole.
    pub fn create(path: PathBuf, cap: u64) -> Arc<Self> {
        let disk = Disk::new(path.clone(), cap);
        Self::with(path, cap, disk, Memory::default(), Index::default(), None)
    }

    fn with(path: PathBuf, cap: u64, disk: Disk, memory: Memory, index: Index, lost: Option<(u64, String)>) -> Arc<Self> {
        let (lost, reason) = lost.map_or((0, None), |(bytes, why)| (bytes, Some(why)));
        let total = memory.total();
        let state = State {
            memory,
            index,
            writing: false,
            wanted: 0,
            lingering: false,
            lost,
            reason,
            sound_from: 0,
            holds: Holds::default(),
            stalled: false,
            told: false,
        };
        let inner = Inner {
            state: Mutex::new(state),
            disk: Mutex::new(disk),
            cap,
            total: AtomicU64::new(total),
            finished: AtomicBool::new(false),
            grown: Notify::new(),
            written: Notify::new(),
        };
        Arc::new(Self { inner: Arc::new(inner), path })
    }

    /// Appends bytes of a stream. Waits when the disk is behind by more than the bound. What a full disk does not take, or
    /// what is over the cap, is counted and told by [`Log::lost`], and never fails the command; but while somebody holds it
    /// who has not read it ([`Log::hold`]) this waits for them. Cancel safe in so far as a whole prefix is appended.
    pub async fn append(&self, stream: Stream, bytes: &[u8]) {
        let mut left = bytes;
        while !left.is_empty() {
            match self.inner.push(stream, left) {
                0 => self.inner.room().await,
                n => left = &left[n..],
            }
        }
    }

    /// Holds the output from `offset` on for a reader: what the disk does not keep stays in memory until the reader has
    /// passed it or is gone, and beyond a bound the command waits, as at a pipe. For the command's caller it waits without
    /// end ([`Log::stalled`] tells that), for a watcher only as long as that reads on.
    pub fn hold(&self, reader: Reader, offset: u64) -> Hold {
        Hold::new(&self.inner, reader, offset)
    }

    /// Whether the command has been waiting for its caller for long, because the disk takes no more.
    pub fn stalled(&self) -> bool {
        lock(&self.inner.state).stalled
    }

    /// Says that the result was made: of what the disk did not take only the end stays in memory, once nobody holds it.
    pub fn told(&self) {
        let mut state = lock(&self.inner.state);
        state.told = true;
        self.inner.let_go(state);
    }

    /// Bytes so far.
    pub fn total(&self) -> u64 {
        self.inner.total.load(Ordering::Acquire)
    }

    /// Says that the process has ended and its output is complete (late writers may still append).
    pub fn finish(&self) {
        self.inner.finished.store(true, Ordering::Release);
        let mut state = lock(&self.inner.state);
        if !state.writing && state.memory.written() == state.memory.total() {
            self.inner.settle(&mut state);
        }
        drop(state);
        self.inner.grown.notify_waiters();
    }

    /// Whether it is finished.
    pub fn finished(&self) -> bool {
        self.inner.finished.load(Ordering::Acquire)
    }

    /// Waits until it is longer than `offset` or finished. Cancel safe.
    pub async fn grown(&self, offset: u64) {
        loop {
            let mut grown = std::pin::pin!(self.inner.grown.notified());
            grown.as_mut().enable();
            if self.total() > offset || self.finished() {
                return;
            }
            grown.await;
        }
    }

    /// Waits until all that was appended so far is in the file (or is lost, and counted). Cancel safe.
    pub async fn flush(&self) {
        let target = self.total();
        loop {
            let mut written = std::pin::pin!(self.inner.written.notified());
            written.as_mut().enable();
            if self.inner.want(target) {
                return;
            }
            written.await;
        }
    }

    /// Bytes that could not be written or were over the cap, with the reason of the last failure.
    pub fn lost(&self) -> Option<(u64, String)> {
        let state = lock(&self.inner.state);
        state.reason.clone().map(|reason| (state.lost, reason))
    }

    /// Reads at most `max` bytes. Never waits for more output. Stops short where a stretch is not kept; a read that begins
    /// in one skips it and says how much that was. Cancel safe.
    pub async fn read(&self, start: LogStart, max: u64) -> io::Result<Chunk> {
        // In this order: when it was finished, the total that follows is the whole.
        let ended = self.finished();
        let total = self.total();
        let offset = match start {
            LogStart::Offset(offset) => offset.min(total),
            LogStart::TailBytes(bytes) => total.saturating_sub(bytes),
            LogStart::TailLines(lines) => self.lines_before_end(lines, total).await?,
        };
        let (from, bytes) = self.gather(offset, max, total).await?;
        let runs = self.runs(from, bytes.len() as u64).await?;
        Ok(Chunk { offset: from, total, ended, skipped: from - offset, runs, bytes })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finds the offset from which on there are so many lines; a last line without its end counts.
    async fn lines_before_end(&self, lines: u64, total: u64) -> io::Result<u64> {
        if lines == 0 {
            return Ok(total);
        }
        let (mut from, mut window) = (total.saturating_sub(LINES_WITHIN), Vec::new());
        loop {
            let at = from + window.len() as u64;
            let (next, more) = self.gather(at, LINES_WITHIN, total).await?;
            if next != at {
                // A stretch is not kept: the lines after it count.
                (from, window) = (next, Vec::new());
            }
            if more.is_empty() {
                break;
            }
            window.extend_from_slice(&more);
        }
        let body = window.strip_suffix(b"\n").unwrap_or(&window);
        let ends = body.iter().enumerate().rev().filter(|(_, b)| **b == b'\n').map(|(at, _)| at);
        let nth = usize::try_from(lines - 1).ok().and_then(|n| ends.clone().nth(n));
        Ok(from + nth.map_or(0, |at| at as u64 + 1))
    }

    /// Collects bytes from memory and disk; gives where they begin.
    async fn gather(&self, offset: u64, max: u64, total: u64) -> io::Result<(u64, Vec<u8>)> {
        let (mut from, mut bytes) = (offset, Vec::new());
        loop {
            let at = from + bytes.len() as u64;
            let end = (from + max.min(READ_MAX)).min(total);
            let left = usize::try_from(end.saturating_sub(at)).unwrap_or(0);
            if left == 0 || self.inner.copy(at, left, &mut bytes) {
                return Ok((from, bytes));
            }
            let inner = self.inner.clone();
            let piece = tokio::task::spawn_blocking(move || inner.read_disk(at, left)).await.map_err(io::Error::other)??;
            match piece {
                Ok(more) => bytes.extend_from_slice(&more),
                Err(until) if bytes.is_empty() => from = until,
                Err(_) => return Ok((from, bytes)),
            }
        }
    }

    async fn runs(&self, offset: u64, len: u64) -> io::Result<Vec<Run>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        let known = {
            let state = lock(&self.inner.state);
            if let Some(runs) = state.index.runs(offset, len) {
                return Ok(runs);
            }
            state.index.known(offset + len)
        };
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || index::read(&path, offset, len, &known)).await.map_err(io::Error::other)?
    }
}

impl State {
    /// Memory that waits for the disk, or that the disk did not take and somebody has not read yet.
    fn behind(&self) -> u64 {
        let gone = self.memory.written().min(self.memory.wanted_from(self.held_from()));
        self.memory.total() - gone + self.index.unwritten_bytes()
    }

    /// What nobody before this offset has read.
    fn held_from(&self) -> u64 {
        self.holds.last().unwrap_or(u64::MAX)
    }

    /// Bytes that may be taken now.
    fn room(&self, cap: u64) -> u64 {
        // What is over the cap goes for ever when more comes: the caller reads it first.
        let reach = self.holds.last_caller().map_or(u64::MAX, |at| disk::reach(cap, at));
        BEHIND.saturating_sub(self.behind()).min(reach.saturating_sub(self.memory.total()))
    }
}

impl Inner {
    /// Takes as much as there is room for; 0 when there is none.
    fn push(self: &Arc<Self>, stream: Stream, bytes: &[u8]) -> usize {
        let mut state = lock(&self.state);
        let room = state.room(self.cap);
        let n = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
        if n > 0 {
            let offset = state.memory.total();
            state.index.push(offset, stream);
            state.memory.push(&bytes[..n]);
            self.total.store(state.memory.total(), Ordering::Release);
        }
        if state.room(self.cap) == 0 {
            state.wanted = state.memory.total();
        }
        self.start_writer(&mut state);
        if !state.writing && !state.lingering {
            state.lingering = true;
            let inner = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(LINGER).await;
                let mut state = lock(&inner.state);
                state.lingering = false;
                state.wanted = state.memory.total();
                inner.start_writer(&mut state);
            });
        }
        drop(state);
        self.grown.notify_waiters();
        n
    }

    /// Waits until there may be room, or until a watcher was given up.
    async fn room(&self) {
        let since = Instant::now();
        loop {
            let mut written = std::pin::pin!(self.written.notified());
            written.as_mut().enable();
            let late = {
                let mut state = lock(&self.state);
                let total = state.memory.total();
                state.holds.give_up(total, since);
                if state.room(self.cap) > 0 {
                    if std::mem::take(&mut state.stalled) {
                        tracing::info!("a command goes on: its caller reads again");
                    }
                    return self.let_go(state);
                }
                if !state.stalled && since.elapsed() >= hold::PATIENCE && state.holds.last_caller().is_some_and(|at| at < total) {
                    state.stalled = true;
                    let reason = state.reason.clone().unwrap_or_default();
                    tracing::warn!(reason, "a command waits until its caller reads: its output cannot be kept");
                }
                let stalls = (!state.stalled).then(|| since + hold::PATIENCE).filter(|at| *at > Instant::now());
                state.holds.patience(total, since).into_iter().chain(stalls).min()
            };
            match late {
                Some(late) => drop(tokio::time::timeout_at(late, written).await),
                None => written.await,
            }
        }
    }

    /// Lets go of what nobody needs any more, and wakes whoever waits for room.
    fn let_go(&self, mut state: MutexGuard<'_, State>) {
        let held = state.held_from();
        state.memory.let_go(RING, held);
        let first = state.memory.first();
        state.index.trim(first);
        if state.told && state.lost > 0 && held >= state.memory.total() && state.memory.written() == state.memory.total() {
            state.memory.rest(REST);
        }
        drop(state);
        self.written.notify_waiters();
    }

    /// Asks for everything up to an offset to be written; tells whether it is.
    fn want(self: &Arc<Self>, offset: u64) -> bool {
        let mut state = lock(&self.state);
        if state.memory.written() >= offset {
            return true;
        }
        state.wanted = state.wanted.max(offset);
        self.start_writer(&mut state);
        false
    }

    /// Starts the thread that writes, when there is something to write and none runs.
    fn start_writer(self: &Arc<Self>, state: &mut State) {
        let waits = state.memory.has_full() || state.wanted > state.memory.written();
        if waits && !state.writing {
            state.writing = true;
            let inner = self.clone();
            tokio::task::spawn_blocking(move || inner.write_out());
        }
    }

    /// Writes until nothing waits.
    fn write_out(&self) {
        loop {
            let mut state = lock(&self.state);
            let all = state.wanted > state.memory.written();
            let Some(job) = state.memory.next(all) else {
                state.writing = false;
                if self.finished.load(Ordering::Acquire) && state.memory.written() == state.memory.total() {
                    self.settle(&mut state);
                }
                return;
            };
            let end = job.start + (job.bytes.len() - job.from) as u64;
            let records = state.index.next(end);
            drop(state);
            let mut disk = lock(&self.disk);
            let lost = disk.write(job.start, &job.bytes[job.from..]);
            let indexed = disk.write_index(&records);
            drop(disk);
            drop(job);
            let mut state = lock(&self.state);
            if let Some(reason) = lost.reason {
                if state.reason.is_none() {
                    tracing::warn!(reason, "the output of a command is not kept whole");
                }
                state.reason = Some(reason);
            }
            state.lost += lost.bytes;
            if let Some(failed) = lost.failed {
                state.sound_from = failed.end;
                state.memory.failed(failed);
            }
            state.memory.done(end);
            match indexed {
                Ok(()) => state.index.done(records.len()),
                Err(e) if state.index.failed() => {
                    state.reason.get_or_insert_with(|| format!("which output was stderr could not be written: {e}"));
                }
                // They are tried again.
                Err(_) => {}
            }
            self.let_go(state);
        }
    }

    /// Lets go of memory and descriptors: it has ended and is on disk.
    fn settle(&self, state: &mut State) {
        if state.memory.total() > SHORT && !state.memory.has_failed() {
            state.memory.release();
        } else {
            state.memory.shrink();
        }
        lock(&self.disk).close();
    }

    fn copy(&self, offset: u64, max: usize, into: &mut Vec<u8>) -> bool {
        lock(&self.state).memory.copy(offset, max, into)
    }

    /// Reads a piece from disk, or tells where the next piece that is kept begins. Blocking.
    fn read_disk(&self, offset: u64, max: usize) -> io::Result<Result<Vec<u8>, u64>> {
        // Memory is looked at first, so what is before this is in the file or known as missing.
        let (written, in_memory) = {
            let state = lock(&self.state);
            (state.memory.written(), state.memory.first())
        };
        let place = lock(&self.disk).place(offset, written)?;
        match place {
            // What the disk did not take may still be in memory.
            Place::Missing { until } => Ok(Err(if offset < in_memory { until.min(in_memory) } else { until })),
            Place::At { file, position, len } => {
                let n = usize::try_from(len).map_or(max, |len| len.min(max));
                let mut bytes = vec![0; n];
                file.read_exact_at(&mut bytes, position)?;
                Ok(Ok(bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests;
