//! The end of a log in memory: what is not on disk yet, and the last stretch that is.
//!
//! Invariant: bytes are contiguous from `first` to `total`; nothing is dropped before it was given to the disk, and nothing
//! that the disk did not take before those who hold it have read it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of one block: what goes to the disk in one write.
pub(super) const BLOCK: usize = 256 * 1024;
/// Blocks kept for use again, so that a flood allocates nothing.
const SPARES: usize = 4;

/// The blocks.
#[derive(Debug, Default)]
pub(super) struct Memory {
    full: VecDeque<Block>,
    open: Vec<u8>,
    /// Offset of the first byte of `open`.
    open_start: u64,
    /// Everything before this offset is on disk, or lost and counted.
    written: u64,
    /// What the disk did not take, as far as it is still here; in order.
    failed: VecDeque<Range<u64>>,
    spares: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Block {
    start: u64,
    bytes: Arc<Vec<u8>>,
}

/// Bytes for the disk.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Their offset.
    pub(super) start: u64,
    /// They.
    pub(super) bytes: Arc<Vec<u8>>,
    /// Where in `bytes` they begin.
    pub(super) from: usize,
}

impl Memory {
    /// Makes one for a log whose first bytes are all on disk.
    pub(super) fn ending_at(total: u64) -> Self {
        Self { open_start: total, written: total, ..Self::default() }
    }

