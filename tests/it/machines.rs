//! Real ssh machines: commands, faults, and coming back from them. What is lost is said; nothing else is disturbed.

use crate::harness::lab::{self, Machine};
use crate::harness::qd::{Home, machines_config};
use crate::harness::run::Running;
use crate::harness::wait;
use std::time::Duration;

/// Quick to notice and quick to give up, so that a test need not wait for minutes.
const QUICK: [&str; 2] = ["health_interval: 1", "connect_timeout: 3"];

/// Longer than the longest back-off.
const BACK: Duration = Duration::from_secs(75);

/// Asks a machine over OpenSSH, past Quarterdeck.
fn ask(machine: &Machine, command: &str) -> String {
    let done = machine.ssh().arg(command).output().expect("ssh starts");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Tells whether the process is alive on the machine.
fn alive(machine: &Machine, pid: &str) -> bool {
    ask(machine, &format!("grep -q '^State:.[^ZX]' /proc/{pid}/status 2>/dev/null && echo alive")) == "alive\n"
}

/// Reads a pid that a command writes into a file of its home.
fn pid_in(machine: &Machine, file: &str) -> String {
    let path = machine.folder("root").join(file);
    wait::until("the pid that the command writes", wait::CAP, || {
        std::fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n')).map(|text| text.trim().to_owned())
    })
}

/// Gives a session something to lose.
fn settle(home: &Home, backend: &str) {
    assert_eq!(home.output(backend, "cd /usr/share; export KEPT='a b'; f() { echo f-$1; }"), "");
}

#[track_caller]
fn settled(home: &Home, backend: &str) {
    let result = home.exec(backend, "echo $PWD $KEPT; f 1");
    assert_eq!((&result["output"], &result["warnings"]), (&"/usr/share a b\nf-1\n".into(), &serde_json::json!([])), "{result:#}");
}

#[test]
fn commands_on_machines_are_as_on_local() {
    let Some(machines) = lab::share(3) else { return };
    let home = Home::with_machines(&machines, &[]);
    for m in machines.iter() {
        let b = m.name.as_str();
        assert_eq!(home.output(b, "hostname"), format!("{b}\n"));
        settle(&home, b);
        settled(&home, b);
        let done = home.run(["exec", "-b", b, "--", "echo o; echo e >&2; exit 7"]).code(7);
        assert_eq!((done.out().as_str(), done.err().as_str()), ("o\n", "e\n"));
        assert_eq!(home.run(["exec", "-b", b, "--", "kill -9 $$"]).code, Some(137));
        assert_eq!(home.run(["exec", "-b", b, "-C", "/no/such", "--", "echo ran"]).code(126).out(), "");
    }
    let bytes: Vec<u8> = (0..2_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let done = home.run_with(["exec", "-b", &machines[0].name, "-i", "--", "cat"], bytes.clone());
    assert!(done.code == Some(0) && done.out == bytes, "{} bytes back", done.out.len());
    let row = home.backend(&machines[0].name);
    assert_eq!((&row["health"]["state"], &row["kind"]), (&"up".into(), &"ssh".into()), "{row:#}");
    assert!(row["shell"].as_str().is_some_and(|s| s.contains("bash")) && row["health"]["round_trip_us"].is_u64(), "{row:#}");
}

#[test]
fn a_time_out_ends_the_tree_on_the_machine() {
    let Some(machines) = lab::share(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines[..1], &[]));
    let command = "echo begun; setsid sh -c 'echo $$ >~/escaped; exec sleep 1000' & sleep 1000";
    assert_eq!(home.run(["exec", "-b", &m.name, "--timeout", "1s", "--", command]).code(124).out(), "begun\n");
    assert!(!alive(m, &pid_in(m, "escaped")));
    std::fs::remove_file(m.folder("root").join("escaped")).expect("it was there");
}

#[test]
fn ctrl_c_reaches_the_machine() {
    let Some(machines) = lab::share(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines[..1], &[]));
    let mut running = home.start(["exec", "-b", &m.name, "--", "echo up; echo $$ >~/interrupted; sleep 1000"]);
    running.wait_out("up");
    let pid = pid_in(m, "interrupted");
    assert!(alive(m, &pid));
    running.signal(nix::sys::signal::Signal::SIGINT);
    running.done().code(130);
    assert!(!alive(m, &pid));
    std::fs::remove_file(m.folder("root").join("interrupted")).expect("it was there");
}

