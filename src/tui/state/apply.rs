//! Takes what the daemon says.
//!
//! Invariant: a row from the daemon replaces ours whole; answers of an earlier connection change nothing.

use super::block::Block;
use super::completion::{Answer, answer};
use super::messages::About;
use super::overlay::Overlay;
use super::pane::Pane;
use super::processes::Standing;
use super::{Link, State};
use crate::model::{
    Chunk, Event, ExecResult, Level, Millis, Outcome, Overview, ProcessId, ProcessInfo, ProcessState, SessionInfo, Who, WhoKind,
};
use std::collections::HashSet;

/// Commands kept in one pane.
const BLOCKS: usize = 400;

/// A message from the tasks that talk to the daemon.
#[derive(Debug)]
pub(in crate::tui) enum Msg {
    /// A connection is made.
    Connected { epoch: u64, overview: Box<Overview> },
    /// The connection ended, or an attempt failed.
    Lost { reason: String, next_try: Option<Millis>, stopped: bool },
    /// An attempt begins.
    Dialing,
    /// Everything anew, on the same connection.
    Overview(Box<Overview>),
    /// A change.
    Event(Event),
    /// A read's answer.
    Read { epoch: u64, process: ProcessId, chunk: Result<Box<Chunk>, String> },
    /// The answer to a read for the log pane.
    LogRead { epoch: u64, turn: u64, chunk: Result<Box<Chunk>, String> },
    /// A command of ours started.
    Started { process: Box<ProcessInfo> },
    /// A command of ours ended, or was refused.
    Ended { ticket: u64, process: Option<ProcessId>, result: Result<Box<ExecResult>, Refused> },
    /// A completion's answer.
    Completed { ticket: u64, words: Result<Vec<String>, String> },
    /// Something asked for failed.
    Failed { backend: Option<String>, text: String },
}

/// How soon a message must be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tui) enum Urgency {
    /// With the next frame.
    Now,
    /// Within some seconds, or with a frame that comes anyhow.
    Later,
    /// It changes nothing on screen.
    Never,
}

/// A command that was not run.
#[derive(Debug, Clone)]
pub(in crate::tui) struct Refused {
    pub(in crate::tui) backend: String,
    pub(in crate::tui) session: String,
    pub(in crate::tui) command: String,
    pub(in crate::tui) reason: String,
}

impl State {
    /// Takes a message.
    pub(in crate::tui) fn apply(&mut self, msg: Msg) {
        match msg {
            Msg::Connected { epoch, overview } => {
                let again = matches!(self.link, Link::Lost { .. });
                self.epoch = epoch;
                self.link = Link::Connected;
                for block in self.blocks.values_mut() {
                    block.reading = false;
                }
                self.processes.log.forget_asked();
                self.take_overview(*overview);
                if again {
                    self.redraw = true;
                    self.notice("the daemon is back");
                }
            }
            Msg::Overview(overview) => self.take_overview(*overview),
            Msg::Dialing => {
                if let Link::Lost { next_try, .. } = &mut self.link {
                    *next_try = None;
                }
            }
            Msg::Lost { reason, next_try, stopped } => self.lose(reason, next_try, stopped),
            Msg::Event(event) => self.take_event(event),
            Msg::Read { epoch, process, chunk } => self.take_read(epoch, &process, chunk),
            Msg::LogRead { epoch, turn, chunk } if epoch == self.epoch => {
                let chunk = chunk.map_err(|why| crate::tui::text::clean(&why));
                self.processes.log.take(turn, chunk.as_deref().map_err(Clone::clone));
            }
            Msg::LogRead { .. } => {}
            Msg::Started { process } => {
                // Its end may have been told before its start: events and answers travel apart.
                match self.blocks.get(&process.id) {
                    Some(block) if block.info.state.is_ended() => {}
                    known => {
                        let known = known.is_some();
                        self.own.insert(process.id.clone());
                        if !known {
                            self.take_process(*process);
                        }
                    }
                }
            }
            Msg::Ended { ticket, process, result } => self.take_end(ticket, process, result),
            Msg::Completed { ticket, words } => self.take_words(ticket, words),
            Msg::Failed { backend, text } => self.say(Level::Notice, backend.as_deref(), crate::tui::text::clean(&text)),
        }
    }

