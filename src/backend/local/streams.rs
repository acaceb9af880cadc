//! The near ends of a shell's pipes.
//!
//! Invariant: shutting stdin down closes the pipe at once: the shell sees the end of its input although the handle lives on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

/// Shells that may have such a pipe at once: the kernel gives each account 64 MiB of pipes, then only two pages for each new
/// one, the user's own too.
const LARGE_PIPES: usize = 16;

/// A shell's stdin.
pub(in crate::backend) struct Stdin {
    pipe: Option<pipe::Sender>,
}

impl Stdin {
    pub(super) fn new(pipe: pipe::Sender) -> Self {
        Self { pipe: Some(pipe) }
    }

    fn open(&mut self) -> io::Result<Pin<&mut pipe::Sender>> {
        self.pipe.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl AsyncWrite for Stdin {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.open() {
            Ok(pipe) => pipe.poll_write(cx, buf),
            Err(e) => Poll::Ready(Err(e)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pipe = None;
        Poll::Ready(Ok(()))
    }
}

/// A shell's stdout; gives its place for a large pipe back when it is closed.
pub(super) struct Stdout {
    pipe: pipe::Receiver,
    _room: Option<Room>,
}

impl Stdout {
    pub(super) fn new(pipe: pipe::Receiver, room: Option<Room>) -> Self {
        Self { pipe, _room: room }
    }
}

impl AsyncRead for Stdout {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(cx, buf)
    }
}

/// One of the places for large pipes.
pub(super) struct Room(Arc<AtomicUsize>);

impl Room {
    pub(super) fn take(count: &Arc<AtomicUsize>) -> Option<Self> {
        let free = |n: usize| (n < LARGE_PIPES).then_some(n + 1);
        count.fetch_update(Ordering::AcqRel, Ordering::Acquire, free).ok().map(|_| Self(count.clone()))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
