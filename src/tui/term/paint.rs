//! Turns the difference of two screens into the bytes of one frame.
//!
//! Invariant: a frame is one piece, between the begin and the end of a synchronized update; after it the terminal shows exactly
//! the new screen, whatever it thinks about the width of a character: the cursor is placed anew after each risky one.

use crate::tui::text::width;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use std::fmt::Write;

const BEGIN: &str = "\x1b[?2026h\x1b[?25l";
const END: &str = "\x1b[?2026l";

/// How many colours the terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::tui) enum Depth {
    None,
    Sixteen,
    Many,
    Full,
}

impl Depth {
    /// Reads the environment through a function.
    pub(in crate::tui) fn from_env(get: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| get(name).filter(|v| !v.is_empty());
        let term = set("TERM").unwrap_or_default();
        if set("NO_COLOR").is_some() || term == "dumb" {
            return Self::None;
        }
        match set("COLORTERM").as_deref() {
            Some("truecolor" | "24bit") => Self::Full,
            _ if term.contains("256color") || term.contains("kitty") || term.contains("direct") => Self::Many,
            _ => Self::Sixteen,
        }
    }
}

/// The painter of one terminal.
pub(in crate::tui) struct Painter {
    depth: Depth,
    /// What the terminal shows; none when that is unknown.
    shown: Option<Buffer>,
    cursor: Option<(u16, u16)>,
}

impl Painter {
    pub(in crate::tui) fn new(depth: Depth) -> Self {
        Self { depth, shown: None, cursor: None }
    }

    /// Forgets what the terminal shows: the next frame sends every cell.
    pub(in crate::tui) fn forget(&mut self) {
        self.shown = None;
    }

    /// Gives the bytes that bring the terminal from what it shows to `next`, or none when it shows it; gives back a buffer to
    /// draw the next screen into.
    pub(in crate::tui) fn frame(&mut self, next: Buffer, cursor: Option<(u16, u16)>) -> (Option<Vec<u8>>, Buffer) {
        let area = *next.area();
        let mut out = String::new();
        match self.shown.take().filter(|b| *b.area() == area) {
            Some(before) => {
                self.changes(&before, &next, &mut out);
                let spare = before;
                let nothing = out.is_empty() && cursor == self.cursor;
                let frame = (!nothing).then(|| finish(out, "", cursor));
                self.shown = Some(next);
                self.cursor = cursor;
                (frame, spare)
            }
            None => {
                let blank = Buffer::empty(area);
                self.changes(&blank, &next, &mut out);
                // Cleared inside the frame, so that nothing flashes.
                let frame = finish(out, "\x1b[0m\x1b[2J", cursor);
                self.shown = Some(next);
                self.cursor = cursor;
                (Some(frame), blank)
            }
        }
    }

    fn changes(&self, before: &Buffer, next: &Buffer, out: &mut String) {
        let area = *next.area();
        let mut style: Option<(Color, Color, Modifier)> = None;
        for y in area.y..area.bottom() {
            self.row(before, next, Rect { y, height: 1, ..area }, &mut style, out);
        }
        if style.is_some() {
            out.push_str("\x1b[0m");
        }
    }

    fn row(&self, before: &Buffer, next: &Buffer, row: Rect, style: &mut Option<(Color, Color, Modifier)>, out: &mut String) {
        let y = row.y;
        // Where the terminal's cursor is, if that is sure.
        let mut at: Option<u16> = None;
        let mut dirty_until = row.x;
        let mut x = row.x;
        while x < row.right() {
            let cell = &next[(x, y)];
            let wide = (width(cell.symbol()).max(1) as u16).min(row.right() - x);
            let changed = (x..x + wide).any(|i| next[(i, y)] != before[(i, y)]);
            if changed {
                let had = width(before[(x, y)].symbol()) as u16;
                dirty_until = dirty_until.max(x + wide.max(had));
            }
            if changed || x < dirty_until {
                if at != Some(x) {
                    // Infallible: a String takes everything.
                    write!(out, "\x1b[{};{}H", y + 1, x + 1).ok();
                }
                self.style(cell, style, out);
                out.push_str(cell.symbol());
                at = is_sure(cell.symbol()).then_some(x + wide);
            }
            x += wide;
        }
    }

