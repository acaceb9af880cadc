//! Old logs go: by age, then oldest first until what is left is below the bound.
//!
//! Invariant: only files of ours are looked at (`*.log`, `*.idx` and a log's tail pieces), and only in the logs folder.

use crate::model::ProcessId;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Gives the ids of the logs in a folder. Blocking.
pub(crate) fn ids(folder: &Path) -> Vec<ProcessId> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".log")?.to_owned())).collect()
}

/// Removes logs that are older than `days`, then the oldest until all together are at most `bytes`; those of the ids in `keep` stay.
/// Gives the time of the oldest that is left and may go. Blocking.
pub(crate) fn old_logs(folder: &Path, days: u32, bytes: u64, keep: &BTreeSet<ProcessId>) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?;
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    let mut total = 0;
    for entry in entries.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !meta.is_file() || !name.contains(".log") {
            continue;
        }
        total += meta.len();
        if !name.split('.').next().is_some_and(|id| keep.contains(id)) {
            files.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len(), entry.path()));
        }
    }
    files.sort();
    let oldest = SystemTime::now().checked_sub(Duration::from_secs(u64::from(days) * 86_400));
    for (at, len, path) in files {
        if oldest.is_none_or(|oldest| at >= oldest) && total <= bytes {
            return Some(at);
        }
        match std::fs::remove_file(&path) {
            Ok(()) => total = total.saturating_sub(len),
            Err(error) => tracing::warn!(%error, path = %path.display(), "failed to remove an old log"),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_logs_go_first_and_nothing_else_does() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, age) in [("a.log", 3), ("b.log", 2), ("c.log", 1), ("notes.txt", 9)] {
            let path = folder.path().join(name);
            std::fs::write(&path, [0u8; 100]).expect("written");
            let file = std::fs::File::options().write(true).open(&path).expect("open");
            file.set_modified(SystemTime::now() - Duration::from_secs(age * 86_400 + 60)).expect("dated");
        }
        let none = BTreeSet::new();
        let oldest = old_logs(folder.path(), 7, 250, &none).expect("some are left");
        assert!(oldest <= SystemTime::now() - Duration::from_secs(2 * 86_400));
        assert_eq!(ids(folder.path()).len(), 2);
        let there = |name: &str| folder.path().join(name).exists();
        assert_eq!((there("a.log"), there("b.log"), there("c.log"), there("notes.txt")), (false, true, true, true));
        // What runs keeps its log, whatever the bounds.
        let running = BTreeSet::from(["b".to_owned(), "c".to_owned()]);
        assert_eq!(old_logs(folder.path(), 0, 0, &running), None);
        assert_eq!((there("b.log"), there("c.log")), (true, true));
        old_logs(folder.path(), 2, 250, &none);
        assert_eq!((there("b.log"), there("c.log"), there("notes.txt")), (false, true, true));
    }
}
