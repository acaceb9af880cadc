//! What is read of a log and what is shown of it.

use super::window::BYTES;
use super::*;

/// A log that can be read from.
struct Far(Vec<u8>);

impl Far {
    fn lines(n: usize) -> Self {
        Self((0..n).flat_map(|i| format!("line {i}\n").into_bytes()).collect())
    }

    fn total(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, wanted: &Wanted) -> Chunk {
        let from = match wanted.start {
            LogStart::Offset(n) => n as usize,
            LogStart::TailBytes(n) => self.0.len().saturating_sub(n as usize),
            LogStart::TailLines(_) => panic!("not used"),
        };
        let bytes = self.0[from..].iter().take(wanted.max as usize).copied().collect();
        Chunk { offset: from as u64, total: self.total(), bytes, ..Chunk::default() }
    }
}

/// Reads until nothing is wanted; gives how many reads that took.
fn read_all(view: &mut LogView, logs: &[(&str, &Far)], rows: usize) -> usize {
    let total = |id: &str| logs.iter().find(|(name, _)| *name == id).map_or(0, |(_, far)| far.total());
    for reads in 0..10_000 {
        let shown = view.rows(80, rows);
        let top = shown.first().is_none_or(|r| r.seq == view.first());
        let end = shown.last().is_none_or(|r| r.seq + 1 == view.end());
        let Some(wanted) = view.ask(total, Need { rows, top, end }) else { return reads };
        let chunk = logs.iter().find(|(name, _)| *name == wanted.process).unwrap().1.read(&wanted);
        view.take(wanted.turn, Ok(&chunk));
        assert!(view.memory <= BYTES + (PIECE as usize) * 4, "{}", view.memory);
    }
    panic!("it never has enough");
}

fn text(view: &LogView, height: usize) -> Vec<String> {
    let shown = view.rows(80, height);
    let one = |r: &LogRow| match &view.line(r.seq).unwrap().kind {
        Kind::Text(line) => line.text()[r.range.clone()].to_owned(),
        Kind::Gap(n) => format!("gap {n}"),
        Kind::Note(text) => format!("note {text}"),
    };
    use super::rows::LogRow;
    shown.iter().map(one).collect()
}

fn one(far: &Far) -> LogView {
    let mut view = LogView::default();
    view.show(&["a".to_owned()]);
    read_all(&mut view, &[("a", far)], 5);
    view
}

#[test]
fn the_end_is_shown_first_and_followed_without_reading_twice() {
    let mut far = Far::lines(100_000);
    let mut view = one(&far);
    assert_eq!(text(&view, 2), ["line 99998", "line 99999"]);
    far.0.extend_from_slice(b"half");
    assert_eq!(read_all(&mut view, &[("a", &far)], 5), 1);
    assert_eq!(text(&view, 1), ["half"]);
    far.0.extend_from_slice(b" and whole\nnext\n");
    read_all(&mut view, &[("a", &far)], 5);
    assert_eq!(text(&view, 3), ["line 99999", "half and whole", "next"]);
    assert!(view.is_whole(|_| far.total()));
}

#[test]
fn a_flood_is_passed_over_and_the_window_stays_one_stretch() {
    let mut far = Far::lines(10);
    let mut view = one(&far);
    far.0.extend(Far::lines(500_000).0);
    assert_eq!(read_all(&mut view, &[("a", &far)], 5), 1);
    assert_eq!(text(&view, 1), ["line 499999"]);
    let (start, _) = view.start();
    assert_eq!(view.lines.front().unwrap().offset, start);
}

