//! One-line questions inside the screen: the text of a search, of a filter, of a search in the history.
//!
//! Invariant: while one is being typed it takes every key but the leader.

use crate::tui::effect::Effect;
use crate::tui::input::key::{Code, Key};
use crate::tui::state::processes::Asking;
use crate::tui::state::{State, View};

/// What a key means to a one-line question.
enum Typed {
    Char(char),
    Backspace,
    Clear,
    Enter,
    Cancel,
    Other,
}

fn typed(key: Key) -> Typed {
    match key {
        Key { code: Code::Char('c' | 'g'), ctrl: true, .. } | Key { code: Code::Esc, .. } => Typed::Cancel,
        Key { code: Code::Char('u'), ctrl: true, .. } => Typed::Clear,
        Key { code: Code::Char(c), ctrl: false, alt: false, .. } => Typed::Char(c),
        Key { code: Code::Backspace, .. } => Typed::Backspace,
        Key { code: Code::Enter, alt: false, .. } => Typed::Enter,
        _ => Typed::Other,
    }
}

impl State {
    /// Gives a key to the question that is open; false when there is none.
    pub(super) fn prompt_key(&mut self, key: Key) -> bool {
        if self.list.typing {
            self.filter_key(key);
            return true;
        }
        let Some(pane) = self.pane() else { return false };
        if pane.find.typing {
            self.find_key(key);
            return true;
        }
        if pane.history_search.is_some() {
            return self.history_key(key);
        }
        false
    }

    /// Gives a key to the line that is typed in the process view; none when there is none.
    pub(super) fn asking_key(&mut self, key: Key) -> Option<Vec<Effect>> {
        if self.view != View::Processes {
            return None;
        }
        let (what, mut text) = self.processes.asking.take()?;
        match typed(key) {
            Typed::Char(c) => text.push(c),
            Typed::Backspace => {
                text.pop();
            }
            Typed::Clear => text.clear(),
            Typed::Enter => return Some(self.take_typed(what, text)),
            Typed::Cancel => {
                if what == Asking::Filter {
                    self.processes.filter.clear();
                    self.sync_log();
                }
                return Some(Vec::new());
            }
            Typed::Other if key == Key::ctrl('d') => {
                if let Asking::Stdin(process) = &what
                    && let Some(backend) = self.blocks.get(process).map(|b| b.info.backend.clone())
                {
                    let effect = Effect::Send { process: process.clone(), backend, text, eof: true };
                    return Some(vec![effect]);
                }
            }
            Typed::Other => {}
        }
        // Rows follow what is typed; lines of a log are looked for once it is whole.
        if what == Asking::Filter {
            self.processes.filter = text.clone();
            self.sync_log();
        }
        self.processes.asking = Some((what, text));
        Some(Vec::new())
    }

    fn filter_key(&mut self, key: Key) {
        match typed(key) {
            Typed::Char(c) => self.list.filter.push(c),
            Typed::Backspace => {
                self.list.filter.pop();
            }
            Typed::Clear => self.list.filter.clear(),
            Typed::Enter => self.list.typing = false,
            Typed::Cancel => {
                self.list.typing = false;
                self.list.filter.clear();
            }
            Typed::Other => {}
        }
        self.list.at = 0;
    }

    fn find_key(&mut self, key: Key) {
        let Some(pane) = self.pane_mut() else { return };
        match typed(key) {
            Typed::Char(c) => pane.find.text.push(c),
            Typed::Backspace => {
                pane.find.text.pop();
            }
            Typed::Clear => pane.find.text.clear(),
            Typed::Cancel => pane.find = Default::default(),
            Typed::Enter => {
                pane.find.typing = false;
                if !pane.find.text.is_empty() {
                    self.find_step(-1);
                }
            }
            Typed::Other => {}
        }
    }

    /// Gives false for a key that ends the search and is then read as usual.
    fn history_key(&mut self, key: Key) -> bool {
        let Some(pane) = self.pane_mut() else { return false };
        let Some(search) = pane.history_search.as_mut() else { return false };
        match typed(key) {
            Typed::Other if key == Key::ctrl('r') => {
                search.nth += 1;
                if search.hit().is_none() {
                    search.nth -= 1;
                    pane.note = Some("no earlier hit".to_owned());
                }
            }
            Typed::Char(c) => {
                search.text.push(c);
                search.nth = 0;
            }
            Typed::Backspace => {
                search.text.pop();
                search.nth = 0;
            }
            Typed::Clear => search.text.clear(),
            Typed::Cancel => {
                let before = search.before.clone();
                pane.editor.set(&before);
                pane.history_search = None;
                return true;
            }
            Typed::Enter => {
                // The hit comes into the line to be looked at; a second Enter runs it.
                pane.history_search = None;
                return true;
            }
            Typed::Other => {
                pane.history_search = None;
                return false;
            }
        }
        if let Some(hit) = search.hit().map(str::to_owned) {
            pane.editor.set(&hit);
        }
        true
    }
}
