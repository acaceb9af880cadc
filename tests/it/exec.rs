//! `qd exec` through the real binary on `local`: codes, streams, stdin, endings, the JSON result.

use crate::harness::procs::Proc;
use crate::harness::qd::Home;
use crate::harness::run::Running;
use crate::harness::wait;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::time::Duration;

/// Reads a process id that a command wrote into a file, once it is whole.
pub(crate) fn pid_in(home: &Home, file: &str) -> Proc {
    let path = home.path().join(file);
    wait::until("the pid that the command writes", wait::CAP, || {
        let text = std::fs::read_to_string(&path).ok()?;
        Proc::find(text.strip_suffix('\n')?.trim().parse().ok()?)
    })
}

#[test]
fn exit_codes_pass_through() {
    let home = Home::new();
    for (command, code) in [("true", 0), ("exit 3", 3), ("false", 1), ("no-such-command-xyz", 127), ("/etc/passwd", 126), ("exit 255", 255)]
    {
        assert_eq!(home.run(["exec", "--", command]).code, Some(code), "{command}");
    }
    assert_eq!(home.run(["exec", "--", "kill -9 $$"]).code, Some(137));
    assert_eq!(home.run(["exec", "--", "kill -TERM $$"]).code, Some(143));
}

#[test]
fn stdout_and_stderr_come_apart_and_byte_for_byte() {
    let home = Home::new();
    let done = home.run(["exec", "--", "printf 'o\\0\\377\\r\\n '; printf 'e\\001\\n' >&2"]);
    assert_eq!((done.code, done.out.as_slice(), done.err.as_slice()), (Some(0), &b"o\0\xff\r\n "[..], &b"e\x01\n"[..]), "{done}");
}

#[test]
fn stdin_is_forwarded_when_asked_and_empty_otherwise() {
    let home = Home::new();
    let done = home.run_with(["exec", "--", "cat; echo end"], "not for the command");
    assert_eq!((done.code, done.out().as_str()), (Some(0), "end\n"), "{done}");
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let done = home.run_with(["exec", "-i", "--", "cat"], bytes.clone());
    assert!(done.code == Some(0) && done.out == bytes, "{} bytes back, code {:?}", done.out.len(), done.code);
    std::fs::write(home.work().join("in"), "from a file").expect("the folder is ours");
    assert_eq!(home.run(["exec", "--stdin-file", "in", "--", "cat"]).out(), "from a file");
    // A command that reads none of it ends all the same.
    assert_eq!(home.run_with(["exec", "-i", "--", "exit 4"], bytes).code, Some(4));
}

#[test]
fn one_word_is_shell_text_and_several_are_an_argument_list() {
    let home = Home::new();
    let out = |args: &[&str]| home.run([&["exec"], args].concat()).code(0).out();
    assert_eq!(out(&["--", "echo $((1+2))"]), "3\n");
    assert_eq!(out(&["--", "printf", "%s|", "a b", "*", "it's", "$HOME", "", "-x"]), "a b|*|it's|$HOME||-x|");
    assert_eq!(out(&["--shell", "--", "echo", "$((1+2))"]), "3\n");
    std::fs::write(home.work().join("script"), "echo one\necho \"$((1+1))\"\n").expect("the folder is ours");
    assert_eq!(out(&["--command-file", "script"]), "one\n2\n");
    assert_eq!(home.run_with(["exec", "--command-file", "-"], "echo from stdin").code(0).out(), "from stdin\n");
}

#[test]
fn state_carries_over_within_a_session_and_not_between_sessions() {
    let home = Home::new();
    home.run(["exec", "--", "cd /usr; export A='x y'; f() { echo f-$1; }; alias l='echo al'; shopt -s nullglob; P=plain"]).code(0);
    assert_eq!(home.output("local", "pwd; echo $A $P; f 1\nl; shopt -q nullglob && echo ng"), "/usr\nx y plain\nf-1\nal\nng\n");
    assert_eq!(home.run(["exec", "-s", "other", "--", "echo [$A]"]).out(), "[]\n");
    let mut other = home.command(["exec", "--", "export B=1"]);
    other.env("QD_SESSION", "third");
    Running::start(other, Vec::new()).done().code(0);
    assert_eq!(home.run(["exec", "-s", "third", "--", "echo $B"]).out(), "1\n");
    assert_eq!(home.run(["exec", "--", "echo \"[$B]\""]).out(), "[]\n");
}

