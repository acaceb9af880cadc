//! What waits to be written on a connection: control frames at once, data within a budget, in few writes.
//!
//! Invariant: frames go out in the order of pushing. Data is bounded by its budget; control frames are bounded by those who
//! push them (a stream ends with one reply, and a reader takes no new request while much is queued).

use super::frame::{self, FRAME_CAP, Kind};
use crate::model::Stream;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::bytes::{Buf, Bytes, BytesMut};

/// Bytes of data that may be queued or being made on one connection.
pub const DATA_BUDGET: usize = 2 << 20;
/// A payload from this size on is queued as it is instead of being copied.
const COPY_BELOW: usize = 8 << 10;
/// Longest piece of a JSON text in one frame.
const PART: usize = FRAME_CAP / 2;
/// Slices given to one write.
const SLICES: usize = 32;
/// Above this many queued bytes a reader takes no new request.
const CROWDED: usize = 4 << 20;

/// The queue of one connection. Any number of pushers, one writer.
#[derive(Debug)]
pub struct Outbox {
    state: Mutex<State>,
    filled: Notify,
    drained: Notify,
    budget: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct State {
    segments: VecDeque<Segment>,
    /// Small frames that were pushed after the last segment.
    tail: BytesMut,
    queued: usize,
    finished: bool,
    failed: bool,
}

#[derive(Debug)]
struct Segment {
    bytes: Bytes,
    /// Goes back to the budget when the segment has been written.
    _permit: Option<OwnedSemaphorePermit>,
}

/// Room for one piece of data; given back when the data has been written, or on drop.
#[derive(Debug)]
pub struct Room(OwnedSemaphorePermit);

impl Default for Outbox {
    fn default() -> Self {
        Self { state: Mutex::default(), filled: Notify::new(), drained: Notify::new(), budget: Arc::new(Semaphore::new(DATA_BUDGET)) }
    }
}

impl Outbox {
    /// Queues a frame with a payload. Never waits.
    pub fn push(&self, kind: Kind, stream: u32, payload: &[u8]) {
        let mut state = self.lock();
        state.copy(&frame::head(kind, stream, payload.len()));
        state.copy(payload);
        drop(state);
        self.filled.notify_one();
    }

    /// Queues a JSON message, in parts when it is long. Never waits. Fails only when the value has no JSON form.
    pub fn push_json<T: Serialize>(&self, kind: Kind, stream: u32, value: &T) -> Result<(), serde_json::Error> {
        let text = serde_json::to_vec(value)?;
        self.push_text(kind, stream, text);
        Ok(())
    }

    /// Queues a JSON text, in parts when it is long. Never waits.
    pub fn push_text(&self, kind: Kind, stream: u32, text: Vec<u8>) {
        let mut text = Bytes::from(text);
        let mut state = self.lock();
        while text.len() > PART {
            let part = text.split_to(PART);
            state.copy(&frame::head(Kind::Part, stream, PART));
            state.append(part, None);
        }
        state.copy(&frame::head(kind, stream, text.len()));
        if text.len() < COPY_BELOW {
            state.copy(&text);
        } else {
            state.append(text, None);
        }
        drop(state);
        self.filled.notify_one();
    }

    /// Waits until `amount` bytes of data may be made and queued. Fair. Cancel safe.
    pub async fn room(&self, amount: usize) -> Room {
        let amount = amount.min(DATA_BUDGET) as u32;
        let permit = self.budget.clone().acquire_many_owned(amount).await;
        Room(permit.expect("the budget is never closed"))
    }

    /// Queues data frames of one stream, for which there is room. What the room holds beyond the bytes is given back at once.
    pub fn push_data(&self, room: Room, stream: u32, pieces: impl IntoIterator<Item = (u64, Stream, Bytes)>) {
        let mut permit = room.0;
        let mut state = self.lock();
        for (offset, tag, bytes) in pieces {
            state.copy(&frame::data_head(stream, offset, tag, bytes.len()));
            if bytes.len() < COPY_BELOW {
                state.copy(&bytes);
            } else {
                let held = permit.split(bytes.len().min(permit.num_permits()));
                state.append(bytes, held);
            }
        }
        drop(state);
        self.filled.notify_one();
    }

