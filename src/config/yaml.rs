//! YAML text as a tree whose every node can be found again by line.
//!
//! The YAML crate tells places only in errors. So nodes are numbered in the order of reading, and the line of a node is
//! learnt by reading the text once more with an error raised at that number: a parse per line asked for, which happens
//! only when something is wrong. Invariant: both readings walk the same way, so a number means the same node in both.

use serde::de::{self, DeserializeSeed, Deserializer, EnumAccess, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::cell::Cell;
use std::fmt;

/// The largest config that is read, in bytes.
pub(super) const MAX_BYTES: usize = 1_000_000;
/// How deep lists and mappings may nest.
const MAX_DEPTH: usize = 32;
/// How many values there may be; anchors multiply them, so the size of the text alone bounds nothing.
const MAX_NODES: u32 = 200_000;

/// A value with its number in the order of reading.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) id: u32,
    pub(super) value: Value,
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Scalar { kind: Kind, raw: String },
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// What a plain word means in YAML; text when it is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Number,
    Text,
}

/// The key of a mapping's entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub(super) id: u32,
    pub(super) name: String,
}

/// Text that cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) line: Option<usize>,
    pub(super) message: String,
}

impl Node {
    /// Makes a text node that stands in no file, or where another stands.
    pub(super) fn text(id: u32, text: impl Into<String>) -> Self {
        Self { id, value: Value::Scalar { kind: Kind::Text, raw: text.into() } }
    }

    /// Makes a mapping from entries that stand where `id` stands.
    pub(super) fn map(id: u32, entries: Vec<(&str, Self)>) -> Self {
        let entries = entries.into_iter().map(|(name, node)| (Key { id, name: name.to_owned() }, node)).collect();
        Self { id, value: Value::Map(entries) }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.value, Value::Scalar { kind: Kind::Null, .. })
    }

    /// Gives the text as it was written, of a word of any kind but null.
    pub(super) fn word(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { kind: Kind::Null, .. } => None,
            Value::Scalar { raw, .. } => Some(raw),
            _ => None,
        }
    }

    /// Gives a mapping's value by key; the first of several.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|(key, _)| key.name == name).map(|(_, node)| node),
            _ => None,
        }
    }

    /// Names the value for a message, short.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            Value::Scalar { kind: Kind::Null, .. } => "nothing".to_owned(),
            Value::Scalar { raw, .. } if raw.chars().count() > 40 => {
                format!("\"{}...\"", raw.chars().take(40).collect::<String>().escape_debug())
            }
            Value::Scalar { kind: Kind::Text, raw } => format!("\"{}\"", raw.escape_debug()),
            Value::Scalar { raw, .. } => raw.clone(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Reads a text. Empty text is an empty mapping.
pub(super) fn parse(text: &str) -> Result<Node, Broken> {
    if text.len() > MAX_BYTES {
        return Err(Broken { line: None, message: format!("larger than {} MB", MAX_BYTES / 1_000_000) });
    }
    check_brackets(text)?;
    let walk = Walk { next: Cell::new(0), stop_at: None };
    let seed = Build { walk: &walk, depth: 0, key: false };
    let mut root = match seed.deserialize(serde_yaml::Deserializer::from_str(text)) {
        Ok(root) => root,
        Err(error) => return Err(broken(&error, text)),
    };
    if root.is_null() {
        root.value = Value::Map(Vec::new());
        return Ok(root);
    }
    if let Err(error) = Fill(&mut root).deserialize(serde_yaml::Deserializer::from_str(text)) {
        return Err(broken(&error, text));
    }
    merge(&mut root);
    Ok(root)
}

/// Gives the line of a node, counted from 1.
pub(super) fn line_of(text: &str, id: u32) -> Option<usize> {
    let walk = Walk { next: Cell::new(0), stop_at: Some(id) };
    let seed = Build { walk: &walk, depth: 0, key: false };
    let stopped = seed.deserialize(serde_yaml::Deserializer::from_str(text)).err()?;
    Some(stopped.location().map_or(1, |place| place.line()))
}

/// Refuses text whose brackets nest deeper than anything sensible: the YAML scanner takes quadratic time over them.
fn check_brackets(text: &str) -> Result<(), Broken> {
    let mut depth = 0usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > 100 {
            let line = text.as_bytes().iter().take(index).filter(|byte| **byte == b'\n').count() + 1;
            return Err(Broken { line: Some(line), message: too_deep() });
        }
    }
    Ok(())
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

fn broken(error: &serde_yaml::Error, text: &str) -> Broken {
    let line = error.location().map(|place| place.line());
    let whole = error.to_string();
    // The places in the crate's own words go: the line is said in front.
    let mut message = String::new();
    let mut rest = whole.as_str();
    while let Some(start) = rest.find(" at line ") {
        let (before, after) = rest.split_at(start);
        message.push_str(before);
        let after = after.trim_start_matches(" at line ").trim_start_matches(|c: char| c.is_ascii_digit());
        rest = after.strip_prefix(" column ").map_or(after, |after| after.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    message.push_str(rest);
    if let Some(own) = message.split(OWN).nth(1) {
        return Broken { line, message: own.to_owned() };
    }
    if message.starts_with("recursion limit") {
        return Broken { line, message: too_deep() };
    }
    if message.contains("more than one document") {
        return Broken { line, message: "expected one YAML document, found several (a line of --- begins another)".to_owned() };
    }
    let tab = line.and_then(|line| text.lines().nth(line - 1)).is_some_and(|line| line.trim_start_matches(' ').starts_with('\t'));
    let hint = if tab { "; a tab cannot indent YAML: use spaces" } else { "" };
    Broken { line, message: format!("not valid YAML: {message}{hint}") }
}

/// Marks a message of ours inside the YAML crate's error.
const OWN: &str = "\u{1}";

fn own<E: de::Error>(message: impl fmt::Display) -> E {
    E::custom(format!("{OWN}{message}"))
}

/// Applies `<<`: entries of the named mappings that the mapping itself does not have.
fn merge(node: &mut Node) {
    match &mut node.value {
        Value::Scalar { .. } => {}
        Value::List(items) => items.iter_mut().for_each(merge),
        Value::Map(entries) => {
            entries.iter_mut().for_each(|(_, value)| merge(value));
            let Some(at) = entries.iter().position(|(key, value)| key.name == "<<" && !matches!(value.value, Value::Scalar { .. })) else {
                return;
            };
            let (_, source) = entries.remove(at);
            let sources = if let Value::List(items) = source.value { items } else { vec![source] };
            for source in sources {
                let Value::Map(more) = source.value else { continue };
                for (key, value) in more {
                    if !entries.iter().any(|(have, _)| have.name == key.name) {
                        entries.push((key, value));
                    }
                }
            }
        }
    }
}

struct Walk {
    next: Cell<u32>,
    stop_at: Option<u32>,
}

/// Builds a node and everything below it.
struct Build<'w> {
    walk: &'w Walk,
    depth: usize,
    /// Whether this is a mapping's key.
    key: bool,
}

impl<'de> DeserializeSeed<'de> for Build<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        let id = self.walk.next.replace(self.walk.next.get() + 1);
        deserializer.deserialize_any(Visit { build: self, id })
    }
}

