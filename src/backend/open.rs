//! The only file that names every kind of backend: makes one from its settings.

use super::ssh::{Ssh, own_env};
use super::{Backend, BackendError, ErrorKind};
use crate::config::{BackendSettings, KindSettings};
use std::sync::Arc;

/// Makes the backend that the settings describe. Does not connect.
pub fn open(settings: &BackendSettings) -> Result<Arc<dyn Backend>, BackendError> {
    match &settings.kind {
        KindSettings::Ssh(ssh) => Ok(Arc::new(Ssh::new(settings, ssh, own_env()))),
        other => Err(BackendError::new(ErrorKind::Unsupported, format!("backend kind {} is not in this version", other.word()))),
    }
}
