//! Logs in: configured keys, or the agent and the default key files.
//!
//! Invariant: each key is offered once, a dead connection is never called a refused login, and nothing asks a person: what
//! needs one (a passphrase, a second factor) ends with an error that says so.

use super::agent::{self, Identity};
use super::handler::Events;
use super::known_hosts::fingerprint;
use super::link::LinkState;
use super::target::{Agent, Target};
use crate::backend::{BackendError, ErrorKind};
use russh::client::{AuthResult, Handle};
use russh::keys::{HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey, decode_secret_key};
use russh::{MethodKind, MethodSet};
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Limit for the whole login.
const LIMIT: Duration = Duration::from_secs(30);
/// Keys offered at most: servers close the connection after six refusals, and some ban the address.
const MOST_KEYS: usize = 5;

/// One login under way.
struct Login<'a> {
    handle: &'a mut Handle<Events>,
    target: &'a Target,
    link: &'a LinkState,
    /// Keys offered, in words.
    offered: Vec<String>,
    /// The same by fingerprint, so that a key that is in a file and in the agent is offered once.
    seen: HashSet<String>,
    /// What could not be offered, in words.
    passed_over: Vec<String>,
    /// What the server would still take.
    remaining: MethodSet,
    rsa_hash: Option<Option<HashAlg>>,
    /// Whether no key was used that may want a touch.
    quiet: bool,
}

/// How one offer went.
enum Offer {
    In,
    Refused,
    /// No further key makes sense.
    Stop,
}

/// Logs in within 30 s. Tells whether that surely asked nobody anything, so that it may be done again unasked.
pub(super) async fn login(handle: &mut Handle<Events>, target: &Target, link: &LinkState) -> Result<bool, BackendError> {
    let mut login = Login {
        handle,
        target,
        link,
        offered: Vec::new(),
        seen: HashSet::new(),
        passed_over: Vec::new(),
        remaining: MethodSet::empty(),
        rsa_hash: None,
        quiet: true,
    };
    timeout(LIMIT, login.run()).await.unwrap_or_else(|_| {
        Err(BackendError::new(ErrorKind::TimedOut, format!("the login at {} did not end within {} s", target.address(), LIMIT.as_secs())))
    })
}

