//! Which file is the config, and reading it.
//!
//! Invariant: nothing here reads the process's environment but [`Sources::from_env`].

use super::error::Problems;
use super::read::Reader;
use super::value::Secrets;
use super::{Config, ConfigError, legacy, yaml};
use crate::paths::{Paths, Vars};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Where a config may come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file that the person named (`--config`).
    pub explicit: Option<PathBuf>,
    /// The environment.
    pub vars: Vars,
    /// The home folder.
    pub home: Option<PathBuf>,
}

/// The file that is the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its path; absolute unless it was named otherwise.
    pub path: PathBuf,
    /// Why this one: `--config`, `QD_CONFIG` or `default`.
    pub by: &'static str,
}

impl Chosen {
    /// Whether it must exist: it was named by somebody.
    pub fn required(&self) -> bool {
        self.by != "default"
    }
}

impl Sources {
    /// Takes the process's environment.
    pub fn from_env(explicit: Option<PathBuf>) -> Self {
        let vars = Vars::current();
        let home = vars.home();
        Self { explicit, vars, home }
    }

    /// Tells which file is the config, whether or not it is there: the one named, else `$QD_CONFIG`, else
    /// `quarterdeck/config.yaml` in the folder for configs; none when no home folder is known.
    pub fn file(&self) -> Option<Chosen> {
        if let Some(path) = &self.explicit {
            return Some(Chosen { path: path.clone(), by: "--config" });
        }
        if let Some(path) = self.vars.get("QD_CONFIG") {
            return Some(Chosen { path: PathBuf::from(path), by: "QD_CONFIG" });
        }
        let path = match &self.home {
            Some(home) if self.vars.get("HOME").is_none() && self.vars.get("XDG_CONFIG_HOME").is_none() => {
                home.join(".config/quarterdeck/config.yaml")
            }
            _ => Paths::config_default(&self.vars).ok()?,
        };
        Some(Chosen { path, by: "default" })
    }
}

impl Sources {
    /// Gives the file as an absolute path, as [`Config::source`] has it, to compare and to hand on: another process has
    /// another directory.
    pub fn absolute_file(&self) -> Option<PathBuf> {
        let path = self.file()?.path;
        Some(std::path::absolute(&path).unwrap_or(path))
    }
}

/// What reading gave, for everything that is more than the config itself.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) config: Config,
    /// What is right but has no effect in this version.
    pub(super) remarks: Vec<(Option<usize>, String)>,
}

/// Reads the config. No file means `local` alone; a file that was named must be there. Blocks on the file system.
pub fn load(sources: &Sources) -> Result<Config, ConfigError> {
    load_whole(sources).map(|loaded| loaded.config)
}

pub(super) fn load_whole(sources: &Sources) -> Result<Loaded, ConfigError> {
    match text(sources)? {
        Some((path, text)) => {
            let mut loaded = from_text(&text, Some(&path), sources)?;
            loaded.config.source = Some(std::path::absolute(&path).unwrap_or(path));
            Ok(loaded)
        }
        None => from_text("", None, sources),
    }
}

/// Gives the file's path and text; none when there is no file and none was named.
pub(super) fn text(sources: &Sources) -> Result<Option<(PathBuf, String)>, ConfigError> {
    let Some(chosen) = sources.file() else { return Ok(None) };
    match read_file(&chosen.path) {
        Ok(text) => Ok(Some((chosen.path, text))),
        Err(Unread::Missing) if !chosen.required() => Ok(None),
        Err(Unread::Missing) => {
            let message = format!("no such file (named by {})", chosen.by);
            Err(ConfigError::whole(Some(chosen.path), message))
        }
        Err(Unread::Wrong(message)) => Err(ConfigError::whole(Some(chosen.path), message)),
    }
}

/// Validates a text; `file` names it in errors.
pub(super) fn from_text(text: &str, file: Option<&Path>, sources: &Sources) -> Result<Loaded, ConfigError> {
    let file = || file.map(Path::to_owned);
    let root = yaml::parse(text).map_err(|broken| {
        let mut error = ConfigError::whole(file(), broken.message);
        error.problems.iter_mut().for_each(|problem| problem.line = broken.line);
        error
    })?;
    let problems = Problems::default();
    let renewed = legacy::renew(&root, &sources.vars, &problems);
    let (tree, notices) = match &renewed {
        Some(renewed) => (&renewed.tree, vec![renewed.notice.clone()]),
        None => (&root, Vec::new()),
    };
    let secrets = Secrets { vars: &sources.vars, home: sources.home.as_deref() };
    let mut reader = Reader { problems: &problems, secrets, notices, hidden: Vec::new() };
    let config = reader.config(tree);
    let remarks = problems.remarks(text);
    problems.into_error(file(), text)?;
    Ok(Loaded { config, remarks })
}

enum Unread {
    Missing,
    Wrong(String),
}

fn read_file(path: &Path) -> Result<String, Unread> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Unread::Missing,
        ErrorKind::NotADirectory => Unread::Missing,
        ErrorKind::PermissionDenied => Unread::Wrong("cannot be read: permission denied".to_owned()),
        _ => Unread::Wrong(format!("cannot be read: {error}")),
    };
    // A pipe would be empty for whoever reads second, and would hold up the first.
    let meta = std::fs::metadata(path).map_err(failed)?;
    if !meta.is_file() {
        let what = if meta.is_dir() { "a folder" } else { "a pipe or device" };
        return Err(Unread::Wrong(format!("expected a file, found {what}")));
    }
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(yaml::MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > yaml::MAX_BYTES {
        return Err(Unread::Wrong(format!("larger than {} MB", yaml::MAX_BYTES / 1_000_000)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(valid).filter(|byte| **byte == b'\n').count() + 1;
        Unread::Wrong(format!("not UTF-8 text (line {line})"))
    })
}
