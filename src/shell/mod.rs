//! The text of shells: what is sent to them and what comes back.
//!
//! Invariant: pure text and data; no tokio, no clock, no files, nothing else of the crate.

pub mod background;
pub mod capture;
pub mod control;
pub mod explain;
pub mod functions;
pub mod intent;
pub mod look;
pub mod options;
pub mod quote;
pub mod record;
pub mod start;
pub mod state;
mod template;
pub mod wrap;
pub mod wrap_sh;
