//! The socket: made whole before it has its name, removed when we go.
//!
//! Invariant: whoever finds the socket's name finds a listener with mode 0600; a stale one is replaced only while the
//! daemon's lock is held, and a foreign one never.

use super::DaemonError;
use super::hello::Peer;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// The listening socket. Dropping it removes its file, when that is still ours.
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of its file.
    file: (u64, u64),
}

impl Socket {
    /// Makes the socket. The lock must be held.
    pub(super) async fn bind(path: &Path) -> Result<Self, DaemonError> {
        let failed = |source| DaemonError::Socket { path: path.display().to_string(), source };
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(failed(io::Error::other("something that is no socket has its name")));
            }
            Ok(_) => {
                if let Ok(stream) = UnixStream::connect(path).await {
                    // We hold the lock, so whoever answers lost its lock file, or is a stranger: not ours to replace.
                    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
                    let who = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
                    return Err(failed(io::Error::other(format!(
                        "{who} listens there: end it first, or set QD_RUNTIME_DIR to another folder"
                    ))));
                }
            }
            Err(_) => {}
        }
        let draft = path.with_extension("new");
        remove(&draft).map_err(failed)?;
        let listener = UnixListener::bind(&draft).map_err(failed)?;
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let meta = std::fs::symlink_metadata(&draft).map_err(failed)?;
        std::fs::rename(&draft, path).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned(), file: (meta.dev(), meta.ino()) })
    }

    /// Waits for a client. Cancel safe.
    pub(super) async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.listener.accept().await?;
        let credentials = stream.peer_cred()?;
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok());
        Ok((stream, Peer { uid: credentials.uid(), pid }))
    }

    /// Tells whether the name still leads to this socket; a cleaner of old files may have removed it.
    pub(super) fn is_in_place(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.file)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_in_place()
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "the socket could not be removed");
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_private_and_goes_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qd.sock");
        let socket = Socket::bind(&path).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let (client, served) = tokio::join!(UnixStream::connect(&path), socket.accept());
        let (_client, (_stream, peer)) = (client.unwrap(), served.unwrap());
        assert_eq!(peer, Peer { uid: rustix::process::geteuid().as_raw(), pid: Some(std::process::id()) });
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_living_or_foreign_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qd.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a killed daemon leaves its socket");
        let socket = Socket::bind(&path).await.unwrap();
        assert!(Socket::bind(&path).await.is_err());
        assert!(socket.is_in_place());
        std::fs::remove_file(&path).unwrap();
        assert!(!socket.is_in_place());
        std::fs::write(&path, "a file").unwrap();
        assert!(Socket::bind(&path).await.is_err());
        drop(socket);
        assert_eq!(std::fs::read(&path).unwrap(), b"a file", "what is not ours stays");
    }
}
