//! Decides whether the host key that a server shows is trusted, and writes down or replaces keys on the operator's word.
//!
//! Invariant: a changed or revoked key is refused whatever the policy is, and nobody is asked about it; a line of a known_hosts
//! file goes only when the operator says so by name.

use super::diary::{Judged, Step};
use super::known_hosts::edit;
use super::known_hosts::{Entry, Known, Names, Shown, Verdict};
use super::target::Target;
use crate::backend::{BackendError, ErrorKind};
use crate::config::HostKeyPolicy;
use crate::model::{Answer, HostKeyChange, HostKeys, Question, Standing};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Names the target as known_hosts does.
pub(super) fn names(target: &Target) -> Names {
    Names::new(&target.host, target.port, target.host_key_alias.as_deref())
}

/// Reads what is known of the target's host. A file that is not there knows nothing.
pub(super) async fn load(target: &Target) -> Result<Known, BackendError> {
    let mut known = Known::new(names(target));
    for file in &target.known_hosts {
        match tokio::fs::read(file).await {
            Ok(bytes) => known.read(file, &String::from_utf8_lossy(&bytes)),
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

/// Accepts the key or says why not. A new key that is accepted is written down, unless the way is only examined.
pub(super) async fn check(target: &Target, known: &Known, shown: &Shown) -> Result<(), BackendError> {
    let verdict = known.judge(shown, now());
    let name = &known.names().name;
    let accepted = match verdict {
        Verdict::Known => Judged::Known,
        _ if target.desk.trusts(name, &shown.blob()) => Judged::ForNow,
        _ => Judged::New,
    };
    let done = judge(target, name, verdict, shown).await;
    let judged = if done.is_ok() { accepted } else { Judged::Refused };
    target.diary.note(Step::HostKey { key: shown.words(), judged });
    done
}

async fn judge(target: &Target, name: &str, verdict: Verdict, shown: &Shown) -> Result<(), BackendError> {
    match verdict {
        Verdict::Known => Ok(()),
        Verdict::Revoked(entry) => Err(revoked(target, shown, &entry)),
        Verdict::Changed(entries) => {
            let known = entries.iter().map(Entry::words).collect();
            target.desk.person.tell(target.address(), Question::HostKeyChanged { host: name.to_owned(), key: shown.words(), known });
            Err(changed(target, shown, &entries))
        }
        Verdict::New | Verdict::Unvouched(_) if target.desk.trusts(name, &shown.blob()) => Ok(()),
        Verdict::Unvouched(why) => Err(unvouched(target, shown, &why)),
        Verdict::New if target.host_key == HostKeyPolicy::Strict => ask(target, name, shown).await,
        Verdict::New if target.diary.examines() => Ok(()),
        Verdict::New => {
            // The key was accepted by the policy; that it cannot be remembered is no reason to refuse the host.
            if let Err(e) = write_down(target, name, shown).await {
                tracing::warn!(host = target.place(), "new host key not written down: {e}");
            }
            Ok(())
        }
    }
}

/// Asks the person about a new key, when there is one.
async fn ask(target: &Target, name: &str, shown: &Shown) -> Result<(), BackendError> {
    let Some(file) = target.known_hosts.first() else { return Err(unknown(target, shown)) };
    let question = Question::HostKey { host: name.to_owned(), key: shown.words(), file: file.display().to_string() };
    match target.desk.person.ask(target.address(), question).await {
        Answer::Trust { save: true } => {
            // The person wanted it to be remembered: then a failure is theirs to know.
            write_down(target, name, shown).await.map_err(|e| not_written(target, file, &e))
        }
        Answer::Trust { save: false } => {
            target.desk.trust(name, shown.blob());
            Ok(())
        }
        Answer::Cancel | Answer::Texts { .. } => Err(unknown(target, shown)),
    }
}

/// Writes a new key down in the first file.
async fn write_down(target: &Target, name: &str, shown: &Shown) -> io::Result<()> {
    let Some(file) = target.known_hosts.first().cloned() else { return Ok(()) };
    let line = shown.line(name);
    let path = file.clone();
    blocking(move || edit::append(&path, &line)).await?;
    tracing::info!(host = target.place(), file = %file.display(), "new host key written down");
    Ok(())
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(io::Error::other(e)))
}

/// Tells what is known of the host, and how the key that it showed last stands.
pub(super) async fn show(target: &Target) -> Result<HostKeys, BackendError> {
    let known = load(target).await?;
    let shown = target.desk.seen(&known.names().name);
    let standing = match shown.as_ref().map(|shown| known.judge(shown, now())) {
        None => Standing::NotAsked,
        Some(Verdict::Known) => Standing::Known,
        Some(Verdict::New | Verdict::Unvouched(_)) => Standing::New,
        Some(Verdict::Changed(_)) => Standing::Changed,
        Some(Verdict::Revoked(_)) => Standing::Revoked,
    };
    Ok(HostKeys {
        backend: target.name.clone(),
        host: known.names().name.clone(),
        standing,
        shown: shown.map(|shown| shown.words()),
        known: known.entries().iter().map(Entry::words).collect(),
        file: target.known_hosts.first().map(|file| file.display().to_string()).unwrap_or_default(),
    })
}

/// Does what the operator wants. `fingerprint` names the key that was shown to them: nothing is written when the host showed
/// another one last.
pub(super) async fn change(target: &Target, change: HostKeyChange, fingerprint: &str) -> Result<HostKeys, BackendError> {
    let known = load(target).await?;
    let name = known.names().name.clone();
    let refused = |text: String| BackendError::new(ErrorKind::HostKey, text);
    let Some(file) = target.known_hosts.first().cloned() else {
        return Err(refused(format!("backend {} has no known_hosts file", target.name)));
    };
    if change == HostKeyChange::Remove {
        take_out(target, &known, &name, None).await?;
        return show(target).await;
    }
    let again = format!("look at it again with `qd hostkey show {}`", target.name);
    let shown = target.desk.seen(&name).ok_or_else(|| refused(format!("{} has shown no host key yet", target.place())).with_fix(&again))?;
    if shown.words().fingerprint != fingerprint {
        return Err(refused(format!("{} shows another key now: {}", target.place(), shown.words().fingerprint)).with_fix(again));
    }
    let line = shown.line(&name);
    match (known.judge(&shown, now()), change) {
        (Verdict::Known, _) => {}
        (Verdict::Revoked(entry), _) => return Err(revoked(target, &shown, &entry)),
        (Verdict::Changed(entries), HostKeyChange::Accept) => return Err(changed(target, &shown, &entries)),
        (Verdict::Changed(_), _) => take_out(target, &known, &name, Some((&file, line))).await?,
        (Verdict::New | Verdict::Unvouched(_), _) => {
            let path = file.clone();
            blocking(move || edit::append(&path, &line)).await.map_err(|e| not_written(target, &file, &e))?;
        }
    }
    show(target).await
}

/// Takes the host's keys out of every file that has one, the new line's file last, so that a failure leaves the host blocked.
async fn take_out(target: &Target, known: &Known, name: &str, then: Option<(&PathBuf, String)>) -> Result<(), BackendError> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in known.entries().iter().filter(|e| e.is_own()) {
        if !files.contains(&entry.file) && then.as_ref().is_none_or(|(file, _)| **file != entry.file) {
            files.push(entry.file.clone());
        }
    }
    let steps = files.into_iter().map(|file| (file, None)).chain(then.map(|(file, line)| (file.clone(), Some(line))));
    for (file, line) in steps {
        let (path, host) = (file.clone(), name.to_owned());
        let count = blocking(move || edit::remove(&path, &host, line.as_deref())).await.map_err(|e| not_written(target, &file, &e))?;
        tracing::info!(host = target.place(), file = %file.display(), lines = count, "host keys taken out");
    }
    Ok(())
}

fn now() -> u64 {
    // A clock before 1970 is wrong in any case: then no certificate holds yet.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn not_written(target: &Target, file: &Path, e: &io::Error) -> BackendError {
    // Errors of our own say what to do themselves.
    let fix =
        if e.kind() == io::ErrorKind::Other { "then try again" } else { "make the file writable, or name another first in `known_hosts:`" };
    BackendError::new(ErrorKind::HostKey, format!("cannot change what is known of {}: {}: {e}", target.place(), file.display()))
        .with_fix(fix)
}

fn unknown(target: &Target, shown: &Shown) -> BackendError {
    let files: Vec<String> = target.known_hosts.iter().map(|file| file.display().to_string()).collect();
    let key = shown.words();
    BackendError::new(
        ErrorKind::HostKey,
        format!("the host key of {} is not known: {} {} is not in {}", target.place(), key.key_type, key.fingerprint, files.join(", ")),
    )
    .with_fix(format!(
        "compare it with the machine's own (`ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` there); if it is right, run \
         `qd hostkey accept {0}`, or set `host_key: accept-new` for backend {0}",
        target.name
    ))
}

fn unvouched(target: &Target, shown: &Shown, why: &str) -> BackendError {
    let key = shown.words();
    BackendError::new(
        ErrorKind::HostKey,
        format!("the host certificate of {} {why}; its key is {} {}", target.place(), key.key_type, key.fingerprint),
    )
    .with_fix(format!(
        "have the certificate renewed, or compare the key with the machine's own and run `qd hostkey accept {}`",
        target.name
    ))
}

fn changed(target: &Target, shown: &Shown, entries: &[Entry]) -> BackendError {
    let were: Vec<String> = entries.iter().map(|e| format!("{} {} at {}", e.kind, e.fingerprint(), e.place())).collect();
    let key = shown.words();
    BackendError::new(
        ErrorKind::HostKey,
        format!(
            "the host key of {} has changed: it is now {} {}, known is {}; somebody may be in between, or the machine was set up anew",
            target.place(),
            key.key_type,
            key.fingerprint,
            were.join(", ")
        ),
    )
    .with_fix(format!("if you know why, replace the old key with `qd hostkey replace {}`", target.name))
}

fn revoked(target: &Target, shown: &Shown, entry: &Entry) -> BackendError {
    let key = shown.words();
    BackendError::new(
        ErrorKind::HostKey,
        format!("the host key of {} is revoked: {} {}, revoked at {}", target.place(), key.key_type, key.fingerprint, entry.place()),
    )
    .with_fix("do not use this machine until its host key was replaced")
}
