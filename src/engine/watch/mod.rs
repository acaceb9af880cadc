//! Looks outputs through for the patterns of a `watch`, and tells what is found.
//!
//! Invariant: it reads the log, never the process: whoever writes that log, here or far away, and however often the daemon
//! is started anew, each line is looked at in its place. What a wait of the process hears does not depend on how much others tell.

mod limit;
mod lines;
mod queue;

pub(crate) use limit::Together;
pub(crate) use queue::Queue;

use super::{Core, EngineError};
use crate::model::redact::Redactor;
use crate::model::{LogStart, News, ProcessId, ProcessInfo, WATCH_PATTERNS, watch_pattern};
use crate::session::log::{Log, Reader};
use limit::{Batch, QUIET, Verdict, Windows};
use lines::{Hit, Matcher};
use regex::bytes::Regex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Bytes of a log that are looked through before others get their turn.
const PIECE: u64 = 64 * 1024;
/// So long an end waits until the rest of its output was looked through: it is read from memory or this machine's disk.
const REST: Duration = Duration::from_secs(5);

/// The watch of one process.
#[derive(Clone)]
pub(crate) struct Watching {
    /// Everything before this byte of the log was looked through, and told.
    told_to: Arc<AtomicU64>,
    /// Closed once all was looked through, or is not any more.
    done: watch::Receiver<()>,
}

impl Watching {
    /// Everything before this byte of the log was looked through, and told.
    pub(crate) fn told_to(&self) -> u64 {
        self.told_to.load(Ordering::Acquire)
    }
}

/// Reads the patterns of a request.
pub(super) fn patterns(list: &[String]) -> Result<Vec<Regex>, EngineError> {
    if list.len() > WATCH_PATTERNS {
        return Err(EngineError::Usage(format!("{} patterns to watch for are too many: at most {WATCH_PATTERNS}", list.len())));
    }
    list.iter().map(|text| watch_pattern(text).map_err(EngineError::Usage)).collect()
}

impl Core {
    /// Has the output of a process looked through for what its row says, from the beginning of a line on.
    pub(crate) fn look_through(self: &Arc<Self>, id: &str, from: u64) {
        let Ok((info, log)) = self.state().table.find(id).map(|entry| (entry.info.clone(), entry.log.clone())) else { return };
        if info.watch.is_empty() {
            return;
        }
        let patterns = match patterns(&info.watch) {
            Ok(patterns) => patterns,
            // Of an older version, that took other patterns.
            Err(error) => return self.watch_off(id, error.to_string()),
        };
        let (told_to, (tell, done)) = (Arc::new(AtomicU64::new(from)), watch::channel(()));
        if let Some(entry) = self.state().table.get_mut(id) {
            entry.watching = Some(Watching { told_to: told_to.clone(), done });
        }
        let matcher = Matcher::new(patterns, self.redactor(&info.backend), from);
        let look = Look { core: Arc::downgrade(self), id: info.id, log, matcher, windows: Windows::default(), told_to };
        tokio::spawn(async move {
            look.run().await;
            drop(tell);
        });
    }

    /// Waits until the output of a process whose log is finished was looked through: what it said is told before its end is.
    pub(crate) async fn looked_through(&self, id: &str) {
        let Some(mut watching) = self.state().table.get_mut(id).and_then(|entry| entry.watching.clone()) else { return };
        // It is never sent to, so that this waits for the looker's end.
        if tokio::time::timeout(REST, watching.done.changed()).await.is_err() {
            tracing::warn!(id, "the end of an output was not looked through in time");
        }
    }

    /// Tells lines that matched.
    fn tell_matched(self: &Arc<Self>, id: &str, batch: Batch) {
        let now = self.shared.clock.now();
        let count = batch.count();
        let mut state = self.state();
        let verdict = state.together.ask(count, now);
        let Some(entry) = state.table.get_mut(id) else { return };
        let news = News::Matched { lines: batch.lines, dropped: batch.dropped };
        let told = self.shared.news(Some(of(&entry.info)), news, verdict == Verdict::Tell);
        entry.told.push(told);
        if verdict == Verdict::QuietBegins {
            self.shared.news(None, News::Quiet { for_ms: QUIET.unsigned_abs() }, true);
            let (core, until) = (Arc::downgrade(self), self.shared.clock.instant(now + QUIET));
            tokio::spawn(async move {
                tokio::time::sleep_until(until).await;
                if let Some(core) = core.upgrade() {
                    let lines = core.state().together.over();
                    core.shared.news(None, News::QuietOver { lines }, true);
                }
            });
        }
    }

