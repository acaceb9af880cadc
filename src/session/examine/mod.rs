//! What `qd doctor` looks at once shells can be started on a backend: the shell, the login, the state folder, the ending of
//! processes, the link.
//!
//! Invariant: no session's state is read or changed there, every check is bounded in time, and nothing that a check made or
//! started is left behind.

mod facts;
mod flow;
mod folder;
mod kill;
mod login;

use super::error::SessionError;
use crate::backend::{Backend, ErrorKind, ShellChoice};
use crate::model::{Finding, Verdict};
use facts::Facts;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Limit of one script of a check, beyond the start of its shell.
const LIMIT: Duration = Duration::from_secs(10);

/// What is examined.
pub struct Examination<'a> {
    /// Where shells are started: apart from what others use.
    pub backend: &'a Arc<dyn Backend>,
    /// Which shell its sessions use.
    pub shell: ShellChoice,
    /// Limit of one start.
    pub start: Duration,
    /// PATH as the main session has it, when there is one.
    pub path: Option<Vec<u8>>,
    /// Who hears of it.
    pub tell: &'a mpsc::Sender<Finding>,
}

/// The checks made on a backend, in their order. On the daemon's own machine there is no link to look at.
pub fn checks(same_files: bool) -> &'static [&'static str] {
    const FAR: &[&str] =
        &["shell", "login_shell", "login_environment", "clock", "state_folder", "kill", "round_trip", "limits", "throughput"];
    const HERE: &[&str] = &["shell", "login_shell", "login_environment", "state_folder", "kill", "limits"];
    if same_files { HERE } else { FAR }
}

/// Makes all checks, one after the other, and tells each. When no shell can be started, or the link breaks, the rest is told as
/// skipped. Cancel safe: what a check has started ends by itself.
pub async fn examine(examination: Examination<'_>) {
    let mut checks = checks(examination.backend.about().capabilities.same_files).iter();
    let mut seen = Seen::default();
    while let Some(check) = checks.next() {
        let (finding, stop) = match examination.check(check, &mut seen).await {
            Ok(finding) => (finding, false),
            Err(error) => (failure(check, &error), *check == "shell" || is_over(&error)),
        };
        // Whoever does not listen any more drops the examination.
        let _ = examination.tell.send(finding).await;
        if stop {
            for rest in checks.by_ref() {
                let skipped = Finding::new(rest, Verdict::Skipped, format!("the step `{}` failed", check.replace('_', " ")));
                let _ = examination.tell.send(skipped).await;
            }
        }
    }
}

/// What earlier checks saw.
#[derive(Default)]
struct Seen {
    facts: Option<Facts>,
    /// HOME and XDG_STATE_HOME as a login gives them.
    homes: Option<super::files::Homes>,
}

impl Examination<'_> {
    async fn check(&self, check: &str, seen: &mut Seen) -> Result<Finding, SessionError> {
        if check == "shell" {
            return self.starts().await;
        }
        if seen.facts.is_none() {
            seen.facts = Some(self.facts().await?);
        }
        let Some(facts) = &seen.facts else { return Ok(Finding::new(check, Verdict::Skipped, "nothing is known of the machine")) };
        match check {
            "login_shell" => Ok(facts.login_shell()),
            "login_environment" => {
                let (finding, homes) = self.login_environment(facts).await?;
                seen.homes = homes;
                Ok(finding)
            }
            "clock" => Ok(facts.clock()),
            "state_folder" => self.state_folder(seen.homes.clone().unwrap_or_else(|| facts.homes())).await,
            "kill" => self.kill().await,
            "round_trip" => self.round_trip().await,
            "limits" => Ok(facts.limits()),
            "throughput" => self.throughput().await,
            other => Ok(Finding::new(other, Verdict::Skipped, "there is no such check")),
        }
    }
}

/// Tells of a check that could not be made.
fn failure(check: &str, error: &SessionError) -> Finding {
    let fix = match error {
        SessionError::Backend(error) => error.fix.clone(),
        _ => None,
    };
    Finding { fix, ..Finding::new(check, Verdict::Fail, error.to_string()) }
}

/// Whether nothing more can be asked.
fn is_over(error: &SessionError) -> bool {
    matches!(error, SessionError::Backend(e) if matches!(e.kind, ErrorKind::Lost | ErrorKind::Unreachable))
}

/// A script with its gaps filled in, without its comments.
fn fill(script: &str, gaps: &[(&str, &[u8])]) -> Vec<u8> {
    let lines: Vec<&str> = script.lines().filter(|line| !line.starts_with('#')).collect();
    let mut rest = lines.join("\n") + "\n";
    let mut out = Vec::new();
    while let Some((at, gap, value)) = gaps.iter().filter_map(|(gap, value)| Some((rest.find(gap)?, *gap, *value))).min_by_key(|f| f.0) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        out.extend_from_slice(value);
        rest = rest.split_off(at + gap.len());
    }
    out.extend(rest.into_bytes());
    out
}

/// A time in milliseconds, with a digit behind the point where it is short.
fn time(took: Duration) -> String {
    match took.as_micros() {
        us @ 0..10_000 => format!("{}.{} ms", us / 1000, us % 1000 / 100),
        us => format!("{} ms", us / 1000),
    }
}

#[cfg(test)]
mod tests;
