//! Draws the questions of logins.
//!
//! Invariant: what a server says is shown as plain text with a mark before it; what is typed into a hidden field is never drawn
//! unless the person asked for it.

use super::popup::dialog;
use crate::model::{Field, KnownKey, Question, ShownKey};
use crate::tui::state::State;
use crate::tui::state::dialog::{Dialog, TAIL};
use crate::tui::text::clean;
use ratatui::buffer::Buffer;
use ratatui::style::Style;

type Line = (String, Style);

/// Draws the question in front; false when there is none.
pub(super) fn draw(state: &State, buf: &mut Buffer) -> bool {
    let Some(asked) = state.asked.front() else { return false };
    let prompt = &asked.prompt;
    let (backend, address) = (clean(&prompt.backend), clean(&prompt.address));
    let mut lines = Vec::new();
    let (title, last) = match &prompt.question {
        Question::Passphrase { key, again } => {
            lines.push((format!("{} for {address}", clean(key)), Style::new()));
            lines.extend(wrong(state, *again, "That passphrase does not fit."));
            fields(state, asked, &[hidden("passphrase")], &mut lines);
            (format!("passphrase  {backend}"), SEND)
        }
        Question::Password { again } => {
            lines.extend(wrong(state, *again, "That password was refused."));
            fields(state, asked, &[hidden("password")], &mut lines);
            (format!("password  {address}"), SEND)
        }
        Question::Challenge { name, instructions, fields: wanted, round, .. } => {
            lines.push(("The server says (shown as plain text):".to_owned(), state.theme.dim()));
            for text in [name, instructions].into_iter().flat_map(|text| text.lines()).filter(|text| !text.trim().is_empty()) {
                lines.push((format!("| {}", clean(text)), Style::new()));
            }
            fields(state, asked, wanted, &mut lines);
            let last = if wanted.is_empty() { "enter, esc: close" } else { SEND };
            (format!("keyboard-interactive {round}  {backend}"), last)
        }
        Question::HostKey { host, key, file } => {
            new_key(state, asked, host, key, file, &mut lines);
            let last = if asked.tail.is_some() {
                "enter: save and connect    esc: back"
            } else {
                "o this time only    s save    n, esc: refuse    f whole"
            };
            (format!("new host key  {backend}"), last)
        }
        Question::HostKeyChanged { host, key, known } => {
            changed(state, asked, host, key, known, &mut lines);
            (format!("HOST KEY CHANGED  {backend}  blocked"), "d whole fingerprints    c copy command    esc close")
        }
    };
    if state.asked.len() > 1 {
        lines.push((format!("{} more after this", state.asked.len() - 1), state.theme.dim()));
    }
    dialog(state, &title, &lines, last, buf);
    true
}

const SEND: &str = "enter send    ^R show/hide    esc cancel (it stays down, no retry)";

fn hidden(label: &str) -> Field {
    Field { label: format!("{label}:"), echo: false }
}

fn wrong(state: &State, again: bool, text: &str) -> Option<Line> {
    again.then(|| (text.to_owned(), state.theme.bad()))
}

fn fields(state: &State, asked: &Dialog, wanted: &[Field], lines: &mut Vec<Line>) {
    let dot = if state.theme.glyphs.ascii { "*" } else { "\u{2022}" };
    for (at, field) in wanted.iter().enumerate() {
        let typed = asked.texts.get(at).map_or("", |text| text.expose());
        let shown = if asked.echoes(at) { clean(typed) } else { dot.repeat(typed.chars().count()) };
        let here = if at == asked.at { "_" } else { "" };
        let style = if at == asked.at { state.theme.strong() } else { Style::new() };
        lines.push((format!("{} {shown}{here}", clean(field.label.trim_end())), style));
    }
    if asked.may_keep() {
        let mark = if asked.keep { "x" } else { " " };
        lines.push((format!("[{mark}] ^K keep in memory until the daemon ends"), Style::new()));
    }
}

fn new_key(state: &State, asked: &Dialog, host: &str, key: &ShownKey, file: &str, lines: &mut Vec<Line>) {
    lines.push((format!("{} ({}) is not in known_hosts.", clean(host), clean(&asked.prompt.address)), Style::new()));
    print(asked, "it shows", &key.key_type, &key.fingerprint, lines);
    if let Some(authority) = &key.authority {
        lines.push((format!("certified by {}, which is not known", clean(authority)), Style::new()));
    }
    lines.push(("Agents cannot answer this. Nothing is sent until you do.".to_owned(), state.theme.dim()));
    if let Some(tail) = &asked.tail {
        let rest = "_".repeat(TAIL.saturating_sub(tail.chars().count()));
        lines.push((format!("type the last {TAIL} characters to save it: {}{rest}", clean(tail)), state.theme.strong()));
        lines.push((format!("it goes into {}", clean(file)), state.theme.dim()));
    }
}

fn changed(state: &State, asked: &Dialog, host: &str, key: &ShownKey, known: &[KnownKey], lines: &mut Vec<Line>) {
    lines.push((format!("{} shows another key than the one that is known.", clean(host)), state.theme.bad()));
    for entry in known {
        print(asked, "known", &entry.key_type, &entry.fingerprint, lines);
        lines.push((format!("         at {}", clean(&entry.place)), state.theme.dim()));
    }
    print(asked, "it shows", &key.key_type, &key.fingerprint, lines);
    lines.push((
        "All panes, agents and retries for it are stopped. Somebody may be in between, or it was set up anew.".to_owned(),
        Style::new(),
    ));
    lines.push(("There is no accepting it here. If you know why it changed, run:".to_owned(), Style::new()));
    lines.push((format!("  qd hostkey replace {}", clean(&asked.prompt.backend)), state.theme.strong()));
}

fn print(asked: &Dialog, what: &str, kind: &str, fingerprint: &str, lines: &mut Vec<Line>) {
    let whole = clean(fingerprint);
    let shown = match (asked.whole || asked.tail.is_some(), whole.char_indices().nth(15), whole.char_indices().rev().nth(3)) {
        (false, Some((head, _)), Some((tail, _))) if tail > head => format!("{}...{}", &whole[..head], &whole[tail..]),
        _ => whole,
    };
    lines.push((format!("{what:<8} {} {shown}", clean(kind)), Style::new()));
}
