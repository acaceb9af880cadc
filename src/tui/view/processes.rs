//! The process view: the table, and below it the log of what is chosen.
//!
//! Invariant: every state has a glyph and a word; what is unknown is never drawn as ended; columns that have no room are left out, the
//! state, the backend, the name and how long or how it ended stay.

use super::boxes::{self, Piece};
use super::log;
use crate::model::{Outcome, ProcessState, WhoKind};
use crate::tui::format;
use crate::tui::input::table::{Action, Context};
use crate::tui::state::block::Block;
use crate::tui::state::processes::{Part, Shown, Standing};
use crate::tui::state::{Drawn, State};
use crate::tui::text::{clean, cut, put, width};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Least room for a name before a column goes.
const NAME: usize = 16;

/// A column, by importance: the last ones go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Backend,
    Kind,
    Name,
    Pid,
    Started,
    Up,
    Restarts,
    By,
    Out,
}

/// The columns as they stand, with their widths; the name takes what is left.
const COLUMNS: [(Column, &str, usize); 9] = [
    (Column::Backend, "BACKEND", 11),
    (Column::Kind, "KIND", 7),
    (Column::Name, "NAME", 0),
    (Column::Pid, "PID", 9),
    (Column::Started, "STARTED", 10),
    (Column::Up, "UP/EXIT", 12),
    (Column::Restarts, "RESTARTS", 9),
    (Column::By, "BY", 12),
    (Column::Out, "OUT", 11),
];
/// What goes when there is no room, first to last.
const GO: [Column; 6] = [Column::Restarts, Column::Kind, Column::Started, Column::Out, Column::By, Column::Pid];

/// Draws the view.
pub(super) fn view(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let view = &state.processes;
    let rows = state.process_rows();
    let both = area.height >= 12 && !view.zoom;
    let (table, below) = match (both, view.part) {
        (false, Part::Table) => (Some(area), None),
        (false, Part::Log) => (None, Some(area)),
        (true, _) => {
            let wanted = rows.len() as u16 + 3;
            let height = wanted.clamp(5, (area.height / 2).max(5));
            let (top, rest) = (Rect { height, ..area }, Rect { y: area.y + height, height: area.height - height, ..area });
            (Some(top), Some(rest))
        }
    };
    if let Some(area) = table {
        self::table(state, &rows, area, buf, drawn);
    }
    if let Some(area) = below {
        log::pane(state, area, buf, drawn);
    }
}

fn table(state: &State, rows: &[&Block], area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let view = &state.processes;
    let focused = view.part == Part::Table;
    let style = if focused { theme.focus() } else { theme.dim() };
    let inside = boxes::frame(buf, area, theme.glyphs.light, style, &title(state, rows), &about(state), theme.glyphs.ascii);
    if inside.height < 2 {
        return;
    }
    let columns = columns(inside.width as usize);
    let mut x = 4;
    for (column, heading, room) in &columns {
        put(buf, inside, inside.x + x, inside.y, &cut(heading, *room, theme.glyphs.ascii), theme.dim());
        x = x.saturating_add(*room as u16);
        debug_assert!(*room > 0, "{column:?}");
    }
    let body = Rect { y: inside.y + 1, height: inside.height - 1, ..inside };
    let at = state.process_at(rows).unwrap_or(0);
    let first = (at + 1).saturating_sub(body.height as usize);
    drawn.list_rows = body.height as usize;
    drawn.list = Some((body, first));
    if rows.is_empty() {
        let said = "no processes; `qd exec -d -- COMMAND` starts one in the background";
        put(buf, body, body.x + 1, body.y, &cut(said, body.width.saturating_sub(1) as usize, theme.glyphs.ascii), theme.dim());
    }
    for (i, block) in rows.iter().enumerate().skip(first).take(body.height as usize) {
        let line = Rect { y: body.y + (i - first) as u16, height: 1, ..body };
        row(state, block, i == at, &columns, line, buf, drawn);
    }
}

