//! Reads ssh_config files without an OpenSSH client.
//!
//! Invariant: what is not understood is refused with file and line, never guessed at; the first value of a key holds.

use super::keywords::{self, Kind};
use super::lines::{self, Line};
use super::matching;
use super::tokens::tilde;
use super::value;
use crate::backend::ssh::pattern;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Includes in includes, as OpenSSH limits them.
const DEEPEST: usize = 16;
/// Largest file read.
const LARGEST: u64 = 4 << 20;
/// What an error ends with when only OpenSSH could go on.
pub(super) const NEEDS: &str = "needs the OpenSSH client (`ssh`), which is not installed here";

/// What was found: the keys with a bearing, named and valued as `ssh -G` does.
pub(super) type Values = BTreeMap<&'static str, Vec<String>>;

/// For whom it is read.
pub(super) struct Asked<'a> {
    /// The host as it was asked for.
    pub(super) host: &'a str,
    /// The account and port that hold whatever the files say.
    pub(super) user: Option<&'a str>,
    pub(super) port: Option<u16>,
    /// The same for the hosts to jump over.
    pub(super) jump: Option<&'a str>,
    /// The account here, and its home.
    pub(super) local_user: &'a str,
    pub(super) home: &'a Path,
}

/// Reads the files in their order; `files` tells of each whether it is the person's own, whose owner is checked.
pub(super) fn read(asked: &Asked<'_>, files: &[(PathBuf, Whose)]) -> Result<Values, String> {
    let mut reader = Reader { asked, values: Values::new(), unknown: None, last: false, wants_last: false, host: asked.host.to_owned() };
    reader.values.extend(asked.user.map(|user| ("user", vec![user.to_owned()])));
    reader.values.extend(asked.port.map(|port| ("port", vec![port.to_string()])));
    reader.values.extend(asked.jump.map(|jump| ("proxyjump", vec![jump.to_owned()])));
    reader.pass(files)?;
    if reader.wants_last {
        reader.host = reader.host_name()?;
        reader.last = true;
        reader.pass(files)?;
    }
    let host = reader.host_name()?;
    reader.values.insert("hostname", vec![host]);
    Ok(reader.values)
}

/// Whose a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The person's usual one: nobody else may write to it.
    Persons,
    /// One that the person named.
    Named,
    /// The machine's.
    Machines,
}

/// One reading.
pub(super) struct Reader<'a> {
    pub(super) asked: &'a Asked<'a>,
    pub(super) values: Values,
    /// The patterns of `IgnoreUnknown`.
    unknown: Option<String>,
    /// Whether this is the second pass, for `Match final`.
    pub(super) last: bool,
    /// Whether a second pass was asked for.
    pub(super) wants_last: bool,
    /// The name that `Host` is compared with.
    host: String,
}

/// Where in the files it is, and what holds there.
struct Place<'p> {
    file: &'p Path,
    whose: Whose,
    depth: usize,
    /// Whether nothing in it can apply, because the block that includes it does not.
    never: bool,
}

