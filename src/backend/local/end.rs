//! Ends all processes of a command: in order, politely first, and verified.
//!
//! Invariant: a signal goes through a handle that was opened before the process was looked at a second time, so it can never
//! reach a process that took over the number of another. (Only where no more descriptors can be had it goes by number, right
//! after a look: to end what took them all matters more.)

use super::family::members;
use super::procfs::{self, Proc};
use crate::backend::{Family, Members};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long the shell alone may take to save its state and go.
const SHELL_FIRST: Duration = Duration::from_millis(300);
/// Rounds of looking for new processes while they are being stopped: only a command that forks without end needs more.
const STOP_ROUNDS: usize = 100;
/// Rounds of killing, each of at most [`KILL_PAUSE`].
const KILL_ROUNDS: usize = 50;
const KILL_PAUSE: Duration = Duration::from_millis(20);

/// How often processes without a handle are looked at.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Processes that are held by handle, where one could be had.
#[derive(Default)]
struct Held(BTreeMap<u32, (Proc, Option<OwnedFd>)>);

/// Ends a command. Blocking: takes up to the grace and 1.3 s more.
pub(super) fn end(family: &Family, grace: Duration) -> Members {
    let mut held = Held::default();
    for _ in 0..STOP_ROUNDS {
        // Stopped processes start nothing while we look; again until nothing is new.
        let new = held.add(members(family));
        if new.is_empty() {
            break;
        }
        held.send(Signal::STOP, |pid| new.contains(&pid));
    }
    held.send(Signal::TERM, |_| true);
    // The shell alone: it saves its state and goes, so the next command of a list never starts.
    held.send(Signal::CONT, |pid| pid == family.pid);
    held.wait(Instant::now() + SHELL_FIRST, |pid| pid == family.pid);
    held.send(Signal::CONT, |_| true);
    let deadline = Instant::now() + grace;
    loop {
        held.wait(deadline, |_| true);
        held.add(members(family));
        if Instant::now() >= deadline || held.0.is_empty() {
            break;
        }
    }
    kill(family, held)
}

/// Kills until nothing is found any more.
fn kill(family: &Family, mut held: Held) -> Members {
    for _ in 0..KILL_ROUNDS {
        let left = members(family);
        if left.is_empty() {
            return Members { verified: true, ..Members::default() };
        }
        held.add(left);
        held.send(Signal::STOP, |_| true);
        held.send(Signal::KILL, |_| true);
        held.wait(Instant::now() + KILL_PAUSE, |_| true);
    }
    let alive: Vec<u32> = members(family).into_keys().collect();
    Members { verified: alive.is_empty(), alive, ..Members::default() }
}

/// Sends one signal to everything of a command. Gives what got it: not what had ended by then or belongs to another account.
pub(super) fn signal(family: &Family, signal: Signal) -> Members {
    let mut held = Held::default();
    held.add(members(family));
    Members { alive: held.send(signal, |_| true), ..Members::default() }
}

impl Held {
    /// Opens handles on what is new; gives the new ones.
    fn add(&mut self, found: BTreeMap<u32, Proc>) -> Vec<u32> {
        let mut new = Vec::new();
        for (pid, proc) in found {
            if self.0.get(&pid).is_some_and(|(known, _)| known.start == proc.start) {
                continue;
            }
            let Some(handle) = handle(&proc) else { continue };
            self.0.insert(pid, (proc, handle));
            new.push(pid);
        }
        new
    }

    /// Gives those that got it. An ending need not know: what is gone is what it wants, and what belongs to another user is told by
    /// its last look.
    fn send(&self, signal: Signal, which: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut got = Vec::new();
        for (pid, (proc, handle)) in self.0.iter().filter(|(pid, _)| which(**pid)) {
            let sent = match (handle, Pid::from_raw(proc.pid.cast_signed())) {
                (Some(handle), _) => pidfd_send_signal(handle, signal).is_ok(),
                (None, Some(pid)) => is_still(proc) && kill_process(pid, signal).is_ok(),
                (None, None) => false,
            };
            if sent {
                got.push(*pid);
            }
        }
        got
    }

    /// Waits until all of these have ended, at most until the deadline. Drops those that have.
    fn wait(&mut self, deadline: Instant, which: impl Fn(u32) -> bool) {
        loop {
            let mut watched: Vec<u32> = Vec::new();
            let mut fds: Vec<PollFd<'_>> = Vec::new();
            let mut unheld: Vec<u32> = Vec::new();
            for (pid, (_, handle)) in self.0.iter().filter(|(pid, _)| which(**pid)) {
                match handle {
                    Some(handle) => {
                        watched.push(*pid);
                        fds.push(PollFd::new(handle, PollFlags::IN));
                    }
                    None => unheld.push(*pid),
                }
            }
            let mut left = deadline.saturating_duration_since(Instant::now());
            if (fds.is_empty() && unheld.is_empty()) || left.is_zero() {
                return;
            }
            if !unheld.is_empty() {
                left = left.min(LOOK_PAUSE);
            }
            let timeout = Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
            if poll(&mut fds, Some(&timeout)).is_err_and(|e| e != rustix::io::Errno::INTR) {
                return;
            }
            let mut ended: Vec<u32> = watched.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty()).map(|(pid, _)| *pid).collect();
            ended.extend(unheld.into_iter().filter(|pid| self.0.get(pid).is_none_or(|(proc, _)| !is_still(proc))));
            for pid in ended {
                self.0.remove(&pid);
            }
        }
    }
}

/// Opens a handle on a process, where one can be had. None when it is not that process any more.
pub(super) fn handle(proc: &Proc) -> Option<Option<OwnedFd>> {
    let handle = match pidfd_open(Pid::from_raw(proc.pid.cast_signed())?, PidfdFlags::empty()) {
        Ok(handle) => Some(handle),
        Err(rustix::io::Errno::SRCH) => return None,
        Err(_) => None,
    };
    is_still(proc).then_some(handle)
}

/// Whether the number still means this process, and it has not ended.
pub(super) fn is_still(proc: &Proc) -> bool {
    procfs::stat(proc.pid).is_some_and(|now| now.start == proc.start && !now.gone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::local::tests::{alive, local, run};

    #[tokio::test]
    async fn without_descriptors_it_still_ends() {
        let local = local();
        let mut run = run(&local, "trap '' TERM; echo go; while :; do sleep 600; done").await;
        run.line().await;
        let family = run.family.clone();
        let mut held = Held::default();
        held.add(members(&family));
        held.0.values_mut().for_each(|(_, handle)| *handle = None);
        let done = tokio::task::spawn_blocking(move || {
            held.send(Signal::KILL, |_| true);
            held.wait(Instant::now() + Duration::from_secs(20), |_| true);
            held.0.len()
        });
        assert_eq!(done.await.unwrap(), 0);
        run.exit().await;
        assert!(!alive(family.pid));
    }
}
