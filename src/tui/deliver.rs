//! Carries alerts to the person: the bell, a notification of the terminal, a command of their own.
//!
//! Invariant: text from elsewhere arrives as plain text, without control characters and of bounded length, and no shell reads it; one command
//! runs at a time and not for long; what is carried is in the messages too.

use super::link::{Daemon, Report};
use super::state::apply::Msg;
use super::state::messages::Ring;
use super::text::{clean, cut};
use crate::config::{Osc, UiSettings};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::mpsc;

/// Columns of a notification.
const LONGEST: usize = 200;
/// How long a command may run.
const LIMIT: Duration = Duration::from_secs(10);
/// Alerts that may wait for the command before them; more are in the messages alone.
const WAITING: usize = 8;

/// Gives what makes the terminal ring or show an alert. `nested` says that a multiplexer stands between, which lets through the bell alone.
pub(super) fn sequence(ui: &UiSettings, nested: bool, text: &str) -> Vec<u8> {
    let text = cut(&clean(text), LONGEST, true);
    let mut out = String::new();
    match ui.osc {
        Osc::Off => {}
        _ if nested => return b"\x07".to_vec(),
        // Behind a word, so that no text of a number is taken for a progress bar.
        Osc::Nine => out.push_str(&format!("\x1b]9;qd: {text}\x1b\\")),
        Osc::SevenSevenSeven => out.push_str(&format!("\x1b]777;notify;Quarterdeck;{}\x1b\\", text.replace(';', ","))),
    }
    if ui.bell {
        out.push('\x07');
    }
    out.into_bytes()
}

/// The command of alerts: run one after the other.
pub(super) struct Hook {
    queue: mpsc::Sender<(Vec<String>, Ring)>,
}

impl Hook {
    /// Starts the task that runs it; it ends with the hook. The first failure of a command is said, until one has succeeded.
    pub(super) fn start<D: Daemon>(tell: mpsc::Sender<Report<D>>) -> Self {
        let (queue, mut waiting) = mpsc::channel::<(Vec<String>, Ring)>(WAITING);
        tokio::spawn(async move {
            let mut said = false;
            while let Some((argv, ring)) = waiting.recv().await {
                match run(&argv, &ring, LIMIT).await {
                    Ok(()) => said = false,
                    Err(_) if said => {}
                    Err(why) => {
                        said = true;
                        let text = format!("ui.on_alert: {} {why}", argv.first().map_or("", String::as_str));
                        tell.send(Report::Msg(Msg::Failed { backend: None, text })).await.ok();
                    }
                }
            }
        });
        Self { queue }
    }

    /// Has the command run for an alert. Never waits.
    pub(super) fn ring(&self, argv: &[String], ring: Ring) {
        if let Err(error) = self.queue.try_send((argv.to_vec(), ring)) {
            tracing::warn!(%error, "an alert is not passed to the command: others wait for it");
        }
    }
}

/// Runs the command once; an error completes "PROGRAM ...". Dropped, it kills the command.
async fn run(argv: &[String], ring: &Ring, limit: Duration) -> Result<(), String> {
    let Some((program, args)) = argv.split_first() else { return Ok(()) };
    let text = cut(&clean(&ring.text), LONGEST, true);
    let mut command = Command::new(program);
    command.args(args).env("QD_ALERT", &text).env("QD_ALERT_BACKEND", ring.backend.as_deref().map(clean).unwrap_or_default());
    command.env("QD_ALERT_PROCESS", ring.process.as_deref().map(clean).unwrap_or_default());
    // Nothing of it may reach the screen.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(|e| format!("cannot be run: {e}"))?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let stdin = child.stdin.take();
    let work = async {
        if let Some(mut stdin) = stdin {
            // A command that reads its environment alone closes it.
            let _ = stdin.write_all(format!("{text}\n").as_bytes()).await;
        }
        child.wait().await
    };
    match tokio::time::timeout(limit, work).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("failed: {status}")),
        Ok(Err(e)) => Err(format!("cannot be waited for: {e}")),
        Err(_) => {
            if let Some(group) = group {
                // It was not waited for yet, so the number is still its own.
                let _ = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), nix::sys::signal::Signal::SIGKILL);
            }
            let _ = child.wait().await;
            Err(format!("ran for over {} s and was killed", limit.as_secs()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(text: &str) -> Ring {
        Ring { backend: Some("web".to_owned()), process: Some("k7f3q2".to_owned()), text: text.to_owned() }
    }

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[test]
    fn what_the_terminal_gets_is_plain_and_bounded() {
        let ui = |bell, osc| UiSettings { bell, osc, ..UiSettings::default() };
        assert_eq!(sequence(&ui(true, Osc::Off), false, "x"), b"\x07");
        assert_eq!(sequence(&ui(false, Osc::Off), true, "x"), b"");
        assert_eq!(sequence(&ui(false, Osc::Nine), false, "web: a\x1b\\\x07b"), b"\x1b]9;qd: web: a^[\\^Gb\x1b\\");
        assert_eq!(sequence(&ui(true, Osc::SevenSevenSeven), false, "a;b"), b"\x1b]777;notify;Quarterdeck;a,b\x1b\\\x07");
        assert_eq!(sequence(&ui(false, Osc::Nine), true, "x"), b"\x07", "inside a multiplexer the bell comes through");
        assert!(sequence(&ui(false, Osc::Nine), false, &"x".repeat(9_999)).len() < 220);
    }

    #[tokio::test]
    async fn the_command_gets_the_message_and_no_shell_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let hostile = "$(touch pwned) `x` ;\n\x1b[31m";
        let script = format!("cat >{0}; printf '%s|%s|%s' \"$QD_ALERT\" \"$QD_ALERT_BACKEND\" \"$QD_ALERT_PROCESS\" >>{0}", out.display());
        run(&shell(&script), &ring(hostile), LIMIT).await.unwrap();
        let plain = clean(hostile);
        assert_eq!(std::fs::read_to_string(out).unwrap(), format!("{plain}\n{plain}|web|k7f3q2"));
    }

    #[tokio::test]
    async fn a_failure_is_told_and_a_command_that_hangs_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        assert!(run(&shell("exit 3"), &ring("x"), LIMIT).await.unwrap_err().contains("exit status: 3"));
        assert!(run(&["/nonexistent/x".to_owned()], &ring("x"), LIMIT).await.unwrap_err().starts_with("cannot be run"));
        let script = format!("sleep 1000 & echo $! >{}; wait", pid.display());
        let why = run(&shell(&script), &ring("x"), Duration::from_secs(1)).await.unwrap_err();
        assert!(why.contains("was killed"), "{why}");
        let child: i32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.rsplit(')').next().is_none_or(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('Z'))
        };
        let wait = async {
            while !gone() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, wait).await.expect("its child is gone too");
    }
}
