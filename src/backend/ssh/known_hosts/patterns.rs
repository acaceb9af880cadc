//! Which hosts a line of known_hosts names: lists of patterns, or one hashed name.
//!
//! Invariant: a pattern with `!` that matches takes the whole line away, whatever else it names.

use crate::backend::ssh::pattern::fits_list;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Whether the list of patterns of a line names the host.
pub(super) fn matches(patterns: &str, name: &str) -> bool {
    if let Some(hashed) = patterns.strip_prefix("|1|") {
        return hashed_is(hashed, name).unwrap_or(false);
    }
    fits_list(name, &patterns.to_lowercase())
}

fn hashed_is(hashed: &str, name: &str) -> Option<bool> {
    let (salt, hash) = hashed.split_once('|')?;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &STANDARD.decode(salt).ok()?);
    Some(ring::hmac::verify(&key, name.as_bytes(), &STANDARD.decode(hash).ok()?).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (list, name, expected) in [
            ("gpu,web", "web", true),
            ("*,!web", "web", false),
            ("!web", "gpu", false),
            ("GPU", "gpu", true),
            ("[gpu]:2222", "[gpu]:2222", true),
            ("**a", "a", true),
            ("|1|x", "gpu", false),
            ("", "", true),
        ] {
            assert_eq!(matches(list, name), expected, "{list} {name}");
        }
    }
}
