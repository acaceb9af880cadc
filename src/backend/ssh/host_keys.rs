//! Host keys on real sshds, and next to what OpenSSH itself says of the same files.

use super::Ssh;
use super::known_hosts::{Known, Names};
use super::rig::{Rig, backend, keygen};
use super::scripted::Scripted;
use crate::backend::{Backend, ErrorKind};
use crate::config::{HostKeyPolicy, SshSettings};
use crate::model::{Answer, HostKeyChange, Question, Standing};
use std::path::Path;
use std::process::{Command, Stdio};

fn public(rig: &Rig, name: &str) -> String {
    let text = std::fs::read_to_string(rig.path(&format!("{name}.pub"))).expect("a key");
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

fn strict(rig: &Rig) -> SshSettings {
    SshSettings { host_key: Some(HostKeyPolicy::Strict), ..rig.ssh() }
}

/// Whether OpenSSH gets in with this known_hosts file.
fn openssh(rig: &Rig, more: &[&str]) -> Option<bool> {
    let known = format!("UserKnownHostsFile={}", rig.path("known_hosts").display());
    let mut ssh = Command::new("ssh");
    ssh.args(["-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "GlobalKnownHostsFile=none"]);
    ssh.args(["-o", "IdentitiesOnly=yes", "-o", &known, "-i"]).arg(rig.path("id")).args(["-p", &rig.port.to_string()]);
    for option in more {
        ssh.args(["-o", option]);
    }
    let done = ssh.args(["127.0.0.1", "true"]).stdin(Stdio::null()).stderr(Stdio::null()).status();
    done.ok().map(|status| status.success())
}

#[tokio::test]
async fn the_same_files_let_openssh_and_us_in() {
    let Some(rig) = Rig::start("") else { return };
    keygen(&rig.path("other"), "ed25519", "");
    keygen(&rig.path("rsa"), "rsa", "");
    let (key, other, rsa) = (public(&rig, "host_ed25519"), public(&rig, "other"), public(&rig, "rsa"));
    let port = rig.port;
    let table = [
        (format!("[127.0.0.1]:{port} {key}\n"), true),
        (format!("[127.0.0.1]:{port} {other}\n"), false),
        (format!("127.0.0.1 {key}\n"), true),
        (format!("[127.0.0.1]:{port} {other}\n[127.0.0.1]:{port} {key}\n"), true),
        (format!("[127.0.0.*]:{port} {key}\n"), true),
        (format!("[127.0.0.*]:{port},![127.0.0.1]:{port} {key}\n"), false),
        (format!("# c\n\ngarbage\n[127.0.0.1]:{port}\t{key} comment\n"), true),
        (format!("@revoked [127.0.0.1]:{port} {key}\n[127.0.0.1]:{port} {key}\n"), false),
        (format!("@revoked * {key}\n[127.0.0.1]:{port} {key}\n"), false),
        (format!("@cert-authority [127.0.0.1]:{port} {key}\n"), false),
        (format!("[127.0.0.1]:{port} {rsa}\n"), false),
        (format!("|1|bad|bad {key}\n"), false),
        (String::new(), false),
    ];
    for (text, expected) in table {
        std::fs::write(rig.path("known_hosts"), &text).expect("write");
        let ours = backend(&strict(&rig)).check().await;
        assert_eq!(ours.is_ok(), expected, "{text} {ours:?}");
        if let Some(theirs) = openssh(&rig, &[]) {
            assert_eq!(theirs, expected, "OpenSSH on {text}");
        }
    }
}

#[test]
fn lines_are_found_as_ssh_keygen_finds_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("known_hosts");
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";
    let lines = [
        "gpu.lab",
        "GPU.lab,10.0.0.7",
        "*.lab",
        "*.lab,!gpu.lab",
        "[gpu.lab]:2222",
        "[*.lab]:2222",
        "gpu?lab",
        "@revoked gpu.lab",
        "@cert-authority *.lab",
        "web",
    ];
    let text: String = lines.iter().map(|names| format!("{names} {key}\n")).collect();
    std::fs::write(&file, &text).expect("write");
    for (host, port) in [("gpu.lab", 22), ("gpu.lab", 2222), ("10.0.0.7", 22), ("web", 22), ("web", 2222), ("box.lab", 22), ("none", 22)] {
        let names = Names::new(host, port, None);
        let Ok(found) = Command::new("ssh-keygen").args(["-F", &names.name, "-f"]).arg(&file).output() else {
            eprintln!("skipped: there is no ssh-keygen on this machine");
            return;
        };
        let theirs: Vec<usize> = String::from_utf8_lossy(&found.stdout)
            .lines()
            .filter_map(|line| line.strip_prefix("# Host ")?.split("line ").nth(1)?.split(' ').next()?.parse().ok())
            .collect();
        let mut known = Known::new(Names::new(&names.name, 22, Some(&names.name)));
        known.read(Path::new("f"), &text);
        let ours: Vec<usize> = known.entries().iter().map(|e| e.line).collect();
        assert_eq!(ours, theirs, "{host} {port}");
    }
}

/// A sshd whose host key has a certificate, signed with `ca` and these arguments.
fn certified(args: &[&str]) -> Option<Rig> {
    Rig::prepared(|at| {
        keygen(&at.join("ca"), "ed25519", "");
        let mut sign = Command::new("ssh-keygen");
        sign.args(["-q", "-s"]).arg(at.join("ca")).args(["-I", "test"]).args(args).arg(at.join("host_ed25519.pub"));
        assert!(sign.status().is_ok_and(|s| s.success()), "ssh-keygen -s");
        format!("HostCertificate {}", at.join("host_ed25519-cert.pub").display())
    })
}

#[tokio::test]
async fn certificates_hold_for_their_host_and_time_alone() {
    let table: [(&[&str], bool, &str); 6] = [
        (&["-h", "-n", "127.0.0.1", "-V", "-1h:+1h"], true, ""),
        (&["-h", "-n", "127.0.0.*", "-V", "-1h:+1h"], false, "is for 127.0.0.*"),
        (&["-h", "-n", "gpu.lab", "-V", "-1h:+1h"], false, "is for gpu.lab"),
        (&["-h", "-n", "127.0.0.1", "-V", "-2h:-1h"], false, "has expired"),
        (&["-h", "-n", "127.0.0.1", "-V", "+1h:+2h"], false, "does not hold yet"),
        (&["-n", "127.0.0.1", "-V", "-1h:+1h"], false, ""),
    ];
    for (args, expected, why) in table {
        let Some(rig) = certified(args) else { return };
        let file = rig.path("known_hosts");
        let ca = public(&rig, "ca");
        std::fs::write(&file, format!("@cert-authority [127.0.0.*]:{} {ca}\n", rig.port)).expect("write");
        let ours = backend(&strict(&rig)).check().await;
        assert_eq!(ours.is_ok(), expected, "{args:?} {ours:?}");
        if let Some(theirs) = openssh(&rig, &[]) {
            assert_eq!(theirs, expected, "OpenSSH on {args:?}");
        }
        if let Err(e) = ours {
            assert_eq!(e.kind, ErrorKind::HostKey);
            assert!(e.message.contains(why), "{e}");
        }
        // Where an authority is known, a certificate of its that does not hold is never taken for a new host.
        let lax = backend(&rig.ssh()).check().await;
        if !why.is_empty() {
            assert!(lax.is_err_and(|e| e.message.contains(why)), "{args:?}");
        }
        // The key by itself may be known all the same; a revoked authority speaks for nobody.
        let key = public(&rig, "host_ed25519");
        std::fs::write(&file, format!("[127.0.0.1]:{} {key}\n", rig.port)).expect("write");
        backend(&strict(&rig)).check().await.expect("known by its key");
        std::fs::write(&file, format!("@cert-authority * {ca}\n@revoked * {ca}\n")).expect("write");
        assert!(backend(&rig.ssh()).check().await.is_err(), "{args:?}");
    }
}

#[tokio::test]
async fn strict_asks_and_takes_the_answer_at_its_word() {
    let Some(rig) = Rig::start("") else { return };
    let file = rig.path("known_hosts");
    // Refused: nothing is written, and the way out is named.
    let person = Scripted::new([Answer::Cancel]);
    let e = person.backend(&strict(&rig)).check().await.expect_err("refused");
    assert_eq!(e.kind, ErrorKind::HostKey);
    assert!(e.fix.is_some_and(|f| f.contains("qd hostkey accept rig")));
    let asked = person.asked();
    assert!(matches!(&asked[..], [Question::HostKey { key, .. }] if key.fingerprint.starts_with("SHA256:")), "{asked:?}");
    assert!(!file.exists());
    // This time only: holds until the backend is disconnected, and nothing is written.
    let person = Scripted::new([Answer::Trust { save: false }]);
    let one = person.backend(&strict(&rig));
    one.check().await.expect("trusted");
    one.connector.close();
    one.check().await.expect("still trusted");
    one.close().await;
    one.check().await.expect_err("not any more");
    assert!(!file.exists());
    // For good.
    Scripted::new([Answer::Trust { save: true }]).backend(&strict(&rig)).check().await.expect("trusted");
    backend(&strict(&rig)).check().await.expect("known now");
}

fn blocked(e: crate::backend::BackendError) {
    assert_eq!(e.kind, ErrorKind::HostKey, "{e}");
}

#[tokio::test]
async fn a_changed_key_blocks_until_the_operator_replaces_it() {
    let Some(rig) = Rig::start("") else { return };
    keygen(&rig.path("old"), "rsa", "");
    let file = rig.path("known_hosts");
    let (old, key) = (public(&rig, "old"), public(&rig, "host_ed25519"));
    let name = format!("[127.0.0.1]:{}", rig.port);
    let rest = format!("# mine\r\nweb {old}\n@cert-authority *.lab {old}\n");
    std::fs::write(&file, format!("{rest}box,{name} {old} x\n")).expect("write");
    let person = Scripted::new([Answer::Trust { save: true }]);
    let one: Ssh = person.backend(&rig.ssh());
    blocked(one.check().await.expect_err("changed"));
    assert!(person.asked().is_empty(), "nobody can say yes to that in passing");
    assert!(matches!(&person.told()[..], [Question::HostKeyChanged { known, .. }] if known[0].place.ends_with(":4")));

    let book = one.host_keys().expect("a book");
    let seen = book.show(true).await.expect("shown");
    assert_eq!((seen.standing, seen.host.as_str(), seen.known.len()), (Standing::Changed, name.as_str(), 1));
    let print = seen.shown.expect("a key").fingerprint;
    blocked(book.change(HostKeyChange::Accept, &print).await.expect_err("to accept is not to replace"));
    blocked(book.change(HostKeyChange::Replace, "SHA256:another").await.expect_err("not the key that was shown"));
    blocked(one.check().await.expect_err("still changed"));
    assert_eq!(std::fs::read_to_string(&file).expect("read"), format!("{rest}box,{name} {old} x\n"));

    assert_eq!(book.change(HostKeyChange::Replace, &print).await.expect("replaced").standing, Standing::Known);
    assert_eq!(std::fs::read_to_string(&file).expect("read"), format!("{rest}box {old} x\n{name} {key}\n"));
    one.check().await.expect("in");
    assert_eq!(book.change(HostKeyChange::Remove, "").await.expect("removed").known.len(), 0);
    assert_eq!(std::fs::read_to_string(&file).expect("read"), format!("{rest}box {old} x\n"));
}
