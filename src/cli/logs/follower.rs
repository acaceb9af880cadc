//! One log that is printed or followed, over as many connections as that takes.
//!
//! Invariant: it knows the next byte that it wants, so that nothing is printed twice and nothing is left out unsaid.

use super::form::Form;
use super::last::Last;
use super::lines::{Line, Lines};
use crate::cli::args::LogsArgs;
use crate::cli::failure::Failure;
use crate::client::{Client, ClientError, Item};
use crate::model::clean::Clean;
use crate::model::{LogStart, ProcessInfo};
use crate::protocol::calls::{Follow, StartParams};
use regex::bytes::Regex;

/// Why it stopped.
pub(super) enum Stop {
    /// All of it is printed.
    End,
    /// The connection ended, for this reason.
    Gone(String),
}

/// One log.
pub(super) struct Follower<'a> {
    row: ProcessInfo,
    form: Form<'a>,
    until_end: bool,
    /// Where it starts, or goes on.
    start: LogStart,
    /// The next byte that is wanted, once that is known.
    next: Option<u64>,
    resumed: bool,
    how: How,
    tail: Option<Tail>,
}

/// What becomes of the bytes.
enum How {
    /// They are printed as they are, or without escape sequences.
    Bytes(Option<Clean>),
    /// Lines are made of them, the last ones alone as long as the log was when we began.
    Lines(Lines, Option<(Last, u64)>),
}

/// Looks whether `--tail` got the lines that it asked for.
struct Tail {
    wanted: u64,
    seen: u64,
    /// The first byte that came.
    first: Option<u64>,
    /// The log's end when we began.
    until: u64,
}

impl<'a> Follower<'a> {
    pub(super) fn new(args: &LogsArgs, grep: Option<Regex>, row: ProcessInfo, form: Form<'a>) -> Self {
        let total = row.output_bytes;
        // The last lines that match may be anywhere.
        let over_all = grep.is_some() && args.tail.is_some();
        let start = match (args.offset, args.tail) {
            (Some(offset), _) => LogStart::Offset(offset),
            (None, Some(lines)) if !over_all => LogStart::TailLines(lines),
            (None, _) => LogStart::Offset(0),
        };
        let last = args.tail.filter(|_| over_all).map(|lines| (Last::new(lines), total));
        let how = if grep.is_some() || form.wants_lines() {
            How::Lines(Lines::new(args.raw, grep), last)
        } else {
            How::Bytes((!args.raw).then(Clean::default))
        };
        let tail = args.tail.filter(|lines| !over_all && *lines > 0).map(|wanted| Tail { wanted, seen: 0, first: None, until: total });
        let next = if let LogStart::Offset(offset) = start { Some(offset) } else { None };
        if args.offset.is_some_and(|offset| offset > total) {
            form.screen.say(&format!("the output of {} is {total} bytes long: it is looked at from there on", row.id));
        }
        let next = next.map(|offset| offset.min(total));
        Self { row, form, until_end: args.follow, start, next, resumed: false, how, tail }
    }

    pub(super) fn id(&self) -> &str {
        &self.row.id
    }

    /// Whether a connection before this one ended under way.
    pub(super) fn resumed(&self) -> bool {
        self.resumed
    }

    /// The next byte that is wanted.
    pub(super) fn place(&self) -> u64 {
        self.next.unwrap_or(0)
    }

