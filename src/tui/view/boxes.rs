//! Boxes with words in their borders, and rows with words at both ends.
//!
//! Invariant: what does not fit is left out, the right end first kept; nothing is drawn outside the area.

use crate::tui::text::{cut, put, width};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// A piece of text with its style.
pub(super) type Piece = (String, Style);

/// Draws a border with words at the left and the right of its top; gives the area inside.
pub(super) fn frame(buf: &mut Buffer, area: Rect, set: [char; 6], style: Style, left: &[Piece], right: &[Piece], ascii: bool) -> Rect {
    if area.width < 2 || area.height < 2 {
        return Rect { width: 0, height: 0, ..area };
    }
    let [across, down, top_left, top_right, bottom_left, bottom_right] = set;
    let line: String = std::iter::repeat_n(across, area.width as usize - 2).collect();
    let (last_x, last_y) = (area.right() - 1, area.bottom() - 1);
    put(buf, area, area.x, area.y, &format!("{top_left}{line}{top_right}"), style);
    put(buf, area, area.x, last_y, &format!("{bottom_left}{line}{bottom_right}"), style);
    for y in area.y + 1..last_y {
        put(buf, area, area.x, y, &down.to_string(), style);
        put(buf, area, last_x, y, &down.to_string(), style);
    }
    let title = Rect { x: area.x + 2, width: area.width.saturating_sub(4), height: 1, y: area.y };
    row(buf, title, &pad(left), &pad(right), ascii);
    Rect { x: area.x + 1, y: area.y + 1, width: area.width - 2, height: area.height - 2 }
}

/// Puts a blank at both ends of words, so that the border does not touch them.
fn pad(pieces: &[Piece]) -> Vec<Piece> {
    if pieces.is_empty() {
        return Vec::new();
    }
    let style = Style::new();
    let mut out = vec![(" ".to_owned(), style)];
    out.extend(pieces.iter().cloned());
    out.push((" ".to_owned(), style));
    out
}

/// Draws pieces at the left and at the right of one row; the left is cut where they would meet. Gives the column after the left.
pub(super) fn row(buf: &mut Buffer, area: Rect, left: &[Piece], right: &[Piece], ascii: bool) -> u16 {
    let room = area.width as usize;
    let right_width: usize = right.iter().map(|(t, _)| width(t)).sum();
    // The right end is worth more than the left, but not everything.
    let right_width = if right_width <= room { right_width } else { 0 };
    let mut x = area.right() - right_width as u16;
    if right_width > 0 {
        for (text, style) in right {
            x = put(buf, area, x, area.y, text, *style);
        }
    }
    let mut free = room - right_width;
    let mut x = area.x;
    for (text, style) in left {
        let text = cut(text, free, ascii);
        free -= width(&text);
        x = put(buf, area, x, area.y, &text, *style);
    }
    x
}

/// Blanks an area.
pub(super) fn clear(buf: &mut Buffer, area: Rect) {
    let area = area.intersection(*buf.area());
    for y in area.y..area.bottom() {
        // Half of a wide character must not be left at the edges.
        for x in [area.x.checked_sub(1), area.right().checked_sub(1)].into_iter().flatten() {
            let wide = buf.cell((x, y)).is_some_and(|c| width(c.symbol()) > 1);
            if let Some(cell) = buf.cell_mut((x, y)).filter(|_| wide) {
                cell.reset();
            }
        }
        for x in area.x..area.right() {
            buf[(x, y)].reset();
        }
    }
}

/// Gives an area of a size in the middle of another, as much of it as fits.
pub(super) fn middle(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}