#[test]
fn a_command_may_have_its_own_directory_and_variables() {
    let home = Home::new();
    home.run(["exec", "--", "cd /usr; export A=old"]).code(0);
    assert_eq!(home.run(["exec", "-C", "/etc", "-e", "A=new", "-e", "B=x=y z", "--", "pwd; echo $A $B"]).out(), "/etc\nnew x=y z\n");
    assert_eq!(home.run(["exec", "--", "pwd; echo $A [$B]"]).out(), "/usr\nold []\n");
    let done = home.run(["exec", "-C", "/no/such/dir", "--", "echo ran"]).code(126).says(&["/no/such/dir"]);
    assert_eq!(done.out(), "");
    assert_eq!(home.run(["exec", "-C", "/etc/passwd", "--", "echo ran"]).code(126).out(), "");
}

#[test]
fn a_time_out_ends_the_whole_tree_and_keeps_what_was_written() {
    let home = Home::new();
    let command = "echo begun; setsid sh -c 'echo $$ >~/pid; exec sleep 1000' & sleep 1000";
    let done = home.run(["exec", "--timeout", "1s", "--", command]).code(124).says(&["qd: "]);
    assert_eq!(done.out(), "begun\n");
    let path = home.path().join("pid");
    let pid = std::fs::read_to_string(path).expect("the command wrote it").trim().parse().expect("a pid");
    assert!(Proc::find(pid).is_none(), "the child that left the group is alive");
    let result = home.exec_with(&["--timeout", "500ms"], "echo so far; sleep 1000");
    assert_eq!((&result["outcome"], &result["output"]), (&"timed_out".into(), &"so far\n".into()), "{result:#}");
    assert!(result.get("exit_code").is_none() && result["timeout_ms"] == 500, "{result:#}");
}

#[test]
fn ctrl_c_ends_the_command_and_its_tree() {
    let home = Home::new();
    let mut running = home.start(["exec", "--", "echo up; sh -c 'echo $$ >~/pid; exec sleep 1000'"]);
    running.wait_out("up");
    let child = pid_in(&home, "pid");
    running.signal(Signal::SIGINT);
    let done = running.done().code(130);
    assert_eq!(done.out(), "up\n");
    assert!(!child.alive(), "the command's child outlived it");
    assert_eq!(home.output("local", "echo next"), "next\n");
}

#[test]
fn a_second_ctrl_c_leaves_at_once() {
    let home = Home::new();
    let mut running = home.start(["exec", "--", "trap '' TERM INT; echo up; echo $$ >~/pid; while :; do sleep 0.1; done"]);
    running.wait_out("up");
    let child = pid_in(&home, "pid");
    running.signal(Signal::SIGINT);
    wait::until("the first one has begun to end it", wait::CAP, || {
        let rows = home.run(["ps", "--json"]).json();
        (rows[0]["state"] != "running").then_some(())
    });
    running.signal(Signal::SIGINT);
    running.done().code(130);
    wait::until("the end of the stubborn command", wait::CAP, || (!child.alive()).then_some(()));
}

#[test]
fn a_client_that_is_killed_takes_its_command_with_it() {
    let home = Home::new();
    let mut running = home.start(["exec", "--", "echo up; echo $$ >~/pid; sleep 1000"]);
    running.wait_out("up");
    let child = pid_in(&home, "pid");
    running.signal(Signal::SIGKILL);
    running.done();
    wait::until("the end of the command", wait::CAP, || (!child.alive()).then_some(()));
    let row = wait::until("its row", wait::CAP, || {
        let rows = home.run(["ps", "-a", "--json"]).json();
        rows.as_array()?.first().filter(|row| row["state"] == "ended").cloned()
    });
    assert_eq!((&row["outcome"], &row["ended_by"]), (&"cancelled".into(), &"client_gone".into()), "{row:#}");
}

