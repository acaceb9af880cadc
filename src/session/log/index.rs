//! Which bytes of a log were stderr: where each run of one stream begins, in memory for the end, on disk for the rest.
//!
//! Invariant: runs are sorted by offset and alternate; before the first one everything is stdout, so a log without stderr has
//! no index at all.

use super::disk;
use crate::model::{Run, Stream};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of one record on disk: the offset with the stream in the highest bit, little-endian.
pub(super) const RECORD: u64 = 8;
const ERR: u64 = 1 << 63;
/// Most records that wait for a disk that takes none.
const WAITING: usize = 64 * 1024;

/// The beginning of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) offset: u64,
    pub(super) stream: Stream,
}

/// The runs of one log.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The last runs; those before `unwritten` are on disk too.
    recent: VecDeque<Start>,
    unwritten: usize,
    /// Whether the disk did not take the last records: they wait here and hold nobody up.
    failing: bool,
    /// Whether some runs are on disk only.
    trimmed: bool,
    stream: Stream,
}

impl Index {
    /// Makes one for a log that has an index on disk, or none.
    pub(super) fn on_disk(there: bool) -> Self {
        Self { trimmed: there, ..Self::default() }
    }

    /// Notes that bytes of a stream begin at an offset.
    pub(super) fn push(&mut self, offset: u64, stream: Stream) {
        if stream != self.stream {
            self.stream = stream;
            self.recent.push_back(Start { offset, stream });
            self.unwritten += 1;
        }
    }

    /// Memory that waits for the disk, in bytes.
    pub(super) fn unwritten_bytes(&self) -> u64 {
        if self.failing { 0 } else { self.unwritten as u64 * RECORD }
    }

    /// The runs that are not on disk and begin before an offset, as records.
    pub(super) fn next(&self, before: u64) -> Vec<u8> {
        let waiting = self.recent.iter().skip(self.recent.len() - self.unwritten);
        waiting.take_while(|s| s.offset < before).flat_map(|s| encode(*s)).collect()
    }

    /// Notes that so many bytes of records are on disk.
    pub(super) fn done(&mut self, bytes: usize) {
        self.failing &= bytes == 0;
        self.unwritten -= (bytes / RECORD as usize).min(self.unwritten);
    }

    /// Lets go of runs that are on disk and end before `keep_from`.
    pub(super) fn trim(&mut self, keep_from: u64) {
        while self.recent.len() > self.unwritten && self.recent.get(1).is_some_and(|next| next.offset <= keep_from) {
            self.recent.pop_front();
            self.trimmed = true;
        }
    }

    /// Notes that the disk did not take the records before an offset: they are given to it again with the next ones. Tells
    /// whether the oldest had to go because there are too many.
    pub(super) fn failed(&mut self) -> bool {
        self.failing = true;
        let many = self.unwritten.saturating_sub(WAITING);
        let on_disk = self.recent.len() - self.unwritten;
        self.recent.drain(on_disk..on_disk + many);
        self.unwritten -= many;
        many > 0
    }

    /// The runs that are known here and begin before an offset.
    pub(super) fn known(&self, before: u64) -> Vec<Start> {
        self.recent.iter().copied().take_while(|s| s.offset < before).collect()
    }

    /// The streams of a stretch. None when only the disk knows.
    pub(super) fn runs(&self, offset: u64, len: u64) -> Option<Vec<Run>> {
        if self.trimmed && self.recent.front().is_none_or(|first| first.offset > offset) {
            return None;
        }
        Some(cut(self.recent.iter().copied(), offset, len))
    }
}

/// Makes the runs of a stretch out of starts, the first of which may lie before it.
fn cut(starts: impl Iterator<Item = Start>, offset: u64, len: u64) -> Vec<Run> {
    let end = offset + len;
    let mut runs: Vec<Run> = Vec::new();
    let (mut stream, mut from) = (Stream::Out, offset);
    for start in starts.take_while(|s| s.offset < end) {
        if start.offset > from {
            runs.push(Run { stream, len: start.offset - from });
            from = start.offset;
        }
        stream = start.stream;
    }
    if end > from {
        runs.push(Run { stream, len: end - from });
    }
    runs
}

/// Looks the streams of a stretch up on disk; `known` are the last runs, some of which may not be there.
pub(super) fn read(log: &Path, offset: u64, len: u64, known: &[Start]) -> io::Result<Vec<Run>> {
    let file = match File::open(disk::index_path(log)) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound && !known.is_empty() => return Ok(cut(known.iter().copied(), offset, len)),
        Err(e) => return Err(e),
    };
    let count = file.metadata()?.len() / RECORD;
    let at = |n: u64| -> io::Result<Start> {
        let mut record = [0_u8; RECORD as usize];
        file.read_exact_at(&mut record, n * RECORD)?;
        Ok(decode(record))
    };
    // The last run that begins at or before the offset.
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if at(middle)?.offset <= offset { low = middle + 1 } else { high = middle }
    }
    let mut starts = Vec::new();
    for n in low.saturating_sub(1)..count {
        let start = at(n)?;
        if start.offset >= offset + len {
            break;
        }
        starts.push(start);
    }
    let last = starts.last().map_or(0, |s| s.offset);
    starts.extend(known.iter().filter(|s| s.offset > last));
    Ok(cut(starts.into_iter(), offset, len))
}

fn encode(start: Start) -> [u8; RECORD as usize] {
    let mark = if start.stream == Stream::Err { ERR } else { 0 };
    (start.offset | mark).to_le_bytes()
}

fn decode(record: [u8; RECORD as usize]) -> Start {
    let word = u64::from_le_bytes(record);
    Start { offset: word & !ERR, stream: if word & ERR != 0 { Stream::Err } else { Stream::Out } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(list: &[(Stream, u64)]) -> Vec<Run> {
        list.iter().map(|(stream, len)| Run { stream: *stream, len: *len }).collect()
    }

    #[test]
    fn memory_and_disk_give_the_same_runs() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut index = Index::default();
        let pieces = [(Stream::Out, 10), (Stream::Err, 5), (Stream::Err, 5), (Stream::Out, 1), (Stream::Err, 100)];
        let mut total = 0;
        for (stream, len) in pieces {
            index.push(total, stream);
            total += len;
        }
        let records = index.next(u64::MAX);
        std::fs::write(disk::index_path(&log), &records).unwrap();
        for from in 0..total {
            for to in from + 1..=total {
                let memory = index.runs(from, to - from).unwrap();
                assert_eq!(memory, read(&log, from, to - from, &[]).unwrap(), "{from}..{to}");
                assert_eq!(memory.iter().map(|r| r.len).sum::<u64>(), to - from);
            }
        }
        assert_eq!(index.runs(0, 121).unwrap(), runs(&[(Stream::Out, 10), (Stream::Err, 10), (Stream::Out, 1), (Stream::Err, 100)]));
        index.done(records.len());
        index.trim(50);
        assert_eq!(index.runs(0, 5), None);
        assert_eq!(index.runs(60, 10), Some(runs(&[(Stream::Err, 10)])));
    }

    #[test]
    fn a_log_without_stderr_has_no_index() {
        let mut index = Index::default();
        index.push(0, Stream::Out);
        assert_eq!(index.unwritten_bytes(), 0);
        assert_eq!(index.runs(3, 4), Some(runs(&[(Stream::Out, 4)])));
    }
}
