//! The signals that end a `qd exec`: SIGINT, SIGTERM, SIGHUP.
//!
//! Invariant: none of them ends `qd` by itself while a command runs; the command is ended first.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that asks us to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal went away.
    HangUp,
}

impl Asked {
    /// Gives what a program ended by the signal exits with.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
            Self::HangUp => 129,
        }
    }
}

/// The streams of the signals.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Takes over the signals.
    pub(crate) fn take() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one. Cancel safe.
    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Asked::Interrupt,
            Some(()) = self.terminate.recv() => Asked::Terminate,
            Some(()) = self.hang_up.recv() => Asked::HangUp,
            // A signal's stream never ends while the runtime lives.
            else => std::future::pending().await,
        }
    }
}
