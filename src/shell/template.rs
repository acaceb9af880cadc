//! Templates of shell text: named sections of a file, with `@NAME@` places to fill. Variables whose names begin with `__qd_`
//! get a piece of the nonce into their names.
//!
//! Invariant: comment lines and empty lines never reach a shell, and a place without a value is a fault found by the tests.

/// What the names of our own variables begin with.
const OWN: &str = "__qd_";
/// So much of the nonce follows it.
const OWN_LEN: usize = 6;

/// A file of sections, each begun by a line `#=== NAME`.
pub(super) struct Template {
    sections: Vec<(&'static str, Vec<&'static str>)>,
}

/// What the places of a section are filled with.
pub(super) struct Values {
    list: Vec<(&'static str, Vec<u8>)>,
}

impl Template {
    /// Reads the sections of a file.
    pub(super) fn parse(text: &'static str) -> Self {
        let mut sections: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("#=== ") {
                sections.push((name.trim(), Vec::new()));
            } else if !(line.trim().is_empty() || line == "#" || line.starts_with("# ") || line.starts_with("#!"))
                && let Some((_, lines)) = sections.last_mut()
            {
                lines.push(line);
            }
        }
        Self { sections }
    }

    /// Fills a section, its lines joined by `joint`.
    pub(super) fn fill(&self, name: &str, joint: &str, values: &Values) -> Vec<u8> {
        let lines = self.sections.iter().find(|(n, _)| *n == name).map(|(_, lines)| lines.as_slice());
        debug_assert!(lines.is_some(), "no section {name}");
        let mut out = Vec::new();
        for (i, line) in lines.unwrap_or_default().iter().enumerate() {
            if i > 0 {
                out.extend_from_slice(joint.as_bytes());
            }
            fill_line(&mut out, line, values);
        }
        out
    }
}

fn fill_line(out: &mut Vec<u8>, line: &str, values: &Values) {
    let mut rest = line;
    while let Some(at) = rest.find('@') {
        literal(out, &rest[..at], values);
        let after = &rest[at + 1..];
        let len = after.bytes().take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit()).count();
        if len > 0 && after.as_bytes().get(len) == Some(&b'@') {
            let name = &after[..len];
            let value = values.get(name);
            debug_assert!(value.is_some(), "no value for @{name}@");
            out.extend_from_slice(value.unwrap_or_default());
            rest = &after[len + 1..];
        } else {
            out.push(b'@');
            rest = after;
        }
    }
    literal(out, rest, values);
}

/// Adds the template's own text.
fn literal(out: &mut Vec<u8>, text: &str, values: &Values) {
    let mut pieces = text.split(OWN);
    out.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
    for piece in pieces {
        let nonce = values.get("NONCE").unwrap_or_default();
        out.extend_from_slice(OWN.as_bytes());
        out.extend_from_slice(&nonce[..nonce.len().min(OWN_LEN)]);
        out.extend_from_slice(piece.as_bytes());
    }
}

impl Values {
    /// Makes an empty list.
    pub(super) fn new() -> Self {
        Self { list: Vec::with_capacity(24) }
    }

    /// Sets a value; a later one replaces an earlier one.
    pub(super) fn set(&mut self, name: &'static str, value: impl Into<Vec<u8>>) {
        let value = value.into();
        match self.list.iter_mut().find(|(n, _)| *n == name) {
            Some(slot) => slot.1 = value,
            None => self.list.push((name, value)),
        }
    }

    fn get(&self, name: &str) -> Option<&[u8]> {
        self.list.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_filled_and_comments_dropped() {
        let t = Template::parse("# head\n#=== ONE\n# why\necho @A@ x@B\n\n#x @A1@\n#=== TWO\nb\n");
        let mut v = Values::new();
        v.set("A", "1");
        v.set("A", "2");
        v.set("A1", "3");
        assert_eq!(t.fill("ONE", "; ", &v), b"echo 2 x@B; #x 3");
        assert_eq!(t.fill("TWO", "\n", &v), b"b");
        v.set("NONCE", "0123456789abcdef");
        let t = Template::parse("#=== ONE\n__qd_a=@A@ ${__qd_b}@A@ __qdr_c\n");
        v.set("A", "__qd_x");
        assert_eq!(t.fill("ONE", "", &v), b"__qd_012345a=__qd_x ${__qd_012345b}__qd_x __qdr_c");
    }
}
