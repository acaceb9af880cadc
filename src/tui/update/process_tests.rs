//! The process view, the feed, alerts: keys as bytes, and what follows from them.

use crate::model::{EndedBy, Event, Exec, Level, Outcome, ProcessInfo, ProcessState, Who, WhoKind};
use crate::tui::effect::Effect;
use crate::tui::input::table::Context;
use crate::tui::state::apply::Msg;
use crate::tui::state::log::Place;
use crate::tui::state::overlay::{GUARD_MS, Overlay};
use crate::tui::state::processes::Part;
use crate::tui::state::{Mood, State, View};
use crate::tui::testing::{self, pane_of, typed};
use crate::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

fn drawn(state: &mut State) {
    let mut buf = Buffer::empty(Rect::new(0, 0, state.size.0, state.size.1));
    state.drawn = view::draw(state, &mut buf);
}

fn told(state: &mut State, info: ProcessInfo) {
    state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
}

/// A background process of an agent.
fn background(id: &str, backend: &str, command: &str, order: i64) -> ProcessInfo {
    let mut info = testing::process(id, backend, command);
    info.started = testing::NOW - 60_000 + order * 1000;
    info.background = true;
    info.detached = true;
    info.who = Who { kind: WhoKind::Agent, name: "hermes".to_owned(), peer_pid: Some(9) };
    info.cwd = "/srv".to_owned();
    info
}

fn ended(mut info: ProcessInfo, outcome: Outcome) -> ProcessInfo {
    info.ended = Some(info.started + 2_100);
    info.state = ProcessState::Ended(outcome);
    info
}

fn unknown(mut info: ProcessInfo) -> ProcessInfo {
    info.state = ProcessState::Unknown;
    info
}

/// The process view with one of each: failed, unknown, two that run, ended; and a foreground command that has ended.
fn open() -> State {
    let mut state = testing::state();
    told(&mut state, background("aaaa11", "web", "npm run dev", 1));
    told(&mut state, background("bbbb22", "web", "migrate.sh", 2));
    told(&mut state, background("cccc33", "gpu", "train.py", 3));
    told(&mut state, background("dddd44", "local", "cargo watch", 4));
    told(&mut state, background("eeee55", "local", "backup", 5));
    testing::ran(&mut state, "ffff66", "local", "ls", 6, b"x\n");
    told(&mut state, ended(background("bbbb22", "web", "migrate.sh", 2), Outcome::Exited { exit_code: 2 }));
    told(&mut state, unknown(background("cccc33", "gpu", "train.py", 3)));
    told(&mut state, ended(background("eeee55", "local", "backup", 5), Outcome::Exited { exit_code: 0 }));
    let mut mine = background("dddd44", "local", "cargo watch", 4);
    mine.who = testing::process("x", "x", "x").who;
    told(&mut state, mine);
    state.settle_alerts(|_| true);
    state.take_rings();
    typed(&mut state, b"\x1db");
    drawn(&mut state);
    state
}

fn rows(state: &State) -> Vec<&str> {
    state.process_rows().iter().map(|b| b.info.id.as_str()).collect()
}

fn cursor(state: &State) -> String {
    state.process_cursor().unwrap_or_default()
}

fn go_to(state: &mut State, id: &str) {
    state.go_to_process(id);
    drawn(state);
}

fn question(state: &State) -> String {
    match &state.overlay {
        Some(Overlay::Confirm(c)) => format!("{}\n{}", c.title, c.lines.join("\n")),
        other => panic!("{other:?}"),
    }
}

fn yes(state: &mut State) -> Vec<Effect> {
    state.mono += GUARD_MS;
    typed(state, b"y")
}

