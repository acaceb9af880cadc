//! The flags of `qd doctor`.

use clap::Args as ClapArgs;
use std::path::PathBuf;

/// Examines backends.
#[derive(ClapArgs, Clone, Debug)]
#[command(after_help = "\
Each check is told as it is made: ok, warn, FAIL or skip, with what was seen and what
to do about it. It uses a connection of its own, logs in once and asks nobody
anything; commands that run there are not disturbed, and nothing is left there.

--bundle writes one file to hand to somebody: the findings, versions, the config
with every value of a variable left out, and the end of the daemon's log, secrets
taken out of all of it. Look through it before you send it.

Examples:
  qd doctor gpu
  qd doctor --json gpu build
  qd doctor --bundle /tmp/qd-report.txt

Exit code: 0 when nothing failed (there may be warnings), 1 when something did.")]
pub(crate) struct DoctorArgs {
    /// The backends [default: all of the config, and local]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Print JSON, at the end
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a report into this file, readable by you alone; it must not be there yet
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
}
