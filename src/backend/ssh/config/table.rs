//! Configs as people have them, read by our own reader and by the OpenSSH client: both must find the same.

use super::*;
use std::time::Duration;

/// Configs, the hosts to look up in each.
const AGREED: [(&str, &[&str]); 19] = [
    ("", &["gpu", "GPU.Lab", "10.0.0.7", "::1"]),
    ("User ada\nPort 2222\nHost gpu\n  User bob\n  HostName gpu.lab\n", &["gpu", "x"]),
    ("Host gpu* !gpu-old *.lab\n User ada\nHost *\n User any\n", &["gpu1", "gpu-old", "a.lab", "x"]),
    ("Host a b c\n\tPort=2200\nHost b\n\tPort = 2300\n\tUser\t=\tbea\n", &["a", "b"]),
    ("host GPU\n port 1\nHost gpu\n Port 2\n", &["GPU", "gpu", "Gpu"]),
    ("Host *.dev\n HostName %h.Example.COM\nHost p%\n HostName 100%%x\n", &["a.dev", "p%"]),
    (
        "Host gpu\n IdentityFile ~/.ssh/%r@%h\n IdentityFile \"~/my keys/id\"\n IdentityFile ~/my\\ keys/b # comment\nHost *\n \
         IdentityFile ~/.ssh/id_ed25519\n IdentityFile ~/.ssh/%r@%h\n CertificateFile ~/.ssh/c-cert.pub\n IdentitiesOnly yes\n",
        &["gpu", "x"],
    ),
    (
        "Host n\n IdentityFile none\n IdentityAgent none\nHost s\n IdentityAgent SSH_AUTH_SOCK\nHost v\n IdentityAgent $MY_SOCK\nHost f\n IdentityAgent ~/a/%h\n",
        &["n", "s", "v", "f"],
    ),
    (
        "Match host gpu.lab\n Port 1\nMatch originalhost gpu\n HostName gpu.lab\nMatch host gpu.lab user ada\n Port 2\nMatch all\n User late\n",
        &["gpu", "gpu.lab", "x"],
    ),
    (
        "User ada\nMatch user ada,bea host \"gpu*,!gpu2\"\n Port 5\nMatch !user ada\n Port 6\nMatch !host x localuser *\n Port 7\n",
        &["gpu1", "gpu2", "x"],
    ),
    (
        "Host gpu\n HostName final.lab\nMatch final host final.lab\n User fin\n IdentityFile ~/f\nMatch final all\n Port 9\nHost final.lab\n IdentityFile ~/g\n",
        &["gpu", "final.lab", "x"],
    ),
    ("Match host nobody exec \"exit 0\"\n Port 5\nMatch all\n Port 6\nMatch canonical\n User c\n", &["x"]),
    (
        "Host in\n ProxyJump ada@bastion:2222,second\nHost none\n ProxyJump none\nHost cnone\n ProxyCommand none\nHost first\n ProxyCommand nc %h \
         %p # x\n ProxyJump late\nHost b6\n ProxyJump [fe80::1]:7\nHost u\n ProxyJump ssh://u@h:3\nHost *\n ProxyJump bastion\n",
        &["in", "none", "first", "b6", "u", "x"],
    ),
    ("Host a\n ProxyCommand=sh -c \"exec nc %h %p\"\nHost b\n ProxyCommand   'x y' z\n", &["a", "b"]),
    (
        "UserKnownHostsFile /k/%h ~/b\nGlobalKnownHostsFile /g /h\nHostKeyAlias lab\nStrictHostKeyChecking yes\nHost x\n UserKnownHostsFile /no\n",
        &["gpu", "x"],
    ),
    (
        "Host a\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\nHost b\n StrictHostKeyChecking accept-new\n GlobalKnownHostsFile none\n",
        &["a", "b"],
    ),
    (
        "ServerAliveInterval 15\nServerAliveCountMax 2\nConnectTimeout 1m30s\nAddressFamily inet6\nBindAddress 10.0.0.1\nHost no\n ConnectTimeout none\n",
        &["gpu"],
    ),
    (
        "PreferredAuthentications password,publickey\nHost a\n PubkeyAuthentication no\nHost b\n ChallengeResponseAuthentication no\n \
         PasswordAuthentication no\nHost c\n PubkeyAuthentication host-bound\nHost *\n SetEnv A=b \"C=d e\"\n SetEnv X=y\n SendEnv LANG LC_*\n",
        &["a", "b", "c", "d"],
    ),
    (
        "IgnoreUnknown UseKey*,Foo\nUseKeychain yes\nHost *\n foo bar\n ControlMaster auto\n ControlPath ~/.ssh/%C\n ForwardAgent yes\n \
         Compression yes\n LocalForward 1 h:2\n Ciphers aes256-ctr\n AddKeysToAgent yes\n GSSAPIAuthentication yes\n HashKnownHosts yes\n",
        &["x"],
    ),
];

