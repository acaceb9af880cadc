//! The one table of keys: what they do, what help says, what the config may change.
//!
//! Invariant: help, the popup, the status line and the documentation are made from the live map, so they cannot say anything
//! else than what the keys do. A bad line of the config keeps the old keys of its action and is reported.

use super::key::{Code, Key};
use super::table::{Action, Context, DEFS, Def};
use std::collections::{BTreeMap, HashMap};

/// The leader without a config.
pub(in crate::tui) const DEFAULT_LEADER: Key = Key::ctrl(']');

/// The keys in force.
#[derive(Clone, Debug)]
pub(in crate::tui) struct Keymap {
    /// The one key that is ours in a pane.
    pub(in crate::tui) leader: Key,
    map: HashMap<(Context, Key), Action>,
    keys: Vec<Vec<Key>>,
}

/// A line of help: the keys and what they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tui) struct HelpLine {
    pub(in crate::tui) group: &'static str,
    pub(in crate::tui) context: Context,
    pub(in crate::tui) keys: String,
    pub(in crate::tui) label: &'static str,
    pub(in crate::tui) name: &'static str,
}

impl Keymap {
    /// Makes the map from the table and the config's `keys:`; gives also what could not be used.
    pub(in crate::tui) fn new(leader: Key, config: &BTreeMap<String, Vec<String>>) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let mut leader = leader;
        for (name, keys) in config {
            if name == "leader" {
                match keys.first().map(|k| Key::parse(k)) {
                    Some(Ok(key)) => match key.can_be_leader() {
                        Ok(()) => leader = key,
                        Err(why) => problems.push(format!("keys: leader: {key} cannot be the leader: {why}")),
                    },
                    Some(Err(why)) => problems.push(format!("keys: leader: {why}")),
                    None => problems.push("keys: leader: a key is needed; the leader cannot be switched off".to_owned()),
                }
            } else if !DEFS.iter().any(|d| d.name == name) {
                problems.push(format!("keys: there is no action \"{name}\"{}", nearest(name)));
            }
        }
        let keys: Vec<Vec<Key>> = DEFS.iter().map(|def| Self::keys_of(def, config.get(def.name), leader, &mut problems)).collect();
        let mut map = HashMap::new();
        // Keys that the config gives win over keys of the table.
        for from_config in [true, false] {
            for (def, keys) in DEFS.iter().zip(&keys).filter(|(d, _)| config.contains_key(d.name) == from_config) {
                for (context, key) in def.contexts.iter().flat_map(|c| keys.iter().map(move |k| (*c, *k))) {
                    let had = map.entry((context, key)).or_insert(def.action);
                    if *had != def.action && from_config {
                        problems.push(format!("keys: {key} is given twice {}: it stays with {}", context.place(), name_of(*had)));
                    }
                }
            }
        }
        let mut made = Self { leader, map, keys };
        made.drop_lost();
        (made, problems)
    }

    /// Gives what a key does in a context.
    pub(in crate::tui) fn action(&self, context: Context, key: Key) -> Option<Action> {
        self.map.get(&(context, key)).copied()
    }

    /// Gives the keys of an action in a context, as the screen writes them; none when it is not bound.
    pub(in crate::tui) fn shown(&self, context: Context, action: Action) -> Option<String> {
        let (at, _) = DEFS.iter().enumerate().find(|(_, d)| d.action == action && d.contexts.contains(&context))?;
        let key = self.keys[at].first()?;
        Some(if context == Context::Leader { format!("{}{}", self.leader.short(), key.short()) } else { key.short() })
    }

    /// Gives all lines of help, the contexts in the order asked.
    pub(in crate::tui) fn help(&self, order: &[Context]) -> Vec<HelpLine> {
        let mut lines = Vec::new();
        for context in order {
            for (def, keys) in DEFS.iter().zip(&self.keys).filter(|(d, k)| d.contexts.contains(context) && !k.is_empty()) {
                lines.push(HelpLine { group: def.group, context: *context, keys: key_list(keys), label: def.label, name: def.name });
            }
        }
        lines
    }

    fn keys_of(def: &Def, config: Option<&Vec<String>>, leader: Key, problems: &mut Vec<String>) -> Vec<Key> {
        let table = || def.keys.iter().filter_map(|k| Key::parse(k).ok());
        let mut keys: Vec<Key> = match config {
            None => table().collect(),
            Some(words) => match words.iter().map(|w| Key::parse(w)).collect::<Result<Vec<_>, _>>() {
                Ok(keys) => keys,
                Err(why) => {
                    problems.push(format!("keys: {}: {why}; its keys stay as they were", def.name));
                    table().collect()
                }
            },
        };
        if def.action == Action::SendLeader && config.is_none() {
            keys = vec![leader];
        }
        keys
    }

    /// Takes keys out of the lists that another action has got.
    fn drop_lost(&mut self) {
        for (def, keys) in DEFS.iter().zip(&mut self.keys) {
            keys.retain(|k| def.contexts.iter().any(|c| self.map.get(&(*c, *k)) == Some(&def.action)));
        }
    }
}

