//! The nine sharp edges of russh 0.65, each as a regression test: the name says what must hold, the comment tells the bug.
//!
//! They go through the wrapper on purpose. On raw channels every one of them fails.

use super::conn::{self, Conn};
use super::known_hosts::Known;
use super::lanes::Lanes;
use super::rig::{Proxy, Rig, kill, pid_gone, run, script, start};
use super::shell;
use super::target::Target;
use crate::backend::{ErrorKind, Exit, Shell};
use futures::FutureExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

const CAP: Duration = Duration::from_secs(30);

async fn connected(rig: &Rig, port: u16) -> Arc<Conn> {
    timeout(CAP, conn::connect(&rig.target(port))).await.expect("in time").expect("connected")
}

/// The connection alone.
fn lanes(conn: &Arc<Conn>) -> Arc<Lanes> {
    Lanes::new(conn.clone(), conn.target().clone(), Arc::default())
}

/// A shell on this connection and no other, however much that carries.
async fn shell_on(conn: &Arc<Conn>) -> Shell {
    let start = start();
    let line = shell::line(&start).expect("short");
    let channel = conn.exec(conn.slots.take().await, &line, Instant::now() + CAP).await.unwrap_or_else(|_| panic!("a channel"));
    shell::ready(channel, &start.nonce, CAP, "rig").await.expect("a shell").0
}

async fn send(shell: &mut Shell, command: &str) {
    shell.stdin.write_all(&script(command)).await.expect("send the script");
}

/// Writes to a stdin that nobody reads until it takes no more.
async fn fill(shell: &mut Shell) {
    let piece = vec![b'x'; 64 << 10];
    while let Ok(written) = timeout(Duration::from_millis(500), shell.stdin.write_all(&piece)).await {
        written.expect("it takes more");
    }
}

/// Dropping a russh channel sends nothing: after ten drops every open fails for the life of the connection, and what ran there
/// goes on.
#[tokio::test]
async fn edge_1_a_dropped_channel_is_closed() {
    let Some(rig) = Rig::start("") else { return };
    let conn = connected(&rig, rig.port).await;
    let mut pids = Vec::new();
    for _ in 0..25 {
        let mut shell = shell_on(&conn).await;
        send(&mut shell, "exec yes").await;
        shell.stdout.read_exact(&mut [0; 4096]).await.expect("some output");
        pids.push(shell.ready.pid);
    }
    for pid in pids {
        timeout(CAP, pid_gone(pid)).await.expect("what ran on a dropped channel has ended");
    }
    assert!(matches!(run(shell_on(&conn).await, "exit 3").await.2, Exit::Code(3)));
}

/// A cancelled open leaks the slot in the same way: ten of them and the connection is of no more use.
#[tokio::test]
async fn edge_2_a_cancelled_open_leaks_no_slot() {
    let Some(rig) = Rig::start("") else { return };
    let proxy = Proxy::start(rig.port).await;
    let conn = connected(&rig, proxy.port).await;
    for _ in 0..5 {
        proxy.freeze();
        for _ in 0..5 {
            let given_up = timeout(Duration::from_millis(5), shell::start(&lanes(&conn), &start(), "rig")).await;
            assert!(given_up.is_err());
        }
        proxy.thaw();
        assert!(matches!(run(shell_on(&conn).await, "exit 3").await.2, Exit::Code(3)));
    }
}

/// One channel that nobody reads stops the whole session: all others hang and nothing says so.
#[tokio::test]
async fn edge_3_a_channel_that_nobody_reads_stops_no_other() {
    let Some(rig) = Rig::start("") else { return };
    let conn = connected(&rig, rig.port).await;
    let mut slow = shell_on(&conn).await;
    send(&mut slow, "seq 1 6000000; seq 1 100000 >&2").await;
    slow.stdin.shutdown().await.expect("end stdin");
    // The far side has written all of it, so all of it is here, although nobody has read a byte.
    let exit = timeout(CAP, slow.exit).await.expect("it ends without a reader");
    assert!(matches!(exit, Exit::Code(0)), "{exit:?}");
    for _ in 0..5 {
        assert_eq!(run(shell_on(&conn).await, "echo fine").await.0, "fine\n");
        conn.check().await.expect("answers");
    }
    // Nothing was lost and the order is kept, through memory, file and memory again.
    let mut got = Vec::new();
    timeout(CAP, slow.stdout.read_to_end(&mut got)).await.expect("in time").expect("read");
    let mut want = Vec::with_capacity(got.len());
    for n in 1..=6_000_000 {
        use std::io::Write;
        writeln!(want, "{n}").expect("to memory");
    }
    assert!(got == want, "{} of {} bytes", got.len(), want.len());
    let mut err = String::new();
    timeout(CAP, slow.stderr.read_to_string(&mut err)).await.expect("in time").expect("read");
    assert!(err.ends_with("99999\n100000\n"));
}

