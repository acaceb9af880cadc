//! The machines of the tests: a real sshd on a free port with keys of its own, and a proxy in front of it that can freeze or
//! reset the connection.
//!
//! Invariant: everything lives in one temporary folder, nothing of the person's own ssh setup is read or written, and what was
//! started is ended by its process id when the rig goes.

use super::Ssh;
use super::target::Target;
use crate::backend::local::ClientEnv;
use crate::backend::{Environment, Exit, Shell, ShellChoice, Start};
use crate::config::{BackendSettings, HostKeyPolicy, KindSettings, OnLost, SshConfig, SshSettings};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A sshd of our own.
pub(super) struct Rig {
    /// Its folder: keys, config, known_hosts.
    dir: Arc<tempfile::TempDir>,
    /// Where it listens.
    pub(super) port: u16,
    program: &'static str,
    sshd: Child,
}

/// Makes a key without a passphrase, or with one.
pub(super) fn keygen(path: &Path, kind: &str, passphrase: &str) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", kind, "-N", passphrase, "-C", "test", "-f"]).arg(path).status();
    assert!(made.is_ok_and(|s| s.success()), "ssh-keygen");
}

impl Rig {
    /// Starts one with more lines of config. None, with a printed reason, where there is no sshd.
    pub(super) fn start(more: &str) -> Option<Self> {
        Self::prepared(|_| more.to_owned())
    }

    /// The same with files that the lines need: they are made in the folder, where the keys are already.
    pub(super) fn prepared(prepare: impl FnOnce(&Path) -> String) -> Option<Self> {
        let Some(program) = ["/usr/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|p| Path::new(p).exists()) else {
            eprintln!("skipped: there is no sshd on this machine");
            return None;
        };
        if nix::unistd::geteuid().is_root() {
            // The privilege separation of a sshd that root starts wants this folder.
            std::fs::create_dir_all("/run/sshd").expect("make /run/sshd");
        }
        let dir = tempfile::tempdir().expect("a folder");
        let at = dir.path();
        keygen(&at.join("host_ed25519"), "ed25519", "");
        keygen(&at.join("id"), "ed25519", "");
        std::fs::copy(at.join("id.pub"), at.join("authorized_keys")).expect("copy");
        let more = prepare(at);
        Self::listen(program, Arc::new(dir), &more)
    }

    /// Starts another one on the same folder with one more host key.
    pub(super) fn again(self, host_key: &str) -> Option<Self> {
        Self::listen(self.program, self.dir.clone(), &format!("HostKey {}", self.path(host_key).display()))
    }

    fn listen(program: &'static str, dir: Arc<tempfile::TempDir>, more: &str) -> Option<Self> {
        let at = dir.path();
        for attempt in 0.. {
            let port = free_port();
            let config = format!(
                "ListenAddress 127.0.0.1\nPort {port}\nHostKey {0}/host_ed25519\nAuthorizedKeysFile {0}/authorized_keys\nStrictModes no\n\
                 UsePAM no\nPidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nLogLevel INFO\n{more}\n",
                at.display()
            );
            std::fs::write(at.join("sshd_config"), config).expect("write");
            let mut sshd = Command::new(program)
                .args(["-D", "-e", "-f"])
                .arg(at.join("sshd_config"))
                .stdin(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("start sshd");
            let mut log = BufReader::new(sshd.stderr.take().expect("piped"));
            let mut said = String::new();
            let up = loop {
                let mut line = String::new();
                if log.read_line(&mut line).expect("read the log") == 0 {
                    break false;
                }
                said.push_str(&line);
                if line.contains("listening on 127.0.0.1") {
                    break true;
                }
            };
            if up {
                let kept = at.join("sshd.log");
                std::thread::spawn(move || {
                    let mut file = std::fs::File::create(kept).expect("a log");
                    std::io::copy(&mut log, &mut file).ok();
                });
                return Some(Self { dir: dir.clone(), port, program, sshd });
            }
            sshd.wait().expect("reap");
            assert!(attempt < 5, "sshd did not start: {said}");
        }
        None
    }

    /// The shells that run in sessions of this sshd: processes named `bash` below it.
    pub(super) fn shells(&self) -> Vec<u32> {
        let mut parents = std::collections::HashMap::new();
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some((head, tail)) = stat.rsplit_once(") ") else { continue };
            let Some((pid, name)) = head.split_once(" (") else { continue };
            let parent = tail.split(' ').nth(1).and_then(|p| p.parse::<u32>().ok()).unwrap_or(0);
            if let Ok(pid) = pid.parse::<u32>() {
                parents.insert(pid, (parent, name.to_owned()));
            }
        }
        let below = |mut pid: u32| {
            while let Some((parent, _)) = parents.get(&pid) {
                if *parent == self.sshd.id() {
                    return true;
                }
                pid = *parent;
            }
            false
        };
        parents.iter().filter(|(pid, (_, name))| name == "bash" && below(**pid)).map(|(pid, _)| *pid).collect()
    }

