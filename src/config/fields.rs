//! Reads the entries of one mapping by name, with types, and knows which were not asked for.
//!
//! Invariant: an entry is either read, or reported by [`Fields::finish`]; a wrong one is reported where it stands and reads
//! as not given.

use super::error::Problems;
use super::nearest;
use super::value::{parse_duration, parse_size};
use super::yaml::{Key, Kind, Node, Value};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The entries of one mapping.
pub(super) struct Fields<'a> {
    /// Where it is, as `backends.gpu`; empty at the top.
    pub(super) at: String,
    entries: Vec<(&'a Key, &'a Node)>,
    read: RefCell<Vec<&'a str>>,
    known: RefCell<Vec<&'static str>>,
    problems: &'a Problems,
}

impl<'a> Fields<'a> {
    /// Takes a mapping's entries; reports duplicate keys, and anything that is not a mapping. Nothing is an empty mapping.
    pub(super) fn of(node: &'a Node, at: impl Into<String>, problems: &'a Problems) -> Self {
        let at = at.into();
        let mut entries: Vec<(&Key, &Node)> = Vec::new();
        match &node.value {
            Value::Map(all) => {
                let mut first: HashMap<&str, u32> = HashMap::new();
                for (key, value) in all {
                    if let Some(id) = first.get(key.name.as_str()) {
                        problems.add_second(key.id, *id, duplicate(&at, &key.name));
                    } else {
                        first.insert(&key.name, key.id);
                        entries.push((key, value));
                    }
                }
            }
            Value::Scalar { kind: Kind::Null, .. } => {}
            _ => problems.add(node.id, format!("{}: expected a mapping, found {}", shown(&at), node.describe())),
        }
        Self { at, entries, read: RefCell::default(), known: RefCell::default(), problems }
    }

    /// Has no entries: for reading nodes that stand alone.
    pub(super) fn of_nothing(at: impl Into<String>, problems: &'a Problems) -> Self {
        Self { at: at.into(), entries: Vec::new(), read: RefCell::default(), known: RefCell::default(), problems }
    }

    /// Reports at an entry: `at.name: message`.
    pub(super) fn wrong(&self, id: u32, name: &str, message: &str) {
        self.problems.add(id, format!("{}: {message}", self.name(name)));
    }

    /// Says of a right entry that it has no effect in this version.
    pub(super) fn remark(&self, id: u32, name: &str) {
        self.problems.remark(id, format!("{} has no effect in this version", self.name(name)));
    }

