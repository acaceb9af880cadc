//! The output of a command as the text of its result: decoded, and cut to a bound.
//!
//! Invariant: the text never says more than the bound allows but for one notice line, and what it leaves out is counted in
//! that line.

use super::log::Log;
use crate::model::LogStart;
use std::io;

/// The text of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The text; invalid bytes are U+FFFD.
    pub text: String,
    /// Whether something was left out.
    pub truncated: bool,
    /// Bytes of the whole output.
    pub total: u64,
    /// Where output that comes later will begin.
    pub next_offset: u64,
    /// Whether some bytes were not UTF-8.
    pub had_invalid: bool,
    /// Whether there were NUL bytes: the output is probably not text.
    pub had_binary: bool,
}

/// Part of a cut text that is its beginning; the rest is its end, where errors are.
const HEAD_PERCENT: u64 = 40;
/// A character is at most this long, so a cut is at most this far from the bound.
const CHAR_MAX: usize = 4;

/// Makes the text of a log, at most `max_bytes` bytes of output (0: no text) and one line that says what was left out.
/// Cancel safe.
pub async fn text(log: &Log, max_bytes: u64) -> io::Result<Text> {
    let total = log.total();
    let mut out = Text { total, next_offset: total, truncated: total > 0 && max_bytes == 0, ..Text::default() };
    if total == 0 || max_bytes == 0 {
        return Ok(out);
    }
    if total <= max_bytes {
        let head = span(log, 0, total).await?;
        out.take(&head.bytes);
        if head.missing > 0 {
            out.truncated = true;
            out.text = format!("{}\n{}", notice_line(head.missing, total, log), out.text);
        }
        return Ok(out);
    }
    let head_len = max_bytes * HEAD_PERCENT / 100;
    let tail_start = total - (max_bytes - head_len);
    let head = span(log, 0, head_len).await?;
    let tail = span(log, tail_start, total - tail_start).await?;
    let head = if head.missing == 0 { whole_end(&head.bytes) } else { &[] };
    let tail_bytes = whole_start(&tail.bytes);
    out.truncated = true;
    out.take(head);
    if !out.text.is_empty() && !out.text.ends_with('\n') {
        out.text.push('\n');
    }
    out.text.push_str(&notice_line(total - head.len() as u64 - tail_bytes.len() as u64, total, log));
    out.text.push('\n');
    out.take(tail_bytes);
    Ok(out)
}

impl Text {
    /// Adds decoded bytes.
    fn take(&mut self, bytes: &[u8]) {
        let decoded = String::from_utf8_lossy(bytes);
        self.had_invalid |= matches!(decoded, std::borrow::Cow::Owned(_));
        self.had_binary |= bytes.contains(&0);
        self.text.push_str(&decoded);
    }
}

fn notice_line(left_out: u64, total: u64, log: &Log) -> String {
    let path = log.path().display();
    match log.lost() {
        Some((lost, reason)) if lost > 0 => {
            format!("[... {left_out} of {total} bytes left out; {lost} of them are not kept: {reason}; the rest is in {path} ...]")
        }
        _ => format!("[... {left_out} of {total} bytes left out; all of them are in {path} ...]"),
    }
}

/// A stretch of a log that is in one piece, at its end.
struct Span {
    bytes: Vec<u8>,
    /// Bytes before it that are not kept.
    missing: u64,
}

/// Reads a stretch; where parts are not kept, what follows the last such part.
async fn span(log: &Log, from: u64, len: u64) -> io::Result<Span> {
    let end = from + len;
    let mut span = Span { bytes: Vec::new(), missing: 0 };
    let mut at = from;
    while at < end {
        let chunk = log.read(LogStart::Offset(at), end - at).await?;
        if chunk.skipped > 0 {
            span.bytes.clear();
            span.missing = chunk.offset.min(end) - from;
        }
        if chunk.bytes.is_empty() || chunk.offset >= end {
            break;
        }
        let n = usize::try_from(end - chunk.offset).map_or(chunk.bytes.len(), |n| n.min(chunk.bytes.len()));
        span.bytes.extend_from_slice(&chunk.bytes[..n]);
        at = chunk.offset + n as u64;
    }
    Ok(span)
}

