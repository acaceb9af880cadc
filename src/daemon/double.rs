//! A scripted engine for tests: its commands are words of its own.
//!
//! Invariant: it keeps the engine's promises (a log is complete before its result, a result always comes) and nothing more.

use super::service::Service;
use crate::engine::{EngineError, Hold, Running, Waiting, Write, Written};
use crate::model::{
    Answer, BackendInfo, BackendKind, Capabilities, Chunk, EndedBy, Event, Exec, ExecResult, Finding, Health, HostKeyChange, HostKeys,
    Kept, LogRead, LogStart, Outcome, Overview, ProcessInfo, ProcessState, Run, SessionDetail, SessionInfo, Stream, Told, Verdict, Who,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::{broadcast, mpsc, oneshot, watch};

/// The scripted engine. Commands: `say TEXT`, `err TEXT`, `exit N`, `hold`, `cat` (stdin to stdout), `deaf` (has a stdin and
/// does not read it), `shut` (closes its stdin), `flood N` (that many bytes, whose value is their offset), `wrong`.
#[derive(Clone)]
pub(super) struct Double {
    inner: Arc<Inner>,
}

struct Inner {
    processes: Mutex<BTreeMap<String, Arc<Process>>>,
    events: broadcast::Sender<Event>,
    heard: Mutex<Heard>,
    told: watch::Sender<Vec<Told>>,
}

/// What the daemon told the engine.
#[derive(Clone, Default)]
pub(super) struct Heard {
    pub(super) env: Vec<(String, String)>,
    pub(super) watchers: Vec<usize>,
    pub(super) execs: Vec<(Who, Exec)>,
    pub(super) ended: Vec<(String, EndedBy)>,
    pub(super) signals: Vec<(String, i32)>,
    /// By whom, to what, the bytes, and whether they were the last.
    pub(super) sent: Vec<(String, String, Vec<u8>, bool)>,
    pub(super) reloads: usize,
    pub(super) shut_down: bool,
    /// Whether an examination was given up.
    pub(super) given_up: bool,
    /// How far logs were read.
    pub(super) read_to: u64,
}

struct Process {
    info: Mutex<ProcessInfo>,
    log: Mutex<Vec<(Stream, Vec<u8>)>>,
    flood: u64,
    /// Bytes so far, and whether it has ended.
    grown: watch::Sender<(u64, bool)>,
    ending: watch::Sender<Option<EndedBy>>,
}

/// An examination that does not end by itself.
struct Ending(Double);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.hear().given_up = true;
    }
}

impl Double {
    pub(super) fn new() -> Self {
        let inner = Inner {
            processes: Mutex::default(),
            events: broadcast::Sender::new(64),
            heard: Mutex::default(),
            told: watch::Sender::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    pub(super) fn heard(&self) -> Heard {
        self.inner.heard.lock().unwrap().clone()
    }

    pub(super) fn running_now(&self) -> Vec<ProcessInfo> {
        Service::running(self)
    }

    pub(super) fn log_len(&self, id: &str) -> u64 {
        self.find(id).unwrap().grown.borrow().0
    }

    fn hear(&self) -> MutexGuard<'_, Heard> {
        self.inner.heard.lock().unwrap()
    }

    pub(super) fn emit(&self, event: Event) {
        let _nobody = self.inner.events.send(event);
    }

    /// Has a process tell something.
    pub(super) fn tell(&self, told: Told) {
        self.inner.told.send_modify(|all| all.push(told));
    }

    fn find(&self, id: &str) -> Result<Arc<Process>, EngineError> {
        let found = self.inner.processes.lock().unwrap().get(id).cloned();
        found.ok_or_else(|| EngineError::NotFound(format!("no process {id}")))
    }

    fn finish(&self, process: &Process, outcome: Outcome) -> ExecResult {
        let info = {
            let mut info = process.info.lock().unwrap();
            info.state = ProcessState::Ended(outcome.clone());
            info.clone()
        };
        process.grown.send_modify(|(_, ended)| *ended = true);
        self.emit(Event::Process { process: Box::new(info.clone()) });
        let total = process.grown.borrow().0;
        ExecResult {
            process_id: info.id,
            backend: info.backend,
            session: info.session,
            outcome,
            exit_code_meaning: None,
            output: String::new(),
            truncated: false,
            total_bytes: total,
            next_offset: total,
            output_path: None,
            cwd: info.cwd,
            generation: 1,
            duration_ms: 0,
            timeout_ms: None,
            warnings: Vec::new(),
            hints: Vec::new(),
        }
    }

    async fn play(self, process: Arc<Process>, command: String, stdin: Option<mpsc::Receiver<Vec<u8>>>) -> ExecResult {
        let (word, rest) = command.split_once(' ').unwrap_or((&command, ""));
        let mut ending = process.ending.subscribe();
        let script = async {
            match word {
                "say" => process.write(Stream::Out, rest.as_bytes()),
                "err" => process.write(Stream::Err, rest.as_bytes()),
                "exit" => return rest.parse().unwrap(),
                "cat" => {
                    let mut stdin = stdin.unwrap();
                    while let Some(bytes) = stdin.recv().await {
                        process.write(Stream::Out, &bytes);
                    }
                }
                "shut" => {
                    drop(stdin);
                    std::future::pending().await
                }
                "hold" | "deaf" => {
                    let _open = stdin;
                    std::future::pending().await
                }
                "flood" => process.grown.send_modify(|(total, _)| *total = rest.parse().unwrap()),
                other => panic!("no script {other}"),
            }
            0
        };
        let outcome = tokio::select! {
            exit_code = script => Outcome::Exited { exit_code },
            by = ending.wait_for(Option::is_some) => Outcome::Cancelled { ended_by: by.unwrap().unwrap() },
        };
        self.finish(&process, outcome)
    }
}

impl Process {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        self.log.lock().unwrap().push((stream, bytes.to_vec()));
        self.grown.send_modify(|(total, _)| *total += bytes.len() as u64);
    }

