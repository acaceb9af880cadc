//! Background processes: what outlives links and daemons, is found again, and is never taken for something else.

use crate::harness::lab;
use crate::harness::qd::Home;
use crate::harness::wait;
use nix::sys::signal::Signal;
use std::time::Duration;

const CAP: Duration = Duration::from_secs(60);
/// Writes numbered lines until its file says stop, then exits with 7.
pub(crate) const WRITER: &str = "i=0; while [ ! -e ~/enough ]; do i=$((i+1)); echo \"line $i\"; sleep 0.02; done; exit 7";

/// Starts a command in the background; gives its id.
#[track_caller]
pub(crate) fn start(home: &Home, backend: &str, command: &str) -> String {
    home.run(["exec", "-b", backend, "-d", "--", command]).code(0).out().trim().to_owned()
}

/// The state of a process, as `qd ps` says it; `exited` with its code when it has.
pub(crate) fn state(home: &Home, id: &str) -> String {
    let rows = home.run(["ps", "-a", "--json"]).code(0).json();
    let row = rows.as_array().expect("rows").iter().find(|row| row["id"] == id).cloned().unwrap_or_default();
    match (row["outcome"].as_str(), row["exit_code"].as_i64()) {
        (Some(outcome), Some(code)) => format!("{outcome} {code}"),
        (Some(outcome), None) => outcome.to_owned(),
        (None, _) => row["state"].as_str().unwrap_or("none").to_owned(),
    }
}

#[track_caller]
pub(crate) fn wait_state(home: &Home, id: &str, wanted: &str) {
    let mut last = String::new();
    let seen = wait::within(CAP, || {
        last = state(home, id);
        (last == wanted).then_some(())
    });
    assert!(seen.is_some(), "{id} never became {wanted}, it is {last}");
}

pub(crate) fn lines(home: &Home, id: &str) -> Vec<String> {
    home.run(["logs", id]).code(0).out().lines().map(str::to_owned).collect()
}

/// Waits until the log has more lines than this; gives how many.
#[track_caller]
pub(crate) fn wait_lines(home: &Home, id: &str, above: usize) -> usize {
    wait::until("more output", CAP, || Some(lines(home, id).len()).filter(|n| *n > above))
}

#[track_caller]
pub(crate) fn assert_every_line_once(home: &Home, id: &str) {
    for (i, line) in lines(home, id).iter().enumerate() {
        assert_eq!(*line, format!("line {}", i + 1));
    }
}

#[test]
fn it_starts_in_the_session_and_leaves_it_alone() {
    let home = Home::new();
    home.run(["exec", "--", "cd /usr; export A=1; B=2; f() { echo \"f $A $B $PWD\"; }"]).code(0);
    let before = home.exec("local", "true")["generation"].clone();
    let result = home.run(["exec", "-d", "--json", "--", "f; echo err >&2; A=9; cd /; exit 3"]).code(0).json();
    assert_eq!((&result["outcome"], &result["output"]), (&"running".into(), &"".into()), "{result:#}");
    let id = result["process_id"].as_str().expect("an id");
    home.run(["wait", id]).code(3);
    assert_eq!(home.run(["logs", id]).code(0).out(), "f 1 2 /usr\nerr\n");
    let after = home.exec("local", "echo $A $PWD");
    assert_eq!(after["output"], "1 /usr\n");
    assert_eq!(after["generation"].as_u64(), before.as_u64().map(|n| n + 1), "the background process wrote the session");
    let folder = home.path().join(".local/state/quarterdeck/background").join(id);
    wait::until("the end of its files", CAP, || (!folder.exists()).then_some(()));
}

#[test]
fn what_is_written_down_of_a_command_holds_no_secret() {
    let mut home = Home::with_config("redact:\n  names: [DOOR_CODE]\n");
    home.set("DOOR_CODE", "open-sesame-4711");
    let shape = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let command = format!("sleep 1000 # open-sesame-4711 {shape}");
    let id = start(&home, "local", &command);
    let front = home.start(["exec", "--", &command]);
    let ended = start(&home, "local", &format!("exit 3 # open-sesame-4711 {shape}"));
    home.run(["wait", &ended]).code(3);
    let written = |name: &str| {
        let files = std::fs::read_dir(home.state()).expect("the state folder").flatten().map(|entry| entry.path());
        let file = files.into_iter().find(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(name)))?;
        std::fs::read_to_string(file).ok().filter(|text| text.contains("sleep 1000"))
    };
    for name in ["background-", "running-"] {
        let text = wait::until("a command that is written down", CAP, || written(name));
        assert!(!text.contains("sesame") && !text.contains("ghp_") && text.contains("[redacted]"), "{text}");
    }
    let shown = home.run(["ps", "-a", "--json"]).code(0).out();
    assert!(shown.contains(shape), "who may ask sees what was run: {shown}");
    home.run(["kill", &id]).code(0);
    front.signal(Signal::SIGINT);
    front.done();
}

