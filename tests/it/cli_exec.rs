//! `qd exec` with the real binary: bytes, codes, JSON, stdin, signals.

use crate::harness::pty::Pty;
use crate::harness::qd::Home;
use crate::harness::run::{Done, Running};
use crate::harness::wait;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs::File;
use std::process::Stdio;

fn events(done: &Done) -> Vec<Value> {
    done.out().lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// The rows of all commands that the home's daemon knows.
fn rows(home: &Home) -> Vec<Value> {
    home.run(["ps", "-a", "--json"]).code(0).json().as_array().cloned().unwrap_or_default()
}

/// Waits until the newest command has ended and gives its row.
fn ended(home: &Home) -> Value {
    wait::until("the end of the newest command", wait::CAP, || rows(home).pop().filter(|row| row["state"] == "ended"))
}

#[test]
fn a_result_of_json_is_one_line_and_keeps_the_code() {
    let home = Home::new();
    let done = home.run(["exec", "--json", "--", "echo out; echo err >&2; exit 7"]).code(7);
    assert_eq!(done.out().lines().count(), 1);
    let result = done.json();
    assert_eq!((&result["outcome"], &result["exit_code"], &result["output"]), (&"exited".into(), &7.into(), &"out\nerr\n".into()));
    assert_eq!((&result["backend"], &result["session"]), (&"local".into(), &"main".into()));
    assert!(result["process_id"].is_string() && result["warnings"].is_array() && result["hints"].is_array(), "{result:#}");
}

#[test]
fn a_single_word_can_be_a_list_too() {
    let home = Home::new();
    home.run(["exec", "--argv", "--", "echo a; echo b"]).code(127);
    // Without dashes the first word that is no flag begins the command.
    assert_eq!(home.run(["exec", "echo", "--json"]).code(0).out(), "--json\n");
}

#[test]
fn much_goes_both_ways_at_once() {
    let home = Home::new();
    let bytes: Vec<u8> = (0..8 << 20).map(|i: u32| (i % 251) as u8).collect();
    // The command writes a lot before it reads anything: neither side may wait for the other.
    let text = "head -c 4000000 /dev/zero; cat";
    let done = home.run_with(["exec", "-i", "--", text], bytes.clone()).code(0);
    assert_eq!(done.out.len(), 4_000_000 + bytes.len());
    assert!(done.out[4_000_000..] == bytes[..], "the bytes of stdin came back changed");
    // A command that reads none of it ends all the same.
    home.run_with(["exec", "-i", "--", "true"], bytes).code(0);
}

#[test]
fn a_command_file_is_in_no_argument_list() {
    let home = Home::new();
    let text = format!("X='{}'; echo ${{#X}}; tr '\\0' ' ' </proc/$PPID/cmdline | wc -c >&2", "x".repeat(300_000));
    let done = home.run_with(["exec", "--command-file", "-"], text).code(0);
    assert_eq!(done.out(), "300000\n");
}

#[test]
fn the_session_is_the_flags_then_the_environments() {
    let mut home = Home::new();
    home.set("QD_SESSION", "work");
    assert_eq!(home.run(["exec", "--json", "--", "true"]).code(0).json()["session"], "work");
    assert_eq!(home.run(["exec", "--json", "-s", "other", "--", "true"]).code(0).json()["session"], "other");
}

#[test]
fn who_names_itself_is_an_agent() {
    let mut home = Home::new();
    home.run(["exec", "--client", "bot-1", "--", "true"]).code(0);
    home.set("AI_AGENT", "bot-2");
    home.run(["exec", "--", "true"]).code(0);
    home.set("QD_CLIENT", "bot-3");
    home.run(["exec", "--", "true"]).code(0);
    let who: Vec<Value> = rows(&home).into_iter().map(|row| row["who"].clone()).collect();
    let names: Vec<&str> = who.iter().filter_map(|w| w["name"].as_str()).collect();
    assert_eq!(names, ["bot-1", "bot-2", "bot-3"]);
    assert!(who.iter().all(|w| w["kind"] == "agent"), "{who:?}");
}

#[test]
fn a_deadline_is_told_and_exits_with_124() {
    let home = Home::new();
    let done = home.run(["exec", "--timeout", "300ms", "--", "echo begun; sleep 7000"]).code(124).says(&["qd: timed out after"]);
    assert_eq!(done.out(), "begun\n");
    let result = home.run(["exec", "--json", "--timeout", "300ms", "--", "sleep 7000"]).code(124).json();
    assert_eq!((&result["outcome"], &result["timeout_ms"]), (&"timed_out".into(), &300.into()));
    assert!(result.get("exit_code").is_none(), "{result:#}");
}

#[test]
fn a_signal_is_told_and_exits_with_128_and_its_number() {
    let home = Home::new();
    home.run(["exec", "--", "kill -KILL $$"]).code(137).says(&["SIGKILL"]);
}

#[test]
fn interrupts_end_the_command_and_its_tree() {
    let home = Home::new();
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let mut running = home.start(["exec", "--", "sleep 7001 & echo $!; wait"]);
        running.wait_out("\n");
        let child: u32 = running.out_so_far().trim().parse().expect("a process id");
        running.signal(signal);
        running.done().code(code);
        let row = ended(&home);
        assert_eq!((&row["outcome"], &row["ended_by"]), (&"cancelled".into(), &"client".into()), "{row:#}");
        assert!(crate::harness::procs::Proc::find(child).is_none(), "a child of the command was left running");
    }
}

