//! From the tree of a config to a whole [`Config`]: the top and the `terminal:` block.
//!
//! Invariant: defaults are filled in here and nowhere else.

use super::backend::{self, Common};
use super::error::Problems;
use super::fields::Fields;
use super::value::{Secrets, parse_duration};
use super::yaml::{Kind, Node, Value};
use super::{BackendSettings, Config, Limits, Osc, UiSettings, nearest};
use crate::paths::Vars;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The levels of the log file.
const LEVELS: [(&str, &str); 6] =
    [("off", "off"), ("error", "error"), ("warn", "warn"), ("info", "info"), ("debug", "debug"), ("trace", "trace")];

/// What reading needs beside the tree.
pub(super) struct Reader<'r> {
    pub(super) problems: &'r Problems,
    pub(super) secrets: Secrets<'r>,
    pub(super) notices: Vec<String>,
    /// Values of secrets that were followed, to be kept out of logs.
    pub(super) hidden: Vec<String>,
}

impl<'r> Reader<'r> {
    /// Reads a tree of the new form.
    pub(super) fn config(&mut self, root: &'r Node) -> Config {
        let mut config = Config::default();
        let top = Fields::of(root, "", self.problems);
        if let Some(node) = top.take("terminal") {
            self.terminal(node, &mut config);
        } else {
            self.environment(&mut config, &BTreeSet::new());
        }
        if let Some(node) = top.take("ui") {
            config.ui = ui(node, self.problems);
        }
        if let Some(node) = top.take("keys") {
            config.keys = keys(node, self.problems);
        }
        if let Some(node) = top.take("redact") {
            redact(node, self.problems, &mut config.redact.names);
        }
        if let Some(node) = top.take("limits") {
            config.limits = limits(node, self.problems);
        }
        if top.take("client_env").is_some() {
            config.client_env = top.list("client_env").unwrap_or_default().into_iter().map(|(_, name)| name.to_owned()).collect();
        }
        if let Some(node) = top.take("idle_exit") {
            config.idle_exit = match &node.value {
                Value::Scalar { kind: Kind::Bool(false), .. } => None,
                _ if node.word() == Some("never") => None,
                _ => top.duration_of("idle_exit", node, false).or(config.idle_exit),
            };
        }
        if let Some(level) = top.choice("log_level", &LEVELS) {
            level.clone_into(&mut config.log_level);
        }
        for name in ["agents", "guards"] {
            if let Some(node) = top.take(name) {
                top.remark(node.id, name);
            }
        }
        // `x-...` is a place for anchors.
        top.finish_except("x-");
        config.redact.values = std::mem::take(&mut self.hidden);
        config.notices = std::mem::take(&mut self.notices);
        config
    }

    fn terminal(&mut self, node: &'r Node, config: &mut Config) {
        let fields = Fields::of(node, "terminal", self.problems);
        if let Some(timeout) = fields.duration("timeout", false) {
            config.timeout = timeout;
        }
        if let Some(max) = fields.duration("max_foreground", false) {
            config.max_foreground = max;
        }
        if let Some(lifetime) = fields.duration("lifetime_seconds", false) {
            config.lifetime = lifetime;
        }
        for name in ["sandbox_dir", "persist_threshold"] {
            if let Some(node) = fields.take(name) {
                fields.remark(node.id, name);
            }
        }
        // Accepted without effect: every session keeps its state.
        fields.flag("persistent_shell");
        let mut explicit = BTreeSet::new();
        if let Some(node) = fields.take("local") {
            let common = Common { timeout: config.timeout };
            if node.get("timeout").is_some() {
                explicit.insert("local".to_owned());
            }
            if let Some(local) = backend::local(self, node, &common)
                && let Some(first) = config.backends.first_mut()
            {
                *first = local;
            }
        } else if let Some(first) = config.backends.first_mut() {
            first.timeout = config.timeout;
        }
        if let Some(node) = fields.take("backends") {
            self.backends(node, config, &mut explicit);
        }
        self.environment(config, &explicit);
        if let Some(node) = fields.take("default_backend")
            && let Some(name) = fields.word("default_backend", node, "a backend's name")
        {
            let names: Vec<&str> = config.backends.iter().map(|backend| backend.name.as_str()).collect();
            // A backend that is there but wrong is not unknown.
            let written = fields.has("backends", name);
            if !names.contains(&name) && !written {
                let hint = nearest(name, names.iter().copied()).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
                let message = format!("no backend is named \"{}\"; known: {}{hint}", name.escape_debug(), names.join(", "));
                fields.wrong(node.id, "default_backend", &message);
            }
            name.clone_into(&mut config.default_backend);
        }
        fields.finish();
    }

