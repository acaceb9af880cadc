//! The program `qd`: picks a role, prints a failure once, gives the exit code.

use quarterdeck::cli::{self, Failure, Role};
use std::io::{self, IsTerminal};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match cli::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(answer) => return answer.print().into(),
    };
    let done = match args.role() {
        Role::Command => cli::run(&args),
        Role::Tui => tui(&args),
        Role::Serve { detached } => serve(&args, detached),
    };
    match done {
        Ok(code) => code.into(),
        Err(failure) => {
            failure.print();
            failure.exit_code().into()
        }
    }
}

fn tui(_args: &cli::Args) -> Result<u8, Failure> {
    cli::terminal_needed(io::stdin().is_terminal(), io::stdout().is_terminal())?;
    Err(Failure::Internal("waits for the TUI".into()))
}

fn serve(_args: &cli::Args, _detached: bool) -> Result<u8, Failure> {
    Err(Failure::Internal("waits for the daemon".into()))
}
