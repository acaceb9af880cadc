//! The real binary in a home of its own.
//!
//! Invariant: when a `Home` goes, its daemon has ended and nothing that it started is left.

use super::lab::Machine;
use super::procs::{self, Proc};
use super::pty::Pty;
use super::run::{Done, Running, clean};
use super::wait;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a daemon may take to end, and its commands with it.
const END: Duration = Duration::from_secs(5);

/// A person's home with nothing in it: HOME, state, runtime folder, config.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    env: Vec<(String, String)>,
}

impl Home {
    /// Makes a home without a config: `local` alone.
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("qd-home-").tempdir().expect("a temporary folder can be made");
        for name in ["state", "run", "work"] {
            std::fs::DirBuilder::new().mode(0o700).create(folder.path().join(name)).expect("the folder is ours");
        }
        Self { folder, env: Vec::new() }
    }

    /// Makes a home whose config is this text.
    pub(crate) fn with_config(text: &str) -> Self {
        let home = Self::new();
        home.write_config(text);
        home
    }

    /// Makes a home with these machines as ssh backends, each with more lines of config (`health_interval: 1`).
    pub(crate) fn with_machines(machines: &[Machine], more: &[&str]) -> Self {
        Self::with_config(&machines_config(machines, more))
    }

    /// Sets a variable for every program started from here.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.env.push((name.into(), value.into()));
    }

    pub(crate) fn write_config(&self, text: &str) {
        let path = self.config_path();
        std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("the folder is ours");
        std::fs::write(path, text).expect("the folder is ours");
    }

    /// Where a config is looked for without `--config`.
    pub(crate) fn config_path(&self) -> PathBuf {
        self.path().join(".config/quarterdeck/config.yaml")
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// The directory that programs start in.
    pub(crate) fn work(&self) -> PathBuf {
        self.path().join("work")
    }

    /// Makes a command of `qd` with arguments, in this home's environment and nothing else.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = clean(OsStr::new(env!("CARGO_BIN_EXE_qd")));
        command.args(args).current_dir(self.work());
        command.envs([("USER", "ada"), ("LOGNAME", "ada"), ("SHELL", "/bin/bash"), ("TERM", "xterm-256color"), ("LANG", "C.UTF-8")]);
        command.env("HOME", self.path()).env("QD_STATE_DIR", self.state()).env("QD_RUNTIME_DIR", self.path().join("run"));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts `qd`.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        Running::start(self.command(args), Vec::new())
    }

    /// Runs `qd` to its end.
    #[track_caller]
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Done {
        self.start(args).done()
    }

    /// Runs `qd` with bytes on its stdin.
    #[track_caller]
    pub(crate) fn run_with<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>, stdin: impl Into<Vec<u8>>) -> Done {
        Running::start(self.command(args), stdin.into()).done()
    }

    /// Runs a command on a backend and gives back the JSON result.
    #[track_caller]
    pub(crate) fn exec(&self, backend: &str, command: &str) -> Value {
        self.exec_with(&["-b", backend], command)
    }

    /// Runs a command with more flags of `qd exec` and gives back the JSON result.
    #[track_caller]
    pub(crate) fn exec_with(&self, flags: &[&str], command: &str) -> Value {
        let args = [&["exec", "--json"], flags, &["--", command]].concat();
        self.run(args).json()
    }

    /// Runs a command that must exit with 0 and gives back its output.
    #[track_caller]
    pub(crate) fn output(&self, backend: &str, command: &str) -> String {
        let result = self.exec(backend, command);
        assert_eq!(result["exit_code"], 0, "{command:?} on {backend}: {result:#}");
        result["output"].as_str().expect("output is text").to_owned()
    }

    /// Gives a backend's row of `qd backends --json`.
    #[track_caller]
    pub(crate) fn backend(&self, name: &str) -> Value {
        let rows = self.run(["backends", "--json"]).code(0).json();
        let list = rows.as_array().or_else(|| rows["backends"].as_array()).expect("a list of backends");
        list.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no backend {name} in {rows:#}")).clone()
    }

    /// Waits until a backend's health is one of these words.
    #[track_caller]
    pub(crate) fn wait_health(&self, name: &str, words: &[&str], cap: Duration) -> Value {
        let mut last = Value::Null;
        let row = wait::within(cap, || {
            last = self.backend(name);
            let state = last["health"]["state"].as_str().or_else(|| last["state"].as_str()).unwrap_or_default();
            words.contains(&state).then(|| last.clone())
        });
        row.unwrap_or_else(|| panic!("{name} did not become one of {words:?} within {cap:?}: {last:#}"))
    }

    /// Runs `qd` in a terminal of its own.
    pub(crate) fn terminal<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>, rows: u16, cols: u16) -> Pty {
        let mut argv = vec![env!("CARGO_BIN_EXE_qd").into()];
        argv.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        let mut command = self.command::<&str>([]);
        let env: Vec<_> = command.get_envs().filter_map(|(k, v)| Some((k.to_owned(), v?.to_owned()))).collect();
        command = Pty::command(&argv);
        command.env_clear().envs(env).current_dir(self.work());
        Pty::start(command, rows, cols)
    }

    /// Finds the daemon: a process of our binary with this home's state folder that descends from no living client.
    pub(crate) fn daemon(&self) -> Option<Proc> {
        self.daemons().into_iter().next()
    }

    fn daemons(&self) -> Vec<Proc> {
        let state = self.state();
        procs::about(&state).into_iter().filter(|p| is_daemon(*p)).collect()
    }

    /// Everything alive that belongs to this home: its daemon with all that descends from it, and whatever carries its folder.
    pub(crate) fn processes(&self) -> Vec<Proc> {
        let mut found = procs::about(self.path());
        for daemon in self.daemons() {
            found.push(daemon);
            found.extend(daemon.descendants());
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// A daemon is `qd serve`, whoever started it.
fn is_daemon(process: Proc) -> bool {
    let exe = std::fs::read_link(format!("/proc/{}/exe", process.pid)).unwrap_or_default();
    let line = process.command_line();
    exe.file_name() == Path::new(env!("CARGO_BIN_EXE_qd")).file_name() && line.split(' ').nth(1).is_some_and(|_| line.contains("serve"))
}

/// Writes a config with these machines as ssh backends, each with more lines.
pub(crate) fn machines_config(machines: &[Machine], more: &[&str]) -> String {
    // A leader that is named is not asked for at the first start.
    let mut text = String::from("ui:\n  leader: ctrl-]\nterminal:\n  backends:\n");
    for m in machines {
        let _ = write!(
            text,
            "    {}:\n      type: ssh\n      host: {}\n      port: {}\n      user: {}\n      key: {}\n      known_hosts: {}\n      host_key: strict\n",
            m.name, m.address, m.port, m.user, m.key, m.known_hosts
        );
        for line in more {
            let _ = writeln!(text, "      {line}");
        }
    }
    text
}

impl Drop for Home {
    fn drop(&mut self) {
        let family = self.processes();
        let daemons = self.daemons();
        for daemon in &daemons {
            daemon.signal(Signal::SIGTERM);
        }
        let left = || -> Vec<Proc> {
            let mut left: Vec<Proc> = family.iter().copied().filter(Proc::alive).chain(procs::about(self.path())).collect();
            left.sort_unstable();
            left.dedup();
            left
        };
        if wait::within(END, || left().is_empty().then_some(())).is_some() {
            return;
        }
        let lines: Vec<String> = left().iter().map(|p| format!("{} {}", p.pid, p.command_line())).collect();
        for process in left() {
            process.signal(Signal::SIGKILL);
        }
        assert!(std::thread::panicking(), "left running after the end of the daemon:\n{}", lines.join("\n"));
    }
}
