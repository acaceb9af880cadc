//! `qd stop`: stops the daemon.
//!
//! Invariant: when it exits with 0 no daemon of this user and state folder runs, so the next command starts a fresh one.

use super::args::{Global, StopArgs};
use super::failure::Failure;
use super::screen::Screen;
use super::{caller, ps, safe, words};
use crate::client::{Client, ClientError};
use crate::model::ProcessInfo;

/// Stops the daemon.
pub(crate) async fn run(global: &Global, args: &StopArgs, screen: &Screen) -> Result<u8, Failure> {
    let reply = match Client::stop(&caller::quiet(global)?, args.force).await {
        Ok(reply) => reply,
        Err(ClientError::NoDaemon) => {
            screen.say("no daemon is running");
            return Ok(0);
        }
        Err(error) => return Err(error.into()),
    };
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
    screen.say("the daemon has stopped");
    Ok(0)
}
