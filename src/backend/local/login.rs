//! What a shell on this machine is started with: the program, and the environment of a login.
//!
//! Invariant: nothing of the daemon's own environment gets into a shell but what is named here.

use super::ClientEnv;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

/// Where programs are looked for when the daemon was started without a PATH, and PATH of a bare login.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// Looked at after the PATH, for systems that keep nothing in the usual places.
const LAST_RESORT: [&str; 2] = ["/run/current-system/sw/bin", "/usr/pkg/bin"];

/// Finds a program on the daemon's PATH, then in the usual places.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = DEFAULT_PATH.split(':').chain(LAST_RESORT).map(PathBuf::from);
    std::env::split_paths(&path).filter(|dir| dir.is_absolute()).chain(usual).map(|dir| dir.join(program)).find(|file| executable(file))
}

pub(super) fn executable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

/// PATH for a shell that is started without any environment but needs programs to read its script (sh).
pub(super) fn search_path() -> OsString {
    std::env::var_os("PATH").filter(|p| !p.is_empty()).unwrap_or_else(|| DEFAULT_PATH.into())
}

/// The environment of a login before any start file: the daemon's HOME, USER, LOGNAME and SHELL of the account, PATH, the daemon's LANG,
/// and what the operator's newest client handed over. Blocking: the account may be looked up over the network.
pub(super) fn environment(client: &ClientEnv) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut env: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let mut set = |name: &str, value: &[u8]| {
        env.retain(|(n, _)| n != name.as_bytes());
        env.push((name.as_bytes().to_vec(), value.to_vec()));
    };
    let account = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
    match account {
        Some(user) => {
            // Whoever started the daemon with another home wants to be at home there: the state folder is below it too.
            let told = std::env::var_os("HOME").filter(|home| Path::new(home).is_absolute());
            set("HOME", told.as_deref().unwrap_or(user.dir.as_os_str()).as_bytes());
            set("USER", user.name.as_bytes());
            set("LOGNAME", user.name.as_bytes());
            let shell = if user.shell.as_os_str().is_empty() { Path::new("/bin/sh") } else { user.shell.as_path() };
            set("SHELL", shell.as_os_str().as_bytes());
        }
        // An account that is in no database (a container with an arbitrary uid): what the daemon itself was told.
        None => {
            for name in ["HOME", "USER", "LOGNAME", "SHELL"] {
                if let Some(value) = std::env::var_os(name) {
                    set(name, &value.into_vec());
                }
            }
        }
    }
    set("PATH", DEFAULT_PATH.as_bytes());
    if let Some(lang) = std::env::var_os("LANG") {
        set("LANG", lang.as_bytes());
    }
    for (name, value) in client.read().unwrap_or_else(PoisonError::into_inner).iter() {
        if !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0') {
            set(name, value.as_bytes());
        }
    }
    env
}
