//! The connection to the daemon: made, watched, made again.
//!
//! Invariant: one task owns it; the state hears of every change in order. A daemon that said it was ending is not started anew
//! until the person asks.

use super::state::apply::Msg;
use crate::client::{Client, ClientError, Connect, Item, Items, Stdin};
use crate::model::{Chunk, Event, ExecResult, LogRead, Millis, Overview, ProcessInfo};
use crate::protocol::calls::{self, ExecCall};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// What the TUI asks of a daemon; a fake one in tests.
pub(super) trait Daemon: Clone + Send + Sync + 'static {
    /// A running command.
    type Run: Run;
    fn overview(&self) -> impl Future<Output = Result<Overview, ClientError>> + Send;
    fn watch(&self) -> impl Future<Output = Result<mpsc::Receiver<Event>, ClientError>> + Send;
    fn read(&self, read: LogRead) -> impl Future<Output = Result<Chunk, ClientError>> + Send;
    fn exec(&self, call: ExecCall) -> impl Future<Output = Result<Self::Run, ClientError>> + Send;
    fn kill(&self, call: calls::Kill) -> impl Future<Output = Result<Vec<calls::Killed>, ClientError>> + Send;
    fn connect(&self, backend: String) -> impl Future<Output = Result<(), ClientError>> + Send;
    fn answer(&self, call: calls::AnswerCall) -> impl Future<Output = Result<(), ClientError>> + Send;
    fn send(&self, call: calls::SendCall) -> impl Future<Output = Result<calls::Sent, ClientError>> + Send;
    fn adopt(&self, call: calls::AdoptCall) -> impl Future<Output = Result<ProcessInfo, ClientError>> + Send;
    fn find(&self, call: calls::FindCall) -> impl Future<Output = Result<calls::Found, ClientError>> + Send;
    fn recheck(&self, call: calls::Recheck) -> impl Future<Output = Result<ProcessInfo, ClientError>> + Send;
    fn complete(&self, call: calls::Complete) -> impl Future<Output = Result<Vec<String>, ClientError>> + Send;
}

/// What a running command says next.
pub(super) enum Said {
    Started(Box<ProcessInfo>),
    Ended(Box<ExecResult>),
    Other,
}

/// A running command.
pub(super) trait Run: Send + 'static {
    /// Its stdin.
    type Input: Feed;
    fn next(&mut self) -> impl Future<Output = Option<Result<Said, ClientError>>> + Send;
    /// Gives the way to its stdin, once.
    fn take_stdin(&mut self) -> Option<Self::Input>;
}

/// The stdin of a running command.
pub(super) trait Feed: Send + 'static {
    /// Sends bytes; waits while the command does not read.
    fn send(&mut self, bytes: Vec<u8>) -> impl Future<Output = Result<(), ClientError>> + Send;
    /// Ends it.
    fn end(&mut self);
}

/// Makes connections.
pub(super) trait Dial: Send + Sync + 'static {
    type Daemon: Daemon;
    /// Connects; starts a daemon when there is none and `start` says so.
    fn dial(&self, start: bool) -> impl Future<Output = Result<Self::Daemon, ClientError>> + Send;
}

impl Dial for Connect {
    type Daemon = Client;

    async fn dial(&self, start: bool) -> Result<Client, ClientError> {
        Client::connect(&Connect { start: self.start && start, ..self.clone() }).await
    }
}

impl Daemon for Client {
    type Run = Items;

    async fn overview(&self) -> Result<Overview, ClientError> {
        self.call(calls::OverviewCall {}).await
    }

    async fn watch(&self) -> Result<mpsc::Receiver<Event>, ClientError> {
        Client::watch(self).await
    }

    async fn read(&self, read: LogRead) -> Result<Chunk, ClientError> {
        Client::read(self, read).await
    }

    async fn exec(&self, call: ExecCall) -> Result<Items, ClientError> {
        Client::exec(self, call).await
    }

    async fn kill(&self, call: calls::Kill) -> Result<Vec<calls::Killed>, ClientError> {
        self.call(call).await
    }

    async fn connect(&self, backend: String) -> Result<(), ClientError> {
        self.call(calls::Connect { backend }).await.map(|_| ())
    }

    async fn answer(&self, call: calls::AnswerCall) -> Result<(), ClientError> {
        self.call(call).await
    }

    async fn send(&self, call: calls::SendCall) -> Result<calls::Sent, ClientError> {
        self.call(call).await
    }

    async fn adopt(&self, call: calls::AdoptCall) -> Result<ProcessInfo, ClientError> {
        self.call(call).await
    }

    async fn find(&self, call: calls::FindCall) -> Result<calls::Found, ClientError> {
        self.call(call).await
    }

