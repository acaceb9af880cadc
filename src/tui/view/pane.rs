//! Draws a pane: title, commands, input line.
//!
//! Invariant: the border's weight, the chip in it and the cursor say together whether typing goes here.

use super::boxes::{self, Piece};
use super::{block, line};
use crate::model::{BackendInfo, HealthState, Millis};
use crate::tui::format;
use crate::tui::rows;
use crate::tui::state::pane::RowId;
use crate::tui::state::{Drawn, DrawnPane, Link, Mood, State, View};
use crate::tui::text::{clean, cut_front, put, wrap_words};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws a pane into its area.
pub(super) fn draw(state: &State, index: usize, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let (Some(pane), Some(backend)) = (state.panes.get(index), state.backends.get(index)) else { return };
    let theme = state.theme;
    let focused = index == state.focus;
    let typing = focused && state.mood == Mood::Input && state.view == View::Panes;
    let set = if typing { theme.glyphs.heavy } else { theme.glyphs.light };
    let style = if focused { theme.focus() } else { theme.dim() };
    let left = title(state, index, backend, area.width as usize, focused);
    let right = chip(state, index, backend, focused, drawn);
    let inside = boxes::frame(buf, area, set, style, &left, &right, theme.glyphs.ascii);
    if inside.is_empty() {
        return;
    }
    let lines = line::height(state, index, inside);
    let mut frozen = frozen(state, backend, inside.width as usize);
    frozen.truncate(inside.height.saturating_sub(lines + 1).min(3) as usize);
    let rows_area = Rect { height: inside.height.saturating_sub(lines + frozen.len() as u16), ..inside };
    let shown = rows::visible(state, index, rows_area.width as usize, rows_area.height as usize);
    let cursor = (focused && state.mood == Mood::Nav).then(|| state.cursor_block()).flatten();
    for (i, row) in shown.iter().enumerate() {
        let at = Rect { y: rows_area.y + i as u16, height: 1, ..rows_area };
        let chosen = cursor.as_deref() == Some(row.block);
        if i == 0 && shown.len() > 2 && row.id != RowId::Head(0) {
            // Whose output it is stays on screen, in the place of the first row.
            let head = rows::Row { block: row.block, id: RowId::Head(0), kind: rows::Kind::Head };
            block::row(state, &head, chosen, &pane.session, at, buf, drawn);
        } else {
            block::row(state, row, chosen, &pane.session, at, buf, drawn);
        }
    }
    if shown.is_empty() {
        empty(state, backend, rows_area, buf);
    }
    for (i, text) in frozen.into_iter().enumerate() {
        let at = Rect { y: rows_area.bottom() + i as u16, height: 1, ..inside };
        boxes::row(buf, at, &[(text, theme.warn())], &[], theme.glyphs.ascii);
    }
    line::draw(state, index, Rect { y: inside.bottom() - lines, height: lines, ..inside }, typing, buf, drawn);
    drawn.panes.push(DrawnPane { pane: index, area, rows: rows_area, blocks: whole_blocks(&shown) });
}

/// Says for each block on screen whether all of its rows are.
fn whole_blocks(shown: &[rows::Row<'_>]) -> Vec<(String, bool)> {
    let mut out: Vec<(String, bool)> = Vec::new();
    for row in shown {
        if out.last().is_none_or(|(id, _)| id != row.block) {
            // Its first row on screen is its head, or its beginning is above.
            out.push((row.block.to_owned(), row.id == RowId::Head(0)));
        }
    }
    out
}

fn title(state: &State, index: usize, backend: &BackendInfo, width: usize, focused: bool) -> Vec<Piece> {
    let theme = state.theme;
    let Some(pane) = state.panes.get(index) else { return Vec::new() };
    let strong = if focused { theme.focus() } else { theme.strong() };
    let mut out = vec![(format!("{} {}", backend.slot, clean(&backend.name)), strong)];
    let mut say = |text: String| out.push((format!("  {text}"), theme.dim()));
    if width >= 60 {
        let address = clean(backend.address.strip_suffix(":22").unwrap_or(&backend.address));
        say(if address.is_empty() { backend.kind.as_str().to_owned() } else { format!("{} {address}", backend.kind.as_str()) });
    }
    say(clean(&pane.session));
    if let Some(cwd) = cwd(state, index) {
        say(cut_front(&cwd, width / 3, theme.glyphs.ascii));
    }
    out
}

/// Gives the directory of a pane's session, with `~` for the home directory where it is known.
pub(super) fn cwd(state: &State, index: usize) -> Option<String> {
    let pane = state.panes.get(index)?;
    let backend = state.backends.get(index)?;
    // A session whose first command has not ended has no directory yet.
    let cwd = clean(&state.session(&pane.backend, &pane.session).filter(|s| !s.cwd.is_empty())?.cwd);
    let user = backend.address.split_once('@').map(|(u, _)| u);
    let home = match (backend.kind, user) {
        (crate::model::BackendKind::Local, _) => state.facts.home.clone(),
        (_, Some("root")) => Some("/root".to_owned()),
        (_, Some(user)) => Some(format!("/home/{user}")),
        _ => None,
    };
    let short = home.filter(|h| h.len() > 1).and_then(|h| {
        let rest = cwd.strip_prefix(&h)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| format!("~{rest}"))
    });
    Some(short.unwrap_or(cwd))
}

