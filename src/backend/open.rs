//! The only file that names every kind of backend: makes one from its settings.

use super::command::Command;
use super::local::{ClientEnv, Local};
use super::person::Person;
use super::ssh::Ssh;
use super::{Backend, BackendError, ErrorKind, Guard};
use crate::config::{BackendSettings, KindSettings};
use std::sync::Arc;

/// Makes the backend that the settings describe. Does not connect. `client_env` is looked at each time it is needed: locally for
/// the login environment, for ssh to find the agent. `guard` ends local commands when this process is killed; `person` answers what a login asks.
pub fn open(
    settings: &BackendSettings,
    client_env: &ClientEnv,
    guard: &Guard,
    person: &Arc<Person>,
) -> Result<Arc<dyn Backend>, BackendError> {
    match &settings.kind {
        KindSettings::Local => {
            let local = Local::new(client_env.clone());
            Ok(Arc::new(match guard.reaper() {
                Some(reaper) => local.with_reaper(reaper.clone()),
                None => local,
            }))
        }
        KindSettings::Ssh(ssh) => Ok(Arc::new(Ssh::new(settings, ssh, client_env.clone(), person.clone()))),
        KindSettings::Command(command) => Ok(Arc::new(Command::new(settings, command, client_env.clone(), guard.clone()))),
        KindSettings::Later(kind) => Err(BackendError::new(
            ErrorKind::Unsupported,
            format!("backend {} is of kind {}, which is not in this version", settings.name, kind.as_str()),
        )
        .with_fix("remove it from the config, or wait for a version that has it")),
    }
}
