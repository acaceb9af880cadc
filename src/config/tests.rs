//! Tables for whole configs: what is read, and every message about what is wrong. Invariant: messages are compared whole.

use super::*;
use crate::model::redact;
use crate::paths::Vars;

fn sources(vars: &[(&str, &str)]) -> Sources {
    Sources { explicit: None, vars: Vars::from_pairs(vars.iter().copied()), home: Some("/home/ada".into()) }
}

fn read_with(text: &str, vars: &[(&str, &str)]) -> Result<Config, ConfigError> {
    sources::from_text(text, Some("config.yaml".as_ref()), &sources(vars)).map(|loaded| loaded.config)
}

fn read(text: &str) -> Config {
    read_with(text, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn wrong(text: &str) -> String {
    read_with(text, &[]).expect_err(text).to_string()
}

fn ssh(config: &Config, name: &str) -> SshSettings {
    match &config.backend(name).unwrap().kind {
        KindSettings::Ssh(ssh) => ssh.clone(),
        other => panic!("{other:?}"),
    }
}

/// The shape that the product was asked for.
const MISSION: &str = r#"
terminal:
  default_backend: local
  timeout: 180
  lifetime_seconds: 300

  local:
    cwd: "."
    persistent_shell: false

  backends:
    macbook:
      type: ssh
      host: 100.64.0.2
      user: me
      key: ~/.ssh/id_ed25519
      cwd: ~
      persistent_shell: true
    gpu:
      type: ssh
      host: gpu.example.com
      user: ubuntu
      port: 2222
      cwd: /workspace
      timeout: 600
    sandbox:
      type: docker
      image: python:3.11
      volumes: ["/data:/data"]
      cpu: 2
      memory: 5120
    cloud:
      type: modal
      image: python:3.11
    managed:
      type: managed_modal
    hpc:
      type: singularity
      image: docker://ubuntu:22.04
    day:
      type: daytona
      image: x
    pod:
      type: command
      command: [kubectl, exec, -i, pod, --]
    batch:
      type: slurm
      partition: gpu
"#;

#[test]
fn the_words_of_a_command_are_a_list_or_one_plain_line() {
    let file = |command: &str| format!("terminal:\n  backends:\n    pod:\n      type: command\n{command}");
    let words = |command: &str| match &read(&file(command)).backends[1].kind {
        KindSettings::Command(command) => (command.words.join("|"), command.same_files),
        other => panic!("{other:?}"),
    };
    assert_eq!(words("      command: [sh, -c, 'a b']\n      same_files: true\n"), ("sh|-c|a b".to_owned(), true));
    assert_eq!(words("      command: kubectl exec  -i pod --\n"), ("kubectl|exec|-i|pod|--".to_owned(), false));
    for (command, said) in [
        ("", "config.yaml:3: backends.pod.command: is missing"),
        ("      command: []\n", "config.yaml:5: backends.pod.command: expected the words"),
        ("      command: 'ssh \"a b\"'\n", "it is no shell text"),
        ("      command: [docker, exec, -it, box]\n", "-it asks for a terminal"),
        ("      command: [curl, '${TOKEN}']\n", "has no place in an argument list"),
        ("      command: [env]\n      commmand: x\n", "commmand"),
    ] {
        let problems = wrong(&file(command));
        assert!(problems.contains(said), "{command}: {problems}");
    }
}

#[test]
fn the_mission_loads() {
    let config = read(MISSION);
    let names: Vec<_> = config.backends.iter().map(|backend| (backend.slot, backend.name.as_str(), backend.kind.word())).collect();
    assert_eq!(
        names,
        [
            (0, "local", "local"),
            (1, "macbook", "ssh"),
            (2, "gpu", "ssh"),
            (3, "sandbox", "docker"),
            (4, "cloud", "modal"),
            (5, "managed", "gateway"),
            (6, "hpc", "apptainer"),
            (7, "day", "daytona"),
            (8, "pod", "command"),
            (9, "batch", "slurm"),
        ]
    );
    assert_eq!(config.notices, Vec::<String>::new());
    assert_eq!(config.backends[0].cwd, ".");
    assert_eq!(config.backends[1].cwd, "~");
    assert_eq!(config.backends[1].timeout, Duration::from_secs(180));
    assert_eq!(config.backends[2].timeout, Duration::from_secs(600));
    let macbook = ssh(&config, "macbook");
    assert_eq!((macbook.host.as_str(), macbook.port, macbook.user.as_deref()), ("100.64.0.2", None, Some("me")));
    assert_eq!(macbook.keys, [PathBuf::from("/home/ada/.ssh/id_ed25519")]);
    assert_eq!((macbook.agent, macbook.host_key), (None, None));
    assert_eq!(ssh(&config, "gpu").port, Some(2222));
}

#[test]
fn the_example_loads_and_says_what_holds_anyway() {
    let text = include_str!("../../config.example.yaml");
    let config = read(text);
    let default = Config::default();
    assert_eq!(config.notices, Vec::<String>::new());
    assert_eq!((config.timeout, config.max_foreground, config.lifetime), (default.timeout, default.max_foreground, default.lifetime));
    assert_eq!((&config.ui, &config.limits, config.idle_exit), (&default.ui, &default.limits, default.idle_exit));
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort();
        names
    };
    assert_eq!(sorted(&config.client_env), sorted(&default.client_env));
    let gpu = config.backend("gpu").unwrap();
    let plain = BackendSettings::new("gpu", gpu.kind.clone());
    assert_eq!((gpu.health_interval, gpu.connect_timeout, gpu.on_lost), (plain.health_interval, plain.connect_timeout, plain.on_lost));
    assert_eq!(ssh(&config, "web").address(), "deploy@web.example.org");
    assert!(config.redact.names.contains(&"VAULT_*".to_owned()));
}

#[test]
fn nothing_means_local_alone() {
    for text in ["", "# words\n", "terminal:\n", "terminal: {}\n", "terminal:\n  backends:\n  local:\n"] {
        assert_eq!(read(text), Config::default(), "{text:?}");
    }
    let names: Vec<_> = Config::default().backends.into_iter().map(|backend| backend.name).collect();
    assert_eq!(names, ["local"]);
}

#[test]
fn directories() {
    let table = [("~", "~"), ("\"~\"", "~"), ("~/x", "~/x"), ("/srv/my app", "/srv/my app"), ("", "~"), ("null", "~")];
    for (written, expected) in table {
        let config = read(&format!("terminal:\n  backends:\n    gpu:\n      type: ssh\n      cwd: {written}\n"));
        assert_eq!(config.backend("gpu").unwrap().cwd, expected, "{written:?}");
    }
    for (written, expected) in [("~", "~"), (".", "."), ("", "."), ("/x", "/x")] {
        assert_eq!(read(&format!("terminal: \n  local: \n    cwd: {written}\n")).backends[0].cwd, expected, "{written:?}");
    }
}

#[test]
fn ssh_settings() {
    let gpu = |keys: &str| ssh(&read(&format!("terminal: {{backends: {{gpu: {{type: ssh{keys}}}}}}}\n")), "gpu");
    let plain = gpu("");
    assert_eq!((plain.host.as_str(), plain.port, plain.user.clone(), plain.agent), ("gpu", None, None, None));
    assert_eq!((plain.host_key, &plain.ssh_config), (None, &SshConfig::Usual));
    assert_eq!(gpu(", host: 'ada@h:2222'").address(), "ada@h:2222");
    assert_eq!(gpu(", host: 'ada@h:2222', port: 2222, user: ada").address(), "ada@h:2222");
    assert_eq!(gpu(", host: 'ada@[::1]:22'").address(), "ada@[::1]:22");
    assert_eq!(gpu(", ssh_host: h, ssh_user: u, ssh_port: '23', ssh_key: /k").address(), "u@h:23");
    assert_eq!(gpu(", host: 10, user: 1000").address(), "1000@10");
    assert_eq!(gpu(", keys: [~/a, /b]").keys, [PathBuf::from("/home/ada/a"), PathBuf::from("/b")]);
    assert_eq!(
        gpu(", identity_file: ~/a, agent: true"),
        SshSettings { keys: vec!["/home/ada/a".into()], agent: Some(true), ..plain.clone() }
    );
    assert_eq!(
        gpu(", known_hosts: [~/k], host_key: strict"),
        SshSettings { known_hosts: vec!["/home/ada/k".into()], host_key: Some(HostKeyPolicy::Strict), ..plain.clone() }
    );
    assert_eq!(gpu(", ssh_config: none"), SshSettings { ssh_config: SshConfig::Nothing, ..plain.clone() });
    assert_eq!(gpu(", ssh_config: ~/c"), SshSettings { ssh_config: SshConfig::File("/home/ada/c".into()), ..plain });
}

#[test]
fn everything_else_is_read() {
    let config = read(
        "terminal:\n  default_backend: b\n  timeout: 2m\n  max_foreground: 1h\n  lifetime_seconds: 10s\n  backends:\n    a: {type: ssh}\n    b: {type: ssh, slot: 1, shell: sh, \
         snapshot: no, health_interval: 5s, connect_timeout: 500ms, on_lost: keep, tags: x, env: {A: 1.10, B: on, C: ~, D: ''}, forward_env: [WANDB_API_KEY]}\n    c: {type: ssh}\n\
         ui: {ascii: true, mouse: false, fleet: lab, leader: ctrl-a, bell: off, osc: 777, on_alert: [notify-send, two words]}\nkeys:\n  zoom: z\n  next: [n, tab]\n  quit: false\n  pane:\n    copy: y\n  preset: tmux\n\
         redact: {names: [A_*], keep: [GH_TOKEN]}\nlimits: {log_bytes: 1MiB, log_days: 1, ended_kept: 5, ended_for: 1h, background: 3}\nclient_env: [LANG]\nidle_exit: false\nlog_level: debug\nx-base: {any: thing}\n",
    );
    let slots: Vec<_> = config.backends.iter().map(|backend| (backend.slot, backend.name.as_str())).collect();
    assert_eq!(slots, [(0, "local"), (1, "b"), (2, "a"), (3, "c")]);
    let b = config.backend("b").unwrap();
    assert_eq!((b.timeout, b.shell, b.snapshot, b.on_lost), (Duration::from_secs(120), ShellChoice::Sh, false, OnLost::Keep));
    assert_eq!((b.health_interval, b.connect_timeout), (Duration::from_secs(5), Duration::from_millis(500)));
    let env: Vec<_> = b.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(env, [("A", "1.10"), ("B", "on"), ("C", ""), ("D", "")]);
    assert_eq!((b.tags.as_slice(), b.forward_env.as_slice()), (["x".to_owned()].as_slice(), ["WANDB_API_KEY".to_owned()].as_slice()));
    assert_eq!(config.backends[0].timeout, Duration::from_secs(120));
    let keys: Vec<_> = config.keys.iter().map(|(action, keys)| format!("{action}={}", keys.join(","))).collect();
    assert_eq!(keys, ["next=n,tab", "pane.copy=y", "preset=tmux", "quit=", "zoom=z"]);
    assert!(config.redact.names.contains(&"A_*".to_owned()) && !config.redact.names.contains(&"GH_TOKEN".to_owned()));
    assert_eq!((config.limits.log_bytes, config.limits.log_days, config.limits.ended_kept), (1 << 20, 1, 5));
    assert_eq!((config.limits.ended_for, config.limits.background), (Duration::from_secs(3600), 3));
    assert_eq!(
        (config.client_env.as_slice(), config.idle_exit, config.log_level.as_str()),
        (["LANG".to_owned()].as_slice(), None, "debug")
    );
    let ui = UiSettings {
        ascii: true,
        mouse: false,
        fleet: Some("lab".into()),
        leader: Some("ctrl-a".into()),
        bell: false,
        osc: Osc::SevenSevenSeven,
        on_alert: vec!["notify-send".into(), "two words".into()],
    };
    assert_eq!(config.ui, ui);
    assert_eq!(config.default_backend, "b");
}

#[test]
fn anchors_are_followed() {
    let config = read(
        "x-base: &base {type: ssh, user: ada, timeout: 7}\nterminal:\n  backends:\n    a: {<<: *base, host: h1}\n    b: {<<: *base, user: bob}\n",
    );
    assert_eq!(ssh(&config, "a").address(), "ada@h1");
    assert_eq!(ssh(&config, "b").address(), "bob@b");
    assert_eq!(config.backend("b").unwrap().timeout, Duration::from_secs(7));
}

#[test]
fn marks_and_line_ends_of_other_systems_are_taken() {
    let config = read("\u{feff}terminal:\r\n  backends:\r\n    gpu:\r\n      type: ssh\r\n      cwd: ~\r\n");
    assert_eq!(config.backend("gpu").unwrap().cwd, "~");
    assert_eq!(wrong("ui:\r\n  mouse: 7\r\n"), "config.yaml:2: ui.mouse: expected true or false, found 7");
}

#[test]
fn what_a_reference_leads_to_is_not_told() {
    for (keys, expected) in [
        ("host: ${SECRET}", "config.yaml:5: backends.gpu.host: what ${SECRET} stands for is not a host"),
        ("key: ${SECRET}", "config.yaml:5: backends.gpu.key: what ${SECRET} stands for is not a path"),
        ("user: ${SECRET}", "config.yaml:5: backends.gpu.user: expected an account's name without spaces"),
    ] {
        assert_eq!(read_with(&gpu(keys), &[("SECRET", "hunter2 and more")]).unwrap_err().to_string(), expected);
    }
    let config =
        read_with(&gpu("host: ${GPU_HOST}\nuser: ${ME}\nkey: ${KEY}"), &[("GPU_HOST", "h:2"), ("ME", "ada"), ("KEY", "~/k")]).unwrap();
    assert_eq!((ssh(&config, "gpu").address(), ssh(&config, "gpu").keys), ("ada@h:2".to_owned(), vec![PathBuf::from("/home/ada/k")]));
}

#[test]
fn the_redactor_knows_what_the_config_knows() {
    let vars = [("OPENAI_API_KEY", "value-of-openai"), ("MINE_A", "value-of-mine"), ("PLAIN", "value-of-plain"), ("REF", "value-of-ref")];
    let config = read_with(&(gpu("env: {X: '${REF}'}") + "redact: [MINE_*]\n"), &vars).unwrap();
    let text = config.redactor(&Vars::from_pairs(vars)).text("value-of-openai value-of-mine value-of-plain value-of-ref").into_owned();
    assert_eq!(text, "[redacted] [redacted] value-of-plain [redacted]");
}

/// Wraps the keys of an ssh backend `gpu`; they begin on line 5.
fn gpu(keys: &str) -> String {
    let keys: String = keys.lines().map(|line| format!("      {line}\n")).collect();
    format!("terminal:\n  backends:\n    gpu:\n      type: ssh\n{keys}")
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let known = "expected one of ssh, docker, apptainer, command, slurm, modal, gateway, daytona";
    let seconds = "expected seconds or a duration as 90s, 5m or 500ms";
    let table: Vec<(String, String)> = vec![
        // Unknown keys.
        (gpu("hots: x"), "config.yaml:5: unknown key \"hots\" under backends.gpu; did you mean \"host\"?".into()),
        ("terminl: {}\n".into(), "config.yaml:1: unknown key \"terminl\" at the top; did you mean \"terminal\"?".into()),
        ("terminal:\n  defualt_backend: local\n".into(), "config.yaml:2: unknown key \"defualt_backend\" under terminal; did you mean \"default_backend\"?".into()),
        ("terminal:\n  local:\n    zzz: 1\n".into(), "config.yaml:3: unknown key \"zzz\" under local; known: timeout, cwd, snapshot, persistent_shell, shell, env, forward_env, tags, mode".into()),
        ("ui:\n  asci: true\n".into(), "config.yaml:2: unknown key \"asci\" under ui; did you mean \"ascii\"?".into()),
        ("limits: {log_byte: 1}\n".into(), "config.yaml:1: unknown key \"log_byte\" under limits; did you mean \"log_bytes\"?".into()),
        // Duplicates.
        ("terminal:\n  backends:\n    a: {type: ssh}\n    b: {type: ssh}\n    a: {type: ssh}\n".into(), "config.yaml:5: backend \"a\" is defined twice (first on line 3)".into()),
        (gpu("host: a\nhost: b"), "config.yaml:6: key \"host\" is given twice under backends.gpu (first on line 5)".into()),
        ("ui: {}\nui: {}\n".into(), "config.yaml:2: key \"ui\" is given twice at the top (first on line 1)".into()),
        (gpu("env:\n  A: 1\n  A: 2"), "config.yaml:7: key \"A\" is given twice under backends.gpu.env (first on line 6)".into()),
        (gpu("host: a\nssh_host: b"), "config.yaml:6: backends.gpu.ssh_host: means the same as \"host\": give one of them".into()),
        // Names and kinds.
        ("terminal:\n  backends:\n    local: {type: ssh}\n".into(), "config.yaml:3: backends: \"local\" is reserved: it is always there, and is set under terminal.local".into()),
        ("terminal:\n  backends:\n    'a b': {type: ssh}\n".into(), "config.yaml:3: backends: \"a b\": a name has only letters, digits, \".\", \"_\" and \"-\"".into()),
        ("terminal:\n  backends:\n    -x: {type: ssh}\n".into(), "config.yaml:3: backends: \"-x\": a name begins with a letter, a digit or \"_\"".into()),
        ("terminal:\n  backends:\n    '': {type: ssh}\n".into(), "config.yaml:3: backends: \"\": a name has 1 to 64 characters".into()),
        ("terminal:\n  backends:\n    gpu: {host: x}\n".into(), "config.yaml:3: backends.gpu: \"type\" is missing; expected one of ssh, docker, apptainer, command, slurm, modal, gateway, daytona".into()),
        ("terminal:\n  backends:\n    gpu:\n".into(), "config.yaml:3: backends.gpu: expected a mapping with \"type\", found nothing".into()),
        ("terminal:\n  backends:\n    gpu: ada@gpu\n".into(), "config.yaml:3: backends.gpu: expected a mapping with \"type\", found \"ada@gpu\"".into()),
        ("terminal:\n  backends:\n    gpu: {type: shh}\n".into(), format!("config.yaml:3: backends.gpu.type: {known}, found \"shh\"; did you mean \"ssh\"?")),
        ("terminal:\n  backends:\n    gpu: {type: local}\n".into(), "config.yaml:3: backends.gpu.type: local is always there: set it under terminal.local".into()),
        ("terminal:\n  backends: [gpu]\n".into(), "config.yaml:2: backends: expected a mapping, found a list".into()),
        ("terminal: 5\n".into(), "config.yaml:1: terminal: expected a mapping, found 5".into()),
        ("- a\n".into(), "config.yaml:1: the config: expected a mapping, found a list".into()),
        ("just words\n".into(), "config.yaml:1: the config: expected a mapping, found \"just words\"".into()),
        // The default backend.
        ("terminal:\n  default_backend: gup\n  backends:\n    gpu: {type: ssh}\n".into(), "config.yaml:2: terminal.default_backend: no backend is named \"gup\"; known: local, gpu; did you mean \"gpu\"?".into()),
        ("terminal:\n  default_backend: [a]\n".into(), "config.yaml:2: terminal.default_backend: expected a backend's name, found a list".into()),
        // Values.
        ("terminal:\n  timeout: 5 minutes\n".into(), format!("config.yaml:2: terminal.timeout: {seconds}, found \"5 minutes\"")),
        ("terminal:\n  timeout: 0\n".into(), "config.yaml:2: terminal.timeout: expected more than 0".into()),
        ("terminal:\n  timeout: -5\n".into(), format!("config.yaml:2: terminal.timeout: {seconds}, found -5")),
        ("terminal:\n  timeout: [1]\n".into(), format!("config.yaml:2: terminal.timeout: {seconds}, found a list")),
        (gpu("port: abc"), "config.yaml:5: backends.gpu.port: expected a whole number from 1 to 65535, found \"abc\"".into()),
        (gpu("port: 70000"), "config.yaml:5: backends.gpu.port: expected a whole number from 1 to 65535, found 70000".into()),
        (gpu("host: [a]"), "config.yaml:5: backends.gpu.host: expected a host's name or address, found a list".into()),
        (gpu("host: a b"), "config.yaml:5: backends.gpu.host: expected a host, user@host or user@host:port, found \"a b\"".into()),
        (gpu("host: ada@h\nuser: bob"), "config.yaml:6: backends.gpu.user: the host names another user: give one of them".into()),
        (gpu("host: 'h:1'\nport: 2"), "config.yaml:6: backends.gpu.port: the host names another port: give one of them".into()),
        (gpu("user: a b"), "config.yaml:5: backends.gpu.user: expected an account's name without spaces".into()),
        (gpu("key: rel/key"), "config.yaml:5: backends.gpu.key: expected an absolute path or ~/..., found \"rel/key\"".into()),
        (gpu("keys:\n  - /a\n  - ~bob/k"), "config.yaml:7: backends.gpu.keys: only ~ and ~/... are understood, not another account's home".into()),
        (gpu("key: '-----BEGIN OPENSSH PRIVATE KEY-----'"), "config.yaml:5: backends.gpu.key: expected the path of a key file, not the key itself".into()),
        (gpu("key: {a: b}"), "config.yaml:5: backends.gpu.key: expected a text or a list of texts, found a mapping".into()),
        (gpu("host_key: ask"), "config.yaml:5: backends.gpu.host_key: expected accept-new or strict, found \"ask\"".into()),
        (gpu("agent: maybe"), "config.yaml:5: backends.gpu.agent: expected true or false, found \"maybe\"".into()),
        (gpu("shell: zsh"), "config.yaml:5: backends.gpu.shell: expected auto, bash or sh, found \"zsh\"".into()),
        (gpu("on_lost: retry"), "config.yaml:5: backends.gpu.on_lost: expected end or keep, found \"retry\"".into()),
        (gpu("mode: yolo"), "config.yaml:5: backends.gpu.mode: expected auto, ask, policy, read-only or paused, found \"yolo\"".into()),
        (gpu("cwd: proj"), "config.yaml:5: backends.gpu.cwd: expected an absolute path, ~, ~/..., found \"proj\"".into()),
        (gpu("cwd: ."), "config.yaml:5: backends.gpu.cwd: expected an absolute path, ~, ~/..., found \".\"".into()),
        ("terminal:\n  local:\n    cwd: proj\n".into(), "config.yaml:3: local.cwd: expected an absolute path, ~, ~/..., \".\" (the caller's directory), found \"proj\"".into()),
        (gpu("slot: 0"), "config.yaml:5: backends.gpu.slot: expected a whole number from 1 to 999, found 0".into()),
        ("terminal:\n  backends:\n    a: {type: ssh, slot: 2}\n    b: {type: ssh,\n        slot: 2}\n".into(), "config.yaml:5: backends.b.slot: 2 is taken (first on line 3)".into()),
        (gpu("tags: [a b]"), "config.yaml:5: backends.gpu.tags: expected letters, digits, \".\", \"_\" and \"-\", found \"a b\"".into()),
        (gpu("forward_env: [A-B]"), "config.yaml:5: backends.gpu.forward_env: expected a variable's name, found \"A-B\"".into()),
        (gpu("env: [A]"), "config.yaml:5: backends.gpu.env: expected a mapping, found a list".into()),
        (gpu("env:\n  1A: x"), "config.yaml:6: backends.gpu.env: \"1A\" is not a variable's name".into()),
        (gpu("env:\n  A: {hunter2: x}"), "config.yaml:6: backends.gpu.env.A: expected a text without NUL".into()),
        (gpu("host: ${GPU_HOST}"), "config.yaml:5: backends.gpu.host: GPU_HOST is not set in the environment".into()),
        (gpu("env:\n  A: file:/nonexistent/secret"), "config.yaml:6: backends.gpu.env.A: cannot read the secret in /nonexistent/secret: No such file or directory (os error 2)".into()),
        ("log_level: loud\n".into(), "config.yaml:1: log_level: expected off, error, warn, info, debug or trace, found \"loud\"".into()),
        ("idle_exit: true\n".into(), format!("config.yaml:1: idle_exit: {seconds}, found true")),
        ("limits:\n  log_bytes: many\n".into(), "config.yaml:2: limits.log_bytes: expected bytes or a size as 50KB, 10MB or 1GiB, found \"many\"".into()),
        ("keys:\n  zoom: true\n".into(), "config.yaml:2: keys.zoom: expected a key, a list of keys, or false, found true".into()),
        ("client_env:\n  - [a]\n".into(), "config.yaml:2: client_env: expected a text or a list of texts, found a list".into()),
        // Not YAML.
        ("terminal:\n  a: b: c\n".into(), "config.yaml:2: not valid YAML: mapping values are not allowed in this context".into()),
        ("terminal: [\n".into(), "config.yaml:2: not valid YAML: did not find expected node content, while parsing a flow node".into()),
        (format!("a: {}\n", "[".repeat(600)), "config.yaml:1: nested deeper than 32 levels".into()),
    ];
    for (text, expected) in table {
        assert_eq!(wrong(&text), expected, "{}", &text[..text.len().min(300)]);
    }
}

#[test]
fn several_things_are_told_together_in_the_order_of_the_file() {
    let text = "terminal:\n  timeout: x\n  backends:\n    a: {type: ssh, prt: 1}\n    b: {type: nope}\nui: {mouse: 7}\n";
    let expected = "config.yaml:2: terminal.timeout: expected seconds or a duration as 90s, 5m or 500ms, found \"x\"\n\
                    config.yaml:4: unknown key \"prt\" under backends.a; did you mean \"port\"?\n\
                    config.yaml:5: backends.b.type: expected one of ssh, docker, apptainer, command, slurm, modal, gateway, daytona, found \"nope\"\n\
                    config.yaml:6: ui.mouse: expected true or false, found 7";
    assert_eq!(wrong(text), expected);
    // A default backend that is there and wrong is not told a second time.
    assert_eq!(wrong("terminal:\n  default_backend: b\n  backends:\n    b: {type: nope}\n").lines().count(), 1);
    let many: String = (0..50).map(|number| format!("key{number}zz: 1\n")).collect();
    let told = wrong(&many);
    assert_eq!(told.lines().count(), 21);
    assert!(told.ends_with("config.yaml: 30 more problems"), "{told}");
}

#[test]
fn the_environment_is_honoured() {
    let text = "terminal:\n  timeout: 10\n  lifetime_seconds: 20\n  backends:\n    a: {type: ssh, timeout: 5}\n    b: {type: ssh}\n";
    let vars = [("TERMINAL_TIMEOUT", "60"), ("TERMINAL_LIFETIME_SECONDS", "70"), ("TERMINAL_MAX_FOREGROUND_TIMEOUT", "80")];
    for text in [text, &text.replace('\n', "\n# x\n")] {
        let config = read_with(text, &vars).unwrap();
        assert_eq!([config.timeout, config.lifetime, config.max_foreground].map(|time| time.as_secs()), [60, 70, 80]);
        let timeouts: Vec<_> = config.backends.iter().map(|backend| backend.timeout.as_secs()).collect();
        assert_eq!(timeouts, [60, 5, 60]);
    }
    assert_eq!(read_with("", &vars).unwrap().backends[0].timeout.as_secs(), 60);
    for (value, expected) in [
        ("abc", "environment: TERMINAL_TIMEOUT: expected seconds or a duration as 90s, 5m or 500ms, found \"abc\""),
        ("0", "environment: TERMINAL_TIMEOUT: expected more than 0"),
    ] {
        assert_eq!(read_with("", &[("TERMINAL_TIMEOUT", value)]).unwrap_err().to_string(), expected);
    }
    assert_eq!(read_with("", &[("TERMINAL_TIMEOUT", "")]).unwrap(), Config::default());
}

#[test]
fn secrets_are_followed_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "from-the-file\n").unwrap();
    let text = gpu(&format!(
        "env:\n  TOKEN: ${{GPU_TOKEN}}\n  OTHER: file:{}\n  PLAIN: a${{b}}\n  DB: file:./dev.db\n  GONE: ${{NOT_SET}}\n  API_KEY: written-down-here",
        file.display()
    ));
    let config = read_with(&text, &[("GPU_TOKEN", "from-the-variable")]).unwrap();
    let env = &config.backend("gpu").unwrap().env;
    let got: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        got,
        [
            ("API_KEY", "written-down-here"),
            ("DB", "file:./dev.db"),
            ("OTHER", "from-the-file"),
            ("PLAIN", "a${b}"),
            ("TOKEN", "from-the-variable")
        ]
    );
    assert_eq!(config.notices, ["backends.gpu.env.GONE: NOT_SET is not set in the environment: left out"]);
    assert_eq!(config.redact.values, ["from-the-variable", "from-the-file"]);
    for shown in [show(&config), format!("{config:?}")] {
        for secret in ["from-the", "written-down"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("TOKEN"));
    }
    assert!(show(&config).contains("PLAIN: \"a${b}\""), "{}", show(&config));
}

