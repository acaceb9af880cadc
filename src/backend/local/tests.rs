//! Local shells with real processes.
//!
//! Invariant: a test ends whatever it started, and waits for conditions with a cap.

use super::*;
use crate::backend::{Backend, Family};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CAP: Duration = Duration::from_secs(20);

pub(in crate::backend) fn local() -> Local {
    become_subreaper().expect("subreaper");
    Local::new(ClientEnv::default())
}

pub(in crate::backend) fn nonce() -> String {
    uuid::Uuid::new_v4().simple().to_string()[..16].to_owned()
}

pub(in crate::backend) fn start() -> Start {
    Start { nonce: nonce(), shell: ShellChoice::Auto, environment: Environment::Empty, timeout: CAP, on: None }
}

/// A command that runs.
pub(in crate::backend) struct Running {
    pub(in crate::backend) shell: Shell,
    pub(in crate::backend) family: Family,
}

/// Starts a command with its cookie and an empty stdin.
pub(in crate::backend) async fn run(local: &Local, command: &str) -> Running {
    let mut shell = local.start(start()).await.expect("ready");
    let cookie = format!("QD_PROCESS={}", nonce());
    let set_up = format!("exec 3<&0 0</dev/null; PATH={}; export {cookie}", std::env::var("PATH").unwrap());
    let text = format!("{} {}\n{set_up}{command}", set_up.len(), command.len());
    shell.stdin.write_all(text.as_bytes()).await.expect("script sent");
    let family = Family { pid: shell.ready.pid, start_time: shell.ready.start_time, age: None, cookie };
    Running { shell, family }
}

impl Running {
    /// Reads stdout until a line ends.
    pub(in crate::backend) async fn line(&mut self) -> String {
        let mut line = Vec::new();
        let read = async {
            while !line.ends_with(b"\n") {
                line.push(self.shell.stdout.read_u8().await.expect("a line"));
            }
        };
        tokio::time::timeout(CAP, read).await.expect("a line in time");
        String::from_utf8(line).unwrap().trim().to_owned()
    }

    pub(in crate::backend) async fn exit(&mut self) -> Exit {
        tokio::time::timeout(CAP, &mut self.shell.exit).await.expect("ended in time")
    }

    async fn rest(&mut self) -> String {
        let mut all = Vec::new();
        tokio::time::timeout(CAP, self.shell.stdout.read_to_end(&mut all)).await.expect("closed in time").unwrap();
        String::from_utf8(all).unwrap()
    }

    async fn survivors(&self, local: &Local) -> Members {
        local.family(self.family.clone(), Ask::Survivors).await.expect("asked")
    }

    pub(super) async fn end(&self, local: &Local, grace: Duration) -> Members {
        tokio::time::timeout(CAP, local.family(self.family.clone(), Ask::End { grace })).await.expect("in time").expect("ended")
    }
}

pub(in crate::backend) fn alive(pid: u32) -> bool {
    procfs::stat(pid).is_some_and(|p| !p.gone())
}

pub(in crate::backend) fn pids(line: &str) -> Vec<u32> {
    line.split_whitespace().map(|w| w.parse().expect("a pid")).collect()
}

#[tokio::test]
async fn a_shell_starts_clean_and_says_how_it_ended() {
    let local = local();
    let mut run = run(&local, "exec 3<&-; echo out; echo err >&2; env; ls /proc/self/fd; ps -o sid=,pgid= -p $$; exit 7").await;
    assert_eq!(run.shell.ready.kind, "bash");
    assert!(run.shell.noise.is_empty());
    let out = run.rest().await;
    assert!(matches!(run.exit().await, Exit::Code(7)));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "out");
    // ls itself holds 3 for the folder.
    assert!(out.contains("\n0\n1\n2\n3\n") && !out.contains("\n4\n"), "{out}");
    let pid = run.shell.ready.pid.to_string();
    assert_eq!(lines.last().unwrap().split_whitespace().collect::<Vec<_>>(), [pid.as_str(), pid.as_str()]);
    let mut err = String::new();
    run.shell.stderr.read_to_string(&mut err).await.unwrap();
    assert_eq!(err, "err\n");
}

