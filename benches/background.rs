//! Background processes: what quiet ones cost, how late a line is, and 64 that write a megabyte a second each for 20 s: whether all of
//! it arrives, what memory and processor time the daemon takes, and how long a key takes to its echo meanwhile.

mod common;

use common::{Lab, Times, harness, home, millis, say};
use harness::procs::{self, Proc};
use harness::pty::Pty;
use harness::qd::Home;
use harness::{lab, wait};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const QUIET: usize = 50;
const LOUD: usize = 64;
const SECONDS: u64 = 20;
/// Lines of a second: nine bytes each.
const LINES: u64 = 111_111;
const FIRST: u64 = 10_000_000;
const KEYS: usize = 100;
const CAP: Duration = Duration::from_secs(240);

fn main() {
    let lab = Lab::up(1);
    if lab.is_some() && std::env::var_os("QD_LAB").is_none() {
        // The harness finds machines by this variable, which only a new process can be given.
        let folder = lab.as_ref().map(|l| l.folder().to_owned()).expect("it is up");
        let again = std::process::Command::new(std::env::current_exe().expect("we run")).env("QD_LAB", folder).status();
        assert!(again.is_ok_and(|s| s.success()), "the measuring process failed");
        return;
    }
    let mut names = vec!["local".to_owned()];
    let machines = lab::alone(1);
    names.extend(machines.iter().flat_map(|m| m.iter().map(|m| m.name.clone())));
    plain(&home(lab.as_ref()));
    for name in &names {
        let home = home(lab.as_ref());
        home.run(["exec", "-b", name, "--", "rm -f ~/go ~/enough"]).code(0);
        quiet(&home, name);
        late(&home, name);
        loud(&home, name);
    }
}

fn start(home: &Home, backend: &str, command: &str) -> String {
    home.run(["exec", "-b", backend, "-d", "--", command]).code(0).out().trim().to_owned()
}

fn end(home: &Home, ids: &[String]) {
    let words: Vec<&str> = ["kill"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    home.run(words).code(0);
}

/// Processor time per second of what is there now, in thousandths, over 20 s.
fn cost(what: &[Proc]) -> f64 {
    let before: u64 = what.iter().map(Proc::cpu_ticks).sum();
    let began = Instant::now();
    // The time itself is what is measured.
    let ended = wait::within(Duration::from_secs(20), || None::<()>);
    assert!(ended.is_none());
    let ticks = what.iter().map(Proc::cpu_ticks).sum::<u64>() - before;
    // A hundred ticks a second.
    ticks as f64 * 10.0 / began.elapsed().as_secs_f64()
}

fn quiet(home: &Home, backend: &str) {
    let ids: Vec<String> = (0..QUIET).map(|_| start(home, backend, "exec sleep 1000")).collect();
    // What the starts left to do is done.
    wait::within(Duration::from_secs(5), || None::<()>);
    let daemon = home.daemon().expect("it runs");
    say(&format!("{backend}: {QUIET} quiet ones cost the daemon {:.1} % of a processor", cost(&[daemon]) / 10.0));
    let followers: Vec<Proc> = procs::all().into_iter().filter(|p| follows(*p)).collect();
    if !followers.is_empty() {
        say(&format!("{backend}: and the shell that follows them there {:.2} %", cost(&followers) / 10.0));
    }
    end(home, &ids);
}

/// Whether a process is a shell that follows background processes: it stands in their folder.
fn follows(process: Proc) -> bool {
    std::fs::read_link(format!("/proc/{}/cwd", process.pid)).is_ok_and(|cwd| cwd.ends_with("quarterdeck/background"))
}

/// From a line's being written to its being printed by `qd logs -f`.
fn late(home: &Home, backend: &str) {
    let id = start(home, backend, "while :; do echo \"at $(date +%s%N)\"; sleep 0.4; done");
    let mut command = home.command(["logs", "-f", &id]);
    let mut follower = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("qd starts");
    let mut times = Times::default();
    let lines = BufReader::new(follower.stdout.take().expect("piped")).lines().map_while(Result::ok);
    // The first ones were written before anybody followed.
    for line in lines.skip(3).take(40) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
        let written: u128 = line.strip_prefix("at ").and_then(|at| at.parse().ok()).expect("a time");
        times.add(Duration::from_nanos(u64::try_from(now.saturating_sub(written)).unwrap_or(u64::MAX)));
    }
    follower.kill().expect("ours");
    follower.wait().expect("ours");
    say(&format!("{backend}: a line to `qd logs -f`: {}", times.text()));
    end(home, &[id]);
}

