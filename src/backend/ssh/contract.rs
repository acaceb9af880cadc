//! Tests of the whole backend against a real sshd.

use super::Ssh;
use super::rig::{Proxy, Rig, backend, keygen, kill, pid_gone, run, script, settings, start};
use crate::backend::local::ClientEnv;
use crate::backend::{Ask, Backend, BackendError, ErrorKind, Exit, Family, Shell, Start};
use crate::config::{BackendSettings, HostKeyPolicy, OnLost, SshConfig, SshSettings};
use futures::FutureExt;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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

/// The error of one check.
async fn refusal(ssh: &SshSettings) -> BackendError {
    timeout(CAP, backend(ssh).check()).await.expect("in time").expect_err("an error")
}

#[tokio::test]
async fn what_cannot_be_reached_says_why() {
    let Some(rig) = Rig::start("") else { return };
    let e = refusal(&SshSettings { port: Some(1), ..rig.ssh() }).await;
    assert_eq!((e.kind, e.message.as_str()), (ErrorKind::Unreachable, "connection refused by 127.0.0.1 port 1"));
    assert!(e.fix.is_some());
    let e = refusal(&SshSettings { host: "no-such-host.invalid".into(), ..rig.ssh() }).await;
    assert_eq!(e.kind, ErrorKind::Unreachable);
    assert!(e.message.starts_with("the name no-such-host.invalid cannot be resolved"), "{e}");
}

/// A server that says something and closes.
async fn says(text: &'static str) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accept");
        stream.read_exact(&mut [0; 8]).await.expect("the client speaks first");
        stream.write_all(text.as_bytes()).await.expect("say");
    });
    port
}

#[tokio::test]
async fn what_is_no_ssh_server_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |port| SshSettings {
        host: "127.0.0.1".into(),
        port: Some(port),
        ssh_config: SshConfig::Nothing,
        known_hosts: vec![dir.path().join("k")],
        ..Default::default()
    };
    let e = refusal(&at(says("HTTP/1.1 400 Bad Request\r\n\r\n").await)).await;
    assert_eq!(e.kind, ErrorKind::Config);
    assert!(e.message.contains("is no ssh server: it said `HTTP/1.1 400 Bad Request`"), "{e}");
    let e = refusal(&at(says("Exceeded MaxStartups\r\n").await)).await;
    assert_eq!(e.kind, ErrorKind::Unreachable);
    assert!(e.message.contains("takes no more connections now"), "{e}");
    let e = refusal(&at(says("").await)).await;
    assert_eq!(e.kind, ErrorKind::Unreachable);
    assert!(e.message.contains("before it said anything"), "{e}");
}

#[tokio::test]
async fn every_address_of_a_name_gets_its_chance() {
    let Some(rig) = Rig::start("") else { return };
    // The rig listens on 127.0.0.1 only; the name usually stands for ::1 first.
    backend(&SshSettings { host: "localhost".into(), ..rig.ssh() }).check().await.expect("connected");
}

#[tokio::test]
async fn the_kernel_gives_a_dead_link_up() {
    let Some(rig) = Rig::start("") else { return };
    let stream = super::dial::dial(&rig.target(rig.port)).await.expect("connected");
    let socket = socket2::SockRef::from(&stream);
    assert!(socket.tcp_nodelay().expect("an option") && socket.keepalive().expect("an option"));
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_user_timeout().expect("an option"), Some(Duration::from_secs(12)));
}

