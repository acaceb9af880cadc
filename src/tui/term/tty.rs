//! The terminal as a file: opening it, its size, reading keys, sending frames.
//!
//! Invariant: reading and writing never block a thread; a terminal that is gone ends both.

use super::guard::Guard;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

/// Opens this program's terminal, non-blocking and on its own, so that nothing of the shell's is changed.
pub(in crate::tui) fn open() -> io::Result<File> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(io::Error::new(io::ErrorKind::NotConnected, "stdin and stdout are not a terminal"));
    }
    let open = |path: &str| OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    // Without a controlling terminal, the one on stdin.
    open("/dev/tty").or_else(|_| open("/dev/stdin"))
}

/// Gives columns and rows; a terminal that does not know says 80x24.
pub(in crate::tui) fn size(tty: &File) -> (u16, u16) {
    match rustix::termios::tcgetwinsize(tty) {
        Ok(s) if s.ws_col > 0 && s.ws_row > 0 => (s.ws_col, s.ws_row),
        _ => (80, 24),
    }
}

/// Watches a file that can be polled.
#[expect(deprecated, reason = "the new form is unsafe for the sake of types that do not own their descriptor; a File does")]
pub(in crate::tui) fn watched(file: File) -> io::Result<AsyncFd<File>> {
    AsyncFd::new(file)
}

/// The reading side.
pub(in crate::tui) struct Keys {
    tty: AsyncFd<File>,
    buf: Box<[u8; 4096]>,
}

impl Keys {
    pub(in crate::tui) fn new(tty: File) -> io::Result<Self> {
        Ok(Self { tty: watched(tty)?, buf: Box::new([0; 4096]) })
    }

    /// Waits for bytes. An error or an end means that the terminal is gone. Cancel safe.
    pub(in crate::tui) async fn read(&mut self) -> io::Result<&[u8]> {
        loop {
            let mut ready = self.tty.readable().await?;
            match ready.try_io(|tty| tty.get_ref().read(&mut self.buf[..])) {
                Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Ok(n)) => return Ok(&self.buf[..n]),
                Ok(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(e)) => return Err(e),
                Err(_would_block) => {}
            }
        }
    }
}

/// The writing side: takes one frame at a time and says when it is out.
pub(in crate::tui) struct Frames {
    send: mpsc::Sender<Vec<u8>>,
    done: mpsc::Receiver<io::Result<()>>,
    in_flight: bool,
}

impl Frames {
    /// Starts the writer on the current runtime; it ends when this is dropped.
    pub(in crate::tui) fn start(tty: File, guard: Arc<Guard>) -> io::Result<Self> {
        let tty = watched(tty)?;
        let (send, mut frames) = mpsc::channel::<Vec<u8>>(1);
        let (said, done) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(frame) = frames.recv().await {
                let result = write(&tty, &guard, &frame).await;
                if said.send(result).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self { send, done, in_flight: false })
    }

    /// Tells whether a frame can be sent now.
    pub(in crate::tui) fn is_free(&self) -> bool {
        !self.in_flight
    }

    /// Sends a frame; only when [`Frames::is_free`].
    pub(in crate::tui) fn send(&mut self, frame: Vec<u8>) {
        self.in_flight = self.send.try_send(frame).is_ok();
    }

    /// Waits until the frame is out; forever when there is none. Cancel safe.
    pub(in crate::tui) async fn sent(&mut self) -> io::Result<()> {
        if !self.in_flight {
            return std::future::pending().await;
        }
        let result = self.done.recv().await;
        self.in_flight = false;
        result.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
    }
}

/// Writes a frame: at once where the terminal takes it, else as fast as it does.
async fn write(tty: &AsyncFd<File>, guard: &Guard, frame: &[u8]) -> io::Result<()> {
    let mut left = frame;
    while !left.is_empty() {
        let mut ready = tty.writable().await?;
        match ready.try_io(|_| guard.write(left)) {
            Ok(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(Ok(n)) => left = &left[n..],
            Ok(Err(e)) if e.kind() == io::ErrorKind::Interrupted => {}
            Ok(Err(e)) => return Err(e),
            Err(_would_block) => {}
        }
    }
    Ok(())
}
