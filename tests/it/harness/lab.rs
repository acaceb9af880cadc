//! The lab's machines (tests/lab), shared among the tests of this process.
//!
//! Invariant: nobody else uses a machine while a test has it to itself, and it is whole again afterwards.

use serde::Deserialize;
use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, LazyLock, Mutex};

/// One ssh machine.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) key: String,
    pub(crate) known_hosts: String,
    /// Other accounts there, each named after its login shell.
    pub(crate) accounts: Vec<String>,
    #[serde(skip)]
    folder: PathBuf,
}

impl Machine {
    /// Does something to the machine: a verb of `tests/lab/ctl`.
    #[track_caller]
    pub(crate) fn ctl(&self, args: &[&str]) {
        let ctl = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/ctl");
        let done = Command::new(ctl).arg(&self.folder).arg(&self.name).args(args).output().expect("the lab's ctl can be started");
        assert!(done.status.success(), "ctl {} {args:?}: {}", self.name, String::from_utf8_lossy(&done.stderr));
    }

    /// Makes an OpenSSH command for this machine.
    pub(crate) fn ssh(&self) -> Command {
        let mut command = Command::new("ssh");
        command.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "StrictHostKeyChecking=yes"]);
        command.args(["-F", "none", "-i", &self.key, "-o", &format!("UserKnownHostsFile={}", self.known_hosts)]);
        command.args(["-p", &self.port.to_string(), &format!("{}@{}", self.user, self.address)]);
        command
    }

    /// A folder of the machine as this side sees it: `tmp`, `root`, `home`, `etc`.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.folder.join(&self.name).join(name)
    }

    /// The same machine with another account.
    pub(crate) fn account(&self, user: &str) -> Self {
        Self { user: user.into(), ..self.clone() }
    }
}

#[derive(Deserialize)]
struct Lab {
    kind: String,
    machines: Vec<Machine>,
}

/// Machines held by one test; given back when it goes.
pub(crate) struct Held {
    machines: Vec<Machine>,
    alone: bool,
}

impl Deref for Held {
    type Target = [Machine];
    fn deref(&self) -> &[Machine] {
        &self.machines
    }
}

/// How many tests use a machine; -1: one, alone.
static USED: LazyLock<(Mutex<HashMap<String, i32>>, Condvar)> = LazyLock::new(Default::default);

static LAB: LazyLock<Result<Lab, String>> = LazyLock::new(|| {
    let folder = std::env::var_os("QD_LAB").ok_or("QD_LAB is not set; tests/run brings the lab up")?;
    let folder = PathBuf::from(folder);
    let path = folder.join("lab.json");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut lab: Lab = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    for machine in &mut lab.machines {
        machine.folder = folder.clone();
    }
    Ok(lab)
});

/// Takes `count` machines that other tests may use too. None: there is no lab, and the test is skipped with the reason.
pub(crate) fn share(count: usize) -> Option<Held> {
    take(count, false)
}

/// Takes `count` machines alone, to make faults on them. None: there is no lab of machines, and the test is skipped.
pub(crate) fn alone(count: usize) -> Option<Held> {
    take(count, true)
}

fn take(count: usize, alone: bool) -> Option<Held> {
    let lab = match &*LAB {
        Ok(lab) if lab.kind == "machines" || !alone => lab,
        Ok(_) => return skip("faults need the lab's machines, which need root"),
        Err(reason) => return skip(reason),
    };
    if lab.machines.len() < count {
        return skip(&format!("needs {count} machines, the lab has {}", lab.machines.len()));
    }
    let (used, changed) = &*USED;
    let mut used = used.lock().expect("no test panics with the lock held");
    loop {
        let of = |m: &&Machine| used.get(&m.name).copied().unwrap_or(0);
        let mut free: Vec<&Machine> = lab.machines.iter().filter(|m| if alone { of(m) == 0 } else { of(m) >= 0 }).collect();
        if free.len() >= count {
            // Those that share go to the first machines, those that break things to the last ones.
            if alone {
                free.reverse();
            }
            let machines: Vec<Machine> = free.into_iter().take(count).cloned().collect();
            for machine in &machines {
                *used.entry(machine.name.clone()).or_default() += if alone { -1 } else { 1 };
            }
            return Some(Held { machines, alone });
        }
        used = changed.wait(used).expect("no test panics with the lock held");
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.alone {
            for machine in &self.machines {
                // In a test that is failing already, its own panic says more.
                if !std::thread::panicking() {
                    machine.ctl(&["repair"]);
                } else if std::panic::catch_unwind(|| machine.ctl(&["repair"])).is_err() {
                    say(&format!("{} could not be repaired", machine.name));
                }
            }
        }
        let (used, changed) = &*USED;
        let mut used = used.lock().expect("no test panics with the lock held");
        for machine in &self.machines {
            *used.entry(machine.name.clone()).or_default() -= if self.alone { -1 } else { 1 };
        }
        changed.notify_all();
    }
}

/// Says why a test does nothing; where the lab is required (CI) that is a failure.
fn skip(reason: &str) -> Option<Held> {
    assert!(std::env::var_os("QD_LAB_REQUIRED").is_none_or(|v| v != "1"), "the lab is required here: {reason}");
    say(&format!("skipped: {reason}"));
    None
}

#[expect(clippy::print_stderr, reason = "cargo test shows it beside the test's name")]
fn say(text: &str) {
    eprintln!("{text}");
}
