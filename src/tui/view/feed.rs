//! The feed: the commands of all backends and what the system said, newest first.
//!
//! Invariant: one row per command, or for equal ones in a row; what a command is doing ticks only while it is on screen.

use super::boxes::{self, Piece};
use crate::model::{Level, Outcome, ProcessState, WhoKind};
use crate::tui::format;
use crate::tui::input::table::{Action, Context};
use crate::tui::state::block::Block;
use crate::tui::state::feed::Item;
use crate::tui::state::messages::Message;
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
    for (i, item) in state.feed_column(inside.height as usize).iter().enumerate() {
        let at = Rect { y: inside.y + i as u16, height: 1, ..inside };
        let (left, right) = match item {
            Item::Command { block, times, .. } => {
                let (glyph, style, result) = result(state, block);
                drawn.ticking |= block.is_live();
                let left = vec![
                    (format!("{} ", format::time_of_day(block.info.started, &state.zone)), theme.dim()),
                    (format!("{glyph} "), style),
                    (format!("{} ", cut(&clean(&block.info.backend), 8, theme.glyphs.ascii)), Style::new()),
                    (format!("{} ", block.who()), who_style(state, block)),
                    (clean(block.info.command.lines().next().unwrap_or_default()), Style::new()),
                ];
                (left, vec![(format!(" {}{result} ", counted(*times)), style)])
            }
            Item::Said(message) => {
                let (glyph, style) = said_glyph(state, message);
                let left = vec![
                    (format!("{} ", format::time_of_day(message.at, &state.zone)), theme.dim()),
                    (format!("{glyph} "), style),
                    (said_text(message), theme.dim()),
                ];
                (left, Vec::new())
            }
        };
        boxes::row(buf, at, &left, &right, theme.glyphs.ascii);
    }
}

/// Draws the feed over the whole body.
pub(super) fn view(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let all = state.feed_rows();
    let mut left = vec![(format!("feed  {}", all.len()), theme.strong())];
    let mut chip = |text: String| left.push((format!("  {text}"), theme.warn()));
    if !state.list.filter.is_empty() {
        chip(format!("filter: {}", clean(&state.list.filter)));
    }
    if let Some(by) = &state.feed.by {
        chip(format!("only by {by}"));
    }
    if state.feed.failures {
        chip("failures only".to_owned());
    }
    if state.feed.paused.is_some() {
        chip(format!("paused, {} new", state.feed_waiting()));
    }
    let follows = state.feed.key.is_none() && state.feed.paused.is_none();
    let right = if follows { (format!("follow {}", theme.glyphs.up), theme.focus()) } else { ("stays".to_owned(), theme.warn()) };
    let inside = boxes::frame(buf, area, theme.glyphs.light, theme.focus(), &left, &[right], theme.glyphs.ascii);
    let (at, first) = state.feed_place(&all, inside.height as usize);
    drawn.list_rows = inside.height as usize;
    drawn.list = Some((inside, first));
    for (i, item) in all.iter().enumerate().skip(first).take(inside.height as usize) {
        let line = Rect { y: inside.y + (i - first) as u16, height: 1, ..inside };
        let mark = if i == at { theme.glyphs.cursor } else { ' ' };
        let mut pieces: Vec<Piece> = vec![(mark.to_string(), theme.focus())];
        let right = match item {
            Item::Command { block, times, .. } => command_pieces(state, block, *times, inside.width as usize, &mut pieces, drawn),
            Item::Said(message) => {
                let (glyph, style) = said_glyph(state, message);
                pieces.push((format!("{} ", format::time_of_day(message.at, &state.zone)), theme.dim()));
                pieces.push((format!("{glyph} "), style));
                let backend = message.backend.as_deref().map_or_else(String::new, clean);
                pieces.push((format!("{} ", fixed(&backend, 10, theme.glyphs.ascii)), Style::new()));
                if inside.width >= 70 {
                    pieces.push((format!("{} ", fixed("system", 12, theme.glyphs.ascii)), theme.dim()));
                }
                pieces.push((said_text(message), if i == at { theme.strong() } else { theme.dim() }));
                Vec::new()
            }
        };
        boxes::row(buf, line, &pieces, &right, theme.glyphs.ascii);
        if i == at {
            for x in line.x + 1..line.right() {
                buf[(x, line.y)].set_style(theme.strong());
            }
        }
    }
}

/// Adds the pieces of a command's row; gives those of its right end: result, duration, size.
fn command_pieces(state: &State, block: &Block, times: usize, room: usize, pieces: &mut Vec<Piece>, drawn: &mut Drawn) -> Vec<Piece> {
    let theme = state.theme;
    let (glyph, style, mut result) = result(state, block);
    // The duration has a column of its own here.
    if room >= 90 && block.info.state == ProcessState::Ended(Outcome::Exited { exit_code: 0 }) {
        result = "exit 0".to_owned();
    }
    drawn.ticking |= block.is_live();
    pieces.push((format!("{} ", format::time_of_day(block.info.started, &state.zone)), theme.dim()));
    pieces.push((format!("{glyph} "), style));
    pieces.push((format!("{} ", fixed(&clean(&block.info.backend), 10, theme.glyphs.ascii)), Style::new()));
    if room >= 70 {
        pieces.push((format!("{} ", fixed(&block.who(), 12, theme.glyphs.ascii)), who_style(state, block)));
    }
    pieces.push((clean(block.info.command.lines().next().unwrap_or_default()), Style::new()));
    let mut right = vec![(format!(" {}", counted(times)), theme.warn()), (format!("{result:<14} "), style)];
    if room >= 90 {
        let ended = block.info.state.is_ended() && !block.refused;
        let took = if ended { format::duration(format::elapsed(&block.info, state.now)) } else { String::new() };
        right.push((format!("{took:>8} {:>9} ", format::bytes(block.total)), theme.dim()));
    }
    right
}

/// Says how often a row happened.
fn counted(times: usize) -> String {
    if times > 1 { format!("x{times} ") } else { String::new() }
}

fn fixed(text: &str, columns: usize, ascii: bool) -> String {
    let text = cut(text, columns, ascii);
    let pad = columns.saturating_sub(width(&text));
    format!("{text}{}", " ".repeat(pad))
}

fn said_glyph(state: &State, message: &Message) -> (char, Style) {
    let theme = state.theme;
    match message.level {
        Level::Alert => (theme.glyphs.person, theme.bad()),
        Level::Notice => (theme.glyphs.degraded, theme.warn()),
        Level::Info => (theme.glyphs.idle, theme.dim()),
    }
}

fn said_text(message: &Message) -> String {
    let times = if message.times > 1 { format!("  x{}", message.times) } else { String::new() };
    format!("{}{times}", clean(&message.text))
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
            let (glyph, style) = super::processes::glyph(state, block);
            (glyph, if block.failed() || block.was_stopped() { style } else { theme.good() }, words)
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
