//! Capturing the login environment: what is asked of the login shell, and what its answer holds.
//!
//! Invariant: only what stands between our own marks is taken; whatever start files print is ignored.

use super::functions;
use super::options::Options;
use super::quote;
use super::record::{Parser, Record};
use super::start::any_shell_runs;
use super::state::{self, Statements};
use super::template::{Template, Values};
use super::wrap::{self, COOKIE};
use std::sync::LazyLock;

static CAPTURE: LazyLock<Template> = LazyLock::new(|| Template::parse(include_str!("../../assets/capture.sh")));

/// What a login gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The variables.
    pub variables: Statements,
    /// Functions and aliases.
    pub functions: Statements,
    /// The options that are on.
    pub options: Options,
    /// The options of a plain shell.
    pub base: Options,
    /// SHELL as the login gave it.
    pub shell: String,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask<'a> {
    /// This bash, as a login shell: everything.
    Bash(&'a str),
    /// The account's own shell, as a login shell: its environment.
    Account,
    /// Nobody: what a login gives before any start file.
    Plain,
}

/// The script for a bash that was started with what a login gives. `id` is the cookie's value.
pub fn script(ask: Ask<'_>, nonce: &str, id: &str) -> Vec<u8> {
    let mut v = Values::new();
    v.set("NONCE", nonce);
    v.set("COOKIE", format!("{COOKIE}={}", quote::text(id)));
    let dump = wrap::dump(nonce);
    v.set("FUNCTIONS", dump.functions);
    v.set("VARIABLES", dump.variables);
    let text = CAPTURE.fill("DUMP", "\n", &v);
    v.set("DUMP", quote::bytes(&text));
    let section = match ask {
        Ask::Bash(program) => {
            v.set("PROGRAM", quote::text(program));
            "BASH"
        }
        Ask::Account => {
            let text = CAPTURE.fill("ASK", "\n", &v);
            v.set("ASK", quote::text(&any_shell_runs(&text)));
            "OTHER"
        }
        Ask::Plain => "PLAIN",
    };
    let mut out = CAPTURE.fill("BASE", "\n", &v);
    out.push(b'\n');
    out.extend(CAPTURE.fill(section, "\n", &v));
    out.extend_from_slice(b"\nexit 0\n");
    out
}

/// Reads the answer. None when the one who was asked gave none, or not a whole one.
pub fn read(ask: Ask<'_>, answer: &[u8], nonce: &str) -> Option<Captured> {
    let (mut records, mut rest) = (Vec::new(), Vec::new());
    let mut parser = Parser::new(nonce);
    parser.feed(answer, &mut records, &mut rest);
    rest.extend(parser.finish());
    let mut texts = Vec::new();
    let mut out = Captured::default();
    let (mut has_variables, mut has_functions) = (false, false);
    for record in records {
        match record {
            Record::Started(text) => texts.push(String::from_utf8_lossy(&text).into_owned()),
            Record::Fallback(shell) => out.shell = String::from_utf8_lossy(&shell).into_owned(),
            Record::Functions(text) => {
                out.functions = functions::read(&text)?;
                has_functions = true;
            }
            Record::Variables(text) => {
                out.variables = state::variables(&text)?;
                has_variables = true;
            }
            _ => {}
        }
    }
    let [set, shopt, own @ ..] = texts.as_slice() else { return None };
    out.base = Options::read(set, shopt);
    out.options = match own {
        [set, shopt, ..] => Options::read(set, shopt),
        _ => out.base.clone(),
    };
    out.options.shopt.insert("expand_aliases".to_owned());
    if ask == Ask::Account {
        out.variables = environment(&rest, nonce)?;
        return Some(out);
    }
    functions::without_helpers(&mut out.functions);
    (has_variables && has_functions).then_some(out)
}

/// The environment between two marks, as statements. Names that no shell variable can have are left out.
pub(super) fn environment(answer: &[u8], nonce: &str) -> Option<Statements> {
    const OWN: [&str; 6] = ["_", "PWD", "OLDPWD", "SHLVL", "SHELLOPTS", COOKIE];
    let mark = format!("\x1eW{nonce}").into_bytes();
    let find = |text: &[u8]| text.windows(mark.len()).position(|w| w == mark);
    let from = find(answer)? + mark.len();
    let text = &answer[from..from + find(&answer[from..])?];
    let mut out = Statements::new();
    for pair in text.split(|b| *b == 0) {
        let Some(at) = pair.iter().position(|b| *b == b'=') else { continue };
        let Ok(name) = std::str::from_utf8(&pair[..at]) else { continue };
        if wrap::is_name(name) && !OWN.contains(&name) {
            out.insert(name.as_bytes().to_vec(), exported(name, &pair[at + 1..]));
        }
    }
    Some(out)
}

/// The statement that exports a variable.
pub fn exported(name: &str, value: &[u8]) -> Vec<u8> {
    [b"declare -x ", name.as_bytes(), b"=", &quote::bytes(value)].concat()
}

/// What every shell has beside the environment, as a session starts with it.
pub fn plain_variables() -> Statements {
    let text =
        b"declare -- IFS=$' \\t\\n'\ndeclare -- OPTERR=\"1\"\ndeclare -i OPTIND=\"1\"\ndeclare -- PS4=\"+ \"\ndeclare -x SHLVL=\"1\"\n\
                 umask 0022\n";
    state::variables(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "0123456789abcdef";

    #[test]
    fn an_environment_is_taken_from_between_the_marks() {
        let base = format!("Welcome\n\x1eS{NONCE}\0hashall\0\x1eS{NONCE}\0progcomp\0\x1eD{NONCE}\0/bin/zsh\0");
        let env = format!("noise\x1eW{NONCE}HOME=/h\0A=b=c\0BASH_FUNC_x%%=() {{ :; }}\0_=x\0M=one\ntwo's\0\x1eW{NONCE}");
        let got = read(Ask::Account, format!("{base}{env}").as_bytes(), NONCE).unwrap();
        assert_eq!(got.shell, "/bin/zsh");
        let names: Vec<_> = got.variables.keys().map(|k| String::from_utf8_lossy(k).into_owned()).collect();
        assert_eq!(names, ["A", "HOME", "M"]);
        assert_eq!(state::scalar(&got.variables, "M").unwrap(), b"one\ntwo's");
        assert_eq!(got.variables[b"M".as_slice()], b"declare -x M='one\ntwo'\\''s'");
        let half = format!("{base}noise\x1eW{NONCE}HOME=/h\0");
        assert_eq!(read(Ask::Account, half.as_bytes(), NONCE), None);
    }

    #[test]
    fn half_a_dump_is_none() {
        let base = format!("\x1eS{NONCE}\0hashall\0\x1eS{NONCE}\0progcomp\0\x1eD{NONCE}\0/bin/bash\0");
        assert_eq!(read(Ask::Bash("bash"), base.as_bytes(), NONCE), None);
    }
}
