//! The questions of logins: what keys do to them, and what is drawn.

use crate::model::{Answer, Event, Field, KnownKey, Overview, Prompt, Question, Secret, ShownKey};
use crate::tui::effect::Effect;
use crate::tui::state::State;
use crate::tui::state::apply::Msg;
use crate::tui::state::overlay::GUARD_MS;
use crate::tui::state::pause::PAUSE;
use crate::tui::state::{Link, Mood};
use crate::tui::testing::{self, typed};
use crate::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

fn asked(id: u64, question: Question) -> State {
    let mut state = testing::sized(80, 24);
    ask(&mut state, id, question);
    state.mono += GUARD_MS;
    state
}

fn ask(state: &mut State, id: u64, question: Question) {
    let prompt = Prompt { id, backend: "web".into(), address: "deploy@web:22".into(), question, waiting: Vec::new() };
    state.apply(Msg::Event(Event::Prompt { prompt: Box::new(prompt) }));
}

fn shown() -> ShownKey {
    ShownKey { key_type: "ssh-ed25519".into(), fingerprint: "SHA256:Jx4pQ0123456789012345678901234567uF8".into(), authority: None }
}

fn host_key() -> Question {
    Question::HostKey { host: "web".into(), key: shown(), file: "/h/known_hosts".into() }
}

fn texts(list: &[&str], keep: bool) -> Answer {
    Answer::Texts { texts: list.iter().map(|t| Secret::new((*t).to_owned())).collect(), keep }
}

#[track_caller]
fn answers(state: &mut State, keys: &[u8], answer: Answer) {
    assert_eq!(typed(state, keys), [Effect::Answer { id: 7, answer }]);
    assert!(state.asked.is_empty());
}

fn screen_of(state: &State) -> Vec<String> {
    let (width, height) = state.size;
    let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
    view::draw(state, &mut buf);
    (0..height).map(|y| (0..width).map(|x| buf[(x, y)].symbol()).collect()).collect()
}

fn box_of(state: &State) -> String {
    let rows = screen_of(state).into_iter().filter(|row| row.contains('\u{2551}'));
    rows.map(|row| row.split('\u{2551}').nth(1).unwrap_or_default().trim().to_owned()).collect::<Vec<_>>().join("\n")
}

fn close(state: &mut State, id: u64) {
    state.apply(Msg::Event(Event::PromptClosed { id }));
}

fn line(state: &State) -> String {
    state.pane().unwrap().editor.text().to_owned()
}

#[test]
fn passphrases_and_passwords() {
    let question = Question::Passphrase { key: "/k".into(), again: false };
    answers(&mut asked(7, question.clone()), b"hunterx\x7f2\r", texts(&["hunter2"], false));
    answers(&mut asked(7, question.clone()), b"no\x15hunter2\x0b\r", texts(&["hunter2"], true));
    answers(&mut asked(7, question.clone()), b"hunter2\x1b", Answer::Cancel);
    answers(&mut asked(7, question), b"\x03", Answer::Cancel);
    answers(&mut asked(7, Question::Password { again: true }), b"p q\r", texts(&["p q"], false));
}

#[test]
fn every_field_of_a_round_and_nothing_kept_of_a_code() {
    let fields = vec![Field { label: "Code: ".into(), echo: false }, Field { label: "Colour: ".into(), echo: true }];
    let question =
        |may_keep| Question::Challenge { name: String::new(), instructions: String::new(), fields: fields.clone(), round: 1, may_keep };
    answers(&mut asked(7, question(false)), b"123\tblue\x0b\r", texts(&["123", "blue"], false));
    answers(&mut asked(7, question(false)), b"12\rblue\x1b[A3\r\r", texts(&["123", "blue"], false));
}

