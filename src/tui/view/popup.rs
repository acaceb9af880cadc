//! What lies on top: the popup of the leader, questions, the first start, the choice of a session.
//!
//! Invariant: it covers and never moves what is below; on a small screen it shows as much as fits, its last line included.

use super::boxes::{self, Piece};
use crate::tui::input::table::Context;
use crate::tui::state::overlay::{Confirm, Overlay, POPUP_MS};
use crate::tui::state::{Drawn, State};
use crate::tui::text::{clean, cut, put, width, wrap_words};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws what lies on top, if anything does.
pub(super) fn draw(state: &State, buf: &mut Buffer, drawn: &mut Drawn) {
    if super::dialog::draw(state, buf) {
        drawn.cursor = None;
        return;
    }
    match &state.overlay {
        Some(Overlay::Setup { refused, .. }) => setup(state, refused.as_deref(), buf),
        Some(Overlay::Confirm(question)) => confirm(state, question, buf),
        Some(Overlay::Sessions { backend, rows, at, text }) => sessions(state, backend, rows, *at, text, buf),
        None => {
            if state.leader.is_some_and(|at| state.mono >= at + POPUP_MS) {
                which_key(state, buf);
            }
            return;
        }
    }
    drawn.cursor = None;
}

/// Draws a box in the middle with lines of text, the last of them at the bottom.
fn dialog(state: &State, title: &str, lines: &[(String, Style)], last: &str, buf: &mut Buffer) {
    let theme = state.theme;
    let screen = *buf.area();
    let most = screen.width.saturating_sub(4).clamp(1, 72) as usize;
    let mut rows: Vec<(String, Style)> = Vec::new();
    for (text, style) in lines {
        rows.extend(wrap_words(text, most).into_iter().map(|r| (text[r].to_owned(), *style)));
    }
    let inner = rows.iter().map(|(t, _)| width(t)).chain([width(last), width(title) + 4]).max().unwrap_or(0).min(most);
    let area = boxes::middle(screen, inner as u16 + 4, rows.len() as u16 + 4);
    boxes::clear(buf, area);
    let title = [(clean(title), theme.strong())];
    let inside = boxes::frame(buf, area, theme.glyphs.double, theme.focus(), &title, &[], theme.glyphs.ascii);
    if inside.is_empty() {
        // No room for a box: the answer keys are what matters.
        put(buf, screen, screen.x, screen.y, &cut(last, screen.width as usize, theme.glyphs.ascii), theme.chosen());
        return;
    }
    let text_rows = inside.height.saturating_sub(1) as usize;
    for (i, (text, style)) in rows.iter().take(text_rows).enumerate() {
        put(buf, inside, inside.x + 1, inside.y + i as u16, text, *style);
    }
    put(buf, inside, inside.x + 1, inside.bottom() - 1, last, theme.focus());
}

fn confirm(state: &State, question: &Confirm, buf: &mut Buffer) {
    let lines: Vec<(String, Style)> = question.lines.iter().map(|l| (clean(l), Style::new())).collect();
    dialog(state, &question.title, &lines, &format!("y {}    any other key: leave it", question.yes), buf);
}

fn setup(state: &State, refused: Option<&str>, buf: &mut Buffer) {
    let theme = state.theme;
    let leader = state.keymap.leader.short();
    let mut lines = vec![
        ("One key is for this program; all others go to your commands.".to_owned(), Style::new()),
        (format!("Press {leader} now, or press the key you want for it."), theme.strong()),
        ("The key that arrives is the one your terminal can send.".to_owned(), theme.dim()),
    ];
    for (name, key) in &state.facts.outer {
        lines.push((format!("You are inside {name}, which takes {}.", key.short()), theme.warn()));
    }
    if let Some(text) = refused {
        lines.push((text.to_owned(), theme.bad()));
    }
    dialog(state, "first start", &lines, &format!("Esc: use {leader} and ask again next time"), buf);
}

fn sessions(state: &State, backend: &str, rows: &[String], at: usize, text: &str, buf: &mut Buffer) {
    let theme = state.theme;
    let room = (buf.area().height as usize).saturating_sub(8).max(1);
    let first = (at + 1).saturating_sub(room);
    let mut lines: Vec<(String, Style)> = Vec::new();
    for (i, name) in rows.iter().enumerate().skip(first).take(room) {
        let cwd = state.session(backend, name).map_or_else(String::new, |s| format!("  {}", clean(&s.cwd)));
        let chosen = i == at && text.is_empty();
        let mark = if chosen { theme.glyphs.running } else { " " };
        lines.push((format!("{mark} {}{cwd}", clean(name)), if chosen { theme.chosen() } else { Style::new() }));
    }
    lines.push((format!("new: {text}_"), if text.is_empty() { theme.dim() } else { theme.strong() }));
    dialog(state, &format!("session on {}", clean(backend)), &lines, "enter choose    type a new name    esc", buf);
}

/// The keys after the leader, grouped, in as many columns as fit.
fn which_key(state: &State, buf: &mut Buffer) {
    let theme = state.theme;
    let screen = *buf.area();
    let mut cells: Vec<Piece> = Vec::new();
    let mut group = "";
    for line in state.keymap.help(&[Context::Leader]) {
        if line.group != group {
            group = line.group;
            cells.push((group.to_owned(), theme.strong()));
        }
        cells.push((format!("{:>7}  {}", line.keys, line.label), Style::new()));
    }
    const CELL: u16 = 34;
    let columns = (screen.width.saturating_sub(2) / CELL).clamp(1, 3) as usize;
    let per = cells.len().div_ceil(columns);
    let area = boxes::middle(screen, CELL * columns as u16 + 2, per as u16 + 2);
    // At the bottom, where the eye is.
    let area = Rect { y: screen.bottom().saturating_sub(area.height + 1).max(screen.y), ..area };
    let area = area.intersection(screen);
    boxes::clear(buf, area);
    let title = [(format!("{}  waiting for a key", state.keymap.leader.short()), theme.strong())];
    let inside =
        boxes::frame(buf, area, theme.glyphs.double, theme.focus(), &title, &[("Esc: NAV".to_owned(), theme.dim())], theme.glyphs.ascii);
    for (i, (text, style)) in cells.iter().enumerate() {
        let (column, row) = (i / per, i % per);
        let x = inside.x + 1 + column as u16 * CELL;
        let cell = Rect { x, y: inside.y + row as u16, width: CELL, height: 1 }.intersection(inside);
        if !cell.is_empty() {
            put(buf, cell, cell.x, cell.y, &cut(text, cell.width as usize, theme.glyphs.ascii), *style);
        }
    }
}
