//! The process view, the feed and the details as they are drawn, at many sizes.

use super::*;
use crate::model::{Event, Outcome, ProcessInfo, ProcessState, Stray, Who, WhoKind};
use crate::tui::effect::Effect;
use crate::tui::state::apply::Msg;
use crate::tui::testing;
use crate::tui::theme::{Look, Theme};

fn lines(state: &mut State, width: u16, height: u16) -> Vec<String> {
    state.size = (width, height);
    let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
    state.drawn = draw(state, &mut buf);
    let row = |y: u16| (0..width).map(|x| buf[(x, y)].symbol().to_owned()).collect::<String>().trim_end().to_owned();
    (0..height).map(row).collect()
}

fn screen(state: &mut State, width: u16, height: u16) -> String {
    lines(state, width, height).join("\n")
}

fn job(id: &str, backend: &str, command: &str, minutes: i64) -> ProcessInfo {
    let mut info = testing::process(id, backend, command);
    info.started = testing::NOW - minutes * 60_000;
    info.background = true;
    info.who = Who { kind: WhoKind::Agent, name: "hermes".to_owned(), peer_pid: None };
    info.pid = Some(4_402);
    info
}

/// One of each state, and a log.
fn full(width: u16, height: u16) -> State {
    let mut state = testing::sized(width, height);
    let mut failed = job("bbbb22", "web", "migrate.sh", 3);
    let mut unknown = job("cccc33", "gpu", "python train.py --epochs 300", 22);
    unknown.state = ProcessState::Unknown;
    let mut stray = job("dddd44", "web", "sleep 600", 5);
    stray.background = false;
    stray.state = ProcessState::Stray;
    stray.stray = Some(Box::new(Stray { of: "k7f3q2".to_owned(), pids: vec![7, 9], adopted_by: None }));
    let running = job("aaaa11", "web", "npm run dev\nsecond line", 9);
    for info in [failed.clone(), unknown, stray, running, job("eeee55", "local", "backup", 1)] {
        state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
    }
    failed.ended = Some(failed.started + 2_100);
    failed.state = ProcessState::Ended(Outcome::Exited { exit_code: 2 });
    failed.output_bytes = 61;
    state.apply(Msg::Event(Event::Process { process: Box::new(failed) }));
    testing::typed(&mut state, b"\x1db");
    state.chip = None;
    screen(&mut state, width, height);
    for read in state.next_reads() {
        if let Effect::ReadLog { turn, .. } = read {
            let bytes = b"08:50:14 \x1b[31mERROR\x1b[0m no relation \"jobs\"\nmigrate: aborting\n".to_vec();
            let chunk = crate::model::Chunk { total: 61, bytes, ..Default::default() };
            state.apply(Msg::LogRead { epoch: state.epoch, turn, chunk: Ok(Box::new(chunk)) });
        }
    }
    state
}

