//! A log on disk: one file from its beginning up to the cap, then the last stretch in segments.
//!
//! Invariant: a byte's place is decided by its offset alone; what is not there is known, byte for byte, as missing.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Segments kept of what is over the cap.
const SEGMENTS: usize = 2;
/// Bounds of a segment's size; between them it is an eighth of the cap.
const SEGMENT: Range<u64> = 64 * 1024..64 * 1024 * 1024;
/// Missing stretches that are told apart; more are counted as one with what lies between.
const HOLES: usize = 256;

/// The files of one log.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    cap: u64,
    segment: u64,
    main: Option<Arc<File>>,
    made: bool,
    /// Segments by number, oldest first.
    tail: VecDeque<(u64, Option<Arc<File>>)>,
    holes: Vec<Range<u64>>,
    index: Option<File>,
    index_len: u64,
}

/// What a write lost.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Bytes that are not kept, older ones too.
    pub(super) bytes: u64,
    /// Why.
    pub(super) reason: Option<String>,
    /// What of the bytes just given was not written, and what lies between.
    pub(super) failed: Option<Range<u64>>,
}

/// Where a byte is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In this file at this position, with at least so many after it.
    At {
        /// The file.
        file: Arc<File>,
        /// Position in it.
        position: u64,
        /// Bytes from there on that are in the same file.
        len: u64,
    },
    /// Not kept; the next that is kept has this offset.
    Missing {
        /// The offset.
        until: u64,
    },
}

impl Disk {
    pub(super) fn new(path: PathBuf, cap: u64) -> Self {
        Self {
            path,
            cap,
            segment: segment(cap),
            main: None,
            made: false,
            tail: VecDeque::new(),
            holes: Vec::new(),
            index: None,
            index_len: 0,
        }
    }

