//! What commands leave running: told, found, ended, adopted, and never taken for something else.

use crate::harness::lab::{self, Machine};
use crate::harness::procs::Proc;
use crate::harness::qd::Home;
use crate::harness::wait;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::time::Duration;

const CAP: Duration = Duration::from_secs(60);
/// Writes nothing, and exits with 7 when its file is there.
const WAITS: &str = "sh -c 'until [ -e ~/go ]; do sleep 0.05; done; exit 7' & echo $!";

/// Runs a command that leaves something; gives the stray's id and the number that the command printed.
#[track_caller]
fn leave(home: &Home, backend: &str, command: &str) -> (String, u32) {
    let result = home.exec(backend, command);
    let warning = &result["warnings"][0];
    assert_eq!(warning["code"], "orphans_left", "{result:#}");
    let id = warning["stray"].as_str().unwrap_or_else(|| panic!("no stray is named: {result:#}"));
    assert!(warning["message"].as_str().is_some_and(|text| text.contains(id)), "{result:#}");
    let pid = result["output"].as_str().and_then(|text| text.trim().parse().ok());
    (id.to_owned(), pid.unwrap_or_else(|| panic!("no number was printed: {result:#}")))
}

fn row(home: &Home, id: &str) -> Value {
    let rows = home.run(["ps", "-a", "--json"]).code(0).json();
    rows.as_array().expect("rows").iter().find(|row| row["id"] == id).cloned().unwrap_or_default()
}

/// Waits until a row is as wanted.
#[track_caller]
fn wait_row(home: &Home, id: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let seen = wait::within(CAP, || {
        last = row(home, id);
        wanted(&last).then(|| last.clone())
    });
    seen.unwrap_or_else(|| panic!("{id} never was {what}: {last:#}"))
}

#[track_caller]
fn wait_gone(pid: u32) {
    assert!(wait::within(CAP, || Proc::find(pid).is_none().then_some(())).is_some(), "{pid} is still there");
}

fn alive_on(m: &Machine, pid: u32) -> bool {
    let done = m.ssh().arg(format!("kill -0 {pid}")).output().expect("ssh can be started");
    done.status.success()
}

#[test]
fn what_is_left_has_a_row_and_is_ended_as_one() {
    let home = Home::new();
    let (id, pid) = leave(&home, "local", "trap '' TERM; (setsid env -i sleep 1234 &); sleep 4321 & echo $!");
    let row = wait_row(&home, &id, "looked at", |row| row["command"].as_str().is_some_and(|text| text.contains("sleep 4321")));
    assert_eq!((&row["state"], &row["backend"], &row["session"]), (&"stray".into(), &"local".into(), &"main".into()), "{row:#}");
    assert!(row["command"].as_str().is_some_and(|text| text.contains("sleep 1234")), "{row:#}");
    let pids = row["stray"]["pids"].as_array().expect("pids");
    assert!(pids.len() == 2 && pids.contains(&pid.into()), "{row:#}");
    let of = row["stray"]["of"].as_str().expect("of");
    let parent = self::row(&home, of);
    assert_eq!((&parent["state"], &parent["warnings"][0]["stray"]), (&"ended".into(), &id.as_str().into()), "{parent:#}");
    assert!(home.run(["ps"]).code(0).out().contains("stray"));
    let pids: Vec<u32> = pids.iter().filter_map(|pid| pid.as_u64()?.try_into().ok()).collect();
    home.run(["kill", "--grace", "100ms", &id]).code(0);
    assert!(pids.iter().all(|pid| Proc::find(*pid).is_none()), "left: {pids:?}");
    assert_eq!(self::row(&home, &id)["outcome"], "cancelled");
    home.run(["kill", "-s", "TERM", &id]).code(1).says(&["has ended"]);
}

/// How programs make daemons of themselves: nothing holds the streams, and the shell has no job.
#[test]
fn a_double_fork_without_streams_is_told_too() {
    let home = Home::new();
    for command in ["(sleep 4711 >/dev/null 2>&1 &)", "(setsid sleep 4711 >/dev/null 2>&1 &)"] {
        let result = home.exec("local", command);
        let warning = &result["warnings"][0];
        assert_eq!(warning["code"], "orphans_left", "{command}: {result:#}");
        let stray = warning["stray"].as_str().expect("it has a row");
        home.run(["kill", "--grace", "100ms", stray]).code(0);
    }
}