impl Reader<'_> {
    /// The host's name so far: in lower case, as OpenSSH connects to it.
    pub(super) fn host_name(&self) -> Result<String, String> {
        let name = match self.values.get("hostname").and_then(|v| v.first()) {
            Some(_) if self.last => self.host.clone(),
            Some(text) => value::host_name(text, self.asked.host)?,
            None => self.asked.host.to_owned(),
        };
        Ok(name.to_lowercase())
    }

    fn pass(&mut self, files: &[(PathBuf, Whose)]) -> Result<(), String> {
        for (file, whose) in files {
            let mut active = true;
            self.file(&Place { file, whose: *whose, depth: 0, never: false }, &mut active)?;
        }
        Ok(())
    }

    fn file(&mut self, place: &Place<'_>, active: &mut bool) -> Result<(), String> {
        let shown = place.file.display();
        let Some(text) = load(place)? else { return Ok(()) };
        for (at, line) in text.lines().enumerate() {
            let number = at + 1;
            let wrong = |what: String| format!("{shown}:{number}: {what}");
            let Some(line) = lines::split(line).map_err(|e| wrong(e.to_owned()))? else { continue };
            if line.rest.is_empty() {
                return Err(wrong(format!("`{}` has no value", line.keyword)));
            }
            match line.keyword.as_str() {
                "host" => *active = !place.never && pattern::fits_any(&self.host, line.words.iter().map(String::as_str)),
                "match" => *active = matching::applies(self, &line.words).map_err(wrong)? && !place.never,
                "include" => self.include(place, &line.words, *active, &wrong)?,
                "ignoreunknown" if *active => {
                    self.unknown.get_or_insert(line.words.join(","));
                }
                "ignoreunknown" => {}
                _ => self.key(&line, *active).map_err(wrong)?,
            }
        }
        Ok(())
    }

    fn include(&mut self, place: &Place<'_>, words: &[String], active: bool, wrong: &dyn Fn(String) -> String) -> Result<(), String> {
        if place.depth >= DEEPEST {
            return Err(wrong("too many files include each other".to_owned()));
        }
        for word in words {
            let relative = !word.starts_with(['/', '~']);
            let path = match (relative, place.whose) {
                (true, Whose::Machines) => format!("/etc/ssh/{word}"),
                (true, _) => format!("{}/.ssh/{word}", self.asked.home.display()),
                (false, _) => tilde(word, self.asked.home).map_err(wrong)?,
            };
            if path.contains("${") || path.contains(['%', '[']) {
                return Err(wrong(format!("`Include {word}` {NEEDS}")));
            }
            for file in value::glob(Path::new(&path)) {
                let inner = Place { file: &file, whose: place.whose, depth: place.depth + 1, never: place.never || !active };
                // What is set in it ends with it.
                let mut inner_active = active;
                self.file(&inner, &mut inner_active)?;
            }
        }
        Ok(())
    }

    fn key(&mut self, line: &Line<'_>, active: bool) -> Result<(), String> {
        let Some((name, kind)) = keywords::find(&line.keyword) else {
            let ignored = self.unknown.as_deref().is_some_and(|list| pattern::fits_list(&line.keyword, &list.to_lowercase()));
            return if ignored { Ok(()) } else { Err(format!("`{}` is not known here: it {NEEDS}", line.keyword)) };
        };
        let found = value::of(name, kind, line)?;
        if !active {
            return Ok(());
        }
        match kind {
            Kind::Beside => {}
            Kind::Foreign(harmless) if found.first().is_some_and(|v| v == harmless) => {}
            Kind::Foreign(_) => return Err(format!("`{name}` {NEEDS}")),
            Kind::Each => {
                let all = self.values.entry(name).or_default();
                all.extend(found.into_iter().filter(|new| !all.contains(new)).collect::<Vec<_>>());
            }
            // The first of the two holds; having jumps means having no command, and the other way round.
            _ if ["proxyjump", "proxycommand"].contains(&name) => {
                if !self.values.contains_key("proxyjump") && !self.values.contains_key("proxycommand") {
                    self.values.insert(name, found);
                }
            }
            _ => {
                self.values.entry(name).or_insert(found);
            }
        }
        Ok(())
    }
}

/// Reads a file; none when there is none.
fn load(place: &Place<'_>) -> Result<Option<String>, String> {
    let shown = place.file.display();
    let about = match std::fs::metadata(place.file) {
        Ok(about) => about,
        Err(e) if e.kind() == io::ErrorKind::NotFound && (place.whose != Whose::Named || place.depth > 0) => return Ok(None),
        Err(e) => return Err(format!("{shown} cannot be read: {e}")),
    };
    let checked = place.whose == Whose::Persons || place.depth > 0;
    if checked && (![0, nix::unistd::getuid().as_raw()].contains(&about.uid()) || about.mode() & 0o022 != 0) {
        return Err(format!("{shown} belongs to somebody else or can be written by others; `chmod go-w` it"));
    }
    if about.len() > LARGEST {
        return Err(format!("{shown} is larger than {} MiB", LARGEST >> 20));
    }
    let bytes = std::fs::read(place.file).map_err(|e| format!("{shown} cannot be read: {e}"))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
