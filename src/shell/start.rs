//! The outer start: a shell that says READY and then reads what to do from stdin.
//!
//! Invariant: an argument list holds this small reader and nothing of a command, so there is no length limit, nothing in
//! `ps` and no quoting level. On a far side the one line survives bash, dash, zsh, fish, csh and ash as login shells.

use super::quote;

/// Which shell the start picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// bash where it is, else sh.
    Auto,
    /// bash only.
    Bash,
    /// sh only.
    Sh,
}

/// What a READY line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyLine {
    /// The shell's process id, also its group and session.
    pub pid: u32,
    /// The boot id, `-` when there is none.
    pub boot_id: String,
    /// `bash` or `sh`.
    pub kind: String,
    /// The version of bash, `-` for sh.
    pub version: String,
}

const BASH_READER: &str = include_str!("../../assets/reader-bash.sh");
const SH_READER: &str = include_str!("../../assets/reader-sh.sh");
const STDIN_READER: &str = include_str!("../../assets/reader-stdin.sh");

/// Drops comment and empty lines and fills in the nonce.
fn fill(template: &str, nonce: &str) -> String {
    let lines: Vec<&str> = template.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()).collect();
    lines.join("\n").replace("@NONCE@", nonce)
}

/// Gives the reader for `bash --norc --noprofile -c READER bash`.
pub fn reader_bash(nonce: &str) -> String {
    fill(BASH_READER, nonce)
}

/// Gives the reader for `sh -c READER sh`.
pub fn reader_sh(nonce: &str) -> String {
    fill(SH_READER, nonce)
}

/// Gives the one line that starts a shell on a far side, whatever the login shell there. `empty` starts it with no
/// environment at all; otherwise it keeps what the login gave it.
pub fn far_line(nonce: &str, pick: Pick, empty: bool) -> String {
    let clean = if empty { "env -i " } else { "" };
    let keep_path = if empty { "env -i PATH=\"$PATH\" " } else { "" };
    let sh = format!("exec {keep_path}sh -c {} sh", quote::text(&reader_sh(nonce)));
    let (old, none) = match pick {
        Pick::Auto => (sh.as_str(), sh.as_str()),
        _ => ("echo 'qd: bash here is older than 4.1' >&2; exit 127", "echo 'qd: no bash here' >&2; exit 127"),
    };
    // A bash that is too old for the reader (that of macOS) does what is to be done without one; all this is plain enough for it.
    let reader = format!("case $BASH_VERSION in [0-3].*|4.0*) eval \"$1\";; esac; set --; {}", reader_bash(nonce));
    // Without the environment there is no PATH, which `sh` is found by.
    let old = format!("PATH=\"$2\"; {old}");
    let bash = format!(
        "qd_b=$(command -v bash 2>/dev/null) && exec {clean}\"$qd_b\" --norc --noprofile -c {} bash {} \"$PATH\"; {none}",
        quote::text(&reader),
        quote::text(&old)
    );
    let inner = if matches!(pick, Pick::Sh) { sh } else { bash };
    any_shell_runs(inner.as_bytes())
}

/// Gives the line that makes a sh, which reads it from its stdin, the shell that is wanted. Nothing may be sent behind it before READY:
/// some shells read ahead. That sh stays above the shell, and then for as long as anybody else holds its streams; it ends with the
/// shell's code, or 128 and the number of the signal that ended the shell.
pub fn stdin_line(nonce: &str, pick: Pick, empty: bool) -> String {
    let line = far_line(nonce, pick, empty);
    let line = line.strip_prefix("exec ").unwrap_or(&line);
    fill(STDIN_READER, nonce).replace("@LINE@", line) + "\n"
}

/// Gives one line that every login shell understands and that makes sh run a text.
pub(super) fn any_shell_runs(text: &[u8]) -> String {
    format!("exec sh -c 'eval \"$(printf %b \"$1\")\"' sh '{}'", octal(text))
}

