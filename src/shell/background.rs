//! What is sent to a shell to start a background process, and to follow those that run; and what comes back.
//!
//! Invariant: the process's output is never looked at for words of ours: its length stands before it.

use super::quote;
use super::start::{reader_bash, reader_sh};
use super::template::{Template, Values};
use std::sync::LazyLock;
use std::time::Duration;

static TEXTS: LazyLock<Template> = LazyLock::new(|| Template::parse(include_str!("../../assets/background.sh")));

/// Most bytes of one process's output in one answer: enough that 64 processes with a megabyte a second each are told in two rounds of
/// it, although a program is started for each.
pub const PIECE: u64 = 512 * 1024;
/// Naps of one long poll: about 30 s in bash, which hears us meanwhile, and half a second in sh, which does not.
const NAPS: (&str, &str) = ("88", "1");
/// Output that was fetched is given back to the disk there in steps of this size; the last one stays.
pub const STEP: u64 = 16 << 20;
/// Where a running systemd has this folder, a process gets a scope of its own.
const SYSTEMD: &str = "/run/systemd/system";

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
    /// The directory that it starts in, if that is there, else in the nearest above it. None: the command has one of its own.
    pub dir: Option<&'a [u8]>,
    /// A file of the snapshot that must be there.
    pub check: Option<&'a str>,
    /// bash, or sh.
    pub bash: bool,
    /// What its stdin is.
    pub stdin: Stdin,
    /// When it is ended, from its start on.
    pub limit: Option<Duration>,
    /// What its log keeps.
    pub cap: Cap,
}

/// What the stdin of a background process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Empty.
    #[default]
    Empty,
    /// What was brought there before ([`upload`]), to its end.
    Brought,
    /// Others may write to it ([`send`]) until they end it.
    Open,
}

/// What of a log stays on the backend when nobody fetches it: the first bytes, and the last of what is over that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The first bytes.
    pub head: u64,
    /// The last ones; twice as many may be there.
    pub tail: u64,
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
        /// Where it starts, as its directory is not there any more.
        instead: Option<String>,
    },
    /// The snapshot is gone.
    NoSnapshot,
    /// It cannot be started.
    Not(String),
}

/// The folder of a process, where its stdin is.
pub fn stdin_path(root: &str, id: &str) -> String {
    format!("{root}/{id}/stdin")
}

/// Gives the script of a launch, for the shell that is its own kind.
pub fn launch(l: &Launch<'_>) -> Vec<u8> {
    launch_where(l, SYSTEMD)
}

fn launch_where(l: &Launch<'_>, systemd: &str) -> Vec<u8> {
    let mut v = Values::new();
    v.set("ROOT", quote::text(l.root));
    v.set("ID", l.id);
    v.set("WHERE", Vec::new());
    if let Some(dir) = l.dir {
        v.set("DIR", quote::bytes(dir));
        v.set("WHERE", TEXTS.fill("WHERE", "\n", &v));
    }
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
    v.set("FOLDER", TEXTS.fill(if l.stdin == Stdin::Brought { "FOLDERTHERE" } else { "FOLDER" }, "\n", &v));
    v.set("FIFO", if l.stdin == Stdin::Open { TEXTS.fill("FIFO", "\n", &v) } else { Vec::new() });
    v.set("SYSTEMD", quote::text(systemd));
    v.set("SCOPE", TEXTS.fill("SCOPE", "\n", &v));
    v.set("HOLE", TEXTS.fill("HOLE", "\n", &v));
    v.set("GUARDIAN", quote::bytes(&TEXTS.fill("GUARDIAN", "\n", &v)));
    v.set("HOW", how(l));
    let (section, reader) = if l.bash { ("STARTBASH", reader_bash(l.nonce)) } else { ("STARTSH", reader_sh(l.nonce)) };
    v.set("READER", quote::text(&reader));
    v.set("START", TEXTS.fill(section, "\n", &v));
    let mut out = TEXTS.fill("LAUNCH", "\n", &v);
    out.push(b'\n');
    out
}

