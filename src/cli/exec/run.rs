//! One running command: its items in, its bytes and ours out, signals between.
//!
//! Invariant: nothing here waits for one thing alone: a blocked stdout, a command that reads no stdin and a daemon that does
//! not answer all leave Ctrl-C working.

use super::form::Form;
use super::signals::{Asked, Signals};
use super::sink::{Piece, Sink};
use super::stdin;
use crate::cli::failure::Failure;
use crate::cli::screen::Screen;
use crate::cli::words;
use crate::client::{ClientError, Item, Items};
use crate::model::{EndedBy, ExecResult, Outcome, ProcessInfo};
use std::fs::File;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// How long an ending may take before it is said that it is under way.
const PATIENCE: Duration = Duration::from_millis(700);

/// How it ended for us.
pub(crate) enum End {
    /// With a result; `asked` is the signal that asked us to end before it came.
    Result {
        /// The result.
        result: Box<ExecResult>,
        /// The signal.
        asked: Option<Asked>,
    },
    /// We were asked to end a second time and did not wait.
    Left(Asked),
}

/// Tells whether a command ended because its caller wished it.
pub(crate) fn ended_by_us(result: &ExecResult) -> bool {
    matches!(result.outcome, Outcome::Cancelled { ended_by: EndedBy::Client | EndedBy::ClientGone })
}

type Forwarding = Pin<Box<dyn Future<Output = Result<(), Failure>>>>;

/// A running command.
pub(crate) struct Run<'a> {
    items: Items,
    signals: Signals,
    screen: &'a Screen,
    forwarding: Option<Forwarding>,
    started: Option<Box<ProcessInfo>>,
    asked: Option<Asked>,
    /// Why the command is being ended although nobody asked: what we exit with in place of its code.
    failure: Option<Failure>,
    pending: Option<Piece>,
    /// The log's file while it is opened, and once it is.
    opening: Option<JoinHandle<io::Result<File>>>,
    file: Option<Arc<File>>,
}

impl<'a> Run<'a> {
    /// Takes over a command that was sent.
    pub(crate) fn new(items: Items, signals: Signals, screen: &'a Screen) -> Self {
        Self {
            items,
            signals,
            screen,
            forwarding: None,
            started: None,
            asked: None,
            failure: None,
            pending: None,
            opening: None,
            file: None,
        }
    }

    /// Forwards a file to the command's stdin while it runs.
    pub(crate) fn forward(&mut self, source: File) -> Result<(), Failure> {
        let stdin = self.items.take_stdin().ok_or_else(|| Failure::Internal("the command has no stdin".into()))?;
        self.forwarding = Some(Box::pin(stdin::forward(source, stdin)));
        Ok(())
    }

    /// Waits for the end.
    pub(crate) async fn finish(mut self, form: &mut Form, sink: Sink) -> Result<End, Failure> {
        let mut open = true;
        let mut told_at = None;
        let result = loop {
            tokio::select! {
                biased;
                asked = self.signals.next() => {
                    if self.asked.replace(asked).is_some() {
                        return Ok(End::Left(asked));
                    }
                    told_at = Some(Instant::now() + PATIENCE);
                    if let Some(again) = self.cancel().await {
                        return Ok(End::Left(again));
                    }
                }
                () = sink.stopped(), if open => {
                    (open, self.pending) = (false, None);
                    if let Some(asked) = self.cancel().await {
                        return Ok(End::Left(asked));
                    }
                }
                done = forwarded(&mut self.forwarding), if self.forwarding.is_some() => {
                    self.forwarding = None;
                    if let Err(failure) = done {
                        self.failure = Some(failure);
                        if let Some(asked) = self.cancel().await {
                            return Ok(End::Left(asked));
                        }
                    }
                }
                opened = opened(&mut self.opening), if self.opening.is_some() => {
                    self.opening = None;
                    // Where it cannot be opened the output comes as it came before.
                    self.file = opened.map(Arc::new);
                    if self.file.is_some() {
                        self.items.file_opened();
                    }
                }
                room = sink.room(), if open && self.pending.is_some() => {
                    if let (Ok(room), Some(piece)) = (room, self.pending.take()) {
                        room.send(piece);
                    }
                }
                () = at(told_at), if told_at.is_some() => {
                    told_at = None;
                    if self.screen.stderr_terminal {
                        self.screen.insist("the command is being ended; interrupt again to leave at once");
                    }
                }
                item = self.items.next(), if self.pending.is_none() => {
                    if let Some(result) = self.item(item, form)? {
                        break result;
                    }
                }
            }
            if !open {
                self.pending = None;
            }
        };
        self.flush(form, sink, result).await
    }

