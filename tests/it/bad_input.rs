//! Bad input and bad luck: each has a clear message and the right exit code, loses nothing, and leaves the daemon alive.

use crate::harness::lab;
use crate::harness::qd::{Home, machines_config};
use crate::harness::run::Done;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Asserts that a session made before the trouble is whole, and that the daemon is the one from before it.
struct Witness<'h> {
    home: &'h Home,
    daemon: u32,
}

impl<'h> Witness<'h> {
    fn new(home: &'h Home) -> Self {
        home.run(["exec", "-s", "witness", "--", "cd /usr; export W=kept"]).code(0);
        Self { home, daemon: home.daemon().expect("a command started it").pid }
    }

    #[track_caller]
    fn check(&self) {
        let done = self.home.run(["exec", "-s", "witness", "--", "echo $PWD $W"]).code(0);
        assert_eq!(done.out(), "/usr kept\n");
        assert_eq!(self.home.daemon().expect("it runs").pid, self.daemon, "the daemon is another one");
    }
}

/// Runs a command and asserts that nothing of it ran.
#[track_caller]
fn nothing_runs(home: &Home, backend: &str) -> Done {
    let done = home.run(["exec", "-b", backend, "--", "echo ran"]);
    assert_eq!(done.out(), "", "{done}");
    done
}

#[test]
fn a_wrong_config_is_refused_with_file_and_line() {
    for (text, says) in [
        ("terminal:\n  default_backend: local\n  tiemout: 5\n", &["config.yaml", "3", "tiemout", "timeout"][..]),
        ("terminal:\n  timeout: soon\n", &["config.yaml", "2", "timeout"]),
        ("terminal:\n  backends:\n    a: {type: ssh, host: h}\n    a: {type: ssh, host: i}\n", &["config.yaml", "4"]),
        ("terminal:\n  backends:\n    local: {type: ssh, host: h}\n", &["config.yaml", "3", "local"]),
        ("terminal:\n  backends:\n    a: {type: shh, host: h}\n", &["config.yaml", "3", "shh", "ssh"]),
        ("terminal:\n  backends: [\n", &["config.yaml"]),
        ("terminal:\n  default_backend: nowhere\n", &["config.yaml", "2", "nowhere"]),
    ] {
        let home = Home::with_config(text);
        nothing_runs(&home, "local").code(78).says(says);
        home.run(["config", "check"]).code(78).says(says);
    }
}

#[test]
fn a_config_that_cannot_be_read_is_refused() {
    let home = Home::new();
    for named in ["/no/such/config.yaml", "/etc"] {
        home.run(["--config", named, "exec", "--", "echo ran"]).code(78).says(&[named]);
    }
    std::fs::create_dir_all(home.config_path()).expect("the folder is ours");
    nothing_runs(&home, "local").code(78).says(&["config.yaml"]);
    std::fs::remove_dir(home.config_path()).expect("it is empty");
    std::fs::write(home.config_path(), b"terminal:\n  local: {cwd: \"\xff\xfe\"}\n").expect("the folder is ours");
    nothing_runs(&home, "local").code(78).says(&["config.yaml"]);
}

#[test]
fn a_config_that_goes_bad_changes_nothing_that_runs() {
    let home = Home::with_config("terminal:\n  timeout: 60\n");
    let witness = Witness::new(&home);
    home.write_config("terminal:\n  timeuot: 60\n");
    home.run(["config", "check"]).code(78).says(&["timeuot"]);
    witness.check();
    home.write_config("terminal:\n  timeout: 61\n");
    home.run(["config", "check"]).code(0);
    witness.check();
}

#[test]
fn another_config_than_the_daemons_is_refused_by_name() {
    let home = Home::with_config("terminal:\n  timeout: 60\n");
    let witness = Witness::new(&home);
    let other = home.path().join("other.yaml");
    std::fs::write(&other, "terminal:\n  timeout: 5\n").expect("the folder is ours");
    let named = other.to_str().expect("text");
    home.run(["--config", named, "exec", "--", "echo ran"]).code(78).says(&["other.yaml", "config.yaml"]);
    witness.check();
}

#[test]
fn an_unknown_backend_names_the_known_ones_and_the_nearest() {
    let home = Home::with_config("terminal:\n  backends:\n    gpu-one: {type: ssh, host: 127.0.0.1, port: 1}\n");
    let witness = Witness::new(&home);
    nothing_runs(&home, "gpu-on").code(64).says(&["gpu-on", "local", "gpu-one"]);
    nothing_runs(&home, "Local").code(64).says(&["local"]);
    let result = home.exec("nope", "echo ran");
    assert!(result["error"]["message"].as_str().is_some_and(|m| m.contains("nope")), "{result:#}");
    witness.check();
}

