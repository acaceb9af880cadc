//! What logins ask the person: one question at a time, the others wait behind it.
//!
//! Invariant: what is typed into one is wiped when it closes and shows in no debug output; whenever another one is in front, or
//! none any more, the person must pause before anything is typed again.

use super::State;
use crate::model::{Prompt, Question, Secret};
use std::collections::VecDeque;

/// How many characters of a fingerprint are typed to trust a key.
pub(in crate::tui) const TAIL: usize = 4;
/// Questions that wait at most: a daemon that asks more is not answered.
const MOST: usize = 32;
/// Longest text that is typed, in bytes.
pub(in crate::tui) const LONGEST: usize = 4_096;

/// How the person wants to trust a new host key, before it is confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct Choice {
    /// Whether it is written down.
    pub(in crate::tui) save: bool,
    /// The end of the fingerprint, as it is typed.
    pub(in crate::tui) tail: String,
}

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
    /// What is chosen about a new host key; nothing is until the person does.
    pub(in crate::tui) choice: Option<Choice>,
}

impl Dialog {
    fn new(prompt: Prompt) -> Self {
        let fields = match &prompt.question {
            Question::Challenge { fields, .. } => fields.len(),
            Question::Passphrase { .. } | Question::Password { .. } => 1,
            Question::HostKey { .. } | Question::HostKeyChanged { .. } => 0,
        };
        let texts = vec![Secret::default(); fields];
        Self { prompt, texts, at: 0, shown: false, keep: false, whole: false, choice: None }
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
            self.changing_asked(|asked| asked.push_back(Dialog::new(prompt)));
        }
    }

    /// Takes a question away that is not asked any more.
    pub(in crate::tui) fn unask(&mut self, id: u64) {
        self.changing_asked(|asked| asked.retain(|d| d.prompt.id != id));
    }

    /// Takes over the questions that the daemon says are open.
    pub(in crate::tui) fn ask_all(&mut self, prompts: Vec<Prompt>) {
        self.changing_asked(|asked| asked.retain(|d| !d.waits() || prompts.iter().any(|p| p.id == d.prompt.id)));
        prompts.into_iter().for_each(|prompt| self.ask(prompt));
    }

    /// Takes the question in front away, because the person is done with it.
    pub(in crate::tui) fn take_asked(&mut self) -> Option<Dialog> {
        self.changing_asked(VecDeque::pop_front)
    }

    /// Takes all questions away: nobody is left to answer to.
    pub(in crate::tui) fn drop_asked(&mut self) {
        self.changing_asked(VecDeque::clear);
    }

    fn changing_asked<T>(&mut self, change: impl FnOnce(&mut VecDeque<Dialog>) -> T) -> T {
        let front = |asked: &VecDeque<Dialog>| asked.front().map(|d| d.prompt.id);
        let before = front(&self.asked);
        let out = change(&mut self.asked);
        if front(&self.asked) != before {
            self.pause();
        }
        out
    }
}