    fn style(&self, cell: &Cell, style: &mut Option<(Color, Color, Modifier)>, out: &mut String) {
        let wanted = (cell.fg, cell.bg, cell.modifier);
        if *style == Some(wanted) {
            return;
        }
        *style = Some(wanted);
        out.push_str("\x1b[0");
        for (bit, code) in [
            (Modifier::BOLD, 1),
            (Modifier::DIM, 2),
            (Modifier::ITALIC, 3),
            (Modifier::UNDERLINED, 4),
            (Modifier::REVERSED, 7),
            (Modifier::CROSSED_OUT, 9),
        ] {
            if cell.modifier.contains(bit) {
                write!(out, ";{code}").ok();
            }
        }
        self.color(cell.fg, 30, out);
        self.color(cell.bg, 40, out);
        out.push('m');
    }

    fn color(&self, color: Color, base: u8, out: &mut String) {
        let index = match (color, self.depth) {
            (_, Depth::None) => return,
            (Color::Rgb(r, g, b), Depth::Full) => {
                write!(out, ";{};2;{r};{g};{b}", base + 8).ok();
                return;
            }
            (Color::Rgb(r, g, b), _) => to_256(r, g, b),
            (Color::Indexed(n), _) => n,
            _ => return,
        };
        let index = if self.depth == Depth::Sixteen { to_16(index) } else { index };
        match index {
            0..=7 => write!(out, ";{}", base + index),
            8..=15 => write!(out, ";{}", base + 60 + index - 8),
            n => write!(out, ";{};5;{n}", base + 8),
        }
        .ok();
    }
}

/// Puts the parts of a frame together.
fn finish(changes: String, clear: &str, cursor: Option<(u16, u16)>) -> Vec<u8> {
    let mut frame = String::with_capacity(changes.len() + 64);
    frame.push_str(BEGIN);
    frame.push_str(clear);
    frame.push_str(&changes);
    if let Some((x, y)) = cursor {
        write!(frame, "\x1b[{};{}H\x1b[?25h", y + 1, x + 1).ok();
    }
    frame.push_str(END);
    frame.into_bytes()
}

/// Tells whether every terminal moves its cursor as we think after a symbol.
fn is_sure(symbol: &str) -> bool {
    symbol.chars().all(|c| matches!(c, ' '..='~' | '─'..='╿'))
}

/// The nearest colour of the 6x6x6 cube or the grey ramp.
fn to_256(r: u8, g: u8, b: u8) -> u8 {
    let step = |v: u8| match v {
        0..48 => 0u8,
        48..115 => 1,
        _ => (v - 35) / 40,
    };
    let level = |s: u8| if s == 0 { 0i32 } else { 55 + 40 * i32::from(s) };
    let (cr, cg, cb) = (step(r), step(g), step(b));
    let grey = ((i32::from(r) + i32::from(g) + i32::from(b)) / 3 - 8).clamp(0, 238) / 10;
    let grey_level = 8 + 10 * grey;
    let far = |x: i32, y: i32, z: i32| (x - i32::from(r)).pow(2) + (y - i32::from(g)).pow(2) + (z - i32::from(b)).pow(2);
    if far(grey_level, grey_level, grey_level) < far(level(cr), level(cg), level(cb)) {
        232 + grey.min(23) as u8
    } else {
        16 + 36 * cr + 6 * cg + cb
    }
}

