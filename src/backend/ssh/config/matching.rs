//! The conditions of `Match`.
//!
//! Invariant: a condition that is not understood is refused unless an earlier one has failed already and OpenSSH would not look
//! at it either.

use super::reader::{NEEDS, Reader};
use crate::backend::ssh::pattern::fits_list;

/// Whether all conditions of a line hold.
pub(super) fn applies(reader: &mut Reader<'_>, words: &[String]) -> Result<bool, String> {
    let mut holds = true;
    // `host=a` is the same as `host a`.
    let mut words = words.iter().flat_map(|word| match word.split_once('=') {
        Some((name, value)) if name.chars().all(|c| c.is_ascii_alphabetic() || c == '!') && !name.is_empty() => {
            [Some(name), Some(value).filter(|v| !v.is_empty())]
        }
        _ => [Some(word.as_str()), None],
    });
    let mut words = words.by_ref().flatten();
    let (mut conditions, mut passes) = (0, 0);
    while let Some(word) = words.next() {
        let (name, negated) = word.strip_prefix('!').map_or((word, false), |name| (name, true));
        let name = name.to_lowercase();
        if name == "all" {
            if conditions > 0 || words.next().is_some() {
                return Err("`all` stands alone after `Match`, or after `final`".to_owned());
            }
            return Ok(holds && !negated);
        }
        // These two may stand before `all`.
        if name == "final" || name == "canonical" {
            reader.wants_last |= name == "final";
            holds &= reader.last != negated;
            passes += 1;
            continue;
        }
        conditions += 1;
        let value = words.next().filter(|value| !value.starts_with('#')).ok_or_else(|| format!("`Match {name}` has no value"))?;
        let fits = match name.as_str() {
            "host" => fits_list(&reader.host_name()?, &value.to_lowercase()),
            "originalhost" => fits_list(&reader.asked.host.to_lowercase(), &value.to_lowercase()),
            "user" => {
                let user = reader.values.get("user").and_then(|v| v.first());
                fits_list(user.map_or(reader.asked.local_user, String::as_str), value)
            }
            "localuser" => fits_list(reader.asked.local_user, value),
            // OpenSSH does not look at these either when the line cannot apply any more.
            "exec" | "tagged" | "localnetwork" | "version" | "command" | "sessiontype" if !holds => false,
            _ => return Err(format!("`Match {name}` {NEEDS}")),
        };
        holds &= fits != negated;
    }
    if conditions + passes == 0 {
        return Err("`Match` has no condition".to_owned());
    }
    Ok(holds)
}
