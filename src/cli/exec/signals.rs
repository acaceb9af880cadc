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

/// The streams of the signals; none for one that our caller had us ignore (`nohup`, a script's background job).
pub(crate) struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hang_up: Option<Signal>,
}

impl Signals {
    /// Takes over the signals.
    pub(crate) fn take() -> io::Result<Self> {
        // Where this file is missing nothing is known to be ignored.
        let ignored = std::fs::read_to_string("/proc/self/status").map_or(0, |status| ignored(&status));
        let stream = |kind: SignalKind| {
            let mask = 1u64 << (kind.as_raw_value() - 1);
            (ignored & mask == 0).then(|| signal(kind)).transpose()
        };
        Ok(Self {
            interrupt: stream(SignalKind::interrupt())?,
            terminate: stream(SignalKind::terminate())?,
            hang_up: stream(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one. Cancel safe.
    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            Some(()) = arrived(&mut self.interrupt) => Asked::Interrupt,
            Some(()) = arrived(&mut self.terminate) => Asked::Terminate,
            Some(()) = arrived(&mut self.hang_up) => Asked::HangUp,
            // A signal's stream never ends while the runtime lives.
            else => std::future::pending().await,
        }
    }
}

async fn arrived(stream: &mut Option<Signal>) -> Option<()> {
    match stream {
        Some(stream) => stream.recv().await,
        None => std::future::pending().await,
    }
}

/// Reads the mask of ignored signals from the text of `/proc/self/status`.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        assert_eq!(ignored("Name:\tqd\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001003\nSigCgt:\t0\n"), 0x1003);
        assert_eq!(ignored("Name:\tqd\n"), 0);
    }
}
