//! What one small script tells of a machine: its shells, its clock, its limits.
//!
//! Invariant: what the machine does not say is not made up.

use super::super::errand::Errand;
use super::super::error::SessionError;
use super::super::files::Homes;
use super::super::state::show;
use super::{Examination, LIMIT, fill, time};
use crate::backend::{Environment, Start};
use crate::model::{Finding, Verdict};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SCRIPT: &str = include_str!("../../../assets/examine-facts.sh");
/// A shell that takes longer than this to be ready is worth a word: each first command waits for it.
const SLOW: Duration = Duration::from_secs(2);
/// Clocks that differ by less than this do no harm.
const SKEW: f64 = 2.0;
/// Fewer open files, or processes, than this are soon used up.
const FEW_FILES: u64 = 256;
const FEW_PROCESSES: u64 = 64;

/// What was told.
pub(super) struct Facts {
    values: BTreeMap<String, Vec<u8>>,
    /// Seconds since the epoch on this machine, before and after.
    between: (f64, f64),
}

impl Examination<'_> {
    /// Starts a shell, which ends when it is let go of.
    pub(super) async fn starts(&self) -> Result<Finding, SessionError> {
        let start =
            Start { nonce: super::super::random_hex(8), shell: self.shell, environment: Environment::Login, timeout: self.start, on: None };
        let began = Instant::now();
        let shell = self.backend.start(start).await?;
        let took = began.elapsed();
        let mut fact = if shell.ready.kind == "bash" {
            format!("bash {}, ready after {}", shell.ready.version, time(took))
        } else {
            format!("{}, ready after {}", shell.ready.kind, time(took))
        };
        if !shell.noise.is_empty() {
            fact.push_str(&format!("; start files print {} bytes before, which are left out", shell.noise.len()));
        }
        if took >= SLOW {
            let fix = "look for what takes long in the start files there (for bash over ssh: ~/.bashrc)";
            return Ok(Finding::new("shell", Verdict::Warn, fact).with_fix(fix));
        }
        if shell.ready.kind != "bash" {
            return Ok(Finding::new("shell", Verdict::Warn, format!("{fact}; functions do not carry over from command to command"))
                .with_fix("install bash there"));
        }
        Ok(Finding::new("shell", Verdict::Ok, fact))
    }

    pub(super) async fn facts(&self) -> Result<Facts, SessionError> {
        let errand = self.errand("look at the machine");
        let before = now();
        let answer = errand.demand(fill(SCRIPT, &[])).await?;
        let between = (before, now());
        let pair = |piece: &[u8]| {
            let at = piece.iter().position(|b| *b == b'=')?;
            Some((String::from_utf8_lossy(&piece[..at]).into_owned(), piece[at + 1..].to_vec()))
        };
        Ok(Facts { values: answer.stdout.split(|b| *b == 0).filter_map(pair).collect(), between })
    }

    /// An errand in what a login gives.
    pub(super) fn errand(&self, what: &'static str) -> Errand<'_> {
        Errand { backend: self.backend, shell: self.shell, environment: Environment::Login, start: self.start, limit: LIMIT, what }
    }
}

