//! Which host keys are known: reads known_hosts files as OpenSSH does.
//!
//! Invariant: a host that is known by any key is never new. Its key being another one, of whatever type, means that it has
//! changed; a revoked key is refused wherever else it stands.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use russh::keys::{Algorithm, HashAlg, PublicKey};
use std::path::{Path, PathBuf};

/// One line that names the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The file.
    pub(super) file: PathBuf,
    /// The line, from 1.
    pub(super) line: usize,
    /// The key's type as written, `ssh-ed25519`.
    pub(super) kind: String,
    /// The key itself.
    blob: Vec<u8>,
    marker: Marker,
    /// Whether it names the host with its port (as opposed to the bare host name of a host on another port).
    exact: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    None,
    Authority,
    Revoked,
}

impl Entry {
    /// Names the place for a person: `FILE:LINE`.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }

    /// The fingerprint as `ssh-keygen -l` shows it.
    pub(super) fn fingerprint(&self) -> String {
        use ring::digest;
        let digest = digest::digest(&digest::SHA256, &self.blob);
        format!("SHA256:{}", STANDARD.encode(digest.as_ref()).trim_end_matches('='))
    }
}

/// What the files say about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Known.
    Known,
    /// The host is in no file.
    New,
    /// The host is known by other keys.
    Changed(Vec<Entry>),
    /// This key is revoked.
    Revoked(Entry),
}

/// The lines about one host.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    entries: Vec<Entry>,
}

impl Known {
    /// Adds the lines of one file that name the host.
    pub(super) fn read(&mut self, file: &Path, text: &str, host: &str, port: u16) {
        let host = host.to_lowercase();
        let name = name(&host, port);
        for (at, line) in text.lines().enumerate() {
            let Some(entry) = parse(file, at + 1, line, &name, &host) else { continue };
            self.entries.push(entry);
        }
    }

    /// Judges a key.
    pub(super) fn judge(&self, key: &PublicKey) -> Verdict {
        let blob = key.to_bytes().unwrap_or_default();
        if let Some(revoked) = self.entries.iter().find(|e| e.marker == Marker::Revoked && e.blob == blob) {
            return Verdict::Revoked(revoked.clone());
        }
        // Authorities speak for certificates only, which are not asked for.
        let plain = || self.entries.iter().filter(|e| e.marker == Marker::None);
        if plain().any(|e| e.blob == blob) {
            return Verdict::Known;
        }
        let others: Vec<Entry> = plain().filter(|e| e.exact).cloned().collect();
        if others.is_empty() { Verdict::New } else { Verdict::Changed(others) }
    }

    /// Puts the algorithms of known keys first, so that the server shows a key that can be compared.
    pub(super) fn order(&self, all: &[Algorithm]) -> Vec<Algorithm> {
        let known = |a: &Algorithm| self.entries.iter().any(|e| e.marker == Marker::None && e.kind == plain_name(a));
        let (first, rest): (Vec<_>, Vec<_>) = all.iter().cloned().partition(known);
        first.into_iter().chain(rest).collect()
    }
}

/// The name of the key type as known_hosts has it: an RSA key is `ssh-rsa` whatever it signs with.
fn plain_name(algorithm: &Algorithm) -> String {
    match algorithm {
        Algorithm::Rsa { .. } => "ssh-rsa".to_owned(),
        other => other.as_str().to_owned(),
    }
}

/// The fingerprint of a key as `ssh-keygen -l` shows it.
pub(super) fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// The host as known_hosts names it.
pub(super) fn name(host: &str, port: u16) -> String {
    let host = host.to_lowercase();
    if port == 22 { host } else { format!("[{host}]:{port}") }
}

