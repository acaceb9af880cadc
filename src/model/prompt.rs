//! A question that a login has for a person, and the answer.
//!
//! Invariant: an answer's text shows in no debug output and is wiped from memory when it is dropped.

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// A text that nobody but its receiver may see.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a text over.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// Gives the text, for whoever it is meant for.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Adds a character that was typed. The text never moves to a bigger place without the old one being wiped.
    pub fn push(&mut self, c: char) {
        if self.0.len() + c.len_utf8() > self.0.capacity() {
            let mut bigger = Zeroizing::new(String::with_capacity((self.0.capacity() * 2).max(128)));
            bigger.push_str(&self.0);
            self.0 = bigger;
        }
        self.0.push(c);
    }

    /// Takes the last character away.
    pub fn pop(&mut self) {
        self.0.pop();
    }

    /// Empties it.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// One line that a server wants filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Field {
    /// The server's own text.
    pub label: String,
    /// Whether what is typed may be seen.
    pub echo: bool,
}

/// A key that a known_hosts file has for a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownKey {
    /// Where it stands, `FILE:LINE`.
    pub place: String,
    /// Its type as written, `ssh-ed25519`.
    pub key_type: String,
    /// Its fingerprint as `ssh-keygen -l` shows it.
    pub fingerprint: String,
    /// Its marker, `@revoked` or `@cert-authority`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marker: Option<String>,
}

/// The host key that a server shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShownKey {
    /// Its type, `ssh-ed25519`.
    pub key_type: String,
    /// Its fingerprint as `ssh-keygen -l` shows it.
    pub fingerprint: String,
    /// The fingerprint of the authority that vouches for it, when it came in a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}

/// What is asked. The texts of servers are untrusted: whoever shows them takes control characters out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Question {
    /// The passphrase of a key file.
    Passphrase {
        /// The file.
        key: String,
        /// Whether the one before was wrong.
        again: bool,
    },
    /// The password of an account.
    Password {
        /// Whether the one before was wrong.
        again: bool,
    },
    /// What the server wants to know (keyboard-interactive); without fields it only tells something.
    Challenge {
        /// Its title.
        name: String,
        /// What it says.
        instructions: String,
        /// What it wants.
        fields: Vec<Field>,
        /// Which round this is, from 1.
        round: u32,
        /// Whether the answer may be kept: it looks like a password, not like a code that holds once.
        may_keep: bool,
    },
    /// Whether an unknown host key is right.
    HostKey {
        /// The host as known_hosts names it.
        host: String,
        /// The key.
        key: ShownKey,
        /// Where it would be written down.
        file: String,
    },
    /// Nothing is asked: the host key has changed, and the person is told.
    HostKeyChanged {
        /// The host as known_hosts names it.
        host: String,
        /// The key that is shown now.
        key: ShownKey,
        /// The keys that are known.
        known: Vec<KnownKey>,
    },
}

/// A question that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// Names it in the answer; unique within the daemon's life.
    pub id: u64,
    /// The backend that asks.
    pub backend: String,
    /// Account and machine, `ada@gpu.lab:22`.
    pub address: String,
    /// What it asks.
    pub question: Question,
    /// What waits for the answer, as it was when it was asked: the calls of operators, the one first that came first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<String>,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// No answer: the login stops.
    #[default]
    Cancel,
    /// A text for each field; one for a passphrase or a password.
    Texts {
        /// The texts, in the order of the fields.
        texts: Vec<Secret>,
        /// Whether they are kept in memory until the daemon ends, so that a reconnect asks nobody.
        #[serde(default)]
        keep: bool,
    },
    /// The host key is right.
    Trust {
        /// Whether it is written down; else it holds until the backend is disconnected.
        save: bool,
    },
}

/// How a host key stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The host was not asked.
    #[default]
    NotAsked,
    /// Known, or vouched for by a known authority.
    Known,
    /// The host is in no file.
    New,
    /// The host is known by other keys.
    Changed,
    /// The key is revoked.
    Revoked,
}

/// What is known of a backend's host key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostKeys {
    /// The backend.
    pub backend: String,
    /// The host as known_hosts names it.
    pub host: String,
    /// How the key that the server shows stands.
    pub standing: Standing,
    /// The key that the server shows now.
    pub shown: Option<ShownKey>,
    /// What the files say of the host.
    pub known: Vec<KnownKey>,
    /// The file that new keys go to.
    pub file: String,
}

/// What to do with host keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostKeyChange {
    /// Write a new key down.
    #[default]
    Accept,
    /// Take the old keys out and write the new one down.
    Replace,
    /// Take all keys of the host out.
    Remove,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let mut secret = Secret::default();
        "hunter2 and more, longer than what fits at first: ".repeat(9).chars().for_each(|c| secret.push(c));
        let answer = Answer::Texts { texts: vec![secret.clone()], keep: true };
        assert!(!format!("{answer:?} {secret:?} {secret:#?}").contains("hunter"));
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<Answer>(&text).unwrap(), answer);
        secret.pop();
        assert!(secret.expose().ends_with("first:"));
        secret.clear();
        assert_eq!(secret.expose(), "");
    }
}
