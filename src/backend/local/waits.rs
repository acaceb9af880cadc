//! Which processes wait for a command's input.
//!
//! Invariant: looks only; a process is named when the kernel says that it is in a read of that very pipe, and a read returns
//! as long as the pipe holds anything.

use super::procfs;
use crate::backend::{BackendError, ErrorKind, Members};
use nix::libc::{SYS_read, SYS_readv};
use std::fs;

/// Most processes of a command that are looked at.
const MOST: usize = 4096;

/// What is known of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// It reads the pipe, and nothing is there.
    Yes,
    /// It does something else.
    No,
    /// The kernel does not say.
    Unknown,
}

/// Finds those of the processes that wait in a read of a pipe. Who waits for it in `poll` or `select` is not found: that may be
/// for something else. Blocking, short.
pub(super) fn readers(pids: impl IntoIterator<Item = u32>, pipe: u64) -> Result<Members, BackendError> {
    let known: Vec<(u32, Waits)> = pids.into_iter().map(|pid| (pid, waits(pid, pipe))).collect();
    let alive: Vec<u32> = known.iter().filter(|(_, waits)| *waits == Waits::Yes).map(|(pid, _)| *pid).collect();
    if alive.is_empty() && known.iter().any(|(_, waits)| *waits == Waits::Unknown) {
        let text = "this machine does not tell what its processes wait for (/proc/PID/syscall and wchan are closed)";
        return Err(BackendError::new(ErrorKind::Unsupported, text));
    }
    Ok(Members { alive, ..Members::default() })
}

/// Gives a shell and what descends from it: the few processes that can have its stdin, without a look at all others. None where
/// the kernel does not tell. Blocking, short.
pub(super) fn tree(shell: u32) -> Option<Vec<u32>> {
    let mut found = vec![shell];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied().filter(|_| at < MOST) {
        at += 1;
        // One that has ended has no children any more.
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).ok()?;
            found.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    Some(found)
}

fn waits(pid: u32, pipe: u64) -> Waits {
    let held: Vec<u32> =
        procfs::ends(pid).unwrap_or_default().into_iter().filter(|end| end.inode == pipe && end.reads).map(|end| end.fd).collect();
    if held.is_empty() {
        return Waits::No;
    }
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Waits::No };
    let mut found = Waits::No;
    for task in tasks.flatten() {
        match of_task(&task.path(), &held) {
            Waits::Yes => return Waits::Yes,
            Waits::Unknown => found = Waits::Unknown,
            Waits::No => {}
        }
    }
    found
}

fn of_task(task: &std::path::Path, held: &[u32]) -> Waits {
    if let Ok(text) = fs::read_to_string(task.join("syscall")) {
        return if read_of(&text).is_some_and(|fd| held.contains(&fd)) { Waits::Yes } else { Waits::No };
    }
    // Without the descriptor, a read of some pipe by something that has this one as its stdin.
    match fs::read_to_string(task.join("wchan")) {
        Ok(name) if name.ends_with("pipe_read") => {
            if held.contains(&0) {
                Waits::Yes
            } else {
                Waits::No
            }
        }
        Ok(name) if name.is_empty() || name == "0" => Waits::Unknown,
        Ok(_) => Waits::No,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Waits::Unknown,
        // It has ended.
        Err(_) => Waits::No,
    }
}

/// Gives the descriptor that a line of /proc/PID/syscall reads: the call's number, then its arguments in hex.
fn read_of(line: &str) -> Option<u32> {
    let mut words = line.split_ascii_whitespace();
    let number: nix::libc::c_long = words.next()?.parse().ok()?;
    let fd = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    // The upper half of the register may hold anything.
    [SYS_read, SYS_readv].contains(&number).then_some(fd as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::local::tests::{local, run};
    use crate::backend::{Ask, Backend};

    #[test]
    fn a_read_is_known_by_its_number() {
        let line = |number: nix::libc::c_long, fd: &str| format!("{number} {fd} 0x7ffc 0x1000 0x0 0x0 0x0 0x7ffd 0x7f00\n");
        assert_eq!(read_of(&line(SYS_read, "0x0")), Some(0));
        assert_eq!(read_of(&line(SYS_readv, "0xffffffff00000003")), Some(3));
        assert_eq!(read_of(&line(nix::libc::SYS_close, "0x0")), None);
        assert_eq!((read_of("running\n"), read_of("-1 0x7ffc 0x7f\n"), read_of("")), (None, None, None));
    }

    #[tokio::test]
    async fn what_reads_another_pipe_or_sleeps_does_not_wait_for_input() {
        let local = local();
        let mut run = run(&local, "echo go; sleep 600 | cat").await;
        assert_eq!(run.line().await, "go");
        let found = local.family(run.family.clone(), Ask::Readers).await.unwrap();
        assert_eq!(found, Members::default());
        let tree = tree(run.family.pid).expect("the kernel tells of children");
        assert!(tree.len() >= 3 && tree[0] == run.family.pid, "{tree:?}");
        run.end(&local, std::time::Duration::ZERO).await;
    }
}
