//! The terminal UI in use: the first start, stdin, scrolling, copying, leaving, floods, and a daemon that goes away.

use crate::harness::pty::Pty;
use crate::harness::qd::Home;
use crate::harness::wait;
use nix::sys::signal::Signal;

const LEADER: &str = "\x1d";

fn open(home: &Home, rows: u16, cols: u16) -> Pty {
    let tui = home.terminal::<&str>(["tui", "--no-setup"], rows, cols);
    tui.wait_text("local:main");
    tui
}

/// Answers a question, which takes no key in its first moment: the answer is given until it is taken.
fn answer(tui: &mut Pty, key: &str) {
    wait::until("the answer is taken", wait::CAP, || {
        tui.send(key);
        (tui.ended() || !tui.screen().contains("any other key")).then_some(())
    });
}

#[track_caller]
fn leave(mut tui: Pty) {
    // With a command of its own running it would ask.
    tui.wait_for("that nothing runs", |screen| !screen.replace("still running", "").contains(" running "));
    tui.send(format!("{LEADER}d"));
    assert_eq!(tui.end().code(), Some(0));
    tui.assert_restored();
}

#[test]
fn the_first_start_asks_for_the_leader_and_keeps_it() {
    let home = Home::new();
    let mut tui = home.terminal::<&str>([], 24, 80);
    tui.wait_text("Press ^] now");
    tui.send("q");
    tui.wait_text("needed for typing");
    tui.send("\x02");
    tui.wait_text("^B is the leader");
    tui.send("\x02d");
    tui.end();
    let mut tui = home.terminal::<&str>([], 24, 80);
    tui.wait_text("^B commands");
    tui.send("\x02d");
    assert_eq!(tui.end().code(), Some(0));
    tui.assert_restored();
}

#[test]
fn stdin_is_left_open_on_request_typed_into_and_ended() {
    let home = Home::new();
    let mut tui = open(&home, 24, 80);
    tui.send("cat; echo end-$((1+1))\x0f");
    tui.wait_text("stdin of");
    tui.send("to the command\r");
    tui.wait_for("its echo", |s| s.lines().any(|l| l.contains("▏ to the command") || l.contains("| to the command")));
    tui.send("\x04");
    tui.wait_text("end-2");
    // Without the request a command's stdin is empty, so that nothing waits by accident.
    tui.send("cat; echo none-$((1+1))\r");
    tui.wait_text("none-2");
    leave(tui);
}

#[test]
fn a_flood_is_shown_at_its_end_and_the_keyboard_answers_meanwhile() {
    let home = Home::new();
    let mut tui = open(&home, 45, 160);
    let mut flood = home.start(["exec", "--client", "flooder", "--", "echo begin-$((1+1)); while :; do seq 1 5000; done"]);
    flood.wait_out("begin-2");
    tui.wait_text("flooder");
    for i in 0..5 {
        tui.send(format!("echo key-$((40+{i}))\r"));
        tui.wait_text(&format!("key-{}", 40 + i));
    }
    flood.signal(Signal::SIGINT);
    drop(flood.done());
    tui.wait_text("stopped by");
    leave(tui);
}

#[test]
fn leaving_with_own_commands_asks_and_stops_them() {
    let home = Home::new();
    let mut tui = open(&home, 30, 100);
    tui.send("echo up-$((1+1)); sleep 1000\r");
    tui.wait_text("up-2");
    tui.send(format!("{LEADER}d"));
    tui.wait_text("1 command started here will be stopped");
    tui.send("\x1b");
    answer(&mut tui, "n");
    tui.send(format!("{LEADER}q"));
    tui.wait_text("will be stopped");
    answer(&mut tui, "y");
    assert_eq!(tui.end().code(), Some(0));
    tui.assert_restored();
    wait::until("the command is gone", wait::CAP, || home.run(["ps", "--json"]).json().as_array().is_some_and(Vec::is_empty).then_some(()));
}

#[test]
fn the_output_of_a_command_is_copied_without_the_border() {
    let home = Home::new();
    let mut tui = open(&home, 24, 80);
    tui.send("printf 'copied-%s\\n' one two\r");
    tui.wait_text("copied-two");
    tui.wait_text("exit 0");
    tui.send(format!("{LEADER}y"));
    tui.wait_text("copied the output");
    let coded = "\x1b]52;c;Y29waWVkLW9uZQpjb3BpZWQtdHdvCg==\x07";
    wait::until("the clipboard", wait::CAP, || String::from_utf8_lossy(&tui.raw()).contains(coded).then_some(()));
    leave(tui);
}

#[test]
fn scrolled_back_it_stays_while_output_goes_on() {
    let home = Home::new();
    let mut tui = open(&home, 24, 80);
    tui.send("seq 1 150\r");
    tui.wait_text("▏ 150");
    tui.wait_text("exit 0");
    tui.send(format!("{LEADER}["));
    tui.send("\x02\x02");
    let before = tui.wait_for("earlier lines", |s| s.contains("BACK") && s.contains("▏ 110") && !s.contains("▏ 150"));
    let top = |s: &str| s.lines().skip(3).take(10).map(str::to_owned).collect::<Vec<_>>();
    home.run(["exec", "--client", "other", "--", "echo meanwhile"]).code(0);
    let after = tui.wait_text("new");
    assert_eq!(top(&before), top(&after));
    tui.send("q");
    tui.wait_text("meanwhile");
    leave(tui);
}

#[test]
fn a_daemon_that_is_killed_is_said_and_replaced() {
    let home = Home::new();
    let mut tui = open(&home, 30, 100);
    tui.send("cd /usr; echo up-$((1+1)); sleep 1000\r");
    tui.wait_text("up-2");
    home.daemon().expect("it runs").signal(Signal::SIGKILL);
    tui.wait_text("unknown: the daemon ended while it ran");
    tui.wait_text("the daemon is back");
    tui.send("echo again-$((1+1))\r");
    tui.wait_text("again-2");
    leave(tui);
}

#[test]
fn a_daemon_that_was_stopped_is_started_only_on_request() {
    let home = Home::new();
    let mut tui = open(&home, 30, 100);
    home.run(["stop"]).code(0);
    tui.wait_text("the daemon was stopped");
    tui.send("echo nothing\r");
    tui.wait_text("enter is refused");
    assert!(home.daemon().is_none(), "it was started anew without being asked");
    tui.send(format!("\x03{LEADER}r"));
    tui.wait_text("the daemon is back");
    tui.send("echo again-$((1+1))\r");
    tui.wait_text("again-2");
    leave(tui);
}
