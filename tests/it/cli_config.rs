//! `qd config` with the real binary.

use crate::harness::qd::Home;

const OLD: &str = "terminal:\n  backend: ssh\n  ssh_host: gpu.lab\n  ssh_user: ada\n";

#[test]
fn path_tells_the_file_and_why() {
    let home = Home::new();
    let done = home.run(["config", "path"]).code(0).says(&["no such file", "looked for"]);
    assert_eq!(done.out(), format!("{}\n", home.config_path().display()));
    home.write_config("terminal:\n  timeout: 60\n");
    assert!(!home.run(["config", "path"]).code(0).err().contains("no such file"));
    let done = home.run(["--config", "other.yaml", "config", "path"]).code(0).says(&["--config", "no such file"]);
    assert_eq!(done.out(), format!("{}\n", home.work().join("other.yaml").display()));
}

#[test]
fn check_names_every_mistake_with_its_line() {
    let home = Home::with_config("terminal:\n  timeout: soon\n  backends:\n    gpu:\n      type: ssh\n      hots: x\n");
    let done = home.run(["config", "check"]).code(78);
    let file = home.config_path().display().to_string();
    let done = done.says(&[&format!("qd: {file}:2: "), &format!("{file}:6: "), "host"]);
    assert!(done.out.is_empty());
    home.run(["config", "show"]).code(78);
    home.run(["--config", "none.yaml", "config", "check"]).code(78).says(&["none.yaml", "no such file"]);
    home.write_config("terminal:\n  backends:\n    gpu:\n      type: ssh\n      host: gpu.lab\n");
    let out = home.run(["config", "check"]).code(0).out();
    assert!(out.contains("ok") && out.contains("gpu") && out.contains("local"), "{out}");
    assert!(home.daemon().is_none());
}

#[test]
fn show_fills_in_defaults_and_is_a_config() {
    let home = Home::with_config("terminal:\n  timeout: 60\n");
    let out = home.run(["config", "show"]).code(0).out();
    assert!(out.contains("timeout: 60") && out.contains("idle_exit"), "{out}");
    std::fs::write(home.work().join("shown.yaml"), &out).expect("the folder is ours");
    home.run(["--config", "shown.yaml", "config", "check"]).code(0);
}

#[test]
fn migrate_prints_and_with_write_keeps_the_old_file() {
    let home = Home::with_config(OLD);
    let printed = home.run(["config", "migrate"]).code(0).says(&["nothing was written", "--write"]).out();
    assert!(printed.contains("backends:") && printed.contains("gpu.lab"), "{printed}");
    assert_eq!(std::fs::read_to_string(home.config_path()).expect("it is there"), OLD);
    let done = home.run(["config", "migrate", "--write"]).code(0).says(&[".old"]);
    assert!(done.out.is_empty());
    assert_eq!(std::fs::read_to_string(home.config_path()).expect("it is there"), printed);
    let kept = home.config_path().with_file_name("config.yaml.old");
    assert_eq!(std::fs::read_to_string(kept).expect("it is kept"), OLD);
    home.run(["config", "migrate", "--write"]).code(0).says(&["nothing is to be done"]);
}

#[test]
fn a_bad_config_stops_a_command_with_78() {
    let home = Home::with_config("terminal:\n  timeout: soon\n");
    home.run(["exec", "--", "echo ran"]).code(78).says(&["config.yaml:2: "]);
    let done = home.run(["exec", "--json", "--", "echo ran"]).code(78);
    assert_eq!(done.json()["error"]["code"], "config");
    home.run(["serve"]).code(78).says(&["config.yaml:2: "]);
}
