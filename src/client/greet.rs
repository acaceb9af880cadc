//! The hello from the client's side.
//!
//! Invariant: only a peer that answers the hello counts as a daemon.

use super::link::Handle;
use super::{Client, ClientError, Connect};
use crate::paths::Vars;
use crate::protocol::frame::{FRAME_CAP, Frame, FrameReader, HELLO_CAP, Kind, head};
use crate::protocol::hello::{ClientEnv, Hello, Reason, Refused, Welcome, wanted};
use crate::protocol::message::{MessageReader, REPLY_CAP};
use crate::protocol::{PROTOCOL_MAX, PROTOCOL_MIN};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

/// A daemon that is alive answers within this, even on a machine that swaps.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// How saying hello can fail.
#[derive(Debug)]
pub(super) enum GreetError {
    /// The peer went away or is ending: there is no daemon, or there is about to be none.
    NotAlive(String),
    /// There is a daemon, and it does not serve us.
    Final(ClientError),
}

impl GreetError {
    /// Gives the error for a caller that does not look for another daemon.
    pub(super) fn for_the_only_try(self) -> ClientError {
        match self {
            Self::NotAlive(reason) => ClientError::Gone(reason),
            Self::Final(error) => error,
        }
    }
}

/// Says hello on a connected stream.
pub(super) async fn greet<IO>(stream: IO, how: &Connect) -> Result<Client, GreetError>
where
    IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let hello = hello(how).await;
    let (reader, mut writer) = tokio::io::split(stream);
    let mut frames = FrameReader::new(reader, HELLO_CAP);
    let answer = tokio::time::timeout(HELLO_TIMEOUT, async {
        send(&mut writer, Kind::Hello, &hello).await.map_err(|error| GreetError::NotAlive(error.to_string()))?;
        frames.next().await.map_err(|error| GreetError::NotAlive(error.to_string()))
    });
    let answer = answer.await.map_err(|_| GreetError::Final(ClientError::Unreachable(silent())))??;
    let welcome = match answer {
        Some(Frame::Message { kind: Kind::Welcome, payload, .. }) => parse::<Welcome>(&payload)?,
        Some(Frame::Message { kind: Kind::Refused, payload, .. }) => return Err(refusal(parse(&payload)?)),
        Some(_) => return Err(unreadable("it did not answer the hello")),
        None => return Err(GreetError::NotAlive("it closed the connection before it answered".into())),
    };
    if !(PROTOCOL_MIN..=PROTOCOL_MAX).contains(&welcome.protocol) {
        return Err(unreadable(&format!("it chose protocol {}", welcome.protocol)));
    }
    if hello.is_operator() {
        let env = client_env(&Vars::current(), &welcome.client_env);
        send(&mut writer, Kind::Env, &env).await.map_err(|error| GreetError::NotAlive(error.to_string()))?;
    }
    frames.set_cap(FRAME_CAP);
    Ok(Client { handle: Arc::new(Handle::start(MessageReader::new(frames, REPLY_CAP), writer)) })
}

async fn send<W: AsyncWrite + Unpin, T: serde::Serialize>(writer: &mut W, kind: Kind, value: &T) -> std::io::Result<()> {
    let text = serde_json::to_vec(value)?;
    let frame = [&head(kind, 0, text.len())[..], &text].concat();
    writer.write_all(&frame).await?;
    writer.flush().await
}

async fn hello(how: &Connect) -> Hello {
    let config = match how.config.clone() {
        // Only a named config touches the file system; the others save the hop to another thread.
        Some(config) => tokio::task::spawn_blocking(move || whole_path(&config)).await.ok(),
        None => None,
    };
    Hello {
        protocol_min: PROTOCOL_MIN,
        protocol_max: PROTOCOL_MAX,
        version: env!("CARGO_PKG_VERSION").into(),
        kind: how.kind.clone(),
        agent: how.agent.clone(),
        terminal: has_terminal(),
        cwd: std::env::current_dir().ok().and_then(|cwd| cwd.into_os_string().into_string().ok()),
        config: config.map(|config| config.to_string_lossy().into_owned()),
        pid: std::process::id(),
    }
}

/// Tells whether this process has a controlling terminal.
fn has_terminal() -> bool {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open("/dev/tty", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()).is_ok()
}

/// Gives a path that means the same file in every directory; links are followed as far as they can be.
pub(super) fn whole_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// Gives the variables that the daemon asks for. Those that are not UTF-8 have no place in them.
fn client_env(vars: &Vars, patterns: &[String]) -> ClientEnv {
    let wanted = vars.texts().filter(|(name, _)| wanted(patterns, name));
    ClientEnv { variables: wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).collect() }
}

fn refusal(refused: Refused) -> GreetError {
    match refused.reason {
        Reason::Stopping => GreetError::NotAlive(refused.message),
        Reason::Protocol => GreetError::Final(ClientError::Mismatch(refused.message)),
        Reason::Config => GreetError::Final(ClientError::OtherConfig(refused.message)),
        Reason::Peer | Reason::Other => GreetError::Final(ClientError::Unreachable(refused.message)),
    }
}

fn parse<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T, GreetError> {
    serde_json::from_slice(text).map_err(|error| unreadable(&format!("its answer cannot be read: {error}")))
}

/// What answered speaks something else altogether.
fn unreadable(what: &str) -> GreetError {
    let fix = "end it with `qd stop` and run this command again";
    GreetError::Final(ClientError::Mismatch(format!("the daemon does not speak the protocol of this qd ({what}): {fix}")))
}

fn silent() -> String {
    let fix = "if it stays so, end it with `qd stop --force` and run this command again";
    format!("it was given {} s and did not answer; {fix}", HELLO_TIMEOUT.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_variables_asked_for_are_handed_over() {
        let vars = Vars::from_pairs([("LC_ALL", "C"), ("SECRET", "x"), ("SSH_AUTH_SOCK", "/s")]);
        let env = client_env(&vars, &["LC_*".into(), "SSH_AUTH_SOCK".into()]);
        assert_eq!(env.variables, [("LC_ALL".into(), "C".into()), ("SSH_AUTH_SOCK".into(), "/s".into())]);
    }

    #[test]
    fn a_config_is_named_by_its_whole_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("real.yaml");
        std::fs::write(&file, "").unwrap();
        let link = folder.path().join("link.yaml");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(whole_path(&link), std::fs::canonicalize(&file).unwrap());
        assert!(whole_path(Path::new("not-there.yaml")).is_absolute());
    }
}
