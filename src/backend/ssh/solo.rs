//! One connection as a backend of its own: what an examination runs its checks on.
//!
//! Invariant: it never connects again and never logs in a second time; when it goes its connection ends.

use super::attendant::control_start;
use super::conn::{Conn, OpenError};
use super::shell;
use crate::backend::control::Control;
use crate::backend::{About, Ask, Backend, BackendError, ErrorKind, Family, Link, Members, Reached, Shell, Start};
use crate::model::{BackendKind, Capabilities};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

/// A backend of one connection.
pub(super) struct Solo {
    about: About,
    conn: Arc<Conn>,
    /// Whether there is room for a control shell beside other shells.
    roomy: bool,
    control: Mutex<Option<Control>>,
    /// Kept, or the receivers in [`About`] would see the link's end.
    _link: watch::Sender<Link>,
}

impl Solo {
    /// Takes a connection over on which so many sessions may be open at a time.
    pub(super) fn new(conn: Arc<Conn>, sessions: usize, capabilities: Capabilities) -> Self {
        let up = Link { up: true, epoch: 1, last_heard: conn.link.heard.last(), ..Link::default() };
        let (sender, link) = watch::channel(up);
        let target = conn.target();
        let about = About { name: target.name.clone(), kind: BackendKind::Ssh, address: target.address(), capabilities, link };
        Self { about, conn, roomy: sessions > 2, control: Mutex::default(), _link: sender }
    }

    fn full(&self) -> BackendError {
        BackendError::new(ErrorKind::Busy, format!("{} has no room for one more session on this connection", self.about.address))
            .with_fix("raise MaxSessions in the sshd_config there")
    }

    /// Runs a line that starts a shell, as soon as there is room.
    async fn run(&self, start: &Start) -> Result<(Shell, shell::Ended), BackendError> {
        if start.on.is_some_and(|number| number != self.about.link.borrow().epoch) {
            return Err(BackendError::new(ErrorKind::Lost, "this connection never had another before it"));
        }
        let line = shell::line(start)?;
        let Ok(slot) = timeout(start.timeout, self.conn.slots.take()).await else { return Err(self.full()) };
        let by = Instant::now() + start.timeout;
        let channel = match self.conn.exec(slot, &line, by).await {
            Ok(channel) => channel,
            Err(OpenError::Failed(e)) => return Err(e),
            Err(OpenError::Full(_)) => return Err(self.full()),
        };
        shell::ready(channel, &start.nonce, by.saturating_duration_since(Instant::now()), &self.about.address).await
    }

    async fn control(&self) -> Result<Control, BackendError> {
        let mut control = self.control.lock().await;
        if let Some(control) = control.as_ref().filter(|control| control.lost().is_none()) {
            return Ok(control.clone());
        }
        let start = control_start();
        let (shell, _) = self.run(&start).await?;
        // It is told of nothing that runs, so it has nothing to wait for when its stdin ends.
        Ok(control.insert(Control::new(shell, &start.nonce, 0)).clone())
    }
}

impl Backend for Solo {
    fn about(&self) -> &About {
        &self.about
    }

    fn check(&self) -> BoxFuture<'_, Result<Reached, BackendError>> {
        async { Ok(Reached { round_trip: self.conn.check().await?, fresh: false }) }.boxed()
    }

    fn start(&self, start: Start) -> BoxFuture<'_, Result<Shell, BackendError>> {
        async move { Ok(self.run(&start).await?.0) }.boxed()
    }

    fn family(&self, family: Family, ask: Ask) -> BoxFuture<'_, Result<Members, BackendError>> {
        async move {
            let answer = self.control().await?.family(family, ask).await;
            if !self.roomy {
                // The next shell needs its room; it ends with its stdin.
                *self.control.lock().await = None;
            }
            answer
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            self.conn.shut();
        }
        .boxed()
    }
}
