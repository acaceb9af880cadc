//! Folders and names on disk: where the state, the socket and the config of one person on one machine are.
//!
//! Invariant: every folder is 0700 and ours before anything is put into it, and every client of the same state folder
//! computes the same names, whatever else is in its environment.

use crate::report::{Kind, Report};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The longest path of a socket in bytes; the kernel's limit is 107.
const SOCKET_MAX: usize = 100;

/// Where everything of one daemon lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The state folder.
    pub state: PathBuf,
    /// The folder of the socket.
    pub runtime: PathBuf,
    /// This host's name, as used in file names.
    pub host: String,
}

/// Why the folders cannot be used; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// Nothing tells where the home folder is.
    #[error("no home folder: HOME is not set and the password database has no entry for uid {uid}; set HOME or QD_STATE_DIR")]
    NoHome {
        /// The user id.
        uid: u32,
    },
    /// A variable holds a relative path, which would mean another folder for every client.
    #[error("{name} must be an absolute path, not {value:?}")]
    Relative {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: PathBuf,
    },
    /// Something else has the folder's name.
    #[error("{path} is not a folder: move it away, or set {variable}")]
    NotFolder {
        /// Its path.
        path: String,
        /// The variable that names another.
        variable: &'static str,
    },
    /// The folder is another account's.
    #[error("{path} belongs to uid {owner}, not to you (uid {uid}): set {variable} to a folder of your own")]
    NotOurs {
        /// Its path.
        path: String,
        /// Its owner.
        owner: u32,
        /// Who we are.
        uid: u32,
        /// The variable that names another.
        variable: &'static str,
    },
    /// The system refused.
    #[error("failed to {what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl From<PathError> for Report {
    fn from(error: PathError) -> Self {
        let kind = match error {
            PathError::NoHome { .. } | PathError::Relative { .. } => Kind::Config,
            PathError::NotFolder { .. } | PathError::NotOurs { .. } | PathError::Io { .. } => Kind::Fault,
        };
        Self::of(kind, &error)
    }
}

/// A copy of the environment's variables, so that nothing below reads the process's own. An empty variable counts as
/// not set.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Vars(BTreeMap<OsString, OsString>);

impl Vars {
    /// Copies the process's environment.
    pub fn current() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// Makes one from pairs.
    pub fn from_pairs<N: Into<OsString>, V: Into<OsString>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// Gives a variable's value; none when it is not set or empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Gives a variable's value as text; none when it is not set, empty, or not UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(OsStr::to_str)
    }

    /// Gives all variables that are UTF-8.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)))
    }

    /// Gives the home folder: HOME when it is an absolute path, else what the password database says.
    pub fn home(&self) -> Option<PathBuf> {
        if let Some(home) = self.get("HOME").map(Path::new).filter(|home| home.is_absolute()) {
            return Some(home.to_owned());
        }
        match nix::unistd::User::from_uid(nix::unistd::getuid()) {
            Ok(Some(user)) if user.dir.is_absolute() => Some(user.dir),
            _ => None,
        }
    }

    /// Gives an absolute path from a variable; a relative one is an error, since it would differ between clients.
    fn absolute(&self, name: &'static str) -> Result<Option<PathBuf>, PathError> {
        match self.get(name).map(PathBuf::from) {
            Some(value) if value.is_relative() => Err(PathError::Relative { name, value }),
            other => Ok(other),
        }
    }

    /// Gives a base folder of the XDG rules: the variable when it is absolute (else it is ignored, as they say), or a
    /// folder under home.
    fn xdg(&self, name: &str, under_home: &str) -> Result<PathBuf, PathError> {
        if let Some(base) = self.get(name).map(Path::new).filter(|base| base.is_absolute()) {
            return Ok(base.to_owned());
        }
        self.home().map(|home| home.join(under_home)).ok_or_else(|| PathError::NoHome { uid: uid() })
    }
}

/// Values may be secrets: only the names are shown.
impl std::fmt::Debug for Vars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl Paths {
    /// Works out the folders. Touches nothing but to look whether `/run/user/UID` is there and ours.
    pub fn resolve(vars: &Vars) -> Result<Self, PathError> {
        Self::resolve_at(vars, Path::new("/run/user"))
    }

