//! The state that a command leaves, as statements by name: read, compared, merged and written again.
//!
//! Invariant: a statement is opaque text that a shell wrote and a shell will read; it is never evaluated or changed here, so
//! equal text means an unchanged value.

use std::collections::BTreeMap;

/// Statements by name. Names carry a space in front where they are no variable's (` umask`).
pub type Statements = BTreeMap<Vec<u8>, Vec<u8>>;

/// The key of the umask among the variables.
pub const UMASK: &[u8] = b" umask";

/// Variables that a shell sets itself and that a dump cannot leave out.
const VOLATILE: [&[u8]; 18] = [
    b"BASHOPTS",
    b"BASH_VERSINFO",
    b"EUID",
    b"PPID",
    b"SHELLOPTS",
    b"UID",
    b"PWD",
    b"OLDPWD",
    b"BASH_ARGC",
    b"BASH_ARGV",
    b"BASH_LINENO",
    b"BASH_SOURCE",
    b"BASH_CMDS",
    b"BASH_ALIASES",
    b"GROUPS",
    b"SRANDOM",
    b"PIPESTATUS",
    b"_",
];

/// Gives the index after one shell word that starts at `from`, as `declare -p` and `printf %q` write it. None when the text
/// ends inside the word.
pub(super) fn word_end(text: &[u8], from: usize) -> Option<usize> {
    let mut i = from;
    let mut depth = 0_usize;
    while let Some(&c) = text.get(i) {
        match c {
            b'\\' => i += 2,
            b'$' if text.get(i + 1) == Some(&b'\'') => i = after_quoted(text, i + 2, b'\'')?,
            b'\'' => i = text[i + 1..].iter().position(|b| *b == b'\'')? + i + 2,
            b'"' => i = after_quoted(text, i + 1, b'"')?,
            b'(' => {
                depth += 1;
                i += 1;
            }
            b')' => {
                depth = depth.saturating_sub(1);
                i += 1;
            }
            b' ' | b'\n' if depth == 0 => return Some(i),
            _ => i += 1,
        }
    }
    (depth == 0 && i == text.len()).then_some(i)
}

/// Gives the index after the closing quote, backslashes skipped.
fn after_quoted(text: &[u8], from: usize, quote: u8) -> Option<usize> {
    let mut i = from;
    loop {
        match text.get(i)? {
            b'\\' => i += 2,
            c if *c == quote => return Some(i + 1),
            _ => i += 1,
        }
    }
}

/// Reads a dump of variables (`declare -p; umask -p`). None when it does not look like one.
pub fn variables(text: &[u8]) -> Option<Statements> {
    let mut out = Statements::new();
    let mut i = 0;
    while i < text.len() {
        if text[i] == b'\n' {
            i += 1;
            continue;
        }
        let line_end = text[i..].iter().position(|b| *b == b'\n').map_or(text.len(), |n| i + n);
        if let Some((name, after)) = declared(text, i) {
            let end = word_end(text, after)?;
            if !VOLATILE.contains(&name) {
                out.insert(name.to_vec(), text[i..end].to_vec());
            }
            i = end;
        } else if text[i..].starts_with(b"umask") {
            out.insert(UMASK.to_vec(), text[i..line_end].to_vec());
            i = line_end;
        } else {
            return None;
        }
    }
    Some(out)
}

/// Reads `declare FLAGS NAME` at `from`: the name and the index after it.
fn declared(text: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let rest = text.get(from..)?.strip_prefix(b"declare ")?;
    let flags = rest.iter().position(|b| *b == b' ')?;
    let name = &rest[flags + 1..];
    let len = name.iter().position(|b| !(b.is_ascii_alphanumeric() || *b == b'_')).unwrap_or(name.len());
    (flags > 0 && len > 0).then(|| (&name[..len], from + b"declare ".len() + flags + 1 + len))
}

/// Writes variables as a shell sources them.
pub fn write_variables(statements: &Statements) -> Vec<u8> {
    let mut out = Vec::new();
    for statement in statements.values() {
        out.extend_from_slice(statement);
        out.push(b'\n');
    }
    out
}

/// Takes the statement apart for a person: what stands after the name, as the shell wrote it.
pub fn value_of(statement: &[u8]) -> &[u8] {
    declared(statement, 0).map_or(statement, |(_, after)| statement[after..].strip_prefix(b"=").unwrap_or_default())
}

/// Gives the value of a scalar variable as text, when the dump holds one in a form that needs no shell to read.
pub fn scalar(statements: &Statements, name: &str) -> Option<Vec<u8>> {
    plain(value_of(statements.get(name.as_bytes())?))
}

/// Undoes the quoting of a scalar. None for what only a shell can read.
pub fn plain(word: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut i = 0;
    while let Some(&c) = word.get(i) {
        match c {
            b'"' => {
                i += 1;
                while *word.get(i)? != b'"' {
                    if word[i] == b'\\' && word.get(i + 1).is_some_and(|b| b"\\\"$`".contains(b)) {
                        i += 1;
                    }
                    out.push(*word.get(i)?);
                    i += 1;
                }
                i += 1;
            }
            b'\'' => {
                let len = word[i + 1..].iter().position(|b| *b == b'\'')?;
                out.extend_from_slice(&word[i + 1..i + 1 + len]);
                i += len + 2;
            }
            b'\\' => {
                out.push(*word.get(i + 1)?);
                i += 2;
            }
            b'$' | b'(' | b' ' | b'`' => return None,
            _ => {
                out.push(c);
                i += 1;
            }
        }
    }
    Some(out)
}