#[test]
fn how_it_ends_is_told_as_it_was() {
    let home = Home::new();
    for (command, code) in [("exit 5", 5), ("exec sh -c 'exit 6'", 6), ("kill -9 $$", 137), ("trap 'echo bye' EXIT; exit 9", 9), ("if", 2)]
    {
        let id = start(&home, "local", command);
        home.run(["wait", &id]).code(code);
    }
    let id = start(&home, "local", "trap 'exit 4' INT; echo up; while :; do sleep 0.1; done");
    wait_lines(&home, &id, 0);
    home.run(["kill", "-s", "INT", &id]).code(0);
    home.run(["wait", &id]).code(4);
    let refused = home.run(["exec", "-d", "-C", "/nonexistent", "--", "true"]).code(0).out();
    home.run(["wait", refused.trim()]).code(126);
}

#[test]
fn a_kill_leaves_nothing_and_is_told_as_one() {
    let home = Home::new();
    let id = start(&home, "local", "trap '' TERM; (setsid sleep 1000 &); echo up; while :; do sleep 0.1; done");
    wait_lines(&home, &id, 0);
    home.run(["kill", &id]).code(0);
    assert_eq!(state(&home, &id), "cancelled");
}

#[test]
fn a_command_yields_and_goes_on_under_its_id() {
    let home = Home::new();
    let result = home.run(["exec", "--json", "--yield", "300ms", "--", "echo a; until [ -e ~/go ]; do sleep 0.05; done; echo b; cd /usr"]);
    let result = result.code(79).json();
    assert_eq!((&result["outcome"], &result["output"]), (&"running".into(), &"a\n".into()), "{result:#}");
    let id = result["process_id"].as_str().expect("an id");
    assert_eq!(state(&home, id), "running");
    std::fs::write(home.path().join("go"), "").expect("ours");
    home.run(["wait", id]).code(0);
    assert_eq!(home.run(["logs", id]).code(0).out(), "a\nb\n");
    assert_eq!(home.output("local", "pwd"), "/usr\n");
}

