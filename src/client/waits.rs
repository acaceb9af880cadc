//! A wait under way, and what its processes tell meanwhile.
//!
//! Invariant: dropped before its end, the wait ends too.

use super::ClientError;
use super::link::{Handle, Incoming, Stream, parse};
use crate::model::{ProcessInfo, Told};
use std::sync::Arc;

/// A wait under way. Dropping it ends it.
pub struct Waits {
    stream: Stream,
    ended: bool,
    /// Keeps the connection open.
    _handle: Arc<Handle>,
}

/// What a wait says.
#[derive(Debug)]
pub enum Waited {
    /// One of the processes told something.
    Told(Box<Told>),
    /// It is over: their rows, in the order asked.
    Rows(Vec<ProcessInfo>),
}

impl Waits {
    pub(super) fn new(stream: Stream, handle: Arc<Handle>) -> Self {
        Self { stream, ended: false, _handle: handle }
    }

    /// Waits for the next; none after the rows. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Waited, ClientError>> {
        while !self.ended {
            match self.stream.next().await {
                Incoming::Item(text) => return Some(parse(&text).map(|told| Waited::Told(Box::new(told)))),
                Incoming::Event(_) | Incoming::Data { .. } => {}
                Incoming::Reply(text) => {
                    self.ended = true;
                    return Some(parse(&text).map(Waited::Rows));
                }
                Incoming::Failed(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