#[test]
fn a_new_host_key_is_trusted_only_on_purpose() {
    answers(&mut asked(7, host_key()), b"n", Answer::Cancel);
    answers(&mut asked(7, host_key()), b"\x1b", Answer::Cancel);
    assert!(typed(&mut asked(7, host_key()), b"\ry ye\r7uF8\r").is_empty(), "nothing is chosen, so nothing is confirmed");
    for (choice, save) in [("o", false), ("s", true)] {
        let mut state = asked(7, host_key());
        assert!(typed(&mut state, format!("{choice}\r\r").as_bytes()).is_empty(), "to choose is not to confirm");
        assert!(typed(&mut state, b"uF8\r").is_empty(), "three characters are not four");
        assert!(typed(&mut state, b"7uF9\r").is_empty(), "wrong ones are wiped");
        typed(&mut state, b"7uF8\x1b");
        assert!(typed(&mut state, b"\r7uF8\r").is_empty() && !state.asked.is_empty(), "esc takes the choice back");
        answers(&mut state, format!("{choice}7uF8\r").as_bytes(), Answer::Trust { save });
    }
}

#[test]
fn a_changed_key_cannot_be_accepted() {
    let known =
        vec![KnownKey { place: "/h/known_hosts:41".into(), key_type: "ssh-rsa".into(), fingerprint: "SHA256:9aT".into(), marker: None }];
    let mut state = asked(7, Question::HostKeyChanged { host: "web".into(), key: shown(), known });
    assert!(typed(&mut state, b"osy\rnd").is_empty());
    assert_eq!(typed(&mut state, b"c"), [Effect::Copy { text: "qd hostkey replace web".into() }]);
    assert!(typed(&mut state, b"\x1b").is_empty() && state.asked.is_empty(), "the daemon waits for no answer");
}

#[test]
fn whoever_is_typing_answers_nothing() {
    let mut state = testing::sized(80, 24);
    typed(&mut state, b"ech");
    ask(&mut state, 7, host_key());
    // Slower than the pause as a whole, never pausing: the guard counts from the last key.
    for key in ["o", " ", "o", "7", "u", "F", "8", "\r", "\x1b", "\x03"] {
        state.mono += GUARD_MS - 1;
        assert!(typed(&mut state, key.as_bytes()).is_empty(), "{key:?}");
    }
    assert!(state.asked[0].choice.is_none());
    assert!(box_of(&state).contains(PAUSE), "{}", box_of(&state));
    assert_eq!(state.next_wake(), Some(state.mono + GUARD_MS));
    state.mono += GUARD_MS;
    assert!(!box_of(&state).contains(PAUSE));
    typed(&mut state, b"o");
    assert!(state.asked[0].choice.is_some());
}

#[test]
fn every_question_has_its_own_moment() {
    let mut state = asked(7, host_key());
    ask(&mut state, 8, Question::Password { again: false });
    assert!(!screen_of(&state).join("").contains(PAUSE), "the one in front is still the same");
    assert_eq!(typed(&mut state, b"nn\x1b").len(), 1);
    assert_eq!(state.asked.len(), 1);
    state.mono += GUARD_MS;
    answers_of(&mut state, b"\x1b", 8);
}

#[track_caller]
fn answers_of(state: &mut State, keys: &[u8], id: u64) {
    assert_eq!(typed(state, keys), [Effect::Answer { id, answer: Answer::Cancel }]);
}

