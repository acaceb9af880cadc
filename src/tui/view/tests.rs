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
fn show() {
    for (w, h) in [(160, 45), (80, 24), (40, 10), (24, 6), (200, 60)] {
        println!("{}\n", screen(&busy(w, h), w, h));
    }
}
