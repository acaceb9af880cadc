//! Starts a shell on a connection.
//!
//! Invariant: a start that fails leaves nothing running: the channel is closed, so the shell's stdin ends, and one that hangs in
//! its start files is killed where the server does that.

use super::channel::Channel;
use super::lanes::Lanes;
use crate::backend::ready::{self, NotReady};
use crate::backend::{BackendError, Environment, ErrorKind, Ready, Shell, ShellChoice, Start};
use crate::shell::start::{Pick, far_line};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;

/// Resolves when the shell has ended or was let go of.
pub(super) type Ended = BoxFuture<'static, ()>;

/// The longest command line: beyond twice this a server drops the whole connection.
const LONGEST_LINE: usize = 96 << 10;

/// Starts a shell. Cancel safe: one that comes up for nobody ends.
pub(super) async fn start(lanes: &Arc<Lanes>, start: &Start, address: &str) -> Result<(Shell, Ended), BackendError> {
    let line = line(start)?;
    let (channel, by, conn) = lanes.exec(&line, start.timeout).await?;
    let (mut shell, ended) = ready(channel, &start.nonce, by.saturating_duration_since(Instant::now()), address).await?;
    shell.held_up = Some(lanes.held_up(&conn));
    Ok((shell, ended))
}

/// The command line that starts it, whatever the login shell is.
pub(super) fn line(start: &Start) -> Result<String, BackendError> {
    let pick = match start.shell {
        ShellChoice::Auto => Pick::Auto,
        ShellChoice::Bash => Pick::Bash,
        ShellChoice::Sh => Pick::Sh,
    };
    let line = far_line(&start.nonce, pick, start.environment == Environment::Empty);
    if line.len() > LONGEST_LINE {
        return Err(BackendError::new(ErrorKind::Internal, format!("a start line of {} bytes", line.len())));
    }
    Ok(line)
}

/// Waits until the shell on the channel is ready.
pub(super) async fn ready(mut channel: Channel, nonce: &str, limit: Duration, address: &str) -> Result<(Shell, Ended), BackendError> {
    let mut exit = channel.exit(address.to_owned()).boxed();
    let came = match ready::wait(nonce, limit, &mut channel.stdout, &mut channel.stderr, &mut exit).await {
        Ok(came) => came,
        Err(why) => {
            if let NotReady::TimedOut { .. } = why {
                channel.kill().await;
            }
            return Err(why.into_error(address));
        }
    };
    let ended = channel.ended().boxed();
    let (stdin, stdout, stderr) = channel.into_streams();
    let ready =
        Ready { pid: came.line.pid, boot_id: came.line.boot_id, kind: came.line.kind, version: came.line.version, start_time: None };
    let shell = Shell {
        ready,
        noise: came.noise,
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        stderr: if came.early.is_empty() { Box::new(stderr) } else { Box::new(Cursor::new(came.early).chain(stderr)) },
        exit,
        held_up: None,
    };
    Ok((shell, ended))
}
