//! What an examination says as it goes on.
//!
//! Invariant: dropped before its end, the examination ends too.

use super::ClientError;
use super::link::{Handle, Incoming, Stream, parse};
use crate::model::Finding;
use std::sync::Arc;

/// An examination under way. Dropping it ends it.
pub struct Findings {
    stream: Stream,
    ended: bool,
    /// Keeps the connection open.
    _handle: Arc<Handle>,
}

impl Findings {
    pub(super) fn new(stream: Stream, handle: Arc<Handle>) -> Self {
        Self { stream, ended: false, _handle: handle }
    }

    /// Waits for the next finding; none after the last one. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Finding, ClientError>> {
        while !self.ended {
            match self.stream.next().await {
                Incoming::Item(text) => return Some(parse(&text)),
                Incoming::Event(_) | Incoming::Data { .. } => {}
                Incoming::Reply(_) => self.ended = true,
                Incoming::Failed(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
