//! What the benchmarks share: a home, the lab, medians, and how a comparison is printed.
//!
//! Invariant: both sides of a comparison are measured in the same run, in turns, on the same machine.
#![allow(dead_code, reason = "each bench uses its part")]

#[path = "../../tests/it/harness/mod.rs"]
pub(crate) mod harness;

use harness::qd::Home;
use quarterdeck::client::{Client, Connect, Item, Items};
use quarterdeck::model::{Exec, ExecResult};
use quarterdeck::protocol::calls::ExecCall;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Set for the process that measures: it runs in the home that its parent made.
const INNER: &str = "QD_BENCH_INNER";

/// Runs a benchmark. The parent makes a home whose config has the lab's machines, starts the daemon, and runs itself again in
/// that home's environment, where `measure` finds the daemon as every client does. Without a lab (no root), `machines` is 0.
pub(crate) fn run(machines: usize, measure: impl FnOnce(usize)) {
    if let Ok(count) = std::env::var(INNER) {
        return measure(count.parse().unwrap_or(0));
    }
    let lab = Lab::up(machines);
    let names = lab.as_ref().map_or(0, |_| machines);
    let home = home(lab.as_ref());
    home.run(["exec", "--", "true"]).code(0);
    let mut command = home.command::<&str>([]);
    let env: Vec<_> = command.get_envs().filter_map(|(k, v)| Some((k.to_owned(), v?.to_owned()))).collect();
    command = Command::new(std::env::current_exe().expect("we run"));
    let status = command.env_clear().envs(env).env(INNER, names.to_string()).envs(lab.iter().map(|l| ("QD_LAB", l.folder()))).status();
    assert!(status.is_ok_and(|s| s.success()), "the measuring process failed");
}

/// Makes a home with every machine of the lab in its config.
pub(crate) fn home(lab: Option<&Lab>) -> Home {
    match lab {
        Some(lab) => Home::with_config(&std::fs::read_to_string(lab.folder().join("config.yaml")).expect("the lab wrote it")),
        None => Home::new(),
    }
}

/// A lab of its own, taken down at the end; or the one of QD_LAB.
pub(crate) struct Lab {
    folder: PathBuf,
    own: Option<tempfile::TempDir>,
}

impl Lab {
    /// Brings machines up; none where that cannot be done, and says why.
    pub(crate) fn up(machines: usize) -> Option<Self> {
        if machines == 0 {
            return None;
        }
        if let Some(folder) = std::env::var_os("QD_LAB") {
            return Some(Self { folder: folder.into(), own: None });
        }
        let own = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = own.path().join("lab");
        let pid = std::process::id().to_string();
        let up = script("up").args(["--while", &pid]).arg(&folder).arg(machines.to_string()).output().expect("the lab can be started");
        if !up.status.success() {
            say(&format!("without machines: {}", String::from_utf8_lossy(&up.stderr).trim()));
            return None;
        }
        Some(Self { folder, own: Some(own) })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.own.is_some() {
            let down = script("down").arg(&self.folder).status();
            assert!(down.is_ok_and(|s| s.success()) || std::thread::panicking(), "the lab stays up: {}", self.folder.display());
        }
    }
}

fn script(name: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab").join(name))
}

/// Prints a line.
#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// Connects to the daemon that runs.
pub(crate) async fn connect() -> Client {
    let how = Connect { config: None, kind: "cli".into(), agent: None, start: false };
    Client::connect(&how).await.expect("the daemon was started before")
}

/// Starts a command on a backend.
pub(crate) async fn start(client: &Client, backend: &str, command: &str, follow: bool) -> Items {
    let exec = Exec {
        backend: Some(backend.into()),
        command: command.into(),
        split: follow,
        max_output_bytes: follow.then_some(0),
        ..Exec::default()
    };
    client.exec(ExecCall { exec, follow, files: false }).await.expect("the command is accepted")
}

/// Runs a command to its end and gives its result with the bytes that arrived.
pub(crate) async fn exec(client: &Client, backend: &str, command: &str, follow: bool) -> (ExecResult, u64) {
    let mut items = start(client, backend, command, follow).await;
    let mut seen = 0;
    while let Some(item) = items.next().await {
        match item.expect("the daemon answers") {
            Item::Data { bytes, .. } => seen += bytes.len() as u64,
            Item::Result(result) => return (*result, seen),
            Item::Started(_) | Item::File(_) | Item::Kept(_) | Item::Followed(_) => {}
        }
    }
    panic!("{command:?} on {backend} ended without a result");
}

/// OpenSSH with a ControlMaster on a machine: the plain tool of the ssh benchmarks. The master ends with it.
pub(crate) struct Master {
    folder: tempfile::TempDir,
    words: Vec<std::ffi::OsString>,
}

impl Master {
    pub(crate) fn start(machine: &harness::lab::Machine) -> Self {
        let words = machine.ssh().get_args().map(ToOwned::to_owned).collect();
        let master = Self { folder: tempfile::tempdir().expect("a temporary folder can be made"), words };
        quiet(&mut master.ssh(&["-M", "-N", "-f"], &[]));
        master
    }

    /// `ssh` through the master, with a command.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        self.ssh(&[], words)
    }

    fn ssh(&self, before: &[&str], after: &[&str]) -> Command {
        let mut command = Command::new("ssh");
        let path = format!("ControlPath={}", self.folder.path().join("c").display());
        command.args(["-o", &path]).args(before).args(&self.words).args(after);
        command
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        quiet(&mut self.ssh(&["-O", "exit"], &[]));
    }
}

/// Runs a plain tool, which must succeed, and gives how long it took.
pub(crate) fn quiet(command: &mut Command) -> Duration {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let (status, time) = timed(|| command.status().expect("the plain tool starts"));
    assert!(status.success(), "{command:?}: {status}");
    time
}

/// Measured times of one thing.
#[derive(Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// The value below which this part (0 to 1) of the times lies.
    pub(crate) fn at(&self, part: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let last = sorted.len().saturating_sub(1);
        sorted.get((last as f64 * part).round() as usize).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> Duration {
        self.at(0.5)
    }

    pub(crate) fn text(&self) -> String {
        format!("median {} p95 {} (n {})", millis(self.median()), millis(self.at(0.95)), self.0.len())
    }
}

/// Measures one call.
pub(crate) fn timed<T>(call: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let value = call();
    (value, began.elapsed())
}

pub(crate) fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// Prints a comparison of two medians as the ratio of ours to the plain tool's.
pub(crate) fn compare(what: &str, ours: &Times, plain_name: &str, plain: &Times, target: &str) {
    say(&format!("{what}: {}", ours.text()));
    say(&format!("  {plain_name}: {}", plain.text()));
    let ratio = ours.median().as_secs_f64() / plain.median().as_secs_f64();
    say(&format!("  ratio {ratio:.2} ({target})"));
}
