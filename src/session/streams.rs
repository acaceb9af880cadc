//! Reading what a command's shell writes: output to the log, records and the fence to the one who runs the command.
//!
//! Invariant: reading never stops before both streams end, whatever else happens to the command; nobody is ever sent SIGPIPE
//! by us.

use super::log::Log;
use crate::model::Stream;
use crate::shell::record::{Fence, Parser, Record};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Notify;

/// Bytes read at once from stdout, and from stderr.
const OUT_CHUNK: usize = 64 * 1024;
const ERR_CHUNK: usize = 16 * 1024;

/// A stream of a shell.
pub(super) type Pipe = Box<dyn AsyncRead + Send + Unpin>;

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Seen {
    /// The records, in order.
    pub(super) records: Vec<Record>,
    /// Whether the shell itself has written its last.
    pub(super) fence: bool,
    /// Whether its last record has come.
    pub(super) end: bool,
    /// Streams whose bytes wait for room in the log.
    pub(super) held: usize,
    /// When bytes last came.
    pub(super) last: Instant,
    /// Why a stream broke off before its end: output is missing.
    pub(super) broken: Option<String>,
}

/// What the reader and the one who runs the command share.
#[derive(Debug)]
pub(super) struct Watch {
    seen: Mutex<Seen>,
    changed: Notify,
}

impl Watch {
    /// What was seen so far, for a moment.
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the fence or a record has come since the last wait. Cancel safe.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Starts nothing by itself: the future reads both streams until they end.
pub(super) fn read(stdout: Pipe, stderr: Pipe, nonce: &str, split: bool, log: Arc<Log>) -> (BoxFuture<'static, ()>, Arc<Watch>) {
    let seen = Seen { records: Vec::new(), fence: false, end: false, held: 0, last: Instant::now(), broken: None };
    let watch = Arc::new(Watch { seen: Mutex::new(seen), changed: Notify::new() });
    let out = read_out(stdout, Fence::new(nonce), log.clone(), watch.clone());
    let err = read_err(stderr, Parser::new(nonce), split.then_some(log), watch.clone());
    let reading = Box::pin(async move {
        tokio::join!(out, err);
    });
    (reading, watch)
}

/// Appends to the log; where that waits it shows, so that nobody takes it for silence.
async fn keep(log: &Log, stream: Stream, bytes: &[u8], watch: &Watch) {
    let mut append = std::pin::pin!(log.append(stream, bytes));
    if append.as_mut().now_or_never().is_some() {
        return;
    }
    watch.seen().held += 1;
    append.await;
    let mut seen = watch.seen();
    seen.held -= 1;
    seen.last = Instant::now();
    drop(seen);
    watch.changed.notify_one();
}

/// Reads the next piece in place of the last. Tells whether there is one; why not, where that is a fault, is noted.
async fn more(stream: &mut Pipe, buffer: &mut Vec<u8>, watch: &Watch) -> bool {
    buffer.clear();
    match stream.read_buf(buffer).await {
        Ok(n) => n > 0,
        Err(error) => {
            watch.seen().broken = Some(error.to_string());
            false
        }
    }
}

/// stdout: everything but the fence is output.
async fn read_out(mut stream: Pipe, mut fence: Fence, log: Arc<Log>, watch: Arc<Watch>) {
    let mut buffer = Vec::with_capacity(OUT_CHUNK);
    let mut scratch = Vec::new();
    loop {
        if !more(&mut stream, &mut buffer, &watch).await {
            break;
        }
        let was_seen = fence.seen();
        let output = fence.feed(&buffer, &mut scratch);
        if !output.is_empty() {
            keep(&log, Stream::Out, output, &watch).await;
        }
        let mut seen = watch.seen();
        seen.last = Instant::now();
        seen.fence = fence.seen();
        drop(seen);
        if fence.seen() && !was_seen {
            watch.changed.notify_one();
        }
    }
    let rest = fence.finish();
    if !rest.is_empty() {
        log.append(Stream::Out, rest).await;
    }
}

/// stderr: records; in split mode everything else is output, in merged mode noise of the shell itself.
async fn read_err(mut stream: Pipe, mut parser: Parser, log: Option<Arc<Log>>, watch: Arc<Watch>) {
    let mut buffer = Vec::with_capacity(ERR_CHUNK);
    let (mut records, mut rest) = (Vec::new(), Vec::new());
    loop {
        if !more(&mut stream, &mut buffer, &watch).await {
            break;
        }
        rest.clear();
        parser.feed(&buffer, &mut records, &mut rest);
        if let Some(log) = log.as_ref().filter(|_| !rest.is_empty()) {
            keep(log, Stream::Err, &rest, &watch).await;
        }
        let mut seen = watch.seen();
        seen.last = Instant::now();
        if !records.is_empty() {
            seen.end |= records.iter().any(|r| matches!(r, Record::End(_)));
            seen.records.append(&mut records);
            drop(seen);
            watch.changed.notify_one();
        }
    }
    let rest = parser.finish();
    if let Some(log) = log.filter(|_| !rest.is_empty()) {
        log.append(Stream::Err, &rest).await;
    }
}
