//! Quoting for POSIX shells, exact for every byte but NUL.

/// Quotes bytes so that any POSIX shell reads them as one word.
pub fn bytes(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b'\'');
    for &b in text {
        if b == b'\'' {
            out.extend_from_slice(b"'\\''");
        } else {
            out.push(b);
        }
    }
    out.push(b'\'');
    out
}

/// Quotes text so that any POSIX shell reads it as one word.
pub fn text(word: &str) -> String {
    let mut out = String::with_capacity(word.len() + 2);
    out.push('\'');
    for c in word.chars() {
        if c == '\'' {
            out.push_str("'\\''");
        } else {
            out.push(c);
        }
    }
    out.push('\'');
    out
}

/// Quotes bytes for bash so that the word is one line, whatever it holds.
pub fn one_line(text: &[u8]) -> Vec<u8> {
    let mut out = b"$'".to_vec();
    for &b in text {
        match b {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\'' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            _ => out.push(b),
        }
    }
    out.push(b'\'');
    out
}

/// Quotes only where needed, for command lines that a person reads.
pub fn pretty(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { text(word) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_exact() {
        assert_eq!(text("it's"), "'it'\\''s'");
        assert_eq!(bytes(b"a\xffb"), b"'a\xffb'");
        assert_eq!(pretty("src/main.rs"), "src/main.rs");
        assert_eq!(pretty(""), "''");
        assert_eq!(pretty("a b"), "'a b'");
        assert_eq!(one_line(b"it's\na\\b"), b"$'it\\'s\\na\\\\b'");
    }
}
