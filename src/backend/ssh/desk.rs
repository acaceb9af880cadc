//! What the logins of one backend share: the person who is asked, what was kept for the next login, the host key seen last.
//!
//! Invariant: a secret is kept only when the person said so, never leaves this process, and is wiped when it goes. One that was
//! refused is forgotten.

use super::known_hosts::Shown;
use crate::backend::person::Person;
use crate::model::Secret;
use russh::keys::PrivateKey;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Shared by all connections of one backend.
#[derive(Default)]
pub(super) struct Desk {
    /// Who is asked.
    pub(super) person: Arc<Person>,
    kept: Mutex<Kept>,
}

#[derive(Clone, Default)]
struct Kept {
    /// Keys that were unlocked, by file.
    keys: HashMap<PathBuf, Arc<PrivateKey>>,
    /// Answers by what they are for.
    texts: HashMap<String, Secret>,
    /// Host keys that hold until the backend is disconnected, by host.
    trusted: Vec<(String, Vec<u8>)>,
    /// The host key that was shown last, by host.
    seen: HashMap<String, Shown>,
    /// How often one was.
    sights: u64,
}

impl Desk {
    /// Makes one with its person.
    pub(super) fn new(person: Arc<Person>) -> Arc<Self> {
        Arc::new(Self { person, kept: Mutex::default() })
    }

    /// Gives one of its own that knows what this one does now, and has nobody to ask.
    pub(super) fn without_person(&self) -> Arc<Self> {
        Arc::new(Self { person: Arc::default(), kept: Mutex::new(self.lock().clone()) })
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The unlocked key of a file.
    pub(super) fn key(&self, file: &Path) -> Option<Arc<PrivateKey>> {
        self.lock().keys.get(file).cloned()
    }

    /// Keeps an unlocked key.
    pub(super) fn keep_key(&self, file: &Path, key: Arc<PrivateKey>) {
        self.lock().keys.insert(file.to_path_buf(), key);
    }

    /// The answer kept for something.
    pub(super) fn text(&self, what: &str) -> Option<Secret> {
        self.lock().texts.get(what).cloned()
    }

    /// Keeps an answer.
    pub(super) fn keep_text(&self, what: &str, text: Secret) {
        self.lock().texts.insert(what.to_owned(), text);
    }

    /// Forgets an answer that was refused.
    pub(super) fn forget_text(&self, what: &str) {
        self.lock().texts.remove(what);
    }

    /// Trusts a host key until the backend is disconnected.
    pub(super) fn trust(&self, host: &str, blob: Vec<u8>) {
        self.lock().trusted.push((host.to_owned(), blob));
    }

    /// Tells whether a host key is trusted for now.
    pub(super) fn trusts(&self, host: &str, blob: &[u8]) -> bool {
        self.lock().trusted.iter().any(|(h, b)| h == host && b == blob)
    }

    /// Forgets the host keys that are trusted for now: the backend was disconnected.
    pub(super) fn end_trust(&self) {
        self.lock().trusted.clear();
    }

    /// Notes the host key that a server shows.
    pub(super) fn saw(&self, host: &str, shown: Shown) {
        let mut kept = self.lock();
        kept.seen.insert(host.to_owned(), shown);
        kept.sights += 1;
    }

    /// Tells how often a host key was seen.
    pub(super) fn sights(&self) -> u64 {
        self.lock().sights
    }

    /// The host key that a server showed last.
    pub(super) fn seen(&self, host: &str) -> Option<Shown> {
        self.lock().seen.get(host).cloned()
    }
}
