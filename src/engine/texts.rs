//! The texts of commands as they may stand on disk: without secrets.
//!
//! Invariant: each is gone through once, as long as what is secret stays the same: a write of many rows costs no more for that.

use super::Core;
use crate::model::{ProcessId, redact::Redactor};
use std::collections::{BTreeMap, HashMap};

/// The texts of one file's rows.
#[derive(Default)]
pub(crate) struct Texts {
    /// Of which config the secrets are.
    epoch: u64,
    known: HashMap<ProcessId, String>,
}

/// A row: its id, its backend and its command.
pub(super) type Row<'r> = (&'r str, &'r str, &'r mut String);

impl Texts {
    /// Takes the secrets out of the commands of all rows of a file.
    pub(super) fn clean<'r>(&mut self, core: &Core, rows: impl Iterator<Item = Row<'r>>) {
        self.clean_with(core.shared.secrets_epoch(), rows, |backend| core.redactor(backend));
    }

    fn clean_with<'r>(&mut self, epoch: u64, rows: impl Iterator<Item = Row<'r>>, redactor: impl Fn(&str) -> Redactor) {
        let mut before = std::mem::take(&mut self.known);
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            before.clear();
        }
        let mut redactors = BTreeMap::new();
        for (id, backend, command) in rows {
            let text = before
                .remove(id)
                .unwrap_or_else(|| redactors.entry(backend).or_insert_with(|| redactor(backend)).text(command).into_owned());
            command.clone_from(&text);
            self.known.insert(id.to_owned(), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_text_is_gone_through_once_until_the_secrets_change() {
        let made = Cell::new(0);
        let mut texts = Texts::default();
        let mut clean = |epoch: u64, ids: &[&str], secret: &str| {
            let mut commands: Vec<String> = ids.iter().map(|_| "say opensesame and correct-horse".to_owned()).collect();
            let rows = ids.iter().zip(&mut commands).map(|(id, command)| (*id, "gpu", command));
            texts.clean_with(epoch, rows, |_| {
                made.set(made.get() + 1);
                Redactor::new([secret])
            });
            commands.join("|")
        };
        assert_eq!(clean(1, &["a"], "opensesame"), "say [redacted] and correct-horse");
        assert_eq!(clean(1, &["a"], "opensesame"), "say [redacted] and correct-horse");
        assert_eq!(made.get(), 1, "it was known");
        assert_eq!(clean(1, &["a", "b"], "opensesame").matches("[redacted]").count(), 2);
        assert_eq!(made.get(), 2, "the new one alone");
        assert_eq!(clean(2, &["a"], "correct-horse"), "say opensesame and [redacted]");
        assert_eq!(clean(2, &["b"], "correct-horse"), "say opensesame and [redacted]", "one that was not there meanwhile");
        assert_eq!(made.get(), 4);
    }
}
