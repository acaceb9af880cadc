//! What the person's ssh_config says of a host.
//!
//! Invariant: the OpenSSH client is asked where there is one (`ssh -G`), since nobody knows its meaning better; our own reader
//! stands in where there is none, and refuses what it does not understand.

mod client;
mod found;
mod keywords;
mod lines;
mod matching;
mod reader;
mod tokens;
mod value;

#[cfg(test)]
mod table;

use crate::backend::{BackendError, ErrorKind};
use crate::config::SshConfig;
pub(super) use found::{Found, METHODS, Proxy, jump};
use reader::{Asked, Values, Whose};
use std::path::{Path, PathBuf};
pub(super) use tokens::{Facts, OF_PROXIES};

const MACHINES: &str = "/etc/ssh/ssh_config";

/// Who and where we are, as far as ssh_config is concerned.
#[derive(Clone, Debug)]
pub(super) struct Here {
    /// The account's name here.
    pub(super) name: String,
    /// The home folder in force: `HOME`, else the account's.
    pub(super) home: PathBuf,
    /// The account's own home folder, which is OpenSSH's idea of `~`.
    pub(super) own_home: PathBuf,
    /// The variables that differ from this process's: the operator's client's.
    pub(super) variables: Vec<(String, String)>,
}

impl Here {
    /// A variable of the operator's client, else of this process.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let given = self.variables.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        given.or_else(|| std::env::var(name).ok())
    }
}

/// A question.
#[derive(Clone, Debug)]
pub(super) struct Question<'a> {
    /// The host as the person wrote it.
    pub(super) host: &'a str,
    /// The account and port that hold whatever the files say.
    pub(super) user: Option<&'a str>,
    pub(super) port: Option<u16>,
    /// The same for the hosts to jump over.
    pub(super) jump: Option<&'a str>,
    /// Which files.
    pub(super) file: &'a SshConfig,
}

/// Looks up what the files say now. `client` is the OpenSSH client to ask, if it is there. Cancel safe: a client that is given up
/// is ended and waited for.
pub(super) async fn look_up(client: &Path, question: &Question<'_>, here: &Here) -> Result<Found, BackendError> {
    let files = files(question.file, here);
    if !any(&files).await {
        return Ok(Found::default());
    }
    let refused = |why: String| {
        BackendError::new(ErrorKind::Config, format!("the ssh_config does not tell how to reach {}: {why}", question.host))
            .with_fix("see to that, or set `ssh_config: none` for the backend and give what it needs in its own keys")
    };
    let values = match client::ask(client, question, here, &files).await? {
        Some(values) => values,
        None => {
            let (question, here) = (Owned::of(question), here.clone());
            let read = tokio::task::spawn_blocking(move || own(&question, &here, &files)).await;
            let read = read.map_err(|e| BackendError::new(ErrorKind::Internal, format!("reading the ssh_config: {e}")))?;
            read.map_err(refused)?
        }
    };
    Found::new(&values, &here.own_home).map_err(refused)
}

/// Whether there is anything to read. A file that the person named is, even when it is not there: that is a mistake to tell.
async fn any(files: &[(PathBuf, Whose)]) -> bool {
    for (file, whose) in files {
        if *whose == Whose::Named || tokio::fs::try_exists(file).await.unwrap_or(true) {
            return true;
        }
    }
    false
}

/// The files in their order.
fn files(file: &SshConfig, here: &Here) -> Vec<(PathBuf, Whose)> {
    match file {
        SshConfig::Nothing => Vec::new(),
        SshConfig::File(path) => vec![(path.clone(), Whose::Named)],
        SshConfig::Usual => {
            let own = (here.home.join(".ssh/config"), Whose::Persons);
            // With another home than the account's, OpenSSH can only be given the one file.
            if here.home == here.own_home { vec![own, (MACHINES.into(), Whose::Machines)] } else { vec![own] }
        }
    }
}

struct Owned {
    host: String,
    user: Option<String>,
    port: Option<u16>,
    jump: Option<String>,
}

impl Owned {
    fn of(question: &Question<'_>) -> Self {
        Self {
            host: question.host.to_owned(),
            user: question.user.map(str::to_owned),
            port: question.port,
            jump: question.jump.map(str::to_owned),
        }
    }
}

/// Reads the files without OpenSSH; what `ssh -G` would have expanded is expanded.
fn own(question: &Owned, here: &Here, files: &[(PathBuf, Whose)]) -> Result<Values, String> {
    let asked = Asked {
        host: &question.host,
        user: question.user.as_deref(),
        port: question.port,
        jump: question.jump.as_deref(),
        local_user: &here.name,
        home: &here.home,
    };
    let mut values = reader::read(&asked, files)?;
    let one = |name: &str| values.get(name).and_then(|v| v.first()).cloned();
    let facts = Facts {
        host: one("hostname").unwrap_or_default(),
        original: question.host.clone(),
        port: one("port").and_then(|port| port.parse().ok()).unwrap_or(22),
        user: one("user").unwrap_or_else(|| here.name.clone()),
        alias: one("hostkeyalias"),
        jump: one("proxyjump").filter(|jump| jump != "none").unwrap_or_default(),
        home: here.home.clone(),
        local_user: here.name.clone(),
    };
    let expand = |text: &String| facts.file(text, |name| here.variable(name)).map(|path| path.display().to_string());
    for name in ["userknownhostsfile", "identityagent"] {
        let Some(texts) = values.get_mut(name) else { continue };
        for text in texts {
            let plain = ["none", "SSH_AUTH_SOCK"].contains(&text.as_str()) || (text.starts_with('$') && !text.starts_with("${"));
            if !plain {
                *text = expand(text)?;
            }
        }
    }
    Ok(values)
}
