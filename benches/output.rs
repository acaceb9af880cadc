//! One gigabyte of output of a local command, kept in its log and printed: `qd exec -- cat FILE | wc -c` against
//! `cat FILE | tee LOG | wc -c`.

mod common;

use common::{Times, harness, millis, run, say, timed};
use harness::procs::{self, Proc};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

const SIZE: u64 = 1_000_000_000;
const ROUNDS: usize = 7;

fn main() {
    run(0, |_| measure());
}

/// Finds the daemon: the process whose environment has our state folder and whose arguments say `serve`.
fn daemon() -> Proc {
    let state = std::env::var_os("QD_STATE_DIR").expect("set by the parent");
    let found = procs::about(Path::new(&state)).into_iter().find(|p| p.command_line().contains("serve"));
    found.expect("the daemon runs")
}

/// The highest resident memory since [`forget_peak`], in bytes.
fn peak(process: Proc) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).expect("it runs");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("Linux has it");
    line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).expect("a number") * 1024
}

fn forget_peak(process: Proc) {
    std::fs::write(format!("/proc/{}/clear_refs", process.pid), "5").expect("the process is ours");
}

fn write_file(path: &Path) {
    let mut file = File::create(path).expect("the folder is ours");
    let line: Vec<u8> = (0..1_000_000u32).map(|i| if i % 100 == 99 { b'\n' } else { b'a' + (i % 26) as u8 }).collect();
    for _ in 0..SIZE / line.len() as u64 {
        file.write_all(&line).expect("there is room for a gigabyte");
    }
    file.sync_all().expect("there is room for a gigabyte");
}

/// Runs a pipe and gives how long it took; it must count the whole file.
fn pipe(text: &str) -> std::time::Duration {
    let (done, time) = timed(|| Command::new("bash").args(["-c", text]).output().expect("bash starts"));
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), SIZE.to_string(), "{}", String::from_utf8_lossy(&done.stderr));
    time
}

/// Removes what the daemon kept of the last round.
fn remove_logs() {
    let folder = std::path::PathBuf::from(std::env::var_os("QD_STATE_DIR").expect("set by the parent")).join("logs");
    for entry in std::fs::read_dir(folder).expect("the daemon made it").flatten() {
        std::fs::remove_file(entry.path()).expect("it is there");
    }
}

fn measure() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (file, log) = (folder.path().join("file"), folder.path().join("log"));
    write_file(&file);
    let qd = env!("CARGO_BIN_EXE_qd");
    let ours_text = format!("'{qd}' exec -- cat '{}' | wc -c", file.display());
    let plain = format!("cat '{}' | tee '{}' | wc -c", file.display(), log.display());
    Command::new(qd).args(["exec", "--", "head -c 10000000 /dev/zero"]).output().expect("qd starts");
    let daemon = daemon();
    let before = daemon.resident();
    forget_peak(daemon);
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    for _ in 0..ROUNDS {
        ours.add(pipe(&ours_text));
        remove_logs();
        theirs.add(pipe(&plain));
        std::fs::remove_file(&log).expect("tee wrote it");
    }
    let grown = peak(daemon).saturating_sub(before);
    let (mine, plain) = (ours.median(), theirs.median());
    say(&format!("1 GB of output on local: {} ({:.0} MB/s)", millis(mine), SIZE as f64 / 1e6 / mine.as_secs_f64()));
    say(&format!("  cat | tee | wc -c: {} ({:.0} MB/s)", millis(plain), SIZE as f64 / 1e6 / plain.as_secs_f64()));
    say(&format!("  ratio of speeds {:.2} (target: at least 0.8)", plain.as_secs_f64() / mine.as_secs_f64()));
    say(&format!("  the daemon's memory grew by {:.1} MB (target: under 20 MB)", grown as f64 / 1e6));
}
