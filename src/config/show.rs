//! The effective config as YAML, with every default filled in.
//!
//! Invariant: no secret is in it; and what is shown, but for the secrets, reads as the same config.

use super::render::render;
use super::value::show_duration;
use super::yaml::{Kind, Node, Value};
use super::{BackendSettings, Config, HostKeyPolicy, KindSettings, OnLost, SshConfig, SshSettings};
use crate::backend::ShellChoice;
use crate::model::redact::{MASK, Redactor, looks_secret, secret_names};
use std::time::Duration;

/// Shows a config as YAML, secrets masked.
pub fn show(config: &Config) -> String {
    let head = match &config.source {
        Some(path) => format!("# {}\n", path.display()),
        None if config.backends.len() > 1 => "# no config file; the backends are from the environment\n".to_owned(),
        None => "# no config file: local alone\n".to_owned(),
    };
    let mut text = head;
    for notice in &config.notices {
        text.push_str(&format!("# {}\n", notice.replace('\n', " ")));
    }
    text + &render(&tree(config))
}

fn tree(config: &Config) -> Node {
    let hidden = Hidden { config, shapes: Redactor::default() };
    let (local, remote): (Vec<&BackendSettings>, Vec<_>) = config.backends.iter().partition(|backend| backend.name == "local");
    let mut terminal = vec![
        ("default_backend", text(&config.default_backend)),
        ("timeout", duration(config.timeout)),
        ("max_foreground", duration(config.max_foreground)),
        ("lifetime_seconds", duration(config.lifetime)),
    ];
    terminal.extend(local.first().map(|local| ("local", map(hidden.shared(local)))));
    if !remote.is_empty() {
        let remote = remote.into_iter().map(|backend| (backend.name.as_str(), hidden.remote(backend))).collect();
        terminal.push(("backends", map(remote)));
    }
    let mut top = vec![("terminal", map(terminal)), ("ui", ui(config))];
    if !config.keys.is_empty() {
        let keys = config.keys.iter().map(|(action, keys)| (action.as_str(), if keys.is_empty() { flag(false) } else { list(keys) }));
        top.push(("keys", map(keys.collect())));
    }
    top.push(("redact", redact(config)));
    let limits = &config.limits;
    top.push((
        "limits",
        map(vec![
            ("log_bytes", number(limits.log_bytes)),
            ("max_output_bytes", number(limits.max_output_bytes)),
            ("log_days", number(limits.log_days)),
            ("logs_bytes", number(limits.logs_bytes)),
            ("ended_kept", number(limits.ended_kept)),
            ("ended_for", duration(limits.ended_for)),
            ("background", number(limits.background)),
        ]),
    ));
    top.push(("client_env", list(&config.client_env)));
    top.push(("idle_exit", config.idle_exit.map_or_else(|| flag(false), duration)));
    top.push(("log_level", text(&config.log_level)));
    map(top)
}

fn ui(config: &Config) -> Node {
    let mut ui = vec![("ascii", flag(config.ui.ascii)), ("mouse", flag(config.ui.mouse))];
    ui.extend(config.ui.fleet.as_ref().map(|fleet| ("fleet", text(fleet))));
    ui.extend(config.ui.leader.as_ref().map(|leader| ("leader", text(leader))));
    ui.push(("bell", flag(config.ui.bell)));
    let osc = super::read::OSC.iter().find(|(_, osc)| *osc == config.ui.osc);
    ui.extend(osc.map(|(word, _)| ("osc", text(word))));
    if !config.ui.on_alert.is_empty() {
        ui.push(("on_alert", list(&config.ui.on_alert)));
    }
    map(ui)
}

/// Shows how the list differs from the one that is built in; the whole list would bury everything else.
fn redact(config: &Config) -> Node {
    let built_in = secret_names();
    let keep: Vec<String> = built_in.iter().filter(|name| !config.redact.names.contains(name)).cloned().collect();
    let names: Vec<String> = config.redact.names.iter().filter(|name| !built_in.contains(name)).cloned().collect();
    if keep.len() == built_in.len() {
        return map(vec![("defaults", flag(false)), ("names", list(&names))]);
    }
    let mut entries = vec![("names", list(&names))];
    if !keep.is_empty() {
        entries.push(("keep", list(&keep)));
    }
    map(entries)
}