#[test]
fn a_stray_ends_with_its_processes_and_tells_its_code_here() {
    let home = Home::new();
    let (id, pid) = leave(&home, "local", WAITS);
    home.run(["send", &id, "--text", "x"]).code(1);
    std::fs::write(home.path().join("go"), "").expect("ours");
    let row = wait_row(&home, &id, "ended", |row| row["state"] == "ended");
    assert_eq!((&row["outcome"], &row["exit_code"]), (&"exited".into(), &7.into()), "{row:#}");
    wait_gone(pid);
    home.run(["adopt", &id]).code(1).says(&["has ended"]);
}

#[test]
fn a_signal_goes_to_all_of_a_stray() {
    let home = Home::new();
    let (id, pid) = leave(&home, "local", "sleep 1000 & echo $!");
    // A list in the background ignores it.
    home.run(["kill", "-s", "INT", &id]).code(0);
    home.run(["kill", "-s", "TERM", &id]).code(0).says(&["SIGTERM went to 1 process", &pid.to_string()]);
    let row = wait_row(&home, &id, "ended", |row| row["state"] == "ended");
    assert_eq!((&row["outcome"], &row["signal"]), (&"signaled".into(), &"SIGTERM".into()), "{row:#}");
}

#[test]
fn an_adopted_stray_is_waited_for_and_survives_the_daemon() {
    let home = Home::new();
    let (id, _) = leave(&home, "local", WAITS);
    let row = home.run(["adopt", "--json", &id]).code(0).json();
    assert_eq!((&row["state"], &row["background"]), (&"running".into(), &true.into()), "{row:#}");
    assert_eq!(row["stray"]["adopted_by"]["kind"], "agent", "{row:#}");
    home.run(["adopt", &id]).code(1).says(&["a background process already"]);
    home.run(["wait", "--timeout", "0s", &id]).code(124);
    std::fs::write(home.path().join("go"), "").expect("ours");
    home.run(["wait", &id]).code(7);
    std::fs::remove_file(home.path().join("go")).expect("it was there");

    let (id, pid) = leave(&home, "local", WAITS);
    home.run(["adopt", &id]).code(0);
    wait_row(&home, &id, "looked at", |row| row["command"].as_str().is_some_and(|text| text.contains("go")));
    let file = || std::fs::read_dir(home.state()).expect("ours").flatten().find(|e| e.file_name().to_string_lossy().starts_with("strays-"));
    let kept = || file().and_then(|e| std::fs::read_to_string(e.path()).ok()).is_some_and(|text| text.contains(&id));
    wait::until("it is written down", CAP, || kept().then_some(()));
    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    wait::until("no daemon", CAP, || home.daemon().is_none().then_some(()));
    let row = wait_row(&home, &id, "running", |row| row["state"] == "running");
    assert_eq!(row["stray"]["pids"], serde_json::json!([pid]), "{row:#}");
    assert!(Proc::find(pid).is_some());
    std::fs::write(home.path().join("go"), "").expect("ours");
    home.run(["wait", &id]).code(255);
    assert_eq!(self::row(&home, &id)["outcome"], "code_unknown");
}

#[test]
fn what_is_no_stray_is_not_adopted() {
    let home = Home::new();
    let mut running = home.start(["exec", "--", "echo up; sleep 1000"]);
    running.wait_out("up");
    let id = home.run(["ps", "--json"]).json()[0]["id"].as_str().expect("an id").to_owned();
    home.run(["adopt", &id]).code(1).says(&["is no stray"]);
    home.run(["kill", &id]).code(0);
    running.done();
    home.run(["adopt", &id]).code(1).says(&["has ended"]);
    home.run(["adopt", "zzzz"]).code(64).says(&["zzzz"]);
}

#[test]
fn a_background_process_tells_what_it_left() {
    let home = Home::new();
    let id = home.run(["exec", "-d", "--", "setsid sleep 1000 & exit 3"]).code(0).out().trim().to_owned();
    home.run(["wait", &id]).code(3);
    let row = wait_row(&home, &id, "known to have left something", |row| row["warnings"][0]["code"] == "orphans_left");
    let stray = row["warnings"][0]["stray"].as_str().expect("a stray").to_owned();
    assert_eq!(self::row(&home, &stray)["stray"]["of"], id.as_str());
    home.run(["kill", &stray]).code(0);
    let clean = home.run(["exec", "-d", "--", "true"]).code(0).out().trim().to_owned();
    home.run(["wait", &clean]).code(0);
    let done = home.exec("local", "true");
    assert_eq!((&self::row(&home, &clean)["warnings"], &done["warnings"]), (&Value::Null, &serde_json::json!([])));
}

