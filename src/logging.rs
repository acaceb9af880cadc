//! The log file of the program itself: `<state>/log/qd.log`, kept small, private and free of secrets.
//!
//! Invariant: logging never delays the program and never ends it: lines wait in a bounded queue, and what does not fit is
//! dropped and counted.

use crate::model::redact::Redactor;
use crate::paths::{Paths, Vars};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tracing::Level;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Size at which the file is put aside, in bytes.
const FILE_BYTES: u64 = 10_000_000;
/// Files kept, with the present one.
const FILES: usize = 5;
/// Lines that may wait to be written.
const QUEUE: usize = 8192;

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be written.
    #[error("failed to open the log {path}")]
    Open {
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The level is none.
    #[error("log level {level:?} is not understood: expected off, error, warn, info, debug or trace, or directives as qd=debug")]
    Level {
        /// What was given.
        level: String,
    },
    /// The program logs already.
    #[error("the log was started twice")]
    Twice,
}

/// Keeps the log going. Dropping it writes what waits.
pub struct LogGuard {
    dropped: ErrorCounter,
    _worker: WorkerGuard,
}

impl LogGuard {
    /// Counts the lines that did not fit into the queue.
    pub fn dropped(&self) -> usize {
        self.dropped.dropped_lines()
    }
}

/// Starts the log of this program. `level` is the config's; QD_LOG wins. The folder must be there. Blocks shortly on the
/// file system.
pub fn init(paths: &Paths, vars: &Vars, level: &str, redactor: Redactor) -> Result<LogGuard, LogError> {
    let level = vars.text("QD_LOG").unwrap_or(level);
    let filter = filter(level)?;
    let file = RotatingFile::open(paths.log_dir().join("qd.log"), FILE_BYTES, FILES, redactor)?;
    let (writer, worker) = NonBlockingBuilder::default().buffered_lines_limit(QUEUE).lossy(true).thread_name("qd-log").finish(file);
    let dropped = writer.error_counter();
    // russh's debug lines print what is sent for authentication: they are kept out whatever level is asked for.
    let harmless = filter_fn(|meta| *meta.level() <= Level::WARN || !is_russh(meta.target()));
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer).with_filter(filter.and(harmless));
    tracing_subscriber::registry().with(layer).try_init().map_err(|_| LogError::Twice)?;
    Ok(LogGuard { dropped, _worker: worker })
}

fn is_russh(target: &str) -> bool {
    target.strip_prefix("russh").is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '_']))
}

/// Reads a level or directives; a bare level holds for our own lines, and others are kept at warn or what is lower.
fn filter(level: &str) -> Result<EnvFilter, LogError> {
    let wrong = || LogError::Level { level: level.to_owned() };
    let text = match level.trim().to_ascii_lowercase().as_str() {
        "off" | "error" | "warn" => level.trim().to_ascii_lowercase(),
        bare @ ("info" | "debug" | "trace") => format!("warn,quarterdeck={bare},qd={bare}"),
        _ => level.to_owned(),
    };
    // One bare word that is no level would be read as a target and let everything through.
    if text.trim().is_empty() || !text.contains(['=', ',']) && text.parse::<tracing_subscriber::filter::LevelFilter>().is_err() {
        return Err(wrong());
    }
    EnvFilter::builder().parse(text).map_err(|_| wrong())
}

/// A file that is put aside when it is full: `qd.log`, `qd.log.1` and so on. Secrets are taken out of each line.
struct RotatingFile {
    path: PathBuf,
    file: File,
    size: u64,
    limit: u64,
    files: usize,
    redactor: Redactor,
}

impl RotatingFile {
    fn open(path: PathBuf, limit: u64, files: usize, redactor: Redactor) -> Result<Self, LogError> {
        let failed = |source| LogError::Open { path: path.display().to_string(), source };
        let file = append(&path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.size();
        Ok(Self { file, size, limit, files, redactor, path })
    }

    fn rotate(&mut self) -> io::Result<()> {
        // Another may have put it aside: then only the new file is taken up.
        let own = self.file.metadata()?;
        let there = std::fs::metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino()));
        if there {
            for number in (1..self.files.saturating_sub(1)).rev() {
                shift(&numbered(&self.path, number), &numbered(&self.path, number + 1))?;
            }
            shift(&self.path, &numbered(&self.path, 1))?;
        }
        self.file = append(&self.path)?;
        self.size = self.file.metadata()?.size();
        Ok(())
    }
}

