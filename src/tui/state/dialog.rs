//! What logins ask the person: one question at a time, the others wait behind it.
//!
//! Invariant: what is typed into one is wiped when it closes and shows in no debug output; a key that comes within
//! [`GUARD_MS`] of a question is dropped.

use super::State;
use super::overlay::GUARD_MS;
use crate::model::{Prompt, Question, Secret};

/// How many characters of a fingerprint are typed to save a key.
pub(in crate::tui) const TAIL: usize = 4;
/// Questions that wait at most: a daemon that asks more is not answered.
const MOST: usize = 32;
/// Longest text that is typed, in bytes.
pub(in crate::tui) const LONGEST: usize = 4_096;

/// A question of a login.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tui) struct Dialog {
    pub(in crate::tui) prompt: Prompt,
    /// What is typed, a text for each field.
    pub(in crate::tui) texts: Vec<Secret>,
    /// The field that takes keys.
    pub(in crate::tui) at: usize,
    /// Whether hidden fields are shown.
    pub(in crate::tui) shown: bool,
    /// Whether the answer is kept in memory.
    pub(in crate::tui) keep: bool,
    /// Whether fingerprints are shown whole.
    pub(in crate::tui) whole: bool,
    /// The end of the fingerprint as it is typed, once the person wants to save the key.
    pub(in crate::tui) tail: Option<String>,
    /// When it came to the front.
    pub(in crate::tui) opened: u64,
}

impl Dialog {
    fn new(prompt: Prompt, now: u64) -> Self {
        let fields = match &prompt.question {
            Question::Challenge { fields, .. } => fields.len(),
            Question::Passphrase { .. } | Question::Password { .. } => 1,
            Question::HostKey { .. } | Question::HostKeyChanged { .. } => 0,
        };
        let texts = vec![Secret::default(); fields];
        Self { prompt, texts, at: 0, shown: false, keep: false, whole: false, tail: None, opened: now }
    }

    /// Whether the daemon waits for its answer; else it only tells something.
    pub(in crate::tui) fn waits(&self) -> bool {
        !self.texts.is_empty() || matches!(self.prompt.question, Question::HostKey { .. })
    }

    /// Whether its answer may be kept in memory.
    pub(in crate::tui) fn may_keep(&self) -> bool {
        match &self.prompt.question {
            Question::Passphrase { .. } | Question::Password { .. } => true,
            Question::Challenge { may_keep, .. } => *may_keep,
            Question::HostKey { .. } | Question::HostKeyChanged { .. } => false,
        }
    }

    /// Whether what is typed into a field may be seen.
    pub(in crate::tui) fn echoes(&self, field: usize) -> bool {
        let echo = matches!(&self.prompt.question, Question::Challenge { fields, .. } if fields.get(field).is_some_and(|f| f.echo));
        echo || self.shown
    }
}

impl State {
    /// Takes a question up.
    pub(in crate::tui) fn ask(&mut self, prompt: Prompt) {
        if self.asked.len() < MOST && self.asked.iter().all(|d| d.prompt.id != prompt.id) {
            self.asked.push_back(Dialog::new(prompt, self.mono));
        }
    }

    /// Takes a question away that is not asked any more.
    pub(in crate::tui) fn unask(&mut self, id: u64) {
        let front = self.asked.front().map(|d| d.prompt.id);
        self.asked.retain(|d| d.prompt.id != id);
        if front == Some(id) {
            self.next_asked();
        }
    }

    /// Takes over the questions that the daemon says are open.
    pub(in crate::tui) fn ask_all(&mut self, prompts: Vec<Prompt>) {
        let front = self.asked.front().map(|d| d.prompt.id);
        self.asked.retain(|d| !d.waits() || prompts.iter().any(|p| p.id == d.prompt.id));
        prompts.into_iter().for_each(|prompt| self.ask(prompt));
        if self.asked.front().map(|d| d.prompt.id) != front {
            self.next_asked();
        }
    }

    /// Begins the time in which the question that is in front now takes no keys.
    pub(in crate::tui) fn next_asked(&mut self) {
        let now = self.mono;
        if let Some(dialog) = self.asked.front_mut() {
            dialog.opened = now;
        }
    }

    /// Whether the question in front takes keys yet.
    pub(in crate::tui) fn asked_is_ready(&self) -> bool {
        self.asked.front().is_some_and(|d| self.mono.saturating_sub(d.opened) >= GUARD_MS)
    }
}