/// Merges what changed between `base` and `new` into `current`: by name, the new value wins. Gives the names that both
/// changed, differently.
pub fn merge(base: &Statements, new: &Statements, current: &Statements) -> (Statements, Vec<Vec<u8>>) {
    let mut out = current.clone();
    let mut conflicts = Vec::new();
    let names = base.keys().chain(new.keys().filter(|k| !base.contains_key(*k)));
    for name in names {
        let (b, n, c) = (base.get(name), new.get(name), current.get(name));
        if same(b, n) {
            continue;
        }
        if !same(c, b) && !same(c, n) {
            conflicts.push(name.clone());
        }
        match n {
            Some(statement) => {
                out.insert(name.clone(), statement.clone());
            }
            None => {
                out.remove(name);
            }
        }
    }
    (out, conflicts)
}

/// Puts the statements of `names` back to what they are in `from`.
pub fn restore(statements: &mut Statements, from: &Statements, names: impl IntoIterator<Item = impl AsRef<[u8]>>) {
    for name in names {
        let name = name.as_ref();
        match from.get(name) {
            Some(statement) => statements.insert(name.to_vec(), statement.clone()),
            None => statements.remove(name),
        };
    }
}

fn same(a: Option<&Vec<u8>>, b: Option<&Vec<u8>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a == b || sorted_array(a).is_some_and(|x| Some(x) == sorted_array(b)),
        (None, None) => true,
        _ => false,
    }
}

/// The elements of an associative array in a fixed order: they come in the order of a hash, which a reload can change.
fn sorted_array(statement: &[u8]) -> Option<(Vec<u8>, Vec<&[u8]>)> {
    let flags = statement.strip_prefix(b"declare ")?;
    let flags = &flags[..flags.iter().position(|b| *b == b' ')?];
    if !flags.contains(&b'A') {
        return None;
    }
    let (_, after) = declared(statement, 0)?;
    let body = statement[after..].strip_prefix(b"=(")?.strip_suffix(b")")?;
    let mut items = Vec::new();
    let mut i = 0;
    while i < body.len() {
        if body[i] == b' ' {
            i += 1;
            continue;
        }
        let end = word_end(body, i)?;
        items.push(&body[i..end]);
        i = end;
    }
    items.sort_unstable();
    Some((statement[..after].to_vec(), items))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &[u8] =
        b"declare -x A=\"one \\\"two\\\" \\$x\"\ndeclare -a B=([0]=\"x\" [1]=\"y z\n)\")\ndeclare -A M=([b]=\"2\" [a]=\"1\" )\n\
        declare -- C=$'tab\\t\\'q\\n'\ndeclare -x EMPTY\ndeclare -n r=\"M\"\ndeclare -ir PPID=\"7\"\ndeclare -x PWD=\"/\"\numask 0022\n";

    fn read(text: &str) -> Statements {
        variables(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_dump_is_read_by_name_and_written_back() {
        let v = variables(DUMP).unwrap();
        let names: Vec<String> = v.keys().map(|k| String::from_utf8_lossy(k).into_owned()).collect();
        assert_eq!(names, [" umask", "A", "B", "C", "EMPTY", "M", "r"]);
        assert_eq!(variables(&write_variables(&v)).unwrap(), v);
        assert_eq!(scalar(&v, "A").unwrap(), b"one \"two\" $x");
        assert_eq!(scalar(&v, "B"), None);
        assert_eq!(scalar(&v, "EMPTY").unwrap(), b"");
        assert_eq!(value_of(&v[b"r".as_slice()]), b"\"M\"");
    }

    #[test]
    fn a_dump_that_was_cut_off_is_not_taken() {
        for cut in [DUMP.len() - 60, 20, 40] {
            let text = &DUMP[..cut];
            assert!(variables(text).is_none_or(|v| v.len() < 7), "cut at {cut}");
        }
        assert!(variables(b"declare -x A=\"one").is_none());
        assert!(variables(b"rubbish\n").is_none());
    }

    #[test]
    fn the_newest_change_of_a_name_wins_and_is_told() {
        let base = read("declare -x A=\"0\"\ndeclare -x B=\"0\"\ndeclare -x GONE=\"1\"\n");
        let current = read("declare -x A=\"1\"\ndeclare -x B=\"1\"\ndeclare -x GONE=\"1\"\ndeclare -x FAST=\"1\"\n");
        let new = read("declare -x A=\"0\"\ndeclare -x B=\"2\"\ndeclare -x SLOW=\"1\"\n");
        let (merged, conflicts) = merge(&base, &new, &current);
        assert_eq!(merged, read("declare -x A=\"1\"\ndeclare -x B=\"2\"\ndeclare -x FAST=\"1\"\ndeclare -x SLOW=\"1\"\n"));
        assert_eq!(conflicts, [b"B".to_vec()]);
    }

    #[test]
    fn the_order_of_an_associative_array_means_nothing() {
        let base = read("declare -A M=([a]=\"1\" [b]=\"2\" )\n");
        let new = read("declare -A M=([b]=\"2\" [a]=\"1\" )\n");
        let current = read("declare -A M=([a]=\"9\" )\n");
        assert_eq!(merge(&base, &new, &current), (current.clone(), Vec::new()));
    }

    #[test]
    fn names_are_put_back() {
        let base = read("declare -x A=\"0\"\n");
        let mut now = read("declare -x A=\"1\"\ndeclare -x B=\"1\"\ndeclare -x C=\"1\"\n");
        restore(&mut now, &base, ["A", "B"]);
        assert_eq!(now, read("declare -x A=\"0\"\ndeclare -x C=\"1\"\n"));
    }
}
