//! The life of a session: what it keeps, what it survives.

use super::{Rig, command, stdin, until};
use crate::backend::Backend;
use crate::backend::fake::Fake;
use crate::model::{Outcome, WarningCode};
use crate::session::Session;
use std::path::PathBuf;
use std::sync::Arc;

/// The session's folder on the backend.
fn folder(session: &Session) -> PathBuf {
    session.state().folder.clone().unwrap().into()
}

/// Waits for the copy of the present snapshot.
async fn copied(session: &Session) {
    let is_there = || {
        let state = session.state();
        state.copy == Some(state.generation)
    };
    until("the copy", is_there).await;
}

#[tokio::test]
async fn state_carries_over() {
    let rig = Rig::new();
    let s = rig.session("main");
    let done = rig.run(&s, "export A='one two'; cd /usr; f() { echo F; }; alias q='echo Q'; echo hi").await;
    assert_eq!((done.code(), done.output.as_str(), done.ended.cwd.as_str()), (0, "hi\n", "/usr"), "{:?}", done.ended.warnings);
    let done = rig.run(&s, "echo \"$A $PWD\"; f; q; env | grep -c QD_PROCESS; echo $QD_BACKEND $QD_SESSION $QUARTERDECK $PAGER").await;
    assert_eq!((done.code(), done.output.as_str()), (0, "one two /usr\nF\nQ\n1\nlocal main 1 cat\n"), "{:?}", done.ended.warnings);
    assert_eq!(done.ended.generation, 3, "the capture and two commands");
}

#[tokio::test]
async fn a_restart_of_the_daemon_is_not_noticed() {
    let rig = Rig::new();
    let s = rig.session("main");
    rig.run(&s, "export A=kept; cd /usr").await;
    s.flush().await;
    drop(s);
    let s = rig.session("main");
    assert_eq!((s.info().cwd.as_str(), s.info().generation), ("/usr", 2));
    let done = rig.run(&s, "echo $A $PWD").await;
    assert_eq!((done.output.as_str(), done.codes()), ("kept /usr\n", vec![]));
    assert_eq!(Session::known(&rig.settings.state_dir).unwrap()[0].name, "main");
}

#[tokio::test]
async fn a_wiped_folder_costs_nothing_when_there_is_a_copy() {
    let rig = Rig::new();
    let s = rig.session("main");
    rig.run(&s, "export A=kept; f() { echo F; }; cd /usr").await;
    until("the copy", || s.state().copy == Some(2)).await;
    s.cool();
    std::fs::remove_dir_all(folder(&s)).unwrap();
    let done = rig.run(&s, "echo $A $PWD; f").await;
    assert_eq!((done.output.as_str(), done.codes()), ("kept /usr\nF\n", vec![]));
    let done = rig.run(&s, "echo $A").await;
    assert_eq!((done.output.as_str(), done.codes()), ("kept\n", vec![]));
}

#[tokio::test]
async fn a_wiped_folder_without_a_copy_is_told() {
    let rig = Rig::new();
    let s = rig.session("main");
    rig.run(&s, "export A=lost; cd /usr").await;
    s.cool();
    s.state().copy = None;
    std::fs::remove_dir_all(folder(&s)).unwrap();
    let done = rig.run(&s, "echo \"[$A]\"").await;
    assert_eq!((done.output.as_str(), done.codes()), ("[]\n", vec![WarningCode::StateLost]));
}

#[tokio::test]
async fn a_folder_wiped_under_a_warm_shell_loses_no_more_than_one_command() {
    let rig = Rig::new();
    let s = rig.session("main");
    rig.run(&s, "export A=kept").await;
    until("the copy", || s.state().copy == Some(2)).await;
    let snapshot = s.state().snapshot.clone().unwrap();
    assert!(s.take_warm(&snapshot).await.is_some());
    s.prewarm();
    std::fs::remove_dir_all(folder(&s)).unwrap();
    let done = rig.run(&s, "echo $A; export B=1").await;
    assert_eq!(done.output, "kept\n");
    let done = rig.run(&s, "echo $A").await;
    assert_eq!(done.output, "kept\n");
}

