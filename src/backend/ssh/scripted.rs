//! A person of the tests: answers from a list, and remembers what was asked.

use super::Ssh;
use super::rig::settings;
use crate::backend::local::ClientEnv;
use crate::backend::person::{Operator, Person};
use crate::config::SshSettings;
use crate::model::{Answer, Question, Secret};
use futures::future::{BoxFuture, FutureExt, ready};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// A person with answers.
#[derive(Default)]
pub(super) struct Scripted {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<Question>>,
    told: Mutex<Vec<Question>>,
}

/// An answer of one text.
pub(super) fn text(text: &str, keep: bool) -> Answer {
    texts(&[text], keep)
}

/// An answer of several texts.
pub(super) fn texts(texts: &[&str], keep: bool) -> Answer {
    Answer::Texts { texts: texts.iter().map(|t| Secret::new((*t).to_owned())).collect(), keep }
}

impl Scripted {
    /// Makes one. One without answers is not there.
    pub(super) fn new(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() })
    }

    /// Takes what was asked so far.
    pub(super) fn asked(&self) -> Vec<Question> {
        std::mem::take(&mut self.asked.lock().expect("whole"))
    }

    /// Takes what was told so far.
    pub(super) fn told(&self) -> Vec<Question> {
        std::mem::take(&mut self.told.lock().expect("whole"))
    }

    /// A backend whose person it is.
    pub(super) fn backend(self: &Arc<Self>, ssh: &SshSettings) -> Ssh {
        Ssh::new(&settings(ssh), ssh, ClientEnv::default(), Arc::new(Person::new(self.clone())))
    }
}

impl Operator for Scripted {
    fn there(&self) -> bool {
        !self.answers.lock().expect("whole").is_empty()
    }

    fn ask(&self, _address: String, question: Question) -> BoxFuture<'_, Answer> {
        self.asked.lock().expect("whole").push(question);
        ready(self.answers.lock().expect("whole").pop_front().unwrap_or_default()).boxed()
    }

    fn tell(&self, _address: String, question: Question) {
        self.told.lock().expect("whole").push(question);
    }
}
