//! `qd session`: lists, shows, resets and closes sessions.
//!
//! Invariant: what a session holds came from a backend; all of it is shown safely.

use super::args::{Global, OneSessionArgs, SessionArgs, SessionCommand, SessionLsArgs};
use super::failure::Failure;
use super::screen::Screen;
use super::table::{Column, Table};
use super::{caller, ps, safe};
use crate::client::Client;
use crate::model::{SessionDetail, SessionInfo};
use crate::protocol::calls::{OverviewCall, SessionClose, SessionReset, SessionShow};

/// Lists, shows, resets or closes.
pub(crate) async fn run(global: &Global, args: &SessionArgs, screen: &Screen) -> Result<u8, Failure> {
    // Sessions outlive the daemon, and only it knows them: so one is started here when there is none.
    let client = caller::connect(global, caller::agent(None)).await?;
    match &args.command {
        None => list(&client, &args.ls, screen).await?,
        Some(SessionCommand::Ls(ls)) => list(&client, ls, screen).await?,
        Some(SessionCommand::Show(one)) => {
            let (backend, session) = name(one);
            let detail = client.call(SessionShow { backend, session }).await?;
            if one.json { screen.json(&detail)? } else { screen.print(&details(&detail))? }
        }
        Some(SessionCommand::Reset(one)) => {
            let (backend, session) = name(one);
            let info = client.call(SessionReset { backend, session }).await?;
            told("has its login environment anew, in", &info, one.json, screen)?;
        }
        Some(SessionCommand::Close(one)) => {
            let (backend, session) = name(one);
            let info = client.call(SessionClose { backend, session }).await?;
            told("is closed; it was in", &info, one.json, screen)?;
        }
    }
    Ok(0)
}

fn name(one: &OneSessionArgs) -> (Option<String>, Option<String>) {
    (one.backend.clone(), caller::session(one.session.as_deref()))
}

async fn list(client: &Client, args: &SessionLsArgs, screen: &Screen) -> Result<(), Failure> {
    let overview = client.call(OverviewCall {}).await?;
    ps::known_backend(&overview, args.backend.as_deref())?;
    let wanted = |s: &&SessionInfo| args.backend.as_ref().is_none_or(|b| *b == s.backend);
    let rows: Vec<&SessionInfo> = overview.sessions.iter().filter(wanted).collect();
    if args.json {
        return screen.json(&rows);
    }
    if rows.is_empty() {
        screen.say("there are no sessions; the first command makes one");
        return Ok(());
    }
    screen.print(&table(&rows).text(screen))
}

fn table(rows: &[&SessionInfo]) -> Table {
    let mut table = Table::new(&[
        Column::Whole("BACKEND"),
        Column::Whole("SESSION"),
        Column::Number("GENERATION"),
        Column::Number("RUNNING"),
        Column::Cut("DIRECTORY"),
    ]);
    for row in rows {
        table.row(vec![
            row.backend.as_str().into(),
            row.name.as_str().into(),
            row.generation.to_string().into(),
            row.running.to_string().into(),
            row.cwd.as_str().into(),
        ]);
    }
    table
}

fn told(what: &str, info: &SessionInfo, json: bool, screen: &Screen) -> Result<(), Failure> {
    if json {
        return screen.json(info);
    }
    screen.print(&format!("session {} on {} {what} {}\n", safe::line(&info.name), safe::line(&info.backend), safe::line(&info.cwd)))
}

fn details(detail: &SessionDetail) -> String {
    let info = &detail.info;
    let mut text = String::new();
    for (name, value) in [
        ("session", info.name.as_str()),
        ("backend", &info.backend),
        ("directory", &info.cwd),
        ("generation", &info.generation.to_string()),
        ("running", &info.running.to_string()),
        ("umask", &detail.umask),
        ("options", &detail.options.join(" ")),
    ] {
        if !value.is_empty() {
            text += &format!("{name:<12}{}\n", safe::line(value));
        }
    }
    let statements = |pairs: &[(String, String)]| -> Vec<String> { pairs.iter().map(|(_, statement)| statement.clone()).collect() };
    let aliases: Vec<String> = detail.aliases.iter().map(|(name, value)| format!("{name}={value}")).collect();
    for (head, list) in [("variables", &statements(&detail.variables)), ("functions", &detail.functions), ("aliases", &aliases)] {
        if list.is_empty() {
            continue;
        }
        text += &format!("\n{head} ({}):\n", list.len());
        for line in list {
            text += &format!("  {}\n", safe::line(line.trim_end()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> SessionInfo {
        SessionInfo { backend: "gpu".into(), name: "main".into(), cwd: "/srv/a\tb".into(), generation: 42, running: 1 }
    }

    #[test]
    fn the_list_names_backend_and_directory() {
        insta::assert_snapshot!(table(&[&info()]).text(&Screen::default()), @r"
        BACKEND  SESSION  GENERATION  RUNNING  DIRECTORY
        gpu      main             42        1  /srv/a\tb
        ");
    }

    #[test]
    fn details_show_everything_safely() {
        let detail = SessionDetail {
            info: info(),
            variables: vec![("A".into(), "export A='1'\n".into()), ("B".into(), "B='\x1b[31m'".into())],
            functions: vec!["greet".into()],
            aliases: vec![("ll".into(), "'ls -l'".into())],
            options: vec!["shopt -s extglob".into()],
            umask: "0022".into(),
        };
        insta::assert_snapshot!(details(&detail), @r"
        session     main
        backend     gpu
        directory   /srv/a\tb
        generation  42
        running     1
        umask       0022
        options     shopt -s extglob

        variables (2):
          export A='1'
          B='\x1b[31m'

        functions (1):
          greet

        aliases (1):
          ll='ls -l'
        ");
    }
}
