//! Does what the state wants done at the daemon, each thing in a task of its own.
//!
//! Invariant: nothing here makes the loop wait; every task tells how it went, and ends when the loop is gone.

use super::effect::Effect;
use super::link::{Daemon, Feed, Report, Run, Said};
use super::state::apply::{Msg, Refused};
use crate::client::ClientError;
use crate::model::{Exec, LogRead, Outcome, ProcessId};
use crate::protocol::calls::{AdoptCall, AnswerCall, Complete, ExecCall, FindCall, Kill, Recheck, SendCall};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// Longest wait for a piece of a log or for completions.
const PATIENCE: Duration = Duration::from_secs(15);
/// Lines of stdin that may wait for a command that does not read.
const STDIN_QUEUE: usize = 64;

/// Something for a command's stdin.
pub(super) enum Typed {
    Bytes(Vec<u8>),
    End,
}

/// The hands of the loop.
pub(super) struct Hands<D: Daemon> {
    daemon: Option<D>,
    epoch: u64,
    tell: mpsc::Sender<Report<D>>,
    stdin: HashMap<ProcessId, mpsc::Sender<Typed>>,
}

impl<D: Daemon> Hands<D> {
    pub(super) fn new(tell: mpsc::Sender<Report<D>>) -> Self {
        Self { daemon: None, epoch: 0, tell, stdin: HashMap::new() }
    }

    /// Takes a new connection; commands of an earlier one cannot be reached any more.
    pub(super) fn connected(&mut self, epoch: u64, daemon: D) {
        self.epoch = epoch;
        self.daemon = Some(daemon);
        self.stdin.clear();
    }

    /// Lets the connection go.
    pub(super) fn lost(&mut self) {
        self.daemon = None;
        self.stdin.clear();
    }

    /// Remembers where the stdin of a command goes.
    pub(super) fn run(&mut self, process: ProcessId, stdin: mpsc::Sender<Typed>) {
        self.stdin.retain(|_, s| !s.is_closed());
        self.stdin.insert(process, stdin);
    }

    /// Forgets a command that has ended.
    pub(super) fn ended(&mut self, process: &str) {
        self.stdin.remove(process);
    }

    /// Starts what an effect asks for; gives a message for what cannot even be started.
    pub(super) fn start(&mut self, effect: Effect) -> Option<Msg> {
        let Some(daemon) = self.daemon.clone() else {
            return refuse(effect);
        };
        let tell = self.tell.clone();
        match effect {
            Effect::Exec { ticket, exec } => {
                tokio::spawn(run(daemon, ticket, exec, tell));
            }
            Effect::End { process, backend, grace_ms } => {
                let call = Kill { processes: vec![process], signal: None, grace_ms };
                spawn_failing(tell, Some(backend), "cannot end the command", async move { daemon.kill(call).await.map(|_| ()) });
            }
            Effect::Connect { backend } => {
                let name = backend.clone();
                spawn_failing(tell, Some(backend), "cannot connect", async move { daemon.connect(name).await });
            }
            Effect::Answer { id, answer } => {
                spawn_failing(tell, None, "cannot answer", async move { daemon.answer(AnswerCall { id, answer }).await });
            }
            Effect::Complete { ticket, backend, session, word, command } => {
                tokio::spawn(async move {
                    let call = Complete { backend, session, word, command };
                    let words = patiently(daemon.complete(call)).await;
                    tell.send(Report::Msg(Msg::Completed { ticket, words })).await.ok();
                });
            }
            Effect::Read { process, start, max } => {
                let epoch = self.epoch;
                tokio::spawn(async move {
                    let read = LogRead { process: process.clone(), start, max };
                    let chunk = patiently(daemon.read(read)).await.map(Box::new);
                    tell.send(Report::Msg(Msg::Read { epoch, process, chunk })).await.ok();
                });
            }
            Effect::ReadLog { turn, process, start, max } => {
                let epoch = self.epoch;
                tokio::spawn(async move {
                    let chunk = patiently(daemon.read(LogRead { process, start, max })).await.map(Box::new);
                    tell.send(Report::Msg(Msg::LogRead { epoch, turn, chunk })).await.ok();
                });
            }
            Effect::Send { process, backend, text, eof } => {
                let call = SendCall { process, text, eof, expect_offset: None };
                tokio::spawn(said(tell, backend, "cannot write to its stdin", async move {
                    let waiting = daemon.send(call).await?.waiting;
                    Ok((waiting > 0).then(|| format!("it does not read now: {waiting} bytes wait for it")))
                }));
            }
            Effect::Recheck { process, backend } => {
                tokio::spawn(said(tell, backend, "cannot be rechecked", async move {
                    let row = daemon.recheck(Recheck { process }).await?;
                    Ok(Some(format!("{} on {} was looked for: {}", row.id, row.backend, super::format::standing(&row))))
                }));
            }
            Effect::Adopt { process, backend } => {
                tokio::spawn(said(tell, backend, "cannot be adopted", async move {
                    let row = daemon.adopt(AdoptCall { process }).await?;
                    Ok(Some(format!("{} on {} is a background process now", row.id, row.backend)))
                }));
            }
            Effect::Find { backend } => {
                tokio::spawn(said(tell, backend.clone(), "cannot be searched for strays", async move {
                    let found = daemon.find(FindCall { backend }).await?;
                    let others = match found.others.len() {
                        0 => String::new(),
                        n => format!("; {n} processes that other daemons' commands left are let alone"),
                    };
                    Ok(Some(format!("{} found{others}", super::format::count(found.strays.len() as u64, "stray"))))
                }));
            }
            Effect::Restart { process, backend, end, exec } => {
                tokio::spawn(said(tell, backend, "was not run again", async move { restart(daemon, process, end, exec).await }));
            }
            Effect::Stdin { process, bytes } => return self.feed(&process, Typed::Bytes(bytes)),
            Effect::EndStdin { process } => return self.feed(&process, Typed::End),
            Effect::Copy { .. } | Effect::Redial | Effect::SaveLeader { .. } | Effect::Suspend | Effect::Leave => {}
        }
        None
    }

