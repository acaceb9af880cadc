//! Accounts and machines as people have them: noisy, slow and broken start files, servers that allow one thing only, places
//! that cannot be written to. Each works, or says why not.

use crate::harness::lab::{self, Machine};
use crate::harness::qd::Home;
use crate::harness::wait;
use std::io::Read;
use std::path::PathBuf;

/// An account of a machine whose files the test may change; they are put back when it goes.
struct Account {
    machine: Machine,
    home: PathBuf,
}

/// What `.bashrc` was before.
const ASIDE: &str = ".bashrc.aside";

impl Account {
    fn new(machine: &Machine) -> Self {
        let (machine, home) = (machine.account("ada"), machine.folder("home").join("ada"));
        std::fs::copy(home.join(".bashrc"), home.join(ASIDE)).expect("the lab's accounts have a .bashrc");
        Self { machine, home }
    }

    /// What bash reads for a command over ssh too.
    fn start_file(&self, text: &str) {
        std::fs::write(self.home.join(".bashrc"), text).expect("the lab's files are ours");
    }

    /// Does something as the machine's root.
    #[track_caller]
    fn root(&self, command: &str) {
        let done = self.machine.account("root").ssh().arg(command).output().expect("ssh starts");
        assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn qd(&self, more: &[&str]) -> Home {
        Home::with_machines(std::slice::from_ref(&self.machine), more)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // In a test that is failing already, its own panic says more.
        let back = std::fs::rename(self.home.join(ASIDE), self.home.join(".bashrc"));
        assert!(back.is_ok() || std::thread::panicking(), "{back:?}");
    }
}

/// Two commands of one session: clean output, and what the first one set is there for the second.
#[track_caller]
fn works(home: &Home, backend: &str, what: &str) {
    for (command, output) in [("export KEPT=1; cd /usr; echo ok", "ok\n"), ("echo $PWD $KEPT", "/usr 1\n")] {
        let result = home.exec(backend, command);
        assert_eq!((&result["exit_code"], &result["output"]), (&0.into(), &output.into()), "{what}: {result:#}");
        assert_eq!(result["warnings"], serde_json::json!([]), "{what}: {result:#}");
    }
}

#[test]
fn start_files_that_say_something_or_take_their_time_do_no_harm() {
    let Some(machines) = lab::alone(1) else { return };
    let account = Account::new(&machines[0]);
    let rows = [
        ("a banner", "echo welcome; echo noise >&2"),
        ("no end of line", "printf 'last login: '"),
        ("stty", "stty erase ^H"),
        ("aliases and options", "alias ls='ls --color'; set -o noclobber; shopt -s nullglob extglob"),
        ("a trap and a function", "trap 'echo bye' EXIT; cd() { builtin cd \"$@\"; }; echo() { builtin echo \"$@\"; }"),
        ("other variables of ours", "n=1 s=2 p=3 PS1=x PROMPT_COMMAND=false IFS=:"),
        ("5 s", "sleep 5"),
    ];
    for (what, text) in rows {
        account.start_file(text);
        works(&account.qd(&[]), &account.machine.name, what);
    }
}

#[test]
fn start_files_that_stop_the_login_are_told() {
    let Some(machines) = lab::alone(1) else { return };
    let account = Account::new(&machines[0]);
    let rows: [(&str, i32, &[&str]); 5] = [
        ("exit 3", 125, &["ended with code 3", "start files"]),
        ("echo 'quota exceeded'; exit 1", 125, &["quota exceeded"]),
        ("read -r x", 69, &["no shell was ready", "start file", "connect_timeout"]),
        ("exec fish", 69, &["no shell was ready"]),
        ("echo waits for the licence server; sleep 40", 69, &["no shell was ready", "waits for the licence server", "connect_timeout"]),
    ];
    for (text, code, says) in rows {
        account.start_file(text);
        let home = account.qd(&["connect_timeout: 4"]);
        let done = home.run(["exec", "-b", &account.machine.name, "--", "echo ran"]).code(code).says(says);
        assert_eq!(done.out(), "", "{text}");
        // One broken start file is not an outage: the moment it is right again, commands run.
        account.start_file("");
        works(&home, &account.machine.name, text);
    }
}

#[test]
fn a_server_that_allows_one_thing_only_is_told() {
    let Some(machines) = lab::alone(1) else { return };
    let m = &machines[0];
    let home = Home::with_machines(&machines, &[]);
    let rows: [(&str, &[&str]); 3] = [
        ("ForceCommand echo only this", &["forced command", "only this"]),
        ("ForceCommand internal-sftp", &["sftp alone", "sftp connections only"]),
        ("ForceCommand /bin/false", &["ended with code 1"]),
    ];
    for (line, says) in rows {
        m.ctl(&["set", line]);
        home.run(["backends", "disconnect", &m.name]);
        let done = home.run(["exec", "-b", &m.name, "--", "echo ran"]).code(125).says(says);
        assert_eq!(done.out(), "", "{line}");
        m.ctl(&["unset"]);
        home.run(["backends", "disconnect", &m.name]);
        works(&home, &m.name, line);
    }
    let nobody = Home::with_machines(&[m.account("nologin")], &[]);
    nobody.run(["exec", "-b", &m.name, "--", "echo ran"]).code(125).says(&["refuses logins", "login shell"]);
}

#[test]
fn a_server_that_takes_no_more_logins_is_waited_for() {
    let Some(machines) = lab::alone(1) else { return };
    let (m, home) = (&machines[0], Home::with_machines(&machines, &["connect_timeout: 3"]));
    let account = Account::new(m);
    // Only the server itself counts logins, so it must read its settings again.
    m.ctl(&["set", "MaxStartups 1:100:1"]);
    account.root("kill -HUP 1");
    // Somebody who has connected and does not log in.
    let place = (m.address.as_str(), m.port);
    let mut other = wait::until("the server listens again", wait::CAP, || std::net::TcpStream::connect(place).ok());
    other.read_exact(&mut [0; 8]).expect("it greets");
    let done = home.run(["exec", "-b", &m.name, "--", "echo ran"]).code(69).says(&[&m.name, "before"]);
    assert_eq!(done.out(), "");
    drop(other);
    home.run(["backends", "connect", &m.name]).code(0);
    works(&home, &m.name, "MaxStartups");
    m.ctl(&["unset"]);
    account.root("kill -HUP 1");
    drop(wait::until("the server listens again", wait::CAP, || std::net::TcpStream::connect(place).ok()));
}

#[test]
fn a_server_with_few_sessions_runs_many_commands() {
    let Some(machines) = lab::alone(1) else { return };
    let m = &machines[0];
    for sessions in ["1", "2", "10"] {
        m.ctl(&["set", &format!("MaxSessions {sessions}")]);
        let home = Home::with_machines(&machines, &[]);
        works(&home, &m.name, sessions);
        let run = |i: i32| home.start(["exec", "-b", &m.name, "--", &format!("echo a{i} $KEPT; exit {i}")]);
        let running: Vec<_> = (1..=20).map(|i| (i, run(i))).collect();
        for (i, one) in running {
            assert_eq!(one.done().code(i).out(), format!("a{i} 1\n"), "MaxSessions {sessions}");
        }
        m.ctl(&["unset"]);
    }
}

#[test]
fn what_cannot_be_written_to_is_passed_over() {
    let Some(machines) = lab::alone(1) else { return };
    let account = Account::new(&machines[0]);
    let b = account.machine.name.as_str();
    let place = "/home/ada/.local/state";
    account.root(&format!("mkdir -p {place}; chown -R ada /home/ada/.local"));
    let mount = |options: &str| format!("mount -t tmpfs -o mode=700,uid=$(id -u ada),{options} tmpfs {place}");
    let full = format!("{} && dd if=/dev/zero of={place}/fill bs=1k count=100 2>/dev/null; true", mount("size=64k"));
    let rows = [
        ("noexec", mount("noexec"), format!("umount -l {place}")),
        ("full from the start", full, format!("umount -l {place}")),
        ("a read-only home", "mount -t tmpfs -o ro tmpfs /home/ada".to_owned(), "umount -l /home/ada".to_owned()),
        ("no home", "mount -t tmpfs -o mode=000 tmpfs /home/ada".to_owned(), "umount -l /home/ada".to_owned()),
    ];
    for (what, before, after) in rows {
        account.root(&before);
        let home = account.qd(&[]);
        let result = home.exec(b, "export KEPT=1; cd /usr; echo ok");
        let again = home.exec(b, "echo $PWD $KEPT");
        drop(home);
        account.root(&after);
        assert_eq!((&result["exit_code"], &result["output"]), (&0.into(), &"ok\n".into()), "{what}: {result:#}");
        assert_eq!(again["output"], "/usr 1\n", "{what}: {again:#}");
    }
}

#[test]
fn a_state_folder_that_fills_up_or_goes_while_in_use_loses_no_more_than_it_says() {
    let Some(machines) = lab::alone(1) else { return };
    let account = Account::new(&machines[0]);
    let (b, home, place) = (account.machine.name.as_str(), account.qd(&[]), "/home/ada/.local/state");
    account.root(&format!(
        "mkdir -p {place}; chown -R ada /home/ada/.local; mount -t tmpfs -o mode=700,uid=$(id -u ada),size=128k tmpfs {place}"
    ));
    works(&home, b, "room");
    account.root(&format!("dd if=/dev/zero of={place}/fill bs=1k count=200 2>/dev/null; true"));
    let result = home.exec(b, "export MORE=2; cd /etc; echo said");
    assert_eq!((&result["exit_code"], &result["output"]), (&0.into(), &"said\n".into()), "{result:#}");
    assert_eq!(result["warnings"][0]["code"], "state_not_saved", "{result:#}");
    account.root(&format!("rm {place}/fill"));
    let result = home.exec(b, "echo $PWD $KEPT $MORE; export MORE=3");
    assert_eq!((&result["output"], &result["warnings"]), (&"/etc 1\n".into(), &serde_json::json!([])), "{result:#}");
    assert_eq!(home.output(b, "echo $MORE"), "3\n");
    account.root(&format!("umount -l {place}"));
    // The daemon's copy is sent again, or it says that there was none yet.
    let result = home.exec(b, "echo $PWD; echo still here");
    assert!(result["output"].as_str().is_some_and(|o| o.ends_with("still here\n")), "{result:#}");
    let codes = result["warnings"].as_array().into_iter().flatten().map(|w| w["code"].clone()).collect::<Vec<_>>();
    assert!(result["output"].as_str().is_some_and(|o| o.starts_with("/etc\n")) || codes == ["state_lost"], "{result:#}");
}
