//! Examines the way to an ssh machine: ssh_config, name, port, banner, host key, login, sessions.
//!
//! Invariant: one connection and one login, on which nobody is asked anything; nothing is written down here, and nothing is
//! left there. The first step that fails is named, and those after it are told as skipped.

use super::conn::{self, Conn};
use super::diary::{Answer, Diary, Judged, Step};
use super::route::Route;
use super::solo::Solo;
use super::target::{Target, Via};
use crate::backend::{Backend, BackendError, ErrorKind};
use crate::model::{Capabilities, Finding, Verdict};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// The steps, in their order, over the network.
const DIRECT: &[&str] = &["ssh_config", "name", "port", "banner", "host_key", "login", "sessions"];
/// Where another machine, or a command, makes the connection.
const THROUGH: &[&str] = &["ssh_config", "way", "banner", "host_key", "login", "sessions"];
/// Channels opened at most to see how many are allowed: sshd's own default, and more than a backend uses at a time.
const MOST: usize = 10;
/// From so many refused keys on a login is worth a warning: servers close the connection after six.
const MANY_REFUSED: usize = 3;

/// Examines the way and gives a backend on the connection that was made, when it got that far. Cancel safe: nothing is left.
pub(super) async fn examine(route: &Route, can: Capabilities, tell: &mpsc::Sender<Finding>) -> Option<Arc<dyn Backend>> {
    let mut way = Way { steps: DIRECT, tell, told: 0, tried: Vec::new(), passed_over: Vec::new(), began: Instant::now() };
    let (diary, mut steps) = Diary::new();
    let target = match route.target().await {
        Ok(target) => examined(target, diary),
        Err(why) => {
            way.failed(&why).await;
            return None;
        }
    };
    if !matches!(target.via, Via::Nothing) {
        way.steps = THROUGH;
    }
    way.ok(format!("{}{}", target.shown(), target.through())).await;
    let made = {
        let mut connecting = std::pin::pin!(conn::connect(&target));
        loop {
            tokio::select! {
                biased;
                Some(step) = steps.recv() => way.take(&target, step).await,
                made = &mut connecting => break made,
            }
        }
    };
    while let Ok(step) = steps.try_recv() {
        way.take(&target, step).await;
    }
    let conn = match made {
        Ok(conn) => conn,
        Err(why) => {
            way.failed(&why).await;
            return None;
        }
    };
    way.logged_in(&conn).await;
    let sessions = way.sessions(&conn).await?;
    Some(Arc::new(Solo::new(conn, sessions, can)))
}

/// The target with a diary, and those before it with one that nobody reads; nobody is asked at any of them.
fn examined(target: Target, diary: Diary) -> Target {
    let via = match target.via {
        Via::Jump(hop) => Via::Jump(Box::new(examined(*hop, Diary::unread()))),
        other => other,
    };
    let desk = target.desk.without_person();
    Target { via, diary, desk, ..target }
}

/// What was seen of the way so far.
struct Way<'a> {
    steps: &'static [&'static str],
    tell: &'a mpsc::Sender<Finding>,
    /// How many of the steps were told.
    told: usize,
    tried: Vec<(String, Answer)>,
    passed_over: Vec<String>,
    /// When the step under way began.
    began: Instant,
}

