//! A program on a real terminal, with an emulator that shows what a person would see.
//!
//! Invariant: the program has the terminal as its controlling terminal, and never outlives its `Pty`.

use super::run::clean;
use super::wait;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A program on a terminal.
pub(crate) struct Pty {
    child: Child,
    master: File,
    /// Held so that the terminal's modes can be read after the program's end.
    slave: OwnedFd,
    seen: Arc<Seen>,
}

struct Seen {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    parser: vt100::Parser<Answers>,
    /// Everything that came, for a look at the escape sequences.
    raw: Vec<u8>,
}

/// What a program asked its terminal, to be answered.
#[derive(Default)]
struct Answers {
    pending: Vec<u8>,
}

impl vt100::Callbacks for Answers {
    fn unhandled_csi(&mut self, screen: &mut vt100::Screen, i1: Option<u8>, _i2: Option<u8>, params: &[&[u16]], c: char) {
        let first = params.first().and_then(|p| p.first()).copied().unwrap_or(0);
        match (i1, c, first) {
            (None, 'n', 6) => {
                let (row, col) = screen.cursor_position();
                self.pending.extend(format!("\x1b[{};{}R", row + 1, col + 1).bytes());
            }
            (None, 'n', 5) => self.pending.extend(b"\x1b[0n"),
            (None, 'c', 0) => self.pending.extend(b"\x1b[?62;22c"),
            _ => {}
        }
    }
}

impl Pty {
    /// Makes the command of a program that gets the terminal as its controlling one, with an empty environment.
    pub(crate) fn command(argv: &[OsString]) -> Command {
        let inner = clean(&argv[0]);
        // `setsid --ctty` becomes `env`, which becomes the program: one pid for all three.
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(inner.get_args()).args(&argv[1..]);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("TERM", "xterm-256color");
        command
    }

    /// Starts a command made by [`Pty::command`].
    pub(crate) fn start(mut command: Command, rows: u16, cols: u16) -> Self {
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None).expect("a terminal can be made");
        let end = || Stdio::from(pair.slave.try_clone().expect("a descriptor can be copied"));
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
        // The command holds copies of the terminal's end until it is dropped.
        drop(command);
        let parser = vt100::Parser::new_with_callbacks(rows, cols, 0, Answers::default());
        let seen = Arc::new(Seen { state: Mutex::new(State { parser, raw: Vec::new() }), changed: Condvar::new() });
        let master = File::from(pair.master);
        let from = master.try_clone().expect("a descriptor can be copied");
        let into = Arc::clone(&seen);
        std::thread::spawn(move || read(from, &into));
        Self { child, master, slave: pair.slave, seen }
    }

    /// Types bytes.
    pub(crate) fn send(&mut self, keys: impl AsRef<[u8]>) {
        self.master.write_all(keys.as_ref()).expect("the terminal takes input");
    }

    /// Changes the terminal's size; the program gets SIGWINCH.
    pub(crate) fn resize(&mut self, rows: u16, cols: u16) {
        self.seen.state.lock().expect("no reader panics").parser.screen_mut().set_size(rows, cols);
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.master, size).expect("the terminal is open");
    }

    /// Gives the screen's text as it is now, a line a row.
    pub(crate) fn screen(&self) -> String {
        self.seen.state.lock().expect("no reader panics").parser.screen().contents()
    }

    /// Looks at the screen (cursor, colours, modes).
    pub(crate) fn look<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.seen.state.lock().expect("no reader panics").parser.screen())
    }

    /// Everything that the program wrote so far.
    pub(crate) fn raw(&self) -> Vec<u8> {
        self.seen.state.lock().expect("no reader panics").raw.clone()
    }

    /// Waits until the screen's text is as wanted, and gives it back.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        self.wait_within(wait::CAP, what, wanted)
    }

    /// Waits until the screen's text is as wanted, with a cap of its own.
    #[track_caller]
    pub(crate) fn wait_within(&self, cap: Duration, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + cap;
        let mut state = self.seen.state.lock().expect("no reader panics");
        loop {
            let text = state.parser.screen().contents();
            if wanted(&text) {
                return text;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the screen did not show within {cap:?}: {what}\n{}", framed(&text));
            state = self.seen.changed.wait_timeout(state, left).expect("no reader panics").0;
        }
    }

    /// Waits until the screen holds the text.
    #[track_caller]
    pub(crate) fn wait_text(&self, text: &str) -> String {
        self.wait_for(text, |screen| screen.contains(text))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("the child was not waited for yet");
    }

    /// Waits for the program's end.
    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        let child = &mut self.child;
        wait::within(wait::CAP, || child.try_wait().expect("it is our child"))
            .unwrap_or_else(|| panic!("the program did not end\n{}", framed(&self.screen())))
    }

    /// Tells whether the program has ended.
    pub(crate) fn ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Tells whether the terminal is as a shell wants it: lines and echo, the ordinary screen, a visible cursor, no mouse
    /// reports, no bracketed paste. Gives what is not.
    pub(crate) fn not_restored(&self) -> Vec<&'static str> {
        let modes = tcgetattr(&self.slave).expect("the terminal is open").local_flags;
        let mut bad = Vec::new();
        let mut check = |is_bad: bool, what| {
            if is_bad {
                bad.push(what)
            }
        };
        check(!modes.contains(LocalFlags::ICANON), "raw mode");
        check(!modes.contains(LocalFlags::ECHO), "no echo");
        check(!modes.contains(LocalFlags::ISIG), "no signals from keys");
        self.look(|screen| {
            check(screen.alternate_screen(), "alternate screen");
            check(screen.hide_cursor(), "hidden cursor");
            check(screen.bracketed_paste(), "bracketed paste");
            check(screen.mouse_protocol_mode() != vt100::MouseProtocolMode::None, "mouse reports");
        });
        bad
    }

    /// Asserts that the terminal is restored once everything that was written has arrived.
    #[track_caller]
    pub(crate) fn assert_restored(&self) {
        if wait::within(Duration::from_secs(5), || self.not_restored().is_empty().then_some(())).is_none() {
            panic!("the terminal was left with {:?}\n{}", self.not_restored(), framed(&self.screen()));
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // Gone in between is as good.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads until the other side is closed for good, and answers what the program asks its terminal.
fn read(mut from: File, into: &Seen) {
    let mut buffer = vec![0; 65536];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let mut state = into.state.lock().expect("no test panics with the lock held");
        state.raw.extend_from_slice(&buffer[..n]);
        state.parser.process(&buffer[..n]);
        let answers = std::mem::take(&mut state.parser.callbacks_mut().pending);
        drop(state);
        into.changed.notify_all();
        if !answers.is_empty() && from.write_all(&answers).is_err() {
            return;
        }
    }
}

fn framed(text: &str) -> String {
    text.lines().map(|line| format!("| {line}\n")).collect()
}
