//! One connection as the client sees it: a task that reads and writes, and a queue for each stream.
//!
//! Invariant: the task never waits for a reader of a stream; what waits in a stream's queue is bounded by its window, which
//! is granted as items are taken out. When the connection ends every stream is told why.

use super::ClientError;
use crate::model::Stream as Tag;
use crate::protocol::calls::{CallError, ErrorCode};
use crate::protocol::credit::{Credit, STDIN_WINDOW, Taken, WINDOW, cost};
use crate::protocol::frame::{Frame, Kind};
use crate::protocol::message::{Bye, MessageReader, REQUEST_CAP, Request, credit_amount};
use crate::protocol::outbox::Outbox;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

/// What arrives on a stream. After `Reply` or `Failed` nothing more comes.
#[derive(Debug)]
pub(super) enum Incoming {
    Item(Vec<u8>),
    Event(Vec<u8>),
    Data { offset: u64, tag: Tag, bytes: Vec<u8> },
    Reply(Vec<u8>),
    Failed(ClientError),
}

/// What keeps the connection open; dropping the last one closes it.
pub(super) struct Handle {
    link: Arc<Link>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.link.outbox.finish();
    }
}

/// The connection's state, shared with its task.
pub(super) struct Link {
    pub(super) outbox: Outbox,
    streams: Mutex<Streams>,
}

#[derive(Default)]
struct Streams {
    open: HashMap<u32, Arc<Slot>>,
    last: u32,
    /// Why the connection ended, once it has.
    gone: Option<String>,
}

/// What is shared between the task and one stream.
pub(super) struct Slot {
    queue: Mutex<VecDeque<Incoming>>,
    ready: Notify,
    /// The window of what we send.
    pub(super) stdin: Credit,
}

/// One open stream. Dropping it before its end tells the daemon that nothing more is wanted.
pub(super) struct Stream {
    link: Arc<Link>,
    pub(super) id: u32,
    pub(super) slot: Arc<Slot>,
    taken: Taken,
    ended: bool,
}

impl Handle {
    /// Starts the connection's task. The hello is over.
    pub(super) fn start<R, W>(reader: MessageReader<R>, writer: W) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let link = Arc::new(Link { outbox: Outbox::default(), streams: Mutex::default() });
        tokio::spawn(link.clone().run(reader, writer));
        Self { link }
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Opens a stream with a call.
    pub(super) fn open<P: Serialize>(&self, method: &str, params: &P) -> Result<Stream, ClientError> {
        let text =
            serde_json::to_vec(&Request { method, params }).map_err(|error| internal(format!("a request has no JSON form: {error}")))?;
        if text.len() > REQUEST_CAP {
            let message = format!("the request is {} bytes long; at most {REQUEST_CAP} can be sent", text.len());
            let fix = Some("put the text into a file, or send it through stdin".into());
            return Err(CallError { code: ErrorCode::Usage, message, fix }.into());
        }
        let slot = Arc::new(Slot { queue: Mutex::default(), ready: Notify::new(), stdin: Credit::new(STDIN_WINDOW) });
        let mut streams = self.link.streams();
        if let Some(reason) = &streams.gone {
            return Err(ClientError::Gone(reason.clone()));
        }
        let Some(id) = streams.last.checked_add(1) else {
            return Err(internal("this connection has made all the calls that it can; connect again".into()));
        };
        streams.last = id;
        streams.open.insert(id, slot.clone());
        // Ids must arrive in order, so the lock is held until the request is queued.
        self.link.outbox.push_text(Kind::Request, id, text);
        drop(streams);
        Ok(Stream { link: self.link.clone(), id, slot, taken: Taken::new(WINDOW), ended: false })
    }
}