    /// Takes up the files that are there. Gives the length of the whole log, and how much of it is not kept. An error says why they
    /// do not belong together. Blocking.
    pub(super) fn reopen(path: PathBuf, cap: u64) -> Result<(Self, u64, u64), String> {
        let mut disk = Self::new(path, cap);
        let fault = |e: io::Error| format!("{} cannot be read: {e}", disk.path.display());
        let numbers = disk.segments_there().map_err(fault)?;
        let main = match File::open(&disk.path) {
            Ok(main) => main,
            Err(e) if e.kind() == io::ErrorKind::NotFound && numbers.is_empty() => return Ok((disk, 0, 0)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(format!("{} is gone", disk.path.display())),
            Err(e) => return Err(fault(e)),
        };
        let len = main.metadata().map_err(fault)?.len();
        let index_len = std::fs::metadata(index_path(&disk.path)).map_or(0, |found| found.len());
        if len > cap {
            return Err(format!("{} is longer than its cap of {cap} bytes", disk.path.display()));
        }
        if hole(&main, len).map_err(fault)? {
            return Err(format!("{} has a hole: the disk was full", disk.path.display()));
        }
        let lengths = numbers.iter().map(|n| std::fs::metadata(disk.segment_path(*n)).map(|found| found.len()));
        let lengths: Vec<u64> = lengths.collect::<io::Result<_>>().map_err(fault)?;
        let follow = numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]) && numbers.len() <= SEGMENTS;
        let full = lengths.iter().rev().skip(1).all(|len| *len == disk.segment) && lengths.last().is_none_or(|len| *len <= disk.segment);
        if !follow || !full || !numbers.is_empty() && len < cap {
            return Err(format!("the parts of {} do not fit together", disk.path.display()));
        }
        let total = numbers.last().zip(lengths.last()).map_or(len, |(number, last)| cap + number * disk.segment + last);
        let lost = numbers.first().map_or(0, |first| first * disk.segment);
        (disk.made, disk.index_len) = (true, index_len / super::index::RECORD * super::index::RECORD);
        disk.tail = numbers.into_iter().map(|number| (number, None)).collect();
        Ok((disk, total, lost))
    }

    /// Whether there is an index on disk.
    pub(super) fn has_index(&self) -> bool {
        self.index_len > 0
    }

    /// The numbers of the segments that are there, in order.
    fn segments_there(&self) -> io::Result<Vec<u64>> {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name().and_then(|n| n.to_str())) else {
            return Ok(Vec::new());
        };
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        let number = |file: std::ffi::OsString| file.to_str()?.strip_prefix(name)?.strip_prefix(".tail")?.parse().ok();
        let mut numbers: Vec<u64> = entries.flatten().filter_map(|entry| number(entry.file_name())).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Appends records to the index beside the log.
    pub(super) fn write_index(&mut self, records: &[u8]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let file = match self.index.take() {
            Some(file) => file,
            None => open(&index_path(&self.path), self.index_len == 0)?,
        };
        self.index.insert(file).write_all_at(records, self.index_len)?;
        self.index_len += records.len() as u64;
        Ok(())
    }

    /// Writes bytes at their offset. What cannot be written is lost: it is never tried again.
    pub(super) fn write(&mut self, mut offset: u64, mut bytes: &[u8]) -> Lost {
        let mut lost = Lost::default();
        while !bytes.is_empty() {
            let (position, room) = self.room(offset);
            let n = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
            if let Err((done, e)) =
                self.file_for_writing(offset, &mut lost).map_err(|e| (0, e)).and_then(|f| write_at(&f, position, &bytes[..n]))
            {
                let missing = offset + done as u64..offset + n as u64;
                lost.bytes += missing.end - missing.start;
                lost.reason = Some(format!("output could not be written to {}: {e}", self.path.display()));
                lost.failed = Some(lost.failed.map_or(missing.start, |f| f.start)..missing.end);
                self.add_hole(missing);
            }
            offset += n as u64;
            bytes = &bytes[n..];
        }
        lost
    }

    /// The position of an offset in its file, and the room from there to the file's end.
    fn room(&self, offset: u64) -> (u64, u64) {
        match offset.checked_sub(self.cap) {
            None => (offset, self.cap - offset),
            Some(over) => (over % self.segment, self.segment - over % self.segment),
        }
    }

    fn file_for_writing(&mut self, offset: u64, lost: &mut Lost) -> io::Result<Arc<File>> {
        let Some(over) = offset.checked_sub(self.cap) else {
            if self.main.is_none() {
                self.main = Some(Arc::new(open(&self.path, !self.made)?));
                self.made = true;
            }
            return self.main.clone().ok_or_else(|| io::ErrorKind::NotFound.into());
        };
        let number = over / self.segment;
        if self.tail.back().is_none_or(|(last, _)| *last < number) {
            self.tail.push_back((number, None));
            while self.tail.len() > SEGMENTS {
                self.drop_oldest(lost);
            }
            let path = self.segment_path(number);
            let file = Arc::new(open(&path, true)?);
            if let Some((_, place)) = self.tail.back_mut() {
                *place = Some(file);
            }
        }
        let path = self.segment_path(number);
        let place = self.tail.iter_mut().find(|(n, _)| *n == number).ok_or(io::ErrorKind::NotFound)?;
        if place.1.is_none() {
            place.1 = Some(Arc::new(open(&path, false)?));
        }
        place.1.clone().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Lets go of the oldest segment: the middle of the output is not kept.
    fn drop_oldest(&mut self, lost: &mut Lost) {
        let Some((number, _)) = self.tail.pop_front() else { return };
        let start = self.cap + number * self.segment;
        let gone = start..start + self.segment;
        // What was a hole in it is counted already.
        let counted: u64 = self.holes.iter().map(|h| h.end.min(gone.end).saturating_sub(h.start.max(gone.start))).sum();
        lost.bytes += self.segment - counted;
        lost.reason.get_or_insert_with(|| over_cap(self.cap));
        self.holes.retain(|h| h.start < gone.start || h.end > gone.end);
        // A file that cannot be removed only takes room.
        let _ = std::fs::remove_file(self.segment_path(number));
    }

    fn segment_path(&self, number: u64) -> PathBuf {
        with_suffix(&self.path, &format!(".tail{number}"))
    }

    /// The stretches that are missing.
    pub(super) fn holes(&self) -> &[Range<u64>] {
        &self.holes
    }

    /// Notes that a stretch is missing. Stretches come in order.
    pub(super) fn add_hole(&mut self, hole: Range<u64>) {
        let many = self.holes.len() >= HOLES;
        match self.holes.last_mut() {
            Some(last) if many || last.end == hole.start => last.end = hole.end,
            _ => self.holes.push(hole),
        }
    }

    /// Finds a byte that is not in memory. `written` is the end of what was given to the disk.
    pub(super) fn place(&mut self, offset: u64, written: u64) -> io::Result<Place> {
        if offset >= self.cap {
            let first = self.tail.front().map_or(written, |(n, _)| self.cap + n * self.segment);
            if offset < first {
                return Ok(Place::Missing { until: first.min(written) });
            }
        }
        if let Some(hole) = self.holes.iter().find(|h| h.contains(&offset)) {
            return Ok(Place::Missing { until: hole.end });
        }
        let (position, room) = self.room(offset);
        let until_hole = self.holes.iter().find(|h| h.start > offset).map_or(u64::MAX, |h| h.start - offset);
        let len = room.min(until_hole).min(written.saturating_sub(offset));
        let file = self.file_for_reading(offset)?;
        Ok(Place::At { file, position, len })
    }

    fn file_for_reading(&self, offset: u64) -> io::Result<Arc<File>> {
        let (held, path) = match offset.checked_sub(self.cap) {
            None => (self.main.clone(), self.path.clone()),
            Some(over) => {
                let number = over / self.segment;
                let held = self.tail.iter().find(|(n, _)| *n == number).and_then(|(_, f)| f.clone());
                (held, self.segment_path(number))
            }
        };
        held.map_or_else(|| File::open(path).map(Arc::new), Ok)
    }

    /// Closes the files until they are needed again: an ended log holds no descriptor.
    pub(super) fn close(&mut self) {
        self.main = None;
        self.index = None;
        self.tail.iter_mut().for_each(|(_, file)| *file = None);
    }
}

