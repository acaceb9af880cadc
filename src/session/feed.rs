//! What is written to a shell: the script with the command, then the command's stdin.
//!
//! Invariant: nothing of the stdin is lost when a shell turns out not to have read its command; and nothing is held
//! in memory beyond what a shell that never reads can have taken.

use super::input::{Batch, Input, Receipt};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Stdin that is kept to be sent again: more than a shell that does not read can have taken (a pipe, a window of ssh).
const REPLAY_MAX: usize = 4 << 20;

/// The shell's stdin.
type Sink = Box<dyn AsyncWrite + Send + Unpin>;

/// What is written to a shell.
pub(super) struct Feed {
    sink: Option<Sink>,
    /// The bytes under way, and how far they were written.
    chunk: Vec<u8>,
    written: usize,
    /// The command's stdin; none: there is none, or it has ended.
    stdin: Option<Input>,
    /// Is owed once the bytes are written.
    receipt: Option<Receipt>,
    /// Whether the end of input is to be sent after the bytes.
    ends: bool,
    /// What of the stdin was taken so far; none once it is too much.
    replay: Option<Vec<u8>>,
}

impl Feed {
    /// Makes a feed of a stdin.
    pub(super) fn new(stdin: Option<Input>) -> Self {
        let ends = stdin.is_some();
        Self { sink: None, chunk: Vec::new(), written: 0, stdin, receipt: None, ends, replay: Some(Vec::new()) }
    }

    /// Whether the command has a stdin of its own.
    pub(super) fn has_stdin(&self) -> bool {
        self.ends
    }

    /// Sets the script for the next shell. False when stdin that was taken for the shell before is not there any more.
    pub(super) fn load(&mut self, script: Vec<u8>) -> bool {
        let Some(replay) = &self.replay else { return false };
        self.chunk = script;
        self.chunk.extend_from_slice(replay);
        self.written = 0;
        true
    }

    /// Gives it the shell's stdin.
    pub(super) fn begin(&mut self, sink: Sink) {
        self.sink = Some(sink);
    }

    /// Writes until there is nothing more to write, or until the shell does not read any more. Cancel safe: it goes on where
    /// it was.
    pub(super) async fn go_on(&mut self) {
        let Some(sink) = self.sink.as_mut() else { return };
        loop {
            while self.written < self.chunk.len() {
                match sink.write(&self.chunk[self.written..]).await {
                    Ok(n) if n > 0 => self.written += n,
                    // It does not read any more; how it ended says why.
                    _ => return self.give_up(),
                }
            }
            if sink.flush().await.is_err() {
                return self.give_up();
            }
            let Some(stdin) = self.stdin.as_mut() else { break };
            if let Some(receipt) = self.receipt.take() {
                receipt.written();
            }
            let next = stdin.next().await;
            let (bytes, end) = match next {
                Next::Bytes(bytes) => (bytes, false),
                Next::Batch(batch) => {
                    self.receipt = Some(batch.receipt);
                    (batch.bytes, batch.end)
                }
                Next::End => (Vec::new(), true),
            };
            self.replay = self.replay.take().filter(|r| r.len() + bytes.len() <= REPLAY_MAX).map(|mut r| {
                r.extend_from_slice(&bytes);
                r
            });
            self.chunk = bytes;
            self.written = 0;
            if end {
                self.stdin = None;
            }
        }
        if self.ends {
            // The end of input; a failure means that nobody reads.
            let _ = sink.shutdown().await;
            self.sink = None;
        }
        if let Some(receipt) = self.receipt.take() {
            receipt.written();
        }
        // Without stdin the script has taken it away already: no message to a far side is needed to end it.
    }

    fn give_up(&mut self) {
        self.chunk = Vec::new();
        self.written = 0;
        // Whoever waits for these bytes hears that they were not taken.
        self.receipt = None;
    }
}

/// What comes next on a stdin.
enum Next {
    /// The caller's bytes.
    Bytes(Vec<u8>),
    /// A batch of another.
    Batch(Batch),
    /// The caller has ended it.
    End,
}

impl Input {
    /// Waits for what comes next. Cancel safe.
    async fn next(&mut self) -> Next {
        loop {
            let Some(others) = self.others.as_mut() else {
                return self.caller.recv().await.map_or(Next::End, Next::Bytes);
            };
            tokio::select! {
                bytes = self.caller.recv() => return bytes.map_or(Next::End, Next::Bytes),
                batch = others.recv() => match batch {
                    Some(batch) => return Next::Batch(batch),
                    None => self.others = None,
                },
            }
        }
    }
}
