//! Bringing a session up: the login environment is captured once, and a snapshot that got lost is sent again.
//!
//! Invariant: a slow, noisy or broken start file is met here, once, and told; it never hangs a command.

use super::errand::{Answer, Errand, is_away};
use super::error::SessionError;
use super::files::{self, Homes};
use super::handle::Session;
use super::own::Texts;
use super::place::listed;
use super::state::{Snapshot, show};
use crate::backend::{Backend, Environment, ShellChoice};
use crate::model::WarningCode;
use crate::shell::capture::{self, Ask, Captured};
use crate::shell::state::{self, Statements};
use crate::shell::{functions, wrap_sh};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Shells of accounts that are not meant for logins: there is nothing to ask them.
pub(super) const NO_SHELLS: [&str; 4] = ["", "nologin", "false", "true"];
/// Limit of the last resort, which runs no start file.
const PLAIN_LIMIT: Duration = Duration::from_secs(10);

impl Session {
    /// Gives the snapshot to start from, captured when there is none yet. Cancel safe: the capture goes on for the next one
    /// who asks.
    pub(super) async fn ready(self: &Arc<Self>) -> Result<Arc<Snapshot>, SessionError> {
        if let Some(snapshot) = self.usable() {
            return Ok(snapshot);
        }
        let session = self.clone();
        super::joined(tokio::spawn(async move {
            let _held = session.opening.lock().await;
            if let Some(snapshot) = session.usable() {
                return Ok(snapshot);
            }
            let lost = session.state().snapshot.clone();
            match lost {
                // Nothing is writable there: the texts are in the copy on our side.
                Some(snapshot) => session.recover(&snapshot).await,
                None => session.capture().await,
            }
        }))
        .await
    }

    /// The snapshot, unless there is none or its texts are not here.
    fn usable(&self) -> Option<Arc<Snapshot>> {
        self.state().snapshot.clone().filter(|s| s.carried.as_ref().is_none_or(|texts| !texts.variables.is_empty()))
    }

    /// Sends a snapshot again that is gone from the backend. What our copy does not hold is lost, and told. The caller holds
    /// `opening`.
    async fn recover(self: &Arc<Self>, lost: &Arc<Snapshot>) -> Result<Arc<Snapshot>, SessionError> {
        if let Some(now) = self.usable().filter(|now| !Arc::ptr_eq(now, lost)) {
            return Ok(now);
        }
        let copy = self.state().copy;
        let texts = match copy {
            Some(generation) => {
                let own = self.own.clone();
                files::blocking(move || own.load_copy(generation)).await.ok()
            }
            None => None,
        };
        let Some(texts) = texts else {
            self.state()
                .say(WarningCode::StateLost, "the session's files are gone and there was no copy: the login environment was taken anew");
            return self.capture().await;
        };
        let snapshot = self.seed(texts, lost.options.clone()).await?;
        let missing = lost.generation.saturating_sub(copy.unwrap_or(0));
        if missing > 0 {
            let text = format!("the session's files are gone: it goes on from a copy without the changes of its last {missing} commands");
            self.state().say(WarningCode::StateLost, text);
        }
        Ok(snapshot)
    }

    /// Sends a lost snapshot again; see [`Session::recover`]. Cancel safe: it goes on.
    pub(super) async fn resend(self: &Arc<Self>, lost: Arc<Snapshot>) -> Result<Arc<Snapshot>, SessionError> {
        let session = self.clone();
        super::joined(tokio::spawn(async move {
            let _held = session.opening.lock().await;
            session.recover(&lost).await
        }))
        .await
    }

    /// Captures the login environment anew, whatever there is. Cancel safe: it goes on.
    pub(super) async fn capture_again(self: &Arc<Self>) -> Result<(), SessionError> {
        self.cool();
        let session = self.clone();
        super::joined(tokio::spawn(async move {
            let _held = session.opening.lock().await;
            session.capture().await.map(|_| ())
        }))
        .await
    }