/// What both refuse, or what needs the OpenSSH client: a config, and a part of the message of our own reader.
const REFUSED: [(&str, &str); 19] = [
    ("Host a\nNoSuchKey x\n", "config:2: `nosuchkey` is not known here: it needs the OpenSSH client"),
    ("CanonicalizeHostname yes\n", "config:1: `canonicalizehostname` needs the OpenSSH client"),
    ("\nMatch exec \"true\"\n User x\n", "config:2: `Match exec` needs the OpenSSH client"),
    ("Match tagged x\n", "config:1: `Match tagged` needs the OpenSSH client"),
    ("Match host nobody weather fine\n", "config:1: `Match weather` needs the OpenSSH client"),
    ("Match\n", "config:1: `match` has no value"),
    ("Match host\n", "config:1: `Match host` has no value"),
    ("Match user a all\n", "config:1: `all` stands alone"),
    ("Port\n", "config:1: `port` has no value"),
    ("Host a\n Port x\n", "config:2: `port` cannot be `x`"),
    ("Port 70000\n", "config:1: `port` cannot be `70000`"),
    ("User \"a\n", "config:1: a quote is not closed"),
    ("IdentitiesOnly perhaps\n", "config:1: `identitiesonly` cannot be `perhaps`"),
    ("HostName a b\n", "config:1: `hostname` takes one value"),
    ("ConnectTimeout 5y\n", "config:1: `connecttimeout` cannot be `5y`"),
    ("ProxyJump a:b:c@:1\n", "config:1: `proxyjump`: expected a host"),
    ("HostName %x\n", "`HostName %x` has a token"),
    ("SetEnv A\n", "config:1: `setenv` cannot be `A`"),
    ("Include ~no-such-account/x\n", "config:1: there is no account no-such-account"),
];

fn here(home: &Path) -> Here {
    let own = crate::backend::ssh::target::here();
    Here { home: home.to_owned(), variables: vec![("KEYS".into(), "/k".into())], ..own }
}

fn question<'a>(host: &'a str, file: &'a SshConfig) -> Question<'a> {
    Question { host, user: None, port: None, jump: None, file }
}

fn ssh_is_there() -> bool {
    let there = std::process::Command::new("ssh").arg("-V").output().is_ok();
    if !there {
        eprintln!("skipped: there is no OpenSSH client on this machine");
    }
    there
}

/// What was found, with what holds anyway filled in where only one of the two says it.
async fn found(client: &str, question: &Question<'_>, here: &Here) -> Result<Found, BackendError> {
    let mut found = look_up(Path::new(client), question, here).await?;
    found.user.get_or_insert(here.name.clone());
    found.port.get_or_insert(22);
    Ok(found)
}