/// Everything that the kernel started, and all below, is in the session 0 or a child of 1.
#[tokio::test]
async fn the_numbers_0_and_1_name_nobodys_processes() {
    let local = local();
    for pid in [0, 1] {
        let family = Family { pid, start_time: None, age: None, cookie: "QD_PROCESS=never".into() };
        assert_eq!(local.family(family, Ask::Survivors).await.expect("asked").alive, Vec::<u32>::new());
    }
}

#[tokio::test]
async fn signals_have_their_defaults() {
    let local = local();
    let mut run = run(&local, "grep -E '^Sig(Ign|Blk)' /proc/self/status; kill -9 $$").await;
    let out = run.rest().await;
    let masks: Vec<u64> = out.lines().map(|l| u64::from_str_radix(l.split_whitespace().nth(1).unwrap(), 16).unwrap()).collect();
    // glibc leaves its own two signals (32 and 33) ignored in whatever it spawns.
    assert_eq!(masks.iter().map(|m| m & !0x1_8000_0000).collect::<Vec<_>>(), [0, 0], "{out}");
    assert!(matches!(run.exit().await, Exit::Signal(name) if name == "SIGKILL"));
}

#[tokio::test]
async fn a_shell_that_was_dropped_ends_by_itself() {
    let local = local();
    let shell = local.start(start()).await.unwrap();
    let Shell { ready, exit, stdin, stdout: _stdout, stderr: _stderr, .. } = shell;
    drop(stdin);
    assert!(matches!(tokio::time::timeout(CAP, exit).await.unwrap(), Exit::Code(0)));
    assert!(!alive(ready.pid));
}

/// A machine whose bash is this script.
fn with_bash(script: &str) -> (Local, tempfile::TempDir) {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("bash");
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700)).unwrap();
    let local = local();
    local.programs.lock().unwrap().bash = Some(file);
    (local, dir)
}

/// A machine whose sh is this program; none when it is not here.
pub(in crate::backend) fn with_sh(program: &str) -> Option<Local> {
    let local = local();
    local.programs.lock().unwrap().sh = Some(login::find(program)?);
    Some(local)
}

#[tokio::test]
async fn a_start_that_takes_too_long_leaves_nothing() {
    let (local, dir) = with_bash("#!/bin/sh\nPATH=/usr/bin:/bin; echo $$ >\"${0%/*}/pid\"; echo waiting >&2; sleep 600; :");
    let mut start = start();
    start.timeout = Duration::from_millis(500);
    let error = local.start(start).await.err().expect("too long");
    assert_eq!(error.kind, ErrorKind::TimedOut);
    assert!(error.message.contains("it said: waiting"), "{error}");
    let pid: u32 = std::fs::read_to_string(dir.path().join("pid")).unwrap().trim().parse().unwrap();
    tokio::time::timeout(CAP, gone(pid)).await.expect("killed");
}

#[tokio::test]
async fn a_start_that_is_given_up_leaves_nothing() {
    let (local, dir) =
        with_bash("#!/bin/sh\nPATH=/usr/bin:/bin; echo $$ >\"${0%/*}/new\"; mv \"${0%/*}/new\" \"${0%/*}/pid\"; exec sleep 600");
    let file = dir.path().join("pid");
    let started = async {
        while !file.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        _ = local.start(start()) => panic!("it cannot be ready"),
        () = started => {}
    }
    let pid: u32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    tokio::time::timeout(CAP, gone(pid)).await.expect("killed");
}

#[tokio::test]
async fn many_starts_at_once_come_up() {
    let local = local();
    let shells = futures::future::join_all((0..40).map(|_| local.start(start()))).await;
    let pids: std::collections::BTreeSet<u32> = shells.iter().map(|s| s.as_ref().unwrap().ready.pid).collect();
    assert_eq!(pids.len(), 40);
    for shell in shells {
        let mut shell = shell.unwrap();
        shell.stdin.shutdown().await.unwrap();
        assert!(matches!(tokio::time::timeout(CAP, shell.exit).await.unwrap(), Exit::Code(0)));
    }
}

