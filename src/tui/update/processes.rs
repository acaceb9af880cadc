//! The keys of the process view.
//!
//! Invariant: a key acts on the marked processes, else on the one under the cursor, by id; what ends or starts something asks, unless it
//! only stops one command of the person's own.

use super::motion::steps;
use crate::model::redact::MASK;
use crate::model::{Exec, ProcessId, ProcessInfo, ProcessState};
use crate::tui::effect::Effect;
use crate::tui::input::key::{Code, Key};
use crate::tui::input::table::Action;
use crate::tui::state::processes::{Asking, Part, Shown, Standing};
use crate::tui::state::{Mood, State, View};
use crate::tui::text::clean;

/// Said while a range has one end.
const RANGE: &str = "a range begins here; the same key at its other end marks it";
/// Characters of a command that the process table keeps: a longer one is not known whole.
const SHOWN_TEXT: usize = 4_000;

impl State {
    /// Opens the process view, or closes it.
    pub(super) fn show_processes(&mut self) {
        self.show(View::Processes);
        self.processes.part = Part::Table;
        self.processes.zoom = false;
        self.processes.asking = None;
        self.sync_log();
    }

    /// Opens the process view at a process.
    pub(in crate::tui) fn go_to_process(&mut self, id: &str) {
        if self.view != View::Processes {
            self.show_processes();
        }
        self.processes.filter.clear();
        self.processes.only = None;
        self.processes.marked.clear();
        if self.blocks.get(id).is_some_and(|b| b.info.state.is_ended()) {
            self.processes.shown = if self.blocks.get(id).is_some_and(|b| b.info.background) { Shown::Background } else { Shown::All };
        }
        self.processes.cursor = Some(id.to_owned());
        self.sync_log();
    }

    pub(super) fn process_action(&mut self, action: Action, key: Key) -> Vec<Effect> {
        let effects = self.on_process(action, key);
        self.sync_log();
        effects
    }

    fn on_process(&mut self, action: Action, key: Key) -> Vec<Effect> {
        let in_log = self.processes.part == Part::Log;
        match action {
            Action::Stop => return self.ask_end(&self.targets(), None),
            Action::Kill => return self.ask_end(&self.targets(), Some(0)),
            Action::Recheck => return self.recheck(),
            Action::Adopt => return self.adopt(),
            Action::Find => return self.find_strays(),
            Action::Restart => self.ask_restart(),
            Action::Stdin => self.ask_stdin(),
            Action::CopyOutput => return self.copy_log(),
            Action::CopyCommand => return self.copy_command(self.process_cursor()),
            Action::Mark => self.mark(),
            Action::MarkRange => self.mark_range(),
            Action::MarkAll => self.mark_all(),
            Action::EndedToo => {
                self.processes.shown = self.processes.shown.next();
                let what = match self.processes.shown {
                    Shown::Background => "what runs, and background processes that have ended",
                    Shown::All => "everything that is kept",
                    Shown::Live => "only what runs",
                };
                self.notice(format!("shown: {what}"));
            }
            Action::Slot => self.only_backend(key),
            Action::Filter if in_log => self.processes.asking = Some((Asking::Find, self.processes.log.filter.clone())),
            Action::Filter => self.processes.asking = Some((Asking::Filter, self.processes.filter.clone())),
            Action::ToPane => self.go_to_pane(self.process_cursor(), false),
            Action::ToSession => self.go_to_pane(self.process_cursor(), true),
            Action::Details => self.show_details(self.process_cursor()),
            Action::Help => self.show(View::Help),
            Action::Back => self.step_back(),
            Action::Region => {
                self.processes.part = if in_log { Part::Table } else { Part::Log };
                self.processes.zoom = false;
            }
            Action::Zoom => self.processes.zoom = !self.processes.zoom,
            Action::OpenLog if in_log => self.open_hit(),
            Action::OpenLog => {
                self.processes.part = Part::Log;
                self.processes.zoom = true;
            }
            other => self.move_in_processes(other, in_log),
        }
        Vec::new()
    }

    fn move_in_processes(&mut self, action: Action, in_log: bool) {
        let (_, height) = self.log_size();
        let Some(by) = steps(action, if in_log { height } else { self.drawn.list_rows }) else { return self.log_action(action) };
        if in_log {
            self.scroll_log(by);
        } else {
            self.move_process(by);
        }
    }

    /// Moves the cursor of the table.
    pub(super) fn move_process(&mut self, by: isize) {
        let rows = self.process_rows();
        let Some(at) = self.process_at(&rows) else { return };
        let to = (at as isize).saturating_add(by).clamp(0, rows.len() as isize - 1) as usize;
        let id = rows[to].info.id.clone();
        self.processes.at = to;
        self.processes.cursor = Some(id);
        self.sync_log();
    }

