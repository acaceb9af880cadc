//! The byte stream under an ssh connection, which can be cut from outside and knows when it last heard something.
//!
//! Invariant: once its token is cancelled every read and every write fails at once, so the ssh session that sits on it ends,
//! whatever it was waiting for, and with it the socket.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// How many of the first bytes are kept, to say what answered when it was no ssh server.
const OPENING: usize = 256;

/// Milliseconds of a stretch of time in which arriving bytes are counted.
const STRETCH: u64 = 250;

/// When a stream last heard something, how much, and how it began.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Milliseconds after the process's first look at the clock, plus one; 0 before the first byte.
    at: AtomicU64,
    bytes: AtomicU64,
    opening: Mutex<Vec<u8>>,
    /// The present stretch of time by number, what came in it, and what came in the one before.
    stretch: AtomicU64,
    in_stretch: AtomicU64,
    in_last: AtomicU64,
}

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

impl Heard {
    fn note(&self, new: &[u8]) {
        if new.is_empty() {
            return;
        }
        let now = u64::try_from(origin().elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.at.store(now + 1, Ordering::Relaxed);
        self.count(now / STRETCH, new.len() as u64);
        let before = self.bytes.fetch_add(new.len() as u64, Ordering::Relaxed);
        if before < OPENING as u64 {
            let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
            let room = OPENING - opening.len();
            opening.extend_from_slice(&new[..new.len().min(room)]);
        }
    }

    /// Counts what came. Called by the one reader only.
    fn count(&self, stretch: u64, bytes: u64) {
        let at = self.stretch.load(Ordering::Relaxed);
        if stretch == at {
            self.in_stretch.fetch_add(bytes, Ordering::Relaxed);
            return;
        }
        let last = if stretch == at + 1 { self.in_stretch.load(Ordering::Relaxed) } else { 0 };
        self.in_last.store(last, Ordering::Relaxed);
        self.in_stretch.store(bytes, Ordering::Relaxed);
        self.stretch.store(stretch, Ordering::Relaxed);
    }

    /// Bytes of the last quarter to half of a second.
    pub(super) fn recent(&self) -> u64 {
        let now = u64::try_from(origin().elapsed().as_millis()).unwrap_or(u64::MAX) / STRETCH;
        let (at, bytes) = (self.stretch.load(Ordering::Relaxed), self.in_stretch.load(Ordering::Relaxed));
        match now.saturating_sub(at) {
            0 => bytes + self.in_last.load(Ordering::Relaxed),
            1 => bytes,
            _ => 0,
        }
    }

    /// When bytes last arrived.
    pub(super) fn last(&self) -> Option<Instant> {
        match self.at.load(Ordering::Relaxed) {
            0 => None,
            at => Some(origin() + Duration::from_millis(at - 1)),
        }
    }

    /// The first bytes that arrived, at most 256.
    pub(super) fn opening(&self) -> Vec<u8> {
        self.opening.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A stream that fails at once when its token is cancelled.
pub(super) struct KillableStream<S> {
    inner: S,
    read_cut: Pin<Box<WaitForCancellationFutureOwned>>,
    write_cut: Pin<Box<WaitForCancellationFutureOwned>>,
    cut: CancellationToken,
    heard: Arc<Heard>,
}

impl<S> KillableStream<S> {
    /// Wraps a stream.
    pub(super) fn new(inner: S, cut: CancellationToken, heard: Arc<Heard>) -> Self {
        // The origin must lie before the first byte.
        origin();
        Self { inner, read_cut: Box::pin(cut.clone().cancelled_owned()), write_cut: Box::pin(cut.clone().cancelled_owned()), cut, heard }
    }
}

fn cut_error() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was given up")
}

impl<S: AsyncRead + Unpin> AsyncRead for KillableStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // A busy stream never gets as far as waiting, so the token is looked at first.
        if self.cut.is_cancelled() {
            return Poll::Ready(Err(cut_error()));
        }
        let before = buf.filled().len();
        match Pin::new(&mut self.inner).poll_read(cx, buf) {
            Poll::Ready(result) => {
                self.heard.note(&buf.filled()[before..]);
                Poll::Ready(result)
            }
            Poll::Pending => match self.read_cut.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(cut_error())),
                Poll::Pending => Poll::Pending,
            },
        }
    }
}

impl<S: AsyncWrite + Unpin> KillableStream<S> {
    fn guarded<T>(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        act: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.cut.is_cancelled() {
            return Poll::Ready(Err(cut_error()));
        }
        match act(Pin::new(&mut self.inner), cx) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => match self.write_cut.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(cut_error())),
                Poll::Pending => Poll::Pending,
            },
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for KillableStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.guarded(cx, |inner, cx| inner.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.guarded(cx, |inner, cx| inner.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.guarded(cx, |inner, cx| inner.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_cut_stream_fails_whatever_it_waits_for() {
        let (near, mut far) = tokio::io::duplex(64);
        let (cut, heard) = (CancellationToken::new(), Arc::new(Heard::default()));
        let (mut read, mut write) = tokio::io::split(KillableStream::new(near, cut.clone(), heard.clone()));
        assert!(heard.last().is_none());
        far.write_all(b"SSH-2.0-x\r\n").await.expect("room");
        read.read_exact(&mut [0; 11]).await.expect("there");
        assert!(heard.last().is_some_and(|at| at <= Instant::now()));
        assert_eq!(heard.opening(), b"SSH-2.0-x\r\n");
        assert!(heard.recent() <= 11);
        let reading = tokio::spawn(async move { read.read(&mut [0; 16]).await });
        let writing = tokio::spawn(async move {
            loop {
                if let Err(e) = write.write_all(&[0; 64]).await {
                    return e;
                }
            }
        });
        tokio::task::yield_now().await;
        cut.cancel();
        assert_eq!(reading.await.expect("no panic").expect_err("cut").kind(), io::ErrorKind::ConnectionAborted);
        assert_eq!(writing.await.expect("no panic").kind(), io::ErrorKind::ConnectionAborted);
    }
}
