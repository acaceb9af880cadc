//! The folder for session files: which one is used, and why not one before it.
//!
//! Invariant: what is made there to try it is removed by the same script, and no folder of ours is made.

use super::super::error::SessionError;
use super::super::files::{Homes, roots};
use super::super::state::show;
use super::{Examination, fill};
use crate::model::{Finding, Verdict};

const SCRIPT: &str = include_str!("../../../assets/examine-folder.sh");
/// Less free room than this, in KiB, is soon used up by snapshots.
const LITTLE: u64 = 10 << 10;
/// Fewer free files than this are.
const FEW: u64 = 100;

/// One folder as the script tells of it.
struct Folder {
    path: String,
    why_not: String,
    noexec: bool,
    free_kib: Option<u64>,
    free_files: Option<u64>,
}

impl Examination<'_> {
    /// Tries the folders in the order in which a session does.
    pub(super) async fn state_folder(&self, homes: Homes) -> Result<Finding, SessionError> {
        let nonce = super::super::random_hex(8);
        let script = fill(SCRIPT, &[("@ROOTS@", &roots(&homes)), ("@NONCE@", nonce.as_bytes())]);
        let answer = self.errand("try the folders for session files").demand(script).await?;
        Ok(judge(&read(&answer.stdout)))
    }
}

fn read(answer: &[u8]) -> Vec<Folder> {
    let fields: Vec<String> = answer.split(|b| *b == 0).map(show).collect();
    let folder = |f: &[String]| Folder {
        path: f[0].clone(),
        why_not: f[1].clone(),
        noexec: !f[2].is_empty(),
        free_kib: f[3].parse().ok(),
        free_files: f[4].parse().ok(),
    };
    fields.chunks_exact(5).map(folder).collect()
}

fn judge(folders: &[Folder]) -> Finding {
    const CHECK: &str = "state_folder";
    let no: Vec<String> = folders.iter().filter(|f| !f.why_not.is_empty()).map(|f| format!("{} ({})", f.path, f.why_not)).collect();
    let Some(used) = folders.iter().find(|f| f.why_not.is_empty()) else {
        return Finding::new(CHECK, Verdict::Warn, format!("none can be written: {}; the state travels with every command", no.join(", ")))
            .with_fix("make room, or make one of them writable there");
    };
    let mut fact = used.path.clone();
    if let Some(free) = used.free_kib {
        fact.push_str(&format!(", {} free", size(free)));
    }
    if used.noexec {
        fact.push_str(", programs in it cannot be run (session files need not be)");
    }
    if !no.is_empty() {
        fact.push_str(&format!("; not {}", no.join(", ")));
        return Finding::new(CHECK, Verdict::Warn, fact).with_fix("make room, or make the first folder writable there");
    }
    if used.free_kib.is_some_and(|free| free < LITTLE) || used.free_files.is_some_and(|free| free < FEW && free > 0) {
        return Finding::new(CHECK, Verdict::Warn, fact).with_fix("make room there");
    }
    Finding::new(CHECK, Verdict::Ok, fact)
}

fn size(kib: u64) -> String {
    match kib {
        0..10_240 => format!("{kib} KiB"),
        10_240..10_485_760 => format!("{} MiB", kib / 1024),
        _ => format!("{} GiB", kib / 1024 / 1024),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_judged_in_their_order() {
        let table = [
            ("/h/.local|||999999|5000|", Verdict::Ok, "/h/.local, 976 MiB free"),
            ("/h/.local||noexec|20000|0|", Verdict::Ok, "/h/.local, 19 MiB free, programs in it cannot be run (session files need not be)"),
            ("/h/.local|||500|5000|", Verdict::Warn, "/h/.local, 500 KiB free"),
            (
                "/h/.local|Read-only file system||0|0|/tmp/q|||99999999||",
                Verdict::Warn,
                "/tmp/q, 95 GiB free; not /h/.local (Read-only file system)",
            ),
            (
                "/a|No space left on device||0|0|",
                Verdict::Warn,
                "none can be written: /a (No space left on device); the state travels with every command",
            ),
        ];
        for (answer, verdict, fact) in table {
            let finding = judge(&read(answer.replace('|', "\0").as_bytes()));
            assert_eq!((finding.verdict, finding.fact.as_str()), (verdict, fact));
            assert_eq!(finding.fix.is_some(), verdict == Verdict::Warn);
        }
    }
}
