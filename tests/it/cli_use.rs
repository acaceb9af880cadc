//! Wrong use of the command line: the message, the exit code, and no daemon started for it.

use crate::harness::qd::Home;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

#[test]
fn wrong_use_exits_with_64_and_says_what_is_wrong() {
    let home = Home::new();
    let table: &[(&[&str], &str)] = &[
        (&["nonsense"], "nonsense"),
        (&["exec"], "COMMAND"),
        (&["exec", "--"], "COMMAND"),
        (&["exec", "-t", "--", "true"], "-t"),
        (&["exec", "--all", "--", "true"], "--all"),
        (&["exec", "--timeout", "0", "--", "true"], "at least 1ms"),
        (&["exec", "--timeout", "-5", "--", "true"], "negative"),
        (&["exec", "--timeout", "soon", "--", "true"], "90s"),
        (&["exec", "--json=yaml", "--", "true"], "yaml"),
        (&["exec", "--json", "--max-output", "-1", "--", "true"], "--max-output"),
        (&["exec", "--max-output", "5", "--", "true"], "--json"),
        (&["exec", "-e", "NOVALUE", "--", "true"], "NAME=VALUE"),
        (&["exec", "-e", "1A=x", "--", "true"], "variable's name"),
        (&["exec", "-b", "", "--", "true"], "--backend is empty"),
        (&["exec", "-i", "--stdin-file", "x", "--", "true"], "--stdin-file"),
        (&["exec", "--command-file", "x", "--", "true"], "--command-file"),
        (&["exec", "--command-file", "/nonexistent/x"], "/nonexistent/x"),
        (&["exec", "--stdin-file", "/nonexistent/x", "--", "cat"], "/nonexistent/x"),
        (&["exec", "--stdin-file", "/", "--", "cat"], "directory"),
        (&["exec", "--command-file", "-", "-i"], "stdin cannot be both"),
        (&["exec", "--shell", "--argv", "--", "true"], "--argv"),
        (&["kill", "-s", "NOPE", "k7f3"], "TERM"),
        (&["kill"], "ID"),
        (&["wait"], "ID"),
        (&["wait", "--until", "soon", "k7f3"], "quiet=MS"),
        (&["logs", "k7f3", "--grep", "("], "--grep"),
        (&["logs", "k7f3", "--tail", "3", "--offset", "3"], "--tail"),
        (&["config"], "Usage"),
        (&["--color", "blue", "ps"], "blue"),
        (&["--config", "", "ps"], "--config"),
    ];
    for (args, text) in table {
        home.run(*args).code(64).says(&[text]);
    }
    assert!(home.daemon().is_none(), "wrong use starts no daemon");
}

#[test]
fn text_that_cannot_be_sent_is_refused_before_anything_starts() {
    let home = Home::new();
    let file = home.work().join("command");
    let table: [(Vec<u8>, &str); 3] = [
        (vec![b'x'; 3 << 20], "the limit is 1048576 bytes"),
        (b"echo a\0b".to_vec(), "NUL byte (byte 6)"),
        (b"echo \xff".to_vec(), "not valid UTF-8 (byte 5)"),
    ];
    for (bytes, text) in table {
        std::fs::write(&file, &bytes).expect("the folder is ours");
        home.run([OsStr::new("exec"), OsStr::new("--command-file"), file.as_os_str()]).code(64).says(&["qd: ", text]);
        home.run_with(["exec", "--command-file", "-"], bytes).code(64).says(&[text]);
        let done = home.run([OsStr::new("exec"), OsStr::new("--json"), OsStr::new("--command-file"), file.as_os_str()]).code(64);
        assert_eq!(done.json()["error"]["code"], "usage");
    }
    home.run([OsStr::new("exec"), OsStr::new("--"), OsStr::from_bytes(b"echo \xff")]).code(64).says(&["not valid UTF-8"]);
    assert!(home.daemon().is_none());
}

#[test]
fn help_is_on_stdout_with_examples() {
    let home = Home::new();
    for args in [&["--help"][..], &["exec", "--help"], &["logs", "--help"]] {
        let done = home.run(args).code(0);
        assert!(done.err.is_empty() && done.out().contains("Examples:"), "{done}");
        assert!(done.out().lines().all(|line| line.chars().count() <= 100), "{done}");
    }
    let version = home.run(["--version"]).code(0).out();
    assert_eq!(version, format!("qd {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_exit_codes_of_the_help_are_all_there() {
    let help = Home::new().run(["exec", "--help"]).code(0).out();
    for code in ["64", "69", "78", "124", "125", "126", "130", "141", "255"] {
        assert!(help.contains(&format!(" {code}  ")), "the help lacks {code}:\n{help}");
    }
}

#[test]
fn without_a_terminal_the_terminal_ui_says_what_to_use() {
    let home = Home::new();
    for args in [&[][..], &["tui"]] {
        home.run(args).code(64).says(&["needs a terminal", "qd exec -- COMMAND"]);
    }
    assert!(home.daemon().is_none());
}

#[test]
fn what_only_looks_starts_no_daemon() {
    let home = Home::new();
    let done = home.run(["ps"]).code(0).says(&["no daemon is running"]);
    assert!(done.out.is_empty());
    assert_eq!(home.run(["ps", "--json"]).code(0).out(), "[]\n");
    assert!(home.run(["-q", "ps"]).code(0).err.is_empty());
    home.run(["stop"]).code(0).says(&["no daemon is running"]);
    for args in [&["logs", "k7f3"][..], &["wait", "k7f3"], &["kill", "k7f3"]] {
        home.run(args).code(1).says(&["no daemon is running", "k7f3"]);
    }
    assert!(home.daemon().is_none());
}
