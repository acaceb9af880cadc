//! Which keys are offered, in which order.
//!
//! Invariant: pure. Configured keys come first and the agent signs with them when it has them; a certificate comes before the
//! bare key that it is for.

use super::super::agent::Identity;
use super::key_file::KeyFile;
use russh::keys::{Certificate, PublicKey};

/// A key to offer.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Its public key; none when it cannot be told before the file is unlocked.
    pub(super) public: Option<PublicKey>,
    /// The certificate to show in its place.
    pub(super) certificate: Option<Box<Certificate>>,
    /// Who signs.
    pub(super) by: By,
}

/// Who signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The agent.
    Agent,
    /// The key file of this number.
    File(usize),
}

/// What the person's settings say about the order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wishes {
    /// Key files were configured.
    pub(super) files_first: bool,
    /// The agent may sign for key files alone.
    pub(super) files_only: bool,
}

/// Puts everything in order.
pub(super) fn plan(files: &[KeyFile], agent: &[Identity], certificates: &[Certificate], wishes: Wishes) -> Vec<Candidate> {
    let same = |a: &PublicKey, b: &PublicKey| a.key_data() == b.key_data();
    let has = |public: &PublicKey| agent.iter().any(|i| matches!(i, Identity::Key(key) if same(key, public)));
    let is_file = |public: &PublicKey| files.iter().any(|f| f.public.as_ref().is_some_and(|p| same(p, public)));
    let (mut with_agent, mut alone) = (Vec::new(), Vec::new());
    for (at, file) in files.iter().enumerate() {
        let Some(public) = &file.public else {
            alone.push(Candidate { public: None, certificate: None, by: By::File(at) });
            continue;
        };
        let by = if has(public) { By::Agent } else { By::File(at) };
        if by == By::File(at) && file.is_public_only() {
            // Certificates of the agent for it may still do.
            with_agent.extend(agents_certificates(agent, public));
            continue;
        }
        let list = if by == By::Agent || wishes.files_first { &mut with_agent } else { &mut alone };
        list.extend(agents_certificates(agent, public));
        let own = certificates.iter().chain(&file.certificate).filter(|c| c.public_key() == public.key_data());
        list.extend(own.map(|c| Candidate { public: Some(public.clone()), certificate: Some(Box::new(c.clone())), by }));
        list.push(Candidate { public: Some(public.clone()), certificate: None, by });
    }
    if wishes.files_first {
        // One whose public key is not known keeps its place among the configured ones as well as can be: after them.
        with_agent.append(&mut alone);
    }
    if !wishes.files_only {
        for identity in agent {
            match identity {
                Identity::Key(key) if !is_file(key) => {
                    let own = certificates.iter().filter(|c| c.public_key() == key.key_data());
                    with_agent.extend(own.map(|c| Candidate {
                        public: Some(key.clone()),
                        certificate: Some(Box::new(c.clone())),
                        by: By::Agent,
                    }));
                    with_agent.push(Candidate { public: Some(key.clone()), certificate: None, by: By::Agent });
                }
                Identity::Certificate(c) if !is_file(&bare(c)) => with_agent.push(of_agent(c)),
                _ => {}
            }
        }
    }
    with_agent.append(&mut alone);
    with_agent
}

fn bare(certificate: &Certificate) -> PublicKey {
    PublicKey::new(certificate.public_key().clone(), "")
}

fn of_agent(certificate: &Certificate) -> Candidate {
    Candidate { public: Some(bare(certificate)), certificate: Some(Box::new(certificate.clone())), by: By::Agent }
}

fn agents_certificates<'a>(agent: &'a [Identity], public: &'a PublicKey) -> impl Iterator<Item = Candidate> + 'a {
    agent.iter().filter_map(|identity| match identity {
        Identity::Certificate(c) if c.public_key() == public.key_data() => Some(of_agent(c)),
        _ => None,
    })
}
