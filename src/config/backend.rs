//! Reads one backend: the keys that all kinds share, and those of its kind.
//!
//! Invariant: a backend with anything wrong in it is not returned; what is wrong has been reported.

use super::fields::Fields;
use super::read::Reader;
use super::value::Found;
use super::yaml::{Node, Value};
use super::{BackendSettings, KindSettings, OnLost, command, nearest, ssh};
use crate::backend::ShellChoice;
use crate::model::BackendKind;
use std::collections::BTreeMap;
use std::time::Duration;

/// The words of `type:`, with the other names that are understood.
const KINDS: [(&str, BackendKind); 12] = [
    ("ssh", BackendKind::Ssh),
    ("docker", BackendKind::Docker),
    ("apptainer", BackendKind::Apptainer),
    ("command", BackendKind::Command),
    ("slurm", BackendKind::Slurm),
    ("modal", BackendKind::Modal),
    ("gateway", BackendKind::Gateway),
    ("daytona", BackendKind::Daytona),
    ("singularity", BackendKind::Apptainer),
    ("podman", BackendKind::Docker),
    ("managed_modal", BackendKind::Gateway),
    ("managed-modal", BackendKind::Gateway),
];

/// What backends inherit.
pub(super) struct Common {
    pub(super) timeout: Duration,
}

/// Says why a name cannot be a backend's.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let shown = name.escape_debug();
    if name.eq_ignore_ascii_case("local") {
        return Err("\"local\" is reserved: it is always there, and is set under terminal.local".to_owned());
    }
    if name.is_empty() || name.len() > 64 {
        return Err(format!("\"{shown}\": a name has 1 to 64 characters"));
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        return Err(format!("\"{shown}\": a name has only letters, digits, \".\", \"_\" and \"-\""));
    }
    if name.starts_with(['-', '.']) {
        return Err(format!("\"{shown}\": a name begins with a letter, a digit or \"_\""));
    }
    Ok(())
}

/// Gives the kind that a word names.
pub(super) fn kind_of(word: &str) -> Option<BackendKind> {
    KINDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
}

/// Reads `terminal.local`.
pub(super) fn local<'r>(reader: &mut Reader<'r>, node: &'r Node, common: &Common) -> Option<BackendSettings> {
    let fields = Fields::of(node, "local", reader.problems);
    let mut settings = shared(reader, &fields, "local", KindSettings::Local, common);
    settings.slot = 0;
    fields.finish();
    Some(settings)
}

/// Reads an entry of `backends:`. Its slot is 0 unless it is given.
pub(super) fn remote<'r>(reader: &mut Reader<'r>, name: &str, id: u32, node: &'r Node, common: &Common) -> Option<BackendSettings> {
    let at = format!("backends.{name}");
    if !matches!(node.value, Value::Map(_)) {
        reader
            .problems
            .add(if node.is_null() { id } else { node.id }, format!("{at}: expected a mapping with \"type\", found {}", node.describe()));
        return None;
    }
    let fields = Fields::of(node, at, reader.problems);
    let kind = kind(reader, &fields, id)?;
    let settings = match kind {
        BackendKind::Ssh => KindSettings::Ssh(ssh::read(reader, &fields, name)),
        BackendKind::Command => KindSettings::Command(command::read(&fields, id)),
        _ => KindSettings::Later(kind),
    };
    let mut settings = shared(reader, &fields, name, settings, common);
    settings.health_interval = fields.duration("health_interval", false).unwrap_or(settings.health_interval);
    settings.connect_timeout = fields.duration("connect_timeout", false).unwrap_or(settings.connect_timeout);
    settings.on_lost = fields.choice("on_lost", &[("end", OnLost::End), ("keep", OnLost::Keep)]).unwrap_or_default();
    settings.slot = fields.whole("slot", 1..=999).unwrap_or(0);
    if let Some(node) = fields.take("sync") {
        fields.remark(node.id, "sync");
        reader.notices.push(format!("{} has no effect in this version: no files are copied", fields.name("sync")));
    }
    if matches!(settings.kind, KindSettings::Later(_)) {
        // Their keys are checked by the version that knows them.
        reader.problems.remark(id, format!("{}: backend kind {} is not in this version", fields.at, settings.kind.word()));
    } else {
        fields.finish();
    }
    Some(settings)
}

