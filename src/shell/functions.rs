//! Functions and aliases of a dump, by name.
//!
//! Invariant: a function's text is found by the names that the shell itself listed; where that is not beyond doubt the
//! functions are one statement together, so that none is ever cut or mixed.

use super::state::Statements;

/// The key under which functions stand that could not be told apart.
const TOGETHER: &[u8] = b"f";

/// What opens the list of names, which is never run.
const LIST: &[u8] = b"if [[ \"\" ]]; then : <<";

/// Reads a dump of functions and aliases. None when it does not look like one. Keys are `f NAME` and `a NAME`.
pub fn read(text: &[u8]) -> Option<Statements> {
    let mut out = Statements::new();
    if text.is_empty() {
        return Some(out);
    }
    let line = text.iter().position(|b| *b == b'\n')? + 1;
    let blocks = split(text, &text[..line]);
    let [before, bodies, last, _end] = blocks.as_slice() else { return None };
    if !before.is_empty() {
        return None;
    }
    let list = find(last, LIST)?;
    let (aliases, names) = (&last[..list], &last[list..]);
    let names = &names[names.iter().position(|b| *b == b'\n')? + 1..];
    let names: Vec<&[u8]> = names.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(listed).collect::<Option<_>>()?;
    match parts(bodies, &names) {
        Some(parts) => out.extend(names.iter().zip(parts).map(|(name, body)| ([b"f ", *name].concat(), body.to_vec()))),
        None => {
            out.insert(TOGETHER.to_vec(), bodies.to_vec());
        }
    }
    for line in aliases.split(|b| *b == b'\n').filter(|l| l.starts_with(b"BASH_ALIASES[")) {
        let name = &line[..line.iter().position(|b| *b == b']')?];
        out.insert([b"a ", &name[b"BASH_ALIASES[".len()..]].concat(), [line, b"\n"].concat());
    }
    Some(out)
}

/// Writes functions and aliases as a shell sources them and [`read`] reads them. The nonce must be in none of them.
pub fn write(statements: &Statements, nonce: &str) -> Vec<u8> {
    let mark = format!("#{nonce}\n").into_bytes();
    let mut out = mark.clone();
    out.extend_from_slice(statements.get(TOGETHER).map(Vec::as_slice).unwrap_or_default());
    let all = |prefix: &'static [u8]| statements.iter().filter_map(move |(key, text)| key.strip_prefix(prefix).map(|name| (name, text)));
    all(b"f ").for_each(|(_, body)| out.extend_from_slice(body));
    out.extend_from_slice(&mark);
    all(b"a ").for_each(|(_, line)| out.extend_from_slice(line));
    out.extend_from_slice(format!("if [[ \"\" ]]; then : <<\"#{nonce}\"\n").as_bytes());
    all(b"f ").for_each(|(name, _)| out.extend_from_slice(&[b"declare -f ", name, b"\n"].concat()));
    out.extend_from_slice(&mark);
    out.extend_from_slice(b"fi\n");
    out
}

/// The names of the functions, for a person.
pub fn names(statements: &Statements) -> Vec<String> {
    statements.keys().filter_map(|k| k.strip_prefix(b"f ")).map(|n| String::from_utf8_lossy(n).into_owned()).collect()
}

/// The aliases, for a person: name and text as the shell quotes it.
pub fn aliases(statements: &Statements) -> Vec<(String, String)> {
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    statements
        .iter()
        .filter_map(|(key, line)| {
            let name = key.strip_prefix(b"a ")?;
            let value = line.iter().position(|b| *b == b'=').map(|at| &line[at + 1..])?;
            Some((text(name), text(value).trim_end().to_owned()))
        })
        .collect()
}

/// Leaves out functions whose names start with one underscore: helpers of completions and prompts.
pub fn without_helpers(statements: &mut Statements) {
    statements.retain(|key, _| {
        let name = key.strip_prefix(b"f ").unwrap_or_default();
        !(name.len() > 1 && name[0] == b'_' && name[1] != b'_')
    });
}

/// The name in a line of `declare -F`.
fn listed(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"declare -f")?;
    rest.iter().position(|b| *b == b' ').map(|at| &rest[at + 1..])
}

/// Splits at lines that are the mark.
pub(super) fn split<'a>(text: &'a [u8], mark: &[u8]) -> Vec<&'a [u8]> {
    let mut out = Vec::new();
    let (mut from, mut line) = (0, 0);
    while line < text.len() {
        let end = text[line..].iter().position(|b| *b == b'\n').map_or(text.len(), |n| line + n + 1);
        if &text[line..end] == mark {
            out.push(&text[from..line]);
            from = end;
        }
        line = end;
    }
    out.push(&text[from..]);
    out
}

