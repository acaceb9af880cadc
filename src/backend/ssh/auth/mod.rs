//! Logs in, in OpenSSH's order: keys and certificates (configured ones, the agent's, the default files), keyboard-interactive,
//! password, as many of them one after the other as the server wants.
//!
//! Invariant: each key is offered once, a dead connection is never called a refused login, and nothing that was refused is
//! tried again by itself. Where a person is needed and none is there, the login ends with an error that says so.

mod asked;
mod key_file;
mod pem;
mod plan;
mod signer;

use super::agent::{self, Identity};
use super::diary::{Answer, Step};
use super::handler::Events;
use super::known_hosts::fingerprint;
use super::link::LinkState;
use super::target::Target;
use crate::backend::{BackendError, ErrorKind};
use key_file::{KeyFile, Unusable, nobody};
use plan::{By, Candidate, Wishes};
use russh::client::{AuthResult, Handle};
use russh::keys::agent::client::AgentClient;
use russh::keys::{Certificate, HashAlg, PublicKey};
use russh::{MethodKind, MethodSet};
use signer::{SignError, Signer};
use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;

/// Limit for the whole login, the time of a person's answers not counted.
const LIMIT: Duration = Duration::from_secs(30);
/// Keys offered at most: servers close the connection after six refusals, and some ban the address.
const MOST_KEYS: usize = 5;
/// Factors that a server may want one after the other.
const MOST_FACTORS: u32 = 5;

/// One login under way.
struct Login<'a> {
    handle: &'a mut Handle<Events>,
    target: &'a Target,
    link: &'a LinkState,
    agent: Option<AgentClient<UnixStream>>,
    files: Vec<KeyFile>,
    /// Keys offered, in words.
    offered: Vec<String>,
    /// The same by fingerprint, so that a key that is in a file and in the agent is offered once.
    seen: HashSet<(String, bool)>,
    /// What could not be offered, in words.
    passed_over: Vec<String>,
    /// What is tried now, in words.
    trying: String,
    /// Other ways that were refused.
    tried: Vec<String>,
    /// What a person would have had to give.
    unasked: Option<String>,
    /// What the server would still take; none before it has said.
    remaining: Option<MethodSet>,
    /// Whether the server was asked anything but for a key.
    began: bool,
    rsa_hash: Option<Option<HashAlg>>,
    /// Whether nobody was asked anything, and no key was used that may want a touch.
    quiet: bool,
}

/// How one offer went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    In,
    /// Taken, and something more is wanted.
    Partial,
    Refused,
}

/// Logs in within 30 s, a person's time not counted. Tells whether that surely asked nobody anything, so that it may be done again
/// unasked.
pub(super) async fn login(handle: &mut Handle<Events>, target: &Target, link: &LinkState) -> Result<bool, BackendError> {
    let mut login = Login {
        handle,
        target,
        link,
        agent: None,
        files: Vec::new(),
        offered: Vec::new(),
        seen: HashSet::new(),
        passed_over: Vec::new(),
        trying: String::new(),
        tried: Vec::new(),
        unasked: None,
        remaining: None,
        began: false,
        rsa_hash: None,
        quiet: true,
    };
    let done = target.desk.person.within(LIMIT, login.run()).await;
    done.unwrap_or_else(|| {
        Err(BackendError::new(ErrorKind::TimedOut, format!("the login at {} did not end within {} s", target.address(), LIMIT.as_secs())))
    })
}

