//! Which processes belong to one command.
//!
//! Invariant: a process is named only when something proves that it belongs to the command; where two commands may own it,
//! neither gets it.

use super::children::{self, Known};
use super::procfs::{self, Cookie, Proc};
use crate::backend::Family;
use std::collections::BTreeMap;

/// Finds every living process of a command: its session, its group, its environment, its descent, and orphans that can only
/// be its own. Blocking, about 1 ms for 100 processes.
pub(super) fn members(family: &Family) -> BTreeMap<u32, Proc> {
    let known = children::known(family.pid, family.start_time);
    if known.as_ref().is_some_and(nothing_left) {
        return BTreeMap::new();
    }
    let table: BTreeMap<u32, Proc> = procfs::table().into_iter().map(|p| (p.pid, p)).collect();
    let began = family.start_time.or_else(|| known.as_ref().map(|k| k.start)).unwrap_or(0);
    let mut found = close_kin(family, began, &table);
    add_descent(&mut found, &table);
    add_orphans(&mut found, family, began, known.as_ref(), &table);
    found
}

/// The ordinary end of a command, without reading the whole process table: its shell is gone, and no orphan came to us that may
/// be of this command or descend from it.
fn nothing_left(known: &Known) -> bool {
    if !children::is_subreaper() || known.ended.is_none() {
        return false;
    }
    let Some(came) = procfs::children() else { return false };
    let own = children::alive();
    let session = procfs::own_session();
    let suspect = |p: &Proc| {
        let others = p.session != known.pid && children::known(p.session, None).is_some();
        !p.gone() && p.session != session && p.start >= known.start && !others
    };
    !came.iter().filter(|pid| !own.contains(pid)).filter_map(|pid| procfs::stat(*pid)).any(|p| suspect(&p))
}

/// What is in the shell's session or group, or carries the cookie. Nothing that began before the shell can belong to it.
fn close_kin(family: &Family, began: u64, table: &BTreeMap<u32, Proc>) -> BTreeMap<u32, Proc> {
    let me = std::process::id();
    // A number that somebody else has now is no longer anybody's session or group.
    let recycled = family.start_time.is_some_and(|start| table.get(&family.pid).is_some_and(|p| p.start != start));
    let mut found = BTreeMap::new();
    for p in table.values() {
        if p.pid == me || p.start < began {
            continue;
        }
        // 0 and 1 are the session and the parent of what is none of ours.
        let kin = family.pid > 1 && !recycled && (p.pid == family.pid || p.session == family.pid || p.group == family.pid);
        if kin || procfs::cookie(p.pid, &family.cookie) == Cookie::Ours {
            found.insert(p.pid, *p);
        }
    }
    found
}

/// Adds the children of what was found, and theirs.
fn add_descent(found: &mut BTreeMap<u32, Proc>, table: &BTreeMap<u32, Proc>) {
    let me = std::process::id();
    loop {
        let new: Vec<Proc> =
            table.values().filter(|p| p.pid != me && found.contains_key(&p.parent) && !found.contains_key(&p.pid)).copied().collect();
        if new.is_empty() {
            return;
        }
        found.extend(new.into_iter().map(|p| (p.pid, p)));
    }
}

/// Adds orphans that came to us and left their session and environment behind (`env -i setsid`), where they can only be of
/// this command.
fn add_orphans(found: &mut BTreeMap<u32, Proc>, family: &Family, began: u64, known: Option<&Known>, table: &BTreeMap<u32, Proc>) {
    let Some(known) = known.filter(|_| children::is_subreaper()) else { return };
    let session = procfs::own_session();
    let own = children::alive();
    let orphans: Vec<Proc> = procfs::children()
        .unwrap_or_default()
        .iter()
        .filter_map(|pid| table.get(pid))
        .filter(|p| p.session != session && p.start >= began && !own.contains(&p.pid) && !found.contains_key(&p.pid))
        .copied()
        .collect();
    if orphans.is_empty() {
        return;
    }
    let others: Vec<Known> = children::all().into_iter().filter(|k| k.pid != known.pid || k.start != known.start).collect();
    for orphan in orphans {
        if is_certain(&orphan, family, known, &others, table) {
            found.insert(orphan.pid, orphan);
        }
    }
    add_descent(found, table);
}

/// Whether an orphan can only be of this command.
fn is_certain(orphan: &Proc, family: &Family, known: &Known, others: &[Known], table: &BTreeMap<u32, Proc>) -> bool {
    match procfs::cookie(orphan.pid, &family.cookie) {
        Cookie::Ours => return true,
        Cookie::Other => return false,
        Cookie::None => {}
    }
    if others.iter().any(|k| orphan.session == k.pid || orphan.group == k.pid) {
        return false;
    }
    let ends = procfs::ends(orphan.pid).unwrap_or_default();
    let holds = |k: &Known| ends.iter().any(|e| k.pipes.contains(&e.inode));
    if holds(known) {
        return true;
    }
    !others.iter().any(|k| holds(k) || may_own(k, orphan, table))
}

/// Whether an orphan may come from another of our shells.
fn may_own(shell: &Known, orphan: &Proc, table: &BTreeMap<u32, Proc>) -> bool {
    if shell.start > orphan.start {
        return false;
    }
    match (shell.ended, table.get(&shell.pid)) {
        // A shell that never forked (one that waits for its script) has no children, and has waited for none.
        (None, Some(p)) => p.waited_faults > 0 || table.values().any(|c| c.parent == shell.pid),
        (Some(ended), _) if ended >= orphan.start => true,
        // It ended before, but what it left may have started the orphan.
        _ => table.values().any(|c| c.session == shell.pid && c.start >= shell.start),
    }
}
