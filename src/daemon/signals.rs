//! The signals that end the daemon, and those that must not.
//!
//! Invariant: every signal named here has a handler, so that none of them is ignored in the commands that we start, even
//! when the client that started us was itself started with them ignored (`nohup`, a shell's `&`).

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals, heard from the moment this is made.
pub(super) struct Signals(Option<Heard>);

struct Heard {
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
    /// Heard and left alone.
    _others: Vec<Signal>,
    detached: bool,
}

impl Signals {
    /// Begins to hear them. Must be called in a runtime.
    pub(super) fn new(detached: bool) -> io::Result<Self> {
        let mut others = Vec::new();
        if detached {
            // A daemon has no terminal; these come from nobody who means it.
            let terminal = [nix::libc::SIGTSTP, nix::libc::SIGTTIN, nix::libc::SIGTTOU].map(SignalKind::from_raw);
            for kind in [SignalKind::quit(), SignalKind::user_defined1(), SignalKind::user_defined2()].into_iter().chain(terminal) {
                others.push(signal(kind)?);
            }
        }
        Ok(Self(Some(Heard {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            _others: others,
            detached,
        })))
    }

    /// Hears none: for a daemon inside another program.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Waits for a signal that ends the daemon; gives its name. SIGINT does so in the foreground only. Cancel safe.
    pub(super) async fn ending(&mut self) -> &'static str {
        let Some(heard) = &mut self.0 else { return std::future::pending().await };
        loop {
            tokio::select! {
                _ = heard.terminate.recv() => return "SIGTERM",
                _ = heard.hangup.recv() => return "SIGHUP",
                _ = heard.interrupt.recv() => if !heard.detached {
                    return "SIGINT";
                },
            }
        }
    }
}
