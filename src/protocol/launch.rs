//! How a client and the daemon that it starts find each other: the lock file's content and the child's first words.
//!
//! Invariant: the lock file is held for life by the daemon, and its content is written only while it is held and the socket
//! answers; so what it says is either right or of a daemon that is dead.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The arguments with which a client starts a daemon; `--config FILE` may come before them.
pub const ARGV: [&str; 2] = ["serve", "--detached"];

/// Variables of a client that its daemon must not inherit: they are about one command or one caller.
pub const NOT_INHERITED: [&str; 8] =
    ["QD_PROCESS", "QD_DAEMON", "QD_SESSION", "QD_BACKEND", "QD_CLIENT", "QD_CONFIG", "QUARTERDECK", "AI_AGENT"];

/// What the lock file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockContent {
    /// The daemon's process id.
    pub pid: u32,
    /// Its socket.
    pub socket: PathBuf,
    /// Its version.
    #[serde(default)]
    pub version: String,
}

impl LockContent {
    /// Reads a lock file's content; none when it is empty or cut short: no daemon is ready.
    pub fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    /// Gives the content as one line.
    pub fn line(&self) -> String {
        // Paths that are no UTF-8 have no JSON form; the daemon refuses them before it gets here.
        serde_json::to_string(self).map(|line| line + "\n").unwrap_or_default()
    }
}

/// The line that a started daemon writes on its stdout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "daemon", rename_all = "snake_case")]
pub enum Report {
    /// It listens.
    Ready {
        /// Its process id.
        pid: u32,
    },
    /// The config cannot be used.
    BadConfig {
        /// The whole message.
        message: String,
    },
    /// It cannot start.
    Failed {
        /// Why and what to do.
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_file_survives_writing_and_reading_and_later_fields() {
        let content = LockContent { pid: 7, socket: "/run/user/0/quarterdeck/a.sock".into(), version: "0.1.0".into() };
        assert_eq!(LockContent::parse(content.line().as_bytes()), Some(content));
        assert!(LockContent::parse(br#"{"pid":1,"socket":"/x","later":1}"#).is_some());
    }

    #[test]
    fn an_empty_or_cut_lock_file_names_no_daemon() {
        let line = LockContent { pid: 7, socket: "/x".into(), version: String::new() }.line();
        for cut in 0..line.len() - 2 {
            assert_eq!(LockContent::parse(&line.as_bytes()[..cut]), None, "{cut}");
        }
    }
}