    /// Captures the login environment and makes the session's first snapshot of it. The caller holds `opening`.
    pub(super) async fn capture(self: &Arc<Self>) -> Result<Arc<Snapshot>, SessionError> {
        let (mut captured, answer) = self.login().await?;
        let directory = self.first_directory(&captured.variables);
        let secrets = take_secrets(&mut captured.variables, &self.place.settings.secret_names);
        let agent_set = captured.variables.contains_key(b"AI_AGENT".as_slice());
        self.complete(&mut captured.variables);
        {
            let mut state = self.state();
            state.kind = answer.ready.kind.clone();
            state.boot_id = answer.ready.boot_id.clone();
            state.base = captured.base.clone();
            state.agent_set = agent_set;
            state.secrets = Some(secrets);
            state.cwd = directory;
            state.oldpwd = None;
        }
        let texts = if answer.ready.kind == "bash" {
            Texts {
                variables: state::write_variables(&captured.variables),
                functions: functions::write(&captured.functions, &super::random_hex(8)),
            }
        } else {
            Texts {
                variables: wrap_sh::first_variables(&captured.variables),
                functions: functions::write(&Statements::new(), &super::random_hex(8)),
            }
        };
        self.seed(texts, captured.options).await
    }

    /// Puts a snapshot's texts where the backend finds them and makes it the session's.
    async fn seed(self: &Arc<Self>, texts: Texts, options: crate::shell::options::Options) -> Result<Arc<Snapshot>, SessionError> {
        let id = super::random_hex(6);
        let written = [(format!("{id}.v"), texts.variables.clone()), (format!("{id}.f"), texts.functions.clone())];
        let homes = homes(&self.state().kind, &texts);
        let folder = files::settle(&self.place, homes, &written).await?;
        let carried = folder.is_none().then_some(texts);
        if folder.is_none() {
            tracing::warn!(backend = self.place.backend_name(), "no folder there is writable: the state travels with every command");
        }
        let snapshot = {
            let mut state = self.state();
            state.folder = folder;
            // The earlier ones are gone, or belong to another folder.
            state.past.clear();
            state.snapshot = None;
            state.adopt(Snapshot { id, options, carried, ..Snapshot::default() });
            state.snapshot.clone().unwrap_or_default()
        };
        self.keep();
        Ok(snapshot)
    }

    /// Asks the login shell, then bash as a login shell, then nobody. Also gives the answer of the last one asked.
    async fn login(&self) -> Result<(Captured, Answer), SessionError> {
        let deadline = Instant::now() + self.place.settings.capture_timeout;
        let (plain, answer) = self.ask(Ask::Plain, PLAIN_LIMIT).await?;
        if answer.ready.kind != "bash" {
            return match self.ask(Ask::Account, self.place.settings.capture_timeout).await {
                Ok(got) => Ok(got),
                Err(error) if is_away(&error) => Err(error),
                Err(error) => Ok((self.warned(&error, "its start files were not run", plain), answer)),
            };
        }
        let left = || deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
        let program = plain.shell.rsplit('/').next().unwrap_or_default().to_owned();
        let bash = if program == "bash" { plain.shell.as_str() } else { "bash" };
        if program == "bash" || NO_SHELLS.contains(&program.as_str()) {
            return match self.ask(Ask::Bash(bash), left()).await {
                Ok(got) => Ok(got),
                Err(error) if is_away(&error) => Err(error),
                Err(error) => Ok((self.warned(&error, "its start files were not run", plain), answer)),
            };
        }
        let account = match self.ask(Ask::Account, left()).await {
            Ok((account, _)) => Some(account),
            Err(error) if is_away(&error) => return Err(error),
            Err(error) => {
                let text = format!("{program} as a login shell gave no environment ({error}); bash's is used");
                self.state().say(WarningCode::SnapshotFailed, text);
                None
            }
        };
        let functions = match self.ask(Ask::Bash("bash"), left()).await {
            Ok((got, _)) => got,
            Err(error) if is_away(&error) => return Err(error),
            Err(error) => self.warned(&error, "functions and aliases are missing", plain),
        };
        let variables = match account {
            Some(account) => {
                let mut variables = capture::plain_variables();
                variables.extend(account.variables);
                variables
            }
            None => functions.variables.clone(),
        };
        Ok((Captured { variables, ..functions }, answer))
    }

    fn warned(&self, error: &SessionError, what: &str, instead: Captured) -> Captured {
        let text = format!("the login environment could not be captured ({error}): {what}; `qd session reset` tries again");
        self.state().say(WarningCode::SnapshotFailed, text);
        instead
    }

    /// Asks one shell.
    async fn ask(&self, whom: Ask<'_>, limit: Duration) -> Result<(Captured, Answer), SessionError> {
        let settings = &self.place.settings;
        ask(&self.place.backend, settings.shell, settings.start_timeout, whom, limit).await
    }

