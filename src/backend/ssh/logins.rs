//! Logins of every kind, on real sshds where they can be set up for a test, else on a server of the tests' own.

use super::fake_server::{FakeServer, Wants};
use super::rig::{Rig, backend, keygen};
use super::scripted::{Scripted, text, texts};
use crate::backend::{Backend, ErrorKind};
use crate::config::SshSettings;
use crate::model::{Answer, Question};
use std::path::Path;
use std::process::Command;

const PHRASE: &str = "correct horse";

fn make(path: &Path, args: &[&str], passphrase: &str) {
    let made = Command::new("ssh-keygen").args(["-q", "-a", "1", "-N", passphrase, "-C", "test", "-f"]).arg(path).args(args).status();
    assert!(made.is_ok_and(|s| s.success()), "ssh-keygen {args:?}");
}

fn allow(rig: &Rig, names: &[&str]) {
    let keys: String = names.iter().map(|n| std::fs::read_to_string(rig.path(&format!("{n}.pub"))).expect("a key")).collect();
    std::fs::write(rig.path("authorized_keys"), keys).expect("write");
}

fn with_key(rig: &Rig, name: &str) -> SshSettings {
    SshSettings { keys: vec![rig.path(name)], ..rig.ssh() }
}

#[tokio::test]
async fn every_kind_of_key_in_every_form() {
    let Some(rig) = Rig::start("") else { return };
    let kinds: [&[&str]; 5] = [
        &["-t", "ed25519"],
        &["-t", "ecdsa", "-b", "256"],
        &["-t", "ecdsa", "-b", "384"],
        &["-t", "ecdsa", "-b", "521"],
        &["-t", "rsa", "-b", "2048"],
    ];
    for kind in kinds {
        for form in ["RFC4716", "PEM", "PKCS8"] {
            for phrase in ["", PHRASE] {
                let args = [kind, &["-m", form]].concat();
                let what = format!("{args:?} {phrase:?}");
                for name in ["key", "key.pub"] {
                    drop(std::fs::remove_file(rig.path(name)));
                }
                make(&rig.path("key"), &args, phrase);
                allow(&rig, &["key"]);
                let person = Scripted::new([text(PHRASE, false), text("", false)]);
                person.backend(&with_key(&rig, "key")).check().await.unwrap_or_else(|e| panic!("{what}: {e}"));
                let expected = usize::from(!phrase.is_empty());
                assert_eq!(person.asked().len(), expected, "{what}");
                // Without its public key beside it, too.
                std::fs::remove_file(rig.path("key.pub")).expect("remove");
                let person = Scripted::new([text(PHRASE, false), text("", false)]);
                person.backend(&with_key(&rig, "key")).check().await.unwrap_or_else(|e| panic!("{what}, alone: {e}"));
                assert_eq!(person.asked().len(), expected, "{what}, alone");
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_passphrase_is_asked_for_once_more_and_a_right_one_kept_on_request() {
    let Some(rig) = Rig::start("") else { return };
    make(&rig.path("locked"), &["-t", "ed25519"], PHRASE);
    allow(&rig, &["locked"]);
    let ssh = with_key(&rig, "locked");
    // Wrong twice: no third time.
    let person = Scripted::new([text("wrong", true), text("worse", true), text(PHRASE, true)]);
    let e = person.backend(&ssh).check().await.expect_err("wrong");
    assert_eq!(e.kind, ErrorKind::Authentication);
    assert!(e.message.contains("twice") && !e.message.contains("wors"), "{e}");
    let again: Vec<bool> = person.asked().iter().map(|q| matches!(q, Question::Passphrase { again: true, .. })).collect();
    assert_eq!(again, [false, true]);
    // Not kept: the next login asks again. Kept: it does not, and nobody need be there.
    let person = Scripted::new([text("wrong", true), text(PHRASE, false), text(PHRASE, true), Answer::Cancel]);
    let one = person.backend(&ssh);
    one.check().await.expect("in");
    one.connector.close();
    one.check().await.expect("in again");
    assert_eq!(person.asked().len(), 3);
    one.connector.close();
    one.check().await.expect("in a third time");
    assert!(person.asked().is_empty());
    // Cancelled: the login stops there.
    let person = Scripted::new([Answer::Cancel, text(PHRASE, true)]);
    let e = person.backend(&ssh).check().await.expect_err("cancelled");
    assert!(e.kind == ErrorKind::Authentication && e.message.contains("not given"), "{e}");
    assert_eq!(person.asked().len(), 1);
}

#[tokio::test]
async fn a_key_that_others_can_read_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let Some(rig) = Rig::start("") else { return };
    std::fs::set_permissions(rig.path("id"), std::fs::Permissions::from_mode(0o644)).expect("mode");
    let e = backend(&rig.ssh()).check().await.expect_err("open to all");
    assert!(e.kind == ErrorKind::Config && e.message.contains("chmod 600"), "{e}");
}

#[tokio::test]
async fn certificates_of_users() {
    let Some(rig) = Rig::prepared(|at| {
        keygen(&at.join("ca"), "ed25519", "");
        format!("TrustedUserCAKeys {}", at.join("ca.pub").display())
    }) else {
        return;
    };
    let user = rig.target(rig.port).user;
    for (name, args) in [("plain", &["-t", "ed25519"][..]), ("curve", &["-t", "ecdsa"]), ("rsa", &["-t", "rsa"])] {
        make(&rig.path(name), args, "");
        backend(&with_key(&rig, name)).check().await.expect_err("no certificate yet");
        let mut sign = Command::new("ssh-keygen");
        sign.args(["-q", "-s"]).arg(rig.path("ca")).args(["-I", "t", "-n", &user]).arg(rig.path(&format!("{name}.pub")));
        assert!(sign.status().is_ok_and(|s| s.success()));
        backend(&with_key(&rig, name)).check().await.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[tokio::test]
async fn two_keys_where_the_server_wants_two() {
    let Some(rig) = Rig::start("AuthenticationMethods publickey,publickey") else { return };
    make(&rig.path("second"), &["-t", "ecdsa"], PHRASE);
    allow(&rig, &["id", "second"]);
    let ssh = SshSettings { keys: vec![rig.path("id"), rig.path("second")], ..rig.ssh() };
    let person = Scripted::new([text(PHRASE, false)]);
    person.backend(&ssh).check().await.expect("both");
    assert_eq!(person.asked().len(), 1);
    let e = backend(&rig.ssh()).check().await.expect_err("one is not enough");
    assert_eq!(e.kind, ErrorKind::Authentication);
}

#[tokio::test]
async fn five_keys_are_enough() {
    let Some(rig) = Rig::start("MaxAuthTries 20") else { return };
    let names: Vec<String> = (0..7).map(|n| format!("k{n}")).collect();
    names.iter().for_each(|n| make(&rig.path(n), &["-t", "ed25519"], ""));
    allow(&rig, &["k6"]);
    let e = backend(&SshSettings { keys: names.iter().map(|n| rig.path(n)).collect(), ..rig.ssh() }).check().await.expect_err("too many");
    assert!(e.message.contains("5 keys are enough") && e.message.matches("SHA256:").count() == 7, "{e}");
    // The same key twice is offered once.
    let twice = vec![rig.path("k0"), rig.path("k0")];
    let e = backend(&SshSettings { keys: twice, ..rig.ssh() }).check().await.expect_err("refused");
    assert_eq!(e.message.matches("SHA256:").count(), 1, "{e}");
}

fn at(rig: &Rig, server: &FakeServer) -> SshSettings {
    SshSettings { port: Some(server.port), ..rig.ssh() }
}

#[tokio::test]
async fn passwords() {
    let Some(rig) = Rig::start("") else { return };
    let server = FakeServer::start(&rig, Wants::Password).await;
    // Nobody there: it is not even tried.
    let e = backend(&at(&rig, &server)).check().await.expect_err("nobody");
    assert_eq!(e.kind, ErrorKind::Authentication);
    assert!(e.message.contains("wants a password, and no person is there"), "{e}");
    assert!(server.heard().is_empty());
    // Mistyped once, then right, and kept: nobody is asked at the next login.
    let person = Scripted::new([text("hunter3", true), text("hunter2", true), Answer::Cancel]);
    let one = person.backend(&at(&rig, &server));
    one.connector.conn().await.map(|_| ()).expect("in");
    one.connector.close();
    one.connector.conn().await.map(|_| ()).expect("in again");
    assert_eq!(person.asked(), [Question::Password { again: false }, Question::Password { again: true }]);
    assert_eq!(server.heard(), ["password hunter3", "password hunter2", "in", "password hunter2", "in"]);
    // Wrong twice: refused, with no third attempt, and no word of what was typed.
    let person = Scripted::new([text("hunter3", true), text("hunter4", true), text("hunter2", true)]);
    let e = person.backend(&at(&rig, &server)).check().await.expect_err("wrong");
    assert!(e.message.contains("refused: password") && !format!("{e:?}").contains("hunter"), "{e:?}");
    assert_eq!(server.heard(), ["password hunter3", "password hunter4"]);
}

#[tokio::test]
async fn questions_in_rounds() {
    let Some(rig) = Rig::start("") else { return };
    let server = FakeServer::start(&rig, Wants::Rounds).await;
    let e = backend(&at(&rig, &server)).check().await.expect_err("nobody");
    assert!(e.needs_person() && e.message.contains("no person is there"), "{e}");
    assert!(server.heard().is_empty(), "no code is sent out for nobody");

    let person = Scripted::new([text("hunter2", true), texts(&["123456", "blue"], true), Answer::Cancel]);
    let one = person.backend(&at(&rig, &server));
    let (on, _) = one.connector.conn().await.map_err(|e| e.to_string()).expect("in");
    assert!(!on.conn.quiet, "a person took part");
    let asked = person.asked();
    let [Question::Challenge { may_keep: true, .. }, Question::Challenge { name, instructions, fields, round: 2, may_keep: false }] =
        &asked[..]
    else {
        panic!("{asked:?}")
    };
    assert_eq!((name.as_str(), instructions.contains("device")), ("second", true));
    assert_eq!(fields.iter().map(|f| (f.label.as_str(), f.echo)).collect::<Vec<_>>(), [("Verification code: ", false), ("Colour: ", true)]);
    assert!(matches!(&person.told()[..], [Question::Challenge { fields, .. }] if fields.is_empty()));
    // The password was kept; the code never is.
    server.heard();
    one.connector.close();
    let e = one.check().await.expect_err("the code is cancelled");
    assert!(e.needs_person() && e.message.contains("not given"), "{e}");
    assert_eq!(person.asked().len(), 1);
    assert_eq!(server.heard(), ["answer None", "answer Some([\"hunter2\"])"]);

    // A wrong answer is a refusal, and is not tried again.
    let person = Scripted::new([text("hunter2", false), texts(&["000000", "blue"], false), text("hunter2", false)]);
    let e = person.backend(&at(&rig, &server)).check().await.expect_err("wrong");
    assert!(e.needs_person() && e.message.contains("refused: keyboard-interactive"), "{e}");
    assert_eq!(person.asked().len(), 2);
}

#[tokio::test]
async fn a_key_and_then_a_code() {
    let Some(rig) = Rig::start("") else { return };
    let server = FakeServer::start(&rig, Wants::KeyAndCode).await;
    let person = Scripted::new([text("123456", true)]);
    person.backend(&at(&rig, &server)).connector.conn().await.map(|_| ()).expect("in");
    let heard = server.heard();
    assert_eq!(heard.last().map(String::as_str), Some("in"), "{heard:?}");
    assert_eq!(heard.iter().filter(|h| *h == "key").count(), 1, "the key is offered once: {heard:?}");
    let e = backend(&at(&rig, &server)).check().await.expect_err("nobody");
    assert!(e.needs_person() && e.message.contains("no person is there"), "{e}");
}