#[test]
fn what_needs_a_look_comes_first_and_what_is_unknown_is_not_ended() {
    let mut state = open();
    assert_eq!(rows(&state), ["bbbb22", "cccc33", "dddd44", "aaaa11", "eeee55"]);
    assert_eq!(state.context(), Context::Processes);
    typed(&mut state, b"e");
    assert!(rows(&state).contains(&"ffff66"), "all that is kept");
    typed(&mut state, b"e");
    assert_eq!(rows(&state), ["cccc33", "dddd44", "aaaa11"], "only what has not ended");
    typed(&mut state, b"e");
    testing::run(&mut state, "gggg77", "web", "make", 9);
    assert_eq!(rows(&state), ["bbbb22", "cccc33", "dddd44", "aaaa11", "gggg77", "eeee55"], "background before foreground");
    let tally = state.tally(None);
    assert_eq!((tally.running, tally.failed, tally.unknown), (2, 1, 1));
}

#[test]
fn rows_are_filtered_while_the_filter_is_typed() {
    let mut state = open();
    for (text, want) in [
        ("state:failed", &["bbbb22"][..]),
        ("state:unk", &["cccc33"]),
        ("by:you", &["dddd44"]),
        ("by:hermes web", &["bbbb22", "aaaa11"]),
        ("state:running foreground", &[]),
        ("ssh train", &["cccc33"]),
    ] {
        typed(&mut state, b"/\x15");
        typed(&mut state, text.as_bytes());
        assert_eq!(rows(&state), want, "{text}");
        typed(&mut state, b"\r");
    }
    typed(&mut state, b"\x1b");
    assert_eq!((rows(&state).len(), state.view), (5, View::Processes), "esc takes the filter away first");
    typed(&mut state, b"1");
    assert_eq!(rows(&state), ["bbbb22", "aaaa11"], "only web");
    typed(&mut state, b"1");
    assert_eq!(rows(&state).len(), 5);
    typed(&mut state, b"\x1b");
    assert_eq!(state.view, View::Panes);
}

#[test]
fn the_cursor_stays_on_its_process_while_the_list_moves() {
    let mut state = open();
    typed(&mut state, b"jjj");
    assert_eq!(cursor(&state), "aaaa11");
    told(&mut state, background("hhhh88", "web", "new", 20));
    told(&mut state, ended(background("dddd44", "local", "cargo watch", 4), Outcome::Signaled { signal: "SIGKILL".to_owned() }));
    assert_eq!(cursor(&state), "aaaa11");
    typed(&mut state, b"G");
    assert_eq!(cursor(&state), "eeee55");
    typed(&mut state, b"g");
    assert_eq!(cursor(&state), rows(&state)[0]);
}

#[test]
fn stopping_asks_for_others_and_for_many_and_names_machine_and_process() {
    let mut state = open();
    let end = |id: &str, backend: &str, grace_ms| Effect::End { process: id.to_owned(), backend: backend.to_owned(), grace_ms };
    go_to(&mut state, "dddd44");
    assert_eq!(typed(&mut state, b"x"), [end("dddd44", "local", None)], "one of one's own is stopped at once");
    go_to(&mut state, "aaaa11");
    assert!(typed(&mut state, b"x").is_empty());
    let text = question(&state);
    assert!(text.contains("stop on web") && text.contains("npm run dev") && text.contains("hermes") && text.contains("aaaa11"), "{text}");
    assert_eq!(yes(&mut state), [end("aaaa11", "web", None)]);
    typed(&mut state, b"A");
    assert!(typed(&mut state, b"X").is_empty());
    let text = question(&state);
    assert!(text.starts_with("kill 3 processes") && text.contains("gpu  train.py") && !text.contains("migrate"), "{text}");
    assert_eq!(yes(&mut state).len(), 3, "what has ended is not asked about");
    typed(&mut state, b"A");
    assert!(state.processes.marked.is_empty());
    go_to(&mut state, "bbbb22");
    assert!(typed(&mut state, b"x").is_empty() && state.overlay.is_none());
}

