//! What the suites share: the real binary in a home of its own, a terminal, the lab's machines, waiting.
//!
//! Invariant: a test waits for conditions with a cap, and leaves no process behind.
#![allow(dead_code, reason = "each suite, and each bench, uses its part of the harness")]

pub(crate) mod lab;
pub(crate) mod procs;
pub(crate) mod proxy;
pub(crate) mod pty;
pub(crate) mod qd;
pub(crate) mod run;
pub(crate) mod source;
pub(crate) mod wait;