#[test]
fn back_to_the_beginning_and_on_again_line_by_line() {
    let far = Far::lines(60_000);
    let mut view = one(&far);
    let logs = [("a", &far)];
    let mut seen = text(&view, 5);
    for _ in 0..40_000 {
        view.scroll(-5, 80, 5, true);
        read_all(&mut view, &logs, 5);
        let now = text(&view, 5);
        if now == seen {
            break;
        }
        seen = now;
    }
    assert_eq!(seen[0], "line 0");
    let mut seen = 0;
    while view.place != Place::Follow {
        view.scroll(5, 80, 5, view.is_whole(|_| far.total()));
        read_all(&mut view, &logs, 5);
        let now = text(&view, 5);
        let first: usize = now[0].strip_prefix("line ").unwrap().parse().unwrap();
        assert!(first > seen || view.place == Place::Follow, "it goes on");
        assert!(first <= seen + 5, "a line was passed over: {seen} then {first}");
        seen = first;
    }
    assert_eq!(seen, 59_995);
}

#[test]
fn the_beginning_is_read_without_what_is_between() {
    let far = Far::lines(1_000_000);
    let mut view = one(&far);
    view.reload_at(0);
    assert!(read_all(&mut view, &[("a", &far)], 5) < 3);
    assert_eq!(text(&view, 2), ["line 0", "line 1"]);
    view.follow(view.is_whole(|_| far.total()));
    read_all(&mut view, &[("a", &far)], 5);
    assert_eq!(text(&view, 1), ["line 999999"]);
}

#[test]
fn only_lines_that_match_are_kept_and_the_whole_log_is_looked_through() {
    let far = Far::lines(300_000);
    let mut view = one(&far);
    view.reload();
    view.filter = "LINE 1234".to_lowercase();
    read_all(&mut view, &[("a", &far)], 500);
    let all = text(&view, 500);
    assert_eq!((all[0].as_str(), all.len()), ("line 1234", 111), "the line, with one digit after it, and with two");
    view.reload();
    view.filter = "Line".to_owned();
    read_all(&mut view, &[("a", &far)], 5);
    assert_eq!(text(&view, 5), [""; 0], "a capital finds itself");
}

#[test]
fn a_hit_is_shown_among_the_lines_around_it() {
    let far = Far::lines(100_000);
    let mut view = one(&far);
    let offset = (0..50_000).map(|i| format!("line {i}\n").len() as u64).sum();
    view.reload_around(offset);
    read_all(&mut view, &[("a", &far)], 20);
    assert_eq!(text(&view, 20)[6], "line 50000");
    assert_eq!(view.hit.and_then(|seq| view.line(seq)).map(|l| l.offset), Some(offset));
}

/// Lines so short that one piece has more than are kept: what was gone to was let go of at once.
#[test]
fn what_was_gone_to_stays_in_the_window() {
    let far = Far((0..200_000).flat_map(|i: u32| format!("{}\n", i % 10).into_bytes()).collect());
    let mut view = one(&far);
    view.reload_around(200_000);
    read_all(&mut view, &[("a", &far)], 20);
    assert_eq!(view.hit.and_then(|seq| view.line(seq)).map(|l| l.offset), Some(200_000));
    view.reload_at(0);
    read_all(&mut view, &[("a", &far)], 20);
    assert_eq!(view.line(0).map(|l| l.offset), Some(0));
}

#[test]
fn what_a_log_no_longer_keeps_is_a_line_of_its_own() {
    let whole = Far::lines(60_000);
    // Head and tail are kept; what is asked of the middle begins at the tail, or ends at the head.
    let (head, tail) = (100_000u64, whole.total() - 100_000);
    let mut view = one(&whole);
    for _ in 0..200 {
        view.scroll(-5_000, 80, 5, true);
        let need = Need { rows: 5, top: true, end: false };
        let Some(wanted) = view.ask(|_| whole.total(), need) else { break };
        let mut chunk = whole.read(&wanted);
        let from = chunk.offset;
        if from < head {
            chunk.bytes.truncate((head - from) as usize);
        } else if from < tail {
            chunk.bytes.drain(..(tail - from).min(chunk.bytes.len() as u64) as usize);
            chunk.offset = tail;
        }
        view.take(wanted.turn, Ok(&chunk));
    }
    view.scroll(-9_000, 80, 5, true);
    assert!(text(&view, 5)[0].starts_with("gap "), "{:?}", text(&view, 5));
}