    fn backends(&mut self, node: &'r Node, config: &mut Config, explicit: &mut BTreeSet<String>) {
        let fields = Fields::of(node, "backends", self.problems);
        let mut slots: BTreeMap<u32, u32> = BTreeMap::new();
        let mut added: Vec<(BackendSettings, bool)> = Vec::new();
        for (key, node) in fields.all() {
            if let Err(why) = backend::check_name(&key.name) {
                self.problems.add(key.id, format!("backends: {why}"));
                continue;
            }
            let common = Common { timeout: config.timeout };
            let Some(settings) = backend::remote(self, &key.name, key.id, node, &common) else { continue };
            if node.get("timeout").is_some_and(|timeout| !timeout.is_null()) {
                explicit.insert(key.name.clone());
            }
            let slot = node.get("slot").filter(|_| settings.slot != 0);
            if let Some(slot) = slot {
                if let Some(first) = slots.get(&settings.slot) {
                    self.problems.add_second(slot.id, *first, format!("backends.{}.slot: {} is taken", key.name, settings.slot));
                } else {
                    slots.insert(settings.slot, slot.id);
                }
            }
            added.push((settings, slot.is_some()));
        }
        let mut next = 1;
        for (settings, fixed) in &mut added {
            if !*fixed {
                while slots.contains_key(&next) {
                    next += 1;
                }
                settings.slot = next;
                next += 1;
            }
        }
        config.backends.extend(added.into_iter().map(|(settings, _)| settings));
        config.backends.sort_by_key(|backend| backend.slot);
    }

    /// Applies the variables that are honoured as the peer does: they win over the file's general value, not over a
    /// backend's own.
    fn environment(&mut self, config: &mut Config, explicit: &BTreeSet<String>) {
        if let Some(timeout) = self.seconds("TERMINAL_TIMEOUT") {
            config.timeout = timeout;
            for backend in config.backends.iter_mut().filter(|backend| !explicit.contains(&backend.name)) {
                backend.timeout = timeout;
            }
        }
        if let Some(lifetime) = self.seconds("TERMINAL_LIFETIME_SECONDS") {
            config.lifetime = lifetime;
        }
        if let Some(max) = self.seconds("TERMINAL_MAX_FOREGROUND_TIMEOUT") {
            config.max_foreground = max;
        }
    }

    fn seconds(&self, name: &str) -> Option<Duration> {
        let vars: &Vars = self.secrets.vars;
        let text = vars.get(name)?.to_string_lossy();
        match parse_duration(&text) {
            Ok(duration) if duration > Duration::ZERO => Some(duration),
            Ok(_) => {
                self.problems.environment(format!("{name}: expected more than 0"));
                None
            }
            Err(expected) => {
                self.problems.environment(format!("{name}: {expected}, found \"{}\"", text.escape_debug()));
                None
            }
        }
    }
}

/// The words for a notification's escape sequence.
pub(super) const OSC: [(&str, Osc); 3] = [("off", Osc::Off), ("9", Osc::Nine), ("777", Osc::SevenSevenSeven)];

/// Reads a program and its arguments. It is run as it stands, through no shell, so the program has a name.
fn on_alert(fields: &Fields<'_>) -> Vec<String> {
    let words = fields.list("on_alert").unwrap_or_default();
    if let Some((id, _)) = words.first().filter(|(_, program)| program.trim().is_empty()) {
        fields.wrong(*id, "on_alert", "expected a program and its arguments, found an empty text");
        return Vec::new();
    }
    words.into_iter().map(|(_, word)| word.to_owned()).collect()
}