fn kind(reader: &Reader<'_>, fields: &Fields<'_>, id: u32) -> Option<BackendKind> {
    let known: Vec<&str> = KINDS.iter().take(8).map(|(word, _)| *word).collect();
    let Some(node) = fields.take("type") else {
        reader.problems.add(id, format!("{}: \"type\" is missing; expected one of {}", fields.at, known.join(", ")));
        return None;
    };
    let word = fields.word("type", node, "a kind of backend")?;
    if let Some(kind) = kind_of(word) {
        return Some(kind);
    }
    let near = nearest(word, KINDS.iter().map(|(word, _)| *word));
    let hint = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
    let message = if word == "local" {
        "local is always there: set it under terminal.local".to_owned()
    } else {
        format!("expected one of {}, found {}{hint}", known.join(", "), node.describe())
    };
    fields.wrong(node.id, "type", &message);
    None
}

/// Reads the keys that `local` and all kinds share.
fn shared<'r>(reader: &mut Reader<'r>, fields: &Fields<'r>, name: &str, kind: KindSettings, common: &Common) -> BackendSettings {
    let mut settings = BackendSettings::new(name, kind);
    settings.timeout = fields.duration("timeout", false).unwrap_or(common.timeout);
    if let Some(cwd) = cwd(fields, &settings.kind) {
        settings.cwd = cwd;
    }
    settings.snapshot = fields.flag("snapshot").unwrap_or(true);
    // Accepted without effect: every session keeps its state.
    fields.flag("persistent_shell");
    let shells = [("auto", ShellChoice::Auto), ("bash", ShellChoice::Bash), ("sh", ShellChoice::Sh)];
    settings.shell = fields.choice("shell", &shells).unwrap_or_default();
    settings.env = env(reader, fields);
    settings.forward_env = names(fields, "forward_env", is_variable, "a variable's name");
    settings.tags = names(fields, "tags", |tag| check_name(tag).is_ok(), "letters, digits, \".\", \"_\" and \"-\"");
    if let Some(node) = fields.take("mode") {
        let modes = ["auto", "ask", "policy", "read-only", "paused"].map(|mode| (mode, mode));
        if let Some(mode) = fields.choice("mode", &modes).filter(|mode| *mode != "auto") {
            fields.remark(node.id, "mode");
            let all = "agents' commands run there without asking";
            reader.notices.push(format!("{}: \"{mode}\" has no effect in this version: {all}", fields.name("mode")));
        }
    }
    settings
}

fn cwd(fields: &Fields<'_>, kind: &KindSettings) -> Option<String> {
    let node = fields.take_even_null("cwd")?;
    match &node.value {
        // A bare ~ is YAML's word for nothing, and means home here. An empty value is not given.
        Value::Scalar { raw, .. } if raw == "~" => Some("~".to_owned()),
        _ if node.is_null() => None,
        _ => {
            let cwd = fields.word("cwd", node, "a directory")?;
            let local = matches!(kind, KindSettings::Local);
            let there = cwd == "." && local || cwd == "~" || cwd.starts_with("~/") || cwd.starts_with('/');
            if !there {
                let dot = if local { ", \".\" (the caller's directory)" } else { "" };
                fields.wrong(node.id, "cwd", &format!("expected an absolute path, ~, ~/...{dot}, found {}", node.describe()));
                return None;
            }
            Some(cwd.to_owned())
        }
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn names(fields: &Fields<'_>, key: &'static str, legal: impl Fn(&str) -> bool, expected: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (id, name) in fields.list(key).unwrap_or_default() {
        if !legal(name) {
            fields.wrong(id, key, &format!("expected {expected}, found \"{}\"", name.escape_debug()));
        } else if !names.iter().any(|have| have == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Reads `env:`. No message shows a value.
fn env<'r>(reader: &mut Reader<'r>, fields: &Fields<'r>) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let Some(node) = fields.take("env") else { return env };
    let entries = Fields::of(node, fields.name("env"), reader.problems);
    for (key, node) in entries.all() {
        if !is_variable(&key.name) {
            reader.problems.add(key.id, format!("{}: \"{}\" is not a variable's name", entries.at, key.name.escape_debug()));
            continue;
        }
        let text = match &node.value {
            Value::Scalar { raw, .. } if !raw.contains('\0') => {
                if node.is_null() {
                    ""
                } else {
                    raw.as_str()
                }
            }
            _ => {
                entries.wrong(node.id, &key.name, "expected a text without NUL");
                continue;
            }
        };
        match reader.secrets.follow(text) {
            Ok(Found::Plain) => {
                env.insert(key.name.clone(), text.to_owned());
            }
            Ok(Found::Secret(secret)) => {
                reader.hidden.push(secret.clone());
                env.insert(key.name.clone(), secret);
            }
            Ok(Found::Unset(variable)) => {
                let left_out = format!("{}: {variable} is not set in the environment: left out", entries.name(&key.name));
                reader.notices.push(left_out);
            }
            Err(why) => entries.wrong(node.id, &key.name, &why),
        }
    }
    env
}
