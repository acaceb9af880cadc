//! What background processes tell (`--notify`, `--watch`), and what is known of them after a restart of the daemon.

use crate::harness::lab;
use crate::harness::qd::Home;
use crate::harness::run::Running;
use crate::harness::wait;
use nix::sys::signal::Signal;
use quarterdeck::client::{Client, Connect};
use quarterdeck::model::{News, Notice, Overview, Told};
use quarterdeck::protocol::calls::OverviewCall;
use quarterdeck::protocol::launch::LockContent;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

const CAP: Duration = Duration::from_secs(60);

#[track_caller]
fn start(home: &Home, backend: &str, flags: &[&str], command: &str) -> String {
    let args = [&["exec", "-b", backend, "-d"], flags, &["--", command]].concat();
    home.run(args).code(0).out().trim().to_owned()
}

/// What a client that comes now sees.
fn overview(home: &Home) -> Overview {
    as_agent(home, async |client| client.call(OverviewCall {}).await.expect("it answers"))
}

/// Does something as an agent's client.
pub(crate) fn as_agent<T>(home: &Home, ask: impl AsyncFnOnce(Client) -> T) -> T {
    let lock = std::fs::read_dir(home.state()).expect("ours").flatten().map(|entry| entry.path());
    let lock = lock.filter_map(|path| LockContent::parse(&std::fs::read(path).ok()?)).next().expect("a daemon runs");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stream = tokio::net::UnixStream::connect(&lock.socket).await.expect("it listens");
        let how = Connect { kind: "cli".into(), agent: Some("test".into()), ..Connect::default() };
        ask(Client::over(stream, &how).await.expect("it welcomes us")).await
    })
}

fn told_of(home: &Home, id: &str) -> Vec<Told> {
    overview(home).told.into_iter().filter(|told| told.of.as_ref().is_some_and(|of| of.process == id)).collect()
}

/// The ends that were told of a process: their codes and outputs.
fn ends(home: &Home, id: &str) -> Vec<(i32, String)> {
    let end = |told: Told| match told.news {
        News::Ended { outcome, output, .. } => Some((outcome.process_exit_code(), output)),
        _ => None,
    };
    told_of(home, id).into_iter().filter_map(end).collect()
}

#[track_caller]
fn notices(home: &Home, about: &str) -> Vec<Notice> {
    overview(home).notices.into_iter().filter(|notice| notice.message.contains(about)).collect()
}

/// Ends the daemon without a word.
#[track_caller]
fn crash(home: &Home) {
    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    wait::until("the end of the daemon", CAP, || home.daemon().is_none().then_some(()));
}

fn checkpoint_path(home: &Home) -> PathBuf {
    let mut files = std::fs::read_dir(home.state()).expect("ours").flatten().map(|entry| entry.path());
    files.find(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("background-"))).expect("written down")
}

/// Changes what is written down, while no daemon runs.
fn change(home: &Home, change: impl FnOnce(&mut Value)) {
    let path = checkpoint_path(home);
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("json");
    change(&mut file);
    std::fs::write(path, file.to_string()).expect("ours");
}

fn log_file(home: &Home, id: &str) -> PathBuf {
    home.state().join("logs").join(format!("{id}.log"))
}

fn touch(home: &Home, name: &str) {
    std::fs::write(home.path().join(name), "").expect("ours");
}

/// Waits on the backend for a file in the home.
fn until(name: &str) -> String {
    format!("until [ -e ~/{name} ]; do sleep 0.05; done")
}

/// Says that it is up and waits for a file in the home.
fn up_until(name: &str) -> String {
    format!("echo up; {}", until(name))
}

/// Waits until a wait has said what its process, started with `--watch up`, has told: so it is under way.
#[track_caller]
fn under_way(waiting: &mut Running) {
    wait::until("the wait is under way", CAP, || waiting.err_so_far().contains(" matched: up\n").then_some(()));
}