#[test]
fn wrong_use_is_refused() {
    let home = Home::new();
    for args in [
        &["exec"][..],
        &["exec", "--no-such-flag", "--", "echo ran"],
        &["exec", "--timeout", "0", "--", "echo ran"],
        &["exec", "--timeout", "-1s", "--", "echo ran"],
        &["exec", "--timeout", "soon", "--", "echo ran"],
        &["exec", "-e", "NOVALUE", "--", "echo ran"],
        &["exec", "-b", "", "--", "echo ran"],
        &["exec", "--command-file", "/no/such/file"],
        &["exec", "--stdin-file", "/no/such/file", "--", "echo ran"],
        &["no-such-command"],
        &["kill"],
    ] {
        let done = home.run(args);
        assert!(done.code == Some(64) && done.out.is_empty() && !done.err.is_empty(), "{args:?}\n{done}");
    }
}

#[test]
fn a_command_with_a_nul_is_refused() {
    let home = Home::new();
    let witness = Witness::new(&home);
    let done = home.run_with(["exec", "--command-file", "-"], &b"echo a\0b\n"[..]).code(64).says(&["NUL"]);
    assert_eq!(done.out(), "");
    home.run_with(["exec", "--command-file", "-"], &b"echo \xff\n"[..]).code(64).says(&["UTF-8"]);
    witness.check();
}

#[test]
fn a_command_of_three_megabytes_is_refused_and_one_that_fits_runs() {
    let home = Home::new();
    let witness = Witness::new(&home);
    let text = |len: usize| format!("X='{}'; echo ${{#X}}\n", "x".repeat(len));
    let done = home.run_with(["exec", "--command-file", "-"], text(3_000_000)).code(64).says(&["1048576 bytes", "--stdin-file"]);
    assert_eq!(done.out(), "");
    let done = home.run_with(["exec", "--command-file", "-"], text(1_000_000)).code(0);
    assert_eq!(done.out(), "1000000\n");
    // What the message advises works.
    std::fs::write(home.work().join("long"), text(3_000_000)).expect("the folder is ours");
    let done = home.run(["exec", "--stdin-file", "long", "--", "bash -s"]).code(0);
    assert_eq!(done.out(), "3000000\n");
    witness.check();
}

#[test]
fn a_refused_connection_is_unavailable_and_local_goes_on() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port is free").port();
    let home = Home::with_config(&format!("terminal:\n  backends:\n    box: {{type: ssh, host: 127.0.0.1, port: {port}}}\n"));
    let witness = Witness::new(&home);
    nothing_runs(&home, "box").code(69).says(&["box", "refused"]);
    let result = home.exec("box", "echo ran");
    assert_eq!(result["outcome"], "backend_unavailable", "{result:#}");
    assert!(result.get("exit_code").is_none(), "{result:#}");
    witness.check();
}

