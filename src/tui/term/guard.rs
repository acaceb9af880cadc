//! Takes the terminal and gives it back, exactly once each time.
//!
//! Invariant: [`Guard::restore`] may be called any number of times, from any thread, in a panic too; it acts only while the
//! terminal is taken. After it nothing is written until [`Guard::enter`].

use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use tokio::sync::Notify;

/// Alternate screen, bracketed paste, no cursor until a frame shows it.
const ENTER: &str = "\x1b[?1049h\x1b[?2004h\x1b[?25l\x1b[0m\x1b[2J\x1b[H";
/// Button motion and its extended coordinates.
const MOUSE: &str = "\x1b[?1002h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?1000l";
/// A synchronized update that was cut is ended first; all reporting off; style and cursor as they were.
const RESTORE: &str = "\x1b[?2026l\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?1004l\x1b[?2004l\x1b[0m\x1b[?25h\x1b[?1049l";
/// How long a terminal that does not read may hold up the restoring.
const RESTORE_WAIT_MS: i64 = 500;

/// The terminal while it is ours.
pub(in crate::tui) struct Guard {
    tty: File,
    saved: Termios,
    mouse: bool,
    taken: AtomicBool,
    /// Serialises writes, so that nothing is written after the restoring has begun.
    writing: Mutex<()>,
    panicked: AtomicBool,
    panic: Notify,
}

impl Guard {
    /// Remembers how the terminal is; takes nothing yet. `tty` is non-blocking.
    pub(in crate::tui) fn new(tty: File, mouse: bool) -> io::Result<Arc<Self>> {
        let saved = tcgetattr(&tty)?;
        Ok(Arc::new(Self {
            tty,
            saved,
            mouse,
            taken: AtomicBool::new(false),
            writing: Mutex::new(()),
            panicked: AtomicBool::new(false),
            panic: Notify::new(),
        }))
    }

