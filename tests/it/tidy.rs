//! The house rules that a compiler does not check, as tests: each failure names file, line and rule.

use crate::harness::source::{Source, files, root, sources};
use quarterdeck::report::ExitCode;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Lines of code in one file, tests and comments not counted.
const MOST_LINES: usize = 400;

/// Which layer may use which (src/lib.rs has the map).
const LAYERS: [(&str, &[&str]); 14] = [
    ("model", &[]),
    ("shell", &[]),
    ("report", &["model"]),
    ("paths", &["model", "report"]),
    ("config", &["model", "paths", "report", "backend"]),
    ("logging", &["model", "paths", "config", "report"]),
    ("backend", &["model", "paths", "config", "report", "shell"]),
    ("session", &["model", "paths", "config", "report", "shell", "backend"]),
    ("engine", &["model", "paths", "config", "report", "backend", "session"]),
    ("protocol", &["model"]),
    ("client", &["model", "paths", "config", "report", "protocol"]),
    ("daemon", &["model", "paths", "config", "report", "logging", "engine", "protocol"]),
    ("cli", &["model", "paths", "config", "report", "protocol", "client"]),
    ("tui", &["model", "paths", "config", "report", "protocol", "client"]),
];

/// Where only part of a layer may be used: the user, the used one, the names allowed.
const PARTS: [(&str, &str, &[&str]); 2] = [("config", "backend", &["ShellChoice"]), ("backend", "shell", &["quote", "start", "control"])];

/// What never stands in `src`, with the reason.
const BANNED: [(&str, &str); 11] = [
    (".unwrap()", "an error is handled, or `expect` names the invariant"),
    ("process::exit", "only main ends the program, by its return value"),
    ("unbounded_channel", "every queue has a bound"),
    ("mpsc::channel()", "every queue has a bound"),
    ("thread::sleep", "wait for an event"),
    ("todo!(", "nothing is left to be done"),
    ("unimplemented!(", "nothing is left to be done"),
    ("dbg!(", "the log is `tracing`"),
    ("process::getsid", "rustix panics at 0, which a leader outside our namespace gives: use nix"),
    ("process::getpgrp", "rustix panics at 0, which a leader outside our namespace gives: use nix"),
    ("#[allow(", "a lint is waived with `expect` and a reason"),
];

/// All that stands at the top of the repository.
const TOP: [&str; 18] = [
    ".ci",
    ".clippy.toml",
    ".config",
    ".git",
    ".gitignore",
    ".rustfmt.toml",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "assets",
    "benches",
    "config.example.yaml",
    "rust-toolchain.toml",
    "src",
    "target",
    "tests",
];

#[track_caller]
fn none(rule: &str, findings: Vec<String>) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

#[test]
fn files_are_small() {
    let long = |s: &Source| (s.lines_of_code() > MOST_LINES).then(|| format!("{}: {} lines of code", s.path, s.lines_of_code()));
    none("a file has at most 400 lines of code: split it by idea", sources().iter().filter_map(long).collect());
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    let folders = ["src", "tests", "benches"];
    let all = folders.iter().flat_map(|folder| files(&root().join(folder), "rs"));
    let opens = |path: &std::path::PathBuf| std::fs::read_to_string(path).is_ok_and(|text| text.starts_with("//! "));
    none("a file opens with `//!`", all.filter(|path| !opens(path)).map(|path| path.display().to_string()).collect());
}

#[test]
fn what_is_banned_is_not_used() {
    let mut found = Vec::new();
    for source in sources() {
        for (text, reason) in BANNED {
            for (at, _) in source.code.match_indices(text) {
                found.push(format!("{}:{}: {text} ({reason})", source.path, line_of(&source.code, at)));
            }
        }
    }
    none("banned", found);
}

