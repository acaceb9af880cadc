//! What the person does: bytes, keys, and what each key means.
//!
//! Invariant: nothing here draws or talks to the daemon.

pub(super) mod decode;
pub(super) mod key;
pub(super) mod keymap;
pub(super) mod table;
