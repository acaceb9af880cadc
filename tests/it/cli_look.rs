//! The commands about commands: ps, logs, wait, kill, backends, session, stop.

use crate::harness::pty::Pty;
use crate::harness::qd::Home;
use crate::harness::run::Running;
use crate::harness::wait;
use serde_json::Value;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

/// Starts a command and waits until it has said something; gives it with its id.
fn begun(home: &Home, command: &str) -> (Running, String) {
    let mut running = home.start(["exec", "--", command]);
    running.wait_out("\n");
    let rows = home.run(["ps", "--json"]).code(0).json();
    let newest = rows.as_array().and_then(|rows| rows.last()).expect("it runs").clone();
    (running, newest["id"].as_str().expect("an id").to_owned())
}

/// Runs a command and gives its id.
fn id(home: &Home, command: &str) -> String {
    home.exec("local", command)["process_id"].as_str().expect("an id").to_owned()
}

#[test]
fn ps_lists_what_runs_and_with_a_what_ended() {
    let home = Home::new();
    let (_running, id) = begun(&home, "echo begun; sleep 7010");
    let out = home.run(["ps"]).code(0).out();
    assert!(out.contains(&id) && out.contains("running") && out.contains("local") && out.contains("sleep 7010"), "{out}");
    home.run(["exec", "--", "printf '\\033[2J'; exit 3"]).code(3);
    assert_eq!(home.run(["ps"]).code(0).out().lines().count(), 2);
    let out = home.run(["ps", "-a"]).code(0).out();
    assert!(out.contains("exit 3"), "{out}");
    let rows = home.run(["ps", "-a", "--json"]).code(0).json();
    assert_eq!(rows.as_array().map(Vec::len), Some(2), "{rows:#}");
    home.run(["ps", "-b", "nope"]).code(64).says(&["nope", "local"]);
}

#[test]
fn what_a_backend_says_moves_no_cursor_here() {
    let home = Home::new();
    home.run(["exec", "--", "true '\x1b[2J\u{202e}'"]).code(0);
    let out = home.run(["ps", "-a"]).code(0).out();
    assert!(out.contains("\\x1b[2J\\u{202e}") && !out.contains('\x1b'), "{out}");
}

#[test]
fn a_table_fits_the_terminal_and_is_whole_when_piped() {
    let home = Home::new();
    let long = "x".repeat(300);
    home.run(["exec", "--", &format!("true {long}")]).code(0);
    assert!(home.run(["ps", "-a"]).code(0).out().contains(&long));
    let mut pty = home.terminal(["ps", "-a"], 10, 60);
    assert_eq!(pty.end().code(), Some(0));
    let screen = pty.wait_text("COMMAND");
    assert_eq!(screen.lines().filter(|line| !line.trim().is_empty()).count(), 2, "{screen}");
}

#[test]
fn logs_give_the_exact_bytes_or_clean_text() {
    let home = Home::new();
    let id = id(&home, r"printf '\033[31mred\033[0m\r\n'; printf 'b\000\377\n'; printf 'last error'");
    let raw = home.run(["logs", "--raw", &id]).code(0).out;
    assert_eq!(raw, b"\x1b[31mred\x1b[0m\r\nb\0\xff\nlast error");
    assert_eq!(home.run(["logs", &id]).code(0).out, b"red\nb\xff\nlast error");
    assert_eq!(home.run(["logs", &id, "--grep", "^r|error"]).code(0).out(), "red\nlast error\n");
    assert_eq!(home.run(["logs", "--raw", &id, "--offset", "15"]).code(0).out, raw[15..]);
    assert_eq!(home.run(["logs", &id, "--tail", "1"]).code(0).out(), "last error");
    home.run(["logs", "zzzz"]).code(64).says(&["zzzz"]);
}

#[test]
fn logs_follow_to_the_end() {
    let home = Home::new();
    let (running, id) = begun(&home, "echo one; until [ -e go ]; do sleep 0.05; done; echo two");
    let mut following = home.start(["logs", "-f", &id]);
    following.wait_out("one\n");
    std::fs::write(home.work().join("go"), "").expect("the folder is ours");
    assert_eq!(following.done().code(0).out(), "one\ntwo\n");
    running.done().code(0);
}

