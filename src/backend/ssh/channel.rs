//! One channel on which one command runs.
//!
//! Invariant: a channel that nobody holds any more is closed, so it never takes up room on the server for nothing; and no write
//! waits longer than the channel lives.

use super::link::LinkState;
use super::sink::{Sink, Status};
use super::spool::SpoolReader;
use crate::backend::{BackendError, ErrorKind, Exit};
use russh::client::Msg;
use russh::{ChannelId, ChannelWriteHalf, Sig};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use tokio::sync::watch;
use tokio_util::sync::WaitForCancellationFutureOwned;

/// What keeps the channel open. Dropping the last one closes it.
struct Guard {
    id: ChannelId,
    write: Arc<ChannelWriteHalf<Msg>>,
    sink: Arc<Sink>,
    link: Arc<LinkState>,
    runtime: tokio::runtime::Handle,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Gone from the link: the server has closed it, or the link is lost.
        let Some(sink) = self.link.forget(self.id) else { return };
        sink.gone.cancel();
        let (write, link) = (self.write.clone(), self.link.clone());
        self.runtime.spawn(async move {
            tokio::select! {
                () = link.closed.cancelled() => {}
                sent = write.close() => if let Err(e) = sent {
                    tracing::debug!("a channel could not be closed: {e}");
                },
            }
            sink.free();
        });
    }
}

/// A channel.
pub(super) struct Channel {
    guard: Arc<Guard>,
    /// Its stdin.
    pub(super) stdin: Stdin,
    /// Its stdout.
    pub(super) stdout: Output,
    /// Its stderr.
    pub(super) stderr: Output,
}

impl Channel {
    /// Takes over a channel that the server has confirmed.
    pub(super) fn new(channel: russh::Channel<Msg>, sink: Arc<Sink>, link: Arc<LinkState>, runtime: tokio::runtime::Handle) -> Self {
        // Everything that arrives comes through the handler. The half that would have to be drained is let go of here, so
        // that nothing can ever be left in it.
        let (read, write) = channel.split();
        drop(read);
        let (id, write) = (write.id(), Arc::new(write));
        link.add(id, sink.clone());
        let guard = Arc::new(Guard { id, write, sink: sink.clone(), link, runtime });
        Self {
            stdin: Stdin::new(guard.clone()),
            stdout: Output { reader: SpoolReader::new(sink.stdout.clone()), _guard: guard.clone() },
            stderr: Output { reader: SpoolReader::new(sink.stderr.clone()), _guard: guard.clone() },
            guard,
        }
    }

    /// Asks for variables; a server that does not want them says nothing.
    pub(super) async fn set_env(&self, variables: &[(String, String)]) -> Result<(), russh::Error> {
        for (name, value) in variables {
            tokio::select! {
                () = self.guard.sink.gone.cancelled() => return Err(russh::Error::Disconnect),
                sent = self.guard.write.set_env(false, name.as_str(), value.as_str()) => sent?,
            }
        }
        Ok(())
    }

    /// Asks for the command to be run. The answer shows in the status.
    pub(super) async fn request(&self, command: &str) -> Result<(), russh::Error> {
        tokio::select! {
            () = self.guard.sink.gone.cancelled() => Err(russh::Error::Disconnect),
            sent = self.guard.write.exec(true, command) => sent,
        }
    }

    /// Gives its streams.
    pub(super) fn into_streams(self) -> (Stdin, Output, Output) {
        (self.stdin, self.stdout, self.stderr)
    }

    /// How it stands.
    pub(super) fn watch(&self) -> watch::Receiver<Status> {
        self.guard.sink.watch()
    }

    /// Asks the server to kill what runs on the channel. Servers may not do it and do not answer.
    pub(super) async fn kill(&self) {
        tokio::select! {
            () = self.guard.sink.gone.cancelled() => {}
            sent = self.guard.write.signal(Sig::KILL) => if let Err(e) = sent {
                tracing::debug!("a channel could not be signalled: {e}");
            },
        }
    }