#[test]
fn a_signal_that_the_caller_ignores_stays_ignored() {
    let home = Home::new();
    let qd = home.command(["exec", "--", "echo begun; until [ -e go ]; do sleep 0.05; done; echo end"]);
    let mut command = std::process::Command::new("env");
    command.arg("--ignore-signal=HUP").arg(env!("CARGO_BIN_EXE_qd")).args(["exec", "--"]);
    command.arg("echo begun; until [ -e go ]; do sleep 0.05; done; echo end").current_dir(home.work());
    command.env_clear().envs(qd.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut running = Running::start(command, Vec::new());
    running.wait_out("begun");
    running.signal(Signal::SIGHUP);
    std::fs::write(home.work().join("go"), "").expect("the folder is ours");
    assert_eq!(running.done().code(0).out(), "begun\nend\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let home = Home::new();
    let mut command = home.command(["exec", "--", "yes"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut some = [0; 4];
    std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut some).expect("output");
    drop(child.stdout.take());
    let done = wait::until("its end", wait::CAP, || child.try_wait().expect("our child"));
    let mut err = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("piped"), &mut err).expect("it ends");
    assert_eq!((done.code(), err.as_str()), (Some(141), ""));
    assert_eq!(ended(&home)["outcome"], "cancelled");
    let full = File::options().write(true).open("/dev/full").expect("it is there");
    let mut command = home.command(["exec", "--", "echo x"]);
    let done = command.stdin(Stdio::null()).stdout(full).output().expect("it starts");
    assert_eq!(done.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&done.stderr).contains("failed to write to stdout"), "{done:?}");
}

#[test]
fn a_blocked_reader_holds_up_nobody_else_and_can_be_interrupted() {
    let home = Home::new();
    let mut command = home.command(["exec", "--", "yes"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let child = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null()).spawn().expect("it starts");
    drop(command);
    let mut child = child;
    wait::until("a command that runs", wait::CAP, || rows(&home).pop().filter(|row| row["state"] == "running"));
    assert_eq!(home.run(["exec", "--", "echo other"]).code(0).out(), "other\n");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGTERM).expect("it runs");
    let done = wait::until("its end", wait::CAP, || child.try_wait().expect("our child"));
    assert!(matches!(done.code(), Some(130 | 143)), "{done:?}");
    drop(reader);
}

#[test]
fn an_unknown_backend_names_the_known_ones() {
    let home = Home::with_config("terminal:\n  backends:\n    gpu:\n      type: ssh\n      host: 127.0.0.1\n      port: 1\n");
    let done = home.run(["exec", "-b", "gpuu", "--", "true"]).code(64).says(&["gpuu", "gpu", "local"]);
    assert!(done.out.is_empty());
    let error = home.run(["exec", "--json", "-b", "gpuu", "--", "true"]).code(64).says(&["gpuu"]).json();
    assert_eq!((&error["error"]["code"], &error["error"]["exit"]), (&"not_found".into(), &64.into()));
}

#[test]
fn a_backend_that_cannot_be_reached_exits_with_69() {
    let home = Home::with_config("terminal:\n  backends:\n    gpu:\n      type: ssh\n      host: 127.0.0.1\n      port: 1\n");
    home.run(["exec", "-b", "gpu", "--", "echo ran"]).code(69).says(&["gpu", "refused"]);
    let result = home.run(["exec", "--json", "-b", "gpu", "--", "echo ran"]).code(69).json();
    assert_eq!(result["outcome"], "backend_unavailable");
    assert!(result["reason"].is_string() && result.get("exit_code").is_none(), "{result:#}");
}

#[test]
fn events_tell_the_start_the_output_and_the_result() {
    let home = Home::new();
    let done = home.run(["exec", "--json=events", "--", r"printf 'a日\n'; printf '\377'; exit 2"]).code(2);
    let events = events(&done);
    assert_eq!((&events[0]["event"], events.last().map(|e| &e["event"])), (&"started".into(), Some(&"result".into())));
    let id = &events[0]["process_id"];
    let result = events.last().expect("a result");
    assert_eq!((&result["process_id"], &result["exit_code"]), (id, &2.into()));
    let output: Vec<&Value> = events.iter().filter(|e| e["event"] == "output").collect();
    assert_eq!(output[0]["offset"], 0);
    assert!(output.iter().any(|e| e["text"].as_str().is_some_and(|t| t.contains('日'))), "{output:?}");
    let error = home.run(["exec", "--json=events", "-b", "nope", "--", "true"]).code(64);
    assert_eq!(self::events(&error)[0]["event"], "error");
}

#[test]
fn the_meaning_of_a_code_is_told_to_people() {
    let home = Home::new();
    assert!(home.run(["exec", "--", "grep x /dev/null"]).code(1).err.is_empty());
    let mut pty: Pty = home.terminal(["exec", "--", "grep x /dev/null"], 10, 100);
    assert_eq!(pty.end().code(), Some(1));
    pty.wait_text("matched (not an error)");
    let result = home.run(["exec", "--json", "--", "grep x /dev/null"]).code(1).json();
    assert!(result["exit_code_meaning"].as_str().is_some_and(|m| m.contains("not an error")), "{result:#}");
}

#[test]
fn a_ctrl_c_on_the_terminal_is_one_interrupt() {
    let home = Home::new();
    let mut pty = home.terminal(["exec", "--", "echo begun; sleep 7002"], 10, 80);
    pty.wait_text("begun");
    pty.send("\x03");
    assert_eq!(pty.end().code(), Some(130));
    assert_eq!(ended(&home)["outcome"], "cancelled");
}

#[test]
fn a_daemon_that_dies_is_a_link_that_is_lost() {
    let home = Home::new();
    let mut running: Running = home.start(["exec", "--", "echo begun; sleep 7003"]);
    running.wait_out("begun");
    home.daemon().expect("a daemon").signal(Signal::SIGKILL);
    running.done().code(255).says(&["the daemon is gone", "unknown whether"]);
    assert_eq!(home.run(["exec", "--", "echo again"]).code(0).out(), "again\n");
}
