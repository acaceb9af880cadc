//! The session's own file on the daemon's side: what makes it the same session after a restart of the daemon.
//!
//! Invariant: it is replaced in one step, readable by nobody else, and names a copy of the snapshot that was whole before it
//! was named.

use super::error::SessionError;
use super::files::private;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What the file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Kept {
    /// The session's id.
    pub(super) id: String,
    /// The backend's name.
    pub(super) backend: String,
    /// The session's name.
    pub(super) name: String,
    /// Its directory.
    pub(super) cwd: Bytes,
    /// OLDPWD.
    pub(super) oldpwd: Option<Bytes>,
    /// Commands that changed or confirmed it.
    pub(super) generation: u64,
    /// The kind of shell that wrote the snapshot; empty before the first capture.
    pub(super) kind: String,
    /// Its folder on the backend; none where nothing is writable.
    pub(super) folder: Option<String>,
    /// The name of the snapshot's files in the folder.
    pub(super) snapshot: String,
    /// Earlier snapshots' names, oldest first.
    pub(super) past: Vec<String>,
    /// SHELLOPTS and BASHOPTS to set.
    pub(super) options: (String, String),
    /// SHELLOPTS and BASHOPTS of a plain shell there.
    pub(super) base: (String, String),
    /// Whether the snapshot must be loaded late.
    pub(super) late: bool,
    /// Whether the login gave AI_AGENT itself.
    pub(super) agent_set: bool,
    /// The backend's boot id.
    pub(super) boot_id: String,
    /// The generation of the copy beside this file.
    pub(super) copy: Option<u64>,
}

/// Bytes that are nearly always text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Bytes {
    /// Text.
    Text(String),
    /// Anything else.
    Raw(Vec<u8>),
    /// Nothing.
    #[default]
    None,
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        String::from_utf8(bytes.to_vec()).map_or_else(|e| Self::Raw(e.into_bytes()), Self::Text)
    }
}

impl From<Bytes> for Vec<u8> {
    fn from(bytes: Bytes) -> Self {
        match bytes {
            Bytes::Text(text) => text.into_bytes(),
            Bytes::Raw(raw) => raw,
            Bytes::None => Self::new(),
        }
    }
}

/// A snapshot's two texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Texts {
    /// Variables.
    pub(super) variables: Vec<u8>,
    /// Functions and aliases.
    pub(super) functions: Vec<u8>,
}

/// The place of the file.
#[derive(Clone, Debug)]
pub(super) struct Own {
    dir: PathBuf,
    stem: String,
}

impl Own {
    /// Names the file of a session in a folder.
    pub(super) fn new(dir: &Path, backend: &str, name: &str) -> Self {
        let digest = Sha256::digest(format!("{backend}\0{name}"));
        let stem = digest[..8].iter().map(|b| format!("{b:02x}")).collect();
        Self { dir: dir.to_owned(), stem }
    }

    /// Reads the file; none when there is none, or when it cannot be understood (it is kept aside then). Blocking, short.
    pub(super) fn load(&self) -> Result<Option<Kept>, SessionError> {
        let path = self.file("json");
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(SessionError::Own { path, source }),
        };
        match serde_json::from_slice(&text) {
            Ok(kept) => Ok(Some(kept)),
            Err(error) => {
                let aside = self.file("damaged");
                tracing::warn!(%error, path = %path.display(), "a session's file is damaged: put aside, the session begins anew");
                std::fs::rename(&path, &aside).map_err(|source| SessionError::Own { path, source })?;
                Ok(None)
            }
        }
    }

    /// Writes the file. Blocking.
    pub(super) fn save(&self, kept: &Kept) -> io::Result<()> {
        let text = serde_json::to_vec(kept).map_err(io::Error::other)?;
        self.replace("json", &text)
    }

    /// Writes the copy of a generation's snapshot. Blocking.
    pub(super) fn save_copy(&self, generation: u64, texts: &Texts) -> io::Result<()> {
        self.replace(&format!("{generation}.v"), &texts.variables)?;
        self.replace(&format!("{generation}.f"), &texts.functions)
    }

    /// Reads the copy of a generation. Blocking.
    pub(super) fn load_copy(&self, generation: u64) -> io::Result<Texts> {
        let variables = std::fs::read(self.file(&format!("{generation}.v")))?;
        let functions = std::fs::read(self.file(&format!("{generation}.f")))?;
        Ok(Texts { variables, functions })
    }

    /// Removes copies of other generations than this one; with none, everything. Blocking.
    pub(super) fn remove_others(&self, keep: Option<u64>) -> io::Result<()> {
        let keep = keep.map(|g| [format!("{}.{g}.v", self.stem), format!("{}.{g}.f", self.stem), format!("{}.json", self.stem)]);
        let prefix = format!("{}.", self.stem);
        let entries = match std::fs::read_dir(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let ours = name.to_str().is_some_and(|n| n.starts_with(&prefix) && keep.as_ref().is_none_or(|k| !k.iter().any(|x| x == n)));
            if ours {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn file(&self, end: &str) -> PathBuf {
        self.dir.join(format!("{}.{end}", self.stem))
    }

    /// Replaces a file in one step.
    fn replace(&self, end: &str, content: &[u8]) -> io::Result<()> {
        let new = self.file(&format!("{end}.new"));
        match private(&new, content) {
            // Somebody removed the folder under us.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
                private(&new, content)?;
            }
            other => other?,
        }
        std::fs::rename(&new, self.file(end))
    }
}

/// Reads which sessions have a file in a folder: backend, name, directory, generation. Damaged files are left out. Blocking.
pub(super) fn all(dir: &Path) -> io::Result<Vec<Kept>> {
    let mut out = Vec::new();
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(out),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "json")
            && let Ok(text) = std::fs::read(&path)
            && let Ok(kept) = serde_json::from_slice::<Kept>(&text)
        {
            out.push(kept);
        }
    }
    out.sort_by(|a, b| (&a.backend, &a.name).cmp(&(&b.backend, &b.name)));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_was_removed_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("sessions").join("gpu");
        let own = Own::new(&dir, "gpu", "main");
        own.remove_others(None).unwrap();
        let kept = Kept { backend: "gpu".into(), name: "main".into(), ..Kept::default() };
        own.save(&kept).unwrap();
        assert_eq!(own.load().unwrap(), Some(kept));
        assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_session_is_kept_with_its_copy_and_readable_by_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let own = Own::new(dir.path(), "gpu", "it's main");
        assert_eq!(own.load().unwrap(), None);
        let kept = Kept {
            name: "it's main".into(),
            backend: "gpu".into(),
            cwd: b"/a\xff".as_slice().into(),
            oldpwd: Some(b"/b".as_slice().into()),
            generation: 3,
            copy: Some(3),
            ..Kept::default()
        };
        own.save(&kept).unwrap();
        let texts = Texts { variables: b"v".to_vec(), functions: b"f".to_vec() };
        own.save_copy(2, &texts).unwrap();
        own.save_copy(3, &texts).unwrap();
        own.remove_others(Some(3)).unwrap();
        assert_eq!((own.load().unwrap(), own.load_copy(3).unwrap()), (Some(kept.clone()), texts));
        assert!(own.load_copy(2).is_err());
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(all(dir.path()).unwrap(), [kept]);
        assert!(Own::new(dir.path(), "other", "it's main").load().unwrap().is_none());
        own.remove_others(None).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_file_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let own = Own::new(dir.path(), "local", "main");
        std::fs::write(own.file("json"), "{ half").unwrap();
        assert_eq!(own.load().unwrap(), None);
        assert!(own.file("damaged").exists());
    }
}
