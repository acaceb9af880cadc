//! How a backend's machine is reached, looked up anew for every attempt: our own config over the ssh_config, and every machine in
//! between in the same way.
//!
//! Invariant: a machine in between is reached by what the ssh_config says of it, never by the backend's own keys; only that its
//! host key must be known is demanded of all of them.

use super::config::{self, Facts, Found, Here, Proxy, Question};
use super::desk::Desk;
use super::target::{self, Target, Via};
use crate::backend::local::ClientEnv;
use crate::backend::{BackendError, ErrorKind};
use crate::config::{BackendSettings, HostKeyPolicy, HostParts, SshSettings};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

/// Machines in between at most: a config that leads in a circle ends here.
const MOST_HOPS: usize = 8;

/// Where a backend's machine is, as far as the settings tell.
#[derive(Clone)]
pub(super) struct Route {
    settings: BackendSettings,
    ssh: SshSettings,
    client_env: ClientEnv,
    /// Who is asked, at every machine on the way.
    desk: Arc<Desk>,
    here: Here,
    /// The OpenSSH client that knows what the ssh_config means.
    client: PathBuf,
}

impl Route {
    /// Takes the settings. `client_env` has the variables that ssh_config may name.
    pub(super) fn new(settings: &BackendSettings, ssh: &SshSettings, client_env: ClientEnv) -> Self {
        let (settings, ssh) = (settings.clone(), ssh.clone());
        Self { settings, ssh, client_env, desk: Arc::default(), here: target::here(), client: PathBuf::from("ssh") }
    }

    /// The same with who is asked.
    pub(super) fn with_desk(self, desk: Arc<Desk>) -> Self {
        Self { desk, ..self }
    }

    /// Who is asked, and what was kept.
    pub(super) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// The same with another OpenSSH client.
    #[cfg(test)]
    pub(super) fn with_client(self, client: &str) -> Self {
        Self { client: client.into(), ..self }
    }

    /// The address as far as the settings tell it.
    pub(super) fn address(&self) -> String {
        self.ssh.address()
    }

    /// Looks it up. Cancel safe: nothing is left running.
    pub(super) async fn target(&self) -> Result<Target, BackendError> {
        let variables = self.client_env.read().unwrap_or_else(PoisonError::into_inner).clone();
        let here = Here { variables, ..self.here.clone() };
        self.resolve(&here, self.ssh.clone(), None, 0).await
    }

    /// Looks up one machine, and those before it: `before` when they are named already, else those that the ssh_config names.
    fn resolve<'a>(
        &'a self,
        here: &'a Here,
        ssh: SshSettings,
        before: Option<String>,
        depth: usize,
    ) -> BoxFuture<'a, Result<Target, BackendError>> {
        async move {
            let (user, port, jump) = (ssh.user.as_deref(), ssh.port, before.as_deref());
            let question = Question { host: &ssh.host, user, port, jump, file: &ssh.ssh_config };
            let found = config::look_up(&self.client, &question, here).await?;
            let (mut target, facts) = self.refined(&ssh, &found, here, depth > 0).await?;
            let shown = target.shown();
            let wrong = |why: String| BackendError::new(ErrorKind::Config, format!("the way to {shown} is not clear: {why}"));
            let hops = match &found.proxy {
                Proxy::None => return Ok(target),
                Proxy::Command(command) => {
                    harmless(&target).map_err(wrong)?;
                    target.via = Via::Command(facts.expand(command, config::OF_PROXIES).map_err(wrong)?);
                    return Ok(target);
                }
                Proxy::Jump(text) => facts.expand(text, config::OF_PROXIES).map_err(wrong)?,
            };
            let (before, last) = hops.rsplit_once(',').map_or((None, hops.as_str()), |(before, last)| (Some(before.to_owned()), last));
            let last = config::jump(last).map_err(wrong)?;
            if depth >= MOST_HOPS {
                return Err(wrong(format!("ProxyJump leads in a circle, or over more than {MOST_HOPS} machines"))
                    .with_fix("check ProxyJump in the ssh_config: `Host *` holds for the jump host too"));
            }
            let hop = self.resolve(here, self.hop(last), before, depth + 1).await?;
            target.via = Via::Jump(Box::new(hop));
            Ok(target)
        }
        .boxed()
    }

    /// The target as settings and ssh_config together tell it. Names of accounts may be looked up, which may take a while.
    async fn refined(&self, ssh: &SshSettings, found: &Found, here: &Here, hop: bool) -> Result<(Target, Facts), BackendError> {
        let (me, ssh, found, here) = (self.clone(), ssh.clone(), found.clone(), here.clone());
        let work = move || {
            let mut target =
                Target::new(&me.settings, &with_account(&ssh, &found, &here), me.client_env.clone()).with_desk(me.desk.clone());
            target.hop = hop;
            let facts = target.refine(&ssh, &found, &here, &me.settings)?;
            Ok((target, facts))
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|e| Err(BackendError::new(ErrorKind::Internal, format!("looking up {}: {e}", self.ssh.host))))
    }

    /// The settings of a machine in between.
    fn hop(&self, parts: HostParts) -> SshSettings {
        SshSettings {
            host: parts.host,
            user: parts.user,
            port: parts.port,
            host_key: self.ssh.host_key.filter(|policy| *policy == HostKeyPolicy::Strict),
            ssh_config: self.ssh.ssh_config.clone(),
            ..SshSettings::default()
        }
    }
}

/// Whether the names that a shell is to see hold nothing that it would take for its own; OpenSSH refuses the same.
fn harmless(target: &Target) -> Result<(), String> {
    let bad = |c: char| "'`\"$\\;&<>|(){}".contains(c) || c.is_whitespace() || c.is_control();
    match [&target.host, &target.alias, &target.user].into_iter().find(|name| name.contains(bad) || name.starts_with('-')) {
        Some(name) => Err(format!("`{}` cannot be handed to a ProxyCommand", name.escape_debug())),
        None => Ok(()),
    }
}

/// The same with the account filled in, so that nobody needs to look for it.
fn with_account(ssh: &SshSettings, found: &Found, here: &Here) -> SshSettings {
    let user = ssh.user.clone().or_else(|| found.user.clone()).unwrap_or_else(|| here.name.clone());
    SshSettings { user: Some(user), ..ssh.clone() }
}
