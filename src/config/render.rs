//! Writes a tree as YAML text.
//!
//! Invariant: what is written reads as the same tree.

use super::yaml::{self, Kind, Node, Value};
use std::fmt::Write;

/// Writes a mapping in block style, lists of words in one line.
pub(super) fn render(node: &Node) -> String {
    let mut out = String::new();
    block(node, 0, &mut out);
    out
}

fn block(node: &Node, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match &node.value {
        Value::Map(entries) => {
            for (key, value) in entries {
                push(out, &format!("{pad}{}:", quote(&key.name)));
                below(value, indent, out);
            }
        }
        Value::List(items) => {
            for item in items {
                push(out, &format!("{pad}-"));
                below(item, indent, out);
            }
        }
        Value::Scalar { .. } => push(out, &format!("{pad}{}\n", word(node))),
    }
}

fn push(out: &mut String, text: &str) {
    out.push_str(text);
}

/// Writes what stands behind a key or a hyphen: on the same line when it is short, else below.
fn below(node: &Node, indent: usize, out: &mut String) {
    match &node.value {
        Value::Map(entries) if !entries.is_empty() => {
            out.push('\n');
            block(node, indent + 2, out);
        }
        Value::List(items) if items.iter().any(|item| !matches!(item.value, Value::Scalar { .. })) => {
            out.push('\n');
            block(node, indent + 2, out);
        }
        Value::Map(_) => out.push_str(" {}\n"),
        Value::List(items) => {
            let words: Vec<String> = items.iter().map(flow_word).collect();
            push(out, &format!(" [{}]\n", words.join(", ")));
        }
        Value::Scalar { .. } => push(out, &format!(" {}\n", word(node))),
    }
}

fn word(node: &Node) -> String {
    match &node.value {
        Value::Scalar { kind: Kind::Text, raw } => quote(raw),
        Value::Scalar { kind: Kind::Null, .. } => "null".to_owned(),
        Value::Scalar { raw, .. } => raw.clone(),
        _ => String::new(),
    }
}

fn flow_word(node: &Node) -> String {
    let word = word(node);
    if word.starts_with('"') || !word.contains([',', '[', ']', '{', '}']) { word } else { quoted(&word) }
}

/// Writes a text so that it reads as the same text: bare where that is so, else in double quotes.
fn quote(text: &str) -> String {
    let plain = !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_./~@+-, =%".contains(c))
        && !text.starts_with([' ', '-', '%', '@', '=', ',', '~'])
        && !text.ends_with(' ');
    let probe = format!("k: {text}\n");
    let same = plain
        && yaml::parse(&probe)
            .is_ok_and(|root| root.get("k").is_some_and(|node| node.value == Value::Scalar { kind: Kind::Text, raw: text.to_owned() }));
    if same { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            ' '..='~' | '\u{a1}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{10000}'..='\u{10ffff}' => out.push(c),
            other => {
                // Writing to a text cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(other));
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &Node, b: &Node) -> bool {
        match (&a.value, &b.value) {
            (Value::Map(a), Value::Map(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((ka, a), (kb, b))| ka.name == kb.name && same(a, b))
            }
            (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
            (Value::Scalar { kind: Kind::Null, .. }, Value::Scalar { kind: Kind::Null, .. }) => true,
            (a, b) => a == b,
        }
    }

    fn check(root: &Node) {
        let text = render(root);
        let again = yaml::parse(&text).unwrap_or_else(|broken| panic!("{broken:?}\n{text}"));
        assert!(same(root, &again), "{text}\n{root:#?}\n{again:#?}");
    }

    #[test]
    fn shapes_come_back() {
        let text =
            "a: {b: [], c: {}, d: ~}\ne: [x, 'y, z', \"1\", 1, true]\nf:\n  - g: h\n    i: [j]\n  - k\n  - [l, [m]]\n\"q: r\": '#s'\n";
        check(&yaml::parse(text).unwrap());
    }

    proptest::proptest! {
        #[test]
        fn any_word_comes_back(word in "\\PC{0,12}|[ -~]{0,12}|[\\x00-\\x1f\\x7f-\\x9f]{1,3}|[0-9.eE+-]{1,6}|~|null|true|[ \\n\\t:#,\\[\\]{}'\"-]{1,5}") {
            let word = word.replace('\0', "");
            check(&Node::map(0, vec![("k", Node::text(1, word.clone())), ("l", Node { id: 2, value: Value::List(vec![Node::text(3, word.clone())]) })]));
            check(&Node::map(0, vec![(word.as_str(), Node::text(1, "v"))]));
        }
    }
}
