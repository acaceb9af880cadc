//! Asks the person at the terminal, whatever stdin and stdout are.
//!
//! Invariant: what is typed is not echoed where it must not be, and the terminal is put back as it was before the answer is given,
//! also when the question is taken back in the middle.

use super::safe;
use crate::model::Secret;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use std::fs::{File, OpenOptions};
use std::io::{self, PipeWriter, Read, Write};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// Longest answer, in bytes.
const LONGEST: usize = 4_096;
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const CTRL_U: u8 = 21;
const BACKSPACE: [u8; 2] = [8, 127];

/// The terminal that controls this process.
#[derive(Clone)]
pub(crate) struct Tty(Arc<File>);

impl Tty {
    /// Finds it; an error where there is none.
    pub(crate) fn open() -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open("/dev/tty").map(|file| Self(Arc::new(file)))
    }

    /// Writes lines of text, made safe for a terminal.
    pub(crate) fn say(&self, text: &str) -> io::Result<()> {
        let lines: String = text.lines().map(|line| format!("{}\n", safe::line(line))).collect();
        (&*self.0).write_all(lines.as_bytes())
    }

    /// Asks for one line, with the lines of text that say for what; none when the person does not answer (Ctrl-C, Ctrl-D). Cancel safe: the terminal is put back.
    pub(crate) async fn line(&self, label: &str, echo: bool) -> io::Result<Option<Secret>> {
        let lines: Vec<String> = label.trim_end().lines().map(|line| safe::line(line).to_string()).collect();
        let label = format!("{} ", lines.join("\n"));
        let (stopped, stop) = io::pipe()?;
        let (tell, told) = oneshot::channel();
        let tty = self.0.clone();
        let reader = std::thread::Builder::new().name("tty".into()).spawn(move || {
            // Whoever asked may have gone.
            drop(tell.send(read(&tty, &stopped, &label, echo)));
        })?;
        let reading = Reading { stop: Some(stop), reader: Some(reader) };
        let line = told.await.unwrap_or_else(|_| Err(io::Error::other("reading the terminal failed")));
        drop(reading);
        line
    }
}

/// A thread that reads the terminal; it ends, and puts the terminal back, before this is gone.
struct Reading {
    stop: Option<PipeWriter>,
    reader: Option<JoinHandle<()>>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(reader) = self.reader.take() {
            // It waits for nothing but keys and the pipe that has just been closed; a panic in it has been printed.
            drop(reader.join());
        }
    }
}

/// The terminal's modes before a question.
struct Modes<'a>(&'a File, Termios);

impl Drop for Modes<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no modes.
        let _ = termios::tcsetattr(self.0, OptionalActions::Now, &self.1);
        drop((&mut &*self.0).write_all(b"\n"));
    }
}

fn read(tty: &File, stopped: &impl std::os::fd::AsFd, label: &str, echo: bool) -> io::Result<Option<Secret>> {
    let before = termios::tcgetattr(tty)?;
    let mut quiet = before.clone();
    quiet.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
    quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
    quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
    // Keys that were typed before the question are no answer to it.
    termios::tcsetattr(tty, OptionalActions::Flush, &quiet)?;
    let _modes = Modes(tty, before);
    // Only now, so that nothing is typed while it would still be echoed.
    (&mut &*tty).write_all(label.as_bytes())?;
    let mut line = Secret::default();
    let mut part = Vec::new();
    loop {
        let mut wait = [PollFd::new(tty, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
        match poll(&mut wait, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        }
        if !wait[1].revents().is_empty() {
            return Ok(None);
        }
        let mut byte = [0];
        if (&mut &*tty).read(&mut byte)? == 0 {
            return Ok(None);
        }
        match byte[0] {
            b'\r' | b'\n' => return Ok(Some(line)),
            CTRL_C => return Ok(None),
            CTRL_D if line.expose().is_empty() => return Ok(None),
            CTRL_U => line.clear(),
            b if BACKSPACE.contains(&b) => {
                if echo && !line.expose().is_empty() {
                    (&mut &*tty).write_all(b"\x08 \x08")?;
                }
                line.pop();
            }
            b if b < b' ' => {}
            b if line.expose().len() < LONGEST => {
                part.push(b);
                if let Some(c) = whole(&mut part) {
                    line.push(c);
                    if echo {
                        (&mut &*tty).write_all(c.encode_utf8(&mut [0; 4]).as_bytes())?;
                    }
                }
            }
            _ => {}
        }
    }
}

/// The character that the bytes make, once they are whole; what can be none is dropped.
fn whole(part: &mut Vec<u8>) -> Option<char> {
    match std::str::from_utf8(part) {
        Ok(text) => {
            let c = text.chars().next();
            part.clear();
            c
        }
        Err(e) if e.error_len().is_some() => {
            part.clear();
            None
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_come_in_bytes() {
        let mut part = Vec::new();
        let typed: String = "a\u{e9}\u{20ac}"
            .bytes()
            .chain([0xff])
            .chain("z".bytes())
            .filter_map(|b| {
                part.push(b);
                whole(&mut part)
            })
            .collect();
        assert_eq!(typed, "a\u{e9}\u{20ac}z");
    }
}
