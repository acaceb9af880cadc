//! Background processes: what quiet ones cost, and those that wait for them, how late a line is, and 64 that write a megabyte a
//! second each for 20 s: whether all of it arrives, what memory and processor time the daemon takes, and how long a key takes to its
//! echo meanwhile.

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
/// Keys while they write, one each tenth of a second.
const KEYS: usize = 170;
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
    // `cargo bench --bench background -- loud` measures that part alone.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    if wanted("loud") {
        plain(&home(lab.as_ref()));
    }
    for name in &names {
        let home = home(lab.as_ref());
        for (part, measure) in [("quiet", quiet as fn(&Home, &str)), ("clients", clients), ("late", late), ("loud", loud)] {
            if wanted(part) {
                measure(&home, name);
            }
        }
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

/// As many `qd wait` and `qd logs -f` as quiet processes, each on its own: what waiting costs the daemon and them.
fn clients(home: &Home, backend: &str) {
    let ids: Vec<String> = (0..QUIET).map(|_| start(home, backend, "exec sleep 1000")).collect();
    let one = |words: &[&str], id: &String| {
        let mut command = home.command(words.iter().copied().chain([id.as_str()]));
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("qd starts")
    };
    let mut waiting: Vec<Child> = ids.iter().flat_map(|id| [one(&["wait"], id), one(&["logs", "-f"], id)]).collect();
    wait::within(Duration::from_secs(5), || None::<()>);
    let daemon = home.daemon().expect("it runs");
    let them: Vec<Proc> = procs::all().into_iter().filter(|p| waiting.iter().any(|w| w.id() == p.pid)).collect();
    assert_eq!(them.len(), 2 * QUIET, "they all still wait");
    let all: Vec<Proc> = them.iter().copied().chain([daemon]).collect();
    let ours = cost(&all) / 10.0;
    say(&format!(
        "{backend}: {QUIET} `qd wait` and {QUIET} `qd logs -f` on quiet ones cost {ours:.1} % of a processor with the daemon (target 0.0 %)"
    ));
    waiting.iter_mut().for_each(|w| drop(w.kill().and_then(|()| w.wait())));
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

/// A writer that costs next to nothing: a tenth of a second's lines at once, each tenth of a second, out of a file. It begins
/// when there is `~/go`.
const WRITER: &str = "use Time::HiRes qw(time sleep); chdir; open F, 'lines'; sleep .1 until -e 'go'; $t = time; \
     while ($n = sysread F, $b, 100000) { for ($o = 0; $o < $n; $o += $w) { $w = syswrite STDOUT, $b, $n - $o, $o; die unless $w } \
     $d = ($t += .1) - time; sleep $d if $d > 0 }";

/// Where both sides have it.
fn writer() -> String {
    format!("exec perl -e \"{}\"", WRITER.replace('$', "\\$"))
}

/// What makes the file of lines.
fn lines() -> String {
    format!("rm -f ~/go; seq {FIRST} {} > ~/lines", FIRST + SECONDS * LINES - 1)
}

/// From a key to its echo, for most of the time that the writers take.
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
        // A person types on; not in step with the writers.
        wait::within(Duration::from_millis(97).saturating_sub(typed.elapsed()), || None::<()>);
    }
    times
}

/// The same writers, into files, with nothing of ours between: what they alone cost a key.
fn plain(home: &Home) {
    let bash = |command: &str| {
        let mut bash = Command::new("bash");
        bash.arg("-c").arg(command).env("HOME", home.path()).stdin(Stdio::null());
        bash
    };
    let made = bash(&format!("{}; touch ~/go", lines())).status();
    assert!(made.is_ok_and(|s| s.success()), "there is nothing to write");
    let mut tui = home.terminal(["tui"], 45, 160);
    tui.wait_for("the backend's name", |screen| screen.contains("local"));
    let mut writers: Vec<Child> = (0..LOUD)
        .map(|i| {
            let file = std::fs::File::create(home.path().join(format!("plain{i}"))).expect("ours");
            bash(&writer()).stdout(file).spawn().expect("bash starts")
        })
        .collect();
    let (began, idle) = (Instant::now(), idle());
    say(&format!("key to echo with {LOUD} plain writers and no background process: {}", echoes(&mut tui).text()));
    say(&format!("of all processors, {:.0} % had nothing to do meanwhile", free(idle, began)));
    tui.send("\x1dq");
    writers.iter_mut().for_each(|w| drop(w.kill().and_then(|()| w.wait())));
    (0..LOUD).for_each(|i| drop(std::fs::remove_file(home.path().join(format!("plain{i}")))));
}

/// Hundredths of a second that processors had nothing to do since they run.
fn idle() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.lines().next().unwrap_or_default().split_whitespace();
    fields.skip(4).take(2).filter_map(|n| n.parse::<u64>().ok()).sum()
}

/// The part of all processors' time since then that was not used, in per cent.
fn free(idle_then: u64, since: Instant) -> f64 {
    let all = since.elapsed().as_secs_f64() * std::thread::available_parallelism().map_or(1, usize::from) as f64;
    (idle() - idle_then) as f64 / all
}

fn loud(home: &Home, backend: &str) {
    home.run(["exec", "-b", backend, "--", &lines()]).code(0);
    let ids: Vec<String> = (0..LOUD).map(|_| start(home, backend, &writer())).collect();
    let mut tui = home.terminal(["tui"], 45, 160);
    tui.wait_for("the backend's name", |screen| screen.contains(backend));
    let daemon = home.daemon().expect("it runs");
    let (memory, ticks) = (peak(daemon), daemon.cpu_ticks());
    home.run(["exec", "-b", backend, "--", "touch ~/go"]).code(0);
    let (began, idle) = (Instant::now(), idle());
    let times = echoes(&mut tui);
    say(&format!("{backend}: key to echo with {LOUD} loud ones: {} (target p95 < 20 ms)", times.text()));
    let viewer = procs::all().into_iter().find(|p| p.pid == tui.pid()).map_or(0.0, |p| p.cpu_ticks() as f64 / 100.0);
    say(&format!("{backend}: the TUI took {viewer:.1} s; {:.0} % of all processors had nothing to do", free(idle, began)));
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
