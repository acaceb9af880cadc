//! The terminal UI.
mod effect;
mod format;
mod input;
mod layout;
mod rows;
mod screen;
mod state;
#[cfg(test)]
mod testing;
mod text;
mod theme;
mod update;
