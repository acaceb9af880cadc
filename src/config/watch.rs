//! Tells when the config file changes.
//!
//! The folder is watched and not the file: editors write a new file and rename it. When the folder is not there yet, the
//! nearest folder above it is watched until it is; when the file is a link, the folder it leads to is watched too.
//! Invariant: one word per change, however many events it made, and none when the file is as it was.

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long the file must be left alone before its change is told.
const QUIET: Duration = Duration::from_millis(100);
/// How long a file that is written again and again may put that off.
const LONGEST: Duration = Duration::from_secs(2);

/// Why changes cannot be watched for.
#[derive(Debug, thiserror::Error)]
#[error("failed to watch {path} for changes: a changed config is taken up when the daemon starts anew")]
pub struct WatchError {
    path: String,
    #[source]
    source: notify::Error,
}

/// Watches one file. Dropping it ends the watching.
pub struct ConfigWatch {
    file: PathBuf,
    inner: Arc<Mutex<Inner>>,
    events: mpsc::Receiver<()>,
    last: Option<Stamp>,
    pending: bool,
}

struct Inner {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
}

/// What differs when a file was written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Starts to watch a file, which need not be there. Blocks shortly on the file system.
pub fn watch(file: &Path) -> Result<ConfigWatch, WatchError> {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let (send, events) = mpsc::channel(1);
    let failed = |source| WatchError { path: file.display().to_string(), source };
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let reading = event.as_ref().is_ok_and(|event| matches!(event.kind, EventKind::Access(kind) if !is_write(kind)));
        if !reading {
            // A full channel says the same already; a closed one means that nobody listens.
            let _ = send.try_send(());
        }
    })
    .map_err(failed)?;
    let inner = Arc::new(Mutex::new(Inner { watcher, watched: BTreeSet::new() }));
    let last = arm(&inner, &file).map_err(failed)?;
    Ok(ConfigWatch { file, inner, events, last, pending: false })
}

fn is_write(kind: notify::event::AccessKind) -> bool {
    matches!(kind, notify::event::AccessKind::Close(notify::event::AccessMode::Write))
}

impl ConfigWatch {
    /// Waits for the next change; none when watching has become impossible. Cancel safe: a change that nobody was told of
    /// is told by the next call.
    pub async fn changed(&mut self) -> Option<()> {
        loop {
            if !self.pending {
                self.events.recv().await?;
                self.pending = true;
            }
            let longest = tokio::time::Instant::now() + LONGEST;
            // Every further event starts the quiet time anew.
            while let Ok(more) = tokio::time::timeout(QUIET, self.events.recv()).await {
                more?;
                if tokio::time::Instant::now() > longest {
                    break;
                }
            }
            let (inner, file) = (Arc::clone(&self.inner), self.file.clone());
            let armed = tokio::task::spawn_blocking(move || arm(&inner, &file)).await;
            self.pending = false;
            let stamp = match armed {
                Ok(Ok(stamp)) => stamp,
                Ok(Err(error)) => {
                    tracing::warn!(file = %self.file.display(), %error, "the config is no longer watched for changes");
                    return None;
                }
                // The runtime is shutting down.
                Err(_) => return None,
            };
            if stamp != self.last {
                self.last = stamp;
                return Some(());
            }
        }
    }
}

/// Watches what has to be watched now, and gives the file's present stamp.
fn arm(inner: &Mutex<Inner>, file: &Path) -> notify::Result<Option<Stamp>> {
    let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
    // A folder may come or go between looking and watching: look again until nothing has changed.
    for _ in 0..16 {
        let wanted = folders(file);
        for folder in inner.watched.difference(&wanted).cloned().collect::<Vec<_>>() {
            // A folder that was removed is no longer watched anyway.
            let _ = inner.watcher.unwatch(&folder);
        }
        inner.watched.clear();
        for folder in &wanted {
            // Again even when it is watched: it may be another folder of the same name by now.
            match inner.watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    inner.watched.insert(folder.clone());
                }
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if wanted == inner.watched && wanted == folders(file) {
            break;
        }
    }
    Ok(stamp(file))
}

