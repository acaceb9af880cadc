//! One connection: hears frames, drives the calls, writes what they say. All in one task, so that a command costs no hop.
//!
//! Invariant: when the client is gone every call of it is ended, and the connection ends only after that.

use super::call::{Call, State, Wish};
use super::dispatch::answer;
use super::hello::{self, Guest, Peer};
use super::hub::Hub;
use super::service::Service;
use crate::protocol::calls::{CallError, ErrorCode};
use crate::protocol::frame::{FRAME_CAP, Frame, FrameError, FrameReader, HELLO_CAP, Kind};
use crate::protocol::hello::{ClientEnv, wanted};
use crate::protocol::message::{Bye, MessageError, MessageReader, REQUEST_CAP, credit_amount};
use crate::protocol::outbox::Outbox;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::io::{AsyncRead, AsyncWrite};

/// Most calls at once on one connection; a fleet of 100 backends needs a few hundred.
const MAX_CALLS: usize = 1024;

/// Serves a client on any byte stream until one of them has had enough. Must not be dropped while it runs: commands of the
/// client would go on without it.
pub async fn serve<S, IO>(stream: IO, hub: Arc<Hub<S>>, peer: Peer)
where
    S: Service,
    IO: AsyncRead + AsyncWrite + Send + Unpin,
{
    let _counted = hub.count_client();
    let (reader, mut writer) = tokio::io::split(stream);
    let mut frames = FrameReader::new(reader, HELLO_CAP);
    let guest = tokio::select! {
        guest = hello::receive(&mut frames, &mut writer, &hub, peer) => guest,
        () = hub.ended.cancelled() => None,
    };
    let Some(guest) = guest else { return };
    frames.set_cap(FRAME_CAP);
    tracing::debug!(?guest, "a client");
    let connection =
        Connection { hub, guest: Arc::new(guest), outbox: Arc::default(), open: HashMap::new(), running: FuturesUnordered::new(), last: 0 };
    connection.run(MessageReader::new(frames, REQUEST_CAP), writer).await;
}

struct Connection<S> {
    hub: Arc<Hub<S>>,
    guest: Arc<Guest>,
    outbox: Arc<Outbox>,
    open: HashMap<u32, Arc<State>>,
    running: FuturesUnordered<BoxFuture<'static, u32>>,
    /// The last stream that was opened.
    last: u32,
}

impl<S: Service> Connection<S> {
    async fn run<R, W>(mut self, mut reader: MessageReader<R>, mut writer: W)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let outbox = self.outbox.clone();
        let mut write = std::pin::pin!(outbox.write_to(&mut writer));
        let mut held = None;
        let (mut told, mut closing) = (false, false);
        loop {
            tokio::select! {
                biased;
                message = reader.next(), if held.is_none() && !closing => match message {
                    Ok(Some(Frame::Message { kind: Kind::Request, stream, payload })) => held = Some((stream, payload)),
                    Ok(Some(frame)) => if let Err(fault) = self.hear(frame) {
                        self.close(&fault);
                        closing = true;
                    },
                    Ok(None) | Err(MessageError::Frame(FrameError::Io(_) | FrameError::Cut)) => break,
                    Err(error) => {
                        self.close(&error.to_string());
                        closing = true;
                    }
                },
                () = outbox.uncrowded(), if held.is_some() => if let Some((stream, text)) = held.take() {
                    self.open(stream, text);
                },
                Some(id) = self.running.next(), if !self.running.is_empty() => {
                    self.open.remove(&id);
                }
                _written_or_failed = &mut write => break,
                // Said before the last replies, which may come too late.
                () = self.hub.ended.cancelled(), if !told && !closing => {
                    self.farewell("it was stopped");
                    told = true;
                }
            }
            if told && !closing && self.running.is_empty() {
                outbox.finish();
                closing = true;
            }
        }
        for state in self.open.values() {
            state.wish(Wish::Gone);
        }
        while self.running.next().await.is_some() {}
        tracing::debug!(guest = self.guest.who.name, "a client is gone");
    }

    /// Says why the connection ends; what was said before is still written.
    fn close(&self, why: &str) {
        self.farewell(why);
        self.outbox.finish();
    }

    fn farewell(&self, why: &str) {
        tracing::debug!(why, "closing a connection");
        if let Err(error) = self.outbox.push_json(Kind::Bye, 0, &Bye { message: why.into() }) {
            tracing::error!(%error, "a farewell has no JSON form");
        }
    }

    /// Takes up a frame that is no request. The error is a fault of the client's that ends the connection.
    fn hear(&self, frame: Frame) -> Result<(), String> {
        match frame {
            Frame::Data { stream, bytes, .. } => match self.open.get(&stream) {
                Some(state) if !state.stdin.push(bytes) => Err("more stdin than the window allows".into()),
                // What was on its way to a call that has ended meets nobody.
                _ => Ok(()),
            },
            Frame::Message { kind: Kind::Env, payload, .. } => {
                let env: ClientEnv = serde_json::from_slice(&payload).map_err(|error| format!("the variables cannot be read: {error}"))?;
                self.take_env(env);
                Ok(())
            }
            Frame::Message { kind, stream, payload } => {
                let Some(state) = self.open.get(&stream) else { return Ok(()) };
                match kind {
                    Kind::Cancel => state.wish(Wish::Cancel),
                    Kind::Forget => state.wish(Wish::Forget),
                    Kind::End => state.stdin.end(),
                    Kind::Opened => state.opened.store(true, Ordering::Release),
                    Kind::Credit => state.credit.grant(credit_amount(&payload).ok_or("a window that cannot be read")?),
                    // Not for a daemon: tolerated, as unknown kinds are.
                    _ => {}
                }
                Ok(())
            }
        }
    }

    fn take_env(&self, env: ClientEnv) {
        if self.guest.is_operator() {
            let patterns = self.hub.client_env();
            let variables = env.variables.into_iter().filter(|(name, _)| wanted(&patterns, name)).collect();
            self.hub.service.set_client_env(variables);
        }
    }

    /// Starts a call.
    fn open(&mut self, id: u32, text: Vec<u8>) {
        let refusal = if id <= self.last {
            Some((ErrorCode::BadParameters, "streams are numbered upwards"))
        } else if self.open.len() >= MAX_CALLS {
            Some((ErrorCode::Refused, "too many calls at once on one connection"))
        } else if self.hub.stopping.is_cancelled() {
            Some((ErrorCode::Refused, "the daemon is stopping"))
        } else {
            None
        };
        if let Some((code, message)) = refusal {
            let error = CallError { code, message: message.into(), fix: None };
            if let Err(error) = self.outbox.push_json(Kind::Error, id, &error) {
                tracing::error!(%error, "an error has no JSON form");
            }
            return;
        }
        self.last = id;
        let state = Arc::new(State::new());
        self.open.insert(id, state.clone());
        let call = Call { id, hub: self.hub.clone(), guest: self.guest.clone(), outbox: self.outbox.clone(), state };
        self.running.push(Box::pin(answer(call, text)));
    }
}
