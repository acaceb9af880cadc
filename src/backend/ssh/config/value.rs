//! The values of an ssh_config's keys.
//!
//! Invariant: what OpenSSH refuses is refused, and what is kept is written as `ssh -G` writes it.

use super::keywords::Kind;
use super::lines::Line;
use crate::backend::ssh::pattern;
use std::path::{Path, PathBuf};

/// Files that one pattern of `Include` may name.
const MOST_FILES: usize = 1000;

/// Reads the value of a key.
pub(super) fn of(name: &str, kind: Kind, line: &Line<'_>) -> Result<Vec<String>, String> {
    let words = &line.words;
    let first = words.first().map(String::as_str).unwrap_or_default();
    let refused = || format!("`{}` cannot be `{}`", line.keyword, line.rest);
    match kind {
        Kind::Beside | Kind::Rest => return Ok(vec![line.rest.to_owned()]),
        Kind::Words | Kind::Pairs | Kind::Foreign(_) => {}
        _ if words.len() > 1 => return Err(format!("`{}` takes one value, found `{}`", line.keyword, line.rest)),
        _ => {}
    }
    if first.is_empty() {
        return Err(format!("`{}` has no value", line.keyword));
    }
    Ok(match kind {
        Kind::Beside | Kind::Rest | Kind::Words | Kind::Foreign(_) => words.clone(),
        Kind::Word | Kind::Each => vec![first.to_owned()],
        Kind::Jump if first.eq_ignore_ascii_case("none") => vec!["none".to_owned()],
        Kind::Jump => {
            for hop in first.split(',') {
                super::jump(hop).map_err(|e| format!("`{}`: {e}", line.keyword))?;
            }
            let plain = |hop: &str| hop.strip_prefix("ssh://").map_or(hop, |hop| hop.trim_end_matches('/')).to_owned();
            vec![first.split(',').map(plain).collect::<Vec<_>>().join(",")]
        }
        Kind::Number => {
            let number: u32 = first.parse().map_err(|_| refused())?;
            if name == "port" && !(1..=65_535).contains(&number) {
                return Err(refused());
            }
            vec![number.to_string()]
        }
        Kind::Time if first == "none" => vec![first.to_owned()],
        Kind::Time => vec![seconds(first).ok_or_else(refused)?.to_string()],
        Kind::Flag(words) => vec![flag(name, first, words).ok_or_else(refused)?],
        Kind::Pairs => {
            if words.iter().any(|pair| !pair.contains('=')) {
                return Err(refused());
            }
            words.clone()
        }
    })
}

/// A flag in the words of `ssh -G`.
fn flag(name: &str, word: &str, more: &[&str]) -> Option<String> {
    let plain = |word: &str| match word {
        "yes" | "true" => Some(true),
        "no" | "false" => Some(false),
        _ => None,
    };
    let word = word.to_lowercase();
    match (plain(&word), name) {
        (_, "addressfamily") => more.contains(&word.as_str()).then_some(word),
        // Some flags are shown as `true`, others as `yes`.
        (Some(on), "stricthostkeychecking" | "pubkeyauthentication") => Some(on.to_string()),
        (None, "stricthostkeychecking") if word == "off" => Some("false".to_owned()),
        (Some(on), _) => Some(if on { "yes" } else { "no" }.to_owned()),
        (None, _) => more.contains(&word.as_str()).then_some(word),
    }
}

/// A time as OpenSSH writes it: `90`, `1m30s`, `2h`.
fn seconds(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..end].parse().ok()?;
        let mut after = rest[end..].chars();
        let unit = match after.next().map(|c| c.to_ascii_lowercase()) {
            None | Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3600,
            Some('d') => 86_400,
            Some('w') => 604_800,
            Some(_) => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = after.as_str();
    }
    (!text.is_empty() && total <= u64::from(u32::MAX >> 1)).then_some(total)
}

/// The name that `HostName` gives: it may hold `%h`.
pub(super) fn host_name(text: &str, asked: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, c == '%') {
            (_, true) => match rest.next() {
                Some('%') => out.push('%'),
                Some('h') => out.push_str(asked),
                _ => return Err(format!("`HostName {text}` has a token that stands for nothing there")),
            },
            (c, false) => out.push(c),
        }
    }
    Ok(out)
}

/// The files that a path with `*`, `?` names, in their order; a path without them is itself.
pub(super) fn glob(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for part in path.components().skip(1) {
        let part = part.as_os_str().to_string_lossy();
        if !part.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|folder| folder.push(part.as_ref()));
            continue;
        }
        let mut next = Vec::new();
        for folder in &found {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let mut names: Vec<String> =
                names.filter(|name| pattern::fits(name, &part) && (part.starts_with('.') || !name.starts_with('.'))).collect();
            names.sort();
            next.extend(names.into_iter().map(|name| folder.join(name)));
        }
        next.truncate(MOST_FILES);
        found = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, expected) in
            [("90", Some(90)), ("1m30s", Some(90)), ("2H", Some(7200)), ("1w", Some(604_800)), ("", None), ("x", None), ("5y", None)]
        {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
