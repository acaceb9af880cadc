//! What a key, a paste or the mouse changes.
//!
//! Invariant: pure over the state: the same input on the same state gives the same state and effects. Nothing here waits. What is
//! typed while the person is asked to pause reaches nothing, in whatever view or mood.

mod alerts;
mod dialog;
mod ending;
mod feed;
mod go;
mod lists;
mod log;
mod motion;
mod nav;
mod overlays;
mod processes;
mod prompt;
mod run;
mod scroll;

use super::effect::Effect;
use super::input::decode::{Input, Mouse};
use super::input::key::{Code, Key};
use super::input::table::{Action, Context};
use super::layout::{self, Tier};
use super::state::{Mood, State, View};
use ratatui::layout::Position;

impl State {
    /// Takes what the person did; gives what is to be done outside.
    pub(in crate::tui) fn input(&mut self, input: Input) -> Vec<Effect> {
        if !matches!(input, Input::Mouse(_)) && self.drops_keys() {
            return Vec::new();
        }
        match input {
            Input::Key(key) => self.key(key),
            Input::Paste { text, cut } => self.paste(&text, cut),
            Input::Mouse(mouse) => {
                self.mouse(mouse);
                Vec::new()
            }
        }
    }

    fn key(&mut self, key: Key) -> Vec<Effect> {
        if !self.asked.is_empty() {
            return self.dialog_key(key);
        }
        if self.overlay.is_some() {
            return self.overlay_key(key);
        }
        if let Some(pane) = self.pane_mut() {
            pane.fresh_key();
        }
        if self.leader.take().is_some() {
            return self.leader_key(key);
        }
        if key == self.keymap.leader {
            self.leader = Some(self.mono);
            return Vec::new();
        }
        if let Some(effects) = self.asking_key(key) {
            return effects;
        }
        if self.prompt_key(key) {
            return Vec::new();
        }
        let context = self.context();
        match self.keymap.action(context, key) {
            Some(action) => self.act(context, action, key),
            None => {
                if let (Context::Input, Key { code: Code::Char(c), ctrl: false, alt: false, .. }) = (context, key) {
                    self.type_char(c);
                }
                Vec::new()
            }
        }
    }

    /// Gives where keys are read now, when nothing lies on top.
    pub(in crate::tui) fn context(&self) -> Context {
        match (self.view, self.mood) {
            (View::Panes, Mood::Input) => Context::Input,
            (View::Panes, Mood::Nav) => Context::Nav,
            (View::Panes, Mood::Scroll) => Context::Scroll,
            (View::Processes, _) => Context::Processes,
            (View::Feed, _) => Context::Feed,
            (View::Details, _) => Context::Details,
            (View::Backends | View::Messages | View::Help, _) => Context::List,
        }
    }

    fn leader_key(&mut self, key: Key) -> Vec<Effect> {
        match self.keymap.action(Context::Leader, key) {
            Some(action) => self.act(Context::Leader, action, key),
            None => {
                let text = format!("{}{} does nothing; {} lists the keys", self.keymap.leader.short(), key.short(), self.help_key());
                self.notice(text);
                Vec::new()
            }
        }
    }

    pub(in crate::tui) fn help_key(&self) -> String {
        self.keymap.shown(Context::Leader, Action::Help).unwrap_or_else(|| "help".to_owned())
    }

    fn act(&mut self, context: Context, action: Action, key: Key) -> Vec<Effect> {
        if self.is_blind() && self.needs_sight(action) {
            self.notice(format!("{} needs {}x{}", key.short(), layout::LEAST.0, layout::LEAST.1));
            return Vec::new();
        }
        match (context, action) {
            (_, Action::Redraw) => self.redraw = true,
            (Context::Input, _) => return self.input_action(action),
            (Context::List, _) => return self.list_action(action),
            (Context::Processes, _) => return self.process_action(action, key),
            (Context::Feed, _) => return self.feed_action(action),
            (Context::Details, _) => return self.details_action(action),
            (Context::Scroll, _) => self.scroll_action(action),
            (Context::Leader, _) => return self.leader_action(action, key),
            (Context::Nav, _) => return self.nav_action(action, key),
        }
        Vec::new()
    }

