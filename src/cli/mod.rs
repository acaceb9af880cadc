//! The command line: one file a command, over the client.
//!
//! Invariant: what was asked for goes to stdout, our own words to stderr behind `qd: `; every way to fail has one exit code.

mod adopt;
mod again;
mod args;
mod backends;
mod caller;
mod command;
mod config;
mod doctor;
mod duration;
mod exec;
mod failure;
mod hostkey;
mod kill;
mod logs;
mod ps;
mod safe;
mod screen;
mod send;
mod session;
mod stop;
mod table;
mod tty;
mod wait;
mod words;

pub use args::{Args, Global};
pub use failure::Failure;
pub use screen::say;

use crate::report::ExitCode;
use args::Command;
use clap::Parser;
use clap::error::ErrorKind;
use screen::Screen;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

/// What a program that was called in this way is to be.
#[derive(Clone, Debug)]
pub enum Role {
    /// The terminal UI.
    Tui {
        /// Whether the question for the leader key at the first start is left out.
        no_setup: bool,
    },
    /// The child of a daemon that ends its commands when it is killed.
    Reap,
    /// The daemon.
    Serve {
        /// Whether a client starts it, and not a person.
        detached: bool,
    },
    /// One command, which ends by itself: [`run`].
    Command,
}

/// What the arguments ask for in place of anything that runs: help, the version, or a word about wrong use.
#[derive(Debug)]
pub struct Answer {
    text: String,
    wrong: bool,
}

impl Answer {
    /// Prints the answer and gives the exit code: help on stdout with 0, wrong use on stderr with 64.
    pub fn print(&self) -> u8 {
        // A reader that went away before the end of the help has read enough of it.
        if self.wrong {
            drop(io::stderr().write_all(self.text.as_bytes()));
            return failure::code(ExitCode::USAGE);
        }
        drop(io::stdout().write_all(self.text.as_bytes()));
        0
    }
}

/// Parses the arguments, the program's name first.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Args, Answer> {
    Args::try_parse_from(arguments).map_err(|error| {
        let wrong = !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        let text = error.render().to_string();
        let text = match text.strip_prefix("error: ") {
            Some(rest) => format!("qd: {rest}"),
            None => text,
        };
        Answer { text, wrong }
    })
}

impl Args {
    /// Gives the role that is asked for.
    pub fn role(&self) -> Role {
        match &self.command {
            None => Role::Tui { no_setup: false },
            Some(Command::Tui(tui)) => Role::Tui { no_setup: tui.no_setup },
            Some(Command::Reap) => Role::Reap,
            Some(Command::Serve(serve)) => Role::Serve { detached: serve.detached },
            Some(_) => Role::Command,
        }
    }

    /// Gives the config file that was named, as a path that does not depend on the present directory.
    pub fn config(&self) -> Result<Option<PathBuf>, Failure> {
        caller::config(&self.global)
    }
}

/// Refuses the terminal UI where there is no terminal.
pub fn terminal_needed(stdin: bool, stdout: bool) -> Result<(), Failure> {
    let missing = match (stdin, stdout) {
        (true, true) => return Ok(()),
        (false, true) => "stdin is not one",
        (true, false) => "stdout is not one",
        (false, false) => "neither stdin nor stdout is one",
    };
    Err(Failure::usage_with(
        format!("the terminal UI needs a terminal, and {missing}"),
        "without one use: qd exec -- COMMAND to run a command, qd ps, qd logs ID, qd backends; see qd --help",
    ))
}

/// Does what a command line asks for and gives what `qd` exits with. Failures are for `main` to print.
pub fn run(args: &Args) -> Result<u8, Failure> {
    let screen = Screen::look(&args.global);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::Internal(format!("failed to start: {e}")))?;
    let done = runtime.block_on(dispatch(args, &screen));
    // A thread that still waits for stdin must not hold up the end.
    runtime.shutdown_background();
    match done {
        // Whoever reads a list may stop reading; only for a command is that an ending of its own.
        Err(Failure::Output(e)) if e.kind() == io::ErrorKind::BrokenPipe && !matches!(args.command, Some(Command::Exec(_))) => Ok(0),
        done => done,
    }
}

async fn dispatch(args: &Args, screen: &Screen) -> Result<u8, Failure> {
    let global = &args.global;
    match &args.command {
        Some(Command::Exec(args)) => exec::run(global, args, screen).await,
        Some(Command::Ps(args)) => ps::run(global, args, screen).await,
        Some(Command::Logs(args)) => logs::run(global, args, screen).await,
        Some(Command::Wait(args)) => wait::run(global, args, screen).await,
        Some(Command::Send(args)) => send::run(global, args, screen).await,
        Some(Command::Kill(args)) => kill::run(global, args, screen).await,
        Some(Command::Adopt(args)) => adopt::run(global, args, screen).await,
        Some(Command::Backends(args)) => backends::run(global, args, screen).await,
        Some(Command::Hostkey(args)) => hostkey::run(global, args, screen).await,
        Some(Command::Session(args)) => session::run(global, args, screen).await,
        Some(Command::Config(args)) => config::run(global, args, screen),
        Some(Command::Doctor(args)) => doctor::run(global, args, screen).await,
        Some(Command::Stop(args)) => stop::run(global, args, screen).await,
        None | Some(Command::Tui(_) | Command::Serve(_) | Command::Reap) => Err(Failure::Internal("this role is not a command".into())),
    }
}