#[tokio::test]
async fn our_own_reader_finds_what_openssh_finds() {
    if !ssh_is_there() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("config");
    let here = here(&crate::backend::ssh::target::here().own_home);
    for (text, hosts) in AGREED {
        std::fs::write(&path, text).expect("write");
        let file = SshConfig::File(path.clone());
        for host in hosts {
            for (user, port, jump) in [(None, None, None), (Some("ada"), Some(2022), None), (None, None, Some("over,there"))] {
                let question = Question { user, port, jump, ..question(host, &file) };
                let theirs = found("ssh", &question, &here).await.unwrap_or_else(|e| panic!("{host} in {text}: {e}"));
                let ours = found("no-such-client", &question, &here).await.unwrap_or_else(|e| panic!("{host} in {text}: {e}"));
                assert_eq!(ours, theirs, "{host} as {user:?} in\n{text}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_not_understood_is_refused_with_its_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("config");
    let file = SshConfig::File(path.clone());
    for (text, expected) in REFUSED {
        std::fs::write(&path, text).expect("write");
        let e = found("no-such-client", &question("gpu", &file), &here(dir.path())).await.expect_err(text);
        assert_eq!(e.kind, ErrorKind::Config);
        assert!(e.message.contains(expected), "{text}: {e}");
    }
    // It is refused for the host that it would apply to, and only there.
    std::fs::write(&path, "Match host gpu exec \"true\"\n User x\nHost other\n CanonicalizeHostname yes\n").expect("write");
    found("no-such-client", &question("cpu", &file), &here(dir.path())).await.expect("does not apply");
}

/// A tree of includes: relative names, patterns, blocks that do not apply, and a `Host` that ends with its file.
#[tokio::test]
async fn includes_are_followed() {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir_all(at(".ssh/conf.d")).expect("folders");
    let write = |name: &str, text: &str| std::fs::write(at(name), text.replace("@", &dir.path().display().to_string())).expect("write");
    write(".ssh/conf.d/1.conf", "Host gpu\n User one\n");
    write(".ssh/conf.d/2.conf", "Host *\n User two\n Port 22\nHost nothing\n");
    write(".ssh/conf.d/.hidden.conf", "Port 1\n");
    write(".ssh/never", "Host *\n HostName never\nMatch all\n HostName never\nNoSuch x\n");
    write(".ssh/config", "Include conf.d/*.conf missing\nPort 7\nHost nobody\n Include @/.ssh/inner\nHost gpu\n Include ~/.ssh/inner\n");
    write(".ssh/inner", "Host *\n HostName inner.lab\n Include inner2\n");
    write(".ssh/inner2", "ProxyJump deep\n");
    let here = here(dir.path());
    let usual = SshConfig::Usual;
    let found =
        |host: &'static str| found("no-such-client", Box::leak(Box::new(question(host, Box::leak(Box::new(usual.clone()))))), &here);
    let gpu = found("gpu").await.expect("read");
    assert_eq!((gpu.user.as_deref(), gpu.port, gpu.host_name.as_deref()), (Some("one"), Some(22), Some("inner.lab")));
    assert_eq!(gpu.proxy, Proxy::Jump("deep".into()));
    let other = found("other").await.expect("read");
    assert_eq!((other.user.as_deref(), other.port, other.host_name.as_deref()), (Some("two"), Some(22), Some("other")));

    // A block that does not apply makes nothing in the file apply, and what is wrong there is told all the same.
    write(".ssh/config", "Host nobody\n Include never\n");
    let e = found("gpu").await.expect_err("an unknown key");
    assert!(e.message.contains(".ssh/never:5: `nosuch`"), "{e}");
    write(".ssh/never", "Host *\n HostName never\nMatch all\n HostName never\n");
    assert_eq!(found("gpu").await.expect("read").host_name.as_deref(), Some("gpu"));

    // A file that includes itself, and one that others can write to.
    write(".ssh/config", "Include config\n");
    assert!(found("gpu").await.expect_err("a circle").message.contains("too many files include each other"));
    write(".ssh/config", "Port 1\n");
    std::fs::set_permissions(at(".ssh/config"), std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("chmod");
    assert!(found("gpu").await.expect_err("not trusted").message.contains("can be written by others"));

    // Nothing there: nothing is said, and no client is asked.
    std::fs::remove_file(at(".ssh/config")).expect("remove");
    assert_eq!(look_up(Path::new("/dev/null"), &question("gpu", &usual), &here).await, Ok(Found::default()));
}

#[tokio::test]
async fn what_the_client_says_of_a_mistake_is_shown() {
    if !ssh_is_there() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("config");
    std::fs::write(&path, "Host gpu\n NoSuchKey x\n").expect("write");
    let file = SshConfig::File(path.clone());
    let e = found("ssh", &question("gpu", &file), &here(dir.path())).await.expect_err("a bad key");
    assert!(e.kind == ErrorKind::Config && e.message.contains("line 2") && e.message.contains("nosuchkey"), "{e}");
}

/// A `Match exec` may hang: the client is ended, and so is what it started.
#[tokio::test]
async fn a_client_that_hangs_is_ended() {
    let dir = tempfile::tempdir().expect("a folder");
    let (client, pids) = (dir.path().join("client"), dir.path().join("pids"));
    let script = format!("#!/bin/sh\nsleep 600 &\necho $$ $! >'{}.new'\nmv '{0}.new' '{0}'\nwait\n", pids.display());
    std::fs::write(&client, script).expect("write");
    std::fs::set_permissions(&client, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    let path = dir.path().join("config");
    std::fs::write(&path, "").expect("write");
    let (file, here) = (SshConfig::File(path), here(dir.path()));
    let question = question("gpu", &file);
    let asking = tokio::time::timeout(Duration::from_secs(30), async {
        tokio::select! {
            e = look_up(&client, &question, &here) => panic!("{e:?}"),
            () = async { while !pids.exists() { tokio::time::sleep(Duration::from_millis(10)).await } } => {}
        }
    });
    asking.await.expect("it starts");
    let text = std::fs::read_to_string(&pids).expect("pids");
    for pid in text.split_whitespace() {
        let gone = crate::backend::ssh::rig::pid_gone(pid.parse().expect("a pid"));
        tokio::time::timeout(Duration::from_secs(30), gone).await.expect("it is ended");
    }
}
