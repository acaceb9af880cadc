//! The sidebar: every backend with its state, what runs there and why it is away.
//!
//! Invariant: the focused backend is always among those shown; each keeps its number and its place.

use super::boxes::{self, Piece};
use super::pane::state_words;
use crate::model::{BackendInfo, HealthState};
use crate::tui::format;
use crate::tui::input::table::{Action, Context};
use crate::tui::state::processes::{Standing, Tally};
use crate::tui::state::{Drawn, State};
use crate::tui::text::{clean, cut, wrap_words};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws the sidebar.
pub(super) fn draw(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let key = state.keymap.shown(Context::Leader, Action::Backends).unwrap_or_default();
    let title = [("backends".to_owned(), theme.strong())];
    let inside = boxes::frame(buf, area, theme.glyphs.light, theme.dim(), &title, &[(key, theme.dim())], theme.glyphs.ascii);
    if inside.is_empty() {
        return;
    }
    let room = inside.height as usize;
    let cards: Vec<Vec<(Vec<Piece>, Vec<Piece>)>> =
        state.backends.iter().enumerate().map(|(i, b)| card(state, i, b, inside.width as usize, drawn)).collect();
    // Details go first when there is no room for them, then the backends above.
    let whole: usize = cards.iter().map(Vec::len).sum();
    let short = whole > room;
    let height = |i: usize| if short && i != state.focus { 1 } else { cards[i].len() };
    let mut first = 0;
    while first < state.focus && (first..=state.focus.min(cards.len() - 1)).map(height).sum::<usize>() > room {
        first += 1;
    }
    let mut y = inside.y;
    for (i, card) in cards.iter().enumerate().skip(first) {
        for (n, (left, right)) in card.iter().take(height(i)).enumerate() {
            if y >= inside.bottom() {
                return;
            }
            let at = Rect { y, height: 1, ..inside };
            boxes::row(buf, at, left, right, theme.glyphs.ascii);
            if n == 0 {
                drawn.spots.push((at, i));
            }
            y += 1;
        }
    }
}

/// Gives the rows of one backend: left and right pieces of each.
fn card(state: &State, index: usize, backend: &BackendInfo, room: usize, drawn: &mut Drawn) -> Vec<(Vec<Piece>, Vec<Piece>)> {
    let theme = state.theme;
    let focused = index == state.focus;
    let (glyph, style) = theme.health(backend.health.state);
    let cursor = if focused { theme.glyphs.cursor } else { ' ' };
    let left = vec![
        (format!("{cursor}{} ", backend.slot), if focused { theme.focus() } else { theme.dim() }),
        (format!("{glyph} "), style),
        (cut(&clean(&backend.name), 12, theme.glyphs.ascii), if focused { theme.focus() } else { Style::new() }),
    ];
    let right = match (backend.health.state, backend.health.round_trip_us) {
        (HealthState::Up, Some(us)) => format!(" {} ", format::round_trip(us)),
        (HealthState::Up, None) => format!(" {} ", backend.kind.as_str()),
        _ => String::new(),
    };
    let mut rows = vec![(left, vec![(right, theme.dim())])];
    let mut say = |text: String, style: Style| rows.push((vec![(format!("   {text}"), style)], Vec::new()));
    if backend.health.state != HealthState::Up {
        // "reconnecting 14s try 4" is too long for here.
        say(state_words(state, backend, drawn).replace("reconnecting try", "retrying, try").replace("reconnecting ", "retry "), style);
        if let Some(reason) = &backend.health.reason {
            let reason = clean(reason);
            for range in wrap_words(&reason, room.saturating_sub(4)).into_iter().take(2) {
                say(reason[range].to_owned(), theme.dim());
            }
        }
    }
    let tally = state.tally(Some(&backend.name));
    if tally != Tally::default() {
        let mut pieces: Vec<Piece> = vec![("   ".to_owned(), Style::new())];
        for (n, word, style) in [
            (tally.failed, "failed", theme.bad()),
            (tally.unknown, "unknown", theme.warn()),
            (tally.stray, "stray", theme.warn()),
            (tally.running, "background", theme.dim()),
        ] {
            if n > 0 {
                let gap = if pieces.len() > 1 { " " } else { "" };
                pieces.push((format!("{gap}{n} {word}"), style));
            }
        }
        rows.push((pieces, Vec::new()));
    }
    // What is unknown is counted above; how long it ran is not known.
    let live = state.live_on(&backend.name).into_iter().filter(|b| b.standing() != Standing::Unknown);
    for block in live.take(2) {
        let running = format::running(format::elapsed(&block.info, state.now));
        let room = room.saturating_sub(running.len() + 7);
        let command = cut(&clean(block.info.command.lines().next().unwrap_or_default()), room, theme.glyphs.ascii);
        drawn.ticking = true;
        let who = if block.info.who.kind == crate::model::WhoKind::Agent { theme.agent() } else { theme.focus() };
        rows.push((
            vec![(format!("   {} ", theme.glyphs.running), who), (command, Style::new())],
            vec![(format!(" {running} "), theme.dim())],
        ));
    }
    rows
}
