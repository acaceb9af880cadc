//! Variables that a command made read-only, our own ones among them: no later command is hindered by them.

use super::{Done, Rig, command};
use crate::backend::ShellChoice;
use crate::model::{Outcome, WarningCode};
use crate::session::Session;
use std::path::Path;
use std::sync::Arc;

/// Names that the shell's own text sets, unsets or reads.
const OURS: [&str; 22] = [
    "OLDPWD",
    "PWD",
    "PATH",
    "HOME",
    "IFS",
    "LC_ALL",
    "SECONDS",
    "POSIXLY_CORRECT",
    "BASH_EXECUTION_STRING",
    "BASH_XTRACEFD",
    "REPLY",
    "QD_PROCESS",
    "AI_AGENT",
    "FWD",
    "MY_TOKEN",
    "__qd_n",
    "__qd_p",
    "__qd_r",
    "__qd_k",
    "__qdr_n",
    "__qdr_m",
    "__qdr_p",
];

fn rig() -> Rig {
    set_up(Rig::with(&[("MY_TOKEN", "s3cret")]))
}

fn set_up(mut rig: Rig) -> Rig {
    rig.settings.forwarded = [("FWD".to_owned(), "f".to_owned())].into();
    rig.settings.secret_names = vec!["MY_TOKEN".into()];
    rig
}

/// A rig whose sessions are of dash or of busybox ash.
fn sh(program: &str) -> Option<Rig> {
    let program = Path::new(program);
    let mut rig = set_up(Rig::on(&[("MY_TOKEN", "s3cret")], |local| local.with_sh(program)));
    rig.settings.shell = ShellChoice::Sh;
    program.exists().then_some(rig)
}

fn shells() -> impl Iterator<Item = Rig> {
    ["/usr/bin/dash", "/usr/bin/busybox"].into_iter().filter_map(sh)
}

/// Runs a command twice: the second one has a shell that started after the first.
async fn goes_on(rig: &Rig, session: &Arc<Session>, what: &str) {
    for _ in 0..2 {
        let mut c = command("echo \"$A\"; cd /usr/share 2>/dev/null; [ -n \"$QD_PROCESS\" ] && echo \"$QD_PROCESS\"; (exit 4)");
        c.agent = Some("agent".into());
        let id = c.id.clone();
        let done = rig.run_it(session, c).await;
        assert_eq!((done.code(), done.output.as_str(), done.codes()), (4, format!("kept\n{id}\n").as_str(), vec![]), "{what}");
        assert_eq!(done.ended.cwd, "/usr/share", "{what}");
        assert_eq!(rig.run(session, "cd /etc").await.ended.cwd, "/etc", "{what}");
    }
}

/// The outcome and the warnings of a command after which the session must go on.
async fn after(rig: &Rig, text: &str) -> Done {
    let s = rig.session("main");
    let done = rig.run(&s, &format!("A=kept; {text}")).await;
    goes_on(rig, &s, text).await;
    done
}

#[tokio::test]
async fn bash_goes_on_whatever_is_read_only() {
    let rig = rig();
    for name in OURS {
        let s = rig.session(&format!("s-{}", name.to_lowercase()));
        for text in [format!("A=kept; readonly {name}; (exit 3)"), "cd /usr; (exit 3)".into()] {
            assert_eq!(rig.run(&s, &text).await.code(), 3, "{name}: {text}");
        }
        goes_on(&rig, &s, name).await;
    }
}

#[tokio::test]
async fn bash_goes_on_when_all_is_read_only_with_values() {
    let all = OURS
        .map(|name| if matches!(name, "PATH" | "HOME" | "LC_ALL" | "BASH_XTRACEFD") { name.to_owned() } else { format!("{name}=1") })
        .join(" ");
    let done = after(&rig(), &format!("cd /usr; declare -r {all}; (exit 5)")).await;
    assert_eq!((done.code(), done.codes()), (5, vec![]));
    // A trap, an exit in a function, options of a command, another way to end.
    for end in ["trap 'echo bye' EXIT", "f() { exit; }; f", "builtin() { :; }; exit"] {
        after(&rig(), &format!("declare -r {all}; {end}")).await;
    }
}

