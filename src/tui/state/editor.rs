//! The input line: text of one or several lines with a cursor.
//!
//! Invariant: the cursor is always on a boundary of a character a person sees.

use unicode_segmentation::UnicodeSegmentation;

/// An input line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::tui) struct Editor {
    text: String,
    cursor: usize,
    cut: String,
}

impl Editor {
    /// Makes a line with text, the cursor at its end.
    #[cfg(test)]
    pub(in crate::tui) fn with(text: &str) -> Self {
        Self { text: text.to_owned(), cursor: text.len(), cut: String::new() }
    }

    pub(in crate::tui) fn text(&self) -> &str {
        &self.text
    }

    /// The cursor as an offset in bytes.
    pub(in crate::tui) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(in crate::tui) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the text; the cursor goes to its end.
    pub(in crate::tui) fn set(&mut self, text: &str) {
        self.text = text.to_owned();
        self.cursor = self.text.len();
    }

    /// Empties the line and gives what was in it.
    pub(in crate::tui) fn take(&mut self) -> String {
        self.cursor = 0;
        std::mem::take(&mut self.text)
    }

    pub(in crate::tui) fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    /// Replaces what is between an offset and the cursor.
    pub(in crate::tui) fn replace_before(&mut self, from: usize, with: &str) {
        let from = from.min(self.cursor);
        self.text.replace_range(from..self.cursor, with);
        self.cursor = from + with.len();
    }

    pub(in crate::tui) fn left(&mut self) {
        self.cursor = self.before(self.cursor);
    }

    pub(in crate::tui) fn right(&mut self) {
        self.cursor = self.after(self.cursor);
    }

    pub(in crate::tui) fn line_start(&mut self) {
        self.cursor = self.text[..self.cursor].rfind('\n').map_or(0, |i| i + 1);
    }

    pub(in crate::tui) fn line_end(&mut self) {
        self.cursor = self.text[self.cursor..].find('\n').map_or(self.text.len(), |i| self.cursor + i);
    }

    pub(in crate::tui) fn word_left(&mut self) {
        self.cursor = self.word_before();
    }

    pub(in crate::tui) fn word_right(&mut self) {
        self.cursor = self.word_after();
    }

    /// Moves a line up; gives false on the first line.
    pub(in crate::tui) fn up(&mut self) -> bool {
        let start = self.text[..self.cursor].rfind('\n').map_or(0, |i| i + 1);
        let Some(end) = start.checked_sub(1) else { return false };
        let above = self.text[..end].rfind('\n').map_or(0, |i| i + 1);
        let column = self.text[start..self.cursor].chars().count();
        self.cursor = self.at_column(above, end, column);
        true
    }

    /// Moves a line down; gives false on the last line.
    pub(in crate::tui) fn down(&mut self) -> bool {
        let Some(end) = self.text[self.cursor..].find('\n').map(|i| self.cursor + i) else { return false };
        let start = self.text[..self.cursor].rfind('\n').map_or(0, |i| i + 1);
        let column = self.text[start..self.cursor].chars().count();
        let below = end + 1;
        let below_end = self.text[below..].find('\n').map_or(self.text.len(), |i| below + i);
        self.cursor = self.at_column(below, below_end, column);
        true
    }

    pub(in crate::tui) fn delete_before(&mut self) {
        let from = self.before(self.cursor);
        self.text.replace_range(from..self.cursor, "");
        self.cursor = from;
    }

    pub(in crate::tui) fn delete_after(&mut self) {
        self.text.replace_range(self.cursor..self.after(self.cursor), "");
    }

    pub(in crate::tui) fn delete_word_before(&mut self) {
        // As in a shell: up to the blank before.
        let head = self.text[..self.cursor].trim_end();
        let from = head.rfind(char::is_whitespace).map_or(0, |i| i + head[i..].chars().next().map_or(1, char::len_utf8));
        self.kill(from, self.cursor);
    }

    pub(in crate::tui) fn delete_word_after(&mut self) {
        self.kill(self.cursor, self.word_after());
    }

    pub(in crate::tui) fn delete_to_start(&mut self) {
        let start = self.text[..self.cursor].rfind('\n').map_or(0, |i| i + 1);
        self.kill(start, self.cursor);
    }

    pub(in crate::tui) fn delete_to_end(&mut self) {
        let end = self.text[self.cursor..].find('\n').map_or(self.text.len(), |i| self.cursor + i);
        // At the end of a line the newline goes.
        self.kill(self.cursor, if end == self.cursor { self.after(end) } else { end });
    }

