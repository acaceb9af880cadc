//! ssh over links as they are: far away, with slow start files, narrow with a flood on it, and a gigabyte. Against OpenSSH
//! over a ControlMaster on the same link.

mod common;

use common::{Master, Times, compare, connect, exec, harness, millis, quiet, run, say, start, timed};
use harness::lab::{self, Machine};
use quarterdeck::client::Item;
use std::process::Command;
use std::time::{Duration, Instant};

/// The far link's round trip.
const FAR: Duration = Duration::from_millis(100);
/// The narrow line: 50 ms, 20 Mbit/s.
const NARROW: &str = "50/20";
const REST: Duration = Duration::from_millis(50);
const ROUNDS: usize = 60;
/// Commands before those that count: the first ones find another connection.
const WARM_UP: usize = 5;
const SIZE: u64 = 1_000_000_000;
const SIZE_ROUNDS: usize = 5;

fn main() {
    run(1, |machines| {
        if machines == 0 {
            return say("links need the lab's machines, which need root");
        }
        let Some(held) = lab::alone(1) else { return };
        let machine = &held[0];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
        runtime.block_on(async {
            far(machine).await;
            narrow(machine).await;
        });
        gigabyte(machine);
    });
}

/// Runs `true` again and again; beside it the plain tool in turns, where one is given.
async fn times(machine: &Machine, mut plain: Option<&mut Command>) -> (Times, Times) {
    let client = connect().await;
    let (mut ours, mut theirs) = (Times::default(), Times::default());
    for round in 0..ROUNDS + WARM_UP {
        tokio::time::sleep(REST).await;
        let began = Instant::now();
        let (result, _) = exec(&client, &machine.name, "true", false).await;
        let time = began.elapsed();
        assert_eq!(result.outcome.process_exit_code(), 0, "{result:?}");
        let plain_time = plain.as_mut().map(|plain| quiet(plain));
        if round >= WARM_UP {
            ours.add(time);
            plain_time.into_iter().for_each(|time| theirs.add(time));
        }
    }
    (ours, theirs)
}

fn trips(what: &str, times: &Times) {
    say(&format!("  {what}: {:.2} round trips (target: at most 1.1)", times.median().as_secs_f64() / FAR.as_secs_f64()));
}

async fn far(machine: &Machine) {
    let master = Master::start(machine);
    machine.ctl(&["slow", &FAR.as_millis().to_string()]);
    let (ours, theirs) = times(machine, Some(&mut master.command(&["true"]))).await;
    compare("warm `true`, 100 ms away", &ours, "ssh over a ControlMaster", &theirs, "for information");
    trips("warm", &ours);
    let start_file = machine.folder("root").join(".bashrc");
    let before = std::fs::read(&start_file).unwrap_or_default();
    std::fs::write(&start_file, "sleep 0.2\n").expect("the lab's files are ours");
    let (ours, theirs) = times(machine, Some(&mut master.command(&["true"]))).await;
    std::fs::write(&start_file, before).expect("the lab's files are ours");
    compare("the same with a start file of 200 ms", &ours, "ssh over a ControlMaster", &theirs, "for information");
    trips("warm", &ours);
    machine.ctl(&["fast"]);
}

async fn narrow(machine: &Machine) {
    machine.ctl(&["slow", NARROW]);
    let (alone, _) = times(machine, None).await;
    let client = connect().await;
    let mut flood = start(&client, &machine.name, "exec cat /dev/zero", true).await;
    let (beside, bytes) = tokio::select! {
        (beside, _) = times(machine, None) => (beside, 0),
        bytes = count(&mut flood) => (Times::default(), bytes),
    };
    assert_eq!(bytes, 0, "the flood ended early");
    drop(flood);
    compare("warm `true` beside a flood on 20 Mbit/s, 50 ms", &beside, "the same alone", &alone, "target: at most 1.5");
    machine.ctl(&["fast"]);
}

/// Reads a command's output until it ends; gives the bytes.
async fn count(items: &mut quarterdeck::client::Items) -> u64 {
    let mut seen = 1;
    while let Some(item) = items.next().await {
        match item.expect("the daemon answers") {
            Item::Data { bytes, .. } => seen += bytes.len() as u64,
            Item::Result(_) => break,
            _ => {}
        }
    }
    seen
}

fn gigabyte(machine: &Machine) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    quiet(machine.ssh().arg(format!("head -c {SIZE} /dev/zero | tr '\\0' x >/tmp/gigabyte")));
    let ours = format!("'{}' exec -b {} -- cat /tmp/gigabyte | wc -c", env!("CARGO_BIN_EXE_qd"), machine.name);
    let mut ssh = machine.ssh();
    ssh.arg("cat /tmp/gigabyte");
    let words: Vec<String> = ssh.get_args().map(|w| format!("'{}'", w.to_string_lossy())).collect();
    let plain = format!("ssh {} | tee '{}' | wc -c", words.join(" "), folder.path().join("log").display());
    let pipe = |text: &str| {
        let (done, time) = timed(|| Command::new("bash").args(["-c", text]).output().expect("bash starts"));
        assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), SIZE.to_string(), "{}", String::from_utf8_lossy(&done.stderr));
        time
    };
    let (mut mine, mut theirs) = (Times::default(), Times::default());
    for _ in 0..SIZE_ROUNDS {
        mine.add(pipe(&ours));
        theirs.add(pipe(&plain));
    }
    quiet(machine.ssh().arg("rm /tmp/gigabyte"));
    say(&format!("1 GB of output over ssh: {}", millis(mine.median())));
    say(&format!("  ssh | tee | wc -c: {}", millis(theirs.median())));
    say(&format!("  ratio of speeds {:.2} (target: at least 0.8)", theirs.median().as_secs_f64() / mine.median().as_secs_f64()));
}
