//! What clients and the daemon say to each other over any byte stream.
//!
//! Invariant: frames are length, kind, stream id, payload, with a cap on the length; control messages are JSON whose unknown
//! fields are ignored; bytes travel raw. Golden examples of every message are only ever appended to.

pub mod calls;
