//! The status line: where the keyboard is, the keys that help most now, what has just happened.
//!
//! Invariant: one row; the first word is the context; items are dropped from the right when there is no room.

use super::boxes::{self, Piece};
use crate::tui::input::table::{Action, Context};
use crate::tui::state::pause::PAUSE;
use crate::tui::state::processes::Asking;
use crate::tui::state::{Link, State, View};
use crate::tui::text::{clean, cut, width};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Draws the status line.
pub(super) fn draw(state: &State, area: Rect, buf: &mut Buffer) {
    let theme = state.theme;
    let context = state.context();
    let word = match (state.leader, context) {
        (Some(_), _) => state.keymap.leader.short(),
        (None, Context::Input) => "INPUT".to_owned(),
        (None, Context::Nav | Context::Processes | Context::Feed | Context::Details | Context::List) => "NAV".to_owned(),
        (None, Context::Scroll) => "SCROLL".to_owned(),
        (None, Context::Leader) => String::new(),
    };
    let mut left: Vec<Piece> = vec![(format!(" {word} "), theme.chosen())];
    if let Some(pane) = state.pane().filter(|_| matches!(context, Context::Input | Context::Nav | Context::Scroll | Context::Leader)) {
        left.push((format!(" {}:{} ", clean(&pane.backend), clean(&pane.session)), theme.strong()));
    }
    let mut used: usize = left.iter().map(|(t, _)| width(t)).sum();
    let alert = alert(state, area.width as usize);
    if let Some((text, style)) = loud(state) {
        left.push((format!("{} ", theme.glyphs.bar), theme.dim()));
        left.push((text, style));
        boxes::row(buf, area, &left, &[], theme.glyphs.ascii);
        return;
    }
    left.push((format!("{} ", theme.glyphs.bar), theme.dim()));
    used += 2 + alert.iter().map(|(text, _)| width(text)).sum::<usize>();
    for (key, label) in keys(state, context) {
        let item = format!("{key} {label}  ");
        used += width(&item);
        if used > area.width as usize {
            break;
        }
        left.push((key, theme.focus()));
        left.push((format!(" {label}  "), Style::new()));
    }
    boxes::row(buf, area, &left, &alert, theme.glyphs.ascii);
}

/// The alert that waits longest to be seen, and the key that goes to it.
fn alert(state: &State, room: usize) -> Vec<Piece> {
    let Some(alert) = state.loud.alerts().front().filter(|_| room >= 60) else { return Vec::new() };
    let theme = state.theme;
    let key = state.keymap.shown(Context::Leader, Action::NextAlert).unwrap_or_default();
    let text = cut(&clean(&alert.text), room / 3, theme.glyphs.ascii);
    vec![(format!("{} {text} ", theme.glyphs.person), theme.bad()), (format!("{key} "), theme.focus())]
}

/// What is more important than the keys.
fn loud(state: &State) -> Option<(String, Style)> {
    if state.pause_ends().is_some() {
        return Some((PAUSE.to_owned(), state.theme.warn()));
    }
    if state.list.typing {
        return Some((format!("filter: {}_", clean(&state.list.filter)), state.theme.focus()));
    }
    if let (Some((what, text)), View::Processes) = (&state.processes.asking, state.view) {
        let what = match what {
            Asking::Filter => "filter (words, state:failed, by:who, @tag)".to_owned(),
            Asking::Find => "lines with".to_owned(),
            Asking::Stdin(id) => format!("stdin of {} (enter sends, ^D ends it, esc leaves)", state.log_label(id)),
        };
        return Some((format!("{what}: {}_", clean(text)), state.theme.focus()));
    }
    if let Some((_, text)) = &state.chip {
        return Some((clean(text), state.theme.warn()));
    }
    let Link::Lost { reason, next_try, stopped, .. } = &state.link else { return None };
    let key = state.keymap.shown(Context::Leader, Action::Reconnect).unwrap_or_default();
    let text = match next_try {
        _ if *stopped => format!("the daemon was stopped; {key} starts it"),
        Some(_) => format!("no daemon: {reason}; it is tried again, {key} tries now"),
        None => format!("no daemon: {reason}; reaching for it"),
    };
    Some((text, state.theme.bad()))
}

/// Gives the keys worth knowing now, the most useful first.
fn keys(state: &State, context: Context) -> Vec<(String, &'static str)> {
    let map = &state.keymap;
    let leader = |action, label| map.shown(Context::Leader, action).map(|k| (k, label));
    let here = |action, label| map.shown(context, action).map(|k| (k, label));
    let mut out: Vec<Option<(String, &'static str)>> = vec![Some((map.leader.short(), "commands"))];
    out.extend(match context {
        Context::Nav => vec![
            here(Action::ToInput, "input"),
            here(Action::Open, "open/fold"),
            here(Action::Stop, "stop"),
            here(Action::CopyOutput, "copy"),
            here(Action::Session, "session"),
            here(Action::Help, "help"),
        ],
        Context::Scroll => {
            vec![here(Action::Back, "back"), here(Action::Search, "search"), here(Action::HalfUp, "up"), here(Action::HalfDown, "down")]
        }
        Context::Processes => vec![
            here(Action::Back, "back"),
            here(Action::OpenLog, "log"),
            here(Action::Stop, "stop"),
            here(Action::Restart, "run again"),
            here(Action::Filter, "filter"),
            here(Action::Mark, "mark"),
            here(Action::Details, "details"),
            here(Action::Follow, "follow"),
            here(Action::Help, "help"),
        ],
        Context::Feed => vec![
            here(Action::Back, "back"),
            here(Action::Details, "details"),
            here(Action::ToPane, "its pane"),
            here(Action::Stop, "stop"),
            here(Action::Filter, "filter"),
            here(Action::Failures, "failures"),
            here(Action::ByWho, "by who"),
            here(Action::Pause, "pause"),
        ],
        Context::Details => vec![
            here(Action::Back, "back"),
            here(Action::OpenLog, "its log"),
            here(Action::ToPane, "its pane"),
            here(Action::Stop, "stop"),
            here(Action::CopyOutput, "copy"),
        ],
        Context::List => vec![
            here(Action::Back, "back"),
            here(Action::Open, "open"),
            here(Action::Filter, "filter"),
            here(Action::Reconnect, "reconnect"),
        ],
        Context::Input | Context::Leader => vec![
            map.shown(Context::Leader, Action::Slot).map(|k| (k.replace('0', "0-9"), "backend")),
            leader(Action::Zoom, "zoom"),
            leader(Action::Processes, "processes"),
            leader(Action::Feed, "feed"),
            leader(Action::Help, "help"),
            here(Action::ToNav, "commands above"),
        ],
    });
    out.into_iter().flatten().collect()
}
