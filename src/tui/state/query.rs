//! What a person types to see only some rows: plain words, `state:`, `by:`, `@tag`.
//!
//! Invariant: every part of the text must hold; a part that is not finished (`state:`) lets everything through.

/// What is known of a row.
#[derive(Debug, Default)]
pub(in crate::tui) struct Subject<'a> {
    /// Texts that plain words are looked for in.
    pub(in crate::tui) texts: &'a [&'a str],
    /// The words for its state: the first one is on screen.
    pub(in crate::tui) states: &'a [&'a str],
    /// Who started it.
    pub(in crate::tui) by: &'a str,
    /// The tags of its backend.
    pub(in crate::tui) tags: &'a [String],
}

/// Tells whether a row is let through. Case does not matter.
pub(in crate::tui) fn lets_through(query: &str, subject: &Subject<'_>) -> bool {
    if query.trim().is_empty() {
        return true;
    }
    let all = subject.texts.join(" ").to_lowercase();
    let starts = |whole: &str, part: &str| whole.to_lowercase().starts_with(part);
    query.to_lowercase().split_whitespace().all(|word| {
        if let Some(state) = word.strip_prefix("state:") {
            return subject.states.iter().any(|s| starts(s, state));
        }
        if let Some(who) = word.strip_prefix("by:") {
            return starts(subject.by, who);
        }
        if let Some(tag) = word.strip_prefix('@') {
            return tag.is_empty() || subject.tags.iter().any(|t| starts(t, tag));
        }
        all.contains(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_must_hold() {
        let tags = ["gpu".to_owned(), "lab".to_owned()];
        let subject = Subject { texts: &["web", "npm run Build"], states: &["failed", "ended"], by: "Hermes", tags: &tags };
        for (query, through) in [
            ("", true),
            ("  ", true),
            ("build web", true),
            ("build db", false),
            ("state:fail", true),
            ("state:running", false),
            ("state:", true),
            ("by:hermes npm", true),
            ("by:you", false),
            ("@lab", true),
            ("@prod", false),
            ("@", true),
        ] {
            assert_eq!(lets_through(query, &subject), through, "{query}");
        }
    }
}
