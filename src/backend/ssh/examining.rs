//! Examining the way to a machine: what is told of a whole one, and of each way in which it can be broken.

use super::rig::{Proxy, Rig, free_port, keygen, run, settings, start};
use super::{Backend, Ssh};
use crate::backend::local::ClientEnv;
use crate::config::{HostKeyPolicy, SshConfig, SshSettings};
use crate::model::{Finding, Verdict};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

const CAP: Duration = Duration::from_secs(30);

/// The findings of one examination, and what further checks could be made on.
async fn examine(ssh: &Ssh) -> (Vec<Finding>, Option<Arc<dyn Backend>>) {
    let (tell, mut told) = mpsc::channel(64);
    let apart = timeout(CAP, ssh.examine(&tell)).await.expect("in time");
    drop(tell);
    let mut all = Vec::new();
    while let Some(finding) = told.recv().await {
        all.push(finding);
    }
    (all, apart)
}

fn backend(ssh: &SshSettings, connect_timeout: Duration) -> Ssh {
    let settings = crate::config::BackendSettings { connect_timeout, ..settings(ssh) };
    Ssh::new(&settings, ssh, ClientEnv::default(), Arc::default())
}

/// Each check with its verdict's first letter.
fn shape(findings: &[Finding]) -> String {
    let letter = |verdict| match verdict {
        Verdict::Ok => "+",
        Verdict::Warn => "~",
        Verdict::Fail => "!",
        Verdict::Skipped => "-",
    };
    findings.iter().map(|f| format!("{}{}", letter(f.verdict), f.check)).collect::<Vec<_>>().join(" ")
}

fn fact<'f>(findings: &'f [Finding], check: &str) -> &'f str {
    findings.iter().find(|f| f.check == check).map(|f| f.fact.as_str()).unwrap_or_default()
}