impl Stream {
    /// Waits for the next thing; must not be called after the end. Cancel safe.
    pub(super) async fn next(&mut self) -> Incoming {
        let incoming = loop {
            if let Some(incoming) = self.slot.queue().pop_front() {
                break incoming;
            }
            self.slot.ready.notified().await;
        };
        let taken = match &incoming {
            Incoming::Item(text) | Incoming::Event(text) => cost(text.len()),
            Incoming::Data { bytes, .. } => cost(bytes.len()),
            Incoming::Reply(_) | Incoming::Failed(_) => {
                self.ended = true;
                0
            }
        };
        if let Some(grant) = self.taken.take(taken) {
            self.link.outbox.push(Kind::Credit, self.id, &grant.to_be_bytes());
        }
        incoming
    }

    /// Sends a frame without payload.
    pub(super) fn send(&self, kind: Kind) {
        self.link.outbox.push(kind, self.id, b"");
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let open = self.link.streams().open.remove(&self.id).is_some();
        self.slot.stdin.close();
        if open && !self.ended {
            self.link.outbox.push(Kind::Forget, self.id, b"");
        }
    }
}

impl Slot {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Incoming>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, incoming: Incoming) {
        self.queue().push_back(incoming);
        self.ready.notify_one();
    }
}

impl Link {
    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run<R, W>(self: Arc<Self>, mut reader: MessageReader<R>, mut writer: W)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut bye = None;
        let mut writing = true;
        let reason = {
            let mut write = std::pin::pin!(self.outbox.write_to(&mut writer));
            loop {
                tokio::select! {
                    message = reader.next() => match message {
                        Ok(Some(Frame::Message { kind: Kind::Bye, payload, .. })) => bye = serde_json::from_slice::<Bye>(&payload).ok(),
                        Ok(Some(frame)) => self.deliver(frame),
                        Ok(None) => break bye.map_or_else(|| "it closed the connection without a word".into(), |bye: Bye| bye.message),
                        Err(error) => break bye.map_or_else(|| error.to_string(), |bye| bye.message),
                    },
                    end = &mut write, if writing => match end {
                        Ok(()) => break "this client closed the connection".into(),
                        // Its last words may still be there to read; then the reader finds the end.
                        Err(_) => writing = false,
                    },
                }
            }
        };
        let slots: Vec<_> = {
            let mut streams = self.streams();
            streams.gone = Some(reason.clone());
            streams.open.drain().map(|(_, slot)| slot).collect()
        };
        for slot in slots {
            slot.stdin.close();
            slot.push(Incoming::Failed(ClientError::Gone(reason.clone())));
        }
    }

    fn deliver(&self, frame: Frame) {
        let (id, incoming) = match frame {
            Frame::Data { stream, offset, tag, bytes } => (stream, Incoming::Data { offset, tag, bytes }),
            Frame::Message { kind, stream, payload } => match kind {
                Kind::Item => (stream, Incoming::Item(payload)),
                Kind::Event => (stream, Incoming::Event(payload)),
                Kind::Reply => return self.end(stream, Incoming::Reply(payload)),
                Kind::Error => {
                    let error = parse::<CallError>(&payload).map_or_else(|error| error, ClientError::Call);
                    return self.end(stream, Incoming::Failed(error));
                }
                Kind::Credit | Kind::End => {
                    if let Some(slot) = self.streams().open.get(&stream) {
                        match credit_amount(&payload) {
                            Some(amount) if kind == Kind::Credit => slot.stdin.grant(amount),
                            _ => slot.stdin.close(),
                        }
                    }
                    return;
                }
                // Not for a client, or not for this moment: tolerated, as unknown kinds are.
                _ => return,
            },
        };
        // A stream that is not open was forgotten; what was on its way is dropped.
        if let Some(slot) = self.streams().open.get(&id) {
            slot.push(incoming);
        }
    }

    fn end(&self, id: u32, last: Incoming) {
        if let Some(slot) = self.streams().open.remove(&id) {
            slot.stdin.close();
            slot.push(last);
        }
    }
}

/// Reads what the daemon sent.
pub(super) fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(text).map_err(|error| internal(format!("the daemon's answer cannot be read: {error}")))
}

fn internal(message: String) -> ClientError {
    ClientError::Call(CallError { code: ErrorCode::Internal, message, fix: None })
}
