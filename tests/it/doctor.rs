//! `qd doctor`: what it tells of whole and broken machines, that it disturbs nothing, and that its report holds no secret.

use crate::harness::lab::{self, Machine};
use crate::harness::qd::{Home, machines_config};
use crate::harness::run::Done;
use crate::harness::wait;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// The findings of one backend.
#[track_caller]
fn findings(done: &Done, backend: &str) -> Vec<Value> {
    let report = done.json();
    let all = report["backends"].as_array().expect("a list of backends");
    let one = all.iter().find(|one| one["name"] == backend).unwrap_or_else(|| panic!("no {backend} in {report:#}"));
    one["findings"].as_array().expect("a list of findings").clone()
}

/// Each check with its verdict, in their order.
fn shape(findings: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    findings.iter().map(|f| (text(&f["check"]), text(&f["verdict"]))).collect()
}

#[track_caller]
fn fact(findings: &[Value], check: &str) -> String {
    let found = findings.iter().find(|f| f["check"] == check).unwrap_or_else(|| panic!("no {check} in {findings:#?}"));
    found["fact"].as_str().expect("text").to_owned()
}

/// Asserts that the first failure is this one, that those before it did not fail, and that all after it are skipped.
#[track_caller]
fn fails_at(home: &Home, m: &Machine, check: &str) -> Vec<Value> {
    let done = home.run(["doctor", "--json", &m.name]).code(1);
    let all = findings(&done, &m.name);
    let at = all.iter().position(|f| f["verdict"] == "fail").unwrap_or_else(|| panic!("nothing failed: {all:#?}"));
    assert_eq!(all[at]["check"], check, "{all:#?}");
    assert!(all[at + 1..].iter().all(|f| f["verdict"] == "skipped") && all.len() > at + 2, "{all:#?}");
    all
}

const WHOLE: [&str; 17] = [
    "health",
    "ssh_config",
    "name",
    "port",
    "banner",
    "host_key",
    "login",
    "sessions",
    "shell",
    "login_shell",
    "login_environment",
    "clock",
    "state_folder",
    "kill",
    "round_trip",
    "limits",
    "throughput",
];

#[test]
fn local_is_examined_without_a_config() {
    let home = Home::new();
    let done = home.run(["doctor"]).code(0);
    let out = done.out();
    assert!(out.starts_with("local  local\n"), "{done}");
    for line in ["  ok    kill               ", "  ok    shell              ", "  ok    state folder       "] {
        assert!(out.contains(line), "no {line:?}\n{done}");
    }
    home.run(["doctor", "nope"]).code(64).says(&["nope", "local"]);
}

#[test]
fn a_whole_machine_has_every_check_and_a_command_that_runs_there_is_not_disturbed() {
    let Some(machines) = lab::share(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines[..1], &[]));
    let mut running =
        home.start(["exec", "-b", &m.name, "--", "i=0; until [ -e ~/stop ]; do echo $((i += 1)); read -t 0.005 <> <(:); done; echo done"]);
    running.wait_out("5\n");
    let epoch = || home.backend(&m.name)["health"]["since"].clone();
    let before = epoch();
    let done = home.run(["doctor", "--json", &m.name]).code(0);
    let all = findings(&done, &m.name);
    assert_eq!(shape(&all).into_iter().map(|(check, _)| check).collect::<Vec<_>>(), WHOLE, "{all:#?}");
    assert!(all.iter().all(|f| f["verdict"] == "ok" && f["backend"] == m.name.as_str()), "{all:#?}");
    assert!(fact(&all, "health").contains("1 command runs"), "{all:#?}");
    assert!(fact(&all, "login").contains(": accepted"), "{all:#?}");
    assert!(fact(&all, "sessions").starts_with("10 at a time"), "{all:#?}");
    assert!(fact(&all, "kill").starts_with("3 processes of our own ended"), "{all:#?}");
    fs::write(m.folder("root").join("stop"), "").expect("the folder is the lab's");
    let done = running.done().code(0);
    fs::remove_file(m.folder("root").join("stop")).expect("it is there");
    let lines: Vec<String> = done.out().lines().map(str::to_owned).collect();
    let numbers: Vec<usize> = lines[..lines.len() - 1].iter().map(|l| l.parse().expect("a number")).collect();
    assert!(numbers.iter().enumerate().all(|(i, n)| *n == i + 1) && lines.last().is_some_and(|l| l == "done"), "{done}");
    assert_eq!(before, epoch(), "the backend's own connection is the same");
    // Its shells see the end of their connection a moment later.
    wait::until("nothing is left there", wait::CAP, || {
        let left = m.ssh().arg("grep -l QD_PROCESS=doctor /proc/[0-9]*/environ 2>/dev/null; ls -A ~ /tmp | grep qd-doctor").output();
        left.expect("ssh starts").stdout.is_empty().then_some(())
    });
}

