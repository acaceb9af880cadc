//! The log pane of the process view.
//!
//! Invariant: every row says whose it is when there are several logs; what is not shown is said.

use super::boxes::{self, Piece};
use crate::tui::format;
use crate::tui::screen::Line;
use crate::tui::state::log::rows::LogRow;
use crate::tui::state::log::{Kind, LogLine, Need, Place, found};
use crate::tui::state::processes::{Part, Standing};
use crate::tui::state::{Drawn, DrawnLog, State};
use crate::tui::text::{char_width, clean, cut, put, width};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// The colours that tell several logs apart.
const COLORS: [u8; 6] = [6, 5, 3, 4, 2, 1];
/// Most columns of a prefix.
const PREFIX: usize = 18;

impl State {
    /// Names a process in the merged log: machine and id.
    pub(in crate::tui) fn log_label(&self, id: &str) -> String {
        let backend = self.blocks.get(id).map_or("", |b| b.info.backend.as_str());
        let short: String = id.chars().take(4).collect();
        clean(&format!("{backend}/{short}"))
    }
}

/// Draws the pane.
pub(super) fn pane(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let view = &state.processes;
    let style = if view.part == Part::Log { theme.focus() } else { theme.dim() };
    let inside = boxes::frame(buf, area, theme.glyphs.light, style, &title(state), &chips(state, area.height as usize), theme.glyphs.ascii);
    if inside.is_empty() {
        return;
    }
    let labels: Vec<String> = if view.log.is_merged() { view.log.ids().map(|id| state.log_label(id)).collect() } else { Vec::new() };
    let prefix = labels.iter().map(|l| width(l)).max().unwrap_or(0).min(PREFIX).min(inside.width as usize / 3);
    let taken = if labels.is_empty() { 0 } else { prefix + 1 + width(&theme.glyphs.bar.to_string()) };
    let room = (inside.width as usize).saturating_sub(taken).max(2);
    let ended = ended(state);
    let height = inside.height.saturating_sub(u16::from(ended.is_some() && inside.height > 1));
    let rows = view.log.rows(room, height as usize);
    for (i, row) in rows.iter().enumerate() {
        let Some(line) = view.log.line(row.seq) else { continue };
        let mut at = Rect { y: inside.y + i as u16, height: 1, ..inside };
        if let Some(label) = labels.get(line.member) {
            let color = if theme.color { Style::new().fg(Color::Indexed(COLORS[line.member % COLORS.len()])) } else { theme.dim() };
            let text = cut(label, prefix, theme.glyphs.ascii);
            put(buf, at, at.x, at.y, &text, color);
            put(buf, at, at.x + prefix as u16, at.y, &format!(" {}", theme.glyphs.bar), color);
            let gone = (taken as u16).min(at.width);
            at = Rect { x: at.x + gone, width: at.width - gone, ..at };
        }
        draw_line(state, line, row, at, buf);
    }
    if let Some(text) = ended {
        let y = inside.y + (rows.len() as u16).min(inside.height - 1);
        put(buf, inside, inside.x, y, &cut(&text, inside.width as usize, theme.glyphs.ascii), theme.dim());
    } else if rows.is_empty() {
        let (text, style) = nothing(state);
        put(buf, inside, inside.x, inside.y, &cut(&text, inside.width as usize, theme.glyphs.ascii), style);
    }
    let top = rows.first().is_none_or(|r| r.seq == view.log.first());
    let end = rows.last().is_none_or(|r| r.seq + 1 == view.log.end());
    let area = Rect { height, ..inside };
    drawn.log = Some(DrawnLog { rows: area, width: room, need: Need { rows: height as usize, top, end } });
}

fn title(state: &State) -> Vec<Piece> {
    let theme = state.theme;
    let log = &state.processes.log;
    let ids: Vec<&String> = log.ids().collect();
    // What is looked for must be seen.
    let most = if log.filter.is_empty() { 40 } else { 16 };
    let mut out = match ids.as_slice() {
        [] => vec![("log".to_owned(), theme.strong())],
        [id] => {
            let block = state.blocks.get(*id);
            let name = block.map_or_else(String::new, super::processes::name_of);
            let backend = block.map_or_else(String::new, |b| clean(&b.info.backend));
            vec![
                ("log  ".to_owned(), theme.strong()),
                (format!("{backend}/"), Style::new()),
                (cut(&name, most, theme.glyphs.ascii), theme.strong()),
            ]
        }
        all => vec![(format!("log of {} processes, as it arrives", all.len()), theme.strong())],
    };
    if !log.filter.is_empty() {
        out.push((format!("  lines with: {}", clean(&log.filter)), theme.warn()));
    }
    out
}

