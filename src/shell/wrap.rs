//! What is sent to a shell to run one command: loading the snapshot, the command, saving the state.
//!
//! Invariant: the text of the command is never quoted, rewritten or put into an argument list; it goes to stdin as it is.

use super::options::Options;
use super::quote;
use super::template::{Template, Values};
use std::sync::LazyLock;

static WRAP: LazyLock<Template> = LazyLock::new(|| Template::parse(include_str!("../../assets/wrap.sh")));

/// The name of the variable that marks every child of a command.
pub const COOKIE: &str = "QD_PROCESS";

/// Where a command's snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// In files on the backend: `<prefix>.v` and `<prefix>.f`.
    Files(&'a str),
    /// Nothing is writable there: the text travels with the script.
    Carried {
        /// Variables.
        variables: &'a [u8],
        /// Functions and aliases.
        functions: &'a [u8],
    },
}

/// What is known before the command is: the first stage.
#[derive(Clone, Copy, Debug)]
pub struct First<'a> {
    /// The shell's nonce.
    pub nonce: &'a str,
    /// What to start from.
    pub source: Source<'a>,
    /// Prefix of the files that the command leaves.
    pub leave: &'a str,
    /// Load the snapshot only when the command is there: something in it would break the waiting (a read-only IFS).
    pub late: bool,
    /// The options to set.
    pub options: &'a Options,
    /// The options that the shell starts with.
    pub base: &'a Options,
    /// Names of variables that are never in a snapshot; `*` at the end matches any rest.
    pub transient: &'a [String],
    /// Whether the command's own trap on EXIT needs help ([`needs_shim`]).
    pub shim: bool,
}

/// What comes with the command: the second stage.
#[derive(Clone, Copy, Debug)]
pub struct Second<'a> {
    /// Directory to start in, absolute.
    pub directory: Directory<'a>,
    /// OLDPWD, when there is one.
    pub oldpwd: Option<&'a [u8]>,
    /// Variables for every command: a read-only one stays as it is.
    pub exports: &'a [(&'a str, &'a str)],
    /// Variables for this command alone, after those: where one is read-only nothing runs, and the record is
    /// `readonly NAME`.
    pub given: &'a [(&'a str, &'a str)],
    /// Variables for this command, set only where the name is not set.
    pub defaults: &'a [(&'a str, &'a str)],
    /// Whether stdin follows the command; otherwise it is empty.
    pub stdin: bool,
    /// The file, or FIFO, that is its stdin in place of the shell's own.
    pub input: Option<&'a str>,
    /// The file that its output is appended to, in place of the shell's own stdout.
    pub output: Option<&'a str>,
    /// stderr apart from stdout.
    pub split: bool,
    /// The text.
    pub text: &'a [u8],
}

/// The directory that a command starts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Directory<'a> {
    /// The session's: when it is gone, its nearest ancestor.
    Session(&'a [u8]),
    /// One for this command alone (absolute, or from the home directory as `~` or `~/x`): when it cannot be entered nothing
    /// runs.
    Own(&'a [u8]),
}

/// Tells whether the text sets a trap on EXIT itself.
pub fn needs_shim(text: &str) -> bool {
    let has = |word: &str| text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|w| w == word);
    text.contains("trap")
        && has("trap")
        && (has("EXIT") || has("exit") || has("SIGEXIT") || has("0"))
        && !(has("DEBUG") || has("ERR") || has("RETURN"))
}

/// The first stage for bash: ready to be written to the reader. The shell then waits for the second stage.
pub fn first(f: &First<'_>) -> Vec<u8> {
    let values = values(f);
    let mut setup = WRAP.fill("FIRST", "\n", &values);
    setup.push(b'\n');
    let run = WRAP.fill("RUN", " ", &values);
    framed(&setup, &run)
}

/// Two texts behind their sizes, as the reader of bash wants them.
pub fn framed(one: &[u8], two: &[u8]) -> Vec<u8> {
    let mut out = format!("{} {}\n", one.len(), two.len()).into_bytes();
    out.reserve(one.len() + two.len());
    out.extend_from_slice(one);
    out.extend_from_slice(two);
    out
}