/// Says why the middle of a log is not there.
pub(super) fn over_cap(cap: u64) -> String {
    format!("the log is over its cap of {cap} bytes: the middle is not kept")
}

/// Whether a stretch of a file was never written.
#[cfg(target_os = "linux")]
fn hole(file: &File, len: u64) -> io::Result<bool> {
    if len == 0 {
        return Ok(false);
    }
    Ok(rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(0))? < len)
}

/// Whether a stretch of a file was never written: not known here.
#[cfg(not(target_os = "linux"))]
fn hole(_file: &File, _len: u64) -> io::Result<bool> {
    Ok(false)
}

/// How much of the end a log with this cap keeps at least, beyond its beginning.
pub fn segment(cap: u64) -> u64 {
    (cap / 8).clamp(SEGMENT.start, SEGMENT.end)
}

/// How long a log with this cap may grow before the byte at an offset is not kept any more.
pub(super) fn reach(cap: u64, offset: u64) -> u64 {
    let segment = segment(cap);
    cap + (offset.saturating_sub(cap) / segment + SEGMENTS as u64) * segment
}

/// Brings what was written of a log to the disk itself, to be there after a power cut too. Blocking.
pub fn sync(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name().and_then(|n| n.to_str()) else { return Ok(()) };
    let folder = path.parent().unwrap_or(Path::new("."));
    for entry in std::fs::read_dir(folder)?.flatten() {
        let file = entry.file_name();
        let rest = file.to_str().and_then(|f| f.strip_prefix(name));
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(".tail")) {
            File::open(entry.path())?.sync_data()?;
        }
    }
    Ok(())
}