#[test]
fn the_result_has_the_documented_fields() {
    let home = Home::new();
    let result = home.exec("local", "cd /usr; echo out; echo err >&2; exit 3");
    for (field, want) in [
        ("backend", Value::from("local")),
        ("session", "main".into()),
        ("outcome", "exited".into()),
        ("exit_code", 3.into()),
        ("output", "out\nerr\n".into()),
        ("truncated", false.into()),
        ("total_bytes", 8.into()),
        ("next_offset", 8.into()),
        ("cwd", "/usr".into()),
        ("warnings", Value::Array(Vec::new())),
    ] {
        assert_eq!(result[field], want, "{field} in {result:#}");
    }
    let log = result["output_path"].as_str().expect("a log");
    assert_eq!(std::fs::read(log).expect("the log is there"), b"out\nerr\n");
    assert!(
        result["process_id"].as_str().is_some_and(|id| id.len() >= 4) && result["generation"].is_u64() && result["duration_ms"].is_u64()
    );

    let result = home.exec("local", "kill -9 $$");
    assert_eq!((&result["outcome"], &result["signal"]), (&"signaled".into(), &"SIGKILL".into()), "{result:#}");
    assert!(result.get("exit_code").is_none(), "{result:#}");
    let result = home.exec("local", "grep nothing /dev/null");
    assert!(result["exit_code"] == 1 && result["exit_code_meaning"].is_string(), "{result:#}");
}

#[test]
fn a_cancelled_command_says_who_ended_it() {
    let home = Home::new();
    let start = || {
        let running = home.start(["exec", "--json", "--", "echo up; echo $$ >~/pid; sleep 1000"]);
        pid_in(&home, "pid");
        std::fs::remove_file(home.path().join("pid")).expect("it was there");
        running
    };
    let running = start();
    running.signal(Signal::SIGINT);
    let result = running.done().code(130).json();
    assert_eq!((&result["outcome"], &result["ended_by"], &result["output"]), (&"cancelled".into(), &"client".into(), &"up\n".into()));
    let running = start();
    let id = home.run(["ps", "--json"]).json()[0]["id"].as_str().expect("an id").to_owned();
    home.run(["kill", &id]).code(0);
    let result = running.done().code(130).json();
    // There is no terminal here, so whoever kills is a script and no operator.
    assert_eq!((&result["outcome"], &result["ended_by"]), (&"cancelled".into(), &"agent".into()), "{result:#}");
}

#[test]
fn events_come_in_order_one_object_a_line() {
    let home = Home::new();
    let done = home.run(["exec", "--json=events", "--", "echo one; sleep 0.2; echo two; exit 2"]).code(2);
    let events: Vec<Value> = done.out().lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    assert_eq!(events.first().expect("events")["event"], "started");
    let last = events.last().expect("events");
    assert_eq!((&last["event"], &last["exit_code"]), (&"result".into(), &2.into()));
    let text: String = events.iter().filter(|e| e["event"] == "output").filter_map(|e| e["text"].as_str()).collect();
    assert_eq!(text, "one\ntwo\n");
}

#[test]
fn large_output_arrives_whole_and_the_result_is_cut() {
    let home = Home::new();
    let done = home.run(["exec", "--", "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo last"]).code(0);
    assert_eq!(done.out.len(), 30_000_006);
    let result = home.exec_with(&["--max-output", "1000"], "echo first; seq 100000; echo last");
    let output = result["output"].as_str().expect("text");
    assert!(
        result["truncated"] == true && output.starts_with("first\n") && output.ends_with("last\n") && output.len() < 2000,
        "{result:#}"
    );
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let home = Home::new();
    let mut command = home.command::<&str>([]);
    let qd = env!("CARGO_BIN_EXE_qd");
    let env: Vec<_> = command.get_envs().filter_map(|(k, v)| Some((k.to_owned(), v?.to_owned()))).collect();
    command = crate::harness::run::clean("bash".as_ref());
    command.envs(env).current_dir(home.work()).args(["-c", "\"$0\" exec -- 'while :; do echo line; done' | head -n 2", qd]);
    let done = Running::start(command, Vec::new()).done();
    assert_eq!((done.out().as_str(), done.err().as_str()), ("line\nline\n", ""), "{done}");
}

