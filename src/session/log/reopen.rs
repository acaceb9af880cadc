//! Taking up a log where a daemon before this one left it.
//!
//! Invariant: what is taken up is whole, as far as the files themselves can tell; what is not is refused with the reason, and left as
//! it is.

use super::disk::Disk;
use super::index::Index;
use super::memory::Memory;
use super::{Log, disk, lock};
use std::path::PathBuf;
use std::sync::Arc;

impl Log {
    /// Opens the log whose file is `path`, written with this cap: what there is can be read, and more of stdout appended. Without a
    /// file it is empty. An error says why the files are not what a log leaves. Blocking.
    pub fn reopen(path: PathBuf, cap: u64) -> Result<Arc<Self>, String> {
        let (disk, total, lost) = Disk::reopen(path.clone(), cap)?;
        let lost = (lost > 0).then(|| (lost, disk::over_cap(cap)));
        let index = Index::on_disk(disk.has_index());
        Ok(Self::with(path, cap, disk, Memory::ending_at(total), index, lost))
    }

    /// The stretches that it does not have in between, as first byte and end: its files do not tell them from zeros.
    pub fn holes(&self) -> Vec<(u64, u64)> {
        lock(&self.inner.disk).holes().iter().map(|hole| (hole.start, hole.end)).collect()
    }

    /// Takes up the stretches that it did not have when it was left ([`Log::holes`]).
    pub fn take_holes(&self, holes: &[(u64, u64)]) {
        let mut state = lock(&self.inner.state);
        let total = state.memory.total();
        // What went with the oldest of its end is counted already.
        let counted = self.inner.cap + state.lost;
        for &(from, to) in holes.iter().filter(|(from, to)| from < to && *to <= total) {
            state.lost += to.saturating_sub(from.max(counted));
            state.sound_from = state.sound_from.max(to);
            lock(&self.inner.disk).add_hole(from..to);
        }
        if state.lost > 0 && state.reason.is_none() {
            state.reason = Some("they were not on its backend any more when they were to be fetched".to_owned());
        }
    }

    /// Bytes that the disk was given so far.
    pub fn written(&self) -> u64 {
        lock(&self.inner.state).memory.written()
    }

    /// Bytes that it keeps whole.
    pub fn cap(&self) -> u64 {
        self.inner.cap
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LogStart, Stream};

    async fn all(log: &Log) -> (Vec<u8>, u64) {
        let (mut bytes, mut skipped) = (Vec::new(), 0);
        loop {
            let chunk = log.read(LogStart::Offset(bytes.len() as u64 + skipped), 1 << 20).await.unwrap();
            if chunk.bytes.is_empty() {
                return (bytes, skipped);
            }
            skipped += chunk.skipped;
            bytes.extend(chunk.bytes);
        }
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i % 251) as u8 + 1).collect()
    }

    /// It read as zeros, at offsets that were not the output's.
    #[tokio::test]
    async fn what_was_missing_in_its_end_is_missing_still() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k7f3q2.log");
        let (cap, tail) = (8 * 65536, pattern(5000));
        let log = Log::create(path.clone(), cap);
        log.append(Stream::Out, &pattern(usize::try_from(cap).unwrap())).await;
        log.skip(10_001, "gone").await;
        log.append(Stream::Out, &tail).await;
        log.finish();
        log.flush().await;
        let (before, lost, holes) = (all(&log).await, log.lost().unwrap().0, log.holes());
        assert_eq!((before.1, lost, holes.as_slice()), (10_001, 10_001, [(cap, cap + 10_001)].as_slice()));
        let again = Log::reopen(path, cap).unwrap();
        again.take_holes(&holes);
        again.finish();
        assert_eq!(again.lost().unwrap().0, 10_001);
        assert!(all(&again).await == before, "the same bytes and the same gap");
    }

    #[tokio::test]
    async fn it_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k7f3q2.log");
        let whole = pattern(700_000);
        let mut at = 0;
        for end in [0, 1, 5, 300_000, 300_000, 700_000] {
            let log = Log::reopen(path.clone(), 1 << 30).unwrap();
            assert_eq!(log.total(), at as u64);
            log.append(Stream::Out, &whole[at..end]).await;
            log.flush().await;
            assert_eq!(log.written(), end as u64);
            at = end;
        }
        let log = Log::reopen(path, 1 << 30).unwrap();
        log.finish();
        assert_eq!(all(&log).await, (whole, 0));
    }

    #[tokio::test]
    async fn over_its_cap_it_is_taken_up_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k7f3q2.log");
        let (cap, segment) = (1_000, 64 * 1024);
        let whole = pattern(cap + 5 * segment + 77);
        for (from, to) in [(0, cap), (cap, cap + segment), (cap + segment, cap + 3 * segment + 5), (cap + 3 * segment + 5, whole.len())] {
            let log = Log::reopen(path.clone(), cap as u64).unwrap();
            assert_eq!(log.total(), from as u64);
            log.append(Stream::Out, &whole[from..to]).await;
            log.flush().await;
        }
        let log = Log::reopen(path.clone(), cap as u64).unwrap();
        assert_eq!(log.total(), whole.len() as u64);
        assert_eq!(log.lost().map(|lost| lost.0), Some(4 * segment as u64));
        let (bytes, skipped) = all(&log).await;
        assert_eq!((bytes, skipped), ([&whole[..cap], &whole[cap + 4 * segment..]].concat(), 4 * segment as u64));
        assert!(Log::reopen(path, 500).is_err_and(|why| why.contains("longer than its cap")), "of another cap");
    }

    #[tokio::test]
    async fn which_bytes_were_stderr_is_known_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k7f3q2.log");
        let log = Log::create(path.clone(), 1 << 20);
        for (stream, text) in [(Stream::Out, "out"), (Stream::Err, "err"), (Stream::Out, "o")] {
            log.append(stream, text.as_bytes()).await;
        }
        log.flush().await;
        let runs = |log: Arc<Log>| async move { log.read(LogStart::Offset(1), 99).await.unwrap().runs };
        let before = runs(log).await;
        assert_eq!(before.len(), 3);
        assert_eq!(runs(Log::reopen(path, 1 << 20).unwrap()).await, before);
    }

    #[tokio::test]
    async fn what_is_not_whole_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k7f3q2.log");
        let cap = 1_000;
        let log = Log::create(path.clone(), cap);
        log.append(Stream::Out, &pattern(70_000)).await;
        log.flush().await;
        let refused = |want: &str| {
            let error = Log::reopen(path.clone(), cap).err().unwrap_or_default();
            assert!(error.contains(want), "{error:?} lacks {want:?}");
        };
        assert!(Log::reopen(path.clone(), cap).is_ok());
        std::fs::write(&path, pattern(999)).unwrap();
        refused("do not fit together");
        std::fs::remove_file(&path).unwrap();
        refused("gone");
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::FileExt;
            let path = dir.path().join("holes.log");
            std::fs::File::create(&path).unwrap().write_all_at(b"x", 1 << 20).unwrap();
            assert!(Log::reopen(path, 1 << 30).is_err_and(|why| why.contains("hole")));
        }
    }
}