/// What writes for so long.
fn writer() -> String {
    format!(
        "s=$(date +%s); i=0; while [ $i -lt {SECONDS} ]; do seq $(({FIRST} + i * {LINES})) $(({FIRST} + (i + 1) * {LINES} - 1)); \
         i=$((i + 1)); while [ $(($(date +%s) - s)) -lt $i ]; do sleep 0.2; done; done"
    )
}

/// From a key to its echo.
fn echoes(tui: &mut Pty) -> Times {
    let mut times = Times::default();
    for round in 0..KEYS {
        let letter = ["`", "%"][round % 2];
        let before = tui.screen().matches(letter).count();
        let typed = Instant::now();
        tui.send(letter);
        tui.wait_within(Duration::from_secs(20), "the typed letter", |screen| screen.matches(letter).count() > before);
        times.add(typed.elapsed());
        tui.send("\x7f");
        tui.wait_within(Duration::from_secs(20), "the letter is gone again", |screen| screen.matches(letter).count() <= before);
    }
    times
}

/// The same writers, into files, with nothing of ours between: what they alone cost a key.
fn plain(home: &Home) {
    let mut writers: Vec<Child> = (0..LOUD)
        .map(|i| {
            let file = std::fs::File::create(home.path().join(format!("plain{i}"))).expect("ours");
            Command::new("bash").arg("-c").arg(writer()).stdin(Stdio::null()).stdout(file).spawn().expect("bash starts")
        })
        .collect();
    let mut tui = home.terminal(["tui"], 45, 160);
    tui.wait_for("the backend's name", |screen| screen.contains("local"));
    say(&format!("key to echo with {LOUD} plain writers and no background process: {}", echoes(&mut tui).text()));
    tui.send("\x1dq");
    writers.iter_mut().for_each(|w| drop(w.kill().and_then(|()| w.wait())));
}

fn loud(home: &Home, backend: &str) {
    let command = format!("until [ -e ~/go ]; do sleep 0.2; done; {}", writer());
    let ids: Vec<String> = (0..LOUD).map(|_| start(home, backend, &command)).collect();
    let mut tui = home.terminal(["tui"], 45, 160);
    tui.wait_for("the backend's name", |screen| screen.contains(backend));
    let daemon = home.daemon().expect("it runs");
    let (memory, ticks) = (peak(daemon), daemon.cpu_ticks());
    home.run(["exec", "-b", backend, "--", "touch ~/go"]).code(0);
    let began = Instant::now();
    let times = echoes(&mut tui);
    say(&format!("{backend}: key to echo with {LOUD} loud ones: {} (target p95 < 20 ms)", times.text()));
    let words: Vec<&str> = ["wait", "--timeout", "200"].into_iter().chain(ids.iter().map(String::as_str)).collect();
    home.start(words).done_within(CAP).code(0);
    let took = began.elapsed();
    let used = (daemon.cpu_ticks() - ticks) as f64 / 100.0;
    let bytes = LOUD as u64 * SECONDS * LINES * 9;
    say(&format!(
        "{backend}: {} MB in {:.1} s ({:.1} s of writing), peak memory of the daemon {} MB more, {used:.1} s of processor time",
        bytes / 1_000_000,
        took.as_secs_f64(),
        SECONDS as f64,
        peak(daemon).saturating_sub(memory) >> 20
    ));
    ids.iter().for_each(|id| whole(&home.state(), id));
    say(&format!(
        "{backend}: every line of all {LOUD} is there once; the last one {} after its time",
        millis(took.saturating_sub(Duration::from_secs(SECONDS)))
    ));
    tui.send("\x1dq");
}

/// The most memory that a process ever had, in bytes.
fn peak(process: Proc) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn whole(state: &Path, id: &str) {
    let text = std::fs::read_to_string(state.join("logs").join(format!("{id}.log"))).expect("its log is there");
    assert_eq!(text.lines().count() as u64, SECONDS * LINES, "{id} has too few or too many lines");
    for (i, line) in text.lines().enumerate() {
        assert!(line.parse() == Ok(FIRST + i as u64), "{id}: line {i} is {line:?}");
    }
}