#[test]
fn a_signal_on_the_machine_is_told_with_who_got_it() {
    let Some(machines) = lab::share(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines[..1], &[]));
    let mut running =
        home.start(["exec", "-b", &m.name, "--", "trap 'echo got; exit 9' USR1; echo begun $$ $BASHPID; while :; do sleep 0.05; done"]);
    running.wait_out("\n");
    let pid: u64 = running.out_so_far().split_whitespace().nth(1).expect("a pid").parse().expect("a number");
    let id = home.run(["ps", "--json"]).json()[0]["id"].as_str().expect("an id").to_owned();
    let rows = home.run(["kill", "-s", "USR1", "--json", &id]).code(0).json();
    assert!(rows[0]["signalled"].as_array().is_some_and(|pids| pids.contains(&pid.into())), "{rows:#} without {pid}");
    assert!(running.done().code(9).out().contains("got"));
    home.run(["kill", "-s", "USR1", &id]).code(1).says(&["has ended"]);
}

#[test]
fn an_open_stdin_on_the_machine_is_written_to_and_ended() {
    let Some(machines) = lab::share(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines[..1], &[]));
    let command = "echo begun; while read -r line; do echo \"line: $line\"; done; echo end-$((1+1))";
    let mut pty = home.terminal(["exec", "-i", "-b", &m.name, "--", command], 24, 80);
    pty.wait_text("begun");
    let id = home.run(["ps", "--json"]).json()[0]["id"].as_str().expect("an id").to_owned();
    home.run(["send", &id, "--submit", "one"]).code(0);
    pty.wait_text("line: one");
    home.run(["send", &id, "--submit", "no", "--expect-offset", "0"]).code(1).says(&["nothing was sent"]);
    home.run(["wait", "--until", "input", &id]).code(1).says(&[&m.name, "cannot be known", "quiet=MS"]);
    home.run(["send", &id, "--submit", "two", "--eof"]).code(0);
    pty.wait_text("end-2");
    assert_eq!(pty.end().code(), Some(0));
    assert_eq!(home.run(["logs", &id]).code(0).out(), "begun\nline: one\nline: two\nend-2\n");
}

#[test]
fn every_login_shell_gives_the_same_session() {
    let Some(machines) = lab::share(1) else { return };
    for account in machines[0].accounts.iter().filter(|a| *a != "nologin") {
        let home = Home::with_machines(&[machines[0].account(account)], &[]);
        let b = &machines[0].name;
        assert_eq!(home.output(b, "id -un"), format!("{account}\n"));
        settle(&home, b);
        settled(&home, b);
        let done = home.run(["exec", "-b", b, "--", "printf '%s\\n' \"it's\" 'a\"b' '\\\\' '!x' '$y'"]).code(0);
        assert_eq!(done.out(), "it's\na\"b\n\\\\\n!x\n$y\n", "{account}");
    }
}

#[test]
fn many_commands_at_once_on_one_machine_all_run() {
    let Some(machines) = lab::share(1) else { return };
    let (b, home) = (&machines[0].name, Home::with_machines(&machines[..1], &[]));
    let run = |i: usize| home.start(["exec", "-b", b, "--", &format!("echo a{i}; sleep 0.3; exit {i}")]);
    let running: Vec<(usize, Running)> = (0..30).map(|i| (i, run(i))).collect();
    for (i, one) in running {
        assert_eq!(one.done().code(i32::try_from(i).expect("small")).out(), format!("a{i}\n"));
    }
}

