//! `qd ps`: the commands that run.
//!
//! Invariant: it starts a daemon only where one that is gone left background processes; else nothing runs without one.

use super::args::{Global, PsArgs};
use super::failure::Failure;
use super::screen::Screen;
use super::table::{Cell, Column, Look, Table};
use super::{caller, words};
use crate::config::nearest;
use crate::model::{Millis, Overview, ProcessInfo, WhoKind};
use crate::protocol::calls::{FindCall, Found, OverviewCall};

/// Lists processes.
pub(crate) async fn run(global: &Global, args: &PsArgs, screen: &Screen) -> Result<u8, Failure> {
    let client = match args.find {
        true => Some(caller::connect(global, caller::agent(None)).await?),
        false => caller::find(global, args.all).await?,
    };
    let Some(client) = client else {
        screen.say("no daemon is running, so no command is");
        if args.json {
            screen.json(&[(); 0])?;
        }
        return Ok(0);
    };
    let overview = client.call(OverviewCall {}).await?;
    known_backend(&overview, args.backend.as_deref())?;
    if args.find {
        return found(client.call(FindCall { backend: args.backend.clone().unwrap_or_default() }).await?, args.json, screen);
    }
    let wanted = |p: &&ProcessInfo| (args.all || !p.state.is_ended()) && args.backend.as_ref().is_none_or(|b| *b == p.backend);
    let rows: Vec<&ProcessInfo> = overview.processes.iter().filter(wanted).collect();
    if args.json {
        screen.json(&rows)?;
    } else if rows.is_empty() {
        screen.say(if args.all { "no commands are known" } else { "no commands are running (-a lists ended ones)" });
    } else {
        screen.print(&table(&rows, words::now()).text(screen))?;
    }
    Ok(0)
}

/// Shows what a look through a backend has found.
fn found(found: Found, json: bool, screen: &Screen) -> Result<u8, Failure> {
    if json {
        screen.json(&found)?;
        return Ok(0);
    }
    if found.strays.is_empty() {
        screen.say("no strays were found");
    } else {
        let rows: Vec<&ProcessInfo> = found.strays.iter().collect();
        screen.print(&table(&rows, words::now()).text(screen))?;
    }
    if !found.others.is_empty() {
        let pids: Vec<String> = found.others.iter().map(u32::to_string).collect();
        let count = words::processes(pids.len());
        screen.say(&format!("not listed: {count} of commands that another daemon may be running: {}", pids.join(", ")));
    }
    Ok(0)
}

/// Refuses a backend that does not exist: an empty list would look like an answer.
pub(crate) fn known_backend(overview: &Overview, name: Option<&str>) -> Result<(), Failure> {
    let Some(name) = name else { return Ok(()) };
    if overview.backends.iter().any(|b| b.name == name) {
        return Ok(());
    }
    let known: Vec<&str> = overview.backends.iter().map(|b| b.name.as_str()).collect();
    let meant = nearest(name, known.iter().copied()).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    Err(Failure::usage(format!("no backend is named `{name}` (known: {}){meant}", known.join(", "))))
}

/// Makes the table of some processes.
pub(crate) fn table(rows: &[&ProcessInfo], now: Millis) -> Table {
    let mut table = Table::new(&[
        Column::Whole("ID"),
        Column::Whole("BACKEND"),
        Column::Whole("SESSION"),
        Column::Whole("WHO"),
        Column::Whole("STATE"),
        Column::Number("AGE"),
        Column::Cut("COMMAND"),
    ]);
    for process in rows {
        let look = if process.who.kind == WhoKind::Agent { Look::Busy } else { Look::Plain };
        table.row(vec![
            process.id.as_str().into(),
            process.backend.as_str().into(),
            process.session.as_str().into(),
            Cell::new(&process.who.name, look),
            words::state(&process.state),
            words::age(now, process.started).into(),
            process.command.trim_end().into(),
        ]);
    }
    table
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::{EndedBy, Outcome, ProcessState, Who};

    /// A process that a test changes as it likes.
    pub(crate) fn process(id: &str, state: ProcessState) -> ProcessInfo {
        ProcessInfo {
            id: id.into(),
            backend: "gpu".into(),
            session: "main".into(),
            command: "make -j4".into(),
            who: Who { kind: WhoKind::Operator, name: "you".into(), peer_pid: None },
            state,
            started: 0,
            ended: None,
            pid: None,
            stray: None,
            timeout_ms: None,
            variables: Vec::new(),
            restarts: 0,
            output_bytes: 0,
            reads_stdin: false,
            background: false,
            detached: false,
            notify: false,
            watch: Vec::new(),
            cwd: "/srv".into(),
            exit_code_meaning: None,
            warnings: Vec::new(),
            hints: Vec::new(),
        }
    }

    #[test]
    fn the_table_says_who_runs_what_where() {
        let mut agent = process("b2c4", ProcessState::Ended(Outcome::Cancelled { ended_by: EndedBy::Operator }));
        agent.who = Who { kind: WhoKind::Agent, name: "claude".into(), peer_pid: Some(1) };
        agent.command = "for i in 1 2; do\n  echo \x1b[2J\ndone\n".into();
        let running = process("k7f3", ProcessState::Running);
        let screen = Screen { unicode: true, ..Screen::default() };
        insta::assert_snapshot!(table(&[&running, &agent], 252_000).text(&screen), @r"
        ID    BACKEND  SESSION  WHO     STATE                AGE  COMMAND
        k7f3  gpu      main     you     running            4m12s  make -j4
        b2c4  gpu      main     claude  ended by operator  4m12s  for i in 1 2; do\n  echo \x1b[2J\ndone
        ");
        let screen = Screen { unicode: true, width: Some(60), ..Screen::default() };
        let text = table(&[&running, &agent], 252_000).text(&screen);
        assert!(text.lines().all(|l| l.chars().count() <= 60), "{text}");
        assert!(text.contains("k7f3"), "{text}");
    }
}