impl Write for RotatingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        let line = self.redactor.text(&line);
        let more = line.len() as u64;
        if self.size > 0 && self.size + more > self.limit {
            // A file that cannot be put aside goes on growing, which is better than losing the line.
            if let Err(error) = self.rotate() {
                self.file.write_all(format!("the log cannot be rotated: {error}\n").as_bytes())?;
                self.size = 0;
            }
        }
        self.file.write_all(line.as_bytes())?;
        self.size += more;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append(path: &Path) -> io::Result<File> {
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

fn shift(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path, limit: u64) -> RotatingFile {
        RotatingFile::open(folder.join("qd.log"), limit, FILES, Redactor::new(["hunter2hunter2"])).unwrap()
    }

    #[test]
    fn files_are_put_aside_and_five_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let mut file = open(root.path(), 100);
        for number in 0..40 {
            file.write_all(format!("line {number:03} {}\n", "x".repeat(40)).as_bytes()).unwrap();
        }
        let mut names: Vec<String> =
            std::fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["qd.log", "qd.log.1", "qd.log.2", "qd.log.3", "qd.log.4"]);
        let mut kept = String::new();
        for number in (1..5).rev() {
            let path = numbered(&root.path().join("qd.log"), number);
            let meta = std::fs::metadata(&path).unwrap();
            assert!(meta.size() <= 100);
            assert_eq!(meta.mode() & 0o777, 0o600);
            kept.push_str(&std::fs::read_to_string(path).unwrap());
        }
        kept.push_str(&std::fs::read_to_string(root.path().join("qd.log")).unwrap());
        let numbers: Vec<u32> = kept.lines().map(|line| line[5..8].parse().unwrap()).collect();
        assert_eq!(numbers.last(), Some(&39));
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    }

    #[test]
    fn it_goes_on_where_it_was() {
        let root = tempfile::tempdir().unwrap();
        open(root.path(), 1000).write_all(b"one\n").unwrap();
        let mut again = open(root.path(), 1000);
        assert_eq!(again.size, 4);
        again.write_all(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(root.path().join("qd.log")).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_file_put_aside_by_another_is_left_there() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("qd.log");
        let mut file = open(root.path(), 10);
        file.write_all(b"mine\n").unwrap();
        std::fs::rename(&path, root.path().join("aside")).unwrap();
        std::fs::write(&path, "theirs\n").unwrap();
        file.write_all(b"more and more\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "theirs\nmore and more\n");
        assert_eq!(std::fs::read_to_string(root.path().join("aside")).unwrap(), "mine\n");
    }

    #[test]
    fn secrets_are_taken_out() {
        let root = tempfile::tempdir().unwrap();
        let mut file = open(root.path(), 1000);
        file.write_all(b"value hunter2hunter2 and AKIAIOSFODNN7EXAMPLE\n").unwrap();
        assert_eq!(std::fs::read_to_string(root.path().join("qd.log")).unwrap(), "value [redacted] and [redacted]\n");
    }

    #[test]
    fn levels() {
        for level in ["off", "error", "warn", "info", "debug", "trace", "INFO", "quarterdeck::session=trace,info", "quarterdeck=debug"] {
            filter(level).unwrap_or_else(|error| panic!("{level}: {error}"));
        }
        for level in ["loud", "", "info=="] {
            assert!(matches!(filter(level), Err(LogError::Level { .. })), "{level}");
        }
    }

    #[test]
    fn the_whole_way_into_the_file() {
        let root = tempfile::tempdir().unwrap();
        let paths = Paths::under(root.path());
        paths.ensure().unwrap();
        let guard = init(&paths, &Vars::from_pairs([("QD_LOG", "trace,russh=trace")]), "off", Redactor::default()).unwrap();
        tracing::debug!(target: "russh::client", "password hunter2");
        tracing::trace!(target: "russh", "password hunter2");
        tracing::warn!(target: "russh::client", "slow");
        tracing::debug!("ours AKIAIOSFODNN7EXAMPLE");
        assert_eq!(guard.dropped(), 0);
        assert!(matches!(init(&paths, &Vars::default(), "info", Redactor::default()), Err(LogError::Twice)));
        drop(guard);
        let text = std::fs::read_to_string(paths.log_dir().join("qd.log")).unwrap();
        assert!(text.contains("slow") && text.contains("ours [redacted]") && !text.contains("hunter2"), "{text}");
        assert!(is_russh("russh") && is_russh("russh::client") && is_russh("russh_keys::x") && !is_russh("russhian"));
    }
}