    fn chunk(&self, offset: u64, max: u64) -> Chunk {
        let (total, ended) = *self.grown.borrow();
        let len = max.min(total.saturating_sub(offset));
        if self.flood > 0 {
            let bytes = flood(offset, len as usize);
            return Chunk { offset, total, ended, skipped: 0, runs: vec![Run { stream: Stream::Out, len }], bytes };
        }
        let log = self.log.lock().unwrap();
        let tagged: Vec<_> = log.iter().flat_map(|(stream, bytes)| bytes.iter().map(|byte| (*stream, *byte))).collect();
        let part = &tagged[offset.min(total) as usize..][..len as usize];
        let mut runs: Vec<Run> = Vec::new();
        for (stream, _) in part {
            match runs.last_mut() {
                Some(run) if run.stream == *stream => run.len += 1,
                _ => runs.push(Run { stream: *stream, len: 1 }),
            }
        }
        Chunk { offset, total, ended, skipped: 0, runs, bytes: part.iter().map(|(_, byte)| *byte).collect() }
    }
}

/// Gives flood bytes: each is the low byte of its offset.
pub(super) fn flood(offset: u64, len: usize) -> Vec<u8> {
    static PATTERN: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| (0..(1 << 20) + 256).map(|i| i as u8).collect());
    let start = offset as usize % 256;
    match PATTERN.get(start..start + len) {
        Some(bytes) => bytes.to_vec(),
        None => (0..len).map(|i| (offset as usize + i) as u8).collect(),
    }
}

fn session(backend: Option<&str>, name: Option<&str>) -> SessionInfo {
    SessionInfo {
        backend: backend.unwrap_or("local").into(),
        name: name.unwrap_or("main").into(),
        cwd: "/".into(),
        generation: 3,
        running: 0,
    }
}

fn backend(name: &str) -> Result<BackendInfo, EngineError> {
    if name == "away" {
        return Err(EngineError::Unavailable { message: "away: no route".into(), fix: Some("plug it in".into()) });
    }
    Ok(BackendInfo {
        name: name.into(),
        slot: 0,
        kind: BackendKind::Local,
        address: String::new(),
        tags: Vec::new(),
        capabilities: Capabilities::default(),
        health: Health::default(),
        shell: None,
        running: 0,
    })
}

impl Service for Double {
    fn events(&self) -> broadcast::Receiver<Event> {
        self.inner.events.subscribe()
    }