#[tokio::test]
async fn a_new_host_key_is_written_down_once_and_a_changed_one_refused() {
    let Some(rig) = Rig::start("") else { return };
    let file = rig.path("deep/er/known_hosts");
    let ssh = SshSettings { known_hosts: vec![file.clone()], ..rig.ssh() };
    // Strict: refused, with the fingerprint, and nothing is written.
    let e = refusal(&SshSettings { host_key: Some(HostKeyPolicy::Strict), ..ssh.clone() }).await;
    assert_eq!(e.kind, ErrorKind::HostKey);
    assert!(e.message.contains("is not known: ssh-ed25519 SHA256:") && e.fix.is_some(), "{e}");
    assert!(!file.exists());

    for _ in 0..2 {
        backend(&ssh).check().await.expect("accepted");
    }
    let text = std::fs::read_to_string(&file).expect("written");
    let key = std::fs::read_to_string(rig.path("host_ed25519.pub")).expect("a key");
    let key = key.split(' ').nth(1).expect("a key").to_owned();
    assert_eq!(text, format!("[127.0.0.1]:{} ssh-ed25519 {key}\n", rig.port));
    let mode = std::fs::metadata(&file).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Known now, in strict mode too.
    backend(&SshSettings { host_key: Some(HostKeyPolicy::Strict), ..ssh.clone() }).check().await.expect("known");

    // A line without its newline is not run into.
    let other = rig.path("open_ended");
    std::fs::write(&other, "# no newline").expect("write");
    backend(&SshSettings { known_hosts: vec![other.clone()], ..ssh.clone() }).check().await.expect("accepted");
    assert_eq!(std::fs::read_to_string(&other).expect("read"), format!("# no newline\n{text}"));

    // Changed: both fingerprints and the line; no policy helps.
    keygen(&rig.path("another"), "ed25519", "");
    let another = std::fs::read_to_string(rig.path("another.pub")).expect("a key");
    std::fs::write(&file, format!("\n[127.0.0.1]:{} {another}", rig.port)).expect("write");
    let e = refusal(&ssh).await;
    assert_eq!(e.kind, ErrorKind::HostKey);
    assert!(e.message.contains(&format!("{}:2", file.display())) && e.message.matches("SHA256:").count() == 2, "{e}");
    assert!(e.fix.as_deref().is_some_and(|f| f.contains("qd hostkey replace rig")), "{e:?}");

    // Revoked, even where it is known.
    std::fs::write(&file, format!("{text}@revoked * ssh-ed25519 {key}\n")).expect("write");
    let e = refusal(&ssh).await;
    assert_eq!(e.kind, ErrorKind::HostKey);
    assert!(e.message.contains("is revoked"), "{e}");
}

#[tokio::test]
async fn a_known_type_is_asked_for_first() {
    let Some(rig) = Rig::start("") else { return };
    keygen(&rig.path("host_rsa"), "rsa", "");
    let Some(rig) = rig.again("host_rsa") else { return };
    // Only the RSA key is known, though the server and we would both choose ed25519.
    let rsa = std::fs::read_to_string(rig.path("host_rsa.pub")).expect("a key");
    std::fs::write(rig.path("known_hosts"), format!("[127.0.0.1]:{} {rsa}", rig.port)).expect("write");
    backend(&SshSettings { host_key: Some(HostKeyPolicy::Strict), ..rig.ssh() }).check().await.expect("known by its RSA key");
}

#[tokio::test]
async fn keys_that_do_not_work_are_named() {
    let Some(rig) = Rig::start("") else { return };
    keygen(&rig.path("wrong"), "ed25519", "");
    let e = refusal(&SshSettings { keys: vec![rig.path("wrong")], ..rig.ssh() }).await;
    assert_eq!(e.kind, ErrorKind::Authentication);
    assert!(e.message.contains("refused the login") && e.message.contains("ssh-ed25519 SHA256:"), "{e}");
    assert!(e.message.contains(&rig.path("wrong").display().to_string()) && e.message.contains("it takes publickey"), "{e}");

    let e = refusal(&SshSettings { keys: vec![rig.path("none")], ..rig.ssh() }).await;
    assert_eq!(e.kind, ErrorKind::Config);
    assert!(e.message.contains("does not exist"), "{e}");

    std::fs::write(rig.path("garbage"), "not a key").expect("write");
    let e = refusal(&SshSettings { keys: vec![rig.path("garbage")], ..rig.ssh() }).await;
    assert_eq!(e.kind, ErrorKind::Config);

    // A passphrase is wanted only for a key that the server would take.
    keygen(&rig.path("locked"), "ed25519", "a passphrase");
    let locked = SshSettings { keys: vec![rig.path("locked")], ..rig.ssh() };
    assert!(refusal(&locked).await.message.contains("refused the login"));
    std::fs::copy(rig.path("locked.pub"), rig.path("authorized_keys")).expect("copy");
    let e = refusal(&locked).await;
    assert_eq!(e.kind, ErrorKind::Authentication);
    assert!(e.message.contains("needs its passphrase") && e.fix.as_deref().is_some_and(|f| f.contains("qd backends connect rig")), "{e:?}");

    // A second key works when the first does not, of every type.
    for kind in ["rsa", "ecdsa"] {
        keygen(&rig.path(kind), kind, "");
        let public = std::fs::read_to_string(rig.path(&format!("{kind}.pub"))).expect("a key");
        std::fs::write(rig.path("authorized_keys"), public).expect("write");
        let keys = vec![rig.path("wrong"), rig.path(kind)];
        backend(&SshSettings { keys, ..rig.ssh() }).check().await.expect(kind);
    }
}

