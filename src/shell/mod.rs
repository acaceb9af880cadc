//! The text of shells: what is sent to them and what comes back.
//!
//! Invariant: pure text and data; no tokio, no clock, no files, nothing else of the crate.

pub mod control;
pub mod quote;
pub mod start;
