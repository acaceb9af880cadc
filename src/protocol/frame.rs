//! One frame: length u32, kind u8, stream u32, payload; all numbers big-endian, the length counts what follows it.
//!
//! Invariant: reading is incremental and cancel safe: a read that is dropped loses no byte. A frame of an unknown kind is
//! skipped; one over the cap is an error, never an allocation.

use crate::model::Stream;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::bytes::{Buf, BufMut, BytesMut};

/// Longest frame, counted after its length field: more than the largest data frame, far less than memory.
pub const FRAME_CAP: usize = 2 << 20;
/// Longest frame before the hello is over: a stranger may not make us allocate more.
pub const HELLO_CAP: usize = 64 << 10;

/// Kind and stream: the least that a frame holds.
const HEAD: usize = 5;
/// Offset and stream tag of a data frame.
const DATA_HEAD: usize = 9;
/// Bytes asked of the stream at once for small frames.
const READ: usize = 64 << 10;
/// From this many missing bytes on they are read into the frame's own buffer, without a copy.
const DIRECT: usize = 16 << 10;

/// What a frame is. The numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Client: who it is (JSON).
    Hello = 1,
    /// Daemon: the answer to a hello (JSON).
    Welcome = 2,
    /// Daemon: why it does not serve this client (JSON); it closes then.
    Refused = 3,
    /// Client: opens a stream with a call (JSON).
    Request = 4,
    /// Daemon: ends a stream with the call's result (JSON).
    Reply = 5,
    /// Daemon: ends a stream with a failure (JSON).
    Error = 6,
    /// Daemon: something on the way to the reply (JSON).
    Item = 7,
    /// Daemon: an event of a watch (JSON).
    Event = 8,
    /// Client: end the call and tell how it ended (empty).
    Cancel = 9,
    /// Bytes: offset u64, stream tag u8 (0 stdout, 1 stderr), then the bytes.
    Data = 10,
    /// Client: its stdin has ended. Daemon: the command reads no more stdin. (Empty.)
    End = 11,
    /// Either: the stream's window grew by this u32.
    Credit = 12,
    /// Client: end the call, nothing more is wanted of it (empty).
    Forget = 13,
    /// Either: the beginning of a JSON text that the next frame of this stream goes on with.
    Part = 14,
    /// Client: the variables of an operator (JSON).
    Env = 15,
    /// Daemon: why it closes (JSON).
    Bye = 16,
    /// Client: the file of the stream's log is open (empty).
    Opened = 17,
}