#[test]
fn lines_come_one_by_one_and_the_step_that_fails_is_named() {
    let Some(machines) = lab::share(1) else { return };
    let mut refused = machines[0].clone();
    refused.port = 1;
    let home = Home::with_machines(std::slice::from_ref(&refused), &[]);
    let done = home.run(["doctor", &refused.name]).code(1);
    let out = done.out();
    assert!(out.contains("  ok    name  ") && out.contains("  FAIL  port               connection refused by"), "{done}");
    assert!(
        out.contains("-> check that the machine runs sshd") && out.contains("  skip  login              the step `port` failed"),
        "{done}"
    );
    fails_at(&home, &refused, "port");
    // The others are examined all the same.
    let done = home.run(["doctor", "--json"]).code(1);
    assert!(findings(&done, "local").iter().all(|f| f["verdict"] != "fail"), "{done}");
}

#[test]
fn a_black_hole_is_told_within_its_time() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["connect_timeout: 2"]));
    m.ctl(&["blackhole"]);
    let all = fails_at(&home, m, "port");
    assert!(fact(&all, "port").contains("no answer from"), "{all:#?}");
    m.ctl(&["unblackhole"]);
    home.run(["doctor", &m.name]).code(0);
}

#[test]
fn a_wrong_key_an_unknown_host_and_an_account_without_a_shell_are_told() {
    let Some(machines) = lab::share(1) else { return };
    let m = &machines[0];
    let keys = tempfile::tempdir().expect("a folder");
    let wrong = keys.path().join("wrong");
    let made = std::process::Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&wrong).status();
    assert!(made.is_ok_and(|s| s.success()));
    let mut other = m.clone();
    other.key = wrong.display().to_string();
    let wrong = other;
    let all = fails_at(&Home::with_machines(std::slice::from_ref(&wrong), &[]), &wrong, "login");
    assert!(fact(&all, "login").contains("keys offered: ssh-ed25519 SHA256:"), "{all:#?}");

    let mut strange = m.clone();
    strange.known_hosts = keys.path().join("none").display().to_string();
    let all = fails_at(&Home::with_machines(std::slice::from_ref(&strange), &[]), &strange, "host_key");
    assert!(fact(&all, "host_key").contains("is not known"), "{all:#?}");
    assert!(!keys.path().join("none").exists());

    if m.accounts.iter().any(|account| account == "nologin") {
        let closed = m.account("nologin");
        let all = fails_at(&Home::with_machines(std::slice::from_ref(&closed), &[]), &closed, "shell");
        assert!(fact(&all, "login").contains(": accepted"), "{all:#?}");
    }
}

#[test]
fn every_login_shell_is_examined_to_the_end() {
    let Some(machines) = lab::share(1) else { return };
    for account in machines[0].accounts.iter().filter(|a| *a != "nologin") {
        let m = machines[0].account(account);
        let done = Home::with_machines(std::slice::from_ref(&m), &[]).run(["doctor", "--json", &m.name]).code(0);
        let all = findings(&done, &m.name);
        assert!(all.iter().all(|f| f["verdict"] == "ok"), "{account}: {all:#?}");
        assert!(fact(&all, "login_shell").contains(account.as_str()) || account == "ada" || account == "ash", "{account}: {all:#?}");
    }
}

#[test]
fn one_session_at_a_time_is_counted_and_does() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &[]));
    m.ctl(&["set", "MaxSessions 1"]);
    let done = home.run(["doctor", "--json", &m.name]).code(0);
    let all = findings(&done, &m.name);
    assert!(fact(&all, "sessions").starts_with("1 at a time"), "{all:#?}");
    assert!(fact(&all, "kill").contains("one session at a time is allowed"), "{all:#?}");
}

