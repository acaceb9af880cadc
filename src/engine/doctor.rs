//! Examining a backend: everything from its name to the ending of a process, told finding by finding.
//!
//! Invariant: it uses nothing that commands use but this machine, changes no state, and makes one attempt to log in, also when
//! the backend is down.

use super::place::Place;
use super::{Core, Engine, EngineError, MAIN_SESSION};
use crate::backend::Backend;
use crate::model::redact::{Redactor, is_listed, looks_secret};
use crate::model::{Finding, HealthState, Verdict};
use crate::session::examine::{Examination, checks, examine};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Findings between a check and whoever hears of them.
const WAITING: usize = 16;

impl Engine {
    /// Examines a backend and tells each finding as it comes, until the last. Refused while it is examined already. Cancel
    /// safe: dropped, the examination ends and leaves nothing.
    pub async fn doctor(&self, backend: &str, tell: mpsc::Sender<Finding>) -> Result<(), EngineError> {
        let place = self.core.place(Some(backend))?;
        let name = place.settings.name.as_str();
        let Ok(_alone) = place.examined.try_lock() else {
            return Err(EngineError::Refused(format!("{name} is being examined already; each time it would log in once more")));
        };
        let redactor = secrets(&self.core, &place);
        let (sender, mut found) = mpsc::channel::<Finding>(WAITING);
        let pass_on = async {
            while let Some(finding) = found.recv().await {
                let clean = |text: String| redactor.text(&text).into_owned();
                let finding = Finding {
                    backend: name.to_owned(),
                    fact: clean(finding.fact),
                    fix: finding.fix.map(clean),
                    check: finding.check,
                    verdict: finding.verdict,
                };
                // Whoever does not listen any more drops the examination.
                let _ = tell.send(finding).await;
            }
        };
        tokio::join!(look(&place, sender), pass_on);
        Ok(())
    }
}

/// Makes all checks.
async fn look(place: &Place, tell: mpsc::Sender<Finding>) {
    let connection = &place.connection;
    let own = connection.backend();
    // Whoever does not listen any more drops the examination.
    let _ = tell.send(health(place)).await;
    let path = match place.open_sessions().iter().find(|session| session.info().name == MAIN_SESSION) {
        Some(session) => session.kept_path().await,
        None => None,
    };
    let settings = &place.settings;
    match own.examine(&tell).await {
        Some(apart) => {
            let examination = Examination { backend: &apart, shell: settings.shell, start: settings.connect_timeout, path, tell: &tell };
            examine(examination).await;
            apart.close().await;
        }
        None => skip(own, &tell).await,
    }
}

/// How the backend stands for its commands.
fn health(place: &Place) -> Finding {
    let health = place.connection.health().borrow().clone();
    let running = place.running();
    let commands = match running {
        0 => String::new(),
        1 => ", 1 command runs".to_owned(),
        count => format!(", {count} commands run"),
    };
    let word = health.state.as_str();
    match health.state {
        HealthState::Idle => Finding::new("health", Verdict::Ok, format!("{word}: it connects on first use{commands}")),
        HealthState::Up | HealthState::Connecting => Finding::new("health", Verdict::Ok, format!("{word}{commands}")),
        HealthState::Degraded | HealthState::Reconnecting | HealthState::Down => {
            let why = health.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            Finding { fix: health.fix, ..Finding::new("health", Verdict::Warn, format!("{word}{why}{commands}")) }
        }
    }
}

/// Tells what is not looked at without a shell.
async fn skip(backend: &Arc<dyn Backend>, tell: &mpsc::Sender<Finding>) {
    for check in checks(backend.about().capabilities.same_files) {
        let _ = tell.send(Finding::new(check, Verdict::Skipped, "there is no connection to look at it on")).await;
    }
}

/// Knows the secrets that a finding may hold by accident: a start file may print anything.
pub(super) fn secrets(core: &Core, place: &Place) -> Redactor {
    let (shared, settings) = (&core.shared, &place.settings);
    let mut values: Vec<String> = core.state().config.redact.values.clone();
    let names = shared.secret_names();
    let secret = |name: &str| looks_secret(name) || is_listed(name, &names);
    values.extend(settings.env.iter().filter(|(name, _)| secret(name)).map(|(_, value)| value.clone()));
    values.extend(shared.forwarded(&settings.forward_env).into_values());
    values.extend(std::env::vars_os().filter_map(|(name, value)| secret(name.to_str()?).then(|| value.to_str().map(str::to_owned))?));
    Redactor::new(values)
}
