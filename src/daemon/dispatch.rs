//! Which handler answers which call.
//!
//! Invariant: a reply means that the effect has happened; names are checked before anything is done to any of them.

use super::call::{Call, Wish};
use super::errors::{call_error, no_json, refused, usage};
use super::service::Service;
use super::stream;
use crate::engine::Write;
use crate::model::{Chunk, EndedBy, Overview, ProcessInfo, Stream};
use crate::protocol::calls::{self, Call as _, CallError, ErrorCode, Found, Killed, Sent, ShutdownReply};
use crate::protocol::message::AnyRequest;
use futures::FutureExt;
use futures::future::{join_all, try_join_all};
use std::convert::Infallible;
use std::str::FromStr;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::bytes::Bytes;
use zeroize::Zeroize;

/// Findings between the engine and the connection.
const FINDINGS: usize = 16;

/// Answers one call and gives its stream's id.
pub(super) async fn answer<S: Service>(call: Call<S>, mut text: Vec<u8>) -> u32 {
    let end = match AnyRequest::parse(&text) {
        Ok(request) => {
            // It may hold an answer to a login's question.
            text.zeroize();
            drop(text);
            by_method(&call, request).await
        }
        Err(error) => Err(error),
    };
    call.end(end);
    call.id
}

async fn by_method<S: Service>(call: &Call<S>, request: AnyRequest) -> Result<Vec<u8>, CallError> {
    match request.method.as_str() {
        // These end themselves in order when they are cancelled.
        calls::ExecCall::METHOD => reply::<calls::ExecCall>(stream::exec(call, request.params()?).await?),
        calls::Follow::METHOD => reply::<calls::Follow>(stream::follow(call, request.params()?).await?),
        calls::Watch::METHOD => {
            stream::watch(call).await?;
            reply::<calls::Watch>(())
        }
        _ => tokio::select! {
            biased;
            end = plain(call, request) => end,
            _ = call.wished(Wish::Cancel) => Err(refused("the call was cancelled")),
        },
    }
}

async fn plain<S: Service>(call: &Call<S>, request: AnyRequest) -> Result<Vec<u8>, CallError> {
    let service = &call.hub.service;
    match request.method.as_str() {
        calls::OverviewCall::METHOD => reply::<calls::OverviewCall>(overview(call)),
        calls::Read::METHOD => reply::<calls::Read>(read(call, request.params()?).await?),
        calls::Wait::METHOD => reply::<calls::Wait>(wait(call, request.params()?).await?),
        calls::WaitInput::METHOD => {
            let params: calls::WaitInput = request.params()?;
            reply::<calls::WaitInput>(service.wants_input(&params.process).await.map_err(call_error)?)
        }
        calls::Kill::METHOD => reply::<calls::Kill>(kill(call, request.params()?).await?),
        calls::FindCall::METHOD => {
            let params: calls::FindCall = request.params()?;
            let (strays, others) = service.find(&params.backend, call.guest.is_operator()).await.map_err(call_error)?;
            reply::<calls::FindCall>(Found { strays, others })
        }
        calls::AdoptCall::METHOD => {
            let params: calls::AdoptCall = request.params()?;
            reply::<calls::AdoptCall>(service.adopt(&call.guest.who, &params.process).await.map_err(call_error)?)
        }
        calls::SendCall::METHOD => reply::<calls::SendCall>(send(call, request.params()?).await?),
        calls::Recheck::METHOD => {
            let params: calls::Recheck = request.params()?;
            reply::<calls::Recheck>(service.recheck(&params.process).await.map_err(call_error)?)
        }
        calls::Connect::METHOD => {
            let params: calls::Connect = request.params()?;
            reply::<calls::Connect>(service.connect(&params.backend, call.guest.is_operator()).await.map_err(call_error)?)
        }
        calls::Disconnect::METHOD => {
            let params: calls::Disconnect = request.params()?;
            reply::<calls::Disconnect>(service.disconnect(&params.backend).await.map_err(call_error)?)
        }
        calls::SessionShow::METHOD => {
            let calls::SessionShow { backend, session } = request.params()?;
            reply::<calls::SessionShow>(service.session_show(backend.as_deref(), session.as_deref()).await.map_err(call_error)?)
        }
        calls::SessionReset::METHOD => {
            let calls::SessionReset { backend, session } = request.params()?;
            reply::<calls::SessionReset>(service.session_reset(backend.as_deref(), session.as_deref()).await.map_err(call_error)?)
        }
        calls::SessionClose::METHOD => {
            let calls::SessionClose { backend, session } = request.params()?;
            reply::<calls::SessionClose>(service.session_close(backend.as_deref(), session.as_deref()).await.map_err(call_error)?)
        }
        calls::Complete::METHOD => {
            let calls::Complete { backend, session, word, command } = request.params()?;
            reply::<calls::Complete>(service.complete(&backend, &session, &word, command).await.map_err(call_error)?)
        }
        calls::AnswerCall::METHOD | calls::HostKeysCall::METHOD | calls::HostKeyChangeCall::METHOD => for_person(call, request).await,
        calls::Shutdown::METHOD => reply::<calls::Shutdown>(shutdown(call, request.params()?).await),
        calls::Doctor::METHOD => reply::<calls::Doctor>(doctor(call, request.params()?).await?),
        other => Err(CallError {
            code: ErrorCode::UnknownMethod,
            message: format!("this daemon (quarterdeck {}) knows no call {other:?}", call.hub.info.version),
            fix: Some("if qd was upgraded while it ran: end it with `qd stop`, then run this command again".into()),
        }),
    }
}

