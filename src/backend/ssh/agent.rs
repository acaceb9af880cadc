//! The ssh agent: which identities it has.
//!
//! Invariant: an identity of a type that is not understood is passed over; it never hides the others.

use russh::keys::agent::client::AgentClient;
use russh::keys::{Certificate, PublicKey};
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Longest wait for the list of identities.
const ANSWER: Duration = Duration::from_secs(5);
/// Largest answer taken.
const LARGEST: usize = 1 << 20;
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;

/// What the agent can sign with.
#[derive(Clone, Debug)]
pub(super) enum Identity {
    /// A key.
    Key(PublicKey),
    /// A certificate.
    Certificate(Box<Certificate>),
}

/// Asks the agent at `socket` for its identities and gives a client that can sign with them.
pub(super) async fn open(socket: &Path) -> io::Result<(AgentClient<UnixStream>, Vec<Identity>)> {
    let ask = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(&[0, 0, 0, 1, REQUEST_IDENTITIES]).await?;
        let len = usize::try_from(stream.read_u32().await?).unwrap_or(usize::MAX);
        if len > LARGEST {
            return Err(io::Error::other(format!("an answer of {len} bytes")));
        }
        let mut answer = vec![0; len];
        stream.read_exact(&mut answer).await?;
        Ok((stream, identities(&answer)?))
    };
    let (stream, identities) =
        timeout(ANSWER, ask).await.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 5 s")))?;
    Ok((AgentClient::connect(stream), identities))
}

/// Reads the answer: a count, then key and comment of each.
fn identities(answer: &[u8]) -> io::Result<Vec<Identity>> {
    let broken = || io::Error::new(io::ErrorKind::InvalidData, "an answer that is no list of identities");
    let (kind, mut rest) = answer.split_first().ok_or_else(broken)?;
    if *kind != IDENTITIES_ANSWER {
        return Err(broken());
    }
    let count = number(&mut rest).ok_or_else(broken)?;
    let mut found = Vec::new();
    for _ in 0..count {
        let blob = string(&mut rest).ok_or_else(broken)?;
        string(&mut rest).ok_or_else(broken)?;
        match identity(blob) {
            Some(identity) => found.push(identity),
            None => tracing::debug!("an identity of the agent is of a type that is not understood"),
        }
    }
    Ok(found)
}

fn identity(blob: &[u8]) -> Option<Identity> {
    let mut head = blob;
    let kind = string(&mut head)?;
    if kind.ends_with(b"-cert-v01@openssh.com") {
        return Certificate::from_bytes(blob).ok().map(|c| Identity::Certificate(Box::new(c)));
    }
    let key = PublicKey::from_bytes(blob).ok()?;
    // A type without a name of its own cannot be signed with either.
    if key.key_data().is_other() { None } else { Some(Identity::Key(key)) }
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let (head, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    usize::try_from(u32::from_be_bytes(*head)).ok()
}

fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = number(rest)?;
    let (head, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(out: &mut Vec<u8>, text: &[u8]) {
        out.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
        out.extend_from_slice(text);
    }

    #[test]
    fn an_unknown_identity_hides_no_other() {
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";
        let key = PublicKey::from_openssh(key).unwrap();
        let mut answer = vec![IDENTITIES_ANSWER, 0, 0, 0, 4];
        let mut strange = Vec::new();
        put(&mut strange, b"ssh-mldsa-65");
        put(&mut strange, &[1; 40]);
        let mut malformed = Vec::new();
        put(&mut malformed, b"ssh-dss");
        malformed.extend_from_slice(&[0, 0, 0, 99, 1]);
        for blob in [&strange[..], &malformed, b"", &key.to_bytes().unwrap()] {
            put(&mut answer, blob);
            put(&mut answer, b"a comment");
        }
        let found = identities(&answer).unwrap();
        assert_eq!(found.len(), 1);
        assert!(matches!(&found[0], Identity::Key(k) if k.key_data() == key.key_data()));
    }

    #[test]
    fn a_broken_answer_is_an_error() {
        for answer in [&b""[..], &[5], &[IDENTITIES_ANSWER, 0, 0], &[IDENTITIES_ANSWER, 0, 0, 0, 1, 0, 0, 0, 9, 1]] {
            assert!(identities(answer).is_err(), "{answer:?}");
        }
    }
}
