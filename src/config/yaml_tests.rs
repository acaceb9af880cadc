//! Tables for the tree: kinds, raw text, lines, and what is refused. Invariant: every message is compared whole.

use super::*;

fn get<'a>(root: &'a Node, path: &str) -> &'a Node {
    path.split('.').filter(|part| !part.is_empty()).fold(root, |node, part| match part.parse::<usize>() {
        Ok(index) => match &node.value {
            Value::List(items) => &items[index],
            other => panic!("{path}: {other:?}"),
        },
        Err(_) => node.get(part).unwrap_or_else(|| panic!("{path}: no {part}")),
    })
}

#[test]
fn words_keep_their_text() {
    let text = "a: 1.10\nb: 0022\nc: ~\nd:\ne: '~'\nf: no\ng: 0x1F\nh: true\ni: 1e3\nj: 'it''s'\n10: ten\nnull: x\n";
    let root = parse(text).unwrap();
    let table = [
        ("a", Kind::Number, "1.10"),
        ("b", Kind::Text, "0022"),
        ("c", Kind::Null, "~"),
        ("d", Kind::Null, ""),
        ("e", Kind::Text, "~"),
        ("f", Kind::Text, "no"),
        ("g", Kind::Number, "0x1F"),
        ("h", Kind::Bool(true), "true"),
        ("i", Kind::Number, "1e3"),
        ("j", Kind::Text, "it's"),
        ("10", Kind::Text, "ten"),
        ("null", Kind::Text, "x"),
    ];
    let Value::Map(entries) = &root.value else { panic!() };
    for ((key, node), (name, kind, raw)) in entries.iter().zip(table) {
        assert_eq!(key.name, name);
        assert_eq!(node.value, Value::Scalar { kind, raw: raw.to_owned() }, "{name}");
    }
}

#[test]
fn every_node_is_found_by_line() {
    let text = "# head\na: 1\n\nb:\n  c: x\n  d:\n    - p\n    - {q: 1,\n       r: 2}\n  e: |\n    one\n    two\n  f: last\nbase: &base\n  k: v\nuse:\n  <<: *base\n  l: w\n";
    let root = parse(text).unwrap();
    let table = [("a", 2), ("b.c", 5), ("b.d", 7), ("b.d.0", 7), ("b.d.1", 8), ("b.d.1.q", 8), ("b.d.1.r", 9), ("b.e", 10), ("b.f", 13)];
    for (path, line) in table {
        assert_eq!(line_of(text, get(&root, path).id), Some(line), "{path}");
    }
    assert_eq!(line_of(text, root.id), Some(2));
    // A merged entry is where it was written.
    assert_eq!(line_of(text, get(&root, "use.k").id), Some(15));
    let Value::Map(entries) = &root.value else { panic!() };
    let lines: Vec<_> = entries.iter().map(|(key, _)| line_of(text, key.id).unwrap()).collect();
    assert_eq!(lines, [2, 4, 14, 16]);
}

#[test]
fn an_entry_of_its_own_beats_a_merged_one() {
    let root = parse("base: &b {x: 1, y: 2}\none: {<<: *b, y: 3}\nmany: {<<: [*b, {z: 4, x: 5}]}\n").unwrap();
    assert_eq!(get(&root, "one.x").word(), Some("1"));
    assert_eq!(get(&root, "one.y").word(), Some("3"));
    assert_eq!(get(&root, "many.x").word(), Some("1"));
    assert_eq!(get(&root, "many.z").word(), Some("4"));
}

#[test]
fn nothing_is_an_empty_mapping() {
    for text in ["", "\n\n", "# only words\n", "---\n", "~\n", "---\n# x\n...\n"] {
        assert_eq!(parse(text).map(|root| root.value), Ok(Value::Map(Vec::new())), "{text:?}");
    }
}

#[test]
fn broken_text_is_told_by_line() {
    let deep_flow = "x: ".to_owned() + &"[".repeat(900_000);
    let deep_block: String = (0..60).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n";
    let table = [
        ("a: b: c\n", Some(1), "not valid YAML: mapping values are not allowed in this context"),
        (
            "a:\n\tb: 1\n",
            Some(2),
            "not valid YAML: found character that cannot start any token, while scanning for the next token; a tab cannot indent YAML: use spaces",
        ),
        ("a: 1\n---\nb: 2\n", None, "expected one YAML document, found several (a line of --- begins another)"),
        ("a: 1\nb: !secret x\n", Some(2), "tags (a word with ! in front of a value) are not understood"),
        ("a: 1\n? [x, y]\n: z\n", Some(2), "a key must be a plain word"),
        ("a: *nothing\n", Some(1), "not valid YAML: unknown anchor"),
        (deep_flow.as_str(), Some(1), "nested deeper than 32 levels"),
        (deep_block.as_str(), Some(33), "nested deeper than 32 levels"),
        (bomb, None, "not valid YAML: repetition limit exceeded"),
    ];
    for (text, line, message) in table {
        let shown = &text[..text.len().min(60)];
        let error = parse(text).unwrap_err();
        assert_eq!((error.line, error.message.as_str()), (line, message), "{shown:?}");
    }
    let huge = "#".repeat(MAX_BYTES + 1);
    assert_eq!(parse(&huge).unwrap_err().message, "larger than 1 MB");
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[ \\n\\t:#a-c\\-\\[\\]{},&*!|>'\"%@`0-9~<]{0,80}") {
        if let Ok(root) = parse(&text) {
            fn walk(text: &str, node: &Node) {
                match &node.value {
                    Value::Scalar { .. } => {}
                    Value::List(items) => items.iter().for_each(|item| walk(text, item)),
                    Value::Map(entries) => entries.iter().for_each(|(key, node)| {
                        assert!(line_of(text, key.id).is_some());
                        walk(text, node);
                    }),
                }
                if node.id != 0 {
                    assert!(line_of(text, node.id).is_some());
                }
            }
            walk(&text, &root);
        }
    }
}
