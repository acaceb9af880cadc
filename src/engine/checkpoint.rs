//! The background processes that run, on disk: what a later daemon looks for.
//!
//! Invariant: written whole or not at all, before anybody is told of a start or an end; 0600, and without secrets of known shape. Format
//! version 1; a reader refuses other versions without a fault, and leaves such a file where it is.

use crate::model::redact::Redactor;
use crate::model::{Millis, ProcessInfo, Who};
use crate::session::Spot;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const VERSION: u32 = 1;

/// One background process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) backend: String,
    pub(crate) session: String,
    pub(crate) command: String,
    pub(crate) who: Who,
    pub(crate) started: Millis,
    pub(crate) cwd: String,
    pub(crate) spot: Spot,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    processes: Vec<Kept>,
}

/// Only to tell another version from damage.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl Kept {
    /// Makes the entry of a row.
    pub(crate) fn new(info: &ProcessInfo, spot: Spot) -> Self {
        Self {
            backend: info.backend.clone(),
            session: info.session.clone(),
            command: Redactor::default().text(&info.command).into_owned(),
            who: info.who.clone(),
            started: info.started,
            cwd: info.cwd.clone(),
            spot,
        }
    }
}

/// Reads the file. An error says why it is not used; none there is an empty list. Blocking.
pub(crate) fn read(path: &Path) -> Result<Vec<Kept>, String> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let found: Version = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    if found.version != VERSION {
        return Err(format!("it is of version {}, this is version {VERSION}", found.version));
    }
    serde_json::from_slice::<File>(&text).map(|file| file.processes).map_err(|error| error.to_string())
}

/// Writes the file: a temporary one on the disk, then a rename. Blocking.
pub(crate) fn write(path: &Path, processes: Vec<Kept>) -> io::Result<()> {
    let text = serde_json::to_vec(&File { version: VERSION, processes })?;
    let temporary = path.with_extension("new");
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(&text)?;
    file.sync_data()?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// What version 1 wrote must always be read.
    const OLD: &str = r#"{"version":1,"processes":[{"backend":"gpu","session":"main","command":"make","who":{"kind":"operator","name":"you"},"started":5,"cwd":"/srv","spot":{"id":"k7f3q2","root":"/root/.local/state/quarterdeck/background","pid":44,"start":"123","boot":"b","nonce":"0123456789abcdef"}}]}"#;

    #[test]
    fn a_file_of_version_1_is_read_and_another_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("background.json");
        assert_eq!(read(&path), Ok(vec![]));
        std::fs::write(&path, OLD).expect("written");
        let kept = read(&path).expect("read");
        assert_eq!((kept[0].spot.pid, kept[0].spot.id.as_str()), (44, "k7f3q2"));
        write(&path, kept.clone()).expect("written");
        assert_eq!(read(&path), Ok(kept));
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, r#"{"version":9,"list":[]}"#).expect("written");
        assert!(read(&path).unwrap_err().contains("version 9"));
        std::fs::write(&path, "{").expect("written");
        assert!(read(&path).is_err());
    }

    #[test]
    fn secrets_of_known_shape_are_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("background.json");
        let kept: Vec<Kept> = serde_json::from_str::<File>(OLD).expect("read").processes;
        let info: ProcessInfo = serde_json::from_value(serde_json::json!({
            "id": "k7f3q2", "backend": "gpu", "session": "main", "who": {"kind": "operator", "name": "you"}, "state": "running", "started": 5,
            "command": "curl -H 'Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345'",
        }))
        .expect("a row");
        write(&path, vec![Kept::new(&info, kept[0].spot.clone())]).expect("written");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(!text.contains("ghp_0123456789") && text.contains("[redacted]"), "{text}");
    }
}
