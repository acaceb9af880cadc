//! Links that break: every fault, while nothing runs, under a command, and under an upload. What each is, the person sees as
//! what it is; the session is there afterwards; another backend notices nothing.

use crate::harness::lab::{self, Machine};
use crate::harness::qd::Home;
use crate::harness::run::Running;
use crate::harness::wait;
use nix::sys::signal::Signal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Until a fault is noticed at the latest.
const NOTICED: Duration = Duration::from_secs(45);
/// How much slower another backend may be meanwhile: this machine is busy with the test too.
const SLOWER: u32 = 5;
/// Commands that are timed before the fault.
const BEFORE: usize = 20;

/// What happens to a machine, how it ends, and whether the machine is another one afterwards as far as its processes go.
struct Fault {
    name: &'static str,
    strike: &'static [&'static str],
    mend: &'static [&'static str],
    started_anew: bool,
}

const BLACK_HOLE: Fault = Fault { name: "black hole", strike: &["blackhole"], mend: &["unblackhole"], started_anew: false };
const CABLE: Fault = Fault { name: "cable pulled", strike: &["cut"], mend: &["mend"], started_anew: false };
const RESET: Fault = Fault { name: "connection killed", strike: &["kill-sessions"], mend: &[], started_anew: false };
const OFF: Fault = Fault { name: "machine off and on", strike: &["off"], mend: &["on"], started_anew: true };
const REBOOT: Fault = Fault { name: "reboot", strike: &["reboot"], mend: &[], started_anew: true };

/// What is under way when it strikes.
#[derive(Clone, Copy, Debug)]
enum During {
    Idle,
    Command,
    Upload,
}

/// Begins it; gives what runs, once it is under way on the machine.
fn begin(home: &Home, backend: &str, during: During) -> Option<Running> {
    let (command, stdin) = match during {
        During::Idle => return None,
        During::Command => ("echo up; echo run >>~/fault-runs; exec sleep 1000", Vec::new()),
        // Read slowly, so that most of it is on its way.
        During::Upload => {
            ("echo up; echo run >>~/fault-runs; while head -c 65536 >~/piece; [ -s ~/piece ]; do sleep 0.05; done", vec![b'x'; 64 << 20])
        }
    };
    let mut running = Running::start(home.command(["exec", "-b", backend, "-i", "--", command]), stdin);
    running.wait_out("up");
    Some(running)
}

/// Runs commands on another backend until told to stop; gives their times.
fn beat(home: &Home, backend: &str, stop: &AtomicBool, struck: &AtomicBool) -> (Vec<Duration>, Vec<Duration>) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    while !stop.load(Ordering::Acquire) {
        let times = if struck.load(Ordering::Acquire) { &mut after } else { &mut before };
        let began = Instant::now();
        assert_eq!(home.output(backend, "echo beat"), "beat\n");
        times.push(began.elapsed());
    }
    (before, after)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// One row of the table: a fault in one situation, with another backend's commands beside it.
fn row(machine: &Machine, fault: &Fault, during: During) {
    let what = format!("{} during {during:?}", fault.name);
    let home = Home::with_machines(std::slice::from_ref(machine), &["health_interval: 1", "connect_timeout: 3"]);
    let b = machine.name.as_str();
    assert_eq!(home.output(b, "rm -f ~/fault-runs ~/piece; cd /usr/share; export KEPT='a b'; f() { echo f-$1; }"), "");
    let (stop, struck) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mut before, mut after) = std::thread::scope(|threads| {
        let beating = threads.spawn(|| beat(&home, "local", &stop, &struck));
        // Whatever fails here, the beat ends with it.
        let fate = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| one(&home, machine, fault, during, &what, &struck)));
        stop.store(true, Ordering::Release);
        let times = beating.join().expect("the other backend is undisturbed");
        if let Err(panic) = fate {
            std::panic::resume_unwind(panic);
        }
        times
    });
    assert!(before.len() >= BEFORE / 2 && !after.is_empty(), "{what}: {} and {} commands", before.len(), after.len());
    let (quiet, now) = (median(&mut before), median(&mut after));
    assert!(now <= quiet * SLOWER, "{what}: another backend's commands took {now:?}, {quiet:?} before");
}

fn one(home: &Home, machine: &Machine, fault: &Fault, during: During, what: &str, struck: &AtomicBool) {
    let b = machine.name.as_str();
    let running = begin(home, b, during);
    // Time for the other backend's commands before the fault.
    for _ in 0..BEFORE {
        assert_eq!(home.output("local", "echo here"), "here\n");
    }
    struck.store(true, Ordering::Release);
    let began = Instant::now();
    machine.ctl(fault.strike);
    if let Some(running) = running {
        let done = running.done().code(255).says(&[b, "unknown whether"]);
        assert_eq!(done.out(), "up\n", "{what}");
        say(&format!("{what}: told after {:.1} s", began.elapsed().as_secs_f32()));
    } else if !fault.mend.is_empty() {
        let row = home.wait_health(b, &["reconnecting"], NOTICED);
        assert!(row["health"]["reason"].is_string(), "{what}: {row:#}");
        let done = home.run(["exec", "-b", b, "--", "echo ran"]).code(69).says(&[b]);
        assert_eq!(done.out(), "", "{what}");
    }
    if !fault.mend.is_empty() {
        machine.ctl(fault.mend);
    }
    let began = Instant::now();
    home.run(["backends", "connect", b]).code(0);
    say(&format!("{what}: up {:.1} s after it was mended", began.elapsed().as_secs_f32()));
    let result = home.exec(b, "echo $PWD $KEPT; f 1; cat ~/fault-runs 2>/dev/null; rm -f ~/fault-runs ~/piece");
    let runs = if matches!(during, During::Idle) { "" } else { "run\n" };
    assert_eq!(result["output"], format!("/usr/share a b\nf-1\n{runs}"), "{what}: {result:#}");
    let codes: Vec<&str> = result["warnings"].as_array().into_iter().flatten().filter_map(|w| w["code"].as_str()).collect();
    assert_eq!(codes.contains(&"environment_recreated"), fault.started_anew, "{what}: {result:#}");
    assert!(!codes.contains(&"state_lost"), "{what}: {result:#}");
    assert_eq!(home.exec(b, "echo again")["warnings"], serde_json::json!([]), "{what}: said once");
    let left = home.exec(b, "pgrep -f 'sleep 100[0]' | wc -l");
    let gone = wait::within(Duration::from_secs(40), || (home.output(b, "pgrep -f 'sleep 100[0]' | wc -l") == "0\n").then_some(()));
    assert!(gone.is_some(), "{what}: the lost command is still there: {left:#}");
}