#[test]
fn a_secret_goes_nowhere_else_when_its_question_goes_away() {
    let question = Question::Passphrase { key: "/k".into(), again: false };
    type Way = (&'static str, fn(&mut State));
    let gone: [Way; 4] = [
        ("answered elsewhere", |state| close(state, 7)),
        ("not asked any more", |state| state.apply(Msg::Overview(Box::new(testing::overview())))),
        ("the daemon is gone", |state| state.apply(Msg::Lost { reason: "gone".into(), next_try: None, stopped: false })),
        ("the daemon is back", |state| {
            state.apply(Msg::Lost { reason: "gone".into(), next_try: None, stopped: false });
            state.apply(Msg::Connected { epoch: 2, overview: Box::new(testing::overview()) });
        }),
    ];
    for (how, go) in gone {
        for mood in [Mood::Input, Mood::Nav, Mood::Scroll] {
            let mut state = asked(7, question.clone());
            state.mood = mood;
            typed(&mut state, b"Planted");
            go(&mut state);
            assert!(state.asked.is_empty());
            for keys in [&b"Pass123"[..], b"\x1b[200~Pass\nword\x1b[201~", b"\x1d", b"q", b"\x03", b"\r"] {
                state.mono += GUARD_MS - 1;
                assert!(typed(&mut state, keys).is_empty(), "{how}, {mood:?}: {keys:?}");
            }
            assert!(screen_of(&state)[23].contains(PAUSE), "{how}: {}", screen_of(&state)[23]);
            assert!(line(&state).is_empty() && state.mood == mood && state.overlay.is_none() && state.leader.is_none());
            state.mono += GUARD_MS;
            assert!(!screen_of(&state)[23].contains(PAUSE));
            state.mood = Mood::Input;
            typed(&mut state, b"ls");
            assert_eq!(line(&state), "ls", "{how}");
        }
    }
    // Without a question there is nothing to be careful about.
    let mut state = testing::sized(80, 24);
    state.apply(Msg::Lost { reason: "gone".into(), next_try: None, stopped: false });
    assert!(matches!(state.link, Link::Lost { .. }));
    typed(&mut state, b"ls");
    assert_eq!(line(&state), "ls");
}

#[test]
fn a_leader_that_a_question_came_after_takes_no_later_key() {
    let mut state = testing::sized(80, 24);
    typed(&mut state, b"\x1d");
    ask(&mut state, 7, host_key());
    close(&mut state, 7);
    state.mono += GUARD_MS;
    typed(&mut state, b"z");
    assert!(!state.zoom && line(&state) == "z");
}

#[test]
fn what_is_not_shown_whole_can_only_be_refused() {
    let passphrase = Question::Passphrase { key: "/k".into(), again: false };
    for (question, esc) in [(host_key(), "refuses"), (passphrase, "cancels")] {
        for size in [(20, 5), (1, 1), (40, 6), (30, 7), (200, 4)] {
            let mut state = asked(7, question.clone());
            state.size = size;
            let screen = screen_of(&state).iter().map(|row| row.trim()).collect::<Vec<_>>().join(" ");
            if size.0 >= 20 {
                assert!(screen.contains("too small:") && screen.contains(&format!("esc {esc}")), "{size:?}: {screen}");
            }
            assert!(typed(&mut state, b"o7uF8\rs7uF8\rn\r\x1b[200~x\x1b[201~").is_empty());
            assert!(state.asked[0].choice.is_none() && state.asked[0].texts.iter().all(|t| t.expose().is_empty()));
            answers(&mut state, b"\x1b", Answer::Cancel);
        }
    }
    // It did fit until a choice showed more.
    let mut state = asked(7, host_key());
    state.size = (40, 9);
    assert!(typed(&mut state, b"s7uF8\r").is_empty());
    assert!(screen_of(&state).join("").contains("too small"));
    answers(&mut state, b"\x03", Answer::Cancel);
}

#[test]
fn at_every_size_a_question_is_whole_or_said_to_be_too_small() {
    let wanted = |question: &Question, chosen: bool| -> Vec<&'static str> {
        match question {
            Question::HostKey { .. } if chosen => vec!["SHA256:Jx4pQ0123456789012345678901234567uF8", "back"],
            Question::HostKey { .. } => vec!["SHA256:Jx4pQ012...7uF8", "this time only", "s save", "refuse", "f whole"],
            Question::HostKeyChanged { .. } => vec!["another key", "qd hostkey replace web", "esc close"],
            _ => vec!["passphrase:", "enter send", "no retry)"],
        }
    };
    let known =
        vec![KnownKey { place: "/h/known_hosts:41".into(), key_type: "ssh-rsa".into(), fingerprint: "SHA256:9aT".into(), marker: None }];
    let questions = [
        (host_key(), &b""[..], 8),
        (host_key(), b"s", 12),
        (host_key(), b"o", 11),
        (Question::Passphrase { key: "/k".into(), again: true }, b"0123456789012345678901234567890123456789", 10),
        (Question::HostKeyChanged { host: "web".into(), key: shown(), known }, b"", 10),
    ];
    for (question, keys, rows_at_40) in questions {
        for (w, h) in (1..100).step_by(3).flat_map(|w| (1..30).map(move |h| (w, h))).chain([(40, rows_at_40)]) {
            let mut state = asked(7, question.clone());
            typed(&mut state, keys);
            state.size = (w, h);
            if !view::asked_is_whole(&state) {
                assert!((w, h) != (40, rows_at_40), "{question:?} has room");
                continue;
            }
            let text = box_of(&state).replace('\n', " ");
            for part in wanted(&question, state.asked[0].choice.is_some()) {
                // A fingerprint that is wider than the screen is broken anywhere.
                let (part, text) = (part.replace(' ', ""), text.replace(' ', ""));
                assert!(text.contains(&part), "{part} at {w}x{h}: {text}");
            }
        }
    }
}