/// Cuts a character off that the end splits.
fn whole_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=CHAR_MAX.min(bytes.len()) {
        let at = bytes.len() - back;
        let b = bytes[at];
        if b & 0xC0 != 0x80 {
            let needed = match b {
                0xC2..=0xDF => 2,
                0xE0..=0xEF => 3,
                0xF0..=0xF4 => 4,
                _ => 1,
            };
            return if needed > back { &bytes[..at] } else { bytes };
        }
    }
    bytes
}

/// Cuts the rest of a character off that the beginning splits.
fn whole_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(CHAR_MAX - 1).take_while(|b| **b & 0xC0 == 0x80).count();
    &bytes[rest..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Stream;
    use std::sync::Arc;

    async fn log_of(bytes: &[u8]) -> (Arc<Log>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::create(dir.path().join("p.log"), 1 << 30);
        log.append(Stream::Out, bytes).await;
        log.finish();
        (log, dir)
    }

    #[tokio::test]
    async fn short_output_is_whole() {
        let (log, _dir) = log_of("héllo\n".as_bytes()).await;
        let text = text(&log, 50_000).await.unwrap();
        assert_eq!(text, Text { text: "héllo\n".into(), total: 7, next_offset: 7, ..Text::default() });
    }

    #[tokio::test]
    async fn invalid_and_binary_bytes_are_replaced_and_told() {
        let (log, _dir) = log_of(b"a\xff\xfeb\0c").await;
        let text = text(&log, 50_000).await.unwrap();
        assert_eq!(text.text, "a\u{fffd}\u{fffd}b\0c");
        assert!(text.had_invalid && text.had_binary && !text.truncated);
    }

    #[tokio::test]
    async fn long_output_keeps_its_head_and_its_tail() {
        let all: Vec<u8> = (0..20_000).flat_map(|i| format!("line {i}\n").into_bytes()).collect();
        let (log, _dir) = log_of(&all).await;
        let text = text(&log, 1000).await.unwrap();
        assert!(text.truncated && text.text.starts_with("line 0\nline 1\n") && text.text.ends_with("line 19999\n"));
        let (head, rest) = text.text.split_once("[... ").unwrap();
        let (notice, tail) = rest.split_once(" ...]\n").unwrap();
        let left_out = all.len() - (head.trim_end().len()) - tail.len();
        // The head is cut in the middle of a line; the notice begins on a line of its own.
        assert_eq!((head.len(), tail.len()), (401, 600));
        assert!(notice.starts_with(&format!("{left_out} of {} bytes left out", all.len())), "{notice}");
        assert!(notice.contains("p.log"), "{notice}");
    }

    #[tokio::test]
    async fn a_cut_never_splits_a_character() {
        let all = "€".repeat(1000);
        let (log, _dir) = log_of(all.as_bytes()).await;
        for max in 5..60 {
            let text = text(&log, max).await.unwrap();
            assert!(!text.had_invalid && !text.text.contains('\u{fffd}'), "{max}: {}", text.text);
            assert!(text.text.matches('€').count() as u64 * 3 <= max);
        }
    }

    #[tokio::test]
    async fn no_text_is_asked_for_with_zero() {
        let (log, _dir) = log_of(b"something").await;
        let text = text(&log, 0).await.unwrap();
        assert_eq!((text.text.as_str(), text.truncated, text.total), ("", true, 9));
    }

    #[test]
    fn ends_of_characters() {
        assert_eq!(whole_end("a€".as_bytes()), "a€".as_bytes());
        assert_eq!(whole_end(&"a€".as_bytes()[..3]), b"a");
        assert_eq!(whole_end(b"a\xff"), b"a\xff");
        assert_eq!(whole_end(b"\x80\x80\x80\x80\x80"), b"\x80\x80\x80\x80\x80");
        assert_eq!(whole_start(&"€a".as_bytes()[1..]), b"a");
        assert_eq!(whole_start(b""), b"");
    }
}