#[tokio::test]
async fn our_files_are_ours_alone_and_old_ones_go() {
    use std::os::unix::fs::PermissionsExt;
    let rig = Rig::new();
    let s = rig.session("main");
    for i in 0..30 {
        rig.run(&s, &format!("umask 022; export A={i}")).await;
    }
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let dir = folder(&s);
    assert_eq!((mode(&dir), mode(dir.parent().unwrap())), (0o700, 0o700));
    let count = || std::fs::read_dir(&dir).unwrap().count();
    // Twenty earlier ones, the present one, and the warm shell's.
    until("old files are gone", || count() <= 2 * 22).await;
    for entry in std::fs::read_dir(&dir).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    assert_eq!(rig.run(&s, "echo $A").await.output, "29\n");
}

#[tokio::test]
async fn what_a_killed_daemon_left_goes_when_it_is_old() {
    let rig = Rig::new();
    let s = rig.session("main");
    rig.run(&s, "export A=1").await;
    s.flush().await;
    let dir = folder(&s);
    drop(s);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 86_400);
    for entry in std::fs::read_dir(&dir).unwrap() {
        std::fs::File::open(entry.unwrap().path()).unwrap().set_modified(old).unwrap();
    }
    for (name, time) in [("old.v", old), ("young.v", std::time::SystemTime::now())] {
        std::fs::File::create(dir.join(name)).unwrap().set_modified(time).unwrap();
    }
    let s = rig.session("main");
    assert_eq!(rig.run(&s, "echo $A").await.output, "1\n");
    until("the old one is gone", || !dir.join("old.v").exists()).await;
    assert!(dir.join("young.v").exists());
    assert_eq!(rig.run(&s, "echo $A").await.output, "1\n");
}

#[tokio::test]
async fn parallel_commands_lose_nothing_and_name_what_they_overwrote() {
    let rig = Rig::new();
    let s = rig.session("main");
    rig.run(&s, "export BASE=0; keep() { :; }").await;
    let slow = "sleep 0.4; export SLOW=1 BOTH=slow; unset -f keep; shopt -s nullglob";
    let (fast, slow) = tokio::join!(rig.run(&s, "export FAST=1 BOTH=fast; g() { echo G; }; set -o noclobber"), rig.run(&s, slow));
    assert_eq!((fast.codes(), slow.codes()), (vec![], vec![WarningCode::StateConflict]));
    assert_eq!(slow.ended.warnings[0].names, ["BOTH"]);
    let done = rig.run(&s, "echo $BASE$FAST$SLOW$BOTH $(type -t keep g); g; set -o | grep -c 'noclobber.*on'; echo /nonexistent*").await;
    assert_eq!(done.output, "011slow function\nG\n1\n\n");
}

#[tokio::test]
async fn a_directory_and_variables_of_one_command_do_not_stay() {
    let rig = Rig::new();
    let s = rig.session("main");
    rig.run(&s, "cd /usr; export OLD=before").await;
    let mut c = command("pwd; echo $OLD $NEW $PATH; export KEPT=1; OLD=changed");
    c.workdir = Some("share/..//share/".into());
    c.env = vec![("OLD".into(), "it's".into()), ("NEW".into(), "n".into()), ("PATH".into(), "/p".into())];
    let done = rig.run_it(&s, c).await;
    assert_eq!((done.output.as_str(), done.ended.cwd.as_str(), done.codes()), ("/usr/share\nit's n /p\n", "/usr", vec![]));
    let done = rig.run(&s, "pwd; echo \"$OLD [$NEW] $KEPT\"; ls / >/dev/null && echo ok").await;
    assert_eq!(done.output, "/usr\nbefore [] 1\nok\n");
    let mut c = command("cd /etc");
    c.workdir = Some("~".into());
    assert_eq!(rig.run_it(&s, c).await.ended.cwd, "/etc");
}

#[tokio::test]
async fn a_directory_that_cannot_be_entered_runs_nothing() {
    let rig = Rig::new();
    let s = rig.session("main");
    for (dir, why) in [("/nonexistent", "no such directory"), ("/etc/passwd", "not a directory")] {
        let mut c = command("echo ran");
        c.workdir = Some(dir.into());
        let done = rig.run_it(&s, c).await;
        assert!(done.ended.no_directory);
        assert_eq!((done.code(), done.output, done.ended.warnings), (126, format!("qd: {dir}: {why}\n"), vec![]));
    }
}

