//! Quarterdeck: one terminal for all of a person's machines.
//!
//! The map, top down; a layer uses only what is below it (`tests/it/tidy.rs` enforces it):
//!
//! - `main` picks a role: [`daemon`], [`cli`] or [`tui`].
//! - [`tui`], [`cli`] are front ends of equal rank over [`client`], which speaks [`protocol`]; they know no engine.
//! - [`daemon`] is the only place where [`engine`] and [`protocol`] meet.
//! - [`engine`] owns every backend, session and process; it uses [`session`] (how one command runs), which uses
//!   [`backend`] (the waist: starts shells) and [`shell`] (pure text).
//! - [`config`], [`paths`], [`report`] are below everything but [`model`]; [`model`] and [`shell`] import nothing of the crate.
//!
//! Words: a *backend* is a named place where a shell can run; a *session* is a named shell state on one backend; a *snapshot*
//! is the file on the backend that holds it, with a *generation*; a *process* is one command that was started; a *log* is its
//! kept bytes with absolute offsets; *output* is what is arriving now; the *daemon* owns everything, the *engine* is its
//! library, a *client* is any front end.

pub mod backend;
pub mod cli;
pub mod client;
pub mod config;
pub mod daemon;
pub mod engine;
pub mod logging;
pub mod model;
pub mod paths;
pub mod protocol;
pub mod report;
pub mod session;
pub mod shell;
pub mod tui;
