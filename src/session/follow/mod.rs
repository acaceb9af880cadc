//! Following all background processes of one backend.
//!
//! Invariant: they are only read from, so a link that breaks costs nothing but time: what was read is counted in bytes of their logs.

mod far;
mod here;

use super::background::Spot;
use crate::backend::{Backend, BackendError};
use crate::model::Outcome;
use crate::shell::background::{Cap, How};
use crate::shell::record::{Parser, Record};
use far::Far;
use here::Here;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How a follower is started.
#[derive(Clone, Copy, Debug)]
pub struct FollowSettings {
    /// Which shell.
    pub shell: crate::backend::ShellChoice,
    /// How long it may take to be ready.
    pub timeout: Duration,
    /// What a log keeps on the backend of what was not fetched.
    pub cap: Cap,
}

/// A process that is followed, and how far its output was taken in.
#[derive(Clone, Debug)]
pub struct Followed {
    /// Where it is.
    pub spot: Spot,
    /// Bytes of its log that were read.
    pub offset: u64,
    /// Of these, what is safe with us: the backend may let go of it.
    pub kept: u64,
}

/// What was heard of a background process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Output, next in order.
    Output(Vec<u8>),
    /// So many bytes, next in order, are not there any more: the log was over its cap before they were fetched.
    Gap(u64),
    /// It has ended.
    Ended {
        /// How.
        outcome: Outcome,
        /// Whether nothing ran, because its directory could not be entered.
        no_directory: bool,
    },
}

/// Follows the background processes of one backend.
pub struct Follower(Kind);

enum Kind {
    /// Through a shell there.
    Far(Box<Far>),
    /// On this machine: their files are at hand.
    Here(Box<Here>),
}

impl Follower {
    /// Starts to look after them; `root` as in their [`Spot`]s.
    pub async fn open(backend: &Arc<dyn Backend>, settings: &FollowSettings, root: &str) -> Result<Self, BackendError> {
        if backend.about().capabilities.same_files {
            return Ok(Self(Kind::Here(Box::new(Here::open(settings)?))));
        }
        Ok(Self(Kind::Far(Box::new(Far::open(backend, settings, root).await?))))
    }

    /// Asks for what is new of these, each from an offset on: [`Follower::next`] gives it. Cancel safe.
    pub async fn ask(&mut self, list: &[Followed]) -> Result<(), BackendError> {
        match &mut self.0 {
            Kind::Far(far) => far.ask(list).await,
            Kind::Here(here) => here.ask(list).await,
        }
    }

    /// Gives the next of what there is; none when that is all, then it is asked again. Waits until there is something, at most about half
    /// a minute on a far side; `wake` makes it answer sooner. Not cancel safe: dropped, the follower is of no use any more.
    pub async fn next(&mut self, list: &[Followed], wake: &Notify) -> Result<Option<(String, Heard)>, BackendError> {
        match &mut self.0 {
            Kind::Far(far) => far.next(list, wake).await,
            Kind::Here(here) => here.next(wake).await,
        }
    }

    /// Has the folders of processes removed whose end was taken in.
    pub async fn remove(&mut self, root: &str, ids: &[String]) {
        match &mut self.0 {
            Kind::Far(far) => far.remove(ids).await,
            Kind::Here(_) => here::remove(root, ids).await,
        }
    }
}

/// How a process ended, from what is known there and what its shell told.
fn ended(how: How, told: &[u8], nonce: &str) -> Heard {
    let (mut records, mut rest) = (Vec::new(), Vec::new());
    Parser::new(nonce).feed(told, &mut records, &mut rest);
    let no_directory = records.iter().any(|r| matches!(r, Record::NoDirectory(_)));
    let last_word = |code| records.iter().any(|r| matches!(r, Record::End(end) if end.code == code));
    let not_run = records.iter().any(|r| matches!(r, Record::NotRun(_)));
    let outcome = match how {
        How::Late => Outcome::TimedOut,
        How::Exit(_) if not_run => Outcome::SpawnFailed { reason: "the session's files were gone when it started: run it again".into() },
        // A shell whose last word was this code exited with it, whatever it looks like.
        How::Exit(code) if no_directory || last_word(code) => Outcome::Exited { exit_code: code },
        How::Exit(code) => match nix::sys::signal::Signal::try_from(code - 128) {
            Ok(signal) => Outcome::Signaled { signal: signal.as_str().to_owned() },
            Err(_) => Outcome::Exited { exit_code: code },
        },
        How::Gone => Outcome::Lost { reason: "its process is gone and left no exit code: it was killed, or its files were removed".into() },
        How::Boot => Outcome::Lost { reason: "the machine was started anew while it ran; its exit code is not known".into() },
    };
    Heard::Ended { outcome, no_directory }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_as_it_was() {
        let n = "0123456789abcdef";
        let check = |how, told: &str| match ended(how, told.as_bytes(), n) {
            Heard::Ended { outcome, no_directory } => (outcome.word(), outcome.process_exit_code(), no_directory),
            Heard::Output(_) | Heard::Gap(_) => panic!("no end"),
        };
        let record = "\x1eE0123456789abcdef\x00143\x00/\x00/\x00\x00\x00\x00\x30\x00ok\x00";
        assert_eq!(check(How::Exit(0), ""), ("exited", 0, false));
        assert_eq!(check(How::Exit(143), ""), ("signaled", 143, false));
        assert_eq!(check(How::Exit(143), record), ("exited", 143, false));
        assert_eq!(check(How::Exit(126), "\x1eW0123456789abcdef\0no such directory\0"), ("exited", 126, true));
        assert_eq!(check(How::Exit(97), "\x1eX0123456789abcdef\0nosnap\0"), ("spawn_failed", 125, false));
        assert_eq!(check(How::Exit(255), ""), ("exited", 255, false));
        assert_eq!(check(How::Gone, ""), ("lost", 255, false));
        assert_eq!(check(How::Boot, ""), ("lost", 255, false));
        assert_eq!(check(How::Late, record), ("timed_out", 124, false));
    }
}