    fn mark(&mut self) {
        let Some(id) = self.process_cursor() else { return };
        if !remove(&mut self.processes.marked, &id) {
            self.processes.marked.push(id);
        }
        self.end_range();
        self.move_process(1);
    }

    fn mark_range(&mut self) {
        let Some(id) = self.process_cursor() else { return };
        let rows: Vec<ProcessId> = self.process_rows().into_iter().map(|b| b.info.id.clone()).collect();
        let begin = self.end_range().and_then(|from| rows.iter().position(|r| *r == from));
        let (Some(from), Some(to)) = (begin, rows.iter().position(|r| *r == id)) else {
            self.processes.range = Some(id);
            return self.notice(RANGE);
        };
        for id in &rows[from.min(to)..=from.max(to)] {
            if !self.processes.marked.contains(id) {
                self.processes.marked.push(id.clone());
            }
        }
    }

    /// Ends a range, and with it what was said at its beginning; gives where that was.
    fn end_range(&mut self) -> Option<ProcessId> {
        let from = self.processes.range.take()?;
        self.chip.take_if(|(_, text)| text == RANGE);
        Some(from)
    }

    /// Marks all rows shown; when they all are, none.
    fn mark_all(&mut self) {
        let rows: Vec<ProcessId> = self.process_rows().into_iter().map(|b| b.info.id.clone()).collect();
        let all = rows.iter().all(|id| self.processes.marked.contains(id));
        self.end_range();
        self.processes.marked = if all { Vec::new() } else { rows };
    }

    fn only_backend(&mut self, key: Key) {
        let Code::Char(c) = key.code else { return };
        let Some(backend) = self.backends.iter().find(|b| Some(b.slot) == c.to_digit(10)).map(|b| b.name.clone()) else {
            return self.notice(format!("there is no backend {c}"));
        };
        let again = self.processes.only.as_ref() == Some(&backend);
        self.processes.only = (!again).then_some(backend);
    }

    /// Takes the last thing back; with nothing left it leaves the view.
    fn step_back(&mut self) {
        let view = &mut self.processes;
        if view.part == Part::Log && !view.log.filter.is_empty() {
            view.log.filter.clear();
            view.log.reload();
        } else if view.part == Part::Log {
            view.part = Part::Table;
            view.zoom = false;
        } else if view.zoom {
            view.zoom = false;
        } else if view.range.is_some() {
            self.end_range();
        } else if !view.marked.is_empty() {
            view.marked.clear();
        } else if !view.filter.is_empty() {
            view.filter.clear();
        } else if view.only.take().is_none() {
            self.view = View::Panes;
        }
    }

    /// Goes to the pane of a process's backend, and on request to its session.
    pub(super) fn go_to_pane(&mut self, id: Option<ProcessId>, session: bool) {
        let Some(info) = id.and_then(|id| self.blocks.get(&id)).map(|b| b.info.clone()) else { return };
        let Some(at) = self.backend_index(&info.backend) else {
            return self.notice(format!("{} is not in the config any more", clean(&info.backend)));
        };
        self.view = View::Panes;
        self.focus_on(at);
        self.mood = Mood::Input;
        let known = self.session(&info.backend, &info.session).is_some();
        if let Some(pane) = self.pane_mut().filter(|_| session && known) {
            pane.session.clone_from(&info.session);
            pane.follow();
            self.say_where(&info);
        }
    }

    /// Says where a command ran, when its session has gone elsewhere since.
    fn say_where(&mut self, info: &ProcessInfo) {
        let now = self.session(&info.backend, &info.session).map(|s| s.cwd.clone());
        if let Some(now) = now.filter(|now| !info.cwd.is_empty() && *now != info.cwd) {
            self.notice(format!("it ran in {}; session {} is in {} now", clean(&info.cwd), clean(&info.session), clean(&now)));
        }
    }

    fn recheck(&mut self) -> Vec<Effect> {
        let ids = self.targets();
        let backends: Vec<String> = ids.iter().filter_map(|id| self.blocks.get(id)).map(|b| b.info.backend.clone()).collect();
        let Some(first) = backends.first() else { return Vec::new() };
        let more = if ids.len() > 1 { format!(" and {} more", ids.len() - 1) } else { String::new() };
        self.notice(format!("asking {} about {}{more}", clean(first), clean(&ids[0])));
        ids.into_iter().zip(backends).map(|(process, backend)| Effect::Recheck { process, backend }).collect()
    }

    /// Makes background processes of strays.
    fn adopt(&mut self) -> Vec<Effect> {
        let blocks = self.targets().into_iter().filter_map(|id| self.blocks.get(&id));
        let stray = blocks.filter(|b| b.standing() == Standing::Stray).map(|b| b.info.clone());
        let effects: Vec<Effect> = stray.map(|info| Effect::Adopt { process: info.id, backend: info.backend }).collect();
        if effects.is_empty() {
            self.notice("only a stray is adopted: what a command left running");
        }
        effects
    }

