//! One command, from the shell that is got for it to its result.
//!
//! Invariant: a command runs at most once. Only a shell that says that it has not read its command is replaced.

use super::adopt::Left;
use super::drive::{Drive, Why};
use super::error::SessionError;
use super::feed::Feed;
use super::handle::Session;
use super::log::Log;
use super::own::Texts;
use super::prepare::Prepared;
use super::settle;
use super::state::{Snapshot, show};
use super::until::{until_ended, until_exit};
use super::{After, Command, Ended, Stop};
use crate::backend::{ErrorKind, Exit, Family};
use crate::model::{EndedBy, Outcome, Warning, WarningCode};
use crate::shell::options::Options;
use crate::shell::record::{self, End, Record};
use crate::shell::wrap::{self, Directory, Second};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Shells that may say that they have not read their command before we give up: one for a lost snapshot, one for a snapshot
/// that must be loaded late, and one more of each when both come in turn.
const ATTEMPTS: usize = 4;

/// Called once, when the command is sent: its shell's pid and its directory.
type Started<'a> = Option<Box<dyn FnOnce(u32, String) + Send + 'a>>;

/// Variables of the login that are given per command.
type Secrets = Vec<(String, String)>;

/// How one attempt ended.
enum Attempt {
    /// The command ran.
    Ran(Box<Ran>),
    /// It was not begun, for this reason.
    NotRun(String),
    /// It was not read, and cannot be sent again: so much of its stdin was taken for the shell that did not read it.
    StdinGone,
}

/// What is known when a command is complete.
struct Ran {
    exit: Option<Exit>,
    why: Option<Why>,
    records: Vec<Record>,
    leave: String,
    nonce: String,
    base: Arc<Snapshot>,
    took: Duration,
    warnings: Vec<Warning>,
    left: Option<(Family, Vec<u32>)>,
}

impl Session {
    /// Runs one command. The future must be driven to its end by its owner: dropped, the command runs on unwatched.
    /// `started` is called when the command is sent. The log is not finished here. Output that children left behind write
    /// later is still appended to it.
    pub async fn run(
        self: &Arc<Self>,
        mut command: Command,
        log: Arc<Log>,
        started: impl FnOnce(u32, String) + Send,
        mut stops: mpsc::Receiver<Stop>,
    ) -> Ended {
        let _running = Running::new(self);
        let mut feed = Feed::new(command.stdin.take());
        let mut started: Started<'_> = Some(Box::new(started));
        let mut base = None;
        for _ in 0..ATTEMPTS {
            let got = tokio::select! {
                biased;
                by = wish(&mut stops) => return self.nothing(Outcome::Cancelled { ended_by: by }),
                got = self.shell(&command, base.take()) => got,
                () = patience(command.timeout) => return self.nothing(self.no_room(command.timeout)),
            };
            let (prepared, secrets) = match got {
                Ok(got) => got,
                Err(error) => return self.nothing(not_started(error)),
            };
            if let Some(now) = self.other_kind(&prepared) {
                self.state().say(WarningCode::StateLost, now);
                if let Err(error) = self.capture_again().await {
                    return self.nothing(not_started(error));
                }
                continue;
            }
            let snapshot = prepared.base.clone();
            match self.attempt((prepared, secrets), &command, &log, &mut started, &mut stops, &mut feed).await {
                Attempt::Ran(ran) => return self.finish(*ran, &command).await,
                Attempt::StdinGone => {
                    let reason = "the session's files were gone, and its stdin had been read before that was known: run it again";
                    return self.nothing(Outcome::SpawnFailed { reason: reason.to_owned() });
                }
                Attempt::NotRun(reason) if reason == "late" => self.state().load_late(&snapshot),
                Attempt::NotRun(reason) if reason == "nosnap" => base = Some(snapshot),
                Attempt::NotRun(reason) => {
                    if let Some(name) = reason.strip_prefix("readonly ") {
                        return self.nothing(read_only(name));
                    }
                }
            }
        }
        let name = self.place.backend_name();
        let reason = format!("the session's snapshot cannot be loaded on {name}: `qd session reset` makes a new one");
        self.nothing(Outcome::SpawnFailed { reason })
    }

    /// The outcome of a command whose own time went by before there was a shell for it. What hinders a start is noticed sooner
    /// than that by whoever hinders it; what has no end of its own is the wait for room.
    fn no_room(&self, waited: Option<Duration>) -> Outcome {
        let (name, secs) = (self.place.backend_name(), waited.unwrap_or_default().as_secs_f32());
        let reason = format!("{name} had no room for another command within {secs} s (`qd ps` lists what runs there)");
        Outcome::BackendUnavailable { reason }
    }

