//! Running a program to its end, with its streams kept and a cap on the time.
//!
//! Invariant: a program that was started here never outlives its `Running`.

use super::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Makes a command of a program with no terminal, the usual signals and nothing of our environment but PATH.
pub(crate) fn clean(program: &OsStr) -> Command {
    let mut command = Command::new("setsid");
    // A CI runner may hand down ignored signals; `env` and `setsid` become the program, so its pid is the child's.
    command.args(["env", "--default-signal=INT,QUIT,PIPE,HUP,TERM"]).arg(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
    command
}

/// What a program left.
#[derive(Debug)]
pub(crate) struct Done {
    /// Its exit code; none when a signal ended it.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
}

impl Done {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn code(self, want: i32) -> Self {
        assert_eq!(self.code, Some(want), "{self}");
        self
    }

    /// Asserts that stderr holds each of the texts.
    #[track_caller]
    pub(crate) fn says(self, texts: &[&str]) -> Self {
        let err = self.err();
        for text in texts {
            assert!(err.contains(text), "stderr lacks {text:?}\n{self}");
        }
        self
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.err).into_owned()
    }

    /// Reads stdout as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out).unwrap_or_else(|error| panic!("stdout is not JSON: {error}\n{self}"))
    }
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(4000)]).into_owned();
        write!(f, "code {:?} signal {:?}\n-- stdout\n{}\n-- stderr\n{}", self.code, self.signal, cut(&self.out), cut(&self.err))
    }
}

/// A program that runs.
pub(crate) struct Running {
    child: Child,
    out: Kept,
    err: Kept,
    stdin: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a program; its stdin gets the bytes and then its end.
    pub(crate) fn start(mut command: Command, stdin: Vec<u8>) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let out = Kept::of(child.stdout.take().expect("piped above"));
        let err = Kept::of(child.stderr.take().expect("piped above"));
        let mut sink = child.stdin.take().expect("piped above");
        // A program that does not read its stdin is no failure of the test.
        let stdin = std::thread::spawn(move || drop(sink.write_all(&stdin)));
        Self { child, out, err, stdin: Some(stdin) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("the child was not waited for yet");
    }

    /// Sends a signal to a program that may have ended by itself.
    pub(crate) fn signal_unless_ended(&self, signal: Signal) {
        // Not waited for yet, so its id is still its own.
        let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
    }

    /// What it wrote to stdout so far.
    pub(crate) fn out_so_far(&self) -> String {
        String::from_utf8_lossy(&self.out.bytes.lock().expect("no reader panics")).into_owned()
    }

    /// What it wrote to stderr so far.
    pub(crate) fn err_so_far(&self) -> String {
        String::from_utf8_lossy(&self.err.bytes.lock().expect("no reader panics")).into_owned()
    }

    /// Waits until stdout holds the text.
    #[track_caller]
    pub(crate) fn wait_out(&mut self, text: &str) {
        let found = wait::within(wait::CAP, || (self.out_so_far().contains(text) || self.ended()).then_some(()));
        let (out, err) = (self.out_so_far(), self.err_so_far());
        assert!(found.is_some() && out.contains(text), "no {text:?} on stdout\n-- stdout\n{out}\n-- stderr\n{err}");
    }

    fn ended(&mut self) -> bool {
        self.child.try_wait().expect("it is our child").is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn done(self) -> Done {
        self.done_within(Duration::from_secs(90))
    }

    /// Waits for its end; panics at the cap, with what it said so far.
    #[track_caller]
    pub(crate) fn done_within(mut self, cap: Duration) -> Done {
        let Some(status) = wait::within(cap, || self.child.try_wait().expect("it is our child")) else {
            panic!("still running after {cap:?}\n-- stdout\n{}\n-- stderr\n{}", self.out_so_far(), self.err_so_far());
        };
        let done = Done { code: status.code(), signal: status.signal(), out: self.out.take(), err: self.err.take() };
        if let Some(stdin) = self.stdin.take() {
            stdin.join().expect("the writer does not panic");
        }
        done
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // Gone in between is as good.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A stream that is read to its end by a thread.
struct Kept {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Kept {
    fn of(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                kept.lock().expect("no reader panics").extend_from_slice(&buffer[..n]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    /// Waits for the end of the stream. Somebody who still holds it after the program's end is a bug worth a panic.
    #[track_caller]
    fn take(&mut self) -> Vec<u8> {
        let reader = self.reader.take().expect("taken once");
        wait::until("the end of a stream whose program has ended", wait::CAP, || reader.is_finished().then_some(()));
        reader.join().expect("no reader panics");
        std::mem::take(&mut self.bytes.lock().expect("no reader panics"))
    }
}