#[test]
fn something_that_is_not_ssh_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut link in listener.incoming().flatten() {
            // Whoever hangs up first is as good.
            let _ = std::io::Write::write_all(&mut link, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let config = format!("terminal:\n  backends:\n    web: {{type: ssh, host: 127.0.0.1, port: {port}, connect_timeout: 5}}\n");
    let home = Home::with_config(&config);
    let witness = Witness::new(&home);
    nothing_runs(&home, "web").code(69).says(&["web"]);
    witness.check();
}

fn keygen(path: &Path) -> String {
    let done = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status().expect("ssh-keygen starts");
    assert!(done.success());
    std::fs::read_to_string(path.with_extension("pub")).expect("ssh-keygen wrote it")
}

#[test]
fn a_wrong_key_needs_a_person() {
    let Some(machines) = lab::share(1) else { return };
    let home = Home::new();
    let key = home.path().join("other_key");
    keygen(&key);
    let mut machine = machines[0].clone();
    machine.key = key.to_str().expect("text").into();
    home.write_config(&machines_config(&[machine.clone()], &["connect_timeout: 10"]));
    let witness = Witness::new(&home);
    nothing_runs(&home, &machine.name).code(69).says(&[&machine.name, "key"]);
    home.wait_health(&machine.name, &["down"], crate::harness::wait::CAP);
    witness.check();
    machine.key = home.path().join("no_such_key").to_str().expect("text").into();
    home.write_config(&machines_config(&[machine.clone()], &[]));
    crate::harness::wait::until("the changed config is taken up", crate::harness::wait::CAP, || {
        nothing_runs(&home, &machine.name).code(69).err().contains("no_such_key").then_some(())
    });
    witness.check();
}

#[test]
fn an_unknown_host_key_is_refused_in_strict_mode_and_written_down_otherwise() {
    let Some(machines) = lab::share(1) else { return };
    let home = Home::new();
    let mut machine = machines[0].clone();
    let known = home.path().join("known_hosts");
    std::fs::write(&known, "").expect("the folder is ours");
    machine.known_hosts = known.to_str().expect("text").into();
    home.write_config(&machines_config(&[machine.clone()], &[]));
    nothing_runs(&home, &machine.name).code(69).says(&[&machine.name, "host key", "known_hosts"]);
    assert_eq!(std::fs::read_to_string(&known).expect("it is there"), "");

    let home = Home::with_config(&machines_config(&[machine.clone()], &[]).replace("host_key: strict", "host_key: accept-new"));
    assert_eq!(home.output(&machine.name, "hostname"), format!("{}\n", machine.name));
    let line = std::fs::read_to_string(&known).expect("it is there");
    assert!(line.contains(&machine.address) && line.lines().count() == 1, "{line:?}");
}

#[test]
fn a_changed_host_key_is_refused_whatever_the_mode() {
    let Some(machines) = lab::share(1) else { return };
    for mode in ["strict", "accept-new"] {
        let home = Home::new();
        let mut machine = machines[0].clone();
        let other = keygen(&home.path().join("other_host"));
        let known = home.path().join("known_hosts");
        let line = format!("{} {}\n", machine.address, other.rsplit_once(' ').expect("key and comment").0);
        std::fs::write(&known, &line).expect("the folder is ours");
        machine.known_hosts = known.to_str().expect("text").into();
        home.write_config(&machines_config(&[machine.clone()], &[]).replace("host_key: strict", &format!("host_key: {mode}")));
        let witness = Witness::new(&home);
        nothing_runs(&home, &machine.name).code(69).says(&[&machine.name, "host key", "changed"]);
        assert_eq!(std::fs::read_to_string(&known).expect("it is there"), line);
        home.wait_health(&machine.name, &["down"], crate::harness::wait::CAP);
        witness.check();
    }
}

#[test]
fn a_directory_without_permission_is_126() {
    let Some(machines) = lab::share(1) else { return };
    if !machines[0].accounts.iter().any(|a| a == "ada") {
        return;
    }
    let home = Home::with_machines(&[machines[0].account("ada")], &[]);
    let name = &machines[0].name;
    assert_eq!(home.output(name, "export A=1; id -un"), "ada\n");
    let done = home.run(["exec", "-b", name, "-C", "/root", "--", "echo ran"]).code(126).says(&["/root"]);
    assert_eq!(done.out(), "");
    assert_eq!(home.output(name, "echo $A"), "1\n");
}

#[test]
fn an_account_that_may_not_log_in_says_so() {
    let Some(machines) = lab::share(1) else { return };
    if !machines[0].accounts.iter().any(|a| a == "nologin") {
        return;
    }
    let home = Home::with_machines(&[machines[0].account("nologin")], &["connect_timeout: 10"]);
    let done = nothing_runs(&home, &machines[0].name);
    assert!(matches!(done.code, Some(69 | 125)), "{done}");
    done.says(&[&machines[0].name, "not available"]);
}

/// A folder on a small disk of its own; needs root.
struct SmallDisk<'p>(&'p Path);

impl<'p> SmallDisk<'p> {
    fn mount(path: &'p Path) -> Option<Self> {
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs"]).arg(path).output().ok()?;
        done.status.success().then_some(Self(path))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let done = Command::new("umount").arg("-l").arg(self.0).status();
        assert!(done.is_ok_and(|s| s.success()) || std::thread::panicking(), "{} stays mounted", self.0.display());
    }
}

#[test]
fn a_full_disk_under_the_state_folder_loses_nothing() {
    let home = Home::new();
    let state = home.state();
    let Some(_disk) = SmallDisk::mount(&state) else { return };
    {
        let witness = Witness::new(&home);
        // More output than the disk holds: the caller gets all of it, and is told that the log is not whole.
        let done = home.run(["exec", "--", "head -c 8000000 /dev/zero | tr '\\0' x"]).code(0);
        assert_eq!(done.out.len(), 8_000_000);
        let result = home.exec("local", "head -c 8000000 /dev/zero | tr '\\0' x; echo end");
        assert!(result["exit_code"] == 0 && result["output"].as_str().is_some_and(|o| o.ends_with("end\n")), "{result:#}");
        let codes: Vec<&str> = result["warnings"].as_array().into_iter().flatten().filter_map(|w| w["code"].as_str()).collect();
        assert!(codes.contains(&"output_lost"), "{codes:?}");
        witness.check();
        let filler = state.join("filler");
        // Fails at the end of the disk, as it should.
        let _ = std::fs::write(&filler, vec![0; 5_000_000]);
        let done = home.run(["exec", "--", "export A=1; echo full"]);
        assert!(done.code == Some(0) && done.out() == "full\n", "{done}");
        std::fs::remove_file(&filler).expect("it was there");
        witness.check();
    }
    home.run(["stop", "--force"]).code(0);
}
