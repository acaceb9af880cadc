//! `qd stop`: stops the daemon.
//!
//! Invariant: when it exits with 0 no daemon of this user and state folder runs, so the next command starts a fresh one.

use super::args::{Global, StopArgs};
use super::failure::Failure;
use super::screen::Screen;
use super::{caller, ps, safe, words};
use crate::model::ProcessInfo;
use crate::protocol::calls::Shutdown;
use std::time::Duration;

/// How long the daemon may take after it has said that it goes: it ends its commands within 2 s.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stops the daemon.
pub(crate) async fn run(global: &Global, args: &StopArgs, screen: &Screen) -> Result<u8, Failure> {
    let Some(client) = caller::find(global).await? else {
        screen.say("no daemon is running");
        return Ok(0);
    };
    // The events end with the connection, and that ends with the daemon.
    let mut events = client.watch().await?;
    let reply = client.call(Shutdown { force: args.force }).await?;
    if !reply.stopping {
        let rows: Vec<&ProcessInfo> = reply.running.iter().collect();
        let text = ps::table(&rows, words::now()).text(&Screen { width: None, color: false, ..screen.clone() });
        let count = rows.len();
        return Err(Failure::Refused(format!(
            "the daemon was not stopped: {count} {} running (qd stop --force ends {})\n{}",
            if count == 1 { "command is" } else { "commands are" },
            if count == 1 { "it" } else { "them" },
            safe::lines(text.trim_end())
        )));
    }
    let gone = async { while events.recv().await.is_some() {} };
    if tokio::time::timeout(PATIENCE, gone).await.is_err() {
        return Err(Failure::Internal(format!("the daemon said that it stops, but it is still there after {} s", PATIENCE.as_secs())));
    }
    screen.say("the daemon has stopped");
    Ok(0)
}
