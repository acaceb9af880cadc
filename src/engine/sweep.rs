//! Old logs go: by age, then oldest first until what is left is below the bound.
//!
//! Invariant: only files of ours are looked at (`*.log`, `*.idx` and a log's tail pieces), and only in the logs folder.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Removes logs that are older than `days`, then the oldest until all together are at most `bytes`. Blocking.
pub(crate) fn old_logs(folder: &Path, days: u32, bytes: u64) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in entries.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        if meta.is_file() && entry.file_name().to_string_lossy().contains(".log") {
            files.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len(), entry.path()));
        }
    }
    files.sort();
    let mut total: u64 = files.iter().map(|f| f.1).sum();
    let oldest = SystemTime::now().checked_sub(Duration::from_secs(u64::from(days) * 86_400));
    for (at, len, path) in files {
        if oldest.is_none_or(|oldest| at >= oldest) && total <= bytes {
            break;
        }
        match std::fs::remove_file(&path) {
            Ok(()) => total = total.saturating_sub(len),
            Err(error) => tracing::warn!(%error, path = %path.display(), "failed to remove an old log"),
        }
    }
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
        old_logs(folder.path(), 7, 250);
        let there = |name: &str| folder.path().join(name).exists();
        assert_eq!((there("a.log"), there("b.log"), there("c.log"), there("notes.txt")), (false, true, true, true));
        old_logs(folder.path(), 2, 250);
        assert_eq!((there("b.log"), there("c.log"), there("notes.txt")), (false, true, true));
    }
}