    /// A file of the rig.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The settings of an ssh backend on it.
    pub(super) fn ssh(&self) -> SshSettings {
        SshSettings {
            host: "127.0.0.1".into(),
            port: Some(self.port),
            user: None,
            keys: vec![self.path("id")],
            agent: None,
            known_hosts: vec![self.path("known_hosts")],
            host_key: Some(HostKeyPolicy::AcceptNew),
            ssh_config: SshConfig::Nothing,
        }
    }

    /// The backend on it.
    pub(super) fn backend(&self) -> Ssh {
        backend(&self.ssh())
    }

    /// The target of it, or of a proxy in front of it.
    pub(super) fn target(&self, port: u16) -> Target {
        let ssh = SshSettings { port: Some(port), ..self.ssh() };
        Target::new(&settings(&ssh), &ssh, ClientEnv::default())
    }

    /// What sshd has logged.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.path("sshd.log")).unwrap_or_default()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.sshd.kill().ok();
        self.sshd.wait().ok();
    }
}

pub(super) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    listener.local_addr().expect("an address").port()
}

/// Backend settings with a short connect timeout.
pub(super) fn settings(ssh: &SshSettings) -> BackendSettings {
    BackendSettings {
        name: "rig".into(),
        slot: 1,
        kind: KindSettings::Ssh(ssh.clone()),
        cwd: "~".into(),
        timeout: Duration::from_secs(180),
        snapshot: true,
        shell: ShellChoice::Auto,
        health_interval: Duration::from_secs(30),
        connect_timeout: Duration::from_secs(10),
        on_lost: OnLost::End,
        env: Default::default(),
        forward_env: Vec::new(),
        tags: Vec::new(),
    }
}

/// A backend.
pub(super) fn backend(ssh: &SshSettings) -> Ssh {
    Ssh::new(&settings(ssh), ssh, ClientEnv::default(), Arc::default())
}

/// Asks for a shell.
pub(super) fn start() -> Start {
    Start {
        nonce: uuid::Uuid::new_v4().simple().to_string()[..16].to_owned(),
        shell: ShellChoice::Auto,
        environment: Environment::Login,
        timeout: Duration::from_secs(10),
        on: None,
    }
}

/// The bytes that make the bash reader run a command: two sizes, no set-up, the command.
pub(super) fn script(command: &str) -> Vec<u8> {
    format!("0 {}\n{command}", command.len()).into_bytes()
}

/// Runs a command in a shell: stdout, stderr, end.
pub(super) async fn run(mut shell: Shell, command: &str) -> (String, String, Exit) {
    shell.stdin.write_all(&script(command)).await.expect("send the script");
    shell.stdin.shutdown().await.expect("end stdin");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let all = async {
        let (o, e) = tokio::join!(shell.stdout.read_to_end(&mut out), shell.stderr.read_to_end(&mut err));
        o.and(e).expect("read");
        shell.exit.await
    };
    let exit = tokio::time::timeout(Duration::from_secs(30), all).await.expect("in time");
    (String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&err).into_owned(), exit)
}

