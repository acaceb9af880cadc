//! The flags of `qd exec`.
//!
//! Invariant: a flag that this version does not have is an unexpected argument, never part of the command.

use crate::cli::duration;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const USAGE: &str = "qd exec [OPTIONS] -- COMMAND...\n       qd exec [OPTIONS] --command-file FILE";

const EXAMPLES: &str = "\
Examples:
  qd exec -- make test                        several words: run as given
  qd exec -b gpu -- 'cd /data && ls | wc -l'  one word: shell text
  qd exec -b gpu --json -- nvidia-smi         one JSON object
  git diff | qd exec -b web -i -- patch -p1   stdin goes along
  qd exec --timeout 90s --command-file build.sh

Without --json the command's stdout and stderr come through byte for byte;
words of qd itself go to stderr behind `qd: `. Ctrl-C ends the command and all
that it started, on its backend too; a second Ctrl-C leaves at once.

Exit code: the command's own, or
   64  wrong use                       126  the directory is not reachable
   69  the backend is not available    128+N  ended by signal N
   78  the config cannot be used       130  interrupted, or ended by somebody
  124  timed out                       141  the reader of stdout went away
  125  qd failed, or no shell started  255  the link was lost: unknown whether
   79  it still runs (--yield)              it finished; it is not run again";

// How a result is printed. (No doc comments on the values: they would change the form of the help.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Json {
    Result,
    Events,
}

/// Checks a pattern before anything is asked of a daemon.
fn watch(text: &str) -> Result<String, String> {
    crate::model::watch_pattern(text).map(|_| text.to_owned())
}

/// Runs one command.
#[derive(Args, Clone, Debug)]
#[command(override_usage = USAGE, after_help = EXAMPLES)]
pub(crate) struct ExecArgs {
    /// Run it on this backend [default: the config's default_backend]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) backend: Option<String>,

    /// Run it in this session [default: $QD_SESSION, else main]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) session: Option<String>,

    /// Run it in this directory; the session stays where it is
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) workdir: Option<String>,

    /// End it after this time: 90s, 1.5m, 500ms, or plain seconds
    #[arg(long, value_name = "TIME", value_parser = duration::positive, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,

    /// Run it in the background: print its id and return; it outlives links and the daemon
    #[arg(short = 'd', long, conflicts_with_all = ["stdin", "stdin_file", "timeout", "yield_after"])]
    pub(crate) background: bool,

    /// Return after this time with exit code 79 when it still runs; it goes on in the background under its id
    #[arg(long = "yield", value_name = "TIME", value_parser = duration::positive, allow_hyphen_values = true)]
    pub(crate) yield_after: Option<Duration>,

    /// Have its end told once, to whoever watches; not when `qd wait` or `qd logs -f` told it already
    #[arg(long)]
    pub(crate) notify: bool,

    /// With -d or --yield: have lines of its output told that hold this: plain text, or re:REGEX (repeatable)
    #[arg(long, value_name = "PATTERN", value_parser = watch, allow_hyphen_values = true)]
    pub(crate) watch: Vec<String>,

    /// Set a variable for this command alone (repeatable)
    #[arg(short, long = "env", value_name = "NAME=VALUE")]
    pub(crate) env: Vec<OsString>,

    /// Forward stdin; without this the command's stdin is empty
    #[arg(short = 'i', long)]
    pub(crate) stdin: bool,

    /// Forward this file as stdin (- is stdin)
    #[arg(long, value_name = "FILE", conflicts_with = "stdin")]
    pub(crate) stdin_file: Option<PathBuf>,

    /// Read the command's text from this file (- is stdin)
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) command_file: Option<PathBuf>,

    /// Print the result as one JSON object; with =events, one object a line as things happen
    #[arg(long, value_name = "events", num_args = 0..=1, require_equals = true, default_missing_value = "result", hide_possible_values = true)]
    pub(crate) json: Option<Json>,

    /// Put at most this many bytes of output into the JSON result [default: 50000]
    #[arg(long, value_name = "BYTES", requires = "json", allow_negative_numbers = true)]
    pub(crate) max_output: Option<u64>,

    /// Say which agent is calling [default: $QD_CLIENT, else $AI_AGENT]
    #[arg(long, value_name = "NAME")]
    pub(crate) client: Option<String>,

    /// Say what the command is for; shown to whoever watches
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// Take the words as shell text, joined by spaces
    #[arg(long, conflicts_with = "argv")]
    pub(crate) shell: bool,

    /// Take the words as an argument list, even a single one
    #[arg(long, conflicts_with = "command_file")]
    pub(crate) argv: bool,

    /// The command: one word is shell text, several are an argument list
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required_unless_present = "command_file")]
    pub(crate) command: Vec<OsString>,
}
