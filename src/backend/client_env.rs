//! The variables that the newest operator's client handed over (`client_env:`), read by whatever needs them at that moment:
//! SSH_AUTH_SOCK of a laptop's newest login, DISPLAY, LANG.

use std::sync::{Arc, PoisonError, RwLock};

/// A shared handle on the variables. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ClientEnv(Arc<RwLock<Vec<(String, String)>>>);

impl ClientEnv {
    /// Gives all of them.
    pub fn get(&self) -> Vec<(String, String)> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives one of them.
    pub fn value(&self, name: &str) -> Option<String> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    }

    /// Replaces them all.
    pub fn set(&self, variables: Vec<(String, String)>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = variables;
    }
}