/// The words that tell the guardian how it is to be.
fn how(l: &Launch<'_>) -> String {
    let open = if l.stdin == Stdin::Open { "open" } else { "-" };
    // sh waits in whole seconds.
    let limit = l.limit.map_or_else(
        || "-".to_owned(),
        |limit| match l.bash {
            true => format!("{}.{:03}", limit.as_secs(), limit.subsec_millis()),
            false => limit.as_secs().saturating_add(u64::from(limit.subsec_nanos() > 0)).to_string(),
        },
    );
    format!("{open} {limit} {} {}", l.cap.head, l.cap.tail)
}

/// Gives the script that brings a process's stdin to its folder: everything that follows it.
pub fn upload(root: &str, id: &str) -> Vec<u8> {
    let mut v = Values::new();
    v.set("ROOT", quote::text(root));
    v.set("ID", id);
    v.set("FOLDER", TEXTS.fill("FOLDER", "\n", &v));
    let mut out = TEXTS.fill("UPLOAD", "\n", &v);
    out.push(b'\n');
    out
}

/// Reads what an upload said: how many bytes are there, or why not. None when that is nothing of ours.
pub fn uploaded(answer: &[u8]) -> Option<Result<u64, String>> {
    let text = String::from_utf8_lossy(answer);
    let (kind, rest) = text.lines().last()?.split_once(' ')?;
    match kind {
        "U" => rest.trim().parse().ok().map(Ok),
        "N" => Some(Err(rest.to_owned())),
        _ => None,
    }
}

/// Gives the script that writes to the open stdin of a process, and ends it.
pub fn send(root: &str, id: &str, bytes: &[u8], end: bool) -> Vec<u8> {
    let mut v = Values::new();
    v.set("ROOT", quote::text(root));
    v.set("ID", id);
    // A NUL cannot stand in a script.
    let texts: Vec<Vec<u8>> = bytes.split(|b| *b == 0).map(|text| [b"printf %s ".as_slice(), &quote::bytes(text)].concat()).collect();
    v.set("DATA", texts.join(b" && printf '\\000' && ".as_slice()));
    v.set("WRITE", if bytes.is_empty() { Vec::new() } else { TEXTS.fill("WRITE", "\n", &v) });
    v.set("END", if end { TEXTS.fill("END", "\n", &v) } else { Vec::new() });
    let mut out = TEXTS.fill("SEND", "\n", &v);
    out.push(b'\n');
    out
}

/// Reads what a write said: whether the process has it, or has no open stdin any more. None when that is nothing of ours.
pub fn sent(answer: &[u8]) -> Option<bool> {
    match answer {
        b"W\n" => Some(true),
        b"O\n" => Some(false),
        _ => None,
    }
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
            // A path may have line ends in it.
            let before = text.trim_end().strip_suffix(line).unwrap_or_default();
            let instead = before.split_once("\x1eD ").map(|(_, path)| path.strip_suffix('\n').unwrap_or(path).to_owned());
            Some(Launched::Runs { pid, start, boot, instead })
        }
        _ => None,
    }
}