    fn resolve_at(vars: &Vars, run_user: &Path) -> Result<Self, PathError> {
        let state = match vars.absolute("QD_STATE_DIR")? {
            Some(state) => state,
            None => vars.xdg("XDG_STATE_HOME", ".local/state")?.join("quarterdeck"),
        };
        let host = host_name();
        let runtime = match vars.absolute("QD_RUNTIME_DIR")? {
            Some(runtime) => runtime,
            None => {
                let user = run_user.join(uid().to_string());
                let ours = std::fs::symlink_metadata(&user).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid());
                if ours { user.join("quarterdeck") } else { state.join("run").join(&host) }
            }
        };
        Ok(Self { state, runtime, host })
    }

    /// Puts everything under one folder, for tests and private daemons.
    pub fn under(folder: &Path) -> Self {
        Self { state: folder.join("state"), runtime: folder.join("run"), host: host_name() }
    }

    /// Gives the config file that is read when none is named.
    pub fn config_default(vars: &Vars) -> Result<PathBuf, PathError> {
        Ok(vars.xdg("XDG_CONFIG_HOME", ".config")?.join("quarterdeck").join("config.yaml"))
    }

    /// The lock file that is held by the daemon for life; the meeting point of all clients.
    pub fn lock_file(&self) -> PathBuf {
        self.state.join(format!("daemon-{}.lock", self.host))
    }

    /// The list of background processes that run, for the next daemon.
    pub fn background_file(&self) -> PathBuf {
        self.state.join(format!("background-{}.json", self.host))
    }

    /// The list of what commands left running, for the next daemon.
    pub fn strays_file(&self) -> PathBuf {
        self.state.join(format!("strays-{}.json", self.host))
    }

    /// The daemon's socket: named by state folder and host, since a runtime folder may be shared by several of both. A path
    /// too long for the kernel is replaced by a short one, the same for every client.
    pub fn socket(&self) -> PathBuf {
        let key = hash(&[self.state.as_os_str().as_bytes(), self.host.as_bytes()]);
        let path = self.runtime.join(format!("qd-{key}.sock"));
        if path.as_os_str().len() <= SOCKET_MAX {
            return path;
        }
        let folder = hash(&[self.runtime.as_os_str().as_bytes()]);
        PathBuf::from(format!("/tmp/quarterdeck-{}", uid())).join(format!("{folder}-{key}.sock"))
    }

    /// The folder of the sessions' records.
    pub fn sessions(&self) -> PathBuf {
        self.state.join("sessions")
    }

    /// The folder of the processes' logs.
    pub fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// The folder of our own log file.
    pub fn log_dir(&self) -> PathBuf {
        self.state.join("log")
    }

    /// Makes every folder, 0700, and checks that each is ours. Blocks on the file system.
    pub fn ensure(&self) -> Result<(), PathError> {
        ensure_folder(&self.state, "QD_STATE_DIR", false)?;
        for folder in [self.sessions(), self.logs(), self.log_dir()] {
            ensure_folder(&folder, "QD_STATE_DIR", false)?;
        }
        ensure_folder(&self.runtime, "QD_RUNTIME_DIR", false)?;
        match self.socket().parent() {
            Some(folder) if folder != self.runtime => ensure_folder(folder, "QD_RUNTIME_DIR", true),
            _ => Ok(()),
        }
    }

    /// Reads the daemon's id, 16 hex digits, or makes one up for ever. Parallel callers agree. The state folder must be
    /// there. Blocks on the file system.
    pub fn daemon_id(&self) -> Result<String, PathError> {
        let path = self.state.join("daemon-id");
        let failed = |what, source| PathError::Io { what, path: path.display().to_string(), source };
        let random = uuid::Uuid::new_v4().simple().to_string();
        let draft = self.state.join(format!(".daemon-id-{random}"));
        for last in [false, true] {
            match std::fs::read_to_string(&path) {
                Ok(text) if is_id(text.trim()) => return Ok(text.trim().to_owned()),
                // An id that was cut short names nothing: only then is it made anew.
                Ok(_) => std::fs::remove_file(&path).map_err(|source| failed("replace the broken", source))?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(failed("read", source)),
            }
            if last {
                break;
            }
            let written = write_private(&draft, random.get(..16).unwrap_or(&random));
            // Linking fails when another was first, and never shows a half-written file.
            let linked = written.and_then(|()| std::fs::hard_link(&draft, &path));
            let removed = std::fs::remove_file(&draft);
            match linked {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed("write", error)),
                _ => removed.map_err(|source| failed("tidy up beside", source))?,
            }
        }
        Err(failed("settle", io::Error::other("it changes while it is read")))
    }
}

fn is_id(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

/// Makes a folder 0700 and checks that it is ours. `strict` refuses a link, for folders in places where anyone may write.
fn ensure_folder(path: &Path, variable: &'static str, strict: bool) -> Result<(), PathError> {
    let failed = |what, source| PathError::Io { what, path: path.display().to_string(), source };
    let look = || if strict { std::fs::symlink_metadata(path) } else { std::fs::metadata(path) };
    let meta = match look() {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(|source| failed("create the folder", source))?;
            look().map_err(|source| failed("look at", source))?
        }
        Err(source) => return Err(failed("look at", source)),
    };
    if !meta.is_dir() {
        return Err(PathError::NotFolder { path: path.display().to_string(), variable });
    }
    if meta.uid() != uid() {
        return Err(PathError::NotOurs { path: path.display().to_string(), owner: meta.uid(), uid: uid(), variable });
    }
    if meta.mode() & 0o777 != 0o700 {
        let tightened = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700));
        tightened.map_err(|source| failed("close to others", source))?;
    }
    Ok(())
}

fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Gives the host's name, made fit for file names.
fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    let kept: String =
        name.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    let kept = kept.trim_start_matches('.');
    if kept.is_empty() { "localhost".to_owned() } else { kept.chars().take(64).collect() }
}

/// Gives 12 hex digits of a hash over the parts.
fn hash(parts: &[&[u8]]) -> String {
    use sha2::{Digest, Sha256};
    let mut sum = Sha256::new();
    for part in parts {
        sum.update((part.len() as u64).to_le_bytes());
        sum.update(part);
    }
    sum.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