    /// Restores the terminal before the text of a panic is printed, and tells the loop. Where several terminals share a process only
    /// panics of the thread are meant that it belongs to; else those of whatever thread.
    pub(in crate::tui) fn hook_panics(self: &Arc<Self>, only: Option<ThreadId>) {
        let guard = Arc::downgrade(self);
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let meant = only.is_none_or(|thread| thread == std::thread::current().id());
            if let Some(guard) = guard.upgrade().filter(|_| meant) {
                guard.restore();
                guard.panicked.store(true, Ordering::SeqCst);
                guard.panic.notify_one();
            }
            before(info);
        }));
    }

    /// Waits until something panics that [`Guard::hook_panics`] means. Cancel safe.
    pub(in crate::tui) async fn panicked(&self) {
        while !self.panicked.load(Ordering::SeqCst) {
            self.panic.notified().await;
        }
    }

    /// Takes the terminal: raw mode, alternate screen. Taken already, it is taken anew: whoever had it in between may have
    /// changed it.
    pub(in crate::tui) fn enter(&self) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.taken.store(true, Ordering::SeqCst);
        let mut raw = self.saved.clone();
        raw.make_raw();
        without_ttou(|| tcsetattr(&self.tty, OptionalActions::Now, &raw))?;
        self.write_patiently(ENTER)?;
        if self.mouse {
            self.write_patiently(MOUSE)?;
        }
        Ok(())
    }

    /// Gives the terminal back. Failures are ignored: there is nowhere to show them and nothing else to try.
    pub(in crate::tui) fn restore(&self) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.taken.swap(false, Ordering::SeqCst) {
            return;
        }
        if self.mouse {
            // Reports that are on their way must not reach the shell as typed text.
            self.write_patiently(MOUSE_OFF).ok();
            tcflush(&self.tty, QueueSelector::IFlush).ok();
        }
        // The modes first: what is typed as soon as the shell's screen is seen is typed to the shell.
        without_ttou(|| tcsetattr(&self.tty, OptionalActions::Now, &self.saved)).ok();
        self.write_patiently(RESTORE).ok();
    }

    /// Writes what the terminal takes now, unless it was given back.
    pub(in crate::tui) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.taken.load(Ordering::SeqCst) {
            return Ok(bytes.len());
        }
        (&self.tty).write(bytes)
    }

    /// Writes a short text, waiting a little for a terminal that is slow.
    fn write_patiently(&self, text: &str) -> io::Result<()> {
        let mut left = text.as_bytes();
        while !left.is_empty() {
            match (&self.tty).write(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => left = &left[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let wait = Timespec { tv_sec: 0, tv_nsec: RESTORE_WAIT_MS * 1_000_000 };
                    if poll(&mut [PollFd::new(&self.tty, PollFlags::OUT)], Some(&wait))? == 0 {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Changes the terminal's modes even when another job has the foreground, instead of being stopped for it.
fn without_ttou(change: impl FnOnce() -> rustix::io::Result<()>) -> io::Result<()> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTTOU);
    let before = set.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK);
    let result = change();
    if let Ok(before) = before {
        before.thread_set_mask().ok();
    }
    Ok(result?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// A terminal pair: the far end and the near end.
    fn pair() -> (File, File) {
        let pty = nix::pty::openpty(None, None).unwrap();
        (File::from(pty.master), File::from(pty.slave))
    }

    fn read(far: &mut File, want: &str) -> String {
        let mut buf = vec![0; want.len()];
        far.read_exact(&mut buf).unwrap();
        String::from_utf8_lossy(&buf).into_owned()
    }

    #[test]
    fn the_terminal_comes_back_as_it_was_and_only_once() {
        let (mut far, near) = pair();
        let probe = near.try_clone().unwrap();
        let before = tcgetattr(&probe).unwrap();
        let guard = Guard::new(near, true).unwrap();
        guard.enter().unwrap();
        guard.enter().unwrap();
        let entered = format!("{ENTER}{MOUSE}");
        assert_eq!(read(&mut far, &entered.repeat(2)), entered.repeat(2));
        let raw = tcgetattr(&probe).unwrap();
        assert!(!raw.local_modes.contains(rustix::termios::LocalModes::ICANON));
        guard.restore();
        guard.restore();
        assert_eq!(guard.write(b"late").unwrap(), 4, "what comes late is dropped");
        let left = format!("{MOUSE_OFF}{RESTORE}");
        assert_eq!(read(&mut far, &left), left);
        let after = tcgetattr(&probe).unwrap();
        assert_eq!(
            (after.local_modes, after.input_modes, after.output_modes),
            (before.local_modes, before.input_modes, before.output_modes)
        );
        guard.enter().unwrap();
        assert_eq!(read(&mut far, &entered), entered);
        drop(guard);
        assert_eq!(read(&mut far, &left), left);
    }

    #[test]
    fn restoring_leaves_the_alternate_screen_in_any_emulator() {
        let mut screen = vt100::Parser::new(10, 40, 0);
        screen.process(b"$ qd\r\n");
        screen.process(ENTER.as_bytes());
        screen.process(MOUSE.as_bytes());
        screen.process(b"\x1b[?2026h\x1b[31mhalf a fra");
        assert!(screen.screen().alternate_screen());
        screen.process(RESTORE.as_bytes());
        let s = screen.screen();
        assert!(!s.alternate_screen() && !s.hide_cursor() && !s.bracketed_paste());
        assert_eq!(s.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        assert_eq!(s.fgcolor(), vt100::Color::Default);
        assert!(s.contents().starts_with("$ qd"));
    }

    /// One failing test made its neighbours fail: they ended with "the TUI failed", because any panic of the process was theirs.
    #[test]
    fn a_panic_of_another_thread_is_not_of_this_terminal() {
        if std::env::var_os(CHILD).is_some() {
            let (_far, near) = pair();
            let guard = Guard::new(near, false).unwrap();
            guard.hook_panics(Some(std::thread::current().id()));
            std::thread::spawn(|| panic!("a neighbour broke")).join().unwrap_err();
            assert!(!guard.panicked.load(Ordering::SeqCst));
            std::panic::catch_unwind(|| panic!("it broke itself")).unwrap_err();
            assert!(guard.panicked.load(Ordering::SeqCst));
            return;
        }
        let name = "tui::term::guard::tests::a_panic_of_another_thread_is_not_of_this_terminal";
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        assert!(command.args(["--exact", name]).env(CHILD, "1").output().unwrap().status.success());
    }

    /// Set in the process that panics.
    const CHILD: &str = "QD_TEST_PANIC_CHILD";

    #[test]
    fn a_panic_in_any_thread_restores_the_terminal_before_its_text() {
        if std::env::var_os(CHILD).is_some() {
            let tty = File::options().read(true).write(true).open("/dev/stdin").unwrap();
            let guard = Guard::new(tty, false).unwrap();
            guard.hook_panics(None);
            guard.enter().unwrap();
            std::thread::spawn(|| panic!("something broke")).join().unwrap_err();
            assert!(guard.panicked.load(Ordering::SeqCst));
            return;
        }
        // In a process of its own: the hook is for a whole process.
        let (far, near) = pair();
        let name = "tui::term::guard::tests::a_panic_in_any_thread_restores_the_terminal_before_its_text";
        let end = || std::process::Stdio::from(near.try_clone().unwrap());
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").env("RUST_BACKTRACE", "0");
        let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        drop(command);
        drop(near);
        let mut all = Vec::new();
        let mut far = far;
        let mut buf = [0; 4096];
        // The terminal ends with an error once the child has closed it.
        while let Ok(n @ 1..) = far.read(&mut buf) {
            all.extend_from_slice(&buf[..n]);
        }
        assert!(child.wait().unwrap().success());
        let text = String::from_utf8_lossy(&all);
        let (restored, said) = (text.find(RESTORE), text.find("something broke"));
        assert!(restored.is_some() && restored < said, "{text:?}");
        let after = text[restored.unwrap()..].split("something broke").nth(1).unwrap();
        assert!(after.contains("\r\n"), "lines end as on a terminal that is not raw: {after:?}");
    }
}
