//! The files of background processes of this machine, and what the kernel says of them. Blocking, short.
//!
//! Invariant: a file is watched before its size is compared with what was read, so no write between the two is missed.

use super::super::{Followed, Heard, ended};
use crate::session::background::Spot;
use crate::shell::background::{Cap, How, STEP};
use rustix::event::{Timespec, epoll};
use rustix::fs::{FallocateFlags, fallocate, inotify};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Most bytes of one process in one look, so that a look at all of them stays small.
const PIECE: u64 = 128 * 1024;
/// Most bytes of what a shell told us at its end.
const TOLD_MAX: u64 = 64 * 1024;
/// The event of a file; processes have theirs from 1 on.
const FILES: u64 = 0;

/// All that are followed.
pub(super) struct Look {
    epoll: OwnedFd,
    inotify: Option<OwnedFd>,
    cap: Cap,
    boot: String,
    known: BTreeMap<String, One>,
    /// Those that may have something to tell.
    due: BTreeSet<String>,
    watches: HashMap<i32, String>,
    processes: BTreeMap<u64, String>,
    next: u64,
    /// A watch could not be had.
    blind: bool,
}

/// One of them.
struct One {
    folder: PathBuf,
    log: Option<File>,
    /// Tells of its end; none once it has told, or where there is nothing to tell of.
    pidfd: Option<OwnedFd>,
    hole: Hole,
    /// Not all of it could be looked at: it is met again.
    unsure: bool,
}

/// What of a log is not there any more: everything before `gone`, and `from..to`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Hole {
    gone: u64,
    from: u64,
    to: u64,
}

impl Look {
    /// Looks at nothing yet. The descriptor tells when there is something to look at.
    pub(super) fn new(epoll: OwnedFd, cap: Cap) -> Self {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok();
        let inotify = inotify.filter(|fd| epoll::add(&epoll, fd, epoll::EventData::new_u64(FILES), epoll::EventFlags::IN).is_ok());
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(|_| "-".into(), |text| text.trim().to_owned());
        let blind = inotify.is_none();
        Self {
            epoll,
            inotify,
            cap,
            boot,
            known: BTreeMap::new(),
            due: BTreeSet::new(),
            watches: HashMap::new(),
            processes: BTreeMap::new(),
            next: FILES + 1,
            blind,
        }
    }

    /// Whether the kernel does not tell of every write.
    pub(super) fn is_blind(&self) -> bool {
        self.blind
    }

    /// Whether there is more to read at once.
    pub(super) fn has_more(&self) -> bool {
        !self.due.is_empty()
    }

    /// Gives what is new of these.
    pub(super) fn at(&mut self, list: &[Followed]) -> Vec<(String, Heard)> {
        self.take_events();
        self.known.retain(|id, _| list.iter().any(|f| f.spot.id == *id));
        let mut heard = Vec::new();
        for followed in list {
            let id = &followed.spot.id;
            if !self.known.contains_key(id) {
                let one = self.meet(&followed.spot);
                self.known.insert(id.clone(), one);
                self.due.insert(id.clone());
            }
            if self.blind || self.due.contains(id) {
                let found = self.one(followed);
                heard.extend(found.map(|found| (id.clone(), found)));
            }
        }
        self.due.retain(|id| self.known.contains_key(id));
        heard
    }