#[test]
fn a_match_ends_a_wait_however_the_output_was_written() {
    let home = Home::new();
    let command = format!(
        "echo up; printf 'liste'; {}; printf 'ning on gr'; {}; printf '\\303'; sleep 0.2; printf '\\266\\303\\237e\\n'; sleep 1000",
        until("a"),
        until("b")
    );
    let id = start(&home, "local", &["--watch", "re:^listening on größe$", "--watch", "nothing"], &command);
    let waiting = home.start(["wait", "--until", "match", "--timeout", "60s", &id]);
    touch(&home, "a");
    touch(&home, "b");
    let done = waiting.done().code(0);
    assert_eq!(done.out(), "listening on größe\n", "{done}");
    home.run(["wait", "--until", "match", "--timeout", "0s", &id]).code(124).says(&["the time ran out"]);
    let rows = home.run(["ps", "--json"]).code(0).json();
    assert_eq!(rows[0]["watch"], serde_json::json!(["re:^listening on größe$", "nothing"]), "{rows:#}");
    assert!(matches!(&told_of(&home, &id)[0].news, News::Matched { lines, dropped: 0 } if lines == &["listening on größe"]));
    home.run(["kill", &id]).code(0);
}

#[test]
fn a_wait_for_the_end_says_what_matched_before_and_meanwhile() {
    let home = Home::new();
    let id = start(&home, "local", &["--watch", "word"], &format!("echo one word; {}; echo; printf 'last word'; exit 3", until("go")));
    wait::until("the first match", CAP, || (!told_of(&home, &id).is_empty()).then_some(()));
    let waiting = home.start(["wait", &id]);
    wait::until("it is said", CAP, || waiting.err_so_far().contains(&format!("qd: {id} matched: one word\n")).then_some(()));
    touch(&home, "go");
    let done = waiting.done().code(3);
    assert!(done.err().ends_with(&format!("qd: {id} matched: last word\n")), "{done}");
    let rows = home.run(["wait", "--json", &id]).code(3).json();
    assert!(rows[0].get("told").is_none(), "heard once: {rows:#}");
    let id = start(&home, "local", &["--watch", "word"], "echo a word; exit 3");
    let rows = home.run(["wait", "--json", &id]).code(3);
    assert_eq!(rows.err(), "");
    assert_eq!(rows.json()[0]["told"][0]["news"]["lines"], serde_json::json!(["a word"]), "{rows}");
    home.run(["wait", "--until", "match", &id]).code(1).says(&["ended before that came"]);
}

#[test]
fn a_line_of_70_kb_is_found_and_told_in_part() {
    let home = Home::new();
    let id = start(
        &home,
        "local",
        &["--watch", "needle"],
        "head -c 70000 /dev/zero | tr '\\0' x; printf needle; head -c 70000 /dev/zero | tr '\\0' y",
    );
    let out = home.run(["wait", "--until", "match", &id]).code(0).out();
    assert!(out.contains("xneedley") && out.len() < 600, "{} bytes", out.len());
}

#[test]
fn the_end_is_told_once_and_not_when_a_wait_told_it() {
    let home = Home::new();
    let told = start(&home, "local", &["--notify"], "echo bye; exit 4");
    wait::until("it is told", CAP, || (ends(&home, &told) == [(4, "bye\n".to_owned())]).then_some(()));
    home.run(["wait", &told]).code(4);
    let waited = start(&home, "local", &["--notify", "--watch", "up"], &up_until("go"));
    let followed = start(&home, "local", &["--notify"], &up_until("go"));
    let plain = start(&home, "local", &[], &until("go"));
    let mut waiting = home.start(["wait", &waited]);
    let mut following = home.start(["logs", "-f", &followed]);
    under_way(&mut waiting);
    following.wait_out("up");
    touch(&home, "go");
    waiting.done().code(0);
    following.done().code(0);
    home.run(["wait", &plain]).code(0);
    let last = start(&home, "local", &["--notify"], "exit 6");
    wait::until("a later one is told", CAP, || (!ends(&home, &last).is_empty()).then_some(()));
    for id in [&waited, &followed, &plain] {
        assert_eq!(ends(&home, id), [], "{id}");
    }
    assert_eq!(ends(&home, &told).len(), 1);
}

