//! One ssh connection: how it is made, how channels are opened on it, how it ends.
//!
//! Invariant: russh's channels are used here and in `channel` only. An attempt that is given up, at whatever point, leaves no
//! task and no socket; a connection that nobody holds any more ends.

use super::channel::Channel;
use super::handler::Events;
use super::known_hosts::Known;
use super::link::LinkState;
use super::sink::Sink;
use super::slots::{Slot, Slots};
use super::stream::KillableStream;
use super::target::{Target, Via};
use super::way::{self, Hop};
use super::{auth, host_key, words};
use crate::backend::{BackendError, ErrorKind};
use futures::FutureExt;
use futures::future::BoxFuture;
use russh::client::{Config, Handle, Msg, connect_stream};
use russh::{ChannelOpenFailure, Disconnect, Limits, Preferred, SshId, cipher, compression};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// Window of a channel. Half of it is what one round trip can carry.
const WINDOW: u32 = 2 << 20;
/// Longest wait for the answer to a check: a little less than its caller waits, so that what is found out is known here too.
const CHECK: Duration = Duration::from_millis(2500);
/// Shortest time for a machine behind others, however long those took.
const LEAST: Duration = Duration::from_secs(1);
/// Bytes within about a third of a second from which on a connection counts as flooded: 3 to 4 Mbit/s.
const FLOOD: u64 = 128 << 10;
/// How long the farewell may take.
const FAREWELL: Duration = Duration::from_millis(200);

/// A connection that is logged in.
pub(super) struct Conn {
    handle: Arc<Handle<Events>>,
    /// What its session and its channels share with it.
    pub(super) link: Arc<LinkState>,
    /// Room for commands.
    pub(super) slots: Arc<Slots>,
    /// Whether logging in asked nobody anything.
    pub(super) quiet: bool,
    /// What the handshakes took, those of the machines before it included.
    took: Duration,
    target: Target,
    runtime: tokio::runtime::Handle,
    /// Cancelled when not even one command has room beside the control shell.
    pub(super) crowded: CancellationToken,
    /// Whether the last check went unanswered.
    silent: AtomicBool,
}

/// Why a channel could not be opened.
pub(super) enum OpenError {
    /// The server has no room; nothing was started. Gives back the slot.
    Full(Option<Slot>),
    /// Anything else.
    Failed(BackendError),
}

/// Connects and logs in, and before that at every machine on the way. The limit is for the handshakes of all of them. Cancel
/// safe: nothing is left behind.
pub(super) async fn connect(target: &Target) -> Result<Arc<Conn>, BackendError> {
    within(target, target.connect_timeout).await
}

fn within(target: &Target, limit: Duration) -> BoxFuture<'_, Result<Arc<Conn>, BackendError>> {
    async move {
        let before = match &target.via {
            Via::Jump(hop) => Some(Hop(within(hop, limit.min(hop.connect_timeout)).await?)),
            _ => None,
        };
        // What a command does is not known: it may ask somebody.
        let alone = !matches!(target.via, Via::Command(_));
        let (quiet, took) = before.as_ref().map_or((alone, Duration::ZERO), |hop| (hop.0.quiet, hop.0.took));
        let limit = limit.saturating_sub(took).max(LEAST.min(limit));
        let mut conn = one(target, before, limit).await?;
        conn.quiet &= quiet;
        conn.took += took;
        Ok(Arc::new(conn))
    }
    .boxed()
}

/// Connects to one machine and logs in.
async fn one(target: &Target, before: Option<Hop>, limit: Duration) -> Result<Conn, BackendError> {
    let link = LinkState::new();
    // The session is a task of its own that goes on when its maker is dropped; cutting the stream ends it.
    let cut = link.cut.clone().drop_guard();
    let (started, asked) = (Instant::now(), target.desk.person.spent());
    let mut handle = shake(target, &link, before, limit, false).await.map_err(|e| target.on_the_way(e))?;
    let took = started.elapsed().saturating_sub(target.desk.person.spent().saturating_sub(asked));
    let quiet = auth::login(&mut handle, target, &link).await.map_err(|e| target.on_the_way(e))?;
    // From here on `Conn` cuts it.
    cut.disarm();
    Ok(Conn {
        handle: Arc::new(handle),
        link,
        slots: Slots::new(),
        quiet,
        took,
        target: target.clone(),
        runtime: tokio::runtime::Handle::current(),
        crowded: CancellationToken::new(),
        silent: AtomicBool::new(false),
    })
}

