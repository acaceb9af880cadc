//! The report of `qd doctor --bundle`: one text file for somebody else to read.
//!
//! Invariant: no secret is in it: values of variables are left out of the config, and all of the text goes through the strictest
//! search for secrets that there is. It is readable by its owner alone and never put over another file.

use super::Examined;
use crate::cli::args::Global;
use crate::cli::caller;
use crate::cli::failure::Failure;
use crate::config::{self, Config, Sources};
use crate::model::redact::{MASK, Redactor, is_listed, looks_secret, secret_names};
use crate::model::scrub::scrub;
use crate::paths::Paths;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// So much of the end of the daemon's log is taken, in bytes.
const LOG: u64 = 256 << 10;

/// A report that is being written. Dropped before it was, its file goes.
pub(super) struct Bundle {
    file: File,
    path: PathBuf,
    written: bool,
}

impl Bundle {
    /// Makes the file.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        match File::options().write(true).create_new(true).mode(0o600).open(path) {
            Ok(file) => Ok(Self { file, path: path.to_owned(), written: false }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                Err(Failure::usage_with(format!("{} is there already", path.display()), "name a file that is not there yet"))
            }
            Err(e) => Err(Failure::usage(format!("failed to make {}: {e}", path.display()))),
        }
    }

    /// Writes everything and gives the file's path. `failed`: why the examination did not come to its end.
    pub(super) fn write(mut self, global: &Global, seen: &Examined, failed: Option<&Failure>) -> Result<PathBuf, Failure> {
        let sources = Sources::from_env(caller::config(global)?);
        let loaded = config::load(&sources);
        let redactor = secrets(loaded.as_ref().ok());
        let log = Paths::resolve(&sources.vars).map(|paths| paths.log_dir().join("qd.log")).ok();
        let config = match loaded {
            Ok(config) => config::show(&without_values(config)),
            Err(error) => error.to_string(),
        };
        let log = log.map_or_else(|| "no state folder is known".to_owned(), |path| tail(&path));
        // Each part for itself: a key that is cut off in one must not take another with it.
        let clean = |part: &str| scrub(&redactor, part);
        let mut text = clean(&versions(seen));
        for (name, part) in [("findings", findings(seen, failed)), ("config", config), ("log", log)] {
            text += &section(name, &clean(&part));
        }
        let done = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        done.map_err(|e| Failure::Internal(format!("failed to write {}: {e}", self.path.display())))?;
        self.written = true;
        Ok(self.path.clone())
    }
}

impl Drop for Bundle {
    fn drop(&mut self) {
        if !self.written {
            // What failed before is what is told.
            drop(fs::remove_file(&self.path));
        }
    }
}

fn section(name: &str, text: &str) -> String {
    format!("\n== {name}\n\n{}\n", text.trim_end())
}

fn versions(seen: &Examined) -> String {
    // Linux tells its release here; elsewhere it is left out.
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let system = std::env::consts::OS;
    let mut text = format!("quarterdeck {} on {system} {} {}\n", env!("CARGO_PKG_VERSION"), release.trim(), std::env::consts::ARCH);
    if let Some(overview) = &seen.overview {
        let daemon = &overview.daemon;
        text += &format!("daemon {}, config {}\n", daemon.version, daemon.config.as_deref().unwrap_or("none"));
        for backend in &overview.backends {
            let health = &backend.health;
            let why = health.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            text += &format!(
                "backend {} {} {} {}{why}, {} running\n",
                backend.name,
                backend.kind.as_str(),
                backend.address,
                health.state.as_str(),
                backend.running
            );
        }
        for notice in &overview.notices {
            text += &format!("notice {} {}\n", notice.at, notice.message);
        }
    }
    text
}

fn findings(seen: &Examined, failed: Option<&Failure>) -> String {
    let mut text = String::new();
    for one in &seen.backends {
        text += &format!("{}  {} {}\n", one.info.name, one.info.kind.as_str(), one.info.address);
        let plain = crate::cli::screen::Screen::default();
        text.extend(one.findings.iter().map(|finding| super::line(finding, &plain)));
    }
    if let Some(failure) = failed {
        text += &format!("it did not come to its end: {failure}\n");
    }
    text
}

/// The config with no variable's value: what is not called a secret may be one.
fn without_values(mut config: Config) -> Config {
    for backend in &mut config.backends {
        backend.env.values_mut().for_each(|value| MASK.clone_into(value));
    }
    config
}

/// Knows every value that may be a secret: the config's, and those of this environment that are called one.
fn secrets(config: Option<&Config>) -> Redactor {
    let mut names = secret_names();
    let mut values = Vec::new();
    if let Some(config) = config {
        values.extend(config.redact.values.iter().cloned());
        names.extend(config.redact.names.iter().cloned());
        for backend in &config.backends {
            values.extend(backend.env.values().cloned());
            names.extend(backend.forward_env.iter().cloned());
        }
    }
    let secret = |name: &str| looks_secret(name) || is_listed(name, &names);
    values.extend(std::env::vars_os().filter_map(|(name, value)| secret(name.to_str()?).then(|| value.to_str().map(str::to_owned))?));
    Redactor::new(values)
}

/// The end of the log, from a line's beginning on.
fn tail(path: &Path) -> String {
    let read = File::open(path).and_then(|mut file| {
        let len = file.metadata()?.len();
        let from = len.saturating_sub(LOG);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(LOG).read_to_end(&mut bytes)?;
        Ok((from > 0, bytes))
    });
    match read {
        Ok((cut, bytes)) => {
            let text = String::from_utf8_lossy(&bytes);
            let whole = if cut { text.split_once('\n').map_or("", |(_, rest)| rest) } else { &text };
            whole.to_owned()
        }
        Err(e) => format!("{}: {e}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_file_that_is_there_is_left_alone_and_one_that_was_not_written_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        let bundle = Bundle::create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let again = Bundle::create(&path).err().unwrap();
        assert!(again.exit_code() == 64 && again.to_string().contains("is there already"), "{again}");
        drop(bundle);
        assert!(!path.exists());
        assert_eq!(Bundle::create(Path::new("/nonexistent/report")).err().unwrap().exit_code(), 64);
    }

    #[test]
    fn the_end_of_a_log_begins_with_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qd.log");
        fs::write(&path, "one\ntwo\n").unwrap();
        assert_eq!(tail(&path), "one\ntwo\n");
        let line = format!("{}\n", "x".repeat(99));
        fs::write(&path, line.repeat(5000)).unwrap();
        let end = tail(&path);
        assert!(end.len() <= LOG as usize && end.lines().all(|l| l.len() == 99) && end.ends_with('\n'));
        assert!(tail(&folder.path().join("none")).contains("none: "));
    }
}