/// The nearest of the sixteen.
fn to_16(index: u8) -> u8 {
    match index {
        0..=15 => index,
        232..=255 => match index {
            232..=237 => 0,
            238..=243 => 8,
            244..=249 => 7,
            _ => 15,
        },
        _ => {
            let n = index - 16;
            let (r, g, b) = (n / 36, n / 6 % 6, n % 6);
            let bright = r.max(g).max(b) >= 4;
            let on = |v: u8| u8::from(v >= 2);
            on(r) | on(g) << 1 | on(b) << 2 | if bright { 8 } else { 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::text::put;
    use ratatui::style::Style;

    fn buffer(rows: &[&str]) -> Buffer {
        let mut buf = Buffer::empty(Rect::new(0, 0, 12, rows.len() as u16));
        let area = *buf.area();
        for (y, row) in rows.iter().enumerate() {
            put(&mut buf, area, 0, y as u16, row, Style::new());
        }
        buf
    }

    #[test]
    fn frames_bring_an_emulator_to_the_new_screen() {
        let mut painter = Painter::new(Depth::Full);
        let mut emulator = vt100::Parser::new(2, 12, 0);
        let screens: &[&[&str]] =
            &[&["hello", "world"], &["help", "日本語 wide"], &["日本", "日a語 wide"], &["", "x日語 ●◐✕"], &["a● b● c", "plain"]];
        for rows in screens {
            let (frame, _) = painter.frame(buffer(rows), Some((3, 1)));
            let frame = frame.unwrap();
            assert!(frame.starts_with(BEGIN.as_bytes()) && frame.ends_with(END.as_bytes()));
            emulator.process(&frame);
            let shown: Vec<String> = emulator.screen().rows(0, 12).map(|r| r.trim_end().to_owned()).collect();
            assert_eq!(shown, *rows);
            assert_eq!(emulator.screen().cursor_position(), (1, 3));
            assert!(!emulator.screen().hide_cursor());
        }
    }

    #[test]
    fn an_unchanged_screen_sends_nothing_and_a_change_sends_only_itself() {
        let mut painter = Painter::new(Depth::Full);
        painter.frame(buffer(&["hello"]), None);
        assert_eq!(painter.frame(buffer(&["hello"]), None).0, None);
        let (frame, _) = painter.frame(buffer(&["hallo"]), None);
        assert_eq!(String::from_utf8(frame.unwrap()).unwrap(), format!("{BEGIN}\x1b[1;2H\x1b[0ma\x1b[0m{END}"));
        assert!(painter.frame(buffer(&["hallo"]), Some((0, 0))).0.is_some(), "the cursor alone is a change");
        painter.forget();
        assert!(painter.frame(buffer(&["hallo"]), Some((0, 0))).0.is_some());
    }

    #[test]
    fn colours_fit_the_terminal() {
        let mut buf = buffer(&["a"]);
        buf[(0, 0)].set_style(Style::new().fg(Color::Rgb(255, 0, 0)).bg(Color::Indexed(200)).add_modifier(Modifier::BOLD));
        for (depth, want) in [
            (Depth::None, "\x1b[0;1m"),
            (Depth::Sixteen, "\x1b[0;1;91;105m"),
            (Depth::Many, "\x1b[0;1;38;5;196;48;5;200m"),
            (Depth::Full, "\x1b[0;1;38;2;255;0;0;48;5;200m"),
        ] {
            let (frame, _) = Painter::new(depth).frame(buf.clone(), None);
            let text = String::from_utf8(frame.unwrap()).unwrap();
            assert!(text.contains(want), "{depth:?} {text:?}");
        }
        assert_eq!([to_256(0, 0, 0), to_256(255, 255, 255), to_256(128, 128, 128)], [16, 231, 244]);
        let depth = |env: &[(&str, &str)]| Depth::from_env(|n| env.iter().find(|(k, _)| *k == n).map(|(_, v)| (*v).to_owned()));
        assert_eq!(depth(&[("TERM", "xterm-256color")]), Depth::Many);
        assert_eq!(depth(&[("TERM", "xterm"), ("COLORTERM", "truecolor")]), Depth::Full);
        assert_eq!(depth(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]), Depth::None);
        assert_eq!(depth(&[]), Depth::Sixteen);
    }
}