/// The second stage for bash. It must come from the same `First` that the shell got; only the options do not matter any more.
pub fn second(f: &First<'_>, s: &Second<'_>) -> Vec<u8> {
    let mut v = Values::new();
    v.set("NONCE", f.nonce);
    v.set("VARS", if f.late { source_variables(f.source) } else { Vec::new() });
    let (section, dir) = match s.directory {
        Directory::Session(dir) => ("HERE", dir),
        Directory::Own(dir) => ("THERE", dir),
    };
    v.set("DIR", directory(dir));
    v.set("ERRFD", if s.split { "528" } else { "527" });
    v.set("DIRECTORY", WRAP.fill(section, "\n", &v));
    v.set(
        "OLDPWD",
        match s.oldpwd {
            Some(old) => [b"OLDPWD=".as_slice(), &quote::bytes(old)].concat(),
            None => b"builtin unset -v OLDPWD".to_vec(),
        },
    );
    let mut all = Vec::new();
    for assigned in exports(s.exports) {
        all.push(b' ');
        all.extend(assigned);
    }
    v.set("EXPORTS", all);
    let givens = givens(&WRAP, s.given, &mut v);
    v.set("GIVENS", givens);
    v.set("DEFAULTS", defaults(s.defaults, "builtin "));
    v.set("STDIN", redirections(s));
    v.set("ERR", if s.split { "528" } else { "1" });
    v.set("SHIM", Vec::new());
    if f.shim {
        let finish = finish(&mut values(f));
        v.set("FINISH", quote::bytes(&finish));
        v.set("FINISH2", quote::bytes(&quote::bytes(&finish)));
        v.set("SHIM", WRAP.fill("SHIM", "\n", &v));
    }
    let mut enter = WRAP.fill("ENTER", "\n", &v);
    enter.push(b'\n');
    // A size of nothing would be read as no limit by some versions.
    framed(&enter, if s.text.is_empty() { b"\n" } else { s.text })
}

/// Everything that the first stage is filled with.
fn values(f: &First<'_>) -> Values {
    let mut v = Values::new();
    v.set("NONCE", f.nonce);
    v.set("N", quote::text(f.leave));
    v.set("SOURCEV", source_variables(f.source));
    v.set("SOURCEF", source_functions(f.source, f.late));
    v.set("CHECK", Vec::new());
    if let Source::Files(prefix) = f.source {
        v.set("V", quote::text(&format!("{prefix}.v")));
        v.set("F", quote::text(&format!("{prefix}.f")));
        v.set("CHECK", WRAP.fill("CHECK", "\n", &v));
    }
    v.set("LOAD", WRAP.fill("LOAD", if f.late { " " } else { "\n" }, &v));
    v.set("EARLY", if f.late { Vec::new() } else { WRAP.fill("EARLY", "\n", &v) });
    v.set("LATE", if f.late { [WRAP.fill("LOAD", " ", &v), b";".to_vec()].concat() } else { Vec::new() });
    let (early, late) = f.options.commands(f.base);
    v.set("OPTIONS", early);
    v.set("LATEOPTIONS", late);
    v.set("TRANSIENT", transient(f.transient));
    v.set("SHIMMED", if f.shim { WRAP.fill("SHIMMED", " ", &v) } else { Vec::new() });
    v.set("UNSHIM", if f.shim { b"[[ ${__qd_s-} ]] && builtin unset -f trap;".to_vec() } else { Vec::new() });
    v.set("QUIET", WRAP.fill("QUIET", " ", &v));
    v.set("FUNCTIONS", WRAP.fill("FUNCTIONS", " ", &v));
    let variables = variables(&mut v);
    v.set("VARIABLES", variables);
    let keep = if matches!(f.source, Source::Files(_)) { "KEEP" } else { "CARRY" };
    v.set("KEEP", WRAP.fill(keep, " ", &v));
    let finish = finish(&mut v);
    v.set("FINISH", quote::bytes(&finish));
    save(&mut v, ["531", "528", "530", "527"]);
    v
}

/// The text of the EXIT trap.
fn finish(v: &mut Values) -> Vec<u8> {
    save(v, ["528", "531", "527", "530"]);
    WRAP.fill("FINISH", "\n", v)
}

