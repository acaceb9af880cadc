//! The process view, the feed and alerts in use: real background processes on a real terminal.

use crate::harness::lab;
use crate::harness::pty::Pty;
use crate::harness::qd::Home;
use crate::harness::wait;
use crate::notify::as_agent;
use quarterdeck::client::Item;
use quarterdeck::model::Exec;
use quarterdeck::protocol::calls::ExecCall;

const LEADER: &str = "\x1d";
/// Writes a line whenever its file grows by one, until the file says stop.
const WRITER: &str = "i=0; while :; do i=$((i+1)); echo \"line $i of $N\"; sleep 0.1; done";

fn open(home: &Home, rows: u16, cols: u16) -> Pty {
    let tui = home.terminal::<&str>(["tui", "--no-setup"], rows, cols);
    tui.wait_text("local:main");
    tui
}

/// Starts a command in the background, as an agent does; gives its id.
#[track_caller]
fn start(home: &Home, backend: &str, command: &str) -> String {
    home.run(["exec", "--client", "hermes", "-b", backend, "-d", "--", command]).code(0).out().trim().to_owned()
}

/// Answers a question, which takes no key in its first moment: the answer is given until it is taken.
fn answer(tui: &mut Pty, key: &str) {
    wait::until("the answer is taken", wait::CAP, || {
        if tui.screen().contains("any other key") {
            tui.send(key);
        }
        (!tui.screen().contains("any other key")).then_some(())
    });
}

/// The row of the table with a text.
fn row(screen: &str, text: &str) -> String {
    screen.lines().find(|l| l.contains(text)).unwrap_or_default().to_owned()
}

/// The highest number among lines of [`WRITER`] on screen.
fn newest(screen: &str) -> u32 {
    let number = |l: &str| l.split("line ").nth(1)?.split(' ').next()?.parse().ok();
    screen.lines().filter_map(number).max().unwrap_or(0)
}

#[track_caller]
fn leave(mut tui: Pty) {
    tui.send(format!("{LEADER}d"));
    assert_eq!(tui.end().code(), Some(0));
    tui.assert_restored();
}

#[test]
fn a_background_process_is_seen_its_log_follows_and_it_is_ended_after_a_question() {
    for (rows, cols) in [(24, 80), (40, 120)] {
        let home = Home::new();
        let id = start(&home, "local", &format!("N=one; {WRITER}"));
        let mut tui = open(&home, rows, cols);
        tui.send(format!("{LEADER}b"));
        let screen = tui.wait_for("its row and its log", |s| s.contains("hermes") && newest(s) > 3);
        let seen = newest(&screen);
        tui.wait_for("that the log goes on", |s| newest(s) > seen + 3);
        assert!(screen.contains("processes  1  1 running") && screen.contains("follow"), "{screen}");
        tui.send("x");
        let screen = tui.wait_text("any other key");
        assert!(screen.contains("stop on local") && screen.contains("started by hermes") && screen.contains(&id), "{screen}");
        answer(&mut tui, "n");
        let seen = newest(&tui.screen());
        tui.wait_for("that it still runs", |s| newest(s) > seen);
        tui.send("x");
        tui.wait_text("any other key");
        answer(&mut tui, "y");
        tui.wait_for("its end", |s| row(s, "hermes").contains("stopped") && s.contains("[stopped by you after"));
        home.run(["wait", &id]).code(130);
        leave(tui);
    }
}

#[test]
fn marked_processes_give_one_log_and_without_colour_the_prefix_stays() {
    let mut home = Home::new();
    home.set("NO_COLOR", "1");
    let ids = ["one", "two"].map(|n| start(&home, "local", &format!("N={n}; {WRITER}")));
    let mut tui = open(&home, 30, 100);
    tui.send(format!("{LEADER}b"));
    tui.wait_text("processes  2");
    tui.send("A");
    let prefix = |id: &String| format!("local/{} |", &id[..4]);
    let screen = tui.wait_for("lines of both", |s| {
        ids.iter().zip(["of one", "of two"]).all(|(id, text)| s.lines().any(|l| l.contains(&prefix(id)) && l.contains(text)))
    });
    assert!(screen.contains("log of 2 processes, as it arrives") && screen.contains("2 marked"), "{screen}");
    tui.look(|s| {
        let plain = |x, y| s.cell(y, x).is_none_or(|c| c.fgcolor() == vt100::Color::Default && c.bgcolor() == vt100::Color::Default);
        assert!((0..30).all(|y| (0..100).all(|x| plain(x, y))), "there is colour");
    });
    tui.send("x");
    let screen = tui.wait_text("stop 2 processes");
    assert!(ids.iter().all(|id| screen.contains(id.as_str())), "{screen}");
    answer(&mut tui, "y");
    tui.wait_for("that both have ended", |s| s.matches("stopped").count() >= 2);
    leave(tui);
}

