//! Reads what /proc says of processes.
//!
//! Invariant: a process that vanishes while it is looked at is simply not there; nothing here fails because of it.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

/// Ticks a second in /proc: USER_HZ, 100 on every architecture that we run on.
const TICKS: u64 = 100;

/// One line of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proc {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    pub(super) state: u8,
    /// When it began, in ticks since boot.
    pub(super) start: u64,
    /// Minor faults of children that it has waited for: more than none once it has waited for any.
    pub(super) waited_faults: u64,
}

impl Proc {
    /// Whether it has ended and only waits to be collected.
    pub(super) fn gone(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// One descriptor of a process that is a pipe or a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) fd: u32,
    pub(super) inode: u64,
    pub(super) reads: bool,
    pub(super) writes: bool,
}

/// Reads one process.
pub(super) fn stat(pid: u32) -> Option<Proc> {
    // The line is at most about 400 bytes: one read gets it whole.
    let mut buf = [0_u8; 1024];
    let n = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut buf).ok()?;
    parse(pid, &buf[..n])
}

/// Parses a line; the name in parentheses may hold anything, so counting starts after the last one.
fn parse(pid: u32, line: &[u8]) -> Option<Proc> {
    let after = line.iter().rposition(|b| *b == b')')? + 2;
    let text = std::str::from_utf8(line.get(after..)?).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let session = fields.next()?.parse().ok()?;
    let waited_faults = fields.nth(4)?.parse().ok()?;
    let start = fields.nth(10)?.parse().ok()?;
    Some(Proc { pid, parent, group, session, state, start, waited_faults })
}

/// Reads all processes, but those that have ended.
pub(super) fn table() -> Vec<Proc> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(stat).filter(|p| !p.gone()).collect()
}

/// The children of this process whose parent is its first thread: orphans always come to that one. None where the kernel
/// does not tell.
pub(super) fn children() -> Option<Vec<u32>> {
    static PATH: OnceLock<String> = OnceLock::new();
    let path = PATH.get_or_init(|| format!("/proc/self/task/{}/children", std::process::id()));
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.split_ascii_whitespace().filter_map(|p| p.parse().ok()).collect())
}

/// The session of this process; 0 where its leader is out of sight (a process that was put into a container from outside), as
/// for every other process of that session.
pub(super) fn own_session() -> u32 {
    nix::unistd::getsid(None).map_or(0, |p| p.as_raw().unsigned_abs())
}

/// The present moment in the ticks of [`Proc::start`].
pub(super) fn now() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    t.tv_sec.unsigned_abs() * TICKS + t.tv_nsec.unsigned_abs() * TICKS / 1_000_000_000
}

/// What the environment of a process says about a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cookie {
    /// It is this one.
    Ours,
    /// It has another one.
    Other,
    /// It has none, or cannot be looked at.
    None,
}

/// Looks for a cookie (`NAME=value`; empty: none) in the environment that a process began with.
pub(super) fn cookie(pid: u32, cookie: &str) -> Cookie {
    // The end of every environment looks like an empty entry.
    if cookie.is_empty() {
        return Cookie::None;
    }
    let Ok(environ) = std::fs::read(format!("/proc/{pid}/environ")) else { return Cookie::None };
    let name = cookie.split_inclusive('=').next().unwrap_or(cookie).as_bytes();
    let mut found = Cookie::None;
    for entry in environ.split(|b| *b == 0) {
        if entry == cookie.as_bytes() {
            return Cookie::Ours;
        }
        if entry.starts_with(name) {
            found = Cookie::Other;
        }
    }
    found
}

/// The pipes and sockets that a process holds. None while it is on its way out; nothing when it may not be looked at.
pub(super) fn ends(pid: u32) -> Option<Vec<End>> {
    let mut found = Vec::new();
    let mut any = false;
    let entries = match std::fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => return Some(found),
        Err(_) => return None,
    };
    for entry in entries.flatten() {
        any = true;
        let name = entry.file_name();
        let Some(fd) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let Some(inode) = std::fs::read_link(entry.path()).ok().and_then(|l| link_inode(l.as_os_str().as_bytes())) else { continue };
        let Some(mode) = access_mode(pid, fd) else { continue };
        found.push(End { fd, inode, reads: mode != 1, writes: mode != 0 });
    }
    any.then_some(found)
}

/// The inode in `pipe:[123]` or `socket:[123]`.
fn link_inode(link: &[u8]) -> Option<u64> {
    let rest = link.strip_prefix(b"pipe:[").or_else(|| link.strip_prefix(b"socket:["))?;
    std::str::from_utf8(rest.strip_suffix(b"]")?).ok()?.parse().ok()
}

/// 0 reads, 1 writes, 2 both.
fn access_mode(pid: u32, fd: u32) -> Option<u32> {
    let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    let flags = info.lines().find_map(|l| l.strip_prefix("flags:"))?;
    u32::from_str_radix(flags.trim(), 8).ok().map(|f| f & 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let line = b"42 (a) b (c\n) S 7 8 9 0 -1 4194304 100 55 0 0 1 2 3 4 20 0 1 0 987654 1 2 3\n";
        let p = parse(42, line).expect("parsed");
        assert_eq!((p.parent, p.group, p.session, p.state, p.waited_faults, p.start), (7, 8, 9, b'S', 55, 987_654));
    }

    #[test]
    fn this_process_is_in_the_table() {
        let me = std::process::id();
        let p = stat(me).expect("stat");
        assert!(table().iter().any(|q| q.pid == me && q.start == p.start));
        assert!(p.start <= now());
        assert_eq!(own_session(), p.session);
    }
}