#[test]
fn layers_use_only_what_is_below_them() {
    let mut found = Vec::new();
    for source in sources() {
        let module = source.module();
        let Some(&own) = module.first() else { continue };
        let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == own) else {
            found.push(format!("{}: {own} is in no layer", source.path));
            continue;
        };
        for (at, path) in uses(&source.code, &module) {
            let used = path[0].as_str();
            let next = path.get(1).map_or("", String::as_str);
            let part = PARTS.iter().find(|(user, of, _)| *user == own && *of == used);
            let wrong = LAYERS.iter().any(|(name, _)| *name == used) && used != own && !allowed.contains(&used);
            if wrong || part.is_some_and(|(_, _, names)| !names.contains(&next)) {
                found.push(format!("{}:{}: {own} uses {}", source.path, line_of(&source.code, at), path.join("::")));
            }
        }
    }
    none("a layer uses only what is below it", found);
}

#[test]
fn only_open_names_the_kinds_of_backend() {
    let mut found = Vec::new();
    for source in sources() {
        let module = source.module();
        if module.first() == Some(&"backend") || module.is_empty() {
            continue;
        }
        for (at, path) in uses(&source.code, &module) {
            if path[0] == "backend" && path.get(1).is_some_and(|part| matches!(part.as_str(), "local" | "ssh")) {
                found.push(format!("{}:{}: {}", source.path, line_of(&source.code, at), path.join("::")));
            }
        }
    }
    none("nothing above a backend names its kind", found);
}

/// The paths from the crate's root that the code uses, each with its place: `crate::a::B`, `super::super::a`, and every member
/// of `use crate::{a::B, c}`.
fn uses(code: &str, module: &[&str]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for word in ["crate::", "quarterdeck::", "super::"] {
        for (at, _) in code.match_indices(word) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let mut rest = &code[at..];
            let mut base: Vec<String> = Vec::new();
            if word == "super::" {
                base = module.iter().map(|part| (*part).to_owned()).collect();
                while let Some(after) = rest.strip_prefix("super::") {
                    rest = after;
                    base.pop();
                }
            } else {
                rest = &rest[word.len()..];
            }
            for tail in tree(rest) {
                let path: Vec<String> = base.iter().cloned().chain(tail).collect();
                if !path.is_empty() {
                    found.push((at, path));
                }
            }
        }
    }
    found
}

/// Spells out a use tree: `a::{B, c::D}` is a::B and a::c::D.
fn tree(text: &str) -> Vec<Vec<String>> {
    let text = text.trim_start();
    let Some(inner) = text.strip_prefix('{') else {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let name = text[..end].to_owned();
        return match text[end..].strip_prefix("::") {
            Some(rest) => tree(rest).into_iter().map(|tail| [vec![name.clone()], tail].concat()).collect(),
            None if name.is_empty() => vec![Vec::new()],
            None => vec![vec![name]],
        };
    };
    let (mut depth, mut begin, mut members) = (0, 0, Vec::new());
    for (i, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                members.push(&inner[begin..i]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&inner[begin..i]);
                begin = i + 1;
            }
            _ => {}
        }
    }
    members.into_iter().filter(|m| !m.trim().is_empty()).flat_map(tree).collect()
}

#[test]
fn the_paths_of_a_use_are_found() {
    let of = |code: &str| -> Vec<String> { uses(code, &["session", "log"]).into_iter().map(|(_, path)| path.join("::")).collect() };
    assert_eq!(of("use crate::model::{Exec, a::B};"), ["model::Exec", "model::a::B"]);
    assert_eq!(of("use crate::{\n    model,\n    shell::{quote, start::x},\n};"), ["model", "shell::quote", "shell::start::x"]);
    assert_eq!(of("let x = crate::paths::state();"), ["paths::state"]);
    assert_eq!(of("use super::super::engine::X; use super::collect;"), ["engine::X", "session::collect"]);
    assert_eq!(of("pub(crate) fn x() {} othercrate::a"), [""; 0]);
}

