//! Any place that a command can start a shell on: `kubectl exec -i POD --`, `docker exec -i NAME`, `ssh NAME`, `sudo -u USER`.
//!
//! Invariant: the configured words are run as they are, with `sh` behind them and nothing else: what is to be done goes over its
//! stdin, so no command, no variable and no quoting is ever in an argument list.

use super::local::ClientEnv;
use super::local::program::Program;
use super::tended::{Opened, Tended, Way};
use super::{About, Ask, Backend, BackendError, ErrorKind, Family, Guard, Members, Reached, Shell, Start};
use crate::config::{BackendSettings, CommandSettings};
use crate::model::{BackendKind, Capabilities};
use futures::FutureExt;
use futures::future::BoxFuture;

/// A place that a command leads to.
pub struct Command(Tended<Words>);

impl Command {
    /// Makes the backend that the settings describe. Does not connect. `client_env` is the environment that the command is run with;
    /// `guard` ends it when this process is killed.
    pub fn new(settings: &BackendSettings, command: &CommandSettings, client_env: ClientEnv, guard: Guard) -> Self {
        let capabilities = Capabilities { pty: false, separate_streams: true, verified_kill: true, same_files: command.same_files };
        let way = Words { words: command.words.clone(), client_env, guard };
        Self(Tended::new(settings, BackendKind::Command, capabilities, way))
    }
}

impl Backend for Command {
    fn about(&self) -> &About {
        self.0.about()
    }

    fn check(&self) -> BoxFuture<'_, Result<Reached, BackendError>> {
        self.0.check()
    }

    fn start(&self, start: Start) -> BoxFuture<'_, Result<Shell, BackendError>> {
        self.0.start(start)
    }

    fn family(&self, family: Family, ask: Ask) -> BoxFuture<'_, Result<Members, BackendError>> {
        self.0.family(family, ask)
    }

    fn is_secondhand(&self) -> bool {
        self.0.is_secondhand()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.close()
    }
}

/// The words that lead there.
struct Words {
    words: Vec<String>,
    client_env: ClientEnv,
    guard: Guard,
}

impl Way for Words {
    /// The environment is that of the place either way: a shell that is to have none drops it.
    fn open(&self, _login: bool) -> BoxFuture<'_, Result<Opened, BackendError>> {
        async move {
            let words: Vec<String> = self.words.iter().cloned().chain(["sh".to_owned()]).collect();
            let Program { stdin, stdout, stderr, exit, cut } = Program::start(&words, &self.client_env, &self.guard).await?;
            Ok(Opened { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr: Box::new(stderr), exit, cut })
        }
        .boxed()
    }

    fn explain(&self, code: i32, said: &str) -> Option<BackendError> {
        let said = words_of(said);
        if said.is_empty() {
            return None;
        }
        let place = self.address();
        let asks = ["password is required", "a terminal is required", "Permission denied", "Host key verification failed"];
        if asks.iter().any(|words| said.contains(words)) {
            return Some(
                BackendError::new(ErrorKind::Authentication, format!("`{place}` was refused: {said}"))
                    .with_fix("nobody can be asked there: make the command work without a question (a key in the agent, a sudo rule)"),
            );
        }
        let kind = if code == 127 { ErrorKind::NoShell } else { ErrorKind::Unreachable };
        Some(
            BackendError::new(kind, format!("`{place} sh` ended with code {code}: {said}"))
                .with_fix("try the same in a terminal: `echo echo it works | COMMAND sh`"),
        )
    }

    fn address(&self) -> String {
        self.words.iter().map(|word| shown(word)).collect::<Vec<_>>().join(" ")
    }
}

/// A word for a person: quoted where it would read as several.
fn shown(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "@%+=:,./_-".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.escape_debug()) }
}

/// The last words of what a program said, in one line.
fn words_of(said: &str) -> String {
    const MOST: usize = 200;
    let clean: String = said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    let skip = line.chars().count().saturating_sub(MOST);
    line.chars().skip(skip).collect()
}
