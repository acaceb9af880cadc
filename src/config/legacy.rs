//! The old form: one backend for everything, named by `terminal.backend` or TERMINAL_ENV, and a hermes config as a whole.
//!
//! It is rewritten as a tree of the new form, whose nodes keep their places, so that everything else knows one form only.
//! Invariant: a config of the new form is never touched, and whatever is rewritten gives exactly one notice.

use super::backend::kind_of;
use super::error::Problems;
use super::yaml::{Key, Node, Value};
use crate::model::BackendKind;
use crate::paths::Vars;

/// Our own keys at the top.
const OURS: [&str; 10] = ["terminal", "ui", "keys", "agents", "guards", "redact", "limits", "client_env", "idle_exit", "log_level"];

/// Keys of `terminal:` that only the new form has.
const NEW: [&str; 3] = ["default_backend", "backends", "local"];

/// Keys of `terminal:` that both forms have.
const BOTH: [&str; 5] = ["timeout", "lifetime_seconds", "max_foreground", "persistent_shell", "sandbox_dir"];

/// Keys at the top by which a hermes config is known.
const HERMES: [&str; 38] = [
    "_config_version",
    "agent",
    "approvals",
    "attachments",
    "auxiliary",
    "browser",
    "checkpoints",
    "code_execution",
    "compression",
    "context",
    "cron",
    "custom_providers",
    "database",
    "delegation",
    "discord",
    "display",
    "fallback_model",
    "fallback_providers",
    "gateway",
    "hooks",
    "logging",
    "lsp",
    "mcp_servers",
    "memory",
    "model",
    "personalities",
    "platforms",
    "plugins",
    "privacy",
    "prompt_caching",
    "providers",
    "runtime",
    "security",
    "session_reset",
    "skills",
    "stt",
    "toolsets",
    "tts",
];

/// The variables that make up the old form, beside TERMINAL_TIMEOUT and its like, with the keys of the old form they
/// stand for.
const VARIABLES: [(&str, &str); 11] = [
    ("TERMINAL_ENV", "backend"),
    ("TERMINAL_CWD", "cwd"),
    ("TERMINAL_SSH_HOST", "ssh_host"),
    ("TERMINAL_SSH_USER", "ssh_user"),
    ("TERMINAL_SSH_PORT", "ssh_port"),
    ("TERMINAL_SSH_KEY", "ssh_key"),
    ("TERMINAL_DOCKER_IMAGE", "docker_image"),
    ("TERMINAL_SINGULARITY_IMAGE", "singularity_image"),
    ("TERMINAL_MODAL_IMAGE", "modal_image"),
    ("TERMINAL_MODAL_MODE", "modal_mode"),
    ("TERMINAL_DAYTONA_IMAGE", "daytona_image"),
];

/// Node numbers from here on stand for variables.
const FIRST_VARIABLE: u32 = u32::MAX - 100;

/// Gives the variable that a node stands for.
pub(super) fn variable(id: u32) -> Option<&'static str> {
    let index = id.checked_sub(FIRST_VARIABLE)?;
    VARIABLES.get(index as usize).map(|(name, _)| *name)
}

/// A config of the old form, rewritten.
pub(super) struct Renewed {
    pub(super) tree: Node,
    pub(super) notice: String,
}

