//! What russh calls when something arrives.
//!
//! Invariant: no call waits for long: output goes into spools that take it at once, and a reader that is behind is waited for
//! 2 ms a packet at most, so one channel that nobody reads cannot stop the session. When the session ends, for whatever reason, the link is
//! told as lost.

use super::diary::Step;
use super::known_hosts::{Known, Shown};
use super::link::LinkState;
use super::target::Target;
use super::{host_key, words};
use crate::backend::{BackendError, ErrorKind, Exit};
use russh::client::{DisconnectReason, Handler, Session};
use russh::keys::PublicKeyOrCertificate;
use russh::{ChannelId, ChannelOpenFailure, Sig};
use std::sync::Arc;

/// Why the session ended: its own error or ours.
#[derive(Debug)]
pub(super) enum Ended {
    /// russh's.
    Russh(russh::Error),
    /// The host key was refused.
    Refused(BackendError),
}

impl From<russh::Error> for Ended {
    fn from(e: russh::Error) -> Self {
        Self::Russh(e)
    }
}

/// Receives everything of one connection.
pub(super) struct Events {
    target: Target,
    known: Known,
    link: Arc<LinkState>,
    /// Whether the host key is all that is wanted.
    only_looks: bool,
}

impl Events {
    /// Makes the receiver of one connection; one that `only_looks` ends when the host key was seen.
    pub(super) fn new(target: Target, known: Known, link: Arc<LinkState>, only_looks: bool) -> Self {
        Self { target, known, link, only_looks }
    }
}

impl Events {
    /// Hands output to its channel, and slows the sender down a little when its reader is behind.
    async fn output(&self, channel: ChannelId, stderr: bool, data: &[u8]) {
        if let Some((spool, patience)) = self.link.with(channel, |sink| sink.data(stderr, data)).flatten() {
            spool.pace(data.len(), patience).await;
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // The session is gone; if nobody said why, this is the last chance.
        self.link.lose(BackendError::new(ErrorKind::Lost, format!("the connection to {} ended", self.target.place())));
        self.link.ended.cancel();
    }
}

impl Handler for Events {
    type Error = Ended;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Ended> {
        let shown = Shown::new(shown);
        self.target.desk.saw(&self.known.names().name, shown.clone());
        if self.only_looks {
            return Ok(false);
        }
        self.target.diary.note(Step::Spoke(words::own_name(&self.link.heard.opening())));
        host_key::check(&self.target, &self.known, &shown).await.map_err(Ended::Refused)?;
        Ok(true)
    }

    async fn auth_banner(&mut self, banner: &str, _session: &mut Session) -> Result<(), Ended> {
        self.link.add_banner(banner);
        Ok(())
    }

    async fn channel_open_failure(
        &mut self,
        _channel: ChannelId,
        _reason: ChannelOpenFailure,
        description: &str,
        _language: &str,
        _session: &mut Session,
    ) -> Result<(), Ended> {
        self.link.refused(description);
        Ok(())
    }

    async fn data(&mut self, channel: ChannelId, data: &[u8], _session: &mut Session) -> Result<(), Ended> {
        self.output(channel, false, data).await;
        Ok(())
    }

    async fn extended_data(&mut self, channel: ChannelId, ext: u32, data: &[u8], _session: &mut Session) -> Result<(), Ended> {
        if ext == 1 {
            self.output(channel, true, data).await;
        }
        Ok(())
    }

    async fn channel_success(&mut self, channel: ChannelId, _session: &mut Session) -> Result<(), Ended> {
        self.link.with(channel, |sink| sink.answered(true));
        Ok(())
    }

    async fn channel_failure(&mut self, channel: ChannelId, _session: &mut Session) -> Result<(), Ended> {
        self.link.with(channel, |sink| sink.answered(false));
        Ok(())
    }

    async fn exit_status(&mut self, channel: ChannelId, status: u32, _session: &mut Session) -> Result<(), Ended> {
        // Codes are one byte everywhere; a server that says more is taken at its word as far as a number of ours goes.
        let code = i32::try_from(status).unwrap_or(i32::MAX);
        self.link.with(channel, |sink| sink.exited(Exit::Code(code)));
        Ok(())
    }

    async fn exit_signal(
        &mut self,
        channel: ChannelId,
        signal: Sig,
        _core_dumped: bool,
        _message: &str,
        _language: &str,
        _session: &mut Session,
    ) -> Result<(), Ended> {
        self.link.with(channel, |sink| sink.exited(Exit::Signal(words::signal(&signal))));
        Ok(())
    }

    async fn channel_eof(&mut self, channel: ChannelId, _session: &mut Session) -> Result<(), Ended> {
        self.link.with(channel, |sink| sink.eof());
        Ok(())
    }

    async fn channel_close(&mut self, channel: ChannelId, _session: &mut Session) -> Result<(), Ended> {
        if let Some(sink) = self.link.forget(channel) {
            sink.close();
        }
        Ok(())
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Ended>) -> Result<(), Ended> {
        let why = words::disconnected(&self.target, &self.link, &reason).await;
        self.link.lose(why);
        match reason {
            DisconnectReason::ReceivedDisconnect(_) => Ok(()),
            DisconnectReason::Error(e) => Err(e),
        }
    }
}