    /// Says how soon a message must be seen, before it is taken.
    pub(in crate::tui) fn urgency(&self, msg: &Msg) -> Urgency {
        match msg {
            Msg::Event(Event::Output { process, .. }) => {
                let shown = match self.view {
                    super::View::Processes => self.processes.log.holds(process),
                    super::View::Details => self.details.as_ref().is_some_and(|d| d.process == *process),
                    _ => self.drawn.panes.iter().any(|p| p.blocks.iter().any(|(id, _)| id == process)),
                };
                if shown { Urgency::Now } else { Urgency::Later }
            }
            Msg::Event(Event::Backend { backend }) => {
                let Some(known) = self.backends.iter().find(|b| b.name == backend.name) else { return Urgency::Now };
                // Every check brings another round trip; that alone is worth no frame of its own.
                let mut same = known.clone();
                same.health.round_trip_us = backend.health.round_trip_us;
                same.health.last_heard = backend.health.last_heard;
                match (same == **backend, known.health.round_trip_us == backend.health.round_trip_us) {
                    (false, _) => Urgency::Now,
                    (true, false) => Urgency::Later,
                    (true, true) => Urgency::Never,
                }
            }
            _ => Urgency::Now,
        }
    }

    fn lose(&mut self, reason: String, next_try: Option<Millis>, stopped: bool) {
        let reason = crate::tui::text::clean(&reason);
        let since = match &self.link {
            Link::Lost { since, .. } => *since,
            _ => {
                self.say(Level::Alert, None, format!("the daemon is gone: {reason}"));
                self.now
            }
        };
        self.link = Link::Lost { reason, since, next_try, stopped };
        self.own.clear();
        self.drop_asked();
        for block in self.blocks.values_mut() {
            block.reading = false;
            if !block.info.state.is_ended() {
                block.lost = true;
            }
        }
        for pane in &mut self.panes {
            pane.stdin = None;
            pane.asked = None;
        }
    }

