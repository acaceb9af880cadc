//! The options of a shell (`set -o`, `shopt`) as sets: what a snapshot keeps, merges and sets again.
//!
//! Invariant: options that belong to one command (errexit, nounset, xtrace, verbose) are never kept.

use std::collections::BTreeSet;

/// `set -o` names that are not kept: of one command alone, or such that a shell with them could not run a script.
const NOT_SET: [&str; 8] = ["errexit", "nounset", "xtrace", "verbose", "noexec", "onecmd", "privileged", "monitor"];
/// `shopt` names that are not kept: they say what a shell is.
const NOT_SHOPT: [&str; 3] = ["login_shell", "restricted_shell", "syslog_history"];
/// `shopt` names that loading a snapshot may have changed: always set explicitly.
const TOUCHED: [&str; 4] = ["expand_aliases", "extglob", "inherit_errexit", "shift_verbose"];

/// Names that change how our own lines are read: set right before the command.
const LATE: [&str; 3] = ["expand_aliases", "keyword", "posix"];

/// The options that are on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// By `set -o`.
    pub set: BTreeSet<String>,
    /// By `shopt`.
    pub shopt: BTreeSet<String>,
}

impl Options {
    /// Reads SHELLOPTS and BASHOPTS.
    pub fn read(shellopts: &str, bashopts: &str) -> Self {
        let names = |list: &str, without: &[&str]| {
            list.split(':').filter(|n| is_option(n) && !without.contains(n)).map(str::to_owned).collect::<BTreeSet<_>>()
        };
        Self { set: names(shellopts, &NOT_SET), shopt: names(bashopts, &NOT_SHOPT) }
    }

    /// Gives SHELLOPTS and BASHOPTS as [`Options::read`] reads them.
    pub fn write(&self) -> (String, String) {
        let join = |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(":");
        (join(&self.set), join(&self.shopt))
    }

    /// Adds to these options what changed between two others.
    #[must_use]
    pub fn merged(&self, base: &Self, new: &Self) -> Self {
        let one = |current: &BTreeSet<String>, base: &BTreeSet<String>, new: &BTreeSet<String>| {
            let mut out = current.clone();
            out.extend(new.difference(base).cloned());
            out.retain(|n| !base.contains(n) || new.contains(n));
            out
        };
        Self { set: one(&self.set, &base.set, &new.set), shopt: one(&self.shopt, &base.shopt, &new.shopt) }
    }

    /// Lists what differs from `base` for a person: `nullglob`, `no braceexpand`.
    pub fn differences(&self, base: &Self) -> Vec<String> {
        let mut out = Vec::new();
        for (own, base) in [(&self.set, &base.set), (&self.shopt, &base.shopt)] {
            out.extend(own.difference(base).cloned());
            out.extend(base.difference(own).map(|n| format!("no {n}")));
        }
        out
    }

    /// Gives the commands that set these options in a shell that has those of `base`, on one line: those that may be set
    /// while the shell waits for its command, and those that would get in its way.
    pub(super) fn commands(&self, base: &Self) -> (Vec<u8>, Vec<u8>) {
        let mut on: BTreeSet<&str> = self.shopt.difference(&base.shopt).map(String::as_str).collect();
        let mut off: BTreeSet<&str> = base.shopt.difference(&self.shopt).map(String::as_str).collect();
        for name in TOUCHED {
            if self.shopt.contains(name) {
                on.insert(name)
            } else {
                off.insert(name)
            };
        }
        let mut words: Vec<(&str, &str)> = on.into_iter().map(|n| ("shopt -s", n)).collect();
        words.extend(off.into_iter().map(|n| ("shopt -u", n)));
        words.extend(self.set.difference(&base.set).map(|n| ("set -o", n.as_str())));
        words.extend(base.set.difference(&self.set).map(|n| ("set +o", n.as_str())));
        // posix last: it changes what others mean.
        words.sort_by_key(|(_, name)| *name == "posix");
        let text = |late: bool| {
            let chosen = words.iter().filter(|(_, name)| LATE.contains(name) == late);
            chosen.map(|(verb, name)| format!("builtin {verb} {name}; ")).collect::<String>().into_bytes()
        };
        (text(false), text(true))
    }
}

/// Tells whether a word can be the name of an option: it goes into a script unquoted.
fn is_option(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_one_command_is_not_kept() {
        let o = Options::read("braceexpand:errexit:xtrace:pipefail", "login_shell:nullglob:$(x)");
        assert_eq!(o.write(), ("braceexpand:pipefail".into(), "nullglob".into()));
    }

    #[test]
    fn only_differences_are_set_and_posix_comes_last() {
        let base = Options::read("braceexpand:hashall", "sourcepath:progcomp");
        let own = Options::read("hashall:posix:pipefail", "sourcepath:nullglob:expand_aliases");
        let (early, late) = own.commands(&base);
        assert_eq!(
            String::from_utf8(early).unwrap(),
            "builtin shopt -s nullglob; builtin shopt -u extglob; builtin shopt -u inherit_errexit; builtin shopt -u progcomp; builtin \
             shopt -u shift_verbose; builtin set -o pipefail; builtin set +o braceexpand; "
        );
        assert_eq!(late, b"builtin shopt -s expand_aliases; builtin set -o posix; ");
        assert_eq!(own.differences(&base), ["pipefail", "posix", "no braceexpand", "expand_aliases", "nullglob", "no progcomp"]);
    }

    #[test]
    fn parallel_changes_add_up() {
        let base = Options::read("a:b", "");
        let current = Options::read("a:b:c", "");
        let new = Options::read("b:d", "");
        assert_eq!(current.merged(&base, &new), Options::read("b:c:d", ""));
    }
}
