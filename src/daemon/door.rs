//! Where clients come in: the socket, published in the lock file, and put back when somebody removes it.
//!
//! Invariant: a daemon that lives can be found: a runtime folder that goes (the last logout, a cleaner of old files) costs a
//! new socket, never the commands that run.

use super::DaemonError;
use super::hello::Peer;
use super::lock::DaemonLock;
use super::socket::Socket;
use crate::config::{self, ConfigWatch};
use crate::paths::{Paths, Vars};
use crate::protocol::launch::LockContent;
use crate::report::chain;
use std::io;
use std::path::PathBuf;
use tokio::net::UnixStream;

/// The way in, open.
pub(super) struct Door {
    socket: Socket,
    lock: DaemonLock,
    paths: Paths,
    /// Where else the folders may be, should the first ones go.
    vars: Vars,
    content: LockContent,
    /// Tells when something happens to the socket's file; none when that cannot be watched.
    watch: Option<ConfigWatch>,
}

/// What happens at the door.
pub(super) enum Knock {
    /// A client.
    Client(UnixStream, Peer),
    /// A client that could not be let in.
    Failed(io::Error),
    /// The socket's file is no longer ours: see [`Door::mend`].
    Lost,
}

impl Door {
    /// Makes the socket and publishes it.
    pub(super) async fn open(lock: DaemonLock, paths: &Paths, vars: Vars, pid: u32, version: &str) -> Result<Self, DaemonError> {
        let path = paths.socket();
        let socket = bind(&path).await?;
        let content = LockContent { pid, socket: path, version: version.into() };
        let mut door = Self { socket, lock, paths: paths.clone(), vars, content, watch: None };
        door.lock.publish(&door.content)?;
        door.watch().await;
        Ok(door)
    }

    /// Gives the socket's path.
    pub(super) fn path(&self) -> PathBuf {
        self.content.socket.clone()
    }

    /// Waits for what comes next. Cancel safe.
    pub(super) async fn next(&mut self) -> Knock {
        let Self { socket, watch, .. } = self;
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, peer)) => Knock::Client(stream, peer),
                Err(error) => Knock::Failed(error),
            },
            () = lost(socket, watch) => Knock::Lost,
        }
    }

    /// Puts the socket back, or makes another where the environment leads by now. When neither can be done the next change
    /// of the folders is waited for.
    pub(super) async fn mend(&mut self) {
        let elsewhere = Paths::resolve(&self.vars).ok().filter(|paths| paths.state == self.paths.state);
        for paths in [Some(self.paths.clone()), elsewhere].into_iter().flatten() {
            match self.move_to(&paths).await {
                Ok(()) => {
                    tracing::warn!(socket = %self.content.socket.display(), "the socket was removed and is there again");
                    return;
                }
                Err(error) => tracing::warn!(error = %chain(&error), "the socket was removed and cannot be put back there"),
            }
        }
    }

    async fn move_to(&mut self, paths: &Paths) -> Result<(), DaemonError> {
        let folders = paths.clone();
        super::run::blocking(move || Ok(folders.ensure()?)).await?;
        let path = paths.socket();
        self.socket = bind(&path).await?;
        self.content.socket = path;
        self.lock.publish(&self.content)?;
        self.watch().await;
        Ok(())
    }

    async fn watch(&mut self) {
        let path = self.path();
        self.watch = match tokio::task::spawn_blocking(move || config::watch(&path)).await {
            Ok(Ok(watch)) => Some(watch),
            Ok(Err(error)) => {
                tracing::warn!(error = %chain(&error), "a removed socket will not be noticed");
                None
            }
            // The runtime is ending.
            Err(_) => None,
        };
    }

    /// Closes it: no client finds the daemon from here on. The lock stays held.
    pub(super) fn close(mut self) -> DaemonLock {
        if let Err(error) = self.lock.clear() {
            tracing::warn!(error = %chain(&error), "the lock file still names the socket");
        }
        self.lock
    }
}

async fn bind(path: &std::path::Path) -> Result<Socket, DaemonError> {
    if path.to_str().is_none() {
        let source = io::Error::other("its path is not UTF-8 text; set QD_RUNTIME_DIR to a folder whose path is");
        return Err(DaemonError::Socket { path: path.display().to_string(), source });
    }
    Socket::bind(path).await
}

/// Waits until the socket's file is no longer ours. Cancel safe.
async fn lost(socket: &Socket, watch: &mut Option<ConfigWatch>) {
    while let Some(changes) = watch {
        match changes.changed().await {
            Some(()) if socket.is_in_place() => {}
            Some(()) => return,
            None => *watch = None,
        }
    }
    std::future::pending().await
}