#[test]
fn logs_of_several_commands_are_told_apart() {
    let home = Home::new();
    let (a, b) = (id(&home, "echo one; printf two"), id(&home, "echo three"));
    let want = format!("{a} local| one\n{a} local| two\n{b} local| three\n");
    assert_eq!(home.run(["logs", &a, &b]).code(0).out(), want);
    let colored = home.run(["logs", "--color", "always", &a, &b]).code(0).out();
    assert!(colored.starts_with(&format!("\x1b[36m{a} local| \x1b[0mone\n")), "{colored:?}");
    home.run(["logs", &a, "zzzz"]).code(64).says(&["zzzz"]);
    let (first, one) = begun(&home, "echo begun; until [ -e go ]; do sleep 0.05; done; echo a; echo b");
    let (second, two) = begun(&home, "echo begun; until [ -e go ]; do sleep 0.05; done; echo c; echo d");
    let mut following = home.start(["logs", "-f", "--tail", "0", &one, &two]);
    let mut labelled = home.start(["logs", "-f", &one, &two]);
    labelled.wait_out(&format!("{two} local| begun"));
    drop(labelled);
    wait::until("both are followed", wait::CAP, || following.out_so_far().is_empty().then_some(()));
    std::fs::write(home.work().join("go"), "").expect("the folder is ours");
    following.wait_out(&format!("{two} local| d"));
    let out = following.done().code(0).out();
    let of = |id: &str| out.lines().filter_map(|line| line.strip_prefix(&format!("{id} local| "))).map(str::to_owned).collect::<Vec<_>>();
    assert!(of(&one).ends_with(&["a".into(), "b".into()]) && of(&two).ends_with(&["c".into(), "d".into()]), "{out}");
    first.done().code(0);
    second.done().code(0);
}

#[test]
fn grep_finds_the_last_lines_of_the_whole_log_and_follows() {
    let home = Home::new();
    // 6 MB, with matches far beyond what a tail by lines looks at.
    let command = "for i in 1 2 3; do echo hit $i; head -c 2000000 /dev/zero | tr '\\0' x; echo; done; until [ -e go ]; do sleep 0.05; done; echo hit 4; echo miss";
    let mut running = home.start(["exec", "--json=events", "--", &format!("echo begun; {command}")]);
    running.wait_out("begun");
    let id = home.run(["ps", "--json"]).json()[0]["id"].as_str().expect("an id").to_owned();
    home.run(["wait", "--until", "pattern=hit 3", &id]).code(0);
    assert_eq!(home.run(["logs", &id, "--grep", "^hit", "--tail", "2"]).code(0).out(), "hit 2\nhit 3\n");
    let mut following = home.start(["logs", "-f", &id, "--grep", "^hit", "--tail", "1"]);
    following.wait_out("hit 3\n");
    std::fs::write(home.work().join("go"), "").expect("the folder is ours");
    assert_eq!(following.done().code(0).out(), "hit 3\nhit 4\n");
    running.done().code(0);
    let end = home.run(["logs", &id, "--json", "--grep", "miss"]).code(0).out();
    let lines: Vec<Value> = end.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&lines[0]["text"], &lines[1]["process"]["exit_code"]), (&"miss".into(), &0.into()), "{end}");
    assert_eq!(lines[1]["next_offset"].as_u64(), lines[0]["offset"].as_u64().map(|at| at + 5));
    home.run(["logs", &id, "--tail", "9"]).code(0).says(&["1 MiB back"]);
    home.run(["logs", &id, "--offset", "99999999"]).code(0).says(&["bytes long"]);
}

#[test]
fn what_a_log_no_longer_keeps_is_told() {
    let home = Home::with_config("limits:\n  log_bytes: 1000000\n");
    let id = id(&home, "echo first; head -c 5000000 /dev/zero | tr '\\0' '\\n'; echo last");
    let done = home.run(["logs", &id]).code(0).says(&["are no longer kept"]);
    assert!(done.out().starts_with("first\n") && done.out().ends_with("\nlast\n"));
    let out = home.run(["logs", &id, "--json"]).code(0).out();
    let gap = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")).find(|line| line["missing"].is_u64());
    assert!(gap.is_some_and(|gap| gap["missing"].as_u64() > Some(3_000_000)));
}

