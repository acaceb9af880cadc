//! The bytes of one stream of a channel between the session, which must not wait for one reader, and that reader.
//!
//! Invariant: `push` never waits and never fails. russh gives a channel new room before its output is taken, so nothing but the
//! session itself can slow a sender down: `pace` makes it wait for a reader that is behind, but 2 ms a packet at most, so
//! that the other channels hardly feel it. A reader that takes 16 MB/s is never behind. For one that does not, 4 MiB stay in
//! memory and the rest goes to an unlinked file of 1 GiB; beyond that the rest of this one stream is counted and the reader is
//! told at its end.

use super::spill::Spill;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

/// Bytes kept in memory before a file is used.
pub(super) const IN_MEMORY: usize = 4 << 20;
/// Bytes that may wait in memory for the file.
const ON_THE_WAY: usize = 64 << 20;
/// How long the session waits for a reader that is behind, for each packet.
const PATIENCE: Duration = Duration::from_millis(2);
/// The same when the disk is behind too and output would soon be lost.
const LAST_PATIENCE: Duration = Duration::from_millis(50);
/// Size of one piece.
const PIECE: usize = 256 << 10;

/// A queue of bytes in pieces.
#[derive(Default)]
pub(super) struct Pieces {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that are already taken.
    taken: usize,
    /// Bytes left.
    pub(super) len: usize,
    spare: Option<Vec<u8>>,
}

impl Pieces {
    fn push(&mut self, data: &[u8]) {
        let fits = self.pieces.back().is_some_and(|last| last.capacity() - last.len() >= data.len());
        if !fits {
            let piece = self.spare.take().unwrap_or_else(|| {
                // A small stream must not cost a quarter of a megabyte.
                Vec::with_capacity(if self.len == 0 { data.len().max(4096) } else { PIECE.max(data.len()) })
            });
            self.pieces.push_back(piece);
        }
        if let Some(last) = self.pieces.back_mut() {
            last.extend_from_slice(data);
        }
        self.len += data.len();
    }

    fn take(&mut self, buf: &mut ReadBuf<'_>) {
        while buf.remaining() > 0 {
            let Some(first) = self.pieces.front() else { return };
            let left = &first[self.taken..];
            let n = left.len().min(buf.remaining());
            buf.put_slice(&left[..n]);
            self.taken += n;
            self.len -= n;
            if self.taken == first.len() {
                self.taken = 0;
                if let Some(mut used) = self.pieces.pop_front() {
                    used.clear();
                    if used.capacity() >= PIECE {
                        self.spare = Some(used);
                    }
                }
            }
        }
    }

    /// Adds a whole piece without copying it.
    pub(super) fn push_piece(&mut self, piece: Vec<u8>) {
        if !piece.is_empty() {
            self.len += piece.len();
            self.pieces.push_back(piece);
        }
    }

    /// Takes the first piece without copying it when nothing of it was taken.
    pub(super) fn pop_piece(&mut self) -> Option<Vec<u8>> {
        let mut piece = self.pieces.pop_front()?;
        if self.taken > 0 {
            piece.drain(..self.taken);
            self.taken = 0;
        }
        self.len -= piece.len();
        Some(piece)
    }
}

/// What a spool holds: first `front`, then the file, then `back`.
pub(super) struct Inner {
    pub(super) front: Pieces,
    pub(super) back: Pieces,
    /// There once the memory was full; gone again when all of it was read.
    pub(super) spill: Option<Arc<Spill>>,
    /// No more bytes will come.
    ended: bool,
    /// Bytes that could not be kept, with the reason.
    lost: Option<(u64, String)>,
    pub(super) reader_gone: bool,
    /// All bytes that the reader has taken.
    consumed: u64,
    waker: Option<Waker>,
}

impl Inner {
    /// Counts bytes that could not be kept; the first reason stays.
    pub(super) fn lose(&mut self, bytes: u64, why: String) {
        self.lost.get_or_insert((0, why)).0 += bytes;
    }

    /// Whether bytes were lost; then nothing more is kept.
    pub(super) fn is_lossy(&self) -> bool {
        self.lost.is_some()
    }

    /// Wakes the reader.
    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// One stream of a channel.
pub(super) struct Spool {
    inner: Mutex<Inner>,
    /// Told when there is something to move between memory and file.
    pub(super) moved: Notify,
    /// Told when the reader has taken something.
    taken: Notify,
    runtime: tokio::runtime::Handle,
}

impl Spool {
    /// Makes an empty one. Must be called on a runtime, which later does the work with the file.
    pub(super) fn new(runtime: &tokio::runtime::Handle) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                front: Pieces::default(),
                back: Pieces::default(),
                spill: None,
                ended: false,
                lost: None,
                reader_gone: false,
                consumed: 0,
                waker: None,
            }),
            moved: Notify::new(),
            taken: Notify::new(),
            runtime: runtime.clone(),
        })
    }

    /// Looks inside.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds bytes. Never waits. Tells how long the sender should at most wait for the reader, who is behind.
    pub(super) fn push(self: &Arc<Self>, data: &[u8]) -> Option<Duration> {
        let mut inner = self.lock();
        if inner.reader_gone || inner.ended || data.is_empty() {
            return None;
        }
        let patience = match inner.back.len {
            waiting if waiting > ON_THE_WAY / 2 => Some(LAST_PATIENCE),
            _ if inner.spill.is_some() || inner.front.len > IN_MEMORY / 2 => Some(PATIENCE),
            _ => None,
        };
        if inner.lost.is_some() {
            inner.lose(data.len() as u64, String::new());
        } else if inner.spill.is_none() && inner.front.len + data.len() <= IN_MEMORY {
            inner.front.push(data);
            inner.wake();
        } else if inner.back.len + data.len() <= ON_THE_WAY {
            inner.back.push(data);
            if inner.spill.is_none() {
                let spill = Arc::new(Spill::default());
                inner.spill = Some(spill.clone());
                drop(inner);
                self.runtime.spawn(super::spill::mover(self.clone(), spill));
            } else {
                drop(inner);
                self.moved.notify_one();
            }
        } else {
            inner.lose(data.len() as u64, "the disk here did not keep up".to_owned());
        }
        patience
    }

    /// Waits until the reader has taken `len` more bytes or is not behind any more, `patience` at most.
    pub(super) async fn pace(&self, len: usize, patience: Duration) {
        let goal = self.lock().consumed + len as u64;
        let caught_up = async {
            loop {
                let taken = self.taken.notified();
                {
                    let inner = self.lock();
                    if inner.reader_gone || inner.consumed >= goal || (inner.spill.is_none() && inner.front.len <= IN_MEMORY / 2) {
                        return;
                    }
                }
                taken.await;
            }
        };
        // Late is no failure: the bytes are kept all the same.
        let _ = tokio::time::timeout(patience, caught_up).await;
    }

    /// Says that no more bytes will come.
    pub(super) fn end(&self) {
        let mut inner = self.lock();
        inner.ended = true;
        inner.wake();
        drop(inner);
        self.moved.notify_one();
    }

    /// Throws away what is in memory.
    pub(super) fn discard(&self) {
        self.lock().front = Pieces::default();
    }
}

