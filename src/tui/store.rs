//! What the TUI keeps between starts: the leader that the person chose.
//!
//! Invariant: the file is replaced whole or not at all; a file that cannot be read counts as none.

use super::input::key::Key;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use tokio::io::AsyncWriteExt;

/// The file's name in the state folder.
const FILE: &str = "tui.json";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
}

/// Gives the leader that was chosen at an earlier start.
pub(super) async fn leader(state_dir: &Path) -> Option<Key> {
    let text = tokio::fs::read_to_string(state_dir.join(FILE)).await.ok()?;
    let stored: Stored = serde_json::from_str(&text).ok()?;
    stored.leader.and_then(|k| Key::parse(&k).ok()).filter(|k| k.can_be_leader().is_ok())
}

/// Keeps the leader for later starts.
pub(super) async fn save_leader(state_dir: &Path, leader: Key) -> io::Result<()> {
    let text = serde_json::to_string(&Stored { leader: Some(leader.to_string()) })?;
    let temporary = state_dir.join(format!("{FILE}.{}", std::process::id()));
    let mut file = tokio::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary).await?;
    file.write_all(text.as_bytes()).await?;
    file.flush().await?;
    tokio::fs::rename(&temporary, state_dir.join(FILE)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_leader_is_kept_and_rubbish_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(leader(dir.path()).await, None);
        save_leader(dir.path(), Key::ctrl('a')).await.unwrap();
        assert_eq!(leader(dir.path()).await, Some(Key::ctrl('a')));
        for bad in ["", "{", "{\"leader\":\"x\"}", "{\"leader\":3}"] {
            std::fs::write(dir.path().join(FILE), bad).unwrap();
            assert_eq!(leader(dir.path()).await, None, "{bad}");
        }
        std::fs::write(dir.path().join(FILE), "{\"leader\":\"ctrl-b\",\"new\":1}").unwrap();
        assert_eq!(leader(dir.path()).await, Some(Key::ctrl('b')));
    }
}
