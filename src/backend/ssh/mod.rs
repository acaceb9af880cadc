//! ssh machines as backends: russh behind a wrapper of our own.
//!
//! Invariant: russh's types do not leave this folder, and its channels are used in `conn` and `channel` only, because raw ones
//! leak slots, stop the whole session and hang for ever. The tests in `edges` tell each of those bugs.

mod agent;
mod attendant;
mod auth;
mod channel;
mod child;
mod config;
mod conn;
mod desk;
mod dial;
mod diary;
mod examine;
mod handler;
mod host_key;
mod known_hosts;
mod lanes;
mod link;
mod pattern;
mod route;
mod shell;
mod single;
mod sink;
mod slots;
mod solo;
mod spill;
mod spool;
mod stream;
mod target;
mod way;
mod words;

#[cfg(test)]
mod contract;
#[cfg(test)]
mod edges;
#[cfg(test)]
mod examining;
#[cfg(test)]
mod fake_server;
#[cfg(test)]
mod host_keys;
#[cfg(test)]
mod logins;
#[cfg(test)]
mod reaching;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod scripted;

use super::control::LINGER;
use super::local::ClientEnv;
use super::person::Person;
use super::{About, Ask, Backend, BackendError, ErrorKind, Family, HostKeyBook, Members, Reached, Shell, Start};
use crate::config::{BackendSettings, OnLost, SshSettings};
use crate::model::{BackendKind, Capabilities, Finding, HostKeyChange, HostKeys};
use attendant::Habits;
use desk::Desk;
use futures::FutureExt;
use futures::future::BoxFuture;
use route::Route;
use single::{Connected, Connector};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A machine reached over ssh.
pub struct Ssh {
    about: About,
    route: Route,
    connector: Arc<Connector>,
}

impl Ssh {
    /// Makes the backend that the settings describe. Does not connect. `client_env` tells where the ssh agent's
    /// socket is; `person` answers what the login asks.
    pub fn new(settings: &BackendSettings, ssh: &SshSettings, client_env: ClientEnv, person: Arc<Person>) -> Self {
        Self::with_linger(settings, ssh, client_env, person, LINGER)
    }

    /// The same with another time until what runs there in the foreground is ended after the link broke, in seconds.
    fn with_linger(settings: &BackendSettings, ssh: &SshSettings, client_env: ClientEnv, person: Arc<Person>, linger: u32) -> Self {
        let route = Route::new(settings, ssh, client_env).with_desk(Desk::new(person));
        let address = route.address();
        let connector = Connector::new(route.clone(), Habits::new(settings.on_lost == OnLost::Keep, linger));
        let about = About {
            name: settings.name.clone(),
            kind: BackendKind::Ssh,
            address,
            capabilities: Capabilities { pty: false, separate_streams: true, verified_kill: true, same_files: false },
            link: connector.watch(),
        };
        Self { about, route, connector }
    }
}

impl Backend for Ssh {
    fn about(&self) -> &About {
        &self.about
    }

    fn check(&self) -> BoxFuture<'_, Result<Reached, BackendError>> {
        async move {
            let (Connected { conn, .. }, fresh) = self.connector.conn().await?;
            // Asked of a new connection too: making it took many round trips, and the time of a person who was asked.
            let round_trip = conn.check().await?;
            self.connector.heard(&conn);
            Ok(Reached { round_trip, fresh })
        }
        .boxed()
    }

    fn start(&self, start: Start) -> BoxFuture<'_, Result<Shell, BackendError>> {
        async move {
            if let Some(number) = start.on {
                let on = self.connector.present(number)?;
                let (shell, ended) = shell::start(&on.lanes, &start, &on.conn.target().shown()).await?;
                on.attendant.watch(shell.ready.pid, ended);
                return Ok(shell);
            }
            let (mut on, fresh) = self.connector.conn().await?;
            let mut started = shell::start(&on.lanes, &start, &on.conn.target().shown()).await;
            // The connection was dead and nobody had noticed: a shell without a script has run nothing, so it can be started
            // on a new connection.
            if !fresh && matches!(&started, Err(e) if e.kind == ErrorKind::Lost) {
                (on, _) = self.connector.conn().await?;
                started = shell::start(&on.lanes, &start, &on.conn.target().shown()).await;
            }
            let (shell, ended) = started?;
            on.attendant.watch(shell.ready.pid, ended);
            Ok(shell)
        }
        .boxed()
    }

    fn family(&self, family: Family, ask: Ask) -> BoxFuture<'_, Result<Members, BackendError>> {
        async move {
            let (on, _) = self.connector.conn().await?;
            on.attendant.family(family, ask).await
        }
        .boxed()
    }

    fn pressed(&self) -> BoxFuture<'_, ()> {
        self.connector.short.notified().boxed()
    }

    fn host_keys(&self) -> Option<&dyn HostKeyBook> {
        Some(self)
    }

    fn examine<'a>(&'a self, tell: &'a mpsc::Sender<Finding>) -> BoxFuture<'a, Option<Arc<dyn Backend>>> {
        examine::examine(&self.route, self.about.capabilities, tell).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.connector.close();
            self.route.desk().end_trust();
        }
        .boxed()
    }
}

impl HostKeyBook for Ssh {
    fn show(&self, look: bool) -> BoxFuture<'_, Result<HostKeys, BackendError>> {
        async move {
            let target = self.route.target().await?;
            if look {
                conn::look(&target).await?;
            }
            host_key::show(&target).await
        }
        .boxed()
    }

    fn change<'a>(&'a self, change: HostKeyChange, fingerprint: &'a str) -> BoxFuture<'a, Result<HostKeys, BackendError>> {
        async move {
            let target = self.route.target().await?;
            host_key::change(&target, change, fingerprint).await
        }
        .boxed()
    }
}
