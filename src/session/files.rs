//! The session's files on its backend: one folder, 0700, ours.
//!
//! Invariant: where the backend's files are the daemon's own no shell is started to read or write them.

use super::errand::Errand;
use super::error::SessionError;
use super::place::Place;
use crate::backend::Environment;
use crate::shell::quote;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Limit of one look at the files, beyond the start of the shell.
const LIMIT: Duration = Duration::from_secs(60);

/// A file's name and content.
pub(super) type File = (String, Vec<u8>);

/// Chooses the session's folder, makes it and writes files into it. None: nothing is writable there. Folders of daemons
/// whose stamp is older than a day are removed.
pub(super) async fn settle(place: &Place, home: Homes, files: &[File]) -> Result<Option<String>, SessionError> {
    let script = settle_script(&home, &place.folder_name(), files);
    let answer = errand(place, "make the session's folder").demand(script).await?;
    let folder = String::from_utf8_lossy(&answer.stdout).into_owned();
    Ok((folder.starts_with('/')).then_some(folder))
}

/// Where folders may be made, from the captured environment.
#[derive(Clone, Debug, Default)]
pub(super) struct Homes {
    /// HOME.
    pub(super) home: Option<Vec<u8>>,
    /// XDG_STATE_HOME.
    pub(super) state: Option<Vec<u8>>,
}

/// Gives the folders that ours may be made in, the first first, as words of a script.
pub(super) fn roots(homes: &Homes) -> Vec<u8> {
    let absolute = |p: &&Vec<u8>| p.starts_with(b"/");
    let mut roots = Vec::new();
    match (homes.state.as_ref().filter(absolute), homes.home.as_ref().filter(absolute)) {
        (Some(state), _) => roots.push([quote::bytes(state), b"/quarterdeck".to_vec()].concat()),
        (None, Some(home)) => roots.push([quote::bytes(home), b"/.local/state/quarterdeck".to_vec()].concat()),
        (None, None) => {}
    }
    if let Some(home) = homes.home.as_ref().filter(absolute) {
        roots.push([quote::bytes(home), b"/.cache/quarterdeck".to_vec()].concat());
    }
    for shared in ["/var/tmp", "/tmp", "/dev/shm"] {
        roots.push(format!("{shared}/quarterdeck-\"$(id -u)\"").into_bytes());
    }
    roots.join(&b' ')
}

fn settle_script(homes: &Homes, name: &str, files: &[File]) -> Vec<u8> {
    let (daemon, _) = name.split_once('/').unwrap_or((name, ""));
    let mut out = b"umask 077\nfor d in ".to_vec();
    out.extend(roots(homes));
    out.extend_from_slice(b"; do\nmkdir -p -- \"$d\" 2>/dev/null || continue\n");
    out.extend_from_slice(b"[ -d \"$d\" ] && [ ! -h \"$d\" ] && [ -O \"$d\" ] && chmod 700 -- \"$d\" 2>/dev/null || continue\n");
    out.extend_from_slice(format!("s=$d/{name}\nmkdir -p -- \"$s\" 2>/dev/null || continue\n").as_bytes());
    out.extend_from_slice(format!(": 2>/dev/null >\"$d/{daemon}/stamp\" || continue\n").as_bytes());
    for (file, content) in files {
        out.extend_from_slice(b"printf %s ");
        out.extend(quote::bytes(content));
        out.extend_from_slice(format!(" 2>/dev/null >\"$s/{file}\" || continue\n").as_bytes());
    }
    // A stamp that is a day old belongs to a daemon that is gone: a living one renews it.
    out.extend_from_slice(
        b"find \"$d\" -mindepth 2 -maxdepth 2 -name stamp -mmin +1440 2>/dev/null | while IFS= read -r f; do rm -rf -- \"${f%/stamp}\"; done\n\
          printf %s \"$s\"\nexit 0\ndone\nprintf %s -\nexit 0\n",
    );
    out
}

/// Reads files; none where one cannot be read.
pub(super) async fn read(place: &Place, folder: &str, names: &[String]) -> Result<Vec<Option<Vec<u8>>>, SessionError> {
    if place.same_files() {
        let paths: Vec<String> = names.iter().map(|n| format!("{folder}/{n}")).collect();
        return blocking(move || Ok(paths.iter().map(|p| std::fs::read(p).ok()).collect())).await.map_err(|e| own(folder, e));
    }
    // Behind its size: a record holds NUL bytes.
    let mut script = b"for f in ".to_vec();
    script.extend(list(folder, names));
    script.extend_from_slice(b"; do if [ -r \"$f\" ]; then s=$(wc -c <\"$f\") && printf '%d\\n' \"$s\" && cat -- \"$f\"; else printf -- '-\\n'; fi; done\nexit 0\n");
    let errand = errand(place, "read the session's files");
    let answer = errand.demand(script).await?;
    sized(&answer.stdout).filter(|files| files.len() == names.len()).ok_or_else(|| errand.failed("the answer was cut off".into()))
}

