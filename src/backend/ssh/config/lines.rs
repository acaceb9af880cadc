//! Splits a line of an ssh_config as OpenSSH does: a keyword, then words with quotes, escapes and comments.
//!
//! Invariant: pure.

/// What OpenSSH takes for white space.
const BLANK: [char; 5] = [' ', '\t', '\r', '\n', '\u{c}'];

/// A line that says something.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// In lower case.
    pub(super) keyword: String,
    /// All that follows, as written.
    pub(super) rest: &'a str,
    /// The same in words.
    pub(super) words: Vec<String>,
}

/// Splits a line; none when it is empty or a comment.
pub(super) fn split(line: &str) -> Result<Option<Line<'_>>, &'static str> {
    let line = line.trim_matches(BLANK);
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let end = line.find(|c| BLANK.contains(&c) || c == '=' || c == '"').unwrap_or(line.len());
    let (keyword, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(BLANK);
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start_matches(BLANK);
    Ok(Some(Line { keyword: keyword.to_lowercase(), rest, words: words(rest)? }))
}

/// Splits into words: quotes of both kinds anywhere, a backslash before a quote, a backslash or (outside quotes) a blank, and a
/// comment where a word would begin.
fn words(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| *c == ' ' || *c == '\t').is_some() {}
        if chars.peek().is_none_or(|c| *c == '#') {
            return Ok(words);
        }
        let (mut word, mut quote) = (String::new(), None);
        while let Some(c) = chars.peek().copied() {
            if quote.is_none() && (c == ' ' || c == '\t') {
                break;
            }
            chars.next();
            match (c, quote) {
                ('\\', _) => {
                    let escaped = chars.next_if(|next| ['\'', '"', '\\'].contains(next) || quote.is_none() && *next == ' ');
                    word.push(escaped.unwrap_or('\\'));
                }
                (_, Some(open)) if c == open => quote = None,
                ('"' | '\'', None) => quote = Some(c),
                _ => word.push(c),
            }
        }
        if quote.is_some() {
            return Err("a quote is not closed");
        }
        words.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_split_as_openssh_splits_them() {
        let table: [(&str, &str, &str, &[&str]); 9] = [
            ("  Host a  b\t", "host", "a  b", &["a", "b"]),
            ("Port=22", "port", "22", &["22"]),
            ("Port =\t22 # x", "port", "22 # x", &["22"]),
            ("IdentityFile \"~/my key\"", "identityfile", "\"~/my key\"", &["~/my key"]),
            ("IdentityFile ~/my\\ key", "identityfile", "~/my\\ key", &["~/my key"]),
            ("X 'a \"b' c\\\\d \\e f#g", "x", "'a \"b' c\\\\d \\e f#g", &["a \"b", "c\\d", "\\e", "f#g"]),
            ("ProxyCommand sh -c \"x %h\"", "proxycommand", "sh -c \"x %h\"", &["sh", "-c", "x %h"]),
            ("Match host=a user b", "match", "host=a user b", &["host=a", "user", "b"]),
            ("Tag", "tag", "", &[]),
        ];
        for (line, keyword, rest, words) in table {
            let words = words.iter().map(|w| (*w).to_owned()).collect();
            assert_eq!(split(line), Ok(Some(Line { keyword: keyword.to_owned(), rest, words })), "{line}");
        }
        for nothing in ["", "  \r", "# Host x", "\t#"] {
            assert_eq!(split(nothing), Ok(None));
        }
        assert!(split("User \"a").is_err());
    }
}