/// Finds where each function begins: its header `NAME () `, at the start or after the end of another function.
fn parts<'a>(bodies: &'a [u8], names: &[&[u8]]) -> Option<Vec<&'a [u8]>> {
    let mut starts = Vec::with_capacity(names.len());
    for name in names {
        let header = [*name, b" () \n"].concat();
        let mut found = heads(bodies, &header);
        let at = found.next()?;
        if found.next().is_some() || starts.last().is_some_and(|last| *last >= at) {
            return None;
        }
        starts.push(at);
    }
    if starts.first().is_some_and(|at| *at != 0) || (starts.is_empty() && !bodies.is_empty()) {
        return None;
    }
    let ends = starts.iter().skip(1).copied().chain([bodies.len()]);
    Some(starts.iter().zip(ends).map(|(from, to)| &bodies[*from..to]).collect())
}

/// The places where a header stands as the first line of a function.
fn heads<'a>(bodies: &'a [u8], header: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        while let Some(at) = find(&bodies[from..], header).map(|i| i + from) {
            from = at + 1;
            if at == 0 || (bodies[at - 1] == b'\n' && ends_function(&bodies[..at - 1])) {
                return Some(at);
            }
        }
        None
    })
}

/// Whether the last line of the text can be the last line of a function: it begins without indentation, as `}` does, and
/// so does that of a body that is no group (`done`, `fi`, `)`), and the line with its attributes.
fn ends_function(text: &[u8]) -> bool {
    let line = &text[text.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1)..];
    [b"}".as_slice(), b")", b"fi", b"done", b"esac", b"]]", b"(", b"[[", b"declare -f"].iter().any(|word| line.starts_with(word))
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|w| w == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "#n\na () \n{ \n    cat <<E\nb () \n{ \nE\n\n}\nb () \n{ \n    ( echo sub )\n}\ndeclare -frx \
        b\nc-d () \n{ \n    echo dash\n} 2>&1\n#n\nBASH_ALIASES[ll]=ls\\ -l\nif [[ \"\" ]]; then : <<\"#n\"\ndeclare -f a\ndeclare -f \
        b\ndeclare -f c-d\n#n\nfi\n";

    #[test]
    fn functions_are_told_apart_by_their_names() {
        let f = read(DUMP.as_bytes()).unwrap();
        assert_eq!(names(&f), ["a", "b", "c-d"]);
        assert_eq!(aliases(&f), [("ll".to_owned(), "ls\\ -l".to_owned())]);
        assert!(f[b"f a".as_slice()].ends_with(b"E\n\n}\n"));
        assert_eq!(write(&f, "n"), DUMP.as_bytes());
    }

    #[test]
    fn functions_that_cannot_be_told_apart_stay_together() {
        let text = "#n\na () \n{ \n    cat <<E\n}\nb () \n{ \nE\n\n}\nb () \n{ \n    :\n}\n#n\nif [[ \"\" ]]; then : \
                    <<\"#n\"\ndeclare -f a\ndeclare -f b\n#n\nfi\n";
        let f = read(text.as_bytes()).unwrap();
        assert_eq!(f.len(), 1);
        assert!(String::from_utf8(write(&f, "m")).unwrap().contains("b () \n{ \n    :\n}\n"));
    }

    #[test]
    fn no_functions_and_rubbish() {
        let empty = "#n\n#n\nif [[ \"\" ]]; then : <<\"#n\"\n#n\nfi\n";
        assert_eq!(read(empty.as_bytes()), Some(Statements::new()));
        assert_eq!(read(b""), Some(Statements::new()));
        assert_eq!(read(b"#n\n#n\n"), None);
        assert_eq!(write(&Statements::new(), "n"), empty.as_bytes());
    }

    #[test]
    fn helpers_of_completions_are_left_out() {
        let mut f: Statements = ["f _git", "f __ps1", "f go__", "a _x__"].map(|k| (k.as_bytes().to_vec(), Vec::new())).into();
        without_helpers(&mut f);
        let keys: Vec<&[u8]> = f.keys().map(Vec::as_slice).collect();
        assert_eq!(keys, [b"a _x__".as_slice(), b"f __ps1", b"f go__"]);
    }
}
