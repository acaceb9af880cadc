//! Draws the questions of logins.
//!
//! Invariant: what a server says is shown as plain text with a mark before it; what is typed into a hidden field is never drawn
//! unless the person asked for it; a question is drawn whole, or as too small for the screen: never a part of it.

use super::boxes;
use crate::model::{Field, KnownKey, Question, ShownKey};
use crate::tui::state::State;
use crate::tui::state::dialog::{Dialog, TAIL};
use crate::tui::state::pause::PAUSE;
use crate::tui::text::{clean, cut_front, put, width, wrap_words};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

type Line = (String, Style);

/// Widest text.
const WIDEST: u16 = 72;
/// Least room for what is typed, beside its label; else it gets a row of its own.
const LEAST_ROOM: usize = 12;
/// Blanks between keys.
const GAP: &str = "    ";
const SEND: [&str; 3] = ["enter send", "^R show/hide", "esc cancel (it stays down, no retry)"];

/// What a question says.
struct Sheet {
    title: String,
    lines: Vec<Line>,
    keys: Vec<&'static str>,
}

/// What a question says, in rows that fit.
struct Plan {
    title: String,
    rows: Vec<Line>,
    keys: Vec<String>,
    area: Rect,
}

/// Draws the question in front; false when there is none.
pub(super) fn draw(state: &State, buf: &mut Buffer) -> bool {
    let Some(asked) = state.asked.front() else { return false };
    match plan(state, asked, *buf.area()) {
        Some(plan) => whole(state, &plan, buf),
        None => too_small(state, asked, buf),
    }
    true
}

/// Tells whether a question is shown whole on a screen.
pub(super) fn fits(state: &State, asked: &Dialog, screen: Rect) -> bool {
    plan(state, asked, screen).is_some()
}

/// Lays a question out: with air, else without, else without notes; none when that does not fit either.
fn plan(state: &State, asked: &Dialog, screen: Rect) -> Option<Plan> {
    let most = screen.width.saturating_sub(4).min(WIDEST) as usize;
    [(false, 1), (false, 0), (true, 0)].into_iter().find_map(|(brief, air)| {
        let Sheet { mut title, lines, keys } = sheet(state, asked, most, brief);
        let mut rows: Vec<Line> = lines.into_iter().flat_map(|line| wrapped(line, most)).collect();
        // The border has a blank at both ends of the title, and a corner.
        if width(&title) + 2 > most {
            rows.splice(0..0, wrapped((std::mem::take(&mut title), state.theme.strong()), most));
        }
        let keys = flow(&keys, most);
        let texts = rows.iter().map(|(text, _)| text).chain(&keys);
        let inner = texts.map(|text| width(text)).chain([width(&title) + 2, width(PAUSE).min(most)]).max().unwrap_or(0);
        let height = rows.len() + air + keys.len() + 2;
        (inner <= most && height <= screen.height as usize).then(|| {
            let area = boxes::middle(screen, inner as u16 + 4, height as u16);
            Plan { title, rows, keys, area }
        })
    })
}

fn wrapped((text, style): Line, most: usize) -> Vec<Line> {
    wrap_words(&text, most).into_iter().map(|range| (text[range].to_owned(), style)).collect()
}

/// Puts keys side by side as far as they fit.
fn flow(keys: &[&str], most: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for key in keys {
        match rows.last_mut() {
            Some(row) if width(row) + GAP.len() + width(key) <= most => {
                row.push_str(GAP);
                row.push_str(key);
            }
            _ => rows.extend(wrap_words(key, most).into_iter().map(|range| key[range].to_owned())),
        }
    }
    rows
}

fn whole(state: &State, plan: &Plan, buf: &mut Buffer) {
    let theme = state.theme;
    boxes::clear(buf, plan.area);
    let title: &[boxes::Piece] = if plan.title.is_empty() { &[] } else { &[(plan.title.clone(), theme.strong())] };
    let inside = boxes::frame(buf, plan.area, theme.glyphs.double, theme.focus(), title, &[], theme.glyphs.ascii);
    for (y, (text, style)) in (inside.y..).zip(&plan.rows) {
        put(buf, inside, inside.x + 1, y, text, *style);
    }
    let first = inside.bottom().saturating_sub(plan.keys.len() as u16);
    // The keys that do something, when they do.
    let pauses = [PAUSE.to_owned()];
    let (keys, style) = if state.pause_ends().is_some() { (&pauses[..], theme.warn()) } else { (&plan.keys[..], theme.focus()) };
    for (y, text) in (first..).zip(keys) {
        put(buf, inside, inside.x + 1, y, text, style);
    }
}

