//! `qd config`: checks, shows, finds and migrates the config file. It needs no daemon.
//!
//! Invariant: it only reads, but for `migrate --write`.

use super::args::{ConfigArgs, Global};
use super::failure::Failure;
use super::screen::Screen;

/// Checks, shows, finds or migrates.
pub(crate) fn run(_global: &Global, _args: &ConfigArgs, _screen: &Screen) -> Result<u8, Failure> {
    Err(Failure::Internal("waits for the config".into()))
}