#[test]
fn a_yielded_and_a_foreground_command_tell_their_ends_too() {
    let home = Home::new();
    let command = format!("{}; echo a word; exit 5", until("go"));
    let result = home.run(["exec", "--json", "--yield", "100ms", "--notify", "--watch", "word", "--", &command]).code(79).json();
    let id = result["process_id"].as_str().expect("an id");
    touch(&home, "go");
    wait::until("it is told", CAP, || (ends(&home, id) == [(5, "a word\n".to_owned())]).then_some(()));
    let told = told_of(&home, id);
    assert!(matches!(told[0].news, News::Matched { .. }), "what it said comes before its end: {told:?}");
    let result = home.run(["exec", "--json", "--notify", "--", "exit 2"]).code(2).json();
    let front = result["process_id"].as_str().expect("an id");
    wait::until("it is told", CAP, || (ends(&home, front).len() == 1).then_some(()));
    crash(&home);
    // A yielded one that has ended is remembered like the others.
    let rows = home.run(["ps", "-a", "--json"]).code(0).json();
    let row = rows.as_array().expect("rows").iter().find(|row| row["id"] == id).expect("it is listed");
    assert_eq!(row["exit_code"], 5, "{rows:#}");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let home = Home::new();
    home.run(["exec", "--watch", "x", "--", "true"]).code(64).says(&["--watch goes with -d or --yield"]);
    home.run(["exec", "-d", "--watch", "re:(", "--", "true"]).code(64).says(&["re:("]);
    home.run(["exec", "-d", "--watch", "", "--", "true"]).code(64).says(&["every line"]);
    let many: Vec<String> = ["exec", "-d"].map(str::to_owned).into_iter().chain((0..21).map(|n| format!("--watch={n}"))).collect();
    home.run(many.iter().map(String::as_str).chain(["--", "true"])).code(64).says(&["at most 20"]);
    let id = start(&home, "local", &[], "sleep 1000");
    home.run(["wait", "--until", "match", &id]).code(64).says(&["no match to wait for"]);
    home.run(["kill", &id]).code(0);
}

#[test]
fn notify_and_watch_survive_the_daemon() {
    let home = Home::new();
    let command = format!("echo first word; {}; echo second word; {}; echo bye; exit 3", until("a"), until("b"));
    let id = start(&home, "local", &["--notify", "--watch", "word"], &command);
    home.run(["wait", "--until", "match", &id]).code(0);
    crash(&home);
    home.run(["ps"]).code(0);
    let waiting = home.start(["wait", "--until", "match", &id]);
    touch(&home, "a");
    let done = waiting.done().code(0);
    assert_eq!(done.out(), "second word\n", "the first one was told: {done}");
    crash(&home);
    touch(&home, "b");
    // Whoever asks brings up a daemon; nobody waits.
    home.run(["ps"]).code(0);
    wait::until("its end is told", CAP, || (!ends(&home, &id).is_empty()).then_some(()));
    assert_eq!(ends(&home, &id), [(3, "first word\nsecond word\nbye\n".to_owned())]);
    crash(&home);
    home.run(["wait", &id]).code(3);
    assert_eq!(ends(&home, &id), [], "it was told before");
}

#[test]
fn what_has_ended_is_known_after_a_restart() {
    let home = Home::new();
    let id = start(&home, "local", &[], "echo out; echo err >&2; exit 5");
    home.run(["wait", &id]).code(5);
    let lost = start(&home, "local", &[], "echo gone; exit 6");
    home.run(["wait", &lost]).code(6);
    crash(&home);
    std::fs::remove_file(log_file(&home, &lost)).expect("it is there");
    home.run(["ps"]).code(0);
    assert!(home.daemon().is_none(), "nothing runs, and yet a daemon was started");
    home.run(["wait", &id]).code(5);
    assert_eq!(home.run(["logs", &id]).code(0).out(), "out\nerr\n");
    home.run(["stop"]).code(0);
    let rows = home.run(["ps", "-a", "--json"]).code(0).json();
    let row = |id: &str| rows.as_array().expect("rows").iter().find(|row| row["id"] == id).cloned().expect("it is listed");
    assert_eq!((row(&id)["exit_code"].as_i64(), row(&lost)["exit_code"].as_i64()), (Some(5), Some(6)));
    assert_eq!(row(&lost)["warnings"][0]["code"], "output_lost", "{rows:#}");
    home.run(["wait", "zzzz"]).code(64).says(&["no process"]);
}

