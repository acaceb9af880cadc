//! Patterns of ssh_config and known_hosts: `*`, `?`, lists with commas and negation.
//!
//! Invariant: pure.

/// Whether a text fits a pattern.
pub(super) fn fits(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
    let (mut t, mut p) = (0, 0);
    // Where the last star was, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                t = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Whether a text fits one of several patterns and none of the negated ones.
pub(super) fn fits_any<'p>(text: &str, patterns: impl IntoIterator<Item = &'p str>) -> bool {
    let mut found = false;
    for pattern in patterns {
        match pattern.strip_prefix('!') {
            Some(not) if fits(text, not) => return false,
            Some(_) => {}
            None => found |= fits(text, pattern),
        }
    }
    found
}

/// The same for a list with commas.
pub(super) fn fits_list(text: &str, list: &str) -> bool {
    fits_any(text, list.split(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit() {
        let table = [
            ("gpu", "gpu", true),
            ("gpu", "GPU", false),
            ("gpu1", "gpu?", true),
            ("gpu", "gpu?", false),
            ("a.b.c", "*.c", true),
            ("a.b.c", "a*b*c", true),
            ("a.b.d", "a*c", false),
            ("", "*", true),
            ("", "", true),
            ("x", "", false),
            ("aab", "*ab", true),
        ];
        for (text, pattern, expected) in table {
            assert_eq!(fits(text, pattern), expected, "{text} {pattern}");
        }
        assert!(fits_list("gpu1", "cpu*,gpu*,!gpu2"));
        assert!(!fits_list("gpu2", "gpu*,!gpu2"));
        assert!(!fits_list("x", "!y"));
    }
}
