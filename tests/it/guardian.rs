//! What looks after a background process on its backend: its stdin, its time, the size of its log, with bash and without.

use crate::background::{WRITER, assert_every_line_once, lines, start, state, wait_lines, wait_state};
use crate::harness::lab;
use crate::harness::procs;
use crate::harness::qd::Home;
use crate::harness::wait;
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const CAP: Duration = Duration::from_secs(60);
const SH_ALONE: &str = "terminal:\n  local:\n    shell: sh\n";

/// A home whose `local` has this program as sh, with nothing but busybox behind it when that is busybox. None where it is missing.
fn home_with_sh(program: &str) -> Option<Home> {
    let path = ["/usr/bin", "/bin"].iter().map(|dir| Path::new(dir).join(program)).find(|path| path.exists())?;
    let mut home = Home::with_config(SH_ALONE);
    let bin = home.path().join("bin");
    std::fs::create_dir(&bin).expect("ours");
    if program == "busybox" {
        let done = Command::new(&path).args(["--install", "-s"]).arg(&bin).status().expect("busybox starts");
        assert!(done.success());
        // What the tests themselves start programs with.
        for name in ["env", "setsid"] {
            let link = bin.join(name);
            // There is none where busybox was built without it.
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(Path::new("/usr/bin").join(name), link).expect("ours");
        }
        home.set("PATH", &bin.display().to_string());
    } else {
        std::os::unix::fs::symlink(path, bin.join("sh")).expect("ours");
        home.set("PATH", &format!("{}:/usr/bin:/bin", bin.display()));
    }
    Some(home)
}

/// Starts with flags; gives the id.
#[track_caller]
fn start_with(home: &Home, backend: &str, flags: &[&str], command: &str) -> String {
    let args = [&["exec", "-b", backend, "-d"], flags, &["--", command]].concat();
    home.run(args).code(0).out().trim().to_owned()
}

fn kill_daemon(home: &Home) {
    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    wait::until("the end of the daemon", CAP, || home.daemon().is_none().then_some(()));
}

/// The folder of a process on this machine.
fn folder(home: &Home, id: &str) -> PathBuf {
    home.path().join(".local/state/quarterdeck/background").join(id)
}

/// A whole life: output, code, signals, kill, and the daemon's death in between.
fn lives(home: &Home, backend: &str) {
    home.output(backend, "rm -f ~/enough; export A=1");
    let id = start(home, backend, "echo \"$A $PYTHONUNBUFFERED\"; echo err >&2; exit 3");
    home.run(["wait", &id]).code(3);
    assert_eq!(home.run(["logs", &id]).code(0).out(), "1 1\nerr\n");
    for (command, code) in [("exec sh -c 'exit 6'", 6), ("kill -9 $$", 137), ("trap 'echo bye' EXIT; exit 9", 9), ("if", 2)] {
        let id = start(home, backend, command);
        home.run(["wait", &id]).code(code);
    }
    let id = start(home, backend, "trap 'exit 4' INT; echo up; while :; do sleep 0.1; done");
    wait_lines(home, &id, 0);
    home.run(["kill", "-s", "INT", &id]).code(0);
    home.run(["wait", &id]).code(4);
    let id = start(home, backend, "trap '' TERM; (sleep 1000 &); echo up; while :; do sleep 0.1; done");
    wait_lines(home, &id, 0);
    home.run(["kill", &id]).code(0);
    assert_eq!(state(home, &id), "cancelled");
    let id = start(home, backend, WRITER);
    wait_lines(home, &id, 5);
    kill_daemon(home);
    wait_state(home, &id, "running");
    let seen = wait_lines(home, &id, 5);
    wait_lines(home, &id, seen);
    home.output(backend, "touch ~/enough");
    home.run(["wait", &id]).code(7);
    assert_every_line_once(home, &id);
}