/// What the right end of the title says: whether it follows, what is left out.
fn chips(state: &State, rows: usize) -> Vec<Piece> {
    let theme = state.theme;
    let log = &state.processes.log;
    let unread = log.unread(|id| state.blocks.get(id).map_or(0, |b| b.total));
    let more = if unread > 0 { format!(" +{}", format::bytes(unread)) } else { String::new() };
    let mut out: Vec<Piece> = Vec::new();
    if log.gave_up() {
        out.push(("not looked through to its beginning: k goes on  ".to_owned(), theme.warn()));
    } else if log.searches(rows) {
        out.push(("looking  ".to_owned(), theme.warn()));
    }
    out.push(match (log.paused, log.place) {
        (true, _) => (format!("paused{more}"), theme.warn()),
        (_, Place::Follow) => (format!("follow {}", theme.glyphs.up), theme.focus()),
        (_, Place::At { .. }) => (format!("stays{more}"), theme.warn()),
    });
    out.push((format!("  wrap {}", if log.wrap { "on" } else { "off" }), theme.dim()));
    if log.column > 0 {
        out.push((format!("  from column {}", log.column + 1), theme.warn()));
    }
    out
}

/// Says how the one process shown ended, or that it cannot be asked, when the end of its log is on screen.
fn ended(state: &State) -> Option<String> {
    let log = &state.processes.log;
    let ids: Vec<&String> = log.ids().collect();
    let [id] = ids.as_slice() else { return None };
    let block = state.blocks.get(*id)?;
    if log.place != Place::Follow || log.paused || !log.filter.is_empty() {
        return None;
    }
    match block.standing() {
        Standing::Unknown if block.lost => Some("[unknown: the daemon that ran it is gone]".to_owned()),
        Standing::Unknown => Some(format!("[unknown: {} cannot be asked; this is what was heard of it]", clean(&block.info.backend))),
        _ if block.info.state.is_ended() => {
            let reason = match &block.info.state {
                crate::model::ProcessState::Ended(outcome) => format::reason(outcome),
                _ => String::new(),
            };
            let words = block.end_words();
            let why = if reason.is_empty() || words.starts_with(&reason) { String::new() } else { format!(": {}", clean(&reason)) };
            Some(format!("[{words}{why}]"))
        }
        _ => None,
    }
}

/// Says why there are no lines.
fn nothing(state: &State) -> (String, Style) {
    let theme = state.theme;
    let log = &state.processes.log;
    if let Some(why) = log.error() {
        return (format!("its log cannot be read: {why}"), theme.bad());
    }
    let wrote = log.ids().filter_map(|id| state.blocks.get(id)).any(|b| b.total > 0);
    let text = match (log.ids().next(), log.filter.is_empty()) {
        (None, _) => "",
        (_, false) if log.searches(1) => "looking for lines",
        (_, false) => "no line has that",
        (_, true) if wrote => "reading",
        (_, true) => "no output yet",
    };
    (text.to_owned(), theme.dim())
}

fn draw_line(state: &State, line: &LogLine, row: &LogRow, at: Rect, buf: &mut Buffer) {
    let theme = state.theme;
    let log = &state.processes.log;
    match &line.kind {
        Kind::Gap(bytes) => {
            put(buf, at, at.x, at.y, &format!("... {} not shown ...", format::bytes(*bytes)), theme.dim());
        }
        Kind::Note(text) => {
            put(buf, at, at.x, at.y, &format!("[{text}]"), theme.dim());
        }
        Kind::Text(text) => {
            let from = skip(text, row.range.start, log.column);
            let hit = if log.filter.is_empty() { None } else { found(text.text(), &log.filter) };
            let mut x = at.x;
            let mut byte = from;
            for (piece, pen) in text.pieces(from..row.range.end) {
                // Output may be coloured where the screen is not.
                let style = if theme.color { pen.style() } else { Style::new().add_modifier(pen.style().add_modifier) };
                for part in parts(piece, byte, hit.as_ref()) {
                    let style = if part.1 { style.add_modifier(Modifier::REVERSED) } else { style };
                    x = put(buf, at, x, at.y, part.0, style);
                }
                byte += piece.len();
            }
            if log.hit == Some(row.seq) {
                for x in at.x..at.right() {
                    buf[(x, at.y)].set_style(theme.strong().add_modifier(Modifier::UNDERLINED));
                }
            }
        }
    }
}

/// Gives the byte after so many columns of a line.
fn skip(line: &Line, from: usize, columns: usize) -> usize {
    let mut left = columns;
    for (i, c) in line.text()[from..].char_indices() {
        if left == 0 {
            return from + i;
        }
        left = left.saturating_sub(char_width(c));
    }
    if columns == 0 { from } else { line.text().len() }
}

/// Cuts a piece where a hit begins and ends; says of each part whether it is in the hit.
fn parts<'a>(piece: &'a str, at: usize, hit: Option<&std::ops::Range<usize>>) -> Vec<(&'a str, bool)> {
    let Some(hit) = hit else { return vec![(piece, false)] };
    let edge = |byte: usize| byte.saturating_sub(at).min(piece.len());
    let (from, to) = (edge(hit.start), edge(hit.end));
    [(&piece[..from], false), (&piece[from..to], true), (&piece[to..], false)].into_iter().filter(|(text, _)| !text.is_empty()).collect()
}