impl Kind {
    /// Gives the kind of a byte; none when this version does not know it.
    pub fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [Kind; 17] = [
            Kind::Hello,
            Kind::Welcome,
            Kind::Refused,
            Kind::Request,
            Kind::Reply,
            Kind::Error,
            Kind::Item,
            Kind::Event,
            Kind::Cancel,
            Kind::Data,
            Kind::End,
            Kind::Credit,
            Kind::Forget,
            Kind::Part,
            Kind::Env,
            Kind::Bye,
            Kind::Opened,
        ];
        ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// A whole frame, as read.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// Anything but data.
    Message {
        /// What it is.
        kind: Kind,
        /// The stream; 0 is the connection itself.
        stream: u32,
        /// JSON, a number, or nothing, by kind.
        payload: Vec<u8>,
    },
    /// Bytes.
    Data {
        /// The stream.
        stream: u32,
        /// Absolute offset of the first byte.
        offset: u64,
        /// Which of the command's streams.
        tag: Stream,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream failed.
    #[error("failed to read")]
    Io(#[from] io::Error),
    /// The stream ended inside a frame.
    #[error("the connection ended inside a message")]
    Cut,
    /// The length is over the cap, or too small to be a frame.
    #[error("a message of {len} bytes, where {HEAD} to {cap} are allowed")]
    Length {
        /// The length that was announced.
        len: usize,
        /// The most allowed.
        cap: usize,
    },
}

/// Gives the bytes in front of a payload of `len` bytes.
pub fn head(kind: Kind, stream: u32, len: usize) -> [u8; 9] {
    let mut out = [0; 9];
    out[..4].copy_from_slice(&((len + HEAD) as u32).to_be_bytes());
    out[4] = kind as u8;
    out[5..].copy_from_slice(&stream.to_be_bytes());
    out
}

/// Gives the bytes in front of `len` bytes of data.
pub fn data_head(stream: u32, offset: u64, tag: Stream, len: usize) -> [u8; 18] {
    let mut out = [0; 18];
    out[..9].copy_from_slice(&head(Kind::Data, stream, len + DATA_HEAD));
    out[9..17].copy_from_slice(&offset.to_be_bytes());
    out[17] = match tag {
        Stream::Out => 0,
        Stream::Err => 1,
    };
    out
}

/// Reads frames from a byte stream.
pub struct FrameReader<R> {
    io: R,
    buffer: BytesMut,
    partial: Option<Partial>,
    cap: usize,
}

/// A frame whose head has been read.
struct Partial {
    head: Head,
    missing: usize,
    bytes: Vec<u8>,
}

enum Head {
    Skip,
    Message { kind: Kind, stream: u32 },
    Data { stream: u32, offset: u64, tag: Stream },
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Makes a reader whose frames are at most `cap` bytes long.
    pub fn new(io: R, cap: usize) -> Self {
        Self { io, buffer: BytesMut::new(), partial: None, cap }
    }

    /// Changes the cap, from the next frame on.
    pub fn set_cap(&mut self, cap: usize) {
        self.cap = cap;
    }

    /// Waits for the next frame; none at the end of the stream. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(frame) = self.parse()? {
                return Ok(Some(frame));
            }
            let read = match &mut self.partial {
                Some(partial) if partial.missing >= DIRECT => {
                    let read = self.io.read_buf(&mut (&mut partial.bytes).limit(partial.missing)).await?;
                    partial.missing -= read;
                    read
                }
                _ => {
                    self.buffer.reserve(READ);
                    self.io.read_buf(&mut self.buffer).await?
                }
            };
            if read == 0 {
                return if self.buffer.is_empty() && self.partial.is_none() { Ok(None) } else { Err(FrameError::Cut) };
            }
        }
    }

    /// Takes a whole frame out of what has been read, if there is one.
    fn parse(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            if self.partial.is_none() {
                self.partial = self.parse_head()?;
            }
            let Some(partial) = &mut self.partial else { return Ok(None) };
            let take = partial.missing.min(self.buffer.len());
            partial.bytes.extend_from_slice(&self.buffer[..take]);
            partial.missing -= take;
            self.buffer.advance(take);
            if partial.missing > 0 {
                return Ok(None);
            }
            let Some(Partial { head, bytes, .. }) = self.partial.take() else { return Ok(None) };
            match head {
                Head::Skip => {}
                Head::Message { kind, stream } => return Ok(Some(Frame::Message { kind, stream, payload: bytes })),
                Head::Data { stream, offset, tag } => return Ok(Some(Frame::Data { stream, offset, tag, bytes })),
            }
        }
    }

    fn parse_head(&mut self) -> Result<Option<Partial>, FrameError> {
        let Some((length, rest)) = self.buffer.split_first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_be_bytes(*length) as usize;
        if len < HEAD || len > self.cap {
            return Err(FrameError::Length { len, cap: self.cap });
        }
        let Some((&kind, rest)) = rest.split_first() else { return Ok(None) };
        let Some((stream, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let (kind, stream) = (Kind::from_byte(kind), u32::from_be_bytes(*stream));
        let mut taken = 4 + HEAD;
        let mut missing = len - HEAD;
        let head = match kind {
            None => Head::Skip,
            Some(Kind::Data) if missing < DATA_HEAD => return Err(FrameError::Length { len, cap: self.cap }),
            Some(Kind::Data) => {
                let Some(data) = rest.first_chunk::<DATA_HEAD>() else { return Ok(None) };
                taken += DATA_HEAD;
                missing -= DATA_HEAD;
                let [offset @ .., tag] = *data;
                Head::Data { stream, offset: u64::from_be_bytes(offset), tag: if tag == 1 { Stream::Err } else { Stream::Out } }
            }
            Some(kind) => Head::Message { kind, stream },
        };
        self.buffer.advance(taken);
        Ok(Some(Partial { head, missing, bytes: Vec::with_capacity(missing) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = head(Kind::Hello, stream, payload.len()).to_vec();
        out[4] = kind;
        out.extend_from_slice(payload);
        out
    }

    fn data(stream: u32, offset: u64, tag: Stream, bytes: &[u8]) -> Vec<u8> {
        let mut out = data_head(stream, offset, tag, bytes.len()).to_vec();
        out.extend_from_slice(bytes);
        out
    }

    /// Hands out the pieces one read at a time.
    async fn read_all(pieces: Vec<Vec<u8>>, cap: usize) -> (Vec<Frame>, Result<(), FrameError>) {
        let mut io = tokio_test_io(pieces);
        let mut reader = FrameReader::new(&mut io, cap);
        let mut frames = Vec::new();
        loop {
            match reader.next().await {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return (frames, Ok(())),
                Err(error) => return (frames, Err(error)),
            }
        }
    }

    fn tokio_test_io(pieces: Vec<Vec<u8>>) -> impl AsyncRead + Unpin {
        use tokio_util::io::StreamReader;
        StreamReader::new(futures::stream::iter(pieces.into_iter().map(|piece| Ok::<_, io::Error>(io::Cursor::new(piece)))))
    }

    fn block<F: Future>(future: F) -> F::Output {
        futures::executor::block_on(future)
    }

    #[test]
    fn every_kind_has_its_byte() {
        for byte in 0..=u8::MAX {
            match Kind::from_byte(byte) {
                Some(kind) => assert_eq!(kind as u8, byte),
                None => assert!(byte == 0 || byte > 17, "{byte}"),
            }
        }
    }

    #[test]
    fn frames_survive_a_split_at_every_byte() {
        let mut bytes = message(4, 7, br#"{"method":"x"}"#);
        bytes.extend(data(7, 1 << 40, Stream::Err, b"hello"));
        bytes.extend(message(9, 7, b""));
        bytes.extend(data(7, 3, Stream::Out, b""));
        for cut in 0..=bytes.len() {
            let (frames, end) = block(read_all(vec![bytes[..cut].to_vec(), bytes[cut..].to_vec()], FRAME_CAP));
            end.unwrap();
            assert_eq!(
                frames,
                [
                    Frame::Message { kind: Kind::Request, stream: 7, payload: br#"{"method":"x"}"#.to_vec() },
                    Frame::Data { stream: 7, offset: 1 << 40, tag: Stream::Err, bytes: b"hello".to_vec() },
                    Frame::Message { kind: Kind::Cancel, stream: 7, payload: vec![] },
                    Frame::Data { stream: 7, offset: 3, tag: Stream::Out, bytes: vec![] },
                ]
            );
        }
    }

    #[test]
    fn unknown_kinds_are_skipped() {
        let mut bytes = message(200, 1, &[1; 5000]);
        bytes.extend(message(0, 1, b""));
        bytes.extend(message(11, 2, b""));
        let (frames, end) = block(read_all(vec![bytes], FRAME_CAP));
        end.unwrap();
        assert_eq!(frames, [Frame::Message { kind: Kind::End, stream: 2, payload: vec![] }]);
    }

    #[test]
    fn a_length_outside_the_bounds_is_an_error() {
        for len in [0u32, 4, HELLO_CAP as u32 + 1, u32::MAX] {
            let (frames, end) = block(read_all(vec![len.to_be_bytes().to_vec()], HELLO_CAP));
            assert!(frames.is_empty());
            assert!(matches!(end, Err(FrameError::Length { len: l, .. }) if l == len as usize), "{len}: {end:?}");
        }
        let short_data = message(10, 1, &[0; 8]);
        assert!(matches!(block(read_all(vec![short_data], FRAME_CAP)).1, Err(FrameError::Length { .. })));
    }

    #[test]
    fn an_end_inside_a_frame_is_told_apart_from_an_end_between_frames() {
        let bytes = data(1, 0, Stream::Out, &[7; 100]);
        for cut in 1..bytes.len() {
            assert!(matches!(block(read_all(vec![bytes[..cut].to_vec()], FRAME_CAP)).1, Err(FrameError::Cut)), "{cut}");
        }
    }

    proptest! {
        #[test]
        fn any_frames_in_any_pieces_come_out_as_they_went_in(
            sizes in prop::collection::vec(0usize..60_000, 1..6),
            cuts in prop::collection::vec(1usize..40_000, 1..40),
        ) {
            let mut bytes = Vec::new();
            for (i, size) in sizes.iter().enumerate() {
                bytes.extend(data(i as u32, i as u64, Stream::Out, &vec![i as u8; *size]));
            }
            let mut pieces = Vec::new();
            let mut rest = &bytes[..];
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (piece, more) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                pieces.push(piece.to_vec());
                rest = more;
            }
            let (frames, end) = block(read_all(pieces, FRAME_CAP));
            prop_assert!(end.is_ok());
            prop_assert_eq!(frames.len(), sizes.len());
            for (i, (frame, size)) in frames.into_iter().zip(sizes).enumerate() {
                let expected = Frame::Data { stream: i as u32, offset: i as u64, tag: Stream::Out, bytes: vec![i as u8; size] };
                prop_assert_eq!(frame, expected);
            }
        }

        #[test]
        fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..4000)) {
            let _ended_somehow = block(read_all(vec![noise], HELLO_CAP));
        }
    }
}
