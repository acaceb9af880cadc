//! Keys, as a terminal sends them and as the config writes them.
//!
//! Invariant: `parse(key.to_string()) == key` for every key that has a name.

use std::fmt;

/// What was pressed, without modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::tui) enum Code {
    Char(char),
    Enter,
    Tab,
    BackTab,
    Esc,
    Backspace,
    Delete,
    Insert,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    F(u8),
}

/// A key with its modifiers. Shift is part of the character where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::tui) struct Key {
    pub(in crate::tui) code: Code,
    pub(in crate::tui) ctrl: bool,
    pub(in crate::tui) alt: bool,
    pub(in crate::tui) shift: bool,
}

/// The named keys, by the word of the config.
const NAMES: &[(&str, Code)] = &[
    ("enter", Code::Enter),
    ("tab", Code::Tab),
    ("backtab", Code::BackTab),
    ("esc", Code::Esc),
    ("backspace", Code::Backspace),
    ("delete", Code::Delete),
    ("insert", Code::Insert),
    ("up", Code::Up),
    ("down", Code::Down),
    ("left", Code::Left),
    ("right", Code::Right),
    ("home", Code::Home),
    ("end", Code::End),
    ("pageup", Code::PageUp),
    ("pagedown", Code::PageDown),
    ("space", Code::Char(' ')),
];

impl Key {
    /// A key without modifiers.
    pub(in crate::tui) const fn plain(code: Code) -> Self {
        Self { code, ctrl: false, alt: false, shift: false }
    }

    /// A character without modifiers.
    pub(in crate::tui) const fn char(c: char) -> Self {
        Self::plain(Code::Char(c))
    }

    /// Ctrl with a character.
    pub(in crate::tui) const fn ctrl(c: char) -> Self {
        Self { code: Code::Char(c), ctrl: true, alt: false, shift: false }
    }

    /// Alt with a key.
    pub(in crate::tui) const fn alt(code: Code) -> Self {
        Self { code, ctrl: false, alt: true, shift: false }
    }

    /// Reads a key as the config writes it: `ctrl-]`, `alt-enter`, `space`, `f5`, `?`, `^]`.
    pub(in crate::tui) fn parse(text: &str) -> Result<Self, String> {
        let mut key = Self::char(' ');
        let mut rest = text.trim();
        loop {
            let lower = rest.to_ascii_lowercase();
            let (flag, len) = match lower.as_str() {
                l if l.starts_with("ctrl-") || l.starts_with("ctrl+") => (&mut key.ctrl, 5),
                l if l.starts_with("c-") && l.len() > 2 => (&mut key.ctrl, 2),
                l if l.starts_with('^') && l.chars().count() == 2 => (&mut key.ctrl, 1),
                l if l.starts_with("alt-") || l.starts_with("alt+") => (&mut key.alt, 4),
                l if l.starts_with("shift-") || l.starts_with("shift+") => (&mut key.shift, 6),
                _ => break,
            };
            *flag = true;
            rest = &rest[len..];
        }
        let mut chars = rest.chars();
        key.code = match (chars.next(), chars.next()) {
            (Some(c), None) if !c.is_control() => Code::Char(if key.ctrl { c.to_ascii_lowercase() } else { c }),
            (Some(_), Some(_)) => {
                Self::named(rest).ok_or_else(|| format!("\"{text}\" is not a key (examples: x, ctrl-], alt-enter, space, f5)"))?
            }
            _ => return Err(format!("\"{text}\" is not a key")),
        };
        Ok(key)
    }

    fn named(word: &str) -> Option<Code> {
        let word = word.to_ascii_lowercase();
        if let Some(n) = word.strip_prefix('f').and_then(|n| n.parse::<u8>().ok()).filter(|n| (1..=12).contains(n)) {
            return Some(Code::F(n));
        }
        NAMES.iter().find(|(name, _)| *name == word).map(|(_, code)| *code)
    }