/// A write that waits for room never returns once the session has ended.
#[tokio::test]
async fn edge_4_a_blocked_write_ends_with_the_link() {
    let Some(rig) = Rig::start("") else { return };
    let proxy = Proxy::start(rig.port).await;
    let conn = connected(&rig, proxy.port).await;
    let mut shell = shell_on(&conn).await;
    send(&mut shell, "exec sleep 600").await;
    fill(&mut shell).await;
    let pid = shell.ready.pid;
    proxy.reset();
    let e = timeout(CAP, shell.stdin.write_all(&[0; 64 << 10])).await.expect("it returns").expect_err("an error");
    assert!(e.to_string().contains("reset"), "{e}");
    match timeout(CAP, shell.exit).await.expect("it ends") {
        Exit::Lost(e) => assert_eq!(e.kind, ErrorKind::Lost),
        other => panic!("{other:?}"),
    }
    assert_eq!(timeout(CAP, shell.stdout.read(&mut [0; 16])).await.expect("it ends").expect("an end"), 0);
    kill(pid);
}

/// The same when the command ends without having read its stdin.
#[tokio::test]
async fn edge_4_a_blocked_write_ends_with_the_command() {
    let Some(rig) = Rig::start("") else { return };
    let conn = connected(&rig, rig.port).await;
    let mut shell = shell_on(&conn).await;
    send(&mut shell, "sleep 1; exit 4").await;
    let endless = async {
        let piece = vec![b'x'; 64 << 10];
        while shell.stdin.write_all(&piece).await.is_ok() {}
    };
    timeout(CAP, endless).await.expect("it returns");
    assert!(matches!(timeout(CAP, shell.exit).await.expect("it ends"), Exit::Code(4)));
    conn.check().await.expect("the connection is whole");
}

/// Data sent past the window of one channel stops all others.
#[tokio::test]
async fn edge_5_a_stdin_that_nobody_reads_stops_no_other() {
    let Some(rig) = Rig::start("") else { return };
    let conn = connected(&rig, rig.port).await;
    let mut shell = shell_on(&conn).await;
    send(&mut shell, "exec sleep 600").await;
    fill(&mut shell).await;
    for _ in 0..5 {
        assert_eq!(run(shell_on(&conn).await, "cat; echo fine").await.0, "fine\n");
    }
    conn.check().await.expect("answers");
    kill(shell.ready.pid);
    assert!(matches!(timeout(CAP, shell.exit).await.expect("it ends"), Exit::Signal(_)));
}

/// After our close the server answers only when the command has ended; whoever waits for that hangs, and the entry stays.
#[tokio::test]
async fn edge_6_nothing_waits_for_a_channel_that_was_let_go() {
    let Some(rig) = Rig::start("") else { return };
    let conn = connected(&rig, rig.port).await;
    let mut shell = shell_on(&conn).await;
    send(&mut shell, "exec sleep 600").await;
    let pid = shell.ready.pid;
    assert_eq!((conn.link.channels(), conn.slots.used()), (1, 1));
    drop(shell);
    assert_eq!(conn.link.channels(), 0);
    assert!(matches!(run(shell_on(&conn).await, "exit 3").await.2, Exit::Code(3)));
    assert_eq!((conn.link.channels(), conn.slots.used()), (0, 0));
    kill(pid);
}