    /// Looks for strays on the backend that the cursor is on, or that is shown alone.
    fn find_strays(&mut self) -> Vec<Effect> {
        let cursor = self.process_cursor().and_then(|id| self.blocks.get(&id)).map(|b| b.info.backend.clone());
        let pane = self.pane().map(|p| p.backend.clone());
        let Some(backend) = self.processes.only.clone().or(cursor).or(pane) else { return Vec::new() };
        self.notice(format!("looking for strays on {}", clean(&backend)));
        vec![Effect::Find { backend }]
    }

    fn ask_stdin(&mut self) {
        let Some(block) = self.process_cursor().and_then(|id| self.blocks.get(&id)) else { return };
        let why = match &block.info.state {
            _ if !block.is_live() => Some("that command has ended".to_owned()),
            ProcessState::Unknown => Some(format!("{} cannot be asked now", clean(&block.info.backend))),
            _ if !block.info.reads_stdin => Some("it was started without an open stdin".to_owned()),
            _ => None,
        };
        match why {
            Some(why) => self.notice(why),
            None => {
                let id = block.info.id.clone();
                self.processes.asking = Some((Asking::Stdin(id), String::new()));
            }
        }
    }

    /// Asks whether the same command is run again, in the background of the same session; what still runs is ended first.
    fn ask_restart(&mut self) {
        let targets = self.targets();
        let [id] = targets.as_slice() else {
            return self.notice("one process at a time is run again: take the marks away");
        };
        let Some(block) = self.blocks.get(id) else { return };
        let info = &block.info;
        let (backend, live) = (clean(&info.backend), block.is_live());
        let why = if info.command.chars().count() >= SHOWN_TEXT || info.command.contains(MASK) {
            Some("its command is not known whole here: run it with `qd exec -d`".to_owned())
        } else if info.stray.is_some() {
            Some("a stray is no command: what its processes were started with is not known".to_owned())
        } else if matches!(info.state, ProcessState::Unknown) || block.lost {
            Some(format!("{backend} cannot say whether it still runs: nothing is run twice"))
        } else {
            self.backend_index(&info.backend).and_then(|at| self.away(at)).map(|why| format!("{why}: nothing is run"))
        };
        if let Some(why) = why {
            return self.notice(why);
        }
        let exec = Exec {
            backend: Some(info.backend.clone()),
            session: Some(info.session.clone()),
            command: info.command.clone(),
            workdir: Some(info.cwd.clone()).filter(|cwd| !cwd.is_empty()),
            background: true,
            notify: info.notify,
            watch: info.watch.clone(),
            max_output_bytes: Some(0),
            again: Some(id.clone()),
            ..Exec::default()
        };
        let mut lines = vec![clean(info.command.lines().next().unwrap_or_default())];
        let place = if info.cwd.is_empty() { String::new() } else { format!(", in {}", clean(&info.cwd)) };
        lines.push(format!("in the background of session {} on {backend}{place}", clean(&info.session)));
        if live {
            lines.push(format!("It runs (started by {}): it is ended first, and not run again if that fails.", block.who()));
        }
        let with: Vec<String> = [
            (!info.variables.is_empty()).then(|| clean(&info.variables.join(", "))),
            info.timeout_ms.map(|ms| format!("a time-out of {}", crate::tui::format::duration(i64::try_from(ms).unwrap_or(i64::MAX)))),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !with.is_empty() {
            lines.push(format!("With {}, as before.", with.join(" and ")));
        }
        if info.reads_stdin {
            lines.push("Its stdin is empty this time.".to_owned());
        }
        let effect = Effect::Restart { process: id.clone(), backend: info.backend.clone(), end: live, exec };
        let yes = if live { "end it and run it again" } else { "run it again" };
        self.ask_first(format!("run again on {backend}"), lines, yes, vec![effect]);
    }

    /// Takes a line that was typed for the view.
    pub(super) fn take_typed(&mut self, what: Asking, text: String) -> Vec<Effect> {
        match what {
            Asking::Filter => self.processes.filter = text,
            Asking::Find => {
                self.processes.log.filter = text;
                self.processes.log.reload();
            }
            Asking::Stdin(process) => {
                let Some(backend) = self.blocks.get(&process).map(|b| b.info.backend.clone()) else { return Vec::new() };
                // The line stays open for the next one.
                self.processes.asking = Some((Asking::Stdin(process.clone()), String::new()));
                return vec![Effect::Send { process, backend, text: format!("{text}\n"), eof: false }];
            }
        }
        Vec::new()
    }
}

fn remove(list: &mut Vec<ProcessId>, id: &str) -> bool {
    let before = list.len();
    list.retain(|have| have != id);
    list.len() != before
}
