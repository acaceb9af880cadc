//! Taking secrets out of text that is meant to be handed to somebody else: stricter than what is done for our own files.
//!
//! Invariant: pure text; where it is in doubt whether something is a secret, it goes.

use super::redact::{MASK, Redactor};
use regex::Regex;
use std::sync::LazyLock;

/// What is called a secret where it stands: `password=...`, `"passphrase": "..."`, `--token ...`. A quoted value goes up to its
/// quote; a bare one after `:` or `=` up to the end of the line, since a passphrase may hold blanks.
const NAMED: &str = r#"(?im)((?:pass(?:word|wd|phrase|code)?|secret|token|credentials?|api[-_ ]?key|private[-_ ]?key|authorization)[A-Za-z0-9_-]*["']?[ \t]*(?:[:=]|\bis\b|\bfor\b[^\n:=]{0,80}[:=])[ \t]*)(?:"[^"\n]*"|'[^'\n]*'|[^\s"'][^\n]*)"#;
/// The value of a flag that is called a secret.
const FLAG: &str = r#"(?i)(--?(?:pass(?:word|wd|phrase)?|secret|token|api-?key|auth)[a-z-]*[ \t]+)(?:"[^"\n]*"|'[^'\n]*'|[^\s"'-][^\s]*)"#;
/// The end of a private key.
const END: &str = r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----";

static PATTERNS: LazyLock<Option<[Regex; 3]>> =
    LazyLock::new(|| Some([Regex::new(NAMED).ok()?, Regex::new(FLAG).ok()?, Regex::new(END).ok()?]));

/// Gives the text without what `redactor` knows, without what is called a secret where it stands, and without private keys,
/// also one whose beginning was cut off.
pub fn scrub(redactor: &Redactor, text: &str) -> String {
    // Without the patterns nothing can be called harmless.
    let Some([named, flag, end]) = PATTERNS.as_ref() else { return MASK.to_owned() };
    let cut = match end.find(text) {
        Some(found) if !text[..found.start()].contains("-----BEGIN ") => format!("{MASK}{}", &text[found.end()..]),
        _ => text.to_owned(),
    };
    let known = redactor.text(&cut);
    let named = named.replace_all(&known, format!("${{1}}{MASK}"));
    flag.replace_all(&named, format!("${{1}}{MASK}")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_called_a_secret_goes() {
        assert!(PATTERNS.is_some());
        for text in [
            "password=hunter2",
            "PASSWORD: 'hunter2 and more'",
            "{\"passphrase\": \"hunter2\", \"x\": 1}",
            "the passphrase for key /home/ada/.ssh/id_ed25519: hunter2 with blanks",
            "Enter passphrase for /k: hunter2",
            "MY_SECRET_VALUE = hunter2",
            "mysql --password hunter2 -h db",
            "curl --token=hunter2",
            "DB_PASSWORD=hunter2",
            "api_key: hunter2",
            "the password is hunter2",
            "b3BlbnNzaC1rhunter2\nAAAA\n-----END OPENSSH PRIVATE KEY-----\nrest",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2",
        ] {
            let clean = scrub(&Redactor::default(), text);
            assert!(!clean.contains("hunter2") && clean.contains(MASK), "{text:?} -> {clean:?}");
        }
        assert_eq!(scrub(&Redactor::default(), "{\"passphrase\": \"hunter2\", \"x\": 1}"), "{\"passphrase\": [redacted], \"x\": 1}");
        assert_eq!(scrub(&Redactor::new(["correct horse"]), "a correct horse b"), "a [redacted] b");
    }

    #[test]
    fn ordinary_lines_stay() {
        for text in [
            "2026-01-01T00:00:00Z  INFO quarterdeck::daemon: listening socket=/run/user/0/quarterdeck/s version=\"0.1.0\"",
            "ada@gpu.lab:22 refused the login; keys offered: ssh-ed25519 SHA256:abc (agent)",
            "the token was taken",
            "login_environment ok 34 variables",
            "",
        ] {
            assert_eq!(scrub(&Redactor::default(), text), text);
        }
    }
}
