//! What each key does, as tables of bytes, and what follows from it.

use super::*;
use crate::model::{Event, HealthState, LogStart, Who, WhoKind};
use crate::tui::layout::Mode;
use crate::tui::state::Link;
use crate::tui::state::apply::{Msg, Refused, Urgency};
use crate::tui::state::overlay::{GUARD_MS, Overlay};
use crate::tui::testing::{self, pane_of, typed};
use crate::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws, so that the state knows what is on screen.
fn drawn(state: &mut State) {
    let mut buf = Buffer::empty(Rect::new(0, 0, state.size.0, state.size.1));
    state.drawn = view::draw(state, &mut buf);
}

fn line(state: &State) -> &str {
    state.pane().unwrap().editor.text()
}

fn note(state: &State) -> String {
    state.pane().unwrap().note.clone().unwrap_or_default()
}

/// A state whose focused pane is `web`.
fn on_web() -> State {
    let mut state = testing::state();
    let web = pane_of(&state, "web");
    state.focus_on(web);
    drawn(&mut state);
    state
}

#[test]
fn enter_runs_the_line_on_the_pane_that_is_shown() {
    let mut state = on_web();
    let effects = typed(&mut state, b"make test\r");
    let [Effect::Exec { exec, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(
        (exec.backend.as_deref(), exec.session.as_deref(), exec.command.as_str(), exec.stdin),
        (Some("web"), Some("main"), "make test", false)
    );
    assert_eq!(line(&state), "");
    assert!(typed(&mut state, b"   \r").is_empty(), "an empty line runs nothing");
}

#[test]
fn lines_are_added_and_run_as_one_command() {
    let mut state = on_web();
    assert!(typed(&mut state, b"for i in 1 2; do\x1b\recho $i \\\rx").is_empty());
    assert_eq!(line(&state), "for i in 1 2; do\necho $i \\\nx");
    let effects = typed(&mut state, b"\x05; done\r");
    let [Effect::Exec { exec, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(exec.command, "for i in 1 2; do\necho $i \\\nx; done");
    assert!(matches!(typed(&mut state, b"echo \\\\\r").as_slice(), [Effect::Exec { .. }]), "an escaped backslash adds no line");
}

#[test]
fn a_backend_that_is_away_refuses_enter_and_keeps_the_line() {
    let mut state = testing::state();
    for (name, why) in [("gpu", "gpu is reconnecting: next try in 14s"), ("day", "day is down")] {
        let at = pane_of(&state, name);
        state.focus_on(at);
        assert!(typed(&mut state, b"ls\r").is_empty());
        assert!(note(&state).starts_with(why), "{}", note(&state));
        assert_eq!(line(&state), "ls");
    }
    let web = pane_of(&state, "web");
    state.focus_on(web);
    state.apply(Msg::Lost { reason: "gone".to_owned(), next_try: None, stopped: false });
    assert!(typed(&mut state, b"ls\r").is_empty());
    assert!(note(&state).contains("the daemon is gone"));
}

#[test]
fn many_pasted_lines_ask_before_they_run() {
    let mut state = on_web();
    typed(&mut state, b"\x1b[200~rm a\nrm b\n\x1b[201~");
    assert_eq!(line(&state), "rm a\nrm b");
    assert!(typed(&mut state, b"\r").is_empty());
    assert!(matches!(&state.overlay, Some(Overlay::Confirm(c)) if c.title.contains("web") && c.lines[0].contains("2 pasted lines")));
    assert!(typed(&mut state, b"y").is_empty(), "too early for an answer");
    state.mono += GUARD_MS;
    assert!(typed(&mut state, b"\r").is_empty(), "enter is no");
    assert_eq!(line(&state), "rm a\nrm b");
    typed(&mut state, b"\r");
    state.mono += GUARD_MS;
    assert!(matches!(typed(&mut state, b"y").as_slice(), [Effect::Exec { exec, .. }] if exec.command == "rm a\nrm b"));
    assert_eq!(line(&state), "");
    typed(&mut state, b"\x1b[200~one line\x1b[201~");
    assert!(matches!(typed(&mut state, b"\r").as_slice(), [Effect::Exec { .. }]), "one pasted line is as typed");
}

#[test]
fn ctrl_c_clears_the_line_then_stops_the_newest_own_command_only() {
    let mut state = on_web();
    testing::run(&mut state, "p1", "web", "first", 1);
    testing::run(&mut state, "p2", "web", "second", 2);
    testing::run(&mut state, "p3", "web", "agents", 3);
    let mut info = state.blocks["p3"].info.clone();
    info.who = Who { kind: WhoKind::Agent, name: "claude".to_owned(), peer_pid: None };
    state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
    testing::run(&mut state, "p4", "local", "elsewhere", 4);
    assert!(typed(&mut state, b"text\x03").is_empty());
    assert_eq!(line(&state), "");
    let end = |id: &str| Effect::End { process: id.to_owned(), backend: "web".to_owned(), grace_ms: None };
    assert_eq!(typed(&mut state, b"\x03"), [end("p2")]);
    testing::ended(&mut state, "p2", 0);
    assert_eq!(typed(&mut state, b"\x03"), [end("p1")]);
    testing::ended(&mut state, "p1", 0);
    assert!(typed(&mut state, b"\x03").is_empty());
    assert_eq!(note(&state), "no command of yours runs here");
}

#[test]
fn ctrl_d_ends_only_an_open_stdin_of_our_own() {
    let mut state = on_web();
    assert!(typed(&mut state, b"\x04").is_empty());
    testing::run(&mut state, "p1", "web", "cat", 1);
    assert!(typed(&mut state, b"\x04").is_empty());
    let mut info = state.blocks["p1"].info.clone();
    info.reads_stdin = true;
    state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
    assert!(typed(&mut state, b"\x04").is_empty(), "not ours");
    state.own.insert("p1".to_owned());
    typed(&mut state, b"ab\x01");
    assert!(typed(&mut state, b"\x04").is_empty());
    assert_eq!(line(&state), "b", "in a line it deletes");
    typed(&mut state, b"\x15\x0b");
    assert_eq!(typed(&mut state, b"\x04"), [Effect::EndStdin { process: "p1".to_owned() }]);
}

#[test]
fn stdin_is_typed_into_line_by_line() {
    let mut state = on_web();
    assert!(matches!(typed(&mut state, b"cat\x0f").as_slice(), [Effect::Exec { exec, .. }] if exec.stdin));
    testing::run(&mut state, "p1", "web", "cat", 1);
    let mut info = state.blocks["p1"].info.clone();
    info.reads_stdin = true;
    state.apply(Msg::Started { process: Box::new(info.clone()) });
    state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
    typed(&mut state, b"\x1b");
    typed(&mut state, b"i");
    assert_eq!(state.mood, Mood::Input);
    assert_eq!(typed(&mut state, b"hello\r"), [Effect::Stdin { process: "p1".to_owned(), bytes: b"hello\n".to_vec() }]);
    assert_eq!(typed(&mut state, b"\x1d\x1d\r"), [Effect::Stdin { process: "p1".to_owned(), bytes: b"\x1d\n".to_vec() }]);
    testing::ended(&mut state, "p1", 0);
    assert_eq!(state.pane().unwrap().stdin, None);
    assert!(matches!(typed(&mut state, b"ls\r").as_slice(), [Effect::Exec { .. }]));
}

#[test]
fn the_leader_moves_between_backends() {
    let mut state = testing::state();
    drawn(&mut state);
    let name = |s: &State| s.pane().unwrap().backend.clone();
    for (keys, want) in [
        (&b"\x1d2"[..], "gpu"),
        (b"\x1dn", "day"),
        (b"\x1dn", "local"),
        (b"\x1dp", "day"),
        (b"\x1d\t", "local"),
        (b"\x1d\t", "day"),
        (b"\x1dk", "web"),
        (b"\x1dh", "local"),
        (b"\x1d\x1b[B", "gpu"),
        (b"\x1dl", "day"),
    ] {
        typed(&mut state, keys);
        assert_eq!(name(&state), want, "{}", keys.escape_ascii());
        drawn(&mut state);
    }
    typed(&mut state, b"\x1d9");
    assert_eq!(name(&state), "day");
    assert!(state.chip.as_ref().unwrap().1.contains("no backend 9"));
    typed(&mut state, b"\x1dz");
    assert!(state.zoom);
    typed(&mut state, b"\x1d ");
    assert!(!state.zoom && state.layout == Mode::Grid);
    typed(&mut state, b"\x1d=");
    assert_eq!(state.layout, Mode::Auto);
    assert_eq!(typed(&mut state, b"\x1dr"), [Effect::Connect { backend: "day".to_owned() }]);
    assert_eq!(typed(&mut state, b"\x1d\x1a"), [Effect::Suspend]);
    assert_eq!(typed(&mut state, b"\x1dd"), [Effect::Leave]);
    assert!(typed(&mut state, b"\x1d\x07").is_empty());
    assert!(state.chip.as_ref().unwrap().1.contains("does nothing"));
}

#[test]
fn the_views_open_and_close() {
    let mut state = on_web();
    testing::run(&mut state, "p1", "local", "make", 1);
    for (key, view) in [(b't', View::Backends), (b'e', View::Feed), (b'm', View::Messages), (b'?', View::Help)] {
        typed(&mut state, &[0x1d, key]);
        assert_eq!(state.view, view);
        drawn(&mut state);
        typed(&mut state, b"jjGg/xyzzy\r");
        assert_eq!(state.list.filter, "xyzzy");
        typed(&mut state, b"\x1b");
        assert_eq!(state.view, view, "the filter goes first");
        typed(&mut state, b"\x1b");
        assert_eq!(state.view, View::Panes);
    }
    typed(&mut state, b"\x1deo");
    assert_eq!((state.view, state.pane().unwrap().backend.as_str()), (View::Panes, "local"));
    typed(&mut state, b"\x1dtjj");
    assert_eq!(typed(&mut state, b"r"), [Effect::Connect { backend: "gpu".to_owned() }]);
    typed(&mut state, b"\r");
    assert_eq!(state.pane().unwrap().backend, "gpu");
}

#[test]
fn nav_acts_on_the_command_under_the_cursor() {
    let mut state = on_web();
    testing::ran(&mut state, "p1", "web", "seq 5", 1, b"1\n2\n3\n4\n5\n");
    testing::ran(&mut state, "p2", "web", "echo x", 2, b"x\n");
    testing::run(&mut state, "p3", "web", "sleep 9", 3);
    drawn(&mut state);
    typed(&mut state, b"\x1b");
    assert_eq!((state.mood, state.cursor_block().as_deref()), (Mood::Nav, Some("p3")));
    assert_eq!(typed(&mut state, b"x"), [Effect::End { process: "p3".to_owned(), backend: "web".to_owned(), grace_ms: None }]);
    typed(&mut state, b"X");
    assert!(matches!(&state.overlay, Some(Overlay::Confirm(c)) if c.title == "kill on web" && c.lines[0] == "sleep 9"));
    state.mono += GUARD_MS;
    assert_eq!(typed(&mut state, b"y"), [Effect::End { process: "p3".to_owned(), backend: "web".to_owned(), grace_ms: Some(0) }]);
    assert_eq!(typed(&mut state, b"ky"), [Effect::Copy { text: "x\n".to_owned() }]);
    assert_eq!(typed(&mut state, b"kY"), [Effect::Copy { text: "seq 5".to_owned() }]);
    let web = state.focus;
    assert!(!state.is_open(web, &state.blocks["p1"]));
    typed(&mut state, b"\r");
    assert!(state.is_open(web, &state.blocks["p1"]));
    typed(&mut state, b"\r");
    assert!(!state.is_open(web, &state.blocks["p1"]));
    typed(&mut state, b"x");
    assert!(state.chip.as_ref().unwrap().1.contains("has ended"));
    typed(&mut state, b"G\x1b");
    assert_eq!(state.mood, Mood::Input);
}

#[test]
fn another_ones_command_is_stopped_only_after_a_question() {
    let mut state = on_web();
    testing::run(&mut state, "p1", "web", "deploy", 1);
    let mut info = state.blocks["p1"].info.clone();
    info.who = Who { kind: WhoKind::Agent, name: "claude".to_owned(), peer_pid: None };
    state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
    typed(&mut state, b"\x1b");
    assert!(typed(&mut state, b"x").is_empty());
    assert!(matches!(&state.overlay, Some(Overlay::Confirm(c)) if c.lines[1].contains("claude")));
    state.mono += GUARD_MS;
    testing::ended(&mut state, "p1", 0);
    assert!(typed(&mut state, b"y").is_empty(), "it has ended by now");
}

#[test]
fn the_session_of_a_pane_is_chosen_or_named() {
    let mut state = on_web();
    typed(&mut state, b"\x1b");
    typed(&mut state, b"s");
    assert!(matches!(&state.overlay, Some(Overlay::Sessions { rows, .. }) if rows == &["main"]));
    typed(&mut state, b"bu/ild\r");
    assert_eq!((state.pane().unwrap().session.as_str(), state.mood), ("build", Mood::Input));
    typed(&mut state, b"\x1b");
    typed(&mut state, b"s\x1b[B\r");
    assert_eq!(state.pane().unwrap().session, "main");
}

#[test]
fn scrolling_pins_the_view_and_the_end_follows_again() {
    let mut state = on_web();
    let out: String = (0..100).map(|i| format!("line {i}\n")).collect();
    testing::ran(&mut state, "p1", "web", "seq", 1, out.as_bytes());
    drawn(&mut state);
    typed(&mut state, b"\x1d[");
    assert_eq!(state.mood, Mood::Scroll);
    typed(&mut state, b"kkk");
    let at = state.pane().unwrap().anchor.clone();
    assert_eq!(at.as_ref().unwrap().row, crate::tui::state::pane::RowId::Line(96, 0));
    testing::ran(&mut state, "p2", "web", "more", 2, b"x\n");
    assert_eq!(state.pane().unwrap().anchor, at);
    assert!(state.pane().unwrap().arrived > 0);
    typed(&mut state, b"g");
    drawn(&mut state);
    let web = state.focus;
    let area = state.drawn.panes[web].rows;
    let top = |s: &State| crate::tui::rows::visible(s, web, area.width as usize, area.height as usize)[0].id;
    assert_eq!(top(&state), crate::tui::state::pane::RowId::Head(0));
    typed(&mut state, b"kkk");
    assert_eq!(top(&state), crate::tui::state::pane::RowId::Head(0), "not further than the first row");
    typed(&mut state, b"\x06\x06\x06\x06\x06\x06\x06\x06");
    assert_eq!(state.pane().unwrap().anchor, None, "at the end it follows");
    typed(&mut state, b"k");
    assert!(state.pane().unwrap().anchor.is_some());
    typed(&mut state, b"q");
    assert_eq!((state.mood, state.pane().unwrap().anchor.clone()), (Mood::Input, None));
}

#[test]
fn search_finds_upwards_and_back() {
    let mut state = on_web();
    testing::ran(&mut state, "p1", "web", "one", 1, b"alpha\nBeta\ngamma\n");
    testing::ran(&mut state, "p2", "web", "two", 2, b"beta two\nlast\n");
    drawn(&mut state);
    typed(&mut state, b"\x1d/beta\r");
    let at = |s: &State| s.pane().unwrap().anchor.clone().map(|a| a.block);
    assert_eq!(at(&state).as_deref(), Some("p2"));
    typed(&mut state, b"n");
    assert_eq!(at(&state).as_deref(), Some("p1"));
    typed(&mut state, b"N");
    assert_eq!(at(&state).as_deref(), Some("p2"));
    typed(&mut state, b"N");
    assert!(state.chip.as_ref().unwrap().1.contains("no more \"beta\" below"));
}

#[test]
fn history_and_its_search() {
    let mut state = on_web();
    testing::ran(&mut state, "p1", "web", "git status", 1, b"");
    testing::ran(&mut state, "p2", "web", "make", 2, b"");
    testing::ran(&mut state, "p3", "local", "git log", 3, b"");
    for (keys, want) in
        [(&b"\x1b[A"[..], "make"), (b"\x1b[A", "git status"), (b"\x1b[A", "git log"), (b"\x1b[B", "git status"), (b"\x03", "")]
    {
        typed(&mut state, keys);
        assert_eq!(line(&state), want, "{}", keys.escape_ascii());
    }
    typed(&mut state, b"\x12git");
    assert_eq!(line(&state), "git status");
    typed(&mut state, b"\x12");
    assert_eq!(line(&state), "git log");
    typed(&mut state, b"\x12");
    assert_eq!(note(&state), "no earlier hit");
    typed(&mut state, b"\x1b");
    assert_eq!(line(&state), "");
    typed(&mut state, b"\x12mak\r");
    assert_eq!(line(&state), "make", "enter takes the hit and does not run it");
}

#[test]
fn completion_is_asked_and_written_into_the_line_it_was_asked_for() {
    let mut state = on_web();
    let effects = typed(&mut state, b"cat RE\t");
    let [Effect::Complete { ticket, word, command, backend, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((word.as_str(), *command, backend.as_str()), ("RE", false, "web"));
    let ticket = *ticket;
    state.apply(Msg::Completed { ticket, words: Ok(vec!["README.md".to_owned()]) });
    assert_eq!(line(&state), "cat README.md ");
    typed(&mut state, b"x\t");
    typed(&mut state, b"y");
    let ticket = state.ticket;
    state.apply(Msg::Completed { ticket, words: Ok(vec!["xray".to_owned()]) });
    assert_eq!(line(&state), "cat README.md xy", "the line is another one by now");
}

#[test]
fn quit_says_what_stays_and_what_ends() {
    let mut state = on_web();
    testing::run(&mut state, "p1", "web", "mine", 1);
    testing::run(&mut state, "p2", "web", "others", 2);
    state.own.insert("p1".to_owned());
    for keys in [b"\x1dq", b"\x1dd"] {
        assert!(typed(&mut state, keys).is_empty());
        let Some(Overlay::Confirm(c)) = &state.overlay else { panic!() };
        let text = c.lines.join("\n");
        assert!(
            text.contains("1 command started here will be stopped") && text.contains("web: mine") && text.contains("1 command of others"),
            "{text}"
        );
        state.mono += GUARD_MS;
        assert!(typed(&mut state, b"n").is_empty());
        assert!(state.overlay.is_none());
    }
    typed(&mut state, b"\x1dq");
    state.mono += GUARD_MS;
    assert_eq!(typed(&mut state, b"y"), [Effect::Leave]);
}

#[test]
fn a_question_that_became_needless_at_once_goes_away() {
    let mut state = on_web();
    testing::run(&mut state, "p1", "web", "mine", 1);
    state.own.insert("p1".to_owned());
    typed(&mut state, b"\x1dd");
    assert!(state.settle_question().is_empty(), "it still runs");
    testing::ended(&mut state, "p1", 0);
    assert_eq!(state.settle_question(), [Effect::Leave]);
    // Once it may have been read, only the person answers it; a question for quitting is always asked.
    for (keys, wait) in [(b"\x1dd", GUARD_MS), (b"\x1dq", 0)] {
        state.own.insert("p1".to_owned());
        typed(&mut state, keys);
        state.own.clear();
        state.mono += wait;
        assert!(state.settle_question().is_empty());
        state.overlay = None;
    }
}

#[test]
fn a_refused_command_is_shown_with_the_reason() {
    let mut state = on_web();
    let refused =
        Refused { backend: "web".to_owned(), session: "main".to_owned(), command: "x".to_owned(), reason: "NUL in it".to_owned() };
    state.apply(Msg::Ended { ticket: 7, process: None, result: Err(refused) });
    drawn(&mut state);
    let web = state.focus;
    let rows = crate::tui::rows::visible(&state, web, 60, 10);
    assert!(format!("{:?}", rows.last().unwrap().kind).contains("NUL in it"));
    state.apply(Msg::Overview(Box::new(testing::overview())));
    assert!(state.panes[web].blocks.contains(&"refused-7".to_owned()), "a list from the daemon does not drop it");
}

#[test]
fn reads_follow_what_is_on_screen() {
    let mut state = on_web();
    testing::run(&mut state, "p1", "web", "yes", 1);
    testing::run(&mut state, "p2", "web", "yes again", 2);
    testing::run(&mut state, "p3", "local", "quiet", 3);
    for id in ["p1", "p2", "p3"] {
        state.apply(Msg::Event(Event::Output { process: id.to_owned(), total: 100 }));
    }
    drawn(&mut state);
    let reads = state.next_reads();
    assert_eq!(reads.len(), 2, "one a pane: {reads:?}");
    assert!(reads.iter().all(|r| matches!(r, Effect::Read { start: LogStart::Offset(0), .. })));
    assert!(state.next_reads().is_empty(), "nothing more while they are under way");
    state.zoom = true;
    state.apply(Msg::Connected {
        epoch: 2,
        overview: Box::new(crate::model::Overview {
            processes: state.blocks.values().map(|b| b.info.clone()).collect(),
            ..testing::overview()
        }),
    });
    drawn(&mut state);
    assert!(state.next_reads().iter().all(|r| matches!(r, Effect::Read { process, .. } if process != "p3")), "hidden panes are not read");
    state.apply(Msg::Read { epoch: 1, process: "p1".to_owned(), chunk: Err("old".to_owned()) });
    assert_eq!(state.blocks["p1"].error, None, "answers of an earlier connection change nothing");
}

#[test]
fn losing_the_daemon_leaves_what_ran_unknown_until_it_is_told_again() {
    let mut state = on_web();
    testing::run(&mut state, "p1", "web", "make", 1);
    testing::ran(&mut state, "p2", "web", "true", 2, b"");
    let rows: Vec<_> = ["p1", "p2"].iter().map(|id| state.blocks[*id].info.clone()).collect();
    state.apply(Msg::Lost { reason: "x".to_owned(), next_try: Some(state.now + 250), stopped: false });
    assert!(matches!(state.link, Link::Lost { .. }));
    assert!(state.blocks["p1"].lost && !state.blocks["p2"].lost);
    let overview = || testing::overview();
    state.apply(Msg::Connected { epoch: 2, overview: Box::new(overview()) });
    assert!(state.blocks["p1"].lost, "a new daemon does not know it");
    state.apply(Msg::Connected { epoch: 3, overview: Box::new(crate::model::Overview { processes: rows, ..overview() }) });
    assert!(!state.blocks["p1"].lost, "the same daemon does");
}

#[test]
fn only_what_is_seen_asks_for_a_frame() {
    let mut state = on_web();
    testing::run(&mut state, "p1", "web", "make", 1);
    testing::run(&mut state, "p2", "local", "make", 2);
    state.zoom = true;
    drawn(&mut state);
    let output = |id: &str| Msg::Event(Event::Output { process: id.to_owned(), total: 5 });
    assert_eq!(state.urgency(&output("p1")), Urgency::Now);
    assert_eq!(state.urgency(&output("p2")), Urgency::Later);
    let mut web = state.backends[1].clone();
    let event = |b: &crate::model::BackendInfo| Msg::Event(Event::Backend { backend: Box::new(b.clone()) });
    web.health.last_heard = Some(5);
    assert_eq!(state.urgency(&event(&web)), Urgency::Never);
    web.health.round_trip_us = Some(99);
    assert_eq!(state.urgency(&event(&web)), Urgency::Later);
    web.health.state = HealthState::Degraded;
    assert_eq!(state.urgency(&event(&web)), Urgency::Now);
}

#[test]
fn a_backend_that_comes_back_redraws_everything() {
    let mut state = on_web();
    state.redraw = false;
    let mut gpu = state.backends[2].clone();
    gpu.health.state = HealthState::Up;
    gpu.health.next_try = None;
    state.apply(Msg::Event(Event::Backend { backend: Box::new(gpu) }));
    assert!(state.redraw);
}

#[test]
fn the_mouse_focuses_and_scrolls() {
    let mut state = on_web();
    let out: String = (0..100).map(|i| format!("line {i}\n")).collect();
    testing::ran(&mut state, "p1", "web", "seq", 1, out.as_bytes());
    drawn(&mut state);
    let area = state.drawn.panes[3].area;
    typed(&mut state, format!("\x1b[<0;{};{}M", area.x + 5, area.y + 5).as_bytes());
    assert_eq!(state.focus, 3);
    typed(&mut state, b"\x1b[<0;5;4M");
    assert_eq!(state.focus, 1);
    let area = state.drawn.panes[1].area;
    typed(&mut state, format!("\x1b[<64;{};{}M", area.x + 5, area.y + 5).as_bytes());
    assert!(state.panes[1].anchor.is_some());
}

#[test]
fn random_keys_never_panic() {
    let mut state = on_web();
    for i in 0..20 {
        testing::ran(
            &mut state,
            &format!("q{i}"),
            "web",
            "seq 30",
            i,
            b"1\n2\n3\nlong line that is longer than the pane is wide, surely, at this size of the screen\n",
        );
    }
    let mut x: u32 = 11;
    for i in 0..30_000u32 {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let byte = match x >> 29 {
            0 => 0x1d,
            1 => 0x1b,
            2 => (x >> 16) as u8 & 0x1f,
            _ => (x >> 16) as u8 & 0x7f,
        };
        state.mono += 40;
        typed(&mut state, &[byte]);
        if i % 37 == 0 {
            state.size = ((x >> 8) as u16 % 220 + 1, (x >> 4) as u16 % 70 + 1);
        }
        if i % 5 == 0 {
            drawn(&mut state);
        }
    }
}
