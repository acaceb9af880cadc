//! The values of everything that a config does not set, and how settings are shown in debug text.
//!
//! Invariant: `Config::default()` is what no config file means: `local` alone.

use super::{BackendSettings, Config, KindSettings, Limits, OnLost, Osc, RedactSettings, UiSettings};
use crate::backend::ShellChoice;
use crate::model::redact::{self, Redactor};
use crate::paths::Vars;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Longest wait for one attempt to connect, when none is set.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What an operator's client hands over when `client_env` is not set.
const CLIENT_ENV: [&str; 14] = [
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "DOCKER_*",
    "CONTAINER_HOST",
    "SLURM_CONF",
    "KRB5CCNAME",
    "MODAL_*",
    "DAYTONA_*",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "LANG",
    "LC_*",
    "COLORTERM",
    "XAUTHORITY",
];

impl Default for Config {
    fn default() -> Self {
        Self {
            source: None,
            notices: Vec::new(),
            default_backend: "local".to_owned(),
            timeout: Duration::from_secs(180),
            max_foreground: Duration::from_secs(600),
            lifetime: Duration::from_secs(300),
            backends: vec![BackendSettings::new("local", KindSettings::Local)],
            ui: UiSettings::default(),
            keys: BTreeMap::new(),
            redact: RedactSettings { names: redact::secret_names(), values: Vec::new() },
            limits: Limits::default(),
            client_env: CLIENT_ENV.map(str::to_owned).to_vec(),
            idle_exit: Some(Duration::from_secs(30 * 60)),
            log_level: "info".to_owned(),
        }
    }
}

impl Config {
    /// Gives a backend's settings by name.
    pub fn backend(&self, name: &str) -> Option<&BackendSettings> {
        self.backends.iter().find(|backend| backend.name == name)
    }

    /// Makes what takes secrets out of text: tokens of known shape, the config's own secrets, and the values that the
    /// variables on its list have in this environment.
    pub fn redactor(&self, vars: &Vars) -> Redactor {
        let listed = vars.texts().filter(|(name, _)| redact::is_listed(name, &self.redact.names)).map(|(_, value)| value);
        Redactor::new(listed.chain(self.redact.values.iter().map(String::as_str)))
    }
}

impl BackendSettings {
    /// Makes the settings of a backend of which only name and kind are known. Its slot is 0.
    pub fn new(name: impl Into<String>, kind: KindSettings) -> Self {
        let cwd = if matches!(kind, KindSettings::Local) { "." } else { "~" };
        Self {
            name: name.into(),
            slot: 0,
            kind,
            cwd: cwd.to_owned(),
            timeout: Duration::from_secs(180),
            snapshot: true,
            shell: ShellChoice::Auto,
            health_interval: Duration::from_secs(30),
            connect_timeout: CONNECT_TIMEOUT,
            on_lost: OnLost::End,
            env: BTreeMap::new(),
            forward_env: Vec::new(),
            tags: Vec::new(),
        }
    }
}

impl Default for UiSettings {
    fn default() -> Self {
        Self { ascii: false, fleet: None, mouse: true, leader: None, bell: true, osc: Osc::Off, on_alert: Vec::new() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            log_bytes: 1_000_000_000,
            max_output_bytes: 50_000,
            log_days: 7,
            logs_bytes: 5_000_000_000,
            ended_kept: 2000,
            ended_for: Duration::from_secs(30 * 60),
            // More are a mistake somewhere.
            background: 64,
        }
    }
}

impl fmt::Debug for BackendSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendSettings")
            .field("name", &self.name)
            .field("slot", &self.slot)
            .field("kind", &self.kind)
            .field("cwd", &self.cwd)
            .field("timeout", &self.timeout)
            .field("snapshot", &self.snapshot)
            .field("shell", &self.shell)
            .field("health_interval", &self.health_interval)
            .field("connect_timeout", &self.connect_timeout)
            .field("on_lost", &self.on_lost)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("forward_env", &self.forward_env)
            .field("tags", &self.tags)
            .finish()
    }
}

impl fmt::Debug for RedactSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedactSettings").field("names", &self.names).field("values", &self.values.len()).finish()
    }
}
