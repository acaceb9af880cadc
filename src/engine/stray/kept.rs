//! The strays that are alive, on disk: what a later daemon shows again.
//!
//! Invariant: as the checkpoint of background processes: whole or not at all, 0600, without secrets; format version 1, and a reader
//! refuses other versions without a fault.

use super::super::{Core, file};
use super::{Held, channel, find};
use crate::backend::Family;
use crate::model::{Level, Millis, ProcessInfo, ProcessState, Stray, Warning, WarningCode, Who};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::sync::Arc;

const VERSION: u32 = 1;

/// One stray.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kept {
    id: String,
    backend: String,
    session: String,
    command: String,
    who: Who,
    started: Millis,
    #[serde(default)]
    cwd: String,
    stray: Stray,
    /// The number of the shell that it was left by, and when that began.
    shell: u32,
    #[serde(default)]
    shell_start: Option<u64>,
    /// The backend's boot id.
    #[serde(default)]
    boot: Option<String>,
    /// Its processes and when they began.
    #[serde(default)]
    known: Vec<(u32, u64)>,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    strays: Vec<Kept>,
}

impl Core {
    /// Writes down what is stray.
    pub(super) async fn keep_strays(self: &Arc<Self>) {
        let mut texts = self.keeping_strays.clone().lock_owned().await;
        let mut kept: Vec<Kept> = {
            let state = self.state();
            state.strays.held.iter().filter_map(|(id, held)| Some(Kept::new(&state.table.get(id)?.info, held))).flatten().collect()
        };
        let (path, core) = (self.shared.paths.strays_file(), self.clone());
        let writing = tokio::task::spawn_blocking(move || {
            texts.clean(&core, kept.iter_mut().map(|one| (one.id.as_str(), one.backend.as_str(), &mut one.command)));
            write(&path, kept)
        });
        let written = writing.await;
        if let Ok(Err(error)) = written {
            let text = format!("what commands left running could not be written down ({error}): `qd ps --find` finds it after a restart");
            self.shared.notice(Level::Alert, None, text);
        }
    }

    /// As [`Core::keep_strays`], off the caller's path.
    pub(super) fn keep_strays_later(self: &Arc<Self>) {
        let core = self.clone();
        tokio::spawn(async move { core.keep_strays().await });
    }

    /// Takes in what a daemon before this one knew of strays. Nothing of it is believed before its backend was asked.
    pub(crate) async fn take_in_strays(self: &Arc<Self>) {
        let path = self.shared.paths.strays_file();
        let shown = path.display().to_string();
        let kept = match tokio::task::spawn_blocking(move || read(&path)).await {
            Ok(Ok(kept)) => kept,
            Ok(Err(why)) => {
                let text = format!("the strays in {shown} are not taken over: {why}; `qd ps -b NAME --find` looks for them");
                return self.shared.notice(Level::Alert, None, text);
            }
            Err(_) => return,
        };
        for one in kept {
            let (info, held) = one.taken_in();
            let log = find::finished(self.log_path(&held.of));
            let backend = held.backend.clone();
            self.hold_stray(&mut self.state(), info, log, held);
            if let Ok(place) = self.place(Some(&backend)) {
                self.use_changed(&place);
            }
        }
    }
}

impl Kept {
    /// Makes the entry of a row; none before it was looked at, since nothing would prove later that it is the one.
    fn new(info: &ProcessInfo, held: &Held) -> Option<Self> {
        let stray = info.stray.as_deref()?.clone();
        (!held.known.is_empty()).then(|| Self {
            id: info.id.clone(),
            backend: info.backend.clone(),
            session: info.session.clone(),
            command: info.command.clone(),
            who: info.who.clone(),
            started: info.started,
            cwd: info.cwd.clone(),
            stray,
            shell: held.family.pid,
            shell_start: held.family.start_time,
            boot: held.boot.clone(),
            known: held.known.clone(),
        })
    }

    fn taken_in(self) -> (ProcessInfo, Held) {
        let adopted = self.stray.adopted_by.is_some();
        let cookie = super::cookie(&self.stray.of);
        let held = Held {
            of: self.stray.of.clone(),
            backend: self.backend.clone(),
            family: Family { pid: self.shell, start_time: self.shell_start, age: None, cookie },
            boot: self.boot,
            known: self.known,
            adopted,
            why: None,
            ended: channel::Sender::new(false),
        };
        let text = "what it writes went to the daemon before this one, and is not kept any more";
        let info = ProcessInfo {
            id: self.id,
            backend: self.backend,
            session: self.session,
            command: self.command,
            who: self.who,
            state: ProcessState::Unknown,
            started: self.started,
            ended: None,
            pid: held.known.first().filter(|_| adopted).map(|(pid, _)| *pid),
            stray: Some(Box::new(self.stray)),
            timeout_ms: None,
            variables: Vec::new(),
            restarts: 0,
            output_bytes: 0,
            reads_stdin: false,
            background: adopted,
            detached: true,
            notify: false,
            watch: Vec::new(),
            cwd: self.cwd,
            exit_code_meaning: None,
            warnings: vec![Warning::new(WarningCode::OutputLost, text)],
            hints: Vec::new(),
        };
        (info, held)
    }
}

/// Reads the file. An error says why it is not used; none there is an empty list. Blocking.
fn read(path: &Path) -> Result<Vec<Kept>, String> {
    file::read(path, &(VERSION..=VERSION)).map(|found| found.map_or_else(Vec::new, |File { strays, .. }| strays))
}

/// Writes the file. Blocking.
fn write(path: &Path, strays: Vec<Kept>) -> io::Result<()> {
    file::write(path, &File { version: VERSION, strays })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// What version 1 wrote must always be read.
    const OLD: &str = r#"{"version":1,"strays":[{"id":"b2c4xy","backend":"gpu","session":"main","command":"sleep 600","who":{"kind":"operator","name":"you"},"started":5,"cwd":"/srv","stray":{"of":"k7f3q2","pids":[44],"adopted_by":{"kind":"agent","name":"hermes"}},"shell":40,"shell_start":90,"boot":"b","known":[[44,123]]}]}"#;

    #[test]
    fn a_file_of_version_1_is_read_and_another_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("strays.json");
        assert_eq!(read(&path), Ok(vec![]));
        std::fs::write(&path, OLD).expect("written");
        let kept = read(&path).expect("read");
        write(&path, kept.clone()).expect("written");
        assert_eq!(read(&path), Ok(kept.clone()));
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let (info, held) = kept[0].clone().taken_in();
        assert_eq!((info.state, info.background, info.pid), (ProcessState::Unknown, true, Some(44)));
        assert_eq!((held.family.pid, held.family.cookie.as_str(), held.known), (40, "QD_PROCESS=k7f3q2", vec![(44, 123)]));
        std::fs::write(&path, r#"{"version":9,"list":[]}"#).expect("written");
        assert!(read(&path).unwrap_err().contains("version 9"));
    }
}