#[test]
fn marks_and_ranges_give_one_log() {
    let mut state = open();
    go_to(&mut state, "dddd44");
    typed(&mut state, b"  ");
    assert_eq!(state.processes.marked, ["dddd44", "aaaa11"]);
    assert!(state.processes.log.is_merged());
    typed(&mut state, b"\x1b");
    assert!(state.processes.marked.is_empty() && !state.processes.log.is_merged());
    typed(&mut state, b"gvjjv");
    assert_eq!(state.processes.marked, ["bbbb22", "cccc33", "dddd44"]);
}

#[test]
fn a_command_is_run_again_only_when_it_is_known_and_the_old_one_is_gone() {
    let mut state = open();
    go_to(&mut state, "bbbb22");
    assert!(typed(&mut state, b"R").is_empty());
    assert!(question(&state).contains("in the background of session main on web, in /srv"));
    let effects = yes(&mut state);
    let [Effect::Restart { process, end: false, exec, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    let Exec { backend, session, command, workdir, .. } = exec;
    let got = (process.as_str(), backend.as_deref(), session.as_deref(), command.as_str(), workdir.as_deref(), exec.background);
    assert_eq!(got, ("bbbb22", Some("web"), Some("main"), "migrate.sh", Some("/srv"), true));
    go_to(&mut state, "aaaa11");
    typed(&mut state, b"R");
    assert!(question(&state).contains("It runs (started by hermes): it is ended first"));
    assert!(matches!(yes(&mut state).as_slice(), [Effect::Restart { end: true, .. }]));
    for id in ["cccc33", "kkkk99", "llll00"] {
        let secret = background("kkkk99", "web", "curl -H [redacted]", 30);
        let mut stray = background("llll00", "web", "sleep", 31);
        stray.stray = Some(Box::new(crate::model::Stray { of: "x".to_owned(), pids: vec![7], adopted_by: None }));
        told(&mut state, secret);
        told(&mut state, stray);
        go_to(&mut state, id);
        assert!(typed(&mut state, b"R").is_empty() && state.overlay.is_none(), "{id}");
    }
}

#[test]
fn run_again_names_what_is_taken_over_and_what_it_is_again() {
    let mut state = open();
    let mut info = background("aaaa11", "web", "npm run dev", 1);
    (info.variables, info.timeout_ms) = (vec!["PORT".to_owned(), "TOKEN".to_owned()], Some(90_000));
    told(&mut state, ended(info, Outcome::Exited { exit_code: 0 }));
    go_to(&mut state, "aaaa11");
    typed(&mut state, b"R");
    assert!(question(&state).contains("With PORT, TOKEN and a time-out of 1m30s, as before."), "{}", question(&state));
    let effects = yes(&mut state);
    assert!(matches!(effects.as_slice(), [Effect::Restart { exec, .. }] if exec.again.as_deref() == Some("aaaa11")), "{effects:?}");
}

/// A key that ended a row nobody could see was found at 20x5.
#[test]
fn what_cannot_be_seen_is_not_acted_on() {
    for keys in ["x", "X", "R", "i"] {
        let mut state = open();
        go_to(&mut state, "dddd44");
        state.size = (20, 5);
        drawn(&mut state);
        assert!(typed(&mut state, keys.as_bytes()).is_empty() && state.overlay.is_none(), "{keys}");
        assert_eq!(state.chip.as_ref().map(|(_, text)| text.clone()), Some(format!("{keys} needs 40x10")));
    }
    let mut state = open();
    go_to(&mut state, "aaaa11");
    typed(&mut state, b"x");
    state.size = (20, 5);
    assert!(yes(&mut state).is_empty(), "the question was on a screen that is gone");
    let mut state = testing::state();
    state.size = (20, 5);
    typed(&mut state, b"rm -rf x\r");
    assert_eq!(state.pane().map(|p| p.editor.text().to_owned()).as_deref(), Some("rm -rf x"), "its line is kept");
}

#[test]
fn what_was_said_at_the_beginning_of_a_range_goes_with_it() {
    for end in ["jv", "j ", "\x1b", "A"] {
        let mut state = open();
        typed(&mut state, b"v");
        assert!(state.chip.as_ref().is_some_and(|(_, text)| text.starts_with("a range begins here")));
        typed(&mut state, end.as_bytes());
        assert_eq!((&state.processes.range, &state.chip), (&None, &None), "{end:?}");
    }
}

#[test]
fn a_command_that_was_stopped_looks_the_same_everywhere_and_is_no_failure() {
    let mut state = open();
    told(&mut state, ended(background("aaaa11", "web", "npm run dev", 1), Outcome::Cancelled { ended_by: EndedBy::Operator }));
    let shown = |state: &mut State, keys: &[u8]| {
        typed(state, keys);
        let mut buf = Buffer::empty(Rect::new(0, 0, state.size.0, state.size.1));
        state.drawn = view::draw(state, &mut buf);
        let line = |y| (0..buf.area.width).map(|x| buf[(x, y)].symbol()).collect::<String>();
        (0..buf.area.height).map(line).find(|l| l.contains("npm run dev") && l.contains("stopped")).unwrap_or_default()
    };
    for keys in [&b""[..], b"\x1be"] {
        let line = shown(&mut state, keys);
        assert!(line.contains('\u{25a0}') && !line.contains('\u{2715}') && !line.contains('\u{2713}'), "{line}");
    }
    assert!(!state.blocks["aaaa11"].failed());
}

#[test]
fn what_is_typed_goes_to_the_stdin_of_the_process_under_the_cursor() {
    let mut state = open();
    go_to(&mut state, "aaaa11");
    typed(&mut state, b"i");
    assert!(state.processes.asking.is_none(), "it has no open stdin");
    let mut info = background("aaaa11", "web", "npm run dev", 1);
    info.reads_stdin = true;
    told(&mut state, info);
    let send = |text: &str, eof| Effect::Send { process: "aaaa11".to_owned(), backend: "web".to_owned(), text: text.to_owned(), eof };
    assert_eq!(typed(&mut state, b"irs\r"), [send("rs\n", false)]);
    assert_eq!(typed(&mut state, b"bye\x04"), [send("bye", true)]);
    assert!(state.processes.asking.is_none());
}

#[test]
fn recheck_adopt_and_find_name_their_backend() {
    let mut state = open();
    go_to(&mut state, "cccc33");
    assert_eq!(typed(&mut state, b"u"), [Effect::Recheck { process: "cccc33".to_owned(), backend: "gpu".to_owned() }]);
    assert!(typed(&mut state, b"a").is_empty(), "it is no stray");
    let mut stray = background("mmmm12", "web", "sleep 600", 40);
    stray.background = false;
    stray.state = ProcessState::Stray;
    told(&mut state, stray);
    assert_eq!(rows(&state)[2], "mmmm12", "after what is unknown");
    go_to(&mut state, "mmmm12");
    assert_eq!(typed(&mut state, b"a"), [Effect::Adopt { process: "mmmm12".to_owned(), backend: "web".to_owned() }]);
    assert_eq!(typed(&mut state, b"F"), [Effect::Find { backend: "web".to_owned() }]);
}

#[test]
fn the_way_to_the_pane_and_to_the_details_and_back() {
    let mut state = open();
    go_to(&mut state, "aaaa11");
    typed(&mut state, b"d");
    assert_eq!((state.view, state.context()), (View::Details, Context::Details));
    typed(&mut state, b"\x1b");
    assert_eq!((state.view, cursor(&state).as_str()), (View::Processes, "aaaa11"));
    typed(&mut state, b"o");
    assert_eq!((state.view, state.focus, state.mood), (View::Panes, pane_of(&state, "web"), Mood::Input));
}

#[test]
fn only_the_log_that_is_shown_is_read_one_piece_at_a_time() {
    let mut state = open();
    for id in ["aaaa11", "dddd44"] {
        state.apply(Msg::Event(Event::Output { process: id.to_owned(), total: 9_000_000 }));
    }
    go_to(&mut state, "aaaa11");
    let reads = state.next_reads();
    let [Effect::ReadLog { turn, process, .. }] = reads.as_slice() else { panic!("{reads:?}") };
    assert_eq!(process, "aaaa11");
    let turn = *turn;
    assert!(state.next_reads().is_empty());
    go_to(&mut state, "dddd44");
    assert!(state.next_reads().is_empty(), "the answer that is under way is awaited");
    let chunk = || Ok(Box::new(crate::model::Chunk { total: 9_000_000, bytes: b"old\n".to_vec(), ..Default::default() }));
    state.apply(Msg::LogRead { epoch: state.epoch, turn, chunk: chunk() });
    assert!(state.processes.log.lines().is_empty(), "what was read for another process is dropped");
    assert!(matches!(state.next_reads().as_slice(), [Effect::ReadLog { process, .. }] if process == "dddd44"));
}

#[test]
fn the_log_is_scrolled_filtered_and_followed_by_keys() {
    let mut state = open();
    go_to(&mut state, "aaaa11");
    let text: String = (0..500).map(|i| format!("line {i}\n")).collect();
    let total = text.len() as u64;
    state.apply(Msg::Event(Event::Output { process: "aaaa11".to_owned(), total }));
    let read = |state: &mut State| {
        drawn(state);
        while let Some(Effect::ReadLog { turn, .. }) = state.next_reads().pop() {
            let chunk = crate::model::Chunk { total, bytes: text.clone().into_bytes(), ..Default::default() };
            state.apply(Msg::LogRead { epoch: state.epoch, turn, chunk: Ok(Box::new(chunk)) });
            drawn(state);
        }
    };
    read(&mut state);
    typed(&mut state, b"l");
    assert!(state.processes.part == Part::Log && state.processes.zoom);
    drawn(&mut state);
    typed(&mut state, b"kk");
    assert!(matches!(state.processes.log.place, Place::At { .. }));
    typed(&mut state, b"jj");
    assert_eq!(state.processes.log.place, Place::Follow, "back at the end it follows");
    typed(&mut state, b"f");
    assert!(matches!(state.processes.log.place, Place::At { .. }));
    typed(&mut state, b"f/49\r");
    read(&mut state);
    let hits = state.processes.log.lines().len();
    assert_eq!(hits, 15, "49, 149, 249, 349, 449 and 490 to 499");
    typed(&mut state, b"nnn");
    let hit = state.processes.log.hit.and_then(|seq| state.processes.log.line(seq)).map(|l| l.offset);
    typed(&mut state, b"\r");
    read(&mut state);
    assert!(state.processes.log.filter.is_empty());
    assert_eq!(state.processes.log.line(0).map(|l| l.offset).or(hit).is_some(), hit.is_some());
    typed(&mut state, b"\x1b\x1b");
    assert_eq!(state.view, View::Panes);
}

#[test]
fn a_background_process_that_fails_is_an_alert_and_one_that_was_stopped_is_not() {
    let mut state = testing::state();
    for (id, outcome, alerts) in [
        ("aaaa11", Outcome::Exited { exit_code: 0 }, 0),
        ("bbbb22", Outcome::Cancelled { ended_by: EndedBy::Operator }, 0),
        ("cccc33", Outcome::Exited { exit_code: 2 }, 1),
        ("dddd44", Outcome::Lost { reason: "gone".to_owned() }, 2),
    ] {
        let info = background(id, "web", "job", 1);
        told(&mut state, info.clone());
        told(&mut state, ended(info.clone(), outcome.clone()));
        told(&mut state, ended(info, outcome));
        assert_eq!(state.alert_count(), alerts, "{id}");
    }
    assert_eq!(state.take_rings().len(), 2);
    typed(&mut state, b"\x1da");
    assert_eq!((state.view, cursor(&state).as_str(), state.alert_count()), (View::Processes, "cccc33", 1));
    typed(&mut state, b"\x1da");
    assert_eq!(cursor(&state), "dddd44");
    typed(&mut state, b"\x1da");
    assert_eq!((state.view, state.focus), (View::Panes, pane_of(&state, "day")), "then the backend that is down");
}

#[test]
fn what_processes_tell_is_an_alert_for_who_asked_and_is_told_once() {
    use crate::model::{News, Of, Told};
    let mut state = testing::state();
    let told = |number, kind: WhoKind, news: News| {
        let who = Who { kind, name: "x".to_owned(), peer_pid: None };
        let of =
            Of { process: "aaaa11".to_owned(), backend: "web".to_owned(), session: "main".to_owned(), command: "make".to_owned(), who };
        Told { number, at: testing::NOW, of: Some(of), news }
    };
    let matched = |lines: &[&str]| News::Matched { lines: lines.iter().map(|l| (*l).to_owned()).collect(), dropped: 2 };
    let ended = |exit_code| News::Ended {
        outcome: Outcome::Exited { exit_code },
        output: "a\nlast\n\n".to_owned(),
        truncated: false,
        duration_ms: 2_100,
    };
    for (number, kind, news, alerts, text) in [
        (1, WhoKind::Operator, matched(&["ERROR one", "b"]), 1, "web: make: ERROR one  (and 3 more lines)"),
        (1, WhoKind::Operator, matched(&["ERROR one", "b"]), 1, "web: make: ERROR one  (and 3 more lines)"),
        (2, WhoKind::Agent, matched(&["x\x1b[2J"]), 1, "web: make: x^[[2J  (and 2 more lines)"),
        (3, WhoKind::Operator, ended(0), 2, "web: make: exit 0 after 2.1s: last"),
        (4, WhoKind::Operator, ended(1), 2, "web: make: exit 1 after 2.1s: last"),
        (5, WhoKind::Agent, News::WatchOff { reason: "too much".to_owned() }, 2, "web: make: its output is not watched any more: too much"),
    ] {
        state.apply(Msg::Event(Event::Told { told: Box::new(told(number, kind, news)) }));
        assert_eq!((state.alert_count(), state.messages.back().map(|m| m.text.as_str())), (alerts, Some(text)));
    }
    assert!(state.messages.iter().all(|m| m.times == 1));
    let mut overview = testing::overview();
    overview.told = vec![told(5, WhoKind::Operator, ended(0)), told(6, WhoKind::Operator, matched(&["late"]))];
    state.apply(Msg::Overview(Box::new(overview)));
    assert_eq!((state.alert_count(), state.messages.len()), (2, 6), "only the sixth is new, and it is not loud any more");
}

#[test]
fn a_source_that_is_loud_too_often_goes_to_the_messages_alone() {
    let mut state = testing::state();
    for i in 0..40 {
        state.say(Level::Alert, Some("gpu"), format!("trouble {i}"));
    }
    assert!(state.alert_count() <= 6 && state.messages.len() == 40, "{}", state.alert_count());
    state.mono += 11_000;
    state.say(Level::Alert, Some("gpu"), "later");
    assert!(state.chip.as_ref().is_some_and(|(_, text)| text == "gpu: later"));
    for _ in 0..12 {
        state.say(Level::Notice, Some("gpu"), "again");
        state.say(Level::Notice, Some("web"), "and again");
    }
    let times: Vec<u32> = state.messages.iter().rev().take(2).map(|m| m.times).collect();
    assert_eq!(times, [12, 12], "repeats are counted, also when they take turns");
}

#[test]
fn what_is_looked_at_is_quiet_and_what_is_well_again_is_no_alert() {
    let mut state = testing::state();
    let gpu = pane_of(&state, "gpu");
    state.focus_on(gpu);
    state.chip = None;
    state.say(Level::Notice, Some("gpu"), "slow");
    state.say(Level::Alert, Some("gpu"), "down");
    assert_eq!((state.alert_count(), state.take_rings().len()), (0, 0), "its pane is looked at");
    state.focus_on(0);
    state.say(Level::Alert, Some("gpu"), "down");
    assert_eq!(state.alert_count(), 1);
    let mut row = state.backends[gpu].clone();
    row.health.state = crate::model::HealthState::Up;
    state.apply(Msg::Event(Event::Backend { backend: Box::new(row) }));
    assert_eq!(state.alert_count(), 0);
    state.say(Level::Alert, None, "x");
    typed(&mut state, b"\x1dm");
    assert_eq!(state.alert_count(), 0, "the messages show it");
}

#[test]
fn the_feed_folds_stays_filters_and_pauses() {
    let mut state = testing::state();
    for i in 0..12 {
        testing::ran(&mut state, &format!("p{i:02}"), "web", "true", i, b"");
    }
    testing::ran(&mut state, "q1", "local", "ls", 20, b"");
    state.say(Level::Notice, Some("gpu"), "connection lost");
    typed(&mut state, b"\x1de");
    let keys = |state: &State| state.feed_rows().iter().map(crate::tui::state::feed::Item::key).collect::<Vec<_>>();
    assert_eq!(keys(&state).len(), 3, "twelve equal ones are one row");
    assert_eq!(keys(&state)[2], "p00", "it keeps its name while more come");
    drawn(&mut state);
    typed(&mut state, b"jj");
    testing::ran(&mut state, "q2", "local", "new", 50, b"");
    let (at, _) = state.feed_place(&state.feed_rows(), 9);
    assert_eq!(keys(&state)[at], "p00", "what arrives does not move the cursor's row away");
    typed(&mut state, b"p");
    let before = keys(&state).len();
    state.now += 50_000;
    testing::run(&mut state, "q3", "local", "unseen", 100);
    assert_eq!((keys(&state).len(), state.feed_waiting()), (before, 1));
    typed(&mut state, b"\x1b");
    assert!(keys(&state).contains(&"q3".to_owned()));
    testing::ended(&mut state, "q3", 3);
    typed(&mut state, b"!");
    assert_eq!(keys(&state), ["q3"]);
    typed(&mut state, b"!");
    told(&mut state, background("aaaa11", "web", "job", 1));
    typed(&mut state, b"/by:hermes\r");
    assert_eq!(keys(&state), ["aaaa11"]);
    typed(&mut state, b"@");
    assert_eq!(state.feed.by.as_deref(), Some("hermes"));
    typed(&mut state, b"\r");
    assert_eq!(state.view, View::Details);
    drawn(&mut state);
    typed(&mut state, b"o");
    assert_eq!((state.view, state.focus), (View::Panes, pane_of(&state, "web")));
}

#[test]
fn keys_of_these_views_never_panic() {
    let mut state = open();
    let mut x: u32 = 7;
    for i in 0..20_000u32 {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if i % 50 == 0 {
            state.overlay = None;
            typed(&mut state, [b"\x1db", b"\x1de", b"\x1dm"][(x >> 20) as usize % 3]);
        }
        let byte = (x >> 16) as u8 & 0x7f;
        state.mono += 500;
        if byte != 0x1d {
            typed(&mut state, &[byte]);
        }
        if i % 7 == 0 {
            let id = ["aaaa11", "bbbb22", "cccc33"][(x >> 9) as usize % 3];
            state.apply(Msg::Event(Event::Output { process: id.to_owned(), total: u64::from(i) * 100 }));
            state.size = ((x >> 8) as u16 % 220 + 1, (x >> 4) as u16 % 70 + 1);
            drawn(&mut state);
            for read in state.next_reads() {
                if let Effect::ReadLog { turn, max, .. } = read {
                    let bytes = b"some text\nmore \xff\x1b[31m text\n".repeat(3).into_iter().take(max as usize).collect();
                    let chunk = crate::model::Chunk { offset: u64::from(x) % 9_000, total: 1 << 20, bytes, ..Default::default() };
                    state.apply(Msg::LogRead { epoch: state.epoch, turn, chunk: Ok(Box::new(chunk)) });
                }
            }
        }
    }
}
