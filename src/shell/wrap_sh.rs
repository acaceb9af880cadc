//! The same as `wrap` and `capture`, for dash and busybox ash: variables, aliases, umask, directory; no functions, no arrays.
//!
//! Invariant: such a shell cannot write what it could read again; what it dumps is made into a snapshot here.

use super::capture::{Captured, environment};
use super::options::Options;
use super::quote;
use super::record::{Parser, Record};
use super::start::any_shell_runs;
use super::state::{Statements, UMASK, plain, value_of, word_end};
use super::template::{Template, Values};
use super::wrap::{COOKIE, Directory, First, Second, Source, defaults, directory, exports, givens, is_name, redirections};
use std::collections::BTreeSet;
use std::sync::LazyLock;

static WRAP: LazyLock<Template> = LazyLock::new(|| Template::parse(include_str!("../../assets/wrap-sh.sh")));
static CAPTURE: LazyLock<Template> = LazyLock::new(|| Template::parse(include_str!("../../assets/capture.sh")));

/// Variables that are the shell's own.
const OWN: [&[u8]; 12] =
    [b"PWD", b"OLDPWD", b"PPID", b"OPTIND", b"_", b"LINENO", b"FUNCNAME", b"PS1", b"PS2", b"PS4", b"EPOCHSECONDS", b"RANDOM"];
/// Options that are kept: `set -a`, `-C`, `-f`.
const KEPT: &str = "aCf";

/// A script behind its size, with the NUL that the reader of sh wants.
pub fn framed(script: &[u8]) -> Vec<u8> {
    let mut out = format!("{}\n", script.len()).into_bytes();
    out.extend_from_slice(script);
    out.push(0);
    out
}

/// The one script that runs a command, ready to be written to the reader.
pub fn script(f: &First<'_>, s: &Second<'_>) -> Vec<u8> {
    let mut v = Values::new();
    v.set("NONCE", f.nonce);
    v.set("N", quote::text(f.leave));
    match f.source {
        Source::Carried { variables, .. } => {
            v.set("CHECK", Vec::new());
            v.set("SOURCEV", variables);
        }
        Source::Files(prefix) => {
            let file = quote::text(&format!("{prefix}.v"));
            v.set("SOURCEV", format!(". {file}"));
            v.set("V", file);
            v.set("CHECK", WRAP.fill("CHECK", "\n", &v));
        }
    }
    let (section, dir) = match s.directory {
        Directory::Session(dir) => ("HERE", dir),
        Directory::Own(dir) => ("THERE", dir),
    };
    v.set("DIR", directory(dir));
    v.set("ERRFD", if s.split { "9" } else { "8" });
    v.set("DIRECTORY", WRAP.fill(section, "\n", &v));
    v.set(
        "OLDPWD",
        match s.oldpwd {
            Some(old) => [b"OLDPWD=".as_slice(), &quote::bytes(old)].concat(),
            None => b"\\unset -v OLDPWD".to_vec(),
        },
    );
    let lines: Vec<Vec<u8>> = exports(s.exports).map(|assigned| [b"\\command \\export ".as_slice(), &assigned].concat()).collect();
    v.set("EXPORTS", lines.join(&b'\n'));
    let givens = givens(&WRAP, s.given, &mut v);
    v.set("GIVENS", givens);
    v.set("DEFAULTS", defaults(s.defaults, "\\command \\"));
    v.set("STDIN", redirections(s));
    v.set("ERR", if s.split { "9" } else { "1" });
    v.set("OPTIONS", options_text(f.options));
    v.set("COMMAND", quote::bytes(s.text));
    // Each for itself: a read-only one ends its command.
    let names = std::iter::once(COOKIE).chain(f.transient.iter().map(String::as_str)).filter(|n| is_name(n));
    v.set("TRANSIENT", names.map(|n| format!("\\command \\unset -v {n}\n")).collect::<String>());
    v.set("DUMP", WRAP.fill("DUMP", "\n", &v));
    let keep = if matches!(f.source, Source::Files(_)) { "KEEP" } else { "CARRY" };
    v.set("KEEP", WRAP.fill(keep, "\n", &v));
    let finish = WRAP.fill("FINISH", "\n", &v);
    v.set("FINISH", quote::bytes(&finish));
    let mut out = WRAP.fill("SCRIPT", "\n", &v);
    out.push(b'\n');
    framed(&out)
}

fn options_text(options: &Options) -> Vec<u8> {
    options.set.iter().map(|letter| format!("\\set -{letter}\n")).collect::<String>().into_bytes()
}

/// Reads `$-`.
pub fn options(letters: &str) -> Options {
    let set: BTreeSet<String> = letters.chars().filter(|c| KEPT.contains(*c)).map(String::from).collect();
    Options { set, shopt: BTreeSet::new() }
}

/// Makes a snapshot of a dump. None when it is not whole.
pub fn snapshot(dump: &[u8]) -> Option<Vec<u8>> {
    let line = dump.iter().position(|b| *b == b'\n')? + 1;
    let blocks = super::functions::split(dump, &dump[..line]);
    let [before, exported, all, readonly, aliases, umask] = blocks.as_slice() else { return None };
    if !before.is_empty() || !dump.starts_with(b"#") {
        return None;
    }
    let keep = |name: &&[u8]| !OWN.contains(name) && !name.starts_with(b"__qd");
    let mut out = Statements::new();
    for (name, statement) in words(all)?.into_iter().chain(words(exported)?).filter(|(name, _)| keep(name)) {
        out.insert(name.to_vec(), statement.to_vec());
    }
    for (name, _) in words(readonly)? {
        if let Some(statement) = out.get_mut(name) {
            statement.extend_from_slice(&[b"; readonly ", name].concat());
        }
    }
    for (name, statement) in words(aliases)? {
        out.insert([b"alias ", name].concat(), [b"alias ", statement].concat());
    }
    out.insert(UMASK.to_vec(), [b"umask ", umask.trim_ascii()].concat());
    Some(super::state::write_variables(&out))
}

