//! The full-screen lists: backends, messages, help.
//!
//! Invariant: the row under the cursor is always on screen.

use super::boxes::{self, Piece};
use super::pane::state_words;
use crate::model::Level;
use crate::tui::format;
use crate::tui::state::{Drawn, State};
use crate::tui::text::{clean, put};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws the frame of a list; gives the area of its rows.
pub(super) fn frame(state: &State, name: &str, count: usize, area: Rect, buf: &mut Buffer) -> Rect {
    let theme = state.theme;
    let mut left = vec![(format!("{name}  {count}"), theme.strong())];
    if !state.list.filter.is_empty() {
        left.push((format!("  filter: {}", clean(&state.list.filter)), theme.warn()));
    }
    boxes::frame(buf, area, theme.glyphs.light, theme.focus(), &left, &[("Esc back".to_owned(), theme.dim())], theme.glyphs.ascii)
}

/// Draws rows around the cursor.
pub(super) fn rows(state: &State, area: Rect, rows: &[Vec<Piece>], buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    drawn.list_rows = area.height as usize;
    let first = (state.list.at + 1).saturating_sub(area.height as usize);
    drawn.list = Some((area, first));
    for (i, pieces) in rows.iter().enumerate().skip(first).take(area.height as usize) {
        let at = Rect { y: area.y + (i - first) as u16, height: 1, ..area };
        let chosen = i == state.list.at;
        let mark = if chosen { theme.glyphs.cursor } else { ' ' };
        let mut all = vec![(mark.to_string(), theme.focus())];
        all.extend(pieces.iter().cloned());
        boxes::row(buf, at, &all, &[], theme.glyphs.ascii);
        if chosen && at.width > 0 {
            for x in at.x + 1..at.right() {
                let cell = &mut buf[(x, at.y)];
                cell.set_style(theme.strong());
            }
        }
    }
}

/// The table of backends and their health.
pub(super) fn backends(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let all = state.backend_rows();
    let inside = frame(state, "backends and health", all.len(), area, buf);
    if inside.height < 2 {
        return;
    }
    let heading = format!("  {:<3}{:<14}{:<8}{:<24}{:<26}{:<8}{:<9}why / shell", "#", "NAME", "KIND", "ADDRESS", "STATE", "RTT", "RUNNING");
    put(buf, inside, inside.x, inside.y, &heading, theme.dim());
    let mut out = Vec::new();
    for (_, b) in &all {
        let (glyph, style) = theme.health(b.health.state);
        let rtt = b.health.round_trip_us.map_or_else(|| "-".to_owned(), format::round_trip);
        let reason = b.health.reason.as_deref().or(b.shell.as_deref()).unwrap_or_default();
        let fix = b.health.fix.as_deref().map_or_else(String::new, |f| format!("; {f}"));
        out.push(vec![
            (format!(" {:<3}", b.slot), theme.dim()),
            (format!("{:<14}", fixed(&clean(&b.name), 13)), Style::new()),
            (format!("{:<8}", fixed(b.kind.as_str(), 7)), theme.dim()),
            (format!("{:<24}", fixed(&clean(&b.address), 23)), theme.dim()),
            (format!("{:<26}", fixed(&format!("{glyph} {}", state_words(state, b, drawn)), 25)), style),
            (format!("{rtt:<8}"), Style::new()),
            (format!("{:<9}", b.running), Style::new()),
            (clean(&format!("{reason}{fix}")), theme.dim()),
        ]);
    }
    rows(state, Rect { y: inside.y + 1, height: inside.height - 1, ..inside }, &out, buf, drawn);
}

fn fixed(text: &str, columns: usize) -> String {
    crate::tui::text::cut(text, columns, true)
}

/// The messages, newest first.
pub(super) fn messages(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let all = state.message_rows();
    let inside = frame(state, "messages", all.len(), area, buf);
    let out: Vec<Vec<Piece>> = all
        .iter()
        .map(|m| {
            let style = match m.level {
                Level::Info => theme.dim(),
                Level::Notice => Style::new(),
                Level::Alert => theme.bad(),
            };
            let times = if m.times > 1 { format!("  x{}", m.times) } else { String::new() };
            let backend = m.backend.as_deref().map_or_else(String::new, |b| format!("{}  ", clean(b)));
            vec![
                (format!(" {}  ", format::time_of_day(m.at, &state.zone)), theme.dim()),
                (backend, theme.strong()),
                (format!("{}{times}", clean(&m.text)), style),
            ]
        })
        .collect();
    rows(state, inside, &out, buf, drawn);
}

/// All keys, from the live map.
pub(super) fn help(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let lines = state.help_rows();
    let inside = frame(state, &format!("help   leader: {}", state.keymap.leader.short()), lines.len(), area, buf);
    let out: Vec<Vec<Piece>> = lines
        .iter()
        .map(|l| {
            let leader = l.context == crate::tui::input::table::Context::Leader;
            let keys = if leader { format!("{} {}", state.keymap.leader.short(), l.keys) } else { l.keys.clone() };
            vec![
                (format!(" {keys:<24}"), theme.focus()),
                (format!("{:<50} ", l.label), Style::new()),
                (format!("{:<40} ", l.context.title()), theme.dim()),
                (l.name.to_owned(), theme.dim()),
            ]
        })
        .collect();
    rows(state, inside, &out, buf, drawn);
}
