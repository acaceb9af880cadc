//! Where clients come in: the socket, published in the lock file, and both put back when somebody removes them.
//!
//! Invariant: a daemon that lives can be found: a runtime folder that goes (the last logout, a cleaner of old files) costs a
//! new socket, a state folder that goes a new lock file, neither the commands that run. One whose place another daemon has
//! taken says so, and takes no lock or socket from that one.

use super::DaemonError;
use super::hello::Peer;
use super::lock::DaemonLock;
use super::socket::Socket;
use crate::config::{self, ConfigWatch};
use crate::paths::{Paths, Vars};
use crate::protocol::launch::LockContent;
use crate::protocol::lock::LockError;
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
    /// Tell when something happens to the socket's file or the lock's; none for what cannot be watched.
    watches: [Option<ConfigWatch>; 2],
}

/// What happens at the door.
pub(super) enum Knock {
    /// A client.
    Client(UnixStream, Peer),
    /// A client that could not be let in.
    Failed(io::Error),
    /// The socket's file or the lock's is no longer ours: see [`Door::mend`].
    Lost,
}

impl Door {
    /// Makes the socket and publishes it.
    pub(super) async fn open(lock: DaemonLock, paths: &Paths, vars: Vars, pid: u32, version: &str) -> Result<Self, DaemonError> {
        let path = paths.socket();
        let socket = bind(&path).await?;
        let content = LockContent { pid, socket: path, version: version.into() };
        let mut door = Self { socket, lock, paths: paths.clone(), vars, content, watches: [None, None] };
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
        let Self { socket, lock, paths, watches, .. } = self;
        tokio::select! {
            accepted = socket.accept() => match accepted {
                Ok((stream, peer)) => Knock::Client(stream, peer),
                Err(error) => Knock::Failed(error),
            },
            () = lost(|| socket.is_in_place() && lock.is_in_place(paths), watches) => Knock::Lost,
        }
    }

    /// Puts the lock and the socket back, or makes another socket where the environment leads by now. When neither can be
    /// done the next change of the folders is waited for. False when another daemon has taken our place: no client will find
    /// this one again.
    pub(super) async fn mend(&mut self) -> bool {
        if !self.lock.is_in_place(&self.paths)
            && let Err(error) = self.lock_again().await
        {
            tracing::warn!(error = %chain(&error), "the lock file was removed and cannot be put back");
            if let DaemonError::Lock(LockError::Held { .. }) = error {
                self.watches = [None, None];
                return false;
            }
        }
        let elsewhere = Paths::resolve(&self.vars).ok().filter(|paths| paths.state == self.paths.state);
        for paths in [Some(self.paths.clone()), elsewhere].into_iter().flatten() {
            match self.move_to(&paths).await {
                Ok(()) => {
                    tracing::warn!(socket = %self.content.socket.display(), "the way in was removed and is there again");
                    return true;
                }
                Err(error) => tracing::warn!(error = %chain(&error), "the socket was removed and cannot be put back there"),
            }
        }
        true
    }

    async fn lock_again(&mut self) -> Result<(), DaemonError> {
        let folders = self.paths.clone();
        super::run::blocking(move || Ok(folders.ensure()?)).await?;
        self.lock.take_again(&self.paths).await.map_err(DaemonError::Lock)
    }

    async fn move_to(&mut self, paths: &Paths) -> Result<(), DaemonError> {
        let folders = paths.clone();
        super::run::blocking(move || Ok(folders.ensure()?)).await?;
        if !self.socket.is_in_place() {
            let path = paths.socket();
            self.socket = bind(&path).await?;
            self.content.socket = path;
        }
        self.lock.publish(&self.content)?;
        self.watch().await;
        Ok(())
    }

    async fn watch(&mut self) {
        self.watches = [watch(self.path()).await, watch(self.paths.lock_file()).await];
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

async fn watch(path: PathBuf) -> Option<ConfigWatch> {
    match tokio::task::spawn_blocking(move || config::watch(&path)).await {
        Ok(Ok(watch)) => Some(watch),
        Ok(Err(error)) => {
            tracing::warn!(error = %chain(&error), "a removed socket or lock file will not be noticed");
            None
        }
        // The runtime is ending.
        Err(_) => None,
    }
}

/// Waits until not everything is in its place. Cancel safe.
async fn lost(in_place: impl Fn() -> bool, watches: &mut [Option<ConfigWatch>; 2]) {
    let [socket, lock] = watches;
    loop {
        tokio::select! {
            () = changed(socket) => {}
            () = changed(lock) => {}
        }
        if !in_place() {
            return;
        }
    }
}

/// Waits for a change, for ever when none can be seen. Cancel safe.
async fn changed(watch: &mut Option<ConfigWatch>) {
    if let Some(changes) = watch {
        match changes.changed().await {
            Some(()) => return,
            None => *watch = None,
        }
    }
    std::future::pending().await
}
