//! `qd hostkey`: the host keys of a backend, and the operator's word on them.
//!
//! Invariant: a key is written down only when its fingerprint was looked at, and only that very key.

use super::args::{Global, HostkeyArgs, HostkeyChangeArgs, HostkeyCommand};
use super::backends::connect::{self, Confirmed};
use super::failure::Failure;
use super::screen::Screen;
use super::tty::Tty;
use super::{caller, safe};
use crate::client::Client;
use crate::model::{HostKeyChange, HostKeys, KnownKey, Standing};
use crate::protocol::calls::{HostKeyChangeCall, HostKeysCall};

/// Shows or changes.
pub(crate) async fn run(global: &Global, args: &HostkeyArgs, screen: &Screen) -> Result<u8, Failure> {
    let client = caller::connect(global, caller::agent(None)).await?;
    let (keys, json) = match &args.command {
        HostkeyCommand::Show(one) => (look(&client, &one.name).await?, one.json),
        HostkeyCommand::Remove(one) => {
            let call = HostKeyChangeCall { backend: one.name.clone(), change: HostKeyChange::Remove, fingerprint: String::new() };
            (client.call(call).await?, one.json)
        }
        HostkeyCommand::Accept(one) => (change(&client, HostKeyChange::Accept, one, screen).await?, one.json),
        HostkeyCommand::Replace(one) => (change(&client, HostKeyChange::Replace, one, screen).await?, one.json),
    };
    if json {
        screen.json(&keys)?;
    } else {
        screen.print(&text(&keys))?;
    }
    Ok(0)
}

async fn look(client: &Client, backend: &str) -> Result<HostKeys, Failure> {
    Ok(client.call(HostKeysCall { backend: backend.to_owned(), look: true }).await?)
}

async fn change(client: &Client, change: HostKeyChange, args: &HostkeyChangeArgs, screen: &Screen) -> Result<HostKeys, Failure> {
    let keys = look(client, &args.name).await?;
    let Some(shown) = keys.shown.clone() else {
        return Err(Failure::Internal(format!("{} shows no host key", args.name)));
    };
    match (keys.standing, change) {
        (Standing::Known, _) => {}
        (Standing::Changed, HostKeyChange::Accept) => {
            let text = format!("the host key of {} has changed, and to accept a new one is not enough", args.name);
            return Err(Failure::usage_with(text, format!("if you know why it changed: qd hostkey replace {}", args.name)));
        }
        (Standing::Revoked, _) => return Err(Failure::Refused(format!("the host key that {} shows is revoked", args.name))),
        _ => {
            agreed(&keys, change, args, &shown).await?;
            let call = HostKeyChangeCall { backend: args.name.clone(), change, fingerprint: shown.fingerprint };
            let keys = client.call(call).await?;
            // What kept it down is gone. That something else does is not this command's failure.
            if let Err(e) = connect::connect(client, &args.name, false).await {
                screen.insist(&format!("the key is written down; {} does not connect yet: {e}", safe::line(&args.name)));
            }
            return Ok(keys);
        }
    }
    Ok(keys)
}

/// Has the person say yes to the key.
async fn agreed(keys: &HostKeys, change: HostKeyChange, args: &HostkeyChangeArgs, shown: &crate::model::ShownKey) -> Result<(), Failure> {
    if let Some(wanted) = &args.fingerprint {
        if *wanted == shown.fingerprint {
            return Ok(());
        }
        return Err(Failure::Refused(format!("{} shows {}, not {wanted}: nothing was changed", args.name, shown.fingerprint)));
    }
    let tty = Tty::open().map_err(|_| {
        Failure::usage_with("a person has to look at the key, and there is no terminal", "name the right one with --fingerprint")
    })?;
    let what = if change == HostKeyChange::Replace { "replace the old key" } else { "save it" };
    let asked = async {
        tty.say(&text(keys))?;
        connect::confirm(&tty, shown, what, None).await
    };
    match asked.await {
        Ok(Confirmed::Yes) => Ok(()),
        Ok(_) => Err(Failure::Refused("refused: nothing was changed".into())),
        Err(e) => Err(Failure::Internal(format!("failed to ask at the terminal: {e}"))),
    }
}

fn text(keys: &HostKeys) -> String {
    let mut text = String::new();
    let mut line = |name: &str, kind: &str, print: &str, rest: &str| {
        text += format!("{name:<8} {:<20} {}  {}", safe::line(kind), safe::line(print), safe::line(rest)).trim_end();
        text.push('\n');
    };
    for KnownKey { place, key_type, fingerprint, marker } in &keys.known {
        let rest = marker.as_ref().map_or_else(|| place.clone(), |marker| format!("{place}  {marker}"));
        line("known", key_type, fingerprint, &rest);
    }
    if let Some(shown) = &keys.shown {
        let by = shown.authority.as_ref().map(|a| format!("certified by {a}")).unwrap_or_default();
        line("shown", &shown.key_type, &shown.fingerprint, &by);
    }
    let host = safe::line(&keys.host);
    text += &match keys.standing {
        Standing::NotAsked if keys.known.is_empty() => format!("{host}: no key is known\n"),
        Standing::NotAsked => format!("{host}: it has shown no key yet\n"),
        Standing::Known => format!("{host}: the key is known\n"),
        Standing::New => format!("{host}: the key is not known\n"),
        Standing::Changed => format!("{host}: THE KEY HAS CHANGED; somebody may be in between, or the machine was set up anew\n"),
        Standing::Revoked => format!("{host}: the key is REVOKED\n"),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ShownKey;

    #[test]
    fn keys_are_shown_with_file_and_line() {
        let keys = HostKeys {
            host: "[gpu.lab]:2222".into(),
            standing: Standing::Changed,
            shown: Some(ShownKey { key_type: "ssh-ed25519".into(), fingerprint: "SHA256:new".into(), authority: None }),
            known: vec![KnownKey {
                place: "/h/known_hosts:41".into(),
                key_type: "ssh-rsa".into(),
                fingerprint: "SHA256:old".into(),
                marker: None,
            }],
            ..HostKeys::default()
        };
        insta::assert_snapshot!(text(&keys), @r"
        known    ssh-rsa              SHA256:old  /h/known_hosts:41
        shown    ssh-ed25519          SHA256:new
        [gpu.lab]:2222: THE KEY HAS CHANGED; somebody may be in between, or the machine was set up anew
        ");
    }
}