/// Rewrites a config of the old form; none when it is of the new one.
pub(super) fn renew(root: &Node, vars: &Vars, problems: &Problems) -> Option<Renewed> {
    let Value::Map(top) = &root.value else { return None };
    let terminal = root.get("terminal").filter(|node| matches!(node.value, Value::Map(_)));
    let has = |names: &[&str]| terminal.is_some_and(|terminal| names.iter().any(|name| terminal.get(name).is_some()));
    let new_form = has(&NEW);
    let old_file = !new_form && terminal.is_some_and(is_old);
    let known = top.iter().filter(|(key, _)| HERMES.contains(&key.name.as_str())).count();
    let hermes = root.get("_config_version").is_some() || known >= 2 || (known == 1 && old_file);
    // What another program hands its children is no wish of ours when the file speaks the new form.
    let old_vars = !new_form && vars.text("TERMINAL_ENV").is_some_and(|kind| kind != "local");
    if !hermes && !old_file && !old_vars {
        return None;
    }
    let mut entries: Vec<(Key, Node)> =
        top.iter().filter(|(key, _)| key.name != "terminal" && (!hermes || OURS.contains(&key.name.as_str()))).cloned().collect();
    let (terminal, what) = if new_form {
        let terminal = terminal?;
        let (kept, ignored) = without_old_keys(terminal);
        (kept, ignored_text(&ignored))
    } else {
        let id = terminal.map_or(root.id, |terminal| terminal.id);
        let old = Old { terminal, vars, problems, id };
        old.rewrite()
    };
    entries.insert(0, (Key { id: terminal.id, name: "terminal".to_owned() }, terminal));
    let form = match (hermes, old_file) {
        (true, _) => "the config is one of hermes: only its \"terminal\" block is read",
        (false, true) => "the config has the old form with one backend",
        (false, false) => "TERMINAL_* variables name one backend in the old form",
    };
    let notice = format!("{form}{what}; \"qd config migrate\" writes the new form");
    Some(Renewed { tree: Node { id: root.id, value: Value::Map(entries) }, notice })
}

fn is_old(terminal: &Node) -> bool {
    let Value::Map(entries) = &terminal.value else { return false };
    entries.iter().any(|(key, _)| is_old_key(&key.name))
}

/// Whether a key of `terminal:` is one that only the old form has.
fn is_old_key(name: &str) -> bool {
    let prefixes = ["ssh_", "docker_", "container_", "singularity_", "modal_", "daytona_", "vercel_"];
    let others = ["backend", "env_type", "cwd", "home_mode", "degraded_mode", "sudo_password", "env_passthrough", "local_persistent"];
    prefixes.iter().any(|prefix| name.starts_with(prefix)) || others.contains(&name)
}

fn without_old_keys(terminal: &Node) -> (Node, Vec<String>) {
    let Value::Map(entries) = &terminal.value else { return (terminal.clone(), Vec::new()) };
    let (old, kept): (Vec<_>, Vec<_>) = entries.iter().cloned().partition(|(key, _)| is_old_key(&key.name));
    let ignored = old.into_iter().map(|(key, _)| key.name).collect();
    (Node { id: terminal.id, value: Value::Map(kept) }, ignored)
}

fn ignored_text(ignored: &[String]) -> String {
    if ignored.is_empty() { String::new() } else { format!("; not taken over: {}", ignored.join(", ")) }
}

/// A `terminal:` block of the old form with the variables that fill its gaps.
struct Old<'o> {
    terminal: Option<&'o Node>,
    vars: &'o Vars,
    problems: &'o Problems,
    id: u32,
}

