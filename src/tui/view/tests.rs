//! What is drawn, at many sizes and in every view.

use super::*;
use crate::model::{Event, Hint, Outcome, ProcessState, Who, WhoKind};
use crate::tui::state::apply::Msg;
use crate::tui::testing;
use crate::tui::theme::{Look, Theme};
use ratatui::layout::Rect;

fn lines(state: &State, width: u16, height: u16) -> Vec<String> {
    let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
    draw(state, &mut buf);
    (0..height)
        .map(|y| {
            let mut row = String::new();
            let mut skip = 0;
            for x in 0..width {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                let symbol = buf[(x, y)].symbol();
                skip = crate::tui::text::width(symbol).saturating_sub(1);
                row.push_str(symbol);
            }
            row.trim_end().to_owned()
        })
        .collect()
}

fn screen(state: &State, width: u16, height: u16) -> String {
    lines(state, width, height).join("\n")
}

/// A state with a bit of everything.
fn busy(width: u16, height: u16) -> State {
    let mut state = testing::sized(width, height);
    testing::ran(&mut state, "p1", "web", "npm ci", 1, b"added 812 packages in 16s\n");
    testing::run(&mut state, "p2", "web", "npm run build\n# two", 17);
    let mut info = state.blocks["p2"].info.clone();
    info.who = Who { kind: WhoKind::Agent, name: "claude-code".to_owned(), peer_pid: None };
    state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
    testing::output(&mut state, "p2", b"vite v6.1.0 building\n\x1b[32mtransforming\x1b[0m (812) src/app.tsx\n");
    testing::run(&mut state, "p3", "web", "grep -n TODO src/*", 20);
    let mut info = state.blocks["p3"].info.clone();
    info.state = ProcessState::Ended(Outcome::Exited { exit_code: 1 });
    info.exit_code_meaning = Some("no lines matched (not an error)".to_owned());
    info.ended = Some(info.started + 4);
    info.session = "build".to_owned();
    info.hints = vec![Hint { code: "x".to_owned(), message: "a hint".to_owned() }];
    state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
    let web = testing::pane_of(&state, "web");
    state.focus_on(web);
    testing::typed(&mut state, b"npm test");
    state
}

#[test]
fn the_wall_shows_four_panes_of_four_machines() {
    let state = busy(160, 45);
    let rows = lines(&state, 160, 45);
    let text = rows.join("\n");
    assert_eq!(
        rows[0].split_whitespace().collect::<Vec<_>>().join(" "),
        "fleet: lab 4 backends 2 up 1 reconnecting 1 down agent: claude-code on web commands 3 (0 failed) ▸ 1 running"
    );
    for title in [
        "─ 0 local  local  main  ~/proj ─",
        "━ 1 web  ssh deploy@web  main  ~/srv/app ━",
        "─ 2 gpu  ssh lab@gpu.lab  main ─",
        "─ 3 day  ssh ada@day.lab  main ─",
    ] {
        assert!(text.contains(title), "{title}\n{text}");
    }
    assert!(text.contains("━ INPUT 23ms ━┓"));
    assert!(text.contains("─ ◐ reconnecting 14s try 4 ─"));
    assert!(text.contains("╌╌╌╌ connection lost 08:52:12: no answer for 10 s"));
    assert!(text.contains("╌╌╌╌ down since 08:52:12: the key was refused; put a key that it"));
    assert!(text.contains("┃▏08:52:29 claude-code  npm run build  (+1 lin…  ▸ running  00:43 ┃"), "{text}");
    assert!(text.contains("┃▏ transforming (812) src/app.tsx "));
    assert!(text.contains("you [build]  grep -n TODO src/*") && text.contains("exit 1  4ms"));
    assert!(text.contains("┃▏ no lines matched (not an error) ") && text.contains("┃▏ hint: a hint "));
    assert!(text.contains("┃main ~/srv/app ❯ npm test "));
    assert!(rows[44].starts_with(" INPUT  web:main │ ^] commands  ^]0-9 backend  ^]z zoom"));
}