    /// Waits until the queue is short enough for another request. Cancel safe.
    pub async fn uncrowded(&self) {
        loop {
            let drained = self.drained.notified();
            let mut drained = std::pin::pin!(drained);
            drained.as_mut().enable();
            if self.is_uncrowded() {
                return;
            }
            drained.await;
        }
    }

    fn is_uncrowded(&self) -> bool {
        let state = self.lock();
        state.queued <= CROWDED || state.failed
    }

    /// Says that nothing more will be pushed: the writer ends once everything is written.
    pub fn finish(&self) {
        self.lock().finished = true;
        self.filled.notify_one();
    }

    /// Writes what is queued, until [`Outbox::finish`] or a failure. Cancel safe: what was written is not written again.
    pub async fn write_to<W: AsyncWrite + Unpin>(&self, io: &mut W) -> io::Result<()> {
        let end = self.write_all_to(io).await;
        self.lock().failed = end.is_err();
        self.drained.notify_waiters();
        end
    }

    async fn write_all_to<W: AsyncWrite + Unpin>(&self, io: &mut W) -> io::Result<()> {
        loop {
            let finished = {
                let mut state = self.lock();
                state.seal();
                state.finished && state.segments.is_empty()
            };
            if finished {
                std::future::poll_fn(|cx| std::pin::Pin::new(&mut *io).poll_flush(cx)).await?;
                return std::future::poll_fn(|cx| std::pin::Pin::new(&mut *io).poll_shutdown(cx)).await;
            }
            let wrote = std::future::poll_fn(|cx| self.poll_write_some(io, cx)).await?;
            if wrote == 0 {
                std::future::poll_fn(|cx| std::pin::Pin::new(&mut *io).poll_flush(cx)).await?;
                self.filled.notified().await;
            }
        }
    }

