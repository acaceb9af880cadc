//! `qd kill` on every kind of tree, here and on machines, in the foreground and in the background: nothing is left, and what cannot be
//! ended is named.
//!
//! Invariant: what is left is looked for on the machine itself, by a number that its command lines alone have.

use crate::harness::lab::{self, Machine};
use crate::harness::procs;
use crate::harness::qd::Home;
use crate::harness::wait;
use serde_json::Value;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const CAP: Duration = Duration::from_secs(60);
/// Each case sleeps for a time of its own, by which its processes are known.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A tree: its name, its text (`MARK` is its time to sleep; it says `up`), and whether it can be known whole only where the shell is the daemon's
/// own child: in the foreground, here.
struct Tree {
    name: &'static str,
    text: &'static str,
    only_here: bool,
}

const fn tree(name: &'static str, text: &'static str) -> Tree {
    Tree { name, text, only_here: false }
}

const TREES: &[Tree] = &[
    tree("ignores TERM", "trap '' TERM; sh -c 'trap \"\" TERM HUP INT; echo up; while :; do sleep MARK; done'; echo more"),
    tree("sessions of their own", "setsid sleep MARK & setsid sh -c 'sleep MARK; :' & echo up; sleep MARK; echo more"),
    tree("double forks", "( (sleep MARK &) & ); (setsid sh -c '(sleep MARK &)' &); echo up; sleep MARK; echo more"),
    tree("no environment", "env -i sleep MARK & env -i sh -c 'sleep MARK; :' & echo up; sleep MARK; echo more"),
    tree("a pipeline", "echo up; sleep MARK | sh -c 'sleep MARK; cat' | cat; echo more"),
    tree("a list", "echo up; sleep MARK; echo more; sleep MARK; echo more"),
    tree("nohup", "nohup sleep MARK >/dev/null 2>&1 & nohup setsid sleep MARK >/dev/null 2>&1 & echo up; sleep MARK; echo more"),
    tree("stopped", "sleep MARK & kill -STOP $!; echo up; sleep MARK; echo more"),
    tree(
        "forks while it is ended",
        "trap '' TERM; sh -c 'trap \"\" TERM; n=0; while [ $n -lt 600 ]; do n=$((n+1)); (trap \"\" TERM; sleep MARK) & [ $n = 40 ] && echo up; done; sleep MARK'; echo more",
    ),
    Tree { name: "nothing in common", text: "(env -i setsid sleep MARK &); echo up; sleep MARK; echo more", only_here: true },
];

/// Where a tree is killed.
enum Side<'a> {
    Here,
    There(&'a Machine),
}

impl Side<'_> {
    fn name(&self) -> &str {
        match self {
            Side::Here => "local",
            Side::There(machine) => &machine.name,
        }
    }

    /// The command lines on that machine that hold a text.
    fn holding(&self, mark: &str) -> Vec<String> {
        match self {
            Side::Here => procs::all().iter().map(procs::Proc::command_line).filter(|line| is_ours(line, mark)).collect(),
            Side::There(machine) => {
                let look = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null";
                let done = machine.ssh().arg(look).output().expect("ssh can be started");
                assert!(done.status.success(), "{done:?}");
                String::from_utf8_lossy(&done.stdout).lines().filter(|line| is_ours(line, mark)).map(str::to_owned).collect()
            }
        }
    }
}

/// A client's own command line holds the text of the command that it runs.
fn is_ours(line: &str, mark: &str) -> bool {
    line.contains(mark) && !line.contains(" exec ")
}

fn row(home: &Home, id: &str) -> Value {
    let rows = home.run(["ps", "-a", "--json"]).code(0).json();
    rows.as_array().expect("rows").iter().find(|row| row["id"] == id).cloned().unwrap_or_default()
}

