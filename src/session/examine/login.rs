//! What a login gives: its variables, and how its PATH stands to the one of the main session.
//!
//! Invariant: of variables only PATH is shown.

use super::super::error::SessionError;
use super::super::files::{self, Homes};
use super::super::handle::Session;
use super::super::open::{NO_SHELLS, ask};
use super::super::state::show;
use super::facts::Facts;
use super::{Examination, LIMIT, time};
use crate::model::{Finding, Verdict};
use crate::shell::capture::Ask;
use crate::shell::state::{self, scalar};
use crate::shell::wrap_sh;
use std::time::Instant;

/// Folders of a PATH that are named; the rest is counted.
const NAMED: usize = 5;

impl Examination<'_> {
    /// Captures what a login gives, as a new session does.
    pub(super) async fn login_environment(&self, facts: &Facts) -> Result<(Finding, Option<Homes>), SessionError> {
        const CHECK: &str = "login_environment";
        let shell = facts.text("shell").unwrap_or_default();
        let program = shell.rsplit('/').next().unwrap_or_default();
        let whom = match program {
            "bash" => Ask::Bash(&shell),
            none if NO_SHELLS.contains(&none) => Ask::Bash("bash"),
            _ => Ask::Account,
        };
        let began = Instant::now();
        let captured = match ask(self.backend, self.shell, self.start, whom, LIMIT).await {
            Ok((captured, _)) => captured,
            Err(error) if super::is_over(&error) => return Err(error),
            Err(error) => {
                let finding = Finding::new(CHECK, Verdict::Warn, format!("{error}: sessions begin without what start files set")).with_fix(
                    "let the start files of the login shell go through without a terminal: no `exec`, no `exit`, no `read` there",
                );
                return Ok((finding, None));
            }
        };
        let took = began.elapsed();
        let value = |name: &str| scalar(&captured.variables, name);
        let homes = Homes { home: value("HOME"), state: value("XDG_STATE_HOME") };
        let path = value("PATH").unwrap_or_default();
        let fact = format!("{} variables after {}; PATH has {}", captured.variables.len(), time(took), folders(&split(&path)));
        let finding = match self.path.as_ref().map(|session| compare(&path, session)) {
            None => Finding::new(CHECK, Verdict::Ok, fact),
            Some((missing, more)) if missing.is_empty() => {
                let more = if more.is_empty() { "the same".to_owned() } else { format!("that and {}", folders(&more)) };
                Finding::new(CHECK, Verdict::Ok, format!("{fact}; session main has {more}"))
            }
            Some((missing, _)) => {
                Finding::new(CHECK, Verdict::Warn, format!("{fact}; session main lacks {}", folders(&missing))).with_fix(format!(
                    "a session keeps the environment of its first login: `qd session reset -b {}` takes it anew",
                    self.backend.about().name
                ))
            }
        };
        Ok((finding, Some(homes)))
    }
}

impl Session {
    /// Gives PATH as the copy of its snapshot on the daemon's side has it, and asks nothing of the backend; none when there is no
    /// copy. Cancel safe.
    pub async fn kept_path(&self) -> Option<Vec<u8>> {
        let (copy, is_bash) = {
            let state = self.state();
            (state.copy?, state.kind == "bash")
        };
        let own = self.own.clone();
        let texts = files::blocking(move || own.load_copy(copy)).await.ok()?;
        if is_bash {
            scalar(&state::variables(&texts.variables)?, "PATH")
        } else {
            wrap_sh::scalar(&wrap_sh::variables(&texts.variables)?, "PATH")
        }
    }
}

fn split(path: &[u8]) -> Vec<String> {
    path.split(|b| *b == b':').map(show).collect()
}

/// What the login's PATH has and the session's lacks, and the other way round.
fn compare(login: &[u8], session: &[u8]) -> (Vec<String>, Vec<String>) {
    let (login, session) = (split(login), split(session));
    let without = |all: &[String], other: &[String]| all.iter().filter(|dir| !other.contains(dir)).cloned().collect();
    (without(&login, &session), without(&session, &login))
}

/// Names folders, the first few.
fn folders(list: &[String]) -> String {
    let named: Vec<&str> = list.iter().take(NAMED).map(String::as_str).collect();
    let more = if list.len() > NAMED { format!(" and {} more", list.len() - NAMED) } else { String::new() };
    format!("{}{more}", named.join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_by_folder() {
        let texts = |list: &[&str]| list.iter().map(|dir| (*dir).to_owned()).collect::<Vec<_>>();
        assert_eq!(compare(b"/a:/b", b"/b:/a"), (vec![], vec![]));
        assert_eq!(compare(b"/a:/b:/c", b"/x:/b"), (texts(&["/a", "/c"]), texts(&["/x"])));
        assert_eq!(folders(&split(b"/1:/2:/3:/4:/5:/6:/7")), "/1:/2:/3:/4:/5 and 2 more");
    }
}
