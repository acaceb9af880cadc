//! The children of this process: those we started, and orphans that came to us because we are a child subreaper.
//!
//! Invariant: only the status of an orphan is collected here, never that of a child that somebody else in this process
//! waits for. An orphan is known by its session: our own children stay in our session or are listed here.

use super::procfs::{self, Proc};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// Orphans whose status was collected and is remembered.
const ORPHANS_KEPT: usize = 256;
/// Ended shells that are remembered, to tell whose an orphan is.
const ENDED_KEPT: usize = 1024;
/// Orphans are collected at most this often: a burst of short commands then costs one look.
const SWEEP_PAUSE: Duration = Duration::from_millis(50);
/// A child that has ended in a session that no shell of ours began is collected after this: an orphan that made a session of
/// its own, unless somebody in this process started it and waits for it.
const STRANGE_AFTER: Duration = Duration::from_secs(10);

/// What is known of a child that we started.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) pid: u32,
    pub(super) start: u64,
    /// Inodes of its pipes: stdin, stdout, stderr.
    pub(super) pipes: [u64; 3],
    /// A handle on the process that cannot mean another one.
    pub(super) pidfd: Arc<OwnedFd>,
    /// When it ended, in ticks since boot.
    pub(super) ended: Option<u64>,
}

// The children of a process belong to the process as a whole, whatever object started them: so does this list.
static OWN: Mutex<Register> = Mutex::new(Register { alive: BTreeMap::new(), ended: VecDeque::new(), orphans: VecDeque::new() });
static SUBREAPER: AtomicBool = AtomicBool::new(false);

struct Register {
    alive: BTreeMap<u32, Known>,
    ended: VecDeque<Known>,
    /// How orphans ended: number, start time, status.
    orphans: VecDeque<(u32, u64, Status)>,
}

fn register() -> MutexGuard<'static, Register> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child that we started and must wait for.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) known: Known,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Code(i32),
    Signal(i32),
}

/// Starts a child and lists it in one step, so that it is never taken for an orphan.
pub(super) fn adopt_new(pipes: [u64; 3], spawn: impl FnOnce() -> io::Result<i32>) -> io::Result<Own> {
    let mut own = register();
    let raw = spawn()?;
    let pid = Pid::from_raw(raw).ok_or(io::ErrorKind::InvalidData)?;
    let pidfd = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(fd) => Arc::new(fd),
        Err(e) => {
            // Without a handle it cannot be watched: it must not stay behind. It is ours and not waited for, so the number is its.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            return Err(e.into());
        }
    };
    let number = raw.unsigned_abs();
    let start = procfs::stat(number).map_or(0, |p| p.start);
    let known = Known { pid: number, start, pipes, pidfd, ended: None };
    own.alive.insert(number, known.clone());
    Ok(Own { known })
}

impl Own {
    /// Waits for its end and collects its status. Cancel safe; but somebody must wait, or a zombie stays.
    pub(super) async fn wait(self) -> io::Result<Status> {
        let fd = watched(self.known.pidfd.clone())?;
        loop {
            let mut ready = fd.readable().await?;
            match self.collect()? {
                Some(status) => return Ok(status),
                None => ready.clear_ready(),
            }
        }
    }

    /// Collects the status if it has ended.
    fn collect(&self) -> io::Result<Option<Status>> {
        let mut own = register();
        let id = WaitId::PidFd(self.known.pidfd.as_fd());
        let status = match waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(None) => return Ok(None),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            other => other,
        };
        if let Some(mut known) = own.alive.remove(&self.known.pid) {
            known.ended = Some(procfs::now());
            own.ended.push_back(known);
            if own.ended.len() > ENDED_KEPT {
                own.ended.pop_front();
            }
        }
        let status = status?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Some(status_in(&status)))
    }
}

fn status_in(status: &rustix::process::WaitIdStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Code(code),
        (None, signal) => Status::Signal(signal.unwrap_or(0)),
    }
}

#[expect(deprecated, reason = "the safe form is sound for a descriptor that is owned; its successor is unsafe")]
fn watched(pidfd: Arc<OwnedFd>) -> io::Result<tokio::io::unix::AsyncFd<Arc<OwnedFd>>> {
    tokio::io::unix::AsyncFd::with_interest(pidfd, tokio::io::Interest::READABLE)
}

