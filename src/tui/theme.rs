//! Colours and glyphs.
//!
//! Invariant: no state is told by colour alone; without colour every difference is still there as a glyph, a word, bold or
//! reverse. Every glyph is one column wide.

use crate::model::HealthState;
use ratatui::style::{Color, Modifier, Style};

/// The characters of the chrome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Glyphs {
    pub(super) ascii: bool,
    pub(super) up: char,
    pub(super) busy: char,
    pub(super) idle: char,
    pub(super) down: char,
    pub(super) degraded: char,
    pub(super) person: char,
    pub(super) running: &'static str,
    pub(super) ok: char,
    pub(super) failed: char,
    /// Ended because somebody wanted it.
    pub(super) stopped: char,
    pub(super) prompt: &'static str,
    pub(super) gutter: char,
    pub(super) cursor: char,
    pub(super) bar: char,
    pub(super) dash: char,
    /// Horizontal, vertical, then the corners: top left, top right, bottom left, bottom right.
    pub(super) light: [char; 6],
    pub(super) heavy: [char; 6],
    pub(super) double: [char; 6],
}

const UNICODE: Glyphs = Glyphs {
    ascii: false,
    up: '●',
    busy: '◐',
    idle: '○',
    down: '✕',
    degraded: '~',
    person: '⚑',
    running: "▸",
    ok: '✓',
    failed: '✕',
    stopped: '■',
    prompt: "❯",
    gutter: '▏',
    cursor: '▌',
    bar: '│',
    dash: '╌',
    light: ['─', '│', '┌', '┐', '└', '┘'],
    heavy: ['━', '┃', '┏', '┓', '┗', '┛'],
    double: ['═', '║', '╔', '╗', '╚', '╝'],
};

const ASCII: Glyphs = Glyphs {
    ascii: true,
    up: '+',
    busy: '*',
    idle: '.',
    down: 'x',
    degraded: '~',
    person: '!',
    running: ">",
    ok: 'v',
    failed: 'x',
    stopped: '-',
    prompt: ">",
    gutter: '|',
    cursor: '#',
    bar: '|',
    dash: '-',
    light: ['-', '|', '+', '+', '+', '+'],
    heavy: ['=', '#', '#', '#', '#', '#'],
    double: ['=', '|', '+', '+', '+', '+'],
};

/// How everything looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Theme {
    pub(super) glyphs: Glyphs,
    pub(super) color: bool,
}

/// What the environment says about the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    /// `NO_COLOR` is set and not empty.
    pub(super) no_color: bool,
    /// The terminal cannot be trusted with more than ASCII: its kind, the locale, or the config.
    pub(super) ascii: bool,
}

impl Look {
    /// Reads the environment through a function, so that a test can give its own.
    pub(super) fn from_env(get: impl Fn(&str) -> Option<String>, config_ascii: bool) -> Self {
        let set = |name: &str| get(name).filter(|v| !v.is_empty());
        let no_color = set("NO_COLOR").is_some();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|n| set(n));
        // With no locale at all, which is common over ssh and in containers, the terminal is nearly always UTF-8.
        let plain_locale = locale.is_some_and(|l| !l.to_ascii_lowercase().replace('-', "").contains("utf8"));
        let plain_term = set("TERM").is_some_and(|t| matches!(t.as_str(), "dumb" | "vt100" | "vt102" | "vt220" | "linux" | "ansi"));
        Self { no_color, ascii: config_ascii || no_color || plain_locale || plain_term }
    }
}

impl Theme {
    /// Makes the theme for a terminal.
    pub(super) fn new(look: Look) -> Self {
        Self { glyphs: if look.ascii { ASCII } else { UNICODE }, color: !look.no_color }
    }

    fn fg(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    /// Quiet text: times, borders of other panes, notes.
    pub(super) fn dim(self) -> Style {
        if self.color { Style::new().fg(Color::Indexed(245)) } else { Style::new().add_modifier(Modifier::DIM) }
    }

    /// Text that stands out.
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What the keyboard acts on.
    pub(super) fn focus(self) -> Style {
        self.fg(Color::Indexed(6)).add_modifier(Modifier::BOLD)
    }

    /// Chosen rows and the first word of the status line.
    pub(super) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Good.
    pub(super) fn good(self) -> Style {
        self.fg(Color::Indexed(2))
    }

    /// Not good.
    pub(super) fn bad(self) -> Style {
        self.fg(Color::Indexed(1)).add_modifier(Modifier::BOLD)
    }

    /// Needs attention, or waits.
    pub(super) fn warn(self) -> Style {
        self.fg(Color::Indexed(3))
    }

    /// An agent's name.
    pub(super) fn agent(self) -> Style {
        self.fg(Color::Indexed(5)).add_modifier(Modifier::BOLD)
    }

    /// Gives the glyph and the style of a health state.
    pub(super) fn health(self, state: HealthState) -> (char, Style) {
        let g = self.glyphs;
        match state {
            HealthState::Up => (g.up, self.good()),
            HealthState::Connecting | HealthState::Reconnecting => (g.busy, self.warn()),
            HealthState::Idle => (g.idle, self.dim()),
            HealthState::Down => (g.down, self.bad()),
            HealthState::Degraded => (g.degraded, self.warn()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(env: &[(&str, &str)]) -> Look {
        Look::from_env(|n| env.iter().find(|(k, _)| *k == n).map(|(_, v)| (*v).to_owned()), false)
    }

    #[test]
    fn the_environment_chooses_the_glyphs() {
        assert_eq!(look(&[("TERM", "xterm-256color"), ("LANG", "en_US.UTF-8")]), Look::default());
        assert_eq!(look(&[]), Look::default());
        assert_eq!(look(&[("NO_COLOR", "")]), Look::default());
        assert_eq!(look(&[("NO_COLOR", "1")]), Look { no_color: true, ascii: true });
        assert!(look(&[("LANG", "C")]).ascii && look(&[("TERM", "linux")]).ascii);
        assert!(!look(&[("LC_ALL", "C.utf8"), ("LANG", "C")]).ascii);
    }

    #[test]
    fn every_glyph_is_one_column_wide() {
        for g in [UNICODE, ASCII] {
            let mut all = vec![g.up, g.busy, g.idle, g.down, g.degraded, g.person, g.ok, g.failed, g.gutter, g.cursor, g.bar, g.dash];
            all.extend(g.light.iter().chain(&g.heavy).chain(&g.double));
            all.extend(g.running.chars().chain(g.prompt.chars()));
            for c in all {
                assert_eq!(crate::tui::text::char_width(c), 1, "{c}");
                assert!(!g.ascii || c.is_ascii());
            }
        }
    }
}
