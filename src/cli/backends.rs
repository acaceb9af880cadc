//! `qd backends`: the backends and how they are.
//!
//! Invariant: a backend that is not well is shown with the reason and what to do, whole, whatever the width.

pub(crate) mod connect;

use super::args::{BackendsArgs, BackendsCommand, Global};
use super::failure::Failure;
use super::screen::Screen;
use super::table::{Cell, Column, Look, Table};
use super::{caller, ps, safe, words};
use crate::model::{BackendInfo, HealthState, Millis, Overview};
use crate::protocol::calls::{Disconnect, OverviewCall};

/// Lists, shows, connects or disconnects.
pub(crate) async fn run(global: &Global, args: &BackendsArgs, screen: &Screen) -> Result<u8, Failure> {
    let client = caller::connect(global, caller::agent(None)).await?;
    let (info, json) = match &args.command {
        None => return list(&client.call(OverviewCall {}).await?, args.json, screen),
        Some(BackendsCommand::Ls(ls)) => return list(&client.call(OverviewCall {}).await?, ls.json, screen),
        Some(BackendsCommand::Show(one)) => {
            let overview = client.call(OverviewCall {}).await?;
            ps::known_backend(&overview, Some(&one.name))?;
            let found = overview.backends.into_iter().find(|b| b.name == one.name);
            (found.ok_or_else(|| Failure::usage(format!("no backend is named `{}`", one.name)))?, one.json)
        }
        Some(BackendsCommand::Connect(one)) => (connect::connect(&client, &one.name, one.keep).await?, one.json),
        Some(BackendsCommand::Disconnect(one)) => (client.call(Disconnect { backend: one.name.clone() }).await?, one.json),
    };
    if json {
        screen.json(&info)?;
    } else {
        screen.print(&details(&info, words::now(), screen))?;
    }
    Ok(0)
}

fn list(overview: &Overview, json: bool, screen: &Screen) -> Result<u8, Failure> {
    if json {
        screen.json(&overview.backends)?;
    } else {
        screen.print(&table(overview, words::now(), screen))?;
    }
    Ok(0)
}

fn table(overview: &Overview, now: Millis, screen: &Screen) -> String {
    let mut table = Table::new(&[
        Column::Number("#"),
        Column::Whole("NAME"),
        Column::Whole("STATE"),
        Column::Number("RTT"),
        Column::Whole("KIND"),
        Column::Cut("ADDRESS"),
        Column::Number("RUNNING"),
    ]);
    for backend in &overview.backends {
        let default = if backend.name == overview.default_backend { " (default)" } else { "" };
        table.row(vec![
            backend.slot.to_string().into(),
            format!("{}{default}", backend.name).into(),
            words::health(backend.health.state, screen.unicode),
            words::round_trip(backend.health.round_trip_us).into(),
            backend.kind.as_str().into(),
            backend.address.as_str().into(),
            Cell::new(backend.running.to_string(), if backend.running == 0 { Look::Dim } else { Look::Plain }),
        ]);
    }
    let troubles: Vec<String> = overview.backends.iter().filter_map(|b| trouble(b, now)).collect();
    let rest = if troubles.is_empty() { String::new() } else { format!("\n{}", troubles.concat()) };
    table.text(screen) + &rest
}

/// Says why a backend is not well and what to do.
fn trouble(backend: &BackendInfo, now: Millis) -> Option<String> {
    let health = &backend.health;
    if matches!(health.state, HealthState::Up | HealthState::Idle) && health.reason.is_none() {
        return None;
    }
    let reason = health.reason.as_deref().unwrap_or("no reason is known");
    let mut text = format!("{}: {}", safe::line(&backend.name), safe::line(reason));
    if let Some(next) = health.next_try {
        text += &format!("; next try in {} (attempt {})", words::age(next, now), health.attempt);
    }
    text.push('\n');
    if let Some(fix) = &health.fix {
        text += &format!("{}  {}\n", " ".repeat(backend.name.chars().count()), safe::line(fix));
    }
    Some(text)
}

