//! Our stdout and stderr: what they are, and how words get there.
//!
//! Invariant: what is asked for goes to stdout, words about it go to stderr behind `qd: `.

use super::args::{Color, Global};
use super::failure::Failure;
use super::safe;
use serde::Serialize;
use std::env;
use std::io::{self, IsTerminal, Write};

/// What is known of our stdout and stderr.
#[derive(Clone, Debug, Default)]
pub(crate) struct Screen {
    /// Columns of stdout, when it is a terminal; nothing is cut otherwise.
    pub(crate) width: Option<usize>,
    /// Whether stderr is a terminal.
    pub(crate) stderr_terminal: bool,
    /// Whether stdout is coloured.
    pub(crate) color: bool,
    /// Whether more than ASCII can be shown.
    pub(crate) unicode: bool,
    /// Whether warnings and hints are left out.
    pub(crate) quiet: bool,
    /// How much more is said.
    pub(crate) verbose: u8,
}

impl Screen {
    /// Looks at our stdout, our stderr and the environment.
    pub(crate) fn look(global: &Global) -> Self {
        let terminal = io::stdout().is_terminal();
        Self {
            width: terminal.then(columns).flatten(),
            stderr_terminal: io::stderr().is_terminal(),
            color: colored(global.color, terminal, set("NO_COLOR"), env::var("TERM").ok().as_deref()),
            unicode: !terminal || utf8_locale(|name| env::var(name).ok()),
            quiet: global.quiet,
            verbose: global.verbose,
        }
    }

    /// Prints on stdout.
    pub(crate) fn print(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)
    }

    /// Prints a value as JSON: in several lines on a terminal, in one otherwise.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        self.print(&json_text(value, io::stdout().is_terminal())?)
    }

    /// Says something on stderr, unless quiet.
    pub(crate) fn say(&self, text: &str) {
        if !self.quiet {
            self.insist(text);
        }
    }

    /// Says something on stderr that even a quiet caller must know.
    pub(crate) fn insist(&self, text: &str) {
        say(text);
    }
}

/// Says something on stderr, behind `qd: `.
pub fn say(text: &str) {
    // When stderr cannot be written there is nowhere left to say so.
    drop(io::stderr().write_all(format!("qd: {}\n", safe::lines(text.trim_end())).as_bytes()));
}

/// Gives a value as JSON with a line end.
pub(crate) fn json_text(value: &impl Serialize, pretty: bool) -> Result<String, Failure> {
    let text = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
    text.map(|text| text + "\n").map_err(|e| Failure::Internal(format!("failed to write JSON: {e}")))
}

fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

fn set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn colored(wish: Color, terminal: bool, no_color: bool, term: Option<&str>) -> bool {
    match wish {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal && !no_color && term.is_some_and(|term| term != "dumb"),
    }
}

fn utf8_locale(var: impl Fn(&str) -> Option<String>) -> bool {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"].iter().filter_map(|name| var(name)).find(|value| !value.is_empty());
    named.is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn color_follows_the_flag_then_the_terminal() {
        assert!(colored(Color::Always, false, true, None));
        assert!(!colored(Color::Never, true, false, Some("xterm")));
        assert!(colored(Color::Auto, true, false, Some("xterm")));
        assert!(!colored(Color::Auto, true, true, Some("xterm")));
        assert!(!colored(Color::Auto, true, false, Some("dumb")));
        assert!(!colored(Color::Auto, false, false, Some("xterm")));
    }

    #[test]
    fn the_locale_says_whether_glyphs_can_be_shown() {
        let with =
            |pairs: &'static [(&str, &str)]| utf8_locale(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()));
        assert!(with(&[("LANG", "en_GB.UTF-8")]));
        assert!(with(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!with(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]));
        assert!(!with(&[]));
    }

    #[test]
    fn json_is_one_line_for_programs() {
        let value = serde_json::json!({"a": [1, 2], "b": "x\ny"});
        assert_eq!(json_text(&value, false).unwrap(), "{\"a\":[1,2],\"b\":\"x\\ny\"}\n");
        assert!(json_text(&value, true).unwrap().lines().count() > 3);
    }
}
