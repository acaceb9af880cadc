//! Who signs: the agent, or a key file that is unlocked when the server has said that it would take the key.
//!
//! Invariant: what is signed is what russh hands over, and nothing else.

use super::super::target::Target;
use super::key_file::KeyFile;
use crate::backend::BackendError;
use russh::keys::agent::AgentIdentity;
use russh::keys::agent::client::AgentClient;
use russh::keys::signature::Signer as _;
use russh::keys::ssh_encoding::Encode;
use russh::keys::ssh_key::Signature;
use russh::keys::ssh_key::private::KeypairData;
use russh::keys::{HashAlg, PrivateKey, PublicKey};
use tokio::net::UnixStream;

/// Signs for one key.
pub(super) enum Signer<'a> {
    /// The agent signs with a key of its own.
    Agent { client: &'a mut AgentClient<UnixStream>, identity: Box<AgentIdentity> },
    /// A key file.
    File { file: &'a mut KeyFile, target: &'a Target, asked: bool },
}

/// Why there is no signature.
#[derive(Debug)]
pub(super) enum SignError {
    /// This key cannot be used; others may.
    Key(String),
    /// The login ends here: a person was needed.
    Login(BackendError),
}

impl From<russh::SendError> for SignError {
    fn from(e: russh::SendError) -> Self {
        Self::Key(e.to_string())
    }
}

impl russh::Signer for Signer<'_> {
    type Error = SignError;

    async fn auth_sign(&mut self, _key: &AgentIdentity, hash: Option<HashAlg>, mut data: Vec<u8>) -> Result<Vec<u8>, SignError> {
        match self {
            Self::Agent { client, identity } => {
                client.sign_request(identity, hash, data).await.map_err(|e| SignError::Key(format!("the agent did not sign: {e}")))
            }
            Self::File { file, target, asked } => {
                *asked |= file.is_locked(&target.desk);
                let key = file.unlock(target).await.map_err(SignError::Login)?;
                let signature = sign(&key, hash, &data).map_err(|e| SignError::Key(format!("{}: {e}", file.path.display())))?;
                // The length of a signature is far below four gigabytes.
                data.extend_from_slice(&u32::try_from(signature.len()).unwrap_or(u32::MAX).to_be_bytes());
                data.extend_from_slice(&signature);
                Ok(data)
            }
        }
    }
}

fn sign(key: &PrivateKey, hash: Option<HashAlg>, data: &[u8]) -> Result<Vec<u8>, String> {
    let signature: Signature = match key.key_data() {
        KeypairData::Rsa(pair) => (pair, hash).try_sign(data),
        pair => pair.try_sign(data),
    }
    .map_err(|e| e.to_string())?;
    signature.encode_vec().map_err(|e| e.to_string())
}

/// The agent's identity that signs for a key.
pub(super) fn identity(public: &PublicKey) -> Box<AgentIdentity> {
    Box::new(AgentIdentity::PublicKey { key: public.clone(), comment: String::new() })
}