    /// Tells whether the screen is too small to show what keys act on.
    pub(super) fn is_blind(&self) -> bool {
        layout::plan(self.size.0, self.size.1).tier == Tier::Summary
    }

    /// Tells whether an action does something to a command that the person must be able to see.
    fn needs_sight(&self, action: Action) -> bool {
        match action {
            Action::Stop | Action::Kill | Action::Restart | Action::Adopt | Action::Stdin | Action::Run | Action::RunWithStdin => true,
            // On a line with text it only clears that.
            Action::Interrupt | Action::EndOfInput => self.pane().is_some_and(|pane| pane.editor.is_empty()),
            _ => false,
        }
    }

    fn paste(&mut self, text: &str, cut: usize) -> Vec<Effect> {
        if !self.asked.is_empty() {
            self.dialog_paste(text);
            return Vec::new();
        }
        if self.overlay.is_some() || self.leader.is_some() {
            return Vec::new();
        }
        // A question of one line takes the first line.
        let first = text.lines().next().unwrap_or_default();
        if self.list.typing {
            self.list.filter.push_str(first);
            return Vec::new();
        }
        if let Some((_, text)) = self.processes.asking.as_mut().filter(|_| self.view == View::Processes) {
            text.push_str(first);
            return Vec::new();
        }
        if self.view != View::Panes {
            return Vec::new();
        }
        if let Some(pane) = self.pane_mut().filter(|p| p.find.typing) {
            pane.find.text.push_str(first);
            return Vec::new();
        }
        // A paste while scrolled back is meant for the line.
        if self.mood != Mood::Input {
            self.mood = Mood::Input;
        }
        let Some(pane) = self.pane_mut() else { return Vec::new() };
        pane.fresh_key();
        pane.follow();
        pane.history_search = None;
        let text = text.strip_suffix('\n').unwrap_or(text);
        pane.editor.insert(text);
        let lines = text.matches('\n').count() + 1;
        if lines > 1 {
            pane.pasted += lines;
        }
        if cut > 0 {
            self.notice(format!("the paste was cut: {} are left out", super::format::bytes(cut as u64)));
        }
        Vec::new()
    }

    fn mouse(&mut self, mouse: Mouse) {
        if self.overlay.is_some() || !self.asked.is_empty() {
            return;
        }
        let at = |x, y| Position { x, y };
        match mouse {
            Mouse::Press { x, y } if self.press_list(at(x, y)) => {}
            Mouse::Press { x, y } => {
                let pane = self.drawn.panes.iter().find(|p| p.area.contains(at(x, y))).map(|p| p.pane);
                let spot = self.drawn.spots.iter().find(|(r, _)| r.contains(at(x, y))).map(|(_, i)| *i);
                if let Some(i) = pane.or(spot) {
                    self.view = View::Panes;
                    self.focus_on(i);
                }
            }
            Mouse::WheelUp { x, y } => self.wheel(at(x, y), -3),
            Mouse::WheelDown { x, y } => self.wheel(at(x, y), 3),
        }
    }

    fn wheel(&mut self, at: Position, rows: isize) {
        if self.view == View::Processes && self.drawn.log.as_ref().is_some_and(|l| l.rows.contains(at)) {
            self.scroll_log(rows);
        } else if self.view != View::Panes {
            self.move_in_list(rows);
        } else if let Some(pane) = self.drawn.panes.iter().find(|p| p.area.contains(at)).map(|p| p.pane) {
            self.scroll_by(pane, rows);
        }
    }
}

#[cfg(test)]
mod dialog_tests;
#[cfg(test)]
mod process_tests;
#[cfg(test)]
mod tests;
