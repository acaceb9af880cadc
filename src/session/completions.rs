//! Completing a word of the operator's input line: paths and commands as the session itself sees them.
//!
//! Invariant: it runs beside the session's commands in a shell of its own, and changes nothing of the session.

use super::errand::Errand;
use super::error::SessionError;
use super::handle::Session;
use crate::backend::Environment;
use crate::shell::quote;
use std::time::Duration;

/// Limit of one completion.
const LIMIT: Duration = Duration::from_secs(5);
/// Most answers: more are of no use to a person.
const MOST: usize = 200;

impl Session {
    /// Gives what the word could become: paths (directories end in `/`), or with `command` the names of commands, functions
    /// and aliases. Empty where the backend has no bash. Cancel safe: the shell is bounded in time.
    pub async fn completions(&self, word: &str, command: bool) -> Result<Vec<String>, SessionError> {
        let (cwd, files) = {
            let state = self.state();
            let files = state.folder.as_ref().zip(state.snapshot.as_ref()).map(|(folder, s)| format!("{folder}/{}", s.id));
            (state.cwd.clone(), files)
        };
        let errand = Errand {
            backend: &self.place.backend,
            shell: self.place.settings.shell,
            environment: Environment::Empty,
            start: self.place.settings.start_timeout,
            limit: LIMIT,
            what: "complete a word",
        };
        let answer =
            errand.run(|ready, _, _| if ready.kind == "bash" { script(&cwd, files.as_deref(), word, command) } else { Vec::new() }).await?;
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        let mut words: Vec<String> = text.split('\0').filter(|w| !w.is_empty()).map(str::to_owned).collect();
        words.sort();
        words.dedup();
        words.truncate(MOST);
        Ok(words)
    }
}

fn script(cwd: &[u8], files: Option<&str>, word: &str, command: bool) -> Vec<u8> {
    let mut out = b"exec 2>/dev/null </dev/null\n".to_vec();
    if let Some(files) = files {
        let quoted = |end: &str| quote::text(&format!("{files}{end}"));
        out.extend(format!(". {}\nshopt -s extglob\n. {}\n", quoted(".v"), quoted(".f")).bytes());
    }
    out.extend_from_slice(b"builtin cd -- ");
    out.extend(quote::bytes(cwd));
    // A word that begins with ~/ is completed below the home directory and given back as it was begun.
    out.extend_from_slice(b"\n__qd_w=");
    out.extend(quote::text(word).bytes());
    out.extend_from_slice(b"\n__qd_h=\n[[ $__qd_w == '~/'* ]] && { __qd_h=$HOME; __qd_w=$HOME${__qd_w#'~'}; }\n");
    let action = if command && !word.contains('/') { "-A command -A function -A alias" } else { "-A file" };
    out.extend(
        format!(
            "builtin compgen {action} -- \"$__qd_w\" | while IFS= builtin read -r f; do [[ $f != *[[:cntrl:]]* ]] || continue; d=; {} [[ -d $f ]] && d=/; \
             [[ $__qd_h ]] && f='~'${{f#\"$__qd_h\"}}; builtin printf '%s\\0' \"$f$d\"; ((++n < {MOST})) || break; done\n",
            if command && !word.contains('/') { "[[ a == b ]] &&" } else { "" }
        )
        .bytes(),
    );
    out
}
