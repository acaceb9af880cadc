//! Looks at processes of a backend: those that carry a command's cookie, or some by their numbers.
//!
//! Invariant: looks only; it is told whether the answer is whole.

use super::FollowSettings;
use super::errand::Errand;
use super::error::SessionError;
use crate::backend::{Backend, Environment};
use crate::shell::look::{Looked, read, script};
use std::sync::Arc;
use std::time::Duration;

pub use crate::shell::look::Seen;

/// Limit of a look, beyond the start of the shell.
const LIMIT: Duration = Duration::from_secs(30);

/// What a look brought.
#[derive(Clone, Debug)]
pub struct Look {
    /// The backend's boot id, `-` when there is none.
    pub boot: String,
    /// What was seen.
    pub seen: Vec<Seen>,
}

/// Looks at these processes, or at all of the account that carry the cookie of a command. Connects when it must. Not cancel safe:
/// dropped, the look goes on for nobody.
pub async fn look(backend: &Arc<dyn Backend>, settings: &FollowSettings, pids: Option<&[u32]>) -> Result<Look, SessionError> {
    let errand = Errand {
        backend,
        shell: settings.shell,
        environment: Environment::Empty,
        start: settings.timeout,
        limit: LIMIT,
        what: "look for processes",
    };
    let mut asked = String::new();
    let answer = errand
        .run(|_, nonce, _| {
            asked = nonce.to_owned();
            script(pids, nonce)
        })
        .await?;
    match read(&answer.stdout, &asked) {
        Some(Looked::Seen(seen)) => Ok(Look { boot: answer.ready.boot_id, seen }),
        Some(Looked::Blind) => Err(errand.failed("there is no /proc, which tells of processes".into())),
        None => Err(errand.failed("the shell there did not say what it saw".into())),
    }
}
