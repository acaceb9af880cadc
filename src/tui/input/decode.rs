//! Turns the bytes of the terminal into keys, pastes and mouse events.
//!
//! Invariant: bytes may be cut anywhere; the events are the same. A lone Esc is a key only when [`Decoder::flush`] says that
//! nothing followed it. Answers of the terminal that nobody asked for are swallowed, never typed.

use super::key::{Code, Key};

/// Longest escape sequence that is waited for; a longer one is dropped.
const MAX_SEQUENCE: usize = 64;
/// Most bytes of one paste; what is over is dropped and counted.
const MAX_PASTE: usize = 1 << 20;

/// What came from the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) enum Input {
    Key(Key),
    /// A bracketed paste, whole; `cut` bytes were over the limit.
    Paste {
        text: String,
        cut: usize,
    },
    Mouse(Mouse),
}

/// A mouse event, with zero-based cell coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tui) enum Mouse {
    Press { x: u16, y: u16 },
    WheelUp { x: u16, y: u16 },
    WheelDown { x: u16, y: u16 },
}

/// The decoder of one terminal.
#[derive(Default)]
pub(in crate::tui) struct Decoder {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
    paste_cut: usize,
}

enum Step {
    /// An event, or none for something swallowed, after so many bytes.
    Took(usize, Option<Input>),
    /// A paste begins after so many bytes.
    Paste(usize),
    /// More bytes are needed.
    More,
}

impl Decoder {
    /// Takes bytes and gives the events that are complete.
    pub(in crate::tui) fn feed(&mut self, bytes: &[u8]) -> Vec<Input> {
        self.pending.extend_from_slice(bytes);
        let mut out = Vec::new();
        loop {
            if self.paste.is_some() {
                if !self.take_paste(&mut out) {
                    return out;
                }
                continue;
            }
            match step(&self.pending) {
                Step::Took(n, input) => {
                    self.pending.drain(..n);
                    out.extend(input);
                }
                Step::Paste(n) => {
                    self.pending.drain(..n);
                    self.paste = Some(Vec::new());
                }
                Step::More => return out,
            }
        }
    }

    /// Tells whether an Esc waits for what may follow it: call [`Decoder::flush`] after a moment of quiet.
    pub(in crate::tui) fn waits(&self) -> bool {
        self.paste.is_none() && self.pending.first() == Some(&0x1b)
    }

    /// Says that nothing followed: a lone Esc is the key; an unfinished sequence is dropped.
    pub(in crate::tui) fn flush(&mut self) -> Option<Input> {
        if !self.waits() {
            return None;
        }
        let key = match self.pending.as_slice() {
            [0x1b] => Some(Key::plain(Code::Esc)),
            [0x1b, b'['] => Some(Key::alt(Code::Char('['))),
            [0x1b, b'O'] => Some(Key::alt(Code::Char('O'))),
            _ => None,
        };
        self.pending.clear();
        key.map(Input::Key)
    }

    /// Collects a paste; gives false when its end has not come.
    fn take_paste(&mut self, out: &mut Vec<Input>) -> bool {
        const END: &[u8] = b"\x1b[201~";
        let at = self.pending.windows(END.len()).position(|w| w == END);
        // Without the end, its first bytes may be at the end of what is there.
        let ready = at.unwrap_or_else(|| self.pending.len().saturating_sub(END.len() - 1));
        let Some(paste) = self.paste.as_mut() else { return true };
        let room = MAX_PASTE.saturating_sub(paste.len()).min(ready);
        paste.extend_from_slice(&self.pending[..room]);
        self.paste_cut += ready - room;
        self.pending.drain(..ready);
        if at.is_none() {
            return false;
        }
        self.pending.drain(..END.len());
        let text = clean_paste(&self.paste.take().unwrap_or_default());
        out.push(Input::Paste { text, cut: std::mem::take(&mut self.paste_cut) });
        true
    }
}

