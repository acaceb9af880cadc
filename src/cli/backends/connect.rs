//! Connects a backend and asks the person at the terminal what its login wants to know.
//!
//! Invariant: nothing is asked of an agent, or where there is no terminal: then the daemon says that a person is needed.

use crate::cli::failure::Failure;
use crate::cli::tty::Tty;
use crate::client::Client;
use crate::model::{Answer, BackendInfo, Event, Prompt, Question, Secret, ShownKey};
use crate::protocol::calls::{AnswerCall, Connect};
use std::io;
use tokio::sync::mpsc;

/// Connects; `keep` is what is said of every answer that may be kept in memory.
pub(crate) async fn connect(client: &Client, backend: &str, keep: bool) -> Result<BackendInfo, Failure> {
    let call = Connect { backend: backend.to_owned() };
    let Ok(tty) = Tty::open() else { return Ok(client.call(call).await?) };
    // Before the call, so that no question of its is missed. Agents' clients are not told of any.
    let mut events = client.watch().await?;
    let connecting = client.call(call);
    tokio::pin!(connecting);
    loop {
        let prompt = tokio::select! {
            biased;
            done = &mut connecting => return Ok(done?),
            prompt = next(&mut events, backend) => prompt,
        };
        let Some(prompt) = prompt else { return Ok(connecting.await?) };
        let answer = tokio::select! {
            biased;
            done = &mut connecting => return Ok(done?),
            // Somebody else answered, or it is not asked any more.
            () = closed(&mut events, prompt.id) => continue,
            answer = ask(&tty, &prompt, keep) => answer.map_err(|e| Failure::Internal(format!("failed to ask at the terminal: {e}")))?,
        };
        if let Some(answer) = answer {
            client.call(AnswerCall { id: prompt.id, answer }).await?;
        }
    }
}

async fn next(events: &mut mpsc::Receiver<Event>, backend: &str) -> Option<Prompt> {
    loop {
        match events.recv().await? {
            Event::Prompt { prompt } if prompt.backend == backend => return Some(*prompt),
            _ => {}
        }
    }
}

async fn closed(events: &mut mpsc::Receiver<Event>, id: u64) {
    while let Some(event) = events.recv().await {
        if event == (Event::PromptClosed { id }) {
            return;
        }
    }
    // The connection is gone, which the call says.
    std::future::pending::<()>().await;
}

/// Asks; none when there is nothing to answer.
async fn ask(tty: &Tty, prompt: &Prompt, keep: bool) -> io::Result<Option<Answer>> {
    let one = |text: Option<Secret>| Some(text.map_or(Answer::Cancel, |text| Answer::Texts { texts: vec![text], keep }));
    Ok(match &prompt.question {
        Question::Passphrase { key, again } => {
            let wrong = if *again { "That passphrase does not fit.\n" } else { "" };
            one(tty.line(&format!("{wrong}passphrase of {key}:"), false).await?)
        }
        Question::Password { again } => {
            let wrong = if *again { "That password was refused.\n" } else { "" };
            one(tty.line(&format!("{wrong}password of {}:", prompt.address), false).await?)
        }
        Question::Challenge { name, instructions, fields, may_keep, .. } => {
            for text in [name, instructions].into_iter().flat_map(|text| text.lines()).filter(|text| !text.trim().is_empty()) {
                tty.say(&format!("{} says: {text}", prompt.address))?;
            }
            let mut texts = Vec::new();
            for field in fields {
                match tty.line(&format!("{} asks: {}", prompt.address, field.label), field.echo).await? {
                    Some(text) => texts.push(text),
                    None => return Ok(Some(Answer::Cancel)),
                }
            }
            (!fields.is_empty()).then_some(Answer::Texts { texts, keep: keep && *may_keep })
        }
        Question::HostKey { host, key, file } => {
            tty.say(&format!("The host key of {host} is not known: {} {}.", key.key_type, key.fingerprint))?;
            Some(match confirm(tty, key, &format!("save it in {file}"), Some("once")).await? {
                Confirmed::Yes => Answer::Trust { save: true },
                Confirmed::Other => Answer::Trust { save: false },
                Confirmed::No => Answer::Cancel,
            })
        }
        // The failure of the call says it all.
        Question::HostKeyChanged { .. } => None,
    })
}

/// What the person said to a host key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmed {
    /// It is right.
    Yes,
    /// The other word that was offered.
    Other,
    /// Anything else.
    No,
}

/// Has the person look at a fingerprint: its last four characters say yes.
pub(crate) async fn confirm(tty: &Tty, key: &ShownKey, what: &str, other: Option<&str>) -> io::Result<Confirmed> {
    let or = other.map(|word| format!(", {word} to trust it until the backend is disconnected")).unwrap_or_default();
    tty.say("Compare it with the machine's own: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub there.")?;
    let typed = tty.line(&format!("type its last 4 characters to {what}{or}; anything else refuses:"), true).await?;
    let Some(typed) = typed else { return Ok(Confirmed::No) };
    Ok(judge(typed.expose().trim(), &key.fingerprint, other))
}

fn judge(typed: &str, fingerprint: &str, other: Option<&str>) -> Confirmed {
    if typed.chars().count() == 4 && fingerprint.ends_with(typed) {
        Confirmed::Yes
    } else if other == Some(typed) {
        Confirmed::Other
    } else {
        Confirmed::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_the_fingerprint_says_yes() {
        for (typed, expected) in [
            ("uF8x", Confirmed::Yes),
            ("once", Confirmed::Other),
            ("", Confirmed::No),
            ("F8x", Confirmed::No),
            ("yes", Confirmed::No),
            ("UF8X", Confirmed::No),
        ] {
            assert_eq!(judge(typed, "SHA256:Jx4pQuF8x", Some("once")), expected, "{typed}");
        }
        assert_eq!(judge("once", "SHA256:Jx4pQuF8x", None), Confirmed::No);
    }
}
