//! What is written to a shell: the script with the command, then the caller's stdin.
//!
//! Invariant: nothing of the caller's stdin is lost when a shell turns out not to have read its command; and nothing is held
//! in memory beyond what a shell that never reads can have taken.

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

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
    /// The caller's stdin; none: there is none, or it has ended.
    stdin: Option<mpsc::Receiver<Vec<u8>>>,
    /// Whether the end of input is to be sent after the bytes.
    ends: bool,
    /// What of the caller's stdin was taken so far; none once it is too much.
    replay: Option<Vec<u8>>,
}

impl Feed {
    /// Makes a feed of a caller's stdin.
    pub(super) fn new(stdin: Option<mpsc::Receiver<Vec<u8>>>) -> Self {
        let ends = stdin.is_some();
        Self { sink: None, chunk: Vec::new(), written: 0, stdin, ends, replay: Some(Vec::new()) }
    }

    /// Whether the command reads the caller's stdin.
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
            match stdin.recv().await {
                Some(bytes) => {
                    self.replay = self.replay.take().filter(|r| r.len() + bytes.len() <= REPLAY_MAX).map(|mut r| {
                        r.extend_from_slice(&bytes);
                        r
                    });
                    self.chunk = bytes;
                    self.written = 0;
                }
                None => self.stdin = None,
            }
        }
        if self.ends {
            // The end of input; a failure means that nobody reads.
            let _ = sink.shutdown().await;
            self.sink = None;
        }
        // Without stdin the script has taken it away already: no message to a far side is needed to end it.
    }

    fn give_up(&mut self) {
        self.chunk = Vec::new();
        self.written = 0;
    }
}