    /// Takes an item; gives the result when it is the last.
    fn item(&mut self, item: Option<Result<Item, ClientError>>, form: &mut Form) -> Result<Option<Box<ExecResult>>, Failure> {
        match item {
            Some(Ok(Item::Started(process))) => {
                if self.screen.verbose > 0 && matches!(form, Form::Plain) {
                    self.screen.say(&format!("{} on {}, session {}", process.id, process.backend, process.session));
                }
                self.pending = form.started(&process)?;
                self.started = Some(process);
            }
            Some(Ok(Item::Data { offset, stream, bytes })) => self.pending = form.data(offset, stream, bytes)?,
            Some(Ok(Item::File(path))) => self.opening = Some(tokio::task::spawn_blocking(|| File::open(path))),
            Some(Ok(Item::Kept(kept))) => {
                let file = self.file.clone().ok_or_else(|| Failure::Internal("a file was named that is not open".into()))?;
                self.pending = Some(Piece::Kept { file, kept });
            }
            Some(Ok(Item::Result(result))) => return Ok(Some(result)),
            Some(Ok(Item::Followed(_))) => {}
            Some(Err(ClientError::Gone(why))) => return self.lost(&why).map(Some),
            Some(Err(error)) => return Err(error.into()),
            None => return self.lost("it closed the connection").map(Some),
        }
        Ok(None)
    }

    /// Makes the result of a command whose daemon went away: nobody knows how it ended.
    fn lost(&self, why: &str) -> Result<Box<ExecResult>, Failure> {
        let Some(process) = &self.started else {
            return Err(ClientError::Gone(why.to_owned()).into());
        };
        let reason = format!("the daemon is gone ({why})");
        Ok(Box::new(ExecResult {
            process_id: process.id.clone(),
            backend: process.backend.clone(),
            session: process.session.clone(),
            outcome: Outcome::TransportLost { reason },
            exit_code_meaning: None,
            output: String::new(),
            truncated: false,
            total_bytes: process.output_bytes,
            next_offset: process.output_bytes,
            output_path: None,
            cwd: process.cwd.clone(),
            generation: 0,
            duration_ms: u64::try_from(words::now().saturating_sub(process.started)).unwrap_or(0),
            timeout_ms: None,
            warnings: Vec::new(),
            hints: Vec::new(),
        }))
    }

    /// Asks for the command to be ended; gives the signal when we were asked to leave meanwhile.
    async fn cancel(&mut self) -> Option<Asked> {
        tokio::select! {
            // When the daemon is gone the next item says so.
            _ = self.items.cancel() => None,
            asked = self.signals.next() => Some(asked),
        }
    }

    /// Writes what is left, and settles how it ended.
    async fn flush(mut self, form: &mut Form, sink: Sink, result: Box<ExecResult>) -> Result<End, Failure> {
        let last = form.result(&result)?;
        if self.failure.is_none()
            && let Some(piece) = last
        {
            tokio::select! {
                // A writer that has stopped tells why at its end.
                room = sink.room() => room.map_or((), |room| room.send(piece)),
                asked = self.signals.next() => return Ok(End::Left(asked)),
            }
        }
        tokio::select! {
            written = sink.finish() => written.map_err(Failure::Output)?,
            asked = self.signals.next() => return Ok(End::Left(asked)),
        }
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(End::Result { result, asked: self.asked }),
        }
    }
}

async fn forwarded(forwarding: &mut Option<Forwarding>) -> Result<(), Failure> {
    match forwarding {
        Some(forwarding) => forwarding.await,
        None => std::future::pending().await,
    }
}

async fn opened(opening: &mut Option<JoinHandle<io::Result<File>>>) -> Option<File> {
    match opening {
        Some(opening) => opening.await.ok()?.ok(),
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
