//! Tables for files and the old forms. Invariant: a form that is rewritten gives exactly one notice and a valid new one.

use super::*;
use crate::paths::Vars;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn at(home: &Path, vars: &[(&str, &str)]) -> Sources {
    Sources { explicit: None, vars: Vars::from_pairs(vars.iter().copied()), home: Some(home.to_owned()) }
}

fn old(text: &str, vars: &[(&str, &str)]) -> Result<Config, ConfigError> {
    sources::from_text(text, Some("config.yaml".as_ref()), &at("/home/ada".as_ref(), vars)).map(|loaded| loaded.config)
}

#[test]
fn the_file_is_found() {
    let home = Path::new("/home/ada");
    let chosen = |explicit: Option<&str>, vars: &[(&str, &str)]| {
        let chosen = Sources { explicit: explicit.map(PathBuf::from), ..at(home, vars) }.file().unwrap();
        (chosen.path.display().to_string(), chosen.by)
    };
    assert_eq!(chosen(None, &[("HOME", "/h")]), ("/h/.config/quarterdeck/config.yaml".into(), "default"));
    assert_eq!(chosen(None, &[]), ("/home/ada/.config/quarterdeck/config.yaml".into(), "default"));
    assert_eq!(chosen(None, &[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]), ("/x/quarterdeck/config.yaml".into(), "default"));
    assert_eq!(chosen(None, &[("HOME", "/h"), ("QD_CONFIG", "/q")]), ("/q".into(), "QD_CONFIG"));
    assert_eq!(chosen(Some("/e"), &[("QD_CONFIG", "/q")]), ("/e".into(), "--config"));
}

#[test]
fn files_that_cannot_be_read_are_told() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    std::fs::write(path("binary"), b"a: 1\nb: \xff\n").unwrap();
    std::fs::write(path("large"), "#".repeat(1_000_001)).unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let table = [
        ("missing", "no such file (named by --config)"),
        ("binary/x", "no such file (named by --config)"),
        ("folder", "expected a file, found a folder"),
        ("pipe", "expected a file, found a pipe or device"),
        ("large", "larger than 1 MB"),
        ("binary", "not UTF-8 text (line 2)"),
    ];
    for (name, message) in table {
        let sources = Sources { explicit: Some(path(name)), ..at(home.path(), &[]) };
        assert_eq!(load(&sources).unwrap_err().to_string(), format!("{}: {message}", path(name).display()));
    }
    std::fs::write(path("closed"), "").unwrap();
    std::fs::set_permissions(path("closed"), std::fs::Permissions::from_mode(0o000)).unwrap();
    // Root reads everything.
    if std::fs::File::open(path("closed")).is_err() {
        let sources = Sources { explicit: Some(path("closed")), ..at(home.path(), &[]) };
        assert_eq!(load(&sources).unwrap_err().to_string(), format!("{}: cannot be read: permission denied", path("closed").display()));
    }
    let named = at(home.path(), &[("QD_CONFIG", "/nonexistent/q.yaml")]);
    assert_eq!(load(&named).unwrap_err().to_string(), "/nonexistent/q.yaml: no such file (named by QD_CONFIG)");
}

#[test]
fn a_file_is_loaded_checked_and_shown() {
    let home = tempfile::tempdir().unwrap();
    let sources = at(home.path(), &[]);
    assert_eq!(load(&sources).unwrap(), Config::default());
    let path = home.path().join(".config/quarterdeck/config.yaml");
    assert_eq!(check(&sources).unwrap(), format!("{}: no such file: local alone\n  0 local (default): this machine\n", path.display()));
    assert_eq!(which_file(&sources), Some(WhichFile { path: path.clone(), by: "default", exists: false }));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "terminal:\n  default_backend: gpu\n  backends:\n    gpu: {type: ssh, host: ada@h}\n    box: {type: docker, image: x}\nguards: {}\n").unwrap();
    let config = load(&sources).unwrap();
    assert_eq!(config.source.as_deref(), Some(path.as_path()));
    assert_eq!(
        check(&sources).unwrap(),
        format!(
            "{}: ok\n  0 local: this machine\n  1 gpu (default): ssh ada@h\n  2 box: docker (not in this version)\n\
             note: line 5: backends.box: backend kind docker is not in this version\nnote: line 6: guards has no effect in this version\n",
            path.display()
        )
    );
    assert!(show(&config).starts_with(&format!("# {}\n", path.display())));
    let same = migrate(&sources).unwrap();
    assert_eq!((same.text, same.changed), (std::fs::read_to_string(&path).unwrap(), false));
}

