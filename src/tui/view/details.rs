//! Everything about one command, on the whole body: what it is, how it ended, and its output as far as it is kept here.
//!
//! Invariant: nothing is left out but the middle of a long output, which is said; every text from elsewhere is cleaned.

use super::boxes::{self, Piece};
use crate::model::{ProcessState, WhoKind};
use crate::tui::format;
use crate::tui::screen::{Entry, gap_text};
use crate::tui::state::block::Block;
use crate::tui::state::{Drawn, State};
use crate::tui::text::{clean, put, wrap, wrap_words};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Columns of the names on the left.
const LABEL: usize = 10;

/// Draws the details.
pub(super) fn view(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let block = state.details.as_ref().and_then(|d| state.blocks.get(&d.process));
    let title = block.map_or_else(|| "details".to_owned(), |b| format!("process {}", clean(&b.info.id)));
    let right = [("Esc back".to_owned(), theme.dim())];
    let inside = boxes::frame(buf, area, theme.glyphs.light, theme.focus(), &[(title, theme.strong())], &right, theme.glyphs.ascii);
    if inside.is_empty() {
        return;
    }
    let Some(block) = block else {
        put(buf, inside, inside.x + 1, inside.y, "it is not kept any more", theme.dim());
        return;
    };
    drawn.ticking |= block.is_live();
    let rows = rows(state, block, inside.width.saturating_sub(1) as usize);
    drawn.details_rows = rows.len();
    drawn.list_rows = inside.height as usize;
    let last = rows.len().saturating_sub(inside.height as usize);
    let first = state.details.as_ref().map_or(0, |d| d.at).min(last);
    for (i, pieces) in rows.iter().skip(first).take(inside.height as usize).enumerate() {
        let mut x = inside.x + 1;
        for (text, style) in pieces {
            x = put(buf, inside, x, inside.y + i as u16, text, *style);
        }
    }
}

/// Gives all rows of the details.
fn rows(state: &State, block: &Block, width: usize) -> Vec<Vec<Piece>> {
    let theme = state.theme;
    let mut out: Vec<Vec<Piece>> = Vec::new();
    for (label, text, style) in facts(state, block) {
        let room = width.saturating_sub(LABEL).max(8);
        for (i, range) in wrap_words(&text, room).into_iter().enumerate() {
            let label = if i == 0 { label } else { "" };
            out.push(vec![(format!("{label:<LABEL$}"), theme.dim()), (text[range].to_owned(), style)]);
        }
    }
    out.push(Vec::new());
    match (&block.screen, &block.error) {
        (_, Some(why)) => out.push(vec![(format!("its output cannot be read: {why}"), theme.bad())]),
        (None, _) if block.total == 0 => out.push(vec![("no output".to_owned(), theme.dim())]),
        (None, _) => out.push(vec![("reading its output".to_owned(), theme.dim())]),
        (Some(screen), _) => {
            for at in 0..screen.len() {
                match screen.entry(at) {
                    Some(Entry::Line(_, line)) => {
                        for range in wrap(line.text(), width) {
                            let style = |pen: crate::tui::screen::Pen| if theme.color { pen.style() } else { Style::new() };
                            out.push(line.pieces(range).map(|(text, pen)| (text.to_owned(), style(pen))).collect());
                        }
                    }
                    Some(Entry::Gap { lines, bytes }) => out.push(vec![(gap_text(lines, bytes), theme.dim())]),
                    None => {}
                }
            }
        }
    }
    out
}