/// Sets what saves the state, with the order in which the places of the record and of the fence are tried.
fn save(v: &mut Values, [record1, record2, fence1, fence2]: [&'static str; 4]) {
    for (name, place) in [("RECORD1", record1), ("RECORD2", record2), ("FENCE1", fence1), ("FENCE2", fence2)] {
        v.set(name, place);
    }
    let text = WRAP.fill("SAVE", " ", v);
    v.set("SAVE", text);
}

fn source_variables(source: Source<'_>) -> Vec<u8> {
    match source {
        Source::Files(prefix) => format!("builtin . {}", quote::text(&format!("{prefix}.v"))).into_bytes(),
        Source::Carried { variables, .. } => variables.to_vec(),
    }
}

/// One line when it is loaded late: it stands before the command in the run line.
fn source_functions(source: Source<'_>, late: bool) -> Vec<u8> {
    match source {
        Source::Files(prefix) => format!("builtin . {} 2>/dev/null;", quote::text(&format!("{prefix}.f"))).into_bytes(),
        Source::Carried { functions, .. } if late => [b"builtin eval ".as_slice(), &quote::one_line(functions), b";"].concat(),
        Source::Carried { functions, .. } => functions.to_vec(),
    }
}

/// A directory as a word; `~` and `~/x` are the home directory of the session.
pub(super) fn directory(dir: &[u8]) -> Vec<u8> {
    match dir {
        b"~" => b"\"$HOME\"".to_vec(),
        [b'~', b'/', rest @ ..] => [b"\"$HOME\"/".as_slice(), &quote::bytes(rest)].concat(),
        _ => quote::bytes(dir),
    }
}

/// Where the command's stdin and stdout are, when they are not the shell's own.
pub(super) fn redirections(s: &Second<'_>) -> String {
    let stdin = match (s.input, s.stdin) {
        (Some(file), _) => format!("0<{}", quote::text(file)),
        (None, true) => String::new(),
        (None, false) => "0</dev/null".to_owned(),
    };
    s.output.map_or_else(|| stdin.clone(), |file| format!("{stdin} 1>>{}", quote::text(file)))
}

/// `NAME=VALUE` for each variable that a shell can have.
pub(super) fn exports<'a>(list: &'a [(&'a str, &'a str)]) -> impl Iterator<Item = Vec<u8>> + 'a {
    list.iter().filter(|(name, _)| is_name(name)).map(|(name, value)| assigned(name, value))
}

fn assigned(name: &str, value: &str) -> Vec<u8> {
    [name.as_bytes(), b"=", &quote::bytes(value.as_bytes())].concat()
}

/// The lines that set what is for one command alone.
pub(super) fn givens(template: &Template, list: &[(&str, &str)], v: &mut Values) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in list.iter().filter(|(name, _)| is_name(name)) {
        v.set("NAME", *name);
        v.set("GIVEN", assigned(name, value));
        out.extend(template.fill("GIVEN", "\n", v));
        out.push(b'\n');
    }
    out
}

/// Exports that hold only where the name is not set; `how` is what makes `export` the builtin.
pub(super) fn defaults(list: &[(&str, &str)], how: &str) -> Vec<u8> {
    let line = |(name, value): &(&str, &str)| {
        let value = quote::text(value);
        format!("case ${{{name}+x}} in x) ;; *) {how}export {name}={value};; esac\n")
    };
    list.iter().filter(|(name, _)| is_name(name)).map(line).collect::<String>().into_bytes()
}

/// The commands that write a bash's state to stdout.
pub(super) struct Dump {
    /// Functions and aliases.
    pub(super) functions: Vec<u8>,
    /// Variables and umask, as a list that fails when it was not written whole.
    pub(super) variables: Vec<u8>,
}

/// Gives the commands that dump a bash.
pub(super) fn dump(nonce: &str) -> Dump {
    let mut v = Values::new();
    v.set("NONCE", nonce);
    v.set("TRANSIENT", COOKIE);
    Dump { functions: WRAP.fill("FUNCTIONS", " ", &v), variables: variables(&mut v) }
}

fn variables(v: &mut Values) -> Vec<u8> {
    let own = WRAP.fill("OWN", " ", v);
    v.set("OWN", own);
    WRAP.fill("VARIABLES", " ", v)
}

/// Words for `unset -v`: plain names and, for a prefix, whatever names there are.
fn transient(names: &[String]) -> Vec<u8> {
    let mut out = COOKIE.to_owned();
    for name in names {
        match name.strip_suffix('*') {
            Some(prefix) if is_name(prefix) => out.push_str(&format!(" \"${{!{prefix}@}}\"")),
            None if is_name(name) => out.push_str(&format!(" {name}")),
            _ => {}
        }
    }
    out.into_bytes()
}

/// Tells whether a word can be the name of a variable.
pub fn is_name(word: &str) -> bool {
    let mut bytes = word.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