fn table(fault: &Fault) {
    let Some(machines) = lab::alone(1) else { return };
    for during in [During::Idle, During::Command, During::Upload] {
        row(&machines[0], fault, during);
        machines[0].ctl(&["repair"]);
    }
}

#[test]
fn a_black_hole_is_noticed_and_told() {
    table(&BLACK_HOLE);
}

#[test]
fn a_pulled_cable_is_noticed_and_told() {
    table(&CABLE);
}

#[test]
fn a_killed_connection_is_noticed_and_told() {
    table(&RESET);
}

#[test]
fn a_server_that_goes_is_noticed_and_told() {
    table(&OFF);
}

#[test]
fn a_reboot_is_noticed_and_told() {
    table(&REBOOT);
}

#[test]
fn a_link_that_flaps_loses_nothing_and_floods_nobody() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["health_interval: 1", "connect_timeout: 3"]));
    let b = m.name.as_str();
    home.output(b, "export KEPT=1");
    // Short of what counts as lost: the command under way is not touched.
    let mut running = home.start(["exec", "-b", b, "--", "for i in {1..80}; do echo $i; sleep 0.2; done"]);
    running.wait_out("1\n");
    for _ in 0..2 {
        m.ctl(&["blackhole"]);
        wait::stays(Duration::from_secs(3), || true);
        m.ctl(&["unblackhole"]);
        // TCP's pauses double: what was sent last in the dark comes up to as long again after it.
        wait::stays(Duration::from_secs(5), || true);
    }
    let lines: Vec<String> = (1..=80).map(|i| format!("{i}\n")).collect();
    assert_eq!(running.done().code(0).out(), lines.concat());
    // Connections that die again and again: each is said, and no more than that.
    const FLAPS: usize = 5;
    let log = home.state().join("log").join("qd.log");
    let notices = || std::fs::read_to_string(&log).unwrap_or_default().lines().filter(|l| l.contains(" notice ")).count();
    let before = notices();
    for _ in 0..FLAPS {
        m.ctl(&["kill-sessions"]);
        home.run(["backends", "connect", b]).code(0);
        assert_eq!(home.output(b, "echo $KEPT"), "1\n");
    }
    let said = notices() - before;
    assert!(said <= 3 * FLAPS, "{said} notices of {FLAPS} losses");
}

#[test]
fn a_daemon_that_was_stopped_for_a_while_goes_on() {
    let Some(machines) = lab::share(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines[..1], &["health_interval: 1"]));
    home.output(&m.name, "export KEPT=1");
    let mut running = home.start(["exec", "-b", &m.name, "--", "for i in {1..40}; do echo $i; sleep 0.1; done"]);
    running.wait_out("1\n");
    let daemon = home.daemon().expect("it runs");
    daemon.signal(Signal::SIGSTOP);
    wait::stays(Duration::from_secs(5), || true);
    daemon.signal(Signal::SIGCONT);
    let lines: Vec<String> = (1..=40).map(|i| format!("{i}\n")).collect();
    assert_eq!(running.done().code(0).out(), lines.concat());
    assert_eq!(home.output(&m.name, "echo $KEPT"), "1\n");
    assert_eq!(home.backend(&m.name)["health"]["state"], "up");
}

#[test]
fn a_flood_on_a_narrow_line_leaves_other_commands_alone() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &[]));
    let one = || {
        let began = Instant::now();
        home.run(["exec", "-b", &m.name, "-s", "other", "--", "echo ok"]).code(0);
        began.elapsed()
    };
    one();
    m.ctl(&["slow", "50/20"]);
    let mut quiet: Vec<Duration> = (0..9).map(|_| one()).collect();
    let flood = home.start(["exec", "-b", &m.name, "-s", "flood", "--json", "--max-output", "100", "--", "head -c 1000000000 /dev/zero"]);
    let id = wait::until("output of the flood", wait::CAP, || {
        let rows = home.run(["ps", "--json"]).code(0).json();
        let row = rows.as_array()?.iter().find(|row| row["session"] == "flood" && row["output_bytes"].as_u64() > Some(2_000_000))?.clone();
        row["id"].as_str().map(str::to_owned)
    });
    // The first ones may meet the flood where they were to start.
    let mut flooded: Vec<Duration> = (0..15).map(|_| one()).skip(3).collect();
    home.run(["kill", &id]).code(0);
    drop(flood);
    let (quiet, flooded) = (median(&mut quiet), median(&mut flooded));
    say(&format!("a command on a narrow line: {quiet:?} when quiet, {flooded:?} beside a flood"));
    // On one connection it would be a whole window's worth, 20 times as long.
    assert!(flooded <= quiet * SLOWER, "{flooded:?} beside a flood, {quiet:?} when quiet");
}

#[expect(clippy::print_stderr, reason = "figures beside the test's name")]
fn say(text: &str) {
    eprintln!("{text}");
}
