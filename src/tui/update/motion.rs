//! How far the keys that move go, the same in every list.
//!
//! Invariant: pure; a list clamps what it is told.

use crate::tui::input::table::Action;

/// Gives by how many rows a key moves in a list of which so many rows are on screen; none when it is no key that moves.
pub(super) fn steps(action: Action, rows: usize) -> Option<isize> {
    let page = rows.max(2) as isize - 1;
    Some(match action {
        Action::Down => 1,
        Action::Up => -1,
        Action::PageDown => page,
        Action::PageUp => -page,
        Action::HalfDown => (page / 2).max(1),
        Action::HalfUp => -(page / 2).max(1),
        Action::Top => isize::MIN / 2,
        Action::Bottom => isize::MAX / 2,
        _ => return None,
    })
}
