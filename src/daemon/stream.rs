//! The calls that stream: a command, a followed log, a watch.
//!
//! Invariant: a slow client delays its own stream alone: output waits in the log, events are dropped and that is said. A
//! command is ended when its client cancels, forgets it or goes away.

use super::call::{Call, Wish};
use super::errors::call_error;
use super::service::Service;
use crate::engine::{EngineError, Hold};
use crate::model::{Chunk, EndedBy, Event, ExecResult, LogRead, LogStart, Outcome, ProcessInfo, Stream};
use crate::protocol::calls::{CallError, ErrorCode, ExecCall, Follow, LogItem};
use crate::protocol::credit::{STDIN_WINDOW, Taken, cost};
use crate::protocol::frame::Kind;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{broadcast, mpsc};
use tokio_util::bytes::Bytes;

/// Most bytes of a log read at once: larger ones were not faster (they leave the processor's cache), and share less well.
const PIECE: usize = 256 << 10;
/// From so much output on a client that can is told the log's file.
const MUCH: u64 = 1 << 20;
/// Between TERM and KILL for a command that its client ends.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// Pieces of stdin between the connection and the engine.
const STDIN_QUEUE: usize = 4;

/// Runs a command until its end; its result comes after all of its output.
pub(super) async fn exec<S: Service>(call: &Call<S>, params: ExecCall) -> Result<ExecResult, CallError> {
    let ExecCall { mut exec, follow, files } = params;
    if exec.client_cwd.is_none() {
        exec.client_cwd.clone_from(&call.guest.cwd);
    }
    let (sender, receiver) = mpsc::channel(STDIN_QUEUE);
    let (sender, receiver) = if exec.stdin { (Some(sender), Some(receiver)) } else { (None, None) };
    let running = call.hub.service.exec(call.guest.who.clone(), exec, receiver).await.map_err(call_error)?;
    call.item(&running.process)?;
    let process = running.process.id.as_str();
    let mut result = running.result;
    let mut ending = std::pin::pin!(end_when_wished(call, process));
    let mut stdin = std::pin::pin!(pass_stdin(call, sender));
    let output = follow.then_some(running.output);
    let mut output = std::pin::pin!(send_output(call, process, output, files));
    let (mut end_asked, mut stdin_over, mut sent) = (false, false, None);
    let result = loop {
        tokio::select! {
            biased;
            result = &mut result => break result,
            () = &mut ending, if !end_asked => end_asked = true,
            () = &mut stdin, if !stdin_over => stdin_over = true,
            end = &mut output, if sent.is_none() => sent = Some(end),
        }
    };
    let result = result.map_err(|_| {
        let message = format!("the result of process {process} was lost");
        CallError { code: ErrorCode::Internal, message, fix: Some(format!("`qd logs {process}` shows its output")) }
    })?;
    // What goes on in the background has no end to wait for.
    if sent.is_none() && result.outcome != Outcome::Running {
        sent = tokio::select! {
            end = output => Some(end),
            _ = call.wished(Wish::Forget) => None,
        };
    }
    if let Some(Err(error)) = sent {
        // The command itself is whole: the caller gets its result, and the log is where it was.
        tracing::warn!(process, %error, "output could not be followed to its end");
    }
    Ok(result)
}

/// Ends the command once its client wishes it. The result comes on its own way.
async fn end_when_wished<S: Service>(call: &Call<S>, process: &str) {
    let by = match call.wished(Wish::Cancel).await {
        Wish::Gone => EndedBy::ClientGone,
        Wish::Go | Wish::Cancel | Wish::Forget => EndedBy::Client,
    };
    if let Err(error) = call.hub.service.end(process, by, GRACE).await {
        tracing::warn!(process, %error, "a command could not be ended for its client");
    }
}

