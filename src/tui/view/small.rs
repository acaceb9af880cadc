//! What a screen under 40x10 can still say.
//!
//! Invariant: the way out is on it whenever there is a row for it.

use crate::model::HealthState;
use crate::tui::input::table::{Action, Context};
use crate::tui::state::pause::PAUSE;
use crate::tui::state::{Drawn, State};
use crate::tui::text::{clean, cut, put};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws the summary.
pub(super) fn draw(state: &State, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let area = *buf.area();
    let g = theme.glyphs;
    let mut lines = vec![(format!("need 40x10 ({}x{} now)", area.width, area.height), theme.warn())];
    // What a key was answered with; the size comes back after it.
    if let Some((_, text)) = &state.chip {
        lines[0] = (clean(text), theme.warn());
    }
    let n = |s: HealthState| state.backends.iter().filter(|b| b.health.state == s).count();
    let busy = n(HealthState::Connecting) + n(HealthState::Reconnecting);
    let states =
        format!("{} backends {}{} {}{} {}{}", state.backends.len(), n(HealthState::Up), g.up, busy, g.busy, n(HealthState::Down), g.down);
    lines.push((states, theme.strong()));
    let running = state.blocks.values().filter(|b| b.is_live()).count();
    let tally = state.tally(None);
    let mut said = format!("running {running}  alerts {}", state.alert_count());
    for (n, glyph) in [(tally.failed, g.failed), (tally.unknown, '?')] {
        if n > 0 {
            said.push_str(&format!("  {glyph}{n}"));
        }
    }
    lines.push((said, theme.strong()));
    if let Some(pane) = state.pane() {
        let newest = pane.blocks.last().and_then(|id| state.blocks.get(id));
        let what = newest.map_or_else(String::new, |b| format!(": {}", clean(b.info.command.lines().next().unwrap_or_default())));
        lines.push((format!("pane {}{what}", clean(&pane.backend)), theme.dim()));
    }
    let key = |action| state.keymap.shown(Context::Leader, action).unwrap_or_default();
    let mut way_out = (format!("{} help  {} quit", key(Action::Help), key(Action::Quit)), theme.dim());
    if state.pause_ends().is_some() {
        way_out = (PAUSE.to_owned(), theme.warn());
    }
    // The last row is the way out.
    lines.truncate((area.height as usize).saturating_sub(1).max(1));
    if area.height as usize > lines.len() {
        lines.push(way_out);
    }
    for (i, (text, style)) in lines.iter().take(area.height as usize).enumerate() {
        let at = Rect { y: area.y + i as u16, height: 1, ..area };
        put(buf, at, at.x, at.y, &cut(text, area.width as usize, g.ascii), *style);
    }
    drawn.cursor = None;
}
