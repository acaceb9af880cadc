//! Places whose shells are started through something else: a program (`kubectl exec -i`), an engine's API.
//!
//! Invariant: the connection of such a place is its control shell. While that answers the link is up, and what happens to one
//! shell's way says nothing of another's; when it is gone and no new one comes up, every shell there is lost.

mod care;
mod link;
#[cfg(test)]
mod tests;

use super::control::LINGER;
use super::local::program;
use super::ready::{self, NotReady};
use super::{About, Ask, Backend, BackendError, Environment, ErrorKind, Exit, Family, Members, Reached, Ready, Shell, ShellChoice, Start};
use crate::config::{BackendSettings, OnLost};
use crate::model::{BackendKind, Capabilities};
use crate::shell::start::{Pick, stdin_line};
use care::Care;
use futures::FutureExt;
use futures::future::BoxFuture;
use link::Connector;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How a shell's process is had on a place of one kind.
pub(super) trait Way: Send + Sync + 'static {
    /// Makes the place ready, where that is for us to do (an instance that must run). Called once for each connection, before
    /// its control shell is started. Cancel safe.
    fn prepare(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        futures::future::ready(Ok(())).boxed()
    }

    /// Starts `sh` there with three streams of its own. It runs nothing before it is sent something; dropped, it ends. `login`: with
    /// the environment that the place gives at a login. Cancel safe.
    fn open(&self, login: bool) -> BoxFuture<'_, Result<Opened, BackendError>>;

    /// Says what is wrong where `sh` ended, with a code and its last words, before our shell was ready. None: nothing that
    /// this kind knows.
    fn explain(&self, _code: i32, _said: &str) -> Option<BackendError> {
        None
    }

    /// Where it is, for a person.
    fn address(&self) -> String;
}

/// A process that was started there.
pub(super) struct Opened {
    pub(super) stdin: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) stdout: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) stderr: Box<dyn AsyncRead + Send + Unpin>,
    /// How it ended, as far as the way can tell.
    pub(super) exit: BoxFuture<'static, Exit>,
    /// Lets go of it here: its streams end. Called when the link is lost, or when it did not come up.
    pub(super) cut: Box<dyn FnOnce() + Send>,
}

/// A place of one kind.
pub(super) struct Tended<W: Way> {
    about: About,
    connector: Arc<Connector<W>>,
    address: String,
}

impl<W: Way> Tended<W> {
    /// Makes the backend. Does not connect.
    pub(super) fn new(settings: &BackendSettings, kind: BackendKind, capabilities: Capabilities, way: W) -> Self {
        Self::with_linger(settings, kind, capabilities, way, LINGER)
    }

    /// The same with another time until what runs there in the foreground is ended after the link broke, in seconds.
    pub(super) fn with_linger(settings: &BackendSettings, kind: BackendKind, capabilities: Capabilities, way: W, linger: u32) -> Self {
        let address = way.address();
        let connector = Connector::new(way, settings.on_lost == OnLost::Keep, linger, settings.connect_timeout);
        let about = About { name: settings.name.clone(), kind, address: address.clone(), capabilities, link: connector.watch() };
        Self { about, connector, address }
    }

    async fn begin(&self, start: &Start) -> Result<Shell, BackendError> {
        if let Some(number) = start.on {
            let care = self.connector.present(number)?;
            return self.begin_on(&care, start).await;
        }
        let (care, fresh) = self.connector.care().await?;
        match self.begin_on(&care, start).await {
            // Nobody had noticed that the place was gone. A shell without a script has run nothing, so it can be started anew.
            Err(e) if !fresh && e.kind != ErrorKind::TimedOut && care.is_gone().await => {
                tracing::debug!("{} is connected again: {e}", self.address);
                let (care, _) = self.connector.care().await?;
                self.begin_on(&care, start).await
            }
            done => done,
        }
    }

    async fn begin_on(&self, care: &Arc<Care<W>>, start: &Start) -> Result<Shell, BackendError> {
        let (shell, cut) = open(care.way(), start, &self.address).await?;
        // Files that are written there from here would not be found, or not be readable by the account there.
        if self.about.capabilities.same_files && !program::shares_files(shell.ready.pid) {
            cut();
            let text = format!("the shell on {} is another account's or has other files than this machine", self.address);
            return Err(BackendError::new(ErrorKind::Config, text).with_fix("set `same_files: false`"));
        }
        Ok(care.watch(shell, cut))
    }
}

