//! What `qd wait` waits for, and how it is seen to have come.
//!
//! Invariant: everything is learned from the stream of the log; nothing is asked again and again.

use crate::cli::logs::unseen;
use crate::client::{Client, ClientError, Item};
use crate::model::clean::Clean;
use crate::model::{LogStart, ProcessInfo};
use crate::protocol::calls::{Follow, StartParams, WaitInput};
use regex::bytes::Regex;
use std::time::Duration;
use tokio::time::timeout;

/// The longest line that a pattern is looked for in; a longer one is looked at in pieces.
const LONGEST_LINE: usize = 1 << 20;
const FORMS: &str = "expected exit, output, quiet=MS, pattern=RE, match or input";

/// What is waited for.
#[derive(Clone, Debug)]
pub(crate) enum Until {
    /// The command's end.
    Exit,
    /// More output than there is now.
    Output,
    /// No output for this long.
    Quiet(Duration),
    /// A line of the output that matches; the last one need not be whole.
    Pattern(Regex),
    /// What it was started with `--watch` for, since somebody waited last.
    Match,
    /// The command reads its stdin, and nothing is there.
    Input,
}

/// Parses the value of `--until`.
pub(crate) fn parse(text: &str) -> Result<Until, String> {
    match text.split_once('=').map_or((text, None), |(word, value)| (word, Some(value))) {
        ("exit", None) => Ok(Until::Exit),
        ("output", None) => Ok(Until::Output),
        ("quiet", Some(ms)) => match ms.parse::<u32>() {
            Ok(ms) if ms > 0 => Ok(Until::Quiet(Duration::from_millis(ms.into()))),
            _ => Err("expected milliseconds after quiet=, as quiet=500".into()),
        },
        ("pattern", Some(re)) if !re.is_empty() => Regex::new(re).map(Until::Pattern).map_err(|e| e.to_string()),
        ("match", None) => Ok(Until::Match),
        ("input", None) => Ok(Until::Input),
        _ => Err(FORMS.into()),
    }
}

/// The end of a log as it is when somebody asks.
const END: LogStart = LogStart::TailBytes(0);

/// Parses the value of `--offset`.
pub(crate) fn from(text: &str) -> Result<LogStart, String> {
    if text == "end" {
        return Ok(END);
    }
    text.parse().map(LogStart::Offset).map_err(|_| "expected a byte of the log, or `end`".into())
}

impl Until {
    /// Whether it is looked for in the output, from some place on.
    pub(super) fn is_from(&self) -> bool {
        matches!(self, Self::Output | Self::Pattern(_))
    }
}

/// What is waited for of one command, over as many connections as that takes.
pub(super) struct Seek<'u> {
    pub(super) id: String,
    pub(super) until: &'u Until,
    /// Whether it came; none as long as that is not known.
    pub(super) came: Option<bool>,
    /// The next byte of the log that is wanted.
    next: u64,
    lines: Lines,
}

impl<'u> Seek<'u> {
    /// Makes one that looks from a place in the log on.
    pub(super) fn new(row: &ProcessInfo, until: &'u Until, from: Option<LogStart>) -> Self {
        let next = match (from, until) {
            (Some(LogStart::Offset(offset)), _) => offset.min(row.output_bytes),
            (None, Until::Pattern(_)) => 0,
            _ => row.output_bytes,
        };
        Self { id: row.id.clone(), until, came: None, next, lines: Lines { next, ..Lines::default() } }
    }

    /// Waits until it has come, or the command has ended without it. After a failure it can go on, on another connection.
    pub(super) async fn go(&mut self, client: &Client) -> Result<(), ClientError> {
        if self.came.is_none() {
            self.came = Some(self.come(client).await?);
        }
        Ok(())
    }