#[test]
fn a_follow_says_once_that_the_daemon_is_gone_and_what_became_of_the_log() {
    let home = Home::new();
    let (running, id) = begun(&home, "echo begun; sleep 7016");
    let mut following = home.start(["logs", "-f", &id]);
    following.wait_out("begun");
    home.daemon().expect("a daemon").signal(nix::sys::signal::Signal::SIGKILL);
    drop(running.done());
    wait::until("it says so", wait::CAP, || following.err_so_far().contains("the daemon is gone").then_some(()));
    home.run(["exec", "--", "true"]).code(0);
    let done = following.done();
    assert_eq!((done.out().as_str(), done.err().matches("the daemon is gone").count()), ("begun\n", 1), "{done}");
}

/// Puts itself between the daemon's socket and those who connect from now on; gives the connections that it carries.
fn between(home: &Home) -> Arc<Mutex<Vec<UnixStream>>> {
    let (_, socket) = crate::daemon::named(home).expect("a daemon is named");
    let real = socket.with_extension("real");
    std::fs::rename(&socket, &real).expect("the folder is ours");
    let listener = UnixListener::bind(&socket).expect("its place is free");
    let carried = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&carried);
    let carry = |mut from: UnixStream, mut to: UnixStream| {
        std::thread::spawn(move || {
            // Either end may go at any time.
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
    };
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = UnixStream::connect(&real) else { return };
            let copy = |stream: &UnixStream| stream.try_clone().expect("descriptors are left");
            kept.lock().expect("no holder panics").push(copy(&near));
            carry(copy(&near), copy(&far));
            carry(far, near);
        }
    });
    carried
}

#[test]
fn a_follow_goes_on_where_it_was_when_its_connection_broke() {
    let home = Home::new();
    let (running, id) =
        begun(&home, "echo begun; until [ -e one ]; do sleep 0.05; done; printf 'half '; until [ -e two ]; do sleep 0.05; done; echo line");
    let carried = between(&home);
    let mut following = home.start(["logs", "-f", &id]);
    let mut matching = home.start(["logs", "-f", "--grep", "begun|half", &id]);
    following.wait_out("begun\n");
    matching.wait_out("begun\n");
    for file in ["one", "two"] {
        wait::until("both are connected", wait::CAP, || (carried.lock().expect("no holder panics").len() >= 2).then_some(()));
        for stream in carried.lock().expect("no holder panics").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        std::fs::write(home.work().join(file), "").expect("the folder is ours");
        following.wait_out(if file == "one" { "half " } else { "half line\n" });
    }
    let (done, matching) = (following.done().code(0), matching.done().code(0));
    assert_eq!((done.out().as_str(), done.err().matches("the daemon is gone").count()), ("begun\nhalf line\n", 1), "{done}");
    assert_eq!(matching.out(), "begun\nhalf line\n");
    running.done().code(0);
}

#[test]
fn wait_gives_the_codes() {
    let home = Home::new();
    let (three, five) = (id(&home, "exit 3"), id(&home, "exit 5"));
    home.run(["wait", &three]).code(3);
    home.run(["wait", &three, &five]).code(5);
    let (running, id) = begun(&home, "echo begun; until [ -e go ]; do sleep 0.05; done; exit 4");
    home.run(["wait", "--timeout", "100ms", &id]).code(124).says(&["have not ended"]);
    let waiting = home.start(["wait", "--json", &id]);
    std::fs::write(home.work().join("go"), "").expect("the folder is ours");
    let rows = waiting.done().code(4).json();
    assert_eq!((&rows[0]["state"], &rows[0]["exit_code"]), (&"ended".into(), &4.into()), "{rows:#}");
    running.done().code(4);
    home.run(["wait", "zzzz"]).code(64).says(&["zzzz"]);
}

