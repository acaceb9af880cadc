//! The hello from the daemon's side: who is it, and is it served?
//!
//! Invariant: nothing of a connection but the hello is looked at before the peer's account, the protocol and the config are
//! found right; a refusal says what to do.

use super::hub::Hub;
use super::service::Service;
use crate::model::{Who, WhoKind};
use crate::protocol::frame::{Frame, FrameReader, Kind, head};
use crate::protocol::hello::{self, Hello, Reason, Refused, Welcome};
use crate::protocol::{PROTOCOL_MAX, PROTOCOL_MIN};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// A client says hello at once; what does not is no client of ours.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// The name of an operator in the process table.
const OPERATOR: &str = "you";
/// The name of a command line that has no terminal and does not name itself.
const SCRIPT: &str = "script";

/// What the socket itself says about the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its account.
    pub uid: u32,
    /// Its process id, where the system tells.
    pub pid: Option<u32>,
}

/// A client that is served.
#[derive(Clone, Debug)]
pub(super) struct Guest {
    pub(super) who: Who,
    pub(super) cwd: Option<String>,
}

impl Guest {
    pub(super) fn is_operator(&self) -> bool {
        self.who.kind == WhoKind::Operator
    }
}

/// Hears the hello and answers it; none when the client is not served, which it has been told by then.
pub(super) async fn receive<S, R, W>(frames: &mut FrameReader<R>, writer: &mut W, hub: &Hub<S>, peer: Peer) -> Option<Guest>
where
    S: Service,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let heard = tokio::time::timeout(HELLO_TIMEOUT, frames.next()).await;
    let Ok(Ok(Some(Frame::Message { kind: Kind::Hello, payload, .. }))) = heard else {
        tracing::debug!(?peer, "a connection without a hello");
        return None;
    };
    let answer = match serde_json::from_slice::<Hello>(&payload) {
        Ok(hello) => check(&hello, hub, peer).map(|welcome| (hello, welcome)),
        Err(error) => Err(refused(Reason::Other, format!("the hello cannot be read: {error}"))),
    };
    let (sent, guest) = match answer {
        Ok((hello, welcome)) => (send(writer, Kind::Welcome, &welcome).await, Some(guest(hello, peer))),
        Err(refused) => {
            tracing::info!(?peer, reason = ?refused.reason, "a client is refused");
            (send(writer, Kind::Refused, &refused).await, None)
        }
    };
    // A client that went away before its answer needs none.
    sent.ok().and(guest)
}

fn check<S: Service>(hello: &Hello, hub: &Hub<S>, peer: Peer) -> Result<Welcome, Refused> {
    let (pid, version) = (hub.info.pid, &hub.info.version);
    if peer.uid != hub.uid {
        return Err(refused(Reason::Peer, format!("this daemon serves uid {} alone, and you are uid {}", hub.uid, peer.uid)));
    }
    let Some(protocol) = hello::common((hello.protocol_min, hello.protocol_max)) else {
        let message = format!(
            "the daemon (quarterdeck {version}, process id {pid}) speaks protocol {}, and this qd ({}) {}: end it with `qd stop`, \
             then run this command again",
            range(PROTOCOL_MIN, PROTOCOL_MAX),
            hello.version,
            range(hello.protocol_min, hello.protocol_max)
        );
        return Err(refused(Reason::Protocol, message));
    };
    if hub.stopping.is_cancelled() {
        return Err(refused(Reason::Stopping, "the daemon is stopping".into()));
    }
    let config = hub.config();
    if let Some(theirs) = &hello.config
        && config.as_deref() != Some(Path::new(theirs))
    {
        let ours = config.map_or_else(|| "without a config file".to_owned(), |ours| format!("with the config {}", ours.display()));
        let message = format!(
            "the daemon (process id {pid}) runs {ours}, and you named {theirs}: leave --config and QD_CONFIG out to use the \
             running one, or end it with `qd stop` and run this command again"
        );
        return Err(refused(Reason::Config, message));
    }
    let client_env = if hello.is_operator() { hub.client_env() } else { Vec::new() };
    Ok(Welcome { protocol, version: version.clone(), pid, config: hub.info.config.clone(), client_env })
}

fn range(min: u32, max: u32) -> String {
    if min == max { max.to_string() } else { format!("{min} to {max}") }
}

fn refused(reason: Reason, message: String) -> Refused {
    Refused { reason, message }
}

fn guest(hello: Hello, peer: Peer) -> Guest {
    let kind = if hello.is_operator() { WhoKind::Operator } else { WhoKind::Agent };
    let name = match (kind, hello.agent) {
        (WhoKind::Operator, _) => OPERATOR.to_owned(),
        (_, Some(name)) if !name.is_empty() => name,
        _ => SCRIPT.to_owned(),
    };
    Guest { who: Who { kind, name, peer_pid: peer.pid.or(Some(hello.pid)) }, cwd: hello.cwd }
}

async fn send<W: AsyncWrite + Unpin, T: Serialize>(writer: &mut W, kind: Kind, value: &T) -> std::io::Result<()> {
    let text = serde_json::to_vec(value)?;
    let frame = [&head(kind, 0, text.len())[..], &text].concat();
    writer.write_all(&frame).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(kind: &str, agent: Option<&str>, terminal: bool) -> Who {
        let hello = Hello { kind: kind.into(), agent: agent.map(Into::into), terminal, pid: 9, ..Hello::default() };
        guest(hello, Peer { uid: 0, pid: None }).who
    }

    #[test]
    fn who_is_who() {
        for (kind, agent, terminal, expected, name) in [
            ("tui", None, true, WhoKind::Operator, "you"),
            ("tui", None, false, WhoKind::Operator, "you"),
            ("cli", None, true, WhoKind::Operator, "you"),
            ("cli", None, false, WhoKind::Agent, "script"),
            ("cli", Some("builder"), true, WhoKind::Agent, "builder"),
            ("cli", Some(""), false, WhoKind::Agent, "script"),
        ] {
            let who = who(kind, agent, terminal);
            assert_eq!((who.kind, who.name.as_str()), (expected, name), "{kind} {agent:?} {terminal}");
        }
    }

    #[test]
    fn the_sockets_word_about_the_process_id_decides() {
        assert_eq!(guest(Hello { pid: 9, ..Hello::default() }, Peer { uid: 0, pid: Some(4) }).who.peer_pid, Some(4));
        assert_eq!(guest(Hello { pid: 9, ..Hello::default() }, Peer { uid: 0, pid: None }).who.peer_pid, Some(9));
    }
}