impl Old<'_> {
    /// Gives a value of the file, else of the variable that stands for it.
    fn get(&self, name: &str) -> Option<Node> {
        let empty = |node: &&Node| node.is_null() || node.word() == Some("");
        if let Some(node) = self.terminal.and_then(|terminal| terminal.get(name)).filter(|node| !empty(node)) {
            return Some(node.clone());
        }
        let index = VARIABLES.iter().position(|(_, key)| *key == name)?;
        let (variable, _) = VARIABLES.get(index)?;
        let value = self.vars.text(variable)?;
        Some(Node::text(FIRST_VARIABLE + u32::try_from(index).unwrap_or(0), value))
    }

    /// Gives the `terminal:` block of the new form, and what to say about it.
    fn rewrite(&self) -> (Node, String) {
        let mut entries: Vec<(&str, Node)> = Vec::new();
        let terminal = |name: &str| self.terminal.and_then(|terminal| terminal.get(name)).filter(|node| !node.is_null());
        for name in BOTH {
            entries.extend(terminal(name).map(|node| (name, node.clone())));
        }
        let named = self.get("backend").or_else(|| self.get("env_type"));
        let word = named.as_ref().and_then(Node::word).unwrap_or("local").to_owned();
        let place = named.as_ref().map_or(self.id, |node| node.id);
        let managed = self.get("modal_mode").is_some_and(|mode| mode.word() == Some("managed"));
        let mut used: Vec<&str> = vec!["backend", "env_type", "cwd", "modal_mode"];
        let mut what = String::new();
        if word == "local" {
            if let Some(cwd) = self.local_cwd() {
                entries.push(("local", Node::map(cwd.id, vec![("cwd", cwd)])));
            }
        } else if let Some(kind) = kind_of(&word) {
            let kind = if kind == BackendKind::Modal && managed { BackendKind::Gateway } else { kind };
            let name = kind.as_str();
            let mut backend = vec![("type", Node::text(place, name))];
            backend.extend(self.remote_cwd().map(|cwd| ("cwd", cwd)));
            self.kind_keys(kind, &word, place, &mut backend, &mut used);
            entries.push(("default_backend", Node::text(place, name)));
            entries.push(("backends", Node::map(place, vec![(name, Node::map(place, backend))])));
            what = format!(", read as backend \"{name}\"");
        } else {
            let found = named.as_ref().map_or_else(String::new, Node::describe);
            let expected = "expected local, ssh, docker, singularity, modal or daytona";
            self.problems.add(place, format!("terminal.backend: {expected}, found {found}"));
        }
        what.push_str(&ignored_text(&self.not_used(&used)));
        (Node::map(self.id, entries), what)
    }

    /// The peer's words for "where it was started" mean the caller's directory.
    fn local_cwd(&self) -> Option<Node> {
        let cwd = self.get("cwd")?;
        match cwd.word() {
            Some("auto" | "cwd") => Some(Node::text(cwd.id, ".")),
            _ => Some(cwd),
        }
    }

    fn remote_cwd(&self) -> Option<Node> {
        self.get("cwd").filter(|cwd| !matches!(cwd.word(), Some("." | "auto" | "cwd")))
    }

    fn kind_keys<'k>(&self, kind: BackendKind, word: &str, place: u32, backend: &mut Vec<(&'k str, Node)>, used: &mut Vec<&'k str>) {
        let keys: &[(&str, &str)] = match kind {
            BackendKind::Ssh => &[("ssh_host", "host"), ("ssh_user", "user"), ("ssh_port", "port"), ("ssh_key", "key")],
            BackendKind::Docker => &[
                ("docker_image", "image"),
                ("docker_volumes", "volumes"),
                ("docker_env", "env"),
                ("docker_forward_env", "forward_env"),
                ("docker_extra_args", "extra_args"),
                ("docker_run_as_host_user", "run_as_host_user"),
                ("docker_network", "network"),
            ],
            BackendKind::Apptainer => &[("singularity_image", "image")],
            BackendKind::Modal => &[("modal_image", "image")],
            BackendKind::Daytona => &[("daytona_image", "image")],
            _ => &[],
        };
        let sizes =
            [("container_cpu", "cpu"), ("container_memory", "memory"), ("container_disk", "disk"), ("container_persistent", "persist")];
        let sizes = if kind == BackendKind::Ssh { &[] } else { sizes.as_slice() };
        for (old, new) in keys.iter().chain(sizes) {
            used.push(old);
            backend.extend(self.get(old).map(|node| (*new, node)));
        }
        if kind == BackendKind::Ssh && self.get("ssh_host").is_none() {
            let missing = "the host is missing: give \"ssh_host\" or TERMINAL_SSH_HOST";
            self.problems.add(place, format!("terminal.backend: {word}, but {missing}"));
        }
    }

    /// Gives the keys of the file that say something and have no counterpart.
    fn not_used(&self, used: &[&str]) -> Vec<String> {
        let Some(Node { value: Value::Map(entries), .. }) = self.terminal else { return Vec::new() };
        let said = |node: &Node| !node.is_null() && node.word() != Some("");
        let others =
            entries.iter().filter(|(key, node)| !used.contains(&key.name.as_str()) && !BOTH.contains(&key.name.as_str()) && said(node));
        others.map(|(key, _)| key.name.clone()).collect()
    }
}