/// Starts a tree in the background or in the foreground, kills it, and looks for what is left.
fn check(home: &Home, side: &Side<'_>, tree: &Tree, background: bool) {
    let mark = format!("77{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let text = tree.text.replace("MARK", &mark);
    let what = format!("{} on {}, background: {background}", tree.name, side.name());
    let (id, mut caller) = if background {
        (home.run(["exec", "-b", side.name(), "-d", "--", &text]).code(0).out().trim().to_owned(), None)
    } else {
        let mut caller = home.start(["exec", "-b", side.name(), "--", &text]);
        caller.wait_out("up");
        let rows = home.run(["ps", "-b", side.name(), "--json"]).code(0).json();
        let of = |row: &&Value| row["command"].as_str().is_some_and(|text| text.contains(&mark)) && row["state"] == "running";
        let row = rows.as_array().expect("rows").iter().find(of).unwrap_or_else(|| panic!("{what}: no row in {rows:#}"));
        (row["id"].as_str().expect("an id").to_owned(), Some(caller))
    };
    wait::until("its output", CAP, || home.run(["logs", &id]).code(0).out().contains("up").then_some(()));
    assert!(!side.holding(&mark).is_empty(), "{what}: nothing runs");
    home.run(["kill", "--grace", "200ms", &id]).code(0);
    assert_eq!(side.holding(&mark), [""; 0], "{what}: left");
    let row = row(home, &id);
    assert_eq!((&row["state"], &row["outcome"]), (&"ended".into(), &"cancelled".into()), "{what}: {row:#}");
    let codes: Vec<&Value> = row["warnings"].as_array().into_iter().flatten().map(|warning| &warning["code"]).collect();
    assert!(!codes.iter().any(|code| ["kill_unverified", "orphans_left"].iter().any(|bad| *code == bad)), "{what}: {row:#}");
    if let Some(caller) = caller.take() {
        caller.done().code(130);
    }
    assert_eq!(home.run(["logs", &id]).code(0).out(), "up\n", "{what}: it went on");
}

#[test]
fn every_tree_ends_here() {
    let home = Home::new();
    for tree in TREES {
        check(&home, &Side::Here, tree, false);
        if !tree.only_here {
            check(&home, &Side::Here, tree, true);
        }
    }
}

#[test]
fn every_tree_ends_on_a_machine() {
    let Some(machines) = lab::share(1) else { return };
    let home = Home::with_machines(&machines[..1], &[]);
    for tree in TREES.iter().filter(|tree| !tree.only_here) {
        check(&home, &Side::There(&machines[0]), tree, false);
        check(&home, &Side::There(&machines[0]), tree, true);
    }
}

/// A process that became another account's cannot be ended: it is named, and stays listed.
#[test]
fn what_cannot_be_ended_is_named() {
    let Some(machines) = lab::alone(1) else { return };
    let root = &machines[0];
    let setup = "cp \"$(command -v setpriv)\" /var/tmp/become && chmod 4755 /var/tmp/become";
    let done = root.ssh().arg(setup).output().expect("ssh can be started");
    assert!(done.status.success(), "{done:?}");
    let ada = root.account("ada");
    let home = Home::with_machines(std::slice::from_ref(&ada), &[]);
    let mark = format!("78{}", std::process::id());
    let text = format!("/var/tmp/become --reuid=0 --regid=0 --clear-groups sleep {mark} & echo up; sleep 1000");
    let caller = home.start(["exec", "--json", "-b", &ada.name, "--", &text]);
    let id = wait::until("its row", CAP, || {
        let rows = home.run(["ps", "--json"]).json();
        rows[0]["id"].as_str().filter(|_| rows[0]["state"] == "running").map(str::to_owned)
    });
    let theirs = || Side::There(root).holding(&mark).into_iter().filter(|line| line.starts_with("sleep")).count();
    wait::until("it is another account's", CAP, || (theirs() == 1).then_some(()));
    home.run(["kill", "--grace", "100ms", &id]).says(&["could not be ended"]);
    let result = caller.done().json();
    let warning = result["warnings"].as_array().expect("warnings").iter().find(|warning| warning["code"] == "kill_unverified");
    let warning = warning.unwrap_or_else(|| panic!("no warning: {result:#}"));
    let pid = warning["pids"][0].as_u64().expect("a pid");
    let stray = warning["stray"].as_str().expect("a stray").to_owned();
    home.run(["kill", "--grace", "0s", &stray]).code(1).says(&["could not be ended", &pid.to_string()]);
    assert_eq!(row(&home, &stray)["state"], "stray");
    assert_eq!(theirs(), 1);
    let done = root.ssh().arg(format!("kill -9 {pid}; rm /var/tmp/become")).output().expect("ssh can be started");
    assert!(done.status.success(), "{done:?}");
    wait::until("the end of its row", CAP, || (row(&home, &stray)["state"] == "ended").then_some(()));
}