/// Two daemons on one account: what one has running is no stray of the other.
#[test]
fn strays_of_dead_daemons_are_found_and_those_of_living_ones_are_not() {
    let (home, other) = (Home::new(), Home::new());
    let (_, pid) = leave(&home, "local", "setsid sleep 1000 >/dev/null 2>&1 & echo $!");
    let living = home.start(["exec", "--", "sleep 1000; :"]);
    wait::until("it runs", CAP, || home.run(["ps", "--json"]).json().as_array().is_some_and(|rows| rows.len() == 2).then_some(()));
    let found = other.run(["ps", "-b", "local", "--find", "--json"]).code(0).json();
    assert_eq!(found["strays"], serde_json::json!([]), "{found:#}");
    assert!(found["others"].as_array().is_some_and(|pids| pids.contains(&pid.into())), "{found:#} without {pid}");
    let found = home.run(["ps", "-b", "local", "--find", "--json"]).code(0).json();
    assert_eq!(found["strays"].as_array().map(Vec::len), Some(1), "{found:#}");

    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    drop(living);
    wait::until("no daemon", CAP, || home.daemon().is_none().then_some(()));
    for entry in std::fs::read_dir(home.state()).expect("ours").flatten() {
        if entry.file_name().to_string_lossy().starts_with("strays-") {
            std::fs::remove_file(entry.path()).expect("ours");
        }
    }
    let found = home.run(["ps", "-b", "local", "--find", "--json"]).code(0).json();
    assert_eq!(found["strays"][0]["stray"]["pids"], serde_json::json!([pid]), "{found:#}");
    let id = found["strays"][0]["id"].as_str().expect("an id");
    home.run(["kill", id]).code(0);
    assert!(Proc::find(pid).is_none());
    home.run(["ps", "-b", "local", "--find"]).code(0).says(&["no strays were found"]);
}

#[test]
fn on_a_machine_it_has_a_row_ends_and_is_ended() {
    let Some(machines) = lab::share(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines[..1], &[]));
    let (id, pid) = leave(&home, &m.name, "rm -f /tmp/stray-go; setsid sh -c 'until [ -e /tmp/stray-go ]; do sleep 0.05; done' & echo $!");
    let row = wait_row(&home, &id, "looked at", |row| row["command"].as_str().is_some_and(|text| text.contains("stray-go")));
    assert_eq!((&row["state"], &row["backend"]), (&"stray".into(), &m.name.as_str().into()), "{row:#}");
    std::fs::write(m.folder("tmp").join("stray-go"), "").expect("the lab is ours");
    let row = wait_row(&home, &id, "ended", |row| row["state"] == "ended");
    assert_eq!(row["outcome"], "code_unknown", "{row:#}");
    std::fs::remove_file(m.folder("tmp").join("stray-go")).expect("it was there");
    assert!(!alive_on(m, pid));

    let (id, pid) = leave(&home, &m.name, "trap '' TERM; (env -i setsid sh -c 'trap \"\" TERM; sleep 1000; :' &); sleep 1000 & echo $!");
    assert!(alive_on(m, pid));
    home.run(["kill", "--grace", "100ms", &id]).code(0);
    assert!(!alive_on(m, pid));
    assert_eq!(self::row(&home, &id)["outcome"], "cancelled");
}

#[test]
fn an_adopted_one_on_a_machine_outlives_link_and_daemon_and_not_a_reboot() {
    let Some(machines) = lab::alone(1) else { return };
    let m = &machines[0];
    let home = Home::with_machines(&machines[..1], &["health_interval: 1"]);
    let (id, pid) = leave(&home, &m.name, "setsid sleep 100000 >/dev/null 2>&1 & echo $!");
    home.run(["adopt", &id]).code(0);
    wait_row(&home, &id, "looked at", |row| row["command"].as_str().is_some_and(|text| text.contains("100000")));
    // A killed connection would be back before anybody looks.
    m.ctl(&["cut"]);
    wait_row(&home, &id, "unknown", |row| row["state"] == "unknown");
    m.ctl(&["mend"]);
    wait_row(&home, &id, "running", |row| row["state"] == "running");
    assert!(alive_on(m, pid));
    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    wait::until("no daemon", CAP, || home.daemon().is_none().then_some(()));
    wait_row(&home, &id, "running", |row| row["state"] == "running");
    m.ctl(&["reboot"]);
    let row = wait_row(&home, &id, "lost", |row| row["outcome"] == "lost");
    assert!(row["reason"].as_str().is_some_and(|text| text.contains("started anew")), "{row:#}");
    home.run(["wait", &id]).code(255);
}

