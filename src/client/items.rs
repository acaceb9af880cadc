//! What a streaming call says, and the stdin of a command.
//!
//! Invariant: an `Items` that is dropped before its end ends the call; nothing goes on running for a caller that has gone.

use super::link::{Handle, Incoming, Link, Slot, Stream, parse};
use super::{ClientError, Item};
use crate::model::Stream as Tag;
use crate::protocol::calls::{CallError, ErrorCode, LogItem};
use crate::protocol::credit::cost;
use crate::protocol::frame::Kind;
use std::sync::Arc;
use tokio_util::bytes::Bytes;

/// Longest piece of stdin in one frame.
const PIECE: usize = 128 << 10;

/// A running streaming call. Dropping it cancels the call.
pub struct Items {
    stream: Stream,
    kind: Call,
    started: bool,
    ended: bool,
    stdin: Option<Stdin>,
    /// Keeps the connection open.
    _handle: Arc<Handle>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Exec,
    Follow,
}

/// The stdin of a running command, apart from its [`Items`], so that both can be used at once.
pub struct Stdin {
    link: Arc<Link>,
    slot: Arc<Slot>,
    id: u32,
    sent: u64,
}

impl Items {
    pub(super) fn of_exec(stream: Stream, handle: Arc<Handle>) -> Self {
        let stdin = Stdin { link: handle.link().clone(), slot: stream.slot.clone(), id: stream.id, sent: 0 };
        Self { stream, kind: Call::Exec, started: false, ended: false, stdin: Some(stdin), _handle: handle }
    }

    pub(super) fn of_follow(stream: Stream, handle: Arc<Handle>) -> Self {
        Self { stream, kind: Call::Follow, started: false, ended: false, stdin: None, _handle: handle }
    }

    /// Waits for the next item; none after the last one. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Item, ClientError>> {
        while !self.ended {
            let item = match self.stream.next().await {
                Incoming::Data { offset, tag, bytes } => Ok(Item::Data { offset, stream: tag, bytes }),
                Incoming::Item(text) => match self.kind {
                    Call::Exec if !std::mem::replace(&mut self.started, true) => parse(&text).map(Item::Started),
                    Call::Exec => parse(&text).map(|item| match item {
                        LogItem::File(path) => Item::File(path),
                        LogItem::Kept(kept) => Item::Kept(kept),
                    }),
                    // Items of a later version.
                    Call::Follow => continue,
                },
                Incoming::Event(_) => continue,
                Incoming::Reply(text) => {
                    self.ended = true;
                    match self.kind {
                        Call::Exec => parse(&text).map(Item::Result),
                        Call::Follow => parse(&text).map(Item::Followed),
                    }
                }
                Incoming::Failed(error) => {
                    self.ended = true;
                    Err(error)
                }
            };
            return Some(item);
        }
        None
    }

    /// Takes the command's stdin out, so that it can be fed while the items are read. None when it was taken before, or when
    /// this is no command.
    pub fn take_stdin(&mut self) -> Option<Stdin> {
        self.stdin.take()
    }

    /// Sends bytes to the command's stdin; waits while the command does not read. An error means that it no longer can.
    /// While this waits no items are read: a caller that needs both uses [`Items::take_stdin`]. Not cancel safe: dropping the
    /// future may leave a part sent.
    pub async fn send_stdin(&mut self, bytes: Vec<u8>) -> Result<(), ClientError> {
        self.stdin.as_mut().ok_or_else(no_stdin)?.send(bytes).await
    }

    /// Ends the command's stdin. Never waits.
    pub async fn end_stdin(&mut self) -> Result<(), ClientError> {
        self.stdin.as_mut().ok_or_else(no_stdin)?.end();
        Ok(())
    }

    /// Says that the file of an [`Item::File`] is open: from then on output may come as [`Item::Kept`]. Never waits.
    pub fn file_opened(&self) {
        if !self.ended {
            self.stream.send(Kind::Opened);
        }
    }

    /// Asks for the command to be ended (Ctrl-C); its result still comes. Never waits.
    pub async fn cancel(&mut self) -> Result<(), ClientError> {
        if !self.ended {
            self.stream.send(Kind::Cancel);
        }
        Ok(())
    }
}

impl Stdin {
    /// Sends bytes; waits while the command does not read. An error means that it no longer can. Not cancel safe: dropping
    /// the future may leave a part sent.
    pub async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ClientError> {
        let mut bytes = Bytes::from(bytes);
        while !bytes.is_empty() {
            if !self.slot.stdin.available().await {
                return Err(closed());
            }
            let piece = bytes.split_to(bytes.len().min(PIECE));
            let room = self.link.outbox.room(piece.len()).await;
            self.slot.stdin.spend(cost(piece.len()));
            let offset = self.sent;
            self.sent += piece.len() as u64;
            self.link.outbox.push_data(room, self.id, [(offset, Tag::Out, piece)]);
        }
        Ok(())
    }

    /// Ends it: the command reads the end of its stdin after what was sent.
    pub fn end(&mut self) {
        self.link.outbox.push(Kind::End, self.id, b"");
    }
}

fn closed() -> ClientError {
    CallError { code: ErrorCode::Refused, message: "the command no longer reads its stdin".into(), fix: None }.into()
}

fn no_stdin() -> ClientError {
    CallError { code: ErrorCode::Usage, message: "this call has no stdin".into(), fix: None }.into()
}