#[test]
fn wait_sees_what_the_output_comes_to() {
    let home = Home::new();
    let done = id(&home, "echo listening on 80; exit 4");
    home.run(["wait", "--until", "pattern=on 80$", &done]).code(0);
    home.run(["wait", "--until", "pattern=on 81", &done]).code(1).says(&["ended before"]);
    home.run(["wait", "--until", "output", &done]).code(1).says(&["ended before"]);
    home.run(["wait", "--until", "quiet=100", &done]).code(0);
    home.run(["wait", "--until", "exit", &done]).code(4);
    let go = home.work().join("go");
    let (_running, id) =
        begun(&home, &format!("echo begun; until [ -e '{}' ]; do sleep 0.05; done; printf 'name? '; sleep 7012", go.display()));
    home.run(["wait", "--until", "quiet=50", &id]).code(0);
    home.run(["wait", "--until", "output", "--timeout", "100ms", &id]).code(124).says(&["time ran out"]);
    let waiting = home.start(["wait", "--json", "--until", "pattern=^name[?] $", &id]);
    std::fs::write(&go, "").expect("the folder is ours");
    assert_eq!(waiting.done().code(0).json()[0]["state"], "running");
    home.run(["wait", "--until", "output", "zzzz"]).code(64).says(&["zzzz"]);
    // From a byte on, or from now on: what was said before does not count.
    home.run(["wait", "--until", "pattern=begun", "--offset", "1", "--timeout", "100ms", &id]).code(124);
    home.run(["wait", "--until", "pattern=begun", "--offset", "end", "--timeout", "100ms", &id, &done]).code(124).says(&[&id, &done]);
    let rows = home.run(["wait", "--until", "output", "--offset", "0", "--json", &id, &done]).code(0).json();
    assert_eq!((&rows[0]["came"], &rows[1]["came"]), (&true.into(), &true.into()), "{rows:#}");
    home.run(["wait", "--offset", "1", &id]).code(64).says(&["--offset"]);
}

#[test]
fn wait_sees_that_a_command_wants_input() {
    let home = Home::new();
    let script = "echo begun; until [ -e go ]; do sleep 0.05; done; read -r a; echo got $a; sleep 0.3 | cat; (read -r b; echo got $b); until [ -e end ]; do sleep 0.05; done";
    let (mut pty, id) = open_stdin(&home, "local", script);
    home.run(["wait", "--until", "input", "--timeout", "300ms", &id]).code(124);
    let waiting = home.start(["wait", "--until", "input", "--json", &id]);
    std::fs::write(home.work().join("go"), "").expect("the folder is ours");
    assert_eq!(waiting.done().code(0).json()[0]["came"], true);
    home.run(["send", &id, "--submit", "one"]).code(0);
    pty.wait_text("got one");
    home.run(["wait", "--until", "input", &id]).code(0);
    let waiting = home.start(["send", &id, "--submit", "two"]);
    waiting.done().code(0);
    pty.wait_text("got two");
    let waiting = home.start(["wait", "--until", "input", &id]);
    std::fs::write(home.work().join("end"), "").expect("the folder is ours");
    waiting.done().code(1).says(&["ended before"]);
    assert_eq!(pty.end().code(), Some(0));
    let (_running, id) = begun(&home, "echo begun; sleep 7017");
    home.run(["wait", "--until", "input", &id]).code(1).says(&[&id, "no open stdin"]);
}

#[test]
fn kill_ends_a_command_and_its_caller_is_told() {
    let home = Home::new();
    let (running, id) = begun(&home, "echo begun; sleep 7011");
    home.run(["kill", &id]).code(0);
    let done = running.done().code(130);
    assert!(done.err().contains("ended by"), "{done}");
    let (running, id) = begun(&home, "trap 'echo usr1; exit 9' USR1; echo begun; while :; do sleep 0.05; done");
    home.run(["kill", "-s", "USR1", &id]).code(0).says(&["SIGUSR1 went to", &id]);
    assert!(running.done().code(9).out().contains("usr1"));
    // It was logged and no more: whoever asked was told that all was well.
    home.run(["kill", "-s", "USR1", &id]).code(1).says(&[&id, "has ended"]);
    home.run(["kill", "zzzz"]).code(64).says(&["zzzz"]);
}