#[test]
fn a_log_is_gone_through_and_searched_to_its_beginning() {
    let home = Home::new();
    let id = start(&home, "local", "seq -f 'row %.0f' 1 200000; echo needle-$((1+1)); seq 1 200000; sleep 1000");
    let mut tui = open(&home, 30, 100);
    tui.send(format!("{LEADER}b"));
    tui.wait_for("the end of the log", |s| s.contains("│200000 "));
    tui.send("lg");
    tui.wait_for("its beginning", |s| s.lines().any(|l| l.contains("│row 1 ")) && s.contains("stays"));
    tui.send("G");
    tui.wait_for("its end again", |s| s.contains("│200000 ") && s.contains("follow"));
    tui.send("/needle\r");
    tui.wait_for("the one line", |s| s.contains("│needle-2 ") && !s.contains("│200000 "));
    tui.send("n\r");
    tui.wait_for("the lines around it", |s| s.contains("│row 199999 ") && s.contains("│needle-2 ") && s.contains("│2 "));
    home.run(["kill", &id]).code(0);
    leave(tui);
}

#[test]
fn a_process_is_written_to_and_run_again() {
    let home = Home::new();
    let flags = ["exec", "--client", "hermes", "-d", "--stdin-open", "--", "read x; echo got-$x; sleep 1000"];
    let reader = home.run(flags).code(0).out();
    let mut tui = open(&home, 30, 110);
    tui.send(format!("{LEADER}b"));
    tui.wait_for("its row", |s| row(s, "read x").contains("hermes"));
    tui.send("ihello\r");
    tui.wait_text("got-hello");
    tui.send("\x1b");
    home.run(["kill", reader.trim()]).code(0);
    let id = start(&home, "local", "cd /usr; echo in-$PWD; exit 4");
    home.run(["wait", &id]).code(4);
    tui.wait_for("how it ended", |s| row(s, "cd /usr").contains("exit 4"));
    tui.send("gR");
    let screen = tui.wait_text("run it again");
    assert!(screen.contains("in the background of session main on local"), "{screen}");
    answer(&mut tui, "y");
    tui.wait_text("runs again as");
    tui.wait_for("both of them", |s| s.lines().filter(|l| l.contains("cd /usr") && l.contains("exit 4")).count() >= 2);
    leave(tui);
}

/// Run again dropped the variables and the time-out without a word.
#[test]
fn run_again_takes_over_variables_and_time_out_and_is_counted() {
    let home = Home::new();
    let flags = ["exec", "--client", "hermes", "-d", "-e", "GREETING=good-day", "--timeout", "90", "--", "echo $GREETING; exit 4"];
    let id = home.run(flags).code(0).out();
    home.run(["wait", id.trim()]).code(4);
    let mut tui = open(&home, 30, 160);
    tui.send(format!("{LEADER}b"));
    tui.wait_for("how it ended", |s| row(s, "$GREETING").contains("exit 4"));
    tui.send("R");
    let screen = tui.wait_text("run it again");
    assert!(screen.contains("With GREETING and a time-out of 1m30s, as before."), "{screen}");
    answer(&mut tui, "y");
    tui.wait_text("runs again as");
    tui.send("g");
    let counted = |s: &str, n: &str| s.lines().any(|l| l.contains("$GREETING") && l.contains(&format!("exit 4      {n} ")));
    let screen = tui.wait_for("both, and the second is counted", |s| counted(s, "0") && counted(s, "1"));
    assert!(screen.contains("RESTARTS"), "{screen}");
    let rows = home.run(["ps", "-a", "--json"]).code(0).out();
    assert!(rows.contains("\"restarts\":1") && rows.contains("\"timeout_ms\":90000") && !rows.contains("good-day"), "{rows}");
    leave(tui);
}