struct Visit<'w> {
    build: Build<'w>,
    id: u32,
}

impl Visit<'_> {
    fn check<E: de::Error>(&self) -> Result<(), E> {
        if self.build.walk.stop_at == Some(self.id) {
            return Err(own("here"));
        }
        if self.id >= MAX_NODES {
            return Err(own(format!("more than {MAX_NODES} values")));
        }
        if self.build.depth > MAX_DEPTH {
            return Err(own(too_deep()));
        }
        Ok(())
    }

    fn scalar<E: de::Error>(&self, kind: Kind, raw: &str) -> Result<Node, E> {
        self.check()?;
        Ok(Node { id: self.id, value: Value::Scalar { kind, raw: raw.to_owned() } })
    }

    fn below(&self, key: bool) -> Build<'_> {
        Build { walk: self.build.walk, depth: self.build.depth + 1, key }
    }

    fn check_value<E: de::Error>(&self) -> Result<(), E> {
        self.check()?;
        if self.build.key { Err(own("a key must be a plain word")) } else { Ok(()) }
    }
}

impl<'de> Visitor<'de> for Visit<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Node, E> {
        self.scalar(Kind::Bool(value), "")
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Node, E> {
        self.scalar(Kind::Number, "")
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Node, E> {
        self.scalar(Kind::Number, "")
    }

    fn visit_i128<E: de::Error>(self, _: i128) -> Result<Node, E> {
        self.scalar(Kind::Number, "")
    }

    fn visit_u128<E: de::Error>(self, _: u128) -> Result<Node, E> {
        self.scalar(Kind::Number, "")
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Node, E> {
        self.scalar(Kind::Number, "")
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Node, E> {
        self.scalar(Kind::Text, value)
    }

    fn visit_none<E: de::Error>(self) -> Result<Node, E> {
        self.scalar(Kind::Null, "")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Node, E> {
        self.scalar(Kind::Null, "")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        self.check_value()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.below(false))? {
            list.push(item);
        }
        Ok(Node { id: self.id, value: Value::List(list) })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        self.check_value()?;
        let mut map = Vec::new();
        while let Some(key) = entries.next_key_seed(self.below(true))? {
            let Value::Scalar { raw, .. } = key.value else {
                return Err(own("a key must be a plain word"));
            };
            let value = entries.next_value_seed(self.below(false))?;
            map.push((Key { id: key.id, name: raw }, value));
        }
        Ok(Node { id: self.id, value: Value::Map(map) })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, _: A) -> Result<Node, A::Error> {
        Err(own("tags (a word with ! in front of a value) are not understood"))
    }
}

/// Fills in the text of plain words, which the first reading gives only as values: `1.10` is not `1.1`.
struct Fill<'n>(&'n mut Node);

impl<'de> DeserializeSeed<'de> for Fill<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match &mut self.0.value {
            Value::Scalar { kind: Kind::Text, .. } => deserializer.deserialize_ignored_any(IgnoredAny).map(drop),
            Value::Scalar { raw, .. } => deserializer.deserialize_str(FillText(raw)),
            Value::List(items) => deserializer.deserialize_seq(FillList(items)),
            Value::Map(entries) => deserializer.deserialize_map(FillMap(entries)),
        }
    }
}

struct FillText<'n>(&'n mut String);

impl<'de> Visitor<'de> for FillText<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        text.clone_into(self.0);
        Ok(())
    }
}

struct FillKey<'n>(&'n mut Key);

impl<'de> DeserializeSeed<'de> for FillKey<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(FillText(&mut self.0.name))
    }
}

struct FillList<'n>(&'n mut [Node]);

impl<'de> Visitor<'de> for FillList<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for node in self.0 {
            items.next_element_seed(Fill(node))?;
        }
        Ok(())
    }
}

struct FillMap<'n>(&'n mut [(Key, Node)]);

impl<'de> Visitor<'de> for FillMap<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        for (key, node) in self.0 {
            entries.next_key_seed(FillKey(key))?;
            entries.next_value_seed(Fill(node))?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "yaml_tests.rs"]
mod tests;
