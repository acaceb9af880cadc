//! The bar at the top: the backends, or a summary of them.
//!
//! Invariant: one row; the focused backend is always in it.

use super::boxes::{self, Piece};
use crate::model::{BackendInfo, HealthState};
use crate::tui::format;
use crate::tui::layout::{Plan, Tier};
use crate::tui::state::processes::Standing;
use crate::tui::state::{Drawn, Link, State};
use crate::tui::text::{clean, cut, put, width};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws the bar.
pub(super) fn draw(state: &State, plan: &Plan, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    match plan.tier {
        Tier::Summary => {}
        Tier::Bar => bar(state, area, buf, drawn),
        Tier::Strip => strip(state, area, buf, drawn),
        Tier::Sidebar | Tier::Wide => summary(state, area, buf),
    }
}

/// Gives a backend's glyph with the wait, if there is one: `◐14s`.
pub(super) fn mark(state: &State, backend: &BackendInfo, drawn: &mut Drawn) -> Piece {
    let (glyph, style) = state.theme.health(backend.health.state);
    let wait = match backend.health.next_try {
        Some(at) => {
            drawn.ticking |= at > state.now;
            super::pane::countdown(at, state.now)
        }
        None => String::new(),
    };
    (format!("{glyph}{wait}"), style)
}

/// Gives the counts at the right end: what runs, what needs a person.
fn counts(state: &State) -> Vec<Piece> {
    let theme = state.theme;
    let mut out = Vec::new();
    let running = state.blocks.values().filter(|b| b.standing() == Standing::Running).count();
    if running > 0 {
        out.push((format!("{} {running} running ", theme.glyphs.running), theme.focus()));
    }
    let tally = state.tally(None);
    if tally.failed + tally.unknown + tally.stray > 0 {
        out.push(("procs ".to_owned(), theme.dim()));
    }
    if tally.failed > 0 {
        out.push((format!("{}{} ", theme.glyphs.failed, tally.failed), theme.bad()));
    }
    if tally.unknown > 0 {
        out.push((format!("?{} ", tally.unknown), theme.warn()));
    }
    if tally.stray > 0 {
        out.push((format!("{}{} ", theme.glyphs.person, tally.stray), theme.warn()));
    }
    let alerts = state.alert_count();
    if alerts > 0 {
        out.push((format!("!{alerts} "), theme.bad()));
    }
    if matches!(state.link, Link::Lost { .. }) {
        out.push(("no daemon ".to_owned(), theme.bad()));
    }
    out
}

/// 40 to 79 columns: ` 1 web ●  3/5 up  !2`.
fn bar(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let mut left = Vec::new();
    if let Some(backend) = state.backends.get(state.focus) {
        left.push((format!(" {} {} ", backend.slot, clean(&backend.name)), state.theme.strong()));
        left.push(mark(state, backend, drawn));
        let up = state.backends.iter().filter(|b| matches!(b.health.state, HealthState::Up | HealthState::Degraded)).count();
        left.push((format!("  {up}/{} up", state.backends.len()), Style::new()));
    }
    boxes::row(buf, area, &left, &counts(state), state.theme.glyphs.ascii);
}

/// 80 to 119 columns: ` 0 local ●  1 web ●  2 gpu ◐14s │ ▸ 2 running  !1`.
fn strip(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let right = counts(state);
    let right_width: usize = right.iter().map(|(t, _)| width(t)).sum();
    let room = (area.width as usize).saturating_sub(right_width + 2);
    let items: Vec<(String, Piece)> = state
        .backends
        .iter()
        .map(|b| (format!("{} {} ", b.slot, cut(&clean(&b.name), 16, theme.glyphs.ascii)), mark(state, b, drawn)))
        .collect();
    let widths: Vec<usize> = items.iter().map(|(name, (glyph, _))| width(name) + width(glyph) + 2).collect();
    // Begin as far left as lets the focused one be seen.
    let mut first = 0;
    while first < state.focus && widths[first..=state.focus.min(widths.len() - 1)].iter().sum::<usize>() + 2 > room {
        first += 1;
    }
    let mut x = area.x + 1;
    if first > 0 {
        x = put(buf, area, x, area.y, "<", theme.dim());
    }
    for (i, (name, (glyph, style))) in items.iter().enumerate().skip(first) {
        if (x - area.x) as usize + widths[i] > room {
            put(buf, area, x, area.y, ">", theme.dim());
            break;
        }
        let start = x;
        let focused = i == state.focus;
        x = put(buf, area, x, area.y, name, if focused { theme.chosen() } else { Style::new() });
        x = put(buf, area, x, area.y, glyph, *style);
        drawn.spots.push((Rect { x: start, y: area.y, width: x - start, height: 1 }, i));
        x += 2;
    }
    boxes::row(buf, area, &[], &right, theme.glyphs.ascii);
}

/// From 120 columns on: counts of everything.
fn summary(state: &State, area: Rect, buf: &mut Buffer) {
    let theme = state.theme;
    let mut left: Vec<Piece> = Vec::new();
    let name = state.facts.fleet.as_deref().map_or_else(|| clean(&state.daemon.host), |f| format!("fleet: {}", clean(f)));
    left.push((format!(" {name}   "), theme.strong()));
    left.push((format!("{}  ", format::count(state.backends.len() as u64, "backend")), Style::new()));
    for which in
        [HealthState::Up, HealthState::Connecting, HealthState::Degraded, HealthState::Reconnecting, HealthState::Down, HealthState::Idle]
    {
        let n = state.backends.iter().filter(|b| b.health.state == which).count();
        if n > 0 {
            left.push((format!(" {n} {}", which.as_str()), theme.health(which).1));
        }
    }
    if let Some(block) = state.newest_agent() {
        left.push(("    agent: ".to_owned(), theme.dim()));
        left.push((clean(&block.info.who.name), theme.agent()));
        left.push((format!(" on {}", clean(&block.info.backend)), Style::new()));
    }
    let mut right = counts(state);
    let failed = state.blocks.values().filter(|b| b.failed()).count();
    right.insert(0, (format!("commands {} ({failed} failed)  ", state.blocks.len()), theme.dim()));
    boxes::row(buf, area, &left, &right, theme.glyphs.ascii);
}