fn ui(node: &Node, problems: &Problems) -> UiSettings {
    let fields = Fields::of(node, "ui", problems);
    let default = UiSettings::default();
    let ui = UiSettings {
        ascii: fields.flag("ascii").unwrap_or(default.ascii),
        fleet: fields.text("fleet").map(str::to_owned),
        mouse: fields.flag("mouse").unwrap_or(default.mouse),
        leader: fields.text("leader").map(str::to_owned),
        bell: fields.flag("bell").unwrap_or(default.bell),
        osc: fields.choice("osc", &OSC).unwrap_or(default.osc),
        on_alert: on_alert(&fields),
    };
    fields.finish();
    ui
}

/// Reads the key map: an action has a key, several, or `false` for none; a mapping below is a context, joined with a dot.
fn keys(node: &Node, problems: &Problems) -> BTreeMap<String, Vec<String>> {
    let mut map = BTreeMap::new();
    collect_keys(node, "keys", "", problems, &mut map);
    map
}

fn collect_keys(node: &Node, at: &str, prefix: &str, problems: &Problems, map: &mut BTreeMap<String, Vec<String>>) {
    let fields = Fields::of(node, at, problems);
    for (key, node) in fields.all() {
        let action = format!("{prefix}{}", key.name);
        match &node.value {
            Value::Map(_) if prefix.is_empty() => {
                collect_keys(node, &format!("{at}.{}", key.name), &format!("{action}."), problems, map);
            }
            Value::Scalar { kind: Kind::Bool(false), .. } => {
                map.insert(action, Vec::new());
            }
            Value::Scalar { kind: Kind::Null | Kind::Bool(true), .. } | Value::Map(_) => {
                fields.wrong(node.id, &key.name, &format!("expected a key, a list of keys, or false, found {}", node.describe()));
            }
            _ => {
                let keys = fields.list_of(&key.name, node).into_iter().map(|(_, key)| key.to_owned()).collect();
                map.insert(action, keys);
            }
        }
    }
}

/// Reads `redact:`: names to add to the list that is built in, and names of it to leave out. A plain list adds.
fn redact(node: &Node, problems: &Problems, names: &mut Vec<String>) {
    if matches!(node.value, Value::List(_)) {
        let root = Fields::of_nothing("", problems);
        return add_names(names, root.list_of("redact", node));
    }
    let fields = Fields::of(node, "redact", problems);
    if fields.flag("defaults") == Some(false) {
        names.clear();
    }
    let keep = fields.list("keep").unwrap_or_default();
    names.retain(|name| !keep.iter().any(|(_, kept)| name == kept));
    add_names(names, fields.list("names").unwrap_or_default());
    fields.finish();
}

fn add_names(names: &mut Vec<String>, more: Vec<(u32, &str)>) {
    for (_, name) in more {
        if !names.iter().any(|have| have == name) {
            names.push(name.to_owned());
        }
    }
}

fn limits(node: &Node, problems: &Problems) -> Limits {
    let fields = Fields::of(node, "limits", problems);
    let default = Limits::default();
    let limits = Limits {
        log_bytes: fields.size("log_bytes").unwrap_or(default.log_bytes),
        max_output_bytes: fields.size("max_output_bytes").unwrap_or(default.max_output_bytes),
        log_days: fields.whole("log_days", 0..=36_500).unwrap_or(default.log_days),
        logs_bytes: fields.size("logs_bytes").unwrap_or(default.logs_bytes),
        ended_kept: fields.whole("ended_kept", 0..=1_000_000).map_or(default.ended_kept, |kept| kept as usize),
        ended_for: fields.duration("ended_for", true).unwrap_or(default.ended_for),
        background: fields.whole("background", 1..=10_000).map_or(default.background, |most| most as usize),
    };
    fields.finish();
    limits
}
