//! The forms in which a running command is printed: its own bytes, one JSON object, or JSON events.
//!
//! Invariant: in the plain form our stdout and stderr get the command's bytes and nothing else until it has ended.

use super::sink::Piece;
use crate::cli::args::Json;
use crate::cli::failure::Failure;
use crate::cli::screen::json_text;
use crate::model::{ExecResult, ProcessInfo, Stream};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::json;

/// How what happens is printed.
#[derive(Debug)]
pub(crate) enum Form {
    /// The command's bytes.
    Plain,
    /// One object at the end.
    Result {
        /// In several lines.
        pretty: bool,
    },
    /// One object a line.
    Events(Events),
}

impl Form {
    /// Makes the form that was asked for.
    pub(crate) fn new(json: Option<Json>, terminal: bool) -> Self {
        match json {
            None => Self::Plain,
            Some(Json::Result) => Self::Result { pretty: terminal },
            Some(Json::Events) => Self::Events(Events::default()),
        }
    }

    /// Tells whether output is wanted while the command runs.
    pub(crate) fn follows(&self) -> bool {
        !matches!(self, Self::Result { .. })
    }

    /// Prints that the command has started.
    pub(crate) fn started(&mut self, process: &ProcessInfo) -> Result<Option<Piece>, Failure> {
        let Self::Events(_) = self else { return Ok(None) };
        let line = json_text(&json!({"event": "started", "process_id": process.id, "process": process}), false)?;
        Ok(Some(text(line)))
    }

    /// Prints output.
    pub(crate) fn data(&mut self, offset: u64, stream: Stream, bytes: Vec<u8>) -> Result<Option<Piece>, Failure> {
        match self {
            Self::Plain => Ok(Some(Piece::Bytes { stream, bytes })),
            Self::Result { .. } => Ok(None),
            Self::Events(events) => Ok(some(events.data(offset, stream, bytes)?)),
        }
    }

    /// Prints the result.
    pub(crate) fn result(&mut self, result: &ExecResult) -> Result<Option<Piece>, Failure> {
        #[derive(Serialize)]
        struct Event<'a> {
            event: &'static str,
            #[serde(flatten)]
            result: &'a ExecResult,
        }
        match self {
            Self::Plain => Ok(None),
            Self::Result { pretty } => Ok(Some(text(json_text(result, *pretty)?))),
            Self::Events(events) => {
                let rest = events.flush()?;
                Ok(Some(text(rest + &json_text(&Event { event: "result", result }, false)?)))
            }
        }
    }

    /// Prints a failure that takes the place of the result.
    pub(crate) fn failure(&mut self, failure: &Failure) -> Result<Option<String>, Failure> {
        match self {
            Self::Plain => Ok(None),
            Self::Result { pretty } => Ok(Some(json_text(&failure.json(), *pretty)?)),
            Self::Events(events) => {
                let mut event = failure.json();
                event["event"] = "error".into();
                Ok(Some(events.flush()? + &json_text(&event, false)?))
            }
        }
    }
}

fn text(line: String) -> Piece {
    Piece::Bytes { stream: Stream::Out, bytes: line.into_bytes() }
}

fn some(lines: String) -> Option<Piece> {
    (!lines.is_empty()).then(|| text(lines))
}

/// The events of output. A character whose bytes arrive in two pieces is kept until it is whole.
#[derive(Debug, Default)]
pub(crate) struct Events {
    held: Vec<u8>,
    stream: Stream,
    offset: u64,
}

impl Events {
    fn data(&mut self, offset: u64, stream: Stream, bytes: Vec<u8>) -> Result<String, Failure> {
        let mut lines = String::new();
        let follows = stream == self.stream && offset == self.offset + self.held.len() as u64;
        if !follows {
            lines += &self.flush()?;
        }
        if self.held.is_empty() {
            (self.held, self.stream, self.offset) = (bytes, stream, offset);
        } else {
            self.held.extend(bytes);
        }
        let whole = whole_characters(&self.held);
        let rest = self.held.split_off(whole);
        lines += &self.flush()?;
        self.held = rest;
        Ok(lines)
    }