    /// The variables that every session of ours has.
    fn complete(&self, variables: &mut Statements) {
        let settings = &self.place.settings;
        let mut set = |name: &str, value: &str| variables.insert(name.as_bytes().to_vec(), capture::exported(name, value.as_bytes()));
        set("QUARTERDECK", "1");
        set("QD_BACKEND", self.place.backend_name());
        set("QD_SESSION", &self.place.name);
        // Of two daemons on one account each knows its own processes by it.
        set("QD_DAEMON", &settings.daemon_id);
        set("SHLVL", "1");
        for (name, value) in settings.env.iter().filter(|(name, _)| crate::shell::wrap::is_name(name)) {
            set(name, value);
        }
        // Programs that would wait for a person's key.
        for (name, value) in [("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")] {
            variables.entry(name.as_bytes().to_vec()).or_insert_with(|| capture::exported(name, value.as_bytes()));
        }
        for name in settings.forwarded.keys().chain([&crate::shell::wrap::COOKIE.to_owned()]) {
            variables.remove(name.as_bytes());
        }
    }

    /// The directory that a new session begins in.
    fn first_directory(&self, variables: &Statements) -> Vec<u8> {
        let settings = &self.place.settings;
        let home = state::scalar(variables, "HOME").filter(|h| h.starts_with(b"/")).unwrap_or_else(|| b"/".to_vec());
        match settings.cwd.as_str() {
            "." => settings.client_cwd.as_ref().filter(|c| c.starts_with('/')).map_or(home, |c| c.clone().into_bytes()),
            cwd if cwd.starts_with('/') => cwd.as_bytes().to_vec(),
            cwd => match cwd.strip_prefix("~/") {
                Some(below) if !below.is_empty() => [home.as_slice(), b"/", below.as_bytes()].concat(),
                _ => home,
            },
        }
    }

    /// The secrets of the login, for an operator's command: captured again when the daemon was restarted since.
    pub(super) async fn secrets(&self) -> Vec<(String, String)> {
        if self.place.settings.secret_names.is_empty() {
            return Vec::new();
        }
        if let Some(known) = self.state().secrets.clone() {
            return known;
        }
        let secrets = match self.login().await {
            Ok((mut captured, _)) => take_secrets(&mut captured.variables, &self.place.settings.secret_names),
            Err(error) if is_away(&error) => return Vec::new(),
            Err(error) => {
                tracing::warn!(%error, session = self.place.name, "the secrets of the login are not known");
                Vec::new()
            }
        };
        self.state().secrets = Some(secrets.clone());
        secrets
    }
}

/// Asks one shell for the environment that it gives at a login. Not cancel safe: see [`Errand::run`].
pub(super) async fn ask(
    backend: &Arc<dyn Backend>,
    shell: ShellChoice,
    start: Duration,
    whom: Ask<'_>,
    limit: Duration,
) -> Result<(Captured, Answer), SessionError> {
    let errand = Errand { backend, shell, environment: Environment::Login, start, limit, what: "capture the login environment" };
    let mut asked = String::new();
    let answer = errand
        .run(|ready, nonce, id| {
            asked = nonce.to_owned();
            if ready.kind == "bash" { capture::script(whom, nonce, id) } else { wrap_sh::capture_script(whom == Ask::Account, nonce, id) }
        })
        .await?;
    let read =
        if answer.ready.kind == "bash" { capture::read(whom, &answer.stdout, &asked) } else { wrap_sh::captured(&answer.stdout, &asked) };
    match read {
        Some(captured) => Ok((captured, answer)),
        None => Err(errand.failed("a start file ended it, or replaced the shell by another program".to_owned())),
    }
}

/// Where folders may be made, as the variables say.
fn homes(kind: &str, texts: &Texts) -> Homes {
    let value = |name: &str| {
        if kind == "bash" {
            state::scalar(&state::variables(&texts.variables)?, name)
        } else {
            wrap_sh::scalar(&wrap_sh::variables(&texts.variables)?, name)
        }
    };
    Homes { home: value("HOME"), state: value("XDG_STATE_HOME") }
}

/// Takes the variables of the secret list out.
fn take_secrets(variables: &mut Statements, names: &[String]) -> Vec<(String, String)> {
    let mut out = Vec::new();
    variables.retain(|name, statement| {
        let name = show(name);
        let secret = listed(names, &name);
        if secret && let Some(value) = state::plain(state::value_of(statement)) {
            out.push((name, show(&value)));
        }
        !secret
    });
    out
}