    /// Takes in what the kernel told.
    fn take_events(&mut self) {
        let mut events = [const { MaybeUninit::uninit() }; 64];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        while let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&now)) {
            if events.is_empty() {
                break;
            }
            for event in events.iter() {
                match event.data.u64() {
                    FILES => self.take_writes(),
                    number => self.take_end(number),
                }
            }
        }
    }

    fn take_writes(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let mut buffer = [const { MaybeUninit::uninit() }; 4096];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) {
                self.due.extend(self.known.keys().cloned());
            }
            // The watch is over with its first event, and says so with another one, as it does when the file is removed.
            if event.events().intersects(inotify::ReadFlags::MODIFY | inotify::ReadFlags::IGNORED)
                && let Some(id) = self.watches.remove(&event.wd())
            {
                self.due.insert(id);
            }
        }
    }

    fn take_end(&mut self, number: u64) {
        let Some(id) = self.processes.remove(&number) else { return };
        if let Some(one) = self.known.get_mut(&id)
            && let Some(pidfd) = one.pidfd.take()
        {
            // It goes with its descriptor all the same.
            let _ = epoll::delete(&self.epoll, &pidfd);
            self.due.insert(id);
        }
    }

    /// Gets to know one: its files, and its process when it is still the one.
    fn meet(&mut self, spot: &Spot) -> One {
        let folder = Path::new(&spot.root).join(&spot.id);
        // Whoever looks after the size of its log leaves that to us.
        let by = write(&folder, "by", &std::process::id().to_string());
        if let Err(error) = by {
            tracing::debug!(%error, id = spot.id, "a background process has no files any more");
        }
        let hole = fs::read_to_string(folder.join("hole")).ok().and_then(|text| Hole::read(&text)).unwrap_or_default();
        let (pidfd, unsure) = match self.process(spot) {
            There::Yes(fd) => (Some(fd), false),
            There::No => (None, false),
            There::Unknown => (None, true),
        };
        if let Some(fd) = &pidfd {
            let number = self.next;
            self.next += 1;
            match epoll::add(&self.epoll, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN) {
                Ok(()) => drop(self.processes.insert(number, spot.id.clone())),
                Err(_) => self.blind = true,
            }
        }
        let (log, unread) = match fs::OpenOptions::new().read(true).write(true).open(folder.join("log")) {
            Ok(log) => (Some(log), false),
            Err(error) => (None, error.kind() != std::io::ErrorKind::NotFound),
        };
        // It is met again: short of descriptors, nothing is known of it, and what is not known has not ended.
        let unsure = unsure || unread;
        self.blind |= unsure;
        One { folder, log, pidfd, hole, unsure }
    }

    /// A handle on the guardian, when it is there. A number that is another's now is not taken for it.
    fn process(&self, spot: &Spot) -> There {
        let Some(pid) = i32::try_from(spot.pid).ok().and_then(Pid::from_raw).filter(|_| spot.boot == self.boot) else { return There::No };
        let fd = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(Errno::SRCH) => return There::No,
            Err(_) => return There::Unknown,
        };
        match begun(spot.pid) {
            Some(start) if start == spot.start => There::Yes(fd),
            Some(_) => There::No,
            None if has_ended(&fd) => There::No,
            None => There::Unknown,
        }
    }

    /// Looks at one.
    fn one(&mut self, followed: &Followed) -> Option<Heard> {
        let id = &followed.spot.id;
        if self.known.get(id)?.unsure {
            let again = self.meet(&followed.spot);
            self.known.insert(id.clone(), again);
        }
        let one = self.known.get_mut(id)?;
        let over = match &one.pidfd {
            None => !one.unsure,
            // Without its event it is asked.
            Some(fd) => self.blind && has_ended(fd),
        };
        one.give_back(followed.kept);
        let offset = followed.offset;
        let mut size = one.size();
        if size <= offset && !over {
            // Watched first, measured then.
            match self.inotify.as_ref().map(|fd| inotify::add_watch(fd, one.folder.join("log"), MODIFIED)) {
                Some(Ok(watch)) => drop(self.watches.insert(watch, id.clone())),
                Some(Err(Errno::NOENT)) => {}
                _ => self.blind = true,
            }
            size = one.size();
        }
        if size > offset {
            // It is due again: what is behind this piece, or the watch, comes then.
            return Some(one.read(offset, size, self.cap));
        }
        self.due.remove(id);
        over.then(|| one.end(&followed.spot, &self.boot))
    }
}

/// Whether a process is there.
enum There {
    Yes(OwnedFd),
    No,
    /// It cannot be looked at now.
    Unknown,
}

const MODIFIED: inotify::WatchFlags = inotify::WatchFlags::MODIFY.union(inotify::WatchFlags::ONESHOT);

impl One {
    fn size(&self) -> u64 {
        self.log.as_ref().and_then(|log| log.metadata().ok()).map_or(0, |data| data.len())
    }

    /// Reads the next piece.
    fn read(&mut self, offset: u64, size: u64, cap: Cap) -> Heard {
        if let Some(len) = self.hole.at(offset) {
            return Heard::Gap(len);
        }
        let until = if offset < self.hole.from { self.hole.from.min(size) } else { size };
        let mut bytes = vec![0; usize::try_from((until - offset).min(PIECE)).unwrap_or_default()];
        let read = self.log.as_ref().map_or(Ok(()), |log| log.read_exact_at(&mut bytes, offset));
        if let Err(error) = read {
            tracing::warn!(%error, folder = %self.folder.display(), "the output of a background process could not be read");
            return Heard::Gap(until - offset);
        }
        let next = offset + bytes.len() as u64;
        if let Some((hole, from, to)) = self.hole.trimmed(next, size, cap) {
            self.punch(hole, from, to);
        }
        Heard::Output(bytes)
    }

    /// Gives back to the disk what was fetched, in steps.
    fn give_back(&mut self, kept: u64) {
        if let Some((hole, from, to)) = self.hole.given(kept) {
            self.punch(hole, from, to);
        }
    }

    /// Notes what is not there any more, then lets go of it. Where the file system cannot, all stays.
    fn punch(&mut self, hole: Hole, from: u64, to: u64) {
        let Some(log) = &self.log else { return };
        let noted = write(&self.folder, "hole", &format!("{} {} {}", hole.gone, hole.from, hole.to));
        if noted.is_ok() && fallocate(log, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, to - from).is_ok() {
            self.hole = hole;
        } else {
            let Hole { gone, from, to } = self.hole;
            // What is noted is at worst less than what is there.
            let _ = write(&self.folder, "hole", &format!("{gone} {from} {to}"));
        }
    }

