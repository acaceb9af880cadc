//! A named shell state on one backend, as `qd session` shows it.

use serde::{Deserialize, Serialize};

/// One row of `qd session ls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The backend.
    pub backend: String,
    /// The session's name.
    pub name: String,
    /// Its directory.
    pub cwd: String,
    /// How many commands have changed or confirmed its state.
    pub generation: u64,
    /// Commands that run in it now.
    #[serde(default)]
    pub running: u32,
}

/// What `qd session show` prints beyond the row. Values of variables on the secret list are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDetail {
    /// The row.
    pub info: SessionInfo,
    /// Statements that set the variables, as the shell wrote them, by name.
    pub variables: Vec<(String, String)>,
    /// The functions' names.
    pub functions: Vec<String>,
    /// The aliases, by name.
    pub aliases: Vec<(String, String)>,
    /// Options that differ from the shell's defaults.
    pub options: Vec<String>,
    /// The umask.
    pub umask: String,
}
