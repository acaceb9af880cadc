//! The program `qd`: picks a role, prints a failure once, gives the exit code.
//!
//! Invariant: nothing else ends the program, so every destructor runs.

use quarterdeck::cli::{self, Failure, Role};
use quarterdeck::client::Connect;
use quarterdeck::config::{self, Sources};
use quarterdeck::daemon::{self, DaemonError, Listening};
use quarterdeck::engine;
use quarterdeck::paths::Paths;
use quarterdeck::report;
use quarterdeck::tui::{self, TuiError};
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;
use tokio::sync::oneshot;

fn main() -> ExitCode {
    let args = match cli::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(answer) => return answer.print().into(),
    };
    let done = match args.role() {
        Role::Command => cli::run(&args),
        Role::Tui { no_setup } => tui(&args, no_setup),
        Role::Reap => reap(),
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

fn tui(args: &cli::Args, no_setup: bool) -> Result<u8, Failure> {
    cli::terminal_needed(io::stdin().is_terminal(), io::stdout().is_terminal())?;
    let named = args.config()?;
    let sources = Sources::from_env(named.clone());
    let config = config::load(&sources).map_err(|e| Failure::Config(e.to_string()))?;
    let paths = Paths::resolve(&sources.vars).ok();
    let reload: tui::Reload = Arc::new(move || config::load(&sources).map(|c| (c.ui, c.keys)).map_err(|e| e.to_string()));
    let options = tui::Options {
        connect: Connect { config: named, kind: "tui".into(), agent: None, start: true },
        settings: tui::Settings { ui: config.ui, keys: config.keys, reload: Some(reload) },
        no_setup,
        state_dir: paths.as_ref().map(|p| p.state.clone()),
        log: paths.map(|p| p.log_dir().join("qd.log")),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|e| Failure::Internal(format!("failed to start: {e}")))?;
    let done = runtime.block_on(tui::run(options));
    runtime.shutdown_background();
    match done {
        Ok(farewell) => {
            cli::say(&farewell);
            Ok(0)
        }
        Err(TuiError::Client(error)) => Err(Failure::Client(error)),
        Err(error @ TuiError::NoTerminal(_)) => Err(Failure::usage(error.to_string())),
        // Said as a shell says it of a program that a signal ended; there is nothing to add.
        Err(TuiError::Signal { number, .. }) => Ok(u8::try_from(128 + number).unwrap_or(1)),
        // The terminal is gone: as SIGHUP, which may not have come, would have ended it.
        Err(TuiError::Gone(_)) => Ok(129),
        Err(error) => Err(Failure::Internal(report::chain(&error))),
    }
}

fn reap() -> Result<u8, Failure> {
    engine::reap().map(|()| 0).map_err(|e| Failure::Internal(format!("the reaper failed: {e}")))
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
            tokio::spawn(async { listening.await.map(|listening| cli::say(&where_it_is(&listening))) });
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

fn where_it_is(listening: &Listening) -> String {
    let config = listening.config.as_ref().map_or("no config file: local alone".into(), |path| format!("config {}", path.display()));
    format!("listening on {} ({config}); Ctrl-C stops it", listening.socket.display())
}
