//! Key files: what can be read of one without its passphrase, and unlocking it.
//!
//! Invariant: a passphrase is asked for only when the server would take the key, or when nothing of the key can be told without
//! it; a wrong one is asked for once more, and then no further.

use super::super::desk::Desk;
use super::super::target::Target;
use super::pem;
use crate::backend::{BackendError, ErrorKind};
use crate::model::{Answer, Question, Secret};
use russh::keys::{Certificate, PrivateKey, PublicKey, decode_secret_key};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Largest key file read.
const LARGEST: u64 = 1 << 20;

/// A key file.
pub(super) struct KeyFile {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Its public key, when it can be told without a passphrase.
    pub(super) public: Option<PublicKey>,
    /// The certificate beside it.
    pub(super) certificate: Option<Certificate>,
    content: Content,
}

enum Content {
    Open(Arc<PrivateKey>),
    Locked(Zeroizing<String>),
    /// The file holds the public key alone: the agent has to sign.
    Public,
}

/// Why a key file cannot be used.
#[derive(Debug)]
pub(super) enum Unusable {
    Missing,
    Because(String),
}

impl KeyFile {
    /// Reads one. Blocking.
    pub(super) fn read(path: &Path) -> Result<Self, Unusable> {
        let text = contents(path)?;
        let certificate = beside(path, "-cert.pub").and_then(|text| Certificate::from_openssh(text.trim()).ok());
        let file = |public, content| Self { path: path.to_path_buf(), public, certificate, content };
        if let Ok(public) = PublicKey::from_openssh(text.trim()) {
            return Ok(file(Some(public), Content::Public));
        }
        protected(path)?;
        if pem::is_locked(&text) {
            let public = beside(path, ".pub").and_then(|text| PublicKey::from_openssh(text.trim()).ok());
            return Ok(file(public, Content::Locked(text)));
        }
        if pem::is_openssh(&text)
            && let Ok(key) = PrivateKey::from_openssh(text.as_bytes())
            && key.is_encrypted()
        {
            return Ok(file(Some(key.public_key().clone()), Content::Locked(text)));
        }
        match decode_secret_key(&text, None) {
            Ok(key) => Ok(file(Some(key.public_key().clone()), Content::Open(Arc::new(key)))),
            Err(e) => Err(Unusable::Because(format!("holds no private key that is understood: {e}"))),
        }
    }

    /// Whether it needs a passphrase that was not given yet.
    pub(super) fn is_locked(&self, desk: &Desk) -> bool {
        matches!(self.content, Content::Locked(_)) && desk.key(&self.path).is_none()
    }

    /// Whether only the agent can sign for it.
    pub(super) fn is_public_only(&self) -> bool {
        matches!(self.content, Content::Public)
    }

    /// Gives the private key; asks for the passphrase when it is locked. Cancel safe: the question is taken back.
    pub(super) async fn unlock(&mut self, target: &Target) -> Result<Arc<PrivateKey>, BackendError> {
        let (desk, backend) = (&target.desk, target.name.as_str());
        let text = match &self.content {
            Content::Open(key) => return Ok(key.clone()),
            Content::Public => return Err(refused(format!("{} holds no private key", self.path.display()))),
            Content::Locked(text) => text.clone(),
        };
        if let Some(key) = desk.key(&self.path) {
            return Ok(key);
        }
        let shown = self.path.display().to_string();
        if !desk.person.there() {
            return Err(refused(format!("the key {shown} needs its passphrase"))
                .with_fix(nobody(backend, &format!(", or load the key into the ssh agent (`ssh-add {shown}`) and set `agent: true`"))));
        }
        for again in [false, true] {
            let answer = desk.person.ask(target.address(), Question::Passphrase { key: shown.clone(), again }).await;
            let Answer::Texts { mut texts, keep } = answer else { return Err(unanswered(&format!("the passphrase of {shown}"), backend)) };
            let passphrase = texts.pop().unwrap_or_default();
            let text = text.clone();
            // Making the cipher's key from a passphrase takes a while, on purpose.
            let opened = tokio::task::spawn_blocking(move || decode(&text, &passphrase)).await;
            match opened.map_err(|e| BackendError::new(ErrorKind::Internal, format!("unlocking {shown}: {e}")))? {
                Some(key) => {
                    let key = Arc::new(key);
                    if keep {
                        desk.keep_key(&self.path, key.clone());
                    }
                    self.content = Content::Open(key.clone());
                    return Ok(key);
                }
                None => tracing::debug!(key = shown, "a passphrase that does not fit"),
            }
        }
        Err(refused(format!("the passphrase of {shown} was wrong, twice")).with_fix(nobody(backend, "")))
    }
}

fn decode(text: &str, passphrase: &Secret) -> Option<PrivateKey> {
    let key = match pem::unlock_ec(text, passphrase.expose()) {
        Some(unlocked) => decode_secret_key(&unlocked?, None),
        None => decode_secret_key(text, Some(passphrase.expose())),
    };
    key.ok().filter(|key| !key.is_encrypted())
}

fn refused(text: String) -> BackendError {
    BackendError::new(ErrorKind::Authentication, text)
}

/// What to do where a person is needed.
pub(super) fn nobody(backend: &str, or: &str) -> String {
    format!("run `qd backends connect {backend}` in a terminal, or press r on it in qd's terminal UI{or}")
}

/// A question that was not answered.
pub(super) fn unanswered(what: &str, backend: &str) -> BackendError {
    refused(format!("{what} was asked for and not given")).with_fix(nobody(backend, ""))
}

fn contents(path: &Path) -> Result<Zeroizing<String>, Unusable> {
    let read = || -> io::Result<Zeroizing<String>> {
        let file = std::fs::File::open(path)?;
        let mut text = Zeroizing::new(String::with_capacity(16 << 10));
        file.take(LARGEST).read_to_string(&mut text)?;
        Ok(text)
    };
    read().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Unusable::Missing,
        io::ErrorKind::InvalidData => Unusable::Because("is no text, so no key".into()),
        _ => Unusable::Because(format!("cannot be read: {e}")),
    })
}

/// As OpenSSH does: a private key that others can read is not used.
fn protected(path: &Path) -> Result<(), Unusable> {
    let meta = std::fs::metadata(path).map_err(|e| Unusable::Because(format!("cannot be read: {e}")))?;
    if meta.uid() == nix::unistd::getuid().as_raw() && meta.mode() & 0o077 != 0 {
        let text = format!("can be read by others (mode {:04o}); `chmod 600 {}`", meta.mode() & 0o7777, path.display());
        return Err(Unusable::Because(text));
    }
    Ok(())
}

fn beside(path: &Path, ending: &str) -> Option<String> {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    std::fs::read_to_string(name).ok()
}
