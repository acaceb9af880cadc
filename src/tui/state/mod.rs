//! Everything that the screen is made from.
//!
//! Invariant: plain data; it changes only through [`State::apply`] (what the daemon says) and [`State::input`] (what the person
//! does), both pure apart from the clock that the loop writes in before. The daemon owns the truth; this is a copy.

pub(super) mod apply;
pub(super) mod block;
pub(super) mod completion;
pub(super) mod dialog;
pub(super) mod editor;
pub(super) mod feed;
pub(super) mod history;
pub(super) mod lists;
pub(super) mod log;
pub(super) mod messages;
pub(super) mod overlay;
pub(super) mod pane;
pub(super) mod pause;
pub(super) mod processes;
pub(super) mod query;
pub(super) mod reads;
pub(super) mod told;

use super::input::key::Key;
use super::input::keymap::Keymap;
use super::layout::Mode;
use super::theme::Theme;
use crate::model::{BackendInfo, DaemonInfo, HealthState, Millis, ProcessId, SessionInfo};
use block::Block;
use jiff::tz::TimeZone;
use overlay::Overlay;
use pane::Pane;
use ratatui::layout::Rect;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;

/// How the keyboard is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// Typing goes to the input line.
    Input,
    /// Single keys act on the commands of the pane.
    Nav,
    /// Single keys scroll the pane.
    Scroll,
}

/// What fills the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Panes,
    Backends,
    Processes,
    Feed,
    Messages,
    /// Everything about one command.
    Details,
    Help,
}

/// The connection to the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// The first one is being made.
    Starting,
    Connected,
    Lost {
        reason: String,
        since: Millis,
        /// When the next attempt starts.
        next_try: Option<Millis>,
        /// The daemon said that it was ending: it is not started anew without being asked.
        stopped: bool,
    },
}

/// Everything about one command, on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Details {
    pub(super) process: ProcessId,
    /// Where the person came from.
    pub(super) from: View,
    /// The first row on screen.
    pub(super) at: usize,
}

/// A list on the screen: where the cursor is and what is filtered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListState {
    /// The row of the cursor, counted among the rows shown.
    pub(super) at: usize,
    /// Only rows with this text.
    pub(super) filter: String,
    /// Whether the filter is being typed.
    pub(super) typing: bool,
}

/// What the last frame showed: the reading of logs and the mouse depend on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Drawn {
    /// The panes on screen.
    pub(super) panes: Vec<DrawnPane>,
    /// Places that the mouse can press, with the backend's index.
    pub(super) spots: Vec<(Rect, usize)>,
    /// Whether something on screen counts seconds.
    pub(super) ticking: bool,
    /// Where the terminal's cursor is; none hides it.
    pub(super) cursor: Option<(u16, u16)>,
    /// Rows of the list shown.
    pub(super) list_rows: usize,
    /// The rows of the list, and which of them is the first on screen: the mouse presses them.
    pub(super) list: Option<(Rect, usize)>,
    /// The log pane.
    pub(super) log: Option<DrawnLog>,
    /// All rows that the details have.
    pub(super) details_rows: usize,
}

/// The log pane of the last frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DrawnLog {
    /// The area of its rows.
    pub(super) rows: Rect,
    /// Columns of a row's text.
    pub(super) width: usize,
    pub(super) need: log::Need,
}

/// A pane of the last frame.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DrawnPane {
    /// Which.
    pub(super) pane: usize,
    /// Its whole area.
    pub(super) area: Rect,
    /// The area of its rows.
    pub(super) rows: Rect,
    /// The blocks with at least one row on screen, and whether the whole block is, top down.
    pub(super) blocks: Vec<(ProcessId, bool)>,
}

/// What the TUI was started with.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) fleet: Option<String>,
    pub(super) home: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) log: Option<PathBuf>,
    /// Multiplexers around us, with the key they take: `tmux`, `ctrl-b`.
    pub(super) outer: Vec<(&'static str, Key)>,
}

/// The state.
pub(super) struct State {
    /// Wall clock, written by the loop.
    pub(super) now: Millis,
    /// Milliseconds since the start, written by the loop.
    pub(super) mono: u64,
    pub(super) size: (u16, u16),
    pub(super) zone: TimeZone,
    pub(super) theme: Theme,
    pub(super) keymap: Keymap,
    pub(super) facts: Facts,
    pub(super) link: Link,
    pub(super) daemon: DaemonInfo,
    /// Counts connections: answers of an earlier one are dropped.
    pub(super) epoch: u64,
    pub(super) backends: Vec<BackendInfo>,
    pub(super) sessions: Vec<SessionInfo>,
    /// One per backend, in the same order.
    pub(super) panes: Vec<Pane>,
    pub(super) blocks: HashMap<ProcessId, Block>,
    /// Commands started here that have not ended: they end with this connection.
    pub(super) own: HashSet<ProcessId>,
    pub(super) focus: usize,
    pub(super) last: Option<String>,
    pub(super) mood: Mood,
    pub(super) view: View,
    pub(super) list: ListState,
    /// The view that help goes back to.
    pub(super) help_from: View,
    pub(super) processes: processes::Processes,
    pub(super) feed: feed::Feed,
    pub(super) details: Option<Details>,
    /// When the leader was pressed, while its key is awaited.
    pub(super) leader: Option<u64>,
    pub(super) overlay: Option<Overlay>,
    /// Questions of logins, the one that is shown first.
    pub(super) asked: VecDeque<dialog::Dialog>,
    /// Since when nothing was typed, while the person is asked to pause.
    pub(super) quiet_since: Option<u64>,
    pub(super) zoom: bool,
    pub(super) layout: Mode,
    pub(super) messages: VecDeque<messages::Message>,
    pub(super) loud: messages::Loud,
    /// The number of the last thing that a process told; each daemon counts from 1.
    pub(super) told: u64,
    pub(super) chip: Option<(u64, String)>,
    pub(super) drawn: Drawn,
    /// Counts requests whose answers must find their asker.
    pub(super) ticket: u64,
    /// Set when all cells must be sent again.
    pub(super) redraw: bool,
}

