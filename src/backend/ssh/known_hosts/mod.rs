//! Which host keys are known: reads known_hosts files as OpenSSH does.
//!
//! Invariant: a host that is known by any key is never new. Its key being another one, of whatever type, means that it has
//! changed; a revoked key is refused wherever else it stands.

mod certificate;
pub(super) mod edit;
mod patterns;

use crate::model::{KnownKey, ShownKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use patterns::matches;
use russh::keys::{Algorithm, Certificate, HashAlg, PublicKey, PublicKeyOrCertificate};
use std::path::{Path, PathBuf};

/// The names by which a host is looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    /// The host as known_hosts names it, with its port when that is not 22; an alias stands alone.
    pub(super) name: String,
    /// The host's name as a certificate must have it.
    principal: String,
    /// The name without the port, which vouches for the same key on another port.
    bare: Option<String>,
}

impl Names {
    /// Names a host; an alias takes the place of everything.
    pub(super) fn new(host: &str, port: u16, alias: Option<&str>) -> Self {
        let principal = alias.unwrap_or(host).to_lowercase();
        if alias.is_some() || port == 22 {
            return Self { name: principal.clone(), principal, bare: None };
        }
        Self { name: format!("[{principal}]:{port}"), bare: Some(principal.clone()), principal }
    }
}

/// A host key as a server shows it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// The key itself.
    pub(super) key: PublicKey,
    /// The certificate that it came in.
    certificate: Option<Box<Certificate>>,
}

impl Shown {
    /// Takes what russh hands over.
    pub(super) fn new(shown: &PublicKeyOrCertificate) -> Self {
        Self { key: shown.public_key(), certificate: shown.certificate().cloned().map(Box::new) }
    }

    /// The key's bytes.
    pub(super) fn blob(&self) -> Vec<u8> {
        self.key.to_bytes().unwrap_or_default()
    }

    /// Describes it for a person.
    pub(super) fn words(&self) -> ShownKey {
        let authority = self.certificate.as_ref().map(|c| c.signature_key().fingerprint(HashAlg::Sha256).to_string());
        ShownKey { key_type: plain_name(&self.key.algorithm()), fingerprint: fingerprint(&self.key), authority }
    }

    /// The line that makes it known: name, type, key.
    pub(super) fn line(&self, name: &str) -> String {
        format!("{name} {} {}", plain_name(&self.key.algorithm()), STANDARD.encode(self.blob()))
    }
}

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

    /// Tells whether it is a plain key of this very host and port.
    pub(super) fn is_own(&self) -> bool {
        self.marker == Marker::None && self.exact
    }

    /// The fingerprint as `ssh-keygen -l` shows it.
    pub(super) fn fingerprint(&self) -> String {
        use ring::digest;
        let digest = digest::digest(&digest::SHA256, &self.blob);
        format!("SHA256:{}", STANDARD.encode(digest.as_ref()).trim_end_matches('='))
    }

    /// Describes it for a person.
    pub(super) fn words(&self) -> KnownKey {
        let marker = match self.marker {
            Marker::None => None,
            Marker::Authority => Some("@cert-authority".to_owned()),
            Marker::Revoked => Some("@revoked".to_owned()),
        };
        KnownKey { place: self.place(), key_type: self.kind.clone(), fingerprint: self.fingerprint(), marker }
    }
}

/// What the files say about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Known, or vouched for by a known authority.
    Known,
    /// The host is in no file.
    New,
    /// The host is known by other keys.
    Changed(Vec<Entry>),
    /// This key, or the authority that vouches for it, is revoked.
    Revoked(Entry),
    /// A known authority signed the certificate, but it does not hold, for this reason; and the key itself is not known.
    Unvouched(String),
}

/// The lines about one host.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    names: Names,
    entries: Vec<Entry>,
}

impl Known {
    /// Knows nothing of a host yet.
    pub(super) fn new(names: Names) -> Self {
        Self { names, entries: Vec::new() }
    }

    /// Adds the lines of one file that name the host.
    pub(super) fn read(&mut self, file: &Path, text: &str) {
        for (at, line) in text.lines().enumerate() {
            let Some(entry) = parse(file, at + 1, line, &self.names) else { continue };
            self.entries.push(entry);
        }
    }