    async fn recheck(&self, call: calls::Recheck) -> Result<ProcessInfo, ClientError> {
        self.call(call).await
    }

    async fn complete(&self, call: calls::Complete) -> Result<Vec<String>, ClientError> {
        self.call(call).await
    }
}

impl Run for Items {
    type Input = Stdin;

    async fn next(&mut self) -> Option<Result<Said, ClientError>> {
        Some(match Items::next(self).await? {
            Ok(Item::Started(info)) => Ok(Said::Started(info)),
            Ok(Item::Result(result)) => Ok(Said::Ended(result)),
            Ok(Item::Data { .. } | Item::File(_) | Item::Kept(_) | Item::Followed(_)) => Ok(Said::Other),
            Err(e) => Err(e),
        })
    }

    fn take_stdin(&mut self) -> Option<Stdin> {
        Items::take_stdin(self)
    }
}

impl Feed for Stdin {
    async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ClientError> {
        Stdin::send(self, bytes).await
    }

    fn end(&mut self) {
        Stdin::end(self);
    }
}

/// What the tasks tell the loop.
pub(super) enum Report<D: Daemon> {
    /// A connection is made; what was asked of earlier ones is void.
    Connected { epoch: u64, daemon: D, overview: Box<Overview> },
    /// The config was read again by the daemon.
    Config,
    /// The first connection could not be made.
    Failed(ClientError),
    /// The commands of a run's stdin go here.
    Run { process: String, stdin: mpsc::Sender<super::hands::Typed> },
    /// For the state.
    Msg(Msg),
}

/// Gives the wait before an attempt, the first being 1.
pub(super) fn back_off(attempt: u32) -> Duration {
    Duration::from_millis(250 << attempt.saturating_sub(1).min(5)).min(Duration::from_secs(5))
}

/// Gives the time now.
pub(super) fn wall_clock() -> Millis {
    jiff::Timestamp::now().as_millisecond()
}

/// Keeps a connection until the loop goes away.
pub(super) async fn keep<L: Dial>(dial: L, redial: Arc<Notify>, tell: mpsc::Sender<Report<L::Daemon>>) {
    let mut epoch = 0;
    let mut start = true;
    let mut attempt = 0;
    loop {
        let reason = match session(&dial, start, epoch + 1, &tell).await {
            Ok(ended) => {
                epoch += 1;
                attempt = 0;
                start = !ended.stopped;
                ended.reason
            }
            Err(e) if epoch == 0 => {
                tell.send(Report::Failed(e)).await.ok();
                return;
            }
            Err(e) => e.to_string(),
        };
        attempt += 1;
        let wait = back_off(attempt);
        let next_try = Some(wall_clock() + wait.as_millis() as Millis);
        if tell.send(Report::Msg(Msg::Lost { reason, next_try, stopped: !start })).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = redial.notified() => start = true,
            () = tell.closed() => return,
        }
        if tell.send(Report::Msg(Msg::Dialing)).await.is_err() {
            return;
        }
    }
}

/// How a connection ended.
struct Ended {
    reason: String,
    stopped: bool,
}

/// One connection from its beginning to its end. An error means that it was never made.
async fn session<L: Dial>(dial: &L, start: bool, epoch: u64, tell: &mpsc::Sender<Report<L::Daemon>>) -> Result<Ended, ClientError> {
    let daemon = dial.dial(start).await?;
    // Watching first: what changes after the overview is in the events.
    let mut events = daemon.watch().await?;
    let overview = Box::new(daemon.overview().await?);
    let gone = |reason: &str| Ended { reason: reason.to_owned(), stopped: false };
    if tell.send(Report::Connected { epoch, daemon: daemon.clone(), overview }).await.is_err() {
        return Ok(gone("left"));
    }
    let mut stopped = false;
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = tell.closed() => return Ok(gone("left")),
        };
        let Some(event) = event else {
            let reason = if stopped { "it was stopped" } else { "the connection ended" };
            return Ok(Ended { reason: reason.to_owned(), stopped });
        };
        stopped |= event == Event::Stopping;
        let anew = matches!(event, Event::Config | Event::Lagged);
        if event == Event::Config && tell.send(Report::Config).await.is_err() {
            return Ok(gone("left"));
        }
        let msg = if anew {
            match daemon.overview().await {
                Ok(overview) => Msg::Overview(Box::new(overview)),
                Err(e) => return Ok(gone(&e.to_string())),
            }
        } else {
            Msg::Event(event)
        };
        if tell.send(Report::Msg(msg)).await.is_err() {
            return Ok(gone("left"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_grows_and_stays_within_its_bounds() {
        let waits: Vec<u128> = (1..=8).map(|n| back_off(n).as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 5000, 5000, 5000]);
        assert_eq!(back_off(u32::MAX), Duration::from_secs(5));
    }
}
