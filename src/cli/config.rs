//! `qd config`: checks, shows, finds and migrates the config file. It needs no daemon.
//!
//! Invariant: it only reads, but for `migrate --write`, which leaves the old file beside the new one.

use super::args::{ConfigArgs, ConfigCommand, Global};
use super::caller;
use super::failure::Failure;
use super::safe;
use super::screen::Screen;
use crate::config::{self, ConfigError, Migrated, Sources};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What the old file is called beside the new one.
const OLD: &str = ".old";

/// Checks, shows, finds or migrates.
pub(crate) fn run(global: &Global, args: &ConfigArgs, screen: &Screen) -> Result<u8, Failure> {
    let sources = Sources::from_env(caller::config(global)?);
    match args.command {
        ConfigCommand::Check => screen.print(&safe::lines(&config::check(&sources)?))?,
        ConfigCommand::Show => screen.print(&safe::lines(&config::show(&config::load(&sources)?)))?,
        ConfigCommand::Path => path(&sources, screen)?,
        ConfigCommand::Migrate(how) => migrate(&sources, how.write, screen)?,
    }
    Ok(0)
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Config(error.to_string())
    }
}

/// The path alone goes to stdout, so that a script can use it; why it is that one goes to stderr.
fn path(sources: &Sources, screen: &Screen) -> Result<(), Failure> {
    let which = config::which_file(sources).ok_or_else(no_home)?;
    let why = match which.by {
        "default" => "it is where a config is looked for when none is named".to_owned(),
        by => format!("it is named by {by}"),
    };
    let there = if which.exists { "" } else { "; there is no such file, so only local is there" };
    // A file that somebody named must be there.
    let there = if !which.exists && which.by != "default" { "; there is no such file" } else { there };
    screen.print(&format!("{}\n", which.path.display()))?;
    screen.say(&format!("{why}{there}"));
    Ok(())
}

fn migrate(sources: &Sources, write: bool, screen: &Screen) -> Result<(), Failure> {
    let Migrated { text, changed } = config::migrate(sources)?;
    let path = config::which_file(sources).ok_or_else(no_home)?.path;
    if !changed {
        screen.say(&format!("{} is in the present form; nothing is to be done", path.display()));
        return if write { Ok(()) } else { screen.print(&text) };
    }
    if !write {
        screen.print(&text)?;
        screen.say(&format!("nothing was written; qd config migrate --write puts this into {}", path.display()));
        return Ok(());
    }
    let old =
        replace(&path, &text).map_err(|(what, e)| Failure::Internal(format!("failed to {what}: {e}; {} is as it was", path.display())))?;
    let beside = old.map_or(String::new(), |old| format!("; the old one is {}", old.display()));
    screen.say(&format!("{} is in the present form now{beside}", path.display()));
    Ok(())
}

fn no_home() -> Failure {
    Failure::Config("no home folder is known, so there is no place for a config: set HOME, or name a file with --config".into())
}

/// Puts a text into a file in one step, and keeps the old file beside it; gives its path when there was one.
fn replace(path: &Path, text: &str) -> Result<Option<PathBuf>, (String, io::Error)> {
    // A link stays a link: what it leads to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let beside = |end: &str| {
        let mut name = path.clone().into_os_string();
        name.push(end);
        PathBuf::from(name)
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| (format!("make the folder {}", folder.display()), e))?;
    }
    let fresh = beside(&format!(".new-{}", std::process::id()));
    let written = File::options().write(true).create_new(true).mode(0o600).open(&fresh).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let done = written.map_err(|e| (format!("write {}", fresh.display()), e)).and_then(|()| {
        let old = beside(OLD);
        let kept = match fs::hard_link(&path, &old) {
            Ok(()) => Some(old),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err((format!("keep the old file as {}", old.display()), e)),
        };
        fs::rename(&fresh, &path).map_err(|e| (format!("replace {}", path.display()), e))?;
        Ok(kept)
    });
    if done.is_err() {
        // The failure that is told is the first one.
        drop(fs::remove_file(&fresh));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn replacing_keeps_the_old_file_and_never_overwrites_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/config.yaml");
        assert_eq!(replace(&path, "one").unwrap(), None);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let old = replace(&path, "two").unwrap().unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap(), fs::read_to_string(&old).unwrap()), ("two".into(), "one".into()));
        let (what, error) = replace(&path, "three").unwrap_err();
        assert!(what.contains(".old") && error.kind() == io::ErrorKind::AlreadyExists, "{what} {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2, "nothing of ours is left");
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.yaml"), folder.path().join("link.yaml"));
        fs::write(&real, "one").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        replace(&link, "two").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "two");
    }
}
