//! Conformance cases: the same files that are run through the command line, here through a session alone.

use super::{Rig, command, stdin};
use crate::model::Outcome;
use crate::session::Session;
use crate::shell::explain::explain;
use serde_yaml::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs the files that QD_SESSION_CASES names (paths, `:` between); `QD_CASE` picks those whose id holds a word; with `QD_SESSION_CASES_SHELL=sh`
/// they run in sh, without those that want bash; with `QD_SESSION_CASES_FAR` on a backend whose files are not ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_named_by_the_environment() {
    let Ok(files) = std::env::var("QD_SESSION_CASES") else { return };
    let _ = crate::backend::local::become_subreaper();
    let only = std::env::var("QD_CASE").unwrap_or_default();
    let in_sh = std::env::var("QD_SESSION_CASES_SHELL").is_ok_and(|s| s == "sh");
    let mut failed = Vec::new();
    let mut passed = 0;
    for file in files.split(':') {
        let cases: Value = serde_yaml::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        for case in cases.as_sequence().unwrap() {
            let id = case["id"].as_str().unwrap();
            if id.contains(&only) && !(in_sh && case["shells"].is_sequence()) {
                match run_case(id, case, in_sh).await {
                    Ok(()) => passed += 1,
                    Err(why) => {
                        eprintln!("FAIL {id}: {why}");
                        failed.push(id.to_owned());
                    }
                }
            }
        }
    }
    eprintln!("{passed} passed, {} failed: {failed:?}", failed.len());
    assert!(failed.is_empty());
}

async fn run_case(id: &str, case: &Value, in_sh: bool) -> Result<(), String> {
    let mut rig = Rig::new();
    if in_sh {
        rig.settings.shell = crate::backend::ShellChoice::Sh;
    }
    if std::env::var_os("QD_SESSION_CASES_FAR").is_some() {
        rig.backend = crate::backend::fake::Fake::new("far");
        rig.settings.env.insert("XDG_STATE_HOME".into(), rig.home().to_str().unwrap().into());
    }
    rig.settings.cwd = "/".into();
    let uniq = format!("u{}", &uuid::Uuid::new_v4().simple().to_string()[..10]);
    let mut sessions = BTreeMap::new();
    for (number, step) in case["steps"].as_sequence().unwrap().iter().enumerate() {
        if let Some(seconds) = step["sleep"].as_f64() {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        }
        let steps: Vec<&Value> = match step["parallel"].as_sequence() {
            Some(steps) => steps.iter().collect(),
            None if step["run"].is_null() => continue,
            None => vec![step],
        };
        let mut runs = Vec::new();
        for step in &steps {
            let name = expand(step["session"].as_str().unwrap_or(id), &uniq);
            let session = sessions.entry(name.clone()).or_insert_with(|| rig.session(&name)).clone();
            runs.push(run_step(&rig, session, step, &uniq));
        }
        for result in futures::future::join_all(runs).await {
            result.map_err(|why| format!("step {}: {why}", number + 1))?;
        }
    }
    Ok(())
}

async fn run_step(rig: &Rig, session: Arc<Session>, step: &Value, uniq: &str) -> Result<(), String> {
    let text = |key: &str| step[key].as_str().map(|s| expand(s, uniq));
    let mut c = command(&text("run").unwrap());
    c.workdir = text("workdir");
    c.stdin = text("stdin").map(|s| stdin(s.into_bytes()));
    c.timeout = Some(text("timeout").map_or(Duration::from_secs(180), |t| Duration::from_secs(t.trim_end_matches('s').parse().unwrap())));
    let command_text = c.text.clone();
    let began = Instant::now();
    let mut done = rig.run_it(&session, c).await;
    if step["truncated"].as_bool() == Some(true) {
        done.output = crate::session::collect::text(&done.log, 50_000).await.unwrap().text;
    }
    let took = began.elapsed();
    let ended = &done.ended;
    let mut bad = Vec::new();
    let mut want = |what: &str, ok: bool, have: String| {
        if !ok {
            bad.push(format!("{what}; have {}", have.chars().take(300).collect::<String>()));
        }
    };
    let code = if let Outcome::Exited { exit_code } = ended.outcome { Some(i64::from(exit_code)) } else { None };
    if let Some(exit) = step.get("exit") {
        want(&format!("exit {exit:?}"), exit.as_i64() == code, format!("{:?} {:?}", ended.outcome, done.output));
    }
    if let Some(o) = text("outcome") {
        want(&format!("outcome {o}"), ended.outcome.word() == o, format!("{:?}", ended.outcome));
    }
    if let Some(cwd) = text("cwd") {
        want(&format!("cwd {cwd}"), ended.cwd == cwd, ended.cwd.clone());
    }
    if let Some(output) = text("output") {
        want(&format!("output {output:?}"), done.output == output, format!("{:?}", done.output));
    }
    if let Some(bytes) = step["total_bytes"].as_u64() {
        want(&format!("bytes {bytes}"), done.log.total() == bytes, done.log.total().to_string());
    }
    let list = |key: &str| step[key].as_sequence().cloned().unwrap_or_default();
    let words = |key: &str| list(key).iter().map(|v| expand(v.as_str().unwrap_or_default(), uniq)).collect::<Vec<_>>();
    for part in words("contains") {
        want(&format!("contains {part:?}"), done.output.contains(&part), format!("{:?}", done.output));
    }
    for part in words("absent") {
        want(&format!("absent {part:?}"), !done.output.contains(&part), format!("{:?}", done.output));
    }
    let codes: Vec<String> = done.codes().iter().map(|c| serde_json::to_value(c).unwrap().as_str().unwrap().to_owned()).collect();
    if let Some(w) = text("warning") {
        want(&format!("warning {w}"), codes.contains(&w), format!("{codes:?}"));
    }
    if let Some(w) = text("no_warning") {
        want(&format!("no warning {w}"), !codes.contains(&w), format!("{:?}", ended.warnings));
    }
    let meaning = code.and_then(|c| explain(&command_text, c as i32));
    if words("has").contains(&"exit_code_meaning".to_owned()) {
        want("a meaning", meaning.is_some(), String::new());
    }
    if words("has_not").contains(&"exit_code_meaning".to_owned()) {
        want("no meaning", meaning.is_none(), format!("{meaning:?}"));
    }
    if let Some(ms) = step["max_ms"].as_u64() {
        want(&format!("at most {ms} ms"), took < Duration::from_millis(ms), format!("{took:?}"));
    }
    if bad.is_empty() { Ok(()) } else { Err(format!("{command_text:.80}: {}", bad.join("; "))) }
}

/// `{{uniq}}` and `{{repeat TEXT N}}`.
fn expand(text: &str, uniq: &str) -> String {
    let mut out = text.replace("{{uniq}}", uniq);
    while let Some(at) = out.find("{{repeat ") {
        let end = at + out[at..].find("}}").unwrap();
        let (what, times) = out[at + 9..end].split_once(' ').unwrap();
        let all = what.repeat(times.parse().unwrap());
        out.replace_range(at..end + 2, &all);
    }
    out
}
