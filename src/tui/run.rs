//! Starting and leaving the TUI.
//!
//! Invariant: the terminal is taken after everything that can be refused was looked at, and is given back before anything is
//! printed or returned.

use super::app::{After, App};
use super::effect::Effect;
use super::input::key::Key;
use super::input::keymap::{DEFAULT_LEADER, Keymap};
use super::link::{Dial, Report, keep};
use super::state::{Facts, State};
use super::term::guard::Guard;
use super::term::paint::{Depth, Painter};
use super::term::tty::{self, Frames, Keys};
use super::theme::{Look, Theme};
use crate::client::{ClientError, Connect};
use crate::config::UiSettings;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// Reads the look and the keys again after the config has changed; an error says why they stay as they are.
pub type Reload = Arc<dyn Fn() -> Result<(UiSettings, BTreeMap<String, Vec<String>>), String> + Send + Sync>;

/// How the TUI looks and which keys it has.
#[derive(Clone, Default)]
pub struct Settings {
    /// The config's `ui:`.
    pub ui: UiSettings,
    /// The config's `keys:`.
    pub keys: BTreeMap<String, Vec<String>>,
    /// How to read both again; none keeps them until the end.
    pub reload: Option<Reload>,
}

/// What the TUI is started with.
#[derive(Clone, Default)]
pub struct Options {
    /// How to find or start the daemon.
    pub connect: Connect,
    /// How it looks and which keys it has.
    pub settings: Settings,
    /// Whether the question for the leader at the first start is left out.
    pub no_setup: bool,
    /// The state folder; none: the daemon says.
    pub state_dir: Option<PathBuf>,
    /// The log file of this process, to be shown on request.
    pub log: Option<PathBuf>,
}

/// Why the TUI ended other than by the person's wish.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    /// There is no terminal to draw on.
    #[error("the TUI needs a terminal: {0}; `qd exec`, `qd ps` and `qd logs` work without one")]
    NoTerminal(String),
    /// The daemon could not be reached at the start.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The terminal went away.
    #[error("the terminal is gone: {0}")]
    Gone(io::Error),
    /// A signal ended it.
    #[error("ended by {name}")]
    Signal {
        /// Its name.
        name: &'static str,
        /// Its number.
        number: i32,
    },
    /// A fault of our own; what it was has been printed.
    #[error("the TUI failed (a fault of its own, see above); the daemon and all commands of others go on")]
    Panic,
    /// The system refused something that is needed.
    #[error("failed to set up the terminal: {0}")]
    Setup(io::Error),
}

impl TuiError {
    /// Gives what the process exits with.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NoTerminal(_) => 2,
            Self::Client(_) => 1,
            Self::Gone(_) => 129,
            Self::Signal { number, .. } => 128 + number,
            Self::Panic => 101,
            Self::Setup(_) => 1,
        }
    }
}

/// Runs the TUI until the person leaves it. Gives a line that says what goes on.
///
/// # Errors
/// When there is no terminal, no daemon, or it was ended from outside. The terminal is as it was in every case.
pub async fn run(options: Options) -> Result<String, TuiError> {
    if std::env::var("TERM").is_ok_and(|t| t == "dumb") {
        return Err(TuiError::NoTerminal("TERM is dumb".to_owned()));
    }
    let tty = tty::open().map_err(|e| TuiError::NoTerminal(e.to_string()))?;
    let connect = options.connect.clone();
    on(tty, options, connect, None).await
}