    /// The names that it is about.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// All lines about the host.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Judges a key at a time, in seconds since 1970.
    pub(super) fn judge(&self, shown: &Shown, now: u64) -> Verdict {
        let blob = shown.blob();
        let authority = shown.certificate.as_ref().map(|c| certificate::authority(c));
        let is_revoked = |e: &&Entry| e.marker == Marker::Revoked && (e.blob == blob || Some(&e.blob) == authority.as_ref());
        if let Some(revoked) = self.entries.iter().find(is_revoked) {
            return Verdict::Revoked(revoked.clone());
        }
        let mut unvouched = None;
        if let Some(certificate) = &shown.certificate
            && self.entries.iter().any(|e| e.marker == Marker::Authority && Some(&e.blob) == authority.as_ref())
        {
            match certificate::holds(certificate, &self.names.principal, now) {
                Ok(()) => return Verdict::Known,
                // OpenSSH then looks at the bare key, and so does this.
                Err(why) => unvouched = Some(why),
            }
        }
        let plain = || self.entries.iter().filter(|e| e.marker == Marker::None);
        if plain().any(|e| e.blob == blob) {
            return Verdict::Known;
        }
        let others: Vec<Entry> = plain().filter(|e| e.exact).cloned().collect();
        match (others.is_empty(), unvouched) {
            (false, _) => Verdict::Changed(others),
            (true, Some(why)) => Verdict::Unvouched(why),
            (true, None) => Verdict::New,
        }
    }

    /// Puts the algorithms of known keys first, so that the server shows a key that can be compared.
    pub(super) fn order(&self, all: &[Algorithm]) -> Vec<Algorithm> {
        let known = |a: &Algorithm| self.entries.iter().any(|e| e.marker == Marker::None && e.kind == plain_name(a));
        let (first, rest): (Vec<_>, Vec<_>) = all.iter().cloned().partition(known);
        first.into_iter().chain(rest).collect()
    }

    /// The certificates to ask for: none where no authority is known, since a server that has one shows it rather than its key.
    pub(super) fn certificates(&self, all: &[Algorithm]) -> Vec<Algorithm> {
        if !self.entries.iter().any(|e| e.marker == Marker::Authority) {
            return Vec::new();
        }
        all.iter().filter(|a| !matches!(a, Algorithm::Rsa { hash: None } | Algorithm::Dsa)).cloned().collect()
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

/// The parts of a line: its marker, its list of names, and what follows.
fn split(line: &str) -> Option<(Marker, &str, std::str::SplitAsciiWhitespace<'_>)> {
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    let marker = match first {
        "@revoked" => Marker::Revoked,
        "@cert-authority" => Marker::Authority,
        // A comment, or a marker of a later time: its meaning is not known, so the line says nothing.
        other if other.starts_with(['@', '#']) => return None,
        _ => return Some((Marker::None, first, words)),
    };
    Some((marker, words.next()?, words))
}

fn parse(file: &Path, number: usize, line: &str, names: &Names) -> Option<Entry> {
    let (marker, list, mut words) = split(line)?;
    let exact = matches(list, &names.name);
    if !exact && !names.bare.as_ref().is_some_and(|bare| matches(list, bare)) {
        return None;
    }
    let kind = words.next()?.to_owned();
    let blob = STANDARD.decode(words.next()?).ok()?;
    // The key says of itself what it is; a line that says something else is none.
    let length = usize::try_from(u32::from_be_bytes(*blob.first_chunk()?)).ok()?;
    if blob.get(4..4 + length)? != kind.as_bytes() {
        return None;
    }
    Some(Entry { file: file.to_path_buf(), line: number, kind, blob, marker, exact })
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
        let mut known = Known::new(Names::new(host, port, None));
        known.read(Path::new("f"), text);
        known.judge(&Shown { key: key(blob), certificate: None }, 0)
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
    }

    #[test]
    fn an_alias_stands_for_host_and_port() {
        let text = format!("gpu ssh-ed25519 {B}\nfarm ssh-ed25519 {A}\n");
        let mut known = Known::new(Names::new("gpu", 2222, Some("Farm")));
        known.read(Path::new("f"), &text);
        assert_eq!(known.judge(&Shown { key: key(A), certificate: None }, 0), Verdict::Known);
        let verdict = known.judge(&Shown { key: key(B), certificate: None }, 0);
        assert_eq!(changed_at(&verdict), [2]);
        assert_eq!(known.names().name, "farm");
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
        let mut known = Known::new(Names::new("gpu", 22, None));
        known.read(Path::new("f"), "gpu ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQ==\n");
        assert!(known.certificates(&russh::Preferred::DEFAULT.key).is_empty());
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
