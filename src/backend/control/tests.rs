//! The control shell against real processes of this machine.
//!
//! Invariant: a test ends whatever it started.

use super::*;
use crate::backend::local::Local;
use crate::backend::local::tests::{Running, alive, gone, local, nonce, pids, run, start, with_sh};
use crate::backend::{Backend, ShellChoice, Start};

const CAP: Duration = Duration::from_secs(30);

async fn control(linger: u32) -> Control {
    control_on(&local(), ShellChoice::Bash, linger).await
}

async fn control_on(local: &Local, shell: ShellChoice, linger: u32) -> Control {
    let nonce = nonce();
    let shell = local.start(Start { nonce: nonce.clone(), shell, ..start() }).await.expect("ready");
    Control::new(shell, &nonce, linger)
}

/// Control shells of every shell that is here.
async fn every_kind(linger: u32) -> Vec<(&'static str, Control)> {
    let mut kinds = vec![("bash", control(linger).await), ("sh", control_on(&local(), ShellChoice::Sh, linger).await)];
    if let Some(busybox) = with_sh("busybox") {
        kinds.push(("busybox", control_on(&busybox, ShellChoice::Sh, linger).await));
    }
    kinds
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(CAP, what).await.expect("in time")
}

async fn survivors(control: &Control, run: &Running) -> Members {
    within(control.family(run.family.clone(), Ask::Survivors)).await.expect("asked")
}

async fn end(control: &Control, run: &Running) -> Members {
    within(control.family(run.family.clone(), Ask::End { grace: Duration::from_millis(100) })).await.expect("ended")
}

#[tokio::test]
async fn it_answers() {
    for (kind, control) in every_kind(1).await {
        within(control.ping()).await.unwrap();
        let asked: Vec<_> = (0..50).map(|_| control.ping()).collect();
        for answer in within(futures::future::join_all(asked)).await {
            answer.expect(kind);
        }
    }
}

#[tokio::test]
async fn it_finds_and_ends_trees() {
    let local = local();
    for (kind, control) in every_kind(1).await {
        for command in [
            "trap '' TERM; sh -c 'trap \"\" TERM; sleep 600 & echo $$ $!; wait'",
            "setsid sh -c 'echo $$ $$; sleep 600; :' & wait",
            "(setsid sh -c 'echo $$ $$; sleep 600; :' &) ; sleep 600",
            "env -i setsid sh -c 'echo $$ $$; sleep 600; :' & wait",
            "sh -c 'echo $$ $$ >&2; exec sleep 600' 2>&1 | cat",
            "set -m; sh -c 'echo $$ $$; sleep 600; :' & wait",
        ] {
            let mut run = run(&local, command).await;
            let started = pids(&run.line().await);
            let found = survivors(&control, &run).await;
            let all = found.alive.contains(&run.family.pid) && started.iter().all(|p| found.alive.contains(p));
            assert!(all, "{kind}: {command}: {found:?}");
            let ended = end(&control, &run).await;
            assert!(ended.verified && ended.alive.is_empty(), "{kind}: {command}: {ended:?}");
            run.exit().await;
            assert!(started.iter().all(|p| !alive(*p)), "{kind}: {command}");
            assert_eq!(survivors(&control, &run).await, Members::default(), "{kind}: {command}");
        }
    }
}

