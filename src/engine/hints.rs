//! Advice that goes with a result. It never changes the exit code.
//!
//! Invariant: it fails open: where it is not certain that the advice fits, nothing is said.

use crate::model::{Hint, Outcome};

/// Programs that draw a screen of their own and wait for keys.
const INTERACTIVE: [&str; 16] =
    ["vim", "vi", "nvim", "nano", "emacs", "less", "more", "man", "top", "htop", "btop", "tmux", "screen", "watch", "nmtui", "mc"];

/// Gives the advice for a command that ended so, with this output.
pub(crate) fn of(outcome: &Outcome, no_directory: bool, command: &str, output: &str) -> Vec<Hint> {
    let hint = |code: &str, message: String| vec![Hint { code: code.to_owned(), message }];
    let first = command.split_whitespace().find(|word| !word.contains('=')).unwrap_or_default();
    let program = first.rsplit('/').next().unwrap_or_default();
    match outcome {
        // Other things end with 127 too: a variable that `set -u` does not allow.
        Outcome::Exited { exit_code: 127 } if output.contains("not found") => {
            hint("command_not_found", "a program was not found on the session's PATH; `echo $PATH` in the same session shows it".to_owned())
        }
        Outcome::Exited { exit_code: 126 } if !no_directory => {
            hint("permission_denied", "a file could not be executed: `ls -l` shows its mode, `chmod +x` makes it a program".to_owned())
        }
        Outcome::TimedOut | Outcome::Cancelled { .. } if INTERACTIVE.contains(&program) => hint(
            "interactive_program",
            format!("{program} waits for keys on a terminal, and a command has none: use a form of it that prints and ends"),
        ),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::EndedBy;

    #[test]
    fn advice_comes_only_where_it_fits() {
        let code = |outcome: Outcome, dir: bool, text: &str| {
            of(&outcome, dir, text, "bash: line 1: nosuch: command not found\n").into_iter().map(|h| h.code).collect::<Vec<_>>().join(",")
        };
        assert_eq!(code(Outcome::Exited { exit_code: 127 }, false, "nosuch"), "command_not_found");
        assert_eq!(of(&Outcome::Exited { exit_code: 127 }, false, "set -u; echo $X", "bash: line 1: X: unbound variable\n"), vec![]);
        assert_eq!(code(Outcome::Exited { exit_code: 126 }, false, "/etc/passwd"), "permission_denied");
        assert_eq!(code(Outcome::Exited { exit_code: 126 }, true, "true"), "");
        assert_eq!(code(Outcome::TimedOut, false, "TERM=xterm /usr/bin/vim x"), "interactive_program");
        assert_eq!(code(Outcome::Cancelled { ended_by: EndedBy::Client }, false, "sleep 9"), "");
        assert_eq!(code(Outcome::Exited { exit_code: 0 }, false, "vim --version"), "");
    }
}