fn parse(file: &Path, number: usize, line: &str, name: &str, bare: &str) -> Option<Entry> {
    let mut words = line.split_ascii_whitespace();
    let mut first = words.next()?;
    if first.starts_with('#') {
        return None;
    }
    let marker = match first {
        "@revoked" => Marker::Revoked,
        "@cert-authority" => Marker::Authority,
        // A marker of a later time: its meaning is not known, so the line says nothing.
        other if other.starts_with('@') => return None,
        _ => Marker::None,
    };
    if marker != Marker::None {
        first = words.next()?;
    }
    let exact = matches(first, name);
    if !exact && !matches(first, bare) {
        return None;
    }
    let kind = words.next()?.to_owned();
    let blob = STANDARD.decode(words.next()?).ok()?;
    Some(Entry { file: file.to_path_buf(), line: number, kind, blob, marker, exact })
}

/// Whether the list of patterns of a line names the host.
fn matches(patterns: &str, name: &str) -> bool {
    if let Some(hashed) = patterns.strip_prefix("|1|") {
        return hashed_is(hashed, name).unwrap_or(false);
    }
    let mut found = false;
    for pattern in patterns.split(',') {
        match pattern.strip_prefix('!') {
            Some(not) if glob(not.to_lowercase().as_bytes(), name.as_bytes()) => return false,
            Some(_) => {}
            None => found |= glob(pattern.to_lowercase().as_bytes(), name.as_bytes()),
        }
    }
    found
}

fn hashed_is(hashed: &str, name: &str) -> Option<bool> {
    let (salt, hash) = hashed.split_once('|')?;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &STANDARD.decode(salt).ok()?);
    Some(ring::hmac::verify(&key, name.as_bytes(), &STANDARD.decode(hash).ok()?).is_ok())
}

