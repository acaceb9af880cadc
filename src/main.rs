//! The program `qd`: picks a role, prints a failure once, gives the exit code.
//!
//! Invariant: nothing else ends the program, so every destructor runs.

use quarterdeck::cli::{self, Failure, Role};
use quarterdeck::config::{self, Sources, UiSettings};
use quarterdeck::daemon::{self, DaemonError, Listening};
use quarterdeck::paths::Paths;
use quarterdeck::report;
use quarterdeck::tui::{self, TuiError};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;
use tokio::runtime::Runtime;
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

fn tui(args: &cli::Args) -> Result<u8, Failure> {
    cli::terminal_needed(io::stdin().is_terminal(), io::stdout().is_terminal())?;
    let connect = args.connect("tui")?;
    let sources = Sources::from_env(connect.config.clone());
    let paths = Paths::resolve(&sources.vars).map_err(|e| Failure::Internal(report::chain(&e)))?;
    let (ui, keys) = look(&sources).unwrap_or_else(|problem| {
        // A daemon that runs goes on with the config from before the mistake; a fresh one refuses it, and so the TUI.
        cli::say(&problem);
        Default::default()
    });
    let reload: tui::Reload = Arc::new(move || look(&sources));
    let options = tui::Options {
        connect,
        settings: tui::Settings { ui, keys, reload: Some(reload) },
        no_setup: false,
        log: Some(paths.log_dir().join("qd.log")),
        state_dir: Some(paths.state),
    };
    // The screen is drawn on this thread, and what arrives is taken on another.
    let runtime = runtime(1)?;
    let done = runtime.block_on(tui::run(options));
    runtime.shutdown_background();
    match done {
        Ok(farewell) => {
            cli::say(&farewell);
            Ok(0)
        }
        Err(TuiError::NoTerminal(why)) => Err(Failure::usage(TuiError::NoTerminal(why).to_string())),
        Err(TuiError::Client(error)) => Err(error.into()),
        Err(TuiError::Signal { name, number }) => Err(Failure::Signal { name, number }),
        Err(TuiError::Gone(_)) => Err(Failure::Signal { name: "SIGHUP", number: 1 }),
        Err(error) => Err(Failure::Internal(report::chain(&error))),
    }
}

/// Reads how the TUI looks and its keys.
fn look(sources: &Sources) -> Result<(UiSettings, BTreeMap<String, Vec<String>>), String> {
    config::load(sources).map(|config| (config.ui, config.keys)).map_err(|error| error.to_string())
}

fn runtime(workers: usize) -> Result<Runtime, Failure> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    built.map_err(|e| Failure::Internal(format!("failed to start: {e}")))
}

fn serve(args: &cli::Args, detached: bool) -> Result<u8, Failure> {
    let config = args.config()?;
    if detached {
        daemon::detach().map_err(|e| Failure::Internal(format!("failed to leave the client that started this daemon: {e}")))?;
    }
    // Most of the daemon's work is waiting: more threads than this only move memory between processors.
    let workers = available_parallelism().map_or(2, |count| count.get().clamp(2, 4));
    let runtime = runtime(workers)?;
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