#[test]
fn a_home_that_cannot_be_written_is_told() {
    let Some(machines) = lab::alone(1) else { return };
    let m = machines[0].account("ada");
    let folder = m.folder("home").join("ada");
    let old = fs::metadata(&folder).expect("the home is there").permissions();
    for name in [".local", ".cache"] {
        // Left by whoever was there before: then it would be writable below.
        let _ = fs::remove_dir_all(folder.join(name));
    }
    fs::set_permissions(&folder, PermissionsExt::from_mode(0o555)).expect("the folder is the lab's");
    let home = Home::with_machines(std::slice::from_ref(&m), &[]);
    let done = home.run(["doctor", "--json", &m.name]);
    fs::set_permissions(&folder, old).expect("the folder is the lab's");
    let all = findings(&done.code(0), &m.name);
    let folder = fact(&all, "state_folder");
    assert!(folder.starts_with("/var/tmp/quarterdeck-") && folder.contains("/.local/state/quarterdeck (Permission denied)"), "{all:#?}");
}

#[test]
fn a_report_holds_no_secret() {
    const SECRETS: [&str; 9] = [
        "env-value-4711",
        "short1",
        "fwd-value-4712",
        "listed-value-4713",
        "daemon-value-4714",
        "correct horse battery 4715",
        "sk-ant-api03-abcdefghijklmnop4716",
        "hunter4717",
        "b3BlbnNzaC1rZXktdjEAAAAA4718",
    ];
    let mut home = Home::with_config(
        "terminal:\n  local:\n    env:\n      PLAIN_NAME: env-value-4711\n      TINY: short1\n      TAKEN: ${GIVEN}\n\
         \x20   forward_env: [FORWARDED]\n",
    );
    home.set("FORWARDED", "fwd-value-4712");
    home.set("GIVEN", "listed-value-4713");
    home.set("DB_PASSWORD", "daemon-value-4714");
    home.set("QD_LOG", "trace");
    home.run(["exec", "--", "echo fwd-value-4712"]).code(0);
    let log = home.state().join("log/qd.log");
    let mut text = fs::read_to_string(&log).expect("the daemon logs");
    text.insert_str(0, "AAAAB3NzaC1 b3BlbnNzaC1rZXktdjEAAAAA4718\n-----END OPENSSH PRIVATE KEY-----\n");
    text += "Enter passphrase for key '/home/ada/.ssh/id': correct horse battery 4715\n\
             token sk-ant-api03-abcdefghijklmnop4716\nmysql --password hunter4717 -h db\nsaw env-value-4711, listed-value-4713, fwd-value-4712 and daemon-value-4714\n\
             an honest line\n";
    fs::write(&log, text).expect("the log is ours");
    let file = home.work().join("report.txt");
    let name = file.to_str().expect("text");
    let done = home.run(["doctor", "--bundle", name]).code(0).says(&["the report is in", "look through it"]);
    assert!(done.out().starts_with("local  local\n"), "{done}");
    let report = fs::read_to_string(&file).expect("it was written");
    assert_eq!(fs::metadata(&file).expect("it is there").mode() & 0o777, 0o600);
    for secret in SECRETS {
        assert!(!report.contains(secret), "{secret} is in the report:\n{report}");
    }
    for part in [
        "quarterdeck 0.",
        "== findings",
        "  ok    kill ",
        "== config",
        "PLAIN_NAME: \"[redacted]\"",
        "FORWARDED",
        "== log",
        "an honest line",
    ] {
        assert!(report.contains(part), "no {part:?} in the report:\n{report}");
    }
    home.run(["doctor", "--bundle", name]).code(64).says(&["is there already"]);
}

#[test]
fn a_report_is_written_when_the_config_cannot_be_read() {
    let home = Home::with_config("terminal:\n  bakends: {}\n");
    let file = home.work().join("report.txt");
    home.run(["doctor", "--bundle", file.to_str().expect("text")]).code(78);
    let report = fs::read_to_string(&file).expect("it was written all the same");
    assert!(report.contains("it did not come to its end: ") && report.contains("bakends"), "{report}");
}

#[test]
fn a_machine_is_examined_once_at_a_time() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_config(&machines_config(&machines[..1], &["connect_timeout: 20"])));
    m.ctl(&["blackhole"]);
    let mut first = home.start(["doctor", &m.name]);
    first.wait_out("name");
    home.run(["doctor", &m.name]).code(1).says(&["is being examined already"]);
    first.signal(nix::sys::signal::Signal::SIGINT);
    first.done();
    m.ctl(&["unblackhole"]);
    wait::until("an examination after the one that was given up", wait::CAP, || {
        (home.run(["doctor", &m.name]).code == Some(0)).then_some(())
    });
}