#[test]
fn no_suite_is_forgotten() {
    let main = std::fs::read_to_string(root().join("tests/it/main.rs")).expect("it is there");
    let folder = root().join("tests/it");
    let names = std::fs::read_dir(&folder).expect("it is there").flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let modules = names.map(|name| name.trim_end_matches(".rs").to_owned()).filter(|name| name != "main");
    none("a suite is missing from tests/it/main.rs", modules.filter(|name| !main.contains(&format!("\nmod {name};"))).collect());
}

#[test]
fn the_top_of_the_repository_holds_what_it_should() {
    let top = std::fs::read_dir(root()).expect("it is there").flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    none("not a file for the top of the repository", top.filter(|name| !TOP.contains(&name.as_str())).collect());
}

#[test]
fn shell_scripts_pass_shellcheck() {
    let listed = Command::new("git").current_dir(root()).args(["ls-files", "-co", "--exclude-standard"]).output();
    let names = match listed {
        Ok(done) if done.status.success() => String::from_utf8_lossy(&done.stdout).into_owned(),
        _ => files(&root().join("assets"), "sh").iter().map(|p| format!("{}\n", p.display())).collect(),
    };
    let is_shell = |name: &&str| {
        let head = std::fs::read(root().join(name)).unwrap_or_default();
        let first = String::from_utf8_lossy(&head[..head.len().min(80)]).lines().next().unwrap_or_default().to_owned();
        name.ends_with(".sh") || (first.starts_with("#!") && (first.ends_with("sh") || first.ends_with("sh -e")))
    };
    let mut found = Vec::new();
    for name in names.lines().filter(is_shell) {
        let text = std::fs::read_to_string(root().join(name)).expect("the file was listed");
        let said: Vec<String> = match text.contains("\n#=== ") {
            true => text.split("\n#=== ").skip(1).filter_map(|part| shellcheck(&(waived(&text) + &section(part)), &TEMPLATE)).collect(),
            false => shellcheck(&text, &[]).into_iter().collect(),
        };
        found.extend(said.iter().map(|said| format!("{name}: {said}")));
    }
    none("shellcheck", found);
}

/// A section of a template is checked alone: its variables come from others, and what a trap runs is filled in.
const TEMPLATE: [&str; 3] = ["--shell=bash", "--severity=warning", "--exclude=SC2154,SC2064,SC2140"];

/// What a template waives at its top holds for each of its sections.
fn waived(text: &str) -> String {
    text.lines()
        .take_while(|line| line.starts_with('#'))
        .filter(|line| line.starts_with("# shellcheck disable="))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Fills the gaps (`@NAME@`) of a template's section so that it can be parsed; its first line is its name.
fn section(part: &str) -> String {
    let is_gap =
        |word: &str| word.len() > 2 && word.starts_with('@') && word.ends_with('@') && word[1..word.len() - 1].bytes().all(is_gap_byte);
    let mut filled = String::from("#");
    for line in part.lines() {
        if is_gap(line.trim()) {
            filled.push_str(":\n");
            continue;
        }
        let pieces: Vec<&str> = line.split('@').collect();
        let mut i = 0;
        while i < pieces.len() {
            let named = i > 0 && i + 1 < pieces.len() && !pieces[i].is_empty() && pieces[i].bytes().all(is_gap_byte);
            match (named, named && pieces[i + 1].starts_with(" }")) {
                // Commands, before the end of a group.
                (true, true) => filled.push_str(&format!(":;{}", pieces[i + 1])),
                (true, false) => filled.push_str(&format!("gap{}", pieces[i + 1])),
                (false, _) if i > 0 => filled.push_str(&format!("@{}", pieces[i])),
                (false, _) => filled.push_str(pieces[i]),
            }
            i += if named { 2 } else { 1 };
        }
        filled.push('\n');
    }
    filled
}

fn is_gap_byte(b: u8) -> bool {
    b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_'
}

#[test]
fn gaps_of_templates_are_filled() {
    let check = |line: &str, want: &str| assert_eq!(section(&format!("NAME\n{line}")), format!("#NAME\n{want}\n"));
    check("@CHECK@", ":");
    check("{ @SAVE@ } 2>&1", "{ :; } 2>&1");
    check("x; @QUIET@ } >@N@.f", "x; :; } >gap.f");
    check("\"$@\" ${a[@]} @DIR@ @A@@B@", "\"$@\" ${a[@]} gap gapgap");
}

/// Gives what shellcheck has to say about a script.
fn shellcheck(script: &str, flags: &[&str]) -> Option<String> {
    let mut command = Command::new("shellcheck");
    command.args(["--format=gcc", "--external-sources"]).args(flags).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = match command.current_dir(root()).spawn() {
        Ok(child) => child,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "shellcheck is required here: apt-get install shellcheck ({error})");
            return None;
        }
    };
    let mut stdin = child.stdin.take().expect("piped above");
    stdin.write_all(script.as_bytes()).expect("shellcheck reads its stdin");
    drop(stdin);
    let done = child.wait_with_output().expect("it is our child");
    (!done.status.success()).then(|| format!("{}\n{}", script.lines().next().unwrap_or_default(), String::from_utf8_lossy(&done.stdout)))
}

