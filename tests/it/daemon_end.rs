//! The real daemon ends: on signals, on `qd stop`.
//!
//! Invariant: after the end nothing names a daemon any more, and the next client starts a new one.

use crate::daemon_home::{Home, kill, text, until_gone};
use quarterdeck::protocol::lock::is_held;
use rustix::process::Signal;

fn ended(home: &Home, socket: &std::path::Path) {
    assert!(!socket.exists(), "the socket is gone");
    assert!(home.lock().is_none(), "the lock file names nobody");
    assert!(!is_held(&home.lock_file()).unwrap(), "the lock is free");
}

#[test]
fn term_and_hup_end_it_in_order() {
    for signal in [Signal::TERM, Signal::HUP] {
        let home = Home::new();
        assert!(home.run(&["ps"]).status.success());
        let daemon = home.daemon();
        kill(daemon.pid, signal);
        until_gone(daemon.pid);
        ended(&home, &daemon.socket);
        let log = std::fs::read_to_string(home.path(".local/state/quarterdeck/log/qd.log")).unwrap();
        assert!(log.trim_end().ends_with("ended"), "{log}");
        assert!(home.run(&["ps"]).status.success());
        assert_ne!(home.daemon().pid, daemon.pid);
    }
}

#[test]
fn int_and_quit_are_left_alone() {
    let home = Home::new();
    assert!(home.run(&["ps"]).status.success());
    let pid = home.daemon().pid;
    kill(pid, Signal::INT);
    kill(pid, Signal::QUIT);
    assert!(home.run(&["ps"]).status.success());
    assert_eq!(home.daemon().pid, pid);
}

#[test]
fn stop_waits_until_it_is_gone() {
    let home = Home::new();
    assert!(home.run(&["ps"]).status.success());
    let daemon = home.daemon();
    let output = home.run(&["stop"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    ended(&home, &daemon.socket);
    for _ in 0..3 {
        assert!(home.run(&["ps"]).status.success());
        assert!(home.run(&["stop"]).status.success());
    }
}

#[test]
fn stop_ends_a_daemon_whose_socket_was_removed() {
    let home = Home::new();
    assert!(home.run(&["ps"]).status.success());
    let daemon = home.daemon();
    std::fs::remove_file(&daemon.socket).unwrap();
    let output = home.run(&["stop"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    until_gone(daemon.pid);
    ended(&home, &daemon.socket);
}

#[test]
fn a_command_is_ended_and_its_caller_told() {
    let home = Home::new();
    let mut caller = home.qd(&["exec", "--", "echo here; sleep 1000"]);
    let mut caller = caller.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(caller.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "here\n");
    let daemon = home.daemon();
    let refused = home.run(&["stop"]);
    assert!(!refused.status.success(), "a command runs");
    kill(daemon.pid, Signal::TERM);
    assert_eq!(caller.wait().unwrap().code(), Some(130));
    until_gone(daemon.pid);
    ended(&home, &daemon.socket);
}