    /// Says when the shell cannot read the snapshot: bash came or went on the backend.
    fn other_kind(&self, prepared: &Prepared) -> Option<String> {
        let state = self.state();
        let now = &prepared.shell.ready.kind;
        (state.kind != *now).then(|| format!("the session's state was {}'s, and the backend now starts {now}: it begins anew", state.kind))
    }

    /// Gets the secrets that the command is given, and a shell: the warm one, or a new one. `lost` is a snapshot that a shell
    /// could not find. The shell comes last: one that holds the only room of a backend must not wait for another.
    async fn shell(self: &Arc<Self>, command: &Command, lost: Option<Arc<Snapshot>>) -> Result<(Prepared, Secrets), SessionError> {
        let snapshot = match lost {
            Some(lost) => self.resend(lost).await?,
            None => self.ready().await?,
        };
        let secrets = if command.agent.is_none() { self.secrets().await } else { Vec::new() };
        let shim = wrap::needs_shim(&command.text);
        if !shim && let Some(prepared) = self.take_warm(&snapshot).await {
            return Ok((prepared, secrets));
        }
        let prepared = self.prepare(snapshot, super::random_hex(6), shim, None).await?;
        Ok((prepared, secrets))
    }

    /// Sends the command to a shell and waits until it is complete.
    async fn attempt(
        self: &Arc<Self>,
        (prepared, secrets): (Prepared, Vec<(String, String)>),
        command: &Command,
        log: &Arc<Log>,
        started: &mut Started<'_>,
        stops: &mut mpsc::Receiver<Stop>,
        feed: &mut Feed,
    ) -> Attempt {
        self.note_boot(&prepared);
        let (script, directory) = self.script(&prepared, command, feed.has_stdin(), &secrets);
        if !feed.load(script) {
            return Attempt::StdinGone;
        }
        if let Some(started) = started.take() {
            started(prepared.shell.ready.pid, directory);
        }
        let began = Instant::now();
        let (leave, nonce, base) = (prepared.leave.clone(), prepared.nonce.clone(), prepared.base.clone());
        let backend = self.place.backend.clone();
        let mut drive = Drive::new(prepared, backend, command, log.clone(), feed, stops);
        let mut warnings = Vec::new();
        let exit = until_exit(&mut drive, &mut warnings).await;
        let lost = matches!(exit, Some(Exit::Lost(_)));
        let left = if lost { Vec::new() } else { settle::settle(&mut drive, self.place.same_files()).await };
        let took = began.elapsed();
        if drive.is_ending() {
            until_ended(&mut drive, &mut warnings).await;
        }
        let (records, broken) = {
            let mut seen = drive.watch.seen();
            (std::mem::take(&mut seen.records), seen.broken.take())
        };
        // With a lost link the outcome says it; otherwise a stream that broke off is output that is missing.
        if let Some(why) = broken.filter(|_| !lost) {
            warnings.push(Warning::new(WarningCode::OutputLost, format!("output is missing: {why}")));
        }
        if let Some(reason) = not_run(&records) {
            self.state().litter.push(leave);
            return Attempt::NotRun(reason);
        }
        let why = drive.why;
        if let Some(reading) = drive.reading.take().filter(|_| !lost) {
            // Whoever holds the streams goes on writing to the log.
            tokio::spawn(reading);
        }
        warnings.extend(settle::orphans(left));
        let mut alive: Vec<u32> = warnings.iter().flat_map(|warning| warning.pids.iter().copied()).collect();
        alive.sort_unstable();
        alive.dedup();
        let left = (!alive.is_empty()).then(|| (drive.family.clone(), alive));
        Attempt::Ran(Box::new(Ran { exit, why, records, leave, nonce, base, took, warnings, left }))
    }

    /// Makes what is sent to the shell, and the directory that it starts in, for show.
    fn script(&self, prepared: &Prepared, command: &Command, stdin: bool, secrets: &[(String, String)]) -> (Vec<u8>, String) {
        self.with_second(command, stdin, secrets, |second| {
            // The options were set by the first stage.
            self.with_first(prepared, &Options::default(), |first| {
                if prepared.is_bash() { wrap::second(first, second) } else { crate::shell::wrap_sh::script(first, second) }
            })
        })
    }

