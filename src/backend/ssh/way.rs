//! The byte stream to a machine: a TCP connection, a ProxyCommand, or a channel of the machine before it.
//!
//! Invariant: the stream owns what carries it. When it is dropped the socket is closed, the command is ended, and the connection to
//! the machine before it is shut.

use super::child::{self, Said};
use super::conn::Conn;
use super::dial;
use super::link::LinkState;
use super::stream::KillableStream;
use super::target::{Target, Via};
use crate::backend::{BackendError, ErrorKind};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes both ways.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Bytes for T {}

/// What carries a connection, to tell why it broke.
pub(super) enum Carrier {
    /// A socket of our own.
    Socket,
    /// A command.
    Command(Arc<Said>),
    /// A machine before it, by its name.
    Hop(String, Arc<LinkState>),
}

impl Carrier {
    /// Says why it broke, if it did.
    pub(super) async fn broke(&self) -> Option<String> {
        match self {
            Self::Socket => None,
            Self::Command(said) => said.ending().await.map(|ending| format!("its ProxyCommand {ending}")),
            Self::Hop(name, link) => link.lost().map(|why| format!("the jump host {name} was lost: {why}")),
        }
    }

    /// What it has said so far, if it can say anything.
    pub(super) fn says(&self) -> Option<String> {
        match self {
            Self::Command(said) => said.so_far(),
            Self::Socket | Self::Hop(..) => None,
        }
    }
}

/// A connection to the machine before, which is shut when it is let go of.
pub(super) struct Hop(pub(super) Arc<Conn>);

impl Drop for Hop {
    fn drop(&mut self) {
        // What hangs on it would otherwise hold it.
        self.0.shut();
    }
}

/// A stream and what must live as long.
struct Held<S, H> {
    stream: S,
    _held: H,
}

/// Opens the stream. `before` is the connection to the machine before the target, if there is one. Cancel safe: nothing is left.
pub(super) async fn open(target: &Target, before: Option<Hop>) -> Result<(Box<dyn Bytes>, Carrier), BackendError> {
    if let Some(hop) = before {
        let carrier = Carrier::Hop(hop.0.target().shown(), hop.0.link.clone());
        let stream = hop.0.pass_on(&target.host, target.port).await?;
        // A write that waits for room on a channel would never learn that the connection under it is gone.
        let stream = KillableStream::new(stream, hop.0.link.closed.clone(), Arc::default());
        return Ok((Box::new(Held { stream, _held: hop }), carrier));
    }
    let Via::Command(command) = &target.via else {
        return Ok((Box::new(dial::dial(target).await?), Carrier::Socket));
    };
    let shell = target.variable("SHELL").map_or_else(|| PathBuf::from("/bin/sh"), PathBuf::from);
    let started = child::carry(&shell, command, &target.variables());
    let child = started.map_err(|e| {
        BackendError::new(
            ErrorKind::Config,
            format!("the ProxyCommand to {} cannot be started with {}: {e}", target.place(), shell.display()),
        )
    })?;
    let stream = tokio::io::join(child.stdout, child.stdin);
    Ok((Box::new(Held { stream, _held: child.guard }), Carrier::Command(child.said)))
}

impl<S: AsyncRead + Unpin, H: Unpin> AsyncRead for Held<S, H> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin, H: Unpin> AsyncWrite for Held<S, H> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What is broken is shut. An error here would take the place of the reason why it broke.
        Pin::new(&mut self.stream).poll_shutdown(cx).map(|_| Ok(()))
    }
}
