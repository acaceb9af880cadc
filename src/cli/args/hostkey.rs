//! The flags and words of `qd hostkey`.

use clap::{Args as ClapArgs, Subcommand};

/// Host keys.
#[derive(ClapArgs, Clone, Debug)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  qd hostkey show gpu      what is known of gpu's key, and the key that it shows now
  qd hostkey replace gpu   after the machine was set up anew

A key is written down only after a person has looked at its fingerprint: at the
terminal, or by naming it with --fingerprint. Agents cannot do that."
)]
pub(crate) struct HostkeyArgs {
    #[command(subcommand)]
    pub(crate) command: HostkeyCommand,
}

/// What to do with host keys.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum HostkeyCommand {
    /// Show the known keys with file and line, and the key that the host shows now
    #[command(visible_alias = "ls")]
    Show(super::BackendArgs),
    /// Write the key of a new host down
    Accept(HostkeyChangeArgs),
    /// Take the known keys out and write the present one down
    Replace(HostkeyChangeArgs),
    /// Take all known keys of the host out
    Remove(super::BackendArgs),
}

/// Which key of which backend.
#[derive(ClapArgs, Clone, Debug)]
pub(crate) struct HostkeyChangeArgs {
    /// The backend
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The fingerprint that the key must have, instead of the question at the terminal
    #[arg(long, value_name = "SHA256:...")]
    pub(crate) fingerprint: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
