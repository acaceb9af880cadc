//! Machines that are reached by an ssh_config: over jump hosts, through a ProxyCommand, and what is said when the way is broken.

use super::conn;
use super::rig::{Proxy, Rig, free_port, keygen, pid_gone, run, settings, start};
use super::route::Route;
use super::{Backend, Ssh};
use crate::backend::local::ClientEnv;
use crate::backend::{BackendError, ErrorKind, Exit};
use crate::config::{HostKeyPolicy, SshConfig, SshSettings};
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::timeout;

const CAP: Duration = Duration::from_secs(30);

/// An ssh_config of a test's own.
struct Config {
    dir: tempfile::TempDir,
}

impl Config {
    fn new(text: &str) -> Self {
        let config = Self { dir: tempfile::tempdir().expect("a folder") };
        config.write(text);
        config
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, text: &str) {
        std::fs::write(self.path("config"), text).expect("write");
    }

    fn ssh(&self, host: &str) -> SshSettings {
        SshSettings { host: host.into(), ssh_config: SshConfig::File(self.path("config")), ..Default::default() }
    }

    fn backend(&self, host: &str) -> Ssh {
        let ssh = self.ssh(host);
        Ssh::new(&settings(&ssh), &ssh, ClientEnv::default(), Default::default())
    }

    async fn refusal(&self, host: &str) -> BackendError {
        timeout(CAP, self.backend(host).check()).await.expect("in time").expect_err("no connection")
    }
}

/// What a config says of a rig, under a name.
fn host(rig: &Rig, name: &str, port: u16, more: &str) -> String {
    let at = |file: &str| rig.path(file).display().to_string();
    format!(
        "Host {name}\n HostName 127.0.0.1\n Port {port}\n IdentityFile {}\n IdentityAgent none\n UserKnownHostsFile {}\n {more}\n",
        at("id"),
        at("known_hosts")
    )
}

async fn says(ssh: &Ssh, command: &str) -> String {
    let shell = timeout(CAP, ssh.start(start())).await.expect("in time").expect("a shell");
    let (out, err, exit) = run(shell, command).await;
    assert!(matches!(exit, Exit::Code(0)), "{exit:?} {err}");
    out
}

/// One jump, two jumps, and the second jump named by the first one's own entry; with the OpenSSH client and without.
#[tokio::test]
async fn machines_are_reached_over_jump_hosts() {
    let (Some(a), Some(b), Some(c)) = (Rig::start(""), Rig::start(""), Rig::start("AcceptEnv LC_*")) else { return };
    let text = [
        host(&a, "first", a.port, ""),
        host(&b, "second", b.port, ""),
        host(&b, "nested", b.port, "ProxyJump first"),
        host(&c, "one", c.port, &format!("ProxyJump {}@first:{}\n SetEnv LC_REACHED=yes", super::target::here().name, a.port)),
        host(&c, "two", c.port, "ProxyJump first,second"),
        host(&c, "three", c.port, "ProxyJump nested"),
    ]
    .concat();
    let config = Config::new(&text);
    for name in ["one", "two", "three"] {
        let ssh = config.backend(name);
        assert_eq!(says(&ssh, "echo $((6 * 7)); echo $SSH_CONNECTION | cut -d' ' -f4").await, format!("42\n{}\n", c.port), "{name}");
        if name == "one" {
            assert_eq!(says(&ssh, "echo $LC_REACHED").await, "yes\n");
        }
        ssh.close().await;
        // Without the client it is the same way.
        let ssh = config.ssh(name);
        let route = |client| Route::new(&settings(&ssh), &ssh, ClientEnv::default()).with_client(client);
        let (with, without) = (route("ssh").target().await.expect("found"), route("no-such-client").target().await.expect("found"));
        assert_eq!(with.through(), without.through(), "{name}");
        timeout(CAP, conn::connect(&without)).await.expect("in time").expect("connected");
    }
    // Every machine on the way was looked at with its own files.
    for rig in [&a, &b, &c] {
        let known = std::fs::read_to_string(rig.path("known_hosts")).expect("written down");
        assert_eq!(known.lines().count(), 1, "{known}");
    }
}

