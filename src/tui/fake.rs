//! A scripted daemon and a terminal for tests of the loop.

use super::link::{Daemon, Dial, Feed, Run, Said};
use super::run::{Options, TuiError, on};
use super::term::tty::watched;
use super::testing;
use crate::client::ClientError;
use crate::model::*;
use crate::protocol::calls::{AdoptCall, Complete, ExecCall, FindCall, Found, Kill, Recheck, SendCall, Sent};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

/// Longest wait for anything.
const CAP: Duration = Duration::from_secs(20);

/// The scripted daemon, which is also the way to it.
#[derive(Clone)]
pub(super) struct Fake(Arc<Inner>);

struct Inner {
    up: watch::Sender<bool>,
    overview: Mutex<Overview>,
    watchers: Mutex<Vec<mpsc::Sender<Event>>>,
    logs: Mutex<HashMap<String, Vec<u8>>>,
    calls: Mutex<Vec<String>>,
    called: Notify,
    endings: watch::Sender<HashMap<String, i32>>,
    read: AtomicUsize,
    reading: AtomicUsize,
    most_reading: AtomicUsize,
    runs: AtomicUsize,
}

impl Fake {
    pub(super) fn new() -> Self {
        Self(Arc::new(Inner {
            up: watch::Sender::new(true),
            overview: Mutex::new(testing::overview()),
            watchers: Mutex::default(),
            logs: Mutex::default(),
            calls: Mutex::default(),
            called: Notify::new(),
            endings: watch::Sender::new(HashMap::new()),
            read: AtomicUsize::new(0),
            reading: AtomicUsize::new(0),
            most_reading: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
        }))
    }

    /// One whose backends are all up, so that nothing counts down.
    pub(super) fn calm() -> Self {
        let fake = Self::new();
        for backend in &mut fake.0.overview.lock().unwrap().backends {
            backend.health = Health { state: HealthState::Up, ..Health::default() };
        }
        fake
    }

    pub(super) fn overview(&self) -> Overview {
        self.0.overview.lock().unwrap().clone()
    }

    pub(super) fn emit(&self, event: Event) {
        self.0.watchers.lock().unwrap().retain(|w| w.try_send(event.clone()).is_ok());
    }

    pub(super) fn begin(&self, process: ProcessInfo) {
        self.0.overview.lock().unwrap().processes.push(process.clone());
        self.emit(Event::Process { process: Box::new(process) });
    }

    pub(super) fn write(&self, process: &str, bytes: &[u8]) {
        let total = {
            let mut logs = self.0.logs.lock().unwrap();
            let log = logs.entry(process.to_owned()).or_default();
            log.extend_from_slice(bytes);
            log.len() as u64
        };
        self.emit(Event::Output { process: process.to_owned(), total });
    }

    pub(super) fn finish(&self, process: &str, exit_code: i32) {
        let row = {
            let mut overview = self.0.overview.lock().unwrap();
            let row = overview.processes.iter_mut().find(|p| p.id == process).unwrap();
            row.state = ProcessState::Ended(Outcome::Exited { exit_code });
            row.ended = Some(row.started + 5);
            row.clone()
        };
        self.emit(Event::Process { process: Box::new(row) });
        self.0.endings.send_modify(|e| {
            e.insert(process.to_owned(), exit_code);
        });
    }

    /// The daemon goes away.
    pub(super) fn cut(&self) {
        self.0.up.send_replace(false);
        self.0.watchers.lock().unwrap().clear();
        self.0.overview.lock().unwrap().processes.clear();
    }

    pub(super) fn mend(&self) {
        self.0.up.send_replace(true);
    }

    fn note(&self, call: String) {
        self.0.calls.lock().unwrap().push(call);
        self.0.called.notify_waiters();
    }

    pub(super) fn calls(&self, prefix: &str) -> Vec<String> {
        self.0.calls.lock().unwrap().iter().filter(|c| c.starts_with(prefix)).cloned().collect()
    }

    /// Waits for a call that begins so, and gives the last one.
    pub(super) async fn called(&self, prefix: &str) -> String {
        let wait = async {
            loop {
                let notified = self.0.called.notified();
                if let Some(call) = self.calls(prefix).pop() {
                    return call;
                }
                notified.await;
            }
        };
        tokio::time::timeout(CAP, wait).await.unwrap_or_else(|_| panic!("no call {prefix}"))
    }

    pub(super) fn bytes_read(&self) -> usize {
        self.0.read.load(Ordering::SeqCst)
    }

    pub(super) fn most_reads_at_once(&self) -> usize {
        self.0.most_reading.load(Ordering::SeqCst)
    }

    pub(super) async fn read_something(&self) {
        self.called("read").await;
    }

    fn is_up(&self) -> Result<(), ClientError> {
        if *self.0.up.borrow() { Ok(()) } else { Err(ClientError::NoDaemon) }
    }
}

impl Dial for Fake {
    type Daemon = Self;

    async fn dial(&self, start: bool) -> Result<Self, ClientError> {
        self.note(format!("dial start={start}"));
        self.is_up()?;
        // Without being asked to start, one that said it was ending stays away.
        let stopped = !start && self.calls("dial").len() > 1;
        if stopped { Err(ClientError::NoDaemon) } else { Ok(self.clone()) }
    }
}

