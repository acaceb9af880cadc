//! Where everything is on the screen, from its size alone.
//!
//! Invariant: pure; the areas never overlap and never leave the screen, at any size from 1x1 on; the pane with the keyboard
//! is always among those shown.

use ratatui::layout::Rect;

/// The smallest screen that shows what keys act on: columns, rows.
pub(super) const LEAST: (u16, u16) = (40, 10);

/// Smallest useful pane, with its border.
pub(super) const MIN_PANE: (u16, u16) = (38, 8);
/// Width of the sidebar.
const SIDEBAR: u16 = 26;
/// Width of the feed column.
const FEED: u16 = 44;

/// What fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tier {
    /// Under 40x10: a summary.
    Summary,
    /// 40 to 79 columns: one pane and one bar.
    Bar,
    /// 80 to 119 columns: a strip of backends and panes.
    Strip,
    /// From 120 columns on: a sidebar and panes of all backends.
    Sidebar,
    /// From 180 columns on: the feed too.
    Wide,
}

/// How panes are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// One pane on a narrow screen, a grid on a wide one.
    Auto,
    Grid,
    Columns,
    Rows,
    One,
}

impl Mode {
    /// Gives the next mode of the round.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Auto => Self::Grid,
            Self::Grid => Self::Columns,
            Self::Columns => Self::Rows,
            Self::Rows => Self::One,
            Self::One => Self::Auto,
        }
    }

    /// Gives the word of the screen.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Auto => "by size",
            Self::Grid => "grid",
            Self::Columns => "side by side",
            Self::Rows => "stacked",
            Self::One => "one pane",
        }
    }
}

/// The areas of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) tier: Tier,
    /// The bar at the top.
    pub(super) top: Option<Rect>,
    pub(super) side: Option<Rect>,
    pub(super) feed: Option<Rect>,
    pub(super) body: Rect,
    /// The status line.
    pub(super) bar: Rect,
}

/// Gives the tier of a size.
pub(super) fn tier(width: u16, height: u16) -> Tier {
    match (width, height) {
        (width, height) if width < LEAST.0 || height < LEAST.1 => Tier::Summary,
        (..80, _) => Tier::Bar,
        (..120, _) => Tier::Strip,
        (..180, _) => Tier::Sidebar,
        _ => Tier::Wide,
    }
}

/// Divides a screen.
pub(super) fn plan(width: u16, height: u16) -> Plan {
    let tier = tier(width, height);
    let all = Rect::new(0, 0, width, height);
    if tier == Tier::Summary {
        return Plan { tier, top: None, side: None, feed: None, body: all, bar: Rect::new(0, height, width, 0) };
    }
    let top = Some(Rect::new(0, 0, width, 1));
    let bar = Rect::new(0, height - 1, width, 1);
    let mut body = Rect::new(0, 1, width, height - 2);
    let mut side = None;
    let mut feed = None;
    if tier >= Tier::Sidebar {
        side = Some(Rect { width: SIDEBAR, ..body });
        body = Rect { x: SIDEBAR, width: body.width - SIDEBAR, ..body };
    }
    if tier == Tier::Wide {
        body.width -= FEED;
        feed = Some(Rect { x: body.right(), width: FEED, ..body });
    }
    Plan { tier, top, side, feed, body, bar }
}

/// Gives the panes shown and their areas.
pub(super) fn panes(plan: &Plan, count: usize, focus: usize, mode: Mode, zoom: bool) -> Vec<(usize, Rect)> {
    if count == 0 || plan.tier == Tier::Summary {
        return Vec::new();
    }
    let one = zoom || plan.tier == Tier::Bar || mode == Mode::One || (mode == Mode::Auto && plan.tier == Tier::Strip);
    if one {
        return vec![(focus.min(count - 1), plan.body)];
    }
    let (shown, columns) = fit(plan.body, count, mode);
    let first = focus.min(count - 1) / shown * shown;
    let shown = shown.min(count - first);
    cells(plan.body, shown, columns.min(shown)).into_iter().enumerate().map(|(i, area)| (first + i, area)).collect()
}

/// Gives how many panes fit and in how many columns; at least one.
fn fit(area: Rect, count: usize, mode: Mode) -> (usize, usize) {
    for shown in (1..=count).rev() {
        let best = (1..=shown)
            .filter(|columns| match mode {
                Mode::Columns => *columns == shown,
                Mode::Rows => *columns == 1,
                _ => true,
            })
            .map(|columns| (columns, area.width as usize / columns, area.height as usize / shown.div_ceil(columns)))
            .filter(|(_, w, h)| *w >= MIN_PANE.0 as usize && *h >= MIN_PANE.1 as usize)
            // As near to 80x24 as it gets, in whichever direction is short.
            .max_by_key(|(columns, w, h)| ((w * 24).min(h * 80), *columns));
        if let Some((columns, ..)) = best {
            return (shown, columns);
        }
    }
    (1, 1)
}

