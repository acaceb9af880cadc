//! Decides whether the host key that a server shows is trusted, and writes down a new one.
//!
//! Invariant: a changed or revoked key is refused whatever the policy is, and no line of a known_hosts file is ever changed:
//! new ones are only added.

use super::known_hosts::{self, Entry, Known, Verdict};
use super::target::Target;
use crate::backend::{BackendError, ErrorKind};
use crate::config::HostKeyPolicy;
use russh::keys::PublicKey;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Reads what is known of the target's host. A file that is not there knows nothing.
pub(super) async fn load(target: &Target) -> Result<Known, BackendError> {
    let mut known = Known::default();
    let (host, port) = target.known_as();
    for file in &target.known_hosts {
        match tokio::fs::read(file).await {
            Ok(bytes) => known.read(file, &String::from_utf8_lossy(&bytes), host, port),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => {
                return Err(BackendError::new(
                    ErrorKind::HostKey,
                    format!("cannot tell whether the key of {} is known: {} cannot be read: {e}", target.place(), file.display()),
                )
                .with_fix("make the file readable, or name another with `known_hosts:`"));
            }
        }
    }
    Ok(known)
}

/// Accepts the key or says why not. A new key that is accepted is written down.
pub(super) async fn check(target: &Target, known: &Known, key: &PublicKey) -> Result<(), BackendError> {
    match known.judge(key) {
        Verdict::Known => Ok(()),
        Verdict::Revoked(entry) => Err(revoked(target, key, &entry)),
        Verdict::Changed(entries) => Err(changed(target, key, &entries)),
        Verdict::New if target.host_key == HostKeyPolicy::Strict => Err(unknown(target, key)),
        Verdict::New => {
            let (host, port) = target.known_as();
            let line = format!("{} {}\n", known_hosts::name(host, port), openssh(key)?);
            let Some(file) = target.known_hosts.first().cloned() else { return Ok(()) };
            let shown = file.clone();
            let done = tokio::task::spawn_blocking(move || append(&file, &line)).await.unwrap_or_else(|e| Err(io::Error::other(e)));
            match done {
                Ok(()) => tracing::info!(host = target.place(), file = %shown.display(), "new host key written down"),
                // The key was accepted by the policy; that it cannot be remembered is no reason to refuse the host.
                Err(e) => tracing::warn!(host = target.place(), file = %shown.display(), "new host key not written down: {e}"),
            }
            Ok(())
        }
    }
}

/// The key's type and text, without a comment.
fn openssh(key: &PublicKey) -> Result<String, BackendError> {
    let text = key.to_openssh().map_err(|e| BackendError::new(ErrorKind::Internal, format!("cannot write the host key: {e}")))?;
    let mut words = text.split(' ');
    Ok(format!("{} {}", words.next().unwrap_or_default(), words.next().unwrap_or_default()))
}

fn kind(key: &PublicKey) -> String {
    key.algorithm().to_string()
}

fn unknown(target: &Target, key: &PublicKey) -> BackendError {
    let files: Vec<String> = target.known_hosts.iter().map(|file| file.display().to_string()).collect();
    let (kind, print) = (kind(key), known_hosts::fingerprint(key));
    BackendError::new(
        ErrorKind::HostKey,
        format!("the host key of {} is not known: {kind} {print} is not in {}", target.place(), files.join(", ")),
    )
    .with_fix(format!(
        "compare it with the machine's own (`ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` there); if it is right, connect once with \
         `ssh -p {} {}@{}`, or set `host_key: accept-new` for backend {}",
        target.port, target.user, target.host, target.name
    ))
}

fn changed(target: &Target, key: &PublicKey, entries: &[Entry]) -> BackendError {
    let were: Vec<String> = entries.iter().map(|e| format!("{} {} at {}", e.kind, e.fingerprint(), e.place())).collect();
    let (host, port) = target.known_as();
    let first = entries.first().map(|e| e.file.display().to_string()).unwrap_or_default();
    BackendError::new(
        ErrorKind::HostKey,
        format!(
            "the host key of {} has changed: it is now {} {}, known is {}; somebody may be in between, or the machine was set up anew",
            target.place(),
            kind(key),
            known_hosts::fingerprint(key),
            were.join(", ")
        ),
    )
    .with_fix(format!(
        "if you know why, remove the old key with `ssh-keygen -f {first} -R '{}'` and reconnect",
        known_hosts::name(host, port)
    ))
}

fn revoked(target: &Target, key: &PublicKey, entry: &Entry) -> BackendError {
    BackendError::new(
        ErrorKind::HostKey,
        format!("the host key of {} is revoked: {} {} at {}", target.place(), kind(key), known_hosts::fingerprint(key), entry.place()),
    )
    .with_fix("do not use this machine until its host key was replaced")
}

/// Adds a line with one write, so that other programs that add lines are not disturbed.
fn append(file: &Path, line: &str) -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(dir) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut opened = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(file)?;
    let mut text = String::new();
    opened.read_to_string(&mut text).or_else(|e| if e.kind() == io::ErrorKind::InvalidData { Ok(0) } else { Err(e) })?;
    if text.lines().any(|l| l == line.trim_end()) {
        // Another backend on the same host was faster.
        return Ok(());
    }
    let whole = if ends_open(&mut opened)? { format!("\n{line}") } else { line.to_owned() };
    opened.write_all(whole.as_bytes())
}

/// Whether the last line lacks its newline.
fn ends_open(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last[0] != b'\n')
}
