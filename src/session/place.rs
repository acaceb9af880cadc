//! Where a session is: its backend, its settings, its id.
//!
//! Invariant: it never changes while the session lives, so that every part of the session can hold it.

use super::Settings;
use crate::backend::Backend;
use std::sync::Arc;

/// A session's place.
pub(super) struct Place {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) settings: Settings,
    /// The session's name.
    pub(super) name: String,
    /// The session's id.
    pub(super) id: String,
}

impl Place {
    /// The session's folder below the backend's state folder.
    pub(super) fn folder_name(&self) -> String {
        let safe = |s: &str| s.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect::<String>();
        format!("{}/{}", safe(&self.settings.daemon_id), safe(&self.id))
    }

    /// Whether the backend's files are the daemon's own.
    pub(super) fn same_files(&self) -> bool {
        self.backend.about().capabilities.same_files
    }

    /// The backend's name.
    pub(super) fn backend_name(&self) -> &str {
        &self.backend.about().name
    }

    /// The number of the present connection.
    pub(super) fn epoch(&self) -> u64 {
        self.backend.about().link.borrow().epoch
    }
}

/// Whether a name is on a list; `*` at the end of an entry matches any rest.
pub(super) fn listed(list: &[String], name: &str) -> bool {
    list.iter().any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => entry == name,
    })
}
