//! The daemon as a program: what it takes from the client that starts it, which config is in force, how it is found and ended.

use crate::harness::procs::Proc;
use crate::harness::qd::Home;
use crate::harness::run::{Running, clean};
use crate::harness::wait;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the lock file names; none when no daemon is ready.
pub(crate) fn named(home: &Home) -> Option<(u32, PathBuf)> {
    let entries = std::fs::read_dir(home.state()).ok()?;
    let lock = entries.flatten().map(|entry| entry.path()).find(|path| path.extension() == Some(OsStr::new("lock")))?;
    let content: Value = serde_json::from_slice(&std::fs::read(lock).ok()?).ok()?;
    Some((content["pid"].as_u64()? as u32, content["socket"].as_str()?.into()))
}

#[track_caller]
fn found(home: &Home) -> (Proc, PathBuf) {
    home.run(["backends"]).code(0);
    let (pid, socket) = named(home).expect("a daemon is named");
    (Proc::find(pid).expect("it lives"), socket)
}

#[track_caller]
fn ends(daemon: Proc) {
    wait::until("the end of the daemon", wait::CAP, || (!daemon.alive()).then_some(()));
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn socket_and_lock_are_private_and_go_with_the_daemon() {
    let home = Home::new();
    let (daemon, socket) = found(&home);
    assert_eq!((mode(&socket), mode(socket.parent().expect("a folder"))), (0o600, 0o700));
    home.run(["stop"]).code(0);
    assert!(!daemon.alive() && !socket.exists() && named(&home).is_none(), "stop waits until all is gone");
    for _ in 0..3 {
        found(&home);
        home.run(["stop"]).code(0);
    }
}

#[test]
fn clients_that_would_put_the_socket_elsewhere_find_it_where_it_is() {
    let home = Home::new();
    let (daemon, _) = found(&home);
    for name in ["QD_RUNTIME_DIR", "XDG_RUNTIME_DIR", "TMPDIR"] {
        let mut command = home.command(["backends"]);
        command.env(name, home.path().join("elsewhere"));
        Running::start(command, Vec::new()).done().code(0);
        assert_eq!(found(&home).0, daemon, "{name}");
    }
}

/// Agents start a client with its pipes, its variables and its ignored signals; what of it reached the daemon would be held
/// open for ever, be taken for a child of that agent's command, or make every later command deaf to Ctrl-C.
#[test]
fn the_daemon_takes_nothing_over_from_the_client_that_starts_it() {
    let home = Home::new();
    let mut command = clean(OsStr::new("/bin/sh"));
    command.args(["-c", "exec 7>&1; trap '' INT QUIT TSTP USR1; exec \"$0\" backends", env!("CARGO_BIN_EXE_qd")]);
    command.envs(home.command::<&str>([]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("QD_PROCESS", "k7f3").env("QD_SESSION", "other").env("AI_AGENT", "x").current_dir(home.work());
    // Its end includes the end of everything that holds descriptor 7.
    Running::start(command, Vec::new()).done().code(0);
    let (daemon, _) = found(&home);
    let proc = |name: &str| PathBuf::from(format!("/proc/{}/{name}", daemon.pid));
    let read = |name: &str| std::fs::read_to_string(proc(name)).expect("it lives");
    let environ = read("environ");
    for name in ["QD_PROCESS=", "QD_SESSION=", "AI_AGENT="] {
        assert!(!environ.split('\0').any(|variable| variable.starts_with(name)), "{name}");
    }
    assert_eq!(std::fs::read_link(proc("cwd")).expect("it lives"), Path::new("/"));
    let ignored = read("status").lines().find_map(|line| line.strip_prefix("SigIgn:").map(str::trim).map(str::to_owned));
    let ignored = u64::from_str_radix(&ignored.expect("Linux tells"), 16).expect("hex");
    let deaf = [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTSTP, Signal::SIGUSR1].map(|signal| ignored >> (signal as u32 - 1) & 1);
    assert_eq!(deaf, [0; 4], "{ignored:x}");
    let stat = read("stat");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    assert_eq!(fields[3..5], [daemon.pid.to_string().as_str(), "0"], "a session of its own, without a terminal");
}

#[test]
fn a_bad_config_is_told_whole_by_the_client_that_starts_the_daemon() {
    let home = Home::new();
    std::fs::write(home.work().join("bad.yaml"), "nonsense: 1\nrubbish: 2\n").expect("the folder is ours");
    home.run(["--config", "bad.yaml", "backends"]).code(78).says(&["bad.yaml:1", "nonsense", "bad.yaml:2", "rubbish"]);
    assert!(named(&home).is_none());
    found(&home);
}

#[test]
fn another_config_than_the_one_in_force_is_refused_naming_both() {
    let home = Home::new();
    for name in ["one.yaml", "two.yaml"] {
        std::fs::write(home.work().join(name), "idle_exit: 10m\n").expect("the folder is ours");
    }
    home.run(["--config", "one.yaml", "backends"]).code(0);
    home.run(["--config", "two.yaml", "backends"]).code(78).says(&["one.yaml", "two.yaml", "qd stop"]);
    home.run(["backends"]).code(0);
    // The same file under another name.
    let link = home.path().join("link.yaml");
    std::os::unix::fs::symlink(home.work().join("one.yaml"), &link).expect("the folder is ours");
    let mut command = home.command(["backends"]);
    command.env("QD_CONFIG", link);
    Running::start(command, Vec::new()).done().code(0);
}

#[test]
fn a_daemon_in_the_foreground_is_found_and_a_second_one_refused() {
    let home = Home::new();
    let serving = home.start(["serve"]);
    let (pid, _) = wait::until("it listens", wait::CAP, || named(&home));
    assert_eq!(pid, serving.pid());
    let second = home.run(["serve"]);
    assert!(second.code != Some(0) && second.err().contains(&pid.to_string()), "{second}");
    assert_eq!(found(&home).0.pid, pid);
    serving.signal(Signal::SIGINT);
    serving.done().code(0);
    assert!(named(&home).is_none());
}

/// A runner that is put into a container from outside has a session of number 0 there.
#[test]
fn a_daemon_whose_session_has_its_leader_outside_the_container_works() {
    let home = Home::new();
    let script = "\"$0\" serve & until [ -s \"$(echo \"$QD_STATE_DIR\"/*.lock)\" ]; do sleep 0.05; done\n\
        cut -d ' ' -f 6 /proc/self/stat; \"$0\" exec -- 'sleep 0 & echo hi' && \"$0\" ps --json && \"$0\" stop; wait";
    let qd = home.command(["serve"]);
    let mut command = clean(OsStr::new("unshare"));
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, env!("CARGO_BIN_EXE_qd")]);
    command.envs(qd.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(home.work());
    let done = Running::start(command, Vec::new()).done();
    if !nix::unistd::geteuid().is_root() && done.code != Some(0) {
        eprintln!("skipped: a process namespace needs root: {}", done.err());
        return;
    }
    let done = done.code(0);
    assert!(done.out().starts_with("0\nhi\n"), "{done}");
    let log = std::fs::read_to_string(home.state().join("log/qd.log")).expect("there is a log");
    assert!(!log.contains("panicked") && !done.err().contains("panicked"), "{done}\n{log}");
}

#[test]
fn signals_that_are_not_meant_for_it_leave_a_daemon_alone() {
    let home = Home::new();
    let (daemon, _) = found(&home);
    for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGTSTP, Signal::SIGPIPE] {
        daemon.signal(signal);
        assert_eq!(found(&home).0, daemon, "{signal}");
    }
}

#[test]
fn a_killed_daemon_leaves_a_socket_that_troubles_nobody() {
    let home = Home::new();
    let (daemon, socket) = found(&home);
    daemon.signal(Signal::SIGKILL);
    ends(daemon);
    assert!(socket.exists(), "nobody could remove it");
    assert_ne!(found(&home).0, daemon);
}

#[test]
fn a_removed_runtime_folder_costs_no_command() {
    let home = Home::new();
    let (daemon, socket) = found(&home);
    std::fs::remove_dir_all(socket.parent().expect("a folder")).expect("it is ours");
    wait::until("the socket is there again", wait::CAP, || socket.exists().then_some(()));
    assert_eq!(found(&home).0, daemon);
}

#[test]
fn a_daemon_that_does_not_answer_is_named_and_can_be_ended() {
    let home = Home::new();
    let (daemon, _) = found(&home);
    daemon.signal(Signal::SIGSTOP);
    let deaf = home.run(["backends"]);
    assert!(deaf.code == Some(125) && deaf.err().contains(&daemon.pid.to_string()), "{deaf}");
    assert!(deaf.err().contains("qd stop --force"), "{deaf}");
    home.run(["stop", "--force"]).code(0);
    ends(daemon);
    found(&home);
}

/// A daemon that this version cannot talk to, as one of an older `qd` would be after an upgrade.
#[test]
fn a_daemon_of_another_protocol_is_told_with_the_command_that_repairs_it_and_that_command_does() {
    let home = Home::new();
    found(&home);
    home.run(["stop"]).code(0);
    let lock = std::fs::read_dir(home.state()).expect("ours").flatten().map(|entry| entry.path());
    let lock = lock.into_iter().find(|path| path.extension() == Some(OsStr::new("lock"))).expect("it stays");
    let script = r#"
import fcntl, json, os, signal, socket, struct, sys
lock = open(sys.argv[1], "r+")
fcntl.flock(lock, fcntl.LOCK_EX)
path = sys.argv[2]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
lock.write(json.dumps({"pid": os.getpid(), "socket": path, "version": "9.0.0"}))
lock.flush()
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
while True:
    client, _ = listener.accept()
    client.recv(65536)
    text = json.dumps({"reason": "protocol", "message": "it speaks protocol 9: end it with `qd stop`, then run this command again"}).encode()
    try:
        client.sendall(struct.pack(">IBI", len(text) + 5, 3, 0) + text)
    except OSError:
        pass
    client.close()
"#;
    let mut command = clean(OsStr::new("python3"));
    command.args(["-c", script]).arg(&lock).arg(home.path().join("run/old.sock"));
    let old = Running::start(command, Vec::new());
    wait::until("it listens", wait::CAP, || named(&home));
    home.run(["backends"]).code(125).says(&["protocol 9", "qd stop"]);
    home.run(["stop"]).code(0);
    old.done_within(Duration::from_secs(5)).code(7);
    found(&home);
}