#[test]
fn several_logs_come_in_the_order_of_arrival_and_share() {
    let (mut a, mut b) = (Far(b"a1\na2\n".to_vec()), Far(b"b1\n".to_vec()));
    let mut view = LogView::default();
    view.show(&["a".to_owned(), "b".to_owned()]);
    read_all(&mut view, &[("a", &a), ("b", &b)], 20);
    assert_eq!(text(&view, 9), ["a1", "a2", "b1"]);
    b.0.extend_from_slice(b"b2 begins");
    read_all(&mut view, &[("a", &a), ("b", &b)], 20);
    a.0.extend_from_slice(b"a3\n");
    read_all(&mut view, &[("a", &a), ("b", &b)], 20);
    b.0.extend_from_slice(b" and ends\n");
    read_all(&mut view, &[("a", &a), ("b", &b)], 20);
    assert_eq!(text(&view, 9), ["a1", "a2", "b1", "b2 begins and ends", "a3"]);
    a.0.extend(Far::lines(50_000).0);
    read_all(&mut view, &[("a", &a), ("b", &b)], 20);
    assert!(text(&view, 8_000).iter().any(|l| l.starts_with("gap ")));
    view.note_end("b", b.total(), "exit 0");
    view.note_end("b", b.total(), "exit 0");
    assert_eq!(text(&view, 8_000).iter().filter(|l| *l == "note exit 0").count(), 1);
    view.scroll(-1, 80, 3, true);
    a.0.extend_from_slice(b"more\n");
    assert_eq!(read_all(&mut view, &[("a", &a), ("b", &b)], 3), 0, "scrolled back it stays");
    assert_eq!(view.unread(|id| if id == "a" { a.total() } else { b.total() }), 5);
}

#[test]
fn a_line_that_never_ends_and_broken_text_stay_within_bounds() {
    let far = Far(vec![b'x'; 3_000_000]);
    let mut view = one(&far);
    for _ in 0..200 {
        view.scroll(-5, 80, 5, true);
        read_all(&mut view, &[("a", &far)], 5);
    }
    assert!(view.memory <= BYTES + 100_000);
    let far = Far([&[0xff; 40_000][..], b"\x1b[31mred\x1b[0m\r50%\r100%\n\x1b]0;t\x07ok\n"].concat());
    assert_eq!(text(&one(&far), 1), ["ok"]);
}

#[test]
fn a_failed_read_is_said_and_answers_of_an_earlier_window_are_dropped() {
    let far = Far::lines(3);
    let mut view = LogView::default();
    view.show(&["a".to_owned()]);
    let need = Need { rows: 5, top: true, end: true };
    let wanted = view.ask(|_| far.total(), need).unwrap();
    assert_eq!(view.ask(|_| far.total(), need), None, "one read at a time");
    view.show(&["b".to_owned()]);
    assert_eq!(view.ask(|_| far.total(), need), None, "the old answer is awaited");
    view.take(wanted.turn, Ok(&far.read(&wanted)));
    assert!(view.lines.is_empty());
    let wanted = view.ask(|_| far.total(), need).unwrap();
    view.take(wanted.turn, Err("gone".to_owned()));
    assert_eq!(view.error(), Some("gone"));
    assert_eq!(view.ask(|_| far.total(), need), None);
}

#[test]
fn hits_are_gone_through_and_brought_into_sight() {
    let far = Far::lines(40);
    let mut view = one(&far);
    assert!(view.step_hit(-1, 80, 5));
    assert_eq!(view.hit, Some(view.end() - 1));
    for _ in 0..39 {
        assert!(view.step_hit(-1, 80, 5));
    }
    assert!(!view.step_hit(-1, 80, 5), "there is none above");
    assert_eq!(text(&view, 5)[0], "line 0");
}