/// The reading end of a spool. Dropping it makes the spool throw away what still comes.
pub(super) struct SpoolReader {
    spool: Arc<Spool>,
}

impl SpoolReader {
    /// Makes the only reader of a spool.
    pub(super) fn new(spool: Arc<Spool>) -> Self {
        Self { spool }
    }
}

impl AsyncRead for SpoolReader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.spool.lock();
        if inner.front.len > 0 {
            let before = buf.filled().len();
            let behind = inner.spill.is_some() || inner.front.len > IN_MEMORY / 4;
            inner.front.take(buf);
            inner.consumed += (buf.filled().len() - before) as u64;
            let low = inner.spill.is_some() && inner.front.len < IN_MEMORY / 2;
            drop(inner);
            if behind {
                self.spool.taken.notify_one();
            }
            if low {
                self.spool.moved.notify_one();
            }
            return Poll::Ready(Ok(()));
        }
        if inner.spill.is_none() {
            if let Some((lost, why)) = inner.lost.take() {
                // Told once, in its place; what follows is the end.
                inner.ended = true;
                return Poll::Ready(Err(io::Error::other(format!("{lost} bytes of output were not kept: {why}"))));
            }
            if inner.ended {
                return Poll::Ready(Ok(()));
            }
        }
        inner.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for SpoolReader {
    fn drop(&mut self) {
        let mut inner = self.spool.lock();
        inner.reader_gone = true;
        inner.front = Pieces::default();
        inner.back = Pieces::default();
        drop(inner);
        self.spool.moved.notify_one();
        self.spool.taken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    const PACKET: usize = 32 << 10;

    /// Packets that tell their number.
    fn packet(n: usize) -> Vec<u8> {
        (0..PACKET / 8).flat_map(|_| (n as u64).to_be_bytes()).collect()
    }

    #[tokio::test]
    async fn order_is_kept_through_memory_and_file() {
        let spool = Spool::new(&tokio::runtime::Handle::current());
        let mut reader = SpoolReader::new(spool.clone());
        let (mut written, mut read) = (0, 0);
        let mut got = vec![0; PACKET];
        // Behind by 20 MB, then caught up, again and again.
        for round in 0..3 {
            for _ in 0..640 {
                spool.push(&packet(written));
                written += 1;
                tokio::task::yield_now().await;
            }
            let until = if round == 2 { written } else { written - 20 };
            while read < until {
                reader.read_exact(&mut got).await.expect("there");
                assert!(got == packet(read), "packet {read}");
                read += 1;
            }
        }
        spool.end();
        assert_eq!(reader.read(&mut got).await.expect("the end"), 0);
        assert!(spool.lock().spill.is_none(), "the file is gone");
    }

    #[tokio::test]
    async fn what_is_not_kept_is_counted_and_told_in_its_place() {
        let spool = Spool::new(&tokio::runtime::Handle::current());
        let mut reader = SpoolReader::new(spool.clone());
        // Nothing is moved to the file meanwhile: this test holds the only thread.
        let fits = (IN_MEMORY + ON_THE_WAY) / PACKET;
        for n in 0..fits + 10 {
            spool.push(&packet(n));
        }
        spool.end();
        let mut got = Vec::new();
        let e = reader.read_to_end(&mut got).await.expect_err("not whole");
        assert!(e.to_string().starts_with(&format!("{} bytes of output were not kept", 10 * PACKET)), "{e}");
        assert_eq!(got.len(), fits * PACKET);
        assert!(got[got.len() - PACKET..] == packet(fits - 1));
        assert_eq!(reader.read(&mut [0; 8]).await.expect("the end"), 0);
    }

    #[tokio::test]
    async fn nobody_is_waited_for_who_is_not_behind_or_gone() {
        let spool = Spool::new(&tokio::runtime::Handle::current());
        let reader = SpoolReader::new(spool.clone());
        assert!(spool.push(&[0; 1000]).is_none());
        let patience = (0..200).find_map(|n| spool.push(&packet(n))).expect("it is behind at some time");
        assert_eq!(patience, PATIENCE);
        drop(reader);
        // Returns at once although the patience is long.
        spool.pace(PACKET, Duration::from_secs(3600)).await;
        assert!(spool.push(&packet(0)).is_none());
        assert_eq!(spool.lock().front.len, 0);
    }
}