/// Gives the script of a follower: it reads requests and answers them.
pub fn follow(root: &str, nonce: &str, cap: Cap, bash: bool) -> Vec<u8> {
    let mut v = Values::new();
    v.set("ROOT", quote::text(root));
    v.set("NONCE", nonce);
    v.set("PIECE", PIECE.to_string());
    v.set("NAPS", if bash { NAPS.0 } else { NAPS.1 });
    // A request of bash's may have a new process in it; in sh they come so often that its naps would never grow.
    v.set("KEEP", if bash { "new" } else { "''" });
    v.set("STEP", STEP.to_string());
    v.set("CAP", cap.head.to_string());
    v.set("SEG", cap.tail.to_string());
    v.set("HOLE", TEXTS.fill("HOLE", "\n", &v));
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
    /// The next so many bytes of output are not there any more.
    Gap {
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
    /// The same, after it was ended because its time was over.
    Late,
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
        "H" => Some(Head::Gap { id: words.next()?.to_owned(), len: words.next()?.parse().ok()? }),
        "E" => {
            let (id, how, code) = (words.next()?.to_owned(), words.next()?, words.next()?);
            let how = match (how, code.parse()) {
                ("exit", Ok(code)) => How::Exit(code),
                ("late", _) => How::Late,
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
        let runs = |instead: Option<&str>| {
            Some(Launched::Runs { pid: 12, start: "99".into(), boot: "b-1".into(), instead: instead.map(str::to_owned) })
        };
        for (text, want) in [
            ("P 12 99 b-1\n", runs(None)),
            ("noise\n\x1eD /srv/a\nb\nP 12 99 b-1\n", runs(Some("/srv/a\nb"))),
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
        assert_eq!(check("\x1eE 0123456789abcdef k7f3q2 late 143 0\n"), end(How::Late, 0));
        assert_eq!(check("\x1eH 0123456789abcdef k7f3q2 77\n"), Some(Head::Gap { id: "k7f3q2".into(), len: 77 }));
        assert_eq!(check("\x1e. 0123456789abcdef\n"), Some(Head::Done));
        for wrong in ["", "D 0123456789abcdef a 1", "\x1eD 1123456789abcdef a 1", "\x1eD 0123456789abcdef a x", "\x1e"] {
            assert_eq!(check(wrong), None, "{wrong:?}");
        }
    }

    /// Launches `exit 5` where systemd seems to run, with this program in its place; gives what the launch said and the folder.
    fn launched_with(systemd_run: &str) -> (Launched, tempfile::TempDir) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("systemd-run"), format!("#!/bin/sh\necho \"$*\" >>{}\n{systemd_run}\n", path("said"))).expect("ours");
        std::fs::set_permissions(path("systemd-run"), std::fs::Permissions::from_mode(0o755)).expect("ours");
        let (root, input) = (path("root"), super::super::wrap::framed(b":", b"echo $QD_PROCESS $(ps -o pgid= $$); exit 5"));
        let l = Launch {
            dir: None,
            root: &root,
            id: "k7f3q2",
            nonce: "0123456789abcdef",
            input: &input,
            check: None,
            bash: true,
            stdin: Stdin::Empty,
            limit: None,
            cap: Cap { head: 1 << 20, tail: 1 << 16 },
        };
        let script = launch_where(&l, folder.path().to_str().expect("text"));
        let mut command = std::process::Command::new("bash");
        command
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
            .arg("-c")
            .arg(String::from_utf8(script).expect("text"));
        let done = command.output().expect("bash starts");
        let said = launched(&done.stdout).unwrap_or_else(|| panic!("{done:?}"));
        let exit = folder.path().join("root/k7f3q2/exit");
        for _ in 0..1000 {
            if exit.exists() {
                break;
            }
            std::thread::yield_now();
            // Another program's pause: ours must not sleep.
            let _ = std::process::Command::new("sleep").arg("0.01").status();
        }
        (said, folder)
    }

    #[test]
    fn a_scope_has_the_guardian_under_its_own_number() {
        if !nix::unistd::geteuid().is_root() {
            // An account's own manager is not at hand where tests run.
            return;
        }
        let (said, folder) = launched_with("while [ \"${1#-}\" != \"$1\" ]; do shift; done; exec \"$@\"");
        let Launched::Runs { pid, .. } = said else { panic!("{said:?}") };
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        assert_eq!(read("root/k7f3q2/exit"), "5\n");
        assert!(read("said").contains("--scope --quiet --collect --unit=qd-k7f3q2"), "{}", read("said"));
        let rec = read("root/k7f3q2/rec");
        assert!(rec.contains(&format!("k7f3q2 {pid}")), "its group and cookie: {rec:?}, {pid}");
        assert!(!folder.path().join("root/noscope").exists());
    }

    #[test]
    fn without_a_scope_it_starts_all_the_same() {
        let (said, folder) = launched_with("exit 1");
        let Launched::Runs { .. } = said else { panic!("{said:?}") };
        assert_eq!(std::fs::read_to_string(folder.path().join("root/k7f3q2/exit")).unwrap_or_default(), "5\n");
        assert_eq!(folder.path().join("root/noscope").exists(), nix::unistd::geteuid().is_root(), "it is not tried again");
    }
}
