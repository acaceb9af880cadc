//! Changes known_hosts files: adds a line, takes the lines of a host out.
//!
//! Invariant: what is not about the host stays byte for byte; the file is replaced in one step, so that neither a crash nor
//! another reader ever sees half of it.

use super::patterns::matches;
use super::{Marker, split};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// How often an edit starts over because another program changed the file meanwhile.
const TRIES: usize = 5;

/// Changes of this process, one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Adds a line with one write, so that other programs that add lines are not disturbed. Blocking.
pub(in crate::backend::ssh) fn append(file: &Path, line: &str) -> io::Result<()> {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    append_in_turn(file, line)
}

fn append_in_turn(file: &Path, line: &str) -> io::Result<()> {
    if let Some(dir) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut opened = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(file)?;
    let mut text = Vec::new();
    opened.read_to_end(&mut text)?;
    if text.split(|b| *b == b'\n').any(|l| l.trim_ascii_end() == line.as_bytes()) {
        // Another backend on the same host was faster.
        return Ok(());
    }
    let open_ended = ends_open(&mut opened)?;
    let whole = if open_ended { format!("\n{line}\n") } else { format!("{line}\n") };
    opened.write_all(whole.as_bytes())
}

/// Whether the last line lacks its newline.
fn ends_open(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last[0] != b'\n')
}

/// Takes a host's plain keys out of a file, and adds a line when one is given; gives how many lines were about the host.
/// Blocking. Nothing is changed when one of them cannot be.
pub(in crate::backend::ssh) fn remove(file: &Path, name: &str, then: Option<&str>) -> io::Result<usize> {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..TRIES {
        let before = match std::fs::read(file) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return then.map_or(Ok(()), |line| append_in_turn(file, line)).map(|()| 0);
            }
            Err(e) => return Err(e),
        };
        let (mut after, count) = without(&before, name).map_err(|line| {
            io::Error::other(format!("line {line} names the host by a pattern that other hosts may share; edit {} by hand", file.display()))
        })?;
        if let Some(line) = then {
            if after.last().is_some_and(|b| *b != b'\n') {
                after.push(b'\n');
            }
            after.extend_from_slice(line.as_bytes());
            after.push(b'\n');
        }
        if after == before || replace(file, &before, &after)? {
            return Ok(count);
        }
    }
    Err(io::Error::other("another program keeps changing it"))
}

/// Puts the new content in the place of the old; false when the old one is not there any more.
fn replace(file: &Path, before: &[u8], after: &[u8]) -> io::Result<bool> {
    // A link stays a link.
    let real = std::fs::canonicalize(file)?;
    let mode = std::fs::metadata(&real)?.permissions().mode();
    let folder = real.parent().unwrap_or(Path::new("/"));
    let beside = folder.join(format!(".known_hosts.qd-{}", uuid::Uuid::new_v4().simple()));
    let written = (|| {
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        new.write_all(after)?;
        new.set_permissions(std::fs::Permissions::from_mode(mode & 0o7777))?;
        new.sync_all()?;
        if std::fs::read(&real)? != before {
            return Ok(false);
        }
        std::fs::rename(&beside, &real).map(|()| true)
    })();
    if !matches!(written, Ok(true)) {
        // What is left of an edit that failed; its own failure is the one to tell.
        drop(std::fs::remove_file(&beside));
    }
    written
}

/// The content without a host's plain keys, and how many lines were about it; the number of a line that cannot be changed
/// without changing what it says of other hosts.
fn without(content: &[u8], name: &str) -> Result<(Vec<u8>, usize), usize> {
    let mut kept = Vec::with_capacity(content.len());
    let mut count = 0;
    for (at, line) in content.split_inclusive(|b| *b == b'\n').enumerate() {
        match line_without(line, name) {
            Change::Keep => kept.extend_from_slice(line),
            Change::Drop => count += 1,
            Change::Names(line) => {
                kept.extend_from_slice(&line);
                count += 1;
            }
            Change::Shared => return Err(at + 1),
        }
    }
    Ok((kept, count))
}