impl Daemon for Fake {
    type Run = FakeRun;

    async fn overview(&self) -> Result<Overview, ClientError> {
        self.is_up()?;
        Ok(Fake::overview(self))
    }

    async fn watch(&self) -> Result<mpsc::Receiver<Event>, ClientError> {
        self.is_up()?;
        let (send, events) = mpsc::channel(1024);
        self.0.watchers.lock().unwrap().push(send);
        Ok(events)
    }

    async fn read(&self, read: LogRead) -> Result<Chunk, ClientError> {
        self.note(format!("read {}", read.process));
        let now = self.0.reading.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most_reading.fetch_max(now, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.0.reading.fetch_sub(1, Ordering::SeqCst);
        let logs = self.0.logs.lock().unwrap();
        let log = logs.get(&read.process).cloned().unwrap_or_default();
        let from = match read.start {
            LogStart::Offset(n) => n as usize,
            LogStart::TailBytes(n) => log.len().saturating_sub(n as usize),
            LogStart::TailLines(_) => panic!("not used"),
        };
        let bytes = log[from.min(log.len())..].iter().take(read.max as usize).copied().collect::<Vec<_>>();
        self.0.read.fetch_add(bytes.len(), Ordering::SeqCst);
        Ok(Chunk { offset: from as u64, total: log.len() as u64, bytes, ..Chunk::default() })
    }

    async fn exec(&self, call: ExecCall) -> Result<FakeRun, ClientError> {
        let e = &call.exec;
        let (backend, session) = (e.backend.clone().unwrap(), e.session.clone().unwrap());
        self.note(format!("exec {backend} {session} {} stdin={}", e.command, e.stdin));
        let id = format!("x{}", self.0.runs.fetch_add(1, Ordering::SeqCst) + 1);
        let mut process = testing::process(&id, &backend, &e.command);
        process.session = session;
        process.reads_stdin = e.stdin;
        self.begin(process.clone());
        Ok(FakeRun { fake: self.clone(), process, told: false, stdin: e.stdin })
    }

    async fn kill(&self, call: Kill) -> Result<Vec<crate::protocol::calls::Killed>, ClientError> {
        self.note(format!("kill {} {:?}", call.processes.join(" "), call.grace_ms));
        Ok(Vec::new())
    }

    async fn connect(&self, backend: String) -> Result<(), ClientError> {
        self.note(format!("connect {backend}"));
        Ok(())
    }

    async fn answer(&self, call: crate::protocol::calls::AnswerCall) -> Result<(), ClientError> {
        self.note(format!("answer {} {:?}", call.id, call.answer));
        Ok(())
    }

    async fn send(&self, call: SendCall) -> Result<Sent, ClientError> {
        self.note(format!("send {} {:?} eof={}", call.process, call.text, call.eof));
        Ok(Sent { process: testing::process(&call.process, "web", "cat"), waiting: 0 })
    }

    async fn adopt(&self, call: AdoptCall) -> Result<ProcessInfo, ClientError> {
        self.note(format!("adopt {}", call.process));
        Ok(testing::process(&call.process, "web", "cat"))
    }

    async fn find(&self, call: FindCall) -> Result<Found, ClientError> {
        self.note(format!("find {}", call.backend));
        Ok(Found::default())
    }

    async fn recheck(&self, call: Recheck) -> Result<ProcessInfo, ClientError> {
        self.note(format!("recheck {}", call.process));
        Ok(testing::process(&call.process, "web", "cat"))
    }

    async fn complete(&self, call: Complete) -> Result<Vec<String>, ClientError> {
        self.note(format!("complete {}", call.word));
        Ok(vec![format!("{}-done", call.word)])
    }
}

/// A command of the scripted daemon.
pub(super) struct FakeRun {
    fake: Fake,
    process: ProcessInfo,
    told: bool,
    stdin: bool,
}

impl Run for FakeRun {
    type Input = FakeInput;

    async fn next(&mut self) -> Option<Result<Said, ClientError>> {
        if !std::mem::replace(&mut self.told, true) {
            return Some(Ok(Said::Started(Box::new(self.process.clone()))));
        }
        let mut endings = self.fake.0.endings.subscribe();
        let mut up = self.fake.0.up.subscribe();
        let code = tokio::select! {
            code = endings.wait_for(|e| e.contains_key(&self.process.id)) => code.unwrap()[&self.process.id],
            _ = up.wait_for(|up| !up) => return Some(Err(ClientError::Gone("cut".to_owned()))),
        };
        Some(Ok(Said::Ended(Box::new(ExecResult {
            process_id: self.process.id.clone(),
            backend: self.process.backend.clone(),
            session: self.process.session.clone(),
            outcome: Outcome::Exited { exit_code: code },
            exit_code_meaning: None,
            output: String::new(),
            truncated: false,
            total_bytes: 0,
            next_offset: 0,
            output_path: None,
            cwd: "/home/ada/proj".to_owned(),
            generation: 9,
            duration_ms: 5,
            timeout_ms: None,
            warnings: Vec::new(),
            hints: Vec::new(),
        }))))
    }