/// Input from others, in order, over the death of the daemon, to its end.
fn takes_input(home: &Home, backend: &str) {
    let id = start_with(home, backend, &["--stdin-open"], "while read -r x; do echo \"got $x\"; done; echo end; exit 5");
    home.run(["send", &id, "--submit", "one"]).code(0);
    wait_lines(home, &id, 0);
    let total = home.run(["logs", &id]).code(0).out().len();
    let outdated = home.run(["send", &id, "--submit", "late", "--expect-offset", "0"]);
    assert!(outdated.code != Some(0) && outdated.err().contains("nothing was sent"), "{outdated}");
    home.run(["send", &id, "--submit", "it's two", "--expect-offset", &total.to_string()]).code(0);
    kill_daemon(home);
    wait_state(home, &id, "running");
    home.run(["send", &id, "--text", "thr"]).code(0);
    home.run(["send", &id, "--submit", "ee"]).code(0);
    home.run(["send", &id, "--eof"]).code(0);
    home.run(["wait", &id]).code(5);
    assert_eq!(lines(home, &id), ["got one", "got it's two", "got three", "end"]);
    let refused = home.run(["send", &id, "--submit", "more"]);
    assert!(refused.code != Some(0) && refused.err().contains("has ended"), "{refused}");
    // Its end may come before anything reads it, and nothing may come after it.
    let id = start_with(home, backend, &["--stdin-open"], "sleep 0.3; cat; until [ -e ~/enough ]; do sleep 0.05; done");
    home.output(backend, "rm -f ~/enough");
    home.run(["send", &id, "--text", "x", "--eof"]).code(0);
    let refused = home.run(["send", &id, "--submit", "more"]);
    assert!(refused.code != Some(0) && refused.err().contains("stdin"), "{refused}");
    wait::until("the input", CAP, || (lines(home, &id) == ["x"]).then_some(()));
    home.output(backend, "touch ~/enough");
    home.run(["wait", &id]).code(0);
    // What is given at the start is given to its end.
    let big: String = (0..40_000).map(|i| format!("line {i}\n")).collect();
    let args = ["exec", "-b", backend, "-d", "-i", "--", "cksum; echo done"];
    let id = home.run_with(args, big.clone()).code(0).out().trim().to_owned();
    home.run(["wait", &id]).code(0);
    let mut cksum =
        Command::new("cksum").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    std::io::Write::write_all(&mut cksum.stdin.take().expect("piped"), big.as_bytes()).expect("it reads");
    let wanted = String::from_utf8(cksum.wait_with_output().expect("it ends").stdout).expect("text");
    assert_eq!(lines(home, &id), [wanted.trim(), "done"]);
    // Without any it is empty.
    let id = start(home, backend, "cat; echo none");
    home.run(["wait", &id]).code(0);
    assert_eq!(lines(home, &id), ["none"]);
}

/// A time that is over, with a command that ignores TERM and one that does not, over the death of the daemon.
fn times_out(home: &Home, backend: &str) {
    let id = start_with(home, backend, &["--timeout", "1"], "echo up; exec sleep 1000");
    home.run(["wait", &id]).code(124);
    assert_eq!(state(home, &id), "timed_out");
    let id = start_with(home, backend, &["--timeout", "2"], "trap '' TERM; (sleep 1001 &); echo up; while :; do sleep 0.1; done");
    kill_daemon(home);
    home.run(["wait", &id]).code(124);
    let left = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c '^100[1]$' || :";
    wait::until("the end of what it started", CAP, || (home.output(backend, left).trim() == "0").then_some(()));
    let id = start_with(home, backend, &["--timeout", "1000"], "exit 8");
    home.run(["wait", &id]).code(8);
}

#[test]
fn with_bash_on_this_machine() {
    let home = Home::new();
    takes_input(&home, "local");
    times_out(&home, "local");
}

#[test]
fn with_dash_alone() {
    let Some(home) = home_with_sh("dash") else { return };
    lives(&home, "local");
    takes_input(&home, "local");
    times_out(&home, "local");
}

#[test]
fn with_busybox_alone() {
    let Some(home) = home_with_sh("busybox") else { return };
    lives(&home, "local");
    takes_input(&home, "local");
    times_out(&home, "local");
}

#[test]
fn with_bash_on_a_machine() {
    let Some(machines) = lab::share(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &[]));
    takes_input(&home, &m.name);
    times_out(&home, &m.name);
}

#[test]
fn with_sh_alone_on_a_machine() {
    let Some(machines) = lab::share(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["shell: sh"]));
    lives(&home, &m.name);
    takes_input(&home, &m.name);
    times_out(&home, &m.name);
}

/// Does something at its end, also that of a test that fails.
struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        self.0();
    }
}

#[test]
fn with_busybox_alone_on_a_machine() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["shell: sh"]));
    let as_root = |command: &str| assert!(m.ssh().arg(command).status().expect("ssh starts").success(), "{command}");
    if !Path::new("/usr/bin/busybox").exists() && !Path::new("/bin/busybox").exists() {
        return;
    }
    as_root("mount --bind $(command -v busybox) $(readlink -f /bin/sh)");
    let _back = AtEnd(|| as_root("umount -l $(readlink -f /bin/sh)"));
    lives(&home, &m.name);
    takes_input(&home, &m.name);
    times_out(&home, &m.name);
}

