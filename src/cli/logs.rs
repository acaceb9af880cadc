//! `qd logs`: prints the kept output of a command, and follows it.
//!
//! Invariant: with `--raw` and without `--grep` stdout gets the exact bytes of the log; what is missing is said.

mod clean;

pub(super) use clean::Clean;

use super::args::{Global, LogsArgs};
use super::caller;
use super::failure::Failure;
use super::screen::Screen;
use crate::client::Item;
use crate::model::LogStart;
use crate::protocol::calls::{Follow, StartParams};
use regex::bytes::Regex;
use std::io::{self, Write};

/// The longest line that `--grep` takes as one; a longer one is looked at in pieces.
const LONGEST_LINE: usize = 1 << 20;

/// Prints a log.
pub(crate) async fn run(global: &Global, args: &LogsArgs, screen: &Screen) -> Result<u8, Failure> {
    let mut filter = Filter::new(args)?;
    let client = caller::need(global, &args.id).await?;
    let start = match (args.offset, args.tail) {
        (Some(offset), _) => LogStart::Offset(offset),
        (None, Some(lines)) => LogStart::TailLines(lines),
        (None, None) => LogStart::Offset(0),
    };
    let follow = Follow { process: args.id.clone(), start: StartParams(start), until_end: args.follow };
    let mut items = client.follow(follow).await?;
    let mut expected = args.offset.or(args.tail.is_none().then_some(0));
    while let Some(item) = items.next().await {
        if let Item::Data { offset, bytes, .. } = item? {
            if let Some(missing) = expected.and_then(|at| offset.checked_sub(at)).filter(|missing| *missing > 0) {
                screen.say(&format!("warning: {missing} bytes before byte {offset} are no longer kept"));
            }
            expected = Some(offset + bytes.len() as u64);
            write(&filter.feed(bytes))?;
        }
    }
    write(&filter.end())?;
    Ok(0)
}

/// A blocked reader holds up this program alone: nothing else waits on its one thread.
fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// What becomes of the bytes.
struct Filter {
    clean: Option<Clean>,
    grep: Option<Regex>,
    line: Vec<u8>,
}

impl Filter {
    fn new(args: &LogsArgs) -> Result<Self, Failure> {
        let grep = args.grep.as_deref().map(Regex::new).transpose();
        let grep = grep.map_err(|e| Failure::usage(format!("--grep: {e}")))?;
        Ok(Self { clean: (!args.raw).then(Clean::default), grep, line: Vec::new() })
    }

    fn feed(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let bytes = match &mut self.clean {
            Some(clean) => clean.feed(&bytes),
            None => bytes,
        };
        self.matching(bytes)
    }

    fn end(&mut self) -> Vec<u8> {
        let rest = self.clean.as_mut().map(Clean::end).unwrap_or_default();
        let mut out = self.matching(rest);
        if let Some(grep) = &self.grep
            && !self.line.is_empty()
            && grep.is_match(&self.line)
        {
            out.append(&mut self.line);
            out.push(b'\n');
        }
        out
    }

    fn matching(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        let Some(grep) = &self.grep else { return bytes };
        let mut out = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            self.line.extend_from_slice(piece);
            if !piece.ends_with(b"\n") && self.line.len() < LONGEST_LINE {
                continue;
            }
            let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            if grep.is_match(text) {
                out.extend_from_slice(text);
                out.push(b'\n');
            }
            self.line.clear();
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(grep: Option<&str>, raw: bool) -> Result<Filter, Failure> {
        let (id, grep) = ("k7f3".into(), grep.map(str::to_owned));
        Filter::new(&LogsArgs { id, follow: false, offset: None, tail: None, grep, raw })
    }

    fn all(filter: &mut Filter, pieces: &[&str]) -> String {
        let mut out: Vec<u8> = pieces.iter().flat_map(|p| filter.feed(p.as_bytes().to_vec())).collect();
        out.extend(filter.end());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn raw_is_exact_and_otherwise_sequences_go() {
        let pieces = ["\x1b[3", "1ma\r", "\nb\0"];
        assert_eq!(all(&mut filter(None, true).unwrap(), &pieces), pieces.concat());
        assert_eq!(all(&mut filter(None, false).unwrap(), &pieces), "a\nb");
    }

    #[test]
    fn grep_takes_whole_lines() {
        let pieces = ["one er", "ror\ntwo\n\x1b[31mthr", "ee\x1b[0m error\nlast error"];
        let mut errors = filter(Some("error$"), false).unwrap();
        assert_eq!(all(&mut errors, &pieces), "one error\nthree error\nlast error\n");
    }

    #[test]
    fn a_wrong_expression_is_wrong_use() {
        let failure = filter(Some("("), false).err().unwrap();
        assert!(failure.exit_code() == 64 && failure.to_string().contains("--grep"), "{failure}");
    }
}