#[test]
fn there_is_a_limit_and_it_is_said() {
    let home = Home::new();
    let ids: Vec<String> = (0..64).map(|_| start(&home, "local", "sleep 1000")).collect();
    let refused = home.run(["exec", "-d", "--", "true"]).code(1);
    assert!(refused.err().contains("64 background processes run on local, and the limit is 64 (limits.background)"), "{refused}");
    let all: Vec<&str> = ["kill"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    home.run(all).code(0);
    let id = start(&home, "local", "true");
    home.run(["wait", &id]).code(0);
}

#[test]
fn it_survives_the_daemon_and_is_found_again() {
    let home = Home::new();
    let id = start(&home, "local", WRITER);
    wait_lines(&home, &id, 5);
    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    wait::until("the end of the daemon", CAP, || home.daemon().is_none().then_some(()));
    // Whoever asks brings up a daemon that knows it.
    wait_state(&home, &id, "running");
    let seen = wait_lines(&home, &id, 5);
    wait_lines(&home, &id, seen);
    home.run(["stop"]).code(0);
    std::fs::write(home.path().join("enough"), "").expect("ours");
    home.run(["wait", &id]).code(7);
    assert_every_line_once(&home, &id);
    home.run(["stop"]).code(0);
    home.run(["ps"]).code(0);
    assert!(home.daemon().is_none(), "nothing runs, and yet a daemon was started");
}

#[test]
fn one_that_says_nothing_is_found_again_and_can_be_written_to() {
    let home = Home::new();
    let id = home.run(["exec", "-d", "--stdin-open", "--", "read -r line; exit 8"]).code(0).out().trim().to_owned();
    let (daemon, _) = crate::daemon::named(&home).expect("a daemon");
    let daemon = crate::harness::procs::Proc::find(daemon).expect("it lives");
    daemon.signal(Signal::SIGKILL);
    wait::until("the end of the daemon", CAP, || (!daemon.alive()).then_some(()));
    home.run(["backends"]).code(0);
    wait_state(&home, &id, "running");
    home.run(["send", &id, "--submit", "go"]).code(0);
    home.run(["wait", &id]).code(8);
}

#[test]
fn what_a_yielded_command_wrote_is_there_after_the_daemon_was_killed() {
    let home = Home::new();
    let result = home.run(["exec", "--json", "--yield", "200ms", "--", "echo kept; sleep 1000"]).code(79).json();
    let id = result["process_id"].as_str().expect("an id");
    // The second one gives the first time to be on the disk and in the journal.
    let other = start(&home, "local", "sleep 1000");
    let log = home.state().join(format!("logs/{id}.log"));
    wait::until("the log is on disk", CAP, || std::fs::read(&log).is_ok_and(|text| text == b"kept\n").then_some(()));
    let (daemon, _) = crate::daemon::named(&home).expect("a daemon");
    let journal = || {
        std::fs::read_dir(home.state())
            .ok()?
            .flatten()
            .find_map(|e| std::fs::read_to_string(e.path()).ok().filter(|t| t.contains("\"running\"") && t.contains(id)))
    };
    wait::until("the journal names it", CAP, journal);
    let daemon = crate::harness::procs::Proc::find(daemon).expect("it lives");
    daemon.signal(Signal::SIGKILL);
    wait::until("the end of the daemon", CAP, || (!daemon.alive()).then_some(()));
    home.run(["backends"]).code(0);
    assert_eq!(home.run(["logs", id]).code(0).out(), "kept\n");
    home.run(["kill", &other]).code(0);
}

#[test]
fn a_number_that_is_anothers_now_is_neither_adopted_nor_signalled() {
    let home = Home::new();
    let id = start(&home, "local", "sleep 1000");
    home.run(["kill", "-s", "KILL", &id]).code(0);
    let id = start(&home, "local", "exec sleep 1000");
    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    let path = std::fs::read_dir(home.state()).expect("ours").flatten().map(|e| e.path());
    let path =
        path.into_iter().find(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("background-"))).expect("written down");
    let text = std::fs::read_to_string(&path).expect("read");
    let mut file: serde_json::Value = serde_json::from_str(&text).expect("json");
    let spot = &mut file["processes"][0]["spot"];
    let mut stranger = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep starts");
    let real = spot["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("a pid");
    nix::sys::signal::killpg(nix::unistd::Pid::from_raw(real), Signal::SIGKILL).expect("it runs");
    spot["pid"] = stranger.id().into();
    std::fs::write(&path, file.to_string()).expect("written");
    wait_state(&home, &id, "lost");
    home.run(["kill", &id]);
    assert!(stranger.try_wait().expect("ours").is_none(), "a stranger was ended");
    stranger.kill().expect("ours");
    stranger.wait().expect("ours");
}

/// The first answer of a new follower came half a minute later when something else ran quietly there.
#[test]
fn a_new_daemon_hears_at_once_of_what_ends_beside_a_quiet_one() {
    let Some(machines) = lab::share(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &[]));
    let quiet = start(&home, &m.name, "sleep 1000");
    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    wait::until("the end of the daemon", CAP, || home.daemon().is_none().then_some(()));
    let id = start(&home, &m.name, "echo hi; exit 3");
    // Less than a long poll.
    home.run(["wait", "--timeout", "20s", &id]).code(3);
    wait_state(&home, &quiet, "running");
    home.run(["kill", &quiet]).code(0);
}

/// It said that the command had not read it, and what became of it was in the log alone.
#[test]
fn what_is_sent_to_a_machine_that_is_cut_off_is_told_to_be_in_doubt() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["health_interval: 1", "connect_timeout: 3"]));
    let id = home.run(["exec", "-b", &m.name, "-d", "--stdin-open", "--", "cat; sleep 1000"]).code(0).out().trim().to_owned();
    home.run(["send", &id, "--submit", "one"]).code(0);
    wait_lines(&home, &id, 0);
    m.ctl(&["cut"]);
    let sent = home.run(["send", &id, "--submit", "two"]);
    // Where the loss was seen within that second, its sender hears of it instead.
    if sent.err().contains("has not read it yet") {
        let row = || Some(home.run(["ps", "-a", "--json"]).code(0).out()).filter(|rows| rows.contains("input_in_doubt"));
        let row = wait::until("a warning on its row", CAP, row);
        assert!(row.contains("not known whether 4 bytes"), "{row}");
    } else {
        assert!(sent.err().contains("cannot be reached") || sent.err().contains("not known whether"), "{}", sent.err());
    }
    m.ctl(&["mend"]);
    wait_state(&home, &id, "running");
    home.run(["kill", &id]).code(0);
}