#[test]
fn what_became_of_a_lost_command_is_in_its_row() {
    let Some(machines) = lab::alone(2) else { return };
    let home = Home::with_machines(&machines[..1], &["health_interval: 1"]);
    let m = &machines[0];
    let mut caller = home.start(["exec", "-b", &m.name, "--", "echo up; exec sleep 100000"]);
    caller.wait_out("up");
    let id = home.run(["ps", "--json"]).json()[0]["id"].as_str().expect("an id").to_owned();
    m.ctl(&["kill-sessions"]);
    caller.done().code(255);
    let row =
        wait_row(&home, &id, "looked after", |row| row["reason"].as_str().is_some_and(|text| text.contains("when the link was back")));
    assert!(row["reason"].as_str().is_some_and(|text| text.contains("has been ended")), "{row:#}");
    let rows = home.run(["wait", "--json", &id]).code(255).json();
    assert_eq!(rows[0]["reason"], row["reason"]);

    let m = &machines[1];
    let home = Home::with_machines(&machines[1..2], &["health_interval: 1", "on_lost: keep"]);
    let mut caller = home.start(["exec", "-b", &m.name, "--", "echo up; exec sleep 100000"]);
    caller.wait_out("up");
    let id = home.run(["ps", "--json"]).json()[0]["id"].as_str().expect("an id").to_owned();
    m.ctl(&["kill-sessions"]);
    caller.done().code(255);
    let row =
        wait_row(&home, &id, "looked after", |row| row["reason"].as_str().is_some_and(|text| text.contains("when the link was back")));
    let rows = home.run(["ps", "--json"]).code(0).json();
    assert_eq!((&rows[0]["state"], &rows[0]["stray"]["of"]), (&"stray".into(), &id.as_str().into()), "{rows:#}");
    let stray = rows[0]["id"].as_str().expect("an id");
    assert!(row["reason"].as_str().is_some_and(|text| text.contains(stray)), "{row:#}");
    home.run(["kill", stray]).code(0);
}

#[test]
fn an_ended_row_goes_after_its_time_and_its_log_is_named() {
    let home = Home::with_config("limits:\n  ended_for: 1s\n  background: 1\n");
    let id = home.exec("local", "echo kept")["process_id"].as_str().expect("an id").to_owned();
    let rows = || home.run(["ps", "-a", "--json"]).code(0).json();
    wait::until("the row goes", CAP, || rows().as_array().is_some_and(Vec::is_empty).then_some(()));
    home.run(["logs", &id]).code(64).says(&["no longer in the table", &format!("{id}.log")]);
    let running = home.run(["exec", "-d", "--", "sleep 1000"]).code(0).out().trim().to_owned();
    home.run(["exec", "-d", "--", "true"]).code(1).says(&["the limit is 1 (limits.background)"]);
    home.write_config("limits:\n  ended_for: 1h\n  background: 2\n");
    let more = wait::until("the config is read again", CAP, || {
        let done = home.run(["exec", "-d", "--", "sleep 1000"]);
        (done.code == Some(0)).then(|| done.out().trim().to_owned())
    });
    home.run(["kill", &running, &more]).code(0);
    assert_eq!(rows().as_array().map(Vec::len), Some(2));
}

/// Each looked before the others were counted.
#[test]
fn starts_at_the_same_time_do_not_exceed_the_limit() {
    let home = Home::with_config("limits:\n  background: 3\n");
    home.exec("local", "true");
    let starts: Vec<_> = (0..12).map(|_| home.start(["exec", "-d", "--", "sleep 1000"])).collect();
    let done: Vec<_> = starts.into_iter().map(|start| start.done()).collect();
    let begun: Vec<String> = done.iter().filter(|d| d.code == Some(0)).map(|d| d.out().trim().to_owned()).collect();
    assert_eq!(begun.len(), 3, "{begun:?}");
    home.run(["kill"].into_iter().map(str::to_owned).chain(begun)).code(0);
}
