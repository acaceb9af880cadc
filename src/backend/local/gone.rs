//! Waits until nothing of a command is left.
//!
//! Invariant: it waits on handles of processes that were seen; all processes are looked at again only when those have ended.

use super::children::{self, Status};
use super::family::members;
use super::procfs::Proc;
use super::{end, signal_name};
use crate::backend::{BackendError, ErrorKind, Family, Members};
use crate::model::Outcome;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Handles held at once for one command: what is beyond them is waited for afterwards.
const MOST: usize = 64;
/// How often a process is looked at for which no handle can be had.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Waits for the end of everything of a command. Cancel safe.
pub(super) async fn gone(family: Family) -> Result<Members, BackendError> {
    let mut ended = None;
    let mut root = None;
    for round in 0_usize.. {
        let look = family.clone();
        let found = tokio::task::spawn_blocking(move || held(&look)).await;
        let mut found = found.map_err(|e| BackendError::new(ErrorKind::Internal, format!("looking for processes failed: {e}")))?;
        if found.is_empty() {
            break;
        }
        if round == 0 {
            root = only_root(&found);
        }
        // First: its status is there for a moment only.
        if let Some((proc, handle)) = root.take().and_then(|pid| found.remove(&pid)) {
            over(&proc, handle.as_ref()).await?;
            ended = children::status_of(&proc, handle.as_deref()).map(outcome);
        }
        for (proc, handle) in found.into_values() {
            over(&proc, handle.as_ref()).await?;
        }
    }
    Ok(Members { verified: true, ended, ..Members::default() })
}

/// What is alive, with handles on it. Blocking.
fn held(family: &Family) -> BTreeMap<u32, (Proc, Option<Arc<OwnedFd>>)> {
    let handles = members(family).into_iter().filter_map(|(pid, proc)| Some((pid, (proc, end::handle(&proc)?.map(Arc::new)))));
    handles.take(MOST).collect()
}

/// The process that is nobody's child of the others, when there is one alone.
fn only_root(found: &BTreeMap<u32, (Proc, Option<Arc<OwnedFd>>)>) -> Option<u32> {
    let mut roots = found.values().filter(|(proc, _)| !found.contains_key(&proc.parent)).map(|(proc, _)| proc.pid);
    roots.next().filter(|_| roots.next().is_none())
}

/// Waits until a process has ended.
async fn over(proc: &Proc, handle: Option<&Arc<OwnedFd>>) -> Result<(), BackendError> {
    if let Some(handle) = handle {
        let waited = children::readable(handle.clone()).await;
        return waited.map_err(|e| BackendError::new(ErrorKind::Internal, format!("the end of a process could not be waited for: {e}")));
    }
    while end::is_still(proc) {
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    Ok(())
}

fn outcome(status: Status) -> Outcome {
    match status {
        Status::Code(exit_code) => Outcome::Exited { exit_code },
        Status::Signal(number) => Outcome::Signaled { signal: signal_name(number) },
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::local::tests::{local, pids, run};
    use crate::backend::{Ask, Backend};
    use crate::model::Outcome;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;

    const CAP: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn it_waits_for_the_last_of_them_and_no_longer() {
        let local = local();
        let mut run = run(&local, "sleep 600 & setsid sleep 600 & echo $!").await;
        let last = pids(&run.line().await)[0];
        run.exit().await;
        let mut gone = local.family(run.family.clone(), Ask::Gone);
        assert!(futures::poll!(&mut gone).is_pending());
        let seen = local.family(run.family.clone(), Ask::Survivors).await.unwrap();
        assert!(seen.alive.contains(&last), "{seen:?}");
        assert!(run.end(&local, Duration::ZERO).await.verified);
        let done = tokio::time::timeout(CAP, gone).await.expect("in time").expect("an answer");
        assert!(done.verified && done.alive.is_empty(), "{done:?}");
        assert_eq!(done.ended, None, "of two nobody says which is meant");
    }

    #[tokio::test]
    async fn an_orphan_that_came_to_us_tells_its_code() {
        let local = local();
        let mut run = run(&local, "(read -r x <&3; exit 7) & echo $!").await;
        let pid = pids(&run.line().await)[0];
        run.exit().await;
        let seen = local.family(run.family.clone(), Ask::Survivors).await.unwrap();
        assert_eq!(seen.alive, [pid]);
        let mut gone = local.family(run.family.clone(), Ask::Gone);
        let waits = async {
            let line = format!("Pid:\t{pid}\n");
            let fds = || std::fs::read_dir("/proc/self/fdinfo").expect("ours").flatten();
            while !fds().any(|fd| std::fs::read_to_string(fd.path()).is_ok_and(|text| text.contains(&line))) {
                assert!(futures::poll!(&mut gone).is_pending());
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(CAP, waits).await.expect("it waits for that process");
        run.shell.stdin.shutdown().await.unwrap();
        let done = tokio::time::timeout(CAP, gone).await.expect("in time").expect("an answer");
        assert_eq!(done.ended, Some(Outcome::Exited { exit_code: 7 }));
    }
}