/// Gives the documentation of all default keys as Markdown tables.
pub(in crate::tui) fn markdown() -> String {
    let (map, _) = Keymap::new(DEFAULT_LEADER, &BTreeMap::new());
    let mut out = String::new();
    for context in Context::ALL {
        out.push_str(&format!("### {}\n\n| key | does | name in `keys:` |\n|---|---|---|\n", context.title()));
        for line in map.help(&[context]) {
            out.push_str(&format!("| `{}` | {} | `{}` |\n", line.keys.replace('|', "\\|"), line.label, line.name));
        }
        out.push('\n');
    }
    out
}

fn key_list(keys: &[Key]) -> String {
    let digits = keys.iter().filter(|k| matches!(k, Key { code: Code::Char('0'..='9'), ctrl: false, alt: false, .. })).count();
    if digits == 10 {
        return "0-9".to_owned();
    }
    keys.iter().map(|k| k.short()).collect::<Vec<_>>().join(" ")
}

fn name_of(action: Action) -> &'static str {
    DEFS.iter().find(|d| d.action == action).map_or("another action", |d| d.name)
}

/// Says which name was probably meant.
fn nearest(name: &str) -> String {
    let close = |d: &&Def| {
        d.name.contains(name) || name.contains(d.name) || d.name.chars().zip(name.chars()).take_while(|(a, b)| a == b).count() >= 4
    };
    DEFS.iter().find(close).map_or_else(|| "; help lists the names".to_owned(), |d| format!("; did you mean \"{}\"?", d.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(lines: &[(&str, &[&str])]) -> (Keymap, Vec<String>) {
        let config = lines.iter().map(|(n, k)| ((*n).to_owned(), k.iter().map(|s| (*s).to_owned()).collect())).collect();
        Keymap::new(DEFAULT_LEADER, &config)
    }

    #[test]
    fn the_table_has_no_bad_key_no_duplicate_and_one_name_per_action() {
        let mut names = std::collections::HashSet::new();
        let mut used = HashMap::new();
        for def in DEFS {
            assert!(names.insert(def.name), "{}", def.name);
            for key in def.keys {
                let key = Key::parse(key).unwrap();
                for context in def.contexts {
                    assert_eq!(used.insert((*context, key), def.name), None, "{key} twice in {context:?}");
                }
            }
        }
    }

    #[test]
    fn every_leader_key_is_one_plain_byte_of_any_terminal() {
        for def in DEFS.iter().filter(|d| d.contexts.contains(&Context::Leader)) {
            let legacy = |k: &&&str| {
                let key = Key::parse(k).unwrap();
                key.byte().is_some() || matches!(key.code, Code::Tab | Code::Esc)
            };
            assert!(def.action == Action::SendLeader || def.keys.iter().any(|k| legacy(&k)), "{}", def.name);
        }
    }

    #[test]
    fn help_says_what_the_keys_do() {
        let (map, problems) = with(&[("zoom", &["Z"]), ("feed", &[])]);
        assert!(problems.is_empty(), "{problems:?}");
        let help = map.help(&Context::ALL);
        for line in &help {
            let def = DEFS.iter().find(|d| d.name == line.name).unwrap();
            for key in line.keys.split(' ').filter(|k| *k != "0-9") {
                let at = DEFS.iter().position(|d| d.name == line.name).unwrap();
                let key = map.keys[at].iter().find(|k| k.short() == key).unwrap();
                assert_eq!(map.action(line.context, *key), Some(def.action), "{}", line.name);
            }
        }
        assert!(help.iter().any(|l| l.name == "zoom" && l.keys == "Z"));
        assert!(!help.iter().any(|l| l.name == "feed"), "an unbound action is not in help");
        assert_eq!(map.action(Context::Leader, Key::char('z')), None);
        let bound: usize = map.map.len();
        let said: usize = DEFS.iter().zip(&map.keys).map(|(d, k)| d.contexts.len() * k.len()).sum();
        assert_eq!(bound, said, "every bound key is in help");
    }

    #[test]
    fn a_bad_line_keeps_the_old_keys_and_is_reported() {
        let (map, problems) = with(&[("zoom", &["nokey"]), ("fly", &["x"]), ("leader", &["a"]), ("quitt", &["q"])]);
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems.iter().any(|p| p.contains("did you mean \"quit\"")), "{problems:?}");
        assert_eq!(map.leader, DEFAULT_LEADER);
        assert_eq!(map.action(Context::Leader, Key::char('z')), Some(Action::Zoom));
        let (map, problems) = with(&[("zoom", &["n"])]);
        assert!(problems.is_empty());
        assert_eq!(map.action(Context::Leader, Key::char('n')), Some(Action::Zoom));
        assert!(!map.help(&[Context::Leader]).iter().any(|l| l.name == "next-backend"));
    }

    #[test]
    fn the_leader_moves_with_its_own_key() {
        let (map, problems) = with(&[("leader", &["ctrl-a"])]);
        assert!(problems.is_empty());
        assert_eq!(map.leader, Key::ctrl('a'));
        assert_eq!(map.action(Context::Leader, Key::ctrl('a')), Some(Action::SendLeader));
        assert_eq!(map.shown(Context::Leader, Action::Help).as_deref(), Some("^A?"));
    }

    #[test]
    fn the_documentation_has_every_action() {
        let text = markdown();
        for def in DEFS {
            assert!(text.contains(&format!("`{}`", def.name)), "{}", def.name);
        }
    }
}