impl<W: Way> Backend for Tended<W> {
    fn about(&self) -> &About {
        &self.about
    }

    fn check(&self) -> BoxFuture<'_, Result<Reached, BackendError>> {
        async move {
            let (care, fresh) = self.connector.care().await?;
            let round_trip = care.ping().await?;
            self.connector.heard();
            Ok(Reached { round_trip, fresh })
        }
        .boxed()
    }

    fn start(&self, start: Start) -> BoxFuture<'_, Result<Shell, BackendError>> {
        async move { self.begin(&start).await }.boxed()
    }

    fn family(&self, family: Family, ask: Ask) -> BoxFuture<'_, Result<Members, BackendError>> {
        async move {
            let (care, _) = self.connector.care().await?;
            care.family(family, ask).await
        }
        .boxed()
    }

    fn is_secondhand(&self) -> bool {
        true
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move { self.connector.close() }.boxed()
    }
}

/// What ends a shell's way from here.
type Cut = Box<dyn FnOnce() + Send>;

/// Lets go of what did not come up.
struct Unborn(Option<Cut>);

impl Drop for Unborn {
    fn drop(&mut self) {
        if let Some(cut) = self.0.take() {
            cut();
        }
    }
}

/// Starts a shell there and waits until it is ready. Cancel safe: one that comes up for nobody is let go of.
async fn open<W: Way>(way: &W, start: &Start, address: &str) -> Result<(Shell, Cut), BackendError> {
    let by = tokio::time::Instant::now() + start.timeout;
    let late = |limit: Duration| {
        BackendError::new(ErrorKind::TimedOut, format!("no shell was started on {address} within {:.2} s", limit.as_secs_f32()))
            .with_fix("give it more time with `connect_timeout`, or see what holds it up there")
    };
    let opened = tokio::time::timeout_at(by, way.open(start.environment == Environment::Login)).await;
    let Opened { mut stdin, mut stdout, mut stderr, mut exit, cut } = opened.unwrap_or_else(|_| Err(late(start.timeout)))?;
    let mut unborn = Unborn(Some(cut));
    let pick = match start.shell {
        ShellChoice::Auto => Pick::Auto,
        ShellChoice::Bash => Pick::Bash,
        ShellChoice::Sh => Pick::Sh,
    };
    let line = stdin_line(&start.nonce, pick, start.environment == Environment::Empty);
    // A failure shows in what the process says at its end.
    let sent = async {
        let _ = stdin.write_all(line.as_bytes()).await;
        let _ = stdin.flush().await;
    };
    let left = by.saturating_duration_since(tokio::time::Instant::now());
    let (came, ()) = tokio::join!(ready::wait(&start.nonce, left, &mut stdout, &mut stderr, &mut exit), sent);
    let came = came.map_err(|why| not_ready(way, why, &start.nonce, address))?;
    let ready =
        Ready { pid: came.line.pid, boot_id: came.line.boot_id, kind: came.line.kind, version: came.line.version, start_time: None };
    let stderr: Box<dyn AsyncRead + Send + Unpin> =
        if came.early.is_empty() { stderr } else { Box::new(Cursor::new(came.early).chain(stderr)) };
    let shell = Shell { ready, noise: came.noise, stdin, stdout, stderr, exit, held_up: None };
    Ok((shell, unborn.0.take().unwrap_or_else(|| Box::new(|| {}))))
}

/// Says why there is no shell.
fn not_ready<W: Way>(way: &W, why: NotReady, nonce: &str, address: &str) -> BackendError {
    let (NotReady::TimedOut { noise, .. } | NotReady::Ended { noise, .. }) = &why;
    let said = String::from_utf8_lossy(noise);
    // READY comes on stderr; in the noise it is only where the two streams became one.
    if said.contains(&format!("R {nonce} ")) && !said.contains("@NONCE@") {
        return BackendError::new(ErrorKind::Config, format!("the shell on {address} has one stream for stdout and stderr: a terminal?"))
            .with_fix("start it without a terminal: leave out -t (and --tty) in its command");
    }
    if let NotReady::Ended { exit: Exit::Code(code), .. } = &why
        && let Some(known) = way.explain(*code, &said)
    {
        return known;
    }
    why.into_error(address)
}
