//! The command line's flags and words.
//!
//! Invariant: everything that can be judged without the daemon is judged here, and wrong use exits 64.

mod doctor;
mod exec;
mod hostkey;
mod process;

pub(crate) use doctor::DoctorArgs;
pub(crate) use exec::{ExecArgs, Json};
pub(crate) use hostkey::{HostkeyArgs, HostkeyChangeArgs, HostkeyCommand};
pub(crate) use process::{AdoptArgs, KillArgs, LogsArgs, PsArgs, SendArgs, WaitArgs};

use clap::{ArgAction, Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  qd                              open the terminal UI: all backends side by side
  qd exec -- uname -a             run a command on the default backend
  qd exec -b gpu --json -- make   run one on the backend `gpu`, with a JSON result
  qd ps                           list what runs
  qd backends                     list the backends and how they are
  qd config check                 check the config file

Backends are named in the config file (qd config path tells which);
local, this machine, is always there.";

/// The whole command line.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "qd",
    version,
    about = "One terminal for all of your machines",
    after_help = EXAMPLES,
    disable_help_subcommand = true,
    max_term_width = 110
)]
pub struct Args {
    /// Flags that every command takes.
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Flags that every command takes.
#[derive(ClapArgs, Clone, Debug, Default)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// Use this config file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Colour: auto, always or never [default: auto; NO_COLOR is honoured]
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, hide_possible_values = true, hide_default_value = true)]
    pub(crate) color: Color,

    /// Leave out warnings and hints
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

// When to colour. (No doc comments on the values: they would be printed in every help.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// The commands.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Command {
    /// Open the terminal UI
    Tui(TuiArgs),
    /// Run a command on a backend
    Exec(Box<ExecArgs>),
    /// List commands that run
    Ps(PsArgs),
    /// Print a command's output
    Logs(LogsArgs),
    /// Wait until commands have ended, or have said something
    Wait(WaitArgs),
    /// Write to a command's stdin
    Send(SendArgs),
    /// End commands, or send them a signal
    Kill(KillArgs),
    /// Make a background process of what a command left running
    Adopt(AdoptArgs),
    /// List, show, connect and disconnect backends
    Backends(BackendsArgs),
    /// Show, accept, replace and remove host keys
    Hostkey(HostkeyArgs),
    /// List, show, reset and close sessions
    Session(SessionArgs),
    /// Check, show, find and migrate the config
    Config(ConfigArgs),
    /// Examine backends step by step, and write a report
    Doctor(DoctorArgs),
    /// Run the daemon in the foreground
    Serve(ServeArgs),
    /// Stop the daemon
    Stop(StopArgs),
    // What a daemon starts beside itself, to end its commands when it is killed.
    #[command(hide = true)]
    Reap,
}

/// Opens the terminal UI.
#[derive(ClapArgs, Clone, Copy, Debug, Default)]
pub(crate) struct TuiArgs {
    /// Do not ask for the leader key at the first start
    #[arg(long)]
    pub(crate) no_setup: bool,
}

/// Backends.
#[derive(ClapArgs, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BackendsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<BackendsCommand>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do with backends.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum BackendsCommand {
    /// List the backends and how they are
    Ls(JsonArgs),
    /// Show all that is known of one
    Show(BackendArgs),
    /// Connect one now, without waiting for its next attempt; what its login wants to know is asked at the terminal
    Connect(ConnectArgs),
    /// Close one's connection
    Disconnect(BackendArgs),
}

/// One backend.
#[derive(ClapArgs, Clone, Debug)]
pub(crate) struct BackendArgs {
    /// The backend
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which backend to connect.
#[derive(ClapArgs, Clone, Debug)]
pub(crate) struct ConnectArgs {
    /// The backend
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Keep passphrases and passwords in the daemon's memory until it ends, so that a reconnect asks nobody
    #[arg(long)]
    pub(crate) keep: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Output as JSON.
#[derive(ClapArgs, Clone, Copy, Debug)]
pub(crate) struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Sessions.
#[derive(ClapArgs, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SessionArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SessionCommand>,
    #[command(flatten)]
    pub(crate) ls: SessionLsArgs,
}

/// What to do with sessions.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum SessionCommand {
    /// List the sessions
    Ls(SessionLsArgs),
    /// Show what one holds: directory, variables, functions, aliases, options
    Show(OneSessionArgs),
    /// Take the login environment anew and go back to the first directory
    Reset(OneSessionArgs),
    /// Forget one; refused while a command runs in it
    Close(OneSessionArgs),
}

/// Which sessions.
#[derive(ClapArgs, Clone, Debug, Default)]
pub(crate) struct SessionLsArgs {
    /// Show this backend's alone
    #[arg(short, long, value_name = "NAME")]
    pub(crate) backend: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which session.
#[derive(ClapArgs, Clone, Debug)]
pub(crate) struct OneSessionArgs {
    /// Its backend [default: the config's default_backend]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) backend: Option<String>,
    /// The session [default: $QD_SESSION, else main]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The config.
#[derive(ClapArgs, Clone, Debug)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What to do with the config.
#[derive(Subcommand, Clone, Copy, Debug)]
pub(crate) enum ConfigCommand {
    /// Check the config file; every mistake with its line
    Check,
    /// Print the config in force, every default filled in
    Show,
    /// Print which file is read, and why that one
    Path,
    /// Print an old config in the present form; --write puts it into the file
    Migrate(MigrateArgs),
}

/// How to migrate.
#[derive(ClapArgs, Clone, Copy, Debug)]
pub(crate) struct MigrateArgs {
    /// Write it to the config file; the old one is kept beside it
    #[arg(long)]
    pub(crate) write: bool,
}

/// How to serve.
#[derive(ClapArgs, Clone, Copy, Debug, Default)]
pub(crate) struct ServeArgs {
    /// How a client starts one: in the background, with its first words on stdout
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
}

/// How to stop.
#[derive(ClapArgs, Clone, Copy, Debug)]
pub(crate) struct StopArgs {
    /// Stop it even when commands run; they are ended
    #[arg(long)]
    pub(crate) force: bool,
}