    /// Tells whether every terminal can send the key as plain bytes of its own, apart from typed text.
    pub(in crate::tui) fn can_be_leader(self) -> Result<(), &'static str> {
        match self {
            Self { code: Code::Char(_), ctrl: false, alt: false, .. } => Err("that key is needed for typing"),
            Self { code: Code::Char('c' | 'd'), ctrl: true, .. } => Err("that key stops commands and ends input"),
            Self { code: Code::Char('m' | 'j' | 'i' | 'h' | '['), ctrl: true, .. } => {
                Err("terminals send the same byte for Enter, Tab, Backspace or Esc")
            }
            Self { code: Code::Char(_) | Code::F(_), .. } => Ok(()),
            _ => Err("that key is needed for editing"),
        }
    }

    /// The byte that the key is in a terminal's input, where it is one.
    pub(in crate::tui) fn byte(self) -> Option<u8> {
        match self {
            Self { code: Code::Char(c), ctrl: true, alt: false, .. } if c.is_ascii() => Some(c.to_ascii_uppercase() as u8 & 0x1f),
            Self { code: Code::Char(c), ctrl: false, alt: false, .. } if c.is_ascii() => Some(c as u8),
            _ => None,
        }
    }

    /// Gives the short form of the screen: `^]`, `Enter`, `M-x`.
    pub(in crate::tui) fn short(self) -> String {
        let base = match self.code {
            Code::Char(' ') => "Space".to_owned(),
            Code::Char(c) if self.ctrl => c.to_ascii_uppercase().to_string(),
            Code::Char(c) => c.to_string(),
            Code::PageUp => "PgUp".to_owned(),
            Code::PageDown => "PgDn".to_owned(),
            Code::BackTab => "S-Tab".to_owned(),
            other => {
                let name = Self::plain(other).to_string();
                let mut chars = name.chars();
                chars.next().map_or_else(String::new, |c| c.to_ascii_uppercase().to_string() + chars.as_str())
            }
        };
        format!("{}{}{}{base}", if self.alt { "M-" } else { "" }, if self.shift { "S-" } else { "" }, if self.ctrl { "^" } else { "" })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (on, word) in [(self.ctrl, "ctrl-"), (self.alt, "alt-"), (self.shift, "shift-")] {
            if on {
                f.write_str(word)?;
            }
        }
        match self.code {
            Code::Char(' ') => f.write_str("space"),
            Code::Char(c) => write!(f, "{c}"),
            Code::F(n) => write!(f, "f{n}"),
            code => f.write_str(NAMES.iter().find(|(_, c)| *c == code).map_or("?", |(name, _)| name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for text in ["ctrl-]", "alt-enter", "space", "f5", "?", "x", "X", "ctrl-space", "pageup", "tab", "-", "ctrl--", "^"] {
            let key = Key::parse(text).unwrap();
            assert_eq!(key.to_string(), text);
            assert_eq!(Key::parse(&key.to_string()).unwrap(), key);
        }
        assert_eq!(Key::parse("^]").unwrap(), Key::ctrl(']'));
        assert_eq!(Key::parse("C-b").unwrap(), Key::ctrl('b'));
        assert_eq!(Key::parse("Ctrl-A").unwrap(), Key::ctrl('a'));
        for bad in ["", "ctrl-", "hyper-x", "f13", "\u{1}"] {
            assert!(Key::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn leaders_are_keys_that_typing_does_not_need() {
        assert!(Key::ctrl(']').can_be_leader().is_ok());
        assert!(Key::plain(Code::F(12)).can_be_leader().is_ok());
        for key in [Key::char('a'), Key::plain(Code::Enter), Key::ctrl('c'), Key::ctrl('m'), Key::plain(Code::Up)] {
            assert!(key.can_be_leader().is_err(), "{key}");
        }
        assert_eq!(Key::ctrl(']').byte(), Some(0x1d));
        assert_eq!(Key::ctrl(']').short(), "^]");
    }
}
