//! The file behind a spool whose reader is slow.
//!
//! Invariant: bytes keep their order (memory, file, memory again), and only the mover touches the file, off the async threads.

use super::spool::{IN_MEMORY, Spool};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes in one file.
const IN_FILE: u64 = 1 << 30;
/// Bytes read back at once.
const READ: usize = 1 << 20;

/// The state of the file: which of its bytes still wait.
#[derive(Default)]
pub(super) struct Spill {
    span: Mutex<Span>,
}

#[derive(Clone, Default)]
struct Span {
    file: Option<Arc<File>>,
    read: u64,
    written: u64,
}

impl Spill {
    fn span(&self) -> Span {
        self.span.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, change: impl FnOnce(&mut Span)) {
        change(&mut self.span.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Makes a file that nobody else can open and that is gone with its last handle.
fn unlinked() -> io::Result<File> {
    let lasting = Path::new("/var/tmp");
    let dir = if lasting.is_dir() { lasting.to_path_buf() } else { std::env::temp_dir() };
    let path = dir.join(format!("qd-{}", uuid::Uuid::new_v4().simple()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Gives the disk back what was read. Where that is not possible the file keeps its size until all of it was read.
#[cfg(target_os = "linux")]
fn give_back(file: &File, at: u64, len: u64) {
    use rustix::fs::FallocateFlags;
    if let Err(e) = rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, len) {
        tracing::trace!("no hole punched: {e}");
    }
}

#[cfg(not(target_os = "linux"))]
fn give_back(_file: &File, _at: u64, _len: u64) {}

/// What the mover does next.
enum Step {
    /// Write these pieces behind what is in the file.
    Out(Vec<Vec<u8>>),
    /// Read the oldest bytes back.
    In,
    /// Nothing until told.
    Wait,
    /// Everything is in memory again, or nobody reads any more.
    Done,
}

fn next(spool: &Spool, spill: &Spill) -> Step {
    let span = spill.span();
    let waiting = span.written - span.read;
    if waiting == 0 {
        spill.set(|s| (s.read, s.written) = (0, 0));
    }
    let mut inner = spool.lock();
    if inner.reader_gone {
        inner.spill = None;
        return Step::Done;
    }
    let low = inner.front.len < IN_MEMORY / 2;
    if waiting > 0 && low {
        return Step::In;
    }
    if waiting == 0 && (low || inner.back.len == 0) {
        while inner.front.len < IN_MEMORY {
            let Some(piece) = inner.back.pop_piece() else { break };
            inner.front.push_piece(piece);
        }
        inner.wake();
        if inner.back.len == 0 {
            inner.spill = None;
            return Step::Done;
        }
    }
    if inner.back.len > 0 && !inner.is_lossy() {
        if waiting >= IN_FILE {
            let rest = inner.back.len as u64;
            while inner.back.pop_piece().is_some() {}
            inner.lose(rest, "more than 1 GiB waited for its reader".to_owned());
            return Step::Wait;
        }
        let mut out = Vec::new();
        while let Some(piece) = inner.back.pop_piece() {
            out.push(piece);
        }
        return Step::Out(out);
    }
    Step::Wait
}

/// Moves bytes between memory and file until all of them were read.
pub(super) async fn mover(spool: Arc<Spool>, spill: Arc<Spill>) {
    loop {
        match next(&spool, &spill) {
            Step::Done => return,
            Step::Wait => spool.moved.notified().await,
            Step::Out(pieces) => out(&spool, &spill, pieces).await,
            Step::In => back(&spool, &spill).await,
        }
    }
}

/// Writes pieces behind what is in the file.
async fn out(spool: &Spool, spill: &Spill, pieces: Vec<Vec<u8>>) {
    let span = spill.span();
    let total: u64 = pieces.iter().map(|p| p.len() as u64).sum();
    let done = blocking(move || {
        let file = match span.file {
            Some(file) => file,
            None => Arc::new(unlinked()?),
        };
        let mut at = span.written;
        for piece in &pieces {
            file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        Ok((file, at))
    })
    .await;
    match done {
        Ok((file, at)) => spill.set(|s| (s.file, s.written) = (Some(file), at)),
        Err(e) => {
            let mut inner = spool.lock();
            let more = total + inner.back.len as u64;
            while inner.back.pop_piece().is_some() {}
            inner.lose(more, format!("the disk here refused them: {e}"));
        }
    }
}

/// Reads the oldest bytes back.
async fn back(spool: &Spool, spill: &Spill) {
    let span = spill.span();
    let waiting = span.written - span.read;
    let got = blocking(move || {
        let file = span.file.ok_or_else(|| io::Error::other("no file"))?;
        let n = waiting.min(READ as u64);
        let mut piece = vec![0; usize::try_from(n).unwrap_or(READ)];
        file.read_exact_at(&mut piece, span.read)?;
        give_back(&file, span.read, n);
        Ok(piece)
    })
    .await;
    let mut inner = spool.lock();
    match got {
        Ok(piece) => {
            spill.set(|s| s.read += piece.len() as u64);
            inner.front.push_piece(piece);
            inner.wake();
        }
        Err(e) => {
            spill.set(|s| s.read = s.written);
            // What came later would stand in the wrong place.
            let more = waiting + inner.back.len as u64;
            while inner.back.pop_piece().is_some() {}
            inner.lose(more, format!("the disk here did not give them back: {e}"));
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(io::Error::other(e)))
}
