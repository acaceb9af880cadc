//! The terminal itself: taking it, drawing on it, giving it back.
//!
//! Invariant: whatever way the program leaves, the terminal is as it was; only this module writes to it.

pub(super) mod guard;
pub(super) mod paint;
pub(super) mod tty;
