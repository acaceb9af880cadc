//! The way from a login to the person who can answer its questions.
//!
//! Invariant: a login asks only while a person waits for it, time spent on an answer counts against no limit of the login, and
//! a question that is not answered in its own time is answered with a refusal.

use crate::model::{Answer, Question};
use futures::future::{BoxFuture, FutureExt, ready};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How long a person may take over one question.
const THINKING: Duration = Duration::from_secs(300);

/// Who passes questions on to a person.
pub trait Operator: Send + Sync {
    /// Tells whether a person waits for a login of this backend now.
    fn there(&self) -> bool;

    /// Asks on behalf of an account at a machine (`ada@gpu.lab:22`). [`Answer::Cancel`] when nobody is there (any more) or does not want to. Dropping the future takes the question back.
    fn ask(&self, address: String, question: Question) -> BoxFuture<'_, Answer>;

    /// Tells the person something that takes no answer.
    fn tell(&self, address: String, question: Question);
}

/// Nobody: every question is refused.
struct Nobody;

impl Operator for Nobody {
    fn there(&self) -> bool {
        false
    }

    fn ask(&self, _address: String, _question: Question) -> BoxFuture<'_, Answer> {
        ready(Answer::Cancel).boxed()
    }

    fn tell(&self, _address: String, _question: Question) {}
}

/// The time that went into answers.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    before: Duration,
    /// Since when a question is open, and how many are.
    open: Option<(Instant, u32)>,
}

impl Spent {
    fn total(&self) -> Duration {
        self.before + self.open.map_or(Duration::ZERO, |(since, _)| since.elapsed())
    }
}

/// A backend's person, who may not be there.
pub struct Person {
    operator: Arc<dyn Operator>,
    spent: watch::Sender<Spent>,
}

impl Default for Person {
    fn default() -> Self {
        Self::new(Arc::new(Nobody))
    }
}

impl Person {
    /// Takes who passes questions on.
    pub fn new(operator: Arc<dyn Operator>) -> Self {
        Self { operator, spent: watch::Sender::default() }
    }

    /// Tells whether a person waits for a login now.
    pub fn there(&self) -> bool {
        self.operator.there()
    }

    /// Gives the time that went into answers so far.
    pub fn spent(&self) -> Duration {
        self.spent.borrow().total()
    }

    /// Waits until a question is open. Cancel safe.
    pub async fn asked(&self) {
        // The sender lives as long as this object.
        drop(self.spent.subscribe().wait_for(|spent| spent.open.is_some()).await);
    }

    /// Asks and waits for the answer, at most five minutes. Cancel safe: the question is taken back.
    pub async fn ask(&self, address: String, question: Question) -> Answer {
        // Nobody is asked, so nobody who waits for the login may think that somebody was.
        if !self.there() {
            return Answer::default();
        }
        let _open = Open::new(&self.spent);
        timeout(THINKING, self.operator.ask(address, question)).await.unwrap_or_default()
    }

    /// Tells the person something that takes no answer.
    pub fn tell(&self, address: String, question: Question) {
        self.operator.tell(address, question);
    }

    /// Does something within a limit that stands still while a question is open. None when it was too late. Cancel safe when
    /// the work is.
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let (started, before) = (Instant::now(), self.spent.borrow().total());
        let mut spent = self.spent.subscribe();
        tokio::pin!(work);
        loop {
            let now = *spent.borrow_and_update();
            let left = (limit + now.total() - before).saturating_sub(started.elapsed());
            tokio::select! {
                biased;
                done = &mut work => return Some(done),
                changed = spent.changed() => {
                    // The sender lives as long as this object.
                    changed.ok()?;
                }
                () = sleep(left), if now.open.is_none() => return None,
            }
        }
    }
}

/// A question that is open.
struct Open<'a>(&'a watch::Sender<Spent>);

impl<'a> Open<'a> {
    fn new(spent: &'a watch::Sender<Spent>) -> Self {
        spent.send_modify(|s| s.open = Some(s.open.map_or((Instant::now(), 1), |(since, count)| (since, count + 1))));
        Self(spent)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|s| {
            s.open = match s.open {
                Some((since, count)) if count > 1 => Some((since, count - 1)),
                Some((since, _)) => {
                    s.before += since.elapsed();
                    None
                }
                None => None,
            };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Notify;

    /// Answers when it is told to.
    struct Slow(Notify);

    impl Operator for Slow {
        fn there(&self) -> bool {
            true
        }

        fn ask(&self, _address: String, _question: Question) -> BoxFuture<'_, Answer> {
            async move {
                self.0.notified().await;
                Answer::Trust { save: true }
            }
            .boxed()
        }

        fn tell(&self, _address: String, _question: Question) {}
    }

    #[tokio::test]
    async fn where_nobody_is_nothing_was_asked() {
        let person = Person::default();
        let mut asked = std::pin::pin!(person.asked());
        let answer = person.ask("ada@gpu:22".into(), Question::Password { again: false });
        let answer = tokio::select! {
            biased;
            () = &mut asked => panic!("somebody was asked"),
            answer = answer => answer,
        };
        assert_eq!(answer, Answer::Cancel);
        assert!(asked.now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_limit_stands_still_while_a_question_is_open() {
        let slow = Arc::new(Slow(Notify::new()));
        let person = Person::new(slow.clone());
        let limit = Duration::from_millis(40);
        let work = async {
            let asked = person.ask("ada@gpu:22".into(), Question::Password { again: false });
            let answering = async {
                // Longer than the limit: the limit's clock is watched from inside, so that no sleep is needed to be certain.
                let since = Instant::now();
                while since.elapsed() < 3 * limit {
                    tokio::task::yield_now().await;
                }
                person.asked().await;
                slow.0.notify_one();
            };
            tokio::join!(asked, answering).0
        };
        assert_eq!(person.within(limit, work).await, Some(Answer::Trust { save: true }));
        assert!(person.asked().now_or_never().is_none());
        assert_eq!(person.within(limit, std::future::pending::<()>()).await, None);
    }

    #[tokio::test]
    async fn nobody_refuses_at_once() {
        let person = Person::default();
        assert!(!person.there());
        assert_eq!(person.ask("ada@gpu:22".into(), Question::Password { again: false }).await, Answer::Cancel);
    }
}
