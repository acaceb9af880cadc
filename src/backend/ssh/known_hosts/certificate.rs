//! Whether a host certificate holds: who signed it, for which host, for how long.
//!
//! Invariant: a certificate without a list of names vouches for no host: one that any holder could show anywhere is worth
//! nothing.

use russh::keys::ssh_key::certificate::CertType;
use russh::keys::{Algorithm, Certificate, HashAlg, PublicKey};

/// The bytes of the key that signed it.
pub(super) fn authority(certificate: &Certificate) -> Vec<u8> {
    PublicKey::new(certificate.signature_key().clone(), "").to_bytes().unwrap_or_default()
}

/// Checks everything but whether the authority is trusted. The error completes "the certificate ...".
pub(super) fn holds(certificate: &Certificate, host: &str, now: u64) -> Result<(), String> {
    if certificate.cert_type() != CertType::Host {
        return Err("is one for a user, not for a host".into());
    }
    if matches!(certificate.signature().algorithm(), Algorithm::Rsa { hash: None } | Algorithm::Dsa) {
        return Err("is signed in a way that is not safe any more (SHA-1)".into());
    }
    if now < certificate.valid_after() {
        return Err("does not hold yet: its time begins later than this machine's clock".into());
    }
    if now >= certificate.valid_before() {
        return Err("has expired".into());
    }
    // Anything critical that is not understood must not be passed over, and for hosts nothing critical is defined.
    if let Some((name, _)) = certificate.critical_options().iter().next() {
        return Err(format!("has a condition that is not understood: {name}"));
    }
    // Names are whole: OpenSSH knows no patterns here.
    if !certificate.valid_principals().iter().any(|name| name.to_lowercase() == host) {
        let names = certificate.valid_principals().join(", ");
        let names = if names.is_empty() { "no host at all".to_owned() } else { names };
        return Err(format!("is for {names}, not for {host}"));
    }
    let trusted = certificate.signature_key().fingerprint(HashAlg::Sha256);
    certificate.validate_at(now, [&trusted]).map_err(|_| "has a signature that is wrong".to_owned())
}
