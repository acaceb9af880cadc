//! The feed: commands of all backends and what the system said, newest first.
//!
//! Invariant: a row is named by a key that never changes, so that a feed that is scrolled stays where it is while rows arrive above.

use super::State;
use super::block::Block;
use super::messages::Message;
use super::query::{Subject, lets_through};
use crate::model::{Level, Millis, ProcessState};

/// How the feed is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) struct Feed {
    /// The row under the cursor; none: the newest, whichever that is.
    pub(in crate::tui) key: Option<String>,
    /// The first row on screen; none: the newest.
    pub(in crate::tui) top: Option<String>,
    /// Only what this one started.
    pub(in crate::tui) by: Option<String>,
    /// Only what failed.
    pub(in crate::tui) failures: bool,
    /// Nothing newer than this is shown.
    pub(in crate::tui) paused: Option<Millis>,
}

/// A row.
pub(in crate::tui) enum Item<'a> {
    Command {
        /// The newest of equal ones in a row.
        block: &'a Block,
        /// The oldest of them: the row keeps its name while more come.
        oldest: &'a str,
        /// How many there are.
        times: usize,
    },
    Said(&'a Message),
}

impl Item<'_> {
    /// Gives the row's name.
    pub(in crate::tui) fn key(&self) -> String {
        match self {
            Self::Command { oldest, .. } => (*oldest).to_owned(),
            Self::Said(message) => format!("message {}", message.id),
        }
    }

    fn at(&self) -> (Millis, &str) {
        match self {
            Self::Command { block, .. } => (block.info.started, &block.info.id),
            Self::Said(message) => (message.at, ""),
        }
    }
}

impl State {
    /// Gives the rows of the feed as its filters let through, newest first.
    pub(in crate::tui) fn feed_rows(&self) -> Vec<Item<'_>> {
        let feed = &self.feed;
        let newest = |at: Millis| feed.paused.is_none_or(|until| at <= until);
        let commands = self.blocks.values().filter(|b| {
            newest(b.info.started)
                && self.backend_index(&b.info.backend).is_some()
                && feed.by.as_ref().is_none_or(|by| b.who() == *by)
                && (!feed.failures || b.failed())
                && self.is_let_through(&self.list.filter, b)
        });
        let said = self.messages.iter().filter(|m| {
            let states: &[&str] = if m.level == Level::Alert { &["alert"] } else { &["notice"] };
            let texts = [m.text.as_str(), m.backend.as_deref().unwrap_or(""), "system"];
            let tags = self.backends.iter().find(|b| Some(&b.name) == m.backend.as_ref()).map_or(&[][..], |b| &b.tags);
            newest(m.at)
                && !m.own
                && feed.by.is_none()
                && (!feed.failures || m.level == Level::Alert)
                && lets_through(&self.list.filter, &Subject { texts: &texts, states, by: "system", tags })
        });
        fold(commands.map(|block| Item::Command { block, oldest: &block.info.id, times: 1 }).chain(said.map(Item::Said)).collect())
    }

    /// Gives the newest rows without filters, for the column beside the panes.
    pub(in crate::tui) fn feed_column(&self, rows: usize) -> Vec<Item<'_>> {
        let known = |b: &&Block| self.backend_index(&b.info.backend).is_some();
        let commands = self.blocks.values().filter(known).map(|block| Item::Command { block, oldest: &block.info.id, times: 1 });
        let mut all = fold(commands.chain(self.messages.iter().filter(|m| !m.own).map(Item::Said)).collect());
        all.truncate(rows);
        all
    }

    /// Counts the commands that began since the feed was paused.
    pub(in crate::tui) fn feed_waiting(&self) -> usize {
        let Some(until) = self.feed.paused else { return 0 };
        self.blocks.values().filter(|b| b.info.started > until).count()
    }

    /// Gives where the cursor and the first row on screen are.
    pub(in crate::tui) fn feed_place(&self, rows: &[Item<'_>], height: usize) -> (usize, usize) {
        let find = |key: &Option<String>| key.as_ref().and_then(|key| rows.iter().position(|r| r.key() == *key)).unwrap_or(0);
        let at = find(&self.feed.key);
        let first = find(&self.feed.top).min(at).max((at + 1).saturating_sub(height.max(1)));
        (at, first)
    }
}

/// Puts rows in order, and equal commands that follow one another into one row.
fn fold(mut all: Vec<Item<'_>>) -> Vec<Item<'_>> {
    all.sort_by(|a, b| b.at().cmp(&a.at()));
    let mut out: Vec<Item<'_>> = Vec::with_capacity(all.len());
    for item in all {
        match (out.last_mut(), &item) {
            (Some(Item::Command { block, oldest, times }), Item::Command { block: next, .. }) if is_same(block, next) => {
                *oldest = &next.info.id;
                *times += 1;
            }
            _ => out.push(item),
        }
    }
    out
}

/// Tells whether two commands are one row: the same text in the same place by the same one, both ended in the same way.
fn is_same(a: &Block, b: &Block) -> bool {
    let (x, y) = (&a.info, &b.info);
    let ended = matches!(x.state, ProcessState::Ended(_)) && x.state == y.state && a.lost == b.lost;
    ended && x.backend == y.backend && x.session == y.session && x.who.name == y.who.name && x.command == y.command
}