#[test]
fn a_machine_that_allows_one_session_works() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &[]));
    m.ctl(&["set", "MaxSessions 1"]);
    settle(&home, &m.name);
    settled(&home, &m.name);
    let running: Vec<Running> = (0..4).map(|_| home.start(["exec", "-b", &m.name, "--", "sleep 0.2; echo $KEPT"])).collect();
    for one in running {
        assert_eq!(one.done().code(0).out(), "a b\n");
    }
    let done = home.run(["exec", "-b", &m.name, "--timeout", "1s", "--", "echo up; sleep 1000"]).code(124);
    assert_eq!(done.out(), "up\n");
}

#[test]
fn a_killed_connection_is_told_and_the_next_command_has_its_session() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &QUICK));
    settle(&home, &m.name);
    for json in [false, true] {
        let flags: &[&str] = if json { &["exec", "--json", "-b", &m.name, "--"] } else { &["exec", "-b", &m.name, "--"] };
        let file = m.folder("root").join("begun");
        let running = home.start([flags, &["echo so far; echo $$ >~/begun; sleep 1000"]].concat());
        pid_in(m, "begun");
        m.ctl(&["kill-sessions"]);
        let done = running.done().code(255);
        if json {
            let result = done.json();
            assert_eq!((&result["outcome"], &result["output"]), (&"transport_lost".into(), &"so far\n".into()), "{result:#}");
        } else {
            assert_eq!(done.out(), "so far\n");
            done.says(&["qd: ", "unknown whether"]);
        }
        std::fs::remove_file(file).expect("the command wrote it");
        settled(&home, &m.name);
    }
}

#[test]
fn a_lost_command_is_ended_on_its_machine_and_never_run_again() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &QUICK));
    let running = home.start(["exec", "-b", &m.name, "--", "echo run >>~/runs; echo $$ >~/lost; sleep 1000"]);
    let pid = pid_in(m, "lost");
    m.ctl(&["blackhole"]);
    running.done().code(255);
    m.ctl(&["unblackhole"]);
    home.wait_health(&m.name, &["up"], BACK);
    wait::until("the end of the lost command", Duration::from_secs(60), || (!alive(m, &pid)).then_some(()));
    for file in ["runs", "lost"] {
        let path = m.folder("root").join(file);
        let text = std::fs::read_to_string(&path).expect("the command wrote it");
        assert_eq!(text.lines().count(), 1, "{file}: {text}");
        std::fs::remove_file(path).expect("it was there");
    }
}

#[test]
fn a_black_holed_machine_disturbs_no_other_and_comes_back_by_itself() {
    let Some(dark) = lab::alone(1) else { return };
    let Some(bright) = lab::share(1) else { return };
    let machines = [dark[0].clone(), bright[0].clone()];
    let home = Home::with_machines(&machines, &QUICK);
    let (gone, here) = (&dark[0].name, &bright[0].name);
    settle(&home, gone);
    settle(&home, here);
    let running = home.start(["exec", "-b", gone, "--", "echo up; sleep 1000"]);
    let mut running = running;
    running.wait_out("up");
    dark[0].ctl(&["blackhole"]);

    let row = home.wait_health(gone, &["reconnecting"], Duration::from_secs(30));
    assert!(row["health"]["reason"].is_string(), "{row:#}");
    running.done().code(255).says(&["unknown whether"]);
    // Nothing falls back to another backend, and nothing waits for ever.
    let done = home.run(["exec", "-b", gone, "--", "echo ran"]).code(69).says(&[gone]);
    assert_eq!(done.out(), "");
    let row = wait::until("the countdown to the next attempt", wait::CAP, || {
        Some(home.backend(gone)).filter(|row| row["health"]["next_try"].is_number())
    });
    assert!(row["health"]["attempt"].as_u64().is_some_and(|n| n >= 1), "{row:#}");
    for _ in 0..5 {
        settled(&home, here);
        assert_eq!(home.output("local", "echo here"), "here\n");
        assert_eq!(home.backend(here)["health"]["state"], "up");
    }

    dark[0].ctl(&["unblackhole"]);
    home.wait_health(gone, &["up"], BACK);
    settled(&home, gone);
}

