//! Going on after the daemon went: what a command waits for, or follows, is the next daemon's to tell.
//!
//! Invariant: none is started: a person may have stopped it.

use super::args::Global;
use super::caller;
use super::failure::Failure;
use crate::client::{Client, ClientError};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the next daemon is waited for: longer than a restart takes.
const AWAY: Duration = Duration::from_secs(30);
/// The first pause between looks for it; each is twice as long as the one before, up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Waits for a daemon; when none comes, the failure is why the last one went. Cancel safe.
pub(crate) async fn again(global: &Global, why: String) -> Result<Client, Failure> {
    let since = Instant::now();
    let mut pause = PAUSE;
    // Nothing tells of a socket that begins to be listened on, so it is looked for, ever less often and not for long.
    loop {
        match Client::connect(&caller::quiet(global)?).await {
            Ok(client) => return Ok(client),
            Err(ClientError::NoDaemon) if since.elapsed() >= AWAY => return Err(ClientError::Gone(why).into()),
            Err(error) if since.elapsed() >= AWAY => return Err(error.into()),
            Err(_) => sleep(pause).await,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
