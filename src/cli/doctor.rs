//! `qd doctor`: examines backends, and writes a report that can be handed to somebody.
//!
//! Invariant: each finding is printed when it comes; the exit code is 1 when one of them failed.

mod bundle;

use super::args::{DoctorArgs, Global};
use super::failure::Failure;
use super::screen::Screen;
use super::table::Look;
use super::{caller, ps, safe};
use crate::client::Client;
use crate::model::{BackendInfo, Finding, Overview, Verdict};
use crate::protocol::calls::{Doctor, OverviewCall};
use bundle::Bundle;
use serde_json::json;

/// Columns of a check's name: the longest is `login environment`.
const NAME: usize = 17;

/// Examines, and writes the report when one is wanted.
pub(crate) async fn run(global: &Global, args: &DoctorArgs, screen: &Screen) -> Result<u8, Failure> {
    // It is opened before anything is looked at: a report that cannot be written is no surprise at the end.
    let bundle = args.bundle.as_deref().map(Bundle::create).transpose()?;
    let mut seen = Examined::default();
    let done = examine(global, args, screen, &mut seen).await;
    if let Some(bundle) = bundle {
        let path = bundle.write(global, &seen, done.as_ref().err())?;
        screen.say(&format!("the report is in {}; look through it before you send it", path.display()));
    }
    done?;
    if args.json {
        let failed = seen.failed();
        let backends = seen.backends.iter().map(|one| json!({"name": one.info.name, "findings": one.findings}));
        screen.json(&json!({"ok": !failed, "backends": backends.collect::<Vec<_>>()}))?;
    }
    Ok(u8::from(seen.failed()))
}

/// What was seen so far.
#[derive(Default)]
struct Examined {
    overview: Option<Overview>,
    backends: Vec<One>,
}

/// A backend and its findings.
struct One {
    info: BackendInfo,
    findings: Vec<Finding>,
}

impl Examined {
    fn failed(&self) -> bool {
        self.backends.iter().flat_map(|one| &one.findings).any(|finding| finding.verdict == Verdict::Fail)
    }
}

async fn examine(global: &Global, args: &DoctorArgs, screen: &Screen, seen: &mut Examined) -> Result<(), Failure> {
    let client = caller::connect(global, caller::agent(None)).await?;
    let overview = client.call(OverviewCall {}).await?;
    for name in &args.names {
        ps::known_backend(&overview, Some(name))?;
    }
    let wanted = |info: &&BackendInfo| args.names.is_empty() || args.names.contains(&info.name);
    let backends: Vec<BackendInfo> = overview.backends.iter().filter(wanted).cloned().collect();
    seen.overview = Some(overview);
    for info in backends {
        if !args.json {
            screen.print(&head(&info, screen))?;
        }
        seen.backends.push(One { info, findings: Vec::new() });
        let Some(one) = seen.backends.last_mut() else { continue };
        one_by_one(&client, one, !args.json, screen).await?;
        if !args.json {
            screen.print(&foot(&one.findings))?;
        }
    }
    Ok(())
}

async fn one_by_one(client: &Client, one: &mut One, print: bool, screen: &Screen) -> Result<(), Failure> {
    let mut findings = client.doctor(Doctor { backend: one.info.name.clone() }).await?;
    while let Some(finding) = findings.next().await {
        let finding = finding?;
        if print {
            screen.print(&line(&finding, screen))?;
        }
        one.findings.push(finding);
    }
    Ok(())
}

fn head(info: &BackendInfo, screen: &Screen) -> String {
    let address = if info.address.is_empty() { String::new() } else { format!(" {}", info.address) };
    let text = format!("{}  {}{address}", safe::line(&info.name), info.kind.as_str());
    if screen.color { format!("\x1b[1m{text}\x1b[0m\n") } else { text + "\n" }
}

/// One finding in a line, and what to do in another.
fn line(finding: &Finding, screen: &Screen) -> String {
    let (word, look) = match finding.verdict {
        Verdict::Ok => ("ok  ", Look::Good),
        Verdict::Warn => ("warn", Look::Busy),
        Verdict::Fail => ("FAIL", Look::Bad),
        Verdict::Skipped => ("skip", Look::Dim),
    };
    let word = if screen.color { format!("{}{word}\x1b[0m", look.code()) } else { word.to_owned() };
    let name = finding.check.replace('_', " ");
    let mut text = format!("  {word}  {:<NAME$}  {}\n", safe::line(&name), safe::line(&finding.fact));
    if let Some(fix) = &finding.fix {
        text += &format!("        {:NAME$}  -> {}\n", "", safe::line(fix));
    }
    text
}

/// How many there were of each.
fn foot(findings: &[Finding]) -> String {
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let mut parts = vec![format!("{} ok", count(Verdict::Ok))];
    let rest = [(Verdict::Warn, "to look at"), (Verdict::Fail, "failed"), (Verdict::Skipped, "skipped")];
    parts.extend(rest.into_iter().filter(|(verdict, _)| count(*verdict) > 0).map(|(verdict, word)| format!("{} {word}", count(verdict))));
    format!("  {}\n", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_and_its_advice_another() {
        let screen = Screen { unicode: true, ..Screen::default() };
        let all = [
            Finding::new("host_key", Verdict::Ok, "ssh-ed25519 SHA256:x is known"),
            Finding::new("login_environment", Verdict::Warn, "PATH\n\x1b[2J").with_fix("qd session reset"),
            Finding::new("port", Verdict::Fail, "connection refused by 10.0.0.7 port 22"),
            Finding::new("shell", Verdict::Skipped, "the step `port` failed"),
        ];
        let text: String = all.iter().map(|finding| line(finding, &screen)).collect();
        insta::assert_snapshot!(text + &foot(&all), @r"
          ok    host key           ssh-ed25519 SHA256:x is known
          warn  login environment  PATH\n\x1b[2J
                                   -> qd session reset
          FAIL  port               connection refused by 10.0.0.7 port 22
          skip  shell              the step `port` failed
          1 ok, 1 to look at, 1 failed, 1 skipped
        ");
        assert!(line(&all[2], &Screen { color: true, ..screen }).contains("\x1b[31mFAIL\x1b[0m"));
    }
}