    /// Gives what is held: text up to the first byte that is none, and the rest as base64.
    fn flush(&mut self) -> Result<String, Failure> {
        let bytes = std::mem::take(&mut self.held);
        let valid = std::str::from_utf8(&bytes).map_or_else(|e| e.valid_up_to(), str::len);
        let (text, rest) = bytes.split_at(valid);
        let mut lines = String::new();
        if !text.is_empty() {
            lines += &self.line("text", &String::from_utf8_lossy(text))?;
            self.offset += text.len() as u64;
        }
        if !rest.is_empty() {
            lines += &self.line("base64", &STANDARD.encode(rest))?;
            self.offset += rest.len() as u64;
        }
        Ok(lines)
    }

    fn line(&self, form: &str, value: &str) -> Result<String, Failure> {
        json_text(&json!({"event": "output", "offset": self.offset, "stream": self.stream, form: value}), false)
    }
}

/// Gives the number of bytes before a last character that is not whole yet.
fn whole_characters(bytes: &[u8]) -> usize {
    let start = bytes.len().saturating_sub(3);
    let Some(lead) = (start..bytes.len()).rev().find(|at| bytes[*at] & 0xc0 != 0x80) else { return bytes.len() };
    let wanted = match bytes[lead] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if lead + wanted > bytes.len() { lead } else { bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: &[(u64, Stream, &[u8])]) -> Vec<String> {
        let mut events = Events::default();
        let mut lines = String::new();
        for (offset, stream, bytes) in pieces {
            lines += &events.data(*offset, *stream, bytes.to_vec()).unwrap();
        }
        lines += &events.flush().unwrap();
        lines.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_character_over_two_pieces_stays_text() {
        let have = events(&[(0, Stream::Out, b"a\xe6\x97"), (3, Stream::Out, b"\xa5b")]);
        assert_eq!(
            have,
            [r#"{"event":"output","offset":0,"stream":"out","text":"a"}"#, r#"{"event":"output","offset":1,"stream":"out","text":"日b"}"#]
        );
    }

    #[test]
    fn bytes_that_are_no_text_come_as_base64() {
        let have = events(&[(0, Stream::Err, b"\xff\x00"), (2, Stream::Out, b"\xe6\x97"), (4, Stream::Err, b"x")]);
        assert_eq!(
            have,
            [
                r#"{"base64":"/wA=","event":"output","offset":0,"stream":"err"}"#,
                r#"{"base64":"5pc=","event":"output","offset":2,"stream":"out"}"#,
                r#"{"event":"output","offset":4,"stream":"err","text":"x"}"#
            ]
        );
    }

    #[test]
    fn text_before_other_bytes_stays_text() {
        let have = events(&[(5, Stream::Out, b"ok\n\xffx\n")]);
        assert_eq!(
            have,
            [
                r#"{"event":"output","offset":5,"stream":"out","text":"ok\n"}"#,
                r#"{"base64":"/3gK","event":"output","offset":8,"stream":"out"}"#
            ]
        );
    }

    #[test]
    fn a_gap_ends_what_is_held() {
        let have = events(&[(0, Stream::Out, b"\xe6\x97"), (10, Stream::Out, b"x")]);
        assert_eq!(have.len(), 2);
        assert!(have[1].contains(r#""offset":10"#) && have[1].contains(r#""text":"x""#), "{have:?}");
    }

    #[test]
    fn only_a_last_character_can_lack_bytes() {
        let table: [(&[u8], usize); 7] =
            [(b"", 0), (b"ab", 2), (b"a\xe6\x97", 1), (b"\xe6\x97\xa5", 3), (b"\xf0\x9f\x98", 0), (b"a\x80\x80\x80\x80", 5), (b"\xff", 1)];
        for (bytes, want) in table {
            assert_eq!(whole_characters(bytes), want, "{bytes:?}");
        }
    }
}
