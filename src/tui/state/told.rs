//! What processes tell (`notify`, `watch`), as messages, lines of the feed and alerts.
//!
//! Invariant: each is told once, whether it came with the overview or by itself; what a person's own process tells is an alert, an agent's is
//! a notice: the agent is told too.

use super::State;
use super::messages::About;
use crate::model::{Level, News, Told, WhoKind};
use crate::tui::format;
use crate::tui::text::{clean, cut};

/// Columns of a line of output in a message.
const LINE: usize = 120;

impl State {
    /// Takes what was told lately, as an overview has it: for the messages alone.
    pub(in crate::tui) fn take_told_lately(&mut self, told: Vec<Told>) {
        for one in told {
            if one.number > self.told {
                self.told = one.number;
                let (_, about, text) = self.told_words(&one);
                self.keep_message(one.at, Level::Info, &about, &text);
            }
        }
    }

    /// Takes what is told now.
    pub(in crate::tui) fn take_told(&mut self, told: &Told) {
        // It was in the overview already.
        if told.number <= self.told {
            return;
        }
        self.told = told.number;
        let (level, about, text) = self.told_words(told);
        self.tell(level, about, text);
    }

    fn told_words(&self, told: &Told) -> (Level, About, String) {
        let about = match &told.of {
            Some(of) => About { backend: Some(of.backend.clone()), process: Some(of.process.clone()), own: false },
            None => About::default(),
        };
        let own = told.of.as_ref().is_some_and(|of| of.who.kind == WhoKind::Operator);
        let wanted = if own { Level::Alert } else { Level::Notice };
        let line = |text: &str| cut(&clean(text.trim()), LINE, self.theme.glyphs.ascii);
        let name = told.of.as_ref().map_or_else(String::new, |of| format!("{}: {}: ", clean(&of.backend), line(&of.command)));
        let (level, what) = match &told.news {
            News::Ended { outcome, output, duration_ms, .. } => {
                let last = output.lines().rev().find(|l| !l.trim().is_empty()).map_or_else(String::new, |l| format!(": {}", line(l)));
                let took = format::duration(i64::try_from(*duration_ms).unwrap_or(i64::MAX));
                let ended = format!("{} after {took}{last}", format::outcome(outcome));
                // A failure is said of every background process, with or without being asked for.
                let good = matches!(outcome, crate::model::Outcome::Exited { exit_code: 0 });
                (if good { wanted } else { Level::Info }, ended)
            }
            News::Matched { lines, dropped } => {
                let first = lines.first().map_or_else(String::new, |l| line(l));
                let more = (lines.len() as u64).saturating_sub(1) + dropped;
                let more = if more > 0 { format!("  (and {})", format::count(more, "more line")) } else { String::new() };
                (wanted, format!("{first}{more}"))
            }
            News::WatchOff { reason } => (Level::Notice, format!("its output is not watched any more: {}", line(reason))),
            News::Quiet { for_ms } => {
                let time = format::duration(i64::try_from(*for_ms).unwrap_or(i64::MAX));
                (Level::Notice, format!("so many lines match what is watched for that they are only counted for {time}"))
            }
            News::QuietOver { lines } => {
                (Level::Notice, format!("lines that match are told again; {} were not", format::thousands(*lines)))
            }
        };
        (level, about, format!("{name}{what}"))
    }
}
