//! The keys after the leader.
//!
//! Invariant: none of them ends a command without asking.

use crate::tui::effect::Effect;
use crate::tui::input::key::{Code, Key};
use crate::tui::input::table::Action;
use crate::tui::layout::{self, Direction, Mode};
use crate::tui::state::overlay::{Confirm, Moot, Overlay};
use crate::tui::state::{Link, ListState, Mood, State, View};

impl State {
    pub(super) fn leader_action(&mut self, action: Action, key: Key) -> Vec<Effect> {
        match action {
            Action::Slot => self.go_to_slot(key),
            Action::NextBackend => self.step(1),
            Action::PreviousBackend => self.step(-1),
            Action::LastBackend => self.go_back(),
            Action::FocusLeft => self.go(Direction::Left),
            Action::FocusDown => self.go(Direction::Down),
            Action::FocusUp => self.go(Direction::Up),
            Action::FocusRight => self.go(Direction::Right),
            Action::Zoom => self.toggle_zoom(),
            Action::NextLayout => self.set_layout(self.layout.next()),
            Action::EvenLayout => self.set_layout(Mode::Auto),
            Action::ScrollMode => self.enter_scroll(),
            Action::Search => self.begin_find(),
            Action::PreviousCommand => self.command_step(-1),
            Action::NextCommand => self.command_step(1),
            Action::CopyOutput => return self.copy_output(self.newest_with_output()),
            Action::Reconnect => return self.reconnect(self.focus),
            Action::Backends => self.show(View::Backends),
            Action::Feed => self.show(View::Feed),
            Action::Processes => self.show_processes(),
            Action::Messages => self.show_messages(),
            Action::NextAlert => self.next_alert(),
            Action::Help => self.show(View::Help),
            Action::ToNav => {
                self.view = View::Panes;
                self.enter_nav();
            }
            Action::OwnLog => {
                let text = self.facts.log.as_ref().map_or_else(|| "there is no log file".to_owned(), |p| format!("log: {}", p.display()));
                self.notice(crate::tui::text::clean(&text));
            }
            Action::Detach => return self.leave(true),
            Action::Quit => return self.leave(false),
            Action::Suspend => return vec![Effect::Suspend],
            Action::SendLeader => self.send_leader(),
            _ => {}
        }
        Vec::new()
    }

    pub(super) fn go_to_slot(&mut self, key: Key) {
        let Code::Char(c) = key.code else { return };
        let Some(slot) = c.to_digit(10) else { return };
        match self.backends.iter().position(|b| b.slot == slot) {
            Some(at) => {
                self.view = View::Panes;
                self.focus_on(at);
            }
            None => self.notice(format!("there is no backend {slot}")),
        }
    }

    fn step(&mut self, by: isize) {
        let count = self.panes.len() as isize;
        if count > 0 {
            self.view = View::Panes;
            self.focus_on((self.focus as isize + by).rem_euclid(count) as usize);
        }
    }

    fn go_back(&mut self) {
        let at = self.last.clone().and_then(|name| self.backend_index(&name));
        match at {
            Some(at) => {
                self.view = View::Panes;
                self.focus_on(at);
            }
            None => self.notice("no other backend was looked at yet"),
        }
    }

    fn go(&mut self, direction: Direction) {
        let plan = layout::plan(self.size.0, self.size.1);
        let shown = layout::panes(&plan, self.panes.len(), self.focus, self.layout, self.zoom);
        match layout::neighbour(&shown, self.focus, direction) {
            Some(pane) => self.focus_on(pane),
            // With one pane on screen, left and up are the backend before, right and down the one after.
            None if shown.len() == 1 => self.step(if matches!(direction, Direction::Left | Direction::Up) { -1 } else { 1 }),
            None => {}
        }
    }

    pub(super) fn toggle_zoom(&mut self) {
        self.zoom = !self.zoom;
    }

    fn set_layout(&mut self, mode: Mode) {
        self.zoom = false;
        self.layout = mode;
        self.notice(format!("layout: {}", mode.word()));
    }

    pub(super) fn show(&mut self, view: View) {
        let again = self.view == view;
        if view == View::Help && !again {
            // Views that keep their place are come back to.
            let keeps = matches!(self.view, View::Processes | View::Details | View::Feed);
            self.help_from = if keeps { self.view } else { View::Panes };
        }
        self.view = if again { View::Panes } else { view };
        self.list = ListState::default();
        if view == View::Feed {
            self.feed = Default::default();
        }
    }

    /// Connects a backend now, or reaches for the daemon when it is gone.
    pub(super) fn reconnect(&mut self, pane: usize) -> Vec<Effect> {
        if matches!(self.link, Link::Lost { .. }) {
            return vec![Effect::Redial];
        }
        let Some(backend) = self.backends.get(pane).map(|b| b.name.clone()) else { return Vec::new() };
        self.notice(format!("connecting {}", crate::tui::text::clean(&backend)));
        vec![Effect::Connect { backend }]
    }

    fn send_leader(&mut self) {
        let leader = self.keymap.leader;
        let Some(byte) = leader.byte().filter(|b| b.is_ascii()) else { return };
        let Some(pane) = self.pane_mut() else { return };
        if pane.stdin.is_some() {
            pane.editor.insert(char::from(byte).encode_utf8(&mut [0; 4]));
        } else {
            pane.note = Some(format!("{} is sent only to a command's stdin", leader.short()));
        }
    }

    /// Moves the cursor over commands, from wherever the keyboard is.
    fn command_step(&mut self, by: isize) {
        if self.mood != Mood::Nav {
            self.enter_nav();
            if by > 0 {
                return;
            }
        }
        self.move_cursor(by);
    }

    /// Leaves; asks when something here would end by it, and for `quit` always.
    fn leave(&mut self, detach: bool) -> Vec<Effect> {
        let own: Vec<String> = self
            .own
            .iter()
            .filter_map(|id| self.blocks.get(id))
            .map(|b| format!("  {}: {}", b.info.backend, b.info.command.lines().next().unwrap_or_default()))
            .map(|l| crate::tui::text::clean(&l))
            .collect();
        if detach && own.is_empty() {
            return vec![Effect::Leave];
        }
        let others = self.blocks.values().filter(|b| b.is_live() && !self.own.contains(&b.info.id)).count();
        let mut lines = Vec::new();
        if !own.is_empty() {
            lines.push(format!("{} started here will be stopped:", crate::tui::format::count(own.len() as u64, "command")));
            let more = own.len().saturating_sub(4);
            lines.extend(own.into_iter().take(4));
            if more > 0 {
                lines.push(format!("  and {more} more"));
            }
        }
        lines.push(match others {
            0 => "The daemon and all sessions stay.".to_owned(),
            n => format!("The daemon, all sessions and {} of others go on.", crate::tui::format::count(n as u64, "command")),
        });
        let (title, yes) = if detach { ("detach", "detach") } else { ("quit", "quit") };
        self.overlay = Some(Overlay::Confirm(Confirm {
            title: title.to_owned(),
            lines,
            yes: yes.to_owned(),
            effects: vec![Effect::Leave],
            opened: self.mono,
            moot: if detach { Moot::NoneRuns } else { Moot::Never },
        }));
        Vec::new()
    }
}
