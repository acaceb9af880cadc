//! The process table: every command that was started, running and ended.
//!
//! Invariant: a row never goes while its process runs; ended rows are kept up to a bound, oldest dropped first. An id is
//! never given twice while its row or its log is there.

use super::EngineError;
use super::notify::Notify;
use super::watch::{Queue, Watching};
use crate::model::{Millis, ProcessId, ProcessInfo, ProcessState, Warning, WarningCode};
use crate::session::{Stop, Typing, log::Log};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Ids use letters and digits that cannot be taken for one another.
const ALPHABET: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz023456789";
/// Characters of an id: a billion of them.
const ID_LEN: usize = 6;
/// The shortest prefix that names a process.
const SHORTEST_PREFIX: usize = 4;

/// One row with what belongs to it.
pub(crate) struct Entry {
    /// What is shown.
    pub(crate) info: ProcessInfo,
    /// Its output.
    pub(crate) log: Arc<Log>,
    /// Wishes about it; closed once it has ended.
    pub(crate) stops: mpsc::Sender<Stop>,
    /// Turns true when it has ended and its row is final.
    pub(crate) ended: watch::Receiver<bool>,
    /// When its shell was seen to run it.
    pub(crate) begun: Option<Millis>,
    /// The way to its stdin, when that was left open.
    pub(crate) stdin: Option<Typing>,
    /// The variables that were set for it alone; a daemon that took it over does not know them.
    pub(crate) env: Vec<(String, String)>,
    /// Who of others than its caller wrote to its stdin last.
    pub(crate) writer: Option<String>,
    /// How it stands with the telling of its end.
    pub(crate) notify: Notify,
    /// What looks its output through.
    pub(crate) watching: Option<Watching>,
    /// What it told, for those who wait for it.
    pub(crate) told: Arc<Queue>,
    order: u64,
}

/// The table.
#[derive(Default)]
pub(crate) struct Table {
    rows: BTreeMap<ProcessId, Entry>,
    next_order: u64,
}

impl Table {
    /// Adds a row.
    pub(crate) fn add(&mut self, info: ProcessInfo, log: Arc<Log>, stops: mpsc::Sender<Stop>, ended: watch::Receiver<bool>) {
        self.next_order += 1;
        let notify = Notify::new(info.notify);
        let entry = Entry {
            order: self.next_order,
            info,
            log,
            stops,
            ended,
            begun: None,
            stdin: None,
            env: Vec::new(),
            writer: None,
            notify,
            watching: None,
            told: Arc::default(),
        };
        self.rows.insert(entry.info.id.clone(), entry);
    }

    /// Tells whether the id is taken.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.rows.contains_key(id)
    }

    /// Gives the row that an id or a unique prefix of at least four characters names.
    pub(crate) fn find(&self, name: &str) -> Result<&Entry, EngineError> {
        if let Some(entry) = self.rows.get(name) {
            return Ok(entry);
        }
        let unknown = || EngineError::NotFound(format!("no process {name:?}; `qd ps -a` lists them"));
        if name.len() < SHORTEST_PREFIX {
            return Err(unknown());
        }
        let mut hits = self.rows.range(name.to_owned()..).take_while(|(id, _)| id.starts_with(name)).map(|(_, entry)| entry);
        let first = hits.next().ok_or_else(unknown)?;
        match hits.next() {
            None => Ok(first),
            Some(second) => {
                let text = format!("{name:?} names more than one process: {}, {}...", first.info.id, second.info.id);
                Err(EngineError::NotFound(text))
            }
        }
    }

    /// Gives the row of an exact id.
    pub(crate) fn get(&self, id: &str) -> Option<&Entry> {
        self.rows.get(id)
    }

    /// Gives the row of an exact id, to change it.
    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut Entry> {
        self.rows.get_mut(id)
    }

    /// Gives all rows, oldest first.
    pub(crate) fn rows(&self) -> Vec<ProcessInfo> {
        self.entries().into_iter().map(Entry::shown).collect()
    }

    /// Gives all rows with what belongs to them, oldest first.
    pub(crate) fn entries(&self) -> Vec<&Entry> {
        let mut all: Vec<&Entry> = self.rows.values().collect();
        all.sort_by_key(|entry| entry.order);
        all
    }

    /// Gives the rows that have not ended, oldest first.
    pub(crate) fn running(&self) -> Vec<ProcessInfo> {
        let mut all: Vec<&Entry> = self.rows.values().filter(|entry| !entry.info.state.is_ended()).collect();
        all.sort_by_key(|entry| entry.order);
        all.into_iter().map(Entry::shown).collect()
    }

    /// When the row ended that ended first.
    pub(crate) fn oldest_end(&self) -> Option<Millis> {
        self.rows.values().filter(|entry| entry.info.state.is_ended()).filter_map(|entry| entry.info.ended).min()
    }

    /// Drops the rows that ended before a moment, and the oldest ended ones above the bound; gives their ids.
    pub(crate) fn trim(&mut self, ended_kept: usize, before: Millis) -> Vec<ProcessId> {
        // Oldest by its end: what ran for long would go at once by its start.
        let mut ended: Vec<(Option<Millis>, u64, ProcessId)> =
            self.rows.values().filter(|e| e.info.state.is_ended()).map(|e| (e.info.ended, e.order, e.info.id.clone())).collect();
        let over = ended.len().saturating_sub(ended_kept);
        ended.sort_unstable();
        let is_due = |(i, (at, _, _)): &(usize, (Option<Millis>, u64, ProcessId))| *i < over || at.is_some_and(|at| at < before);
        let dropped: Vec<ProcessId> = ended.into_iter().enumerate().filter(is_due).map(|(_, (_, _, id))| id).collect();
        for id in &dropped {
            self.rows.remove(id);
        }
        dropped
    }
}

