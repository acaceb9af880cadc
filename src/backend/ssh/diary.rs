//! What happens while a connection is made, told step by step to whoever examines the way.
//!
//! Invariant: writing never waits and never fails the connection; with nobody who reads, nothing is written.

use crate::model::ShownKey;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::mpsc;

/// Steps that may wait for the reader: more than one login makes.
const PAGES: usize = 64;

/// One step that was made.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The name was resolved.
    Resolved {
        /// To these addresses.
        addrs: Vec<SocketAddr>,
        /// How long that took.
        took: Duration,
    },
    /// An address was connected.
    Connected {
        /// Which.
        addr: SocketAddr,
        /// How long that took.
        took: Duration,
    },
    /// The server named itself (`SSH-2.0-...`).
    Spoke(String),
    /// The server showed its host key.
    HostKey {
        /// The key.
        key: ShownKey,
        /// How it stands.
        judged: Judged,
    },
    /// Something was offered for the login, and how the server took it.
    Tried {
        /// What, in words without secrets.
        what: String,
        /// How it was taken.
        answer: Answer,
    },
    /// Something was not offered, with the reason.
    PassedOver(String),
}

/// How a host key stands with what is known.
#[derive(Clone, Debug)]
pub(super) enum Judged {
    /// Known.
    Known,
    /// Not known, and accepted by the policy.
    New,
    /// Not known; the operator trusts it until the backend is disconnected.
    ForNow,
    /// Refused; the attempt ends with the reason.
    Refused,
}

/// How the server took what was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It let us in.
    In,
    /// It wants something more beside it.
    Partly,
    /// Refused.
    Refused,
}

/// Where steps are written. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Diary {
    examines: bool,
    reader: Option<mpsc::Sender<Step>>,
}

impl Diary {
    /// Makes one and its reader.
    pub(super) fn new() -> (Self, mpsc::Receiver<Step>) {
        let (sender, reader) = mpsc::channel(PAGES);
        (Self { examines: true, reader: Some(sender) }, reader)
    }

    /// Makes one for a machine in between: its steps are nobody's, but it is examined too.
    pub(super) fn unread() -> Self {
        Self { examines: true, reader: None }
    }

    /// Whether the connection is made to examine the way: then it changes nothing here.
    pub(super) fn examines(&self) -> bool {
        self.examines
    }

    /// Writes a step; what does not fit is dropped.
    pub(super) fn note(&self, step: Step) {
        if let Some(sender) = &self.reader
            && sender.try_send(step).is_err()
        {
            tracing::debug!("a step of an examination was not written down");
        }
    }
}
