//! The questions that logins have for the operator, from the backend that asks to whichever client answers.
//!
//! Invariant: a question is asked only while an operator's own call waits for that backend, and goes when the last such call
//! does; one answer counts, and it is seen by nobody but the login.

use super::EngineError;
use super::shared::Shared;
use crate::backend::person::Operator;
use crate::model::{Answer, Event, Prompt, Question};
use futures::future::{BoxFuture, FutureExt};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{broadcast, oneshot, watch};

/// Characters of a call that a question names, and how many calls.
const SHOWN: usize = 80;
const MOST_SHOWN: usize = 32;

/// The questions of all backends that wait for an answer.
#[derive(Default)]
pub(crate) struct Prompts {
    last: AtomicU64,
    waiting: Mutex<BTreeMap<u64, (Prompt, oneshot::Sender<Answer>)>>,
}

impl Prompts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (Prompt, oneshot::Sender<Answer>)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Gives the questions that wait, oldest first.
    pub(crate) fn open(&self) -> Vec<Prompt> {
        self.lock().values().map(|(prompt, _)| prompt.clone()).collect()
    }

    /// Passes an answer on.
    pub(crate) fn answer(&self, id: u64, answer: Answer) -> Result<(), EngineError> {
        let gone = || EngineError::Refused("that question is not asked any more".into());
        let (_, tell) = self.lock().remove(&id).ok_or_else(gone)?;
        tell.send(answer).map_err(|_| gone())
    }
}

/// The operator of one backend.
pub(crate) struct Desk {
    backend: String,
    prompts: Arc<Prompts>,
    events: broadcast::Sender<Event>,
    /// How many calls of operators wait for the backend.
    attending: watch::Sender<u32>,
    /// What each of them is, oldest first.
    calls: Mutex<BTreeMap<u64, String>>,
}

/// An operator's call that waits for a backend.
pub(crate) struct Attending {
    desk: Arc<Desk>,
    call: u64,
}

impl Drop for Attending {
    fn drop(&mut self) {
        self.desk.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.call);
        self.desk.attending.send_modify(|n| *n -= 1);
    }
}

impl Desk {
    /// Makes the desk of a backend.
    pub(crate) fn new(backend: &str, shared: &Shared) -> Arc<Self> {
        Arc::new(Self {
            backend: backend.to_owned(),
            prompts: shared.prompts.clone(),
            events: shared.events.clone(),
            attending: watch::Sender::new(0),
            calls: Mutex::default(),
        })
    }

    /// Notes that an operator's call waits, until what is given is dropped. `what` says for the person which call it is.
    pub(crate) fn attend(self: &Arc<Self>, what: &str) -> Attending {
        let call = self.prompts.next();
        let what = what.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).insert(call, what);
        self.attending.send_modify(|n| *n += 1);
        Attending { desk: self.clone(), call }
    }

    fn waiting(&self) -> Vec<String> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).values().take(MOST_SHOWN).cloned().collect()
    }

    fn prompt(&self, address: String, question: Question) -> Prompt {
        Prompt { id: self.prompts.next(), backend: self.backend.clone(), address, question, waiting: self.waiting() }
    }

    fn say(&self, event: Event) {
        // An error means that nobody watches.
        let _ = self.events.send(event);
    }
}

/// A question that is open: closed for everybody when it is dropped.
struct Open<'a> {
    desk: &'a Desk,
    id: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.desk.prompts.lock().remove(&self.id);
        self.desk.say(Event::PromptClosed { id: self.id });
    }
}

impl Operator for Desk {
    fn there(&self) -> bool {
        *self.attending.borrow() > 0
    }

    fn ask(&self, address: String, question: Question) -> BoxFuture<'_, Answer> {
        async move {
            let mut attending = self.attending.subscribe();
            if *attending.borrow_and_update() == 0 {
                return Answer::Cancel;
            }
            let prompt = self.prompt(address, question);
            let (tell, told) = oneshot::channel();
            self.prompts.lock().insert(prompt.id, (prompt.clone(), tell));
            let _open = Open { desk: self, id: prompt.id };
            tracing::info!(backend = self.backend, id = prompt.id, "a person is asked");
            self.say(Event::Prompt { prompt: Box::new(prompt) });
            tokio::select! {
                answer = told => answer.unwrap_or_default(),
                _ = attending.wait_for(|n| *n == 0) => Answer::Cancel,
            }
        }
        .boxed()
    }

    fn tell(&self, address: String, question: Question) {
        if self.there() {
            self.say(Event::Prompt { prompt: Box::new(self.prompt(address, question)) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Guard;
    use crate::model::Secret;
    use crate::paths::Paths;

    fn desk() -> (Arc<Shared>, Arc<Desk>, broadcast::Receiver<Event>) {
        let dir = tempfile::tempdir().expect("a folder");
        let shared = Shared::new(Paths::under(dir.path()), "d".into(), Vec::new(), Guard::default());
        let (desk, events) = (Desk::new("gpu", &shared), shared.events.subscribe());
        (shared, desk, events)
    }

    fn asked(events: &mut broadcast::Receiver<Event>) -> u64 {
        match events.try_recv() {
            Ok(Event::Prompt { prompt }) => prompt.id,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn nobody_attends_nobody_is_asked() {
        let (_shared, desk, mut events) = desk();
        assert!(!desk.there());
        assert_eq!(desk.ask("ada@gpu:22".into(), Question::Password { again: false }).await, Answer::Cancel);
        desk.tell("ada@gpu:22".into(), Question::Password { again: false });
        assert!(events.try_recv().is_err());
    }

    #[tokio::test]
    async fn the_first_answer_counts_and_everybody_hears_that_it_is_over() {
        let (shared, desk, mut events) = desk();
        let _attending = desk.attend("connect");
        let mut ask = desk.ask("ada@gpu:22".into(), Question::Password { again: false });
        assert!((&mut ask).now_or_never().is_none());
        let id = asked(&mut events);
        assert_eq!(shared.prompts.open().len(), 1);
        let answer = Answer::Texts { texts: vec![Secret::new("hunter2".into())], keep: false };
        shared.prompts.answer(id, answer.clone()).expect("taken");
        assert!(shared.prompts.answer(id, Answer::Cancel).is_err());
        assert_eq!(ask.await, answer);
        assert_eq!(events.try_recv().expect("told"), Event::PromptClosed { id });
        assert!(shared.prompts.open().is_empty());
    }

    #[tokio::test]
    async fn a_question_goes_with_the_last_call_that_waits() {
        let (shared, desk, mut events) = desk();
        let (one, other) = (desk.attend("run make"), desk.attend("connect"));
        let mut ask = desk.ask("ada@gpu:22".into(), Question::Password { again: false });
        assert!((&mut ask).now_or_never().is_none());
        assert_eq!(shared.prompts.open()[0].waiting, ["run make", "connect"]);
        let id = asked(&mut events);
        drop(one);
        assert!((&mut ask).now_or_never().is_none());
        drop(other);
        assert_eq!(ask.await, Answer::Cancel);
        assert!(shared.prompts.answer(id, Answer::Cancel).is_err());
        // A login that is given up takes its question back.
        let _attending = desk.attend("connect");
        let mut ask = desk.ask("ada@gpu:22".into(), Question::Password { again: false });
        assert!((&mut ask).now_or_never().is_none());
        drop(ask);
        assert!(shared.prompts.open().is_empty());
    }
}
