//! What is sent to a shell to learn what became of a background process that nobody saw start, and what comes back.
//!
//! Invariant: after the answer that it never started, it never starts.

use super::quote;
use super::template::{Template, Values};
use std::sync::LazyLock;

static TEXTS: LazyLock<Template> = LazyLock::new(|| Template::parse(include_str!("../../assets/intent.sh")));

/// Seconds for which a launch that has begun is waited for there.
pub const PATIENCE: u64 = 20;

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was started.
    Started {
        /// Its number.
        pid: u32,
        /// When it began, in the far side's own words.
        start: String,
        /// The boot id there.
        boot: String,
    },
    /// It never started, and will not.
    Not,
    /// A launch began and did not say what came of it.
    Unknown,
}

/// Gives the script.
pub fn look(root: &str, id: &str) -> Vec<u8> {
    let mut v = Values::new();
    v.set("ROOT", quote::text(root));
    v.set("ID", id);
    v.set("NAPS", PATIENCE.to_string());
    let mut out = TEXTS.fill("LOOK", "\n", &v);
    out.push(b'\n');
    out
}

/// Reads the answer; an error says why there is none.
pub fn found(answer: &[u8]) -> Result<Found, String> {
    let text = String::from_utf8_lossy(answer);
    let line = text.lines().last().unwrap_or_default();
    let mut words = line.split(' ');
    let unclear = || format!("the shell there said {:?}", line.chars().take(80).collect::<String>());
    match words.next() {
        Some("N") => Ok(Found::Not),
        Some("U") => Ok(Found::Unknown),
        Some("E") => Err(line[1..].trim().to_owned()),
        Some("P") => {
            let pid = words.next().and_then(|word| word.parse().ok()).filter(|pid| *pid > 0);
            let (Some(pid), Some(start), Some(boot)) = (pid, words.next(), words.next()) else { return Err(unclear()) };
            Ok(Found::Started { pid, start: start.to_owned(), boot: boot.to_owned() })
        }
        _ => Err(unclear()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    fn ask(shell: &str, root: &Path) -> Result<Found, String> {
        let script = String::from_utf8(look(root.to_str().unwrap(), "k7f3q2")).unwrap();
        let answer = Command::new(shell).arg("-c").arg(script).output().unwrap();
        assert!(answer.stderr.is_empty(), "{shell}: {}", String::from_utf8_lossy(&answer.stderr));
        found(&answer.stdout)
    }

    #[test]
    fn each_shell_tells_what_became_of_it() {
        for shell in ["bash", "dash"] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("it's/background");
            assert_eq!(ask(shell, &root), Ok(Found::Not), "{shell}: no folder at all");
            let mine = root.join("k7f3q2");
            assert!(mine.is_dir(), "{shell}: a launch that comes late would start it");
            assert_eq!(ask(shell, &root), Ok(Found::Not), "{shell}: asked again");
            std::fs::write(mine.join("pid"), "44 123 b-1\n").unwrap();
            std::fs::write(mine.join("exit"), "0\n").unwrap();
            assert_eq!(ask(shell, &root), Ok(Found::Started { pid: 44, start: "123".into(), boot: "b-1".into() }), "{shell}");
            std::fs::remove_file(mine.join("pid")).unwrap();
            assert_eq!(ask(shell, &root), Ok(Found::Unknown), "{shell}");
            std::fs::remove_dir_all(&mine).unwrap();
            std::fs::write(&mine, "").unwrap();
            assert!(ask(shell, &root).is_err_and(|why| why.contains("cannot be looked at")), "{shell}");
        }
        for answer in ["", "P", "P 0 1 b", "P x 1 b", "bash: no"] {
            assert!(found(answer.as_bytes()).is_err(), "{answer:?}");
        }
    }
}