    /// Prints what there is and, when it is followed, what comes.
    pub(super) async fn go(&mut self, client: &Client) -> Result<Stop, Failure> {
        let follow = Follow { process: self.row.id.clone(), start: StartParams(self.start), until_end: self.until_end };
        let end = match client.follow(follow).await {
            Ok(mut items) => loop {
                match items.next().await {
                    Some(Ok(Item::Data { offset, bytes, .. })) => self.data(offset, bytes)?,
                    Some(Ok(Item::Followed(row))) => break Ok(*row),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break Err(error),
                    None => break Err(ClientError::Gone("it closed the connection".into())),
                }
            },
            Err(error) => Err(error),
        };
        match end {
            Ok(row) => self.end(row).map(|()| Stop::End),
            Err(ClientError::Gone(why)) => {
                self.resumed = true;
                if let Some(next) = self.next {
                    self.start = LogStart::Offset(next);
                }
                Ok(Stop::Gone(why))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn data(&mut self, mut offset: u64, mut bytes: Vec<u8>) -> Result<(), Failure> {
        // A daemon that was started anew may have less on its disk than was printed: that comes again.
        if let Some(at) = self.next {
            offset += unseen(&mut bytes, offset, at);
            if bytes.is_empty() {
                return Ok(());
            }
        }
        let missing = self.next.map_or(0, |at| offset.saturating_sub(at));
        if missing > 0 {
            self.flush()?;
            self.form.gap(&self.row.id, missing, offset)?;
        }
        let next = offset + bytes.len() as u64;
        self.next = Some(next);
        if let Some(tail) = &mut self.tail
            && tail.take(offset, &bytes)
        {
            if let Some(text) = tail.too_short() {
                self.form.screen.say(&text);
            }
            self.tail = None;
        }
        match &mut self.how {
            How::Bytes(None) => self.form.bytes(&bytes),
            How::Bytes(Some(clean)) => self.form.bytes(&clean.feed(&bytes)),
            How::Lines(lines, last) => {
                let mut given = Vec::new();
                lines.feed(offset, &bytes, |line| match last {
                    Some((last, until)) if line.offset < *until => last.push(line),
                    _ => given.push(line),
                });
                if last.as_ref().is_some_and(|(_, until)| next >= *until) {
                    let held = release(last, self.form.screen);
                    self.form.lines(&self.row.id, held)?;
                }
                self.form.lines(&self.row.id, given)
            }
        }
    }

    /// Prints what was held back.
    fn flush(&mut self) -> Result<(), Failure> {
        match &mut self.how {
            How::Bytes(None) => Ok(()),
            How::Bytes(Some(clean)) => self.form.bytes(&clean.end()),
            How::Lines(lines, last) => {
                let mut given = Vec::new();
                lines.end(|line| match last {
                    Some((last, until)) if line.offset < *until => last.push(line),
                    _ => given.push(line),
                });
                self.form.lines(&self.row.id, given)
            }
        }
    }

    fn end(&mut self, row: ProcessInfo) -> Result<(), Failure> {
        self.flush()?;
        if let How::Lines(_, last) = &mut self.how {
            let held = release(last, self.form.screen);
            self.form.lines(&row.id, held)?;
        }
        if self.resumed && row.output_bytes < self.place() {
            self.form.screen.say(&format!("what {} said after byte {} is not known: it went with the daemon before", row.id, self.place()));
        }
        self.form.end(self.next.unwrap_or(row.output_bytes), &row)
    }
}

/// Drops what stands before a place from bytes that begin at an offset; gives how many those were.
pub(in crate::cli) fn unseen(bytes: &mut Vec<u8>, offset: u64, place: u64) -> u64 {
    let seen = usize::try_from(place.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
    bytes.drain(..seen);
    seen as u64
}

/// Gives the lines that were held until the end was known.
fn release(last: &mut Option<(Last, u64)>, screen: &crate::cli::screen::Screen) -> impl IntoIterator<Item = Line> {
    let Some((mut last, _)) = last.take() else { return Default::default() };
    if last.dropped > 0 {
        screen.say(&format!("warning: {} more of the lines before these match; 16 MiB of them are held", last.dropped));
    }
    last.take()
}

impl Tail {
    /// Counts; true once all that there was when we began has come.
    fn take(&mut self, offset: u64, bytes: &[u8]) -> bool {
        self.first.get_or_insert(offset);
        let len = usize::try_from(self.until.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
        self.seen += bytes[..len].iter().filter(|b| **b == b'\n').count() as u64;
        // A last line without its end counts.
        let whole = offset + bytes.len() as u64 >= self.until;
        self.seen += u64::from(whole && len > 0 && bytes[len - 1] != b'\n');
        whole
    }

    /// Says when there were fewer lines although there is more before them.
    fn too_short(&self) -> Option<String> {
        let short = self.first.is_some_and(|first| first > 0) && self.seen < self.wanted;
        short.then(|| format!("warning: --tail reaches 1 MiB back: these are {} lines, and there is more before them", self.seen))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cli::args::Command;
    use std::ffi::OsString;

    pub(in crate::cli::logs) fn args(words: &[&str]) -> LogsArgs {
        let words = ["qd", "logs"].iter().chain(words).map(OsString::from);
        match crate::cli::parse(words).unwrap().command {
            Some(Command::Logs(args)) => args,
            other => panic!("not logs: {other:?}"),
        }
    }

    #[test]
    fn a_tail_that_did_not_reach_far_enough_is_told() {
        let tail = |wanted, first, text: &str| {
            let mut tail = Tail { wanted, seen: 0, first: None, until: first + 5 };
            let whole = tail.take(first, text.as_bytes());
            (whole, tail.seen, tail.too_short().is_some())
        };
        assert_eq!(tail(3, 100, "a\nb\nc"), (true, 3, false));
        assert_eq!(tail(4, 100, "a\nb\nc"), (true, 3, true));
        assert_eq!(tail(4, 0, "a\nb\nc"), (true, 3, false), "it began at the beginning");
        assert_eq!(tail(4, 100, "a\nb"), (false, 1, true));
        assert_eq!(tail(2, 100, "a\nbc\nlater\n"), (true, 2, false), "what came later does not count");
    }

    #[test]
    fn what_was_printed_is_dropped_when_it_comes_again() {
        let drop = |offset, place| {
            let mut bytes = b"0123456789".to_vec();
            let seen = unseen(&mut bytes, offset, place);
            (seen, String::from_utf8(bytes).expect("digits"))
        };
        assert_eq!(drop(100, 100), (0, "0123456789".into()));
        assert_eq!(drop(100, 90), (0, "0123456789".into()));
        assert_eq!(drop(100, 103), (3, "3456789".into()));
        assert_eq!(drop(100, 110), (10, String::new()));
        assert_eq!(drop(100, 500), (10, String::new()));
    }

    #[test]
    fn a_follow_takes_several_logs_and_a_tail_or_an_offset() {
        let args = args(&["-f", "a", "b", "--tail", "3"]);
        assert_eq!((args.ids.len(), args.tail, args.follow), (2, Some(3), true));
        assert!(crate::cli::parse(["qd", "logs", "a", "--tail", "3", "--offset", "3"].map(OsString::from)).is_err());
    }
}