const HERMES: &str = "_config_version: 50\nmodel:\n  default: some/model\n  base_url: https://x\n  base_url: twice\nterminal:\n  backend: ssh\n  cwd: \".\"\n  timeout: 120\n  lifetime_seconds: 400\n  \
                      home_mode: auto\n  ssh_host: gpu.lab\n  ssh_user: ada\n  ssh_port: 2222\n  ssh_key: ~/.ssh/id_rsa\n  docker_image: \"\"\n  container_cpu: 1\n  sudo_password: hunter2\nagent:\n  max_turns: 3\n\
                      display: {skin: x}\nplatform_toolsets: {cli: [a]}\n";

#[test]
fn old_forms_are_read_with_one_notice() {
    let tail = "; \"qd config migrate\" writes the new form";
    let old_form = "the config has the old form with one backend";
    let vars_form = "TERMINAL_* variables name one backend in the old form";
    let hermes = "the config is one of hermes: only its \"terminal\" block is read";
    let ssh_vars: &[(&str, &str)] = &[
        ("TERMINAL_ENV", "ssh"),
        ("TERMINAL_SSH_HOST", "h"),
        ("TERMINAL_SSH_USER", "u"),
        ("TERMINAL_SSH_PORT", "23"),
        ("TERMINAL_SSH_KEY", "~/k"),
        ("TERMINAL_CWD", "/w"),
    ];
    type Row<'r> = (&'r str, &'r [(&'r str, &'r str)], &'r str, &'r str, Option<String>);
    let table: Vec<Row<'_>> = vec![
        (
            HERMES,
            &[],
            "ssh",
            "ada@gpu.lab:2222 ~",
            Some(format!("{hermes}, read as backend \"ssh\"; not taken over: home_mode, container_cpu, sudo_password{tail}")),
        ),
        (
            "terminal:\n  backend: ssh\n  ssh_host: h\n  cwd: /w\n",
            &[],
            "ssh",
            "h /w",
            Some(format!("{old_form}, read as backend \"ssh\"{tail}")),
        ),
        (
            "terminal: {env_type: ssh}\n",
            &[("TERMINAL_SSH_HOST", "h")],
            "ssh",
            "h ~",
            Some(format!("{old_form}, read as backend \"ssh\"{tail}")),
        ),
        ("", ssh_vars, "ssh", "u@h:23 /w", Some(format!("{vars_form}, read as backend \"ssh\"{tail}"))),
        ("ui: {ascii: true}\n", ssh_vars, "ssh", "u@h:23 /w", Some(format!("{vars_form}, read as backend \"ssh\"{tail}"))),
        ("terminal: {backend: local, cwd: /w}\n", &[], "local", "/w", Some(format!("{old_form}{tail}"))),
        ("terminal: {cwd: auto, timeout: 9}\n", &[], "local", ".", Some(format!("{old_form}{tail}"))),
        (
            "terminal: {backend: docker, docker_image: x, container_cpu: 2, cwd: /root}\n",
            &[],
            "docker",
            "docker /root",
            Some(format!("{old_form}, read as backend \"docker\"{tail}")),
        ),
        (
            "terminal: {backend: singularity, singularity_image: x}\n",
            &[],
            "apptainer",
            "apptainer ~",
            Some(format!("{old_form}, read as backend \"apptainer\"{tail}")),
        ),
        (
            "terminal: {backend: modal, modal_mode: managed}\n",
            &[],
            "gateway",
            "gateway ~",
            Some(format!("{old_form}, read as backend \"gateway\"{tail}")),
        ),
        ("model: {}\nagent: {}\n", &[], "local", ".", Some(format!("{hermes}{tail}"))),
        (
            "model: {}\nagent: {}\nterminal:\n  backend: local\n  default_backend: gpu\n  backends:\n    gpu: {type: ssh}\n",
            &[],
            "gpu",
            "gpu ~",
            Some(format!("{hermes}; not taken over: backend{tail}")),
        ),
        // Nothing of the old form is in these.
        ("", &[("TERMINAL_ENV", "local"), ("TERMINAL_CWD", "/x")], "local", ".", None),
        ("terminal: {default_backend: local}\n", ssh_vars, "local", ".", None),
        ("", &[("TERMINAL_SSH_HOST", "h")], "local", ".", None),
    ];
    for (text, vars, default, expected, notice) in table {
        let config = old(text, vars).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(config.notices, notice.clone().into_iter().collect::<Vec<_>>(), "{text}");
        assert_eq!(config.default_backend, default, "{text}");
        let backend = config.backend(default).unwrap();
        let what = match &backend.kind {
            KindSettings::Local => backend.cwd.clone(),
            KindSettings::Ssh(ssh) => format!("{} {}", ssh.address(), backend.cwd),
            KindSettings::Command(command) => format!("command {}", command.words.join(" ")),
            KindSettings::Later(kind) => format!("{} {}", kind.as_str(), backend.cwd),
        };
        assert_eq!(what, expected, "{text}");
        // What is written anew means the same, has the new form, and carries no secret over.
        let home = at("/home/ada".as_ref(), vars);
        let migrated = migrate_text(text, None, &home).unwrap();
        assert_eq!(migrated.changed, notice.is_some(), "{text}");
        assert!(!migrated.text.contains("hunter2"), "{}", migrated.text);
        let again = old(&migrated.text, &[]).unwrap_or_else(|error| panic!("{error}\n{}", migrated.text));
        assert_eq!(Config { notices: config.notices.clone(), ..again.clone() }, config, "{}", migrated.text);
        assert_eq!(again.notices, Vec::<String>::new(), "{}", migrated.text);
    }
}