#[tokio::test]
async fn what_is_ours_is_left_out_and_the_rest_is_kept() {
    let rig = rig();
    let s = rig.session("main");
    rig.run(&s, "readonly QD_PROCESS MY_TOKEN BASH_EXECUTION_STRING R='a\nb' OLDPWD; declare -A M=([k]='v w'); export X=1; umask 027")
        .await;
    let done = rig.run(&s, "echo \"$R ${M[k]} $(umask) $MY_TOKEN\"; env | grep -c '^X='; (R=2) 2>/dev/null || echo still").await;
    assert_eq!((done.output.as_str(), done.codes()), ("a\nb v w 0027 s3cret\n1\nstill\n", vec![]));
    s.flush().await;
    let hidden = std::process::Command::new("grep").args(["-rl", "s3cret"]).arg(rig.dir.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&hidden.stdout).lines().all(|l| l.ends_with(".log")), "{hidden:?}");
}

#[tokio::test]
async fn a_login_that_makes_ours_read_only_is_no_hindrance() {
    let rig = rig();
    std::fs::write(rig.home().join(".bash_profile"), "A=kept; declare -r OLDPWD PWD FWD=x SECONDS QD_PROCESS POSIXLY_CORRECT __qdr_m=1\n")
        .unwrap();
    let s = rig.session("main");
    goes_on(&rig, &s, "login").await;
    assert_eq!(rig.run(&s, "echo $FWD").await.output, "f\n");
}

#[tokio::test]
async fn a_variable_for_one_command_that_is_read_only_runs_nothing() {
    for rig in shells().chain([rig()]) {
        let s = rig.session("main");
        rig.run(&s, "A=kept; readonly FOO=1").await;
        for _ in 0..2 {
            let mut c = command("echo ran $FOO");
            c.env = vec![("OTHER".into(), "x".into()), ("FOO".into(), "2".into())];
            let done = rig.run_it(&s, c).await;
            let Outcome::SpawnFailed { reason } = &done.ended.outcome else { panic!("{:?}", done.ended) };
            assert!(reason.starts_with("FOO is read-only"), "{reason}");
            assert_eq!((done.output.as_str(), done.codes()), ("", vec![]));
        }
        let mut c = command("echo $FOO $OTHER");
        c.env = vec![("OTHER".into(), "x".into())];
        assert_eq!(rig.run_it(&s, c).await.output, "1 x\n");
        goes_on(&rig, &s, "env").await;
    }
}

#[tokio::test]
async fn sh_goes_on_whatever_is_read_only() {
    for rig in shells() {
        for name in OURS {
            let s = rig.session(&format!("s-{}", name.to_lowercase()));
            let done = rig.run(&s, &format!("A=kept; readonly {name}; (exit 3)")).await;
            assert_eq!((done.code(), done.codes()), (3, vec![]), "{name}");
            if name != "PWD" && name != "OLDPWD" {
                // There `cd` ends such a shell with its own message.
                assert_eq!(rig.run(&s, "cd /usr; (exit 3)").await.code(), 3, "{name}");
            }
            goes_on(&rig, &s, name).await;
        }
    }
}

#[tokio::test]
async fn a_shell_that_ends_before_its_command_has_run_nothing() {
    let rig = rig();
    let s = rig.session("main");
    rig.run(&s, "A=kept").await;
    s.cool();
    // The snapshot itself ends every shell that loads it.
    let file = {
        let state = s.state();
        format!("{}/{}.v", state.folder.as_ref().unwrap(), state.snapshot.as_ref().unwrap().id)
    };
    let text = std::fs::read_to_string(&file).unwrap();
    for damage in ["exit 0", "exec 0</dev/null"] {
        std::fs::write(&file, format!("{text}{damage}\n")).unwrap();
        let done = rig.run(&s, "echo ran").await;
        assert!(matches!(done.ended.outcome, Outcome::SpawnFailed { .. }), "{damage}: {:?}", done.ended);
        assert_eq!(done.output, "");
    }
    std::fs::write(&file, text).unwrap();
    goes_on(&rig, &s, "mended").await;
}

#[tokio::test]
async fn what_the_shell_leaves_is_ours_alone_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    for rig in shells().chain([rig()]) {
        let s = rig.session("main");
        // A directory that is gone, and a record that can only go to a file.
        let done = rig.run(&s, "umask 022; mkdir -p ~/a; cd ~/a; PWD=/nonsense; readonly IFS").await;
        assert_eq!(
            done.ended.cwd,
            if rig.settings.shell == ShellChoice::Sh { "/nonsense".to_owned() } else { format!("{}/a", rig.home().display()) }
        );
        let done = rig.run(&s, "exec 8>&- 9>&- 530>&- 531>&- 2>&- 1>&-; exit 3").await;
        assert!(done.codes().iter().all(|c| *c == WarningCode::CwdFallback), "{:?}", done.ended);
        assert_eq!(rig.run(&s, "umask").await.output, "0022\n");
        let folder = s.state().folder.clone().unwrap();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
    }
}
