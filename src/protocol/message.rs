//! The JSON of requests and of a connection's end, and the putting together of long texts.
//!
//! Invariant: an unknown method and bad parameters are different errors, and neither ends the connection.

use super::calls::{CallError, ErrorCode};
use super::frame::{Frame, FrameReader, Kind};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::HashMap;
use tokio::io::AsyncRead;

/// Longest JSON text that a daemon takes: a command's text is the only long part of a request.
pub const REQUEST_CAP: usize = 16 << 20;
/// Longest JSON text that a client takes: an overview with 2,000 processes is about 2 MB.
pub const REPLY_CAP: usize = 64 << 20;

/// A call, as written.
#[derive(Debug, Serialize)]
pub struct Request<'a, P> {
    /// Which call.
    pub method: &'a str,
    /// Its parameters.
    pub params: P,
}

/// A call, as read: its parameters are not looked into until its method is known.
#[derive(Debug, Deserialize)]
pub struct AnyRequest {
    /// Which call.
    pub method: String,
    /// Its parameters.
    #[serde(default)]
    pub params: Value,
}

impl AnyRequest {
    /// Reads a request.
    pub fn parse(text: &[u8]) -> Result<Self, CallError> {
        serde_json::from_slice(text).map_err(|error| bad(format!("the request cannot be read: {error}")))
    }

    /// Reads the parameters of the call that the method names.
    pub fn params<P: DeserializeOwned>(self) -> Result<P, CallError> {
        let params = if self.params.is_null() { Value::Object(serde_json::Map::new()) } else { self.params };
        serde_json::from_value(params).map_err(|error| bad(format!("the parameters of {} cannot be read: {error}", self.method)))
    }
}

fn bad(message: String) -> CallError {
    CallError { code: ErrorCode::BadParameters, message, fix: None }
}

/// Why the daemon closes the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bye {
    /// Why, for a person.
    pub message: String,
}

/// Reads frames and puts long JSON texts together.
pub struct MessageReader<R> {
    frames: FrameReader<R>,
    parts: HashMap<u32, Vec<u8>>,
    /// Bytes in `parts`.
    held: usize,
    cap: usize,
}

/// Why a message could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// No frame could be read.
    #[error(transparent)]
    Frame(#[from] super::frame::FrameError),
    /// The texts that have begun are too long together.
    #[error("a message of more than {0} bytes")]
    TooLong(usize),
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    /// Makes a reader whose unfinished texts are at most `cap` bytes long together.
    pub fn new(frames: FrameReader<R>, cap: usize) -> Self {
        Self { frames, parts: HashMap::new(), held: 0, cap }
    }

    /// Waits for the next message: a frame that is no `part`, with the parts before it in its payload. None at the end of the
    /// stream. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Frame>, MessageError> {
        loop {
            match self.frames.next().await? {
                Some(Frame::Message { kind: Kind::Part, stream, payload }) => {
                    self.held += payload.len();
                    if self.held > self.cap {
                        return Err(MessageError::TooLong(self.cap));
                    }
                    self.parts.entry(stream).or_default().extend_from_slice(&payload);
                }
                Some(Frame::Message { kind, stream, payload }) if !self.parts.is_empty() && kind.holds_json() => {
                    let Some(mut whole) = self.parts.remove(&stream) else {
                        return Ok(Some(Frame::Message { kind, stream, payload }));
                    };
                    self.held -= whole.len();
                    whole.extend_from_slice(&payload);
                    return Ok(Some(Frame::Message { kind, stream, payload: whole }));
                }
                other => return Ok(other),
            }
        }
    }
}

impl Kind {
    /// Tells whether the payload is JSON, which may come in parts.
    pub fn holds_json(self) -> bool {
        !matches!(self, Self::Cancel | Self::Data | Self::End | Self::Credit | Self::Forget | Self::Part)
    }
}

/// Reads the number of a `credit` frame.
pub fn credit_amount(payload: &[u8]) -> Option<u32> {
    payload.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::super::calls::{Call, Kill};
    use super::super::frame::{FRAME_CAP, head};
    use super::*;

    fn frames(list: &[(Kind, u32, &[u8])]) -> MessageReader<std::io::Cursor<Vec<u8>>> {
        let mut bytes = Vec::new();
        for (kind, stream, payload) in list {
            bytes.extend(head(*kind, *stream, payload.len()));
            bytes.extend(*payload);
        }
        MessageReader::new(FrameReader::new(std::io::Cursor::new(bytes), FRAME_CAP), 10)
    }

    #[tokio::test]
    async fn parts_of_streams_may_be_mixed_and_cancels_may_come_between() {
        let mut reader = frames(&[
            (Kind::Part, 1, b"ab"),
            (Kind::Part, 2, b"12"),
            (Kind::Cancel, 1, b""),
            (Kind::Request, 1, b"c"),
            (Kind::Request, 3, b"x"),
            (Kind::Request, 2, b"3"),
        ]);
        let mut seen = Vec::new();
        while let Some(Frame::Message { kind, stream, payload }) = reader.next().await.unwrap() {
            seen.push((kind, stream, String::from_utf8(payload).unwrap()));
        }
        let expected = [(Kind::Cancel, 1, ""), (Kind::Request, 1, "abc"), (Kind::Request, 3, "x"), (Kind::Request, 2, "123")];
        assert_eq!(seen, expected.map(|(kind, stream, text)| (kind, stream, text.to_owned())));
    }

    #[tokio::test]
    async fn unfinished_texts_are_bounded_together() {
        let mut reader = frames(&[(Kind::Part, 1, b"123456"), (Kind::Part, 2, b"123456")]);
        assert!(matches!(reader.next().await, Err(MessageError::TooLong(10))));
    }

    #[test]
    fn unknown_fields_are_ignored_and_missing_ones_have_defaults() {
        let request = AnyRequest::parse(br#"{"method":"kill","params":{"processes":["k7f3"],"later":true},"more":[]}"#).unwrap();
        assert_eq!(request.method, Kill::METHOD);
        assert_eq!(request.params::<Kill>().unwrap(), Kill { processes: vec!["k7f3".into()], signal: None, grace_ms: None });
        assert_eq!(AnyRequest::parse(br#"{"method":"kill"}"#).unwrap().params::<Kill>().unwrap(), Kill::default());
    }

    #[test]
    fn bad_parameters_say_which_call_and_what() {
        let request = AnyRequest::parse(br#"{"method":"kill","params":{"processes":7}}"#).unwrap();
        let error = request.params::<Kill>().unwrap_err();
        assert_eq!(error.code, ErrorCode::BadParameters);
        assert!(error.message.contains("kill") && error.message.contains('7'), "{error}");
        assert_eq!(AnyRequest::parse(b"{").unwrap_err().code, ErrorCode::BadParameters);
    }
}
