//! The crate's own source, prepared for the rules of `tidy`.
//!
//! Invariant: what is blanked keeps its line, so every finding names the line in the file.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// One source file.
pub(crate) struct Source {
    /// Its path from the crate's root.
    pub(crate) path: String,
    /// As it is.
    pub(crate) text: String,
    /// Without comments, without what is inside strings, and without `#[cfg(test)]` items.
    pub(crate) code: String,
}

impl Source {
    /// Lines that hold code outside of tests.
    pub(crate) fn lines_of_code(&self) -> usize {
        self.code.lines().filter(|line| !line.trim().is_empty()).count()
    }

    /// The modules that the file is, from the crate's root: `session/log.rs` is session, log.
    pub(crate) fn module(&self) -> Vec<&str> {
        let inner = self.path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
        if matches!(inner, "lib" | "main") { Vec::new() } else { inner.split('/').collect() }
    }
}

/// The crate's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads all files under a folder with this extension, sorted.
pub(crate) fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Reads the sources under `src` that are not tests as a whole.
pub(crate) fn sources() -> Vec<Source> {
    let all: Vec<Source> = files(&root().join("src"), "rs").iter().map(|path| read(path)).collect();
    let tests: HashSet<PathBuf> = all.iter().flat_map(test_modules).collect();
    let is_test = |path: &str| tests.iter().any(|t| Path::new(path) == t.with_extension("rs") || Path::new(path).starts_with(t));
    all.into_iter().filter(|s| !is_test(&s.path)).collect()
}

fn read(path: &Path) -> Source {
    let text = std::fs::read_to_string(path).expect("the file was listed");
    let path = path.strip_prefix(root()).expect("it is below the root").to_str().expect("our file names are text").to_owned();
    let code = without_tests(&blank(&text));
    Source { path, text, code }
}

/// The files (without extension) of modules that are declared `#[cfg(test)] mod NAME;`.
fn test_modules(source: &Source) -> Vec<PathBuf> {
    let path = Path::new(&source.path);
    let stem = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    let folder = path.parent().expect("it is in src");
    let below = if matches!(stem, "mod" | "lib" | "main") { folder.to_owned() } else { folder.join(stem) };
    let blanked = blank(&source.text);
    let mut found = Vec::new();
    for (at, _) in blanked.match_indices("#[cfg(test)]") {
        let item = blanked[at..].split(';').next().unwrap_or_default();
        // A file named by an attribute is looked up in the raw text, whose strings are whole.
        let raw = &source.text[at..(at + item.len()).min(source.text.len())];
        if let Some(name) = item.rsplit_once("mod ").filter(|(_, n)| n.chars().all(is_word)).map(|(_, n)| n) {
            match raw.split_once("#[path = \"").and_then(|(_, rest)| rest.split_once('"')) {
                Some((file, _)) => found.push(folder.join(file).with_extension("")),
                None => found.push(below.join(name)),
            }
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Blanks `#[cfg(test)]` items, attributes and body, in text without comments and strings.
fn without_tests(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(test)]") {
        let begin = from + found;
        let mut depth = 0usize;
        let mut end = code.len();
        for (i, c) in code[begin..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if (c == ';' || c == '}') && depth == 0 {
                end = begin + i + 1;
                break;
            }
        }
        blank_bytes(&mut bytes[begin..end]);
        from = end;
    }
    String::from_utf8(bytes).expect("whole characters were blanked")
}

fn blank_bytes(bytes: &mut [u8]) {
    for b in bytes {
        if *b != b'\n' {
            *b = b' ';
        }
    }
}

/// Blanks comments and what is inside string and character literals, byte for byte.
pub(crate) fn blank(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut i = 0;
    while i < bytes.len() {
        let rest = &text.as_bytes()[i..];
        let before = i.checked_sub(1).map(|j| text.as_bytes()[j]);
        let in_word = before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
        let (skip, keep) = if rest.starts_with(b"//") {
            (rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()), 0)
        } else if rest.starts_with(b"/*") {
            (block_comment(rest), 0)
        } else if let Some(length) = raw_string(rest).filter(|_| !in_word || before == Some(b'b')) {
            (length, 1)
        } else if rest[0] == b'"' {
            (quoted(rest, b'"'), 1)
        } else if let Some(length) = char_literal(rest) {
            (length, 1)
        } else {
            i += 1;
            continue;
        };
        let skip = skip.min(rest.len());
        if skip > 2 * keep {
            blank_bytes(&mut bytes[i + keep..i + skip - keep]);
        }
        i += skip;
    }
    String::from_utf8(bytes).expect("whole characters were blanked")
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut i) = (0, 0);
    while i + 1 < rest.len() {
        match &rest[i..i + 2] {
            b"/*" => (depth, i) = (depth + 1, i + 2),
            b"*/" => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    rest.len()
}

/// The length of a raw string that starts here.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest.strip_prefix(b"r")?.iter().take_while(|&&b| b == b'#').count();
    (rest.get(1 + hashes) == Some(&b'"')).then_some(())?;
    let end = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let body = &rest[2 + hashes..];
    let length = body.windows(end.len()).position(|w| w == end).unwrap_or(body.len());
    Some(2 + hashes + length + end.len())
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut i = 1;
    while i < rest.len() {
        match rest[i] {
            b'\\' => i += 2,
            b if b == quote => return i + 1,
            _ => i += 1,
        }
    }
    rest.len()
}

/// The length of a character literal that starts here; none for a lifetime.
fn char_literal(rest: &[u8]) -> Option<usize> {
    if rest[0] != b'\'' {
        return None;
    }
    if rest.get(1) == Some(&b'\\') {
        return Some(quoted(rest, b'\''));
    }
    let text = std::str::from_utf8(&rest[1..rest.len().min(6)]).or_else(|e| std::str::from_utf8(&rest[1..1 + e.valid_up_to()])).ok()?;
    let length = text.chars().next()?.len_utf8();
    (rest.get(1 + length) == Some(&b'\'')).then_some(2 + length)
}

#[test]
fn comments_strings_and_tests_are_blanked() {
    let check = |text: &str, want: &str| assert_eq!(without_tests(&blank(text)), want, "{text}");
    check("a // b\nc", "a     \nc");
    check("a /*b/*c*/\nd*/ e", "a         \n    e");
    check("f(\"x // \\\" y\") // z", &format!("f(\"{:9}\"){:5}", "", ""));
    check("r#\"a\"b\"# c", &format!("r{:6}# c", ""));
    check("let c = '\"'; let l: &'a str = '\\''", "let c = ' '; let l: &'a str = '  '");
    check("'é' x", "'  ' x");
    check("fn a() {}\n#[cfg(test)]\nmod t {\n fn b() {}\n}\nfn c() {}", "fn a() {}\n            \n       \n          \n \nfn c() {}");
    check("#[cfg(test)]\nmod t;\nx", "            \n      \nx");
}
