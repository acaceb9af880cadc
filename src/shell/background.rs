//! What is sent to a shell to start a background process, and to follow those that run; and what comes back.
//!
//! Invariant: the process's output is never looked at for words of ours: its length stands before it.

use super::quote;
use super::start::{reader_bash, reader_sh};
use super::template::{Template, Values};
use std::sync::LazyLock;

static TEXTS: LazyLock<Template> = LazyLock::new(|| Template::parse(include_str!("../../assets/background.sh")));

/// Most bytes of one process's output in one answer.
pub const PIECE: u64 = 128 * 1024;
/// Naps of one long poll: about 30 s in bash, which hears us meanwhile, and 1 s in sh, which does not.
const NAPS: (&str, &str) = ("34", "5");

/// Starts one process.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The folder of all background processes.
    pub root: &'a str,
    /// The process's id, the name of its folder.
    pub id: &'a str,
    /// The nonce of its shell.
    pub nonce: &'a str,
    /// What its shell reads: for bash two stages, for sh one script with a NUL behind it.
    pub input: &'a [u8],
    /// A file of the snapshot that must be there.
    pub check: Option<&'a str>,
    /// bash, or sh.
    pub bash: bool,
}

/// What the launch said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launched {
    /// It runs.
    Runs {
        /// Its number, also its group's.
        pid: u32,
        /// When it began, in the far side's own words; `-` when it was over too soon to be seen.
        start: String,
        /// The boot id there; `-` when there is none.
        boot: String,
    },
    /// The snapshot is gone.
    NoSnapshot,
    /// It cannot be started.
    Not(String),
}

/// Gives the script of a launch, for the shell that is its own kind.
pub fn launch(l: &Launch<'_>) -> Vec<u8> {
    let mut v = Values::new();
    v.set("ROOT", quote::text(l.root));
    v.set("ID", l.id);
    v.set("CHECK", Vec::new());
    if let Some(file) = l.check {
        v.set("V", quote::text(file));
        v.set("CHECK", TEXTS.fill("CHECK", "\n", &v));
    }
    // A NUL cannot stand in a script: the one that ends the text of sh is made there.
    let (input, nul) = match l.input.strip_suffix(b"\0") {
        Some(text) => (text, "printf '\\000'"),
        None => (l.input, ":"),
    };
    v.set("INPUT", quote::bytes(input));
    v.set("NUL", nul);
    let (section, reader) = if l.bash { ("STARTBASH", reader_bash(l.nonce)) } else { ("STARTSH", reader_sh(l.nonce)) };
    v.set("READER", quote::text(&reader));
    v.set("START", TEXTS.fill(section, "\n", &v));
    let mut out = TEXTS.fill("LAUNCH", "\n", &v);
    out.push(b'\n');
    out
}

/// Reads what a launch said. None when that is nothing of ours.
pub fn launched(answer: &[u8]) -> Option<Launched> {
    let text = String::from_utf8_lossy(answer);
    let line = text.lines().last()?;
    let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
    match kind {
        "X" => Some(Launched::NoSnapshot),
        "N" => Some(Launched::Not(rest.to_owned())),
        "P" => {
            let mut words = rest.split(' ');
            let (pid, start, boot) = (words.next()?.parse().ok()?, words.next()?.to_owned(), words.next()?.to_owned());
            Some(Launched::Runs { pid, start, boot })
        }
        _ => None,
    }
}

/// Gives the script of a follower: it reads requests and answers them.
pub fn follow(root: &str, nonce: &str, bash: bool) -> Vec<u8> {
    let mut v = Values::new();
    v.set("ROOT", quote::text(root));
    v.set("NONCE", nonce);
    v.set("PIECE", PIECE.to_string());
    v.set("NAPS", if bash { NAPS.0 } else { NAPS.1 });
    v.set("NAP", TEXTS.fill(if bash { "NAPBASH" } else { "NAPSH" }, "\n", &v));
    let mut out = TEXTS.fill("FOLLOW", "\n", &v);
    out.push(b'\n');
    out
}

/// The line before each part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// So many bytes of output follow.
    Data {
        /// The process.
        id: String,
        /// How many.
        len: u64,
    },
    /// The process has ended; so many bytes of what its shell told us follow.
    End {
        /// The process.
        id: String,
        /// How that is known.
        how: How,
        /// How many.
        len: u64,
    },
    /// The answer is over.
    Done,
}

/// How it is known that a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Its guardian wrote the code down.
    Exit(i32),
    /// It is not there, and nothing was written down.
    Gone,
    /// The machine was started anew since.
    Boot,
}

/// Reads such a line. None when it is none of ours.
pub fn head(line: &[u8], nonce: &str) -> Option<Head> {
    let line = std::str::from_utf8(line).ok()?.trim_end_matches('\n').strip_prefix('\x1e')?;
    let mut words = line.split(' ');
    let kind = words.next()?;
    if words.next()? != nonce {
        return None;
    }
    match kind {
        "." => Some(Head::Done),
        "D" => Some(Head::Data { id: words.next()?.to_owned(), len: words.next()?.parse().ok()? }),
        "E" => {
            let (id, how, code) = (words.next()?.to_owned(), words.next()?, words.next()?);
            let how = match (how, code.parse()) {
                ("exit", Ok(code)) => How::Exit(code),
                ("boot", _) => How::Boot,
                // A code that was cut off by a full disk is as good as none.
                _ => How::Gone,
            };
            Some(Head::End { id, how, len: words.next()?.parse().ok()? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_launch_says() {
        let runs = Launched::Runs { pid: 12, start: "99".into(), boot: "b-1".into() };
        for (text, want) in [
            ("P 12 99 b-1\n", Some(runs)),
            ("X\n", Some(Launched::NoSnapshot)),
            ("N its folder cannot be made there\n", Some(Launched::Not("its folder cannot be made there".into()))),
            ("", None),
            ("P x 1 2\n", None),
            ("bash: no\n", None),
        ] {
            assert_eq!(launched(text.as_bytes()), want, "{text:?}");
        }
    }

    #[test]
    fn heads_are_those_of_this_nonce() {
        let n = "0123456789abcdef";
        let check = |text: &str| head(text.as_bytes(), n);
        assert_eq!(check("\x1eD 0123456789abcdef k7f3q2 12\n"), Some(Head::Data { id: "k7f3q2".into(), len: 12 }));
        let end = |how, len| Some(Head::End { id: "k7f3q2".into(), how, len });
        assert_eq!(check("\x1eE 0123456789abcdef k7f3q2 exit 3 40\n"), end(How::Exit(3), 40));
        assert_eq!(check("\x1eE 0123456789abcdef k7f3q2 exit - 0\n"), end(How::Gone, 0));
        assert_eq!(check("\x1eE 0123456789abcdef k7f3q2 gone - 0\n"), end(How::Gone, 0));
        assert_eq!(check("\x1eE 0123456789abcdef k7f3q2 boot - 0\n"), end(How::Boot, 0));
        assert_eq!(check("\x1e. 0123456789abcdef\n"), Some(Head::Done));
        for wrong in ["", "D 0123456789abcdef a 1", "\x1eD 1123456789abcdef a 1", "\x1eD 0123456789abcdef a x", "\x1e"] {
            assert_eq!(check(wrong), None, "{wrong:?}");
        }
    }
}