/// Says that a question does not fit, and what can be done about it, on the whole screen.
fn too_small(state: &State, asked: &Dialog, buf: &mut Buffer) {
    let screen = *buf.area();
    let most = screen.width as usize;
    let esc = match &asked.prompt.question {
        Question::HostKey { .. } => "refuses",
        Question::HostKeyChanged { .. } => "closes",
        _ if asked.waits() => "cancels",
        _ => "closes",
    };
    let mut rows = wrapped((format!("too small: make the window larger; esc {esc}"), state.theme.warn()), most);
    let title = wrapped((sheet(state, asked, most, true).title, state.theme.strong()), most);
    if title.len() + rows.len() <= screen.height as usize {
        rows.splice(0..0, title);
    }
    if state.pause_ends().is_some() {
        rows.extend(wrapped((PAUSE.to_owned(), state.theme.dim()), most));
    }
    boxes::clear(buf, screen);
    for (y, (text, style)) in (screen.y..screen.bottom()).zip(&rows) {
        put(buf, screen, screen.x, y, text, *style);
    }
}

/// Gives what a question says; `brief` leaves out what is only told along.
fn sheet(state: &State, asked: &Dialog, most: usize, brief: bool) -> Sheet {
    let prompt = &asked.prompt;
    let (backend, address) = (clean(&prompt.backend), clean(&prompt.address));
    let mut lines = Vec::new();
    let (title, keys) = match &prompt.question {
        Question::Passphrase { key, again } => {
            lines.push((format!("{} for {address}", clean(key)), Style::new()));
            lines.extend(wrong(state, *again, "That passphrase does not fit."));
            fields(state, asked, &[hidden("passphrase")], most, &mut lines);
            (format!("passphrase  {backend}"), SEND.to_vec())
        }
        Question::Password { again } => {
            lines.extend(wrong(state, *again, "That password was refused."));
            fields(state, asked, &[hidden("password")], most, &mut lines);
            (format!("password  {address}"), SEND.to_vec())
        }
        Question::Challenge { name, instructions, fields: wanted, round, .. } => {
            lines.push(("The server says (shown as plain text):".to_owned(), state.theme.dim()));
            for text in [name, instructions].into_iter().flat_map(|text| text.lines()).filter(|text| !text.trim().is_empty()) {
                // Every row has the mark, so that no row passes for one of ours.
                let said = wrapped((clean(text), Style::new()), most.saturating_sub(2));
                lines.extend(said.into_iter().map(|(row, style)| (format!("| {row}"), style)));
            }
            fields(state, asked, wanted, most, &mut lines);
            let keys = if wanted.is_empty() { vec!["enter, esc: close"] } else { SEND.to_vec() };
            (format!("keyboard-interactive {round}  {backend}"), keys)
        }
        Question::HostKey { host, key, file } => {
            new_key(state, asked, host, key, file, brief, &mut lines);
            let keys = match &asked.choice {
                Some(choice) if choice.save => vec!["enter save and connect", "esc back"],
                Some(_) => vec!["enter connect", "esc back"],
                None => vec!["o this time only", "s save", "n, esc refuse", "f whole"],
            };
            (format!("new host key  {backend}"), keys)
        }
        Question::HostKeyChanged { host, key, known } => {
            changed(state, asked, host, key, known, brief, &mut lines);
            let keys = if brief { &["c copy command", "esc close"][..] } else { &["d whole fingerprints", "c copy command", "esc close"] };
            (format!("HOST KEY CHANGED  {backend}  blocked"), keys.to_vec())
        }
    };
    if let Some((first, others)) = prompt.waiting.split_first().filter(|_| !brief) {
        let more = match others.len() {
            0 => String::new(),
            1 => ", and 1 more call waits".to_owned(),
            n => format!(", and {n} more calls wait"),
        };
        lines.push((format!("asked for: {}{more}", clean(first)), state.theme.dim()));
    }
    if state.asked.len() > 1 && !brief {
        lines.push((format!("{} more after this", state.asked.len() - 1), state.theme.dim()));
    }
    Sheet { title, lines, keys }
}