    /// Makes one write of what is queued; 0 when nothing is.
    fn poll_write_some<W: AsyncWrite + Unpin>(&self, io: &mut W, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        // The lock is not held while writing: the segments are cheap handles on shared bytes.
        let mut front: [Bytes; SLICES] = std::array::from_fn(|_| Bytes::new());
        let mut count = 0;
        {
            let state = self.lock();
            for (slot, segment) in front.iter_mut().zip(&state.segments) {
                *slot = segment.bytes.clone();
                count += 1;
            }
        }
        if count == 0 {
            return Poll::Ready(Ok(0));
        }
        let slices: [IoSlice<'_>; SLICES] = std::array::from_fn(|i| IoSlice::new(&front[i]));
        let pinned = std::pin::Pin::new(&mut *io);
        let written = if pinned.is_write_vectored() {
            std::task::ready!(pinned.poll_write_vectored(cx, &slices[..count]))?
        } else {
            std::task::ready!(pinned.poll_write(cx, &slices[0]))?
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.lock().advance(written);
        self.drained.notify_waiters();
        Poll::Ready(Ok(written))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn copy(&mut self, bytes: &[u8]) {
        if !self.failed {
            self.queued += bytes.len();
            self.tail.extend_from_slice(bytes);
        }
    }

    fn append(&mut self, bytes: Bytes, permit: Option<OwnedSemaphorePermit>) {
        if !self.failed {
            self.seal();
            self.queued += bytes.len();
            self.segments.push_back(Segment { bytes, _permit: permit });
        }
    }

    /// Turns the small frames at the end into a segment.
    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.segments.push_back(Segment { bytes: self.tail.split().freeze(), _permit: None });
        }
    }

    fn advance(&mut self, mut written: usize) {
        self.queued -= written;
        while written > 0 {
            let Some(front) = self.segments.front_mut() else { return };
            if front.bytes.len() > written {
                front.bytes.advance(written);
                return;
            }
            written -= front.bytes.len();
            self.segments.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Frame, FrameReader};
    use super::*;
    use futures::FutureExt;
    use std::time::Duration;

    #[tokio::test]
    async fn frames_arrive_in_the_order_of_pushing() {
        let (mut near, far) = tokio::io::duplex(100);
        let outbox = Outbox::default();
        let big = vec![b'x'; 50_000];
        outbox.push(Kind::Cancel, 1, b"");
        let room = outbox.room(big.len()).await;
        outbox.push_data(room, 2, [(5, Stream::Err, Bytes::from(big.clone())), (50_005, Stream::Out, Bytes::from_static(b"tail"))]);
        outbox.push(Kind::End, 3, b"");
        outbox.finish();
        let mut reader = FrameReader::new(far, FRAME_CAP);
        let read = async {
            let mut frames = Vec::new();
            while let Some(frame) = reader.next().await.unwrap() {
                frames.push(frame);
            }
            frames
        };
        let (wrote, frames) = tokio::join!(outbox.write_to(&mut near), read);
        wrote.unwrap();
        assert_eq!(
            frames,
            [
                Frame::Message { kind: Kind::Cancel, stream: 1, payload: vec![] },
                Frame::Data { stream: 2, offset: 5, tag: Stream::Err, bytes: big },
                Frame::Data { stream: 2, offset: 50_005, tag: Stream::Out, bytes: b"tail".to_vec() },
                Frame::Message { kind: Kind::End, stream: 3, payload: vec![] },
            ]
        );
    }

    #[tokio::test]
    async fn data_waits_for_its_budget_and_control_does_not() {
        let outbox = Outbox::default();
        let first = outbox.room(DATA_BUDGET).await;
        assert!(outbox.room(1).now_or_never().is_none());
        outbox.push(Kind::End, 1, b"");
        outbox.push_data(first, 1, [(0, Stream::Out, Bytes::from(vec![0; DATA_BUDGET]))]);
        assert!(outbox.room(1).now_or_never().is_none(), "queued data still counts");
        let (mut near, mut far) = tokio::io::duplex(1 << 20);
        let mut sink = tokio::io::sink();
        tokio::select! {
            end = outbox.write_to(&mut near) => panic!("ended: {end:?}"),
            _ = tokio::io::copy(&mut far, &mut sink) => panic!("never ends"),
            _room = outbox.room(DATA_BUDGET) => {}
        }
    }

    #[tokio::test]
    async fn unused_room_goes_back_at_once() {
        let outbox = Outbox::default();
        let room = outbox.room(DATA_BUDGET).await;
        outbox.push_data(room, 1, [(0, Stream::Out, Bytes::from_static(b"few"))]);
        assert!(outbox.room(DATA_BUDGET).now_or_never().is_some());
    }

    #[tokio::test]
    async fn long_texts_travel_in_parts() {
        let outbox = Outbox::default();
        let text = "y".repeat(PART * 2 + 10);
        outbox.push_json(Kind::Reply, 9, &text).unwrap();
        outbox.finish();
        let (mut near, far) = tokio::io::duplex(1 << 16);
        let mut reader = FrameReader::new(far, FRAME_CAP);
        let read = async {
            let mut kinds = Vec::new();
            let mut whole = Vec::new();
            while let Some(Frame::Message { kind, payload, .. }) = reader.next().await.unwrap() {
                kinds.push(kind);
                whole.extend(payload);
            }
            (kinds, whole)
        };
        let (wrote, (kinds, whole)) = tokio::join!(outbox.write_to(&mut near), read);
        wrote.unwrap();
        assert_eq!(kinds, [Kind::Part, Kind::Part, Kind::Reply]);
        assert_eq!(serde_json::from_slice::<String>(&whole).unwrap(), text);
    }

    #[tokio::test]
    async fn a_crowded_queue_holds_requests_back_until_it_is_written() {
        let outbox = Outbox::default();
        assert!(outbox.uncrowded().now_or_never().is_some());
        outbox.push_text(Kind::Reply, 1, vec![b'1'; CROWDED + 1]);
        assert!(outbox.uncrowded().now_or_never().is_none());
        let (mut near, mut far) = tokio::io::duplex(1 << 20);
        let all = async {
            let mut sink = tokio::io::sink();
            tokio::select! {
                end = outbox.write_to(&mut near) => panic!("ended: {end:?}"),
                _ = tokio::io::copy(&mut far, &mut sink) => panic!("never ends"),
                () = outbox.uncrowded() => {}
            }
        };
        tokio::time::timeout(Duration::from_secs(10), all).await.unwrap();
    }

    #[tokio::test]
    async fn after_a_failure_nothing_is_kept() {
        let outbox = Outbox::default();
        let (mut near, far) = tokio::io::duplex(10);
        drop(far);
        outbox.push(Kind::End, 1, b"");
        assert!(outbox.write_to(&mut near).await.is_err());
        outbox.push_text(Kind::Reply, 1, vec![b'1'; CROWDED + 1]);
        assert!(outbox.uncrowded().now_or_never().is_some());
    }
}