impl Way<'_> {
    async fn say(&mut self, verdict: Verdict, fact: String, fix: Option<String>) {
        let Some(check) = self.steps.get(self.told) else { return };
        self.told += 1;
        self.began = Instant::now();
        let finding = Finding { fix, ..Finding::new(check, verdict, fact) };
        // Whoever does not listen any more drops the examination as a whole.
        let _ = self.tell.send(finding).await;
    }

    async fn ok(&mut self, fact: String) {
        self.say(Verdict::Ok, fact, None).await;
    }

    /// Tells every step before this one that said nothing of itself.
    async fn up_to(&mut self, check: &str) {
        while self.steps.get(self.told).is_some_and(|now| *now != check) {
            self.say(Verdict::Skipped, "not tried".to_owned(), None).await;
        }
    }

    async fn take(&mut self, target: &Target, step: Step) {
        match step {
            Step::Resolved { addrs, took } => {
                let shown: Vec<String> = addrs.iter().take(4).map(|addr| addr.ip().to_string()).collect();
                let more = if addrs.len() > shown.len() { format!(" and {} more", addrs.len() - shown.len()) } else { String::new() };
                let fact = if shown == [target.host.clone()] {
                    format!("{} is an address", target.host)
                } else {
                    format!("{} is {}{more} ({})", target.host, shown.join(", "), time(took))
                };
                self.ok(fact).await;
            }
            Step::Connected { addr, took } => {
                self.up_to("port").await;
                self.ok(format!("{} port {} answers ({})", addr.ip(), addr.port(), time(took))).await;
            }
            Step::Spoke(name) => {
                if self.steps.get(self.told) == Some(&"way") {
                    self.ok(format!("{} answers{} ({})", target.place(), target.through(), time(self.began.elapsed()))).await;
                }
                self.up_to("banner").await;
                self.ok(if name.is_empty() { "it speaks ssh".to_owned() } else { name }).await;
            }
            Step::HostKey { key, judged } => self.host_key(target, &format!("{} {}", key.key_type, key.fingerprint), judged).await,
            Step::Tried { what, answer } => self.tried.push((what, answer)),
            Step::PassedOver(what) => self.passed_over.push(what),
        }
    }

    async fn host_key(&mut self, target: &Target, key: &str, judged: Judged) {
        match judged {
            Judged::Known => self.ok(format!("{key} is known")).await,
            Judged::ForNow => self.ok(format!("{key} is trusted by the operator until the backend is disconnected")).await,
            Judged::New => {
                let file = target.known_hosts.first().map(|file| format!(" in {}", file.display())).unwrap_or_default();
                let fact = format!("{key} is new: the first command accepts it and writes it down{file}; nothing was written now");
                let fix = "compare it with the machine's own: `ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` there".to_owned();
                self.say(Verdict::Warn, fact, Some(fix)).await;
            }
            // The attempt ends with this error, which is told then.
            Judged::Refused => {}
        }
    }

    /// Tells of the step that failed, and that those after it were not made.
    async fn failed(&mut self, why: &BackendError) {
        let now = self.steps.get(self.told).copied().unwrap_or("login");
        let at = match why.kind {
            // What a machine in between refuses is a fault of the way.
            _ if matches!(now, "ssh_config" | "way") => now,
            ErrorKind::HostKey => "host_key",
            ErrorKind::Authentication => "login",
            _ => now,
        };
        self.up_to(at).await;
        let mut fact = why.message.clone();
        // A refusal tells all that was offered itself.
        if at == "login" && why.kind != ErrorKind::Authentication && !self.tried.is_empty() {
            fact = format!("{fact}; {}", self.story());
        }
        self.say(Verdict::Fail, fact, why.fix.clone()).await;
        while self.told < self.steps.len() {
            self.say(Verdict::Skipped, format!("the step `{}` failed", at.replace('_', " ")), None).await;
        }
    }

    /// What was offered, one after the other.
    fn story(&self) -> String {
        let words = |answer: &Answer| match answer {
            Answer::In => "accepted",
            Answer::Partly => "accepted, but not enough",
            Answer::Refused => "refused",
        };
        let mut parts: Vec<String> = self.tried.iter().map(|(what, answer)| format!("{what}: {}", words(answer))).collect();
        parts.extend(self.passed_over.iter().map(|what| format!("not offered: {what}")));
        parts.join("; ")
    }

    /// Tells of a login that succeeded.
    async fn logged_in(&mut self, conn: &Conn) {
        self.up_to("login").await;
        let target = conn.target();
        let mut fact = format!("in as {} after {}; {}", target.user, time(self.began.elapsed()), self.story());
        if !conn.quiet {
            fact.push_str("; a key like that may want a touch at each login");
        }
        let banner = conn.link.banner();
        if !banner.is_empty() {
            let first: String = banner.lines().next().unwrap_or_default().chars().take(120).collect();
            fact.push_str(&format!("; it says: {first}"));
        }
        let refused = self.tried.iter().filter(|(_, answer)| *answer == Answer::Refused).count();
        if refused >= MANY_REFUSED {
            let fix = format!("name the right key with `key:` for backend {}: servers lock out after repeated refusals", target.name);
            self.say(Verdict::Warn, fact, Some(fix)).await;
        } else {
            self.ok(fact).await;
        }
    }

    /// Tells how many sessions are allowed at a time; none when not even one is.
    async fn sessions(&mut self, conn: &Arc<Conn>) -> Option<usize> {
        let raise = || Some("raise MaxSessions in the sshd_config there".to_owned());
        let room = conn.count_room(MOST).await;
        match &room {
            Ok(0) => {
                let fact = "the server lets no session be opened: the account may be for forwarding only".to_owned();
                self.say(Verdict::Fail, fact, raise()).await;
                return None;
            }
            Ok(1) => {
                let fact = "1 at a time: commands wait for each other, and the control shell gets a connection of its own".to_owned();
                self.say(Verdict::Warn, fact, raise()).await;
            }
            Ok(count) if *count == MOST => self.ok(format!("{MOST} at a time or more, on one connection")).await,
            Ok(count) => self.ok(format!("{count} at a time, on one connection")).await,
            Err(why) => self.say(Verdict::Fail, why.message.clone(), why.fix.clone()).await,
        }
        room.ok()
    }
}

/// A time in milliseconds.
fn time(took: Duration) -> String {
    match took.as_micros() {
        us @ 0..10_000 => format!("{}.{} ms", us / 1000, us % 1000 / 100),
        us => format!("{} ms", us / 1000),
    }
}