/// How many lines of the server's log hold the text, once there is one: it writes some a moment later.
async fn logged(rig: &Rig, text: &str) -> usize {
    let count = || rig.log().lines().filter(|line| line.contains(text)).count();
    let wait = async {
        while count() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(CAP, wait).await.unwrap_or_else(|_| panic!("no {text:?} in\n{}", rig.log()));
    count()
}

#[tokio::test]
async fn a_whole_way_is_told_step_by_step_with_one_login_and_nothing_written_down() {
    let Some(rig) = Rig::start("") else { return };
    let proxy = Proxy::start(rig.port).await;
    let ssh = SshSettings { port: Some(proxy.port), ..rig.ssh() };
    let (findings, apart) = examine(&backend(&ssh, CAP)).await;
    assert_eq!(shape(&findings), "+ssh_config +name +port +banner ~host_key +login +sessions", "{findings:#?}");
    assert!(fact(&findings, "port").starts_with(&format!("127.0.0.1 port {} answers", proxy.port)), "{findings:#?}");
    assert!(fact(&findings, "banner").starts_with("SSH-2.0-OpenSSH"), "{findings:#?}");
    assert!(fact(&findings, "host_key").contains("SHA256:") && fact(&findings, "host_key").contains("is new"), "{findings:#?}");
    let login = fact(&findings, "login");
    assert!(login.contains("ssh-ed25519 SHA256:") && login.contains(": accepted"), "{login}");
    assert_eq!(fact(&findings, "sessions"), "10 at a time or more, on one connection");
    assert!(!rig.path("known_hosts").exists(), "the key is not written down");
    let apart = apart.expect("a connection to go on with");
    let (out, _, _) = run(apart.start(start()).await.expect("a shell"), "echo here").await;
    assert_eq!(out, "here\n");
    assert!(apart.check().await.is_ok_and(|reached| reached.round_trip > Duration::ZERO));
    assert_eq!(logged(&rig, "Accepted publickey").await, 1);
    drop(apart);
    let mut open = proxy.open.clone();
    timeout(CAP, open.wait_for(|n| *n == 0)).await.expect("the connection ends").expect("the proxy lives");
}

#[tokio::test]
async fn a_known_host_key_is_told_as_known_and_a_changed_one_ends_it() {
    let Some(rig) = Rig::start("") else { return };
    let ssh = rig.ssh();
    rig.backend().check().await.expect("it is accepted and written down");
    let (findings, _) = examine(&backend(&ssh, CAP)).await;
    assert!(fact(&findings, "host_key").ends_with("is known"), "{findings:#?}");
    let line = std::fs::read_to_string(rig.path("known_hosts")).expect("it was written down");
    keygen(&rig.path("other"), "ed25519", "");
    let other = std::fs::read_to_string(rig.path("other.pub")).expect("made");
    let mut words = line.split(' ').take(1).chain(other.split(' ').take(2));
    let changed = [words.next(), words.next(), words.next()].map(Option::unwrap_or_default).join(" ");
    std::fs::write(rig.path("known_hosts"), format!("{changed}\n")).expect("write");
    let (findings, apart) = examine(&backend(&ssh, CAP)).await;
    assert_eq!(shape(&findings), "+ssh_config +name +port +banner !host_key -login -sessions", "{findings:#?}");
    assert!(fact(&findings, "host_key").contains("has changed") && apart.is_none(), "{findings:#?}");
    assert_eq!(fact(&findings, "login"), "the step `host key` failed");
}

#[tokio::test]
async fn a_host_key_that_is_not_known_ends_it_in_strict_mode() {
    let Some(rig) = Rig::start("") else { return };
    let ssh = SshSettings { host_key: Some(HostKeyPolicy::Strict), ..rig.ssh() };
    let (findings, _) = examine(&backend(&ssh, CAP)).await;
    assert_eq!(shape(&findings), "+ssh_config +name +port +banner !host_key -login -sessions", "{findings:#?}");
    assert!(fact(&findings, "host_key").contains("is not known"), "{findings:#?}");
}

#[tokio::test]
async fn a_refused_login_names_what_was_offered_and_is_not_made_twice() {
    let Some(rig) = Rig::start("") else { return };
    keygen(&rig.path("wrong"), "ed25519", "");
    let ssh = SshSettings { keys: vec![rig.path("wrong")], ..rig.ssh() };
    let (findings, _) = examine(&backend(&ssh, CAP)).await;
    assert_eq!(shape(&findings), "+ssh_config +name +port +banner ~host_key !login -sessions", "{findings:#?}");
    let login = fact(&findings, "login");
    assert!(login.contains("refused the login; keys offered: ssh-ed25519 SHA256:") && login.contains("it takes publickey"), "{login}");
    assert!(findings.iter().any(|f| f.check == "login" && f.fix.as_ref().is_some_and(|fix| fix.contains("authorized_keys"))));
    assert_eq!(logged(&rig, "authenticating user").await, 1);
}

#[tokio::test]
async fn the_step_of_the_network_that_fails_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |host: &str, port| SshSettings {
        host: host.into(),
        port: Some(port),
        known_hosts: vec![dir.path().join("k")],
        ssh_config: SshConfig::Nothing,
        ..Default::default()
    };
    let (findings, _) = examine(&backend(&at("no-such-host.invalid", 22), CAP)).await;
    assert_eq!(shape(&findings), "+ssh_config !name -port -banner -host_key -login -sessions", "{findings:#?}");
    let (findings, _) = examine(&backend(&at("127.0.0.1", free_port()), CAP)).await;
    assert_eq!(shape(&findings), "+ssh_config +name !port -banner -host_key -login -sessions", "{findings:#?}");
    assert!(fact(&findings, "port").starts_with("connection refused by 127.0.0.1 port"), "{findings:#?}");
    // It takes the connection and says nothing, as what a full machine or a filter does.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let port = silent.local_addr().expect("an address").port();
    let (findings, _) = examine(&backend(&at("127.0.0.1", port), Duration::from_millis(500))).await;
    assert_eq!(shape(&findings), "+ssh_config +name +port !banner -host_key -login -sessions", "{findings:#?}");
}