    async fn exec(&self, who: Who, exec: Exec, stdin: Option<mpsc::Receiver<Vec<u8>>>) -> Result<Running, EngineError> {
        if exec.command == "wrong" {
            return Err(EngineError::Usage("that is wrong".into()));
        }
        self.hear().execs.push((who.clone(), exec.clone()));
        let mut processes = self.inner.processes.lock().unwrap();
        let id = format!("p{:03}", processes.len() + 1);
        let info = ProcessInfo {
            id: id.clone(),
            backend: exec.backend.unwrap_or_else(|| "local".into()),
            session: "main".into(),
            command: exec.command.chars().take(4000).collect(),
            who,
            state: ProcessState::Running,
            started: 1,
            ended: None,
            pid: None,
            stray: None,
            timeout_ms: None,
            variables: Vec::new(),
            restarts: 0,
            output_bytes: 0,
            reads_stdin: exec.stdin,
            background: false,
            detached: false,
            notify: false,
            watch: Vec::new(),
            cwd: "/".into(),
            exit_code_meaning: None,
            warnings: Vec::new(),
            hints: Vec::new(),
        };
        let flood = exec.command.strip_prefix("flood ").map_or(0, |n| n.parse().unwrap());
        let process = Arc::new(Process {
            info: Mutex::new(info.clone()),
            log: Mutex::default(),
            flood,
            grown: watch::Sender::new((0, false)),
            ending: watch::Sender::new(None),
        });
        processes.insert(id, process.clone());
        let (sender, result) = oneshot::channel();
        let command = if exec.command.len() > 1000 { "exit 0".into() } else { exec.command };
        let playing = self.clone().play(process, command, stdin);
        tokio::spawn(async move {
            let _caller_gone = sender.send(playing.await);
        });
        Ok(Running { process: info, result, output: Hold::default() })
    }

    async fn end(&self, process: &str, by: EndedBy, _grace: Duration) -> Result<ProcessInfo, EngineError> {
        let found = self.find(process)?;
        self.hear().ended.push((process.into(), by));
        found.ending.send_modify(|ending| *ending = ending.or(Some(by)));
        self.ended(process).await
    }

    async fn signal(&self, process: &str, signal: i32) -> Result<(ProcessInfo, Vec<u32>), EngineError> {
        self.hear().signals.push((process.into(), signal));
        let info = self.process(process)?;
        if info.state.is_ended() {
            return Err(EngineError::Refused(format!("{process} has ended")));
        }
        Ok((info, vec![7, 9]))
    }

    async fn find(&self, _backend: &str, _operator: bool) -> Result<(Vec<ProcessInfo>, Vec<u32>), EngineError> {
        let processes = self.inner.processes.lock().unwrap();
        Ok((processes.values().map(|process| process.info.lock().unwrap().clone()).collect(), vec![7]))
    }

    async fn adopt(&self, _who: &Who, process: &str) -> Result<ProcessInfo, EngineError> {
        self.process(process)
    }

    async fn send(&self, who: &Who, process: &str, write: Write) -> Result<Written, EngineError> {
        let found = self.find(process)?;
        let (total, _) = *found.grown.borrow();
        if write.expect_offset.is_some_and(|offset| offset < total) {
            return Err(EngineError::Outdated { message: "more came".into(), fix: "look".into() });
        }
        self.hear().sent.push((who.name.clone(), process.into(), write.bytes, write.end));
        Ok(Written { process: self.process(process)?, waiting: 3 })
    }

    async fn wants_input(&self, process: &str) -> Result<bool, EngineError> {
        self.ended(process).await.map(|_| false)
    }

    async fn recheck(&self, process: &str) -> Result<ProcessInfo, EngineError> {
        self.find(process).map(|process| process.info.lock().unwrap().clone())
    }

    fn overview(&self) -> Overview {
        let processes = self.inner.processes.lock().unwrap();
        let processes = processes.values().map(|process| process.info.lock().unwrap().clone()).collect();
        Overview { default_backend: "local".into(), processes, ..Overview::default() }
    }

    fn process(&self, process: &str) -> Result<ProcessInfo, EngineError> {
        Ok(self.find(process)?.info.lock().unwrap().clone())
    }

    async fn read(&self, read: LogRead) -> Result<Chunk, EngineError> {
        let process = self.find(&read.process)?;
        let total = process.grown.borrow().0;
        let offset = match read.start {
            LogStart::Offset(offset) => offset,
            LogStart::TailBytes(bytes) => total.saturating_sub(bytes),
            LogStart::TailLines(_) => 0,
        };
        let chunk = process.chunk(offset, read.max);
        let mut heard = self.hear();
        heard.read_to = heard.read_to.max(chunk.offset + chunk.bytes.len() as u64);
        Ok(chunk)
    }

    async fn grown(&self, process: &str, offset: u64) -> Result<(), EngineError> {
        let mut grown = self.find(process)?.grown.subscribe();
        grown.wait_for(|(total, ended)| *total > offset || *ended).await.unwrap();
        Ok(())
    }

    fn hold(&self, process: &str, _offset: u64) -> Result<Hold, EngineError> {
        self.find(process).map(|_| Hold::default())
    }

