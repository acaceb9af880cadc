//! `qd logs`: prints the kept output of commands, and follows it.
//!
//! Invariant: with `--raw` and without `--grep` the bytes of one log come out exactly; what is missing is said.

mod follower;
mod form;
mod last;
mod lines;

use super::again::again;
use super::args::{Global, LogsArgs};
use super::caller;
use super::failure::Failure;
use super::screen::Screen;
use crate::client::{Client, ClientError};
use crate::protocol::calls::{CallError, ErrorCode, Wait};
pub(super) use follower::unseen;
use follower::{Follower, Stop};
use form::Out;
use futures::future::join_all;
use regex::bytes::Regex;

/// Prints logs.
pub(crate) async fn run(global: &Global, args: &LogsArgs, screen: &Screen) -> Result<u8, Failure> {
    let grep = args.grep.as_deref().map(Regex::new).transpose();
    let grep = grep.map_err(|e| Failure::usage(format!("--grep: {e}")))?;
    let mut client = caller::need(global, &args.ids).await?;
    let rows = client.call(Wait { processes: args.ids.clone(), timeout_ms: Some(0), told: false }).await?;
    let out = Out::new(args, &rows, screen);
    let mut left: Vec<Follower<'_>> =
        rows.into_iter().enumerate().map(|(index, row)| Follower::new(args, grep.clone(), row, out.at(index))).collect();
    let mut told = false;
    loop {
        let stopped = go_on(&client, &mut left, args.follow).await;
        let mut why = None;
        let mut open = Vec::new();
        for (follower, stop) in left.into_iter().zip(stopped) {
            match stop {
                Ok(Stop::End) => {}
                Ok(Stop::Gone(reason)) => {
                    why = Some(reason);
                    open.push(follower);
                }
                Err(failure) => return Err(follower.explain(failure)),
            }
        }
        let Some(why) = why else { return Ok(0) };
        if !args.follow {
            return Err(ClientError::Gone(why).into());
        }
        if !std::mem::replace(&mut told, true) {
            screen.insist(&format!("the daemon is gone ({why}); following goes on where it was as soon as one is there"));
        }
        client = again(global, why).await?;
        left = open;
    }
}

/// Prints what there is, and what comes: one log after the other, or all of them as they grow.
async fn go_on(client: &Client, left: &mut [Follower<'_>], at_once: bool) -> Vec<Result<Stop, Failure>> {
    if at_once {
        return join_all(left.iter_mut().map(|one| one.go(client))).await;
    }
    let mut stopped = Vec::with_capacity(left.len());
    for one in left {
        stopped.push(one.go(client).await);
    }
    stopped
}

impl Follower<'_> {
    /// Says what a failure means for a log that was printed in part.
    fn explain(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Client(ClientError::Call(CallError { code: ErrorCode::NotFound, .. })) if self.resumed() => {
                let text = format!("the daemon that is there now does not know {}", self.id());
                Failure::Refused(format!("{text}: it went with the one before, and its output was printed up to byte {}", self.place()))
            }
            other => other,
        }
    }
}
