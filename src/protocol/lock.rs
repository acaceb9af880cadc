//! Waiting for a lock on a file, as the daemon and its clients do.
//!
//! Invariant: a lock is its open file: dropping the file gives it back, and so does the end of the process, however it ends.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::oneshot;

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file cannot be used.
    #[error("failed to lock {path}")]
    Io {
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Somebody else held it all the time.
    #[error("{path} was held by another process for {} s", waited.as_secs())]
    Held {
        /// The file.
        path: String,
        /// How long it was waited for.
        waited: Duration,
    },
}

/// Takes the lock on a file, which is made (0600) when it is not there; waits at most `limit`. Dropping the future gives up.
pub async fn take(path: &Path, limit: Duration) -> Result<File, LockError> {
    within(path, limit, take_blocking).await
}

/// Takes the lock if nobody holds it; none when somebody does. Blocks on the file system only.
pub fn try_take(path: &Path) -> Result<Option<File>, LockError> {
    loop {
        let file = open(path).map_err(|source| io_error(path, source))?;
        match file.try_lock() {
            Ok(()) if is_the_one(&file, path) => return Ok(Some(file)),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(io_error(path, source)),
        }
    }
}

/// Waits at most `limit` until nobody holds the lock. Dropping the future gives up.
pub async fn wait_until_free(path: &Path, limit: Duration) -> Result<(), LockError> {
    within(path, limit, |path| match File::open(path).and_then(|file| file.lock_shared()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    })
    .await
}

/// Tells whether somebody holds the lock. Blocks on the file system only.
pub fn is_held(path: &Path) -> Result<bool, LockError> {
    match File::open(path).map(|file| file.try_lock_shared()) {
        Ok(Ok(())) => Ok(false),
        Ok(Err(TryLockError::WouldBlock)) => Ok(true),
        Ok(Err(TryLockError::Error(source))) => Err(io_error(path, source)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(io_error(path, source)),
    }
}

fn take_blocking(path: &Path) -> io::Result<File> {
    loop {
        let file = open(path)?;
        file.lock()?;
        if is_the_one(&file, path) {
            return Ok(file);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Tells whether the path still leads to this file: a lock on a file that was removed meets nobody.
pub fn is_the_one(file: &File, path: &Path) -> bool {
    let same = |a: &std::fs::Metadata, b: &std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    matches!((file.metadata(), std::fs::metadata(path)), (Ok(a), Ok(b)) if same(&a, &b))
}

/// Does something that may block for long in a thread of its own. Not in the runtime's pool: that one is waited for when the
/// program ends.
async fn within<T: Send + 'static>(
    path: &Path,
    limit: Duration,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, LockError> {
    let (sender, receiver) = oneshot::channel();
    let owned: PathBuf = path.to_owned();
    let thread = std::thread::Builder::new().name("qd-lock".into()).spawn(move || {
        // When nobody waits any more the result is dropped here, and the lock with it.
        let _nobody_waits = sender.send(work(&owned));
    });
    thread.map_err(|source| io_error(path, source))?;
    match tokio::time::timeout(limit, receiver).await {
        Ok(Ok(Ok(done))) => Ok(done),
        Ok(Ok(Err(source))) => Err(io_error(path, source)),
        Ok(Err(_)) => Err(io_error(path, io::Error::other("the waiting thread ended without a word"))),
        Err(_) => Err(LockError::Held { path: path.display().to_string(), waited: limit }),
    }
}

fn io_error(path: &Path, source: io::Error) -> LockError {
    LockError::Io { path: path.display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_lock_is_held_by_one_and_passed_on_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(!is_held(&path).unwrap());
        let first = try_take(&path).unwrap().unwrap();
        assert!(is_held(&path).unwrap());
        assert!(try_take(&path).unwrap().is_none());
        assert!(matches!(take(&path, Duration::from_millis(20)).await, Err(LockError::Held { .. })));
        let waiting = tokio::spawn({
            let path = path.clone();
            async move { take(&path, LONG).await }
        });
        tokio::task::yield_now().await;
        drop(first);
        let second = waiting.await.unwrap().unwrap();
        assert!(is_held(&path).unwrap());
        drop(second);
        wait_until_free(&path, LONG).await.unwrap();
        assert!(!is_held(&path).unwrap());
    }

    #[tokio::test]
    async fn a_lock_on_a_removed_file_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lost = try_take(&path).unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        let found = take(&path, LONG).await.unwrap();
        assert!(is_the_one(&found, &path) && !is_the_one(&lost, &path));
    }

    #[test]
    fn the_file_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _held = try_take(&path).unwrap().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_folder_that_is_not_there_is_told() {
        let error = take(Path::new("/nonexistent/lock"), LONG).await.unwrap_err();
        assert!(matches!(&error, LockError::Io { .. }) && error.to_string().contains("/nonexistent/lock"));
    }
}