/// Connects as far as the host key, which the desk then knows, and goes no further; machines on the way are logged in at. Cancel
/// safe: nothing is left behind.
pub(super) async fn look(target: &Target) -> Result<(), BackendError> {
    let link = LinkState::new();
    let _cut = link.cut.clone().drop_guard();
    let before = match &target.via {
        Via::Jump(hop) => Some(Hop(connect(hop).await?)),
        _ => None,
    };
    let sights = target.desk.sights();
    let shaken = shake(target, &link, before, target.connect_timeout, true).await.map(|_| ());
    // That it was not accepted is what ends the handshake.
    if target.desk.sights() > sights { Ok(()) } else { shaken }
}

/// Connects up to the end of the key exchange, within the limit; what a person takes to look at the host key does not count.
async fn shake(
    target: &Target,
    link: &Arc<LinkState>,
    before: Option<Hop>,
    limit: Duration,
    only_looks: bool,
) -> Result<Handle<Events>, BackendError> {
    let work = async {
        let known = host_key::load(target).await?;
        let config = Arc::new(Config {
            keepalive_interval: target.alive.map(|(interval, _)| interval),
            keepalive_max: target.alive.map_or(0, |(_, count)| count),
            ..config(&known)
        });
        let (stream, carrier) = way::open(target, before).await?;
        link.carry(carrier);
        let stream = KillableStream::new(stream, link.cut.clone(), link.heard.clone());
        let events = Events::new(target.clone(), known, link.clone(), only_looks);
        match connect_stream(config, stream, events).await {
            Ok(handle) => Ok(handle),
            Err(ended) => Err(words::handshake(target, link, ended).await),
        }
    };
    target.desk.person.within(limit, work).await.unwrap_or_else(|| Err(too_late(target, link, limit)))
}

fn too_late(target: &Target, link: &LinkState, limit: Duration) -> BackendError {
    let (at, secs) = (target.place(), (limit.as_secs_f32() * 10.0).round() / 10.0);
    let at = format!("{at}{}", target.through());
    let (text, fix) = if link.heard.last().is_none() {
        (format!("no answer from {at} within {secs} s"), "check that the machine is up and that no firewall or missing VPN is in between")
    } else {
        (format!("{at} answered, but the handshake did not end within {secs} s"), "the machine may be overloaded; try again")
    };
    let says = link.carrier_says().map(|says| format!("; the command says: {says}")).unwrap_or_default();
    BackendError::new(ErrorKind::TimedOut, text + &says).with_fix(fix)
}

/// The settings of every connection.
pub(super) fn config(known: &Known) -> Config {
    const NEVER: Duration = Duration::from_secs(366 * 24 * 3600);
    Config {
        client_id: SshId::Standard(Cow::Borrowed(concat!("SSH-2.0-quarterdeck_", env!("CARGO_PKG_VERSION")))),
        // The server renews the keys. When the client does it while several channels are busy, russh ends the session.
        limits: Limits { rekey_write_limit: usize::MAX / 2, rekey_read_limit: usize::MAX / 2, rekey_time_limit: NEVER },
        window_size: WINDOW,
        preferred: Preferred {
            key: Cow::Owned(known.order(&Preferred::DEFAULT.key)),
            host_key_certificates: Cow::Owned(known.certificates(&Preferred::DEFAULT.key)),
            cipher: Cow::Borrowed(&[
                cipher::AES_128_GCM,
                cipher::AES_256_GCM,
                cipher::CHACHA20_POLY1305,
                cipher::AES_256_CTR,
                cipher::AES_192_CTR,
                cipher::AES_128_CTR,
            ]),
            compression: Cow::Borrowed(&[compression::NONE]),
            ..Preferred::DEFAULT
        },
        // The dialer has done it already.
        nodelay: true,
        ..Config::default()
    }
}