#[test]
fn a_strip_and_one_pane_at_80x24() {
    let rows = lines(&busy(80, 24), 80, 24);
    assert_eq!(rows[0], " 0 local ●  1 web ●  2 gpu ◐14s  3 day ✕                            ▸ 1 running");
    assert_eq!(rows[1], "┏━ 1 web  ssh deploy@web  main  ~/srv/app ━━━━━━━━━━━━━━━━━━━━━━━━ INPUT 23ms ━┓");
    assert_eq!(rows[2], "┃▏08:52:13 you  npm ci                                     exit 0  340ms  1 ln ┃");
    assert_eq!(rows[21], "┃main ~/srv/app ❯ npm test                                                     ┃");
    assert_eq!(rows[22], "┗━ agent claude-code ▸ npm run build  00:43 on web (^]e feed) ━━━━━━━━━━━━━━━━━┛");
}

#[test]
fn one_bar_at_40x10_and_a_summary_below() {
    let rows = lines(&busy(40, 10), 40, 10);
    assert_eq!(rows[0], " 1 web ●  2/4 up            ▸ 1 running");
    assert_eq!(rows[1], "┏━ 1 web  main  ~/srv/app  INPUT 23ms ━┓");
    assert_eq!(rows[7], "┃main ~/srv/app ❯ npm test             ┃");
    let rows = lines(&busy(24, 6), 24, 6);
    assert_eq!(
        rows,
        ["need 40x10 (24x6 now)", "4 backends 2● 1◐ 1✕", "running 1  alerts 0", "pane web: grep -n TODO …", "^]? help  ^]q quit", ""]
    );
}

#[test]
fn the_feed_is_a_column_of_a_wide_screen() {
    let text = screen(&busy(200, 60), 200, 60);
    assert!(text.contains("┌─ feed ───"));
    assert!(text.contains("│08:52:29 ▸ web claude-code npm run… 00:43 │"), "{text}");
}

#[test]
fn without_colour_and_unicode_everything_is_still_said() {
    let mut state = busy(120, 40);
    state.theme = Theme::new(Look { no_color: true, ascii: true });
    let mut buf = Buffer::empty(Rect::new(0, 0, 120, 40));
    draw(&state, &mut buf);
    for cell in buf.content() {
        assert!(cell.symbol().is_ascii(), "{}", cell.symbol());
        assert_eq!(cell.bg, ratatui::style::Color::Reset);
    }
    let text = screen(&state, 120, 40);
    assert!(text.contains("* reconnecting 14s try 4") && text.contains("x down") && text.contains("> running  00:43"), "{text}");
}

#[test]
fn hostile_text_stays_in_its_place() {
    let mut state = testing::sized(160, 45);
    let bad = "a\x1b[2J\x1b]0;t\x07\u{202e}b\r\nc\u{9b}31m";
    let mut overview = testing::overview();
    overview.backends[1].name = bad.to_owned();
    overview.backends[1].address = bad.to_owned();
    overview.backends[2].health.reason = Some(bad.to_owned());
    overview.backends[3].health.fix = Some(bad.repeat(40));
    overview.sessions[0].cwd = bad.to_owned();
    overview.notices.push(crate::model::Notice {
        at: 0,
        level: crate::model::Level::Alert,
        backend: Some(bad.to_owned()),
        message: bad.to_owned(),
    });
    state.apply(Msg::Overview(Box::new(overview)));
    testing::run(&mut state, "p1", bad, bad, 1);
    let mut info = state.blocks["p1"].info.clone();
    info.who = Who { kind: WhoKind::Agent, name: bad.to_owned(), peer_pid: None };
    info.session = bad.to_owned();
    info.hints = vec![Hint { code: bad.to_owned(), message: bad.to_owned() }];
    state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
    for view in [View::Panes, View::Backends, View::Feed, View::Messages, View::Help] {
        state.view = view;
        let mut buf = Buffer::empty(Rect::new(0, 0, 160, 45));
        draw(&state, &mut buf);
        for cell in buf.content() {
            assert!(!cell.symbol().chars().any(|c| c.is_control() || crate::tui::text::is_invisible(c)), "{:?}", cell.symbol());
        }
    }
}

