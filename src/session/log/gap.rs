//! Output that never came here: what follows it keeps its offset.
//!
//! Invariant: a gap is counted and told as lost like anything else that is not kept, and never read as bytes.

use super::{Inner, Log, lock};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Log {
    /// Notes that the next `len` bytes are not there, and why. Waits until what came before is in the file. Cancel safe in so far as it
    /// is noted whole or not at all.
    pub async fn skip(&self, len: u64, reason: &str) {
        // One writer: nothing comes in between.
        self.flush().await;
        self.inner.skip(len, reason);
        self.inner.grown.notify_waiters();
    }

    /// Bytes from the beginning that are safe in the file, or known as lost; nothing while the disk does not take what comes.
    pub fn safe_until(&self) -> u64 {
        let state = lock(&self.inner.state);
        if state.memory.has_failed() { 0 } else { state.memory.written() }
    }
}

impl Inner {
    fn skip(self: &Arc<Self>, len: u64, reason: &str) {
        let mut state = lock(&self.state);
        let from = state.memory.total();
        state.memory.jump(from + len);
        state.lost += len;
        state.reason = Some(reason.to_owned());
        state.sound_from = from + len;
        lock(&self.disk).add_hole(from..from + len);
        self.total.store(from + len, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LogStart, Stream};

    #[tokio::test]
    async fn what_follows_a_gap_keeps_its_offset() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::create(folder.path().join("log"), 1 << 20);
        log.append(Stream::Out, b"head\n").await;
        log.skip(1000, "it was over the cap there").await;
        log.append(Stream::Out, b"tail\n").await;
        assert_eq!(log.total(), 1010);
        assert_eq!(log.lost(), Some((1000, "it was over the cap there".to_owned())));
        let head = log.read(LogStart::Offset(0), 100).await.unwrap();
        assert_eq!((head.bytes.as_slice(), head.offset), (b"head\n".as_slice(), 0));
        let tail = log.read(LogStart::Offset(5), 100).await.unwrap();
        assert_eq!((tail.bytes.as_slice(), tail.offset, tail.skipped), (b"tail\n".as_slice(), 1005, 1000));
        log.finish();
        log.flush().await;
        let tail = log.read(LogStart::Offset(7), 100).await.unwrap();
        assert_eq!((tail.bytes.as_slice(), tail.offset, tail.skipped), (b"tail\n".as_slice(), 1005, 998));
        assert_eq!(log.safe_until(), 1010);
    }
}
