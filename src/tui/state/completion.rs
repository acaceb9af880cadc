//! Completion of a word of the input line: which word, and how the answer is written into the line.
//!
//! Invariant: what is inserted reads back, in a shell, as exactly the word that the backend offered.

/// The word under the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct Word {
    /// Offset of its first byte, with its quote.
    pub(in crate::tui) start: usize,
    /// The word without quoting.
    pub(in crate::tui) plain: String,
    /// The quote that is open at the cursor.
    quote: Option<char>,
    /// Whether it stands where a command's name does.
    pub(in crate::tui) command: bool,
}

/// Finds the word that ends at the cursor.
pub(in crate::tui) fn word_at(text: &str, cursor: usize) -> Word {
    let mut word = Word { start: 0, plain: String::new(), quote: None, command: true };
    let mut in_word = false;
    let mut chars = text[..cursor].char_indices();
    while let Some((i, c)) = chars.next() {
        if word.quote.is_none() && !in_word && !c.is_whitespace() {
            word.start = i;
            in_word = true;
        }
        match (word.quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => word.quote = None,
            (Some('\''), c) => word.plain.push(c),
            (_, '\\') => match chars.next() {
                Some((_, next)) => word.plain.push(next),
                None => word.plain.push('\\'),
            },
            (Some(_), c) => word.plain.push(c),
            (None, '\'' | '"') => word.quote = Some(c),
            (None, c) if c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '<' | '>' | '`' | '{' | '}') => {
                let ends_command = matches!(c, ';' | '|' | '&' | '(' | '`' | '{' | '\n');
                let had_word = in_word && !word.plain.is_empty();
                // An assignment before a command leaves the place of the command open.
                let assignment = had_word && word.command && word.plain.split_once('=').is_some_and(|(n, _)| is_name(n));
                let command = ends_command || (word.command && (!had_word || assignment));
                let command = command && !matches!(c, '<' | '>');
                word = Word { start: i + c.len_utf8(), plain: String::new(), quote: None, command };
                in_word = false;
            }
            (None, c) => word.plain.push(c),
        }
    }
    if !in_word {
        word.start = cursor;
    }
    word
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// What to do with the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) enum Answer {
    /// Write this from the word's start to the cursor.
    Insert(String),
    /// Nothing new is common to the candidates.
    Choices,
    /// There are none.
    Nothing,
}

/// Gives what the candidates make of a word.
pub(in crate::tui) fn answer(word: &Word, candidates: &[String]) -> Answer {
    match candidates {
        [] => Answer::Nothing,
        [only] => {
            let text = quoted(only, word.quote, only.starts_with('~') && word.quote.is_none());
            let end = match word.quote {
                _ if only.ends_with('/') => String::new(),
                Some(q) => format!("{q} "),
                None => " ".to_owned(),
            };
            Answer::Insert(text + &end)
        }
        [first, rest @ ..] => {
            let common = rest.iter().fold(first.as_str(), |a, b| common_prefix(a, b));
            if common.len() > word.plain.len() && common.starts_with(&word.plain) {
                Answer::Insert(quoted(common, word.quote, common.starts_with('~') && word.quote.is_none()))
            } else {
                Answer::Choices
            }
        }
    }
}

fn common_prefix<'a>(a: &'a str, b: &str) -> &'a str {
    let end = a.char_indices().zip(b.chars()).find(|((_, x), y)| x != y).map(|((i, _), _)| i);
    &a[..end.unwrap_or_else(|| a.len().min(b.len()))]
}

/// Writes a word as shell text inside the quote that is open.
fn quoted(word: &str, quote: Option<char>, tilde: bool) -> String {
    let mut out = String::new();
    out.extend(quote);
    for (i, c) in word.chars().enumerate() {
        match quote {
            Some('\'') if c == '\'' => out.push_str("'\\''"),
            Some('"') if matches!(c, '"' | '\\' | '$' | '`') => out.extend(['\\', c]),
            Some(_) => out.push(c),
            None if tilde && i == 0 => out.push(c),
            None if c == '\n' => out.push_str("'\n'"),
            None if c.is_alphanumeric() || "/._-+:@%,=".contains(c) || (!c.is_ascii() && !c.is_whitespace()) => out.push(c),
            None => out.extend(['\\', c]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_under_the_cursor() {
        let table: &[(&str, usize, &str, bool)] = &[
            ("", 0, "", true),
            ("gi", 0, "gi", true),
            ("git sta", 4, "sta", false),
            ("git ", 4, "", false),
            ("cd my\\ dir/a", 3, "my dir/a", false),
            ("cd 'my dir/a", 3, "my dir/a", false),
            ("cd \"my $x", 3, "my $x", false),
            ("a; b", 3, "b", true),
            ("a | gr", 4, "gr", true),
            ("a && gr", 5, "gr", true),
            ("FOO=1 ma", 6, "ma", true),
            ("cat <in", 5, "in", false),
            ("echo $(da", 7, "da", true),
            ("ls\nca", 3, "ca", true),
        ];
        for (text, start, plain, command) in table {
            let word = word_at(text, text.len());
            assert_eq!((word.start, word.plain.as_str(), word.command), (*start, *plain, *command), "{text}");
        }
    }

    #[test]
    fn answers_are_quoted_for_the_place_they_stand_in() {
        let done = |line: &str, candidates: &[&str]| {
            let word = word_at(line, line.len());
            let candidates: Vec<String> = candidates.iter().map(|s| (*s).to_owned()).collect();
            match answer(&word, &candidates) {
                Answer::Insert(text) => format!("{}{text}", &line[..word.start]),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(done("cat RE", &["README.md"]), "cat README.md ");
        assert_eq!(done("cd sr", &["src/"]), "cd src/");
        assert_eq!(done("cat my", &["my file$.txt"]), "cat my\\ file\\$.txt ");
        assert_eq!(done("cat 'my", &["my it's"]), "cat 'my it'\\''s' ");
        assert_eq!(done("cat \"my", &["my $x"]), "cat \"my \\$x\" ");
        assert_eq!(done("ls ~/s", &["~/src/"]), "ls ~/src/");
        assert_eq!(done("ls a", &["alpha", "alpine"]), "ls alp");
        assert_eq!(done("ls alp", &["alpha", "alpine"]), "Choices");
        assert_eq!(done("ls q", &[]), "Nothing");
    }
}