    /// Tells how it ended.
    fn end(&self, spot: &Spot, boot: &str) -> Heard {
        let how = match fs::read_to_string(self.folder.join("exit")).ok().as_deref().and_then(exit) {
            Some(how) => how,
            None if spot.boot != boot => How::Boot,
            None => How::Gone,
        };
        let mut told = Vec::new();
        if let Ok(file) = File::open(self.folder.join("rec")) {
            // Cut short, it tells less.
            let _ = std::io::Read::read_to_end(&mut std::io::Read::take(file, TOLD_MAX), &mut told);
        }
        ended(how, &told, &spot.nonce)
    }
}

impl Hole {
    fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
        Some(Self { gone: numbers.next()??, from: numbers.next()??, to: numbers.next()?? })
    }

    /// How many bytes from an offset on are not there.
    fn at(&self, offset: u64) -> Option<u64> {
        let in_middle = (self.from..self.to).contains(&offset).then(|| self.to - offset);
        self.gone.checked_sub(offset).filter(|len| *len > 0).or(in_middle)
    }

    /// What is to be after giving back what was fetched, and from where to where that is new.
    fn given(&self, kept: u64) -> Option<(Self, u64, u64)> {
        if kept < self.gone + 2 * STEP {
            return None;
        }
        let gone = kept - STEP;
        let (from, to) = if gone >= self.to { (0, 0) } else { (self.from, self.to) };
        Some((Self { gone, from, to }, self.gone, gone))
    }

    /// What is to be after the middle is let go of, when the log is over its cap and `read` bytes of it were read.
    fn trimmed(&self, read: u64, size: u64, cap: Cap) -> Option<(Self, u64, u64)> {
        let mut from = cap.head.max(read);
        if size <= from + 2 * cap.tail {
            return None;
        }
        let (to, mut gone) = (size - cap.tail, self.gone);
        if (self.from..self.to).contains(&from) {
            from = self.from;
        } else if read >= self.to {
            gone = gone.max(self.to);
        }
        Some((Self { gone, from, to }, from, to))
    }
}

/// Reads what the guardian wrote at the end.
fn exit(text: &str) -> Option<How> {
    let (code, rest) = text.trim_end().split_once(' ').unwrap_or((text.trim_end(), ""));
    // A code that was cut off by a full disk is as good as none.
    let code = code.parse().ok().filter(|_| text.ends_with('\n'))?;
    Some(if rest == "late" { How::Late } else { How::Exit(code) })
}

/// When a living process began: field 22 of its stat.
fn begun(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    (!matches!(fields.first(), Some(&"Z" | &"X"))).then(|| fields.get(19).map(|start| (*start).to_owned()))?
}

fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut wanted = [rustix::event::PollFd::new(pidfd, rustix::event::PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut wanted, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Writes a small file of a process's folder whole, or not at all.
fn write(folder: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    fs::rename(new, folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: Cap = Cap { head: 100, tail: 10 };

    #[test]
    fn the_middle_goes_and_what_was_read_does_not_count_as_missing() {
        let none = Hole::default();
        assert_eq!(none.trimmed(0, 120, CAP), None);
        let (hole, from, to) = none.trimmed(0, 150, CAP).unwrap();
        assert_eq!((hole, from, to), (Hole { gone: 0, from: 100, to: 140 }, 100, 140));
        assert_eq!((hole.at(99), hole.at(100), hole.at(139), hole.at(140)), (None, Some(40), Some(1), None));
        // It goes on where it was, until the reader has passed it.
        assert_eq!(hole.trimmed(50, 200, CAP).unwrap(), (Hole { gone: 0, from: 100, to: 190 }, 100, 190));
        assert_eq!(hole.trimmed(145, 200, CAP).unwrap(), (Hole { gone: 140, from: 145, to: 190 }, 145, 190));
    }

    #[test]
    fn what_was_fetched_is_given_back_in_steps() {
        let hole = Hole { gone: 0, from: 100, to: 140 };
        assert_eq!(hole.given(2 * STEP - 1), None);
        let (next, from, to) = hole.given(2 * STEP).unwrap();
        assert_eq!((next, from, to), (Hole { gone: STEP, from: 0, to: 0 }, 0, STEP));
        assert_eq!((next.at(5), next.at(STEP)), (Some(STEP - 5), None));
        assert_eq!(Hole::read("1 2 3\n"), Some(Hole { gone: 1, from: 2, to: 3 }));
        assert_eq!((Hole::read("1 2"), Hole::read("")), (None, None));
    }

    #[test]
    fn the_guardians_last_word() {
        assert_eq!(exit("7\n"), Some(How::Exit(7)));
        assert_eq!(exit("143 late\n"), Some(How::Late));
        assert_eq!((exit("1"), exit(""), exit("x\n")), (None, None, None));
    }
}
