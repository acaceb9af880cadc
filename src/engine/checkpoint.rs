//! The background processes of this machine's daemon, on disk: what a later daemon looks for, and what it still knows.
//!
//! Invariant: written whole or not at all, before a process is started, and before anybody is told of a start or an end; 0600, and
//! command texts without secrets (a pattern to watch for stays as it is: it would match nothing else). Format version 2, and version 1
//! is read; a reader refuses others without a fault, and puts such a file aside.

use super::file;
use crate::model::{Millis, ProcessInfo, Who};
use crate::session::{Spot, log::Log};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

const VERSION: u32 = 2;
/// The oldest version that is read: what it lacks has a default.
const OLDEST: u32 = 1;

/// One background process that runs, or was about to be started: then the number in its spot is 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) backend: String,
    pub(crate) session: String,
    pub(crate) command: String,
    pub(crate) who: Who,
    pub(crate) started: Millis,
    pub(crate) cwd: String,
    pub(crate) spot: Spot,
    /// Bytes of its output that are in its log here.
    #[serde(default)]
    pub(crate) read: u64,
    /// The cap of that log.
    #[serde(default)]
    pub(crate) log_cap: Option<u64>,
    /// What that log does not have in between.
    #[serde(default)]
    pub(crate) holes: Vec<(u64, u64)>,
    /// Whether its end is to be told.
    #[serde(default)]
    pub(crate) notify: bool,
    /// What its output is looked through for.
    #[serde(default)]
    pub(crate) watch: Vec<String>,
    /// How far that was done, and told.
    #[serde(default)]
    pub(crate) watched: u64,
    /// Its deadline.
    #[serde(default)]
    pub(crate) timeout_ms: Option<u64>,
    /// The names of its own variables; their values may be secrets.
    #[serde(default)]
    pub(crate) variables: Vec<String>,
    /// How often its command was run again before.
    #[serde(default)]
    pub(crate) restarts: u32,
}

/// One that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptEnd {
    pub(crate) row: ProcessInfo,
    pub(crate) log_cap: u64,
    /// What its log does not have in between.
    #[serde(default)]
    pub(crate) holes: Vec<(u64, u64)>,
    /// Whether its end is still to be told.
    #[serde(default)]
    pub(crate) notify: bool,
}

/// What is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    version: u32,
    /// The boot id of this machine: what was not on its disk for certain went with another boot.
    #[serde(default)]
    pub(crate) boot: Option<String>,
    /// Those that run; others than a daemon look whether there are any.
    #[serde(default)]
    pub(crate) processes: Vec<Kept>,
    /// Those that have ended and are still listed, the oldest first.
    #[serde(default)]
    pub(crate) ended: Vec<KeptEnd>,
}

impl Kept {
    /// Makes the entry of a row.
    pub(crate) fn new(info: &ProcessInfo, spot: Spot) -> Self {
        Self {
            backend: info.backend.clone(),
            session: info.session.clone(),
            command: info.command.clone(),
            who: info.who.clone(),
            started: info.started,
            cwd: info.cwd.clone(),
            spot,
            read: 0,
            log_cap: None,
            holes: Vec::new(),
            notify: info.notify,
            watch: info.watch.clone(),
            watched: 0,
            timeout_ms: info.timeout_ms,
            variables: info.variables.clone(),
            restarts: info.restarts,
        }
    }
}

impl KeptEnd {
    /// Makes the entry of a row that has ended.
    pub(crate) fn new(row: ProcessInfo, log: &Log, notify: bool) -> Self {
        Self { row, log_cap: log.cap(), holes: log.holes(), notify }
    }
}

impl Checkpoint {
    /// What is gone through for secrets.
    pub(super) fn texts(&mut self) -> impl Iterator<Item = super::texts::Row<'_>> {
        let running = self.processes.iter_mut().map(|kept| (kept.spot.id.as_str(), kept.backend.as_str(), &mut kept.command));
        running.chain(self.ended.iter_mut().map(|KeptEnd { row, .. }| (row.id.as_str(), row.backend.as_str(), &mut row.command)))
    }

    /// Makes one of this version.
    pub(crate) fn new(boot: Option<String>, processes: Vec<Kept>, ended: Vec<KeptEnd>) -> Self {
        Self { version: VERSION, boot, processes, ended }
    }
}

/// Reads the file. An error says why it is not used; none there is an empty one. Blocking.
pub(crate) fn read(path: &Path) -> Result<Checkpoint, String> {
    file::read(path, &(OLDEST..=VERSION)).map(Option::unwrap_or_default)
}

/// Writes the file. Blocking.
pub(crate) fn write(path: &Path, checkpoint: &Checkpoint) -> io::Result<()> {
    file::write(path, checkpoint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Outcome, ProcessState};
    use std::os::unix::fs::PermissionsExt;

    /// What version 1 wrote must always be read.
    const ONE: &str = r#"{"version":1,"processes":[{"backend":"gpu","session":"main","command":"make","who":{"kind":"operator","name":"you"},"started":5,"cwd":"/srv","spot":{"id":"k7f3q2","root":"/root/.local/state/quarterdeck/background","pid":44,"start":"123","boot":"b","nonce":"0123456789abcdef"}}]}"#;
    /// And what version 2 wrote.
    const TWO: &str = r#"{"version":2,"boot":"b-1","processes":[{"backend":"gpu","session":"main","command":"make","who":{"kind":"operator","name":"you"},"started":5,"cwd":"/srv","spot":{"id":"k7f3q2","root":"/root/.local/state/quarterdeck/background","pid":0,"start":"","boot":"","nonce":"0123456789abcdef"},"read":70,"log_cap":1000,"notify":true,"watch":["re:^E"],"watched":60}],"ended":[{"row":{"id":"b2c4d5","backend":"local","session":"main","command":"true","who":{"kind":"agent","name":"script","peer_pid":7},"state":"ended","outcome":"exited","exit_code":3,"started":1,"ended":2,"pid":9,"output_bytes":12,"reads_stdin":false,"background":true,"detached":true,"cwd":"/"},"log_cap":1000,"notify":true}]}"#;

    #[test]
    fn files_of_both_versions_are_read_and_another_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("background.json");
        assert_eq!(read(&path), Ok(Checkpoint::default()));
        std::fs::write(&path, ONE).expect("written");
        let one = read(&path).expect("read");
        let kept = &one.processes[0];
        assert_eq!((kept.spot.pid, kept.spot.id.as_str(), kept.read, kept.notify), (44, "k7f3q2", 0, false));
        assert!(one.ended.is_empty());
        std::fs::write(&path, TWO).expect("written");
        let two = read(&path).expect("read");
        let kept = &two.processes[0];
        assert_eq!((kept.spot.pid, kept.read, kept.log_cap, kept.notify, kept.watched), (0, 70, Some(1000), true, 60));
        assert_eq!((kept.watch.as_slice(), two.boot.as_deref()), (["re:^E".to_owned()].as_slice(), Some("b-1")));
        let end = &two.ended[0];
        assert_eq!(end.row.state, ProcessState::Ended(Outcome::Exited { exit_code: 3 }));
        assert_eq!((end.row.output_bytes, end.log_cap, end.notify), (12, 1000, true));
        write(&path, &two).expect("written");
        assert_eq!(read(&path), Ok(two));
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, r#"{"version":9,"list":[]}"#).expect("written");
        assert!(read(&path).expect_err("another version").contains("version 9"));
        std::fs::write(&path, "{").expect("written");
        assert!(read(&path).is_err());
    }
}