#[tokio::test]
async fn it_tells_tails_from_children() {
    let (local, control) = (local(), control(1).await);
    // Reads a pipe without a writer, writes to the command's output: held up by SIGSTOP so that it can be looked at.
    let mut tail = run(&local, "exec > >(kill -STOP $BASHPID; cat); echo one; echo $! >&2").await;
    let pid = {
        let mut line = String::new();
        while !line.ends_with('\n') {
            line.push(char::from(within(tail.shell.stderr.read_u8()).await.unwrap()));
        }
        pids(&line)[0]
    };
    tail.exit().await;
    assert_eq!(survivors(&control, &tail).await, Members { alive: vec![pid], ending: vec![pid], tails: vec![pid], ..Members::default() });
    assert!(end(&control, &tail).await.verified);
    // A child that only stays, with and without the command's output.
    for redirection in ["", ">/dev/null 2>&1"] {
        let mut child = run(&local, &format!("sleep 600 {redirection} & echo $!")).await;
        let pid = pids(&child.line().await)[0];
        child.exit().await;
        assert_eq!(survivors(&control, &child).await, Members { alive: vec![pid], ..Members::default() }, "{redirection}");
        assert!(end(&control, &child).await.verified);
    }
    // A pipeline into the output: both are ending, both are tails.
    let mut chain = run(&local, "exec > >(kill -STOP $BASHPID; exec cat | cat); echo $!").await;
    chain.exit().await;
    let found = survivors(&control, &chain).await;
    assert_eq!((found.alive.len(), found.tails.clone()), (1, found.ending.clone()), "{found:?}");
    assert!(end(&control, &chain).await.verified);
}

#[tokio::test]
async fn endings_run_side_by_side_and_others_are_left_alone() {
    let (local, control) = (local(), control(1).await);
    let mut other = run(&local, "echo go; sleep 600").await;
    other.line().await;
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut run = run(&local, "trap '' TERM; echo go; while :; do sleep 600; done").await;
        run.line().await;
        slow.push(run);
    }
    let endings = slow.iter().map(|run| end(&control, run));
    let (ended, pong) = futures::join!(within(futures::future::join_all(endings)), within(control.ping()));
    assert!(ended.iter().all(|m| m.verified));
    pong.unwrap();
    assert!(alive(other.family.pid));
    assert!(end(&control, &other).await.verified);
}

#[tokio::test]
async fn one_signal_reaches_the_tree() {
    let local = local();
    for (kind, control) in every_kind(1).await {
        let mut run = run(&local, "trap 'echo got; exit 4' USR1; echo go; while :; do sleep 0.01; done").await;
        run.line().await;
        let sent = within(control.family(run.family.clone(), Ask::Signal(10))).await.unwrap();
        assert!(sent.alive.contains(&run.family.pid), "{kind}");
        assert!(matches!(run.exit().await, Exit::Code(4)), "{kind}");
    }
}

#[tokio::test]
async fn a_number_that_somebody_else_has_now_is_not_touched() {
    let local = local();
    for (kind, control) in every_kind(1).await {
        let mut run = run(&local, "echo go; sleep 600").await;
        run.line().await;
        let mut old = run.family.clone();
        old.start_time = old.start_time.map(|s| s - 1);
        old.cookie = "QD_PROCESS=gone".into();
        for members in [
            within(control.family(old.clone(), Ask::Survivors)).await.unwrap(),
            within(local.family(old, Ask::End { grace: Duration::ZERO })).await.unwrap(),
        ] {
            assert!(members.alive.is_empty(), "{kind}");
        }
        // Nor is one that is younger than the command that had its number, as after a restart of the machine.
        let aged =
            |age| Family { start_time: None, age: Some(Duration::from_secs(age)), cookie: "QD_PROCESS=gone".into(), ..run.family.clone() };
        for ask in [Ask::Survivors, Ask::Signal(15), Ask::End { grace: Duration::ZERO }] {
            assert!(within(control.family(aged(3600), ask)).await.unwrap().alive.is_empty(), "{kind}");
        }
        let members = within(control.family(aged(0), Ask::Survivors)).await.unwrap();
        assert!(members.alive.contains(&run.family.pid), "{kind}");
        assert!(alive(run.family.pid), "{kind}");
        assert!(end(&control, &run).await.verified, "{kind}");
    }
}