impl Conn {
    /// Where it leads.
    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// One round trip. Gives up after 2.5 s without harm to the connection. When other bytes arrive meanwhile the link is slow,
    /// not silent, and the wait itself is the answer.
    pub(super) async fn check(&self) -> Result<Duration, BackendError> {
        let started = Instant::now();
        let answered = tokio::select! {
            () = self.link.closed.cancelled() => false,
            answer = timeout(CHECK, self.handle.send_ping()) => answer.is_ok(),
        };
        // russh also says that all is well when the session ended during the wait.
        if let Some(why) = self.link.lost() {
            return Err(why);
        }
        if answered && !self.handle.is_closed() {
            self.silent.store(false, Ordering::Relaxed);
            return Ok(started.elapsed());
        }
        if self.link.heard.last().is_some_and(|at| at > started) {
            return Ok(started.elapsed());
        }
        self.silent.store(true, Ordering::Relaxed);
        Err(self.silence())
    }

    /// Whether so much arrives that everything else on it waits.
    pub(super) fn is_flooded(&self) -> bool {
        self.link.heard.recent() >= FLOOD
    }

    fn silence(&self) -> BackendError {
        let secs = self.link.heard.last().map_or(0, |at| at.elapsed().as_secs());
        BackendError::new(ErrorKind::TimedOut, format!("no answer from {} for {secs} s", self.target.place()))
    }

    /// Ends the connection. Everything that is open on it is lost at once, whether the other side still listens or not. Gives
    /// the reason when it had fallen silent.
    pub(super) fn shut(&self) -> Option<BackendError> {
        let silent = self.silent.load(Ordering::Relaxed).then(|| BackendError { kind: ErrorKind::Lost, ..self.silence() });
        let closed = || BackendError::new(ErrorKind::Lost, format!("the connection to {} was closed", self.target.place()));
        self.link.lose(silent.clone().unwrap_or_else(closed));
        let (handle, link) = (self.handle.clone(), self.link.clone());
        self.runtime.spawn(async move {
            let bye = async {
                // The session ends by itself once the farewell is out. One that is dead already has nothing to say.
                if handle.disconnect(Disconnect::ByApplication, "", "en").await.is_ok() {
                    link.ended.cancelled().await;
                }
            };
            if timeout(FAREWELL, bye).await.is_err() {
                tracing::debug!("the farewell did not get through");
            }
            link.cut.cancel();
        });
        silent
    }

    /// Runs a command on a channel of its own, trying until `by` while the server refuses. Says that it is full when others
    /// use all the room there is. Cancel safe: a channel that comes up for nobody is closed.
    pub(super) async fn exec(self: &Arc<Self>, slot: Slot, command: &str, by: Instant) -> Result<Channel, OpenError> {
        let mut kept = Some(slot);
        for refusals in 1u32.. {
            let opened = timeout_at(by.into(), self.exec_in(kept.take(), command)).await;
            match opened.unwrap_or_else(|_| Err(OpenError::Failed(self.silence()))) {
                Err(OpenError::Full(slot)) => kept = slot,
                done => return done,
            }
            // A server frees a slot some time after the close, so the first refusal means little.
            if refusals > 1 {
                self.slots.shrink();
                if self.slots.open() == 0 {
                    // No other command is in the way, so what is left is the control shell, or a slot that is freed late.
                    self.crowded.cancel();
                }
                if self.slots.used() > self.slots.limit() {
                    break;
                }
            }
            let pause = Duration::from_millis(10 << refusals.min(5));
            if Instant::now() + pause >= by {
                break;
            }
            sleep(pause).await;
        }
        Err(OpenError::Full(None))
    }

    /// Opens a channel and asks for a command to be run on it, once. Cancel safe, as `exec` is.
    pub(super) async fn exec_in(self: &Arc<Self>, slot: Option<Slot>, command: &str) -> Result<Channel, OpenError> {
        let (conn, command) = (self.clone(), command.to_owned());
        // In a task of its own: a channel whose opening is given up half-way would stay open for ever.
        let opening = tokio::spawn(async move { conn.open(slot, &command).await });
        opening.await.unwrap_or_else(|e| Err(OpenError::Failed(BackendError::new(ErrorKind::Internal, format!("opening a channel: {e}")))))
    }