/// Reads contents that each stand behind a line with their size, `-` where there is none. None when that is not all.
fn sized(mut answer: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
    let mut out = Vec::new();
    while !answer.is_empty() {
        let end = answer.iter().position(|b| *b == b'\n')?;
        let (size, rest) = (&answer[..end], &answer[end + 1..]);
        if size == b"-" {
            out.push(None);
            answer = rest;
            continue;
        }
        let size: usize = std::str::from_utf8(size).ok()?.parse().ok()?;
        out.push(Some(rest.get(..size)?.to_vec()));
        answer = &rest[size..];
    }
    Some(out)
}

/// Writes files into the folder that is there.
pub(super) async fn write(place: &Place, folder: &str, files: Vec<File>) -> Result<(), SessionError> {
    if place.same_files() {
        let base = folder.to_owned();
        return blocking(move || {
            for (name, content) in &files {
                private(Path::new(&base).join(name).as_path(), content)?;
            }
            Ok(())
        })
        .await
        .map_err(|e| own(folder, e));
    }
    let mut script = b"umask 077\n".to_vec();
    for (name, content) in &files {
        script.extend_from_slice(b"printf %s ");
        script.extend(quote::bytes(content));
        script.extend_from_slice(b" >");
        script.extend(quote::bytes(format!("{folder}/{name}").as_bytes()));
        script.extend_from_slice(b" || exit 1\n");
    }
    script.extend_from_slice(b"exit 0\n");
    errand(place, "write the session's files").demand(script).await.map(|_| ())
}

/// Removes files, and renews the daemon's stamp. What is not there is no error.
pub(super) async fn remove(place: &Place, folder: &str, names: &[String]) -> Result<(), SessionError> {
    let stamp = format!("{}/stamp", folder.rsplit_once('/').map_or(folder, |(parent, _)| parent));
    if place.same_files() {
        let paths: Vec<String> = names.iter().map(|n| format!("{folder}/{n}")).collect();
        return blocking(move || {
            for path in &paths {
                match std::fs::remove_file(path) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
            }
            private(Path::new(&stamp), b"")
        })
        .await
        .map_err(|e| own(folder, e));
    }
    let mut script = b"rm -f -- ".to_vec();
    script.extend(list(folder, names));
    script.extend_from_slice(b"\n: >");
    script.extend(quote::bytes(stamp.as_bytes()));
    script.extend_from_slice(b"\nexit 0\n");
    errand(place, "remove old files of the session").demand(script).await.map(|_| ())
}

/// Removes files that no snapshot on the list has and that are a day old: a daemon that was killed left them.
pub(super) async fn sweep(place: &Place, folder: &str, keep: &[String]) -> Result<(), SessionError> {
    let mut script = b"cd -- ".to_vec();
    script.extend(quote::bytes(folder.as_bytes()));
    script.extend_from_slice(b" || exit 0\nfind . -type f -mmin +1440 2>/dev/null | while IFS= read -r f; do f=${f#./}; case ${f%.*} in ");
    script.extend(keep.iter().map(|id| quote::bytes(id.as_bytes())).collect::<Vec<_>>().join(&b'|'));
    script.extend_from_slice(b") ;; *) rm -f -- \"$f\";; esac; done\nexit 0\n");
    errand(place, "remove left files of the session").demand(script).await.map(|_| ())
}

/// Removes the session's folder.
pub(super) async fn remove_all(place: &Place, folder: &str) -> Result<(), SessionError> {
    if !folder.ends_with(&place.folder_name()) {
        // Never anything but our own folder, whatever a damaged file says.
        return Ok(());
    }
    let mut script = b"rm -rf -- ".to_vec();
    script.extend(quote::bytes(folder.as_bytes()));
    script.extend_from_slice(b"\nexit 0\n");
    errand(place, "remove the session's folder").demand(script).await.map(|_| ())
}

/// Writes a file that nobody else can read.
pub(super) fn private(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(content)
}

/// Runs file work where it may block.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

fn list(folder: &str, names: &[String]) -> Vec<u8> {
    names.iter().map(|n| quote::bytes(format!("{folder}/{n}").as_bytes())).collect::<Vec<_>>().join(&b' ')
}

fn errand<'a>(place: &'a Place, what: &'static str) -> Errand<'a> {
    Errand {
        backend: &place.backend,
        shell: place.settings.shell,
        environment: Environment::Empty,
        start: place.settings.start_timeout,
        limit: LIMIT,
        what,
    }
}

fn own(folder: &str, source: io::Error) -> SessionError {
    SessionError::Own { path: folder.into(), source }
}

#[cfg(test)]
mod tests {
    use super::sized;

    #[test]
    fn contents_come_behind_their_sizes() {
        let files = sized(b"3\na\0\n-\n0\n").unwrap();
        assert_eq!(files, [Some(b"a\0\n".to_vec()), None, Some(Vec::new())]);
        assert_eq!(sized(b""), Some(vec![]));
        for cut in ["3\nab", "3", "x\nabc"] {
            assert_eq!(sized(cut.as_bytes()), None, "{cut:?}");
        }
    }
}