/// Waits until the process of a handle has ended. Collects nothing. Cancel safe.
pub(super) async fn readable(pidfd: Arc<OwnedFd>) -> io::Result<()> {
    watched(pidfd)?.readable().await.map(drop)
}

/// How an orphan that came to us ended: collected now, or before. None for what is not our child.
pub(super) fn status_of(orphan: &Proc, pidfd: Option<&OwnedFd>) -> Option<Status> {
    let mut own = register();
    // Whoever started it waits for it.
    if own.alive.contains_key(&orphan.pid) {
        return None;
    }
    if let Some(pidfd) = pidfd
        && let Ok(Some(status)) = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG)
    {
        own.remember(orphan, status_in(&status));
    }
    own.orphans.iter().rev().find(|(pid, start, _)| (*pid, *start) == (orphan.pid, orphan.start)).map(|(_, _, status)| *status)
}

impl Register {
    fn remember(&mut self, orphan: &Proc, status: Status) {
        if self.orphans.len() >= ORPHANS_KEPT {
            self.orphans.pop_front();
        }
        self.orphans.push_back((orphan.pid, orphan.start, status));
    }
}

/// The inode of a pipe.
pub(super) fn inode(fd: &OwnedFd) -> io::Result<u64> {
    Ok(rustix::fs::fstat(fd)?.st_ino)
}

/// Finds a child of ours by pid, and by start time where it is known.
pub(super) fn known(pid: u32, start: Option<u64>) -> Option<Known> {
    let fits = |k: &&Known| k.pid == pid && start.is_none_or(|s| s == k.start);
    let own = register();
    own.alive.get(&pid).filter(fits).or_else(|| own.ended.iter().rev().find(fits)).cloned()
}

/// All children of ours, those that have ended too.
pub(super) fn all() -> Vec<Known> {
    let own = register();
    own.alive.values().chain(&own.ended).cloned().collect()
}

/// The pids of those that still run.
pub(super) fn alive() -> BTreeSet<u32> {
    register().alive.keys().copied().collect()
}

/// Makes this process the one that orphans of its commands come to, and collects them when they end. Must be called on a
/// tokio runtime, once, before the first command; the collecting goes on as long as the runtime.
pub fn become_subreaper() -> io::Result<()> {
    let mut ended = signal(SignalKind::child())?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    SUBREAPER.store(true, Ordering::Release);
    tokio::spawn(async move {
        let mut strange = Strange::new();
        loop {
            let more = tokio::select! {
                more = ended.recv() => more,
                () = tokio::time::sleep(STRANGE_AFTER), if !strange.is_empty() => Some(()),
            };
            if more.is_none() {
                return;
            }
            tokio::time::sleep(SWEEP_PAUSE).await;
            sweep(&mut strange);
        }
    });
    Ok(())
}

/// Whether orphans of our commands come to us.
pub(super) fn is_subreaper() -> bool {
    SUBREAPER.load(Ordering::Acquire)
}

/// Ended children in sessions that no shell of ours began, and when each was first seen.
type Strange = BTreeMap<(u32, u64), Instant>;

/// Collects orphans that have ended: those in the session of a shell of ours at once, others when nobody else collects them.
fn sweep(strange: &mut Strange) {
    let Some(children) = procfs::children() else { return };
    let session = procfs::own_session();
    let mut still = Strange::new();
    for pid in children {
        // Under the lock a child that is just being started is either not there yet or listed.
        let mut own = register();
        if own.alive.contains_key(&pid) {
            continue;
        }
        let Some(p) = procfs::stat(pid).filter(|p| p.gone() && p.session != session) else { continue };
        let ours = own.alive.contains_key(&p.session) || own.ended.iter().any(|k| k.pid == p.session);
        let seen = strange.get(&(pid, p.start)).copied().unwrap_or_else(Instant::now);
        if !ours && seen.elapsed() < STRANGE_AFTER {
            still.insert((pid, p.start), seen);
            continue;
        }
        if let Some(pid) = Pid::from_raw(p.pid.cast_signed()) {
            // Failing means that it is gone already; there is nothing else to do about it.
            if let Ok(Some(status)) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
                own.remember(&p, status_in(&status));
            }
        }
    }
    *strange = still;
}
