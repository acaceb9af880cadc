//! The way to what needs a person.
//!
//! Invariant: each press goes to one thing, and what was gone to is no alert any more.

use crate::model::HealthState;
use crate::tui::state::{State, View};

impl State {
    /// Goes to the next item that needs a person: the oldest alert, else a backend that is down.
    pub(super) fn next_alert(&mut self) {
        if let Some(alert) = self.take_alert() {
            let about = alert.about;
            let process = about.process.filter(|id| self.blocks.contains_key(id));
            let backend = about.backend.as_deref().and_then(|b| self.backend_index(b));
            match (process, backend) {
                (Some(id), _) => self.go_to_process(&id),
                (None, Some(at)) => {
                    self.view = View::Panes;
                    self.focus_on(at);
                }
                (None, None) if self.view != View::Messages => self.show_messages(),
                (None, None) => {}
            }
            let left = self.alert_count();
            let more = if left > 0 { format!("  ({left} more)") } else { String::new() };
            return self.notice(format!("{}{more}", alert.text));
        }
        let count = self.backends.len();
        let after = (1..=count).map(|by| (self.focus + by) % count.max(1));
        let down = after.into_iter().find(|at| self.backends.get(*at).is_some_and(|b| b.health.state == HealthState::Down));
        match down {
            Some(at) => {
                self.view = View::Panes;
                self.focus_on(at);
            }
            None => self.notice("nothing needs a person"),
        }
    }

    /// Opens the messages, or closes them; what waits there is seen by that.
    pub(super) fn show_messages(&mut self) {
        self.show(View::Messages);
        if self.view == View::Messages {
            self.settle_alerts(|_| true);
        }
    }
}