/// The way is looked up for every attempt.
#[tokio::test]
async fn a_changed_config_is_seen_at_the_next_attempt() {
    let Some(rig) = Rig::start("") else { return };
    let config = Config::new(&host(&rig, "gpu", free_port(), ""));
    let ssh = config.backend("gpu");
    let e = timeout(CAP, ssh.check()).await.expect("in time").expect_err("nobody listens");
    assert!(e.message.contains("refused"), "{e}");
    assert_eq!((ssh.about().address.as_str(), ssh.about().link.borrow().address.clone()), ("gpu", None));
    config.write(&host(&rig, "gpu", rig.port, ""));
    timeout(CAP, ssh.check()).await.expect("in time").expect("connected");
    let led = ssh.about().link.borrow().address.clone();
    assert_eq!(led, Some(format!("{}@127.0.0.1:{}", super::target::here().name, rig.port)));
}

/// Our own config stands over the ssh_config.
#[tokio::test]
async fn settings_win_over_the_ssh_config() {
    let Some(rig) = Rig::start("") else { return };
    let config = Config::new(
        "Host 127.0.0.1\n User nobody-at-all\n Port 1\n IdentityFile /no\n UserKnownHostsFile /no/such\n StrictHostKeyChecking yes\n",
    );
    let ssh = SshSettings { user: Some(super::target::here().name), ssh_config: SshConfig::File(config.path("config")), ..rig.ssh() };
    let ssh = Ssh::new(&settings(&ssh), &ssh, ClientEnv::default(), Default::default());
    timeout(CAP, ssh.check()).await.expect("in time").expect("connected");
}

/// What is wrong on the way names the machine where it is wrong, and the backend.
#[tokio::test]
async fn a_broken_way_names_the_hop() {
    let (Some(hop), Some(inner)) = (Rig::start(""), Rig::start("")) else { return };
    let with = |port: u16, more: &str| [host(&hop, "bastion", port, more), host(&inner, "gpu", inner.port, "ProxyJump bastion")].concat();
    let config = Config::new(&with(free_port(), ""));
    let e = config.refusal("gpu").await;
    assert_eq!(e.kind, ErrorKind::Unreachable);
    assert!(e.message.starts_with("the jump host bastion of backend rig: connection refused by 127.0.0.1 port "), "{e}");

    // A key that is not the known one.
    keygen(&hop.path("other"), "ed25519", "");
    let key = std::fs::read_to_string(hop.path("other.pub")).expect("a key");
    std::fs::write(hop.path("changed"), format!("[127.0.0.1]:{} {key}", hop.port)).expect("write");
    config.write(&with(hop.port, "").replace(&hop.path("known_hosts").display().to_string(), &hop.path("changed").display().to_string()));
    let e = config.refusal("gpu").await;
    assert_eq!(e.kind, ErrorKind::HostKey);
    assert!(e.message.starts_with("the jump host bastion of backend rig: ") && e.message.contains("has changed"), "{e}");

    // A key that is not let in.
    config.write(&with(hop.port, "").replace(&hop.path("id").display().to_string(), &hop.path("other").display().to_string()));
    let e = config.refusal("gpu").await;
    assert_eq!(e.kind, ErrorKind::Authentication);
    assert!(e.message.starts_with("the jump host bastion of backend rig: ") && e.message.contains("refused the login"), "{e}");
    assert!(e.fix.as_ref().is_some_and(|fix| fix.contains("ssh bastion")), "{e:?}");

    // Strictness holds for all of the way.
    std::fs::remove_file(hop.path("known_hosts")).ok();
    config.write(&with(hop.port, ""));
    let strict = SshSettings { host_key: Some(HostKeyPolicy::Strict), ..config.ssh("gpu") };
    let e = Ssh::new(&settings(&strict), &strict, ClientEnv::default(), Default::default()).check().await.expect_err("not known");
    assert!(e.kind == ErrorKind::HostKey && e.message.starts_with("the jump host bastion "), "{e}");

    // The last machine does not listen, and the one before it says so.
    config.write(&[host(&hop, "bastion", hop.port, ""), host(&inner, "gpu", free_port(), "ProxyJump bastion")].concat());
    let e = config.refusal("gpu").await;
    assert!(
        e.kind == ErrorKind::Unreachable && e.message.contains("the jump host bastion (") && e.message.contains("Connection refused"),
        "{e}"
    );

    // It leads in a circle.
    config.write("Host *\n ProxyJump a,b\n");
    let e = config.refusal("gpu").await;
    assert!(e.kind == ErrorKind::Unreachable && e.message.contains("in a circle"), "{e}");
}