#[tokio::test]
async fn it_tells_when_nothing_is_left() {
    let local = local();
    for (kind, control) in every_kind(1).await {
        let mut run = run(&local, "(read -r x <&3; setsid sleep 600) & echo $!").await;
        run.line().await;
        run.exit().await;
        let gone = within(control.gone_of(run.family.clone())).await.unwrap();
        tokio::pin!(gone);
        assert_eq!(survivors(&control, &run).await.alive.len(), 1, "{kind}");
        assert!(futures::poll!(&mut gone).is_pending(), "{kind}");
        // What it starts later is waited for too.
        run.shell.stdin.shutdown().await.unwrap();
        loop {
            let alive = survivors(&control, &run).await.alive;
            if alive.iter().any(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")) {
                break;
            }
        }
        assert!(futures::poll!(&mut gone).is_pending(), "{kind}");
        assert!(end(&control, &run).await.verified, "{kind}");
        let done = within(gone).await.expect(kind);
        assert!(done.verified && done.alive.is_empty(), "{kind}: {done:?}");
    }
}

#[tokio::test]
async fn who_waits_for_an_end_holds_no_control_shell() {
    let local = local();
    for (kind, control) in every_kind(1).await {
        let mut run = run(&local, "sleep 600 & echo $!").await;
        run.line().await;
        run.exit().await;
        let gone = within(control.gone_of(run.family.clone())).await.unwrap();
        drop(control);
        assert_eq!(within(gone).await.expect_err(kind).kind, ErrorKind::Lost);
        let ended = local.family(run.family.clone(), Ask::End { grace: Duration::ZERO }).await.unwrap();
        assert!(ended.verified, "{kind}");
    }
}

#[tokio::test]
async fn foreground_commands_end_when_the_daemon_is_gone() {
    let local = local();
    for (kind, control) in every_kind(0).await {
        let (mut noted, mut forgotten) = (run(&local, "echo go; sleep 600").await, run(&local, "echo go; sleep 600").await);
        let mut left = run(&local, "sleep 600 & echo $!; read -r x <&3").await;
        let background = pids(&left.line().await)[0];
        for run in [&mut noted, &mut forgotten] {
            run.line().await;
            control.note(run.family.clone()).await.unwrap();
        }
        control.note(left.family.clone()).await.unwrap();
        control.forget(forgotten.family.pid).await.unwrap();
        control.ping().await.unwrap();
        left.shell.stdin.shutdown().await.unwrap();
        left.exit().await;
        drop(control);
        within(gone(noted.family.pid)).await;
        assert!(alive(forgotten.family.pid) && alive(background), "{kind}");
        for run in [&forgotten, &left] {
            let ended = local.family(run.family.clone(), Ask::End { grace: Duration::ZERO }).await.unwrap();
            assert!(ended.verified, "{kind}");
        }
    }
}

#[tokio::test]
async fn kept_commands_stay() {
    let local = local();
    let nonce = nonce();
    let shell = local.start(Start { nonce: nonce.clone(), ..start() }).await.unwrap();
    let pid = shell.ready.pid;
    let control = Control::new(shell, &nonce, 0);
    let mut kept = run(&local, "echo go; sleep 600").await;
    kept.line().await;
    control.note(kept.family.clone()).await.unwrap();
    control.keep().await.unwrap();
    drop(control);
    within(gone(pid)).await;
    assert!(alive(kept.family.pid));
    assert!(local.family(kept.family.clone(), Ask::End { grace: Duration::ZERO }).await.unwrap().verified);
}

#[tokio::test]
async fn requests_fail_as_lost_when_it_is_killed() {
    let nonce = nonce();
    let shell = local().start(Start { nonce: nonce.clone(), ..start() }).await.unwrap();
    let pid = shell.ready.pid;
    let control = Control::new(shell, &nonce, 1);
    within(control.ping()).await.unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(), rustix::process::Signal::KILL).unwrap();
    let why = within(control.gone()).await;
    assert_eq!((why.kind, why.message.as_str()), (ErrorKind::Lost, "the control shell was ended by SIGKILL"));
    assert_eq!(within(control.ping()).await.unwrap_err(), why);
    assert_eq!(control.note(Family { pid, start_time: None, age: None, cookie: "A=b".into() }).await.unwrap_err(), why);
}