#[test]
fn its_time_is_kept_there_and_nothing_is_sent_while_the_link_is_down() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["health_interval: 1", "connect_timeout: 3"]));
    let id = start_with(&home, &m.name, &["--stdin-open", "--timeout", "4"], "echo up; while :; do date > ~/alive; sleep 0.1; done");
    wait_lines(&home, &id, 0);
    m.ctl(&["cut"]);
    wait_state(&home, &id, "unknown");
    let refused = home.run(["send", &id, "--submit", "x"]);
    assert!(refused.code != Some(0) && refused.err().contains("nothing was sent"), "{refused}");
    // The guardian there ends it although nobody can tell it to.
    let alive = m.folder("root").join("alive");
    let stamp = || std::fs::metadata(&alive).and_then(|data| data.modified()).ok();
    wait::until("the end of it", CAP, || stamp().and_then(|t| t.elapsed().ok()).filter(|t| *t > Duration::from_secs(2)));
    assert_eq!(state(&home, &id), "unknown");
    m.ctl(&["mend"]);
    home.run(["wait", &id]).code(124);
}

#[test]
fn a_log_over_its_cap_keeps_head_and_tail_and_says_what_is_missing() {
    let home = Home::with_config("limits:\n  log_bytes: 1MiB\n");
    // Stopped before it can fetch: what is written meanwhile is far over the cap.
    let id = start(
        &home,
        "local",
        "echo up; until [ -e ~/go ]; do sleep 0.05; done; seq -f '%07.0f' 0 2000000; until [ -e ~/enough ]; do sleep 0.05; done",
    );
    wait_lines(&home, &id, 0);
    let daemon = home.daemon().expect("it runs");
    daemon.signal(Signal::SIGSTOP);
    std::fs::write(home.path().join("go"), "").expect("ours");
    let log = folder(&home, &id).join("log");
    let size = || std::fs::metadata(&log).map_or(0, |data| data.len());
    wait::until("all of the output", CAP, || (size() == 16_000_011).then_some(()));
    daemon.signal(Signal::SIGCONT);
    std::fs::write(home.path().join("enough"), "").expect("ours");
    home.run(["wait", &id]).code(0);
    let row = home.run(["ps", "-a", "--json"]).code(0).json();
    let row = row.as_array().expect("rows").iter().find(|row| row["id"] == id.as_str()).cloned().unwrap_or_default();
    assert_eq!(row["output_bytes"], 16_000_011, "{row:#}");
    assert_eq!(row["warnings"][0]["code"], "output_lost", "{row:#}");
    let last = home.run(["logs", &id, "--tail", "2"]).code(0).out();
    assert_eq!(last, "1999999\n2000000\n");
    let head = home.run(["logs", &id, "--offset", "0"]).code(0).out();
    assert!(head.starts_with("up\n0000000\n0000001\n"), "{}", &head[..40]);
}

#[test]
fn what_was_fetched_is_given_back_to_the_disk() {
    use std::os::unix::fs::MetadataExt;
    let home = Home::new();
    let id = start(&home, "local", "seq -f '%07.0f' 0 9999999; until [ -e ~/enough ]; do sleep 0.05; done");
    let log = folder(&home, &id).join("log");
    let all = 8 * 10_000_000_u64;
    wait::until("all of the output", CAP, || std::fs::metadata(&log).ok().filter(|data| data.len() == all));
    // 80 MB were written; two steps of 16 MiB may stay.
    wait::until("most of it given back", CAP, || std::fs::metadata(&log).ok().filter(|data| data.blocks() * 512 < 40 << 20));
    std::fs::write(home.path().join("enough"), "").expect("ours");
    home.run(["wait", &id]).code(0);
    let whole = home.run(["logs", &id]).code(0).out();
    assert_eq!(whole.len() as u64, all);
    assert!(whole.lines().enumerate().all(|(i, line)| line.parse() == Ok(i)), "a line is missing or doubled");
}

#[test]
fn nothing_of_its_keepers_stays() {
    let home = Home::new();
    let id = start_with(&home, "local", &["--stdin-open", "--timeout", "1000"], "exit 0");
    home.run(["wait", &id]).code(0);
    let cookie = format!("QD_PROCESS={id}");
    wait::until("the end of everything", CAP, || procs::about(Path::new(&cookie)).is_empty().then_some(()));
}