#[tokio::test]
async fn few_sessions_are_counted_and_enough_to_end_processes() {
    for (allowed, words) in [(1, "1 at a time: "), (3, "3 at a time, ")] {
        let Some(rig) = Rig::start(&format!("MaxSessions {allowed}")) else { return };
        let (findings, apart) = examine(&rig.backend()).await;
        let sessions = findings.iter().find(|f| f.check == "sessions").expect("it got there");
        assert!(sessions.fact.starts_with(words), "{sessions:?}");
        assert_eq!(sessions.verdict == Verdict::Warn, allowed == 1, "{sessions:?}");
        let apart = apart.expect("a connection to go on with");
        // One after the other: the room that was counted is free again.
        for _ in 0..3 {
            let (out, _, _) = run(apart.start(start()).await.expect("a shell"), "echo here").await;
            assert_eq!(out, "here\n");
        }
    }
}

#[tokio::test]
async fn an_examination_that_is_given_up_leaves_no_connection() {
    let Some(rig) = Rig::start("") else { return };
    let proxy = Proxy::start(rig.port).await;
    proxy.freeze();
    let ssh = SshSettings { port: Some(proxy.port), ..rig.ssh() };
    let backend = backend(&ssh, CAP);
    let (tell, mut told) = mpsc::channel::<Finding>(64);
    let mut open = proxy.open.clone();
    let seen = async {
        while told.recv().await.is_some_and(|finding| finding.check != "port") {}
        open.wait_for(|n| *n == 1).await.is_ok()
    };
    tokio::select! {
        _ = backend.examine(&tell) => panic!("it cannot get through"),
        seen = timeout(CAP, seen) => assert!(seen.expect("in time")),
    }
    // What is frozen does not see that a side has gone.
    proxy.thaw();
    timeout(CAP, open.wait_for(|n| *n == 0)).await.expect("the connection ends").expect("the proxy lives");
}

#[tokio::test]
async fn a_way_over_another_machine_is_one_step() {
    let (Some(rig), Some(hop)) = (Rig::start(""), Rig::start("")) else { return };
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("config");
    let host = |name: &str, rig: &Rig, port: u16, more: &str| {
        let (id, known) = (rig.path("id"), rig.path("known_hosts"));
        let (id, known) = (id.display(), known.display());
        format!(
            "Host {name}\n HostName 127.0.0.1\n Port {port}\n IdentityFile {id}\n IdentityAgent none\n UserKnownHostsFile {known}\n {more}\n"
        )
    };
    let ssh = SshSettings { host: "far".into(), ssh_config: SshConfig::File(file.clone()), ..Default::default() };
    let far = host("far", &rig, rig.port, "ProxyJump near");
    std::fs::write(&file, far.clone() + &host("near", &hop, hop.port, "")).expect("write");
    let (findings, apart) = examine(&backend(&ssh, CAP)).await;
    assert_eq!(shape(&findings), "+ssh_config +way +banner ~host_key +login +sessions", "{findings:#?}");
    assert!(fact(&findings, "way").contains("through the jump host near"), "{findings:#?}");
    assert!(apart.is_some() && !hop.path("known_hosts").exists(), "nothing is written down of it either");

    std::fs::write(&file, far + &host("near", &hop, free_port(), "")).expect("write");
    let (findings, _) = examine(&backend(&ssh, CAP)).await;
    assert_eq!(shape(&findings), "+ssh_config !way -banner -host_key -login -sessions", "{findings:#?}");
    assert!(fact(&findings, "way").contains("the jump host near") && fact(&findings, "way").contains("refused"), "{findings:#?}");
}

#[tokio::test]
async fn a_login_that_needs_a_person_asks_nobody_and_says_what_it_wants() {
    let Some(rig) = Rig::start("") else { return };
    keygen(&rig.path("locked"), "ed25519", "correct horse");
    // Without its public half beside it, nobody can tell which key it is.
    std::fs::remove_file(rig.path("locked.pub")).expect("made");
    let ssh = SshSettings { keys: vec![rig.path("locked")], ..rig.ssh() };
    let (findings, _) = examine(&backend(&ssh, CAP)).await;
    assert_eq!(shape(&findings), "+ssh_config +name +port +banner ~host_key !login -sessions", "{findings:#?}");
    let login = fact(&findings, "login");
    assert!(login.contains("passphrase") || login.contains("refused the login; keys offered"), "{login}");
    assert!(!format!("{findings:?}").contains("correct horse"));
}
