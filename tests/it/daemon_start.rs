//! The real program finds its daemon or starts it.
//!
//! Invariant: whatever happens at the same moment, one home has one daemon.

use crate::daemon_home::{Home, kill, text, until, until_gone};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

fn mode(path: &std::path::Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn eight_cold_starts_make_one_daemon() {
    let home = Home::new();
    let clients: Vec<_> =
        (0..8).map(|_| home.qd(&["ps", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()).collect();
    for client in clients {
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let daemon = home.daemon();
    let log = std::fs::read_to_string(home.path(".local/state/quarterdeck/log/qd.log")).unwrap();
    assert_eq!(log.matches("listening").count(), 1, "{log}");
    assert_eq!((mode(&daemon.socket), mode(daemon.socket.parent().unwrap()), mode(&home.lock_file())), (0o600, 0o700, 0o600));
}

#[test]
fn clients_with_other_environments_find_the_same_daemon() {
    let home = Home::new();
    assert!(home.run(&["ps"]).status.success());
    let first = home.daemon().pid;
    let elsewhere = home.path("elsewhere");
    for (name, value) in [("QD_RUNTIME_DIR", elsewhere.as_os_str()), ("XDG_RUNTIME_DIR", elsewhere.as_os_str()), ("LANG", "C".as_ref())] {
        assert!(home.qd(&["ps"]).env(name, value).output().unwrap().status.success());
        assert_eq!(home.daemon().pid, first, "{name}");
    }
}

#[test]
fn a_killed_daemon_is_replaced() {
    let home = Home::new();
    assert!(home.run(&["ps"]).status.success());
    let first = home.daemon();
    kill(first.pid, Signal::KILL);
    until_gone(first.pid);
    assert!(first.socket.exists(), "a killed daemon leaves its socket");
    assert!(home.run(&["ps"]).status.success());
    assert_ne!(home.daemon().pid, first.pid);
}

#[test]
fn a_daemon_holds_nothing_of_the_client_that_started_it() {
    let home = Home::new();
    // Everything that the shell gives on (descriptor 5 is our own output pipe) must be closed, or `output` never returns.
    let script = format!("exec 5>&1; trap '' INT QUIT; cd /tmp; {} ps", env!("CARGO_BIN_EXE_qd"));
    let mut shell = home.qd(&[]);
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", &script]).env_clear().envs(shell.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.stdin(Stdio::null());
    let output = command.env("QD_PROCESS", "k7f3").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let pid = home.daemon().pid;
    let proc = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    assert!(!proc("environ").contains("QD_PROCESS"), "it would be taken for a child of that command");
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), std::path::Path::new("/"));
    let status = proc("status");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    assert_eq!(ignored & (1 << 1 | 1 << 2), 0, "commands would inherit ignored SIGINT and SIGQUIT: {ignored:x}");
    let stat = proc("stat");
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    assert_eq!((fields[3], fields[4]), (pid.to_string().as_str(), "0"), "a session of its own, without a terminal");
}

#[test]
fn a_bad_config_is_told_whole_by_the_client() {
    let home = Home::new();
    std::fs::write(home.path("bad.yaml"), "nonsense: 1\nrubbish: 2\n").unwrap();
    let output = home.run(&["--config", "bad.yaml", "ps"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("bad.yaml:1") && said.contains("nonsense") && said.contains("rubbish"), "{said}");
    assert!(home.lock().is_none());
    assert!(home.run(&["ps"]).status.success(), "without it all is well");
}

#[test]
fn another_config_than_the_running_one_is_refused_naming_both() {
    let home = Home::new();
    for name in ["one.yaml", "two.yaml"] {
        std::fs::write(home.path(name), "idle_exit: 10m\n").unwrap();
    }
    assert!(home.run(&["--config", "one.yaml", "ps"]).status.success());
    let other = home.run(&["--config", "two.yaml", "ps"]);
    let said = text(&other.stderr);
    assert_eq!(other.status.code(), Some(78), "{said}");
    assert!(said.contains("one.yaml") && said.contains("two.yaml") && said.contains("qd stop"), "{said}");
    assert!(home.run(&["ps"]).status.success(), "who names none takes the running one");
    let same = home.path("one.yaml");
    assert!(home.qd(&["ps"]).env("QD_CONFIG", same).output().unwrap().status.success(), "the same by another way");
}

#[test]
fn a_daemon_in_the_foreground_is_found_and_a_second_one_refused() {
    let home = Home::new();
    let mut serving = home.qd(&["serve"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("it listens", || home.lock().is_some());
    assert_eq!(home.daemon().pid, i32::try_from(serving.id()).unwrap());
    let second = home.run(&["serve"]);
    assert!(!second.status.success());
    assert!(text(&second.stderr).contains(&serving.id().to_string()), "{}", text(&second.stderr));
    assert!(home.run(&["ps"]).status.success());
    kill(home.daemon().pid, Signal::INT);
    assert!(serving.wait().unwrap().success(), "Ctrl-C ends it in order");
    assert!(home.lock().is_none());
}
