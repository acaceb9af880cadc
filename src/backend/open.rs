//! The only file that names every kind of backend: makes one from its settings.

use super::{Backend, BackendError, ClientEnv, ErrorKind};
use crate::config::BackendSettings;
use std::sync::Arc;

/// Makes the backend that the settings describe. Does not connect.
pub fn open(settings: &BackendSettings, _client_env: &ClientEnv) -> Result<Arc<dyn Backend>, BackendError> {
    Err(BackendError::new(ErrorKind::Unsupported, format!("backend kind {} is not in this version", settings.kind.word())))
}
