//! Draws the input line of a pane.
//!
//! Invariant: the cursor is always on screen; a long text is shown around it.

use super::boxes;
use super::pane::cwd;
use crate::tui::state::Drawn;
use crate::tui::state::State;
use crate::tui::state::pane::Pane;
use crate::tui::text::{char_width, clean, cut_front, put, width, wrap};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Most rows of the text.
const MAX_ROWS: usize = 8;

/// Gives how many rows the line takes, with what is said above it; at least one.
pub(super) fn height(state: &State, index: usize, inside: Rect) -> u16 {
    let Some(pane) = state.panes.get(index) else { return 1 };
    let (rows, ..) = text_rows(&shown_text(pane), width(&prompt(state, index, inside.width)), inside.width as usize);
    let said = usize::from(said(state, index).is_some());
    let most = (inside.height as usize / 2).clamp(1, MAX_ROWS);
    ((rows.len().min(most) + said) as u16).min(inside.height.max(1))
}

/// Draws the line, and puts the cursor into it when typing goes here.
pub(super) fn draw(state: &State, index: usize, area: Rect, typing: bool, buf: &mut Buffer, drawn: &mut Drawn) {
    let (theme, Some(pane)) = (state.theme, state.panes.get(index)) else { return };
    let mut area = area;
    if let Some((text, style)) = said(state, index).filter(|_| area.height > 1) {
        boxes::row(buf, Rect { height: 1, ..area }, &[(text, style)], &[], theme.glyphs.ascii);
        area = Rect { y: area.y + 1, height: area.height - 1, ..area };
    }
    if area.is_empty() {
        return;
    }
    let prompt = prompt(state, index, area.width);
    let prompt_width = width(&prompt);
    let away = state.away(index).is_some();
    put(buf, area, area.x, area.y, &prompt, if away || !typing { theme.dim() } else { theme.focus() });
    let text = shown_text(pane);
    let (rows, at_row, at_column) = text_rows(&text, prompt_width, area.width as usize);
    let first = (at_row + 1).saturating_sub(area.height as usize);
    for (i, row) in rows.iter().enumerate().skip(first).take(area.height as usize) {
        let y = area.y + (i - first) as u16;
        let x = area.x + if i == 0 { prompt_width as u16 } else { indent(prompt_width, area.width as usize) as u16 };
        if i == first && first > 0 {
            // The prompt's row is above: say that there is more.
            boxes::clear(buf, Rect { width: (x - area.x).min(area.width), height: 1, x: area.x, y });
        }
        put(buf, area, x, y, row, if away { theme.dim() } else { Style::new() });
    }
    if typing {
        let x = (area.x + at_column as u16).min(area.right() - 1);
        drawn.cursor = Some((x, area.y + (at_row - first) as u16));
    }
}

/// Gives the text with everything in it visible.
fn shown_text(pane: &Pane) -> (String, usize) {
    let (before, after) = pane.editor.text().split_at(pane.editor.cursor());
    let show = |text: &str| text.split('\n').map(|l| clean(&l.replace('\t', "    "))).collect::<Vec<_>>().join("\n");
    let before = show(before);
    (format!("{before}{}", show(after)), before.len())
}

fn indent(prompt: usize, width: usize) -> usize {
    if prompt * 2 < width { prompt.min(4) } else { 0 }
}

/// Breaks the text into rows; gives them with the cursor's row and column.
fn text_rows((text, cursor): &(String, usize), prompt: usize, width: usize) -> (Vec<String>, usize, usize) {
    let mut rows: Vec<String> = vec![String::new()];
    let (mut at, mut used, mut found) = (0, prompt, None);
    for c in text.chars() {
        if at == *cursor {
            found = Some((rows.len() - 1, used));
        }
        at += c.len_utf8();
        if c == '\n' {
            rows.push(String::new());
            used = indent(prompt, width);
            continue;
        }
        let w = char_width(c);
        if used + w > width.saturating_sub(1).max(2) {
            rows.push(String::new());
            used = indent(prompt, width);
            if found.is_some_and(|(_, x)| x >= width) {
                found = Some((rows.len() - 1, used));
            }
        }
        used += w;
        if let Some(row) = rows.last_mut() {
            row.push(c);
        }
    }
    let (row, column) = found.unwrap_or((rows.len() - 1, used));
    (rows, row, column)
}

fn prompt(state: &State, index: usize, room: u16) -> String {
    let theme = state.theme;
    let Some(pane) = state.panes.get(index) else { return String::new() };
    let glyph = theme.glyphs.prompt;
    if let Some(search) = &pane.history_search {
        return format!("history \"{}\" {glyph} ", cut_front(&clean(&search.text), room as usize / 3, theme.glyphs.ascii));
    }
    if let Some(id) = &pane.stdin {
        let short: String = clean(id).chars().take(8).collect();
        return format!("stdin of {short} {glyph} ");
    }
    if (room as usize) < 30 {
        return format!("{glyph} ");
    }
    let cwd = cwd(state, index).map_or_else(String::new, |c| format!(" {}", cut_front(&c, room as usize / 4, theme.glyphs.ascii)));
    let session = cut_front(&clean(&pane.session), room as usize / 4, theme.glyphs.ascii);
    format!("{session}{cwd} {glyph} ")
}

/// Gives what is said above the line: a refusal, choices, a search, that the backend is away.
fn said(state: &State, index: usize) -> Option<(String, Style)> {
    let theme = state.theme;
    let pane = state.panes.get(index)?;
    if pane.find.typing {
        return Some((format!("search: {}{}", clean(&pane.find.text), if theme.glyphs.ascii { "_" } else { "▏" }), theme.focus()));
    }
    if let Some(note) = &pane.note {
        return Some((clean(note), theme.warn()));
    }
    if !pane.choices.is_empty() {
        let words: Vec<String> = pane.choices.iter().map(|c| clean(c)).collect();
        return Some((words.join("  "), theme.dim()));
    }
    if pane.history_search.is_some() {
        return Some(("ctrl-r: earlier hit, enter: take it, esc: back".to_owned(), theme.dim()));
    }
    if let Some(why) = state.away(index) {
        return Some((format!("{why}; enter is refused"), theme.warn()));
    }
    if pane.stdin.is_some() {
        return Some(("enter sends the line, ctrl-d ends the input, esc leaves it open".to_owned(), theme.dim()));
    }
    // A text of several lines needs to say how it is run.
    let lines = wrap(pane.editor.text(), usize::MAX).len() + pane.editor.text().matches('\n').count();
    (lines > 1).then(|| (format!("{lines} lines; enter runs them as one command"), theme.dim()))
}
