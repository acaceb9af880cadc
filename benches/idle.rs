//! The terminal UI and the daemon at rest, with four backends connected and shown: processor time over 20 s.

mod common;

use common::{Lab, harness, home, say};
use harness::procs::Proc;
use harness::wait;
use std::time::Duration;

const WATCHED: Duration = Duration::from_secs(20);

fn main() {
    let lab = Lab::up(3);
    let home = home(lab.as_ref());
    let names: Vec<String> = home
        .run(["backends", "--json"])
        .code(0)
        .json()
        .as_array()
        .map_or_else(Vec::new, |rows| rows.iter().filter_map(|row| row["name"].as_str().map(str::to_owned)).collect());
    for name in &names {
        home.run(["exec", "-b", name, "--", "true"]).code(0);
    }
    let mut tui = home.terminal(["tui"], 45, 160);
    tui.wait_for("every backend's name", |screen| names.iter().all(|name| screen.contains(name.as_str())));
    let ui = Proc::find(tui.pid()).expect("it runs");
    let daemon = home.daemon().expect("it runs");
    // What the start leaves to be done is done when a second has passed without work.
    let mut last = (0, 0);
    wait::until("rest after the start", wait::CAP, || {
        let before = (ui.cpu_ticks(), daemon.cpu_ticks());
        let settled = before == last && wait::stays(Duration::from_secs(1), || (ui.cpu_ticks(), daemon.cpu_ticks()) == before);
        last = before;
        settled.then_some(())
    });
    let before = (ui.cpu_ticks(), daemon.cpu_ticks());
    // Nothing but the time passes here; a dead program would be a figure of 0 too.
    assert!(wait::stays(WATCHED, || ui.alive() && daemon.alive()), "one of them ended");
    let after = (ui.cpu_ticks(), daemon.cpu_ticks());
    // A tick is 10 ms on Linux.
    let percent = |ticks: u64| ticks as f64 * 0.01 / WATCHED.as_secs_f64() * 100.0;
    say(&format!("idle over {} s with {} backends:", WATCHED.as_secs(), names.len()));
    say(&format!("  terminal UI {:.2} % (target: 0.0)", percent(after.0 - before.0)));
    say(&format!("  daemon {:.2} %", percent(after.1 - before.1)));
    say(&format!("  memory: terminal UI {:.1} MB, daemon {:.1} MB", ui.resident() as f64 / 1e6, daemon.resident() as f64 / 1e6));
    // The leader and q: quit.
    tui.send("\x1dq");
}