#[test]
fn the_table_and_the_log_of_the_row_under_the_cursor() {
    let mut state = full(120, 30);
    let text = screen(&mut state, 120, 30);
    for part in [
        "processes  5  1 failed  1 unknown  1 stray  2 running",
        "all backends",
        "   BACKEND    KIND   NAME",
        "▌ ✕ web        ssh    migrate.sh",
        "  ? gpu        ssh    python train.p",
        "  ⚑ web        ssh    sleep 600",
        "  ● web        ssh    npm run dev ...",
        "log  web/migrate.sh",
        "follow ●  wrap off",
        "08:50:14 ERROR no relation",
        "[exit 2 after 2.1s]",
        "1 failed 1 stray",
        "1 unknown",
        "procs ✕1 ?1 ⚑1",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let row = |what: &str| text.lines().find(|l| l.contains(what)).unwrap_or_default();
    assert!(row("python train").contains("unknown") && row("sleep 600").contains("stray"), "{text}");
    assert!(row("npm run dev").contains("09:00") && row("npm run dev").contains("hermes") && row("npm run dev").contains("4402"), "{text}");
    assert!(row("migrate.sh  ").contains("exit 2") && row("migrate.sh  ").contains("61 B"), "{text}");
}

#[test]
fn columns_go_when_there_is_no_room_and_what_matters_stays() {
    for (width, height) in [(200, 60), (120, 40), (100, 24), (80, 24), (60, 20), (40, 10)] {
        let mut state = full(width, height);
        let text = screen(&mut state, width, height);
        let row = text.lines().find(|l| l.contains("✕ web")).unwrap_or_default();
        assert!(row.contains("migrate") && row.contains("exit 2"), "{width}x{height}\n{text}");
        assert_eq!(text.contains(" BY  "), width >= 80, "{width}\n{text}");
    }
}

#[test]
fn several_marked_have_a_prefix_each() {
    let mut state = full(100, 30);
    testing::typed(&mut state, b"A");
    let text = screen(&mut state, 100, 30);
    assert!(text.contains("log of 5 processes, as it arrives") && text.contains("5 marked"), "{text}");
    for read in state.next_reads() {
        if let Effect::ReadLog { turn, .. } = read {
            let chunk = crate::model::Chunk { total: 61, bytes: b"one line\n".to_vec(), ..Default::default() };
            state.apply(Msg::LogRead { epoch: state.epoch, turn, chunk: Ok(Box::new(chunk)) });
        }
    }
    let text = screen(&mut state, 100, 30);
    assert!(text.contains("web/bbbb   │one line"), "{text}");
    state.theme = Theme::new(Look { no_color: true, ascii: true });
    assert!(screen(&mut state, 100, 30).contains("web/bbbb   |one line"));
}

#[test]
fn a_wide_screen_has_processes_below_the_feed() {
    let mut state = full(200, 60);
    testing::typed(&mut state, b"\x1b");
    let text = screen(&mut state, 200, 60);
    assert!(text.contains("┌─ processes  5 ─") && text.contains("│✕ web      migrate.sh") && text.contains("│? gpu"), "{text}");
}

#[test]
fn the_details_tell_all_that_is_known() {
    let mut state = full(100, 40);
    let mut info = state.blocks["bbbb22"].info.clone();
    info.exit_code_meaning = Some("a meaning".to_owned());
    info.warnings = vec![crate::model::Warning::new(crate::model::WarningCode::OutputLost, "some of it is gone")];
    info.hints = vec![crate::model::Hint { code: "c".to_owned(), message: "try that".to_owned() }];
    info.cwd = "/srv/app".to_owned();
    state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
    testing::typed(&mut state, b"d");
    testing::output(&mut state, "bbbb22", b"first\nlast\n");
    let text = screen(&mut state, 100, 40);
    for part in [
        "process bbbb22",
        "command   migrate.sh",
        "backend   web  ssh deploy@web:22",
        "directory /srv/app",
        "by        hermes, an agent or a script",
        "state     exit 2 after 2.1s  a meaning",
        "pid       4402, and its group",
        "warning   some of it is gone",
        "hint      try that",
        "qd logs bbbb22",
        "/state/logs/bbbb22.log",
        "last",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn an_alert_stays_on_the_status_line_with_the_way_to_it() {
    let mut state = testing::sized(120, 30);
    state.say(crate::model::Level::Alert, Some("gpu"), "the key was refused");
    state.mono += 6_000;
    state.tick();
    let text = screen(&mut state, 120, 30);
    assert!(text.contains("⚑ gpu: the key was refused ^]a") && text.contains("!1"), "{text}");
}

#[test]
fn every_size_is_drawn_and_hostile_text_stays_in_its_place() {
    let mut state = full(160, 45);
    let bad = "a\x1b[2J\x1b]0;t\x07\u{202e}b\r\nc\u{9b}31m 日本語";
    let mut info = job("hhhh88", bad, bad, 2);
    info.who.name = bad.to_owned();
    info.session = bad.to_owned();
    info.cwd = bad.to_owned();
    info.state = ProcessState::Ended(Outcome::Lost { reason: bad.repeat(9) });
    state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
    state.say(crate::model::Level::Alert, Some(bad), bad);
    let small = (1..50).flat_map(|w| (1..16).map(move |h| (w, h)));
    let sizes: Vec<(u16, u16)> = (1..=250).step_by(13).flat_map(|w| (1..=80).step_by(7).map(move |h| (w, h))).chain(small).collect();
    let views: [&[u8]; 7] = [b"", b"A", b"l", b"w", b"/some", b"\x1b\x1b\x1b\x1b\x1b\x1b\x1de", b"\x1db\x1bgd"];
    for keys in views {
        testing::typed(&mut state, keys);
        for (w, h) in &sizes {
            let mut buf = Buffer::empty(Rect::new(0, 0, *w, *h));
            state.drawn = draw(&state, &mut buf);
            for cell in buf.content() {
                assert!(!cell.symbol().chars().any(|c| c.is_control() || crate::tui::text::is_invisible(c)), "{:?}", cell.symbol());
            }
        }
    }
}
