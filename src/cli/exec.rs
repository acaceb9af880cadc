//! `qd exec`: runs one command, prints what it prints, exits with its code.
//!
//! Invariant: a command is sent once; when we leave before its end it is ended, on its backend too.

mod copy;
mod form;
mod run;
mod signals;
mod sink;
mod stdin;
mod told;

use super::args::{ExecArgs, Global};
use super::failure::Failure;
use super::screen::Screen;
use super::{caller, command, failure};
use crate::client::{Client, Items};
use crate::model::{Exec, Outcome};
use crate::protocol::calls::ExecCall;
use crate::report::ExitCode;
use form::Form;
use run::{End, Run};
use signals::Signals;
use sink::Sink;
use std::io::{self, IsTerminal};

/// Runs a command and gives what `qd` exits with.
pub(crate) async fn run(global: &Global, args: &ExecArgs, screen: &Screen) -> Result<u8, Failure> {
    let mut form = Form::new(args.json, io::stdout().is_terminal());
    let done = attempt(global, args, screen, &mut form).await;
    if let Err(failure) = &done
        && !matches!(failure, Failure::Output(_))
        && let Some(text) = form.failure(failure)?
    {
        screen.print(&text)?;
    }
    done
}

async fn attempt(global: &Global, args: &ExecArgs, screen: &Screen, form: &mut Form) -> Result<u8, Failure> {
    // Everything that can be judged here is judged before a daemon is started or asked.
    let call = call(args, form.follows())?;
    let source = stdin::open(args)?;
    let agent = caller::agent(args.client.as_deref());
    let internal = |what: &str, e: io::Error| Failure::Internal(format!("failed to {what}: {e}"));
    let mut signals = Signals::take().map_err(|e| internal("take over signals", e))?;
    let sink = Sink::start().map_err(|e| internal("start the writer of the output", e))?;
    // The client stays for as long as the items are read: the connection closes with it.
    let (_client, items) = tokio::select! {
        asked = signals.next() => return Ok(asked.exit_code()),
        begun = begin(global, agent, call) => begun?,
    };
    let mut run = Run::new(items, signals, screen);
    if let Some(source) = source {
        run.forward(source)?;
    }
    match run.finish(form, sink).await? {
        End::Left(asked) => Ok(asked.exit_code()),
        End::Result { result, asked } => {
            let runs = result.outcome == Outcome::Running;
            if matches!(form, Form::Plain) && args.background && runs {
                screen.print(&format!("{}\n", result.process_id))?;
            } else if matches!(form, Form::Plain) {
                told::tell(&result, screen, asked.is_some());
            }
            if runs && !args.background {
                return Ok(failure::code(ExitCode::STILL_RUNS));
            }
            // Ended because we were asked to end: exit as a program that the signal ended does.
            let code = asked.filter(|_| run::ended_by_us(&result)).map_or(result.outcome.process_exit_code(), |a| a.exit_code().into());
            Ok(failure::code(code))
        }
    }
}

async fn begin(global: &Global, agent: Option<String>, call: ExecCall) -> Result<(Client, Items), Failure> {
    let client = caller::connect(global, agent).await?;
    let items = client.exec(call).await?;
    Ok((client, items))
}

fn call(args: &ExecArgs, follow: bool) -> Result<ExecCall, Failure> {
    for (flag, name) in [("--backend", &args.backend), ("--session", &args.session), ("--workdir", &args.workdir)] {
        if name.as_ref().is_some_and(String::is_empty) {
            return Err(Failure::usage(format!("{flag} is empty")));
        }
    }
    if !args.watch.is_empty() && !args.background && args.yield_after.is_none() {
        let text = "--watch goes with -d or --yield: the output of a command that is waited for is in front of you";
        return Err(Failure::usage_with(text, "`qd exec --yield 10s --watch ...` watches it when it takes longer"));
    }
    let plain = args.json.is_none();
    let exec = Exec {
        backend: args.backend.clone(),
        session: caller::session(args.session.as_deref()),
        command: command::text(args)?,
        workdir: args.workdir.clone(),
        // A directory whose name is not UTF-8, or that is gone, cannot be handed over: the session starts at home then.
        client_cwd: std::env::current_dir().ok().and_then(|dir| dir.to_str().map(str::to_owned)),
        timeout_ms: args.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        env: command::variables(&args.env)?,
        stdin: args.stdin || args.stdin_file.is_some(),
        stdin_open: args.stdin_open,
        split: plain,
        // What is printed as it arrives is not needed again in the result.
        max_output_bytes: if plain { Some(0) } else { args.max_output },
        background: args.background,
        yield_ms: args.yield_after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        notify: args.notify,
        watch: args.watch.clone(),
        description: args.description.clone(),
        again: None,
    };
    Ok(ExecCall { exec, follow, files: plain && follow })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cli::args::Command;
    use crate::model::ExecResult;
    use std::ffi::OsString;

    /// A result that a test changes as it likes.
    pub(crate) fn result(outcome: Outcome) -> ExecResult {
        ExecResult {
            process_id: "k7f3".into(),
            backend: "gpu".into(),
            session: "main".into(),
            outcome,
            exit_code_meaning: None,
            output: String::new(),
            truncated: false,
            total_bytes: 0,
            next_offset: 0,
            output_path: None,
            cwd: "/srv".into(),
            generation: 7,
            duration_ms: 1000,
            timeout_ms: None,
            warnings: Vec::new(),
            hints: Vec::new(),
        }
    }

    fn args(words: &[&str]) -> Result<ExecCall, Failure> {
        let all = ["qd", "exec"].iter().chain(words).map(OsString::from);
        match crate::cli::parse(all).unwrap().command {
            Some(Command::Exec(args)) => call(&args, true),
            other => panic!("not exec: {other:?}"),
        }
    }

    #[test]
    fn flags_become_the_call() {
        let call = args(&[
            "-b",
            "gpu",
            "-s",
            "work",
            "-C",
            "/srv",
            "--timeout",
            "1.5m",
            "-e",
            "A=1",
            "-e",
            "B=",
            "-i",
            "--description",
            "d",
            "--",
            "ls",
            "-l",
        ]);
        let exec = call.unwrap().exec;
        assert_eq!((exec.backend.as_deref(), exec.session.as_deref()), (Some("gpu"), Some("work")));
        assert_eq!((exec.workdir.as_deref(), exec.timeout_ms), (Some("/srv"), Some(90_000)));
        assert_eq!(exec.env, [("A".into(), "1".into()), ("B".into(), String::new())]);
        assert!(exec.stdin && exec.split);
        assert_eq!((exec.command.as_str(), exec.max_output_bytes), ("ls -l", Some(0)));
    }

    #[test]
    fn json_is_merged_and_capped_by_the_caller() {
        let exec = args(&["--json", "--max-output", "100", "--", "ls"]).unwrap().exec;
        assert!(!exec.split && !exec.stdin);
        assert_eq!((exec.max_output_bytes, exec.timeout_ms), (Some(100), None));
        assert_eq!(args(&["--json=events", "x"]).unwrap().exec.max_output_bytes, None);
    }

    #[test]
    fn the_command_may_follow_without_dashes() {
        assert_eq!(args(&["ls", "-la", "--json"]).unwrap().exec.command, "ls -la --json");
        assert_eq!(args(&["--json", "ls && pwd"]).unwrap().exec.command, "ls && pwd");
    }

    #[test]
    fn empty_names_are_refused() {
        for words in [["-b", "", "x"], ["-s", "", "x"], ["-C", "", "x"]] {
            assert_eq!(args(&words).unwrap_err().exit_code(), 64, "{words:?}");
        }
    }
}
