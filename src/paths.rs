//! Folders and names on disk (architecture.md "Files and environment").
//!
//! Invariant: every folder is 0700 and ours before anything is put into it.

use std::path::PathBuf;

/// Where everything of one daemon lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The state folder.
    pub state: PathBuf,
    /// The folder of the socket.
    pub runtime: PathBuf,
    /// This host's name, as used in file names.
    pub host: String,
}
