//! From a key typed into the terminal UI to its echo on the screen: at rest, with four command loops running, and with one
//! of the machines behind a black hole.

mod common;

use common::{Lab, Times, harness, home, say};
use harness::pty::Pty;
use harness::qd::Home;
use harness::run::Running;
use harness::{lab, wait};
use std::time::{Duration, Instant};

const KEYS: usize = 200;

fn main() {
    let lab = Lab::up(3);
    if lab.is_some() && std::env::var_os("QD_LAB").is_none() {
        // The harness finds machines by this variable, which only a new process can be given.
        let folder = lab.as_ref().map(|l| l.folder().to_owned()).expect("it is up");
        let again = std::process::Command::new(std::env::current_exe().expect("we run")).env("QD_LAB", folder).status();
        assert!(again.is_ok_and(|s| s.success()), "the measuring process failed");
        return;
    }
    let home = home(lab.as_ref());
    let machines = lab::alone(3);
    let mut names = vec!["local".to_owned()];
    names.extend(machines.iter().flat_map(|m| m.iter().map(|m| m.name.clone())));
    for name in &names {
        home.run(["exec", "-b", name, "--", "true"]).code(0);
    }
    let mut tui = home.terminal(["tui"], 45, 160);
    tui.wait_for("every backend's name", |screen| names.iter().all(|name| screen.contains(name.as_str())));
    say(&format!("key to echo at rest: {}", echoes(&mut tui).text()));
    let loops: Vec<Running> = names.iter().map(|name| output_loop(&home, name)).collect();
    say(&format!("key to echo with {} loops: {}", loops.len(), echoes(&mut tui).text()));
    if let Some(machines) = &machines {
        let dark = machines.last().expect("three of them");
        dark.ctl(&["blackhole"]);
        say(&format!("key to echo just after one machine is gone: {}", echoes(&mut tui).text()));
        home.wait_health(&dark.name, &["reconnecting"], wait::CAP);
        say(&format!("key to echo while it reconnects: {}", echoes(&mut tui).text()));
    }
    tui.send("\x1dq");
}

/// A command that goes on writing a line every 50 ms.
fn output_loop(home: &Home, backend: &str) -> Running {
    let mut running = home.start(["exec", "-b", backend, "--", "i=0; while :; do echo line $((i+=1)); sleep 0.05; done"]);
    running.wait_out("line 3");
    running
}

/// Types letters into the input line and takes them back, each waited for on the screen.
fn echoes(tui: &mut Pty) -> Times {
    let mut times = Times::default();
    for round in 0..KEYS {
        let letter = ["`", "%"][round % 2];
        let before = tui.screen().matches(letter).count();
        let began = Instant::now();
        tui.send(letter);
        tui.wait_within(Duration::from_secs(10), "the typed letter", |screen| screen.matches(letter).count() > before);
        times.add(began.elapsed());
        // Backspace.
        tui.send("\x7f");
        tui.wait_within(Duration::from_secs(10), "the letter is gone again", |screen| screen.matches(letter).count() <= before);
    }
    times
}