#[test]
fn a_log_goes_on_where_it_was_and_what_it_lost_is_fetched_again() {
    let home = Home::new();
    let id = start(&home, "local", &[], &format!("echo original; {}; echo more; {}; echo end", until("a"), until("b")));
    home.run(["wait", "--until", "pattern=original", &id]).code(0);
    // Written down, and so on the disk.
    let other = start(&home, "local", &[], "true");
    home.run(["wait", &other]).code(0);
    wait::until("the log is on disk", CAP, || std::fs::read(log_file(&home, &id)).is_ok_and(|text| text == b"original\n").then_some(()));
    crash(&home);
    // What a daemon has once it does not fetch again.
    std::fs::write(log_file(&home, &id), "changed!\n").expect("ours");
    touch(&home, "a");
    home.run(["wait", "--until", "pattern=more", &id]).code(0);
    assert_eq!(home.run(["logs", &id]).code(0).out(), "changed!\nmore\n");
    assert_eq!(notices(&home, "fetched"), []);
    wait::until("the log is on disk", CAP, || std::fs::read(log_file(&home, &id)).is_ok_and(|text| text.len() == 14).then_some(()));
    let other = start(&home, "local", &[], "true");
    home.run(["wait", &other]).code(0);
    crash(&home);
    std::fs::write(log_file(&home, &id), "ori").expect("ours");
    touch(&home, "b");
    home.run(["wait", &id]).code(0);
    assert_eq!(home.run(["logs", &id]).code(0).out(), "original\nmore\nend\n");
    let said = notices(&home, "fetched");
    assert!(said.len() == 1 && said[0].message.contains("the last 11 bytes"), "{said:?}");
}

/// Makes the entry of a process one that was written before its start.
fn unborn(entry: &mut Value) {
    let spot = &mut entry["spot"];
    (spot["pid"], spot["start"], spot["boot"]) = (0.into(), "".into(), "".into());
}

#[test]
fn what_was_about_to_start_is_looked_for_and_not_started_late() {
    let home = Home::new();
    let id = start(&home, "local", &["--notify"], &format!("echo up; {}; exit 7", until("go")));
    let pid = home.run(["ps", "--json"]).code(0).json()[0]["pid"].clone();
    crash(&home);
    change(&home, |file| {
        unborn(&mut file["processes"][0]);
        let mut never = file["processes"][0].clone();
        never["spot"]["id"] = "neverx".into();
        file["processes"].as_array_mut().expect("a list").push(never);
    });
    home.run(["wait", "neverx"]).code(125);
    assert_eq!(notices(&home, "neverx was never started").len(), 1);
    let rows = wait::until("it is found", CAP, || {
        let rows = home.run(["ps", "--json"]).code(0).json();
        (rows[0]["state"] == "running").then_some(rows)
    });
    assert_eq!(rows[0]["pid"], pid, "{rows:#}");
    // What has no number yet left nothing behind: a row for its processes would name everybody's.
    let rows = home.run(["ps", "-a", "--json"]).code(0).json();
    assert!(rows.as_array().expect("rows").iter().all(|row| row["state"] != "stray" && row["warnings"].is_null()), "{rows:#}");
    touch(&home, "go");
    home.run(["wait", &id]).code(7);
    assert_eq!(home.run(["logs", &id]).code(0).out(), "up\n");
}

#[test]
fn a_wait_goes_on_with_the_next_daemon() {
    let home = Home::new();
    let up = |more: &str| start(&home, "local", &["--watch", "up"], &format!("{}; {more}", up_until("go")));
    let (ends, listens, sleeps) = (up("exit 9"), up("echo listening; sleep 1000"), up("sleep 1000"));
    let mut waiting = home.start(["wait", &ends]);
    let mut seeking = home.start(["wait", "--until", "pattern=listening", &listens]);
    let mut short = home.start(["wait", "--timeout", "2s", &sleeps]);
    for one in [&mut waiting, &mut seeking, &mut short] {
        under_way(one);
    }
    crash(&home);
    for one in [&waiting, &seeking] {
        wait::until("it says so", CAP, || one.err_so_far().contains("the daemon is gone").then_some(()));
    }
    short.done().code(124);
    assert!(home.daemon().is_none(), "a wait started a daemon");
    home.run(["ps"]).code(0);
    touch(&home, "go");
    seeking.done().code(0);
    let done = waiting.done().code(9);
    assert_eq!(done.err().matches("the daemon is gone").count(), 1, "{done}");
    home.run(["kill", &listens, &sleeps]).code(0);
}