/// Writes every byte as `\0ooo`, which `printf %b` reads back in every shell.
fn octal(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(bytes.len() * 5);
    for b in bytes {
        if b.is_ascii_alphanumeric() || b" /_-=".contains(b) {
            out.push(char::from(*b));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\0{b:03o}");
        }
    }
    out
}

/// Finds the READY line of this nonce: what it says, where it starts and where what follows it starts. None while it is not
/// there in full; what stands before it is noise of rc files.
pub fn find_ready(seen: &[u8], nonce: &str) -> Option<(ReadyLine, usize, usize)> {
    let mark = format!("\x1eR {nonce} ");
    let start = seen.windows(mark.len()).position(|w| w == mark.as_bytes())?;
    let rest = &seen[start + mark.len()..];
    let len = rest.iter().position(|b| *b == b'\n')?;
    let line = String::from_utf8_lossy(&rest[..len]);
    let mut words = line.split(' ');
    let ready = ReadyLine {
        pid: words.next()?.parse().ok()?,
        boot_id: words.next()?.to_owned(),
        kind: words.next()?.to_owned(),
        version: words.next().unwrap_or("-").to_owned(),
    };
    Some((ready, start, start + mark.len() + len + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_found_only_when_whole_and_of_this_nonce() {
        let text = b"Welcome!\n\x1eR 0123456789abcdef 4711 some-boot-id bash 5.2.15(1)-release\nrest";
        let (ready, from, to) = find_ready(text, "0123456789abcdef").expect("found");
        assert_eq!((ready.pid, ready.kind.as_str(), from, &text[to..]), (4711, "bash", 9, &b"rest"[..]));
        assert!(find_ready(text, "1123456789abcdef").is_none());
        for cut in 0..text.len() - 4 {
            assert!(find_ready(&text[..cut], "0123456789abcdef").is_none(), "cut at {cut}");
        }
    }

    #[test]
    fn the_far_line_is_one_line_without_quotes_inside() {
        let line = far_line("0123456789abcdef", Pick::Auto, true);
        assert!(!line.contains('\n') && line.len() < 96 * 1024);
        assert_eq!(line.matches('\'').count(), 4);
    }

    /// Starts the line as a login shell does, with this folder before the others in PATH; gives what READY says and the rest.
    fn started(line: &str, first: &std::path::Path) -> (Option<ReadyLine>, String) {
        let path = format!("{}:{}", first.display(), std::env::var("PATH").expect("there is a PATH"));
        let mut command = std::process::Command::new("sh");
        command.args(["-c", line]).env("PATH", path).stdin(std::process::Stdio::null());
        let done = command.output().expect("sh starts");
        let ready = find_ready(&done.stderr, "0123456789abcdef").map(|(ready, ..)| ready);
        (ready, String::from_utf8_lossy(&done.stderr).into_owned())
    }

    #[test]
    fn a_bash_that_is_too_old_gives_way_to_sh() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let old = folder.path().join("bash");
        // A bash that calls itself 3.2, with the arguments that it is started with.
        let text =
            "#!/bin/sh\nPATH=/usr/bin:/bin exec bash --norc --noprofile -c \"BASH_VERSION='3.2.57(1)-release'; $4\" \"$5\" \"$6\" \"$7\"\n";
        std::fs::write(&old, text).expect("it is ours");
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        let none = tempfile::tempdir().expect("a folder");
        for empty in [true, false] {
            let (new, said) = started(&far_line("0123456789abcdef", Pick::Auto, empty), none.path());
            assert_eq!(new.map(|r| r.kind).as_deref(), Some("bash"), "{said}");
            let (ready, said) = started(&far_line("0123456789abcdef", Pick::Auto, empty), folder.path());
            assert_eq!(ready.map(|r| r.kind).as_deref(), Some("sh"), "{said}");
            let (ready, said) = started(&far_line("0123456789abcdef", Pick::Bash, empty), folder.path());
            assert!(ready.is_none() && said.contains("older than 4.1"), "{said}");
        }
    }
}
