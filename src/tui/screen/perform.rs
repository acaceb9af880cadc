//! Applies what the parser finds to the grid.
//!
//! Invariant: whatever a command prints, only its own block changes: titles, clipboard writes, questions to the terminal,
//! the alternate screen and every other sequence are ignored here and reach no terminal.

use super::line::Pen;
use super::{COLUMNS, Grid};
use ratatui::style::{Color, Modifier};
use vte::{Params, Perform};

impl Perform for Grid {
    fn print(&mut self, c: char) {
        self.calls += 1;
        match c {
            '\x7f' => {
                self.write('^');
                self.write('?');
            }
            c if c.is_control() => self.write('\u{fffd}'),
            c if crate::tui::text::is_invisible(c) => {}
            c => self.write(c),
        }
    }

    fn execute(&mut self, byte: u8) {
        self.calls += 1;
        match byte {
            b'\n' | 0x0b | 0x0c => self.newline(),
            b'\r' => self.x = 0,
            0x08 => self.x = self.x.saturating_sub(1),
            b'\t' => self.x = (self.x / 8 * 8 + 8).min(COLUMNS),
            // A bell, and the shifts of character sets.
            0x07 | 0x0e | 0x0f => {}
            b if b.is_ascii_control() => {
                self.write('^');
                self.write(char::from(b ^ 0x40));
            }
            _ => self.write('\u{fffd}'),
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        self.calls += 1;
        if ignore || !intermediates.is_empty() {
            return;
        }
        let first = params.iter().next().and_then(|p| p.first().copied()).unwrap_or(0);
        let n = usize::from(first.max(1));
        match action {
            'm' => self.pen = sgr(self.pen, params),
            'A' => self.y = self.y.saturating_sub(n),
            'B' => self.y = (self.y + n).min(self.live.len() - 1),
            'C' => self.x = (self.x + n).min(COLUMNS),
            'D' => self.x = self.x.saturating_sub(n),
            'E' => {
                self.y = (self.y + n).min(self.live.len() - 1);
                self.x = 0;
            }
            'F' => {
                self.y = self.y.saturating_sub(n);
                self.x = 0;
            }
            'G' => self.x = (n - 1).min(COLUMNS),
            'K' => {
                let x = self.x;
                match first {
                    0 => self.row().erase(x, None),
                    1 => self.row().erase(0, Some(x + 1)),
                    2 => self.row().erase(0, None),
                    _ => {}
                }
            }
            'J' if first == 0 => {
                let x = self.x;
                self.row().erase(x, None);
                self.live.truncate(self.y + 1);
            }
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, _intermediates: &[u8], _ignore: bool, _byte: u8) {
        self.calls += 1;
    }

    fn osc_dispatch(&mut self, _params: &[&[u8]], _bell_terminated: bool) {
        self.calls += 1;
    }

    fn put(&mut self, _byte: u8) {
        self.calls += 1;
    }
}

/// Gives the pen after a "select graphic rendition".
fn sgr(mut pen: Pen, params: &Params) -> Pen {
    let mut params = params.iter();
    while let Some(param) = params.next() {
        let n = param.first().copied().unwrap_or(0);
        match n {
            0 => pen = Pen::default(),
            1 => pen.mods |= Modifier::BOLD,
            2 => pen.mods |= Modifier::DIM,
            3 => pen.mods |= Modifier::ITALIC,
            4 if param.get(1) == Some(&0) => pen.mods -= Modifier::UNDERLINED,
            4 | 21 => pen.mods |= Modifier::UNDERLINED,
            7 => pen.mods |= Modifier::REVERSED,
            9 => pen.mods |= Modifier::CROSSED_OUT,
            22 => pen.mods -= Modifier::BOLD | Modifier::DIM,
            23 => pen.mods -= Modifier::ITALIC,
            24 => pen.mods -= Modifier::UNDERLINED,
            27 => pen.mods -= Modifier::REVERSED,
            29 => pen.mods -= Modifier::CROSSED_OUT,
            30..=37 => pen.fg = basic(n - 30),
            39 => pen.fg = Color::Reset,
            40..=47 => pen.bg = basic(n - 40),
            49 => pen.bg = Color::Reset,
            90..=97 => pen.fg = basic(n - 90 + 8),
            100..=107 => pen.bg = basic(n - 100 + 8),
            38 | 48 => {
                let color = if param.len() > 1 { colon_color(param) } else { semicolon_color(&mut params) };
                match (color, n) {
                    (Some(c), 38) => pen.fg = c,
                    (Some(c), _) => pen.bg = c,
                    (None, _) => {}
                }
            }
            _ => {}
        }
    }
    pen
}

fn basic(n: u16) -> Color {
    Color::Indexed(n as u8)
}

fn byte(n: u16) -> u8 {
    n.min(255) as u8
}

/// `38:5:n`, `38:2:r:g:b` and `38:2:space:r:g:b`.
fn colon_color(param: &[u16]) -> Option<Color> {
    match param {
        [_, 5, n, ..] => Some(Color::Indexed(byte(*n))),
        [_, 2, _, r, g, b, ..] | [_, 2, r, g, b] => Some(Color::Rgb(byte(*r), byte(*g), byte(*b))),
        _ => None,
    }
}

/// `38;5;n` and `38;2;r;g;b`.
fn semicolon_color<'a>(params: &mut impl Iterator<Item = &'a [u16]>) -> Option<Color> {
    let mut next = || params.next().and_then(|p| p.first().copied());
    match next()? {
        5 => Some(Color::Indexed(byte(next()?))),
        2 => Some(Color::Rgb(byte(next()?), byte(next()?), byte(next()?))),
        _ => None,
    }
}