    /// Gives an entry's whole name.
    pub(super) fn name(&self, name: &str) -> String {
        if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) }
    }

    /// Takes an entry, also when it is empty.
    pub(super) fn take_even_null(&self, name: &'static str) -> Option<&'a Node> {
        self.known.borrow_mut().push(name);
        let (key, node) = self.entries.iter().find(|(key, _)| key.name == name)?;
        self.read.borrow_mut().push(&key.name);
        Some(node)
    }

    /// Takes an entry that has a value.
    pub(super) fn take(&self, name: &'static str) -> Option<&'a Node> {
        self.take_even_null(name).filter(|node| !node.is_null())
    }

    /// Takes an entry that has several names; two of them at once are reported.
    pub(super) fn take_any(&self, names: &[&'static str]) -> Option<(&'static str, &'a Node)> {
        let mut found = names.iter().filter_map(|name| self.take(name).map(|node| (*name, node)));
        let first = found.next();
        for (other, node) in found {
            if let Some((one, _)) = first {
                self.wrong(node.id, other, &format!("means the same as \"{one}\": give one of them"));
            }
        }
        // Other names are understood and not advertised.
        self.known.borrow_mut().retain(|known| names.first() == Some(known) || !names.contains(known));
        first
    }

    /// Gives every entry with its key, for mappings whose keys are names; the caller reads all of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'a Key, &'a Node)> {
        for (key, _) in &self.entries {
            self.read.borrow_mut().push(&key.name);
        }
        self.entries.iter().copied()
    }

    /// Reads a text.
    pub(super) fn text(&self, name: &'static str) -> Option<&'a str> {
        let node = self.take(name)?;
        self.word(name, node, "a text")
    }

    /// Gives a node's word, or reports what was expected.
    pub(super) fn word(&self, name: &str, node: &'a Node, expected: &str) -> Option<&'a str> {
        match node.word() {
            Some(word) if word.contains('\0') => {
                self.wrong(node.id, name, "holds a NUL byte");
                None
            }
            Some(word) => Some(word),
            None => {
                self.wrong(node.id, name, &format!("expected {expected}, found {}", node.describe()));
                None
            }
        }
    }

    /// Reads true or false.
    pub(super) fn flag(&self, name: &'static str) -> Option<bool> {
        let node = self.take(name)?;
        match &node.value {
            Value::Scalar { kind: Kind::Bool(flag), .. } => Some(*flag),
            // What older YAML calls a boolean is clear enough.
            Value::Scalar { raw, .. } if ["yes", "on"].contains(&raw.to_lowercase().as_str()) => Some(true),
            Value::Scalar { raw, .. } if ["no", "off"].contains(&raw.to_lowercase().as_str()) => Some(false),
            _ => {
                self.wrong(node.id, name, &format!("expected true or false, found {}", node.describe()));
                None
            }
        }
    }

    /// Reads a duration.
    pub(super) fn duration(&self, name: &'static str, zero: bool) -> Option<Duration> {
        let node = self.take(name)?;
        self.duration_of(name, node, zero)
    }

    /// Reads a node as a duration; `zero` tells whether nothing is enough.
    pub(super) fn duration_of(&self, name: &str, node: &Node, zero: bool) -> Option<Duration> {
        let parsed = node.word().map_or_else(|| parse_duration(""), parse_duration);
        match parsed {
            Ok(Duration::ZERO) if !zero => {
                self.wrong(node.id, name, "expected more than 0");
                None
            }
            Ok(duration) => Some(duration),
            Err(expected) => {
                self.wrong(node.id, name, &format!("{expected}, found {}", node.describe()));
                None
            }
        }
    }

    /// Reads a whole number.
    pub(super) fn whole(&self, name: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let node = self.take(name)?;
        self.whole_of(name, node, range)
    }

    /// Reads a node as a whole number.
    pub(super) fn whole_of(&self, name: &str, node: &Node, range: RangeInclusive<u32>) -> Option<u32> {
        let number = node.word().and_then(|word| word.parse().ok()).filter(|number| range.contains(number));
        if number.is_none() {
            let message = format!("expected a whole number from {} to {}, found {}", range.start(), range.end(), node.describe());
            self.wrong(node.id, name, &message);
        }
        number
    }

    /// Reads a size in bytes.
    pub(super) fn size(&self, name: &'static str) -> Option<u64> {
        let node = self.take(name)?;
        match node.word().map_or_else(|| parse_size(""), parse_size) {
            Ok(size) => Some(size),
            Err(expected) => {
                self.wrong(node.id, name, &format!("{expected}, found {}", node.describe()));
                None
            }
        }
    }

    /// Reads one of several words.
    pub(super) fn choice<T: Copy>(&self, name: &'static str, words: &[(&str, T)]) -> Option<T> {
        let node = self.take(name)?;
        let found = node.word().and_then(|word| words.iter().find(|(known, _)| *known == word));
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(node.id, name, &format!("expected {}, found {}", one_of(&known), node.describe()));
        }
        found.map(|(_, value)| *value)
    }

    /// Reads a list of texts; a single text is a list of one.
    pub(super) fn list(&self, name: &'static str) -> Option<Vec<(u32, &'a str)>> {
        let node = self.take(name)?;
        Some(self.list_of(name, node))
    }

    /// Reads a node as a list of texts.
    pub(super) fn list_of(&self, name: &str, node: &'a Node) -> Vec<(u32, &'a str)> {
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        items.iter().filter_map(|item| Some((item.id, self.word(name, item, "a text or a list of texts")?))).collect()
    }

    /// Whether an entry is a mapping that has this key.
    pub(super) fn has(&self, name: &str, inner: &str) -> bool {
        self.entries.iter().any(|(key, node)| key.name == name && node.get(inner).is_some())
    }

    /// Gives the entries that were not read.
    pub(super) fn unread(&self) -> Vec<&'a Key> {
        let read = self.read.borrow();
        self.entries.iter().filter(|(key, _)| !read.contains(&key.name.as_str())).map(|(key, _)| *key).collect()
    }

    /// Reports every entry that was not read, with the nearest known one.
    pub(super) fn finish(self) {
        self.finish_except("\0");
    }

    /// Reports every entry that was not read but those that begin so.
    pub(super) fn finish_except(self, prefix: &str) {
        let known = self.known.borrow();
        for key in self.unread().into_iter().filter(|key| !key.name.starts_with(prefix)) {
            let under = if self.at.is_empty() { "at the top".to_owned() } else { format!("under {}", self.at) };
            let hint = match nearest(&key.name, known.iter().copied()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("known: {}", known.join(", ")),
            };
            self.problems.add(key.id, format!("unknown key \"{}\" {under}; {hint}", key.name.escape_debug()));
        }
    }
}

fn shown(at: &str) -> &str {
    if at.is_empty() { "the config" } else { at }
}

fn duplicate(at: &str, name: &str) -> String {
    let name = name.escape_debug();
    match at {
        "backends" => format!("backend \"{name}\" is defined twice"),
        "" => format!("key \"{name}\" is given twice at the top"),
        _ => format!("key \"{name}\" is given twice under {at}"),
    }
}

/// Joins words as `a, b or c`.
pub(super) fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}