/// Answers what a person alone may ask for.
async fn for_person<S: Service>(call: &Call<S>, request: AnyRequest) -> Result<Vec<u8>, CallError> {
    let service = &call.hub.service;
    if !call.guest.is_operator() {
        let fix = "a person runs this in a terminal of their own, without naming an agent (--client, QD_CLIENT, AI_AGENT)";
        return Err(CallError { fix: Some(fix.into()), ..refused("questions of logins and host keys are a person's to decide") });
    }
    match request.method.as_str() {
        calls::AnswerCall::METHOD => {
            // What it holds is not repeated in the error, which is logged.
            let unreadable = |e: CallError| CallError { message: "the parameters of answer cannot be read".into(), ..e };
            let calls::AnswerCall { id, answer } = request.params().map_err(unreadable)?;
            reply::<calls::AnswerCall>(service.answer(id, answer).map_err(call_error)?)
        }
        calls::HostKeysCall::METHOD => {
            let calls::HostKeysCall { backend, look } = request.params()?;
            reply::<calls::HostKeysCall>(service.host_keys(&backend, look).await.map_err(call_error)?)
        }
        _ => {
            let calls::HostKeyChangeCall { backend, change, fingerprint } = request.params()?;
            reply::<calls::HostKeyChangeCall>(service.change_host_keys(&backend, change, &fingerprint).await.map_err(call_error)?)
        }
    }
}

fn reply<C: calls::Call>(value: C::Reply) -> Result<Vec<u8>, CallError> {
    serde_json::to_vec(&value).map_err(no_json)
}

/// Gives the engine's overview with what only the daemon knows.
fn overview<S: Service>(call: &Call<S>) -> Overview {
    let mut overview = Overview { daemon: call.hub.info.clone(), ..call.hub.service.overview() };
    overview.notices.extend(call.hub.notices());
    overview.notices.sort_by_key(|notice| notice.at);
    if !call.guest.is_operator() {
        overview.prompts.clear();
    }
    overview
}

async fn read<S: Service>(call: &Call<S>, params: calls::Read) -> Result<Chunk, CallError> {
    /// What the model says about a piece of a log.
    const MOST: u64 = 1 << 20;
    let mut read = params.read.0;
    read.max = read.max.min(MOST);
    let room = call.outbox.room(read.max as usize).await;
    let mut chunk = call.hub.service.read(read).await.map_err(call_error)?;
    let bytes = Bytes::from(std::mem::take(&mut chunk.bytes));
    if !bytes.is_empty() {
        // One frame, whatever the streams: the reply says where they change.
        call.data(room, vec![(chunk.offset, Stream::Out, bytes)]);
    }
    Ok(chunk)
}

async fn wait<S: Service>(call: &Call<S>, params: calls::Wait) -> Result<Vec<ProcessInfo>, CallError> {
    let service = &call.hub.service;
    let rows = || params.processes.iter().map(|process| service.process(process)).collect::<Result<Vec<_>, _>>();
    let ids: Vec<_> = rows().map_err(call_error)?.into_iter().map(|row| row.id).collect();
    let waiting = ids.iter().map(|id| service.waits(id)).collect::<Result<Vec<_>, _>>().map_err(call_error)?;
    let ended = async {
        let ended = try_join_all(ids.iter().map(|id| service.ended(id)));
        match params.timeout_ms.map(Duration::from_millis) {
            None => ended.await,
            Some(limit) => tokio::time::timeout(limit, ended).await.unwrap_or_else(|_| rows()),
        }
    };
    let mut heard = vec![None; if params.told { ids.len() } else { 0 }];
    let rows = {
        let mut telling = std::pin::pin!(try_join_all(ids.iter().zip(&mut heard).map(|(id, heard)| pass_told(call, id, heard))));
        let mut ended = std::pin::pin!(ended);
        loop {
            tokio::select! {
                biased;
                rows = &mut ended => break rows.map_err(call_error)?,
                failed = &mut telling, if params.told => drop(failed?),
            }
        }
    };
    // What a process said is told before its end is.
    for (id, heard) in ids.iter().zip(&mut heard) {
        pass_told(call, id, heard).now_or_never().transpose()?;
    }
    let over = waiting.into_iter().zip(&rows).filter(|(_, row)| row.state.is_ended());
    over.for_each(|(waiting, _)| waiting.delivered());
    Ok(rows)
}

