//! What `qd doctor` found out about a backend, one check at a time.
//!
//! Invariant: a finding says what was looked at and what was seen, in numbers with their units; nothing in it is a secret.

use serde::{Deserialize, Serialize};

/// How a check went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and something about it should be known.
    Warn,
    /// It does not work.
    Fail,
    /// Not looked at; the fact says why.
    #[default]
    Skipped,
}

/// One finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Finding {
    /// The backend.
    pub backend: String,
    /// What was checked: a stable word, as `host_key`.
    pub check: String,
    /// How it went.
    pub verdict: Verdict,
    /// What was seen.
    pub fact: String,
    /// What to do about it, when there is something.
    pub fix: Option<String>,
}

impl Finding {
    /// Makes a finding; the backend is filled in by whoever knows it.
    pub fn new(check: &str, verdict: Verdict, fact: impl Into<String>) -> Self {
        Self { backend: String::new(), check: check.to_owned(), verdict, fact: fact.into(), fix: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}
