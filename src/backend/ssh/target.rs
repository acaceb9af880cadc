//! Where an ssh machine is and how to get in: the settings over what the ssh_config says, with every default filled in.
//!
//! Invariant: nothing here touches the network or the disk; every path is absolute unless the person wrote it otherwise.

use super::config::{Facts, Found, Here, METHODS};
use super::desk::Desk;
use super::diary::Diary;
use crate::backend::local::ClientEnv;
use crate::backend::{BackendError, ErrorKind};
use crate::config::{BackendSettings, CONNECT_TIMEOUT, HostKeyPolicy, SshSettings};
use russh::MethodKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// A resolved target.
#[derive(Clone)]
pub(super) struct Target {
    /// The backend's name.
    pub(super) name: String,
    /// The host as the person, or the ssh_config, names it.
    pub(super) alias: String,
    /// Whether it is a machine on the way to the backend's.
    pub(super) hop: bool,
    /// Host name or address.
    pub(super) host: String,
    /// Port.
    pub(super) port: u16,
    /// Account there.
    pub(super) user: String,
    /// What is between.
    pub(super) via: Via,
    /// Whether only IPv6 (else only IPv4) addresses are used.
    pub(super) only_ipv6: Option<bool>,
    /// The address here that connections come from.
    pub(super) bind: Option<String>,
    /// Keys to offer, in order.
    pub(super) keys: Vec<PathBuf>,
    /// Whether the keys were given in our own config; then a missing one is an error.
    pub(super) keys_given: bool,
    /// Certificates to offer (`CertificateFile`), in order; one that is not there is passed over.
    pub(super) certificates: Vec<PathBuf>,
    /// Whether only `keys` and `certificates` are offered, although the agent may have more (`IdentitiesOnly`).
    pub(super) identities_only: bool,
    /// Which agent is asked.
    pub(super) agent: Agent,
    /// The ways to log in that may be tried, in their order (`PreferredAuthentications` and what allows each).
    pub(super) methods: Vec<MethodKind>,
    /// Files that tell host keys; new ones go to the first.
    pub(super) known_hosts: Vec<PathBuf>,
    /// The name by which its host keys are known instead of host and port (`HostKeyAlias`).
    pub(super) host_key_alias: Option<String>,
    /// What to do with a host that is in none.
    pub(super) host_key: HostKeyPolicy,
    /// Limit for the connection up to the key exchange.
    pub(super) connect_timeout: Duration,
    /// How long the connection may be silent before it is asked, and how many such questions may go unanswered (`ServerAlive...`).
    pub(super) alive: Option<(Duration, usize)>,
    /// Variables to ask the server for (`SetEnv`).
    pub(super) set_env: Vec<(String, String)>,
    /// The variables of the newest operator client, which tell where the agent's socket is.
    pub(super) client_env: ClientEnv,
    /// Who is asked, and what was kept.
    pub(super) desk: Arc<Desk>,
    /// Where the steps of a connection are told, when it is made to examine the way.
    pub(super) diary: Diary,
}

/// What is between here and a machine.
#[derive(Clone)]
pub(super) enum Via {
    /// The network.
    Nothing,
    /// A command, ready for the person's shell.
    Command(String),
    /// Another machine.
    Jump(Box<Target>),
}