    /// Gives what comes with a command, and the directory that it starts in, for show.
    pub(super) fn with_second<T>(
        &self,
        command: &Command,
        stdin: bool,
        secrets: &[(String, String)],
        use_it: impl FnOnce(&Second<'_>) -> T,
    ) -> (T, String) {
        let (cwd, oldpwd, agent_set) = {
            let state = self.state();
            (state.cwd.clone(), state.oldpwd.clone(), state.agent_set)
        };
        let own = command.workdir.as_ref().map(|dir| resolve(&cwd, dir));
        let mut exports: Vec<(&str, &str)> = Vec::with_capacity(4);
        exports.extend(secrets.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        exports.extend(self.place.settings.forwarded.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        let given: Vec<(&str, &str)> = command.env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        exports.push((wrap::COOKIE, &command.id));
        let agent = command.agent.as_deref().filter(|_| !agent_set).map(|name| ("AI_AGENT", name));
        let second = Second {
            directory: own.as_deref().map_or(Directory::Session(&cwd), Directory::Own),
            oldpwd: oldpwd.as_deref(),
            exports: &exports,
            given: &given,
            defaults: agent.as_slice(),
            stdin,
            input: None,
            output: None,
            split: command.split,
            text: command.text.as_bytes(),
        };
        (use_it(&second), show(own.as_deref().unwrap_or(&cwd)))
    }

    /// Notices that the backend was started anew.
    fn note_boot(&self, prepared: &Prepared) {
        let now = &prepared.shell.ready.boot_id;
        let mut state = self.state();
        if state.boot_id != *now {
            if !state.boot_id.is_empty() && state.boot_id != "-" && now != "-" {
                let text = format!("{} was started anew: processes that ran there are gone", self.place.backend_name());
                state.say(WarningCode::EnvironmentRecreated, text);
            }
            state.boot_id.clone_from(now);
        }
    }

    /// Takes over the state and makes the result.
    async fn finish(self: &Arc<Self>, ran: Ran, command: &Command) -> Ended {
        let mut warnings = ran.warnings;
        let mut end = ran.records.iter().find_map(|r| if let Record::End(end) = r { Some(end.clone()) } else { None });
        if end.is_none()
            && let Some(Exit::Code(_)) = ran.exit
        {
            end = self.record_file(&ran.leave, &ran.nonce).await;
        }
        let refused = ran.records.iter().any(|r| matches!(r, Record::NoDirectory(_)));
        if let Some(dir) = ran.records.iter().find_map(|r| if let Record::Fallback(dir) = r { Some(dir) } else { None }) {
            let gone = std::mem::replace(&mut self.state().cwd, dir.clone());
            let text = format!("the session's directory {} is gone: the command ran in {}", show(&gone), show(dir));
            warnings.push(Warning::new(WarningCode::CwdFallback, text));
        }
        let told = end.is_none() && self.place.backend.is_secondhand();
        let exit = if told { ran.exit.map(Exit::firsthand) } else { ran.exit };
        let outcome = outcome(exit, ran.why, end.as_ref());
        match end {
            Some(end) => {
                let own_directory = ran.records.iter().find_map(|r| if let Record::Started(dir) = r { Some(dir.clone()) } else { None });
                let own_names = command.env.iter().map(|(name, _)| name.clone()).collect();
                let carried = carried(ran.records);
                let left = Left { end, leave: ran.leave, carried, base: ran.base, own_directory, own_names };
                self.adopt(left, &mut warnings).await;
            }
            None => {
                self.state().litter.push(ran.leave);
                if !refused && !matches!(outcome, Outcome::TransportLost { .. }) {
                    let text = "the shell ended without a last word (exec, a kill): changes to the session by this command were not kept";
                    warnings.push(Warning::new(WarningCode::StateNotSaved, text));
                }
            }
        }
        Ended { no_directory: refused, ran: true, left: ran.left, ..self.ended(outcome, ran.took, warnings) }
    }

    /// What follows a command's result: the next shell, and the session's own file. Called by the owner of the run once it has
    /// told the result, which this would hold up. Must be called on a runtime.
    pub fn after(self: &Arc<Self>, ended: &After) {
        if !ended.ran {
            return;
        }
        self.keep();
        if !ended.lost {
            self.prewarm();
        }
    }

    /// Reads the record of a shell that could only leave it in a file. Near that costs nothing; far it costs a shell, and
    /// only sh and old versions of bash do it.
    async fn record_file(&self, leave: &str, nonce: &str) -> Option<End> {
        let (folder, old) = {
            let state = self.state();
            (state.folder.clone()?, state.kind != "bash")
        };
        if !(self.place.same_files() || old) {
            return None;
        }
        let found = super::files::read(&self.place, &folder, &[format!("{leave}.r")]).await.ok()?;
        record::from_file(found.first()?.as_deref()?, nonce)
    }

    /// The result of a command that was not started.
    fn nothing(&self, outcome: Outcome) -> Ended {
        self.ended(outcome, Duration::ZERO, Vec::new())
    }

    fn ended(&self, outcome: Outcome, duration: Duration, mut warnings: Vec<Warning>) -> Ended {
        let mut state = self.state();
        warnings.append(&mut state.pending);
        Ended {
            outcome,
            cwd: show(&state.cwd),
            generation: state.generation,
            no_directory: false,
            duration,
            warnings,
            ran: false,
            left: None,
        }
    }
}

fn not_run(records: &[Record]) -> Option<String> {
    records.iter().find_map(|r| if let Record::NotRun(reason) = r { Some(reason.clone()) } else { None })
}

fn carried(records: Vec<Record>) -> Option<Texts> {
    let (mut variables, mut functions) = (None, None);
    for record in records {
        match record {
            Record::Variables(text) => variables = Some(text),
            Record::Functions(text) => functions = Some(text),
            _ => {}
        }
    }
    Some(Texts { variables: variables?, functions: functions? })
}

/// How the command ended, from how its shell ended and why.
fn outcome(exit: Option<Exit>, why: Option<Why>, end: Option<&End>) -> Outcome {
    match (exit, why) {
        (Some(Exit::Lost(error)), _) => Outcome::TransportLost { reason: error.to_string() },
        (_, Some(Why::Deadline)) => Outcome::TimedOut,
        (_, Some(Why::Wish(ended_by))) => Outcome::Cancelled { ended_by },
        (Some(Exit::Code(exit_code)), None) => Outcome::Exited { exit_code },
        (Some(Exit::Signal(signal)), None) => Outcome::Signaled { signal },
        // Without an end of ours the shell's end was waited for: only its record can be missing an exit.
        (None, None) => Outcome::Exited { exit_code: end.map_or(-1, |e| e.code) },
    }
}

/// The outcome of a command that was to have a variable of its own which the session has read-only.
fn read_only(name: &str) -> Outcome {
    let reason =
        format!("{name} is read-only in this session and cannot be set for one command: nothing ran (`qd session reset` undoes it)");
    Outcome::SpawnFailed { reason }
}

/// Gives the outcome of a command that could not be started.
pub fn not_started(error: SessionError) -> Outcome {
    match error {
        SessionError::Backend(error) => {
            let reason = match &error.fix {
                Some(fix) => format!("{error} ({fix})"),
                None => error.to_string(),
            };
            match error.kind {
                ErrorKind::NoShell | ErrorKind::Internal => Outcome::SpawnFailed { reason },
                _ => Outcome::BackendUnavailable { reason },
            }
        }
        SessionError::Silent { .. } => Outcome::BackendUnavailable { reason: error.to_string() },
        SessionError::Own { ref source, .. } => Outcome::SpawnFailed { reason: format!("{error}: {source}") },
        error => Outcome::SpawnFailed { reason: error.to_string() },
    }
}

/// Waits for the wish to end the command; nothing else can be done for one that has not started.
async fn wish(stops: &mut mpsc::Receiver<Stop>) -> EndedBy {
    loop {
        match stops.recv().await {
            Some(Stop::End { by, .. }) => return by,
            // Whoever asked hears that nothing runs that could get it.
            Some(Stop::Signal { .. }) => {}
            None => std::future::pending().await,
        }
    }
}

/// Waits as long as the command may take; for ever when it has no such time.
async fn patience(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// A directory for one command: absolute, from home, or below the session's.
fn resolve(cwd: &[u8], dir: &str) -> Vec<u8> {
    let own = dir.starts_with('/') || dir == "~" || dir.starts_with("~/");
    if own { dir.as_bytes().to_vec() } else { [cwd, b"/", dir.as_bytes()].concat() }
}

/// Counts a command while it runs.
struct Running<'a>(&'a Session);

impl<'a> Running<'a> {
    fn new(session: &'a Session) -> Self {
        session.state().running += 1;
        Self(session)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state().running -= 1;
    }
}
