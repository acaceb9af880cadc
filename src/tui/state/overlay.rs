//! What lies on top of everything: one question at a time.
//!
//! Invariant: a key that comes within [`GUARD_MS`] of a question is dropped, so that a key meant for something else cannot
//! answer it; the default answer is the safe one. Questions of logins come unbidden: [`super::pause`] guards them.

use crate::tui::effect::Effect;
use crate::tui::input::key::Key;

/// How long a question ignores keys.
pub(in crate::tui) const GUARD_MS: u64 = 400;
/// How long after the leader its popup appears.
pub(in crate::tui) const POPUP_MS: u64 = 300;

/// The overlay.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tui) enum Overlay {
    /// The first start: which key is the leader.
    Setup {
        /// Why the last key was not taken.
        refused: Option<String>,
        /// A key that a multiplexer outside takes: pressing it again takes it anyway.
        doubted: Option<Key>,
    },
    /// Yes or no.
    Confirm(Confirm),
    /// The session of a pane.
    Sessions {
        backend: String,
        /// Names that exist.
        rows: Vec<String>,
        at: usize,
        /// A new name, as it is typed.
        text: String,
    },
}

/// What makes a question needless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tui) enum Moot {
    /// Nothing does.
    Never,
    /// That no command started here runs any more: then leaving needs no question.
    NoneRuns,
}

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::tui) struct Confirm {
    pub(in crate::tui) title: String,
    pub(in crate::tui) lines: Vec<String>,
    /// What `y` does, in a word or two.
    pub(in crate::tui) yes: String,
    pub(in crate::tui) effects: Vec<Effect>,
    /// When it appeared.
    pub(in crate::tui) opened: u64,
    pub(in crate::tui) moot: Moot,
}