/// Passes on what a process tells. Ends with a failure alone; `heard` is the number of the last.
async fn pass_told<S: Service>(call: &Call<S>, id: &str, heard: &mut Option<u64>) -> Result<Infallible, CallError> {
    loop {
        let told = call.hub.service.told(id, *heard).await.map_err(call_error)?;
        *heard = Some(told.number);
        call.item(&told)?;
    }
}

async fn kill<S: Service>(call: &Call<S>, params: calls::Kill) -> Result<Vec<Killed>, CallError> {
    let service = &call.hub.service;
    let signal = params.signal.as_deref().map(signal_number).transpose()?;
    let by = if call.guest.is_operator() { EndedBy::Operator } else { EndedBy::Agent };
    let grace = params.grace_ms.map_or(stream::GRACE, Duration::from_millis);
    let rows = params.processes.iter().map(|process| service.process(process)).collect::<Result<Vec<_>, _>>().map_err(call_error)?;
    let ended = rows.iter().map(|row| async move {
        match signal {
            Some(signal) => service.signal(&row.id, signal).await.map(|(process, signalled)| Killed { process, signalled, failed: None }),
            None => service.end(&row.id, by, grace).await.map(|process| Killed { process, signalled: Vec::new(), failed: None }),
        }
    });
    let done = join_all(ended).await;
    if done.len() == 1 {
        return done.into_iter().collect::<Result<_, _>>().map_err(call_error);
    }
    // What became of the others is worth as much as the failure of one.
    let told = done.into_iter().zip(rows).map(|(done, row)| {
        done.unwrap_or_else(|error| {
            let process = service.process(&row.id).unwrap_or(row);
            Killed { process, signalled: Vec::new(), failed: Some(call_error(error)) }
        })
    });
    Ok(told.collect())
}

async fn send<S: Service>(call: &Call<S>, params: calls::SendCall) -> Result<Sent, CallError> {
    let calls::SendCall { process, text, eof, expect_offset } = params;
    let write = Write { bytes: text.into_bytes(), end: eof, expect_offset };
    let written = call.hub.service.send(&call.guest.who, &process, write).await.map_err(call_error)?;
    Ok(Sent { process: written.process, waiting: written.waiting })
}

fn signal_number(name: &str) -> Result<i32, CallError> {
    let short = name.to_ascii_uppercase();
    let whole = if short.starts_with("SIG") { short } else { format!("SIG{short}") };
    let known = nix::sys::signal::Signal::from_str(&whole).map(|signal| signal as i32);
    known.map_err(|_| usage(format!("there is no signal {name:?}"), Some("name one as TERM, INT, HUP or KILL".into())))
}

/// Passes findings on as they come. Dropped, it ends the examination.
async fn doctor<S: Service>(call: &Call<S>, params: calls::Doctor) -> Result<(), CallError> {
    let (tell, mut told) = mpsc::channel(FINDINGS);
    let pass_on = async {
        while let Some(finding) = told.recv().await {
            call.item(&finding)?;
        }
        Ok(())
    };
    let (done, passed) = tokio::join!(call.hub.service.doctor(&params.backend, tell), pass_on);
    done.map_err(call_error)?;
    passed
}

async fn shutdown<S: Service>(call: &Call<S>, params: calls::Shutdown) -> ShutdownReply {
    let mut running = call.hub.service.running();
    // These go on without a daemon.
    running.retain(|process| !process.detached);
    if !running.is_empty() && !params.force {
        return ShutdownReply { stopping: false, running };
    }
    tracing::info!(who = call.guest.who.name, "told to end");
    call.hub.stopping.cancel();
    call.hub.ended.cancelled().await;
    ShutdownReply { stopping: true, running }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_by_name() {
        for (name, number) in [("TERM", Some(15)), ("sigint", Some(2)), ("SIGKILL", Some(9)), ("NOPE", None), ("", None), ("9", None)] {
            assert_eq!(signal_number(name).ok(), number, "{name}");
        }
    }
}