fn details(backend: &BackendInfo, now: Millis, screen: &Screen) -> String {
    let health = &backend.health;
    let yes = |can: bool, what: &'static str| can.then_some(what);
    let can = backend.capabilities;
    let can = [
        yes(can.separate_streams, "separate stdout and stderr"),
        yes(can.verified_kill, "verified kill"),
        yes(can.pty, "terminals"),
        yes(can.same_files, "the daemon's own files"),
    ];
    let ago = |moment: Option<Millis>| moment.map(|then| format!("{} ago", words::age(now, then)));
    let mut rows: Vec<(&str, Option<Cell>)> = vec![
        ("name", Some(backend.name.as_str().into())),
        ("number", Some(backend.slot.to_string().into())),
        ("kind", Some(backend.kind.as_str().into())),
        ("address", Some(backend.address.as_str()).filter(|a| !a.is_empty()).map(Into::into)),
        ("tags", Some(backend.tags.join(", ")).filter(|t| !t.is_empty()).map(Into::into)),
        ("state", Some(words::health(health.state, screen.unicode))),
        ("since", ago(Some(health.since).filter(|since| *since > 0)).map(Into::into)),
    ];
    rows.extend([
        ("reason", health.reason.as_deref().map(Into::into)),
        ("what to do", health.fix.as_deref().map(Into::into)),
        ("next try", health.next_try.map(|next| format!("in {} (attempt {})", words::age(next, now), health.attempt).into())),
        ("round trip", Some(words::round_trip(health.round_trip_us)).filter(|r| !r.is_empty()).map(Into::into)),
        ("last heard", ago(health.last_heard).map(Into::into)),
        ("shell", backend.shell.as_deref().map(Into::into)),
        ("can do", Some(can.into_iter().flatten().collect::<Vec<_>>().join(", ")).filter(|c| !c.is_empty()).map(Into::into)),
        ("running", Some(backend.running.to_string().into())),
    ]);
    facts(rows, screen)
}

/// Prints names and values, a line each; values are never cut.
pub(crate) fn facts(rows: Vec<(&str, Option<Cell>)>, screen: &Screen) -> String {
    let mut table = Table::new(&[Column::Whole(""), Column::Whole("")]);
    for (name, value) in rows {
        if let Some(value) = value {
            table.row(vec![Cell::new(name, Look::Dim), value]);
        }
    }
    let whole = Screen { width: None, ..screen.clone() };
    // The head line of a table without heads is empty.
    table.text(&whole).trim_start_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{BackendKind, Capabilities, Health};

    fn backend(slot: u32, name: &str, state: HealthState) -> BackendInfo {
        BackendInfo {
            name: name.into(),
            slot,
            kind: if slot == 0 { BackendKind::Local } else { BackendKind::Ssh },
            address: if slot == 0 { String::new() } else { format!("ada@{name}.lab:22") },
            tags: Vec::new(),
            capabilities: Capabilities { separate_streams: true, ..Capabilities::default() },
            health: Health { state, ..Health::default() },
            shell: None,
            running: 0,
        }
    }

    fn overview() -> Overview {
        let mut local = backend(0, "local", HealthState::Up);
        local.health.round_trip_us = Some(80);
        local.running = 2;
        let mut gpu = backend(1, "gpu", HealthState::Reconnecting);
        gpu.health.reason = Some("no answer for 12s\x1b[2J".into());
        gpu.health.next_try = Some(19_000);
        gpu.health.attempt = 3;
        let mut web = backend(2, "web", HealthState::Down);
        web.health.reason = Some("the host key has changed".into());
        web.health.fix = Some("check with the machine's owner, then remove the old key".into());
        Overview {
            default_backend: "gpu".into(),
            backends: vec![local, gpu, web, backend(3, "box", HealthState::Idle)],
            ..Overview::default()
        }
    }

    #[test]
    fn the_list_has_glyph_and_word_and_tells_troubles_whole() {
        let screen = Screen { unicode: true, ..Screen::default() };
        insta::assert_snapshot!(table(&overview(), 5_000, &screen), @r"
        #  NAME           STATE            RTT  KIND   ADDRESS         RUNNING
        0  local          ● up            80us  local                        2
        1  gpu (default)  ◐ reconnecting        ssh    ada@gpu.lab:22        0
        2  web            ✕ down                ssh    ada@web.lab:22        0
        3  box            ○ idle                ssh    ada@box.lab:22        0

        gpu: no answer for 12s\x1b[2J; next try in 14s (attempt 3)
        web: the host key has changed
             check with the machine's owner, then remove the old key
        ");
    }

    #[test]
    fn without_a_unicode_locale_all_is_ascii() {
        assert!(table(&overview(), 5_000, &Screen::default()).is_ascii());
    }

    #[test]
    fn details_are_lines_of_name_and_value() {
        let screen = Screen { unicode: true, ..Screen::default() };
        let mut gpu = overview().backends.remove(1);
        gpu.health.since = 1_000;
        gpu.shell = Some("bash 5.2.15(1)-release".into());
        insta::assert_snapshot!(details(&gpu, 5_000, &screen), @r"
        name      gpu
        number    1
        kind      ssh
        address   ada@gpu.lab:22
        state     ◐ reconnecting
        since     4.0s ago
        reason    no answer for 12s\x1b[2J
        next try  in 14s (attempt 3)
        shell     bash 5.2.15(1)-release
        can do    separate stdout and stderr
        running   0
        ");
    }
}
