//! What an expected non-zero exit code means.
//!
//! Invariant: it fails open: where it is not certain which command gave the code, or what the code means, nothing is said.

/// Explains a code of the text's last command. None when there is nothing certain to say.
pub fn explain(text: &str, code: i32) -> Option<String> {
    if code == 0 {
        return None;
    }
    by_command(text, code).or_else(|| by_code(code).map(str::to_owned))
}

/// What shells themselves mean by a code.
fn by_code(code: i32) -> Option<&'static str> {
    Some(match code {
        126 => "found, but it could not be run (permission, or not a program)",
        127 => "command not found",
        129 => "ended by SIGHUP",
        130 => "ended by SIGINT (interrupted)",
        131 => "ended by SIGQUIT",
        132 => "ended by SIGILL (illegal instruction)",
        134 => "ended by SIGABRT (aborted)",
        135 => "ended by SIGBUS",
        136 => "ended by SIGFPE (arithmetic error)",
        137 => "ended by SIGKILL (killed; often out of memory)",
        139 => "ended by SIGSEGV (memory fault)",
        141 => "ended by SIGPIPE (its reader had gone)",
        143 => "ended by SIGTERM",
        _ => return None,
    })
}

fn by_command(text: &str, code: i32) -> Option<String> {
    let commands = commands(text)?;
    let (last, before) = commands.split_last()?;
    // After `&&` the code may be an earlier command's: only what hardly ever fails may stand there.
    let certain = before.iter().rev().take_while(|c| c.then == Joint::And).all(|c| SAFE_BEFORE.contains(&c.program()));
    if !certain {
        return None;
    }
    Some(format!("{}: {}", last.program(), meaning(&last.words, code)?))
}

/// Commands whose failure is not to be expected with the code of another.
const SAFE_BEFORE: [&str; 13] = ["cd", "echo", "printf", "export", "true", ":", "pushd", "popd", "umask", "mkdir", "sleep", "set", "shopt"];

fn meaning(words: &[String], code: i32) -> Option<&'static str> {
    let program = program(words)?;
    let arguments = &words[words.iter().position(|w| w.rsplit('/').next() == Some(program))? + 1..];
    let first = arguments.iter().find(|a| !a.starts_with('-')).map(String::as_str);
    Some(match (program, code) {
        ("grep" | "egrep" | "fgrep" | "rg" | "ag" | "zgrep", 1) => "no lines matched (not an error)",
        ("diff" | "colordiff" | "zdiff" | "sdiff" | "diff3", 1) => "the files differ (not an error)",
        ("cmp", 1) => "the files differ (not an error)",
        ("test" | "[" | "[[", 1) => "the condition is false (not an error)",
        ("find", 1) => "some places could not be read; the others were searched",
        ("pgrep" | "pidof", 1) => "no process matched (not an error)",
        ("pkill" | "killall", 1) => "no process matched",
        ("which" | "type" | "command" | "hash", 1) => "no such command (not an error)",
        ("expr", 1) => "the result is null or 0 (not an error)",
        ("let" | "((", 1) => "the value is 0 (not an error)",
        ("false", 1) => "that is what false does (not an error)",
        ("timeout", 124) => "the time limit of `timeout` was reached",
        ("read", 1) => "the end of the input was reached",
        ("systemctl", 3) if first == Some("status") || first == Some("is-active") => "the unit is not active",
        ("git", 1) if matches!(first, Some("diff" | "grep" | "merge-base" | "check-ignore" | "config" | "show-ref")) => git(first?),
        ("curl", code) => return curl(code),
        _ => return None,
    })
}

fn git(subcommand: &str) -> &'static str {
    match subcommand {
        "diff" => "there are differences (not an error)",
        "grep" => "no lines matched (not an error)",
        "merge-base" => "no common ancestor, or not an ancestor (not an error)",
        "check-ignore" => "none of the paths is ignored (not an error)",
        "config" => "the key is not set (not an error)",
        _ => "no such reference (not an error)",
    }
}

fn curl(code: i32) -> Option<&'static str> {
    Some(match code {
        3 => "the URL is malformed",
        5 => "the proxy's name could not be resolved",
        6 => "the host's name could not be resolved",
        7 => "the connection was refused or the host not reached",
        22 => "the server answered with an HTTP error (with --fail)",
        23 => "the output could not be written",
        26 => "a local file could not be read",
        28 => "the operation took longer than its limit",
        35 => "the TLS handshake failed",
        47 => "too many redirects",
        51 | 60 => "the server's certificate could not be verified",
        52 => "the server answered with nothing",
        56 => "receiving failed: the connection broke",
        _ => return None,
    })
}

/// How a command is joined to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joint {
    And,
    Other,
}

#[derive(Debug)]
struct Command {
    words: Vec<String>,
    then: Joint,
}

impl Command {
    fn program(&self) -> &str {
        program(&self.words).unwrap_or_default()
    }
}

/// The program of a simple command: what comes after assignments and after words that only change how it runs.
fn program(words: &[String]) -> Option<&str> {
    let mut rest = words.iter();
    loop {
        let word = rest.next()?;
        let assignment = word.split_once('=').is_some_and(|(name, _)| super::wrap::is_name(name));
        let plain = rest.as_slice().first().is_some_and(|next| !next.starts_with('-'));
        if assignment || word == "!" || (["command", "nohup", "sudo", "env", "exec", "time", "builtin"].contains(&word.as_str()) && plain) {
            // `!` turns the code around: nothing is certain then.
            if word == "!" {
                return None;
            }
            continue;
        }
        return word.rsplit('/').next();
    }
}