#[test]
fn a_signal_is_told_with_who_got_it() {
    let home = Home::new();
    let (running, id) = begun(&home, "trap 'exit 9' USR1; sleep 7014 & echo begun; while :; do sleep 0.05; done");
    let rows = home.run(["kill", "-s", "CONT", "--json", &id]).code(0).json();
    assert!(rows[0]["signalled"].as_array().is_some_and(|pids| pids.len() >= 2), "{rows:#}");
    assert_eq!((&rows[0]["id"], &rows[0]["state"]), (&id.into(), &"running".into()), "{rows:#}");
    running.signal(nix::sys::signal::Signal::SIGINT);
    running.done().code(130);
}

#[test]
fn a_signal_to_a_command_that_waits_for_its_backend_is_refused() {
    // Takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("it is bound").port();
    let lines = format!("      type: ssh\n      host: 127.0.0.1\n      port: {port}\n      user: ada\n      connect_timeout: 60\n");
    let home = Home::with_config(&format!("terminal:\n  backends:\n    gpu:\n{lines}"));
    let waiting = home.start(["exec", "-b", "gpu", "--", "true"]);
    let id = wait::until("its row", wait::CAP, || {
        let rows = home.run(["ps", "--json"]);
        (rows.code == Some(0)).then(|| rows.json()[0]["id"].as_str().map(str::to_owned)).flatten()
    });
    home.run(["kill", "-s", "USR1", &id]).code(1).says(&[&id, "has not begun"]);
    home.run(["kill", &id]).code(0);
    waiting.done().code(130);
}

/// Starts a command with its stdin left open, as a person at a terminal does; gives the terminal with the command's id.
fn open_stdin(home: &Home, backend: &str, command: &str) -> (Pty, String) {
    let pty = home.terminal(["exec", "-i", "-b", backend, "--", command], 24, 80);
    pty.wait_text("begun");
    let rows = home.run(["ps", "--json"]).code(0).json();
    let row = rows.as_array().and_then(|rows| rows.iter().find(|row| row["reads_stdin"] == true)).expect("it runs").clone();
    (pty, row["id"].as_str().expect("an id").to_owned())
}

#[test]
fn send_writes_to_an_open_stdin_and_ends_it() {
    let home = Home::new();
    let (mut pty, id) = open_stdin(&home, "local", "echo begun; read -r line; echo \"line: $line\"; cat; echo end-$((1+1))");
    home.run(["send", &id, "--text", "o", "--submit", "ne"]).code(0);
    pty.wait_text("line: one");
    let chunk = home.run(["logs", "--json", &id]).code(0).out();
    let end: Value = serde_json::from_str(chunk.lines().last().expect("a last line")).expect("JSON");
    let offset = end["next_offset"].as_u64().expect("an offset");
    let old = (offset - 1).to_string();
    home.run(["send", &id, "--submit", "no", "--expect-offset", &old]).code(1).says(&["1 bytes more", "nothing was sent", "--offset"]);
    let row = home.run(["send", &id, "--submit", "two", "--expect-offset", &offset.to_string(), "--json"]).code(0).json();
    assert_eq!((&row["id"], &row["waiting"]), (&id.clone().into(), &0.into()), "{row:#}");
    pty.wait_text("two");
    home.run(["send", &id, "--eof"]).code(0);
    pty.wait_text("end-2");
    assert_eq!(pty.end().code(), Some(0));
    assert!(!home.run(["logs", &id]).out().contains("no\n"));
    home.run(["send", &id, "--submit", "late"]).code(1).says(&["has ended"]);
}

#[test]
fn send_says_what_waits_and_refuses_what_is_too_much() {
    let home = Home::new();
    let (mut pty, id) = open_stdin(&home, "local", "echo begun; until [ -e go ]; do sleep 0.05; done; wc -c");
    let text = "x".repeat(100_000);
    home.run(["send", &id, "--text", &text]).code(0).says(&["has not read it yet", "100000 bytes wait"]);
    let sending: Vec<Running> = (0..20).map(|_| home.start(["send", &id, "--text", &text])).collect();
    let refused: Vec<_> = sending.into_iter().map(Running::done).filter(|done| done.code == Some(1)).collect();
    assert!(!refused.is_empty() && refused.iter().all(|done| done.err().contains("nothing of this was taken")));
    std::fs::write(home.work().join("go"), "").expect("the folder is ours");
    wait::until("room for the end", wait::CAP, || (home.run(["send", &id, "--eof"]).code == Some(0)).then_some(()));
    pty.wait_text(&format!("{}", (21 - refused.len()) * 100_000));
    assert_eq!(pty.end().code(), Some(0));
    let (_running, id) = begun(&home, "echo begun; sleep 7015");
    home.run(["send", &id, "--submit", "x"]).code(1).says(&["no open stdin", "exec -i"]);
    home.run(["send", "zzzz", "--eof"]).code(64).says(&["zzzz"]);
    home.run(["send", &id]).code(64);
}