#[tokio::test]
async fn what_an_earlier_command_left_is_not_of_the_next() {
    let local = local();
    let mut first = run(&local, "sleep 600 & (env -i setsid sleep 600 &) ; echo $!").await;
    first.line().await;
    first.exit().await;
    assert_eq!(first.survivors(&local).await.alive.len(), 2);
    let mut second = run(&local, "sleep 600 >/dev/null & echo $!").await;
    let child = pids(&second.line().await);
    second.exit().await;
    assert_eq!(second.survivors(&local).await.alive, child);
    let mut third = run(&local, "true").await;
    third.exit().await;
    assert_eq!(third.survivors(&local).await, Members::default());
    for run in [&first, &second] {
        assert!(run.end(&local, Duration::ZERO).await.verified);
    }
}

#[tokio::test]
async fn a_shell_that_ends_before_it_is_ready_says_why() {
    let (local, _dir) = with_bash("#!/bin/sh\necho 'cannot load libfoo.so' >&2; exit 127");
    let error = local.start(start()).await.err().expect("ended");
    assert_eq!(error.kind, ErrorKind::NoShell);
    assert!(error.message.contains("code 127") && error.message.contains("libfoo"), "{error}");
    let (local, dir) = with_bash("");
    std::fs::remove_file(dir.path().join("bash")).unwrap();
    assert_eq!(local.start(start()).await.err().expect("not there").kind, ErrorKind::NoShell);
    assert!(local.start(start()).await.is_ok(), "a shell that has moved is looked for again");
}

/// Waits for the end of a process that is a child of this one.
pub(in crate::backend) async fn gone(pid: u32) {
    let mut ended = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::child()).unwrap();
    while alive(pid) {
        // The signal may have come before this began to listen.
        let _ = tokio::time::timeout(Duration::from_millis(20), ended.recv()).await;
    }
}