struct Hidden<'c> {
    config: &'c Config,
    shapes: Redactor,
}

impl Hidden<'_> {
    fn env(&self, name: &str, value: &str) -> Node {
        let secret = looks_secret(name) || self.config.redact.values.iter().any(|hidden| hidden == value);
        text(if secret { MASK.into() } else { self.shapes.text(value) })
    }

    fn shared<'b>(&self, backend: &'b BackendSettings) -> Vec<(&'b str, Node)> {
        let shell = match backend.shell {
            ShellChoice::Auto => "auto",
            ShellChoice::Bash => "bash",
            ShellChoice::Sh => "sh",
        };
        let mut entries = vec![
            ("cwd", text(&backend.cwd)),
            ("timeout", duration(backend.timeout)),
            ("snapshot", flag(backend.snapshot)),
            ("shell", text(shell)),
        ];
        if !backend.env.is_empty() {
            entries.push(("env", map(backend.env.iter().map(|(name, value)| (name.as_str(), self.env(name, value))).collect())));
        }
        if !backend.forward_env.is_empty() {
            entries.push(("forward_env", list(&backend.forward_env)));
        }
        if !backend.tags.is_empty() {
            entries.push(("tags", list(&backend.tags)));
        }
        entries
    }

    fn remote(&self, backend: &BackendSettings) -> Node {
        let mut entries = vec![("type", text(backend.kind.word())), ("slot", number(backend.slot))];
        match &backend.kind {
            KindSettings::Ssh(settings) => entries.extend(ssh(settings)),
            KindSettings::Command(settings) => {
                entries.push(("command", list(&settings.words)));
                if settings.same_files {
                    entries.push(("same_files", flag(true)));
                }
            }
            KindSettings::Local | KindSettings::Later(_) => {}
        }
        entries.extend(self.shared(backend));
        entries.push(("health_interval", duration(backend.health_interval)));
        entries.push(("connect_timeout", duration(backend.connect_timeout)));
        entries.push(("on_lost", text(if backend.on_lost == OnLost::Keep { "keep" } else { "end" })));
        map(entries)
    }
}

fn ssh(ssh: &SshSettings) -> Vec<(&'static str, Node)> {
    // An address with colons would read as host and port.
    let host = if ssh.host.contains(':') { format!("[{}]", ssh.host) } else { ssh.host.clone() };
    let mut entries = vec![("host", text(host))];
    entries.extend(ssh.port.map(|port| ("port", number(port))));
    entries.extend(ssh.user.as_ref().map(|user| ("user", text(user))));
    let paths = |paths: &[std::path::PathBuf]| list(&paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>());
    if !ssh.keys.is_empty() {
        entries.push(("keys", paths(&ssh.keys)));
    }
    entries.extend(ssh.agent.map(|agent| ("agent", flag(agent))));
    if !ssh.known_hosts.is_empty() {
        entries.push(("known_hosts", paths(&ssh.known_hosts)));
    }
    entries.extend(ssh.host_key.map(|policy| ("host_key", text(if policy == HostKeyPolicy::Strict { "strict" } else { "accept-new" }))));
    match &ssh.ssh_config {
        SshConfig::Usual => {}
        SshConfig::Nothing => entries.push(("ssh_config", text("none"))),
        SshConfig::File(path) => entries.push(("ssh_config", text(path.display().to_string()))),
    }
    entries
}

fn map(entries: Vec<(&str, Node)>) -> Node {
    Node::map(0, entries)
}

fn text(text: impl AsRef<str>) -> Node {
    Node::text(0, text.as_ref())
}

fn list(words: &[String]) -> Node {
    Node { id: 0, value: Value::List(words.iter().map(text).collect()) }
}

fn bare(kind: Kind, raw: impl std::fmt::Display) -> Node {
    Node { id: 0, value: Value::Scalar { kind, raw: raw.to_string() } }
}

fn number(number: impl std::fmt::Display) -> Node {
    bare(Kind::Number, number)
}

fn flag(flag: bool) -> Node {
    bare(Kind::Bool(flag), flag)
}

fn duration(duration: Duration) -> Node {
    bare(Kind::Number, show_duration(duration))
}