/// Runs on a terminal with a way to the daemon. `only` names the thread whose panics are its own, where not the whole process is.
pub(super) async fn on<L: Dial>(tty: File, options: Options, dial: L, only: Option<ThreadId>) -> Result<String, TuiError> {
    let mut signals = Signals::new().map_err(TuiError::Setup)?;
    let (tell, mut reports) = mpsc::channel(256);
    let mut app: App<L> = make(&options, tty::size(&tty), tell.clone());
    let connection = tokio::spawn(keep(dial, app.redial.clone(), tell));
    // A daemon that answers at once, or a config that is wrong, is known before the screen is taken.
    let first = tokio::time::timeout(Duration::from_millis(150), reports.recv()).await.ok().flatten();
    let result = match first {
        Some(Report::Failed(e)) => Err(TuiError::Client(e)),
        first => {
            if let Some(report) = first {
                // Nothing was asked yet, so nothing is to be done.
                app.report(report).await;
            }
            let guard = tty.try_clone().and_then(|tty| Guard::new(tty, options.settings.ui.mouse)).map_err(TuiError::Setup)?;
            guard.hook_panics(only);
            with_terminal(tty, &guard, &mut app, &mut reports, &mut signals).await
        }
    };
    drop(reports);
    connection.abort();
    result.map(|()| app.farewell())
}

fn make<L: Dial>(options: &Options, size: (u16, u16), tell: mpsc::Sender<Report<L::Daemon>>) -> App<L> {
    let env = |name: &str| std::env::var(name).ok();
    let ui = &options.settings.ui;
    let mut problems = Vec::new();
    let leader = match ui.leader.as_deref().map(Key::parse) {
        None => DEFAULT_LEADER,
        Some(Ok(key)) if key.can_be_leader().is_ok() => key,
        Some(Ok(key)) => {
            problems.push(format!("ui: leader: {key} cannot be the leader; {DEFAULT_LEADER} it stays"));
            DEFAULT_LEADER
        }
        Some(Err(why)) => {
            problems.push(format!("ui: leader: {why}"));
            DEFAULT_LEADER
        }
    };
    let (keymap, more) = Keymap::new(leader, &options.settings.keys);
    problems.extend(more);
    let outer = [
        ("TMUX", "tmux", Key::ctrl('b')),
        ("STY", "screen", Key::ctrl('a')),
        ("ZELLIJ", "zellij", Key::ctrl('g')),
        ("HERDR_ENV", "herdr", Key::ctrl('b')),
    ];
    let facts = Facts {
        fleet: ui.fleet.clone(),
        home: env("HOME").filter(|h| h.len() > 1),
        cwd: std::env::current_dir().ok().and_then(|d| d.into_os_string().into_string().ok()),
        log: options.log.clone(),
        outer: outer.into_iter().filter(|(name, ..)| env(name).is_some_and(|v| !v.is_empty())).map(|(_, what, key)| (what, key)).collect(),
    };
    let theme = Theme::new(Look::from_env(env, ui.ascii));
    let state = State::new(size, theme, keymap, jiff::tz::TimeZone::system(), facts);
    let mut app = App::new(state, tell, Painter::new(Depth::from_env(env)), options.settings.clone());
    app.no_setup = options.no_setup;
    app.state_dir = options.state_dir.clone();
    app.clock();
    for problem in problems {
        app.state.notice(problem);
    }
    app
}

/// Takes the terminal, runs the loop, gives the terminal back.
async fn with_terminal<L: Dial>(
    tty: File,
    guard: &Arc<Guard>,
    app: &mut App<L>,
    reports: &mut mpsc::Receiver<Report<L::Daemon>>,
    signals: &mut Signals,
) -> Result<(), TuiError> {
    let clone = || tty.try_clone().map_err(TuiError::Setup);
    let mut keys = Keys::new(clone()?).map_err(TuiError::Setup)?;
    let mut frames = Frames::start(clone()?, guard.clone()).map_err(TuiError::Setup)?;
    guard.enter().map_err(TuiError::Setup)?;
    let result = turn(&tty, app, reports, signals, guard, &mut keys, &mut frames).await;
    guard.restore();
    result
}

