//! The input line: editing it, running it, stopping what it ran.
//!
//! Invariant: a command goes to the backend and session that the pane shows at the moment of Enter, or nowhere; nothing is kept
//! back to be run later.

use crate::model::{Exec, ProcessId, WhoKind};
use crate::tui::effect::Effect;
use crate::tui::input::table::Action;
use crate::tui::state::completion::word_at;
use crate::tui::state::editor::Editor;
use crate::tui::state::overlay::{Confirm, Moot, Overlay};
use crate::tui::state::pane::{Asked, HistorySearch, Pane};
use crate::tui::state::{Mood, State};

/// Most bytes of a command.
const MAX_COMMAND: usize = 1 << 20;

impl State {
    pub(super) fn type_char(&mut self, c: char) {
        if let Some(pane) = self.pane_mut() {
            pane.follow();
            pane.editor.insert(c.encode_utf8(&mut [0; 4]));
            pane.history = None;
        }
    }

    pub(super) fn input_action(&mut self, action: Action) -> Vec<Effect> {
        let focus = self.focus;
        match action {
            Action::Run => return self.enter(false),
            Action::RunWithStdin => return self.enter(true),
            Action::Interrupt => return self.interrupt(),
            Action::EndOfInput => return self.end_of_input(),
            Action::Complete => return self.complete(),
            Action::HistoryPrevious => self.walk_history(true),
            Action::HistoryNext => self.walk_history(false),
            Action::HistorySearch => self.search_history(),
            Action::PageUp => self.scroll_page(focus, -1),
            Action::PageDown => self.scroll_page(focus, 1),
            Action::ToNav => self.enter_nav(),
            other => {
                if let Some(pane) = self.pane_mut() {
                    pane.history = None;
                    edit(&mut pane.editor, other);
                    if pane.editor.is_empty() {
                        pane.pasted = 0;
                    }
                }
            }
        }
        Vec::new()
    }

    fn enter(&mut self, stdin: bool) -> Vec<Effect> {
        let (focus, away) = (self.focus, self.away(self.focus));
        let key = self.keymap.shown(crate::tui::input::table::Context::Leader, Action::Reconnect);
        let Some(pane) = self.panes.get_mut(focus) else { return Vec::new() };
        if let Some(process) = pane.stdin.clone() {
            let mut text = pane.editor.take();
            text.push('\n');
            let backend = pane.backend.clone();
            // Another caller's command is written to beside that caller, and it is told who did.
            return vec![match self.own.contains(&process) {
                true => Effect::Stdin { process, bytes: text.into_bytes() },
                false => Effect::Send { process, backend, text, eof: false },
            }];
        }
        if !stdin && ends_open(pane.editor.text()) && pane.editor.cursor() == pane.editor.text().len() {
            pane.editor.insert("\n");
            return Vec::new();
        }
        if pane.editor.text().trim().is_empty() {
            pane.editor.take();
            pane.follow();
            return Vec::new();
        }
        if let Some(why) = away {
            let retry = key.map_or_else(String::new, |k| format!("; {k} retries now"));
            pane.note = Some(format!("{why}{retry}: nothing is run or kept for later"));
            return Vec::new();
        }
        if pane.editor.text().len() > MAX_COMMAND {
            pane.note = Some("the command is over 1 MiB: put it into a file and run that".to_owned());
            return Vec::new();
        }
        if pane.pasted > 1 {
            let (lines, backend) = (pane.pasted, crate::tui::text::clean(&pane.backend));
            let first = crate::tui::text::clean(pane.editor.text().lines().next().unwrap_or_default());
            let effects = self.exec(focus, stdin, false);
            self.overlay = Some(Overlay::Confirm(Confirm {
                title: format!("pasted lines for {backend}"),
                lines: vec![format!("Run {lines} pasted lines on {backend} as one command?"), format!("It begins: {first}")],
                yes: "run".to_owned(),
                effects,
                opened: self.mono,
                moot: Moot::Never,
            }));
            return Vec::new();
        }
        self.exec(focus, stdin, true)
    }

    /// Makes the effect of running a pane's line; `take` empties the line.
    fn exec(&mut self, focus: usize, stdin: bool, take: bool) -> Vec<Effect> {
        self.ticket += 1;
        let (ticket, cwd) = (self.ticket, self.facts.cwd.clone());
        let Some(pane) = self.panes.get_mut(focus) else { return Vec::new() };
        let command = pane.editor.text().to_owned();
        if take {
            pane.editor.take();
            pane.pasted = 0;
        }
        pane.history = None;
        pane.follow();
        let exec = Exec {
            backend: Some(pane.backend.clone()),
            session: Some(pane.session.clone()),
            command,
            client_cwd: cwd,
            stdin,
            max_output_bytes: Some(0),
            ..Exec::default()
        };
        vec![Effect::Exec { ticket, exec }]
    }

