//! Tables: whole when piped, fitted to the width of a terminal.
//!
//! Invariant: a cell's text is safe to show whatever it came from, and a table never wraps on a terminal of 20 columns or more.

use super::safe;
use super::screen::Screen;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

const GAP: usize = 2;
const NARROWEST: usize = 4;

/// How a cell looks where colour is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Look {
    /// As it is.
    #[default]
    Plain,
    /// All is well.
    Good,
    /// Something is under way or slow.
    Busy,
    /// Something is wrong.
    Bad,
    /// Beside the point.
    Dim,
}

impl Look {
    /// The escape sequence that turns it on.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "\x1b[32m",
            Self::Busy => "\x1b[33m",
            Self::Bad => "\x1b[31m",
            Self::Dim => "\x1b[2m",
        }
    }
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    look: Look,
}

impl Cell {
    /// Makes a cell with a look.
    pub(crate) fn new(text: impl AsRef<str>, look: Look) -> Self {
        Self { text: safe::line(text.as_ref()).into_owned(), look }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Look::Plain)
    }
}

/// How a column behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Never cut.
    Whole(&'static str),
    /// Never cut, at the right of its width.
    Number(&'static str),
    /// Cut where the terminal is too narrow.
    Cut(&'static str),
}

impl Column {
    fn head(self) -> &'static str {
        match self {
            Self::Whole(head) | Self::Number(head) | Self::Cut(head) => head,
        }
    }
}

/// A table of some columns.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Makes an empty table.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; it has as many cells as the table has columns.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Gives the text, with a head line.
    pub(crate) fn text(&self, screen: &Screen) -> String {
        let widths = self.widths(screen.width);
        let head: Vec<Cell> = self.columns.iter().map(|c| Cell::new(c.head(), Look::Dim)).collect();
        let mut text = String::new();
        for row in std::iter::once(&head).chain(&self.rows) {
            let mut line = String::new();
            // Spaces are put off until something follows them, so that no line ends with any.
            let mut owed = 0;
            for (index, ((cell, width), column)) in row.iter().zip(&widths).zip(&self.columns).enumerate() {
                owed += if index == 0 { 0 } else { GAP };
                let shown = cut(&cell.text, *width, screen.unicode);
                let room = width.saturating_sub(shown.width());
                if matches!(column, Column::Number(_)) {
                    owed += room;
                }
                if !shown.is_empty() {
                    line.extend(std::iter::repeat_n(' ', owed));
                    owed = 0;
                    let code = if screen.color { cell.look.code() } else { "" };
                    line += code;
                    line += &shown;
                    line += if code.is_empty() { "" } else { "\x1b[0m" };
                }
                if !matches!(column, Column::Number(_)) {
                    owed += room;
                }
            }
            text += &line;
            text.push('\n');
        }
        text
    }

    fn widths(&self, limit: Option<usize>) -> Vec<usize> {
        let natural = |(index, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.text.width());
            cells.max().unwrap_or(0).max(column.head().width())
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(natural).collect();
        let Some(limit) = limit else { return widths };
        let gaps = GAP * self.columns.len().saturating_sub(1);
        let mut over = (widths.iter().sum::<usize>() + gaps).saturating_sub(limit);
        // First the columns that may be cut, the widest first; then, where that is not enough, any.
        for any in [false, true] {
            while over > 0 {
                let may = |index: &usize| (any || matches!(self.columns[*index], Column::Cut(_))) && widths[*index] > NARROWEST;
                let Some(index) = (0..widths.len()).filter(may).max_by_key(|index| widths[*index]) else { break };
                widths[index] -= 1;
                over -= 1;
            }
        }
        widths
    }
}

/// Cuts a text to a width in columns, with a mark where something is missing.
pub(crate) fn cut(text: &str, width: usize, unicode: bool) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mark = if unicode { "…" } else { "~" };
    let mut out = String::new();
    let mut used = mark.width();
    for piece in text.graphemes(true) {
        if used + piece.width() > width {
            break;
        }
        used += piece.width();
        out += piece;
    }
    if width > 0 {
        out += mark;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[Column::Whole("ID"), Column::Number("AGE"), Column::Cut("COMMAND")]);
        table.row(vec!["k7f3".into(), "12s".into(), "make -j4 all".into()]);
        table.row(vec!["b2".into(), "3m".into(), "printf '\x1b[31m'\necho".into()]);
        table.row(vec![Cell::new("x", Look::Bad), "".into(), "".into()]);
        table
    }

    #[test]
    fn piped_nothing_is_cut() {
        let screen = Screen { unicode: true, ..Screen::default() };
        insta::assert_snapshot!(table().text(&screen), @r"
        ID    AGE  COMMAND
        k7f3  12s  make -j4 all
        b2     3m  printf '\x1b[31m'\necho
        x
        ");
    }

    #[test]
    fn on_a_terminal_it_fits() {
        let screen = Screen { unicode: true, width: Some(22), ..Screen::default() };
        insta::assert_snapshot!(table().text(&screen), @r"
        ID    AGE  COMMAND
        k7f3  12s  make -j4 a…
        b2     3m  printf '\x…
        x
        ");
        for width in 20..40 {
            let screen = Screen { unicode: true, width: Some(width), ..Screen::default() };
            assert!(table().text(&screen).lines().all(|l| l.width() <= width), "{width}");
        }
    }

    #[test]
    fn colour_adds_no_width() {
        let screen = Screen { unicode: true, color: true, ..Screen::default() };
        assert!(table().text(&screen).contains("\x1b[31mx\x1b[0m\n"));
    }

    #[test]
    fn wide_characters_are_cut_whole() {
        assert_eq!(cut("日本語", 5, true), "日本…");
        assert_eq!(cut("日本語", 4, true), "日…");
        assert_eq!(cut("日本語", 6, true), "日本語");
        assert_eq!(cut("abc", 2, false), "a~");
        assert_eq!(cut("abc", 0, true), "");
    }
}
