//! Draws the rows of a pane.
//!
//! Invariant: the first two columns are the gutter; output never reaches them and never leaves the area.

use super::boxes::{self, Piece};
use crate::model::{Outcome, ProcessState, WhoKind};
use crate::tui::format;
use crate::tui::rows::{Kind, Row, Tone, meaning_beside};
use crate::tui::state::block::Block;
use crate::tui::state::{Drawn, State};
use crate::tui::text::{clean, put};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws one row.
pub(super) fn row(state: &State, row: &Row<'_>, chosen: bool, session: &str, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let Some(block) = state.blocks.get(row.block) else { return };
    let gutter = if chosen { theme.glyphs.cursor } else { theme.glyphs.gutter };
    put(buf, area, area.x, area.y, &gutter.to_string(), if chosen { theme.focus() } else { gutter_style(state, block) });
    let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(1), ..area };
    if inner.width == 0 {
        return;
    }
    match &row.kind {
        Kind::Head => head(state, block, chosen, session, inner, buf, drawn),
        Kind::Command(text) => {
            let text = format!("           {text}");
            boxes::row(buf, inner, &[(text, theme.strong())], &[], theme.glyphs.ascii);
        }
        Kind::Line(line, range) => {
            let mut x = inner.x + 1;
            for (text, pen) in line.pieces(range.clone()) {
                x = put(buf, inner, x, inner.y, text, pen.style());
            }
        }
        Kind::Said(tone, text) => {
            let style = match tone {
                Tone::Note => theme.dim(),
                Tone::Warning => theme.warn(),
                Tone::Error => theme.bad(),
            };
            put(buf, inner, inner.x + 1, inner.y, text, style);
        }
    }
}

fn gutter_style(state: &State, block: &Block) -> Style {
    match &block.info.state {
        _ if block.lost => state.theme.warn(),
        ProcessState::Ended(_) if block.failed() => state.theme.bad(),
        ProcessState::Ended(_) => state.theme.dim(),
        _ => state.theme.focus(),
    }
}

fn head(state: &State, block: &Block, chosen: bool, session: &str, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let info = &block.info;
    let mut left: Vec<Piece> = Vec::new();
    if area.width >= 50 {
        left.push((format!("{} ", format::time_of_day(info.started, &state.zone)), theme.dim()));
    }
    let operator = info.who.kind == WhoKind::Operator;
    let who = if operator { "you".to_owned() } else { clean(&info.who.name) };
    left.push((who, if operator { theme.focus() } else { theme.agent() }));
    if info.session != session {
        left.push((format!(" [{}]", clean(&info.session)), theme.dim()));
    }
    left.push(("  ".to_owned(), Style::new()));
    let mut lines = info.command.lines();
    let style = if chosen { theme.chosen() } else { theme.strong() };
    left.push((clean(lines.next().unwrap_or_default()), style));
    let more = lines.count();
    if more > 0 {
        left.push((format!("  (+{})", format::count(more as u64, "line")), theme.dim()));
    }
    let right = state_pieces(state, block, area.width as usize, drawn);
    boxes::row(buf, area, &left, &right, theme.glyphs.ascii);
}

/// Says how a command is, for the right end of its row.
fn state_pieces(state: &State, block: &Block, room: usize, drawn: &mut Drawn) -> Vec<Piece> {
    let theme = state.theme;
    let info = &block.info;
    let mut out = vec![("  ".to_owned(), Style::new())];
    let running = format::running(format::elapsed(info, state.now));
    match &info.state {
        _ if block.lost => out.push(("unknown ".to_owned(), theme.warn())),
        ProcessState::Starting => out.push((format!("{} waiting  {running} ", theme.glyphs.busy), theme.warn())),
        ProcessState::Running => out.push((format!("{} running  {running} ", theme.glyphs.running), theme.focus())),
        ProcessState::Stopping => out.push((format!("stopping  {running} "), theme.warn())),
        ProcessState::Stray => out.push((format!("stray  {running} "), theme.warn())),
        ProcessState::Unknown => out.push((format!("unknown  {running} "), theme.warn())),
        ProcessState::Ended(outcome) => {
            let style = match outcome {
                Outcome::Exited { exit_code: 0 } => theme.good(),
                Outcome::Exited { .. } if info.exit_code_meaning.is_some() => theme.warn(),
                _ if block.was_stopped() => theme.warn(),
                _ => theme.bad(),
            };
            out.push((format::outcome(outcome), style));
            let mut rest = String::new();
            if !block.refused {
                rest = format!("  {}", format::duration(format::elapsed(info, state.now)));
            }
            if let Some(meaning) = &info.exit_code_meaning {
                let meaning = clean(meaning);
                // Its own row, where the command would have no room.
                if meaning_beside(&meaning, room + 1) {
                    rest.push_str(&format!("  {meaning}"));
                }
            }
            if room >= 50 {
                rest.push_str(&size(block));
            }
            rest.push(' ');
            out.push((rest, theme.dim()));
        }
    }
    drawn.ticking |= block.is_live();
    out
}

/// Gives how much a command wrote: lines, where all of it was read.
fn size(block: &Block) -> String {
    match &block.screen {
        Some(screen) if block.next >= block.total && !screen.has_gap() => format!("  {} ln", format::thousands(screen.line_count())),
        _ if block.total > 0 => format!("  {}", format::bytes(block.total)),
        _ => String::new(),
    }
}
