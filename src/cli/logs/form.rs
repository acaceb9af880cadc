//! How the output of `qd logs` looks: bytes as they are, lines with a label before each, or JSON.
//!
//! Invariant: a line goes out whole, so that logs that are followed at once never mix within one.

use super::lines::Line;
use crate::cli::args::LogsArgs;
use crate::cli::failure::Failure;
use crate::cli::safe;
use crate::cli::screen::{Screen, json_text};
use crate::model::ProcessInfo;
use serde::Serialize;
use std::io::{self, Write};

/// Colours of labels, in turn; red is left to what is wrong.
const COLORS: [&str; 5] = ["\x1b[36m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[34m"];

/// One line of JSON output: a line of a log, a gap in it, or its end. Which one it is tells the second field.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Json<'a> {
    /// A line.
    Line {
        /// The process.
        id: &'a str,
        /// Its text as UTF-8; what is none is shown as U+FFFD.
        text: &'a str,
        /// Where it begins.
        offset: u64,
    },
    /// Bytes that are no longer kept.
    Gap {
        /// The process.
        id: &'a str,
        /// How many.
        missing: u64,
        /// Where the log goes on.
        offset: u64,
    },
    /// The end of what is printed.
    End {
        /// The process.
        id: &'a str,
        /// Where to go on with `--offset`, and what `qd send --expect-offset` takes.
        next_offset: u64,
        /// Its row.
        process: &'a ProcessInfo,
    },
}

/// What all logs of one call share.
pub(super) struct Out<'a> {
    labels: Vec<String>,
    json: bool,
    screen: &'a Screen,
}

/// The place of one log.
#[derive(Clone)]
pub(super) struct Form<'a> {
    label: String,
    json: bool,
    /// Whether there are others.
    several: bool,
    pub(super) screen: &'a Screen,
}

impl<'a> Out<'a> {
    pub(super) fn new(args: &LogsArgs, rows: &[ProcessInfo], screen: &'a Screen) -> Self {
        let several = rows.len() > 1;
        let width = rows.iter().map(|row| row.backend.len()).max().unwrap_or(0);
        let labels = rows.iter().enumerate().map(|(index, row)| match several {
            true => labelled(&safe::line(&format!("{} {:<width$}| ", row.id, row.backend)), index, screen.color),
            false => String::new(),
        });
        Self { labels: labels.collect(), json: args.json, screen }
    }

    pub(super) fn at(&self, index: usize) -> Form<'a> {
        let label = self.labels.get(index).cloned().unwrap_or_default();
        Form { label, json: self.json, several: self.labels.len() > 1, screen: self.screen }
    }
}

fn labelled(label: &str, index: usize, color: bool) -> String {
    if color { format!("{}{label}\x1b[0m", COLORS[index % COLORS.len()]) } else { label.to_owned() }
}

impl Form<'_> {
    /// Whether it is made of lines.
    pub(super) fn wants_lines(&self) -> bool {
        self.json || self.several
    }

    /// Prints bytes as they are.
    pub(super) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        write(bytes)
    }

    /// Prints lines.
    pub(super) fn lines(&self, id: &str, lines: impl IntoIterator<Item = Line>) -> Result<(), Failure> {
        let mut all = Vec::new();
        for line in lines {
            if self.json {
                let text = String::from_utf8_lossy(&line.text);
                all.extend(json_text(&Json::Line { id, text: &text, offset: line.offset }, false)?.into_bytes());
            } else {
                all.extend_from_slice(self.label.as_bytes());
                all.extend_from_slice(&line.text);
                all.push(b'\n');
            }
        }
        write(&all)
    }

    /// Tells of bytes that are no longer kept.
    pub(super) fn gap(&self, id: &str, missing: u64, offset: u64) -> Result<(), Failure> {
        if self.json {
            return write(json_text(&Json::Gap { id, missing, offset }, false)?.as_bytes());
        }
        let of = if self.several { format!(" of {id}") } else { String::new() };
        self.screen.say(&format!("warning: {missing} bytes{of} before byte {offset} are no longer kept"));
        Ok(())
    }

    /// Tells where it ends.
    pub(super) fn end(&self, next_offset: u64, process: &ProcessInfo) -> Result<(), Failure> {
        if self.json { write(json_text(&Json::End { id: &process.id, next_offset, process }, false)?.as_bytes()) } else { Ok(()) }
    }
}

/// A blocked reader holds up this program alone: nothing else waits on its one thread.
fn write(bytes: &[u8]) -> Result<(), Failure> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::Output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ps::tests::process;
    use crate::model::ProcessState;

    #[test]
    fn labels_line_up_and_are_coloured_only_where_that_is_wished() {
        let row = |id, backend: &str| ProcessInfo { backend: backend.into(), ..process(id, ProcessState::Running) };
        let rows = [row("k7f3aa", "gpu"), row("b2c4aa", "local")];
        let args = LogsArgs { json: false, ..crate::cli::logs::follower::tests::args(&["k7f3", "b2c4"]) };
        let labels = |color| Out::new(&args, &rows, &Screen { color, ..Screen::default() }).labels;
        assert_eq!(labels(false), ["k7f3aa gpu  | ", "b2c4aa local| "]);
        assert_eq!(labels(true)[1], "\x1b[33mb2c4aa local| \x1b[0m");
        assert_eq!(Out::new(&args, &rows[..1], &Screen::default()).labels, [""], "one log is as it is");
    }

    #[test]
    fn json_lines_tell_what_they_are() {
        let line = json_text(&Json::Line { id: "k7f3", text: "a\"b", offset: 7 }, false).unwrap();
        assert_eq!(line, "{\"id\":\"k7f3\",\"text\":\"a\\\"b\",\"offset\":7}\n");
        let gap = json_text(&Json::Gap { id: "k7f3", missing: 3, offset: 7 }, false).unwrap();
        assert_eq!(gap, "{\"id\":\"k7f3\",\"missing\":3,\"offset\":7}\n");
    }
}
