//! What is sent to a shell to look at processes, and what comes back.
//!
//! Invariant: what a process says of itself (its environment, its command line) is shown, and never taken for more than that.

use super::quote;
use super::template::{Template, Values};
use std::sync::LazyLock;

static TEXT: LazyLock<Template> = LazyLock::new(|| Template::parse(include_str!("../../assets/look.sh")));

/// Ticks a second in /proc: USER_HZ, 100 on every architecture that we run on.
const TICKS: f64 = 100.0;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its session's.
    pub session: u32,
    /// When it began, in ticks since boot.
    pub start: u64,
    /// How long ago that was, in milliseconds.
    pub age_ms: u64,
    /// The command whose cookie it carries.
    pub process: Option<String>,
    /// The daemon that started that, where it says so.
    pub daemon: Option<String>,
    /// The name of the session that it was started in.
    pub in_session: String,
    /// Its command line, arguments parted by blanks.
    pub command: String,
}

/// What a look brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// These.
    Seen(Vec<Seen>),
    /// Nothing can be seen there.
    Blind,
}

/// Gives the script that looks at these processes, or at all that carry a cookie of ours.
pub fn script(pids: Option<&[u32]>, nonce: &str) -> Vec<u8> {
    let list: Vec<String> = pids.unwrap_or_default().iter().map(u32::to_string).collect();
    let mut v = Values::new();
    v.set("NONCE", nonce);
    v.set("PIDS", quote::text(&list.join(" ")));
    let mut out = TEXT.fill("LOOK", "\n", &v);
    out.push(b'\n');
    out
}

/// Reads the answer. None when it is not whole.
pub fn read(answer: &[u8], nonce: &str) -> Option<Looked> {
    let text = String::from_utf8_lossy(answer);
    let mark = |kind: char| format!("\x1e{kind} {nonce}");
    let mut lines: Vec<&str> = text.lines().collect();
    let last = lines.pop()?;
    if last == mark('N') {
        return Some(Looked::Blind);
    }
    let up: f64 = last.strip_prefix(&mark('.'))?.strip_suffix(" .")?.trim().parse().ok()?;
    let seen = mark('S');
    Some(Looked::Seen(lines.into_iter().filter_map(|line| line.strip_prefix(&seen)).filter_map(|line| one(line, up)).collect()))
}

fn one(line: &str, up: f64) -> Option<Seen> {
    let mut parts = line.splitn(3, '\x1f');
    let mut words = parts.next()?.split_ascii_whitespace();
    let mut number = || words.next()?.parse::<u64>().ok();
    let (pid, parent, session, start) = (number()?, number()?, number()?, number()?);
    let mut word = || words.next().filter(|word| is_word(word)).map(str::to_owned);
    let (process, daemon) = (word(), word());
    let (in_session, command) = (parts.next()?, parts.next()?);
    Some(Seen {
        pid: pid.try_into().ok()?,
        parent: parent.try_into().ok()?,
        session: session.try_into().ok()?,
        start,
        // A clock that is read before the process began would give less than nothing.
        age_ms: ((up - start as f64 / TICKS).max(0.0) * 1000.0) as u64,
        process,
        daemon,
        in_session: in_session.to_owned(),
        // A shell's part that was forked has the shell's command line, which says nothing of it.
        command: if command.contains("__qdr_n") { "(a subshell)".to_owned() } else { command.replace('\x01', "\n").trim_end().to_owned() },
    })
}

/// Whether a cookie's text is one that we give: what else stands there is somebody else's.
fn is_word(text: &str) -> bool {
    text != "-" && text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_read_as_it_was() {
        let text = b"noise\n\x1eS abcd 12 1 12 500 k7f3q2 d1d2\x1fmain\x1fsh -c a\x01b \n\x1eS abcd 13 12 12 900 - -\x1f\x1f\n\x1eS zzzz 14 1 1 1 - -\x1f\x1fx\n\x1e. abcd 10.00 .\n";
        let Some(Looked::Seen(seen)) = read(text, "abcd") else { panic!("not read") };
        assert_eq!(seen.len(), 2);
        assert_eq!((seen[0].pid, seen[0].parent, seen[0].session, seen[0].start, seen[0].age_ms), (12, 1, 12, 500, 5000));
        assert_eq!((seen[0].process.as_deref(), seen[0].daemon.as_deref()), (Some("k7f3q2"), Some("d1d2")));
        assert_eq!((seen[0].in_session.as_str(), seen[0].command.as_str()), ("main", "sh -c a\nb"));
        assert_eq!((seen[1].process.as_deref(), seen[1].command.as_str(), seen[1].age_ms), (None, "", 1000));
        assert_eq!(read(&text[..text.len() - 5], "abcd"), None, "an answer that was cut short");
        assert_eq!(read(b"\x1eN abcd\n", "abcd"), Some(Looked::Blind));
    }

    #[test]
    fn a_cookie_that_is_none_of_ours_names_nothing() {
        let seen = one(" 1 1 1 1 a;b -\x1f\x1fx", 1.0).expect("read");
        assert_eq!(seen.process, None);
        let reader = crate::shell::start::reader_bash("0123456789abcdef").replace('\n', "\x01");
        let seen = one(&format!(" 1 1 1 1 - -\x1f\x1fbash --norc --noprofile -c {reader} bash"), 1.0).expect("read");
        assert_eq!(seen.command, "(a subshell)");
    }
}
