//! The only file that names every kind of backend: makes one from its settings.

use super::local::{ClientEnv, Local};
use super::ssh::Ssh;
use super::{Backend, BackendError, ErrorKind};
use crate::config::{BackendSettings, KindSettings};
use std::sync::Arc;

/// Makes the backend that the settings describe. Does not connect. `client_env` is looked at each time it is needed: locally for
/// the login environment, for ssh to find the agent.
pub fn open(settings: &BackendSettings, client_env: &ClientEnv) -> Result<Arc<dyn Backend>, BackendError> {
    match &settings.kind {
        KindSettings::Local => Ok(Arc::new(Local::new(client_env.clone()))),
        KindSettings::Ssh(ssh) => Ok(Arc::new(Ssh::new(settings, ssh, client_env.clone()))),
        KindSettings::Later(kind) => Err(BackendError::new(
            ErrorKind::Unsupported,
            format!("backend {} is of kind {}, which is not in this version", settings.name, kind.as_str()),
        )
        .with_fix("remove it from the config, or wait for a version that has it")),
    }
}