    /// Waits for the end of the command or of the channel, without holding it open.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let (gone, mut status) = (self.guard.sink.gone.clone(), self.watch());
        async move {
            tokio::select! {
                () = gone.cancelled() => {}
                // Whatever comes of it, the end is what was waited for.
                _ = status.wait_for(|s| s.exit.is_some()) => {}
            }
        }
    }

    /// Waits for the end of the command. Holds the channel open meanwhile.
    pub(super) fn exit(&self, place: String) -> impl Future<Output = Exit> + Send + 'static {
        let (guard, mut status) = (self.guard.clone(), self.watch());
        async move {
            let ended = |s: &Status| s.exit.is_some() || s.closed || s.lost.is_some() || s.accepted == Some(false);
            let seen = match status.wait_for(ended).await {
                Ok(seen) => seen.clone(),
                Err(_) => Status::default(),
            };
            drop(guard);
            exit_of(seen, &place)
        }
    }
}

/// How a command ended, by what the server said of it. The status counts even when the link broke right after it.
fn exit_of(seen: Status, place: &str) -> Exit {
    let unsaid = || BackendError::new(ErrorKind::Lost, format!("{place} closed the command's channel without saying how it ended"));
    if seen.accepted == Some(false) {
        return Exit::Lost(BackendError::new(ErrorKind::NoShell, format!("{place} refuses to run commands")));
    }
    seen.exit.unwrap_or_else(|| Exit::Lost(seen.lost.unwrap_or_else(unsaid)))
}

/// One of the output streams.
pub(super) struct Output {
    reader: SpoolReader,
    _guard: Arc<Guard>,
}

impl tokio::io::AsyncRead for Output {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut tokio::io::ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(cx, buf)
    }
}

/// The stdin of a command. Dropping it ends it.
pub(super) struct Stdin {
    writer: Pin<Box<dyn AsyncWrite + Send + Sync>>,
    gone: Pin<Box<WaitForCancellationFutureOwned>>,
    guard: Arc<Guard>,
    begun: bool,
    ended: bool,
}

impl Stdin {
    fn new(guard: Arc<Guard>) -> Self {
        let gone = Box::pin(guard.sink.gone.clone().cancelled_owned());
        Self { writer: Box::pin(guard.write.make_writer()), gone, guard, begun: false, ended: false }
    }

    /// russh never wakes a write that waits for room when the channel ends, so the end is waited for too.
    fn guarded<T>(
        &mut self,
        cx: &mut Context<'_>,
        act: impl FnOnce(Pin<&mut (dyn AsyncWrite + Send + Sync)>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if self.guard.sink.gone.is_cancelled() {
            return Poll::Ready(Err(self.error()));
        }
        match act(self.writer.as_mut(), cx) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => match self.gone.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Err(self.error())),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn error(&self) -> io::Error {
        match self.guard.link.lost() {
            Some(why) => io::Error::new(io::ErrorKind::ConnectionReset, why.message),
            None => io::Error::new(io::ErrorKind::BrokenPipe, "the command has ended"),
        }
    }
}

impl AsyncWrite for Stdin {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if self.ended {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, "stdin was ended")));
        }
        if !self.begun {
            // A shell that waits for its script writes nothing: what is there by now came from start files.
            self.begun = true;
            self.guard.sink.stdout.discard();
        }
        self.guarded(cx, |w, cx| w.poll_write(cx, buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.guarded(cx, |w, cx| w.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.ended {
            return Poll::Ready(Ok(()));
        }
        let done = self.guarded(cx, |w, cx| w.poll_shutdown(cx));
        self.ended = done.is_ready();
        done
    }
}

impl Drop for Stdin {
    fn drop(&mut self) {
        if self.ended || self.guard.sink.gone.is_cancelled() {
            return;
        }
        let (write, sink) = (self.guard.write.clone(), self.guard.sink.clone());
        self.guard.runtime.spawn(async move {
            tokio::select! {
                () = sink.gone.cancelled() => {}
                sent = write.eof() => if let Err(e) = sent {
                    tracing::debug!("the end of a stdin could not be sent: {e}");
                },
            }
        });
    }
}