#[test]
fn what_is_shown_reads_as_the_same() {
    let everything = "terminal:\n  default_backend: b\n  max_foreground: 90.5\n  backends:\n    b: {type: ssh, host: 'u@[::1]:23', keys: [/a b, '/c,d'], known_hosts: /k, host_key: strict, agent: true, ssh_config: /c, slot: 4, \
                      env: {A: '0', B: 'x: y #z', C: ''}, tags: [t], on_lost: keep, shell: sh}\n    c: {type: docker}\nkeys: {zoom: [z, ']'], quit: false}\nredact: {defaults: false, names: [A]}\nidle_exit: never\n";
    for text in ["", MISSION, include_str!("../../config.example.yaml"), everything] {
        let config = read(text);
        let shown = show(&config);
        let again = read(&shown);
        assert_eq!(again, config, "{shown}");
    }
    assert_eq!(show(&Config::default()).lines().next(), Some("# no config file: local alone"));
}

#[test]
fn what_has_no_effect_is_said() {
    let config = read(&gpu("mode: read-only\nsync: [{from: a, to: b}]"));
    assert_eq!(
        config.notices,
        [
            "backends.gpu.mode: \"read-only\" has no effect in this version: agents' commands run there without asking",
            "backends.gpu.sync has no effect in this version: no files are copied"
        ]
    );
    assert_eq!(read(&gpu("mode: auto\npersistent_shell: true")).notices, Vec::<String>::new());
}

#[test]
fn debug_text_and_default_names_hold() {
    assert_eq!(Config::default().redact.names, redact::secret_names());
    let settings =
        BackendSettings { env: [("A".to_owned(), "hunter2".to_owned())].into(), ..BackendSettings::new("x", KindSettings::Local) };
    assert!(!format!("{settings:?}").contains("hunter2"));
}

proptest::proptest! {
    #[test]
    fn no_text_breaks_the_reader(text in "(terminal|backends|local|gpu|type|ssh|host|env|cwd|timeout|ui|keys|x|~|1|true|\\$\\{A\\}|- |: |:\n|\n|  |    |\\[|\\]|\\{|\\}|, |\"|'|&a |\\*a|<<){0,30}") {
        match read_with(&text, &[("A", "v")]) {
            Ok(config) => assert!(config.backends.iter().any(|backend| backend.name == "local") && config.backend(&config.default_backend).is_some()),
            Err(error) => assert!(!error.problems.is_empty() && !error.to_string().is_empty()),
        }
    }
}
