//! The daemon's life and death: cold starts, orderly ends, kill -9. One daemon, and nothing of ours left behind.

use crate::exec::pid_in;
use crate::harness::lab;
use crate::harness::procs::Proc;
use crate::harness::qd::Home;
use crate::harness::run::{Done, Running, clean};
use crate::harness::wait;
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::time::Duration;

#[track_caller]
fn all_gone(processes: &[Proc], within: Duration) {
    let alive = || -> Vec<String> { processes.iter().filter(|p| p.alive()).map(|p| format!("{} {}", p.pid, p.command_line())).collect() };
    assert!(wait::within(within, || alive().is_empty().then_some(())).is_some(), "left running: {:#?}", alive());
}

#[test]
fn eight_cold_starts_at_once_make_one_daemon() {
    let home = Home::new();
    let running: Vec<Running> = (0..8).map(|i| home.start(["exec", "-s", &format!("s{i}"), "--", "echo $PPID"])).collect();
    let parents: Vec<String> = running.into_iter().map(|r| r.done().code(0).out()).collect();
    assert!(parents.iter().all(|p| *p == parents[0]), "commands of different daemons: {parents:?}");
    assert_eq!(home.daemon().map(|d| format!("{}\n", d.pid)), Some(parents[0].clone()));
}

#[test]
fn a_client_with_six_variables_finds_the_same_daemon() {
    let home = Home::new();
    let run = |more: &[(&str, &str)]| -> Done {
        let mut command = clean(OsStr::new(env!("CARGO_BIN_EXE_qd")));
        command.args(["exec", "--", "echo $PPID"]).current_dir(home.work()).env("HOME", home.path());
        command.envs([("LOGNAME", "ada"), ("SHELL", "/bin/bash"), ("TERM", "xterm"), ("USER", "ada")]);
        command.envs(more.iter().copied());
        Running::start(command, Vec::new()).done()
    };
    let runtime = home.path().join("run");
    let first = run(&[("XDG_RUNTIME_DIR", runtime.to_str().expect("text")), ("LANG", "C.UTF-8")]).code(0).out();
    assert_eq!(run(&[]).code(0).out(), first);
    let daemon = Proc::find(first.trim().parse().expect("a pid")).expect("it runs");
    daemon.signal(Signal::SIGTERM);
    all_gone(&[daemon], Duration::from_secs(5));
}

#[test]
fn kill_9_during_commands_leaves_nothing_and_loses_no_session() {
    let home = Home::new();
    home.run(["exec", "--", "cd /usr; export KEPT='a b'; f() { echo f; }"]).code(0);
    let mut running = home.start(["exec", "--", "echo up; sh -c 'echo $$ >~/pid; exec sleep 1000'"]);
    running.wait_out("up");
    let child = pid_in(&home, "pid");
    let daemon = home.daemon().expect("it runs");
    let family = daemon.descendants();
    assert!(family.contains(&child));

    daemon.signal(Signal::SIGKILL);
    let done = running.done();
    assert!(matches!(done.code, Some(125 | 255)) && done.err().contains("daemon"), "{done}");
    all_gone(&family, Duration::from_secs(5));

    let result = home.exec("local", "echo $PWD $KEPT; f");
    assert_eq!(result["output"], "/usr a b\nf\n", "{result:#}");
    assert_ne!(home.daemon(), Some(daemon));
}

#[test]
fn kill_9_ends_commands_on_machines_too() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &[]));
    home.run(["exec", "-b", &m.name, "--", "cd /usr; export KEPT=1"]).code(0);
    let mut running = home.start(["exec", "-b", &m.name, "--", "echo up; sleep 1000"]);
    running.wait_out("up");
    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    running.done();
    assert_eq!(home.output(&m.name, "echo $PWD $KEPT"), "/usr 1\n");
    wait::until("the end of the command on its machine", Duration::from_secs(60), || {
        let found = m.ssh().arg("pgrep -fx 'sleep 1000'").output().expect("ssh starts");
        found.stdout.is_empty().then_some(())
    });
}

#[test]
fn sigterm_and_sighup_end_it_in_order() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let home = Home::new();
        home.run(["exec", "--", "export KEPT=1"]).code(0);
        let mut running = home.start(["exec", "--", "echo up; sleep 1000"]);
        running.wait_out("up");
        let daemon = home.daemon().expect("it runs");
        let family = daemon.descendants();
        daemon.signal(signal);
        let done = running.done();
        assert_eq!(done.out(), "up\n");
        assert!(done.code == Some(130) && done.err().contains("qd: "), "{signal}: {done}");
        all_gone(&[family, vec![daemon]].concat(), Duration::from_secs(5));
        assert_eq!(home.output("local", "echo $KEPT"), "1\n");
    }
}

#[test]
fn stop_refuses_while_commands_run_unless_forced() {
    let home = Home::new();
    home.run(["stop"]);
    let mut running = home.start(["exec", "--", "echo up; sleep 1000"]);
    running.wait_out("up");
    let daemon = home.daemon().expect("it runs");
    let done = home.run(["stop"]);
    assert!(done.code == Some(1) && daemon.alive(), "{done}");
    home.run(["stop", "--force"]).code(0);
    running.done().code(130);
    all_gone(&[daemon], Duration::from_secs(5));
}

#[test]
fn sessions_can_be_listed_shown_reset_and_closed() {
    let home = Home::new();
    home.run(["exec", "-s", "work", "--", "cd /usr; export KEPT=1; f() { :; }; alias l=ls"]).code(0);
    let rows = home.run(["session", "--json"]).code(0).json();
    assert_eq!((&rows[0]["name"], &rows[0]["cwd"]), (&"work".into(), &"/usr".into()), "{rows:#}");
    let shown = home.run(["session", "show", "-s", "work"]).code(0).out();
    assert!(["KEPT", "f", "l=", "/usr"].iter().all(|text| shown.contains(text)), "{shown}");
    home.run(["session", "reset", "-s", "work"]).code(0);
    assert_eq!(home.run(["exec", "-s", "work", "--", "echo [$KEPT]"]).out(), "[]\n");
    home.run(["session", "close", "-s", "work"]).code(0);
    assert_eq!(home.run(["session", "--json"]).json(), serde_json::json!([]));
}

#[test]
fn what_is_ours_is_for_us_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.run(["exec", "--", "echo secret-output"]).code(0);
    let mut open = Vec::new();
    let mut folders = vec![home.state(), home.path().join("run"), home.path().join(".local/state/quarterdeck")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let meta = entry.metadata().expect("it was listed");
            if !meta.is_symlink() && meta.permissions().mode() & 0o077 != 0 {
                open.push(format!("{:o} {}", meta.permissions().mode(), entry.path().display()));
            }
            if meta.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    assert!(open.is_empty(), "{open:#?}");
}

#[test]
fn the_daemons_log_follows_qd_log_and_holds_no_secret() {
    let mut home = Home::new();
    home.set("QD_LOG", "debug");
    home.run(["exec", "-e", "PASSWORD=hunter2-secret", "--", "true"]).code(0);
    let log = home.state().join("log");
    let text = wait::until("the log", wait::CAP, || {
        let files = std::fs::read_dir(&log).ok()?.flatten();
        let text: String = files.filter_map(|f| std::fs::read_to_string(f.path()).ok()).collect();
        (!text.is_empty()).then_some(text)
    });
    assert!(!text.contains("hunter2-secret"), "{text}");
}
