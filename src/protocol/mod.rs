//! What clients and the daemon say to each other over any byte stream.
//!
//! Invariant: frames are length, kind, stream id, payload, with a cap on the length; control messages are JSON whose unknown
//! fields are ignored; bytes travel raw. Golden examples of every message are only ever appended to.
//!
//! A connection, in order:
//!
//! 1. the client sends `hello`, the daemon answers `welcome` or `refused` (and closes);
//! 2. an operator's client sends `env`: the variables that the welcome asked for;
//! 3. each call opens a stream with `request` (ids count up, never reused on a connection); the daemon sends `item`, `event`
//!    and `data` on it and ends it with one `reply` or `error`. The client may send `data` and `end` (stdin), `cancel` (end
//!    it, and tell how it ended) and `forget` (end it, nothing more is wanted);
//! 4. `bye` says why the daemon closes.
//!
//! A JSON text longer than a frame comes in `part` frames before the frame that ends it. Each direction of a stream has a
//! window (see [`credit`]): a reader that stands still stops its own stream and no other.

pub mod calls;
pub mod credit;
pub mod frame;
#[cfg(test)]
mod golden;
pub mod hello;
pub mod launch;
pub mod lock;
pub mod message;
pub mod outbox;

/// The oldest protocol that this version speaks.
pub const PROTOCOL_MIN: u32 = 1;
/// The newest protocol that this version speaks.
pub const PROTOCOL_MAX: u32 = 1;