/// Keeps text, tabs and newlines of a paste; everything else that controls a terminal is dropped.
fn clean_paste(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n");
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn step(bytes: &[u8]) -> Step {
    match bytes {
        [] | [0x1b] => Step::More,
        [0x1b, b'[', ..] => csi(bytes),
        [0x1b, b'O', rest @ ..] => match rest {
            [] => Step::More,
            [c, ..] => Step::Took(3, ss3(*c).map(Input::Key)),
        },
        [0x1b, b']' | b'P' | b'_' | b'^', ..] => string(bytes),
        // Esc Esc: the first one is the key, the second may begin something.
        [0x1b, 0x1b, ..] => Step::Took(1, Some(Input::Key(Key::plain(Code::Esc)))),
        [0x1b, rest @ ..] => match plain(rest) {
            Some((n, Some(key))) => Step::Took(n + 1, Some(Input::Key(Key { alt: true, ..key }))),
            Some((n, None)) => Step::Took(n + 1, None),
            None => Step::More,
        },
        _ => match plain(bytes) {
            Some((n, key)) => Step::Took(n, key.map(Input::Key)),
            None => Step::More,
        },
    }
}

/// One byte or one character; none when more bytes are needed.
fn plain(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let first = *bytes.first()?;
    let key = match first {
        b'\r' => Key::plain(Code::Enter),
        // A terminal in raw mode sends CR for Enter; LF is what Ctrl-J sends, and some programs' Shift-Enter.
        b'\n' => Key::alt(Code::Enter),
        b'\t' => Key::plain(Code::Tab),
        0x7f | 0x08 => Key::plain(Code::Backspace),
        0 => Key::ctrl(' '),
        1..=26 => Key::ctrl(char::from(first + b'a' - 1)),
        0x1c..=0x1f => Key::ctrl(char::from(first | 0x40)),
        0x20..=0x7e => Key::char(char::from(first)),
        _ => {
            let need = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => return Some((1, None)),
            };
            let have = &bytes[..bytes.len().min(need)];
            return match std::str::from_utf8(have) {
                Ok(text) => Some((need, text.chars().next().filter(|c| !c.is_control()).map(Key::char))),
                Err(e) if e.error_len().is_none() && have.len() < need => None,
                Err(_) => Some((1, None)),
            };
        }
    };
    Some((1, Some(key)))
}

/// A control sequence: `ESC [ parameters intermediates final`.
fn csi(bytes: &[u8]) -> Step {
    let body = &bytes[2..];
    // The Linux console sends F1..F5 as ESC [ [ A..E.
    if let [b'[', rest @ ..] = body {
        return match rest {
            [] => Step::More,
            [c @ b'A'..=b'E', ..] => Step::Took(4, Some(Input::Key(Key::plain(Code::F(c - b'A' + 1))))),
            _ => Step::Took(3, None),
        };
    }
    let Some(end) = body.iter().position(|b| !(0x20..=0x3f).contains(b)) else {
        return if body.len() > MAX_SEQUENCE { Step::Took(bytes.len(), None) } else { Step::More };
    };
    let last = body[end];
    if !(0x40..=0x7e).contains(&last) {
        // Cut off by something else, which is read anew.
        return Step::Took(2 + end, None);
    }
    let used = 2 + end + 1;
    let params = &body[..end];
    if params == b"200" && last == b'~' {
        return Step::Paste(used);
    }
    if let Some(b'<') = params.first() {
        return Step::Took(used, mouse(&params[1..], last).map(Input::Mouse));
    }
    Step::Took(used, csi_key(params, last).map(Input::Key))
}