fn title(state: &State, rows: &[&Block]) -> Vec<Piece> {
    let theme = state.theme;
    let view = &state.processes;
    let mut out = vec![(format!("processes  {}", rows.len()), theme.strong())];
    for (standing, word, style) in [
        (Standing::Failed, "failed", theme.bad()),
        (Standing::Unknown, "unknown", theme.warn()),
        (Standing::Stray, "stray", theme.warn()),
        (Standing::Running, "running", theme.focus()),
    ] {
        let n = rows.iter().filter(|b| b.standing() == standing).count();
        if n > 0 {
            out.push((format!("  {n} {word}"), style));
        }
    }
    if !view.marked.is_empty() {
        out.push((format!("  {} marked", view.marked.len()), theme.warn()));
    }
    if view.range.is_some() {
        out.push(("  range".to_owned(), theme.warn()));
    }
    if !view.filter.is_empty() {
        out.push((format!("  filter: {}", clean(&view.filter)), theme.warn()));
    }
    out
}

fn about(state: &State) -> Vec<Piece> {
    let view = &state.processes;
    let ended = match view.shown {
        Shown::Background => "",
        Shown::All => "all that is kept, ",
        Shown::Live => "only what runs, ",
    };
    let which = view.only.as_ref().map_or_else(|| "all backends".to_owned(), |only| format!("only {}", clean(only)));
    vec![(format!("{ended}{which}"), state.theme.dim())]
}

/// Gives the columns that a width has room for, and their widths.
fn columns(room: usize) -> Vec<(Column, &'static str, usize)> {
    let mut all = COLUMNS.to_vec();
    let fixed = |all: &[(Column, &str, usize)]| all.iter().map(|(.., w)| w).sum::<usize>() + 4;
    for gone in GO {
        if fixed(&all) + NAME <= room {
            break;
        }
        all.retain(|(column, ..)| *column != gone);
    }
    let name = room.saturating_sub(fixed(&all)).max(4);
    for (column, _, width) in &mut all {
        if *column == Column::Name {
            *width = name;
        }
    }
    all
}

fn row(state: &State, block: &Block, chosen: bool, columns: &[(Column, &str, usize)], area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let info = &block.info;
    let marked = state.processes.marked.contains(&info.id);
    let cursor = if chosen { theme.glyphs.cursor } else { ' ' };
    let (glyph, style) = glyph(state, block);
    let mark = if marked { '*' } else { ' ' };
    let mut x = put(buf, area, area.x, area.y, &cursor.to_string(), theme.focus());
    x = put(buf, area, x, area.y, &mark.to_string(), theme.warn());
    x = put(buf, area, x, area.y, &format!("{glyph} "), style);
    let name = if chosen && state.processes.part == Part::Table { theme.chosen() } else { theme.strong() };
    for (column, _, room) in columns {
        let (text, style) = match column {
            Column::Backend => (clean(&info.backend), Style::new()),
            Column::Kind => {
                (state.backends.iter().find(|b| b.name == info.backend).map_or("-", |b| b.kind.as_str()).to_owned(), theme.dim())
            }
            Column::Name => (name_of(block), name),
            Column::Pid => (pids(block), theme.dim()),
            Column::Started => (format::time_of_day(info.started, &state.zone), theme.dim()),
            Column::Up => (how_long(state, block, drawn), style),
            Column::Restarts => (info.restarts.to_string(), theme.dim()),
            Column::By => (block.who(), if info.who.kind == WhoKind::Operator { theme.focus() } else { theme.agent() }),
            Column::Out => (wrote(state, block), theme.dim()),
        };
        let text = cut(&text, room.saturating_sub(1), theme.glyphs.ascii);
        put(buf, area, x, area.y, &text, style);
        x = x.saturating_add(*room as u16).min(area.right());
    }
}

/// Gives the process's number; of a stray the first of its processes, and how many more there are.
fn pids(block: &Block) -> String {
    let left: &[u32] = block.info.stray.as_ref().map_or_else(Default::default, |stray| stray.pids.as_slice());
    match (block.info.pid, left) {
        (Some(pid), _) => pid.to_string(),
        (None, [pid]) => pid.to_string(),
        (None, [pid, more @ ..]) => format!("{pid}+{}", more.len()),
        (None, []) => "-".to_owned(),
    }
}

