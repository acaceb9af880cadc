//! The terminal UI: panes of all backends side by side, with every command as it runs.
//!
//! Invariant: a client like any other; it holds no truth of its own, so it can leave, crash and come back. Waiting for something,
//! changing the state and drawing are three steps: only `app` waits, only `state` and `update` change, only `view` draws.

mod app;
mod deliver;
mod effect;
#[cfg(test)]
mod fake;
mod format;
mod hands;
mod input;
mod layout;
mod link;
mod rows;
mod run;
mod screen;
mod state;
mod store;
mod term;
#[cfg(test)]
mod testing;
mod text;
mod theme;
mod update;
mod view;

pub use run::{Options, Reload, Settings, TuiError, run};

/// Gives the documentation of all keys as Markdown tables, from the table that the keys are made from.
pub fn keys_markdown() -> String {
    input::keymap::markdown()
}