impl State {
    /// Makes the state before anything is known.
    pub(super) fn new(size: (u16, u16), theme: Theme, keymap: Keymap, zone: TimeZone, facts: Facts) -> Self {
        Self {
            now: 0,
            mono: 0,
            size,
            zone,
            theme,
            keymap,
            facts,
            link: Link::Starting,
            daemon: DaemonInfo::default(),
            epoch: 0,
            backends: Vec::new(),
            sessions: Vec::new(),
            panes: Vec::new(),
            blocks: HashMap::new(),
            own: HashSet::new(),
            focus: 0,
            last: None,
            mood: Mood::Input,
            view: View::Panes,
            list: ListState::default(),
            help_from: View::Panes,
            processes: processes::Processes::default(),
            feed: feed::Feed::default(),
            details: None,
            leader: None,
            overlay: None,
            asked: VecDeque::new(),
            quiet_since: None,
            zoom: false,
            layout: Mode::Auto,
            messages: VecDeque::new(),
            loud: messages::Loud::default(),
            told: 0,
            chip: None,
            drawn: Drawn::default(),
            ticket: 0,
            redraw: true,
        }
    }

    /// Gives the pane that has the keyboard.
    pub(super) fn pane(&self) -> Option<&Pane> {
        self.panes.get(self.focus)
    }

    /// Gives the pane that has the keyboard, to change it.
    pub(super) fn pane_mut(&mut self) -> Option<&mut Pane> {
        self.panes.get_mut(self.focus)
    }

    /// Gives the index of a backend.
    pub(super) fn backend_index(&self, name: &str) -> Option<usize> {
        self.backends.iter().position(|b| b.name == name)
    }

    /// Gives a session's row.
    pub(super) fn session(&self, backend: &str, name: &str) -> Option<&SessionInfo> {
        self.sessions.iter().find(|s| s.backend == backend && s.name == name)
    }

    /// Says why a command cannot be run on a backend now; none when it can.
    pub(super) fn away(&self, pane: usize) -> Option<String> {
        if let Link::Lost { .. } = self.link {
            return Some("the daemon is gone".to_owned());
        }
        let backend = self.backends.get(pane)?;
        let health = &backend.health;
        let name = super::text::clean(&backend.name);
        match health.state {
            HealthState::Reconnecting => Some(match health.next_try {
                Some(at) if at > self.now => format!("{name} is reconnecting: next try in {}s", (at - self.now + 999) / 1000),
                _ => format!("{name} is reconnecting: trying now"),
            }),
            HealthState::Down => Some(format!("{name} is down")),
            HealthState::Idle | HealthState::Connecting | HealthState::Up | HealthState::Degraded => None,
        }
    }

    /// Moves the focus to a pane.
    pub(super) fn focus_on(&mut self, pane: usize) {
        if pane >= self.panes.len() || pane == self.focus {
            return;
        }
        self.last = self.panes.get(self.focus).map(|p| p.backend.clone());
        // Scrolling belongs to the pane that was left; NAV goes along.
        if self.mood == Mood::Scroll {
            self.mood = Mood::Input;
        }
        self.focus = pane;
        if let Some(backend) = self.pane().map(|p| p.backend.clone()) {
            self.settle_alerts(|about| about.process.is_none() && about.backend.as_ref() == Some(&backend));
        }
    }

    /// Gives the moment (in [`State::mono`]) when something changes without an event; none when nothing does.
    pub(super) fn next_wake(&self) -> Option<u64> {
        let popup = self.leader.map(|at| at + overlay::POPUP_MS).filter(|at| *at > self.mono);
        let chip = self.chip.as_ref().map(|(until, _)| *until);
        let tick = self.drawn.ticking.then(|| self.mono + 1000 - self.now.rem_euclid(1000) as u64);
        [popup, chip, tick, self.pause_ends()].into_iter().flatten().min()
    }

    /// Lets go what has run out.
    pub(super) fn tick(&mut self) {
        if self.chip.as_ref().is_some_and(|(until, _)| *until <= self.mono) {
            self.chip = None;
        }
    }
}