#[test]
fn many_commands_at_once_keep_their_outputs_apart() {
    let home = Home::new();
    let running: Vec<(usize, Running)> =
        (0..20).map(|i| (i, home.start(["exec", "--", &format!("echo a{i}; sleep 0.1; echo b{i}; exit {i}")]))).collect();
    for (i, one) in running {
        let done = one.done().code(i32::try_from(i).expect("small"));
        assert_eq!(done.out(), format!("a{i}\nb{i}\n"));
    }
}

#[test]
fn a_running_command_is_listed_read_waited_for_and_killed() {
    let home = Home::new();
    let mut running = home.start(["exec", "--", "echo hello; sleep 1000"]);
    running.wait_out("hello");
    let rows = home.run(["ps", "--json"]).json();
    assert_eq!((&rows[0]["state"], &rows[0]["backend"]), (&"running".into(), &"local".into()), "{rows:#}");
    let id = rows[0]["id"].as_str().expect("an id");
    assert!(home.run(["ps"]).code(0).out().contains("sleep 1000"));
    assert_eq!(home.run(["logs", id]).code(0).out(), "hello\n");
    home.run(["wait", id, "--timeout", "100ms"]).code(124);
    home.run(["kill", "-s", "STOP", id]).code(0);
    home.run(["kill", "-s", "CONT", id]).code(0);
    let waiting = home.start(["wait", id]);
    home.run(["kill", "--grace", "1s", id]).code(0);
    waiting.done().code(130);
    running.done().code(130);
    assert_eq!(home.run(["ps", "--json"]).json(), Value::Array(Vec::new()));
    home.run(["logs", "zzzz"]).code(64).says(&["zzzz"]);
}

#[test]
fn an_agent_has_a_deadline_and_an_operator_none() {
    let home = Home::with_config("terminal:\n  timeout: 1\n");
    let result = home.exec_with(&["--client", "agent-1"], "echo $AI_AGENT; sleep 1000");
    assert_eq!((&result["outcome"], &result["timeout_ms"]), (&"timed_out".into(), &1000.into()), "{result:#}");
    assert!(result["output"].as_str().is_some_and(|o| !o.trim().is_empty()), "AI_AGENT is not set: {result:#}");
    let mut pty = home.terminal(["exec", "--", "sleep 2; echo done after"], 10, 60);
    pty.wait_text("done after");
    assert_eq!(pty.end().code(), Some(0));
}

#[test]
fn a_command_knows_where_it_runs_and_has_no_terminal() {
    let home = Home::new();
    let out = home.output("local", "echo $QUARTERDECK $QD_BACKEND $QD_SESSION; read -r x </dev/tty || echo no tty");
    assert!(out.starts_with("1 local main\n") && out.ends_with("no tty\n"), "{out}");
}

#[test]
fn what_is_left_running_is_reported() {
    let home = Home::new();
    let result = home.exec("local", "sleep 1000 & echo $! >~/pid; echo up");
    assert_eq!(result["output"], "up\n");
    let left = pid_in(&home, "pid");
    let warning = &result["warnings"][0];
    assert_eq!(warning["code"], "orphans_left", "{result:#}");
    assert!(warning["pids"].as_array().is_some_and(|pids| pids.contains(&left.pid.into())), "{result:#}");
    left.signal(Signal::SIGKILL);
    assert!(wait::within(Duration::from_secs(5), || (!left.alive()).then_some(())).is_some());
}