#[test]
fn a_kill_of_several_says_each_failure() {
    let home = Home::new();
    let ended: Vec<String> = (0..2).map(|_| start(&home, "local", &[], "true")).collect();
    for id in &ended {
        home.run(["wait", id]).code(0);
    }
    let runs = start(&home, "local", &[], "trap 'exit 8' USR1; echo up; while :; do sleep 0.1; done");
    home.run(["wait", "--until", "pattern=up", &runs]).code(0);
    let done = home.run(["kill", "-s", "USR1", &ended[0], &runs, &ended[1]]).code(1);
    for id in &ended {
        assert!(done.err().contains(&format!("qd: {id}: ")), "{done}");
    }
    home.run(["wait", &runs]).code(8);
}

#[test]
fn on_a_machine_too_and_over_a_restart_with_a_link_that_is_cut() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["health_interval: 1", "connect_timeout: 3"]));
    home.output(&m.name, "rm -f ~/a ~/b");
    let command = format!("printf 'liste'; {}; echo 'ning on 80'; {}; echo listening again; exit 3", until("a"), until("b"));
    let id = start(&home, &m.name, &["--notify", "--watch", "listening"], &command);
    home.output(&m.name, "touch ~/a");
    assert_eq!(home.run(["wait", "--until", "match", &id]).code(0).out(), "listening on 80\n");
    crash(&home);
    home.run(["ps"]).code(0);
    home.output(&m.name, "touch ~/b");
    m.ctl(&["cut"]);
    m.ctl(&["mend"]);
    wait::until("its end is told", CAP, || (!ends(&home, &id).is_empty()).then_some(()));
    let told = told_of(&home, &id);
    assert!(matches!(&told[0].news, News::Matched { lines, .. } if lines == &["listening again"]), "{told:?}");
    assert_eq!(ends(&home, &id), [(3, "listening on 80\nlistening again\n".to_owned())]);
    crash(&home);
    // What was about to be started there is looked for there.
    change(&home, |file| {
        let mut never = serde_json::json!({"backend": m.name, "session": "main", "command": "x", "started": 1, "cwd": "/"});
        never["who"] = serde_json::json!({"kind": "operator", "name": "you"});
        never["spot"] =
            serde_json::json!({"id": "neverx", "root": "/tmp/qd-never", "pid": 0, "start": "", "boot": "", "nonce": "0123456789abcdef"});
        file["processes"].as_array_mut().expect("a list").push(never);
    });
    home.run(["wait", "neverx"]).code(125);
    home.output(&m.name, "rm -r /tmp/qd-never");
}

#[test]
fn a_link_that_is_lost_at_the_start_leaves_no_doubt_in_the_end() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["health_interval: 1", "connect_timeout: 3"]));
    home.output(&m.name, "rm -f ~/started");
    m.ctl(&["cut"]);
    let done = home.run(["exec", "--json", "-b", &m.name, "-d", "--notify", "--", "echo x >> ~/started; echo out"]).code(255);
    let result = done.json();
    assert_eq!(result["outcome"], "transport_lost", "{result:#}");
    let id = result["process_id"].as_str().expect("an id");
    assert_eq!(home.run(["ps", "--json"]).code(0).json()[0]["state"], "unknown");
    m.ctl(&["mend"]);
    let code = home.run(["wait", id]).code.expect("it exits");
    let times = home.output(&m.name, "cat ~/started 2>/dev/null | wc -l");
    // Whether what was sent arrived is the network's affair; what is said of it is true.
    match code {
        0 => assert_eq!((times.trim(), home.run(["logs", id]).code(0).out().as_str()), ("1", "out\n")),
        125 => assert_eq!(times.trim(), "0", "it is said that it did not start"),
        other => panic!("code {other}"),
    }
}

/// It was written over by the next write.
#[test]
fn a_list_that_cannot_be_read_is_kept_aside() {
    let home = Home::new();
    let id = start(&home, "local", &[], "sleep 1000");
    home.run(["kill", &id]).code(0);
    home.run(["stop"]).code(0);
    let path = checkpoint_path(&home);
    std::fs::write(&path, "{\"version\":99}").expect("written");
    let id = start(&home, "local", &[], "sleep 1000");
    let aside = format!("{}.damaged-1", path.display());
    assert_eq!(std::fs::read_to_string(&aside).expect("kept"), "{\"version\":99}");
    assert_eq!(notices(&home, &aside).len(), 1);
    home.run(["kill", &id]).code(0);
}
