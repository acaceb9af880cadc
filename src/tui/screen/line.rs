//! Lines of a block's screen: as cells while they can change, as text with runs of style afterwards.
//!
//! Invariant: the runs of a fixed line cover its text exactly, in order.

use ratatui::style::{Color, Modifier, Style};

/// How text is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(in crate::tui) struct Pen {
    pub(super) fg: Color,
    pub(super) bg: Color,
    pub(super) mods: Modifier,
}

impl Pen {
    /// Gives the style for drawing.
    pub(in crate::tui) fn style(self) -> Style {
        Style::new().fg(self.fg).bg(self.bg).add_modifier(self.mods)
    }
}

/// One column of a row: a character with at most one mark on it; the second half of a wide character is `'\0'`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    c: char,
    mark: Option<char>,
    pen: Pen,
}

impl Cell {
    pub(super) fn new(c: char, pen: Pen) -> Self {
        Self { c, mark: None, pen }
    }

    fn blank() -> Self {
        Self::new(' ', Pen::default())
    }
}

/// A line that can still change.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    cells: Vec<Cell>,
    cut: bool,
}

impl Row {
    pub(super) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    pub(super) fn memory(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>() + size_of::<Self>()
    }

    /// Says that characters did not fit.
    pub(super) fn overflow(&mut self) {
        self.cut = true;
    }

    /// Puts a character of `width` columns at a column.
    pub(super) fn set(&mut self, x: usize, cell: Cell, width: usize) {
        if self.cells.len() < x + width {
            self.cells.resize(x + width, Cell::blank());
        }
        for at in x..x + width {
            self.clear_cell(at);
        }
        self.cells[x] = cell;
        if width == 2 {
            self.cells[x + 1] = Cell { c: '\0', ..cell };
        }
    }

    /// Puts a mark on the character before a column.
    pub(super) fn mark(&mut self, x: usize, mark: char) {
        let Some(mut at) = x.checked_sub(1) else { return };
        if self.cells.get(at).is_some_and(|c| c.c == '\0') && at > 0 {
            at -= 1;
        }
        if let Some(cell) = self.cells.get_mut(at) {
            cell.mark.get_or_insert(mark);
        }
    }

    /// Erases columns; with none beyond, the row gets shorter.
    pub(super) fn erase(&mut self, from: usize, to: Option<usize>) {
        match to {
            None => {
                if from < self.cells.len() {
                    self.clear_cell(from);
                }
                self.cells.truncate(from);
            }
            Some(to) => {
                for at in from..to.min(self.cells.len()) {
                    self.clear_cell(at);
                }
            }
        }
        self.cut = false;
    }

    /// Blanks a column, and the other half of a wide character with it.
    fn clear_cell(&mut self, at: usize) {
        if self.cells[at].c == '\0' && at > 0 {
            self.cells[at - 1] = Cell::blank();
        }
        if self.cells.get(at + 1).is_some_and(|c| c.c == '\0') {
            self.cells[at + 1] = Cell::blank();
        }
        self.cells[at] = Cell::blank();
    }

    /// Gives the row as a line that does not change any more.
    pub(super) fn fixed(&self) -> Line {
        let blank = Cell::blank();
        let used = self.cells.iter().rposition(|c| *c != blank).map_or(0, |i| i + 1);
        let mut text = String::with_capacity(used);
        let mut runs: Vec<(u32, Pen)> = Vec::new();
        for cell in self.cells[..used].iter().filter(|c| c.c != '\0') {
            text.push(cell.c);
            text.extend(cell.mark);
            let end = text.len() as u32;
            match runs.last_mut() {
                Some((last, pen)) if *pen == cell.pen => *last = end,
                _ => runs.push((end, cell.pen)),
            }
        }
        if self.cut {
            text.push_str("...");
            runs.push((text.len() as u32, Pen::default()));
        }
        Line { text: text.into(), runs: runs.into() }
    }
}

/// A line that does not change any more.
#[derive(Clone, Debug, PartialEq, Default)]
pub(in crate::tui) struct Line {
    text: Box<str>,
    runs: Box<[(u32, Pen)]>,
}

impl Line {
    /// Gives the text.
    pub(in crate::tui) fn text(&self) -> &str {
        &self.text
    }

    /// Gives the pieces of equal style inside a byte range of the text.
    pub(in crate::tui) fn pieces(&self, range: std::ops::Range<usize>) -> impl Iterator<Item = (&str, Pen)> {
        let mut from = 0usize;
        self.runs.iter().filter_map(move |(end, pen)| {
            let (a, b) = (from.max(range.start), (*end as usize).min(range.end));
            from = *end as usize;
            (a < b).then(|| (&self.text[a..b], *pen))
        })
    }

    /// Gives about how many bytes of memory it takes.
    pub(in crate::tui) fn memory(&self) -> usize {
        self.text.len() + self.runs.len() * size_of::<(u32, Pen)>() + size_of::<Self>()
    }
}