#[tokio::test]
async fn a_hop_that_passes_nothing_on_is_named() {
    let (Some(hop), Some(inner)) = (Rig::start("AllowTcpForwarding no"), Rig::start("")) else { return };
    let config = Config::new(&[host(&hop, "bastion", hop.port, ""), host(&inner, "gpu", inner.port, "ProxyJump bastion")].concat());
    let e = config.refusal("gpu").await;
    assert!(e.kind == ErrorKind::Config && e.message.contains("the jump host bastion (") && e.message.contains("does not pass"), "{e}");
}

/// Black holes: a first hop and a last machine that answer nothing. One attempt takes one limit, and nothing is left of it.
#[tokio::test]
async fn a_black_hole_on_the_way_is_named_and_nothing_is_left() {
    let (Some(hop), Some(inner)) = (Rig::start(""), Rig::start("")) else { return };
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("bind");
    let silent = silent.local_addr().expect("an address").port();
    let proxy = Proxy::start(hop.port).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let idle = tasks();
    let cases = [
        (
            [host(&hop, "bastion", silent, ""), host(&inner, "gpu", inner.port, "ProxyJump bastion")].concat(),
            "the jump host bastion of backend rig: ",
        ),
        (
            [host(&hop, "bastion", proxy.port, ""), host(&inner, "gpu", silent, "ProxyJump bastion")].concat(),
            "through the jump host bastion (",
        ),
    ];
    let mut open = proxy.open.clone();
    for (text, expected) in cases {
        let config = Config::new(&text);
        let ssh = config.ssh("gpu");
        let mut target = Route::new(&settings(&ssh), &ssh, ClientEnv::default()).target().await.expect("found");
        // By the attempt's own limit.
        target.connect_timeout = Duration::from_secs(2);
        let e = conn::connect(&target).await.err().expect("no connection");
        assert!(e.kind == ErrorKind::TimedOut && e.message.contains(expected), "{e}");
        timeout(CAP, open.wait_for(|n| *n == 0)).await.expect("the sockets are closed").expect("the proxy is there");
        // By its caller.
        target.connect_timeout = CAP;
        assert!(timeout(Duration::from_secs(1), conn::connect(&target)).await.is_err());
        timeout(CAP, open.wait_for(|n| *n == 0)).await.expect("the sockets are closed").expect("the proxy is there");
        timeout(CAP, async {
            while tasks() > idle {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("no task is left");
    }
}

/// When a jump host goes, so does what hangs on it, and the reason says which.
#[tokio::test]
async fn a_lost_hop_is_the_reason() {
    let (Some(hop), Some(inner)) = (Rig::start(""), Rig::start("")) else { return };
    let proxy = Proxy::start(hop.port).await;
    let config = Config::new(&[host(&hop, "bastion", proxy.port, ""), host(&inner, "gpu", inner.port, "ProxyJump bastion")].concat());
    let ssh = config.backend("gpu");
    let shell = timeout(CAP, ssh.start(start())).await.expect("in time").expect("a shell");
    proxy.reset();
    match timeout(CAP, shell.exit).await.expect("it ends") {
        Exit::Lost(e) => assert!(e.message.contains("the jump host bastion (") && e.message.contains("was lost"), "{e}"),
        other => panic!("{other:?}"),
    }
}

/// Closing the backend closes the connections on the way.
#[tokio::test]
async fn a_closed_backend_leaves_no_connection_on_the_way() {
    let (Some(hop), Some(inner)) = (Rig::start(""), Rig::start("")) else { return };
    let proxy = Proxy::start(hop.port).await;
    let config = Config::new(&[host(&hop, "bastion", proxy.port, ""), host(&inner, "gpu", inner.port, "ProxyJump bastion")].concat());
    let ssh = config.backend("gpu");
    timeout(CAP, ssh.check()).await.expect("in time").expect("connected");
    let mut open = proxy.open.clone();
    assert_eq!(*open.borrow_and_update(), 1);
    ssh.close().await;
    timeout(CAP, open.wait_for(|n| *n == 0)).await.expect("it is closed").expect("the proxy is there");
}

/// A ProxyCommand carries the connection, sees its tokens, and goes with it.
#[tokio::test]
async fn a_proxy_command_carries_the_connection() {
    let Some(rig) = Rig::start("") else { return };
    let config = Config::new("");
    let pid_file = config.path("pid");
    let script = config.path("carry");
    std::fs::write(
        &script,
        format!("echo $$ >'{0}.new'; mv '{0}.new' '{0}'\nexec 3<>/dev/tcp/$1/$2\ncat <&3 &\ncat >&3\nkill $!\n", pid_file.display()),
    )
    .expect("write");
    config.write(&host(&rig, "gpu", rig.port, &format!("ProxyCommand bash '{}' %h %p 2>/dev/null", script.display())));
    let ssh = config.backend("gpu");
    assert_eq!(says(&ssh, "seq 1 100000 | tail -1").await, "100000\n");
    let pid = std::fs::read_to_string(&pid_file).expect("it ran").trim().parse().expect("a pid");
    ssh.close().await;
    timeout(CAP, pid_gone(pid)).await.expect("it is ended");
}

/// Names in a command line are not run by the shell.
#[tokio::test]
async fn a_name_that_a_shell_would_run_is_refused() {
    let config = Config::new("");
    config.write(&format!("Host *\n User x;touch${{IFS}}{0}\n ProxyCommand echo %r\n", config.path("run").display()));
    let e = config.refusal("gpu").await;
    assert!(e.kind == ErrorKind::Unreachable && e.message.contains("cannot be handed to a ProxyCommand"), "{e}");
    assert!(!config.path("run").exists());
}

/// With `ServerAliveInterval` a silent machine is noticed without anybody asking for it, on the way too.
#[tokio::test]
async fn server_alive_notices_a_silent_machine() {
    let (Some(hop), Some(inner)) = (Rig::start(""), Rig::start("")) else { return };
    let proxy = Proxy::start(hop.port).await;
    let alive = "ServerAliveInterval 1\n ServerAliveCountMax 1";
    let config = Config::new(&[host(&hop, "bastion", proxy.port, alive), host(&inner, "gpu", inner.port, "ProxyJump bastion")].concat());
    let ssh = config.backend("gpu");
    let shell = timeout(CAP, ssh.start(start())).await.expect("in time").expect("a shell");
    proxy.freeze();
    match timeout(CAP, shell.exit).await.expect("it is noticed") {
        Exit::Lost(e) => assert!(e.message.contains("the jump host bastion (") && e.message.contains("ServerAliveInterval"), "{e}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_proxy_command_that_fails_is_quoted() {
    let config =
        Config::new("Host gpu\n ProxyCommand sh -c 'echo no way to %h >&2; exit 3'\nHost none\n ProxyCommand /no/such/program %h\n");
    let e = config.refusal("gpu").await;
    assert_eq!(e.kind, ErrorKind::Unreachable);
    assert!(e.message.contains("its ProxyCommand ended with code 3: no way to gpu"), "{e}");
    let e = config.refusal("none").await;
    assert!(e.message.contains("ended with code 127") && e.message.contains("/no/such/program"), "{e}");
}

/// One that says nothing is given up with the attempt.
#[tokio::test]
async fn a_proxy_command_that_hangs_is_ended() {
    let config = Config::new("");
    let pid_file = config.path("pid");
    config.write(&format!("Host gpu\n ProxyCommand sh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600'\n", pid_file.display()));
    let ssh = config.ssh("gpu");
    let mut target = Route::new(&settings(&ssh), &ssh, ClientEnv::default()).target().await.expect("found");
    target.connect_timeout = Duration::from_secs(1);
    let e = conn::connect(&target).await.err().expect("no connection");
    assert!(e.kind == ErrorKind::TimedOut && e.message.contains("through its ProxyCommand"), "{e}");
    let pid = std::fs::read_to_string(&pid_file).expect("it ran").trim().parse().expect("a pid");
    timeout(CAP, pid_gone(pid)).await.expect("it is ended");
}