fn is_gone(error: &notify::Error) -> bool {
    match &error.kind {
        notify::ErrorKind::PathNotFound => true,
        notify::ErrorKind::Io(error) => error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Gives the folders to watch: the file's own or the nearest above it that is there, and that of the file it leads to.
fn folders(file: &Path) -> BTreeSet<PathBuf> {
    let mut folders: BTreeSet<PathBuf> = file.ancestors().skip(1).find(|folder| folder.is_dir()).map(Path::to_owned).into_iter().collect();
    if let Ok(real) = file.canonicalize()
        && let Some(folder) = real.parent()
    {
        folders.insert(folder.to_owned());
    }
    folders
}

fn stamp(file: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(file).ok()?;
    Some(Stamp {
        device: meta.dev(),
        inode: meta.ino(),
        size: meta.size(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        changed: (meta.ctime(), meta.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: Duration = Duration::from_secs(20);

    async fn told(watch: &mut ConfigWatch) {
        tokio::time::timeout(CAP, watch.changed()).await.expect("a change within the cap").expect("still watching");
    }

    #[tokio::test]
    async fn writing_renaming_and_removing_are_told() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("config.yaml");
        let mut watch = watch(&file).unwrap();
        std::fs::write(&file, "a").unwrap();
        told(&mut watch).await;
        std::fs::write(&file, "bb").unwrap();
        told(&mut watch).await;
        let beside = root.path().join(".config.yaml.swp");
        std::fs::write(&beside, "ccc").unwrap();
        std::fs::rename(&beside, &file).unwrap();
        told(&mut watch).await;
        std::fs::remove_file(&file).unwrap();
        told(&mut watch).await;
    }

    #[tokio::test]
    async fn a_folder_that_comes_later_is_found() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a/b/config.yaml");
        let mut watch = watch(&file).unwrap();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "a").unwrap();
        told(&mut watch).await;
        std::fs::write(&file, "bb").unwrap();
        told(&mut watch).await;
        std::fs::remove_dir_all(root.path().join("a")).unwrap();
        told(&mut watch).await;
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "ccc").unwrap();
        told(&mut watch).await;
    }

    #[tokio::test]
    async fn the_file_that_a_link_leads_to_is_watched() {
        let root = tempfile::tempdir().unwrap();
        let (real, link) = (root.path().join("dot/real.yaml"), root.path().join("etc/config.yaml"));
        for path in [&real, &link] {
            std::fs::create_dir(path.parent().unwrap()).unwrap();
        }
        std::fs::write(&real, "a").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let mut watch = watch(&link).unwrap();
        std::fs::write(&real, "bb").unwrap();
        told(&mut watch).await;
    }

    #[tokio::test]
    async fn other_files_and_reading_are_not_told() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("config.yaml");
        std::fs::write(&file, "a").unwrap();
        let mut watch = watch(&file).unwrap();
        std::fs::write(root.path().join("other"), "x").unwrap();
        std::fs::read(&file).unwrap();
        // The next thing that is told is the change of the file itself: its stamp is the new one.
        let (changed, ()) = tokio::join!(told(&mut watch), async {
            tokio::time::timeout(QUIET * 3, std::future::pending::<()>()).await.unwrap_err();
            std::fs::write(&file, "bb").unwrap();
        });
        changed
    }

    #[tokio::test]
    async fn a_change_is_not_lost_when_the_wait_is_given_up() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("config.yaml");
        let mut watch = watch(&file).unwrap();
        std::fs::write(&file, "a").unwrap();
        // Given up in the quiet time.
        tokio::time::timeout(QUIET / 2, watch.changed()).await.unwrap_err();
        told(&mut watch).await;
        assert_eq!(watch.last, stamp(&file));
    }
}
