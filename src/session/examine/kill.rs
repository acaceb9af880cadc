//! Whether processes can be ended for certain: little ones of our own are started and ended.
//!
//! Invariant: they end by themselves when the check is given up, whoever gives it up, and after a while in any case.

use super::super::error::SessionError;
use super::{Examination, LIMIT, fill, time};
use crate::backend::{Ask, BackendError, Environment, ErrorKind, Family, Members, Shell, Start};
use crate::model::{Finding, Verdict};
use crate::shell::wrap::{COOKIE, framed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

const SCRIPT: &str = include_str!("../../../assets/examine-kill.sh");
/// Between TERM and KILL: `sleep` does as it is told.
const GRACE: Duration = Duration::from_millis(500);
const CHECK: &str = "kill";

impl Examination<'_> {
    /// Starts a shell with two processes, one of them in a session of its own, ends all three, and looks.
    pub(super) async fn kill(&self) -> Result<Finding, SessionError> {
        let late = || SessionError::Backend(BackendError::new(ErrorKind::TimedOut, "it took too long to end a process"));
        tokio::time::timeout(LIMIT + self.start, self.end_own()).await.unwrap_or_else(|_| Err(late()))
    }

    async fn end_own(&self) -> Result<Finding, SessionError> {
        let nonce = super::super::random_hex(8);
        let id = format!("doctor-{nonce}");
        let start = Start { nonce, shell: self.shell, environment: Environment::Login, timeout: self.start, on: None };
        let Shell { ready, mut stdin, stdout, stderr, exit, .. } = self.backend.start(start).await?;
        let script = fill(SCRIPT, &[("@ID@", id.as_bytes())]);
        let script = if ready.kind == "bash" { framed(&script, b":") } else { crate::shell::wrap_sh::framed(&script) };
        let gone = |what: &str| self.errand(CHECK).failed(format!("the shell ended before {what}"));
        stdin.write_all(&script).await.map_err(|_| gone("it read its script"))?;
        stdin.flush().await.map_err(|_| gone("it read its script"))?;
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        lines.read_line(&mut line).await.map_err(|_| gone("it named its processes"))?;
        let mut expected: Vec<u32> = line.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        if expected.is_empty() {
            return Err(gone("it named its processes"));
        }
        expected.push(ready.pid);
        let family = Family { pid: ready.pid, start_time: ready.start_time, age: None, cookie: format!("{COOKIE}={id}") };
        let mut beside = true;
        let seen = match self.backend.family(family.clone(), Ask::Survivors).await {
            Err(e) if e.kind == ErrorKind::Busy => {
                // There is room for one session only, which a server frees when the shell has ended: it goes, and its processes stay.
                beside = false;
                stdin.write_all(b"stay\n").await.map_err(|_| gone("it was told to stay"))?;
                stdin.flush().await.map_err(|_| gone("it was told to stay"))?;
                let _ = exit.await;
                drop((stdin, lines, stderr));
                expected.retain(|pid| *pid != ready.pid);
                self.backend.family(family.clone(), Ask::Survivors).await?
            }
            seen => seen?,
        };
        let began = Instant::now();
        let left = self.backend.family(family, Ask::End { grace: GRACE }).await?;
        Ok(judge(&expected, &seen, &left, began.elapsed(), beside))
    }
}

fn judge(expected: &[u32], seen: &Members, left: &Members, took: Duration, beside: bool) -> Finding {
    let missed: Vec<String> = expected.iter().filter(|pid| !seen.alive.contains(pid)).map(u32::to_string).collect();
    if !missed.is_empty() {
        return Finding::new(
            CHECK,
            Verdict::Fail,
            format!("of {} processes of a command these are not seen: {}", expected.len(), missed.join(", ")),
        )
        .with_fix("is /proc there mounted with hidepid? Commands cannot be ended for certain there");
    }
    if !left.verified || !left.alive.is_empty() {
        let left: Vec<String> = left.alive.iter().map(u32::to_string).collect();
        return Finding::new(CHECK, Verdict::Fail, format!("these processes could not be ended: {}", left.join(", ")))
            .with_fix("end them by hand there; without a verified ending a stopped command may go on");
    }
    let how = if beside { "" } else { "; one session at a time is allowed, so their shell made room first" };
    Finding::new(CHECK, Verdict::Ok, format!("{} processes of our own ended and seen gone after {}{how}", expected.len(), time(took)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missed_or_left_is_told() {
        let members = |alive: &[u32], verified| Members { alive: alive.to_vec(), verified, ..Members::default() };
        let check = |seen: &[u32], left: &[u32], verified| {
            let finding = judge(&[7, 8, 9], &members(seen, false), &members(left, verified), Duration::from_millis(35), true);
            (finding.verdict, finding.fact)
        };
        assert_eq!(check(&[7, 8, 9], &[], true), (Verdict::Ok, "3 processes of our own ended and seen gone after 35 ms".to_owned()));
        assert_eq!(check(&[7, 9], &[], true), (Verdict::Fail, "of 3 processes of a command these are not seen: 8".to_owned()));
        assert_eq!(check(&[7, 8, 9], &[8], false), (Verdict::Fail, "these processes could not be ended: 8".to_owned()));
    }
}