    async fn kept(&self, process: &str, offset: u64) -> Result<Option<Kept>, EngineError> {
        // A flood has a file in which every second megabyte is.
        const MEGABYTE: u64 = 1_000_000;
        let process = self.find(process)?;
        let end = (offset + 1).next_multiple_of(MEGABYTE).min(process.grown.borrow().0);
        let kept = process.flood > 0 && offset < end && offset / MEGABYTE % 2 == 1;
        Ok(kept.then(|| Kept { offset, runs: vec![Run { stream: Stream::Out, len: end - offset }] }))
    }

    fn log_file(&self, process: &str) -> Result<Option<String>, EngineError> {
        Ok((self.find(process)?.flood > 0).then(|| "/the/log".to_owned()))
    }

    async fn ended(&self, process: &str) -> Result<ProcessInfo, EngineError> {
        let found = self.find(process)?;
        let mut grown = found.grown.subscribe();
        grown.wait_for(|(_, ended)| *ended).await.unwrap();
        self.process(process)
    }

    fn waits(&self, process: &str) -> Result<Waiting, EngineError> {
        self.find(process).map(|_| Waiting::default())
    }

    async fn told(&self, process: &str, after: Option<u64>) -> Result<Told, EngineError> {
        let mut told = self.inner.told.subscribe();
        let next = |all: &[Told]| all.iter().find(|one| one.concerns(process) && one.number > after.unwrap_or(0)).cloned();
        let all = told.wait_for(|all| next(all).is_some()).await.unwrap();
        Ok(next(&all).unwrap())
    }

    async fn connect(&self, name: &str, _operator: bool) -> Result<BackendInfo, EngineError> {
        backend(name)
    }

    fn answer(&self, _id: u64, _answer: Answer) -> Result<(), EngineError> {
        Ok(())
    }

    async fn host_keys(&self, name: &str, _look: bool) -> Result<HostKeys, EngineError> {
        Ok(HostKeys { backend: name.into(), ..HostKeys::default() })
    }

    async fn change_host_keys(&self, name: &str, _change: HostKeyChange, fingerprint: &str) -> Result<HostKeys, EngineError> {
        Ok(HostKeys { backend: name.into(), host: fingerprint.into(), ..HostKeys::default() })
    }

    async fn disconnect(&self, name: &str) -> Result<BackendInfo, EngineError> {
        backend(name)
    }

    async fn session_show(&self, backend: Option<&str>, name: Option<&str>) -> Result<SessionDetail, EngineError> {
        Ok(SessionDetail {
            info: session(backend, name),
            variables: Vec::new(),
            functions: Vec::new(),
            aliases: Vec::new(),
            options: Vec::new(),
            umask: "0022".into(),
        })
    }

    async fn session_reset(&self, backend: Option<&str>, name: Option<&str>) -> Result<SessionInfo, EngineError> {
        Ok(session(backend, name))
    }

    async fn session_close(&self, _backend: Option<&str>, name: Option<&str>) -> Result<SessionInfo, EngineError> {
        Err(EngineError::Refused(format!("{} is busy", name.unwrap_or("main"))))
    }

    async fn complete(&self, backend: &str, session: &str, word: &str, command: bool) -> Result<Vec<String>, EngineError> {
        Ok(vec![format!("{backend} {session} {word} {command}")])
    }

    async fn doctor(&self, backend: &str, tell: mpsc::Sender<Finding>) -> Result<(), EngineError> {
        let finding = |check: &str| Finding { backend: backend.into(), ..Finding::new(check, Verdict::Ok, "f") };
        if backend == "nope" {
            return Err(EngineError::NotFound("no backend \"nope\"".into()));
        }
        tell.send(finding("name")).await.unwrap();
        if backend == "held" {
            let _ended = Ending(self.clone());
            return std::future::pending().await;
        }
        tell.send(finding("port")).await.unwrap();
        Ok(())
    }

    fn set_client_env(&self, env: Vec<(String, String)>) {
        self.hear().env = env;
    }

    fn set_watchers(&self, count: usize) {
        self.hear().watchers.push(count);
    }

    async fn reload(&self, _config: crate::config::Config) -> Result<(), EngineError> {
        self.hear().reloads += 1;
        self.emit(Event::Config);
        Ok(())
    }

    fn running(&self) -> Vec<ProcessInfo> {
        self.overview().processes.into_iter().filter(|process| !process.state.is_ended()).collect()
    }

    async fn shutdown(&self) {
        self.hear().shut_down = true;
        for process in self.running() {
            self.end(&process.id, EndedBy::Daemon, Duration::ZERO).await.unwrap();
        }
    }
}