/// `*` is any run of bytes, `?` one byte.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, t + 1));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after, from)) => {
                    (p, t) = (after, from);
                    retry = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";
    const B: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";

    fn key(blob: &str) -> PublicKey {
        PublicKey::from_openssh(&format!("ssh-ed25519 {blob}")).expect("a key")
    }

    fn judge(text: &str, host: &str, port: u16, blob: &str) -> Verdict {
        let mut known = Known::default();
        known.read(Path::new("f"), text, host, port);
        known.judge(&key(blob))
    }

    fn changed_at(verdict: &Verdict) -> Vec<usize> {
        match verdict {
            Verdict::Changed(entries) => entries.iter().map(|e| e.line).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn names_ports_and_case() {
        let text = format!("# a comment\n\nGPU.lab,10.0.0.7 ssh-ed25519 {A} comment\n[gpu.lab]:2222\tssh-ed25519\t{B}\n");
        assert_eq!(judge(&text, "gpu.LAB", 22, A), Verdict::Known);
        assert_eq!(judge(&text, "10.0.0.7", 22, A), Verdict::Known);
        assert_eq!(judge(&text, "gpu.lab", 2222, B), Verdict::Known);
        // Lines are counted with comments and empty ones.
        assert_eq!(changed_at(&judge(&text, "gpu.lab", 22, B)), [3]);
        assert_eq!(judge(&text, "other.lab", 22, A), Verdict::New);
        // The bare name vouches for the same key on another port, and says nothing against a different one.
        let text = format!("gpu.lab ssh-ed25519 {A}\n");
        assert_eq!(judge(&text, "gpu.lab", 2222, A), Verdict::Known);
        assert_eq!(judge(&text, "gpu.lab", 2222, B), Verdict::New);
    }

    #[test]
    fn wildcards_and_negation() {
        let text = format!("*.lab,!bad.lab,gpu? ssh-ed25519 {A}\n");
        for host in ["gpu.lab", "a.b.lab", "gpu7"] {
            assert_eq!(judge(&text, host, 22, A), Verdict::Known, "{host}");
        }
        for host in ["bad.lab", "lab", "gpu", "gpu77"] {
            assert_eq!(judge(&text, host, 22, A), Verdict::New, "{host}");
        }
        assert!(glob(b"a*b*c", b"aXbYbZc") && !glob(b"a*b*c", b"aXbYbZ") && glob(b"*", b"") && glob(b"**a", b"a"));
    }

    #[test]
    fn several_keys_of_one_type_are_all_known() {
        let text = format!("gpu ssh-ed25519 {A}\ngpu ssh-ed25519 {B}\n");
        assert_eq!(judge(&text, "gpu", 22, A), Verdict::Known);
        assert_eq!(judge(&text, "gpu", 22, B), Verdict::Known);
    }

    #[test]
    fn another_type_is_a_change_not_a_new_host() {
        let text = "gpu ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ==\n";
        let verdict = judge(text, "gpu", 22, A);
        assert_eq!(changed_at(&verdict), [1]);
        let Verdict::Changed(entries) = verdict else { unreachable!() };
        assert_eq!(entries[0].kind, "ssh-rsa");
    }

    #[test]
    fn markers() {
        let revoked = format!("gpu ssh-ed25519 {A}\n@revoked * ssh-ed25519 {A}\n");
        assert!(matches!(judge(&revoked, "gpu", 22, A), Verdict::Revoked(e) if e.place() == "f:2"));
        // An authority speaks for certificates, not for this key, and does not make the host known.
        assert_eq!(judge(&format!("@cert-authority * ssh-ed25519 {A}\n"), "gpu", 22, A), Verdict::New);
        assert_eq!(judge(&format!("@tomorrow gpu ssh-ed25519 {A}\n"), "gpu", 22, B), Verdict::New);
    }

    #[test]
    fn broken_lines_hide_no_other() {
        let text =
            format!("gpu\ngpu ssh-ed25519\ngpu ssh-ed25519 %%%\n|1|x gpu\n|1|===|=== ssh-ed25519 {A}\n\u{fffd}\ngpu ssh-ed25519 {A}\n");
        assert_eq!(judge(&text, "gpu", 22, A), Verdict::Known);
    }

    #[test]
    fn known_types_come_first() {
        let mut known = Known::default();
        known.read(Path::new("f"), "gpu ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ==\n", "gpu", 22);
        let order = known.order(&russh::Preferred::DEFAULT.key);
        assert!(matches!(order[0], Algorithm::Rsa { hash: Some(HashAlg::Sha512) }), "{order:?}");
        assert_eq!(order.len(), russh::Preferred::DEFAULT.key.len());
    }

    /// Against files that OpenSSH itself has made.
    #[test]
    fn hashed_names_of_ssh_keygen() {
        use std::process::Command;
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("known_hosts");
        std::fs::write(&file, format!("gpu.lab,10.0.0.7 ssh-ed25519 {A}\n[gpu.lab]:2222 ssh-ed25519 {B}\n")).expect("write");
        let hashed = Command::new("ssh-keygen").args(["-H", "-f"]).arg(&file).output();
        if hashed.is_err() {
            eprintln!("skipped: there is no ssh-keygen on this machine");
            return;
        }
        let text = std::fs::read_to_string(&file).expect("read");
        assert!(text.starts_with("|1|") && !text.contains("gpu.lab"), "{text}");
        assert_eq!(judge(&text, "gpu.lab", 22, A), Verdict::Known);
        assert_eq!(judge(&text, "10.0.0.7", 22, A), Verdict::Known);
        assert_eq!(judge(&text, "gpu.lab", 2222, B), Verdict::Known);
        assert_eq!(judge(&text, "other", 22, A), Verdict::New);
        let Verdict::Changed(entries) = judge(&text, "10.0.0.7", 22, B) else { panic!("not changed") };
        // The fingerprint is the one that ssh-keygen shows.
        let shown = Command::new("ssh-keygen").args(["-l", "-f"]).arg(&file).output().expect("ssh-keygen");
        assert!(String::from_utf8_lossy(&shown.stdout).contains(&entries[0].fingerprint()));
        assert_eq!(entries[0].fingerprint(), fingerprint(&key(A)));
    }
}
