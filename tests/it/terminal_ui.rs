//! The terminal UI as a person has it: the real binary on a real terminal, with real machines.

use crate::harness::lab;
use crate::harness::procs::Proc;
use crate::harness::pty::Pty;
use crate::harness::qd::{Home, machines_config};
use crate::harness::run::Running;
use crate::harness::wait;
use nix::sys::signal::Signal;
use std::time::Duration;

/// Ctrl-], which comes before every key of ours.
const LEADER: &str = "\x1d";

/// A home whose leader key is settled, so that the first start does not ask for it.
fn home() -> Home {
    Home::with_config("ui:\n  leader: ctrl-]\n")
}

fn open(home: &Home, rows: u16, cols: u16) -> Pty {
    let tui = home.terminal::<&str>([], rows, cols);
    tui.wait_text("local");
    tui
}

fn press(tui: &mut Pty, keys: &str) {
    tui.send(format!("{LEADER}{keys}"));
}

#[track_caller]
fn detach(mut tui: Pty) {
    // With a command of its own running it would ask.
    tui.wait_for("that nothing runs", |screen| !screen.replace("still running", "").contains(" running "));
    press(&mut tui, "d");
    assert_eq!(tui.end().code(), Some(0));
    tui.assert_restored();
}

#[test]
fn it_opens_on_local_runs_what_is_typed_and_leaves_the_terminal_as_it_was() {
    let home = home();
    let mut tui = open(&home, 24, 80);
    assert!(tui.look(|s| s.alternate_screen()));
    tui.send("echo one-$((40+2)); cd /usr; false\r");
    tui.wait_text("one-42");
    tui.wait_text("exit 1");
    tui.send("pwd\r");
    tui.wait_for("the session's directory", |screen| {
        screen.lines().any(|line| line.trim_matches(|c: char| !c.is_ascii_graphic()) == "/usr")
    });
    detach(tui);
    assert_eq!(home.output("local", "pwd"), "/usr\n");
}

#[test]
fn a_command_from_elsewhere_appears_live() {
    let home = home();
    let tui = open(&home, 30, 100);
    let mut running = home.start(["exec", "--client", "agent-7", "--", "echo early-$((1+1)); sleep 1000; echo late"]);
    running.wait_out("early-2");
    tui.wait_text("early-2");
    let screen = tui.wait_text("agent-7");
    assert!(!screen.contains("late-"), "{screen}");
    running.signal(Signal::SIGINT);
    running.done().code(130);
    tui.wait_for("how it ended", |screen| screen.contains("stopped by its caller"));
    detach(tui);
}

#[test]
fn ctrl_c_stops_the_newest_own_command_and_no_agents() {
    let home = home();
    let mut tui = open(&home, 30, 100);
    let mut agent = home.start(["exec", "--client", "agent-7", "--", "echo agent-up; sleep 1000"]);
    agent.wait_out("agent-up");
    tui.send("echo mine-$((1+1)); sleep 1000\r");
    tui.wait_text("mine-2");
    tui.send("\x03");
    wait::until("the end of the own command alone", wait::CAP, || {
        let rows = home.run(["ps", "--json"]).json();
        let rows = rows.as_array()?;
        (rows.len() == 1 && rows[0]["who"]["name"] == "agent-7").then_some(())
    });
    agent.signal(Signal::SIGINT);
    agent.done().code(130);
    detach(tui);
}

#[test]
fn detaching_leaves_commands_running_and_a_new_start_shows_them() {
    let home = home();
    let mut tui = open(&home, 24, 80);
    let mut running = home.start(["exec", "--client", "agent-7", "--", "echo still-$((1+1)); sleep 1000"]);
    running.wait_out("still-2");
    tui.wait_text("still-2");
    press(&mut tui, "d");
    tui.end();
    let tui = open(&home, 24, 80);
    tui.wait_text("still-2");
    running.signal(Signal::SIGINT);
    running.done().code(130);
    detach(tui);
}

#[test]
fn signals_restore_the_terminal() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let home = home();
        let mut tui = open(&home, 24, 80);
        tui.signal(signal);
        tui.end();
        tui.assert_restored();
        assert!(home.daemon().is_some(), "{signal} of the terminal UI ended the daemon");
    }
}

#[test]
fn suspended_it_gives_the_terminal_back_and_returns() {
    let home = home();
    let argv: Vec<_> = ["bash".into(), "--norc".into(), "--noprofile".into(), "-i".into()].into();
    let env: Vec<_> = home.command::<&str>([]).get_envs().filter_map(|(k, v)| Some((k.to_owned(), v?.to_owned()))).collect();
    let mut command = Pty::command(&argv);
    command.env_clear().envs(env).env("PS1", "shell$ ").current_dir(home.work());
    let mut tui = Pty::start(command, 24, 80);
    tui.wait_text("shell$");
    tui.send(format!("{}\r", env!("CARGO_BIN_EXE_qd")));
    tui.wait_for("the terminal UI", |screen| screen.contains("local") && !screen.contains("shell$"));
    press(&mut tui, "\x1a");
    tui.wait_text("Stopped");
    // Bracketed paste is on: the shell asks for it by itself.
    assert!(!tui.look(|s| s.alternate_screen() || s.hide_cursor()));
    tui.send("fg\r");
    tui.wait_for("the terminal UI again", |screen| screen.contains("local") && !screen.contains("Stopped"));
    tui.send("echo back-$((1+1))\r");
    tui.wait_text("back-2");
    press(&mut tui, "d");
    tui.wait_text("shell$");
    tui.send("exit\r");
    tui.end();
}

