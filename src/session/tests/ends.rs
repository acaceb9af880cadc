//! How commands end, and what is left of them.

use super::{Rig, alive, command, text, until};
use crate::model::{EndedBy, Outcome, WarningCode};
use crate::session::Stop;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

#[tokio::test]
async fn a_cancelled_command_is_gone_with_its_tree_and_keeps_its_state() {
    let rig = Rig::new();
    let s = rig.session("main");
    let (stop, stops) = mpsc::channel(1);
    let c = command("export A=1; (sh -c 'echo $$; exec sleep 5005') & wait");
    let end = Stop::End { by: EndedBy::Client, grace: Duration::from_secs(2) };
    let done = rig.run_and(&s, c, stops, || async { stop.send(end).await.unwrap() }).await;
    assert_eq!((done.ended.outcome, done.ended.warnings), (Outcome::Cancelled { ended_by: EndedBy::Client }, vec![]));
    let pid: u32 = done.output.trim().parse().unwrap();
    assert!(!alive(pid));
    assert_eq!(rig.run(&s, "echo $A").await.output, "1\n");
}

#[tokio::test]
async fn a_command_that_has_not_started_can_be_cancelled() {
    let rig = Rig::new();
    std::fs::write(rig.home().join(".bash_profile"), "sleep 1000\n").unwrap();
    let s = rig.session("main");
    let (stop, stops) = mpsc::channel(1);
    stop.send(Stop::End { by: EndedBy::Operator, grace: Duration::ZERO }).await.unwrap();
    let done = rig.run_with(&s, command("echo ran"), stops).await;
    assert_eq!((done.ended.outcome, done.output.as_str()), (Outcome::Cancelled { ended_by: EndedBy::Operator }, ""));
}

#[tokio::test]
async fn a_signal_reaches_the_tree_and_the_command_ends_as_it_likes() {
    let rig = Rig::new();
    let s = rig.session("main");
    let (stop, stops) = mpsc::channel(1);
    let c = command("trap 'echo got; exit 7' USR1; echo up; while :; do sleep 0.05; done");
    let (tell, told) = tokio::sync::oneshot::channel();
    let done = rig.run_and(&s, c, stops, || async { stop.send(Stop::Signal { number: 10, tell }).await.unwrap() }).await;
    assert_eq!(done.code(), 7);
    assert!(!told.await.unwrap().unwrap().is_empty(), "who got it is told");
    assert!(done.output.contains("got\n"), "{}", done.output);
}

#[tokio::test]
async fn late_output_goes_on_into_the_log() {
    let rig = Rig::new();
    let s = rig.session("main");
    let done = rig.run(&s, "(sleep 0.3; echo late) & echo now").await;
    assert_eq!((done.output.as_str(), done.codes()), ("now\n", vec![WarningCode::OrphansLeft]));
    let pids = done.ended.warnings[0].pids.clone();
    assert!(!pids.is_empty());
    until("late output", || done.log.total() == 9).await;
    assert_eq!(text(&done.log).await, "now\nlate\n");
}

#[tokio::test]
async fn no_last_word_is_told() {
    let rig = Rig::new();
    let s = rig.session("main");
    let done = rig.run(&s, "export A=1; exec sh -c 'echo in; exit 9'").await;
    assert_eq!((done.code(), done.output.as_str(), done.codes()), (9, "in\n", vec![WarningCode::StateNotSaved]));
    let done = rig.run(&s, "kill -9 $$").await;
    assert_eq!(
        (done.ended.outcome.clone(), done.codes()),
        (Outcome::Signaled { signal: "SIGKILL".into() }, vec![WarningCode::StateNotSaved])
    );
    assert_eq!(rig.run(&s, "echo [$A]").await.output, "[]\n");
}

#[tokio::test]
async fn a_full_disk_is_told() {
    let rig = Rig::new();
    let s = rig.session("main");
    let done = rig.run(&s, "export A=1; ulimit -f 0; cd /usr").await;
    assert_eq!((done.code(), done.codes(), done.ended.cwd.as_str()), (0, vec![WarningCode::StateNotSaved], "/usr"));
    assert_eq!(rig.run(&s, "echo [$A] $PWD").await.output, "[] /usr\n");
}

#[tokio::test]
async fn start_files_are_met_once() {
    let rig = Rig::new();
    let count = rig.home().join("count");
    let profile =
        format!("echo noise; echo noise >&2; echo x >>{}; export RC=1; rcf() {{ echo RCF; }}; _helper() {{ :; }}\n", count.display());
    std::fs::write(rig.home().join(".bash_profile"), profile).unwrap();
    let s = rig.session("main");
    for _ in 0..3 {
        let done = rig.run(&s, "echo $RC; rcf; type -t _helper").await;
        assert_eq!((done.output.as_str(), done.codes()), ("1\nRCF\n", vec![]));
    }
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
}

#[tokio::test]
async fn start_files_that_hang_or_end_are_told_once() {
    for profile in ["sleep 1000", "exit 3", "exec sleep 1000"] {
        let mut rig = Rig::new();
        rig.settings.capture_timeout = Duration::from_millis(1500);
        std::fs::write(rig.home().join(".bash_profile"), profile).unwrap();
        let s = rig.session("main");
        let done = rig.run(&s, "echo hi; export A=1").await;
        assert_eq!((done.output.as_str(), done.codes()), ("hi\n", vec![WarningCode::SnapshotFailed]), "{profile} {:?}", done.ended);
        let done = rig.run(&s, "echo $A").await;
        assert_eq!((done.output.as_str(), done.codes()), ("1\n", vec![]), "{profile}");
    }
}

#[tokio::test]
async fn any_login_shell_gives_its_environment() {
    let files = [
        ("/usr/bin/zsh", ".zprofile", "echo noise; export RC=\"a b\""),
        ("/usr/bin/fish", ".config/fish/config.fish", "echo noise; set -gx RC 'a b'"),
        ("/usr/bin/tcsh", ".login", "echo noise; setenv RC 'a b'"),
        ("/usr/bin/dash", ".profile", "echo noise; export RC='a b'"),
        ("/usr/sbin/nologin", ".bash_profile", "export RC='a b'"),
    ];
    for (shell, file, content) in files.into_iter().filter(|(shell, ..)| std::path::Path::new(shell).exists()) {
        let rig = Rig::with(&[("SHELL", shell)]);
        let file = rig.home().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
        let s = rig.session("main");
        let done = rig.run(&s, "echo \"[$RC] $SHELL\"").await;
        assert_eq!((done.output, done.ended.warnings), (format!("[a b] {shell}\n"), vec![]), "{shell}");
    }
}

#[tokio::test]
async fn a_burst_of_commands_is_whole() {
    let rig = Rig::new();
    let s = rig.session("main");
    rig.run(&s, "N=0").await;
    for _ in 0..20 {
        rig.run(&s, "N=$((N+1))").await;
    }
    assert_eq!(rig.run(&s, "echo $N").await.output, "20\n");
    let runs = (0..8).map(|i| {
        let (rig, s) = (&rig, s.clone());
        async move { rig.run(&s, &format!("P{i}=1; echo {i}")).await.output }
    });
    let outputs = futures::future::join_all(runs).await;
    assert_eq!(outputs, (0..8).map(|i| format!("{i}\n")).collect::<Vec<_>>());
    assert_eq!(rig.run(&s, "echo $P0$P1$P2$P3$P4$P5$P6$P7").await.output, "11111111\n");
    let _: Arc<_> = s;
}