#[test]
fn a_pulled_cable_and_a_machine_that_is_off_are_waited_out() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &QUICK));
    settle(&home, &m.name);
    m.ctl(&["cut"]);
    home.wait_health(&m.name, &["reconnecting"], Duration::from_secs(45));
    m.ctl(&["mend"]);
    home.wait_health(&m.name, &["up"], BACK);
    settled(&home, &m.name);
    m.ctl(&["off"]);
    home.wait_health(&m.name, &["reconnecting"], Duration::from_secs(45));
    home.run(["exec", "-b", &m.name, "--", "echo ran"]).code(69).says(&[&m.name]);
    m.ctl(&["on"]);
    // Now, not at the next attempt.
    home.run(["backends", "connect", &m.name]).code(0);
    assert_eq!(home.output(&m.name, "echo back"), "back\n");
}

#[test]
fn a_reboot_is_noticed_and_said() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &QUICK));
    settle(&home, &m.name);
    m.ctl(&["reboot"]);
    home.wait_health(&m.name, &["up"], BACK);
    let result = home.exec(&m.name, "echo back");
    assert_eq!((&result["exit_code"], &result["output"]), (&0.into(), &"back\n".into()), "{result:#}");
    let codes: Vec<&str> = result["warnings"].as_array().into_iter().flatten().filter_map(|w| w["code"].as_str()).collect();
    assert!(codes.iter().any(|c| ["state_lost", "environment_recreated"].contains(c)), "{result:#}");
    let again = home.exec(&m.name, "echo again");
    assert_eq!(again["warnings"], serde_json::json!([]), "said once: {again:#}");
}

#[test]
fn a_slow_link_is_measured_and_works() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["health_interval: 1"]));
    settle(&home, &m.name);
    m.ctl(&["slow", "200"]);
    assert_eq!(home.output(&m.name, "echo $PWD $KEPT"), "/usr/share a b\n");
    wait::until("a measured round trip of the slow link", wait::CAP, || {
        home.backend(&m.name)["health"]["round_trip_us"].as_u64().filter(|us| *us >= 200_000)
    });
    // Of a new connection it is one round trip too, not all that connecting took.
    home.run(["backends", "disconnect", &m.name]).code(0);
    home.run(["backends", "connect", &m.name]).code(0);
    let measured = home.backend(&m.name)["health"]["round_trip_us"].as_u64();
    assert!(measured.is_some_and(|us| (200_000..800_000).contains(&us)), "{measured:?}");
    m.ctl(&["fast"]);
    assert_eq!(home.output(&m.name, "echo $PWD $KEPT"), "/usr/share a b\n");
}

#[test]
fn disconnect_and_connect_keep_the_session() {
    let Some(machines) = lab::share(1) else { return };
    let (b, home) = (&machines[0].name, Home::with_machines(&machines[..1], &[]));
    settle(&home, b);
    home.run(["backends", "disconnect", b]).code(0);
    assert_eq!(home.backend(b)["health"]["state"], "idle");
    home.run(["backends", "connect", b]).code(0);
    assert_eq!(home.backend(b)["health"]["state"], "up");
    settled(&home, b);
}

#[test]
fn a_backend_whose_number_changes_keeps_its_connection() {
    let Some(machines) = lab::share(2) else { return };
    let (b, home) = (&machines[1].name, Home::with_machines(&machines, &[]));
    settle(&home, b);
    let before = home.backend(b);
    home.write_config(&machines_config(&machines[1..], &[]));
    let after =
        wait::until("the changed config is taken up", wait::CAP, || Some(home.backend(b)).filter(|row| row["slot"] != before["slot"]));
    assert_eq!((&after["health"]["state"], &after["health"]["since"]), (&"up".into(), &before["health"]["since"]), "{after:#}");
    settled(&home, b);
}
