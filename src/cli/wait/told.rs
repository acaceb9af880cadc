//! What the processes that are waited for tell meanwhile: their matches, and that a watch is off.
//!
//! Invariant: each is printed once, as it comes; with `--json` it is printed with the rows.

use super::Until;
use super::until::Seek;
use crate::cli::failure::Failure;
use crate::cli::screen::Screen;
use crate::client::{Client, ClientError, Waited};
use crate::model::{News, ProcessInfo, Told};
use crate::protocol::calls::Wait;

/// Hears and prints.
pub(super) struct Ear<'a> {
    screen: &'a Screen,
    json: bool,
    heard: Vec<Told>,
}

impl<'a> Ear<'a> {
    pub(super) fn new(screen: &'a Screen, json: bool) -> Self {
        Self { screen, json, heard: Vec::new() }
    }

    /// Waits, and prints what is told on stderr; gives the rows.
    pub(super) async fn listen(&mut self, client: &Client, call: Wait) -> Result<Vec<ProcessInfo>, ClientError> {
        let mut waits = client.wait(call).await?;
        loop {
            match waits.next().await.transpose()? {
                Some(Waited::Rows(rows)) => return Ok(rows),
                Some(Waited::Told(told)) => self.take(*told),
                None => return Err(ClientError::Gone("it closed the connection".into())),
            }
        }
    }

    /// Listens beside another wait; gives a failure alone.
    pub(super) async fn beside(&mut self, client: &Client, call: Wait) -> Result<(), Failure> {
        match self.listen(client, call).await {
            Ok(_) => std::future::pending().await,
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the first match of each, and prints its lines on stdout.
    pub(super) async fn matches(&mut self, client: &Client, call: Wait, seeks: &mut [Seek<'_>]) -> Result<(), Failure> {
        debug_assert!(seeks.iter().all(|seek| matches!(seek.until, Until::Match)), "what is waited for is a match");
        let mut waits = client.wait(call).await?;
        while seeks.iter().any(|seek| seek.came.is_none()) {
            let told = match waits.next().await.transpose()? {
                Some(Waited::Told(told)) => *told,
                Some(Waited::Rows(_)) => {
                    seeks.iter_mut().filter(|seek| seek.came.is_none()).for_each(|seek| seek.came = Some(false));
                    return Ok(());
                }
                None => return Err(ClientError::Gone("it closed the connection".into()).into()),
            };
            let seek = seeks.iter_mut().find(|seek| seek.came.is_none() && told.concerns(&seek.id));
            match (&told.news, seek) {
                (News::Matched { lines, dropped }, Some(seek)) => {
                    seek.came = Some(true);
                    if !self.json {
                        self.screen.print(&lines.iter().map(|line| format!("{}\n", crate::cli::safe::line(line))).collect::<String>())?;
                        if *dropped > 0 {
                            self.screen.say(&format!("{}: {}", seek.id, more(*dropped)));
                        }
                    }
                    self.heard.push(told);
                }
                (News::WatchOff { .. }, Some(seek)) => {
                    seek.came = Some(false);
                    self.take(told);
                }
                _ => self.take(told),
            }
        }
        Ok(())
    }

    fn take(&mut self, told: Told) {
        if !self.json {
            lines(&told).iter().for_each(|line| self.screen.say(line));
        }
        self.heard.push(told);
    }

    /// What one of them told.
    pub(super) fn of(&self, process: &ProcessInfo) -> Vec<Told> {
        self.heard.iter().filter(|told| told.of.as_ref().is_some_and(|of| of.process == process.id)).cloned().collect()
    }
}

fn more(dropped: u64) -> String {
    format!("{dropped} more lines matched; `qd logs` has them")
}

/// The lines that say it on stderr.
fn lines(told: &Told) -> Vec<String> {
    let id = told.of.as_ref().map_or("", |of| of.process.as_str());
    match &told.news {
        News::Matched { lines, dropped } => {
            let rest = (*dropped > 0).then(|| format!("{id}: {}", more(*dropped)));
            lines.iter().map(|line| format!("{id} matched: {line}")).chain(rest).collect()
        }
        News::WatchOff { reason } => vec![format!("{id}: its output is not watched any more: {reason}")],
        // The rows say it, or it is about others too.
        News::Ended { .. } | News::Quiet { .. } | News::QuietOver { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_names_its_process() {
        let told = |news| {
            let of = serde_json::json!({"process": "k7f3q2", "backend": "gpu", "session": "main", "command": "make", "who": {"kind": "operator", "name": "you"}});
            lines(&Told { number: 1, at: 0, of: serde_json::from_value(of).ok(), news })
        };
        let matched = told(News::Matched { lines: vec!["a".into(), "b".into()], dropped: 3 });
        assert_eq!(matched, ["k7f3q2 matched: a", "k7f3q2 matched: b", "k7f3q2: 3 more lines matched; `qd logs` has them"]);
        assert_eq!(told(News::WatchOff { reason: "too much".into() }), ["k7f3q2: its output is not watched any more: too much"]);
    }
}