/// During an upload into a black hole the session waits in its write: no keep-alive is sent and none is missed.
#[tokio::test]
async fn edge_7_a_black_hole_during_an_upload_is_noticed() {
    let Some(rig) = Rig::start("") else { return };
    let proxy = Proxy::start(rig.port).await;
    let conn = connected(&rig, proxy.port).await;
    let mut shell = shell_on(&conn).await;
    send(&mut shell, "exec cat >/dev/null").await;
    let upload = tokio::spawn(async move {
        let piece = vec![b'x'; 64 << 10];
        loop {
            if let Err(e) = shell.stdin.write_all(&piece).await {
                return (e, shell.exit.await);
            }
        }
    });
    conn.check().await.expect("answers during the upload");
    proxy.freeze();
    let e = timeout(CAP, silent(&conn)).await.expect("a check gives up by itself");
    assert_eq!(e.kind, ErrorKind::TimedOut);
    assert!(!upload.is_finished(), "one missed check ends nothing");
    conn.shut();
    // At once, though the session still sits in its write and the other side never answers.
    let (error, exit) = timeout(CAP, upload).await.expect("in time").expect("no panic");
    assert!(error.to_string().contains("no answer from"), "{error}");
    assert!(matches!(&exit, Exit::Lost(e) if e.message.contains("no answer from")), "{exit:?}");
    timeout(CAP, conn.link.ended.cancelled()).await.expect("the session's task has ended");
}

/// Checks until one fails; bytes that were under way may still answer for the link at first.
async fn silent(conn: &Conn) -> crate::backend::BackendError {
    loop {
        if let Err(e) = conn.check().await {
            return e;
        }
    }
}

/// What a peer that falls silent does: says nothing, says its name, or says something else.
async fn peer(says: &'static [u8]) -> (u16, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = listener.local_addr().expect("an address").port();
    let gone = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accept");
        stream.write_all(says).await.expect("say");
        // Ends when the client lets go of its socket.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok();
    });
    (port, gone)
}

/// connect has no time limit, and one that is dropped during the key exchange leaves its task and its socket behind.
#[tokio::test]
async fn edge_8_a_connect_that_is_given_up_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let ssh =
        crate::config::SshSettings { host: "127.0.0.1".into(), known_hosts: vec![dir.path().join("known_hosts")], ..Default::default() };
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for says in [&b""[..], b"SSH-2.0-Silent\r\n"] {
        // By its own limit.
        let (port, gone) = peer(says).await;
        let mut target = Target::new(&super::rig::settings(&ssh), &ssh, Default::default());
        (target.port, target.connect_timeout) = (port, Duration::from_millis(300));
        let e = conn::connect(&target).await.err().expect("no connection");
        assert_eq!(e.kind, ErrorKind::TimedOut);
        assert!(e.message.contains(if says.is_empty() { "no answer from" } else { "did not end within" }), "{e}");
        timeout(CAP, gone).await.expect("the socket is closed").expect("no panic");

        // By its caller.
        let (port, gone) = peer(says).await;
        (target.port, target.connect_timeout) = (port, CAP);
        assert!(timeout(Duration::from_millis(300), conn::connect(&target)).await.is_err());
        timeout(CAP, gone).await.expect("the socket is closed").expect("no panic");
        timeout(CAP, async {
            while tasks() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("no task is left");
    }
}

/// When the client renews the keys while several channels are busy, russh ends the session with `Pending`.
#[tokio::test]
async fn edge_9_keys_are_renewed_by_the_server_only() {
    let config = conn::config(&Known::default());
    assert!(config.limits.rekey_read_limit > 1 << 50 && config.limits.rekey_write_limit > 1 << 50);
    assert!(config.limits.rekey_time_limit > Duration::from_secs(300 * 24 * 3600));

    let Some(rig) = Rig::start("RekeyLimit 4M") else { return };
    let conn = connected(&rig, rig.port).await;
    let mut busy = Vec::new();
    for _ in 0..4 {
        let shell = shell_on(&conn).await;
        busy.push(run(shell, "head -c 16000000 /dev/zero | tr '\\0' x; exit 5").boxed());
    }
    for (out, _, exit) in timeout(CAP, futures::future::join_all(busy)).await.expect("in time") {
        assert_eq!(out.len(), 16_000_000);
        assert!(matches!(exit, Exit::Code(5)), "{exit:?}");
    }
    conn.check().await.expect("the connection is whole");
}
