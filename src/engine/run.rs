//! One command from its acceptance to its result.
//!
//! Invariant: it runs at most once, on the one backend that was named; its result is told exactly once, whatever happens.

use super::hints;
use super::place::{Place, unreachable};
use super::shared::Shared;
use super::stray::Left;
use super::table::new_id;
use super::{Core, EngineError, Running};
use crate::backend::BackendError;
use crate::model::{EndedBy, Event, Exec, ExecResult, Millis, Outcome, ProcessInfo, ProcessState, Warning, WarningCode, Who, WhoKind};
use crate::session::{Command, Ended, Input, Session, Stdin, Stop, collect, exit_code_meaning, log::Log, log::Reader};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// Characters of a command's text that a row shows.
const SHOWN_TEXT: usize = 4_000;
/// Longest text of a command, in bytes: far above what people write, far below what a frame may hold.
const LONGEST_TEXT: usize = 1024 * 1024;
/// Wishes about one command that may wait.
const STOPS: usize = 8;
/// Output events of one process come at most this often.
const OUTPUT_EVENT_EVERY: Duration = Duration::from_millis(8);

/// Checks a request and fills in what the config says: the deadline of the command, or why it is refused.
fn deadline(core: &Core, place: &Place, who: &Who, exec: &Exec) -> Result<Option<Duration>, EngineError> {
    if exec.command.len() > LONGEST_TEXT {
        let message = format!(
            "the command is {} bytes long, above the limit of {LONGEST_TEXT}; put it into a file on {} and run that, or send the data through stdin",
            exec.command.len(),
            place.settings.name
        );
        return Err(EngineError::Usage(message));
    }
    if exec.command.contains('\0') {
        return Err(EngineError::Usage("the command holds a NUL byte, which no shell can read; send binary data through stdin".into()));
    }
    if let Some((name, _)) = exec.env.iter().find(|(name, value)| !is_name(name) || value.contains('\0')) {
        return Err(EngineError::Usage(format!("{name:?} cannot be set: wanted a name of letters, digits and _ and a value without NUL")));
    }
    if exec.workdir.as_deref().is_some_and(|dir| dir.is_empty() || dir.contains('\0')) {
        return Err(EngineError::Usage("the directory is empty or holds a NUL byte".into()));
    }
    if exec.timeout_ms == Some(0) {
        return Err(EngineError::Usage("a time-out of zero would end the command before it starts".into()));
    }
    if exec.background && exec.yield_ms.is_some() {
        return Err(EngineError::Usage("a background process has nothing to yield".into()));
    }
    super::watch::patterns(&exec.watch)?;
    if exec.stdin_open && (exec.stdin || !exec.background) {
        let text =
            "only a background process without another stdin can have it left open; a foreground one gets an open stdin with its caller's";
        return Err(EngineError::Usage(text.into()));
    }
    let given = exec.timeout_ms.map(Duration::from_millis);
    if exec.background {
        return Ok(given);
    }
    if who.kind != WhoKind::Agent {
        return Ok(given);
    }
    let longest = core.max_foreground();
    match given {
        Some(wanted) if wanted > longest => Err(EngineError::Usage(format!(
            "a time-out of {} s is above the limit of {} s for an agent's foreground command (max_foreground)",
            wanted.as_secs(),
            longest.as_secs()
        ))),
        Some(wanted) => Ok(Some(wanted)),
        None => Ok(Some(place.settings.timeout)),
    }
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Accepts a command and starts it.
pub(crate) async fn start(core: &Arc<Core>, who: Who, exec: Exec, stdin: Option<mpsc::Receiver<Vec<u8>>>) -> Result<Running, EngineError> {
    let place = core.place(exec.backend.as_deref())?;
    let (exec, restarts) = core.repeated(exec, &place.settings.name)?;
    let timeout = deadline(core, &place, &who, &exec)?;
    let name = exec.session.clone().unwrap_or_else(|| super::MAIN_SESSION.to_owned());
    let session = place.session(&name, &core.shared, exec.client_cwd.as_deref()).await?;
    let info = ProcessInfo {
        id: core.fresh_id(),
        backend: place.settings.name.clone(),
        session: name,
        command: exec.command.chars().take(SHOWN_TEXT).collect(),
        who,
        state: ProcessState::Starting,
        started: core.shared.clock.now(),
        ended: None,
        pid: None,
        stray: None,
        timeout_ms: exec.timeout_ms,
        variables: exec.env.iter().map(|(name, _)| name.clone()).collect(),
        restarts,
        output_bytes: 0,
        reads_stdin: exec.stdin || exec.stdin_open,
        background: exec.background,
        detached: exec.background,
        notify: exec.notify,
        watch: exec.watch.clone(),
        cwd: session.info().cwd,
        exit_code_meaning: None,
        warnings: Vec::new(),
        hints: Vec::new(),
    };
    let log = Log::create(core.shared.paths.logs().join(format!("{}.log", info.id)), core.limits().log_bytes);
    let (stops, stops_in) = mpsc::channel(STOPS);
    let (ended_tell, ended) = watch::channel(false);
    core.add(info.clone(), log.clone(), stops, ended)?;
    if !exec.env.is_empty()
        && let Some(entry) = core.state().table.get_mut(&info.id)
    {
        entry.env.clone_from(&exec.env);
    }
    core.look_through(&info.id, 0);
    let stdin = stdin.map(|caller| {
        // That of a background process is brought there before it starts, to its end.
        if exec.background {
            return Input::from(caller);
        }
        let (input, typing) = Input::shared(caller);
        core.open_stdin(&info.id, typing);
        input
    });
    let output = log.hold(Reader::Caller, 0);
    let (tell, result) = oneshot::channel();
    let one = One { core: core.clone(), place: place.clone(), session, info: info.clone(), log, exec, timeout };
    let mut run: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = match one.exec.background {
        true => Box::pin(one.run_background(stdin, stops_in, tell, ended_tell)),
        false => Box::pin(one.run(stdin, stops_in, tell, ended_tell)),
    };
    let first = place.count(true) == 1;
    // Begun here: where a shell waits it has its command before the caller is told that it was accepted, and no other thread
    // must wake up first.
    if futures::poll!(run.as_mut()).is_pending() {
        tokio::spawn(run);
    }
    if first {
        core.use_changed(&place);
    }
    Ok(Running { process: info, result, output })
}

/// One command under way.
pub(super) struct One {
    pub(super) core: Arc<Core>,
    pub(super) place: Arc<Place>,
    pub(super) session: Arc<Session>,
    pub(super) info: ProcessInfo,
    pub(super) log: Arc<Log>,
    exec: Exec,
    timeout: Option<Duration>,
}

impl One {
    async fn run(
        self,
        stdin: Option<Input>,
        mut stops: mpsc::Receiver<Stop>,
        tell: oneshot::Sender<ExecResult>,
        ended_tell: watch::Sender<bool>,
    ) {
        let began = std::time::Instant::now();
        let span = tracing::debug_span!("command", id = %self.info.id, backend = %self.info.backend, session = %self.info.session);
        let running = async {
            match self.reach(&mut stops).await {
                Ok(()) => {
                    tracing::debug!(parent: &span, waited_us = began.elapsed().as_micros() as u64, "backend ready");
                    self.place.make_room(&self.info.session);
                    self.run_in_session(stdin, stops).await
                }
                Err(outcome) => self.not_run(outcome, began.elapsed()),
            }
        };
        let mut tell = Some(tell);
        let mut ended = {
            tokio::pin!(running);
            let output = tell_output(&self.core.shared, &self.info.id, &self.log);
            tokio::pin!(output);
            let mut patience = self.exec.yield_ms.map(|ms| Box::pin(tokio::time::sleep(Duration::from_millis(ms))));
            loop {
                tokio::select! {
                    biased;
                    ended = &mut running => break ended,
                    never = &mut output => match never {},
                    () = over(patience.as_mut()) => {
                        patience = None;
                        if let Some(tell) = tell.take() {
                            // The caller may have gone: then the command is being ended.
                            let _ = tell.send(self.yielded(began.elapsed()).await);
                        }
                    }
                }
            }
        };
        self.log.finish();
        if !self.exec.watch.is_empty() {
            self.core.looked_through(&self.info.id).await;
        }
        let after = ended.after();
        if let Some((family, pids)) = ended.left.take() {
            // Its row as it began to run: with its directory.
            let info = self.core.row_with_log(&self.info.id).map_or_else(|| self.info.clone(), |(info, _)| info);
            self.core.name_left(Left::of(&info, family, pids, self.log.clone()), &mut ended.warnings);
        }
        let result = self.result(ended).await;
        tracing::debug!(parent: &span, outcome = result.outcome.word(), total_us = began.elapsed().as_micros() as u64, bytes = result.total_bytes, "ended");
        self.core.finish(&self.place, &self.info.id, &result);
        if self.exec.yield_ms.is_some() {
            self.core.checkpoint_of(&self.info.id).await;
        }
        ended_tell.send_replace(true);
        // The caller may have gone; the row and the log hold the result.
        if let Some(tell) = tell {
            let _ = tell.send(result);
        }
        self.core.tell_end(&self.info.id);
        // The result goes out first: what follows wakes threads and starts a program.
        tokio::task::yield_now().await;
        self.session.after(&after);
        self.place.has_ended(&self.info.session);
        self.core.shared.tell(Event::Session { session: self.session.info() });
        self.core.after_end(&self.place);
    }

    /// Makes it a background process, and the answer for its caller. Its pipes and its session stay this daemon's.
    async fn yielded(&self, duration: Duration) -> ExecResult {
        {
            let mut state = self.core.state();
            if let Some(entry) = state.table.get_mut(&self.info.id) {
                entry.info.background = true;
                self.core.shared.tell(Event::Process { process: Box::new(entry.shown()) });
            }
        }
        self.result(self.not_run(Outcome::Running, duration)).await
    }

    /// Waits until the backend is there, or somebody wants the command to end.
    pub(super) async fn reach(&self, stops: &mut mpsc::Receiver<Stop>) -> Result<(), Outcome> {
        let connection = &self.place.connection;
        // An agent's command never repeats an attempt that a person has to put right: keys would be locked out.
        if self.info.who.kind != WhoKind::Operator && connection.needs_person() {
            let health = connection.health().borrow().clone();
            let why = health.reason.unwrap_or_else(|| "it needs a person".into());
            let fix = health.fix.unwrap_or_else(|| format!("an operator runs `qd backends connect {}`", self.info.backend));
            return Err(Outcome::BackendUnavailable { reason: format!("{} is down: {why}; {fix}", self.info.backend) });
        }
        let what = format!("run {}", self.info.command.lines().next().unwrap_or_default());
        let ready = self.place.reach((self.info.who.kind == WhoKind::Operator).then_some(what.as_str()), false);
        tokio::pin!(ready);
        loop {
            tokio::select! {
                done = &mut ready => return done.map_err(|e| self.refused(&e)),
                stop = stops.recv() => match stop {
                    Some(Stop::End { by, .. }) => return Err(Outcome::Cancelled { ended_by: by }),
                    // Whoever asked hears that nothing runs that could get it.
                    Some(Stop::Signal { .. }) => {}
                    None => return Err(Outcome::Cancelled { ended_by: EndedBy::Daemon }),
                },
            }
        }
    }

    fn refused(&self, error: &BackendError) -> Outcome {
        let fix = error.fix.as_ref().map_or_else(String::new, |fix| format!("; {fix}"));
        let reason = format!("{}: {}{fix}", self.info.backend, error.message);
        if unreachable(error.kind) { Outcome::BackendUnavailable { reason } } else { Outcome::SpawnFailed { reason } }
    }

    async fn run_in_session(&self, stdin: Option<Input>, stops: mpsc::Receiver<Stop>) -> Ended {
        let command = self.command(stdin);
        let (core, id, place) = (self.core.clone(), self.info.id.clone(), self.place.clone());
        let started = move |pid: u32, cwd: String| core.begin(&place, &id, pid, cwd);
        self.session.run(command, self.log.clone(), started, stops).await
    }

    /// What the session is to run.
    pub(super) fn command(&self, stdin: Option<Input>) -> Command {
        let agent = (self.info.who.kind == WhoKind::Agent).then(|| self.info.who.name.clone());
        Command {
            id: self.info.id.clone(),
            text: self.exec.command.clone(),
            workdir: self.exec.workdir.clone(),
            env: self.exec.env.clone(),
            split: self.exec.split,
            timeout: self.timeout,
            stdin,
            agent,
        }
    }

    /// What the stdin of a background process is.
    pub(super) fn stdin_kind(&self, brought: bool) -> Stdin {
        match (brought, self.exec.stdin_open) {
            (true, _) => Stdin::Brought,
            (false, true) => Stdin::Open,
            (false, false) => Stdin::Empty,
        }
    }

    pub(super) fn not_run(&self, outcome: Outcome, duration: Duration) -> Ended {
        let info = self.session.info();
        let (cwd, generation) = (info.cwd, info.generation);
        Ended { outcome, cwd, generation, no_directory: false, duration, warnings: Vec::new(), ran: false, left: None }
    }

    pub(super) async fn result(&self, ended: Ended) -> ExecResult {
        let max = self.exec.max_output_bytes.unwrap_or_else(|| self.core.limits().max_output_bytes);
        let mut warnings = ended.warnings;
        let text = collect::text(&self.log, max).await.unwrap_or_else(|error| {
            warnings.push(Warning::new(WarningCode::OutputLost, format!("the log of the output cannot be read: {error}")));
            let total = self.log.total();
            collect::Text { total, next_offset: total, truncated: total > 0, ..collect::Text::default() }
        });
        warnings.extend(self.core.take_lost_warning(&self.info.backend, &self.info.session));
        if max > 0 && text.had_binary {
            warnings
                .push(Warning::new(WarningCode::BinaryOutput, "the output holds NUL or other binary bytes; the log has them as they were"));
        }
        if max > 0 && text.had_invalid {
            warnings.push(Warning::new(
                WarningCode::EncodingReplaced,
                "bytes that are not UTF-8 are shown as U+FFFD; the log has them as they were",
            ));
        }
        if let Some((bytes, why)) = self.log.lost() {
            warnings.push(Warning::new(WarningCode::OutputLost, format!("{bytes} bytes of the output are not in the log: {why}")));
        }
        let meaning = match &ended.outcome {
            Outcome::Exited { .. } if ended.no_directory => Some("the directory cannot be entered; nothing ran".to_owned()),
            Outcome::Exited { exit_code } => exit_code_meaning(&self.exec.command, *exit_code),
            _ => None,
        };
        let hints = hints::of(&ended.outcome, ended.no_directory, &self.exec.command, &text.text);
        // The file is named in the result, so it is whole by then.
        if text.total > 0 {
            self.log.flush().await;
        }
        self.log.told();
        ExecResult {
            process_id: self.info.id.clone(),
            backend: self.info.backend.clone(),
            session: self.info.session.clone(),
            outcome: ended.outcome,
            exit_code_meaning: meaning,
            output: text.text,
            truncated: text.truncated,
            total_bytes: text.total,
            next_offset: text.next_offset,
            output_path: (text.total > 0).then(|| self.log.path().display().to_string()),
            cwd: ended.cwd,
            generation: ended.generation,
            duration_ms: ended.duration.as_millis() as u64,
            timeout_ms: self.timeout.map(|t| t.as_millis() as u64),
            warnings,
            hints,
        }
    }
}

/// Waits for a time to be over; for ever without one.
async fn over(time: Option<&mut std::pin::Pin<Box<tokio::time::Sleep>>>) {
    match time {
        Some(time) => time.await,
        None => std::future::pending().await,
    }
}

/// Tells watchers that a log has grown, at a bounded rate. Reads nothing.
async fn tell_output(shared: &Shared, process: &str, log: &Log) -> Infallible {
    let mut told = 0;
    loop {
        log.grown(told).await;
        told = log.total();
        shared.tell(Event::Output { process: process.to_owned(), total: told });
        tokio::time::sleep(OUTPUT_EVENT_EVERY).await;
    }
}

impl Core {
    /// Gives an id that no row and no kept log has.
    pub(crate) fn fresh_id(&self) -> String {
        loop {
            let id = new_id();
            let state = self.state();
            if !state.table.has(&id) && !state.retention.has(&id) {
                return id;
            }
        }
    }

    /// Marks a command as begun.
    pub(crate) fn begin(&self, place: &Place, id: &str, pid: u32, cwd: String) {
        let mut state = self.state();
        if let Some(entry) = state.table.get_mut(id) {
            entry.begin(pid, cwd, self.shared.clock.now());
            self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
        }
        drop(state);
        tracing::trace!(backend = %place.settings.name, id, pid, "begun");
        self.changed.notify_one();
    }

    /// Writes a command's end into its row and tells it.
    pub(crate) fn finish(&self, place: &Arc<Place>, id: &str, result: &ExecResult) {
        let now: Millis = self.shared.clock.now();
        let mut state = self.state();
        if let Some(entry) = state.table.get_mut(id) {
            entry.info.state = ProcessState::Ended(result.outcome.clone());
            entry.info.ended = Some(now);
            entry.info.exit_code_meaning.clone_from(&result.exit_code_meaning);
            entry.info.warnings.clone_from(&result.warnings);
            entry.info.hints.clone_from(&result.hints);
            self.date_log(id, entry.info.started);
            self.shared.tell(Event::Process { process: Box::new(entry.shown()) });
        }
        if matches!(result.outcome, Outcome::TransportLost { .. }) {
            self.lost_on(&mut state, place, id);
        }
        self.trim(&mut state);
    }

    /// What follows once a command's result was told: the backend is used less, the journal and whoever waits for idleness.
    pub(super) fn after_end(&self, place: &Arc<Place>) {
        if place.count(false) == 0 {
            self.use_changed(place);
        }
        self.changed.notify_one();
        self.idle.notify_waiters();
    }
}
