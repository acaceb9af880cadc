//! Taking over the state that a command left: as it is when nobody else ended meanwhile, merged by name otherwise.
//!
//! Invariant: only files that the record calls whole become the session's; commands that end at the same time are taken over
//! one after the other.

use super::error::SessionError;
use super::files;
use super::handle::Session;
use super::own::Texts;
use super::place::listed;
use super::state::{Snapshot, State, show};
use crate::model::{Warning, WarningCode};
use crate::shell::options::Options;
use crate::shell::record::End;
use crate::shell::state;
use crate::shell::wrap::COOKIE;
use crate::shell::{functions, wrap_sh};
use std::sync::Arc;

/// What a command left.
pub(super) struct Left {
    /// Its record.
    pub(super) end: End,
    /// The name of its files.
    pub(super) leave: String,
    /// The state itself, where it came with the record.
    pub(super) carried: Option<Texts>,
    /// What it started from.
    pub(super) base: Arc<Snapshot>,
    /// The directory that was for it alone, as its shell named it.
    pub(super) own_directory: Option<Vec<u8>>,
    /// Names of variables that were for it alone.
    pub(super) own_names: Vec<String>,
}

impl Session {
    /// Makes what a command left the session's state. Says in `warnings` what was not kept. Not cancel safe.
    pub(super) async fn adopt(self: &Arc<Self>, left: Left, warnings: &mut Vec<Warning>) {
        let _held = self.adopting.lock().await;
        if !self.place.settings.snapshot {
            let mut state = self.state();
            move_to(&mut state, &left);
            state.litter.push(left.leave);
            return;
        }
        if !left.end.whole {
            let mut state = self.state();
            move_to(&mut state, &left);
            state.litter.push(left.leave);
            let text = "the session's files could not be written (a full disk, a limit on file sizes, a removed folder): variables and functions are as before";
            warnings.push(Warning::new(WarningCode::StateNotSaved, text));
            return;
        }
        let is_bash = self.state().kind == "bash";
        let alone = self.state().generation == left.base.generation && left.own_names.is_empty();
        if alone && is_bash {
            let mut state = self.state();
            let options = Options::read(&left.end.shellopts, &left.end.bashopts);
            move_to(&mut state, &left);
            let (base, late) = (left.base, left.leave);
            state.adopt(Snapshot { id: late, options, late: base.late, carried: left.carried, ..Snapshot::default() });
            return;
        }
        if let Err(error) = self.adopt_merged(&left, warnings).await {
            let mut state = self.state();
            move_to(&mut state, &left);
            state.litter.push(left.leave);
            warnings.push(Warning::new(WarningCode::StateNotSaved, format!("the command's changes to the session were not kept: {error}")));
        }
    }

    /// Merges what the command changed into what the session is by now.
    async fn adopt_merged(&self, left: &Left, warnings: &mut Vec<Warning>) -> Result<(), SessionError> {
        let current = self.state().snapshot.clone().unwrap_or_default();
        let [base, new, now] = self.three(left, &current).await?;
        let is_bash = self.state().kind == "bash";
        let read = if is_bash { state::variables } else { wrap_sh::variables };
        let new_variables = if is_bash { new.variables.clone() } else { wrap_sh::snapshot(&new.variables).unwrap_or_default() };
        let damaged = || SessionError::Errand {
            what: "merge parallel changes",
            backend: self.place.backend_name().to_owned(),
            why: "a snapshot is not what a shell wrote".to_owned(),
        };
        let base_variables = read(&base.variables).ok_or_else(damaged)?;
        let mut new_variables = read(&new_variables).ok_or_else(damaged)?;
        if !is_bash {
            // sh itself can unset only plain names, and none that is read-only.
            let mut never = self.transient();
            never.push(COOKIE.to_owned());
            new_variables.retain(|name, _| !listed(&never, &show(name)));
        }
        state::restore(&mut new_variables, &base_variables, &left.own_names);
        let (variables, mut conflicts) = state::merge(&base_variables, &new_variables, &read(&now.variables).ok_or_else(damaged)?);
        let read = |texts: &Texts| functions::read(&texts.functions).ok_or_else(damaged);
        let (merged, more) = state::merge(&read(&base)?, &read(&new)?, &read(&now)?);
        conflicts.extend(more);
        let options = if is_bash { Options::read(&left.end.shellopts, &left.end.bashopts) } else { wrap_sh::options(&left.end.shellopts) };
        let texts = Texts { variables: state::write_variables(&variables), functions: functions::write(&merged, &super::random_hex(8)) };
        let snapshot =
            Snapshot { options: current.options.merged(&left.base.options, &options), late: current.late, ..Snapshot::default() };
        self.put(snapshot, texts, left).await?;
        if !conflicts.is_empty() {
            let names: Vec<String> = conflicts.iter().map(|name| name_of(name)).collect();
            let text = format!("another command changed the same at the same time; this one's won: {}", names.join(", "));
            warnings.push(Warning { names, ..Warning::new(WarningCode::StateConflict, text) });
        }
        Ok(())
    }

    /// The texts that a merge needs: of the base, of the command, of the session now.
    async fn three(&self, left: &Left, current: &Snapshot) -> Result<[Texts; 3], SessionError> {
        if let Some(new) = &left.carried {
            let texts = |s: &Snapshot| s.carried.clone().unwrap_or_default();
            return Ok([texts(&left.base), new.clone(), texts(current)]);
        }
        let mut all = self.texts_of(&[&left.base.id, &left.leave, &current.id]).await?.into_iter();
        Ok([all.next().unwrap_or_default(), all.next().unwrap_or_default(), all.next().unwrap_or_default()])
    }

    /// Writes a merged snapshot and makes it the session's.
    async fn put(&self, mut snapshot: Snapshot, texts: Texts, left: &Left) -> Result<(), SessionError> {
        let folder = self.state().folder.clone();
        snapshot.id = super::random_hex(6);
        match folder {
            Some(folder) => {
                let id = &snapshot.id;
                let written = vec![(format!("{id}.v"), texts.variables), (format!("{id}.f"), texts.functions)];
                files::write(&self.place, &folder, written).await?;
            }
            None => snapshot.carried = Some(texts),
        }
        let mut state = self.state();
        move_to(&mut state, left);
        state.litter.push(left.leave.clone());
        state.adopt(snapshot);
        Ok(())
    }
}

/// The directory belongs to the session: the last command to end sets it, unless it had a directory of its own and stayed.
fn move_to(state: &mut State, left: &Left) {
    let end = &left.end;
    if end.pwd.is_empty() || left.own_directory.as_ref().is_some_and(|own| *own == end.pwd) {
        return;
    }
    state.cwd.clone_from(&end.pwd);
    state.oldpwd = Some(end.oldpwd.clone()).filter(|old| !old.is_empty());
}

/// A statement's key as a person knows it.
fn name_of(key: &[u8]) -> String {
    let name = show(key);
    name.strip_prefix("f ").or_else(|| name.strip_prefix("a ")).unwrap_or(&name).trim().to_owned()
}