#[test]
fn what_is_wrong_in_an_old_form_is_told_where_it_stands() {
    type Row<'r> = (&'r str, &'r [(&'r str, &'r str)], &'r str);
    let table: [Row<'_>; 6] = [
        (
            "terminal:\n  backend: ssh\n",
            &[],
            "config.yaml:2: terminal.backend: ssh, but the host is missing: give \"ssh_host\" or TERMINAL_SSH_HOST",
        ),
        (
            "terminal:\n  backend: vercel_sandbox\n",
            &[],
            "config.yaml:2: terminal.backend: expected local, ssh, docker, singularity, modal or daytona, found \"vercel_sandbox\"",
        ),
        (
            "terminal:\n  backend: ssh\n  ssh_host: h\n  ssh_port: x\n",
            &[],
            "config.yaml:4: backends.ssh.port: expected a whole number from 1 to 65535, found \"x\"",
        ),
        ("", &[("TERMINAL_ENV", "ssh")], "environment: TERMINAL_ENV: ssh, but the host is missing: give \"ssh_host\" or TERMINAL_SSH_HOST"),
        (
            "",
            &[("TERMINAL_ENV", "ssh"), ("TERMINAL_SSH_HOST", "h"), ("TERMINAL_SSH_PORT", "x")],
            "environment: TERMINAL_SSH_PORT: expected a whole number from 1 to 65535, found \"x\"",
        ),
        (
            "",
            &[("TERMINAL_ENV", "nope")],
            "environment: TERMINAL_ENV: expected local, ssh, docker, singularity, modal or daytona, found \"nope\"",
        ),
    ];
    for (text, vars, expected) in table {
        assert_eq!(old(text, vars).unwrap_err().to_string(), expected);
    }
}

#[test]
fn one_word_of_hermes_is_a_mistake_and_not_its_config() {
    let text = old("logging: debug\n", &[]).unwrap_err().to_string();
    assert!(text.starts_with("config.yaml:1: unknown key \"logging\" at the top; known: terminal, "), "{text}");
}

#[test]
fn every_problem_is_a_line_of_ours() {
    let report = crate::report::Report::from(old("a: 1\nb: 2\n", &[]).unwrap_err());
    assert_eq!(report.exit_code(), 78);
    assert_eq!(report.text().lines().filter(|line| line.starts_with("qd: config.yaml:")).count(), 2, "{}", report.text());
}
