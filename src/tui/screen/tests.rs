//! The screen of a block against tables of bytes, and its bounds.

use super::*;

fn shown(bytes: &[u8]) -> Vec<String> {
    let mut screen = Screen::default();
    screen.feed(bytes);
    screen.text().lines().map(str::to_owned).collect()
}

const TABLE: &[(&[u8], &[&str])] = &[
    (b"", &[]),
    (b"a", &["a"]),
    (b"a\n", &["a"]),
    (b"a\r\nb\r\n", &["a", "b"]),
    (b"\n\na\n", &["", "", "a"]),
    // A progress bar: each carriage return starts over.
    (b" 10%\r 20%\r100%\ndone\n", &["100%", "done"]),
    (b"abcdef\rXY\n", &["XYcdef"]),
    (b"abcdef\r\x1b[KXY\n", &["XY"]),
    (b"abcdef\x1b[3D\x1b[K\n", &["abc"]),
    (b"abc\x08\x08X\n", &["aXc"]),
    (b"a\tb\tc\n", &["a       b       c"]),
    // Several lines redrawn by moving up.
    (b"one\ntwo\n\x1b[2Aone: done\n\x1b[K2: done\n", &["one: done", "2: done"]),
    (b"a\nb\nc\x1b[2A\r\x1b[Jx\n", &["x"]),
    (b"abc\x1b[1Fz\n", &["zbc"]),
    (b"abc\x1b[1Gz\x1b[2Cy\n", &["zbcy"]),
    // Everything else of a terminal is ignored: title, clipboard, alternate screen, questions, links.
    (b"\x1b]0;title\x07a\x1b]52;c;ZXZpbA==\x07b\x1b[?1049h\x1b[6nc\x1b]8;;http://x\x1b\\d\x1b]8;;\x1b\\\x1bP+q544e\x1b\\e\n", &["abcde"]),
    (b"\x00\x01\x7fz\n", &["^@^A^?z"]),
    ("日本\x08\x08x語\u{200d}e\u{301}\n".as_bytes(), &["日x語e\u{301}"]),
    (b"\xff\xfeok\n", &["\u{fffd}\u{fffd}ok"]),
    ("\u{202e}evil\u{85}\n".as_bytes(), &["evil\u{fffd}"]),
];

#[test]
fn output_to_lines() {
    for (bytes, want) in TABLE {
        assert_eq!(shown(bytes), *want, "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_cut_at_any_byte_changes_nothing() {
    for (bytes, _) in TABLE {
        for cut in 0..bytes.len() {
            let mut screen = Screen::default();
            screen.feed(&bytes[..cut]);
            screen.feed(&bytes[cut..]);
            assert_eq!(
                screen.text(),
                shown(bytes).iter().map(|l| format!("{l}\n")).collect::<String>(),
                "{} at {cut}",
                bytes.escape_ascii()
            );
        }
    }
}

#[test]
fn colours_are_kept() {
    let mut screen = Screen::default();
    screen.feed(b"a\x1b[31;1mb\x1b[38;5;200mc\x1b[48;2;1;2;3md\x1b[0me\x1b[38:2::9:8:7mf\n");
    let Some(Entry::Line(0, line)) = screen.entry(0) else { panic!() };
    let pieces: Vec<_> = line.pieces(0..line.text().len()).collect();
    use ratatui::style::{Color, Modifier};
    assert_eq!(pieces.len(), 6);
    assert_eq!(pieces[1], ("b", Pen { fg: Color::Indexed(1), bg: Color::Reset, mods: Modifier::BOLD }));
    assert_eq!(pieces[2].1.fg, Color::Indexed(200));
    assert_eq!(pieces[3].1.bg, Color::Rgb(1, 2, 3));
    assert_eq!(pieces[4], ("e", Pen::default()));
    assert_eq!(pieces[5].1.fg, Color::Rgb(9, 8, 7));
    assert_eq!(line.pieces(1..3).map(|p| p.0).collect::<String>(), "bc");
}

#[test]
fn a_long_output_keeps_its_beginning_and_end_and_counts_the_middle() {
    let mut screen = Screen::default();
    for i in 0..10_000 {
        screen.feed(format!("line {i}\n").as_bytes());
    }
    assert_eq!(screen.line_count(), 10_000);
    assert!(screen.len() <= HEAD + TAIL + LIVE + 1);
    assert_eq!(screen.entry(0), Some(Entry::Line(0, Cow::Owned(Screen::line_of("line 0")))));
    let Some(Entry::Gap { lines, bytes: 0 }) = screen.entry(HEAD) else { panic!() };
    let Some(Entry::Line(id, line)) = screen.entry(HEAD + 1) else { panic!() };
    assert_eq!(id, HEAD as u64 + lines);
    assert_eq!(line.text(), format!("line {id}"));
    assert_eq!(screen.entry(screen.len() - 1), Some(Entry::Line(9_999, Cow::Owned(Screen::line_of("line 9999")))));
    assert!(screen.entry(screen.len()).is_none());
}

#[test]
fn a_skip_is_said_and_the_beginning_stays() {
    let mut screen = Screen::default();
    screen.feed(b"first\nsecond\n\x1b[31mhalf");
    screen.skip(5000);
    screen.feed(b"last\n");
    assert_eq!(screen.text(), "first\nsecond\nhalf\n... 5.0 kB not shown ...\nlast\n");
    assert!(screen.has_gap());
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let mut screen = Screen::default();
    let long = vec![b'x'; 1 << 20];
    screen.feed(&long);
    let mut tail = b"\n".repeat(100);
    tail.extend_from_slice(b"\x1b]0;");
    screen.feed(&tail);
    screen.feed(&long);
    screen.feed(b"\x07after\n");
    for i in 0..2000u32 {
        screen.feed(format!("\x1b[{}m{}\n", 31 + i % 7, "wide text ".repeat(150)).as_bytes());
    }
    assert!(screen.memory() < 4 << 20, "{}", screen.memory());
    let mut x: u32 = 7;
    for _ in 0..200_000 {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let b = (x >> 24) as u8;
        screen.feed(&[match x & 15 {
            0 => 0x1b,
            1 => b'[',
            2 => b'A',
            3 => b'\n',
            4 => b'm',
            _ => b,
        }]);
    }
    for i in 0..screen.len() {
        assert!(screen.entry(i).is_some());
    }
}

impl Screen {
    fn line_of(text: &str) -> Line {
        let mut screen = Screen::default();
        screen.feed(text.as_bytes());
        screen.grid.live[0].fixed()
    }
}