/// Gives the first line of a command.
pub(super) fn name_of(block: &Block) -> String {
    let mut lines = block.info.command.lines();
    let first = clean(lines.next().unwrap_or_default().trim());
    if lines.next().is_some() { format!("{first} ...") } else { first }
}

/// Gives the glyph of a process's state.
pub(super) fn glyph(state: &State, block: &Block) -> (String, Style) {
    let (theme, g) = (state.theme, state.theme.glyphs);
    match (block.standing(), &block.info.state) {
        (Standing::Failed, _) => (g.failed.to_string(), theme.bad()),
        (Standing::Unknown, _) => ("?".to_owned(), theme.warn()),
        (Standing::Stray, _) => (g.person.to_string(), theme.warn()),
        (Standing::Running, ProcessState::Starting | ProcessState::Stopping) => (g.busy.to_string(), theme.warn()),
        (Standing::Running, _) if block.info.background => (g.up.to_string(), theme.good()),
        // Somebody waits for it.
        (Standing::Running, _) => (g.running.to_owned(), theme.focus()),
        (Standing::Ended, _) if block.was_stopped() => (g.stopped.to_string(), theme.warn()),
        (Standing::Ended, _) => (g.ok.to_string(), theme.dim()),
    }
}

/// Says how long it has run, or how it ended.
pub(super) fn how_long(state: &State, block: &Block, drawn: &mut Drawn) -> String {
    let up = || format::running(format::elapsed(&block.info, state.now));
    match &block.info.state {
        _ if block.standing() == Standing::Unknown => "unknown".to_owned(),
        ProcessState::Ended(Outcome::Cancelled { .. }) => "stopped".to_owned(),
        ProcessState::Ended(outcome) => format::outcome(outcome),
        ProcessState::Stray => "stray".to_owned(),
        ProcessState::Starting => "waiting".to_owned(),
        ProcessState::Stopping => "stopping".to_owned(),
        _ => {
            drawn.ticking = true;
            up()
        }
    }
}

/// Says how fast it writes, or how much it wrote.
pub(super) fn wrote(state: &State, block: &Block) -> String {
    let rate = if block.is_live() { block.rate(state.mono) } else { 0 };
    match rate {
        0 => format::bytes(block.total),
        rate => format!("{}/s", format::bytes(rate)),
    }
}

/// Draws the processes beside the panes of a wide screen: background ones, and what else runs.
pub(super) fn column(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = state.theme;
    let key = state.keymap.shown(Context::Leader, Action::Processes).unwrap_or_default();
    let mut rows: Vec<&Block> = state.blocks.values().filter(|b| !b.refused && (b.info.background || b.is_live())).collect();
    rows.sort_by_key(|b| (b.standing(), !b.info.background, std::cmp::Reverse(b.info.started)));
    let title = [(format!("processes  {}", rows.len()), theme.strong())];
    let inside = boxes::frame(buf, area, theme.glyphs.light, theme.dim(), &title, &[(key, theme.dim())], theme.glyphs.ascii);
    for (i, block) in rows.into_iter().take(inside.height as usize).enumerate() {
        let at = Rect { y: inside.y + i as u16, height: 1, ..inside };
        let (glyph, style) = glyph(state, block);
        let left = vec![
            (format!("{glyph} "), style),
            (format!("{:<8} ", cut(&clean(&block.info.backend), 8, theme.glyphs.ascii)), Style::new()),
            (name_of(block), theme.strong()),
        ];
        let out = wrote(state, block);
        let right = format!(" {:>8} {out:>8}", cut(&how_long(state, block, drawn), 8, theme.glyphs.ascii));
        let right = if width(&right) * 2 > inside.width as usize { String::new() } else { right };
        boxes::row(buf, at, &left, &[(right, style)], theme.glyphs.ascii);
    }
}