/// Gives a log whose files do not belong together other names, `.damaged` behind each: nothing of it is lost. Blocking.
pub fn put_aside(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name().and_then(|n| n.to_str()) else { return Ok(()) };
    let folder = path.parent().unwrap_or(Path::new("."));
    for entry in std::fs::read_dir(folder)?.flatten() {
        let file = entry.file_name();
        let rest = file.to_str().and_then(|f| f.strip_prefix(name));
        if rest.is_some_and(|rest| rest.is_empty() || rest == ".idx" || rest.starts_with(".tail") && !rest.ends_with(".damaged")) {
            let mut aside = file.clone();
            aside.push(".damaged");
            std::fs::rename(entry.path(), folder.join(aside))?;
        }
    }
    Ok(())
}

/// The file that says which bytes were stderr.
pub(super) fn index_path(log: &Path) -> PathBuf {
    with_suffix(log, ".idx")
}

/// Appends to the name of a file.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Opens a file of ours for reading and writing.
fn open(path: &Path, fresh: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(fresh).truncate(fresh).mode(0o600).open(path)
}

/// Writes all bytes at a position, or says how many were written before it failed.
fn write_at(file: &File, position: u64, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], position + done as u64) {
            Ok(0) => return Err((done, io::ErrorKind::WriteZero.into())),
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err((done, e)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn read(disk: &mut Disk, offset: u64, written: u64) -> Result<Vec<u8>, u64> {
        match disk.place(offset, written).unwrap() {
            Place::Missing { until } => Err(until),
            Place::At { file, position, len } => {
                let mut bytes = vec![0; usize::try_from(len).unwrap()];
                file.read_exact_at(&mut bytes, position).unwrap();
                Ok(bytes)
            }
        }
    }

    #[test]
    fn over_the_cap_head_and_tail_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut disk = Disk::new(path.clone(), 100);
        let segment = 64 * 1024_u64;
        let all: Vec<u8> = (0..100 + segment * 4 + 10).map(|i| (i % 251) as u8).collect();
        let mut lost = 0;
        for (i, piece) in all.chunks(10_000).enumerate() {
            lost += disk.write(i as u64 * 10_000, piece).bytes;
        }
        let written = all.len() as u64;
        assert_eq!(lost, segment * 3);
        assert_eq!(read(&mut disk, 0, written).unwrap(), &all[..100]);
        assert_eq!(read(&mut disk, 100, written), Err(100 + segment * 3));
        let tail = usize::try_from(100 + segment * 3).unwrap();
        assert_eq!(read(&mut disk, tail as u64, written).unwrap(), &all[tail..tail + 65536]);
        assert_eq!(read(&mut disk, 100 + segment * 4, written).unwrap().len(), 10);
        disk.close();
        assert_eq!(read(&mut disk, 50, written).unwrap(), &all[50..100]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
        sync(&path).unwrap();
        put_aside(&path).unwrap();
        let names = |dir: &Path| std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>();
        let aside = names(dir.path());
        assert!(aside.len() == 3 && aside.iter().all(|name| name.starts_with("log") && name.ends_with(".damaged")), "{aside:?}");
        assert_eq!(Disk::reopen(path.clone(), 100).map(|(_, total, _)| total), Ok(0));
        put_aside(&path).unwrap();
        assert_eq!(names(dir.path()).len(), 3, "what was put aside stays");
    }

    #[test]
    fn what_cannot_be_written_is_a_hole_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("later");
        let mut disk = Disk::new(folder.join("log"), 1000);
        let lost = disk.write(0, b"gone");
        assert_eq!(lost.bytes, 4);
        assert!(lost.reason.unwrap().contains("could not be written"));
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(disk.write(4, b"kept").bytes, 0);
        assert_eq!(read(&mut disk, 0, 8), Err(4));
        assert_eq!(read(&mut disk, 4, 8).unwrap(), b"kept");
    }
}
