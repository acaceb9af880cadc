//! Finding and starting, with scripts in the place of the daemon.
//!
//! Invariant: every script ends by itself or when its stdin or folder goes.

use super::find::connect_at;
use super::start::Launcher;
use super::stop::stop_at;
use super::*;
use crate::paths::Paths;
use crate::protocol::launch::LockContent;
use std::path::Path;
use std::time::Duration;

const CAP: Duration = Duration::from_secs(30);

fn how() -> Connect {
    Connect { kind: "cli".into(), agent: Some("test".into()), start: true, ..Connect::default() }
}

/// Starts "the daemon" that is a shell script.
async fn start(folder: &Path, script: &str) -> Result<Client, ClientError> {
    let launcher = Launcher { program: "/bin/sh".into(), args: vec!["-c".into(), script.into(), "sh".into()], env: Vec::new() };
    let (paths, how, launcher) = (Paths::under(folder), how(), || Ok(launcher.clone()));
    tokio::time::timeout(CAP, connect_at(&paths, &how, &launcher)).await.expect("within the cap")
}

async fn failure(script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    match start(folder.path(), script).await {
        Err(ClientError::Unreachable(message)) => message,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("connected"),
    }
}

#[tokio::test]
async fn without_a_daemon_and_without_starting_one_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let paths = Paths::under(folder.path());
    let quiet = Connect { start: false, ..how() };
    assert!(matches!(connect_at(&paths, &quiet, &|| panic!("not to be started")).await, Err(ClientError::NoDaemon)));
    assert!(!paths.state.exists(), "looking makes nothing");
    assert!(matches!(stop_at(&paths, &quiet, true).await, Err(ClientError::NoDaemon)));
}

#[tokio::test]
async fn a_bad_config_is_told_whole() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"echo noise; printf '{"daemon":"bad_config","message":"c.yaml:1: one\\nc.yaml:2: two"}\n'; exit 1"#;
    let Err(ClientError::BadConfig(message)) = start(folder.path(), script).await else { panic!() };
    assert_eq!(message, "c.yaml:1: one\nc.yaml:2: two");
}

#[tokio::test]
async fn a_daemon_that_cannot_start_says_why() {
    assert_eq!(failure(r#"echo '{"daemon":"failed","message":"the disk is full"}'"#).await, "the disk is full");
}

#[tokio::test]
async fn a_daemon_that_breaks_while_starting_is_told_with_its_last_words() {
    let message = failure("echo out; echo oh no >&2; exit 3").await;
    for part in ["exit status: 3", "out", "oh no"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[tokio::test]
async fn a_daemon_that_says_ready_and_is_not_there_is_told() {
    let message = failure(r#"echo '{"daemon":"ready","pid":1}'"#).await;
    assert!(message.contains("went away"), "{message}");
}

#[tokio::test]
async fn the_daemon_starts_clean_of_its_client() {
    // Set for the launcher only: the variables are taken away after that, as they are from this process's own.
    let script = r#"printf '{"daemon":"failed","message":"%s|%s|%s"}\n' "$PWD" "${QD_PROCESS-unset}" "$*""#;
    let launcher = Launcher {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into(), "sh".into()],
        env: vec![("QD_PROCESS".into(), "k7f3".into())],
    };
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    std::fs::write(&config, "").unwrap();
    let named = Connect { config: Some(config.clone()), ..how() };
    let Err(ClientError::Unreachable(message)) = connect_at(&Paths::under(folder.path()), &named, &|| Ok(launcher.clone())).await else {
        panic!()
    };
    let config = std::fs::canonicalize(config).unwrap();
    assert_eq!(message, format!("/|unset|--config {} serve --detached", config.display()));
}

#[tokio::test]
async fn a_lock_file_that_leads_to_a_stranger_is_no_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let paths = Paths::under(folder.path());
    paths.ensure().unwrap();
    let content = LockContent { pid: 1, socket: paths.socket(), version: String::new() };
    std::fs::write(paths.lock_file(), content.line()).unwrap();
    let quiet = Connect { start: false, ..how() };
    let connect = || connect_at(&paths, &quiet, &|| panic!("not to be started"));
    assert!(matches!(connect().await, Err(ClientError::NoDaemon)), "no socket");
    let listener = tokio::net::UnixListener::bind(paths.socket()).unwrap();
    let stranger = async {
        // Accepts and hangs up.
        drop(listener.accept().await.unwrap());
    };
    assert!(matches!(tokio::join!(connect(), stranger).0, Err(ClientError::NoDaemon)), "no answer");
    let stranger = async {
        use tokio::io::AsyncWriteExt;
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream
    };
    let (answer, _stream) = tokio::join!(connect(), stranger);
    assert!(matches!(answer, Err(ClientError::NoDaemon | ClientError::Mismatch(_))), "another language");
    drop(listener);
    assert!(matches!(connect().await, Err(ClientError::NoDaemon)), "a socket whose listener was killed");
}

#[tokio::test]
async fn a_daemon_of_another_protocol_is_told() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let folder = tempfile::tempdir().unwrap();
    let paths = Paths::under(folder.path());
    paths.ensure().unwrap();
    let listener = tokio::net::UnixListener::bind(paths.socket()).unwrap();
    let content = LockContent { pid: 1, socket: paths.socket(), version: "9.9.9".into() };
    std::fs::write(paths.lock_file(), content.line()).unwrap();
    let refusing = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let text = br#"{"reason":"protocol","message":"end it with `qd stop`"}"#;
        let head = crate::protocol::frame::head(crate::protocol::frame::Kind::Refused, 0, text.len());
        stream.write_all(&head).await.unwrap();
        stream.write_all(text).await.unwrap();
        stream.shutdown().await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
    };
    let quiet = Connect { start: false, ..how() };
    let (answer, ()) = tokio::join!(connect_at(&paths, &quiet, &|| panic!()), refusing);
    assert!(matches!(answer, Err(ClientError::Mismatch(message)) if message.contains("qd stop")));
}
