//! Starts one program with three pipes, in a session of its own, with nothing of ours inherited.
//!
//! Invariant: the child has the default signal dispositions, an empty signal mask, exactly the given environment and no
//! descriptor but 0, 1 and 2; its pid is its process group and its session from its first instruction on.

use super::children;
use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::OnceLock;

/// A program that was started. Its process is waited for by whoever holds `child`.
pub(super) struct Spawned {
    pub(super) child: children::Own,
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// Starts `program` with pipes on all three descriptors. Returns when the program runs (the call takes the time of the exec,
/// about 0.2 ms), or with the reason why it cannot be executed.
pub(super) fn piped(program: &Path, args: &[CString], env: &[CString]) -> io::Result<Spawned> {
    let (child_in, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stdout, child_out) = pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, child_err) = pipe_with(PipeFlags::CLOEXEC)?;
    let pipes = [children::inode(&stdin)?, children::inode(&stdout)?, children::inode(&stderr)?];
    let child = run(program, args, env, [&child_in, &child_out, &child_err], pipes)?;
    Ok(Spawned { child, stdin, stdout, stderr })
}

/// Starts `program` with the given descriptors as 0, 1 and 2.
pub(super) fn run(program: &Path, args: &[CString], env: &[CString], fds: [&OwnedFd; 3], pipes: [u64; 3]) -> io::Result<children::Own> {
    let mut actions = PosixSpawnFileActions::init()?;
    for fd in inherited() {
        actions.add_close(*fd)?;
    }
    // Our pipes may themselves have the numbers 0 to 2 when the daemon was started without them: then a plain sequence of
    // dup2 would overwrite one before it is used.
    let safe: Vec<OwnedFd> =
        fds.iter().map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 3)).collect::<Result<_, _>>().map_err(io::Error::from)?;
    for (target, fd) in (0..).zip(&safe) {
        actions.add_dup2(fd.as_raw_fd(), target)?;
    }
    let mut attr = PosixSpawnAttr::init()?;
    let session = PosixSpawnFlags::from_bits_retain(i32::from(nix::libc::POSIX_SPAWN_SETSID));
    attr.set_flags(session | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK)?;
    attr.set_sigdefault(&SigSet::all())?;
    attr.set_sigmask(&SigSet::empty())?;
    children::adopt_new(pipes, || Ok(posix_spawn(program, &actions, &attr, args, env)?.as_raw()))
}

/// The descriptors that this process got from whoever started it without close-on-exec (a lock of the caller's shell, say):
/// looked up once, since everything opened later is closed on exec.
fn inherited() -> &'static [RawFd] {
    static FDS: OnceLock<Vec<RawFd>> = OnceLock::new();
    FDS.get_or_init(|| {
        let Ok(entries) = std::fs::read_dir("/proc/self/fdinfo") else { return Vec::new() };
        let numbers = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<RawFd>().ok()).filter(|fd| *fd > 2);
        numbers.filter(|fd| !closed_on_exec(*fd)).collect()
    })
}

/// Tells whether a descriptor is closed on exec, from its flags in /proc (octal); what has vanished counts as closed.
fn closed_on_exec(fd: RawFd) -> bool {
    let Ok(info) = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")) else { return true };
    let flags = info.lines().find_map(|l| l.strip_prefix("flags:")).and_then(|f| i32::from_str_radix(f.trim(), 8).ok());
    flags.is_none_or(|f| f & nix::libc::O_CLOEXEC != 0)
}

/// Makes C strings of words that hold no NUL.
pub(super) fn words<S: AsRef<[u8]>>(words: impl IntoIterator<Item = S>) -> io::Result<Vec<CString>> {
    words.into_iter().map(|w| CString::new(w.as_ref()).map_err(|_| io::Error::from(Errno::EINVAL))).collect()
}