/// An agent could have had the values of anybody's variables.
#[test]
fn what_a_command_was_started_with_is_for_that_command_alone() {
    let home = Home::new();
    let id = home.run(["exec", "-d", "-e", "DOOR=sesame", "--", "echo $DOOR"]).code(0).out().trim().to_owned();
    home.run(["wait", &id]).code(0);
    let again = |command: &str| {
        let exec = Exec { command: command.to_owned(), background: true, again: Some(id.clone()), ..Exec::default() };
        as_agent(&home, async |client| {
            let mut items = client.exec(ExecCall { exec, follow: false, files: false }).await.expect("asked");
            loop {
                match items.next().await.expect("an answer") {
                    Ok(Item::Result(result)) => return Ok(result.process_id),
                    Ok(_) => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
        })
    };
    let refused = again("env").expect_err("it is another command");
    assert!(refused.contains("ran another command"), "{refused}");
    let id = again("echo $DOOR").expect("the same command");
    home.run(["wait", &id]).code(0);
    assert_eq!(home.run(["logs", &id]).out(), "sesame\n");
}

#[test]
fn a_failed_background_process_rings_runs_the_command_of_alerts_and_is_gone_to() {
    let home = Home::new();
    let out = home.path().join("alerts");
    home.write_config(&format!("ui:\n  osc: 9\n  on_alert: [sh, -c, 'cat >>{}']\n", out.display()));
    let mut tui = open(&home, 24, 100);
    let id = start(&home, "local", "sleep 0.3; echo broken-$((1+1)); exit 3");
    // Its own backend's pane is looked at, so that it is quiet.
    tui.send(format!("{LEADER}t"));
    tui.wait_text("backends and health");
    home.run(["wait", &id]).code(3);
    tui.wait_for("the alert", |s| s.contains("exit 3 after") && s.contains("!1"));
    let raw = String::from_utf8_lossy(&tui.raw()).into_owned();
    assert!(raw.contains("\x1b]9;qd: local: ") && raw.contains('\x07'), "no notification");
    let said = wait::until("the command of alerts", wait::CAP, || std::fs::read_to_string(&out).ok().filter(|text| text.ends_with('\n')));
    assert!(said.contains("exit 3") && said.lines().count() == 1, "{said}");
    tui.send(format!("{LEADER}a"));
    let screen = tui.wait_for("the process", |s| s.contains("processes  1") && s.contains("broken-2"));
    assert!(!screen.contains("!1"), "{screen}");
    leave(tui);
}

#[test]
fn the_feed_opens_an_event_with_all_that_is_known() {
    let home = Home::new();
    for _ in 0..4 {
        home.run(["exec", "--client", "hermes", "--", "true"]).code(0);
    }
    let failed = home.run(["exec", "--client", "hermes", "--", "cd /usr; echo some-$((1+1)); grep -q x /dev/null"]);
    failed.code(1);
    let mut tui = open(&home, 30, 110);
    tui.send(format!("{LEADER}e"));
    let screen = tui.wait_text("feed  2");
    assert!(row(&screen, "true").contains("x4"), "{screen}");
    tui.send("\r");
    let screen = tui.wait_text("some-2");
    for text in ["directory", "hermes, an agent or a script", "exit 1 after", "/logs/"] {
        assert!(screen.contains(text), "{text}\n{screen}");
    }
    leave(tui);
}

#[test]
fn a_process_whose_machine_is_away_is_unknown_and_never_ended() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["health_interval: 1", "connect_timeout: 3"]));
    let id = start(&home, &m.name, &format!("N=far; {WRITER}"));
    let mut tui = open(&home, 30, 110);
    tui.send(format!("{LEADER}b"));
    tui.wait_for("its log", |s| row(s, "hermes").contains(&m.name) && newest(s) > 3);
    m.ctl(&["cut"]);
    let screen = tui.wait_for("that it is unknown", |s| row(s, "hermes").contains("unknown") && s.contains("cannot be asked"));
    assert!(row(&screen, "hermes").contains('?') && screen.contains("?1"), "{screen}");
    m.ctl(&["mend"]);
    let seen = newest(&screen);
    tui.wait_for("that it runs and writes", |s| !row(s, "hermes").contains("unknown") && newest(s) > seen);
    tui.send("u");
    tui.wait_text("was looked for: running");
    home.run(["kill", &id]).code(0);
    leave(tui);
}
