//! Telling the end of a process that was started with `notify`.
//!
//! Invariant: it is told once: by a wait or a followed log that reaches it, else to whoever watches. While one of those is under
//! way the end is theirs; when all of them go without having told it, it is told to the watchers.

use super::watch::of;
use super::{Core, EngineError};
use crate::model::clean::Clean;
use crate::model::{LogStart, Millis, News, ProcessId, ProcessState, TOLD_CHARS};
use crate::session::log::Log;
use std::sync::Arc;

/// So much of the end of a log is looked at: enough that a secret that begins before what is told is known as one.
const LOOKED_AT: u64 = 32 * 1024;

/// How it stands with the telling of one process's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Nobody asked for it.
    #[default]
    NotAsked,
    /// It is to be told.
    Asked,
    /// It is being told to the watchers.
    Begun,
    /// It was told.
    Done,
}

/// What the row of a process knows of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notify {
    pub(crate) telling: Telling,
    /// Calls under way that tell the end when they reach it.
    waits: usize,
}

impl Notify {
    /// For a process that is to tell its end, or not.
    pub(crate) fn new(asked: bool) -> Self {
        Self { telling: if asked { Telling::Asked } else { Telling::NotAsked }, waits: 0 }
    }

    /// Whether it is still to be told.
    pub(crate) fn is_open(self) -> bool {
        matches!(self.telling, Telling::Asked | Telling::Begun)
    }
}

/// A call that tells the end of a process when it reaches it. Dropped without that, the end is told otherwise.
#[derive(Default)]
pub struct Waiting {
    of: Option<(Arc<Core>, ProcessId)>,
}

impl Waiting {
    /// Says that the end was told.
    pub fn delivered(self) {
        if let Some((core, id)) = &self.of {
            core.end_was_told(id);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some((core, id)) = self.of.take() else { return };
        if let Some(entry) = core.state().table.get_mut(&id) {
            entry.notify.waits = entry.notify.waits.saturating_sub(1);
        }
        core.tell_end(&id);
    }
}

impl Core {
    /// Notes that a call is under way that tells a process's end when it reaches it.
    pub(super) fn waits(self: &Arc<Self>, process: &str) -> Result<Waiting, EngineError> {
        let mut state = self.state();
        let id = state.table.find(process)?.info.id.clone();
        if let Some(entry) = state.table.get_mut(&id) {
            entry.notify.waits += 1;
        }
        drop(state);
        Ok(Waiting { of: Some((self.clone(), id)) })
    }

    /// Notes that a process's end was told.
    pub(super) fn end_was_told(self: &Arc<Self>, id: &str) {
        let was_open = {
            let mut state = self.state();
            let Some(entry) = state.table.get_mut(id) else { return };
            let was_open = entry.notify.is_open();
            if was_open {
                entry.notify.telling = Telling::Done;
            }
            was_open
        };
        if was_open {
            self.write_down_later(id);
        }
    }

    /// Tells the end of a process to the watchers, when it is asked for and nobody is about to tell it. Never waits.
    pub(super) fn tell_end(self: &Arc<Self>, id: &str) {
        let log = {
            let mut state = self.state();
            let Some(entry) = state.table.get_mut(id) else { return };
            let due = entry.info.state.is_ended() && entry.notify.waits == 0 && entry.notify.telling == Telling::Asked;
            if !due {
                return;
            }
            entry.notify.telling = Telling::Begun;
            entry.log.clone()
        };
        let (core, id) = (self.clone(), id.to_owned());
        // A `Waiting` may be dropped while everything ends, and then nobody is left to be told.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let output = core.last_words(&id, &log).await;
            core.end_told(&id, output);
            core.checkpoint_of(&id).await;
        });
    }

    fn end_told(&self, id: &str, (output, truncated): (String, bool)) {
        let mut state = self.state();
        let Some(entry) = state.table.get_mut(id) else { return };
        let ProcessState::Ended(outcome) = entry.info.state.clone() else { return };
        // A wait may have come and told it meanwhile.
        if entry.notify.telling != Telling::Begun {
            return;
        }
        entry.notify.telling = Telling::Done;
        let ran: Millis = entry.info.ended.map_or(0, |ended| ended - entry.info.started);
        let duration_ms = u64::try_from(ran).unwrap_or(0);
        self.shared.news(Some(of(&entry.info)), News::Ended { outcome, output, truncated, duration_ms }, true);
    }

    /// The end of an output as it is told, and whether there is more before it.
    async fn last_words(&self, id: &str, log: &Log) -> (String, bool) {
        let backend = self.state().table.find(id).map(|entry| entry.info.backend.clone()).unwrap_or_default();
        let chunk = match log.read(LogStart::TailBytes(LOOKED_AT), LOOKED_AT).await {
            Ok(chunk) => chunk,
            Err(error) => return (format!("[the log cannot be read: {error}]"), log.total() > 0),
        };
        let mut clean = Clean::default();
        let bytes = [clean.feed(&chunk.bytes), clean.end()].concat();
        let text = String::from_utf8_lossy(&bytes);
        let text = self.redactor(&backend).text(&text).into_owned();
        let (text, cut) = tail(&text, TOLD_CHARS);
        (text.to_owned(), cut || chunk.offset > 0)
    }

    /// Writes down how it stands with a background process, without being waited for.
    fn write_down_later(self: &Arc<Self>, id: &str) {
        let (core, id) = (self.clone(), id.to_owned());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { core.checkpoint_of(&id).await });
        }
    }
}

/// The last characters of a text, and whether there are more.
fn tail(text: &str, most: usize) -> (&str, bool) {
    match text.char_indices().rev().nth(most - 1) {
        Some((at, _)) => (&text[at..], at > 0),
        None => (text, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_text_is_cut_between_characters() {
        assert_eq!(tail("größe", 3), ("öße", true));
        assert_eq!(tail("größe", 5), ("größe", false));
        assert_eq!(tail("größe", 9), ("größe", false));
        assert_eq!(tail("", 3), ("", false));
    }
}
