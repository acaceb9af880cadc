//! Files of ours that a later daemon reads: JSON with the version of its format.
//!
//! Invariant: written whole or not at all, 0600, and on the disk when that is said, name and all. What cannot be read is put aside before
//! anything is written in its place.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Only to tell another version from damage.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Reads a file of one of these versions; none where there is none. An error says why it is not used, and where it is now: it was put
/// aside. Blocking.
pub(super) fn read<T: DeserializeOwned>(path: &Path, versions: &RangeInclusive<u32>) -> Result<Option<T>, String> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
    };
    let parsed = serde_json::from_slice(&text).map_err(|error| error.to_string()).and_then(|Version { version }| {
        if !versions.contains(&version) {
            return Err(format!("it is of version {version}, this is version {}", versions.end()));
        }
        serde_json::from_slice(&text).map_err(|error| error.to_string())
    });
    parsed.map(Some).map_err(|why| match put_aside(path) {
        Ok(to) => format!("{why}; the file is {to} now"),
        Err(error) => format!("{why}; {} could not be put aside ({error}) and will be written over", path.display()),
    })
}

/// Gives it a name that nothing is written to: the first that is free of a few, then the last of them again.
fn put_aside(path: &Path) -> io::Result<String> {
    const MOST: u32 = 5;
    let name = |n: u32| format!("{}.damaged-{n}", path.display());
    let to = (1..MOST).map(name).find(|to| !Path::new(to).exists()).unwrap_or_else(|| name(MOST));
    std::fs::rename(path, &to).map(|()| to)
}

/// Writes a file that holds its version: a temporary one on the disk, then a rename. Blocking.
pub(super) fn write<T: Serialize>(path: &Path, content: &T) -> io::Result<()> {
    let text = serde_json::to_vec(content)?;
    let temporary = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&text)?;
    file.sync_data()?;
    std::fs::rename(&temporary, path)?;
    // Its name too: else a loss of power gives the old one back.
    path.parent().map_or(Ok(()), |folder| std::fs::File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    struct Content {
        version: u32,
        words: Vec<String>,
    }

    #[test]
    fn what_cannot_be_read_is_kept_beside_what_is_written_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.json");
        assert_eq!(read::<Content>(&path, &(1..=2)), Ok(None));
        for (n, text) in [(1, "{"), (2, r#"{"version":9,"words":[]}"#), (3, r#"{"version":2}"#)] {
            std::fs::write(&path, text).expect("written");
            let why = read::<Content>(&path, &(1..=2)).expect_err("it is not read");
            assert!(why.contains(&format!("x.json.damaged-{n} now")), "{why}");
            assert_eq!(std::fs::read_to_string(folder.path().join(format!("x.json.damaged-{n}"))).expect("there"), text);
        }
        let content = Content { version: 1, words: vec!["a".into()] };
        write(&path, &content).expect("written");
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&path, &(1..=2)), Ok(Some(content)));
    }
}
