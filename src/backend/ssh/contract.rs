//! Tests of the whole backend against a real sshd.

use super::rig::{Rig, backend, run, start};
use crate::backend::{Backend, ErrorKind, Exit};
use std::time::Duration;
use tokio::time::timeout;

const CAP: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_command_runs_with_its_streams_and_code() {
    let Some(rig) = Rig::start("") else { return };
    let ssh = rig.backend();
    let mut link = ssh.about().link.clone();
    assert!(!link.borrow_and_update().up);
    let shell = ssh.start(start()).await.expect("a shell");
    assert_eq!(shell.ready.kind, "bash");
    {
        let link = link.borrow_and_update();
        assert!(link.up && link.epoch == 1 && link.last_heard.is_some() && link.lost.is_none());
    }
    let (out, err, exit) = run(shell, "echo out; echo err >&2; exit 7").await;
    assert_eq!((out.as_str(), err.as_str()), ("out\n", "err\n"));
    assert!(matches!(exit, Exit::Code(7)), "{exit:?}");
    let (_, _, exit) = run(ssh.start(start()).await.expect("another"), "kill -9 $$").await;
    assert!(matches!(&exit, Exit::Signal(s) if s == "SIGKILL"), "{exit:?}");
    let reached = ssh.check().await.expect("reached");
    assert!(!reached.fresh && reached.round_trip > Duration::ZERO);
    ssh.close().await;
    timeout(CAP, link.wait_for(|l| !l.up)).await.expect("in time").expect("there");
    assert!(ssh.check().await.expect("again").fresh);
    assert_eq!(link.borrow_and_update().epoch, 2);
}

#[tokio::test]
async fn a_refused_connection_says_so() {
    let Some(rig) = Rig::start("") else { return };
    let mut ssh = rig.ssh();
    ssh.port = 1;
    let e = backend(&ssh).check().await.expect_err("nobody listens");
    assert_eq!(e.kind, ErrorKind::Unreachable);
    assert_eq!(e.message, "connection refused by 127.0.0.1 port 1");
}
