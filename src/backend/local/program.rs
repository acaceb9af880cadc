//! A program of this machine that leads to another place: `docker exec -i`, `kubectl exec -i`, `ssh`.
//!
//! Invariant: it is a child in a session of its own with nothing of ours inherited, ends with the daemon however that ends, and is
//! ended by a handle that cannot mean another process.

use super::streams::Stdin;
use super::{ClientEnv, Unborn, login, procfs, refused, spawn, watch_exit};
use crate::backend::{BackendError, ErrorKind, Exit, Family, Guard};
use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use tokio::net::unix::pipe;

/// A program that runs.
pub(in crate::backend) struct Program {
    pub(in crate::backend) stdin: Stdin,
    pub(in crate::backend) stdout: pipe::Receiver,
    pub(in crate::backend) stderr: pipe::Receiver,
    pub(in crate::backend) exit: BoxFuture<'static, Exit>,
    /// Ends it with its process group; nothing happens when it has ended.
    pub(in crate::backend) cut: Box<dyn FnOnce() + Send>,
}

impl Program {
    /// Starts a program with the environment of a login on this machine, in the daemon's directory. The first word names it: a path, or
    /// a name that is looked for on the PATH of the operator's newest client, then on the daemon's.
    pub(in crate::backend) async fn start(words: &[String], client: &ClientEnv, guard: &Guard) -> Result<Self, BackendError> {
        let (words, client) = (words.to_vec(), client.clone());
        let reaper = guard.reaper().cloned();
        let started = tokio::task::spawn_blocking(move || start(&words, &client)).await;
        let spawned = started.map_err(|e| BackendError::new(ErrorKind::Internal, format!("the program could not be started: {e}")))??;
        let known = spawned.child.known.clone();
        if let Some(reaper) = &reaper {
            reaper.watch(&Family { pid: known.pid, start_time: Some(known.start), age: None, cookie: String::new() });
        }
        let internal = |e: std::io::Error| BackendError::new(ErrorKind::Internal, format!("a pipe of a program failed: {e}"));
        Ok(Self {
            exit: watch_exit(spawned.child, reaper),
            cut: Box::new(move || drop(Unborn { known: Some(known) })),
            stdin: Stdin::new(pipe::Sender::from_owned_fd(spawned.stdin).map_err(internal)?),
            stdout: pipe::Receiver::from_owned_fd(spawned.stdout).map_err(internal)?,
            stderr: pipe::Receiver::from_owned_fd(spawned.stderr).map_err(internal)?,
        })
    }
}

/// Whether a shell with this number is a descendant of this process, under the same account and with the same root: what else the
/// files of another place would be taken for is not known.
pub(in crate::backend) fn shares_files(pid: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let stat = |path: &str| std::fs::metadata(path).ok();
    let (Some(process), Some(root), Some(own)) = (stat(&format!("/proc/{pid}")), stat(&format!("/proc/{pid}/root/")), stat("/")) else {
        return false;
    };
    let mut at = pid;
    while at > 1 && at != std::process::id() {
        at = procfs::stat(at).map_or(0, |process| process.parent);
    }
    at == std::process::id() && process.uid() == rustix::process::geteuid().as_raw() && (root.dev(), root.ino()) == (own.dev(), own.ino())
}

/// Looks for it and starts it, blocking.
fn start(words: &[String], client: &ClientEnv) -> Result<spawn::Spawned, BackendError> {
    let env = login::environment(client);
    let name = words.first().map(String::as_str).unwrap_or_default();
    let path = env.iter().find(|(variable, _)| variable == b"PATH").map(|(_, path)| path.as_slice()).unwrap_or_default();
    let Some(program) = find(name, path) else {
        return Err(BackendError::new(ErrorKind::Config, format!("there is no program {name} on this machine"))
            .with_fix("install it, or give its whole path in the config"));
    };
    let invalid = |e: std::io::Error| refused(&program, &e);
    let args = spawn::words(words.iter().map(String::as_bytes)).map_err(invalid)?;
    let env = spawn::words(env.into_iter().map(|(name, value)| [name, value].join(&b'='))).map_err(invalid)?;
    spawn::piped(&program, &args, &env).map_err(|e| refused(&program, &e))
}

fn find(name: &str, path: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| login::executable(file));
    }
    let dirs = std::env::split_paths(std::ffi::OsStr::from_bytes(path)).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(name)).find(|file| login::executable(Path::new(file))).or_else(|| login::find(name))
}
