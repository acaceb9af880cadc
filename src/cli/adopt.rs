//! `qd adopt`: makes a background process of what a command left running.
//!
//! Invariant: only what the process table calls a stray is adopted.

use super::args::{AdoptArgs, Global};
use super::failure::Failure;
use super::screen::Screen;
use super::{caller, wait};
use crate::protocol::calls::AdoptCall;

/// Adopts a stray.
pub(crate) async fn run(global: &Global, args: &AdoptArgs, screen: &Screen) -> Result<u8, Failure> {
    let client = caller::need(global, std::slice::from_ref(&args.id)).await?;
    let row = client.call(AdoptCall { process: args.id.clone() }).await?;
    if args.json {
        screen.json(&row)?;
    } else {
        wait::show(&[row], false, screen)?;
    }
    Ok(0)
}