/// The words of a list: name and statement.
fn words(block: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut out = Vec::new();
    let mut i = 0;
    while i < block.len() {
        if block[i] == b'\n' {
            i += 1;
            continue;
        }
        let (name, after) = named(block, i);
        let end = word_end(block, after)?;
        out.push((name, &block[i..end]));
        i = end;
    }
    Some(out)
}

/// The name of a statement at `from`, and the index where its word begins.
fn named(text: &[u8], from: usize) -> (&[u8], usize) {
    let skip = [b"export ".as_slice(), b"readonly ", b"alias "].iter().find(|p| text[from..].starts_with(p)).map_or(0, |p| p.len());
    let word = &text[from + skip..];
    let len = word.iter().position(|b| matches!(b, b'=' | b' ' | b'\n' | b';')).unwrap_or(word.len());
    (&word[..len], from + skip)
}

/// Reads a snapshot by name: `NAME`, `alias NAME`, and the umask. None when it does not look like one.
pub fn variables(text: &[u8]) -> Option<Statements> {
    let mut out = Statements::new();
    let mut i = 0;
    while i < text.len() {
        if text[i] == b'\n' {
            i += 1;
            continue;
        }
        let (name, word) = named(text, i);
        let mut end = word_end(text, word)?;
        while text.get(end) == Some(&b' ') {
            // `; readonly NAME` belongs to it.
            end = word_end(text, end + 1)?;
        }
        let statement = &text[i..end];
        let key = match statement {
            s if s.starts_with(b"umask ") => UMASK.to_vec(),
            s if s.starts_with(b"alias ") => [b"alias ", name].concat(),
            _ => name.to_vec(),
        };
        out.insert(key, statement.to_vec());
        i = end;
    }
    Some(out)
}

/// Gives the value of a variable of a snapshot.
pub fn scalar(statements: &Statements, name: &str) -> Option<Vec<u8>> {
    let statement = statements.get(name.as_bytes())?;
    let at = statement.iter().position(|b| *b == b'=')?;
    let word = &statement[at + 1..word_end(statement, at + 1)?];
    // `; readonly NAME` may follow.
    plain(word.strip_suffix(b";").unwrap_or(word))
}

/// Makes the first snapshot of a captured environment.
pub fn first_variables(captured: &Statements) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, statement) in captured {
        if name == UMASK {
            out.extend_from_slice(statement);
        } else {
            out.extend_from_slice(&[b"export ", name.as_slice(), b"=", value_of(statement)].concat());
        }
        out.push(b'\n');
    }
    out
}

/// The script that asks the account's shell for its environment; with `login` off, what a login gives without start files.
pub fn capture_script(login: bool, nonce: &str, id: &str) -> Vec<u8> {
    let mut v = Values::new();
    v.set("NONCE", nonce);
    v.set("COOKIE", format!("{COOKIE}={}", quote::text(id)));
    let ask = CAPTURE.fill("ASK", "\n", &v);
    let who = if login {
        format!("\"${{SHELL:-sh}}\" -l -c {} </dev/null 2>/dev/null", quote::text(&any_shell_runs(&ask)))
    } else {
        String::from_utf8_lossy(&ask).into_owned()
    };
    v.set("WHO", who);
    WRAP.fill("CAPTURE", "\n", &v)
}

/// Reads the answer. None when there is no whole one.
pub fn captured(answer: &[u8], nonce: &str) -> Option<Captured> {
    let (mut records, mut rest) = (Vec::new(), Vec::new());
    let mut parser = Parser::new(nonce);
    parser.feed(answer, &mut records, &mut rest);
    rest.extend(parser.finish());
    let mut out = Captured { variables: environment(&rest, nonce)?, ..Captured::default() };
    for record in records {
        match record {
            Record::Fallback(shell) => out.shell = String::from_utf8_lossy(&shell).into_owned(),
            Record::Started(umask) if !umask.is_empty() && umask.iter().all(u8::is_ascii_digit) => {
                out.variables.insert(UMASK.to_vec(), [b"umask ", umask.as_slice()].concat());
            }
            _ => {}
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "#n\nexport A='one'\nexport B\nexport PWD='/'\n#n\nA='one'\nC='it'\"'\"'s\n2 lines'\nIFS=' \t\n'\nPWD='/'\n__qd_x='1'\n#n\n\
                        readonly C='it'\"'\"'s\n2 lines'\n#n\nll='ls -l'\n#n\n0022\n";

    #[test]
    fn a_dump_becomes_a_snapshot_that_reads_back() {
        let text = snapshot(DUMP.as_bytes()).unwrap();
        let v = variables(&text).unwrap();
        let names: Vec<_> = v.keys().map(|k| String::from_utf8_lossy(k).into_owned()).collect();
        assert_eq!(names, [" umask", "A", "B", "C", "IFS", "alias ll"]);
        assert_eq!(v[b"C".as_slice()], b"C='it'\"'\"'s\n2 lines'; readonly C");
        assert_eq!((scalar(&v, "C").unwrap(), scalar(&v, "B")), (b"it's\n2 lines".to_vec(), None));
        assert_eq!(super::super::state::write_variables(&v), text);
        assert_eq!(snapshot(&DUMP.as_bytes()[..60]), None);
    }

    #[test]
    fn only_some_options_are_kept() {
        assert_eq!(options("eCfx").set, BTreeSet::from(["C".to_owned(), "f".to_owned()]));
    }
}