    async fn come(&mut self, client: &Client) -> Result<bool, ClientError> {
        if matches!(self.until, Until::Input) {
            return client.call(WaitInput { process: self.id.clone() }).await;
        }
        let follow = Follow { process: self.id.clone(), start: StartParams(LogStart::Offset(self.next)), until_end: true };
        let mut items = client.follow(follow).await?;
        loop {
            let item = match self.until {
                Until::Quiet(time) => match timeout(*time, items.next()).await {
                    Ok(item) => item,
                    Err(_) => return Ok(true),
                },
                _ => items.next().await,
            };
            let come = match (item.transpose()?, self.until) {
                (Some(Item::Data { mut offset, mut bytes, .. }), until) => {
                    // A daemon that was started anew may have less on its disk than was seen: that comes again.
                    offset += unseen(&mut bytes, offset, self.next);
                    self.next = self.next.max(offset + bytes.len() as u64);
                    match until {
                        Until::Output => !bytes.is_empty(),
                        Until::Pattern(re) => self.lines.feed(offset, &bytes, re),
                        _ => false,
                    }
                }
                (Some(Item::Followed(_)), _) => return Ok(matches!(self.until, Until::Exit | Until::Quiet(_))),
                (None, _) => return Err(ClientError::Gone("it closed the connection".into())),
                _ => false,
            };
            if come {
                return Ok(true);
            }
        }
    }
}

/// The line that the output is in.
#[derive(Default)]
struct Lines {
    clean: Clean,
    line: Vec<u8>,
    /// The next byte of the log.
    next: u64,
}

impl Lines {
    /// Takes a piece; tells whether a line that it ends or goes on with matches.
    fn feed(&mut self, offset: u64, bytes: &[u8], re: &Regex) -> bool {
        if offset != self.next {
            // What is no longer kept joins nothing.
            (self.clean, self.line) = Default::default();
        }
        self.next = offset + bytes.len() as u64;
        let bytes = self.clean.feed(bytes);
        bytes.split_inclusive(|byte| *byte == b'\n').any(|piece| {
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            self.line.extend_from_slice(text);
            let hit = re.is_match(&self.line);
            if text.len() < piece.len() || self.line.len() >= LONGEST_LINE {
                self.line.clear();
            }
            hit
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_are_read_and_others_refused() {
        assert!(matches!(parse("exit"), Ok(Until::Exit)));
        assert!(matches!(parse("output"), Ok(Until::Output)));
        assert!(matches!(parse("quiet=250"), Ok(Until::Quiet(time)) if time.as_millis() == 250));
        assert!(matches!(parse("pattern=a=b"), Ok(Until::Pattern(re)) if re.as_str() == "a=b"));
        let table = [
            ("", "quiet=MS"),
            ("quiet", "quiet=MS"),
            ("quiet=0", "milliseconds"),
            ("quiet=soon", "milliseconds"),
            ("pattern=", "pattern=RE"),
            ("pattern=(", "unclosed"),
            ("exit=1", "expected exit"),
            ("input=1", "or input"),
        ];
        for (text, want) in table {
            assert!(parse(text).is_err_and(|e| e.contains(want)), "{text:?}");
        }
    }

    #[test]
    fn a_pattern_is_found_in_a_line_that_came_in_pieces() {
        let re = Regex::new("^listening on [0-9]+$").unwrap();
        let feed = |pieces: &[&str]| {
            let mut lines = Lines::default();
            let mut feed = |piece: &&str| lines.feed(lines.next, piece.as_bytes(), &re);
            pieces.iter().map(&mut feed).collect::<Vec<_>>()
        };
        assert_eq!(feed(&["not listening on 1\nlisten", "ing on \x1b[1m", "80\x1b[0m\n"]), [false, false, true]);
        assert_eq!(feed(&["listening on 1\nx", "y"]), [true, false]);
        assert_eq!(feed(&["listening on ", "\n80"]), [false, false]);
        let mut lines = Lines::default();
        assert!(!lines.feed(0, b"listening on ", &re) && !lines.feed(99, b"80\n", &re), "over a gap");
    }
}
