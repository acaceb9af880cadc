//! The loop: wait for something, change the state, draw.
//!
//! Invariant: nothing in the loop waits for the daemon, a backend or a slow terminal; at most one frame is on its way; with
//! nothing to show there is no timer.

use super::Settings;
use super::deliver::{Hook, sequence};
use super::effect::Effect;
use super::hands::Hands;
use super::input::decode::{Decoder, Input};
use super::input::key::Key;
use super::input::keymap::Keymap;
use super::link::{Dial, Report, wall_clock};
use super::state::State;
use super::state::apply::{Msg, Urgency};
use super::state::overlay::Overlay;
use super::store;
use super::term::paint::Painter;
use super::view;
use base64::Engine;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Shortest time between frames that output asks for.
const FRAME: Duration = Duration::from_millis(16);
/// Shortest time between frames that a key asks for.
const KEY_FRAME: Duration = Duration::from_millis(3);
/// How long an Esc waits for what may follow it.
const ESC: Duration = Duration::from_millis(25);
/// How long a change that hardly matters may wait for a frame.
const LAZY: Duration = Duration::from_secs(5);
/// Quiet after the last change of size before the screen is laid out anew.
const RESIZE: Duration = Duration::from_millis(40);

/// What the loop wants of its surroundings after a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum After {
    Go,
    Suspend,
    Leave,
}

/// The loop's own data.
pub(super) struct App<L: Dial> {
    pub(super) state: State,
    pub(super) hands: Hands<L::Daemon>,
    pub(super) redial: Arc<Notify>,
    pub(super) no_setup: bool,
    pub(super) settings: Settings,
    pub(super) state_dir: Option<PathBuf>,
    painter: Painter,
    spare: Buffer,
    decoder: Decoder,
    started: Instant,
    esc_at: Option<Instant>,
    resize_at: Option<Instant>,
    state_at: Option<Instant>,
    lazy_at: Option<Instant>,
    dirty: bool,
    urgent: bool,
    last_frame: Instant,
    /// What goes to the terminal beside the frames: the clipboard, bells.
    aside: Vec<u8>,
    hook: Option<Hook>,
    tell: mpsc::Sender<Report<L::Daemon>>,
    had_overview: bool,
}

impl<L: Dial> App<L> {
    pub(super) fn new(state: State, tell: mpsc::Sender<Report<L::Daemon>>, painter: Painter, settings: Settings) -> Self {
        let now = Instant::now();
        Self {
            state,
            hands: Hands::new(tell.clone()),
            redial: Arc::new(Notify::new()),
            no_setup: false,
            settings,
            state_dir: None,
            painter,
            spare: Buffer::empty(Rect::ZERO),
            decoder: Decoder::default(),
            started: now,
            esc_at: None,
            resize_at: None,
            state_at: None,
            lazy_at: None,
            dirty: true,
            urgent: true,
            last_frame: now.checked_sub(FRAME).unwrap_or(now),
            aside: Vec::new(),
            hook: None,
            tell,
            had_overview: false,
        }
    }

    /// Writes the clocks into the state.
    pub(super) fn clock(&mut self) {
        self.state.now = wall_clock();
        self.state.mono = self.started.elapsed().as_millis() as u64;
    }