/// It started elsewhere without a word, and its row named a directory that is not there.
#[test]
fn one_whose_directory_is_gone_starts_in_the_nearest_and_says_so() {
    let Some(machines) = lab::share(1) else { return };
    let home = Home::with_machines(&machines, &[]);
    for backend in ["local", &machines[0].name] {
        let base = home.output(backend, "mktemp -d");
        let base = base.trim();
        home.output(backend, &format!("mkdir -p '{base}/a b/c' && cd '{base}/a b/c' && rm -r '{base}/a b'"));
        let result = home.run(["exec", "-b", backend, "-d", "--json", "--", "pwd"]).code(0).json();
        assert_eq!((&result["cwd"], &result["warnings"][0]["code"]), (&base.into(), &"cwd_fallback".into()), "{result:#}");
        let id = result["process_id"].as_str().expect("an id");
        home.run(["wait", id]).code(0);
        assert_eq!(home.run(["logs", id]).code(0).out().trim(), base);
        let rows = home.run(["ps", "-a", "--json"]).code(0).json();
        let row = rows.as_array().expect("rows").iter().find(|row| row["id"] == id).expect("its row");
        assert_eq!((&row["cwd"], &row["warnings"][0]["code"]), (&base.into(), &"cwd_fallback".into()), "{row:#}");
        home.output(backend, &format!("cd /; rm -r '{base}'"));
    }
}

#[test]
fn a_cut_link_loses_no_line() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["health_interval: 1", "connect_timeout: 3"]));
    home.output(&m.name, "rm -f ~/enough");
    let id = start(&home, &m.name, WRITER);
    wait_lines(&home, &id, 5);
    m.ctl(&["cut"]);
    wait_state(&home, &id, "unknown");
    let seen = lines(&home, &id).len();
    m.ctl(&["mend"]);
    wait_state(&home, &id, "running");
    wait_lines(&home, &id, seen);
    home.output(&m.name, "touch ~/enough");
    home.run(["wait", &id]).code(7);
    assert_every_line_once(&home, &id);
}

/// Longer than every limit of a link: with `tests/run --all` alone, because it takes a minute of real time.
#[test]
fn a_link_that_is_cut_for_a_minute_loses_no_line() {
    if std::env::var_os("QD_ALL").is_none() {
        return;
    }
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["health_interval: 1", "connect_timeout: 3"]));
    home.output(&m.name, "rm -f ~/enough");
    let id = start(&home, &m.name, WRITER);
    wait_lines(&home, &id, 5);
    m.ctl(&["cut"]);
    wait_state(&home, &id, "unknown");
    let seen = lines(&home, &id).len();
    assert!(wait::stays(Duration::from_secs(60), || true));
    assert_eq!(state(&home, &id), "unknown");
    m.ctl(&["mend"]);
    wait_state(&home, &id, "running");
    // At fifty lines a second at most; a loaded machine writes fewer.
    wait_lines(&home, &id, seen + 200);
    home.output(&m.name, "touch ~/enough");
    home.run(["wait", &id]).code(7);
    assert_every_line_once(&home, &id);
}

#[test]
fn a_number_that_came_round_on_a_machine_is_neither_adopted_nor_signalled() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &[]));
    let id = start(&home, &m.name, "exec sleep 1000");
    let rows = home.run(["ps", "--json"]).code(0).json();
    let pid = rows[0]["pid"].as_u64().expect("a pid");
    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    wait::until("the end of the daemon", CAP, || home.daemon().is_none().then_some(()));
    // The process goes, and another gets its number: the kernel of the machine is told which one was the last.
    let script = format!(
        "kill -KILL -- -{pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.05; done; \
         for i in 1 2 3 4 5 6 7 8 9 10; do echo $(({pid} - 1)) >/proc/sys/kernel/ns_last_pid || exit 9; setsid sleep 1000 </dev/null >/dev/null 2>&1 & \
         [ $! = {pid} ] && exit 0; kill $!; done; exit 8"
    );
    let done = m.ssh().arg(script).status().expect("ssh starts");
    if done.code() == Some(9) {
        // The kernel does not let us.
        return;
    }
    assert!(done.success(), "no process got the number: {done}");
    wait_state(&home, &id, "lost");
    home.run(["kill", &id]);
    let there = m.ssh().arg(format!("tr '\\0' ' ' </proc/{pid}/cmdline; kill {pid}")).output().expect("ssh starts");
    assert_eq!(String::from_utf8_lossy(&there.stdout).trim(), "sleep 1000", "a stranger was ended");
}

#[test]
fn it_survives_the_daemon_on_a_machine_and_not_its_reboot() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["health_interval: 1", "connect_timeout: 3"]));
    home.output(&m.name, "rm -f ~/enough");
    let (writer, sleeper) = (start(&home, &m.name, WRITER), start(&home, &m.name, "sleep 1000"));
    wait_lines(&home, &writer, 5);
    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    wait::until("the end of the daemon", CAP, || home.daemon().is_none().then_some(()));
    wait_state(&home, &writer, "running");
    home.output(&m.name, "touch ~/enough");
    home.run(["wait", &writer]).code(7);
    assert_every_line_once(&home, &writer);
    m.ctl(&["reboot"]);
    wait_state(&home, &sleeper, "lost");
}