    fn take_overview(&mut self, overview: Overview) {
        let focused = self.pane().map(|p| p.backend.clone()).or(Some(overview.default_backend).filter(|b| !b.is_empty()));
        if self.daemon.pid != overview.daemon.pid || self.daemon.started != overview.daemon.started {
            self.told = 0;
        }
        self.daemon = overview.daemon;
        self.backends = overview.backends;
        self.backends.sort_by_key(|b| b.slot);
        self.sessions = overview.sessions;
        let mut old = std::mem::take(&mut self.panes);
        self.panes = self
            .backends
            .iter()
            .map(|b| match old.iter().position(|p| p.backend == b.name) {
                Some(at) => old.swap_remove(at),
                None => Pane::new(&b.name),
            })
            .collect();
        let kept: HashSet<ProcessId> = overview.processes.iter().map(|p| p.id.clone()).collect();
        for process in overview.processes {
            self.tell_failure(&process);
            self.place(process);
        }
        for (id, block) in &mut self.blocks {
            // What still ran when the list was made and is not in it has no one left who knows its end.
            block.lost |= !kept.contains(id) && !block.refused && !block.info.state.is_ended();
        }
        self.order_blocks();
        self.focus = focused.and_then(|f| self.backend_index(&f)).unwrap_or(0);
        if self.messages.is_empty() {
            for notice in overview.notices {
                let text = crate::tui::text::clean(&notice.message);
                let about = About { backend: notice.backend, ..About::default() };
                self.keep_message(notice.at, notice.level, &about, &text);
            }
        }
        self.take_told_lately(overview.told);
        self.ask_all(overview.prompts);
        if let Some(Overlay::Sessions { backend, .. }) = &self.overlay
            && self.backend_index(backend).is_none()
        {
            self.overlay = None;
        }
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Backend { backend } => match self.backends.iter_mut().find(|b| b.name == backend.name) {
                Some(row) => {
                    let (was, is) = (row.health.state, backend.health.state);
                    let back = is == crate::model::HealthState::Up && was == crate::model::HealthState::Reconnecting;
                    let name = backend.name.clone();
                    *row = *backend;
                    self.redraw |= back;
                    if is == crate::model::HealthState::Up && was != is {
                        // What was wrong with it needs nobody any more.
                        self.settle_alerts(|about| about.process.is_none() && about.backend.as_ref() == Some(&name));
                    }
                }
                None => {
                    self.panes.push(Pane::new(&backend.name));
                    self.backends.push(*backend);
                }
            },
            Event::Process { process } => self.take_process(*process),
            Event::Output { process, total } => {
                if let Some(block) = self.blocks.get_mut(&process) {
                    block.grow_at(total, self.mono);
                }
            }
            Event::Session { session } => self.take_session(session),
            Event::SessionClosed { backend, name } => self.sessions.retain(|s| s.backend != backend || s.name != name),
            Event::Notice { notice } => {
                let text = crate::tui::text::clean(&notice.message);
                self.say(notice.level, notice.backend.as_deref(), text);
            }
            Event::Prompt { prompt } => self.ask(*prompt),
            Event::PromptClosed { id } => self.unask(id),
            Event::Told { told } => self.take_told(&told),
            // The loop asks for the overview.
            Event::Config | Event::Lagged => {}
            Event::Stopping => self.say(Level::Alert, None, "the daemon is ending"),
        }
    }

    fn take_session(&mut self, session: SessionInfo) {
        match self.sessions.iter_mut().find(|s| s.backend == session.backend && s.name == session.name) {
            Some(row) => *row = session,
            None => self.sessions.push(session),
        }
    }

    fn take_process(&mut self, process: ProcessInfo) {
        let known = self.blocks.contains_key(&process.id);
        let (id, backend) = (process.id.clone(), process.backend.clone());
        if process.state.is_ended() {
            self.own.remove(&id);
            for pane in self.panes.iter_mut().filter(|p| p.stdin.as_ref() == Some(&id)) {
                pane.stdin = None;
                pane.note = Some("the command has ended: the line is for the session again".to_owned());
            }
        }
        self.tell_failure(&process);
        self.place(process);
        if known {
            return;
        }
        if let Some(pane) = self.panes.iter_mut().find(|p| p.backend == backend) {
            pane.blocks.push(id);
            if pane.anchor.is_some() {
                pane.arrived += 1;
            }
            if pane.blocks.len() > BLOCKS {
                self.drop_oldest(&backend);
            }
        }
    }

    /// Says that a background process has failed, when that is new.
    fn tell_failure(&mut self, process: &ProcessInfo) {
        let was_live = self.blocks.get(&process.id).is_some_and(|b| !b.info.state.is_ended());
        if !was_live || !process.background || !process.state.is_ended() {
            return;
        }
        let block = Block::new(process.clone());
        if block.standing() != Standing::Failed {
            return;
        }
        let command = crate::tui::text::clean(process.command.lines().next().unwrap_or_default());
        let command = crate::tui::text::cut(&command, 60, self.theme.glyphs.ascii);
        let about = About { backend: Some(process.backend.clone()), process: Some(process.id.clone()), own: false };
        let backend = crate::tui::text::clean(&process.backend);
        self.tell(Level::Alert, about, format!("{backend}: {command}: {}", block.end_words()));
    }

    fn place(&mut self, process: ProcessInfo) {
        match self.blocks.get_mut(&process.id) {
            Some(block) => block.update(process),
            None => {
                self.blocks.insert(process.id.clone(), Block::new(process));
            }
        }
    }

    fn drop_oldest(&mut self, backend: &str) {
        let Some(pane) = self.panes.iter_mut().find(|p| p.backend == backend) else { return };
        let blocks = &self.blocks;
        if let Some(at) = pane.blocks.iter().position(|id| blocks.get(id).is_none_or(|b| !b.is_live() && !b.reading)) {
            let id = pane.blocks.remove(at);
            if pane.anchor.as_ref().is_some_and(|a| a.block == id) {
                pane.follow();
            }
            self.blocks.remove(&id);
        }
    }

    /// Puts every command into the pane of its backend, oldest first.
    fn order_blocks(&mut self) {
        let backends = &self.backends;
        // Commands of a backend that the config no longer has are shown nowhere.
        self.blocks.retain(|_, b| b.is_live() || backends.iter().any(|known| known.name == b.info.backend));
        for pane in &mut self.panes {
            let mut rows: Vec<_> =
                self.blocks.values().filter(|b| b.info.backend == pane.backend).map(|b| (b.info.started, b.info.id.clone())).collect();
            rows.sort();
            pane.blocks = rows.into_iter().map(|(_, id)| id).collect();
        }
        let full: Vec<(String, usize)> = self.panes.iter().map(|p| (p.backend.clone(), p.blocks.len().saturating_sub(BLOCKS))).collect();
        for (backend, over) in full {
            for _ in 0..over {
                self.drop_oldest(&backend);
            }
        }
    }

    fn take_read(&mut self, epoch: u64, process: &str, chunk: Result<Box<Chunk>, String>) {
        if epoch != self.epoch {
            return;
        }
        let Some(block) = self.blocks.get_mut(process) else { return };
        let lines = |b: &Block| b.screen.as_ref().map_or(0, crate::tui::screen::Screen::line_count);
        let before = lines(block);
        match chunk {
            Ok(chunk) => block.take(&chunk),
            Err(why) => block.fail(crate::tui::text::clean(&why)),
        }
        let new = lines(block).saturating_sub(before);
        let backend = block.info.backend.clone();
        if let Some(pane) = self.panes.iter_mut().find(|p| p.backend == backend && p.anchor.is_some()) {
            pane.arrived += new;
        }
        self.trim();
    }

    fn take_end(&mut self, ticket: u64, process: Option<ProcessId>, result: Result<Box<ExecResult>, Refused>) {
        if let Some(id) = &process {
            self.own.remove(id);
        }
        match result {
            Ok(result) => {
                let known = self.session(&result.backend, &result.session).cloned();
                let running = known.map_or(0, |s| s.running);
                let (backend, name, cwd, generation) = (result.backend, result.session, result.cwd, result.generation);
                if !cwd.is_empty() && self.session(&backend, &name).is_none_or(|s| s.generation <= generation) {
                    self.take_session(SessionInfo { backend, name, cwd, generation, running });
                }
            }
            // What had started is told by the daemon; with the connection gone its block says so already.
            Err(_) if process.is_some() => {}
            Err(refused) => self.refuse(ticket, refused),
        }
    }

    /// Shows a command that never ran as a block of its own.
    fn refuse(&mut self, ticket: u64, refused: Refused) {
        let id = format!("refused-{ticket}");
        let info = ProcessInfo {
            id: id.clone(),
            backend: refused.backend.clone(),
            session: refused.session,
            command: refused.command,
            who: Who { kind: WhoKind::Operator, name: "you".to_owned(), peer_pid: None },
            state: ProcessState::Ended(Outcome::SpawnFailed { reason: refused.reason }),
            started: self.now,
            ended: Some(self.now),
            pid: None,
            stray: None,
            timeout_ms: None,
            variables: Vec::new(),
            restarts: 0,
            output_bytes: 0,
            reads_stdin: false,
            background: false,
            detached: false,
            notify: false,
            watch: Vec::new(),
            cwd: String::new(),
            exit_code_meaning: None,
            warnings: Vec::new(),
            hints: Vec::new(),
        };
        self.take_process(info);
        if let Some(block) = self.blocks.get_mut(&id) {
            block.refused = true;
        }
    }

    fn take_words(&mut self, ticket: u64, words: Result<Vec<String>, String>) {
        let Some(pane) = self.panes.iter_mut().find(|p| p.asked.as_ref().is_some_and(|a| a.ticket == ticket)) else { return };
        let Some(asked) = pane.asked.take() else { return };
        if pane.editor.text() != asked.line {
            return;
        }
        match words {
            Err(why) => pane.note = Some(format!("no completion: {}", crate::tui::text::clean(&why))),
            Ok(words) => match answer(&asked.word, &words) {
                Answer::Insert(text) => pane.editor.replace_before(asked.word.start, &text),
                Answer::Choices => pane.choices = words,
                Answer::Nothing => pane.note = Some("nothing completes that".to_owned()),
            },
        }
    }
}