#[tokio::test]
async fn too_many_refusals_are_refusals_not_a_broken_link() {
    let Some(rig) = Rig::start("MaxAuthTries 2") else { return };
    let mut keys = Vec::new();
    for n in 0..4 {
        let path = rig.path(&format!("wrong{n}"));
        keygen(&path, "ed25519", "");
        keys.push(path);
    }
    let e = refusal(&SshSettings { keys, ..rig.ssh() }).await;
    assert_eq!(e.kind, ErrorKind::Authentication, "{e}");
}

#[tokio::test]
async fn the_agent_is_asked_at_the_socket_of_the_client() {
    let Some(rig) = Rig::start("") else { return };
    let socket = rig.path("agent.sock");
    let Ok(mut agent) =
        std::process::Command::new("ssh-agent").arg("-D").arg("-a").arg(&socket).stdout(std::process::Stdio::null()).spawn()
    else {
        eprintln!("skipped: there is no ssh-agent on this machine");
        return;
    };
    timeout(CAP, async {
        while tokio::net::UnixStream::connect(&socket).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the agent listens");
    let added = std::process::Command::new("ssh-add").arg("-q").arg(rig.path("id")).env("SSH_AUTH_SOCK", &socket).status();
    assert!(added.is_ok_and(|s| s.success()), "ssh-add");
    let ssh = SshSettings { keys: vec![], agent: Some(true), ..rig.ssh() };
    let env: ClientEnv = Default::default();
    let one = Ssh::new(&settings(&ssh), &ssh, env.clone(), Arc::default());
    env.write().expect("whole").push(("SSH_AUTH_SOCK".into(), rig.path("nothing").display().to_string()));
    let e = one.check().await.expect_err("no agent there");
    assert_eq!(e.kind, ErrorKind::Authentication);
    assert!(e.message.contains("the agent at"), "{e}");
    env.write().expect("whole")[0].1 = socket.display().to_string();
    one.check().await.expect("the agent has the key");
    // A key that needs its passphrase is left to the agent.
    keygen(&rig.path("locked"), "ed25519", "a passphrase");
    let ssh = SshSettings { keys: vec![rig.path("locked")], agent: Some(true), ..rig.ssh() };
    Ssh::new(&settings(&ssh), &ssh, env, Arc::default()).check().await.expect("the agent has another key");
    agent.kill().expect("end the agent");
    agent.wait().expect("reap");
}

/// The error of one start on a sshd with more config.
async fn no_shell(more: &str) -> Option<BackendError> {
    let rig = Rig::start(more)?;
    let ssh = rig.backend();
    let e = timeout(CAP, ssh.start(Start { timeout: Duration::from_secs(2), ..start() })).await.expect("in time").err();
    Some(e.expect("an error"))
}

#[tokio::test]
async fn accounts_without_a_shell_say_so() {
    let Some(e) = no_shell("ForceCommand echo only git here").await else { return };
    assert_eq!(e.kind, ErrorKind::NoShell);
    assert!(e.message.contains("only git here"), "{e}");
    let Some(e) = no_shell("ForceCommand echo no login; exit 1").await else { return };
    assert_eq!(e.kind, ErrorKind::NoShell);
    let Some(e) = no_shell("ForceCommand exit 3").await else { return };
    assert_eq!(e.kind, ErrorKind::NoShell);
    assert!(e.message.contains("code 3"), "{e}");
    let Some(e) = no_shell("ForceCommand exec sleep 600").await else { return };
    assert_eq!(e.kind, ErrorKind::TimedOut);
}

#[tokio::test]
async fn noise_of_start_files_is_no_output() {
    let Some(rig) = Rig::start("ForceCommand echo noise; echo more >&2; eval \"$SSH_ORIGINAL_COMMAND\"") else { return };
    let ssh = rig.backend();
    let (out, err, exit) = run(ssh.start(start()).await.expect("a shell"), "echo out").await;
    assert_eq!((out.as_str(), err.as_str()), ("out\n", ""));
    assert!(matches!(exit, Exit::Code(0)));
}

#[tokio::test]
async fn callers_share_one_attempt() {
    let Some(rig) = Rig::start("") else { return };
    let ssh = rig.backend();
    let checks = (0..8).map(|_| ssh.check());
    let starts = (0..4).map(|_| ssh.start(start()));
    let (checks, starts) = tokio::join!(futures::future::join_all(checks), futures::future::join_all(starts));
    assert!(checks.into_iter().all(|c| c.is_ok_and(|c| c.fresh)));
    assert!(starts.into_iter().all(|s| s.is_ok()));
    assert_eq!(rig.log().matches("Accepted publickey").count(), 1, "{}", rig.log());
    assert_eq!(ssh.about().link.borrow().epoch, 1);
}

#[tokio::test]
async fn a_lost_link_is_told_at_once_and_made_again() {
    let Some(rig) = Rig::start("") else { return };
    let proxy = Proxy::start(rig.port).await;
    let ssh = backend(&SshSettings { port: Some(proxy.port), ..rig.ssh() });
    let shell = ssh.start(start()).await.expect("a shell");
    let mut link = ssh.about().link.clone();
    assert!(link.borrow_and_update().up);
    proxy.reset();
    timeout(CAP, link.changed()).await.expect("in time").expect("there");
    {
        let seen = link.borrow();
        let lost = seen.lost.clone().expect("a reason");
        assert!(!seen.up && lost.kind == ErrorKind::Lost && lost.message.contains("reset"), "{lost:?}");
    }
    assert!(matches!(timeout(CAP, shell.exit).await.expect("it ends"), Exit::Lost(_)));
    let proxy = Proxy::start(rig.port).await;
    let ssh = backend(&SshSettings { port: Some(proxy.port), ..rig.ssh() });
    ssh.check().await.expect("connected");
    // A server that goes away in an orderly way.
    proxy.reset();
    assert!(timeout(CAP, ssh.about().link.clone().wait_for(|l| !l.up)).await.is_ok());
}

#[tokio::test]
async fn a_black_hole_is_noticed_and_close_ends_everything() {
    let Some(rig) = Rig::start("") else { return };
    let proxy = Proxy::start(rig.port).await;
    let ssh = backend(&SshSettings { port: Some(proxy.port), ..rig.ssh() });
    let shell = ssh.start(start()).await.expect("a shell");
    proxy.freeze();
    let e = timeout(CAP, ssh.check()).await.expect("it gives up by itself").expect_err("no answer");
    assert_eq!(e.kind, ErrorKind::TimedOut);
    assert!(ssh.about().link.borrow().up, "one missed check is not the end");
    proxy.thaw();
    timeout(CAP, ssh.check()).await.expect("in time").expect("it was only slow");
    proxy.freeze();
    ssh.check().await.expect_err("no answer");
    ssh.close().await;
    let exit = shell.exit.now_or_never().expect("at once");
    assert!(matches!(&exit, Exit::Lost(e) if e.message.contains("no answer from")), "{exit:?}");
    let link = ssh.about().link.borrow().clone();
    assert!(!link.up && link.lost.is_some_and(|e| e.message.contains("no answer from")));
    let mut open = proxy.open.clone();
    proxy.thaw();
    timeout(CAP, open.wait_for(|n| *n == 0)).await.expect("the socket is closed").expect("there");
}

#[tokio::test]
async fn a_start_bound_to_a_connection_makes_none() {
    let Some(rig) = Rig::start("") else { return };
    let ssh = rig.backend();
    timeout(CAP, ssh.check()).await.expect("in time").expect("connected");
    let number = ssh.about().link.borrow().epoch;
    let shell = timeout(CAP, ssh.start(Start { on: Some(number), ..start() })).await.expect("in time").expect("a shell");
    drop(shell);
    ssh.close().await;
    let refused = timeout(CAP, ssh.start(Start { on: Some(number), ..start() })).await.expect("in time").err().expect("it is gone");
    assert_eq!(refused.kind, ErrorKind::Lost);
    assert!(!ssh.about().link.borrow().up && ssh.about().link.borrow().epoch == number);
}

#[tokio::test]
async fn close_during_an_attempt_gives_it_up() {
    let dir = tempfile::tempdir().expect("a folder");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = listener.local_addr().expect("an address").port();
    let ssh = backend(&SshSettings {
        host: "127.0.0.1".into(),
        port: Some(port),
        ssh_config: SshConfig::Nothing,
        known_hosts: vec![dir.path().join("k")],
        ..Default::default()
    });
    let (checked, ()) = tokio::join!(ssh.check(), async {
        let (mut stream, _) = listener.accept().await.expect("accept");
        ssh.close().await;
        timeout(CAP, stream.read_to_end(&mut Vec::new())).await.expect("the socket is closed").ok();
    });
    assert_eq!(checked.expect_err("given up").kind, ErrorKind::Lost);
}

#[tokio::test]
async fn more_commands_than_sessions_wait_for_their_turn() {
    for sessions in [1, 2, 10] {
        let Some(rig) = Rig::start(&format!("MaxSessions {sessions}")) else { return };
        let ssh = rig.backend();
        let all = (0..10).map(|n| {
            let ssh = &ssh;
            async move {
                let shell = ssh.start(Start { timeout: CAP, ..start() }).await.expect("its turn comes");
                let (out, _, exit) = run(shell, &format!("echo {n}; exit {n}")).await;
                assert_eq!(out, format!("{n}\n"));
                assert!(matches!(exit, Exit::Code(code) if code == n), "{exit:?}");
            }
        });
        timeout(CAP * 3, futures::future::join_all(all)).await.expect("in time");
    }
}

#[tokio::test]
async fn a_start_waits_for_room_however_long_and_says_so() {
    let Some(rig) = Rig::start("MaxSessions 1") else { return };
    let ssh = rig.backend();
    // The only one on the first connection, and one on each of two more.
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(ssh.start(Start { timeout: CAP, ..start() }).await.expect("room"));
    }
    // Its own time does not count while it waits for room.
    let mut waits = ssh.start(Start { timeout: Duration::from_secs(3), ..start() });
    tokio::select! {
        got = &mut waits => panic!("there is no room: {:?}", got.err()),
        () = async { tokio::join!(ssh.pressed(), tokio::time::sleep(Duration::from_secs(4))); } => {}
    }
    held.pop();
    held.push(waits.await.expect("room again"));
    ssh.close().await;
    for shell in held {
        assert!(matches!(timeout(CAP, shell.exit).await.expect("lost with all connections"), Exit::Lost(_)));
    }
}

fn family(shell: &Shell, cookie: &str) -> Family {
    Family { pid: shell.ready.pid, start_time: None, age: None, cookie: cookie.to_owned() }
}

#[tokio::test]
async fn a_command_is_ended_with_all_that_it_started() {
    // With a single session the control shell has no room beside the command.
    for sessions in [10, 1] {
        let Some(rig) = Rig::start(&format!("MaxSessions {sessions}")) else { return };
        let ssh = rig.backend();
        let mut shell = ssh.start(Start { timeout: CAP, ..start() }).await.expect("a shell");
        let command = "export QD_PROCESS=kabc; sleep 600 & setsid sleep 600 & (trap '' TERM; echo up; while :; do sleep 600; done)";
        shell.stdin.write_all(&script(command)).await.expect("send");
        shell.stdout.read_exact(&mut [0; 3]).await.expect("it runs");
        let named = family(&shell, "QD_PROCESS=kabc");
        let seen = timeout(CAP, ssh.family(named.clone(), Ask::Survivors)).await.expect("in time").expect("an answer");
        assert!(seen.alive.len() >= 4 && seen.alive.contains(&shell.ready.pid), "{seen:?}");
        let end = Ask::End { grace: Duration::from_millis(300) };
        let left = timeout(CAP, ssh.family(named.clone(), end)).await.expect("in time").expect("an answer");
        assert!(left.verified && left.alive.is_empty(), "{left:?}");
        for pid in seen.alive {
            timeout(CAP, pid_gone(pid)).await.expect("gone");
        }
        assert!(matches!(timeout(CAP, shell.exit).await.expect("it ends"), Exit::Signal(_)));
    }
}

#[tokio::test]
async fn only_the_named_command_is_signalled() {
    let Some(rig) = Rig::start("") else { return };
    let ssh = rig.backend();
    let (mut one, mut two) = (ssh.start(start()).await.expect("a shell"), ssh.start(start()).await.expect("a shell"));
    for shell in [&mut one, &mut two] {
        shell
            .stdin
            .write_all(&script("trap 'echo got; exit 9' USR1; echo up; while :; do read -t 0.05 <> <(:); done"))
            .await
            .expect("send");
        shell.stdout.read_exact(&mut [0; 3]).await.expect("it runs");
    }
    ssh.family(family(&one, "QD_PROCESS=k1"), Ask::Signal(10)).await.expect("signalled");
    assert!(matches!(timeout(CAP, one.exit).await.expect("it ends"), Exit::Code(9)));
    assert!(two.exit.as_mut().now_or_never().is_none());
    let left = ssh.family(family(&two, "QD_PROCESS=k2"), Ask::End { grace: Duration::ZERO }).await.expect("ended");
    assert!(left.verified, "{left:?}");
}

#[tokio::test]
async fn a_control_shell_that_dies_is_made_anew() {
    let Some(rig) = Rig::start("") else { return };
    let ssh = rig.backend();
    let shell = ssh.start(start()).await.expect("a shell");
    let named = family(&shell, "QD_PROCESS=k3");
    for _ in 0..2 {
        let seen = timeout(CAP, ssh.family(named.clone(), Ask::Survivors)).await.expect("in time").expect("an answer");
        assert_eq!(seen.alive, [shell.ready.pid]);
        // sshd's other child is the control shell.
        for pid in rig.shells().into_iter().filter(|pid| *pid != shell.ready.pid) {
            kill(pid);
        }
    }
}

#[tokio::test]
async fn what_runs_in_the_foreground_is_ended_some_time_after_the_link_broke() {
    let Some(rig) = Rig::start("") else { return };
    for on_lost in [OnLost::End, OnLost::Keep] {
        let settings = BackendSettings { on_lost, ..settings(&rig.ssh()) };
        let ssh = Ssh::with_linger(&settings, &rig.ssh(), Default::default(), Arc::default(), 1);
        let mut shell = ssh.start(start()).await.expect("a shell");
        shell.stdin.write_all(&script("echo up; exec sleep 600")).await.expect("send");
        shell.stdout.read_exact(&mut [0; 3]).await.expect("it runs");
        let pid = shell.ready.pid;
        // The control shell knows of it once it has answered a later question.
        ssh.family(family(&shell, "QD_PROCESS=k4"), Ask::Survivors).await.expect("an answer");
        let control: Vec<u32> = rig.shells();
        ssh.close().await;
        if on_lost == OnLost::End {
            timeout(CAP, pid_gone(pid)).await.expect("ended by the control shell");
        } else {
            for shell in control {
                timeout(CAP, pid_gone(shell)).await.expect("the control shell has ended");
            }
            kill(pid);
        }
    }
}