fn hidden(label: &str) -> Field {
    Field { label: format!("{label}:"), echo: false }
}

fn wrong(state: &State, again: bool, text: &str) -> Option<Line> {
    again.then(|| (text.to_owned(), state.theme.bad()))
}

fn fields(state: &State, asked: &Dialog, wanted: &[Field], most: usize, lines: &mut Vec<Line>) {
    let dot = if state.theme.glyphs.ascii { "*" } else { "\u{2022}" };
    for (at, field) in wanted.iter().enumerate() {
        let typed = asked.texts.get(at).map_or("", |text| text.expose());
        let shown = if asked.echoes(at) { clean(typed) } else { dot.repeat(typed.chars().count()) };
        let here = if at == asked.at { "_" } else { "" };
        let style = if at == asked.at { state.theme.strong() } else { Style::new() };
        let label = clean(field.label.trim_end());
        let room = most.saturating_sub(width(&label) + 2);
        // Its end is what is typed now; the question must not grow while it is typed.
        if room >= LEAST_ROOM {
            lines.push((format!("{label} {}{here}", cut_front(&shown, room, state.theme.glyphs.ascii)), style));
        } else {
            lines.push((label, style));
            lines.push((format!("{}{here}", cut_front(&shown, most.saturating_sub(1), state.theme.glyphs.ascii)), style));
        }
    }
    if asked.may_keep() {
        let mark = if asked.keep { "x" } else { " " };
        lines.push((format!("[{mark}] ^K keep in memory until the daemon ends"), Style::new()));
    }
}

fn new_key(state: &State, asked: &Dialog, host: &str, key: &ShownKey, file: &str, brief: bool, lines: &mut Vec<Line>) {
    lines.push((format!("{} ({}) is not in known_hosts.", clean(host), clean(&asked.prompt.address)), Style::new()));
    print(asked, "it shows", &key.key_type, &key.fingerprint, lines);
    if let Some(authority) = &key.authority {
        lines.push((format!("certified by {}, which is not known", clean(authority)), Style::new()));
    }
    if !brief {
        lines.push(("Agents cannot answer this. Nothing is sent until you do.".to_owned(), state.theme.dim()));
    }
    let Some(choice) = &asked.choice else { return };
    let what = if choice.save { format!("save it in {}", clean(file)) } else { "trust it this time only".to_owned() };
    lines.push((format!("{} {what}", state.theme.glyphs.running), state.theme.chosen()));
    let rest = "_".repeat(TAIL.saturating_sub(choice.tail.chars().count()));
    lines.push((format!("type its last {TAIL} characters: {}{rest}", clean(&choice.tail)), state.theme.strong()));
}

fn changed(state: &State, asked: &Dialog, host: &str, key: &ShownKey, known: &[KnownKey], brief: bool, lines: &mut Vec<Line>) {
    lines.push((format!("{} shows another key than the one that is known.", clean(host)), state.theme.bad()));
    if !brief {
        for entry in known {
            print(asked, "known", &entry.key_type, &entry.fingerprint, lines);
            lines.push((format!("         at {}", clean(&entry.place)), state.theme.dim()));
        }
        print(asked, "it shows", &key.key_type, &key.fingerprint, lines);
        lines.push((
            "All panes, agents and retries for it are stopped. Somebody may be in between, or it was set up anew.".to_owned(),
            Style::new(),
        ));
    }
    lines.push(("There is no accepting it here. If you know why it changed, run:".to_owned(), Style::new()));
    lines.push((format!("  qd hostkey replace {}", clean(&asked.prompt.backend)), state.theme.strong()));
}

fn print(asked: &Dialog, what: &str, kind: &str, fingerprint: &str, lines: &mut Vec<Line>) {
    let whole = clean(fingerprint);
    let shown = match (asked.whole || asked.choice.is_some(), whole.char_indices().nth(15), whole.char_indices().rev().nth(3)) {
        (false, Some((head, _)), Some((tail, _))) if tail > head => format!("{}...{}", &whole[..head], &whole[tail..]),
        _ => whole,
    };
    lines.push((format!("{what:<8} {} {shown}", clean(kind)), Style::new()));
}
