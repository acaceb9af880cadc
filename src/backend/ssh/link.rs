//! The state of one connection that its session, its channels and the backend share.
//!
//! Invariant: a link is lost once, with one reason, and from then on every channel and every waiter knows it.

use super::sink::Sink;
use super::stream::Heard;
use super::way::Carrier;
use crate::backend::BackendError;
use russh::ChannelId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio_util::sync::CancellationToken;

/// Longest text kept of what the server says before the login.
const BANNER: usize = 4 << 10;

/// What is shared.
pub(super) struct LinkState {
    /// Cancelled when the link is lost.
    pub(super) closed: CancellationToken,
    /// Cancelled to make the stream fail, which ends the session.
    pub(super) cut: CancellationToken,
    /// Cancelled when the session's task has ended.
    pub(super) ended: CancellationToken,
    /// What was heard when.
    pub(super) heard: Arc<Heard>,
    /// What carries it; not known before there is a stream.
    carrier: OnceLock<Carrier>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    lost: Option<BackendError>,
    sinks: HashMap<ChannelId, Arc<Sink>>,
    banner: String,
    refusal: String,
}

impl LinkState {
    /// Makes the state of a new connection.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            closed: CancellationToken::new(),
            cut: CancellationToken::new(),
            ended: CancellationToken::new(),
            heard: Arc::default(),
            carrier: OnceLock::new(),
            inner: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why it was lost, if it was.
    pub(super) fn lost(&self) -> Option<BackendError> {
        self.lock().lost.clone()
    }

    /// Says that it is lost. The first reason stays; every channel learns of it at once.
    pub(super) fn lose(&self, why: BackendError) {
        let sinks = {
            let mut inner = self.lock();
            if inner.lost.is_some() {
                return;
            }
            inner.lost = Some(why.clone());
            std::mem::take(&mut inner.sinks)
        };
        for sink in sinks.values() {
            sink.lose(&why);
        }
        self.closed.cancel();
    }

    /// Takes up a channel. When the link is lost already the channel learns of it.
    pub(super) fn add(&self, channel: ChannelId, sink: Arc<Sink>) {
        let lost = {
            let mut inner = self.lock();
            if inner.lost.is_none() {
                inner.sinks.insert(channel, sink.clone());
            }
            inner.lost.clone()
        };
        if let Some(why) = lost {
            sink.lose(&why);
        }
    }

    /// Forgets a channel.
    pub(super) fn forget(&self, channel: ChannelId) -> Option<Arc<Sink>> {
        self.lock().sinks.remove(&channel)
    }

    /// How many channels are open.
    #[cfg(test)]
    pub(super) fn channels(&self) -> usize {
        self.lock().sinks.len()
    }

    /// Does something with a channel's sink, when it is still there.
    pub(super) fn with<T>(&self, channel: ChannelId, act: impl FnOnce(&Sink) -> T) -> Option<T> {
        let sink = self.lock().sinks.get(&channel).cloned();
        sink.map(|sink| act(&sink))
    }

    /// Says what carries it.
    pub(super) fn carry(&self, carrier: Carrier) {
        // There is one stream to a link.
        self.carrier.get_or_init(|| carrier);
    }

    /// Why what carries it broke, if that is what happened.
    pub(super) async fn carrier_broke(&self) -> Option<String> {
        self.carrier.get()?.broke().await
    }

    /// What the carrier has said so far, if it can say anything.
    pub(super) fn carrier_says(&self) -> Option<String> {
        self.carrier.get()?.says()
    }

    /// Keeps what the server said when it last refused to open a channel.
    pub(super) fn refused(&self, text: &str) {
        self.lock().refusal = text.chars().filter(|c| !c.is_control()).take(BANNER / 4).collect();
    }

    /// What the server said when it last refused to open a channel.
    pub(super) fn refusal(&self) -> String {
        self.lock().refusal.clone()
    }

    /// Keeps what the server says before the login.
    pub(super) fn add_banner(&self, text: &str) {
        let mut inner = self.lock();
        let room = BANNER.saturating_sub(inner.banner.len());
        let kept: String = text.chars().take(room / 4 + 1).collect();
        inner.banner.push_str(&kept);
    }

    /// What the server said before the login.
    pub(super) fn banner(&self) -> String {
        self.lock().banner.trim().to_owned()
    }
}