/// Gives what is known of a command, a line of text for each thing.
fn facts(state: &State, block: &Block) -> Vec<(&'static str, String, Style)> {
    let theme = state.theme;
    let info = &block.info;
    let mut out: Vec<(&'static str, String, Style)> = Vec::new();
    for (i, line) in info.command.lines().enumerate() {
        out.push((if i == 0 { "command" } else { "" }, clean(line), theme.strong()));
    }
    let backend = state.backends.iter().find(|b| b.name == info.backend);
    let place = backend.map_or_else(String::new, |b| format!("  {} {}", b.kind.as_str(), clean(&b.address)));
    out.push(("backend", format!("{}{}", clean(&info.backend), place.trim_end()), Style::new()));
    out.push(("session", clean(&info.session), Style::new()));
    if !info.cwd.is_empty() {
        out.push(("directory", clean(&info.cwd), Style::new()));
    }
    let peer = info.who.peer_pid.map_or_else(String::new, |pid| format!("  (process {pid} here)"));
    let kind = match info.who.kind {
        WhoKind::Operator => "a person",
        WhoKind::Agent => "an agent or a script",
        WhoKind::System => "quarterdeck",
    };
    out.push(("by", format!("{}, {kind}{peer}", block.who()), Style::new()));
    out.push(("started", format::time_of_day(info.started, &state.zone), Style::new()));
    out.push(("state", how(state, block), super::processes::glyph(state, block).1));
    if let ProcessState::Ended(outcome) = &info.state {
        let (reason, word) = (format::reason(outcome), format::outcome(outcome));
        if reason != word {
            out.push(("", clean(&reason), theme.bad()));
        }
    }
    if let Some(meaning) = &info.exit_code_meaning {
        out.push(("meaning", clean(meaning), Style::new()));
    }
    if let Some(pid) = info.pid {
        let group = if info.background { ", and its group" } else { "" };
        out.push(("pid", format!("{pid}{group}"), Style::new()));
    }
    let mut kinds = vec![if info.background { "background" } else { "foreground" }];
    if info.detached {
        kinds.push("goes on without the daemon");
    }
    if info.reads_stdin {
        kinds.push("its stdin is open");
    }
    out.push(("kind", kinds.join(", "), Style::new()));
    if info.restarts > 0 {
        out.push(("again", format::count(u64::from(info.restarts), "restart"), Style::new()));
    }
    if let Some(ms) = info.timeout_ms {
        out.push(("time-out", format::duration(i64::try_from(ms).unwrap_or(i64::MAX)), Style::new()));
    }
    if !info.variables.is_empty() {
        out.push(("variables", clean(&info.variables.join(", ")), Style::new()));
    }
    if info.notify {
        out.push(("notify", "its end is told".to_owned(), Style::new()));
    }
    if !info.watch.is_empty() {
        out.push(("watch", clean(&info.watch.join("  ")), Style::new()));
    }
    if let Some(stray) = &info.stray {
        let by = stray.adopted_by.as_ref().map_or_else(String::new, |who| format!(", adopted by {}", clean(&who.name)));
        out.push(("stray", format!("left by {}{by}; its processes {:?}", clean(&stray.of), stray.pids), Style::new()));
    }
    for warning in &info.warnings {
        let pids = if warning.pids.is_empty() { String::new() } else { format!("  {:?}", warning.pids) };
        let names = if warning.names.is_empty() { String::new() } else { format!("  {}", clean(&warning.names.join(", "))) };
        out.push(("warning", format!("{}{pids}{names}", clean(&warning.message)), theme.warn()));
    }
    for hint in &info.hints {
        out.push(("hint", clean(&hint.message), Style::new()));
    }
    if block.total > 0 {
        out.push(("output", format!("{}  (all of it: qd logs {})", format::bytes(block.total), clean(&info.id)), Style::new()));
        if !block.refused && !state.daemon.state_dir.is_empty() {
            out.push(("log", clean(&format!("{}/logs/{}.log", state.daemon.state_dir, info.id)), Style::new()));
        }
    }
    out
}

/// Says how it is, and for how long.
fn how(state: &State, block: &Block) -> String {
    let since = format::elapsed(&block.info, state.now);
    match &block.info.state {
        ProcessState::Ended(_) => block.end_words(),
        ProcessState::Unknown => format!("unknown: its machine cannot be asked now; started {} ago", format::duration(since)),
        _ if block.lost => "unknown: the daemon that ran it is gone".to_owned(),
        _ => format!("{} for {}", format::standing(&block.info), format::duration(since)),
    }
}
