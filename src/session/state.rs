//! What a session holds in memory: its directory, its generation, the snapshot that the next command starts from.
//!
//! Invariant: a snapshot never changes; a command that ends makes another one the session's.

use super::own::{Bytes, Kept, Texts};
use crate::model::{Warning, WarningCode};
use crate::shell::options::Options;
use std::collections::VecDeque;
use std::sync::Arc;

/// Earlier snapshots that are kept on the backend.
pub(super) const PAST_KEPT: usize = 20;

/// What a command starts from.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// The session's generation when it became the session's.
    pub(super) generation: u64,
    /// The name of its files in the session's folder.
    pub(super) id: String,
    /// The options to set.
    pub(super) options: Options,
    /// Whether it must be loaded when the command is there.
    pub(super) late: bool,
    /// Its texts, where the backend has no place for files.
    pub(super) carried: Option<Texts>,
}

/// The state of a session.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) cwd: Vec<u8>,
    pub(super) oldpwd: Option<Vec<u8>>,
    pub(super) generation: u64,
    /// None before the first capture.
    pub(super) snapshot: Option<Arc<Snapshot>>,
    /// Earlier ones, oldest first.
    pub(super) past: VecDeque<Arc<Snapshot>>,
    /// Names of files that nothing refers to any more.
    pub(super) litter: Vec<String>,
    /// The options of a plain shell there.
    pub(super) base: Options,
    /// The session's folder there; none where nothing is writable.
    pub(super) folder: Option<String>,
    /// `bash` or `sh`.
    pub(super) kind: String,
    pub(super) boot_id: String,
    /// Whether the login itself gave AI_AGENT.
    pub(super) agent_set: bool,
    /// Secret variables of the login; none: not known since the daemon's start.
    pub(super) secrets: Option<Vec<(String, String)>>,
    /// The generation of the copy on the daemon's side.
    pub(super) copy: Option<u64>,
    /// Commands that run now.
    pub(super) running: u32,
    /// What the next result must say.
    pub(super) pending: Vec<Warning>,
    /// Closed: nothing is written any more.
    pub(super) closed: bool,
}

impl State {
    /// Takes up what the session's own file holds.
    pub(super) fn from_kept(kept: Kept) -> Self {
        let options = Options::read(&kept.options.0, &kept.options.1);
        let snapshot = Snapshot {
            generation: kept.generation,
            id: kept.snapshot,
            options,
            late: kept.late,
            carried: kept.folder.is_none().then(Texts::default),
        };
        let earlier = |id: String| Arc::new(Snapshot { id, ..Snapshot::default() });
        Self {
            cwd: kept.cwd.into(),
            oldpwd: kept.oldpwd.map(Into::into),
            generation: kept.generation,
            snapshot: (!kept.kind.is_empty()).then(|| Arc::new(snapshot)),
            past: kept.past.into_iter().map(earlier).collect(),
            base: Options::read(&kept.base.0, &kept.base.1),
            folder: kept.folder,
            kind: kept.kind,
            boot_id: kept.boot_id,
            agent_set: kept.agent_set,
            copy: kept.copy,
            ..Self::default()
        }
    }

    /// Gives what the session's own file is to hold.
    pub(super) fn to_kept(&self, id: &str, backend: &str, name: &str) -> Kept {
        let snapshot = self.snapshot.as_deref();
        Kept {
            id: id.to_owned(),
            backend: backend.to_owned(),
            name: name.to_owned(),
            cwd: Bytes::from(self.cwd.as_slice()),
            oldpwd: self.oldpwd.as_deref().map(Bytes::from),
            generation: self.generation,
            kind: if snapshot.is_some() { self.kind.clone() } else { String::new() },
            folder: self.folder.clone(),
            snapshot: snapshot.map(|s| s.id.clone()).unwrap_or_default(),
            past: self.past.iter().map(|s| s.id.clone()).collect(),
            options: snapshot.map(|s| s.options.write()).unwrap_or_default(),
            base: self.base.write(),
            late: snapshot.is_some_and(|s| s.late),
            agent_set: self.agent_set,
            boot_id: self.boot_id.clone(),
            copy: self.copy,
        }
    }

    /// Makes a snapshot the session's; it gets the next generation.
    pub(super) fn adopt(&mut self, mut snapshot: Snapshot) {
        self.generation += 1;
        snapshot.generation = self.generation;
        if let Some(old) = self.snapshot.replace(Arc::new(snapshot)) {
            self.past.push_back(old);
        }
    }

    /// Takes the names of files that may be removed: of snapshots beyond the kept ones that no command uses, and litter.
    pub(super) fn take_removable(&mut self) -> Vec<String> {
        let mut names: Vec<String> = std::mem::take(&mut self.litter);
        while self.past.len() > PAST_KEPT && self.past.front().is_some_and(|s| Arc::strong_count(s) == 1) {
            names.extend(self.past.pop_front().map(|s| s.id.clone()).filter(|id| !id.is_empty()));
        }
        names
    }

    /// Marks the snapshot as one to be loaded late.
    pub(super) fn load_late(&mut self, which: &Arc<Snapshot>) {
        if let Some(snapshot) = self.snapshot.as_mut().filter(|s| Arc::ptr_eq(s, which)) {
            *snapshot = Arc::new(Snapshot { late: true, ..(**which).clone() });
        }
    }

    /// Adds something that the next result must say; the same thing is said once.
    pub(super) fn say(&mut self, code: WarningCode, message: impl Into<String>) {
        let warning = Warning::new(code, message);
        if !self.pending.contains(&warning) {
            self.pending.push(warning);
        }
    }
}

/// A directory as text, for people and results.
pub(super) fn show(dir: &[u8]) -> String {
    String::from_utf8_lossy(dir).into_owned()
}

/// The names of a snapshot's files, and of what a command may leave beside them.
pub(super) fn files_of(id: &str) -> [String; 5] {
    ["v", "f", "p", "r", "t"].map(|end| format!("{id}.{end}"))
}
