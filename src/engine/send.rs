//! Writing to the stdin of a command that runs, by others than its caller.
//!
//! Invariant: a batch is written whole and in order, or nothing of it; who wrote is noted, what was written never is.

use super::{Core, EngineError};
use crate::model::{Level, ProcessInfo, Who};
use crate::session::{Typing, Untaken};
use std::time::Duration;

/// Most bytes of one batch, so that what waits for one command stays below 4 MiB.
const MOST: usize = 256 << 10;
/// How long it is waited for a command to take a batch before it is told that it waits: a pipe with room takes it at once.
const TAKES: Duration = Duration::from_secs(1);

/// What is to be written.
#[derive(Clone, Default)]
pub struct Write {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether the stdin ends after them.
    pub end: bool,
    /// How long the command's output was when the writer looked; when it is longer by now, nothing is written.
    pub expect_offset: Option<u64>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The process.
    pub process: ProcessInfo,
    /// Bytes that wait, because the command does not read: they are written, in order, when it does. Zero: all is written.
    pub waiting: u64,
}

/// Says what became of a batch (see [`Typing::queue`]).
type Told = tokio::sync::oneshot::Receiver<Result<(), String>>;

impl Core {
    /// Opens a command's stdin to others.
    pub(crate) fn open_stdin(&self, id: &str, typing: Typing) {
        if let Some(entry) = self.state().table.get_mut(id) {
            entry.stdin = Some(typing);
        }
    }

    /// Writes to a command's stdin (see [`super::Engine::send`]).
    pub(crate) async fn send(&self, who: &Who, process: &str, write: Write) -> Result<Written, EngineError> {
        if write.bytes.len() > MOST {
            let text = format!("{} bytes are above the limit of {MOST} for one write; pipe them into `qd exec -i`", write.bytes.len());
            return Err(EngineError::Usage(text));
        }
        let (typing, id, told) = self.queue(who, process, write)?;
        let written = tokio::time::timeout(TAKES, told).await;
        let process = self.state().table.find(&id).map(super::table::Entry::shown)?;
        match written {
            Ok(Ok(Ok(()))) => Ok(Written { process, waiting: 0 }),
            Ok(Ok(Err(why))) => Err(EngineError::Refused(format!("it is not known whether {id} got this: {why}"))),
            Ok(Err(_)) => Err(EngineError::Refused(format!("{id} stopped reading its stdin before it had all of this"))),
            Err(_) => Ok(Written { process, waiting: typing.waiting() }),
        }
    }

    fn queue(&self, who: &Who, process: &str, write: Write) -> Result<(Typing, String, Told), EngineError> {
        let mut state = self.state();
        let entry = state.table.find(process)?;
        let (typing, total) = (open(entry)?, entry.log.total());
        if entry.info.detached {
            self.reachable(&state, &entry.info)?;
        }
        let (id, len, end) = (entry.info.id.clone(), write.bytes.len(), write.end);
        if let Some(expected) = write.expect_offset {
            expect(&id, expected, total)?;
        }
        let told = typing.queue(write.bytes, end).map_err(|why| {
            EngineError::Refused(match why {
                Untaken::Full => {
                    let waiting = typing.waiting();
                    format!("{id} does not read its stdin: {waiting} bytes wait for it already, and nothing of this was taken")
                }
                Untaken::Over => over(&id),
            })
        })?;
        tracing::info!(process = id, who = who.name, peer = who.peer_pid, bytes = len, end, "stdin was written to");
        if let Some(entry) = state.table.get_mut(&id)
            && (entry.info.who.kind, &entry.info.who.name) != (who.kind, &who.name)
            && entry.writer.as_deref() != Some(who.name.as_str())
        {
            entry.writer = Some(who.name.clone());
            let (owner, backend) = (entry.info.who.name.clone(), entry.info.backend.clone());
            drop(state);
            let text = format!("{} writes to the stdin of {id}, which {owner} started", who.name);
            self.shared.notice(Level::Info, Some(&backend), text);
        }
        Ok((typing, id, told))
    }
}

/// Gives the way to the stdin of a command, or says why there is none.
fn open(entry: &super::table::Entry) -> Result<Typing, EngineError> {
    let id = &entry.info.id;
    if entry.info.state.is_ended() {
        return Err(EngineError::Refused(format!("{id} has ended; nothing was sent")));
    }
    match &entry.stdin {
        None => {
            let text = format!(
                "{id} has no open stdin: a command gets one with `qd exec -i`, a background one with `qd exec -d --stdin-open`, or Ctrl-O in the terminal UI"
            );
            Err(EngineError::Refused(text))
        }
        Some(typing) if typing.is_over() => Err(EngineError::Refused(over(id))),
        Some(typing) => Ok(typing.clone()),
    }
}

fn over(id: &str) -> String {
    format!("the stdin of {id} has ended; nothing was sent")
}

/// Refuses when the output is not as long as the writer saw it.
fn expect(id: &str, expected: u64, total: u64) -> Result<(), EngineError> {
    match total.checked_sub(expected) {
        Some(0) => Ok(()),
        Some(more) => Err(EngineError::Outdated {
            message: format!("{id} has said {more} bytes more since byte {expected}; nothing was sent"),
            fix: format!("look at them with `qd logs {id} --offset {expected}`, then send with --expect-offset {total}"),
        }),
        None => Err(EngineError::Usage(format!("the output of {id} is {total} bytes long, not {expected}; nothing was sent"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_for_an_older_screen_is_refused() {
        assert_eq!(expect("k7f3", 10, 10), Ok(()));
        assert!(
            matches!(expect("k7f3", 10, 13), Err(EngineError::Outdated { message, fix }) if message.contains("3 bytes more") && fix.contains("--offset 10"))
        );
        assert!(matches!(expect("k7f3", 10, 9), Err(EngineError::Usage(_))));
    }
}