    /// Turns a watch off, and says so.
    fn watch_off(&self, id: &str, reason: String) {
        let mut state = self.state();
        let Some(entry) = state.table.get_mut(id) else { return };
        entry.info.watch.clear();
        let told = self.shared.news(Some(of(&entry.info)), News::WatchOff { reason }, true);
        entry.told.push(told);
        self.shared.tell(crate::model::Event::Process { process: Box::new(entry.shown()) });
    }

    /// What knows the secrets that the output of a backend may hold.
    pub(super) fn redactor(&self, backend: &str) -> Redactor {
        let place = self.place(Some(backend));
        place.map_or_else(|_| Redactor::default(), |place| super::doctor::secrets(self, &place))
    }
}

/// Names a process in what is told of it.
pub(super) fn of(info: &ProcessInfo) -> crate::model::Of {
    let command = Redactor::default().text(&info.command).into_owned();
    crate::model::Of {
        process: info.id.clone(),
        backend: info.backend.clone(),
        session: info.session.clone(),
        command: super::aftermath::short(&command),
        who: info.who.clone(),
    }
}

/// Looks one output through.
struct Look {
    core: Weak<Core>,
    id: ProcessId,
    log: Arc<Log>,
    matcher: Matcher,
    windows: Windows,
    told_to: Arc<AtomicU64>,
}

impl Look {
    /// Ends with the output, or when too much matches.
    async fn run(mut self) {
        let hold = self.log.hold(Reader::Watcher, self.matcher.next());
        loop {
            let due = {
                let Some(core) = self.core.upgrade() else { return };
                self.windows.due().map(|at| core.shared.clock.instant(at))
            };
            let goes_on = tokio::select! {
                biased;
                () = at(due) => self.tell(Vec::new(), false),
                () = self.log.grown(self.matcher.next()) => self.read().await,
            };
            hold.passed(self.matcher.next());
            self.told_to.store(self.windows.first().unwrap_or(self.matcher.line_start()), Ordering::Release);
            match goes_on {
                Goes::On => {}
                // What is written down says how far it was told.
                Goes::Told => self.written_down().await,
                Goes::Off => return self.written_down().await,
                Goes::Over => return,
            }
        }
    }

    /// Looks at the next piece.
    async fn read(&mut self) -> Goes {
        let chunk = match self.log.read(LogStart::Offset(self.matcher.next()), PIECE).await {
            Ok(chunk) => chunk,
            Err(error) => {
                if let Some(core) = self.core.upgrade() {
                    core.watch_off(&self.id, format!("its log cannot be read: {error}"));
                }
                return Goes::Off;
            }
        };
        // An ended log gives all that it has; nothing more comes of one that gives nothing.
        let over = chunk.ended && (chunk.bytes.is_empty() || chunk.offset + chunk.bytes.len() as u64 >= chunk.total);
        let mut hits = self.matcher.feed(chunk.offset, &chunk.bytes);
        if over {
            hits.extend(self.matcher.end());
        }
        let goes_on = self.tell(hits, over);
        tokio::task::yield_now().await;
        goes_on
    }

    /// Tells what may be told now; at the end all of it, since nothing comes after it that it could be told with.
    fn tell(&mut self, hits: Vec<Hit>, over: bool) -> Goes {
        let Some(core) = self.core.upgrade() else { return Goes::Over };
        let now = core.shared.clock.now();
        let mut told: Vec<Batch> = hits.into_iter().filter_map(|hit| self.windows.take(hit, now)).collect();
        told.extend(if over { self.windows.last(now) } else { self.windows.ready(now) });
        let any = !told.is_empty();
        told.into_iter().for_each(|batch| core.tell_matched(&self.id, batch));
        if self.windows.is_too_much() && !over {
            let text = "more matched than can be told, for three times 15 s in a row; `qd logs` has all of it".to_owned();
            core.watch_off(&self.id, text);
            return Goes::Off;
        }
        match (over, any) {
            (true, _) => Goes::Over,
            (false, true) => Goes::Told,
            (false, false) => Goes::On,
        }
    }

    async fn written_down(&self) {
        if let Some(core) = self.core.upgrade() {
            core.checkpoint_of(&self.id).await;
        }
    }
}

/// How it goes on.
enum Goes {
    On,
    /// Something was told.
    Told,
    /// The watch was turned off.
    Off,
    Over,
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
