//! Places that a program leads to, with real programs of this machine.

use crate::backend::command::Command;
use crate::backend::local::tests::{alive, nonce, start};
use crate::backend::{Ask, Backend, BackendError, Environment, ErrorKind, Exit, Family, Guard, Members, Shell, ShellChoice, Start};
use crate::config::{BackendSettings, CommandSettings, KindSettings};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CAP: Duration = Duration::from_secs(20);

fn command(words: &[&str]) -> Command {
    let settings = CommandSettings { words: words.iter().map(|word| (*word).to_owned()).collect(), same_files: true };
    let backend = BackendSettings::new("box", KindSettings::Command(settings.clone()));
    Command::new(&backend, &settings, crate::backend::ClientEnv::default(), Guard::default())
}

/// A way that can be blocked and torn: a program that leads to this machine.
struct Door {
    folder: tempfile::TempDir,
    command: Command,
}

impl Door {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("door");
        // What goes through it passes the two cats: with them it ends.
        let text = "#!/bin/bash\nset -o pipefail; d=${0%/*}\n[ -e $d/shut ] && { echo 'the door is shut' >&2; exit 9; }\necho $$ >>$d/clients\n\
            { cat 3>&- | \"$@\" 2>&3 3>&- | cat 3>&-; } 3>&2 2>/dev/null\n";
        std::fs::write(&program, text).expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        let command = command(&[program.to_str().expect("a name"), "env"]);
        Self { folder, command }
    }

    fn shut(&self) -> PathBuf {
        self.folder.path().join("shut")
    }

    /// Ends everything that leads there.
    fn tear(&self) {
        let clients = std::fs::read_to_string(self.folder.path().join("clients")).expect("written by the program");
        for pid in clients.lines().filter_map(|line| line.parse().ok()).filter(|pid| alive(*pid)) {
            let pid = nix::unistd::Pid::from_raw(pid.cast_signed());
            // It may end by itself just now.
            let _ = nix::sys::signal::killpg(pid, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// A command that runs there.
struct Running {
    shell: Shell,
    family: Family,
}

async fn run(command: &Command, text: &str) -> Running {
    let mut shell = command.start(start()).await.expect("ready");
    let cookie = format!("QD_PROCESS={}", nonce());
    let set_up = format!("exec 3<&0 0</dev/null; PATH={}; export {cookie}", std::env::var("PATH").expect("there is one"));
    let text = format!("{} {}\n{set_up}{text}", set_up.len(), text.len());
    shell.stdin.write_all(text.as_bytes()).await.expect("sent");
    let family = Family { pid: shell.ready.pid, start_time: None, age: None, cookie };
    Running { shell, family }
}

impl Running {
    async fn exit(&mut self) -> Exit {
        tokio::time::timeout(CAP, &mut self.shell.exit).await.expect("ended in time")
    }

    async fn line(&mut self) -> String {
        let mut line = Vec::new();
        let read = async {
            while !line.ends_with(b"\n") {
                line.push(self.shell.stdout.read_u8().await.expect("a line"));
            }
        };
        tokio::time::timeout(CAP, read).await.expect("a line in time");
        String::from_utf8(line).expect("text").trim().to_owned()
    }
}

async fn end(command: &Command, family: &Family) -> Members {
    let end = command.family(family.clone(), Ask::End { grace: Duration::from_millis(200) });
    tokio::time::timeout(CAP, end).await.expect("in time").expect("asked")
}

#[tokio::test]
async fn a_command_runs_with_its_streams_code_and_session() {
    let backend = command(&["env"]);
    assert!(!backend.about().link.borrow().up);
    let mut run = run(&backend, "echo out; echo err >&2; ps -o sid=,pgid= -p $$; env | grep -c .; exit 7").await;
    let pid = run.shell.ready.pid.to_string();
    assert_eq!(run.line().await, "out");
    assert_eq!(run.line().await.split_whitespace().collect::<Vec<_>>(), [pid.as_str(), pid.as_str()]);
    let _few = run.line().await;
    let mut err = String::new();
    tokio::time::timeout(CAP, run.shell.stderr.read_to_string(&mut err)).await.expect("in time").expect("read");
    assert_eq!(err, "err\n");
    assert!(matches!(run.exit().await, Exit::Code(7)));
    assert_eq!((backend.about().link.borrow().up, backend.about().link.borrow().epoch), (true, 1));
    assert!(!backend.check().await.expect("it answers").fresh);
    backend.close().await;
    assert!(!backend.about().link.borrow().up);
}

#[tokio::test]
async fn a_signal_is_told_as_a_code_and_nothing_is_said_of_it() {
    let backend = command(&["env"]);
    let mut run = run(&backend, "kill -9 $$").await;
    let how = run.exit().await;
    assert!(matches!(how.firsthand(), Exit::Signal(name) if name == "SIGKILL"));
    let mut err = String::new();
    run.shell.stderr.read_to_string(&mut err).await.expect("read");
    assert_eq!(err, "");
}

#[tokio::test]
async fn all_of_a_command_is_ended_and_it_is_verified() {
    let backend = command(&["env"]);
    let mut run = run(&backend, "trap '' TERM; setsid sleep 600 & echo $!; (trap '' TERM; sleep 600) & echo $!; wait").await;
    let children: Vec<u32> = [run.line().await, run.line().await].iter().map(|line| line.parse().expect("a pid")).collect();
    let members = end(&backend, &run.family).await;
    assert!(members.verified, "{members:?}");
    assert!(children.iter().all(|pid| !alive(*pid)));
    run.exit().await;
}

#[tokio::test]
async fn what_a_command_left_keeps_its_streams_and_the_shell_is_known_to_be_gone() {
    let backend = command(&["env"]);
    let folder = tempfile::tempdir().expect("a folder");
    let stop = folder.path().join("stop");
    let text = format!("(while [ ! -e {} ]; do echo x; sleep 0.05; done) & echo $!; exit 5", stop.display());
    let mut run = run(&backend, &text).await;
    let writer: u32 = run.line().await.parse().expect("a pid");
    let gone = async { while backend.family(run.family.clone(), Ask::Survivors).await.expect("asked").alive.contains(&run.family.pid) {} };
    tokio::time::timeout(CAP, gone).await.expect("in time");
    for _ in 0..10 {
        assert_eq!(run.line().await, "x");
    }
    assert!(alive(writer));
    std::fs::write(&stop, "").expect("written");
    assert!(matches!(run.exit().await, Exit::Code(5)));
}

#[tokio::test]
async fn a_way_that_is_torn_loses_every_shell_and_is_made_again() {
    let door = Door::new();
    let mut running = run(&door.command, "echo up; sleep 600").await;
    running.line().await;
    std::fs::write(door.shut(), "").expect("written");
    door.tear();
    assert!(matches!(running.exit().await, Exit::Lost(_)));
    let mut link = door.command.about().link.clone();
    tokio::time::timeout(CAP, link.wait_for(|link| !link.up)).await.expect("in time").expect("it lives");
    let why = door.command.start(start()).await.err().expect("it is shut");
    assert!(why.kind == ErrorKind::Unreachable && why.message.contains("code 9: the door is shut"), "{why:?}");
    std::fs::remove_file(door.shut()).expect("it was there");
    let again = run(&door.command, "sleep 600").await;
    assert_eq!(link.borrow_and_update().epoch, 2);
    assert!(end(&door.command, &again.family).await.verified);
    assert!(end(&door.command, &running.family).await.verified, "its processes are ended, as the lost command's are");
}

/// The control shell alone dies: nothing else is lost.
#[tokio::test]
async fn a_control_shell_that_dies_is_made_anew() {
    let door = Door::new();
    door.command.check().await.expect("connected");
    door.tear();
    let mut running = run(&door.command, "echo up; read -r line <&3; exit 4").await;
    running.line().await;
    assert!(door.command.about().link.borrow().up);
    running.shell.stdin.write_all(b"go\n").await.expect("sent");
    running.shell.stdin.shutdown().await.expect("ended");
    let how = running.exit().await;
    assert!(matches!(how, Exit::Code(4)), "{how:?}");
    let mut other = run(&door.command, "sleep 600").await;
    assert!(end(&door.command, &other.family).await.verified);
    // The first cat of the door ends with its stdin.
    other.shell.stdin.shutdown().await.expect("ended");
    other.exit().await;
}

#[tokio::test]
async fn what_leads_nowhere_says_why() {
    let error = |words: &'static [&'static str]| async move { command(words).check().await.expect_err("it leads nowhere") };
    let why: BackendError = error(&["no-such-program", "x"]).await;
    assert!(why.kind == ErrorKind::Config && why.message.contains("no program no-such-program on this machine"), "{why:?}");
    let why = error(&["sh", "-c", "echo 'no such pod' >&2; exit 1"]).await;
    assert!(why.kind == ErrorKind::Unreachable && why.message.contains("code 1: no such pod"), "{why:?}");
    let why = error(&["sh", "-c", "exec 2>&1; exec sh"]).await;
    assert!(why.kind == ErrorKind::Config && why.message.contains("one stream"), "{why:?}");
    // In a root of its own, as a container is.
    let words = ["unshare", "--user", "--map-root-user", "--mount", "--root=/", "--pid", "--fork", "--kill-child"];
    let why = command(&words).start(start()).await.err().expect("its numbers are not ours");
    assert!(why.kind == ErrorKind::Config && why.fix.as_deref() == Some("set `same_files: false`"), "{why:?}");
    let late = Start { timeout: Duration::from_millis(200), ..start() };
    let slow = command(&["sh", "-c", "if [ -e /proc/$$/x ]; then :; fi; exec sleep 600"]);
    let why = slow.start(late).await.err().expect("nothing is ready");
    assert!(matches!(why.kind, ErrorKind::TimedOut), "{why:?}");
    slow.close().await;
}

#[tokio::test]
async fn shells_of_every_choice_start_with_the_environment_asked_for() {
    let backend = command(&["env", "PLACE=here"]);
    for (choice, kind) in [(ShellChoice::Auto, "bash"), (ShellChoice::Bash, "bash"), (ShellChoice::Sh, "sh")] {
        let shell = backend.start(Start { shell: choice, ..start() }).await.expect("ready");
        assert_eq!(shell.ready.kind, kind);
    }
    for (environment, want) in [(Environment::Login, "here"), (Environment::Empty, "none")] {
        let mut shell = backend.start(Start { environment, ..start() }).await.expect("ready");
        let text = "echo ${PLACE-none}";
        shell.stdin.write_all(format!("0 {}\n{text}", text.len()).as_bytes()).await.expect("sent");
        let mut out = String::new();
        tokio::time::timeout(CAP, shell.stdout.read_to_string(&mut out)).await.expect("in time").expect("read");
        assert_eq!(out.trim(), want);
    }
}