    /// Takes bytes of the terminal.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Vec<Effect> {
        self.clock();
        let events = self.decoder.feed(bytes);
        self.esc_at = self.decoder.waits().then(|| Instant::now() + ESC);
        if events.is_empty() {
            // Part of a paste or of a key: that is no pause.
            self.state.drops_keys();
        }
        self.inputs(events)
    }

    fn inputs(&mut self, events: Vec<Input>) -> Vec<Effect> {
        if !events.is_empty() {
            self.dirty = true;
            self.urgent = true;
        }
        events.into_iter().flat_map(|e| self.state.input(e)).collect()
    }

    /// Takes a report of the tasks; gives what is to be done because of it.
    pub(super) async fn report(&mut self, report: Report<L::Daemon>) -> Vec<Effect> {
        self.clock();
        match &report {
            Report::Msg(msg) => match self.state.urgency(msg) {
                Urgency::Now => self.dirty = true,
                Urgency::Later if self.lazy_at.is_none() => self.lazy_at = Some(Instant::now() + LAZY),
                Urgency::Later | Urgency::Never => {}
            },
            _ => self.dirty = true,
        }
        match report {
            Report::Connected { epoch, daemon, overview } => {
                self.hands.connected(epoch, daemon);
                self.state.apply(Msg::Connected { epoch, overview });
                if !std::mem::replace(&mut self.had_overview, true) {
                    self.first_overview().await;
                }
            }
            Report::Config => self.reload().await,
            Report::Run { process, stdin } => self.hands.run(process, stdin),
            // Only the first connection fails so, and `run` looks for that itself.
            Report::Failed(_) => {}
            Report::Msg(msg) => {
                if matches!(msg, Msg::Lost { .. }) {
                    self.hands.lost();
                }
                if let Msg::Ended { process: Some(id), .. } = &msg {
                    self.hands.ended(id);
                }
                let opened = match &msg {
                    Msg::Started { process } if process.reads_stdin => Some(process.id.clone()),
                    _ => None,
                };
                self.state.apply(msg);
                self.carry_alerts();
                self.open_stdin(opened);
                return self.state.settle_question();
            }
        }
        Vec::new()
    }

    /// Carries what is urgent to the person.
    fn carry_alerts(&mut self) {
        let nested = !self.state.facts.outer.is_empty();
        for (i, ring) in self.state.take_rings().into_iter().enumerate() {
            if i == 0 {
                self.aside.extend(sequence(&self.settings.ui, nested, &ring.text));
            }
            if !self.settings.ui.on_alert.is_empty() {
                let tell = &self.tell;
                let hook = self.hook.get_or_insert_with(|| Hook::start(tell.clone()));
                hook.ring(&self.settings.ui.on_alert, ring);
            }
        }
    }

    /// A command that was run with its stdin open is typed into at once.
    fn open_stdin(&mut self, process: Option<String>) {
        let Some(id) = process.filter(|id| self.state.own.contains(id)) else { return };
        let backend = self.state.blocks.get(&id).map(|b| b.info.backend.clone());
        let pane = backend.and_then(|b| self.state.backend_index(&b));
        if let Some(pane) = pane.and_then(|i| self.state.panes.get_mut(i)).filter(|p| p.stdin.is_none()) {
            pane.stdin = Some(id);
        }
    }

    /// The state folder is known now: the leader that was chosen, or the question for it.
    async fn first_overview(&mut self) {
        if self.state_dir.is_none() && !self.state.daemon.state_dir.is_empty() {
            self.state_dir = Some(PathBuf::from(&self.state.daemon.state_dir));
        }
        if self.settings.ui.leader.is_some() || !self.settings.keys.is_empty() {
            return;
        }
        let stored = match &self.state_dir {
            Some(dir) => store::leader(dir).await,
            None => None,
        };
        match stored {
            Some(leader) => self.state.keymap = Keymap::new(leader, &self.settings.keys).0,
            None if self.no_setup => {}
            None => self.state.overlay = Some(Overlay::Setup { refused: None, doubted: None }),
        }
    }

    /// Reads the settings again, where that is possible.
    async fn reload(&mut self) {
        let Some(reload) = self.settings.reload.clone() else { return };
        let read = tokio::task::spawn_blocking(move || reload()).await;
        match read {
            Ok(Ok((ui, keys))) => {
                let leader = ui.leader.as_deref().and_then(|k| Key::parse(k).ok()).unwrap_or(self.state.keymap.leader);
                let (keymap, problems) = Keymap::new(leader, &keys);
                self.state.keymap = keymap;
                self.state.facts.fleet = ui.fleet.clone();
                self.settings.ui = ui;
                self.settings.keys = keys;
                for problem in problems {
                    self.state.notice(problem);
                }
            }
            Ok(Err(why)) => self.state.notice(why),
            Err(e) => tracing::warn!(error = %e, "failed to read the settings again"),
        }
    }

    /// Does what the state wants.
    pub(super) async fn carry_out(&mut self, effects: Vec<Effect>) -> After {
        let mut after = After::Go;
        for effect in effects {
            match effect {
                Effect::Leave => return After::Leave,
                Effect::Suspend => after = After::Suspend,
                Effect::Redial => self.redial.notify_one(),
                Effect::SaveLeader { leader } => self.save_leader(leader).await,
                Effect::Copy { text } => {
                    let coded = base64::engine::general_purpose::STANDARD.encode(text);
                    self.aside.extend_from_slice(format!("\x1b]52;c;{coded}\x07").as_bytes());
                }
                other => {
                    if let Some(msg) = self.hands.start(other) {
                        self.state.apply(msg);
                    }
                }
            }
        }
        after
    }

    async fn save_leader(&mut self, leader: Key) {
        self.state.keymap = Keymap::new(leader, &self.settings.keys).0;
        let saved = match &self.state_dir {
            Some(dir) => store::save_leader(dir, leader).await.map_err(|e| e.to_string()),
            None => Err("the state folder is not known".to_owned()),
        };
        let text = match saved {
            Ok(()) => format!("{} is the leader; {} shows all keys", leader.short(), self.state.help_key()),
            Err(why) => format!("{} is the leader until the end; it cannot be kept: {why}", leader.short()),
        };
        self.state.notice(text);
    }

    /// Notes that the size changed; [`App::resized`] follows after a moment of quiet.
    pub(super) fn size_changes(&mut self) {
        self.resize_at = Some(Instant::now() + RESIZE);
    }

    /// Takes a new size. Everything is sent again even when it is the old one: a terminal that was smaller for a moment has
    /// lost what did not fit.
    pub(super) fn resized(&mut self, size: (u16, u16)) {
        self.resize_at = None;
        self.state.size = size;
        self.reentered();
    }

    /// Tells whether a new size is due to be taken.
    pub(super) fn resize_due(&self) -> bool {
        self.resize_at.is_some_and(|at| at <= Instant::now())
    }

    /// The terminal was given away and is ours again: nothing on it can be relied on.
    pub(super) fn reentered(&mut self) {
        self.painter.forget();
        self.dirty = true;
        self.urgent = true;
    }

    /// Gives when the loop must wake without an event; none when nothing is due.
    pub(super) fn next_wake(&mut self, free: bool) -> Option<Instant> {
        let frame = (self.dirty && free).then(|| self.last_frame + if self.urgent { KEY_FRAME } else { FRAME });
        self.state_at = self.state.next_wake().map(|at| self.started + Duration::from_millis(at));
        [frame, self.state_at, self.lazy_at, self.esc_at, self.resize_at].into_iter().flatten().min()
    }

    /// Does what is due; gives effects of an Esc that nothing followed.
    pub(super) fn wake(&mut self) -> Vec<Effect> {
        self.clock();
        // A second has passed on screen, a popup or the end of a notice is due.
        if self.state_at.take_if(|at| *at <= Instant::now()).is_some() {
            self.state.tick();
            self.dirty = true;
        }
        self.dirty |= self.lazy_at.take_if(|at| *at <= Instant::now()).is_some();
        if self.esc_at.is_some_and(|at| at <= Instant::now()) {
            self.esc_at = None;
            let event = self.decoder.flush();
            return self.inputs(event.into_iter().collect());
        }
        Vec::new()
    }

    /// Builds the frame that is due; none when nothing is, or the screen is already right. Reads that became due by it are
    /// started.
    pub(super) fn frame(&mut self) -> Option<Vec<u8>> {
        let gap = if self.urgent { KEY_FRAME } else { FRAME };
        if !self.dirty || self.last_frame + gap > Instant::now() {
            return None;
        }
        self.clock();
        self.dirty = false;
        self.urgent = false;
        self.lazy_at = None;
        self.last_frame = Instant::now();
        if std::mem::take(&mut self.state.redraw) {
            self.painter.forget();
        }
        let mut buf = std::mem::replace(&mut self.spare, Buffer::empty(Rect::ZERO));
        let (width, height) = self.state.size;
        buf.resize(Rect::new(0, 0, width, height));
        buf.reset();
        self.state.drawn = view::draw(&self.state, &mut buf);
        let (frame, spare) = self.painter.frame(buf, self.state.drawn.cursor);
        self.spare = spare;
        for read in self.state.next_reads() {
            if let Some(msg) = self.hands.start(read) {
                self.state.apply(msg);
            }
        }
        if self.aside.is_empty() {
            return frame;
        }
        let mut out = std::mem::take(&mut self.aside);
        out.extend(frame.unwrap_or_default());
        Some(out)
    }

    /// Gives what is said after leaving.
    pub(super) fn farewell(&self) -> String {
        let running = self.state.blocks.values().filter(|b| b.is_live() && !self.state.own.contains(&b.info.id)).count();
        let more = if running > 0 { format!(" with {}", super::format::count(running as u64, "command")) } else { String::new() };
        match self.state.daemon.pid {
            0 => "left".to_owned(),
            pid => format!("left; the daemon (process {pid}) goes on{more}; `qd` comes back to it"),
        }
    }
}

#[cfg(test)]
mod tests;