impl Login<'_> {
    async fn run(&mut self) -> Result<bool, BackendError> {
        let order: [bool; 2] = if self.target.keys_given { [false, true] } else { [true, false] };
        for agent in order {
            let offer = if agent { self.agent().await? } else { self.files().await? };
            match offer {
                Offer::In => return Ok(self.quiet),
                Offer::Stop => return Err(self.refused()),
                Offer::Refused => {}
            }
        }
        if self.offered.is_empty() {
            // Tells what the server would take, and gets in where it takes everybody.
            let result = self.handle.authenticate_none(&self.target.user).await;
            if let Offer::In = self.judge(result.map_err(|e| e.to_string()))? {
                return Ok(self.quiet);
            }
        }
        Err(self.refused())
    }

    /// Offers the key files.
    async fn files(&mut self) -> Result<Offer, BackendError> {
        for path in self.target.keys.clone() {
            let Some(key) = self.read(&path).await? else { continue };
            if !self.take(key.public_key(), &path.display().to_string()) {
                continue;
            }
            let hash = self.hash(key.public_key()).await;
            let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
            let result = self.handle.authenticate_publickey(&self.target.user, key).await;
            match self.judge(result.map_err(|e| e.to_string()))? {
                Offer::Refused => {}
                done => return Ok(done),
            }
        }
        Ok(Offer::Refused)
    }

    /// Reads a key file; none when it is passed over.
    async fn read(&mut self, path: &Path) -> Result<Option<PrivateKey>, BackendError> {
        let given = self.target.keys_given;
        let shown = path.display();
        let broken =
            |text: String| BackendError::new(ErrorKind::Config, text).with_fix(format!("check `key:` of backend {}", self.target.name));
        let text = match tokio::fs::read_to_string(path).await {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound && !given => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(broken(format!("the key file {shown} does not exist"))),
            Err(e) if given => return Err(broken(format!("the key file {shown} cannot be read: {e}"))),
            Err(e) => {
                self.passed_over.push(format!("{shown} ({e})"));
                return Ok(None);
            }
        };
        // Decoding may derive a key from a passphrase, which takes a while.
        let decoded = tokio::task::spawn_blocking(move || decode_secret_key(&text, None)).await;
        match decoded.map_err(|e| BackendError::new(ErrorKind::Internal, format!("reading {shown}: {e}")))? {
            Ok(key) if key.is_encrypted() => self.encrypted(path),
            Ok(key) => Ok(Some(key)),
            Err(russh::keys::Error::KeyIsEncrypted) => self.encrypted(path),
            Err(e) if given => Err(broken(format!("the key file {shown} holds no private key that is understood: {e}"))),
            Err(e) => {
                self.passed_over.push(format!("{shown} ({e})"));
                Ok(None)
            }
        }
    }

    /// A key that needs its passphrase: the agent may have it.
    fn encrypted(&mut self, path: &Path) -> Result<Option<PrivateKey>, BackendError> {
        if self.target.keys_given && self.target.agent == Agent::Nobody {
            return Err(BackendError::new(ErrorKind::Authentication, format!("the key {} needs its passphrase", path.display()))
                .with_fix(format!("`ssh-add {}` and set `agent: true` for backend {}", path.display(), self.target.name)));
        }
        self.passed_over.push(format!("{} (needs its passphrase: `ssh-add` it)", path.display()));
        Ok(None)
    }

    /// Offers what the agent has.
    async fn agent(&mut self) -> Result<Offer, BackendError> {
        let Some(socket) = self.target.agent_socket() else { return Ok(Offer::Refused) };
        let (mut client, identities) = match agent::open(&socket).await {
            Ok(agent) => agent,
            Err(e) => {
                self.passed_over.push(format!("the agent at {} ({e})", socket.display()));
                return Ok(Offer::Refused);
            }
        };
        if let Some(binding) = self.handle.agent_session_binding() {
            // Agents before OpenSSH 8.9 know nothing of it and have no keys that need it.
            if let Err(e) = client.bind_session(binding, false).await {
                tracing::debug!("the agent does not bind sessions: {e}");
            }
        }
        for identity in identities {
            let (public, what) = match &identity {
                Identity::Key(key) => (key.clone(), "agent"),
                Identity::Certificate(cert) => (PublicKey::new(cert.public_key().clone(), ""), "certificate of the agent"),
            };
            if !self.take(&public, what) {
                continue;
            }
            self.quiet &= !public.algorithm().as_str().starts_with("sk-");
            let hash = self.hash(&public).await;
            let user = &self.target.user;
            let result = match identity {
                Identity::Key(key) => self.handle.authenticate_publickey_with(user, key, hash, &mut client).await,
                Identity::Certificate(cert) => self.handle.authenticate_certificate_with(user, *cert, hash, &mut client).await,
            };
            match self.judge(result.map_err(|e| e.to_string()))? {
                Offer::Refused => {}
                done => return Ok(done),
            }
        }
        Ok(Offer::Refused)
    }

    /// Notes that a key is offered; false when it was, or when enough were.
    fn take(&mut self, key: &PublicKey, whence: &str) -> bool {
        let print = fingerprint(key);
        if self.offered.len() >= MOST_KEYS {
            self.passed_over.push(format!("{print} ({whence}: {MOST_KEYS} keys are enough)"));
            return false;
        }
        if !self.seen.insert(format!("{print} {}", whence.starts_with("certificate"))) {
            return false;
        }
        self.offered.push(format!("{} {print} ({whence})", key.algorithm()));
        true
    }

    /// The hash for an RSA key, asked for once.
    async fn hash(&mut self, key: &PublicKey) -> Option<HashAlg> {
        if !key.algorithm().is_rsa() {
            return None;
        }
        if self.rsa_hash.is_none() {
            let best = self.handle.best_supported_rsa_hash().await.ok().flatten();
            // A server that does not say is taken to know the oldest of the safe ones.
            self.rsa_hash = Some(best.unwrap_or(Some(HashAlg::Sha256)));
        }
        self.rsa_hash.flatten()
    }

    /// Judges the server's answer.
    fn judge(&mut self, result: Result<AuthResult, String>) -> Result<Offer, BackendError> {
        match result {
            Ok(AuthResult::Success) => Ok(Offer::In),
            Ok(AuthResult::Failure { partial_success: true, remaining_methods }) => Err(BackendError::new(
                ErrorKind::Authentication,
                format!("{} wants more than a key: {}", self.target.address(), list(&remaining_methods)),
            )
            .with_fix("a login with a second factor needs a person, which this version cannot ask")),
            // A dead connection looks like a refusal that leaves nothing.
            Ok(AuthResult::Failure { remaining_methods, .. }) => {
                self.alive()?;
                let stop = !remaining_methods.contains(&MethodKind::PublicKey);
                self.remaining = remaining_methods;
                Ok(if stop { Offer::Stop } else { Offer::Refused })
            }
            Err(e) => {
                self.alive()?;
                tracing::debug!("a key could not be used: {e}");
                self.passed_over.push(e);
                Ok(Offer::Refused)
            }
        }
    }

    /// An error when the connection is gone; the server giving up on us is a refusal.
    fn alive(&self) -> Result<(), BackendError> {
        if !self.handle.is_closed() && self.link.lost().is_none() {
            return Ok(());
        }
        let why = self.link.lost().map_or_else(|| "it was closed".to_owned(), |e| e.message);
        if why.contains("authentication failures") {
            return Err(self.refused());
        }
        Err(BackendError::new(ErrorKind::Unreachable, format!("the connection to {} broke during the login: {why}", self.target.address())))
    }

    fn refused(&self) -> BackendError {
        let mut text = if self.offered.is_empty() {
            format!("no key to log in with at {}", self.target.address())
        } else {
            format!("{} refused the login; keys offered: {}", self.target.address(), self.offered.join(", "))
        };
        if !self.passed_over.is_empty() {
            text.push_str(&format!("; not offered: {}", self.passed_over.join(", ")));
        }
        if !self.remaining.is_empty() {
            text.push_str(&format!("; it takes {}", list(&self.remaining)));
        }
        let banner = self.link.banner();
        if !banner.is_empty() {
            text.push_str(&format!("; it says: {banner}"));
        }
        let fix = if self.offered.is_empty() {
            format!("set `key:` for backend {}, or load a key into the ssh agent", self.target.name)
        } else {
            format!(
                "put one of these keys into ~/.ssh/authorized_keys of {} there, or set `key:` or `user:` of backend {}",
                self.target.user, self.target.name
            )
        };
        BackendError::new(ErrorKind::Authentication, text).with_fix(fix)
    }
}

fn list(methods: &MethodSet) -> String {
    let names: Vec<&str> = methods.iter().map(<&str>::from).collect();
    if names.is_empty() { "nothing else".to_owned() } else { names.join(", ") }
}
