//! Text on the way to the screen: made safe, measured, cut.
//!
//! Invariant: what leaves here holds no control character and no invisible one, and its width is the sum of the widths of its
//! characters by one table, which is also the one that the painter uses.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthChar;

/// Gives the columns that a character takes: 0, 1 or 2.
pub(super) fn char_width(c: char) -> usize {
    if c.is_ascii() {
        return usize::from(!c.is_ascii_control());
    }
    c.width().unwrap_or(0).min(2)
}

/// Gives the columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Tells whether a character is dropped before drawing: it shows nothing, joins its neighbours or turns the direction of
/// writing, so that terminals disagree about the width or a text reads as another one.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180b}'..='\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}')
}

/// Makes foreign text safe on one line: a newline becomes `⏎`, a tab a space, other controls `^X` or U+FFFD.
pub(super) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push('⏎'),
            '\t' => out.push(' '),
            c if c.is_ascii_control() => {
                out.push('^');
                out.push(char::from(c as u8 ^ 0x40));
            }
            c if c.is_control() => out.push('\u{fffd}'),
            c if is_invisible(c) => {}
            c => out.push(c),
        }
    }
    out
}

/// Cuts a text to `max` columns; a cut text ends in `…` (or `~`, where only ASCII may be drawn).
pub(super) fn cut(text: &str, max: usize, ascii: bool) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    if max == 0 {
        return String::new();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let w = char_width(c);
        if used + w > max - 1 {
            break;
        }
        used += w;
        out.push(c);
    }
    out.push(if ascii { '~' } else { '…' });
    out
}

/// Cuts a text to `max` columns at its front, keeping the end: for paths.
pub(super) fn cut_front(text: &str, max: usize, ascii: bool) -> String {
    let whole = width(text);
    if whole <= max {
        return text.to_owned();
    }
    if max == 0 {
        return String::new();
    }
    let mut skip = whole + 1 - max;
    let mut rest = text;
    for (i, c) in text.char_indices() {
        if skip == 0 {
            rest = &text[i..];
            break;
        }
        skip = skip.saturating_sub(char_width(c));
        rest = &text[i + c.len_utf8()..];
    }
    format!("{}{rest}", if ascii { '~' } else { '…' })
}

/// Breaks a line into rows of at most `max` columns, as byte ranges; an empty line is one empty row.
pub(super) fn wrap(text: &str, max: usize) -> Vec<std::ops::Range<usize>> {
    let max = max.max(2);
    let mut rows = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (i, c) in text.char_indices() {
        let w = char_width(c);
        if used + w > max {
            rows.push(start..i);
            start = i;
            used = 0;
        }
        used += w;
    }
    rows.push(start..text.len());
    rows
}

/// Breaks a sentence into rows of at most `max` columns, between words where it can; the blank at a break is left out.
pub(super) fn wrap_words(text: &str, max: usize) -> Vec<std::ops::Range<usize>> {
    let max = max.max(2);
    let mut rows = Vec::new();
    let mut start = 0;
    while width(&text[start..]) > max {
        let row = wrap(&text[start..], max).first().map_or(text.len(), |r| start + r.end);
        // A blank just after the row, or the last one in it.
        let blank =
            if text[row..].starts_with(' ') { Some(row) } else { text[start..row].rfind(' ').map(|i| start + i).filter(|i| *i > start) };
        match blank {
            Some(at) => {
                rows.push(start..at);
                start = at + 1;
            }
            None => {
                rows.push(start..row);
                start = row;
            }
        }
    }
    rows.push(start..text.len());
    rows
}

/// Writes a clean text from `x` on, inside `area` only; gives the column after it.
pub(super) fn put(buf: &mut Buffer, area: Rect, x: u16, y: u16, text: &str, style: Style) -> u16 {
    let area = area.intersection(*buf.area());
    if y < area.y || y >= area.bottom() || x < area.x {
        return x;
    }
    let mut at = x;
    let mut last = None;
    for c in text.chars() {
        let w = char_width(c) as u16;
        if w == 0 {
            if let Some(before) = last.filter(|_| !c.is_control()) {
                let cell: &mut ratatui::buffer::Cell = &mut buf[(before, y)];
                if cell.symbol().len() < 24 {
                    let joined = format!("{}{c}", cell.symbol());
                    cell.set_symbol(&joined);
                }
            }
            continue;
        }
        if at + w > area.right() {
            break;
        }
        buf[(at, y)].set_char(c).set_style(style);
        if w == 2 {
            buf[(at + 1, y)].set_symbol(" ").set_style(style);
        }
        last = Some(at);
        at += w;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_keeps_no_control_character() {
        assert_eq!(clean("a\x1b[31mb\r\n\x07\u{9b}c\u{202e}d\x7f"), "a^[[31mb^M⏎^G\u{fffd}cd^?");
    }

    #[test]
    fn cut_never_exceeds_the_width() {
        for text in ["", "abc", "日本語テキスト", "a日b本c", "e\u{301}e\u{301}e\u{301}"] {
            for max in 0..12 {
                assert!(width(&cut(text, max, false)) <= max, "{text} {max}");
                assert!(width(&cut_front(text, max, false)) <= max, "{text} {max}");
            }
        }
        assert_eq!(cut_front("/home/ada/srv/app", 8, true), "~srv/app");
    }

    #[test]
    fn wrap_covers_the_whole_text_in_order() {
        for text in ["", "abcdefgh", "日本語", "a日b本c語d"] {
            for max in 1..10 {
                let rows = wrap(text, max);
                let joined: String = rows.iter().map(|r| &text[r.clone()]).collect();
                assert_eq!(joined, text);
                assert!(rows.iter().all(|r| width(&text[r.clone()]) <= max.max(2)));
            }
        }
    }

    #[test]
    fn sentences_break_between_words() {
        let broken = |text: &str, max| wrap_words(text, max).into_iter().map(|r| text[r].to_owned()).collect::<Vec<_>>();
        assert_eq!(broken("no answer to 3 checks", 10), ["no answer", "to 3", "checks"]);
        assert_eq!(broken("a verylongwordthatbreaks x", 8), ["a", "verylong", "wordthat", "breaks x"]);
        assert_eq!(broken("abcd efgh", 4), ["abcd", "efgh"]);
        assert_eq!(broken("", 4), [""]);
        for text in ["日本語 テキスト a b", "   ", "a  b   c"] {
            for max in 1..8 {
                assert!(broken(text, max).iter().all(|r| width(r) <= max.max(2)), "{text} {max}");
            }
        }
    }

    #[test]
    fn put_stays_inside_and_never_cuts_a_wide_character() {
        let mut buf = Buffer::empty(Rect::new(0, 0, 5, 1));
        let area = *buf.area();
        assert_eq!(put(&mut buf, area, 0, 0, "日本語", Style::new()), 4);
        assert_eq!(buf[(4, 0)].symbol(), " ");
        assert_eq!(put(&mut buf, area, 9, 0, "x", Style::new()), 9);
    }
}