    pub(in crate::tui) fn yank(&mut self) {
        let text = self.cut.clone();
        self.insert(&text);
    }

    fn kill(&mut self, from: usize, to: usize) {
        if from < to {
            self.cut = self.text[from..to].to_owned();
            self.text.replace_range(from..to, "");
            self.cursor = from;
        }
    }

    fn before(&self, at: usize) -> usize {
        self.text[..at].grapheme_indices(true).next_back().map_or(0, |(i, _)| i)
    }

    fn after(&self, at: usize) -> usize {
        self.text[at..].graphemes(true).next().map_or(at, |g| at + g.len())
    }

    fn at_column(&self, start: usize, end: usize, column: usize) -> usize {
        self.text[start..end].char_indices().nth(column).map_or(end, |(i, _)| start + i)
    }

    fn word_before(&self) -> usize {
        let head = self.text[..self.cursor].trim_end_matches(|c: char| !c.is_alphanumeric());
        head.rfind(|c: char| !c.is_alphanumeric()).map_or(0, |i| i + head[i..].chars().next().map_or(1, char::len_utf8))
    }

    fn word_after(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let word = rest.find(char::is_alphanumeric).unwrap_or(rest.len());
        rest[word..].find(|c: char| !c.is_alphanumeric()).map_or(self.text.len(), |i| self.cursor + word + i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Step = fn(&mut Editor);

    #[test]
    fn editing() {
        // The text with the cursor as |, the step, the same afterwards.
        let table: &[(&str, Step, &str)] = &[
            ("ab|", Editor::left, "a|b"),
            ("|ab", Editor::left, "|ab"),
            ("e\u{301}|", Editor::left, "|e\u{301}"),
            ("日本|", Editor::delete_before, "日|"),
            ("e\u{301}|x", Editor::delete_before, "|x"),
            ("a|bc", Editor::delete_after, "a|c"),
            ("ls -la /tmp|", Editor::delete_word_before, "ls -la |"),
            ("ls -la   |", Editor::delete_word_before, "ls |"),
            ("a|b cd", Editor::delete_word_after, "a| cd"),
            ("one two|", Editor::word_left, "one |two"),
            ("|one two", Editor::word_right, "one| two"),
            ("one\ntwo|", Editor::delete_to_start, "one\n|"),
            ("o|ne\ntwo", Editor::delete_to_end, "o|\ntwo"),
            ("o|\ntwo", Editor::delete_to_end, "o|two"),
            ("one\ntw|o", Editor::line_start, "one\n|two"),
            ("o|ne\ntwo", Editor::line_end, "one|\ntwo"),
            ("one\ntwo|", |e| assert!(e.up()), "one|\ntwo"),
            ("o|ne\ntwo", |e| assert!(e.down()), "one\nt|wo"),
            ("one|", |e| assert!(!e.up()), "one|"),
        ];
        for (before, step, after) in table {
            let mut editor = Editor::with(&before.replace('|', ""));
            editor.cursor = before.find('|').unwrap();
            step(&mut editor);
            let mut shown = editor.text().to_owned();
            shown.insert(editor.cursor(), '|');
            assert_eq!(shown, *after, "{before}");
        }
    }

    #[test]
    fn what_was_deleted_comes_back() {
        let mut editor = Editor::with("echo one two");
        editor.delete_word_before();
        editor.yank();
        editor.yank();
        assert_eq!(editor.text(), "echo one twotwo");
    }

    #[test]
    fn random_steps_keep_the_cursor_on_a_boundary() {
        let steps: &[Step] = &[
            Editor::left,
            Editor::right,
            Editor::word_left,
            Editor::word_right,
            Editor::line_start,
            Editor::line_end,
            Editor::delete_before,
            Editor::delete_after,
            Editor::delete_word_before,
            Editor::delete_word_after,
            Editor::delete_to_end,
            Editor::delete_to_start,
            Editor::yank,
            |e| e.insert("é日 🙂"),
            |e| e.insert("a\nb c"),
            |e| {
                e.up();
            },
            |e| {
                e.down();
            },
        ];
        let mut editor = Editor::default();
        let mut x: u32 = 3;
        for _ in 0..20_000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            steps[(x >> 16) as usize % steps.len()](&mut editor);
            assert!(editor.text.is_char_boundary(editor.cursor));
            if editor.text.len() > 400 {
                editor.take();
            }
        }
    }
}