#[tokio::test]
async fn streams_are_apart_when_asked_for() {
    let rig = Rig::new();
    let s = rig.session("main");
    let mut c = command("printf err >&2; printf out; printf '\\036E' >&2; exit 3");
    c.split = true;
    let done = rig.run_it(&s, c).await;
    let chunk = done.log.read(crate::model::LogStart::Offset(0), 1 << 16).await.unwrap();
    let mut apart = (Vec::new(), Vec::new());
    let mut at = 0;
    for run in &chunk.runs {
        let bytes = &chunk.bytes[at..at + run.len as usize];
        at += run.len as usize;
        if run.stream == crate::model::Stream::Out { apart.0.extend_from_slice(bytes) } else { apart.1.extend_from_slice(bytes) }
    }
    assert_eq!((done.code(), apart.0.as_slice(), apart.1.as_slice()), (3, b"out".as_slice(), b"err\x1eE".as_slice()));
}

#[tokio::test]
async fn secrets_and_agents() {
    let mut rig = Rig::with(&[("MY_TOKEN", "s3cret"), ("OTHER_KEY_A", "k1"), ("PLAIN", "p")]);
    rig.settings.secret_names = vec!["MY_TOKEN".into(), "OTHER_KEY_*".into()];
    rig.settings.forwarded = [("FWD".to_owned(), "f".to_owned())].into();
    let s = rig.session("main");
    let say = "echo [$MY_TOKEN][$OTHER_KEY_A][$PLAIN][$FWD][$AI_AGENT]";
    let operator = rig.run(&s, &format!("{say}; export OTHER_KEY_B=new")).await;
    assert_eq!(operator.output, "[s3cret][k1][p][f][]\n");
    let mut c = command(&format!("{say}; echo [$OTHER_KEY_B]"));
    c.agent = Some("claude".into());
    assert_eq!(rig.run_it(&s, c).await.output, "[][][p][f][claude]\n[]\n");
    assert_eq!(rig.run(&s, say).await.output, "[s3cret][k1][p][f][]\n");
    let hidden = std::process::Command::new("grep").args(["-rlE", "s3cret|k1"]).arg(rig.dir.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&hidden.stdout).lines().filter(|l| !l.ends_with(".log")).count(), 0);
    let again = rig.session("main");
    assert_eq!(rig.run(&again, say).await.output, "[s3cret][k1][p][f][]\n");
}

#[tokio::test]
async fn what_would_break_a_waiting_shell_is_loaded_late() {
    let rig = Rig::new();
    let s = rig.session("main");
    rig.run(&s, "readonly IFS LC_ALL; A=1; f() { echo F; }; read() { echo NO; }; eval() { echo NO; }; cd /usr").await;
    for _ in 0..2 {
        let done = rig.run(&s, "echo $A; f; pwd; type -t read").await;
        assert_eq!((done.output.as_str(), done.codes()), ("1\nF\n/usr\nfunction\n", vec![]));
    }
    assert!(s.state().snapshot.as_ref().unwrap().late);
}

#[tokio::test]
async fn a_time_limit_on_input_only_costs_the_warm_shell() {
    let rig = Rig::new();
    let s = rig.session("main");
    rig.run(&s, "readonly TMOUT=1; export TMOUT").await;
    s.warm_has_ended().await;
    assert_eq!(rig.run(&s, "echo $TMOUT").await.output, "1\n");
}

#[tokio::test]
async fn nowhere_to_write_the_state_travels() {
    let rig = Rig::new();
    let s = rig.session("main");
    s.ready().await.unwrap();
    {
        let snapshot = s.state().snapshot.clone().unwrap();
        let texts = s.texts(&snapshot).await.unwrap();
        let mut state = s.state();
        state.folder = None;
        let mut snapshot = (**state.snapshot.as_ref().unwrap()).clone();
        snapshot.carried = Some(texts);
        state.snapshot = Some(Arc::new(snapshot));
    }
    let done = rig.run(&s, "export A=$'a\\nb'; cd /usr; f() { echo F; }; alias q='echo Q'; g() { exit 4; }; echo out; g").await;
    assert_eq!((done.code(), done.output.as_str(), done.codes()), (4, "out\n", vec![]));
    let (a, b) = tokio::join!(rig.run(&s, "X=1; sleep 0.1"), rig.run(&s, "sleep 0.3; Y=2"));
    assert_eq!((a.codes(), b.codes()), (vec![], vec![]));
    let mut c = command("echo \"$A $X$Y\"; f; q; echo err >&2");
    c.split = true;
    // Two streams apart have no order between them.
    let output = rig.run_it(&s, c).await.output;
    assert_eq!((output.replacen("err\n", "", 1).as_str(), output.contains("err\n")), ("a\nb 12\nF\nQ\n", true));
    copied(&s).await;
    s.flush().await;
    let again = rig.session("main");
    assert_eq!(rig.run(&again, "echo $X; f").await.output, "1\nF\n");
}