/// Waits until a process is gone (the machine of the rig is this one).
pub(super) async fn pid_gone(pid: u32) {
    let stat = format!("/proc/{pid}/stat");
    while std::fs::read_to_string(&stat).is_ok_and(|s| !s.contains(") Z ")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Kills a process that the test started.
pub(super) fn kill(pid: u32) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).expect("a pid"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("kill what the test started");
}

/// A proxy in front of a port.
pub(super) struct Proxy {
    /// Where it listens.
    pub(super) port: u16,
    frozen: watch::Sender<bool>,
    reset: watch::Sender<bool>,
    /// Connections that are open.
    pub(super) open: watch::Receiver<usize>,
    _stop: tokio_util::sync::DropGuard,
}

impl Proxy {
    /// Starts one.
    pub(super) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let port = listener.local_addr().expect("an address").port();
        let (frozen, reset) = (watch::Sender::new(false), watch::Sender::new(false));
        let (count, open) = watch::channel(0);
        let stop = CancellationToken::new();
        let (frozen_rx, reset_rx, stopped) = (frozen.subscribe(), reset.subscribe(), stop.clone());
        tokio::spawn(async move {
            let count = Arc::new(count);
            loop {
                let accepted = tokio::select! {
                    () = stopped.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                let Ok((near, _)) = accepted else { return };
                let (frozen, reset, stopped, count) = (frozen_rx.clone(), reset_rx.clone(), stopped.clone(), count.clone());
                tokio::spawn(async move {
                    count.send_modify(|n| *n += 1);
                    tokio::select! {
                        () = stopped.cancelled() => {}
                        () = relay(near, to, frozen, reset) => {}
                    }
                    count.send_modify(|n| *n -= 1);
                });
            }
        });
        Self { port, frozen, reset, open, _stop: stop.drop_guard() }
    }

    /// Passes nothing on any more, in either direction, and answers nothing.
    pub(super) fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// Passes on again.
    pub(super) fn thaw(&self) {
        self.frozen.send_replace(false);
    }

    /// Resets every connection.
    pub(super) fn reset(&self) {
        self.reset.send_replace(true);
    }
}

async fn relay(near: TcpStream, to: u16, frozen: watch::Receiver<bool>, mut reset: watch::Receiver<bool>) {
    let Ok(far) = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], to))).await else { return };
    near.set_nodelay(true).ok();
    far.set_nodelay(true).ok();
    let socket = socket2::SockRef::from(&near).try_clone().expect("another handle");
    let (mut near_read, mut near_write) = near.into_split();
    let (mut far_read, mut far_write) = far.into_split();
    let reset = tokio::select! {
        () = pass(&mut near_read, &mut far_write, frozen.clone()) => false,
        () = pass(&mut far_read, &mut near_write, frozen) => false,
        _ = reset.wait_for(|r| *r) => true,
    };
    if reset {
        // Without this the dropped half would end the stream in an orderly way first.
        near_write.forget();
        socket.set_linger(Some(Duration::ZERO)).expect("linger");
    }
}

async fn pass(from: &mut (impl AsyncReadExt + Unpin), to: &mut (impl AsyncWriteExt + Unpin), mut frozen: watch::Receiver<bool>) {
    let mut buf = vec![0; 64 << 10];
    loop {
        if frozen.wait_for(|f| !*f).await.is_err() {
            return;
        }
        let n = tokio::select! {
            _ = frozen.wait_for(|f| *f) => continue,
            n = from.read(&mut buf) => n.unwrap_or(0),
        };
        if n == 0 {
            return;
        }
        if frozen.wait_for(|f| !*f).await.is_err() || to.write_all(&buf[..n]).await.is_err() {
            return;
        }
    }
}
