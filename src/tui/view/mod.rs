//! Draws the state.
//!
//! Invariant: a pure function of the state into a buffer of any size; nothing here waits, and every string from elsewhere is
//! cleaned before it is drawn.

mod block;
mod boxes;
mod details;
mod dialog;
mod feed;
mod line;
mod lists;
mod log;
mod pane;
mod popup;
mod processes;
mod side;
mod small;
mod status;
mod top;

use super::layout::{self, Tier};
use super::state::{Drawn, State, View};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws a whole screen; gives what is where.
pub(super) fn draw(state: &State, buf: &mut Buffer) -> Drawn {
    let mut drawn = Drawn::default();
    let area = *buf.area();
    if area.is_empty() {
        return drawn;
    }
    let plan = layout::plan(area.width, area.height);
    if plan.tier == Tier::Summary {
        small::draw(state, buf, &mut drawn);
        popup::draw(state, buf, &mut drawn);
        return drawn;
    }
    if let Some(top) = plan.top {
        top::draw(state, &plan, top, buf, &mut drawn);
    }
    if let Some(side) = plan.side {
        side::draw(state, side, buf, &mut drawn);
    }
    let mut body = plan.body;
    match plan.feed {
        // These take the room of the column.
        Some(column) if matches!(state.view, View::Feed | View::Processes | View::Details) => body = body.union(column),
        Some(column) => {
            let height = column.height / 3;
            let below = Rect { y: column.bottom() - height, height, ..column };
            feed::column(state, Rect { height: column.height - height, ..column }, buf, &mut drawn);
            processes::column(state, below, buf, &mut drawn);
        }
        None => {}
    }
    match state.view {
        View::Panes if state.panes.is_empty() => pane::nothing_yet(state, plan.body, buf),
        View::Panes => {
            for (index, area) in layout::panes(&plan, state.panes.len(), state.focus, state.layout, state.zoom) {
                pane::draw(state, index, area, buf, &mut drawn);
            }
            if plan.tier == Tier::Strip {
                feed::agent(state, plan.body, buf, &mut drawn);
            }
        }
        View::Backends => lists::backends(state, plan.body, buf, &mut drawn),
        View::Processes => processes::view(state, body, buf, &mut drawn),
        View::Details => details::view(state, body, buf, &mut drawn),
        View::Feed => feed::view(state, body, buf, &mut drawn),
        View::Messages => lists::messages(state, plan.body, buf, &mut drawn),
        View::Help => lists::help(state, plan.body, buf, &mut drawn),
    }
    status::draw(state, plan.bar, buf);
    popup::draw(state, buf, &mut drawn);
    drawn
}

/// Tells whether the question of a login in front is shown whole on a screen of the state's size.
pub(super) fn asked_is_whole(state: &State) -> bool {
    let (width, height) = state.size;
    state.asked.front().is_some_and(|asked| dialog::fits(state, asked, Rect::new(0, 0, width, height)))
}

#[cfg(test)]
mod process_tests;
#[cfg(test)]
mod tests;