#[test]
fn every_size_is_survived() {
    let home = home();
    let mut tui = open(&home, 24, 80);
    tui.send("seq 1 200\r");
    tui.wait_text("200");
    for (rows, cols) in [(1, 1), (2, 80), (24, 2), (3, 3), (10, 40), (5, 200), (60, 10), (45, 160), (80, 250), (1, 250), (80, 1)] {
        tui.resize(rows, cols);
        assert!(!tui.ended(), "ended at {cols}x{rows}\n{}", String::from_utf8_lossy(&tui.raw()));
    }
    tui.resize(24, 80);
    tui.send("echo after-$((1+1))\r");
    tui.wait_text("after-2");
    detach(tui);
}

#[test]
fn without_colour_it_says_all_in_words() {
    let mut home = home();
    home.set("NO_COLOR", "1");
    let mut tui = open(&home, 24, 80);
    tui.send("echo red-$((1+1)); exit $((1+2))\r");
    tui.wait_text("exit 3");
    let coloured = tui.look(|screen| {
        let (rows, cols) = screen.size();
        let cell =
            |row, col| screen.cell(row, col).is_some_and(|c| c.fgcolor() != vt100::Color::Default || c.bgcolor() != vt100::Color::Default);
        (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))).filter(|&(row, col)| cell(row, col)).count()
    });
    assert_eq!(coloured, 0);
    detach(tui);
}

#[test]
fn without_a_terminal_it_says_so() {
    let home = Home::new();
    let done = home.run::<&str>([]);
    assert!(done.code.is_some_and(|c| c != 0) && done.out.is_empty() && done.err().contains("terminal"), "{done}");
}

#[test]
fn help_lists_the_keys_and_closes() {
    let home = home();
    let mut tui = open(&home, 40, 100);
    press(&mut tui, "?");
    tui.wait_text("reconnect now");
    tui.send("\x1b");
    tui.wait_for("help is closed", |screen| !screen.contains("reconnect now"));
    tui.send(LEADER);
    tui.wait_for("the popup of keys", |screen| screen.contains("zoom"));
    tui.send("\x1b");
    tui.wait_for("the popup is closed", |screen| !screen.contains("zoom"));
    detach(tui);
}

#[test]
fn the_end_of_the_daemon_is_said_and_no_crash() {
    let home = home();
    let mut tui = open(&home, 24, 80);
    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    tui.wait_for("that the daemon is gone, or a new one", |screen| screen.contains("daemon") || screen.contains("local"));
    home.run(["exec", "--", "echo new"]).code(0);
    if !tui.ended() {
        press(&mut tui, "d");
    }
    tui.end();
    tui.assert_restored();
}

/// The whole of it: four panes, four loops, one machine gone and back.
#[test]
fn four_panes_live_side_by_side_and_one_lost_machine_disturbs_no_other() {
    let Some(dark) = lab::alone(1) else { return };
    let Some(bright) = lab::share(2) else { return };
    let machines = [bright[0].clone(), bright[1].clone(), dark[0].clone()];
    let home = Home::with_config(&machines_config(&machines, &["health_interval: 1", "connect_timeout: 3"]));
    let names: Vec<&str> = ["local"].into_iter().chain(machines.iter().map(|m| m.name.as_str())).collect();
    for name in &names {
        assert_eq!(home.output(name, "cd /usr/share; export KEPT=1"), "");
    }
    let mut tui = open(&home, 45, 160);
    tui.wait_for("all four panes", |screen| names.iter().all(|name| screen.contains(*name)));
    let loops: Vec<Running> = names
        .iter()
        .map(|name| home.start(["exec", "-b", name, "--", &format!("i=0; while :; do echo at-{name}-$((i+=1)); sleep 0.2; done")]))
        .collect();
    let newest = |screen: &str, name: &str| -> u32 {
        let mark = format!("at-{name}-");
        screen
            .match_indices(&mark)
            .filter_map(|(at, _)| screen[at + mark.len()..].split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
            .max()
            .unwrap_or(0)
    };
    tui.wait_for("all four loops", |screen| names.iter().all(|name| newest(screen, name) >= 3));

    let lost = dark[0].name.as_str();
    let others: Vec<&str> = names.iter().copied().filter(|name| *name != lost).collect();
    dark[0].ctl(&["blackhole"]);
    let screen = tui.wait_within(Duration::from_secs(40), "the lost machine", |screen| screen.contains("reconnecting"));
    let before: Vec<u32> = others.iter().map(|name| newest(&screen, name)).collect();
    tui.wait_for("the other loops go on", |screen| others.iter().zip(&before).all(|(name, before)| newest(screen, name) > before + 5));
    // The keyboard answers.
    tui.send(format!("{LEADER}0echo key-$((1+1))\r"));
    tui.wait_text("key-2");

    dark[0].ctl(&["unblackhole"]);
    home.wait_health(lost, &["up"], Duration::from_secs(75));
    tui.wait_for("no pane is lost any more", |screen| !screen.contains("reconnecting"));
    assert_eq!(home.output(lost, "echo $PWD $KEPT"), "/usr/share 1\n");
    for (name, one) in names.iter().zip(loops) {
        one.signal_unless_ended(Signal::SIGINT);
        assert_eq!(one.done().code, Some(if *name == lost { 255 } else { 130 }), "{name}");
    }
    detach(tui);
}

#[test]
fn at_rest_it_uses_no_processor() {
    let home = home();
    let tui = open(&home, 45, 160);
    let process = Proc::find(tui.pid()).expect("it runs");
    // Rest is five seconds in a row without a tick of processor time.
    let mut ticks = process.cpu_ticks();
    let rest = wait::within(Duration::from_secs(60), || {
        let quiet = wait::stays(Duration::from_secs(5), || process.cpu_ticks() == ticks);
        ticks = process.cpu_ticks();
        quiet.then_some(())
    });
    assert!(rest.is_some(), "the terminal UI is never at rest");
    detach(tui);
}