enum Change {
    Keep,
    Drop,
    /// The line with one name less.
    Names(Vec<u8>),
    /// A pattern names it.
    Shared,
}

fn line_without(line: &[u8], name: &str) -> Change {
    // As it is read: a comment that is no UTF-8 makes a line no less valid.
    let text = String::from_utf8_lossy(line);
    let Some((Marker::None, list, _)) = split(&text) else { return Change::Keep };
    if !matches(list, name) {
        return Change::Keep;
    }
    if list.starts_with("|1|") {
        return Change::Drop;
    }
    let others: Vec<&str> = list.split(',').filter(|pattern| pattern.to_lowercase() != name).collect();
    if others.iter().all(|pattern| pattern.starts_with('!')) {
        return Change::Drop;
    }
    let others = others.join(",");
    if matches(&others, name) {
        return Change::Shared;
    }
    let Some(at) = line.windows(list.len()).position(|bytes| bytes == list.as_bytes()) else { return Change::Shared };
    Change::Names([&line[..at], others.as_bytes(), &line[at + list.len()..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, name: &str) -> Result<(String, usize), usize> {
        without(text.as_bytes(), name).map(|(bytes, n)| (String::from_utf8(bytes).expect("text"), n))
    }

    #[test]
    fn only_the_hosts_own_names_go() {
        let text = "# gpu\r\n\n gpu ssh-rsa AA  comment\nweb,GPU,box\tssh-rsa AA x\n@revoked gpu ssh-rsa BB\n@cert-authority * ssh-rsa CC\nweb ssh-rsa AA";
        let after = "# gpu\r\n\nweb,box\tssh-rsa AA x\n@revoked gpu ssh-rsa BB\n@cert-authority * ssh-rsa CC\nweb ssh-rsa AA";
        assert_eq!(cut(text, "gpu"), Ok((after.to_owned(), 2)));
        assert_eq!(cut(text, "none"), Ok((text.to_owned(), 0)));
        assert_eq!(cut("gpu,!gpu2 ssh-rsa AA\n", "gpu"), Ok((String::new(), 1)));
    }

    #[test]
    fn a_comment_that_is_no_text_keeps_no_key_trusted() {
        assert_eq!(without(b"gpu ssh-rsa AA caf\xe9\nweb ssh-rsa AA\n", "gpu"), Ok((b"web ssh-rsa AA\n".to_vec(), 1)));
        assert_eq!(without(b"web,gpu ssh-rsa AA caf\xe9\n", "gpu"), Ok((b"web ssh-rsa AA caf\xe9\n".to_vec(), 1)));
        assert_eq!(without(b"caf\xe9,gpu,box ssh-rsa AA\n", "gpu"), Err(1));
    }

    #[test]
    fn a_pattern_that_others_share_is_left_to_the_person() {
        assert_eq!(cut("a ssh-rsa AA\n*.lab,gpu ssh-rsa AA\n", "gpu.lab"), Err(2));
        assert_eq!(cut("gpu.lab,*.lab ssh-rsa AA\n", "gpu.lab"), Err(1));
    }

    #[test]
    fn the_file_keeps_its_mode_and_links_stay_links() {
        let dir = tempfile::tempdir().expect("a folder");
        let (real, link) = (dir.path().join("real"), dir.path().join("known_hosts"));
        std::fs::write(&real, b"gpu ssh-rsa AA\n\xff\xfe raw\nweb ssh-rsa AA").expect("write");
        std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).expect("mode");
        std::os::unix::fs::symlink(&real, &link).expect("link");
        assert_eq!(remove(&link, "gpu", Some("gpu ssh-rsa BB")).expect("edited"), 1);
        assert_eq!(std::fs::read(&real).expect("read"), b"\xff\xfe raw\nweb ssh-rsa AA\ngpu ssh-rsa BB\n");
        assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(std::fs::metadata(&real).expect("there").permissions().mode() & 0o7777, 0o640);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 2, "nothing is left beside it");
        assert_eq!(remove(&dir.path().join("none"), "gpu", None).expect("nothing to do"), 0);
    }
}