    async fn open(&self, slot: Option<Slot>, command: &str) -> Result<Channel, OpenError> {
        let channel = self.open_bare(slot).await?;
        let asked = match channel.set_env(&self.target.set_env).await {
            Ok(()) => channel.request(command).await,
            Err(e) => Err(e),
        };
        match asked {
            Ok(()) => Ok(channel),
            Err(e) => Err(OpenError::Failed(self.broken(&e))),
        }
    }

    /// Counts how many channels the server lets be open at a time, up to `most`: nothing is run on them, and all are closed
    /// again. Cancel safe.
    pub(super) async fn count_room(self: &Arc<Self>, most: usize) -> Result<usize, BackendError> {
        let conn = self.clone();
        let counting = tokio::spawn(async move {
            let mut open = Vec::new();
            while open.len() < most {
                match conn.open_bare(None).await {
                    Ok(channel) => open.push(channel),
                    Err(OpenError::Full(_)) => break,
                    Err(OpenError::Failed(e)) => return Err(e),
                }
            }
            Ok(open.len())
        });
        counting.await.unwrap_or_else(|e| Err(BackendError::new(ErrorKind::Internal, format!("counting channels: {e}"))))
    }

    /// Opens a channel on which nothing runs yet.
    async fn open_bare(&self, mut slot: Option<Slot>) -> Result<Channel, OpenError> {
        use ChannelOpenFailure::{ConnectFailed, ResourceShortage};
        let opened = tokio::select! {
            () = self.link.closed.cancelled() => Err(russh::Error::Disconnect),
            opened = self.handle.channel_open_session() => opened,
        };
        let channel = match opened {
            Ok(channel) => channel,
            Err(russh::Error::ChannelOpenFailure(ConnectFailed | ResourceShortage)) => return Err(OpenError::Full(slot)),
            Err(russh::Error::ChannelOpenFailure(reason)) => {
                return Err(OpenError::Failed(
                    BackendError::new(ErrorKind::NoShell, format!("{} lets nothing be run: {reason:?}", self.target.place()))
                        .with_fix("this account may be for forwarding only"),
                ));
            }
            Err(other) => return Err(OpenError::Failed(self.broken(&other))),
        };
        if let Some(slot) = &mut slot {
            slot.confirmed();
        }
        let sink = Sink::new(&self.runtime, &self.link.closed, slot);
        Ok(Channel::new(channel, sink, self.link.clone(), self.runtime.clone()))
    }

    /// Opens a stream from that machine on to another. Beside it goes one command that does nothing: a server that has only
    /// passed bytes on gathers them for 40 ms each (it turns that off when a session begins).
    pub(super) async fn pass_on(self: &Arc<Self>, host: &str, port: u16) -> Result<russh::ChannelStream<Msg>, BackendError> {
        let awake = async {
            // Where no session is allowed it is slower, and no less right.
            if let Err(OpenError::Failed(e)) = self.exec_in(None, "true").await {
                tracing::debug!(host = self.target.place(), "no session on the jump host: {e}");
            }
        };
        let open = async {
            tokio::select! {
                () = self.link.closed.cancelled() => Err(russh::Error::Disconnect),
                opened = self.handle.channel_open_direct_tcpip(host, u32::from(port), "127.0.0.1", 0) => opened,
            }
        };
        let (opened, ()) = tokio::join!(open, timeout(CHECK, awake).map(|_| ()));
        match opened {
            Ok(channel) => Ok(channel.into_stream()),
            Err(russh::Error::ChannelOpenFailure(reason)) => Err(words::not_passed_on(&self.target, &self.link, host, port, reason)),
            Err(e) => Err(self.target.on_the_way(self.broken(&e))),
        }
    }

    fn broken(&self, e: &russh::Error) -> BackendError {
        let why = || BackendError::new(ErrorKind::Lost, format!("the connection to {} broke: {e}", self.target.place()));
        self.link.lost().unwrap_or_else(why)
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.shut();
    }
}