    fn feed(&mut self, process: &str, what: Typed) -> Option<Msg> {
        let text = match self.stdin.get(process).map(|s| s.try_send(what)) {
            Some(Ok(())) => return None,
            Some(Err(mpsc::error::TrySendError::Full(_))) => "the command does not read its stdin: that line is dropped",
            Some(Err(mpsc::error::TrySendError::Closed(_))) | None => "the command's stdin is closed",
        };
        Some(Msg::Failed { backend: None, text: text.to_owned() })
    }
}

/// Says that there is no daemon to do it.
fn refuse(effect: Effect) -> Option<Msg> {
    let text = "there is no daemon at the moment".to_owned();
    match effect {
        Effect::Exec { ticket, exec } => Some(Msg::Ended { ticket, process: None, result: Err(refused(&exec, text)) }),
        Effect::End { backend, .. }
        | Effect::Connect { backend }
        | Effect::Send { backend, .. }
        | Effect::Recheck { backend, .. }
        | Effect::Adopt { backend, .. }
        | Effect::Find { backend }
        | Effect::Restart { backend, .. } => Some(Msg::Failed { backend: Some(backend), text }),
        Effect::Complete { ticket, .. } => Some(Msg::Completed { ticket, words: Err(text) }),
        Effect::Stdin { .. } | Effect::EndStdin { .. } => Some(Msg::Failed { backend: None, text }),
        // Reads are asked for again after the next overview.
        _ => None,
    }
}

fn refused(exec: &Exec, reason: String) -> Refused {
    Refused {
        backend: exec.backend.clone().unwrap_or_default(),
        session: exec.session.clone().unwrap_or_default(),
        command: exec.command.clone(),
        reason,
    }
}

/// Says what a failure is and what to do.
fn explain(e: &ClientError) -> String {
    match e {
        ClientError::Call(call) => call.fix.as_ref().map_or_else(|| call.message.clone(), |fix| format!("{}; {fix}", call.message)),
        other => other.to_string(),
    }
}

async fn patiently<T>(call: impl Future<Output = Result<T, ClientError>>) -> Result<T, String> {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(result) => result.map_err(|e| explain(&e)),
        Err(_) => Err(format!("no answer for {} s", PATIENCE.as_secs())),
    }
}

