//! What is running, on disk: so that a daemon that was killed can be told from one that ended in order, and what was lost
//! can be named.
//!
//! Invariant: written a moment after a change, off the command's path, atomically and without secrets; a command that is over by then
//! costs nothing. Format version 1; a reader refuses other versions without a fault.

use super::file;
use crate::model::{Millis, ProcessInfo};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::Notify;

/// Commands shorter than this are usually never written down.
const DELAY: Duration = Duration::from_millis(100);
const VERSION: u32 = 1;

/// One command that was running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) id: String,
    pub(crate) backend: String,
    pub(crate) session: String,
    pub(crate) command: String,
    pub(crate) who: crate::model::Who,
    pub(crate) started: Millis,
    #[serde(default)]
    pub(crate) pid: Option<u32>,
    #[serde(default)]
    pub(crate) cwd: String,
    /// Whether its end is to be told.
    #[serde(default)]
    pub(crate) notify: bool,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    running: Vec<Line>,
}

impl From<ProcessInfo> for Line {
    fn from(info: ProcessInfo) -> Self {
        Self {
            id: info.id,
            backend: info.backend,
            session: info.session,
            command: info.command,
            who: info.who,
            started: info.started,
            pid: info.pid,
            cwd: info.cwd,
            notify: info.notify,
        }
    }
}

impl Line {
    /// What is gone through for secrets.
    pub(super) fn text(&mut self) -> super::texts::Row<'_> {
        (&self.id, &self.backend, &mut self.command)
    }
}

/// Reads what an earlier daemon left behind: empty when it ended in order.
pub(crate) fn left_behind(path: &Path) -> Vec<Line> {
    let found = file::read(path, &(VERSION..=VERSION)).unwrap_or_else(|why| {
        tracing::warn!(why, "the journal of running commands is not read");
        None
    });
    found.map_or_else(Vec::new, |File { running, .. }| running)
}

/// Gives when the file was written: its commands were running then. The beginning of time when that is not known.
pub(crate) fn written(path: &Path) -> Millis {
    let at = std::fs::metadata(path).and_then(|found| found.modified());
    at.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or(0, |d| d.as_millis() as Millis)
}

/// Writes the file whole. 0600. Blocking.
pub(crate) fn write(path: &Path, running: Vec<Line>) -> io::Result<()> {
    file::write(path, &File { version: VERSION, running })
}

/// Keeps the file true until `changed` is dropped by everyone else. `running` gives the rows that have not ended; `clean`
/// takes secrets out of what is written of them.
pub(crate) async fn keep(
    path: PathBuf,
    changed: Arc<Notify>,
    running: impl Fn() -> Option<Vec<ProcessInfo>>,
    clean: impl Fn(&mut [Line]) + Send + Sync + 'static,
) {
    let clean = Arc::new(clean);
    let mut written: Vec<Line> = Vec::new();
    let mut failed = false;
    loop {
        changed.notified().await;
        tokio::time::sleep(DELAY).await;
        let Some(rows) = running() else { return };
        let lines: Vec<Line> = rows.into_iter().map(Line::from).collect();
        if lines == written {
            continue;
        }
        let (to, mut what, clean) = (path.clone(), lines.clone(), clean.clone());
        let writing = tokio::task::spawn_blocking(move || {
            clean(&mut what);
            write(&to, what)
        });
        match writing.await {
            Ok(Ok(())) => {
                written = lines;
                failed = false;
            }
            // Said once: a full disk would repeat it with every command.
            Ok(Err(error)) if !failed => {
                failed = true;
                tracing::warn!(%error, path = %path.display(), "failed to write down what is running");
            }
            Ok(Err(_)) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_other_versions_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("running.json");
        assert_eq!(left_behind(&path), []);
        let who = crate::model::Who { kind: crate::model::WhoKind::Agent, name: "hermes".into(), peer_pid: Some(7) };
        let line = Line {
            id: "k7f3q2".into(),
            backend: "gpu".into(),
            session: "main".into(),
            command: "sleep 9".into(),
            who,
            started: 12,
            pid: Some(44),
            cwd: "/srv".into(),
            notify: true,
        };
        write(&path, vec![line.clone()]).expect("written");
        assert_eq!(left_behind(&path), [line]);
        std::fs::write(&path, r#"{"version": 99, "running": []}"#).expect("written");
        assert_eq!(left_behind(&path), []);
    }
}
