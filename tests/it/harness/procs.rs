//! Processes of this machine, read from /proc.
//!
//! Invariant: a process is named by its id and its start time, so a recycled id is never taken for it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::path::Path;

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Proc {
    pub(crate) pid: u32,
    start: u64,
}

impl Proc {
    /// Finds a living process by its id; zombies do not count.
    pub(crate) fn find(pid: u32) -> Option<Self> {
        let stat = stat(pid)?;
        (!matches!(stat.state, 'Z' | 'X')).then_some(Self { pid, start: stat.start })
    }

    pub(crate) fn alive(&self) -> bool {
        Self::find(self.pid) == Some(*self)
    }

    /// Sends a signal, unless the process is gone.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.alive() {
            // It may end between the look and the signal: that is what was wanted.
            let _ = kill(Pid::from_raw(self.pid as i32), signal);
        }
    }

    pub(crate) fn command_line(&self) -> String {
        let bytes = std::fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ").trim().to_owned()
    }

    /// Clock ticks of processor time used so far.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        stat(self.pid).map_or(0, |s| s.ticks)
    }

    /// Resident memory in bytes.
    pub(crate) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or("0");
        line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    /// Number of open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid)).map_or(0, |d| d.count())
    }

    /// Everything that descends from it, itself not included.
    pub(crate) fn descendants(&self) -> Vec<Self> {
        let parents: HashMap<u32, u32> = all().into_iter().filter_map(|p| Some((p.pid, stat(p.pid)?.parent))).collect();
        let below = |mut pid: u32| {
            for _ in 0..64 {
                match parents.get(&pid) {
                    Some(&parent) if parent == self.pid => return true,
                    Some(&parent) => pid = parent,
                    None => return false,
                }
            }
            false
        };
        parents.keys().copied().filter(|&pid| below(pid)).filter_map(Self::find).collect()
    }
}

/// All living processes that this account may look at.
pub(crate) fn all() -> Vec<Proc> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).filter_map(Proc::find).collect()
}

/// All processes, other than this one, that have the folder in their environment or arguments.
pub(crate) fn about(folder: &Path) -> Vec<Proc> {
    let text = folder.as_os_str().as_encoded_bytes();
    let me = std::process::id();
    let holds = |pid: u32, file: &str| {
        std::fs::read(format!("/proc/{pid}/{file}")).is_ok_and(|bytes| bytes.windows(text.len().max(1)).any(|w| w == text))
    };
    all().into_iter().filter(|p| p.pid != me && (holds(p.pid, "environ") || holds(p.pid, "cmdline"))).collect()
}

struct Stat {
    state: char,
    parent: u32,
    ticks: u64,
    start: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may hold anything, brackets too.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |i: usize| fields.get(i)?.parse::<u64>().ok();
    Some(Stat { state: fields.first()?.chars().next()?, parent: number(1)? as u32, ticks: number(11)? + number(12)?, start: number(19)? })
}