impl Login<'_> {
    async fn run(&mut self) -> Result<bool, BackendError> {
        let mut keys: VecDeque<Candidate> = self.prepare().await?.into();
        for _ in 0..MOST_FACTORS {
            match self.factor(&mut keys).await? {
                Offer::In => return Ok(self.quiet),
                Offer::Partial => {}
                Offer::Refused => return Err(self.refused()),
            }
        }
        Err(self.refused())
    }

    /// Tries for one factor, every way that the server takes and the settings allow, in the settings' order.
    async fn factor(&mut self, keys: &mut VecDeque<Candidate>) -> Result<Offer, BackendError> {
        let methods = self.target.methods.clone();
        for (at, method) in methods.iter().enumerate() {
            if self.remaining.is_none() && (at > 0 || *method != MethodKind::PublicKey) {
                "no key or answer at all".clone_into(&mut self.trying);
                // Tells what the server would take, and gets in where it takes everybody.
                let result = self.handle.authenticate_none(&self.target.user).await;
                match self.judge(result.map_err(|e| e.to_string()))? {
                    Offer::Refused => {}
                    done => return Ok(done),
                }
            }
            if !self.may(*method) {
                continue;
            }
            let offer = match method {
                MethodKind::PublicKey => self.keys(keys).await?,
                MethodKind::KeyboardInteractive => self.keyboard().await?,
                MethodKind::Password => self.password().await?,
                _ => Offer::Refused,
            };
            if offer != Offer::Refused {
                return Ok(offer);
            }
        }
        Ok(Offer::Refused)
    }

    /// Whether the server takes a method, as far as it has said: before it has, keys alone are tried.
    fn may(&self, method: MethodKind) -> bool {
        match &self.remaining {
            Some(methods) => methods.contains(&method),
            None => method == MethodKind::PublicKey,
        }
    }

    /// Reads key files and certificates, asks the agent what it has, and puts all in order.
    async fn prepare(&mut self) -> Result<Vec<Candidate>, BackendError> {
        let given = self.target.keys_given;
        let paths = (self.target.keys.clone(), self.target.certificates.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let keys: Vec<_> = paths.0.into_iter().map(|path| (KeyFile::read(&path), path)).collect();
            (keys, paths.1.into_iter().map(|path| (read_certificate(&path), path)).collect::<Vec<_>>())
        });
        let (keys, certificates) = reading.await.map_err(|e| BackendError::new(ErrorKind::Internal, format!("reading keys: {e}")))?;
        for (read, path) in keys {
            match read {
                Ok(file) => self.files.push(file),
                Err(Unusable::Missing) if !given => {}
                Err(Unusable::Missing) => return Err(self.broken_key(&path, "does not exist")),
                Err(Unusable::Because(why)) if given => return Err(self.broken_key(&path, &why)),
                Err(Unusable::Because(why)) => self.pass_over(format!("{} ({why})", path.display())),
            }
        }
        let mut held = Vec::new();
        for (read, path) in certificates {
            match read {
                Ok(Some(certificate)) => held.push(certificate),
                Ok(None) => {}
                Err(why) => self.pass_over(format!("the certificate {} ({why})", path.display())),
            }
        }
        let identities = self.open_agent().await;
        let wishes = Wishes { files_first: given, files_only: self.target.identities_only };
        Ok(plan::plan(&self.files, &identities, &held, wishes))
    }

    fn broken_key(&self, path: &Path, why: &str) -> BackendError {
        BackendError::new(ErrorKind::Config, format!("the key file {} {why}", path.display()))
            .with_fix(format!("check `key:` of backend {}", self.target.name))
    }

    /// Asks the agent what it has.
    async fn open_agent(&mut self) -> Vec<Identity> {
        let Some(socket) = self.target.agent_socket() else { return Vec::new() };
        let (mut client, identities) = match agent::open(&socket).await {
            Ok(agent) => agent,
            Err(e) => {
                self.pass_over(format!("the agent at {} ({e})", socket.display()));
                return Vec::new();
            }
        };
        if let Some(binding) = self.handle.agent_session_binding() {
            // Agents before OpenSSH 8.9 know nothing of it and have no keys that need it.
            if let Err(e) = client.bind_session(binding, false).await {
                tracing::debug!("the agent does not bind sessions: {e}");
            }
        }
        self.agent = Some(client);
        identities
    }

    /// Offers the keys that are left.
    async fn keys(&mut self, keys: &mut VecDeque<Candidate>) -> Result<Offer, BackendError> {
        while let Some(candidate) = keys.pop_front() {
            let Some((candidate, whence)) = self.known(candidate).await? else { continue };
            let Some(public) = &candidate.public else { continue };
            if !self.take(public, &whence, candidate.certificate.is_some()) {
                continue;
            }
            match self.offer(public.clone(), candidate).await? {
                Offer::Refused if !self.may(MethodKind::PublicKey) => break,
                Offer::Refused => {}
                done => return Ok(done),
            }
        }
        Ok(Offer::Refused)
    }

    /// Names a candidate; one whose public key cannot be told is unlocked first, when a person is there.
    async fn known(&mut self, candidate: Candidate) -> Result<Option<(Candidate, String)>, BackendError> {
        let words = |whence: &str| if candidate.certificate.is_some() { format!("certificate, {whence}") } else { whence.to_owned() };
        let By::File(at) = candidate.by else {
            let whence = words("agent");
            return Ok(Some((candidate, whence)));
        };
        let desk = self.target.desk.clone();
        let file = &mut self.files[at];
        let whence = words(&file.path.display().to_string());
        if candidate.public.is_some() {
            return Ok(Some((candidate, whence)));
        }
        if file.is_locked(&desk) && !desk.person.there() {
            self.pass_over(format!("{whence} (needs its passphrase)"));
            self.unasked.get_or_insert_with(|| format!("the passphrase of {whence}"));
            return Ok(None);
        }
        self.quiet &= !file.is_locked(&desk);
        let key = file.unlock(self.target).await?;
        Ok(Some((Candidate { public: Some(key.public_key().clone()), ..candidate }, whence)))
    }

    /// Offers one key.
    async fn offer(&mut self, public: PublicKey, candidate: Candidate) -> Result<Offer, BackendError> {
        let hash = self.hash(&public).await;
        let user = self.target.user.clone();
        let mut signer = match (candidate.by, &mut self.agent) {
            (By::File(at), _) => Signer::File { file: &mut self.files[at], target: self.target, asked: false },
            (By::Agent, Some(client)) => {
                // The key may be in a device that wants a touch.
                self.quiet &= !public.algorithm().as_str().starts_with("sk-");
                Signer::Agent { client, identity: signer::identity(&public) }
            }
            (By::Agent, None) => return Ok(Offer::Refused),
        };
        let result = match candidate.certificate {
            Some(certificate) => self.handle.authenticate_certificate_with(user, *certificate, hash, &mut signer).await,
            None => self.handle.authenticate_publickey_with(user, public, hash, &mut signer).await,
        };
        if let Signer::File { asked: true, .. } = signer {
            self.quiet = false;
        }
        match result {
            Ok(result) => self.judge(Ok(result)),
            Err(SignError::Key(why)) => self.judge(Err(why)),
            Err(SignError::Login(e)) => Err(e),
        }
    }

    /// Notes that a key is offered; false when it was, or when enough were.
    fn take(&mut self, key: &PublicKey, whence: &str, certificate: bool) -> bool {
        let print = fingerprint(key);
        if self.offered.len() >= MOST_KEYS {
            self.pass_over(format!("{print} ({whence}: {MOST_KEYS} keys are enough)"));
            return false;
        }
        if !self.seen.insert((print.clone(), certificate)) {
            return false;
        }
        self.trying = format!("{} {print} ({whence})", key.algorithm());
        self.offered.push(self.trying.clone());
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

    /// Notes what is not offered, with the reason.
    fn pass_over(&mut self, what: String) {
        self.target.diary.note(Step::PassedOver(what.clone()));
        self.passed_over.push(what);
    }

    /// Tells whoever examines the way how what is tried was taken.
    fn taken(&self, answer: Answer) {
        self.target.diary.note(Step::Tried { what: self.trying.clone(), answer });
    }

    /// Judges the server's answer.
    fn judge(&mut self, result: Result<AuthResult, String>) -> Result<Offer, BackendError> {
        match result {
            Ok(AuthResult::Success) => {
                self.taken(Answer::In);
                Ok(Offer::In)
            }
            // A dead connection looks like a refusal that leaves nothing.
            Ok(AuthResult::Failure { remaining_methods, partial_success }) => {
                self.taken(if partial_success { Answer::Partly } else { Answer::Refused });
                self.alive()?;
                self.remaining = Some(remaining_methods);
                Ok(if partial_success { Offer::Partial } else { Offer::Refused })
            }
            Err(e) => {
                self.alive()?;
                tracing::debug!("a key could not be used: {e}");
                self.pass_over(e);
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
        // The server giving up on us, or leaving no way in (which russh takes for a fault), is a refusal.
        if why.contains("authentication failures") || why.contains("No authentication method") {
            return Err(self.refused());
        }
        let broken = self.broken(&why);
        // A login that a person took part in is not begun again by itself.
        Err(if self.began { BackendError { kind: ErrorKind::Authentication, ..broken } } else { broken })
    }

    fn broken(&self, why: &str) -> BackendError {
        BackendError::new(ErrorKind::Unreachable, format!("the connection to {} broke during the login: {why}", self.target.address()))
    }

    fn refused(&self) -> BackendError {
        let address = self.target.address();
        let mut text = match (&self.unasked, self.offered.is_empty() && self.tried.is_empty()) {
            (Some(what), _) => format!("{address} wants {what}, and no person is there to give it"),
            (None, true) => format!("no key to log in with at {address}"),
            (None, false) => format!("{address} refused the login"),
        };
        if !self.offered.is_empty() {
            text.push_str(&format!("; keys offered: {}", self.offered.join(", ")));
        }
        if !self.tried.is_empty() {
            text.push_str(&format!("; refused: {}", self.tried.join(", ")));
        }
        if !self.passed_over.is_empty() {
            text.push_str(&format!("; not offered: {}", self.passed_over.join(", ")));
        }
        if let Some(remaining) = self.remaining.as_ref().filter(|methods| !methods.is_empty()) {
            text.push_str(&format!("; it takes {}", list(remaining)));
        }
        let banner = self.link.banner();
        if !banner.is_empty() {
            text.push_str(&format!("; it says: {banner}"));
        }
        let name = &self.target.name;
        let fix = if self.unasked.is_some() {
            nobody(name, "")
        } else if !self.tried.is_empty() {
            format!("check the user and the answer, then {}", nobody(name, ""))
        } else if self.offered.is_empty() {
            format!("set `key:` for backend {name}, or load a key into the ssh agent")
        } else {
            format!(
                "put one of these keys into ~/.ssh/authorized_keys of {} there, or set `key:` or `user:` of backend {name}",
                self.target.user
            )
        };
        BackendError::new(ErrorKind::Authentication, text).with_fix(fix)
    }
}

/// Reads a certificate file; none when it is not there. Blocking.
fn read_certificate(path: &Path) -> Result<Option<Certificate>, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Certificate::from_openssh(text.trim()).map(Some).map_err(|e| format!("is no certificate: {e}")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e.to_string()),
    }
}

fn list(methods: &MethodSet) -> String {
    let names: Vec<&str> = methods.iter().map(<&str>::from).collect();
    if names.is_empty() { "nothing else".to_owned() } else { names.join(", ") }
}