/// Passes the client's stdin on to the engine until either of them has had enough.
async fn pass_stdin<S>(call: &Call<S>, sender: Option<mpsc::Sender<Vec<u8>>>) {
    let Some(sender) = sender else {
        call.state.stdin.close();
        return;
    };
    let mut taken = Taken::new(STDIN_WINDOW);
    loop {
        let next = tokio::select! {
            biased;
            () = sender.closed() => None,
            next = call.state.stdin.next(&mut taken) => match next {
                Some(next) => Some(next),
                // The end of the client's stdin: dropping the sender is the end of the command's.
                None => return,
            },
        };
        let Some((bytes, grant)) = next else { break };
        if sender.send(bytes).await.is_err() {
            break;
        }
        if let Some(grant) = grant {
            call.outbox.push(Kind::Credit, call.id, &grant.to_be_bytes());
        }
    }
    call.state.stdin.close();
    call.outbox.push(Kind::End, call.id, b"");
}

/// Sends a command's output as it arrives, until the log is complete; nothing when it is not wanted.
async fn send_output<S: Service>(call: &Call<S>, process: &str, output: Option<Hold>, files: bool) -> Result<(), EngineError> {
    let Some(hold) = output else { return Ok(()) };
    call.hub.service.grown(process, 0).await?;
    send_log(call, process, LogStart::Offset(0), true, Way { hold, files }).await
}

/// Follows a log; answers with the process's row at the end.
pub(super) async fn follow<S: Service>(call: &Call<S>, params: Follow) -> Result<ProcessInfo, CallError> {
    let process = call.hub.service.process(&params.process).map_err(call_error)?.id;
    let from = if let LogStart::Offset(offset) = params.start.0 { offset } else { 0 };
    let hold = call.hub.service.hold(&process, from).map_err(call_error)?;
    let waiting = call.hub.service.waits(&process).map_err(call_error)?;
    let sent = async {
        send_log(call, &process, params.start.0, params.until_end, Way { hold, files: false }).await?;
        // Its log is complete a moment before its row is.
        if params.until_end { call.hub.service.ended(&process).await } else { call.hub.service.process(&process) }
    };
    tokio::select! {
        row = sent => {
            let row = row.map_err(call_error)?;
            if row.state.is_ended() {
                waiting.delivered();
            }
            Ok(row)
        }
        _ = call.wished(Wish::Cancel) => call.hub.service.process(&process).map_err(call_error),
    }
}

/// How a log is sent.
struct Way {
    /// Keeps what was not sent yet.
    hold: Hold,
    /// Whether the client can open the log's file.
    files: bool,
}

/// Sends a log from a start on: with `until_end` until its process has ended and all is sent, else to the end that it has now. One
/// that grows as fast as it is read would have no other end.
async fn send_log<S: Service>(call: &Call<S>, process: &str, mut start: LogStart, until_end: bool, way: Way) -> Result<(), EngineError> {
    let mut offer = way.files;
    let mut present_end = None;
    while call.state.credit.available().await {
        if let LogStart::Offset(at) = start
            && call.state.opened.load(Ordering::Acquire)
            && let Some(kept) = call.hub.service.kept(process, at).await?
        {
            let next = at + kept.runs.iter().map(|run| run.len).sum::<u64>();
            call.item(&LogItem::Kept(kept)).map_err(|error| EngineError::Internal(error.message))?;
            way.hold.passed(next);
            start = LogStart::Offset(next);
            continue;
        }
        let room = call.outbox.room(PIECE).await;
        let max = match (present_end, start) {
            (Some(end), LogStart::Offset(at)) => (PIECE as u64).min(u64::saturating_sub(end, at)),
            _ => PIECE as u64,
        };
        let chunk = call.hub.service.read(LogRead { process: process.to_owned(), start, max }).await?;
        let next = chunk.offset + chunk.bytes.len() as u64;
        let end = if until_end { chunk.total } else { *present_end.get_or_insert(chunk.total) };
        let (whole, ended) = (next >= end, chunk.ended);
        if chunk.bytes.is_empty() && !whole {
            return Err(EngineError::Internal(format!("the log of process {process} gives nothing at {next} of {}", chunk.total)));
        }
        call.data(room, pieces(chunk));
        way.hold.passed(next);
        start = LogStart::Offset(next);
        if offer
            && next >= MUCH
            && let Some(path) = call.hub.service.log_file(process)?
        {
            call.item(&LogItem::File(path)).map_err(|error| EngineError::Internal(error.message))?;
            offer = false;
        }
        if whole {
            if ended || !until_end {
                return Ok(());
            }
            call.hub.service.grown(process, next).await?;
        }
    }
    Ok(())
}