#[test]
fn every_view_survives_every_size() {
    let mut state = busy(160, 45);
    let wide: String = "日本語テキスト🙂 ".repeat(40);
    testing::output(&mut state, "p2", wide.as_bytes());
    testing::typed(&mut state, format!("\x1b[200~{wide}\nline two\nline three\x1b[201~").as_bytes());
    let overlays: Vec<Option<&[u8]>> = vec![None, Some(b"\x1dq"), Some(b"\x1b"), Some(b"\x1d["), Some(b"\x12x")];
    let small = (1..48).flat_map(|w| (1..14).map(move |h| (w, h)));
    let dense: Vec<(u16, u16)> = (1..=250).step_by(7).flat_map(|w| (1..=80).step_by(3).map(move |h| (w, h))).chain(small).collect();
    let sparse: Vec<(u16, u16)> = dense.iter().copied().step_by(11).collect();
    for keys in overlays {
        if let Some(keys) = keys {
            testing::typed(&mut state, keys);
        }
        for view in [View::Panes, View::Backends, View::Feed, View::Messages, View::Help] {
            state.view = view;
            for (w, h) in if view == View::Panes && keys.is_none() { &dense } else { &sparse } {
                state.size = (*w, *h);
                let mut buf = Buffer::empty(Rect::new(0, 0, *w, *h));
                let drawn = draw(&state, &mut buf);
                if let Some((x, y)) = drawn.cursor {
                    assert!(x < *w && y < *h, "cursor at {x},{y} of {w}x{h}");
                }
            }
        }
        state.view = View::Panes;
        state.overlay = None;
        state.size = (160, 45);
        state.mood = crate::tui::state::Mood::Input;
    }
    state.leader = Some(0);
    for (w, h) in &dense {
        draw(&state, &mut Buffer::empty(Rect::new(0, 0, *w, *h)));
    }
}

#[test]
fn the_popup_and_help_show_the_same_keys() {
    let mut state = testing::sized(120, 50);
    state.leader = Some(state.mono - 500);
    let popup = screen(&state, 120, 50);
    state.leader = None;
    state.view = View::Help;
    let help = screen(&state, 120, 50);
    for line in state.keymap.help(&[crate::tui::input::table::Context::Leader]) {
        assert!(popup.contains(line.label), "{}\n{popup}", line.label);
        assert!(help.contains(line.label), "{}\n{help}", line.label);
    }
}

#[test]
fn the_lists_show_what_is_there() {
    let mut state = busy(160, 45);
    state.view = View::Backends;
    let text = screen(&state, 160, 45);
    assert!(text.contains("◐ reconnecting 14s try 4") && text.contains("lab@gpu.lab:22") && text.contains("no answer for 10 s"), "{text}");
    state.view = View::Feed;
    let text = screen(&state, 160, 45);
    assert!(text.contains("npm run build") && text.contains("claude-code"), "{text}");
    state.notice("something happened");
    state.notice("something happened");
    state.view = View::Messages;
    assert!(screen(&state, 160, 45).contains("something happened  x2"));
}

#[test]
fn a_long_running_block_keeps_its_head_on_screen() {
    let mut state = testing::sized(80, 24);
    let web = testing::pane_of(&state, "web");
    state.focus_on(web);
    testing::run(&mut state, "p1", "web", "make -j8", 1);
    let out: String = (0..100).map(|i| format!("line {i}\n")).collect();
    testing::output(&mut state, "p1", out.as_bytes());
    let rows = lines(&state, 80, 24);
    assert!(rows[2].contains("you  make -j8"), "{}", rows[2]);
    assert!(rows[20].contains("line 99"), "{}", rows.join("\n"));
}