    /// Takes a copy of bytes.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.open.len() == BLOCK {
                self.seal();
            }
            let n = bytes.len().min(BLOCK - self.open.len());
            if self.open.capacity() - self.open.len() < n {
                self.grow(n);
            }
            self.open.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
        }
        if self.open.len() == BLOCK {
            self.seal();
        }
    }

    /// Makes room in the open block: a whole one as soon as there is much to hold, so that large output is copied once.
    fn grow(&mut self, more: usize) {
        let needed = self.open.len() + more;
        if needed <= BLOCK / 8 {
            self.open.reserve(more);
            return;
        }
        let mut whole = self.spares.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK));
        whole.clear();
        whole.extend_from_slice(&self.open);
        self.open = whole;
    }

    fn seal(&mut self) {
        let bytes = std::mem::take(&mut self.open);
        let block = Block { start: self.open_start, bytes: Arc::new(bytes) };
        self.open_start = self.total_before_open(&block);
        self.full.push_back(block);
    }

    fn total_before_open(&self, last: &Block) -> u64 {
        last.start + last.bytes.len() as u64
    }

    /// Bytes so far.
    pub(super) fn total(&self) -> u64 {
        self.open_start + self.open.len() as u64
    }

    /// Offset of the first byte that is still here.
    pub(super) fn first(&self) -> u64 {
        self.full.front().map_or(self.open_start, |b| b.start)
    }

    /// Everything before this offset is on disk or lost.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Whether a whole block waits for the disk.
    pub(super) fn has_full(&self) -> bool {
        self.written < self.open_start
    }

    /// What to write next: a whole block as it is, or with `all` a copy of what the open one has.
    pub(super) fn next(&self, all: bool) -> Option<Job> {
        if let Some(block) = self.full.iter().find(|b| b.start + b.bytes.len() as u64 > self.written) {
            let from = usize::try_from(self.written.saturating_sub(block.start)).unwrap_or(0);
            return Some(Job { start: block.start + from as u64, bytes: block.bytes.clone(), from });
        }
        if !all || self.written >= self.total() {
            return None;
        }
        let from = usize::try_from(self.written.saturating_sub(self.open_start)).unwrap_or(0);
        Some(Job { start: self.open_start + from as u64, bytes: Arc::new(self.open[from..].to_vec()), from: 0 })
    }

    /// Notes that everything before `offset` was given to the disk.
    pub(super) fn done(&mut self, offset: u64) {
        self.written = self.written.max(offset);
    }

    /// Notes that the disk did not take a stretch. Stretches come in order.
    pub(super) fn failed(&mut self, stretch: Range<u64>) {
        match self.failed.back_mut() {
            Some(last) if last.end >= stretch.start => last.end = stretch.end,
            _ => self.failed.push_back(stretch),
        }
    }

    /// Whether something is here alone.
    pub(super) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// The first byte that is here alone and was not read by those who read everything before `held`.
    pub(super) fn wanted_from(&self, held: u64) -> u64 {
        self.failed.iter().find(|f| f.end > held).map_or(u64::MAX, |f| f.start.max(held).max(self.first()))
    }

    /// Lets go of blocks that were given to the disk and are not needed to keep `keep` bytes here, nor for those who read
    /// everything before `held`.
    pub(super) fn let_go(&mut self, keep: u64, held: u64) {
        let wanted = self.wanted_from(held);
        while let Some(block) = self.full.front() {
            let end = block.start + block.bytes.len() as u64;
            if end > self.written || end > wanted || self.total() - end < keep {
                break;
            }
            let Some(block) = self.full.pop_front() else { break };
            if self.spares.len() < SPARES
                && let Ok(bytes) = Arc::try_unwrap(block.bytes)
            {
                self.spares.push(bytes);
            }
        }
        let first = self.first();
        while self.failed.front().is_some_and(|f| f.end <= first) {
            self.failed.pop_front();
        }
    }

    /// Keeps no more than the last bytes. Everything was given to the disk, and nobody holds anything.
    pub(super) fn rest(&mut self, keep: usize) {
        let mut rest = Vec::new();
        let from = self.total().saturating_sub(keep as u64).max(self.first());
        self.copy(from, keep, &mut rest);
        rest.shrink_to_fit();
        self.full.clear();
        (self.open, self.open_start, self.spares) = (rest, from, Vec::new());
        self.let_go(0, u64::MAX);
    }

    /// Lets go of everything that is on disk, and of the spare blocks: for a log that has ended.
    pub(super) fn release(&mut self) {
        self.let_go(0, u64::MAX);
        if self.written == self.total() {
            self.open_start = self.total();
            self.open = Vec::new();
        }
        self.shrink();
    }

    /// Gives back what holds no bytes.
    pub(super) fn shrink(&mut self) {
        self.spares = Vec::new();
        self.open.shrink_to_fit();
    }

    /// Copies at most `max` bytes from an offset on. None when they are not here any more.
    pub(super) fn copy(&self, offset: u64, max: usize, into: &mut Vec<u8>) -> bool {
        if offset < self.first() {
            return false;
        }
        let mut offset = offset;
        let mut left = max;
        let open = (self.open_start, self.open.as_slice());
        for (start, bytes) in self.full.iter().map(|b| (b.start, b.bytes.as_slice())).chain([open]) {
            if left == 0 {
                break;
            }
            let skip = usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
            if skip >= bytes.len() {
                continue;
            }
            let n = left.min(bytes.len() - skip);
            into.extend_from_slice(&bytes[skip..skip + n]);
            offset += n as u64;
            left -= n;
        }
        true
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.full.iter().map(|b| b.bytes.capacity()).sum::<usize>()
            + self.open.capacity()
            + self.spares.iter().map(Vec::capacity).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(from: u64, len: usize) -> Vec<u8> {
        (from..from + len as u64).map(|i| (i % 251) as u8).collect()
    }

    fn copied(memory: &Memory, offset: u64, max: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        memory.copy(offset, max, &mut out).then_some(out)
    }

    #[test]
    fn blocks_keep_every_byte_at_its_offset() {
        let mut memory = Memory::default();
        let mut total = 0;
        for len in [1, 70_000, 256 * 1024, 3, 600_000, 40_000] {
            memory.push(&pattern(total, len));
            total += len as u64;
        }
        assert_eq!((memory.total(), memory.first()), (total, 0));
        for (offset, max) in [(0, 10), (262_143, 2), (300_000, 500_000), (total - 1, 100), (total, 5)] {
            let expected = pattern(offset, max.min(usize::try_from(total - offset).unwrap()));
            assert_eq!(copied(&memory, offset, max), Some(expected), "{offset} {max}");
        }
    }

    #[test]
    fn jobs_cover_everything_once_and_only_written_bytes_go() {
        let mut memory = Memory::default();
        memory.push(&pattern(0, 600_000));
        let (mut offset, mut seen) = (0, Vec::new());
        while let Some(job) = memory.next(true) {
            assert_eq!(job.start, offset);
            seen.extend_from_slice(&job.bytes[job.from..]);
            offset = job.start + (job.bytes.len() - job.from) as u64;
            memory.done(offset);
            memory.let_go(100_000, u64::MAX);
            memory.push(&[]);
        }
        assert_eq!(seen, pattern(0, 600_000));
        assert!(memory.first() > 0 && memory.total() - memory.first() >= 100_000);
        assert_eq!(copied(&memory, 0, 1), None);
        memory.push(&pattern(600_000, 10));
        memory.release();
        assert_eq!(copied(&memory, 600_000, 100), Some(pattern(600_000, 10)));
        memory.done(600_010);
        memory.release();
        assert_eq!((memory.first(), memory.held()), (600_010, 0));
    }
}
