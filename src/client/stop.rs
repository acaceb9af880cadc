//! Ending the daemon, also one that this version cannot talk to.
//!
//! Invariant: a signal goes only to the process that holds the daemon's socket or lock, never to a number read from a file
//! that nobody holds.

use super::find::{connect_at, connect_socket, here, read_lock};
use super::start::{Launcher, wait_for_turn};
use super::{ClientError, Connect};
use crate::paths::Paths;
use crate::protocol::calls::{Shutdown, ShutdownReply};
use crate::protocol::lock::{self, LockError};
use crate::report::chain;
use rustix::process::{Pid, Signal};
use std::time::Duration;

/// The daemon ends within 2 s; this allows for a machine that swaps.
const GONE_TIMEOUT: Duration = Duration::from_secs(10);

/// Ends the daemon that the environment leads to.
pub(super) async fn stop(how: &Connect, force: bool) -> Result<ShutdownReply, ClientError> {
    // Whatever config it runs with is the one to be ended.
    stop_at(&here()?, &Connect { config: None, ..how.clone() }, force).await
}

/// Ends the daemon of these folders and waits until it is gone.
pub(super) async fn stop_at(paths: &Paths, how: &Connect, force: bool) -> Result<ShutdownReply, ClientError> {
    let how = Connect { start: false, ..how.clone() };
    let reply = match connect_at(paths, &how, &Launcher::this_program).await {
        Ok(client) => match client.call(Shutdown { force }).await {
            // Somebody else had told it to end already.
            Err(ClientError::Gone(_)) => stopping(),
            reply => reply?,
        },
        Err(ClientError::Mismatch(_)) => terminate(paths).await?,
        Err(error @ ClientError::Unreachable(_)) => {
            // It does not answer, so nobody can ask it whether commands run.
            if !force {
                return Err(error);
            }
            terminate(paths).await?
        }
        // Its socket may be gone while it lives, or it is starting or ending.
        Err(ClientError::NoDaemon) if is_held(paths).await? => {
            let _nobody_starts = wait_for_turn(paths).await?;
            if read_lock(paths).await?.is_some() { terminate(paths).await? } else { stopping() }
        }
        Err(error) => return Err(error),
    };
    if reply.stopping {
        wait_until_gone(paths).await?;
    }
    Ok(reply)
}

/// Asks the daemon to end by a signal: it then ends in order, as for a call.
async fn terminate(paths: &Paths) -> Result<ShutdownReply, ClientError> {
    let content = read_lock(paths).await?.ok_or(ClientError::NoDaemon)?;
    let from_socket = match connect_socket(&content.socket).await? {
        Some(stream) => stream.peer_cred().ok().and_then(|peer| peer.pid()),
        None => None,
    };
    let pid = match from_socket {
        Some(pid) => Pid::from_raw(pid),
        None if is_held(paths).await? => Pid::from_raw(content.pid.cast_signed()),
        None => return Err(ClientError::NoDaemon),
    };
    let pid = pid.ok_or_else(|| ClientError::Unreachable("its process id is unknown".into()))?;
    // A daemon that was suspended takes the signal only when it goes on.
    let told = rustix::process::kill_process(pid, Signal::TERM).and_then(|()| rustix::process::kill_process(pid, Signal::CONT));
    match told {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(stopping()),
        Err(error) => Err(ClientError::Unreachable(format!("process {pid} could not be told to end: {error}"))),
    }
}

fn stopping() -> ShutdownReply {
    ShutdownReply { stopping: true, running: Vec::new() }
}

/// Tells whether a daemon holds the lock.
async fn is_held(paths: &Paths) -> Result<bool, ClientError> {
    let path = paths.lock_file();
    let held = tokio::task::spawn_blocking(move || lock::is_held(&path)).await;
    held.map_err(|error| ClientError::Unreachable(error.to_string()))?.map_err(|error| ClientError::Unreachable(chain(&error)))
}

/// Waits until nobody holds the lock: the process is gone then.
async fn wait_until_gone(paths: &Paths) -> Result<(), ClientError> {
    match lock::wait_until_free(&paths.lock_file(), GONE_TIMEOUT).await {
        Ok(()) => Ok(()),
        Err(error @ LockError::Io { .. }) => Err(ClientError::Unreachable(chain(&error))),
        Err(LockError::Held { waited, .. }) => {
            let fix = read_lock(paths).await?.map_or_else(String::new, |content| format!("; `kill -9 {}` ends it", content.pid));
            Err(ClientError::Unreachable(format!("it was told to end and still runs after {} s{fix}", waited.as_secs())))
        }
    }
}
