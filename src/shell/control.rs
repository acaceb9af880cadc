//! The text of the control shell: what it runs, what it is asked, what it answers.
//!
//! Invariant: a request is one line of numbers and words without blanks, so nothing that it carries can be taken for shell
//! text; an answer counts only with the nonce of this shell.

use std::fmt::Write;
use std::time::Duration;

const BASH: &str = include_str!("../../assets/control.sh");
const SH: &str = include_str!("../../assets/control-sh.sh");
/// No answer is longer; what is longer is not one of ours.
const LINE_MAX: usize = 1 << 20;

/// Gives what makes a control shell of a shell that waits for its script: sent over its stdin, where the requests follow.
/// `linger` is how many seconds it waits after the end of its stdin before it ends the commands that were noted.
pub fn begin(nonce: &str, linger: u32, is_bash: bool) -> String {
    if is_bash {
        let text = script(BASH, nonce, linger);
        format!("{} 0\n{text}", text.len())
    } else {
        // One of the ways in which sh reads its script wants a NUL at its end; for the others that begins an empty request.
        let text = script(SH, nonce, linger);
        format!("{}\n{text}\0\n", text.len())
    }
}

fn script(template: &str, nonce: &str, linger: u32) -> String {
    let lines: Vec<&str> = template.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()).collect();
    let mut text = lines.join("\n").replace("@NONCE@", nonce).replace("@LINGER@", &linger.to_string());
    text.push('\n');
    text
}

/// Names the processes of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Its shell's process id.
    pub pid: u32,
    /// When the shell began (field 22 of its stat), when known.
    pub start: Option<u64>,
    /// At least how long ago it began, where that is not known.
    pub age: Option<Duration>,
    /// Its cookie, `NAME=value` without blanks.
    pub cookie: &'a str,
}

/// What the control shell is asked or told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Whether it is there.
    Ping,
    /// Tells of a command that runs in the foreground.
    Note(Named<'a>),
    /// Tells that it has ended.
    Forget(u32),
    /// Tells that noted commands stay when the daemon goes.
    Keep,
    /// Asks what is alive.
    Family(Named<'a>),
    /// Ends it.
    End {
        /// What.
        named: Named<'a>,
        /// Between TERM and KILL, in milliseconds.
        grace_ms: u64,
    },
    /// Asks for an answer when nothing is alive any more.
    Gone(Named<'a>),
    /// Sends a signal.
    Signal {
        /// To what.
        named: Named<'a>,
        /// The number.
        number: i32,
    },
}

/// Writes a request as its line. None when a cookie is not one word: such a text is never sent.
pub fn line(id: u64, request: &Request<'_>) -> Option<String> {
    let mut out = format!("{id} ");
    let (verb, named) = match request {
        Request::Ping => ("ping", None),
        Request::Keep => ("keep", None),
        Request::Forget(pid) => {
            let _ = write!(out, "forget {pid}");
            ("", None)
        }
        Request::Note(named) => {
            if !is_word(named.cookie) {
                return None;
            }
            let _ = write!(out, "note {} {}", named.pid, named.cookie);
            ("", None)
        }
        Request::Family(named) => ("family", Some(named)),
        Request::Gone(named) => ("gone", Some(named)),
        Request::End { named, .. } => ("end", Some(named)),
        Request::Signal { named, .. } => ("signal", Some(named)),
    };
    out.push_str(verb);
    if let Some(named) = named {
        if !is_word(named.cookie) {
            return None;
        }
        let start = match (named.start, named.age) {
            (Some(start), _) => start.to_string(),
            // In the ticks of /proc/uptime, hundredths of a second.
            (None, Some(age)) => format!("~{}", age.as_millis() / 10),
            (None, None) => "-".to_owned(),
        };
        // Writing to a String cannot fail.
        let _ = write!(out, " {} {start} {}", named.pid, named.cookie);
    }
    match request {
        Request::End { grace_ms, .. } => out.push_str(&format!(" {grace_ms}")),
        Request::Signal { number, .. } => out.push_str(&format!(" {number}")),
        _ => {}
    }
    out.push('\n');
    Some(out)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\')
}

/// What the control shell answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is there.
    Pong,
    /// What is alive, what of it is about to end, and what of that writes to the command's output.
    Members {
        /// Everything.
        alive: Vec<u32>,
        /// About to end by itself.
        ending: Vec<u32>,
        /// And writes to the output.
        tails: Vec<u32>,
    },
    /// The ending is done, or nothing was left by itself; this is left.
    Ended {
        /// What could not be ended.
        left: Vec<u32>,
    },
    /// It does not know the request.
    Refused(String),
}

/// Finds answers in what the control shell writes, however it is split.
#[derive(Debug)]
pub struct Answers {
    mark: String,
    pending: Vec<u8>,
}

impl Answers {
    /// Looks for answers with this nonce.
    pub fn new(nonce: &str) -> Self {
        Self { mark: format!("\x1eA {nonce} "), pending: Vec::new() }
    }

    /// Takes bytes; gives the whole answers in them with the ids of their requests.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<(u64, Answer)> {
        self.pending.extend_from_slice(bytes);
        let mut found = Vec::new();
        while let Some(end) = self.pending.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            found.extend(self.parse(&String::from_utf8_lossy(&line)));
        }
        if self.pending.len() > LINE_MAX {
            self.pending.clear();
        }
        found
    }

    fn parse(&self, line: &str) -> Option<(u64, Answer)> {
        let (_, rest) = line.trim_end().split_once(&self.mark)?;
        let mut words = rest.split(' ');
        let id = words.next()?.parse().ok()?;
        let answer = match words.next()? {
            "ok" => Answer::Pong,
            "members" => Answer::Members { alive: pids(words.next()?)?, ending: pids(words.next()?)?, tails: pids(words.next()?)? },
            "ended" => Answer::Ended { left: pids(words.next()?)? },
            "refused" => Answer::Refused(words.next().unwrap_or_default().to_owned()),
            _ => return None,
        };
        Some((id, answer))
    }
}