/// The lines of a file between `<!-- NAME -->` and `<!-- /NAME -->`.
fn marked(file: &str, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(file)).expect("it is there");
    let (begin, end) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let inner = text.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end)).map(|(inner, _)| inner);
    inner.unwrap_or_else(|| panic!("{file} has no block {name}")).lines().map(str::to_owned).collect()
}

#[test]
fn the_readme_gives_every_exit_code_once() {
    let codes: Vec<String> = marked("README.md", "exit codes")
        .iter()
        .filter_map(|line| Some(line.strip_prefix("| ")?.split(" |").next()?.trim().to_owned()))
        .filter(|cell| cell.bytes().all(|b| b.is_ascii_digit()))
        .collect();
    // 75 and 77 belong to approvals; 1 and 141 are words of the command line alone.
    let want = [
        ExitCode::OK,
        1,
        ExitCode::USAGE,
        ExitCode::UNAVAILABLE,
        ExitCode::CONFIG,
        ExitCode::STILL_RUNS,
        ExitCode::TIMED_OUT,
        ExitCode::FAULT,
        ExitCode::DIRECTORY,
        ExitCode::INTERRUPTED,
        141,
        ExitCode::LINK_LOST,
    ];
    assert_eq!(codes, want.map(|code| code.to_string()));
}

/// The rows of the TUI's table of keys that come after the leader, as the README has them.
fn leader_keys() -> Vec<String> {
    let table = std::fs::read_to_string(root().join("src/tui/input/table.rs")).unwrap_or_default();
    let row = regex::Regex::new(r#"def\(Action::\w+, "[^"]+", L, &\[([^\]]*(?:"\]"[^\]]*)?)\], "([^"]+)""#).expect("it compiles");
    row.captures_iter(&table)
        .filter_map(|found| {
            let mut keys: Vec<String> =
                found[1].split("\", \"").map(|k| format!("`{}`", k.trim_matches('"'))).filter(|k| k != "``").collect();
            if keys.len() == 10 {
                keys = vec!["`0` to `9`".into()];
            }
            (!keys.is_empty()).then(|| format!("| {} | {} |", keys.join(", "), &found[2]))
        })
        .collect()
}

#[test]
fn the_readme_has_the_keys_after_the_leader() {
    let want = leader_keys();
    let have: Vec<String> = marked("README.md", "keys").into_iter().filter(|line| line.starts_with("| `")).collect();
    // The terminal UI may not be built in.
    if !want.is_empty() {
        assert_eq!(have, want, "the rows should be:\n{}\n", want.join("\n"));
    }
}