#[tokio::test]
async fn detail_reset_and_close() {
    let rig = Rig::new();
    let s = rig.session("main");
    rig.run(&s, "export A='x y'; f() { :; }; alias ll='ls -l'; shopt -s nullglob; umask 027; cd /usr").await;
    let detail = s.detail().await.unwrap();
    let a = detail.variables.iter().find(|(n, _)| n == "A").unwrap();
    assert_eq!(a.1, "declare -x A=\"x y\"");
    assert_eq!((detail.functions, detail.aliases), (vec!["f".to_owned()], vec![("ll".to_owned(), "ls\\ -l".to_owned())]));
    assert_eq!((detail.options, detail.umask.as_str()), (vec!["expand_aliases".to_owned(), "nullglob".to_owned()], "0027"));
    let info = s.reset().await.unwrap();
    assert_eq!(info.cwd, rig.home().to_str().unwrap());
    assert_eq!(rig.run(&s, "echo [$A]").await.output, "[]\n");
    let dir = folder(&s);
    s.close().await.unwrap();
    assert!(!dir.exists());
    until("no file of it stays", || std::fs::read_dir(&rig.settings.state_dir).unwrap().count() == 0).await;
}

#[tokio::test]
async fn a_lost_link_loses_the_command_and_nothing_else() {
    let rig = Rig::new();
    let fake = Fake::new("box");
    let mut settings = rig.settings.clone();
    settings.env.insert("XDG_STATE_HOME".into(), rig.home().to_str().unwrap().into());
    settings.cwd = "/".into();
    let s = Session::open(fake.clone() as Arc<dyn Backend>, "main", settings).unwrap();
    assert_eq!(rig.run(&s, "export A=kept; cd /usr; echo hi").await.output, "hi\n");
    let (_keep, stops) = tokio::sync::mpsc::channel(1);
    let done = rig.run_and(&s, command("echo begun; sleep 1000"), stops, || async { fake.lose("the cable was pulled") }).await;
    let Outcome::TransportLost { reason } = &done.ended.outcome else { panic!("{:?}", done.ended.outcome) };
    assert!(reason.contains("cable"), "{reason}");
    assert_eq!(done.output, "begun\n");
    let done = rig.run(&s, "echo $A $PWD").await;
    assert_eq!((done.output.as_str(), done.codes()), ("kept /usr\n", vec![]));
}

#[tokio::test]
async fn what_is_done_between_commands_connects_nothing() {
    let mut rig = Rig::new();
    rig.settings.env.insert("XDG_STATE_HOME".into(), rig.home().to_str().unwrap().into());
    let fake = Fake::new("box");
    rig.backend = fake.clone();
    let s = rig.session("main");
    rig.run(&s, "export A=1").await;
    // At once: the next shell and the copy of the snapshot are still to come.
    fake.close().await;
    let attempts = fake.attempts();
    until("rest", || s.is_kept()).await;
    assert!(!fake.about().link.borrow().up);
    assert_eq!(fake.attempts(), attempts);
    assert_eq!(rig.run(&s, "echo $A").await.output, "1\n");
}

#[tokio::test]
async fn a_backend_that_is_away_runs_nothing() {
    let rig = Rig::new();
    let fake = Fake::new("box");
    let error = crate::backend::BackendError::new(crate::backend::ErrorKind::Unreachable, "connection refused by box port 22");
    fake.refuse(Some(error));
    let s = Session::open(fake as Arc<dyn Backend>, "main", rig.settings.clone()).unwrap();
    let done = rig.run(&s, "echo ran").await;
    assert_eq!(done.ended.outcome, Outcome::BackendUnavailable { reason: "connection refused by box port 22".into() });
    assert_eq!(done.output, "");
}