/// Divides an area into `count` cells, row by row; a last row with fewer cells has wider ones.
fn cells(area: Rect, count: usize, columns: usize) -> Vec<Rect> {
    let rows = count.div_ceil(columns);
    let mut out = Vec::with_capacity(count);
    for row in 0..rows {
        let (y, height) = share(area.y, area.height, row, rows);
        let here = columns.min(count - row * columns);
        for column in 0..here {
            let (x, width) = share(area.x, area.width, column, here);
            out.push(Rect { x, y, width, height });
        }
    }
    out
}

/// Gives the start and the length of part `at` of `parts` equal ones.
fn share(start: u16, length: u16, at: usize, parts: usize) -> (u16, u16) {
    let edge = |i: usize| (length as usize * i / parts) as u16;
    (start + edge(at), edge(at + 1) - edge(at))
}

/// A direction on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Left,
    Down,
    Up,
    Right,
}

/// Gives the pane next to a pane in a direction: the nearest one that overlaps it, else none.
pub(super) fn neighbour(shown: &[(usize, Rect)], from: usize, direction: Direction) -> Option<usize> {
    let (_, here) = shown.iter().find(|(pane, _)| *pane == from)?;
    let overlap = |a: u16, alen: u16, b: u16, blen: u16| a < b + blen && b < a + alen;
    let distance = |r: &Rect| match direction {
        Direction::Left => here.x.checked_sub(r.right()).filter(|_| overlap(here.y, here.height, r.y, r.height)),
        Direction::Right => r.x.checked_sub(here.right()).filter(|_| overlap(here.y, here.height, r.y, r.height)),
        Direction::Up => here.y.checked_sub(r.bottom()).filter(|_| overlap(here.x, here.width, r.x, r.width)),
        Direction::Down => r.y.checked_sub(here.bottom()).filter(|_| overlap(here.x, here.width, r.x, r.width)),
    };
    shown.iter().filter(|(pane, _)| *pane != from).filter_map(|(pane, r)| distance(r).map(|d| (d, *pane))).min().map(|(_, pane)| pane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_panes_are_a_square_beside_the_sidebar_at_160x45() {
        let plan = plan(160, 45);
        let shown = panes(&plan, 4, 0, Mode::Auto, false);
        assert_eq!(plan.side, Some(Rect::new(0, 1, 26, 43)));
        let areas: Vec<Rect> = shown.iter().map(|(_, r)| *r).collect();
        assert_eq!(areas, [Rect::new(26, 1, 67, 21), Rect::new(93, 1, 67, 21), Rect::new(26, 22, 67, 22), Rect::new(93, 22, 67, 22)]);
        assert_eq!(neighbour(&shown, 0, Direction::Right), Some(1));
        assert_eq!(neighbour(&shown, 0, Direction::Down), Some(2));
        assert_eq!(neighbour(&shown, 3, Direction::Up), Some(1));
        assert_eq!(neighbour(&shown, 0, Direction::Left), None);
    }

    #[test]
    fn modes_and_tiers() {
        let count = |w, h, n, mode| panes(&plan(w, h), n, 0, mode, false).len();
        assert_eq!(count(80, 24, 4, Mode::Auto), 1);
        assert_eq!(count(80, 24, 4, Mode::Grid), 4);
        assert_eq!(count(80, 24, 4, Mode::Columns), 2);
        assert_eq!(count(80, 24, 4, Mode::Rows), 2);
        assert_eq!(count(60, 24, 4, Mode::Grid), 1);
        assert_eq!(count(120, 40, 4, Mode::Auto), 4);
        assert_eq!(count(200, 60, 9, Mode::Auto), 9);
        assert_eq!(count(200, 60, 9, Mode::One), 1);
        assert_eq!(count(39, 24, 4, Mode::Auto), 0);
    }

    #[test]
    fn areas_never_overlap_and_the_focus_is_shown_at_every_size() {
        for (w, h) in (1..=250).step_by(3).flat_map(|w| (1..=80).step_by(2).map(move |h| (w, h))) {
            let plan = plan(w, h);
            let screen = Rect::new(0, 0, w, h);
            for (count, mode) in [(1, Mode::Auto), (4, Mode::Auto), (7, Mode::Grid), (13, Mode::Columns), (5, Mode::Rows), (3, Mode::One)] {
                for focus in 0..count {
                    let shown = panes(&plan, count, focus, mode, false);
                    if plan.tier != Tier::Summary {
                        assert!(shown.iter().any(|(pane, _)| *pane == focus), "{w}x{h}");
                    }
                    let mut areas: Vec<Rect> = shown.iter().map(|(_, r)| *r).collect();
                    areas.extend([plan.top, plan.side, plan.feed].into_iter().flatten());
                    areas.push(plan.bar);
                    for (i, a) in areas.iter().enumerate() {
                        assert_eq!(a.intersection(screen), *a, "{w}x{h} {a}");
                        assert!(areas[i + 1..].iter().all(|b| a.intersection(*b).is_empty()), "{w}x{h} {a}");
                    }
                    if shown.len() > 1 {
                        assert!(shown.iter().all(|(_, r)| r.width >= MIN_PANE.0 && r.height >= MIN_PANE.1));
                    }
                }
            }
        }
    }
}
