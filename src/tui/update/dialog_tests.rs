//! The questions of logins: what keys do to them, and what is drawn.

use crate::model::{Answer, Event, Field, KnownKey, Overview, Prompt, Question, Secret, ShownKey};
use crate::tui::effect::Effect;
use crate::tui::state::State;
use crate::tui::state::apply::Msg;
use crate::tui::state::overlay::GUARD_MS;
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
    let prompt = Prompt { id, backend: "web".into(), address: "deploy@web:22".into(), question };
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

fn box_of(state: &State) -> String {
    let mut buf = Buffer::empty(Rect::new(0, 0, 80, 24));
    view::draw(state, &mut buf);
    let rows = (0..24).map(|y| (0..80).map(|x| buf[(x, y)].symbol()).collect::<String>());
    let inside = rows.filter(|row| row.contains('\u{2551}')).map(|row| row.split('\u{2551}').nth(1).unwrap_or_default().trim().to_owned());
    inside.collect::<Vec<_>>().join("\n")
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
    answers(&mut asked(7, host_key()), b"o", Answer::Trust { save: false });
    answers(&mut asked(7, host_key()), b"n", Answer::Cancel);
    answers(&mut asked(7, host_key()), b"\x1b", Answer::Cancel);
    assert!(typed(&mut asked(7, host_key()), b"\ry ").is_empty(), "no other key says anything");
    let mut state = asked(7, host_key());
    assert!(typed(&mut state, b"suF8\r").is_empty(), "three characters are not four");
    assert!(typed(&mut state, b"7uF9\r").is_empty(), "wrong ones are wiped");
    answers(&mut state, b"7uF8\r", Answer::Trust { save: true });
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
fn keys_meant_for_something_else_answer_nothing() {
    let mut state = testing::state();
    ask(&mut state, 7, host_key());
    assert!(typed(&mut state, b"o").is_empty());
    ask(&mut state, 8, Question::Password { again: false });
    state.mono += GUARD_MS;
    assert_eq!(typed(&mut state, b"oo").len(), 1, "the next question has its own moment");
    assert_eq!(state.asked.len(), 1);
    state.apply(Msg::Event(Event::PromptClosed { id: 8 }));
    assert!(state.asked.is_empty());
}

#[test]
fn an_overview_says_which_questions_are_left() {
    let mut state = asked(7, host_key());
    let prompt = Prompt { id: 9, backend: "web".into(), address: "a".into(), question: Question::Password { again: false } };
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

    o this time only    s save    n, esc: refuse    f whole
    ");
}