/// The right end of the title: what the keyboard does, or how the backend is.
fn chip(state: &State, index: usize, backend: &BackendInfo, focused: bool, drawn: &mut Drawn) -> Vec<Piece> {
    let theme = state.theme;
    let health = &backend.health;
    let mut out: Vec<Piece> = Vec::new();
    if let Some(pane) = state.panes.get(index).filter(|p| p.anchor.is_some()) {
        let new = if pane.arrived > 0 { format!(" +{} new", pane.arrived) } else { String::new() };
        out.push((format!("BACK{new}"), theme.warn()));
    }
    if focused {
        let word = match state.mood {
            Mood::Input => "INPUT",
            Mood::Nav => "NAV",
            Mood::Scroll => "SCROLL",
        };
        out.push((word.to_owned(), theme.focus()));
    }
    if state.zoom && focused {
        out.push(("ZOOM".to_owned(), theme.focus()));
    }
    if matches!(state.link, Link::Lost { .. }) {
        out.push(("no daemon".to_owned(), theme.bad()));
    } else if health.state == HealthState::Up {
        if let Some(us) = health.round_trip_us {
            out.push((format::round_trip(us), theme.dim()));
        }
    } else {
        let (glyph, style) = theme.health(health.state);
        out.push((format!("{glyph} {}", state_words(state, backend, drawn)), style));
    }
    let mut joined: Vec<Piece> = Vec::new();
    for (i, piece) in out.into_iter().enumerate() {
        if i > 0 {
            joined.push((" ".to_owned(), Style::new()));
        }
        joined.push(piece);
    }
    joined
}

/// Gives the seconds until a moment, as `14s`; `now` once it has come.
pub(super) fn countdown(at: Millis, now: Millis) -> String {
    if at > now { format!("{}s", (at - now + 999) / 1000) } else { "now".to_owned() }
}

/// Gives the state in words with the countdown and the attempt: `reconnecting 14s try 4`.
pub(super) fn state_words(state: &State, backend: &BackendInfo, drawn: &mut Drawn) -> String {
    let health = &backend.health;
    let mut words = health.state.as_str().to_owned();
    if let Some(at) = health.next_try {
        words.push_str(&format!(" {}", countdown(at, state.now)));
        drawn.ticking |= at > state.now;
    }
    if health.attempt > 1 {
        words.push_str(&format!(" try {}", health.attempt));
    }
    words
}

/// The lines over the input line of a backend that is away: since when, why, what to do.
fn frozen(state: &State, backend: &BackendInfo, width: usize) -> Vec<String> {
    let health = &backend.health;
    let dash: String = std::iter::repeat_n(state.theme.glyphs.dash, 4).collect();
    let time = format::time_of_day(health.since, &state.zone);
    let reason = health.reason.as_deref().map_or_else(String::new, |r| format!(": {}", clean(r)));
    let text = match health.state {
        HealthState::Reconnecting => format!("{dash} connection lost {time}{reason}"),
        HealthState::Down => {
            let fix = health.fix.as_deref().map_or_else(String::new, |f| format!("; {}", clean(f)));
            format!("{dash} down since {time}{reason}{fix}")
        }
        HealthState::Degraded if health.reason.is_some() => format!("{dash} {}", reason.trim_start_matches(": ")),
        _ => return Vec::new(),
    };
    wrap_words(&text, width).into_iter().map(|range| text[range].to_owned()).collect()
}

fn empty(state: &State, backend: &BackendInfo, area: Rect, buf: &mut Buffer) {
    let theme = state.theme;
    let text = match backend.health.state {
        HealthState::Idle => "nothing ran here yet; it connects on first use",
        _ => "nothing ran here yet",
    };
    if area.height > 0 {
        put(buf, area, area.x + 1, area.y, text, theme.dim());
    }
}

/// Draws what is there before the daemon has answered.
pub(super) fn nothing_yet(state: &State, area: Rect, buf: &mut Buffer) {
    let theme = state.theme;
    let text = match &state.link {
        Link::Lost { reason, .. } => format!("no daemon: {reason}"),
        _ => "reaching the daemon".to_owned(),
    };
    for (i, range) in wrap_words(&text, area.width.saturating_sub(2) as usize).into_iter().enumerate() {
        put(buf, area, area.x + 1, area.y.saturating_add(1 + i as u16), &text[range], theme.dim());
    }
}