impl Entry {
    /// Gives the row as it is now.
    pub(crate) fn shown(&self) -> ProcessInfo {
        let mut info = self.info.clone();
        info.output_bytes = self.log.total();
        if !info.state.is_ended()
            && let Some((bytes, why)) = self.log.lost()
        {
            let waits = if self.log.stalled() { "; the command waits until its caller reads" } else { "" };
            info.warnings
                .push(Warning::new(WarningCode::OutputLost, format!("{bytes} bytes of the output are not in the log: {why}{waits}")));
        }
        info
    }

    /// Marks it as running.
    pub(crate) fn begin(&mut self, pid: u32, cwd: String, now: Millis) {
        self.info.pid = Some(pid);
        self.begun = Some(now);
        self.info.cwd = cwd;
        if self.info.state == ProcessState::Starting {
            self.info.state = ProcessState::Running;
        }
    }
}

/// Makes a random id.
pub(crate) fn new_id() -> ProcessId {
    let bits = uuid::Uuid::new_v4().as_u128();
    (0..ID_LEN).map(|i| char::from(ALPHABET[((bits >> (i * 5)) & 31) as usize])).collect()
}

/// Tells whether a text has the form of an id.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && text.bytes().all(|b| ALPHABET.contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Outcome, Who, WhoKind};

    fn row(table: &mut Table, id: &str, ended: bool) {
        let state = if ended { ProcessState::Ended(Outcome::Exited { exit_code: 0 }) } else { ProcessState::Running };
        let info = ProcessInfo {
            id: id.into(),
            backend: "local".into(),
            session: "main".into(),
            command: "true".into(),
            who: Who { kind: WhoKind::Operator, name: "you".into(), peer_pid: None },
            state,
            started: 0,
            ended: None,
            pid: None,
            stray: None,
            timeout_ms: None,
            variables: Vec::new(),
            restarts: 0,
            output_bytes: 0,
            reads_stdin: false,
            background: false,
            detached: false,
            notify: false,
            watch: Vec::new(),
            cwd: "/".into(),
            exit_code_meaning: None,
            warnings: vec![],
            hints: vec![],
        };
        table.add(info, Log::create("/nonexistent/x.log".into(), 1), mpsc::channel(1).0, watch::channel(ended).1);
    }

    #[tokio::test]
    async fn a_prefix_of_four_names_a_process_when_it_is_the_only_one() {
        let mut table = Table::default();
        for id in ["abcdef", "abcdxy", "k7f3q2"] {
            row(&mut table, id, false);
        }
        let found = |name: &str| table.find(name).map(|e| e.info.id.clone());
        assert_eq!(found("k7f3").as_deref(), Ok("k7f3q2"));
        assert_eq!(found("abcde").as_deref(), Ok("abcdef"));
        assert!(matches!(found("abcd"), Err(EngineError::NotFound(text)) if text.contains("more than one")));
        assert!(matches!(found("k7f"), Err(EngineError::NotFound(_))), "too short");
        assert!(matches!(found("zzzz"), Err(EngineError::NotFound(_))));
    }

    #[tokio::test]
    async fn trimming_drops_the_oldest_ended_rows_only() {
        let mut table = Table::default();
        for (id, ended) in [("zz0001", true), ("aa0002", false), ("bb0003", true), ("cc0004", true)] {
            row(&mut table, id, ended);
        }
        assert_eq!(table.trim(1, 0), ["zz0001", "bb0003"]);
        let left: Vec<String> = table.rows().into_iter().map(|r| r.id).collect();
        assert_eq!(left, ["aa0002", "cc0004"]);
    }

    #[tokio::test]
    async fn a_row_is_kept_from_its_end_on_and_not_from_its_start() {
        let mut table = Table::default();
        for (id, at) in [("aa0001", Some(50)), ("bb0002", Some(20)), ("cc0003", None), ("dd0004", Some(90))] {
            row(&mut table, id, at.is_some());
            if let Some(entry) = table.get_mut(id) {
                entry.info.ended = at;
            }
        }
        assert_eq!(table.oldest_end(), Some(20));
        assert_eq!(table.trim(9, 20), [""; 0]);
        assert_eq!(table.trim(9, 51), ["bb0002", "aa0001"]);
        assert_eq!(table.oldest_end(), Some(90));
        assert!(table.get("cc0003").is_some(), "it runs");
    }

    #[test]
    fn ids_differ_and_are_plain() {
        let ids: std::collections::HashSet<_> = (0..2_000).map(|_| new_id()).collect();
        assert!(ids.len() > 1_990);
        assert!(ids.iter().all(|id| is_id(id)));
        assert!(["", "k7f3q", "k7f3q22", "K7F3Q2"].iter().all(|text| !is_id(text)));
    }
}
