//! The first words of a connection: who the client is, and whether the daemon serves it.
//!
//! Invariant: every version reads the hello and the refusal of every other one: fields are only added, each with a default.

use super::{PROTOCOL_MAX, PROTOCOL_MIN};
use serde::{Deserialize, Serialize};

/// What a client says first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    /// The oldest protocol that it speaks.
    pub protocol_min: u32,
    /// The newest protocol that it speaks.
    pub protocol_max: u32,
    /// Its version.
    pub version: String,
    /// What kind of front end: `tui`, `cli`.
    pub kind: String,
    /// The declared name of an agent; none for a person.
    pub agent: Option<String>,
    /// Whether it has a controlling terminal.
    pub terminal: bool,
    /// Its directory.
    pub cwd: Option<String>,
    /// The config file that it named, absolute; none when it takes whatever is in force.
    pub config: Option<String>,
    /// Its process id, for what is said to a person; the socket's own word decides.
    pub pid: u32,
}

impl Hello {
    /// Tells whether a person is calling: the TUI, or a command line with a controlling terminal that names no agent.
    pub fn is_operator(&self) -> bool {
        self.agent.is_none() && (self.kind == "tui" || self.terminal)
    }
}

/// The daemon's answer when it serves the client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Welcome {
    /// The protocol that is spoken from here on.
    pub protocol: u32,
    /// The daemon's version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// The config file in force; none when there is none.
    pub config: Option<String>,
    /// The variables that an operator's client is asked for, by name; `*` at the end matches any rest.
    pub client_env: Vec<String>,
}

/// The daemon's answer when it does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Why, for the client.
    #[serde(default)]
    pub reason: Reason,
    /// Why and what to do, for the person.
    #[serde(default)]
    pub message: String,
}

/// Why a client is not served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No common protocol.
    Protocol,
    /// Another config than the one that the client named.
    Config,
    /// The peer is another account.
    Peer,
    /// The daemon is ending; another may be started once it is gone.
    Stopping,
    /// Anything else; also what a later version may say.
    #[default]
    #[serde(other)]
    Other,
}

/// The variables that an operator's client hands over.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientEnv {
    /// Names and values.
    pub variables: Vec<(String, String)>,
}

/// Values may be secrets: only the names are shown.
impl std::fmt::Debug for ClientEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.variables.iter().map(|(name, _)| name)).finish()
    }
}

/// Gives the newest protocol that both ranges hold.
pub fn common(theirs: (u32, u32)) -> Option<u32> {
    newest_of((PROTOCOL_MIN, PROTOCOL_MAX), theirs)
}

fn newest_of(ours: (u32, u32), theirs: (u32, u32)) -> Option<u32> {
    let newest = ours.1.min(theirs.1);
    (newest >= ours.0.max(theirs.0)).then_some(newest)
}

/// Tells whether a variable's name matches one of the patterns.
pub fn wanted(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_protocol_is_taken() {
        for (ours, theirs, expected) in [
            ((1, 1), (1, 1), Some(1)),
            ((1, 3), (2, 5), Some(3)),
            ((2, 5), (1, 3), Some(3)),
            ((1, 4), (2, 3), Some(3)),
            ((1, 1), (2, 2), None),
            ((3, 4), (1, 2), None),
            ((1, 1), (0, 0), None),
        ] {
            assert_eq!(newest_of(ours, theirs), expected, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn a_star_matches_any_rest() {
        let patterns = ["LC_*".to_owned(), "LANG".to_owned()];
        for (name, expected) in [("LC_ALL", true), ("LC_", true), ("LANG", true), ("LANGUAGE", false), ("XLC_ALL", false)] {
            assert_eq!(wanted(&patterns, name), expected, "{name}");
        }
    }

    #[test]
    fn a_reason_of_a_later_version_is_still_a_refusal() {
        let refused: Refused = serde_json::from_str(r#"{"reason":"full_moon","message":"wait","more":1}"#).unwrap();
        assert_eq!(refused, Refused { reason: Reason::Other, message: "wait".into() });
    }

    #[test]
    fn values_of_variables_are_not_shown() {
        let env = ClientEnv { variables: vec![("MODAL_TOKEN_SECRET".into(), "hunter2".into())] };
        let shown = format!("{env:?}");
        assert!(shown.contains("MODAL_TOKEN_SECRET") && !shown.contains("hunter2"), "{shown}");
    }
}
