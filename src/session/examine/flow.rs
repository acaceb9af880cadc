//! How fast the link is: round trips, and bytes each way.
//!
//! Invariant: it carries no more than a few MiB, for no longer than a few seconds.

use super::super::error::SessionError;
use super::{Examination, time};
use crate::backend::{Environment, Shell, Start};
use crate::model::{Finding, Verdict};
use crate::shell::wrap::framed;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Round trips that are measured.
const TRIPS: usize = 5;
/// Bytes each way: enough that a fast link shows what it can, few enough that a slow one is soon done.
const BYTES: u64 = 4 << 20;
/// Longest time each way.
const LONGEST: Duration = Duration::from_secs(2);
/// A link slower than this, in bytes a second, is worth a word.
const SLOW: f64 = 128.0 * 1024.0;
/// A round trip longer than this is.
const FAR: Duration = Duration::from_millis(1000);

/// What was measured one way.
struct Flow {
    bytes: u64,
    took: Duration,
}

impl Examination<'_> {
    /// Measures round trips.
    pub(super) async fn round_trip(&self) -> Result<Finding, SessionError> {
        let mut trips = Vec::with_capacity(TRIPS);
        for _ in 0..TRIPS {
            trips.push(self.backend.check().await?.round_trip);
        }
        trips.sort_unstable();
        let (least, middle, most) = (trips[0], trips[TRIPS / 2], trips[TRIPS - 1]);
        let fact = format!("{} ({} to {}, of {TRIPS})", time(middle), time(least), time(most));
        let verdict = if middle > FAR { Verdict::Warn } else { Verdict::Ok };
        Ok(Finding::new("round_trip", verdict, fact))
    }

    /// Measures bytes from there and to there.
    pub(super) async fn throughput(&self) -> Result<Finding, SessionError> {
        let (down, up) = (self.down().await?, self.up().await?);
        let fact = format!("from there {}, to there {}", down.words(), up.words());
        if down.rate() < SLOW || up.rate() < SLOW {
            return Ok(Finding::new("throughput", Verdict::Warn, fact));
        }
        Ok(Finding::new("throughput", Verdict::Ok, fact))
    }

    async fn shell(&self, script: &[u8]) -> Result<Shell, SessionError> {
        let nonce = super::super::random_hex(8);
        let start = Start { nonce, shell: self.shell, environment: Environment::Login, timeout: self.start, on: None };
        let mut shell = self.backend.start(start).await?;
        let script = if shell.ready.kind == "bash" { framed(script, b":") } else { crate::shell::wrap_sh::framed(script) };
        // A shell that is gone already shows in what does not come.
        let _ = shell.stdin.write_all(&script).await;
        let _ = shell.stdin.flush().await;
        Ok(shell)
    }

    async fn down(&self) -> Result<Flow, SessionError> {
        let script = format!("dd if=/dev/zero bs=65536 count={} 2>/dev/null\nexit 0\n", BYTES / 65536);
        let mut shell = self.shell(script.as_bytes()).await?;
        let mut buf = vec![0; 256 << 10];
        let mut flow = Flow { bytes: 0, took: Duration::ZERO };
        let first = shell.stdout.read(&mut buf);
        // What comes at first took the shell's time too.
        let began_with = tokio::time::timeout(LONGEST, first).await.map_or(0, |read| read.unwrap_or(0));
        let began = Instant::now();
        let reading = async {
            if began_with > 0 {
                while let Ok(count @ 1..) = shell.stdout.read(&mut buf).await {
                    flow.bytes += count as u64;
                }
            }
        };
        // When the time is over, what came until then is the answer.
        let _ = tokio::time::timeout(LONGEST, reading).await;
        flow.took = began.elapsed();
        Ok(flow)
    }

    async fn up(&self) -> Result<Flow, SessionError> {
        let Shell { mut stdin, exit, stdout, stderr, .. } = self.shell(b"cat >/dev/null\nexit 0\n").await?;
        let piece = vec![0; 64 << 10];
        let began = Instant::now();
        let mut bytes = 0;
        let sending = async {
            while bytes < BYTES {
                if stdin.write_all(&piece).await.is_err() {
                    return;
                }
                bytes += piece.len() as u64;
            }
            let _ = stdin.shutdown().await;
            // All of it is there once it was read to the end.
            let _ = exit.await;
        };
        let _ = tokio::time::timeout(LONGEST, sending).await;
        drop((stdout, stderr));
        Ok(Flow { bytes, took: began.elapsed() })
    }
}

impl Flow {
    /// Bytes a second.
    fn rate(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a few MiB")]
        let bytes = self.bytes as f64;
        bytes / self.took.as_secs_f64().max(1e-6)
    }

    fn words(&self) -> String {
        let rate = self.rate();
        let mib = rate / 1024.0 / 1024.0;
        match mib {
            10.0.. => format!("{mib:.0} MiB/s"),
            1.0.. => format!("{mib:.1} MiB/s"),
            _ => format!("{:.0} KiB/s", rate / 1024.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_well() {
        let flow = |bytes| Flow { bytes, took: Duration::from_secs(2) }.words();
        let table = [(0, "0 KiB/s"), (100 << 10, "50 KiB/s"), (3 << 20, "1.5 MiB/s"), (4 << 30, "2048 MiB/s")];
        for (bytes, words) in table {
            assert_eq!(flow(bytes), words);
        }
        assert!(Flow { bytes: 1, took: Duration::ZERO }.rate().is_finite());
    }
}