#[test]
fn backends_say_how_they_are() {
    let home =
        Home::with_config("terminal:\n  backends:\n    gpu:\n      type: ssh\n      host: 127.0.0.1\n      port: 1\n      user: ada\n");
    let out = home.run(["backends"]).code(0).out();
    assert!(out.contains("local") && out.contains("gpu") && out.contains("ada@127.0.0.1") && out.contains("idle"), "{out}");
    home.run(["backends", "connect", "gpu"]).code(69).says(&["gpu"]);
    let row = home.run(["backends", "show", "gpu", "--json"]).code(0).json();
    assert!(row["health"]["reason"].is_string(), "{row:#}");
    let out = home.run(["backends", "show", "gpu"]).code(0).out();
    assert!(out.contains("reason") && out.contains("refused"), "{out}");
    home.run(["backends", "show", "gp"]).code(64).says(&["gpu", "local"]);
    assert_eq!(home.run(["backends", "ls", "--json"]).code(0).json().as_array().map(Vec::len), Some(2));
}

#[test]
fn sessions_are_listed_shown_reset_and_closed() {
    let home = Home::new();
    home.run(["exec", "-s", "work", "--", "cd /; export QD_SEEN=1; greet() { :; }; alias ll='ls -l'"]).code(0);
    let rows = home.run(["session", "ls", "--json"]).code(0).json();
    let row = rows.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == "work")).expect("the session");
    assert_eq!((&row["backend"], &row["cwd"]), (&"local".into(), &"/".into()));
    let out = home.run(["session"]).code(0).out();
    assert!(out.contains("work") && out.contains("DIRECTORY"), "{out}");
    let out = home.run(["session", "show", "-s", "work"]).code(0).out();
    assert!(["QD_SEEN", "greet", "ll"].iter().all(|text| out.contains(text)), "{out}");
    home.run(["session", "reset", "-s", "work"]).code(0);
    assert_eq!(home.run(["exec", "-s", "work", "--", "echo [$QD_SEEN]"]).code(0).out(), "[]\n");
    home.run(["session", "close", "-s", "work"]).code(0);
    let left: Value = home.run(["session", "ls", "--json"]).code(0).json();
    assert!(left.as_array().is_some_and(|rows| rows.iter().all(|row| row["name"] != "work")), "{left:#}");
}

#[test]
fn a_session_in_use_is_not_closed() {
    let home = Home::new();
    let (_running, _) = begun(&home, "echo begun; sleep 7012");
    home.run(["session", "close"]).code(1).says(&["main"]);
}

#[test]
fn stop_is_refused_while_commands_run_and_forced_ends_them() {
    let home = Home::new();
    let (running, id) = begun(&home, "echo begun; sleep 7013");
    let daemon = home.daemon().expect("a daemon");
    home.run(["stop"]).code(1).says(&["1 command is running", &id, "--force"]);
    assert!(daemon.alive());
    home.run(["stop", "--force"]).code(0).says(&["has stopped"]);
    assert!(!daemon.alive(), "the daemon is still there");
    running.done().code(130).says(&["daemon"]);
    home.run(["stop"]).code(0).says(&["no daemon is running"]);
    assert_eq!(home.run(["exec", "--", "echo again"]).code(0).out(), "again\n");
}

#[test]
fn serve_says_where_it_listens() {
    let home = Home::new();
    let serving = home.start(["serve"]);
    wait::until("its first words", wait::CAP, || serving.err_so_far().contains("listen").then_some(()));
    assert_eq!(home.run(["exec", "--", "echo x"]).code(0).out(), "x\n");
    serving.signal(nix::sys::signal::Signal::SIGTERM);
    serving.done().code(0);
}
