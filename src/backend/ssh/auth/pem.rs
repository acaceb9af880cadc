//! The older form of key files: which of them are locked, and unlocking the kind that russh cannot.
//!
//! Invariant: text that is not of this form is left to others.

use aes::Aes128;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, KeyIvInit};
use zeroize::Zeroizing;

const EC: &str = "-----BEGIN EC PRIVATE KEY-----";
const EC_END: &str = "-----END EC PRIVATE KEY-----";
/// What OpenSSL writes above a key that it has locked.
const LOCKED: &str = "Proc-Type: 4,ENCRYPTED";
const CIPHER: &str = "DEK-Info: AES-128-CBC,";

/// Tells whether a text is a locked key in PEM or PKCS #8.
pub(super) fn is_locked(text: &str) -> bool {
    text.contains(LOCKED) || text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
}

/// Tells whether a text is a key in OpenSSH's own form.
pub(super) fn is_openssh(text: &str) -> bool {
    text.contains("-----BEGIN OPENSSH PRIVATE KEY-----")
}

/// Unlocks an elliptic curve key in PEM. None when the text is none; none inside when the passphrase does not fit.
#[expect(clippy::option_option, reason = "no such key and no such passphrase are different answers")]
pub(super) fn unlock_ec(text: &str, passphrase: &str) -> Option<Option<Zeroizing<String>>> {
    let body = text.split_once(EC)?.1.split_once(EC_END)?.0;
    let iv = body.lines().find_map(|line| line.trim().strip_prefix(CIPHER))?;
    Some(unlock(body, iv, passphrase))
}

fn unlock(body: &str, iv: &str, passphrase: &str) -> Option<Zeroizing<String>> {
    let iv: Vec<u8> = (0..iv.len() / 2).map(|i| u8::from_str_radix(iv.get(2 * i..2 * i + 2)?, 16).ok()).collect::<Option<_>>()?;
    let mut hash = md5::Context::new();
    hash.consume(passphrase.as_bytes());
    hash.consume(iv.get(..8)?);
    let key = Zeroizing::new(hash.finalize().0);
    let base64: String = body.lines().filter(|line| !line.contains(':')).map(str::trim).collect();
    let mut bytes = Zeroizing::new(STANDARD.decode(base64).ok()?);
    let plain = cbc::Decryptor::<Aes128>::new_from_slices(&key[..], &iv).ok()?.decrypt_padded::<Pkcs7>(&mut bytes).ok()?;
    Some(Zeroizing::new(format!("{EC}\n{}\n{EC_END}\n", STANDARD.encode(plain))))
}