/// Cuts a chunk at the borders of its streams, without copying.
fn pieces(chunk: Chunk) -> Vec<(u64, Stream, Bytes)> {
    let mut offset = chunk.offset;
    let mut bytes = Bytes::from(chunk.bytes);
    let mut pieces = Vec::with_capacity(chunk.runs.len());
    for run in chunk.runs {
        let len = usize::try_from(run.len).unwrap_or(usize::MAX).min(bytes.len());
        if len > 0 {
            pieces.push((offset, run.stream, bytes.split_to(len)));
            offset += len as u64;
        }
    }
    if !bytes.is_empty() {
        pieces.push((offset, Stream::Out, bytes));
    }
    pieces
}

/// Sends events until the client or the daemon ends it.
pub(super) async fn watch<S: Service>(call: &Call<S>) -> Result<(), CallError> {
    let (mut events, mut own) = (call.hub.service.events(), call.hub.events());
    let _counted = call.hub.count_watcher();
    call.item(&serde_json::json!({ "watching": true }))?;
    tokio::select! {
        biased;
        _ = call.wished(Wish::Cancel) => Ok(()),
        end = send_events(call, &mut events, &mut own) => end,
    }
}

async fn send_events<S: Service>(
    call: &Call<S>,
    events: &mut broadcast::Receiver<Event>,
    own: &mut broadcast::Receiver<Event>,
) -> Result<(), CallError> {
    use broadcast::error::RecvError;
    let mut told = false;
    loop {
        let event = tokio::select! {
            biased;
            event = events.recv() => match event {
                Ok(event) => event,
                Err(RecvError::Lagged(_)) => Event::Lagged,
                Err(RecvError::Closed) => return Ok(()),
            },
            // The hub outlives this call, so that only lagging can fail.
            event = own.recv() => event.unwrap_or(Event::Lagged),
            () = call.hub.stopping.cancelled(), if !told => Event::Stopping,
            // All that happened was sent: the events come first.
            () = call.hub.ended.cancelled() => return Ok(()),
        };
        if event.is_for_operators() && !call.guest.is_operator() {
            continue;
        }
        if event == Event::Stopping && std::mem::replace(&mut told, true) {
            continue;
        }
        if !call.state.credit.available().await {
            return Ok(());
        }
        let text = serde_json::to_vec(&event).map_err(super::errors::no_json)?;
        call.state.credit.spend(cost(text.len()));
        call.outbox.push_text(Kind::Event, call.id, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Run;

    #[test]
    fn a_chunk_is_cut_where_its_streams_change() {
        let run = |stream, len| Run { stream, len };
        let chunk = |runs| Chunk { offset: 10, bytes: b"outerrout".to_vec(), runs, ..Chunk::default() };
        let cut =
            |runs| pieces(chunk(runs)).into_iter().map(|(o, s, b)| (o, s, String::from_utf8(b.to_vec()).unwrap())).collect::<Vec<_>>();
        assert_eq!(
            cut(vec![run(Stream::Out, 3), run(Stream::Err, 3), run(Stream::Out, 0), run(Stream::Out, 3)]),
            [(10, Stream::Out, "out".into()), (13, Stream::Err, "err".into()), (16, Stream::Out, "out".into())]
        );
        assert_eq!(cut(vec![run(Stream::Err, 3)]), [(10, Stream::Err, "out".into()), (13, Stream::Out, "errout".into())]);
        assert_eq!(cut(vec![run(Stream::Out, 99)]), [(10, Stream::Out, "outerrout".into())]);
    }
}
