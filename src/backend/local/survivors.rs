//! How what is left of a command stands to its output: what is about to end by itself, and what still has to write.
//!
//! Invariant: looks only; a process that is neither is never worth waiting for.

use super::procfs::{self, End};
use std::collections::{BTreeMap, BTreeSet};

/// The survivors, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds {
    /// Reads a pipe that nobody writes to any more (or only others that are ending), or is on its way out.
    pub(super) ending: BTreeSet<u32>,
    /// Is ending, and writes to the command's output, itself or through others that are ending.
    pub(super) tails: BTreeSet<u32>,
}

/// Classifies living processes. `ours` are the inodes of the command's own pipes.
pub(super) fn classify(pids: impl IntoIterator<Item = u32>, ours: &[u64]) -> Kinds {
    kinds(pids.into_iter().map(|pid| (pid, procfs::ends(pid))).collect(), ours)
}

/// The rule itself. No descriptors at all means that a process is on its way out.
fn kinds(held: BTreeMap<u32, Option<Vec<End>>>, ours: &[u64]) -> Kinds {
    let mut ending: BTreeSet<u32> = held.iter().filter(|(_, ends)| ends.is_none()).map(|(pid, _)| *pid).collect();
    let held: BTreeMap<u32, Vec<End>> = held.into_iter().map(|(pid, ends)| (pid, ends.unwrap_or_default())).collect();
    let at = |pid: u32, fd: u32| held[&pid].iter().find(|e| e.fd == fd).copied();
    loop {
        let fed = |pid: u32, pipe: u64| {
            held.iter().any(|(o, ends)| *o != pid && !ending.contains(o) && ends.iter().any(|e| e.inode == pipe && e.writes))
        };
        let new: Vec<u32> = held
            .keys()
            .copied()
            .filter(|pid| !ending.contains(pid))
            .filter(|pid| at(*pid, 0).is_some_and(|input| !ours.contains(&input.inode) && !fed(*pid, input.inode)))
            .collect();
        if new.is_empty() {
            break;
        }
        ending.extend(new);
    }
    let mut tails: BTreeSet<u32> = ending.iter().copied().filter(|pid| at(*pid, 1).is_some_and(|out| ours.contains(&out.inode))).collect();
    loop {
        let leads_to = |pid: u32, tail: u32| at(pid, 1).is_some_and(|out| at(tail, 0).is_some_and(|input| input.inode == out.inode));
        let new: Vec<u32> = ending.difference(&tails).copied().filter(|pid| tails.iter().any(|tail| leads_to(*pid, *tail))).collect();
        if new.is_empty() {
            return Kinds { ending, tails };
        }
        tails.extend(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(fd: u32, inode: u64) -> End {
        End { fd, inode, reads: true, writes: false }
    }

    fn writes(fd: u32, inode: u64) -> End {
        End { fd, inode, reads: false, writes: true }
    }

    #[test]
    fn a_chain_to_our_output_ends_and_is_worth_waiting_for() {
        // Nobody writes to 10: a reads it, b reads what a writes, and writes to our output.
        let held = BTreeMap::from([(1, Some(vec![reads(0, 10), writes(1, 11)])), (2, Some(vec![reads(0, 11), writes(1, 99)]))]);
        let kinds = kinds(held, &[99]);
        assert_eq!(kinds.ending, BTreeSet::from([1, 2]));
        assert_eq!(kinds.tails, BTreeSet::from([1, 2]));
    }

    #[test]
    fn a_reader_with_a_living_writer_does_not_end() {
        let held = BTreeMap::from([(1, Some(vec![writes(1, 10)])), (2, Some(vec![reads(0, 10), writes(1, 99)]))]);
        assert_eq!(kinds(held, &[99]), Kinds::default());
    }

    #[test]
    fn a_reader_of_the_commands_own_stdin_does_not_end() {
        assert_eq!(kinds(BTreeMap::from([(1, Some(vec![reads(0, 98), writes(1, 99)]))]), &[98, 99]), Kinds::default());
    }

    #[test]
    fn what_has_no_descriptors_left_is_ending() {
        let held = BTreeMap::from([(1, None), (2, Some(vec![writes(1, 99)]))]);
        assert_eq!(kinds(held, &[99]).ending, BTreeSet::from([1]));
    }
}