/// Which ssh agent is asked for keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    /// None.
    Nobody,
    /// The one whose socket this variable of the operator's client names; usually `SSH_AUTH_SOCK`.
    Variable(String),
    /// The one at this socket.
    Socket(PathBuf),
}

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
            alias: ssh.host.clone(),
            hop: false,
            via: Via::Nothing,
            only_ipv6: None,
            bind: None,
            alive: None,
            set_env: Vec::new(),
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
            desk: Arc::default(),
            diary: Diary::default(),
        }
    }

    /// Takes over what the ssh_config says, as far as the settings do not say otherwise. Gives what tokens stand for.
    pub(super) fn refine(
        &mut self,
        ssh: &SshSettings,
        found: &Found,
        here: &Here,
        settings: &BackendSettings,
    ) -> Result<Facts, BackendError> {
        self.host = found.host_name.clone().unwrap_or_else(|| self.host.clone());
        self.port = ssh.port.or(found.port).unwrap_or(self.port);
        let facts = Facts {
            host: self.host.clone(),
            original: self.alias.clone(),
            port: self.port,
            user: self.user.clone(),
            alias: found.host_key_alias.clone(),
            jump: found.proxy.jump().to_owned(),
            home: here.home.clone(),
            local_user: here.name.clone(),
        };
        let shown = self.shown();
        let file = |text: &String| {
            facts.file(text, |name| here.variable(name)).map_err(|why| {
                BackendError::new(ErrorKind::Config, format!("the ssh_config of {shown} names a file that cannot be told: {why}"))
            })
        };
        let files = |texts: &[String]| texts.iter().map(file).collect::<Result<Vec<PathBuf>, BackendError>>();
        if let (true, Some(identities)) = (ssh.keys.is_empty(), &found.identities) {
            self.keys = files(identities)?;
        }
        self.certificates = files(&found.certificates)?;
        self.identities_only = found.identities_only;
        if let (true, Some(agent)) = (self.agent != Agent::Nobody, &found.agent) {
            self.agent = match agent.as_str() {
                "none" => Agent::Nobody,
                "SSH_AUTH_SOCK" => Agent::Variable(agent.clone()),
                path => match path.strip_prefix('$').filter(|name| !name.starts_with('{')) {
                    Some(name) => Agent::Variable(name.to_owned()),
                    None => Agent::Socket(file(agent)?),
                },
            };
        }
        if ssh.known_hosts.is_empty() {
            let usual = |at: usize| self.known_hosts.get(at).cloned().into_iter().collect();
            let paths =
                |given: &Option<Vec<String>>, at| given.as_ref().map_or_else(|| usual(at), |l| l.iter().map(PathBuf::from).collect());
            let files: [Vec<PathBuf>; 2] = [paths(&found.user_known_hosts, 0), paths(&found.global_known_hosts, 1)];
            self.known_hosts = files.concat();
        }
        self.host_key_alias.clone_from(&found.host_key_alias);
        self.host_key = ssh.host_key.unwrap_or(if found.strict { HostKeyPolicy::Strict } else { HostKeyPolicy::default() });
        if let (true, Some(limit)) = (settings.connect_timeout == CONNECT_TIMEOUT, found.connect_timeout) {
            self.connect_timeout = limit;
        }
        self.methods = found.methods.clone().unwrap_or_else(|| METHODS.to_vec());
        (self.alive, self.only_ipv6) = (found.alive, found.only_ipv6);
        self.bind.clone_from(&found.bind);
        self.set_env.clone_from(&found.set_env);
        Ok(facts)
    }

    /// The variables of the newest operator client.
    pub(super) fn variables(&self) -> Vec<(String, String)> {
        self.client_env.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The machine for a person: its name, and its address where that says more.
    pub(super) fn shown(&self) -> String {
        if self.alias == self.host { self.address() } else { format!("{} ({})", self.alias, self.address()) }
    }

    /// How the machine is reached, for a person: empty when there is nothing between.
    pub(super) fn through(&self) -> String {
        match &self.via {
            Via::Nothing => String::new(),
            Via::Command(_) => " through its ProxyCommand".to_owned(),
            Via::Jump(hop) => format!(" through the jump host {}", hop.shown()),
        }
    }

    /// Says of an error that it happened on the way to the backend's machine, if it did.
    pub(super) fn on_the_way(&self, e: BackendError) -> BackendError {
        if !self.hop {
            return e;
        }
        let message = format!("the jump host {} of backend {}: {}", self.alias, self.name, e.message);
        // What an error advises is about the backend's own keys; a jump host has none.
        let fix = match e.kind {
            // Unless a person is all that it lacks.
            ErrorKind::Authentication if !e.fix.as_deref().is_some_and(|fix| fix.contains("qd backends connect")) => {
                Some(format!("give {0} its User and IdentityFile in the ssh_config, until `ssh {0}` logs in", self.alias))
            }
            ErrorKind::Config => Some(format!("check {0} in the ssh_config, until `ssh {0}` logs in", self.alias)),
            ErrorKind::Unreachable | ErrorKind::TimedOut => Some(format!("check that `ssh {}` gets there", self.alias)),
            _ => e.fix,
        };
        BackendError { message, fix, ..e }
    }

    /// The same with who is asked.
    pub(super) fn with_desk(self, desk: Arc<Desk>) -> Self {
        Self { desk, ..self }
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

    /// The address for a person: `ada@gpu.lab:22`.
    pub(super) fn address(&self) -> String {
        format!("{}@{}", self.user, self.place())
    }

    /// Host and port: `gpu.lab:22`, `[fe80::1]:22`.
    pub(super) fn place(&self) -> String {
        if self.host.contains(':') { format!("[{}]:{}", self.host, self.port) } else { format!("{}:{}", self.host, self.port) }
    }
}

/// Who and where we are. May ask the system's directory of accounts.
pub(super) fn here() -> Here {
    let own_home = passwd().map(|user| user.dir).or_else(home).unwrap_or_else(|| PathBuf::from("/"));
    Here { name: account(), home: home().unwrap_or_else(|| own_home.clone()), own_home, variables: Vec::new() }
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