/// Reads `1,2,3`, or `-` for none.
fn pids(text: &str) -> Option<Vec<u32>> {
    if text == "-" { Some(Vec::new()) } else { text.split(',').map(|p| p.parse().ok()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_single_lines_of_words() {
        let named = Named { pid: 7, start: Some(99), age: None, cookie: "QD_PROCESS=abc" };
        assert_eq!(line(1, &Request::Ping).unwrap(), "1 ping\n");
        assert_eq!(line(2, &Request::Note(named)).unwrap(), "2 note 7 QD_PROCESS=abc\n");
        assert_eq!(line(3, &Request::Forget(7)).unwrap(), "3 forget 7\n");
        assert_eq!(line(4, &Request::Family(Named { start: None, ..named })).unwrap(), "4 family 7 - QD_PROCESS=abc\n");
        let old = Named { start: None, age: Some(Duration::from_millis(12_345)), ..named };
        assert_eq!(line(4, &Request::Family(old)).unwrap(), "4 family 7 ~1234 QD_PROCESS=abc\n");
        assert_eq!(line(5, &Request::End { named, grace_ms: 2000 }).unwrap(), "5 end 7 99 QD_PROCESS=abc 2000\n");
        assert_eq!(line(6, &Request::Signal { named, number: 2 }).unwrap(), "6 signal 7 99 QD_PROCESS=abc 2\n");
        assert_eq!(line(6, &Request::Gone(named)).unwrap(), "6 gone 7 99 QD_PROCESS=abc\n");
        for cookie in ["", "a b", "a\nb", "a\\b", "ä"] {
            assert_eq!(line(7, &Request::Family(Named { cookie, ..named })), None, "{cookie:?}");
        }
    }

    #[test]
    fn answers_survive_any_split_and_need_the_nonce() {
        let text =
            b"noise\n\x1eA 0123 1 ok\n\x1eA 9999 2 ok\n\x1eA 0123 3 members 1,2 2 -\n\x1eA 0123 4 ended -\n\x1eA 0123 5 refused what\nx";
        let expected = vec![
            (1, Answer::Pong),
            (3, Answer::Members { alive: vec![1, 2], ending: vec![2], tails: vec![] }),
            (4, Answer::Ended { left: vec![] }),
            (5, Answer::Refused("what".into())),
        ];
        for cut in 0..text.len() {
            let mut answers = Answers::new("0123");
            let mut found = answers.feed(&text[..cut]);
            found.extend(answers.feed(&text[cut..]));
            assert_eq!(found, expected, "cut at {cut}");
        }
    }

    #[test]
    fn the_scripts_hold_their_values_and_no_comment() {
        for (template, waits) in [(BASH, "nap 30\n"), (SH, "sleep 30\n")] {
            let text = script(template, "0123456789abcdef", 30);
            assert!(!text.contains("@NONCE@") && !text.contains("@LINGER@") && text.contains(waits));
            assert!(text.lines().all(|l| !l.starts_with('#')));
        }
    }
}
