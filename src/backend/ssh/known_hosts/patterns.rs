//! Which hosts a line of known_hosts names: lists of patterns, or one hashed name.
//!
//! Invariant: a pattern with `!` that matches takes the whole line away, whatever else it names.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Whether the list of patterns of a line names the host.
pub(super) fn matches(patterns: &str, name: &str) -> bool {
    if let Some(hashed) = patterns.strip_prefix("|1|") {
        return hashed_is(hashed, name).unwrap_or(false);
    }
    let mut found = false;
    for pattern in patterns.split(',') {
        match pattern.strip_prefix('!') {
            Some(not) if glob(not.to_lowercase().as_bytes(), name.as_bytes()) => return false,
            Some(_) => {}
            None => found |= glob(pattern.to_lowercase().as_bytes(), name.as_bytes()),
        }
    }
    found
}

fn hashed_is(hashed: &str, name: &str) -> Option<bool> {
    let (salt, hash) = hashed.split_once('|')?;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &STANDARD.decode(salt).ok()?);
    Some(ring::hmac::verify(&key, name.as_bytes(), &STANDARD.decode(hash).ok()?).is_ok())
}

/// `*` is any run of bytes, `?` one byte.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t + 1));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    (p, t) = (after, from);
                    retry = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, expected) in [
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*", "", true),
            ("**a", "a", true),
            ("gpu?", "gpu", false),
            ("[gpu]:2222", "[gpu]:2222", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn lists() {
        for (list, name, expected) in [
            ("gpu,web", "web", true),
            ("*,!web", "web", false),
            ("!web", "gpu", false),
            ("GPU", "gpu", true),
            ("|1|x", "gpu", false),
            ("", "", true),
        ] {
            assert_eq!(matches(list, name), expected, "{list} {name}");
        }
    }
}
