//! Who is calling, and with which connection.
//!
//! Invariant: a caller that names itself, by flag or by environment, is an agent; nothing else makes one here.

use super::args::Global;
use super::failure::Failure;
use crate::client::{Client, ClientError, Connect};
use crate::paths::{Paths, Vars};
use std::env;
use std::path::PathBuf;

/// Connects, starting a daemon when there is none.
pub(crate) async fn connect(global: &Global, agent: Option<String>) -> Result<Client, Failure> {
    Ok(Client::connect(&how(global, agent, true)?).await?)
}

/// Connects to a daemon that runs, or that has to look after what another left in the background; with `ended` also when that
/// has ended, and is only remembered. None when there is neither.
pub(crate) async fn find(global: &Global, ended: bool) -> Result<Option<Client>, Failure> {
    find_when(global, |left| left.runs || ended && !left.ended.is_empty()).await
}

/// Connects for a command about processes, which makes no sense without a daemon that knows them.
pub(crate) async fn need(global: &Global, ids: &[String]) -> Result<Client, Failure> {
    let is_meant = |id: &String| ids.iter().any(|named| id.starts_with(named.as_str()));
    let found = find_when(global, |left| left.runs || left.ended.iter().any(is_meant)).await?;
    found.ok_or_else(|| Failure::Refused(format!("no daemon is running, so no command is known: {}", ids.join(", "))))
}

async fn find_when(global: &Global, wanted: impl FnOnce(Left) -> bool) -> Result<Option<Client>, Failure> {
    match Client::connect(&quiet(global)?).await {
        Ok(client) => Ok(Some(client)),
        // What the last daemon had in the background is known to the next one.
        Err(ClientError::NoDaemon) if wanted(left_in_background()) => connect(global, agent(None)).await.map(Some),
        Err(ClientError::NoDaemon) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What a daemon that is gone left in the background.
#[derive(Default)]
struct Left {
    /// Whether something may run.
    runs: bool,
    /// The ids of what has ended.
    ended: Vec<String>,
}

/// Looks what a daemon left. What cannot be read is left to the next daemon to tell.
fn left_in_background() -> Left {
    let Ok(paths) = Paths::resolve(&Vars::current()) else { return Left::default() };
    let text = std::fs::read(paths.background_file()).unwrap_or_default();
    let file: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let list = |name: &str| file[name].as_array().cloned().unwrap_or_default();
    let ended = list("ended").iter().filter_map(|one| one["row"]["id"].as_str().map(str::to_owned)).collect();
    let strays = std::fs::read(paths.strays_file()).ok().and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    let strays = strays.is_some_and(|file| file["strays"].as_array().is_some_and(|list| !list.is_empty()));
    Left { runs: strays || !list("processes").is_empty(), ended }
}

/// Gives a way to a daemon that runs; none is started.
pub(crate) fn quiet(global: &Global) -> Result<Connect, Failure> {
    how(global, agent(None), false)
}

/// Gives the agent's name: the flag, else QD_CLIENT, else AI_AGENT; empty ones do not count.
pub(crate) fn agent(flag: Option<&str>) -> Option<String> {
    first_name([flag.map(str::to_owned), var("QD_CLIENT"), var("AI_AGENT")])
}

/// Gives the session's name: the flag, else QD_SESSION; none means the daemon's default.
pub(crate) fn session(flag: Option<&str>) -> Option<String> {
    match flag {
        Some(name) => Some(name.to_owned()),
        None => first_name([var("QD_SESSION")]),
    }
}

/// Gives the config file that was named, as a path that holds for the daemon too.
pub(crate) fn config(global: &Global) -> Result<Option<PathBuf>, Failure> {
    let Some(named) = &global.config else { return Ok(None) };
    if named.as_os_str().is_empty() {
        return Err(Failure::usage("--config names no file"));
    }
    let whole = std::path::absolute(named).map_err(|e| Failure::Internal(format!("failed to find the present directory: {e}")))?;
    Ok(Some(whole))
}

fn how(global: &Global, agent: Option<String>, start: bool) -> Result<Connect, Failure> {
    Ok(Connect { config: config(global)?, kind: "cli".into(), agent, start })
}

fn var(name: &str) -> Option<String> {
    env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn first_name<const N: usize>(candidates: [Option<String>; N]) -> Option<String> {
    candidates.into_iter().flatten().find(|name| !name.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_that_says_something_counts() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(first_name([some("a"), some("b"), None]), some("a"));
        assert_eq!(first_name([None, some(""), some("b")]), some("b"));
        assert_eq!(first_name([some("  "), None, None]), None);
    }

    #[test]
    fn a_named_config_is_made_whole() {
        let global = Global { config: Some("x/y.yaml".into()), ..Global::default() };
        let whole = config(&global).unwrap().unwrap();
        assert!(whole.is_absolute() && whole.ends_with("x/y.yaml"), "{whole:?}");
        let global = Global { config: Some("".into()), ..Global::default() };
        assert_eq!(config(&global).unwrap_err().exit_code(), 64);
    }
}