impl Facts {
    /// A value, when it was told and is not empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.values.get(name).filter(|value| !value.is_empty()).map(|value| show(value))
    }

    /// Where the login begins.
    pub(super) fn homes(&self) -> Homes {
        let value = |name: &str| self.values.get(name).filter(|value| !value.is_empty()).cloned();
        Homes { home: value("home"), state: value("state") }
    }

    /// The account's shell, and what else runs there.
    pub(super) fn login_shell(&self) -> Finding {
        let beside = [self.text("sh").map(|sh| format!("sh is {sh}")), self.text("system")];
        let beside: String = beside.into_iter().flatten().map(|text| format!("; {text}")).collect();
        match self.text("shell") {
            Some(shell) => Finding::new("login_shell", Verdict::Ok, format!("{shell}{beside}")),
            None => Finding::new("login_shell", Verdict::Warn, format!("the login names none (SHELL is empty){beside}"))
                .with_fix("give the account a shell there: `chsh`"),
        }
    }

    /// How the clocks differ: by at least what cannot be the time that the question took.
    pub(super) fn clock(&self) -> Finding {
        let there = self.text("now").and_then(|text| text.replace(',', ".").parse::<f64>().ok());
        let Some(there) = there else { return Finding::new("clock", Verdict::Skipped, "the machine does not tell the time") };
        // A time without a fraction was cut.
        let whole = if there.fract() == 0.0 { 1.0 } else { 0.0 };
        let ahead = there - self.between.1;
        let behind = self.between.0 - (there + whole);
        let (skew, way) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
        if skew <= SKEW {
            return Finding::new("clock", Verdict::Ok, format!("within {SKEW} s of this machine's"));
        }
        Finding::new("clock", Verdict::Warn, format!("{skew:.0} s {way} this machine's"))
            .with_fix("set one of the clocks right (`timedatectl`); times of files are compared on one machine alone")
    }

    /// How much a command may use.
    pub(super) fn limits(&self) -> Finding {
        let (files, most, processes) = (self.text("files"), self.text("files_most"), self.text("processes"));
        let mut parts = Vec::new();
        if let Some(files) = &files {
            let most = most.as_ref().filter(|most| *most != files).map(|most| format!(" (may be raised to {most})")).unwrap_or_default();
            parts.push(format!("open files {files}{most}"));
        }
        parts.extend(processes.as_ref().map(|count| format!("processes {count}")));
        if parts.is_empty() {
            return Finding::new("limits", Verdict::Skipped, "the shell does not tell them");
        }
        let few = |limit: &Option<String>, few: u64| limit.as_ref().and_then(|l| l.parse::<u64>().ok()).is_some_and(|l| l < few);
        let fact = parts.join(", ");
        if few(&files, FEW_FILES) || few(&processes, FEW_PROCESSES) {
            return Finding::new("limits", Verdict::Warn, fact).with_fix("raise them in /etc/security/limits.conf there");
        }
        Finding::new("limits", Verdict::Ok, fact)
    }
}

/// Seconds since the epoch.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(pairs: &[(&str, &str)]) -> Facts {
        let values = pairs.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
        Facts { values, between: (1000.2, 1000.4) }
    }

    #[test]
    fn clocks_that_differ_are_told_with_the_side() {
        let table = [
            ("1000.300000", Verdict::Ok, "within 2 s"),
            ("1000,300000", Verdict::Ok, "within 2 s"),
            ("1000", Verdict::Ok, "within 2 s"),
            ("998", Verdict::Ok, "within 2 s"),
            ("1002.3", Verdict::Ok, "within 2 s"),
            ("1063.4", Verdict::Warn, "63 s ahead of"),
            ("935", Verdict::Warn, "64 s behind"),
            ("", Verdict::Skipped, "does not tell"),
            ("soon", Verdict::Skipped, "does not tell"),
        ];
        for (there, verdict, fact) in table {
            let finding = facts(&[("now", there)]).clock();
            assert!(finding.verdict == verdict && finding.fact.contains(fact), "{there}: {finding:?}");
        }
    }

    #[test]
    fn limits_that_are_low_are_told() {
        let table = [
            (
                &[("files", "1024"), ("files_most", "4096"), ("processes", "unlimited")][..],
                Verdict::Ok,
                "open files 1024 (may be raised to 4096), processes unlimited",
            ),
            (&[("files", "64")][..], Verdict::Warn, "open files 64"),
            (&[("files", "1024"), ("processes", "20")][..], Verdict::Warn, "open files 1024, processes 20"),
            (&[][..], Verdict::Skipped, "the shell does not tell them"),
        ];
        for (pairs, verdict, fact) in table {
            let finding = facts(pairs).limits();
            assert_eq!((finding.verdict, finding.fact.as_str()), (verdict, fact));
        }
    }
}
