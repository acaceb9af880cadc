//! Copying a stretch of a log's file to one of our streams, inside the kernel where that can be done.
//!
//! Invariant: exactly the bytes that were named are written, or it fails.

use super::sink::{until_writable, write_whole};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Most bytes of one step.
const STEP: usize = 1 << 20;
/// Most bytes that are held at once where the kernel does not copy by itself.
const BUFFER: usize = 128 << 10;

/// Copies `len` bytes from a position of a file on.
pub(super) fn copy(target: &mut File, source: &File, position: u64, len: u64) -> io::Result<()> {
    let (mut at, end) = (position, position + len);
    while at < end {
        let step = usize::try_from(end - at).map_or(STEP, |left| left.min(STEP));
        match rustix::fs::sendfile(&*target, source, Some(&mut at), step) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the log is shorter than it was")),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => until_writable(target)?,
            // A target that cannot be written so: a file opened to append, some devices.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OVERFLOW) => return through_memory(target, source, at, end),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

fn through_memory(target: &mut File, source: &File, mut at: u64, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    while at < end {
        let step = usize::try_from(end - at).map_or(BUFFER, |left| left.min(BUFFER));
        source.read_exact_at(&mut buffer[..step], at)?;
        write_whole(target, &buffer[..step])?;
        at += step as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn source(len: usize) -> (File, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        (file, bytes)
    }

    #[test]
    fn a_pipe_gets_exactly_the_stretch() {
        let (file, bytes) = source(3_000_000);
        let (mut reader, writer) = io::pipe().unwrap();
        let mut writer = File::from(std::os::fd::OwnedFd::from(writer));
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let copying = std::thread::spawn(move || copy(&mut writer, &file, 1_000, 2_500_000));
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        copying.join().unwrap().unwrap();
        assert!(got == bytes[1_000..2_501_000]);
    }

    #[test]
    fn a_file_that_is_appended_to_gets_it_too() {
        let (file, bytes) = source(300_000);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        std::fs::write(&path, "before").unwrap();
        let mut out = File::options().append(true).open(&path).unwrap();
        copy(&mut out, &file, 7, 200_000).unwrap();
        assert!(std::fs::read(&path).unwrap() == [b"before", &bytes[7..200_007]].concat());
    }

    #[test]
    fn a_file_that_is_too_short_is_an_error() {
        let (file, _) = source(100);
        let mut out = tempfile::tempfile().unwrap();
        assert_eq!(copy(&mut out, &file, 50, 100).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