    fn interrupt(&mut self) -> Vec<Effect> {
        let Some(pane) = self.pane_mut() else { return Vec::new() };
        if !pane.editor.is_empty() {
            pane.editor.take();
            pane.pasted = 0;
            pane.history = None;
            return Vec::new();
        }
        match self.newest_own() {
            Some(process) => self.end(&process, None),
            None => {
                if let Some(pane) = self.pane_mut() {
                    let stdin = pane.stdin.take().is_some();
                    pane.note = Some(if stdin {
                        "the line is for the session again".to_owned()
                    } else {
                        "no command of yours runs here".to_owned()
                    });
                }
                Vec::new()
            }
        }
    }

    /// Gives the operator's newest running command of the focused pane.
    fn newest_own(&self) -> Option<ProcessId> {
        let pane = self.pane()?;
        let mine = |id: &&ProcessId| self.blocks.get(*id).is_some_and(|b| b.is_live() && b.info.who.kind == WhoKind::Operator);
        pane.blocks.iter().rev().find(mine).cloned()
    }

    fn end_of_input(&mut self) -> Vec<Effect> {
        let newest = self.pane().and_then(|p| {
            let open = |id: &&ProcessId| self.own.contains(*id) && self.blocks.get(*id).is_some_and(|b| b.is_live() && b.info.reads_stdin);
            p.stdin.clone().or_else(|| p.blocks.iter().rev().find(open).cloned())
        });
        let Some(pane) = self.pane_mut() else { return Vec::new() };
        if !pane.editor.is_empty() {
            pane.editor.delete_after();
            return Vec::new();
        }
        let Some(process) = newest else { return Vec::new() };
        pane.stdin = None;
        pane.note = Some("end of input sent".to_owned());
        let backend = pane.backend.clone();
        vec![match self.own.contains(&process) {
            true => Effect::EndStdin { process },
            false => Effect::Send { process, backend, text: String::new(), eof: true },
        }]
    }

    fn complete(&mut self) -> Vec<Effect> {
        let away = self.away(self.focus);
        self.ticket += 1;
        let ticket = self.ticket;
        let Some(pane) = self.pane_mut() else { return Vec::new() };
        if pane.stdin.is_some() {
            pane.editor.insert("\t");
            return Vec::new();
        }
        if let Some(why) = away {
            pane.note = Some(format!("no completion: {why}"));
            return Vec::new();
        }
        let line = pane.editor.text().to_owned();
        let word = word_at(&line, pane.editor.cursor());
        let effect = Effect::Complete {
            ticket,
            backend: pane.backend.clone(),
            session: pane.session.clone(),
            word: word.plain.clone(),
            command: word.command,
        };
        pane.asked = Some(Asked { ticket, word, line });
        vec![effect]
    }

    fn walk_history(&mut self, earlier: bool) {
        let focus = self.focus;
        let Some(pane) = self.panes.get_mut(focus) else { return };
        if pane.history.is_none() && (if earlier { pane.editor.up() } else { pane.editor.down() }) {
            return;
        }
        if pane.history.is_none() {
            if !earlier {
                return;
            }
            let (backend, typed) = (pane.backend.clone(), pane.editor.text().to_owned());
            let place = self.history_place(&backend, &typed);
            self.panes[focus].history = Some(place);
        }
        let pane = &mut self.panes[focus];
        let Some(place) = pane.history.as_mut() else { return };
        let found = if earlier { place.earlier() } else { place.later() };
        match found.map(str::to_owned) {
            Some(text) => pane.editor.set(&text),
            None if earlier => pane.note = Some("nothing earlier".to_owned()),
            None => pane.history = None,
        }
    }

    fn search_history(&mut self) {
        let focus = self.focus;
        let Some(backend) = self.panes.get(focus).map(|p| p.backend.clone()) else { return };
        let entries = self.history(&backend);
        let pane: &mut Pane = &mut self.panes[focus];
        let before = pane.editor.text().to_owned();
        pane.history_search = Some(HistorySearch { text: String::new(), nth: 0, before, entries });
    }

    /// Leaves the input line for the commands above it.
    pub(super) fn enter_nav(&mut self) {
        let Some(pane) = self.pane_mut() else { return };
        if pane.stdin.take().is_some() {
            pane.note = Some("the line is for the session again".to_owned());
            return;
        }
        let last = pane.blocks.last().cloned();
        if pane.cursor.as_ref().is_none_or(|id| !pane.blocks.contains(id)) || pane.anchor.is_none() {
            pane.cursor = last;
        }
        self.mood = Mood::Nav;
    }
}

/// Tells whether a line goes on after Enter: an odd number of backslashes at its end.
fn ends_open(text: &str) -> bool {
    text.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

fn edit(editor: &mut Editor, action: Action) {
    match action {
        Action::NewLine => editor.insert("\n"),
        Action::Left => editor.left(),
        Action::Right => editor.right(),
        Action::WordLeft => editor.word_left(),
        Action::WordRight => editor.word_right(),
        Action::LineStart => editor.line_start(),
        Action::LineEnd => editor.line_end(),
        Action::DeleteBefore => editor.delete_before(),
        Action::DeleteAfter => editor.delete_after(),
        Action::DeleteWordBefore => editor.delete_word_before(),
        Action::DeleteWordAfter => editor.delete_word_after(),
        Action::DeleteToStart => editor.delete_to_start(),
        Action::DeleteToEnd => editor.delete_to_end(),
        Action::Yank => editor.yank(),
        _ => {}
    }
}