/// The loop.
async fn turn<L: Dial>(
    tty: &File,
    app: &mut App<L>,
    reports: &mut mpsc::Receiver<Report<L::Daemon>>,
    signals: &mut Signals,
    guard: &Arc<Guard>,
    keys: &mut Keys,
    frames: &mut Frames,
) -> Result<(), TuiError> {
    loop {
        // What is due by the clock comes first, so that no stream of reports can put it off.
        if app.resize_due() {
            app.resized(tty::size(tty));
        }
        let effects = app.wake();
        if obey(tty, app, guard, effects).await? {
            return Ok(());
        }
        if frames.is_free()
            && let Some(frame) = app.frame()
        {
            frames.send(frame);
        }
        let wake = app.next_wake(frames.is_free());
        let timer = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let effects = tokio::select! {
            biased;
            () = guard.panicked() => return Err(TuiError::Panic),
            caught = signals.next() => match caught {
                Caught::Size => { app.size_changes(); Vec::new() }
                Caught::Continue if in_foreground(tty) => { come_back(tty, app, guard)?; Vec::new() }
                Caught::Stop | Caught::Continue => { suspend(tty, app, guard)?; Vec::new() }
                Caught::End(name, number) => return Err(TuiError::Signal { name, number }),
            },
            read = keys.read() => match read {
                Ok(bytes) => app.bytes(bytes),
                Err(e) => return Err(TuiError::Gone(e)),
            },
            sent = frames.sent() => { sent.map_err(TuiError::Gone)?; Vec::new() }
            report = reports.recv() => match report {
                Some(Report::Failed(e)) => return Err(TuiError::Client(e)),
                Some(report) => app.report(report).await,
                None => return Ok(()),
            },
            () = timer => Vec::new(),
        };
        if obey(tty, app, guard, effects).await? {
            return Ok(());
        }
    }
}

/// Does what the state wants; gives whether it wants to leave.
async fn obey<L: Dial>(tty: &File, app: &mut App<L>, guard: &Guard, effects: Vec<Effect>) -> Result<bool, TuiError> {
    match app.carry_out(effects).await {
        After::Go => Ok(false),
        After::Leave => Ok(true),
        After::Suspend => suspend(tty, app, guard).map(|()| false),
    }
}

/// Gives the terminal back, stops this process, and takes the terminal again when it is continued in the foreground.
fn suspend<L: Dial>(tty: &File, app: &mut App<L>, guard: &Guard) -> Result<(), TuiError> {
    guard.restore();
    loop {
        // SIGTSTP would be dropped where no shell could continue us; STOP always stops.
        nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGSTOP).map_err(|e| TuiError::Setup(e.into()))?;
        if in_foreground(tty) {
            return come_back(tty, app, guard);
        }
    }
}

/// Tells whether the terminal is ours to use; where that cannot be known, it is. A group may be 0: its leader is out of sight
/// where we were put into a container from outside.
fn in_foreground(tty: &File) -> bool {
    nix::unistd::tcgetpgrp(tty).map_or(true, |group| group == nix::unistd::getpgrp())
}

fn come_back<L: Dial>(tty: &File, app: &mut App<L>, guard: &Guard) -> Result<(), TuiError> {
    guard.enter().map_err(TuiError::Gone)?;
    app.resized(tty::size(tty));
    app.reentered();
    Ok(())
}

enum Caught {
    Size,
    Continue,
    Stop,
    End(&'static str, i32),
}

/// The signals that matter to a program with a screen.
struct Signals {
    size: Signal,
    go_on: Signal,
    stop: Signal,
    terminate: Signal,
    hang_up: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            size: signal(SignalKind::window_change())?,
            go_on: signal(SignalKind::from_raw(libc::SIGCONT))?,
            stop: signal(SignalKind::from_raw(libc::SIGTSTP))?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Waits for the next one. Cancel safe.
    async fn next(&mut self) -> Caught {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Caught::End("SIGTERM", libc::SIGTERM),
            _ = self.hang_up.recv() => Caught::End("SIGHUP", libc::SIGHUP),
            _ = self.interrupt.recv() => Caught::End("SIGINT", libc::SIGINT),
            _ = self.quit.recv() => Caught::End("SIGQUIT", libc::SIGQUIT),
            _ = self.stop.recv() => Caught::Stop,
            _ = self.go_on.recv() => Caught::Continue,
            _ = self.size.recv() => Caught::Size,
        }
    }
}