/// Runs a call of which only the failure matters: its effect is seen in the events.
fn spawn_failing<D: Daemon>(
    tell: mpsc::Sender<Report<D>>,
    backend: Option<String>,
    what: &'static str,
    call: impl Future<Output = Result<(), ClientError>> + Send + 'static,
) {
    tokio::spawn(async move {
        if let Err(e) = call.await {
            let text = format!("{what}: {}", explain(&e));
            tell.send(Report::Msg(Msg::Failed { backend, text })).await.ok();
        }
    });
}

/// Runs a call and tells what it has to say, or why it failed.
async fn said<D: Daemon>(
    tell: mpsc::Sender<Report<D>>,
    backend: String,
    what: &'static str,
    call: impl Future<Output = Result<Option<String>, ClientError>> + Send + 'static,
) {
    let text = match call.await {
        Ok(None) => return,
        Ok(Some(text)) => text,
        Err(e) => format!("{what}: {}", explain(&e)),
    };
    tell.send(Report::Msg(Msg::Failed { backend: Some(backend), text })).await.ok();
}

/// Ends a process, if it is to be ended, and runs its command again once that is done.
async fn restart<D: Daemon>(daemon: D, process: ProcessId, end: bool, exec: Exec) -> Result<Option<String>, ClientError> {
    if end {
        let ended = daemon.kill(Kill { processes: vec![process.clone()], signal: None, grace_ms: None }).await?;
        let done = ended.iter().any(|row| row.process.id == process && row.process.state.is_ended());
        if !done {
            return Ok(Some(format!("{process} has not ended: its command was not run again")));
        }
    }
    let mut items = daemon.exec(ExecCall { exec, follow: false, files: false }).await?;
    let mut started = None;
    while let Some(said) = items.next().await {
        match said? {
            Said::Started(info) => started = Some(info.id),
            Said::Ended(result) => {
                let id = started.unwrap_or(result.process_id);
                return Ok(Some(match result.outcome {
                    Outcome::Running => format!("runs again as {id}"),
                    other => format!("{id} was not started: {}", super::format::reason(&other)),
                }));
            }
            Said::Other => {}
        }
    }
    Err(ClientError::Gone("the connection ended".to_owned()))
}

/// Runs a command of the input line to its end.
async fn run<D: Daemon>(daemon: D, ticket: u64, exec: Exec, tell: mpsc::Sender<Report<D>>) {
    let call = ExecCall { exec: exec.clone(), follow: false, files: false };
    let mut process = None;
    let result = match daemon.exec(call).await {
        Ok(mut items) => follow(&mut items, &mut process, &tell).await,
        Err(e) => Err(explain(&e)),
    };
    let result = result.map_err(|reason| refused(&exec, reason));
    tell.send(Report::Msg(Msg::Ended { ticket, process, result })).await.ok();
}

async fn follow<D: Daemon>(
    items: &mut D::Run,
    process: &mut Option<ProcessId>,
    tell: &mpsc::Sender<Report<D>>,
) -> Result<Box<crate::model::ExecResult>, String> {
    loop {
        let said = tokio::select! {
            said = items.next() => said,
            () = tell.closed() => return Err("left".to_owned()),
        };
        match said {
            Some(Ok(Said::Started(info))) => {
                *process = Some(info.id.clone());
                if let Some(input) = items.take_stdin() {
                    let (stdin, typed) = mpsc::channel(STDIN_QUEUE);
                    tokio::spawn(feed(input, typed, tell.clone()));
                    tell.send(Report::Run { process: info.id.clone(), stdin }).await.ok();
                }
                tell.send(Report::Msg(Msg::Started { process: info })).await.ok();
            }
            Some(Ok(Said::Ended(result))) => return Ok(result),
            Some(Ok(Said::Other)) => {}
            Some(Err(e)) => return Err(explain(&e)),
            None => return Err("the connection ended".to_owned()),
        }
    }
}

/// Hands typed lines to a command as fast as it reads; apart from its end, so that one that does not read can still end.
async fn feed<D: Daemon>(mut input: impl Feed, mut typed: mpsc::Receiver<Typed>, tell: mpsc::Sender<Report<D>>) {
    while let Some(what) = typed.recv().await {
        match what {
            Typed::End => return input.end(),
            Typed::Bytes(bytes) => {
                if let Err(e) = input.send(bytes).await {
                    let text = format!("its stdin takes no more: {}", explain(&e));
                    tell.send(Report::Msg(Msg::Failed { backend: None, text })).await.ok();
                    return;
                }
            }
        }
    }
}
