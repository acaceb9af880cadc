//! The writer of what a command prints: a thread of its own, so that a blocked stdout stops neither Ctrl-C nor anybody else.
//!
//! Invariant: bytes leave in the order in which they came, unbuffered; what waits here is bounded.

use super::copy::copy;
use crate::model::{Kept, Stream};
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use tokio::sync::{mpsc, oneshot};

/// Pieces that wait for the writer; with a piece of 64 KiB that is half a MiB.
const WAITING: usize = 8;

/// Something to write.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// Bytes for one of our streams.
    Bytes {
        /// Which stream.
        stream: Stream,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A stretch of a file.
    Kept {
        /// The file.
        file: Arc<File>,
        /// Where the stretch is, and for which of our streams.
        kept: Kept,
    },
}

/// The way to the writer.
pub(crate) struct Sink {
    pieces: mpsc::Sender<Piece>,
    done: oneshot::Receiver<io::Result<()>>,
}

impl Sink {
    /// Starts the writer on our stdout and stderr.
    pub(crate) fn start() -> io::Result<Self> {
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let err = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        Self::start_on(out, err)
    }

    fn start_on(mut out: File, mut err: File) -> io::Result<Self> {
        let (pieces, mut waiting) = mpsc::channel::<Piece>(WAITING);
        let (tell, done) = oneshot::channel();
        thread::Builder::new().name("output".into()).spawn(move || {
            let mut result = Ok(());
            while let Some(piece) = waiting.blocking_recv() {
                result = write(&piece, &mut out, &mut err);
                if result.is_err() {
                    break;
                }
            }
            // Nobody waits for the answer when the caller has left.
            drop(tell.send(result));
        })?;
        Ok(Self { pieces, done })
    }

    /// Waits for room for one piece; an error means that the writer has stopped. Cancel safe.
    pub(crate) async fn room(&self) -> Result<mpsc::Permit<'_, Piece>, ()> {
        self.pieces.reserve().await.map_err(|_| ())
    }

    /// Waits until the writer has stopped, which it does by itself only after a failure. Cancel safe.
    pub(crate) async fn stopped(&self) {
        self.pieces.closed().await;
    }

    /// Waits until everything is written, and gives the failure if there was one.
    pub(crate) async fn finish(self) -> io::Result<()> {
        drop(self.pieces);
        self.done.await.unwrap_or_else(|_| Err(io::Error::other("the writer ended early")))
    }
}

fn write(piece: &Piece, out: &mut File, err: &mut File) -> io::Result<()> {
    match piece {
        Piece::Bytes { stream, bytes } => write_whole(if *stream == Stream::Out { out } else { err }, bytes),
        Piece::Kept { file, kept } => {
            let mut position = kept.offset;
            for run in &kept.runs {
                copy(if run.stream == Stream::Out { out } else { err }, file, position, run.len)?;
                position += run.len;
            }
            Ok(())
        }
    }
}

/// Writes all bytes, also where somebody who shares the descriptor has made it non-blocking.
pub(super) fn write_whole(target: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match target.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => until_writable(target)?,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Waits until a non-blocking target may be written again, or a signal comes.
pub(super) fn until_writable(target: &File) -> io::Result<()> {
    let mut wanted = [PollFd::new(target, PollFlags::OUT)];
    match poll(&mut wanted, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Duration;

    fn pipe() -> (File, File) {
        let (reader, writer) = io::pipe().unwrap();
        (File::from(std::os::fd::OwnedFd::from(reader)), File::from(std::os::fd::OwnedFd::from(writer)))
    }

    fn piece(stream: Stream, bytes: &[u8]) -> Piece {
        Piece::Bytes { stream, bytes: bytes.to_vec() }
    }

    #[tokio::test]
    async fn each_stream_gets_its_bytes_in_order() {
        let ((mut out_reader, out), (mut err_reader, err)) = (pipe(), pipe());
        let sink = Sink::start_on(out, err).unwrap();
        for (stream, bytes) in [(Stream::Out, "a"), (Stream::Err, "x"), (Stream::Out, "b\0"), (Stream::Err, "y")] {
            sink.room().await.unwrap().send(piece(stream, bytes.as_bytes()));
        }
        sink.finish().await.unwrap();
        let (mut out_text, mut err_text) = (String::new(), String::new());
        out_reader.read_to_string(&mut out_text).unwrap();
        err_reader.read_to_string(&mut err_text).unwrap();
        assert_eq!((out_text.as_str(), err_text.as_str()), ("ab\0", "xy"));
    }

    #[tokio::test]
    async fn a_reader_that_went_away_stops_the_writer() {
        let ((out_reader, out), (_err_reader, err)) = (pipe(), pipe());
        drop(out_reader);
        let sink = Sink::start_on(out, err).unwrap();
        sink.room().await.unwrap().send(piece(Stream::Out, b"x"));
        tokio::time::timeout(Duration::from_secs(10), sink.stopped()).await.unwrap();
        assert!(sink.room().await.is_err());
        assert_eq!(sink.finish().await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn a_full_reader_blocks_only_the_writer() {
        let ((mut out_reader, out), (_err_reader, err)) = (pipe(), pipe());
        rustix::io::ioctl_fionbio(&out, true).unwrap();
        let sink = Sink::start_on(out, err).unwrap();
        let total = (WAITING + 4) * 65_536;
        let block = vec![b'x'; 65_536];
        let mut sent = 0;
        // Fill the pipe and everything that waits.
        while let Ok(Ok(permit)) = tokio::time::timeout(Duration::from_millis(200), sink.room()).await {
            permit.send(piece(Stream::Out, &block));
            sent += block.len();
        }
        assert!(sent < total, "what waits is bounded: {sent}");
        let reading = tokio::task::spawn_blocking(move || {
            let mut bytes = Vec::new();
            out_reader.read_to_end(&mut bytes).map(|_| bytes.len())
        });
        sink.finish().await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), sent);
    }
}