#[tokio::test]
async fn the_login_environment_is_the_accounts() {
    let env: ClientEnv = Arc::new(RwLock::new(vec![("SSH_AUTH_SOCK".into(), "/agent".into())]));
    let local = Local::new(env);
    let mut shell = local.start(Start { environment: Environment::Login, ..start() }).await.unwrap();
    shell.stdin.write_all(b"9 0\n").await.unwrap();
    // Read while it waits for the rest: with the end of its stdin it is gone.
    let environ = std::fs::read(format!("/proc/{}/environ", shell.ready.pid)).unwrap();
    drop(shell.stdin);
    let text = String::from_utf8_lossy(&environ).into_owned();
    let names: Vec<&str> = text.split('\0').filter_map(|e| e.split('=').next()).filter(|n| !n.is_empty()).collect();
    for name in ["HOME", "USER", "LOGNAME", "SHELL", "PATH", "SSH_AUTH_SOCK"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert!(!names.iter().any(|n| n.starts_with("CARGO")), "{names:?}");
}

#[tokio::test]
async fn an_ordinary_end_leaves_nothing() {
    let local = local();
    let mut run = run(&local, "echo hi | cat").await;
    assert_eq!(run.rest().await, "hi\n");
    run.exit().await;
    assert_eq!(run.survivors(&local).await, Members::default());
}

#[tokio::test]
async fn background_children_survive_and_are_named() {
    let local = local();
    for (redirection, holds) in [("", true), (">/dev/null 2>&1", false)] {
        let mut run = run(&local, &format!("sleep 600 {redirection} & echo $!")).await;
        let child = pids(&run.line().await);
        run.exit().await;
        let left = run.survivors(&local).await;
        assert_eq!((left.alive.clone(), left.ending, left.tails), (child.clone(), vec![], vec![]), "{redirection}");
        if !holds {
            assert_eq!(run.rest().await, "");
        }
        assert!(run.end(&local, CAP).await.verified);
        assert!(!alive(child[0]));
    }
}

#[tokio::test]
async fn a_tail_is_told_from_a_child() {
    let local = local();
    // The tail holds its output back until told; the child just stays.
    let mut run = run(&local, "exec > >(sed 's/^/> /'; read _ </proc/self/fd/0; sleep 600); echo $!; echo one; kill -9 $$").await;
    let first = run.line().await;
    assert!(first.starts_with("> "), "{first}");
    run.exit().await;
    let left = run.survivors(&local).await;
    assert!(!left.alive.is_empty());
    assert!(run.end(&local, Duration::from_millis(100)).await.verified);
    assert_eq!(run.survivors(&local).await, Members::default());
}

#[tokio::test]
async fn trees_that_refuse_are_ended() {
    let local = local();
    for command in [
        // Ignores TERM, with a child that does.
        "trap '' TERM; sh -c 'trap \"\" TERM; sleep 600 & echo $$ $!; wait'",
        // Own session.
        "setsid sh -c 'echo $$ $$; sleep 600; :' & wait",
        // Double fork, own session.
        "(setsid sh -c 'echo $$ $$; sleep 600; :' &) ; sleep 600",
        // Nothing of ours in the environment, own session, orphaned.
        "(env -i setsid sh -c 'echo $$ $$; sleep 600; :' &) ; sleep 600",
        // A pipeline.
        "sh -c 'echo $$ $$ >&2; exec sleep 600' 2>&1 | cat",
        // Job control: a group of its own.
        "set -m; sh -c 'echo $$ $$; sleep 600; :' & wait",
    ] {
        let mut run = run(&local, command).await;
        let started = pids(&run.line().await);
        let ended = run.end(&local, Duration::from_millis(100)).await;
        assert!(ended.verified, "{command}: {ended:?}");
        for pid in started {
            assert!(!alive(pid), "{command}: {pid} is left");
        }
        run.exit().await;
        assert_eq!(run.survivors(&local).await, Members::default(), "{command}");
    }
}

#[tokio::test]
async fn a_term_trap_gets_its_time_and_no_next_command_runs() {
    let local = local();
    let mut run = run(&local, "trap 'echo saved; exit 3' EXIT; sh -c 'echo go; exec sleep 600'; echo never").await;
    assert_eq!(run.line().await, "go");
    assert!(run.end(&local, CAP).await.verified);
    run.exit().await;
    assert_eq!(run.rest().await, "saved\n");
}

#[tokio::test]
async fn other_commands_and_waiting_shells_are_left_alone() {
    let local = local();
    let waiting = local.start(start()).await.unwrap();
    let mut other = run(&local, "sleep 600 & echo $!; wait").await;
    let other_child = pids(&other.line().await);
    let mut victim = run(&local, "(env -i setsid sleep 600 &); sleep 600 & echo $!; wait").await;
    victim.line().await;
    assert!(victim.end(&local, Duration::from_millis(100)).await.verified);
    assert!(alive(other_child[0]) && alive(other.family.pid) && alive(waiting.ready.pid));
    assert!(other.end(&local, Duration::from_millis(100)).await.verified);
    assert!(alive(waiting.ready.pid));
}

#[tokio::test]
async fn one_signal_reaches_the_tree() {
    let local = local();
    let mut run = run(&local, "trap 'echo got; exit 4' USR1; echo go; while :; do sleep 0.01; done").await;
    assert_eq!(run.line().await, "go");
    let sent = local.family(run.family.clone(), Ask::Signal(10)).await.unwrap();
    assert!(sent.alive.contains(&run.family.pid));
    assert!(matches!(run.exit().await, Exit::Code(4)));
}

#[tokio::test]
async fn missing_signals_are_refused() {
    let family = Family { pid: u32::MAX >> 1, start_time: None, age: None, cookie: "QD_PROCESS=none".into() };
    assert!(local().family(family, Ask::Signal(99)).await.is_err());
}