#[tokio::test]
async fn stdin_reaches_the_command_byte_for_byte() {
    let rig = Rig::new();
    let s = rig.session("main");
    let mut content: Vec<u8> = (0..=255).cycle().take(1_000_003).collect();
    content.extend_from_slice(b"no newline at the end");
    let mut c = command("sha256sum; read x; echo [$x]");
    c.stdin = Some(stdin(content.clone()));
    use sha2::Digest;
    let digest: String = sha2::Sha256::digest(&content).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(rig.run_it(&s, c).await.output, format!("{digest}  -\n[]\n"));
    // A snapshot that is gone is noticed before the command is read: its stdin is not lost.
    copied(&s).await;
    s.cool();
    std::fs::remove_dir_all(folder(&s)).unwrap();
    let mut c = command("wc -c");
    c.stdin = Some(stdin(content.clone()));
    assert_eq!(rig.run_it(&s, c).await.output.trim(), content.len().to_string());
}

#[tokio::test]
async fn sh_keeps_what_it_can() {
    let mut rig = Rig::new();
    rig.settings.shell = crate::backend::ShellChoice::Sh;
    std::fs::write(rig.home().join(".profile"), "echo noise; RC='a b'; export RC\n").unwrap();
    let s = rig.session("main");
    let done =
        rig.run(&s, "echo \"$RC\"; A=\"it's\"; export B=2; readonly R=7; alias q='echo Q'; umask 027; set -C; cd /usr; exit 3").await;
    assert_eq!((done.code(), done.output.as_str(), done.codes()), (3, "a b\n", vec![]));
    for _ in 0..2 {
        let done = rig.run(&s, "echo \"$A $B $R $PWD $(umask)\"; q; env | grep -c '^A='; case $- in *C*) echo C;; esac").await;
        assert_eq!((done.output.as_str(), done.codes()), ("it's 2 7 /usr 0027\nQ\n0\nC\n", vec![]));
    }
    let mut c = command("cat; echo err >&2");
    c.stdin = Some(stdin(b"first\nlast".to_vec()));
    c.split = true;
    assert_eq!(rig.run_it(&s, c).await.output, "first\nlasterr\n");
    let (a, b) = tokio::join!(rig.run(&s, "X=1; sleep 0.1"), rig.run(&s, "sleep 0.4; Y=2; B=3"));
    assert_eq!((a.codes(), b.codes()), (vec![], vec![]));
    assert_eq!(rig.run(&s, "echo $X$Y$B").await.output, "123\n");
    let detail = s.detail().await.unwrap();
    assert!(detail.variables.iter().any(|(name, _)| name == "B") && detail.umask == "0027", "{detail:?}");
    until("the copy", || s.state().copy.is_some()).await;
    copied(&s).await;
    std::fs::remove_dir_all(folder(&s)).unwrap();
    assert_eq!(rig.run(&s, "echo $X$Y$B").await.output, "123\n");
}

#[tokio::test]
async fn sh_on_a_far_side_keeps_its_state_however_the_command_ends() {
    let mut rig = Rig::new();
    rig.settings.shell = crate::backend::ShellChoice::Sh;
    rig.settings.env.insert("XDG_STATE_HOME".into(), rig.home().to_str().unwrap().into());
    rig.backend = Fake::new("box");
    let s = rig.session("main");
    for (text, code) in [("export A=1; cd /usr", 0), ("B=2; exit 3", 3), ("trap 'echo bye' EXIT; C=3", 0), ("set -e; D=4; false", 1)] {
        let done = rig.run(&s, text).await;
        assert_eq!((done.code(), done.codes()), (code, vec![]), "{text}");
    }
    assert_eq!(rig.run(&s, "echo $A$B$C$D $PWD").await.output, "1234 /usr\n");
}

#[tokio::test]
async fn text_is_bytes_whatever_the_locale() {
    for lang in ["C", "C.UTF-8", "en_US.UTF-8"] {
        let rig = Rig::with(&[("LANG", lang), ("LC_ALL", lang)]);
        let s = rig.session("main");
        assert_eq!(rig.run(&s, "printf %s '日本é'; : 'é'").await.output, "日本é", "{lang}");
        assert_eq!(rig.run(&s, "printf %s 'ü'").await.output, "ü", "{lang}");
    }
}
