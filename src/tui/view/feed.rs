//! The feed: the commands of all backends, newest first.
//!
//! Invariant: one row per command; what a command is doing ticks only while it is on screen.

use super::boxes::{self, Piece};
use super::lists;
use crate::model::{Outcome, ProcessState, WhoKind};
use crate::tui::format;
use crate::tui::input::table::{Action, Context};
use crate::tui::state::block::Block;
use crate::tui::state::{Drawn, State};
use crate::tui::text::{clean, cut, width};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws the feed beside the panes of a wide screen.
pub(super) fn column(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let key = state.keymap.shown(Context::Leader, Action::Feed).unwrap_or_default();
    let title = [("feed".to_owned(), theme.strong())];
    let inside = boxes::frame(buf, area, theme.glyphs.light, theme.dim(), &title, &[(key, theme.dim())], theme.glyphs.ascii);
    for (i, block) in state.feed("").into_iter().take(inside.height as usize).enumerate() {
        let at = Rect { y: inside.y + i as u16, height: 1, ..inside };
        let (glyph, style, result) = result(state, block);
        drawn.ticking |= block.is_live();
        let left = vec![
            (format!("{} ", format::time_of_day(block.info.started, &state.zone)), theme.dim()),
            (format!("{glyph} "), style),
            (format!("{} ", cut(&clean(&block.info.backend), 8, theme.glyphs.ascii)), Style::new()),
            (format!("{} ", who(block)), who_style(state, block)),
            (clean(block.info.command.lines().next().unwrap_or_default()), Style::new()),
        ];
        boxes::row(buf, at, &left, &[(format!(" {result} "), style)], theme.glyphs.ascii);
    }
}

/// Draws the feed over the whole body.
pub(super) fn view(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let all = state.feed(&state.list.filter);
    let inside = lists::frame(state, "feed of all commands", all.len(), area, buf);
    let first = (state.list.at + 1).saturating_sub(inside.height as usize);
    let wide = inside.width >= 70;
    let mut out: Vec<Vec<Piece>> = vec![Vec::new(); first.min(all.len())];
    for block in all.iter().skip(first).take(inside.height as usize) {
        let (glyph, style, result) = result(state, block);
        drawn.ticking |= block.is_live();
        let mut pieces = vec![
            (format!(" {} ", format::time_of_day(block.info.started, &state.zone)), theme.dim()),
            (format!("{glyph} "), style),
            (format!("{:<10} ", cut(&clean(&block.info.backend), 10, theme.glyphs.ascii)), Style::new()),
        ];
        if wide {
            pieces.push((format!("{:<14} ", cut(&who(block), 14, theme.glyphs.ascii)), who_style(state, block)));
        }
        let command = clean(block.info.command.lines().next().unwrap_or_default());
        let room = (inside.width as usize).saturating_sub(if wide { 68 } else { 42 });
        let command = cut(&command, room.max(8), theme.glyphs.ascii);
        let pad = room.max(8).saturating_sub(crate::tui::text::width(&command));
        pieces.push((format!("{command}{} ", " ".repeat(pad)), Style::new()));
        pieces.push((format!("{result:<18} "), style));
        if wide {
            pieces.push((format::bytes(block.total), theme.dim()));
        }
        out.push(pieces);
    }
    lists::rows(state, inside, &out, buf, drawn);
}

fn who(block: &Block) -> String {
    if block.info.who.kind == WhoKind::Operator { "you".to_owned() } else { clean(&block.info.who.name) }
}

fn who_style(state: &State, block: &Block) -> Style {
    if block.info.who.kind == WhoKind::Operator { state.theme.focus() } else { state.theme.agent() }
}

/// Gives the glyph, its style and the words of how a command is.
fn result(state: &State, block: &Block) -> (String, Style, String) {
    let theme = state.theme;
    let running = || format::running(format::elapsed(&block.info, state.now));
    match &block.info.state {
        _ if block.lost => ("?".to_owned(), theme.warn(), "unknown".to_owned()),
        ProcessState::Starting => (theme.glyphs.busy.to_string(), theme.warn(), format!("waiting {}", running())),
        ProcessState::Running => (theme.glyphs.running.to_owned(), theme.focus(), running()),
        ProcessState::Stopping => (theme.glyphs.running.to_owned(), theme.warn(), format!("stopping {}", running())),
        ProcessState::Stray => ("?".to_owned(), theme.warn(), format!("stray {}", running())),
        ProcessState::Unknown => ("?".to_owned(), theme.warn(), format!("unknown {}", running())),
        ProcessState::Ended(outcome) => {
            let words = match outcome {
                Outcome::Exited { exit_code: 0 } => format::duration(format::elapsed(&block.info, state.now)),
                other => format::outcome(other),
            };
            let bad = block.failed();
            let glyph = if bad { theme.glyphs.failed } else { theme.glyphs.ok };
            (glyph.to_string(), if bad { theme.bad() } else { theme.good() }, words)
        }
    }
}

/// Draws the newest running command of an agent into the lower border of an area, where there is no column for the feed:
/// `agent hermes ▸ npm run build  00:42 on web  (^]e feed)`.
pub(super) fn agent(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let Some(block) = state.newest_agent() else { return };
    let (theme, info) = (state.theme, &block.info);
    let key = state.keymap.shown(Context::Leader, Action::Feed).map_or_else(String::new, |key| format!(" ({key} feed)"));
    let running = format::running(format::elapsed(info, state.now));
    let right = format!("  {running} on {}{key} ", cut(&clean(&info.backend), 16, theme.glyphs.ascii));
    let left = [
        (" agent ".to_owned(), theme.dim()),
        (clean(&info.who.name), theme.agent()),
        (format!(" {} {}", theme.glyphs.running, clean(info.command.lines().next().unwrap_or_default())), Style::new()),
    ];
    let wanted = left.iter().map(|(text, _)| width(text)).sum::<usize>() + width(&right);
    let line = Rect { x: area.x + 2, y: area.bottom().saturating_sub(1), width: area.width.saturating_sub(4), height: 1 };
    let line = Rect { width: line.width.min(wanted.try_into().unwrap_or(u16::MAX)), ..line };
    boxes::row(buf, line, &left, &[(right, theme.dim())], theme.glyphs.ascii);
    drawn.ticking = true;
}
