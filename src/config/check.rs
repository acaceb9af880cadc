//! What `qd config check`, `path` and `migrate` say.
//!
//! Invariant: pure text and values; printing is the command line's.

use super::error::Problems;
use super::render::render;
use super::sources::{Sources, from_text, load_whole, text};
use super::{Config, ConfigError, KindSettings, legacy, yaml};
use std::path::PathBuf;

/// Checks the config and describes what it comes to; the error tells everything that is wrong. Blocks on the file system.
pub fn check(sources: &Sources) -> Result<String, ConfigError> {
    let loaded = load_whole(sources)?;
    let config = &loaded.config;
    let mut out = match (&config.source, sources.file()) {
        (Some(path), _) => format!("{}: ok\n", path.display()),
        (None, Some(chosen)) => format!("{}: no such file: local alone\n", chosen.path.display()),
        (None, None) => "no config file: local alone\n".to_owned(),
    };
    for line in backends(config) {
        out.push_str(&format!("  {line}\n"));
    }
    for notice in &config.notices {
        out.push_str(&format!("note: {notice}\n"));
    }
    for (line, remark) in &loaded.remarks {
        match line {
            Some(line) => out.push_str(&format!("note: line {line}: {remark}\n")),
            None => out.push_str(&format!("note: {remark}\n")),
        }
    }
    Ok(out)
}

/// Describes each backend in a line.
fn backends(config: &Config) -> Vec<String> {
    let line = |backend: &super::BackendSettings| {
        let what = match &backend.kind {
            KindSettings::Local => "this machine".to_owned(),
            KindSettings::Ssh(ssh) => format!("ssh {}", ssh.address()),
            KindSettings::Command(command) => format!("command {}", command.words.join(" ")),
            KindSettings::Later(kind) => format!("{} (not in this version)", kind.as_str()),
        };
        let default = if backend.name == config.default_backend { " (default)" } else { "" };
        format!("{} {}{default}: {what}", backend.slot, backend.name)
    };
    config.backends.iter().map(line).collect()
}

/// What `qd config path` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhichFile {
    /// The file.
    pub path: PathBuf,
    /// Why this one: `--config`, `QD_CONFIG` or `default`.
    pub by: &'static str,
    /// Whether it is there.
    pub exists: bool,
}

/// Tells which file is the config; none when no home folder is known. Blocks on the file system.
pub fn which_file(sources: &Sources) -> Option<WhichFile> {
    let chosen = sources.file()?;
    Some(WhichFile { exists: chosen.path.exists(), path: chosen.path, by: chosen.by })
}

/// What a migration gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The config in the new form.
    pub text: String,
    /// Whether it differs from what was there: false when that had the new form already.
    pub changed: bool,
}

/// Writes the config that the sources lead to in the new form. What it gives is valid. Blocks on the file system.
pub fn migrate(sources: &Sources) -> Result<Migrated, ConfigError> {
    let (path, text) = text(sources)?.map_or((None, String::new()), |(path, text)| (Some(path), text));
    migrate_text(&text, path, sources)
}

/// Writes a config's text in the new form; `file` names it in errors.
pub fn migrate_text(text: &str, file: Option<PathBuf>, sources: &Sources) -> Result<Migrated, ConfigError> {
    // Only what is valid can be written anew; this also tells every problem with its line.
    from_text(text, file.as_deref(), sources)?;
    let root = yaml::parse(text).map_err(|broken| ConfigError::whole(file.clone(), broken.message))?;
    let Some(renewed) = legacy::renew(&root, &sources.vars, &Problems::default()) else {
        return Ok(Migrated { text: text.to_owned(), changed: false });
    };
    let head = "# Written by \"qd config migrate\"; config.example.yaml tells every key.\n";
    let text = head.to_owned() + &render(&renewed.tree);
    from_text(&text, file.as_deref(), sources)?;
    Ok(Migrated { text, changed: true })
}
