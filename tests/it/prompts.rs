//! Logins that need a person: asked at the terminal and in the terminal UI, never an agent; and what is typed stays nowhere.

use crate::harness::lab::{self, Machine};
use crate::harness::pty::Pty;
use crate::harness::qd::{Home, machines_config};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const PHRASE: &str = "correct-horse-battery";
const MISTYPED: &str = "incorrect-horse";

/// A home whose one machine is reached with a key that needs its passphrase.
fn locked(machine: &Machine) -> Home {
    let home = Home::new();
    let key = home.path().join("locked");
    std::fs::copy(&machine.key, &key).expect("the lab's key can be read");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("the key is ours");
    let done = Command::new("ssh-keygen").args(["-q", "-p", "-P", "", "-N", PHRASE, "-f"]).arg(&key).status();
    assert!(done.is_ok_and(|s| s.success()), "ssh-keygen -p");
    let mut machine = machine.clone();
    machine.key = key.display().to_string();
    home.write_config(&machines_config(&[machine], &[]));
    home
}

/// Looks for what was typed in every file below a folder.
fn assert_nowhere(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            assert_nowhere(&path);
        } else if entry.file_type().is_ok_and(|t| t.is_file()) {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap_or_default()).into_owned();
            assert!(!text.contains(PHRASE) && !text.contains(MISTYPED), "{} holds what was typed", path.display());
        }
    }
}

#[test]
fn a_passphrase_is_asked_of_the_person_and_of_no_agent() {
    let Some(machines) = lab::share(1) else { return };
    let (mut home, b) = (locked(&machines[0]), machines[0].name.as_str());
    home.set("QD_LOG", "trace");
    // An agent is told what to do, at once and again.
    for _ in 0..2 {
        let result = home.exec(b, "echo ran");
        assert_eq!(result["outcome"], "backend_unavailable", "{result:#}");
        let text = result.to_string();
        assert!(text.contains("needs its passphrase") && text.contains(&format!("qd backends connect {b}")), "{result:#}");
    }
    home.run(["backends", "connect", b]).code(69).says(&["passphrase", "in a terminal"]);
    home.run(["hostkey", "show", b]).code(1).says(&["a person's to decide"]);
    // Cancelled: still down.
    let mut tty = home.terminal(["backends", "connect", b], 24, 200);
    tty.wait_text("passphrase of");
    tty.send("\x03");
    assert_eq!(tty.end().code(), Some(69));
    // Mistyped, then right, and kept.
    let mut tty = home.terminal(["backends", "connect", b, "--keep"], 24, 200);
    tty.wait_text("passphrase of");
    tty.send(format!("{MISTYPED}\r"));
    tty.wait_text("does not fit");
    tty.send(format!("{PHRASE}\r"));
    assert_eq!(tty.end().code(), Some(0), "{}", tty.screen());
    let raw = String::from_utf8_lossy(&tty.raw()).into_owned();
    assert!(!raw.contains(PHRASE) && !raw.contains(MISTYPED), "{raw}");
    tty.assert_restored();
    assert_eq!(home.output(b, "echo ran"), "ran\n");
    home.run(["backends", "disconnect", b]).code(0);
    assert_eq!(home.output(b, "echo again"), "again\n");
    assert_nowhere(home.path());
}

/// What the terminal UI says while it takes no keys.
const PAUSE: &str = "keys are dropped until you pause";

/// Types an answer into a dialog once it takes keys, and waits until the panes take them again.
fn fill(tui: &mut Pty, title: &str, keys: &str) {
    tui.wait_for("the dialog takes keys", |screen| screen.contains(title) && !screen.contains(PAUSE));
    tui.send(keys);
    tui.wait_for("the dialog closes", |screen| !screen.contains(title) && !screen.contains(PAUSE));
}

#[test]
fn the_terminal_ui_asks_too() {
    let Some(machines) = lab::share(1) else { return };
    let (home, b) = (locked(&machines[0]), machines[0].name.as_str());
    let mut tui = home.terminal::<&str>(["tui", "--no-setup"], 30, 120);
    tui.wait_text("local:main");
    tui.send("\x1d1");
    tui.wait_text(&format!("{b}:main"));
    tui.send("echo $((6*7))ran\r");
    fill(&mut tui, "passphrase  ", &format!("{PHRASE}\r"));
    tui.wait_text("42ran");
    assert!(!String::from_utf8_lossy(&tui.raw()).contains(PHRASE));
    tui.send("\x1dd");
    assert_eq!(tui.end().code(), Some(0));
    tui.assert_restored();
    assert_nowhere(home.path());
}

#[test]
fn a_changed_host_key_blocks_until_it_is_replaced() {
    let Some(machines) = lab::share(1) else { return };
    let m = &machines[0];
    let home = Home::new();
    let other = home.path().join("other");
    let done = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&other).status();
    assert!(done.is_ok_and(|s| s.success()), "ssh-keygen");
    let known = home.path().join("known_hosts");
    let key = std::fs::read_to_string(other.with_extension("pub")).expect("a key");
    let name = if m.port == 22 { m.address.clone() } else { format!("[{}]:{}", m.address, m.port) };
    std::fs::write(&known, format!("# kept\n{name} {key}web {key}")).expect("the folder is ours");
    let mut altered = m.clone();
    altered.known_hosts = known.display().to_string();
    home.write_config(&machines_config(&[altered], &[]));
    let b = m.name.as_str();

    let result = home.exec(b, "echo ran");
    assert_eq!(result["outcome"], "backend_unavailable", "{result:#}");
    assert!(result.to_string().contains(&format!("qd hostkey replace {b}")), "{result:#}");
    let mut tty = home.terminal(["hostkey", "accept", b], 24, 200);
    assert_eq!(tty.end().code(), Some(64), "{}", tty.screen());
    let mut tty = home.terminal(["hostkey", "replace", b], 24, 200);
    let screen = tty.wait_text("type its last 4 characters");
    assert!(screen.contains("THE KEY HAS CHANGED") && screen.contains("known_hosts:2"), "{screen}");
    tty.send("nope\r");
    assert_eq!(tty.end().code(), Some(1));
    let mut tty = home.terminal(["hostkey", "replace", b], 24, 200);
    let screen = tty.wait_text("type its last 4 characters");
    let shown = screen.lines().find(|line| line.starts_with("shown")).expect("the key that it shows");
    let print = shown.split_whitespace().nth(2).expect("a fingerprint");
    tty.send(format!("{}\r", &print[print.len() - 4..]));
    assert_eq!(tty.end().code(), Some(0), "{}", tty.screen());
    assert_eq!(home.output(b, "echo ran"), "ran\n");
    let text = std::fs::read_to_string(&known).expect("there");
    assert!(text.starts_with(&format!("# kept\nweb {key}")) && text.lines().count() == 3, "{text}");
}
