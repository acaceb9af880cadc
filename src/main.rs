//! The program `qd`: picks a role, prints a failure once, gives the exit code.
//!
//! Invariant: nothing else ends the program, so every destructor runs.

use quarterdeck::cli::{self, Failure, Role};
use quarterdeck::daemon::{self, DaemonError, Listening};
use quarterdeck::report;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread::available_parallelism;
use tokio::sync::oneshot;

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

fn serve(args: &cli::Args, detached: bool) -> Result<u8, Failure> {
    let config = args.config()?;
    if detached {
        daemon::detach().map_err(|e| Failure::Internal(format!("failed to leave the client that started this daemon: {e}")))?;
    }
    // Most of the daemon's work is waiting: more threads than this only move memory between processors.
    let workers = available_parallelism().map_or(2, |count| count.get().clamp(2, 4));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let runtime = runtime.map_err(|e| Failure::Internal(format!("failed to start: {e}")))?;
    let done = runtime.block_on(async {
        let (ready, listening) = oneshot::channel();
        if !detached {
            // It ends with the channel when the daemon does not get that far.
            tokio::spawn(async { listening.await.map(|listening| say(&listening)) });
        }
        daemon::run(daemon::Options { config, detached, ready: Some(ready) }).await
    });
    // A thread that still waits for a file must not hold up the end.
    runtime.shutdown_background();
    match done {
        Ok(()) => Ok(0),
        Err(DaemonError::Config(error)) => Err(Failure::Config(error.to_string())),
        Err(error @ DaemonError::AlreadyRuns { .. }) => Err(Failure::Refused(error.to_string())),
        Err(error) => Err(Failure::Internal(report::chain(&error))),
    }
}

/// Tells the person who started the daemon where it is.
fn say(listening: &Listening) {
    let config = listening.config.as_ref().map_or("no config file: local alone".into(), |path| format!("config {}", path.display()));
    let text = format!("qd: listening on {} ({config}); Ctrl-C stops it\n", listening.socket.display());
    // A daemon whose stderr is closed serves all the same.
    drop(io::stderr().write_all(text.as_bytes()));
}