    fn take_stdin(&mut self) -> Option<FakeInput> {
        std::mem::take(&mut self.stdin).then(|| FakeInput(self.fake.clone()))
    }
}

pub(super) struct FakeInput(Fake);

impl Feed for FakeInput {
    async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ClientError> {
        self.0.note(format!("stdin {:?}", String::from_utf8(bytes).unwrap()));
        Ok(())
    }

    fn end(&mut self) {
        self.0.note("end".to_owned());
    }
}

/// The loop on a terminal, with an emulator at the other end.
pub(super) struct Stage {
    pub(super) fake: Fake,
    far: Option<AsyncFd<File>>,
    screen: vt100::Parser,
    raw: Vec<u8>,
    task: Option<JoinHandle<Result<String, TuiError>>>,
}

impl Stage {
    pub(super) async fn start(fake: Fake, rows: u16, cols: u16) -> Self {
        Self::with(fake, rows, cols, Options { no_setup: true, ..Options::default() })
    }

    /// A start like the first one, with a state folder.
    pub(super) async fn first(fake: Fake, rows: u16, cols: u16, state: &Path) -> Self {
        Self::with(fake, rows, cols, Options { state_dir: Some(state.to_owned()), ..Options::default() })
    }

    fn with(fake: Fake, rows: u16, cols: u16, options: Options) -> Self {
        let size = nix::pty::Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = nix::pty::openpty(Some(&size), None).unwrap();
        let (far, near) = (File::from(pair.master), File::from(pair.slave));
        for file in [&far, &near] {
            let flags = rustix::fs::fcntl_getfl(file).unwrap();
            rustix::fs::fcntl_setfl(file, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
        }
        let task = tokio::spawn(on(near, options, fake.clone(), Some(std::thread::current().id())));
        Self { fake, far: Some(watched(far).unwrap()), screen: vt100::Parser::new(rows, cols, 0), raw: Vec::new(), task: Some(task) }
    }

    pub(super) fn send(&self, bytes: &[u8]) {
        self.far.as_ref().unwrap().get_ref().write_all(bytes).unwrap();
    }

    pub(super) fn resize(&mut self, rows: u16, cols: u16) {
        self.screen.screen_mut().set_size(rows, cols);
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(self.far.as_ref().unwrap().get_ref(), size).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGWINCH).unwrap();
    }

    pub(super) fn hang_up(&mut self) {
        self.far = None;
    }

    pub(super) fn screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.screen.screen())
    }

    pub(super) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Reads what was drawn; false when nothing more can come.
    async fn read(&mut self) -> bool {
        let Some(far) = &self.far else { return false };
        loop {
            let mut ready = far.readable().await.unwrap();
            let mut buf = [0u8; 65536];
            match ready.try_io(|f| f.get_ref().read(&mut buf)) {
                Ok(Ok(0) | Err(_)) => return false,
                Ok(Ok(n)) => {
                    self.raw.extend_from_slice(&buf[..n]);
                    self.screen.process(&buf[..n]);
                    return true;
                }
                Err(_) => {}
            }
        }
    }

    pub(super) async fn wait(&mut self, text: &str) {
        self.wait_for(text, |s| s.contains(text)).await;
    }

    pub(super) async fn wait_for(&mut self, what: &str, wanted: impl Fn(&str) -> bool) {
        let look = async {
            while !wanted(&self.screen.screen().contents()) {
                if !self.read().await {
                    let ended = self.task.take().expect("it is waited for once").await;
                    panic!("it ended before: {what}: {ended:?}\n{}", self.screen.screen().contents());
                }
            }
        };
        let seen = tokio::time::timeout(CAP, look).await;
        assert!(seen.is_ok(), "the screen did not show: {what}\n{}", self.screen.screen().contents());
    }

    /// Tells whether nothing is written for a while, after at most a few more frames.
    pub(super) async fn quiet(&mut self) -> bool {
        for _ in 0..6 {
            if tokio::time::timeout(Duration::from_millis(2500), self.read()).await.is_err() {
                return true;
            }
        }
        false
    }

    /// Lets the time pass in which a question takes no key, reading meanwhile.
    pub(super) async fn until_guard(&mut self) {
        let until = tokio::time::Instant::now() + Duration::from_millis(super::state::overlay::GUARD_MS + 50);
        while tokio::time::timeout_at(until, self.read()).await.is_ok_and(|more| more) {}
    }

    /// Waits until the loop has ended, reading all it still draws.
    pub(super) async fn end(&mut self) -> Result<String, TuiError> {
        let mut task = self.task.take().unwrap();
        let ended = async {
            loop {
                tokio::select! {
                    ended = &mut task => return ended.unwrap(),
                    more = self.read() => if !more { return (&mut task).await.unwrap() },
                }
            }
        };
        let result = tokio::time::timeout(CAP, ended).await.expect("it ends");
        while tokio::time::timeout(Duration::from_millis(20), self.read()).await.is_ok_and(|more| more) {}
        result
    }
}
