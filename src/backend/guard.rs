//! Making sure that no local command outlives the daemon, whatever ends it.
//!
//! Invariant: what is above the backends knows that there is a guard, not which kind of backend needs it.

use super::local::become_subreaper;
use super::local::reaper::{self, Reaper};
use std::io;
use std::path::Path;

/// The daemon's side of the guard. Without one (in tests) commands may outlive a killed process.
#[derive(Clone, Default)]
pub struct Guard(Option<Reaper>);

impl Guard {
    /// Makes this process the one that orphans of its commands come to, and starts the child that ends local commands when
    /// this process is killed: `program` with `args` (its own name first) must call [`reap`] and nothing else. Must be called on
    /// a tokio runtime. What cannot be had is said in the log; commands run all the same.
    pub fn start(program: &Path, args: &[&str]) -> Self {
        if let Err(error) = become_subreaper() {
            tracing::warn!(%error, "orphans of commands cannot be adopted: some may be missed when a command is ended");
        }
        let started = Reaper::start(program, args);
        Self(started.map_err(|error| tracing::warn!(%error, "no reaper: commands may outlive a killed daemon")).ok())
    }

    /// The reaper, for the backend that needs it.
    pub(super) fn reaper(&self) -> Option<&Reaper> {
        self.0.as_ref()
    }
}

/// The life of the child that ends local commands when the daemon is killed. Blocking.
pub fn reap() -> io::Result<()> {
    reaper::main_loop()
}
