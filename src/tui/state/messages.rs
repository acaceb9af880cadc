//! What a person is told: kept, counted where it repeats, and loud only as far as its level and its source allow.
//!
//! Invariant: everything is kept in the messages, up to a bound; what is quiet there is quiet for a reason (its pane is looked at, or its
//! source has been loud too often) and never lost.

use super::{State, View};
use crate::model::{Level, Millis, ProcessId};
use std::collections::VecDeque;

/// Messages kept for the messages view.
const MESSAGES: usize = 500;
/// Among so many of the last messages an equal one is counted instead of repeated.
const FOLD: usize = 16;
/// How long a notice stays on the status line, in milliseconds.
const CHIP_MS: u64 = 5_000;
/// So many loud messages of one source within [`WINDOW_MS`]; the others go to the messages alone.
const LOUD: u32 = 5;
const WINDOW_MS: u64 = 10_000;
/// Sources whose loudness is remembered.
const SOURCES: usize = 64;
/// Alerts that wait to be seen.
const ALERTS: usize = 64;
/// Alerts that wait to be carried to the person.
const RINGS: usize = 16;

/// A line of the messages view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct Message {
    /// Counts messages.
    pub(in crate::tui) id: u64,
    pub(in crate::tui) at: Millis,
    pub(in crate::tui) level: Level,
    pub(in crate::tui) backend: Option<String>,
    pub(in crate::tui) process: Option<ProcessId>,
    pub(in crate::tui) text: String,
    /// How often it came.
    pub(in crate::tui) times: u32,
    /// It answers a key of the person: not for the feed.
    pub(in crate::tui) own: bool,
}

/// What a message is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) struct About {
    pub(in crate::tui) backend: Option<String>,
    pub(in crate::tui) process: Option<ProcessId>,
    pub(in crate::tui) own: bool,
}

/// Something that waits until a person has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct Alert {
    pub(in crate::tui) about: About,
    pub(in crate::tui) text: String,
}

/// An alert on its way to the person: bell, terminal notification, command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct Ring {
    pub(in crate::tui) backend: Option<String>,
    pub(in crate::tui) process: Option<ProcessId>,
    pub(in crate::tui) text: String,
}

/// All messages, and what of them is loud.
#[derive(Debug, Default)]
pub(in crate::tui) struct Loud {
    last: u64,
    alerts: VecDeque<Alert>,
    rings: VecDeque<Ring>,
    /// By source: since when, and how many.
    sources: VecDeque<(String, u64, u32)>,
}

impl Loud {
    /// Gives what waits to be seen, the oldest first.
    pub(in crate::tui) fn alerts(&self) -> &VecDeque<Alert> {
        &self.alerts
    }
}

impl State {
    /// Tells something about a backend, or about nothing in particular.
    pub(in crate::tui) fn say(&mut self, level: Level, backend: Option<&str>, text: impl Into<String>) {
        self.tell(level, About { backend: backend.map(str::to_owned), ..About::default() }, text);
    }

    /// Answers a key: shown for a moment, and not in the feed.
    pub(in crate::tui) fn notice(&mut self, text: impl Into<String>) {
        self.tell(Level::Notice, About { own: true, ..About::default() }, text);
    }

    /// Keeps a message and makes it as loud as it should be.
    pub(in crate::tui) fn tell(&mut self, level: Level, about: About, text: impl Into<String>) {
        let text = text.into();
        self.keep_message(self.now, level, &about, &text);
        let shown = match &about.backend {
            Some(b) if !text.contains(b.as_str()) => format!("{}: {text}", crate::tui::text::clean(b)),
            _ => text,
        };
        let watched = self.is_watched(&about);
        if level == Level::Info || (watched && level == Level::Notice) {
            return;
        }
        let until = self.mono + CHIP_MS;
        let chip = |text: String| Some((until, text));
        if about.own {
            self.chip = chip(shown);
            return;
        }
        let source = about.process.clone().or_else(|| about.backend.clone()).unwrap_or_default();
        match self.loudness(&source) {
            0..LOUD => self.chip = chip(shown.clone()),
            LOUD => self.chip = chip(format!("{shown} (more of this is in the messages alone)")),
            _ => return,
        }
        if level != Level::Alert || watched {
            return;
        }
        if self.loud.alerts.len() == ALERTS {
            self.loud.alerts.pop_front();
        }
        self.loud.alerts.retain(|a| a.about != about || a.text != shown);
        self.loud.alerts.push_back(Alert { about: about.clone(), text: shown.clone() });
        if self.loud.rings.len() < RINGS {
            self.loud.rings.push_back(Ring { backend: about.backend, process: about.process, text: shown });
        }
    }

    /// Puts a message into the list.
    pub(in crate::tui) fn keep_message(&mut self, at: Millis, level: Level, about: &About, text: &str) {
        let same = |m: &Message| m.text == text && m.backend == about.backend && m.process == about.process && m.level == level;
        let from = self.messages.len().saturating_sub(FOLD);
        let old = self.messages.range(from..).position(same).and_then(|i| self.messages.remove(from + i));
        let times = old.as_ref().map_or(1, |m| m.times + 1);
        if self.messages.len() == MESSAGES {
            self.messages.pop_front();
        }
        self.loud.last += 1;
        let (backend, process) = (about.backend.clone(), about.process.clone());
        let id = old.map_or(self.loud.last, |m| m.id);
        self.messages.push_back(Message { id, at, level, backend, process, text: text.to_owned(), times, own: about.own });
    }

    /// Counts a loud message of a source; gives how many were loud before it in the present stretch of time.
    fn loudness(&mut self, source: &str) -> u32 {
        let now = self.mono;
        let sources = &mut self.loud.sources;
        match sources.iter_mut().find(|(name, ..)| name == source) {
            Some((_, since, count)) => {
                if now.saturating_sub(*since) >= WINDOW_MS {
                    (*since, *count) = (now, 0);
                }
                *count += 1;
                *count - 1
            }
            None => {
                if sources.len() == SOURCES {
                    sources.pop_front();
                }
                sources.push_back((source.to_owned(), now, 1));
                0
            }
        }
    }

    /// Tells whether the person looks at what a message is about.
    fn is_watched(&self, about: &About) -> bool {
        let pane = self.view == View::Panes && about.backend.is_some() && self.pane().map(|p| &p.backend) == about.backend.as_ref();
        let row = self.view == View::Processes && about.process.is_some() && self.processes.cursor == about.process;
        pane || row
    }

    /// Counts what waits to be seen.
    pub(in crate::tui) fn alert_count(&self) -> usize {
        self.loud.alerts.len()
    }

    /// Takes the alerts that are to be carried to the person.
    pub(in crate::tui) fn take_rings(&mut self) -> VecDeque<Ring> {
        std::mem::take(&mut self.loud.rings)
    }

    /// Takes the oldest alert, as it is about to be seen.
    pub(in crate::tui) fn take_alert(&mut self) -> Option<Alert> {
        self.loud.alerts.pop_front()
    }

    /// All alerts were seen, or those about something that is well again.
    pub(in crate::tui) fn settle_alerts(&mut self, over: impl Fn(&About) -> bool) {
        self.loud.alerts.retain(|a| !over(&a.about));
    }
}