/// A string sequence (an answer of the terminal): swallowed to its end.
fn string(bytes: &[u8]) -> Step {
    let bel = bytes.iter().position(|b| *b == 0x07).map(|i| i + 1);
    let st = bytes.windows(2).skip(1).position(|w| w == b"\x1b\\").map(|i| i + 3);
    match (bel, st) {
        (Some(a), Some(b)) => Step::Took(a.min(b), None),
        (Some(n), None) | (None, Some(n)) => Step::Took(n, None),
        (None, None) if bytes.len() > 4096 => Step::Took(bytes.len(), None),
        // Alt with one of these characters looks the same until more comes; `flush` drops it.
        (None, None) => Step::More,
    }
}

fn numbers(params: &[u8]) -> Vec<u32> {
    params
        .split(|b| *b == b';')
        .map(|p| std::str::from_utf8(p).ok().and_then(|p| p.split(':').next()).and_then(|p| p.parse().ok()).unwrap_or(0))
        .collect()
}

fn ss3(c: u8) -> Option<Key> {
    let code = match c {
        b'P'..=b'S' => Code::F(c - b'P' + 1),
        b'M' => Code::Enter,
        _ => return letter(c).map(Key::plain),
    };
    Some(Key::plain(code))
}

fn letter(c: u8) -> Option<Code> {
    Some(match c {
        b'A' => Code::Up,
        b'B' => Code::Down,
        b'C' => Code::Right,
        b'D' => Code::Left,
        b'H' => Code::Home,
        b'F' => Code::End,
        b'Z' => Code::BackTab,
        _ => return None,
    })
}

fn csi_key(params: &[u8], last: u8) -> Option<Key> {
    if params.first().is_some_and(|b| (0x3c..=0x3f).contains(b)) {
        return None;
    }
    let n = numbers(params);
    let code = match last {
        b'~' => match n.first().copied().unwrap_or(0) {
            1 | 7 => Code::Home,
            2 => Code::Insert,
            3 => Code::Delete,
            4 | 8 => Code::End,
            5 => Code::PageUp,
            6 => Code::PageDown,
            f @ 11..=15 => Code::F((f - 10) as u8),
            f @ 17..=21 => Code::F((f - 11) as u8),
            f @ 23..=24 => Code::F((f - 12) as u8),
            // xterm's modifyOtherKeys: 27 ; modifiers ; code point.
            27 => return n.get(2).and_then(|c| char::from_u32(*c)).map(|c| modified(char_code(c), n[1])),
            _ => return None,
        },
        // The same in the form of fixterms: code point ; modifiers u.
        b'u' => char_code(char::from_u32(n.first().copied().unwrap_or(0))?),
        // With a first number other than 1 the same bytes report the cursor's place.
        b'P'..=b'S' if n.len() == 2 && n[0] == 1 && n[1] <= 16 => Code::F(last - b'P' + 1),
        _ => letter(last)?,
    };
    Some(modified(code, n.get(1).copied().unwrap_or(1)))
}

fn char_code(c: char) -> Code {
    match c {
        '\r' | '\n' => Code::Enter,
        '\t' => Code::Tab,
        '\x1b' => Code::Esc,
        '\x7f' | '\x08' => Code::Backspace,
        c => Code::Char(c),
    }
}

fn modified(code: Code, modifiers: u32) -> Key {
    let bits = modifiers.saturating_sub(1);
    let (shift, alt, ctrl) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
    match code {
        // Shift-Enter adds a line, as Alt-Enter does.
        Code::Enter if shift || ctrl => Key::alt(Code::Enter),
        Code::Tab if shift => Key::plain(Code::BackTab),
        Code::Char(c) if ctrl => Key { alt, ..Key::ctrl(c.to_ascii_lowercase()) },
        Code::Char(_) => Key { code, ctrl, alt, shift: false },
        _ => Key { code, ctrl, alt, shift },
    }
}