/// Splits a text into its simple commands. None when it holds anything beyond lists and pipes of simple commands.
fn commands(text: &str) -> Option<Vec<Command>> {
    const COMPOUND: [&str; 18] = [
        "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function", "{", "}",
        "coproc", "trap",
    ];
    let mut out: Vec<Command> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    for token in tokens(text)? {
        match token {
            Token::Word(word) => {
                if words.is_empty() && COMPOUND.contains(&word.as_str()) {
                    return None;
                }
                words.push(word);
            }
            Token::Joint(then) => {
                if !words.is_empty() {
                    out.push(Command { words: std::mem::take(&mut words), then });
                } else if let Some(last) = out.last_mut().filter(|c| c.then == Joint::And && then == Joint::And) {
                    last.then = then;
                }
            }
        }
    }
    if !words.is_empty() {
        out.push(Command { words, then: Joint::Other });
    }
    Some(out)
}

enum Token {
    Word(String),
    Joint(Joint),
}

/// Reads words and operators. None at what this does not understand: here-documents, substitutions, subshells, open quotes.
fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut out = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars().peekable();
    let mut skip_next = false;
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => end_word(&mut out, &mut word, &mut skip_next),
            '\n' | ';' => {
                end_word(&mut out, &mut word, &mut skip_next);
                out.push(Token::Joint(Joint::Other));
            }
            '&' | '|' => {
                if c == '&' && (chars.peek() == Some(&'>') || word.as_deref().is_some_and(|w| w.ends_with('>'))) {
                    word.get_or_insert_default().push(c);
                    continue;
                }
                end_word(&mut out, &mut word, &mut skip_next);
                let double = chars.next_if_eq(&c).is_some();
                // A background job says nothing of its code; the shell's is 0 then.
                out.push(Token::Joint(if double && c == '&' { Joint::And } else { Joint::Other }));
            }
            '>' | '<' => {
                if c == '<' && chars.peek() == Some(&'<') || chars.peek() == Some(&'(') {
                    return None;
                }
                redirection(&mut out, &mut word, &mut skip_next);
                while chars.next_if(|n| matches!(n, '>' | '&' | '|')).is_some() {}
                skip_next = true;
            }
            '\'' => {
                let into = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        c => into.push(c),
                    }
                }
            }
            '"' => quoted(&mut chars, word.get_or_insert_default())?,
            '\\' => match chars.next()? {
                '\n' => {}
                c => word.get_or_insert_default().push(c),
            },
            '#' if word.is_none() => while chars.next_if(|n| *n != '\n').is_some() {},
            '`' => return None,
            '$' if matches!(chars.peek(), Some('(' | '{' | '\'' | '"')) => return None,
            '(' | ')' => return None,
            c => word.get_or_insert_default().push(c),
        }
    }
    end_word(&mut out, &mut word, &mut skip_next);
    Some(out)
}

/// Reads up to the closing double quote. None where a command is substituted.
fn quoted(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, into: &mut String) -> Option<()> {
    loop {
        match chars.next()? {
            '"' => return Some(()),
            '`' => return None,
            '$' if chars.peek() == Some(&'(') => return None,
            '\\' => into.push(chars.next()?),
            c => into.push(c),
        }
    }
}

fn end_word(out: &mut Vec<Token>, word: &mut Option<String>, skip: &mut bool) {
    if let Some(word) = word.take() {
        // The target of a redirection is no word of the command.
        if std::mem::take(skip) {
            return;
        }
        out.push(Token::Word(word));
    }
}

/// A number right before `>` is a descriptor, not a word.
fn redirection(out: &mut Vec<Token>, word: &mut Option<String>, skip: &mut bool) {
    if word.as_deref().is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit()) || w == "&") {
        *word = None;
    }
    end_word(out, word, skip);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_explained_where_they_are_certain() {
        let yes = [
            ("grep nosuchstring /dev/null", 1, "no lines matched"),
            ("cd / && diff /etc/passwd /etc/group >/dev/null", 1, "differ"),
            ("cat x | grep -q y", 1, "no lines matched"),
            ("make; grep x y 2>&1", 1, "no lines matched"),
            ("LC_ALL=C /usr/bin/grep x y", 1, "no lines matched"),
            ("sudo grep 'a; b' y", 1, "no lines matched"),
            ("[ -e /nonexistent ]", 1, "condition"),
            ("[[ $a == b ]]", 1, "condition"),
            ("test -f x", 1, "condition"),
            ("cmp a b", 1, "differ"),
            ("curl -s http://x", 7, "refused"),
            ("timeout 5 make", 124, "limit"),
            ("git diff --exit-code", 1, "differences"),
            ("nosuch", 127, "not found"),
            ("echo x | (nosuch)", 127, "not found"),
            ("./prog", 139, "SIGSEGV"),
        ];
        for (text, code, part) in yes {
            let said = explain(text, code);
            assert!(said.as_deref().is_some_and(|s| s.contains(part)), "{text} {code}: {said:?}");
        }
    }

    #[test]
    fn nothing_is_said_where_it_is_not_certain() {
        let no = [
            ("git commit -m 'a; b' 2>/dev/null; sh -c 'exit 9'", 9),
            ("npm test && diff a b", 1),
            ("echo grep", 1),
            ("grep x y; make", 1),
            ("grep x y", 2),
            ("if grep x y; then exit 1; fi", 1),
            ("x=$(grep y z)", 1),
            ("cat <<E\ngrep\nE", 1),
            ("! grep x y", 1),
            ("echo 'open", 1),
            ("make # && grep x", 1),
            ("echo x > grep", 1),
            ("", 1),
            ("grep x y", 0),
        ];
        for (text, code) in no {
            assert_eq!(explain(text, code), None, "{text}");
        }
    }
}