#[test]
fn what_a_server_says_has_a_mark_in_every_row() {
    let instructions = format!("{} passphrase: ", "word ".repeat(30));
    let fields = vec![Field { label: "a label of a server ".repeat(5), echo: true }];
    let question = Question::Challenge { name: "n".into(), instructions, fields, round: 1, may_keep: false };
    let mut state = asked(7, question);
    typed(&mut state, "x".repeat(500).as_bytes());
    typed(&mut state, b"END");
    let text = box_of(&state);
    let said = text.lines().skip(1).take_while(|row| !row.starts_with("a label"));
    assert!(said.clone().count() > 3 && said.clone().all(|row| row.starts_with("| ")), "{text}");
    assert!(text.contains("END_"), "the end of what is typed is shown: {text}");
}

#[test]
fn an_overview_says_which_questions_are_left() {
    let mut state = asked(7, host_key());
    let prompt =
        Prompt { id: 9, backend: "web".into(), address: "a".into(), question: Question::Password { again: false }, waiting: Vec::new() };
    state.apply(Msg::Overview(Box::new(Overview { prompts: vec![prompt], ..testing::overview() })));
    assert_eq!(state.asked.iter().map(|d| d.prompt.id).collect::<Vec<_>>(), [9]);
}

#[test]
fn what_is_hidden_is_not_drawn_and_servers_draw_nothing_of_their_own() {
    let fields = vec![Field { label: "Verification\x1b[2J code: ".into(), echo: false }];
    let question = Question::Challenge { name: String::new(), instructions: "a\x07 b".into(), fields, round: 2, may_keep: false };
    let mut state = asked(7, question);
    typed(&mut state, b"secret");
    let hidden = box_of(&state);
    assert!(!hidden.contains("secret") && !hidden.contains('\x1b') && !hidden.contains('\x07'), "{hidden}");
    assert!(!format!("{state:?}", state = state.asked).contains("secret"));
    typed(&mut state, b"\x12");
    assert!(box_of(&state).contains("secret"));
}

#[test]
fn dialogs_are_drawn_whole() {
    insta::assert_snapshot!(box_of(&asked(7, Question::Passphrase { key: "/k".into(), again: true })), @r"
    /k for deploy@web:22
    That passphrase does not fit.
    passphrase: _
    [ ] ^K keep in memory until the daemon ends

    enter send    ^R show/hide    esc cancel (it stays down, no retry)
    ");
    insta::assert_snapshot!(box_of(&asked(7, host_key())), @r"
    web (deploy@web:22) is not in known_hosts.
    it shows ssh-ed25519 SHA256:Jx4pQ012...7uF8
    Agents cannot answer this. Nothing is sent until you do.

    o this time only    s save    n, esc refuse    f whole
    ");
    let mut state = asked(7, host_key());
    typed(&mut state, b"s7u");
    insta::assert_snapshot!(box_of(&state), @r"
    web (deploy@web:22) is not in known_hosts.
    it shows ssh-ed25519 SHA256:Jx4pQ0123456789012345678901234567uF8
    Agents cannot answer this. Nothing is sent until you do.
    ▸ save it in /h/known_hosts
    type its last 4 characters: 7u__

    enter save and connect    esc back
    ");
}