fn mouse(params: &[u8], last: u8) -> Option<Mouse> {
    let n = numbers(params);
    let (button, x, y) = (*n.first()?, *n.get(1)?, *n.get(2)?);
    let x = u16::try_from(x.saturating_sub(1)).ok()?;
    let y = u16::try_from(y.saturating_sub(1)).ok()?;
    match (button & !0x1c, last) {
        (64, b'M') => Some(Mouse::WheelUp { x, y }),
        (65, b'M') => Some(Mouse::WheelDown { x, y }),
        (0, b'M') => Some(Mouse::Press { x, y }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<String> {
        let mut decoder = Decoder::default();
        let mut events = decoder.feed(bytes);
        events.extend(decoder.flush());
        events
            .into_iter()
            .map(|e| match e {
                Input::Key(k) => k.to_string(),
                Input::Paste { text, cut } => format!("paste({text:?},{cut})"),
                Input::Mouse(m) => format!("{m:?}"),
            })
            .collect()
    }

    const TABLE: &[(&[u8], &[&str])] = &[
        (b"aZ?", &["a", "Z", "?"]),
        (b"\x1d", &["ctrl-]"]),
        (b"\x01\x1f\x00", &["ctrl-a", "ctrl-_", "ctrl-space"]),
        (b"\r\x1b\r\n", &["enter", "alt-enter", "alt-enter"]),
        (b"\x1b", &["esc"]),
        (b"\x1b\x1b", &["esc", "esc"]),
        (b"\x1b\x1b[A", &["esc", "up"]),
        (b"\x1bb\x1bf", &["alt-b", "alt-f"]),
        (b"\x1b[A\x1bOB\x1b[1;5C\x1b[1;3D", &["up", "down", "ctrl-right", "alt-left"]),
        (b"\x1b[H\x1b[4~\x1b[5~\x1b[6~\x1b[3~", &["home", "end", "pageup", "pagedown", "delete"]),
        (b"\x1bOP\x1b[15~\x1b[24~\x1b[[B", &["f1", "f5", "f12", "f2"]),
        (b"\x1b[Z\x7f\t", &["backtab", "backspace", "tab"]),
        (b"\x1b[13;2u\x1b[93;5u\x1b[27;5;93~", &["alt-enter", "ctrl-]", "ctrl-]"]),
        ("é日🙂".as_bytes(), &["é", "日", "🙂"]),
        (b"\xffa\xc3(", &["a", "("]),
        (b"\x1b[200~a\x1b[31mb\r\nc\x1b[201~d", &["paste(\"a[31mb\\nc\",0)", "d"]),
        (
            b"\x1b[<0;3;4M\x1b[<0;3;4m\x1b[<64;1;1M\x1b[<65;1;1M",
            &["Press { x: 2, y: 3 }", "WheelUp { x: 0, y: 0 }", "WheelDown { x: 0, y: 0 }"],
        ),
        // Answers of the terminal: device attributes, a colour, the cursor's place, a focus report.
        (b"\x1b[?62;22c\x1b]11;rgb:0/0/0\x1b\\\x1b[12;40R\x1bP1$r0m\x1b\\\x1b[Ix", &["x"]),
    ];

    #[test]
    fn bytes_to_events() {
        for (bytes, want) in TABLE {
            assert_eq!(keys(bytes), *want, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_cut_at_any_byte_changes_nothing() {
        for (bytes, _) in TABLE {
            for cut in 0..=bytes.len() {
                let mut decoder = Decoder::default();
                let mut events = decoder.feed(&bytes[..cut]);
                events.extend(decoder.feed(&bytes[cut..]));
                events.extend(decoder.flush());
                let mut whole = Decoder::default();
                let mut want = whole.feed(bytes);
                want.extend(whole.flush());
                assert_eq!(events, want, "{} at {cut}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn noise_never_panics_and_never_holds_much() {
        let mut decoder = Decoder::default();
        let mut x: u32 = 1;
        for _ in 0..20_000 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let b = (x >> 24) as u8;
            decoder.feed(&[if x & 7 == 0 { 0x1b } else { b }]);
            assert!(decoder.pending.len() < 8192);
        }
    }
}
