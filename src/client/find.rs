//! Finding the one daemon of this user and state folder.
//!
//! Invariant: the lock file is the meeting point, whatever else differs between clients; "alive" means "answers hello".

use super::greet::{GreetError, greet};
use super::start::{Launcher, start, wait_for_turn};
use super::{Client, ClientError, Connect};
use crate::config::{Chosen, Sources};
use crate::paths::{PathError, Paths, Vars};
use crate::protocol::launch::LockContent;
use crate::report::{Kind, Report};
use std::io;
use std::path::Path;
use tokio::net::UnixStream;

/// Finds the daemon, or starts one when it may.
pub(super) async fn connect(how: &Connect) -> Result<Client, ClientError> {
    connect_at(&here()?, &named(how), &Launcher::this_program).await
}

/// Gives the folders that the environment leads to.
pub(super) fn here() -> Result<Paths, ClientError> {
    Paths::resolve(&Vars::current()).map_err(unusable)
}

/// Takes a config named by QD_CONFIG as named, as the daemon would.
pub(super) fn named(how: &Connect) -> Connect {
    let chosen = Sources::from_env(how.config.clone()).file().filter(Chosen::required);
    Connect { config: chosen.map(|chosen| chosen.path), ..how.clone() }
}

/// Turns an error about folders into what the caller exits with.
pub(super) fn unusable(error: PathError) -> ClientError {
    let report = Report::from(error);
    match report.kind {
        Kind::Config => ClientError::BadConfig(report.message),
        _ => ClientError::Unreachable(report.message),
    }
}

/// Finds the daemon of these folders, or starts one with the launcher when it may.
pub(super) async fn connect_at(
    paths: &Paths,
    how: &Connect,
    launcher: &(dyn Fn() -> io::Result<Launcher> + Sync),
) -> Result<Client, ClientError> {
    if let Some(client) = attempt(paths, how).await? {
        return Ok(client);
    }
    if !how.start {
        return Err(ClientError::NoDaemon);
    }
    // Clients that find no daemon at the same moment start one after the other, so that one daemon is started.
    let _turn = wait_for_turn(paths).await?;
    if let Some(client) = attempt(paths, how).await? {
        return Ok(client);
    }
    let launcher = launcher().map_err(|error| ClientError::Unreachable(format!("this program cannot be found to start it: {error}")))?;
    let started = start(&launcher, how).await;
    // When it could not start because one lives that was not found a moment ago, that one is there now.
    let found = attempt(paths, how).await;
    if !matches!(found, Ok(Some(_))) {
        started?;
    }
    found?.ok_or_else(|| {
        let log = paths.log_dir();
        ClientError::Unreachable(format!("it was started and went away at once; {} may say why", log.display()))
    })
}

/// Tries to reach a daemon; none when there is none, or one that is ending.
async fn attempt(paths: &Paths, how: &Connect) -> Result<Option<Client>, ClientError> {
    let Some(content) = read_lock(paths).await? else { return Ok(None) };
    let Some(stream) = connect_socket(&content.socket).await? else { return Ok(None) };
    check_peer(&stream)?;
    match greet(stream, how).await {
        Ok(client) => Ok(Some(client)),
        Err(GreetError::NotAlive(reason)) => {
            tracing::debug!(pid = content.pid, reason, "no daemon answers");
            Ok(None)
        }
        Err(GreetError::Final(ClientError::Unreachable(reason))) => {
            Err(ClientError::Unreachable(format!("{reason} (its process id is {})", content.pid)))
        }
        Err(GreetError::Final(error)) => Err(error),
    }
}

/// Reads the lock file; none when no daemon is ready.
pub(super) async fn read_lock(paths: &Paths) -> Result<Option<LockContent>, ClientError> {
    let path = paths.lock_file();
    match tokio::fs::read(&path).await {
        Ok(text) => Ok(LockContent::parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ClientError::Unreachable(format!("{} cannot be read: {error}", path.display()))),
    }
}

/// Connects; none when nobody listens.
pub(super) async fn connect_socket(path: &Path) -> Result<Option<UnixStream>, ClientError> {
    let connected = match UnixStream::connect(path).await {
        // The queue of the socket is full: only a blocking connect waits for its turn.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => connect_blocking(path).await,
        other => other,
    };
    match connected {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) => Err(ClientError::Unreachable(format!("{}: {error}", path.display()))),
    }
}

async fn connect_blocking(path: &Path) -> io::Result<UnixStream> {
    let path = path.to_owned();
    let stream = tokio::task::spawn_blocking(move || std::os::unix::net::UnixStream::connect(path)).await.map_err(io::Error::other)??;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Refuses to talk to another account's process: it would learn what we run.
pub(super) fn check_peer(stream: &UnixStream) -> Result<(), ClientError> {
    let peer = stream.peer_cred().map_err(|error| ClientError::Unreachable(format!("its account is unknown: {error}")))?;
    let ours = rustix::process::geteuid().as_raw();
    if peer.uid() == ours {
        return Ok(());
    }
    Err(ClientError::Unreachable(format!("its socket belongs to uid {}, not to you (uid {ours})", peer.uid())))
}
