//! Taking up a changed config.
//!
//! Invariant: a config that cannot be used changes nothing and is told; one that can is in force when it is told.

use super::hub::Hub;
use super::service::Service;
use crate::config::{self, ConfigWatch, Sources};
use crate::model::Level;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Watches the config file.
pub(super) struct Reload<S> {
    hub: Arc<Hub<S>>,
    sources: Sources,
    limit: watch::Sender<Option<Duration>>,
    watch: Option<ConfigWatch>,
}

impl<S: Service> Reload<S> {
    /// Begins to watch the file that the config comes from, also when it is not there yet.
    pub(super) async fn new(hub: Arc<Hub<S>>, sources: Sources, limit: watch::Sender<Option<Duration>>) -> Self {
        let file = sources.file();
        let watch = match file {
            Some(chosen) => tokio::task::spawn_blocking(move || config::watch(&chosen.path)).await.ok(),
            None => None,
        };
        let watch = match watch {
            Some(Ok(watch)) => Some(watch),
            Some(Err(error)) => {
                tracing::warn!(%error, "the config is not watched");
                hub.tell(Level::Notice, error.to_string());
                None
            }
            None => None,
        };
        Self { hub, sources, limit, watch }
    }

    /// Takes up changes for ever. Not cancel safe: a change that is being taken up may be lost.
    pub(super) async fn run(mut self) -> Infallible {
        while let Some(watch) = &mut self.watch {
            match watch.changed().await {
                Some(()) => self.take_up().await,
                None => self.watch = None,
            }
        }
        std::future::pending().await
    }

    async fn take_up(&self) {
        let sources = self.sources.clone();
        let loaded = match tokio::task::spawn_blocking(move || config::load(&sources)).await {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::error!(%error, "the config could not be read again");
                return;
            }
        };
        let config = match loaded {
            Ok(config) => config,
            Err(error) => {
                self.hub.tell(Level::Alert, format!("the changed config is not used, the one before stays in force:\n{error}"));
                return;
            }
        };
        let (client_env, idle_exit, notices) = (config.client_env.clone(), config.idle_exit, config.notices.clone());
        if let Err(error) = self.hub.service.reload(config).await {
            self.hub.tell(Level::Alert, format!("the changed config could not be taken up, the one before stays in force: {error}"));
            return;
        }
        self.hub.set_client_env(client_env);
        self.limit.send_replace(idle_exit);
        for notice in notices {
            self.hub.tell(Level::Notice, notice);
        }
        self.hub.tell(Level::Info, "the changed config is in force".into());
    }
}
