//! Where an ssh backend is and how to get in: the settings with every default filled in.
//!
//! Invariant: nothing here touches the network or the disk; every path is absolute unless the person wrote it otherwise.

use crate::backend::local::ClientEnv;
use crate::config::{BackendSettings, HostKeyPolicy, SshSettings};
use russh::MethodKind;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

/// A resolved target.
#[derive(Clone)]
pub(super) struct Target {
    /// The backend's name.
    pub(super) name: String,
    /// Host name or address.
    pub(super) host: String,
    /// Port.
    pub(super) port: u16,
    /// Account there.
    pub(super) user: String,
    /// Keys to offer, in order.
    pub(super) keys: Vec<PathBuf>,
    /// Whether the keys were given in our own config; then a missing one is an error.
    pub(super) keys_given: bool,
    /// Certificates to offer (`CertificateFile`), in order; one that is not there is passed over.
    #[expect(dead_code, reason = "for the login to come")]
    pub(super) certificates: Vec<PathBuf>,
    /// Whether only `keys` and `certificates` are offered, although the agent may have more (`IdentitiesOnly`).
    #[expect(dead_code, reason = "for the login to come")]
    pub(super) identities_only: bool,
    /// Which agent is asked.
    pub(super) agent: Agent,
    /// The ways to log in that may be tried, in their order (`PreferredAuthentications` and what allows each).
    #[expect(dead_code, reason = "for the login to come")]
    pub(super) methods: Vec<MethodKind>,
    /// Files that tell host keys; new ones go to the first.
    pub(super) known_hosts: Vec<PathBuf>,
    /// The name by which its host keys are known instead of host and port (`HostKeyAlias`).
    pub(super) host_key_alias: Option<String>,
    /// What to do with a host that is in none.
    pub(super) host_key: HostKeyPolicy,
    /// Limit for the connection up to the key exchange.
    pub(super) connect_timeout: Duration,
    /// The variables of the newest operator client, which tell where the agent's socket is.
    pub(super) client_env: ClientEnv,
}

/// Which ssh agent is asked for keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    /// None.
    Nobody,
    /// The one whose socket this variable of the operator's client names; usually `SSH_AUTH_SOCK`.
    Variable(String),
    /// The one at this socket.
    #[expect(dead_code, reason = "for ssh_config's IdentityAgent")]
    Socket(PathBuf),
}

/// The ways to log in, in OpenSSH's order.
const METHODS: [MethodKind; 3] = [MethodKind::PublicKey, MethodKind::KeyboardInteractive, MethodKind::Password];

impl Target {
    /// Fills in the defaults.
    pub(super) fn new(settings: &BackendSettings, ssh: &SshSettings, client_env: ClientEnv) -> Self {
        let home = home();
        let in_home = |path: &Path| match (path.strip_prefix("~"), &home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.to_path_buf(),
        };
        let dot_ssh = in_home(Path::new("~/.ssh"));
        let keys_given = !ssh.keys.is_empty();
        let keys = if keys_given {
            ssh.keys.iter().map(|k| in_home(k)).collect()
        } else {
            ["id_ed25519", "id_ecdsa", "id_rsa"].iter().map(|k| dot_ssh.join(k)).collect()
        };
        let known_hosts = if ssh.known_hosts.is_empty() {
            vec![dot_ssh.join("known_hosts"), PathBuf::from("/etc/ssh/ssh_known_hosts")]
        } else {
            ssh.known_hosts.iter().map(|k| in_home(k)).collect()
        };
        Self {
            name: settings.name.clone(),
            host: ssh.host.clone(),
            port: ssh.port.unwrap_or(22),
            user: ssh.user.clone().unwrap_or_else(account),
            keys,
            keys_given,
            certificates: Vec::new(),
            identities_only: false,
            agent: if ssh.agent.unwrap_or(!keys_given) { Agent::Variable("SSH_AUTH_SOCK".to_owned()) } else { Agent::Nobody },
            methods: METHODS.to_vec(),
            known_hosts,
            host_key_alias: None,
            host_key: ssh.host_key.unwrap_or_default(),
            connect_timeout: settings.connect_timeout,
            client_env,
        }
    }

    /// A variable of the newest operator client, else of this process.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let env = self.client_env.read().unwrap_or_else(PoisonError::into_inner);
        let given = env.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        given.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
    }

    /// The socket of the agent to ask, if one is to be asked and there is one.
    pub(super) fn agent_socket(&self) -> Option<PathBuf> {
        match &self.agent {
            Agent::Nobody => None,
            Agent::Variable(name) => self.variable(name).map(PathBuf::from),
            Agent::Socket(path) => Some(path.clone()),
        }
    }

    /// Host and port by which known_hosts files know it; an alias is known without a port.
    pub(super) fn known_as(&self) -> (&str, u16) {
        self.host_key_alias.as_deref().map_or((self.host.as_str(), self.port), |alias| (alias, 22))
    }

    /// The address for a person: `ada@gpu.lab:22`.
    pub(super) fn address(&self) -> String {
        format!("{}@{}", self.user, self.place())
    }

    /// Host and port: `gpu.lab:22`, `[fe80::1]:22`.
    pub(super) fn place(&self) -> String {
        if self.host.contains(':') { format!("[{}]:{}", self.host, self.port) } else { format!("{}:{}", self.host, self.port) }
    }
}

fn home() -> Option<PathBuf> {
    match std::env::var_os("HOME") {
        Some(home) if !home.is_empty() => Some(PathBuf::from(home)),
        _ => passwd().map(|user| user.dir),
    }
}

fn passwd() -> Option<nix::unistd::User> {
    nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten()
}

/// The name of the account that runs this process.
fn account() -> String {
    passwd().map(|user| user.name).or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| "root".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ShellChoice;
    use crate::config::{KindSettings, OnLost};

    fn settings(ssh: SshSettings) -> BackendSettings {
        BackendSettings {
            name: "gpu".into(),
            slot: 1,
            kind: KindSettings::Ssh(ssh),
            cwd: "~".into(),
            timeout: Duration::from_secs(180),
            snapshot: true,
            shell: ShellChoice::Auto,
            health_interval: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            on_lost: OnLost::End,
            env: Default::default(),
            forward_env: Vec::new(),
            tags: Vec::new(),
        }
    }

    fn target(ssh: SshSettings) -> Target {
        Target::new(&settings(ssh.clone()), &ssh, ClientEnv::default())
    }

    #[test]
    fn defaults_are_those_of_openssh() {
        let t = target(SshSettings { host: "gpu.lab".into(), ..Default::default() });
        let home = home().expect("a home");
        assert_eq!(t.user, account());
        assert_eq!(t.keys[0], home.join(".ssh/id_ed25519"));
        assert!(!t.keys_given && t.agent == Agent::Variable("SSH_AUTH_SOCK".into()));
        assert_eq!(t.known_hosts[0], home.join(".ssh/known_hosts"));
        assert_eq!(t.address(), format!("{}@gpu.lab:22", account()));
    }

    #[test]
    fn configured_keys_stand_alone_and_tilde_is_home() {
        let ssh = SshSettings {
            host: "::1".into(),
            port: Some(2222),
            user: Some("ada".into()),
            keys: vec!["~/.ssh/lab".into(), "/k".into()],
            ..Default::default()
        };
        let t = target(ssh);
        assert_eq!(t.keys, vec![home().expect("a home").join(".ssh/lab"), PathBuf::from("/k")]);
        assert!(t.keys_given && t.agent == Agent::Nobody);
        assert_eq!(t.address(), "ada@[::1]:2222");
    }
}
