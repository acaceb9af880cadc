//! The flags of the commands about commands: ps, logs, wait, send, kill.
//!
//! Invariant: what a flag takes is checked here.

use crate::cli::duration;
use clap::Args as ClapArgs;
use std::time::Duration;

/// Lists processes.
#[derive(ClapArgs, Clone, Debug)]
#[command(after_help = "\
What a command left running is listed as `stray`, with the id of that command in
JSON. `qd kill ID` ends it, `qd adopt ID` makes a background process of it.

--find looks through a backend for strays of earlier daemons too. Processes of
commands of another Quarterdeck on the same account are not listed, only counted:
they may be in use.")]
pub(crate) struct PsArgs {
    /// Show ended commands too
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Show this backend's alone
    #[arg(short, long, value_name = "NAME")]
    pub(crate) backend: Option<String>,
    /// Look through the backend for what commands left running, and list that alone
    #[arg(long, requires = "backend", conflicts_with = "all")]
    pub(crate) find: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Adopts a stray.
#[derive(ClapArgs, Clone, Debug)]
#[command(after_help = "\
A stray is what a command left running; `qd ps` lists it. Adopted, it is listed as
a background process, can be waited for, and is found again after a restart of the
daemon. Its output goes where it went: into its command's log, as long as the daemon
lives that ran the command. How it ends is known on local alone, until then; else
its exit code is unknown (255).")]
pub(crate) struct AdoptArgs {
    /// The stray's id, or a unique prefix of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints a log.
#[derive(ClapArgs, Clone, Debug)]
#[command(after_help = "\
Examples:
  qd logs k7f3 --tail 50
  qd logs -f k7f3 b2c4 --grep 'error|warn'
  qd logs --raw k7f3 > whole.log

Several logs come one after the other, or with -f at once; then each line begins with
`ID BACKEND| `. A follow goes on where it was when the daemon was started anew within
30 s. What the log no longer keeps (limits.log_bytes) is told where it is missing.

With --json each line is an object: {id, text, offset} for a line; {id, missing,
offset} where so many bytes are no longer kept; {id, next_offset, process} at the end.")]
pub(crate) struct LogsArgs {
    /// The commands' ids, or unique prefixes of them
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Go on until the commands have ended
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Start at this byte of the log
    #[arg(long, value_name = "BYTE", conflicts_with = "tail", allow_negative_numbers = true)]
    pub(crate) offset: Option<u64>,
    /// Start this many lines before the end (they are looked for 1 MiB back); with --grep: the last lines that match, of all
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    pub(crate) tail: Option<u64>,
    /// Print the lines alone that match this regular expression
    #[arg(long, value_name = "RE")]
    pub(crate) grep: Option<String>,
    /// Print the exact bytes; without this, escape sequences are left out
    #[arg(long)]
    pub(crate) raw: bool,
    /// Print each line as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Waits for processes.
#[derive(ClapArgs, Clone, Debug)]
#[command(after_help = "\
Examples:
  qd wait k7f3 b2c4
  qd wait --until 'pattern=listening on' --timeout 30s k7f3
  qd wait --until 'pattern=Continue' k7f3 && qd send k7f3 --submit yes
  qd wait --until match k7f3

Several commands: all of them are waited for. Exit code: the command's own; of
several, the highest; 124 when the time ran out first. With --until of other than
exit: 0 when it came, 1 when a command ended before it did. With --json each row
says whether it `came`. What a command tells that was started with --watch is said on
stderr as it comes, with --json it is in the rows (`told`); --until match ends at
the first that no wait has heard, and prints its lines. After a restart of the daemon
within 30 s the wait goes on. Whether a command wants input is known of one in the
foreground on local alone (1 and an error elsewhere), and seen of a plain read of its
stdin, not of poll and select. In the background, wait for what it asks:
--until 'pattern=password'.")]
pub(crate) struct WaitArgs {
    /// The commands' ids, or unique prefixes of them
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Wait for: exit; output (more of it); quiet=MS (none for so long);
    /// pattern=RE (in a line of it); match (of its --watch); input (it reads its open stdin and nothing is there)
    #[arg(long, value_name = "WHAT", value_parser = crate::cli::wait::until, default_value = "exit", hide_default_value = true)]
    pub(crate) until: crate::cli::wait::Until,
    /// With output and pattern: look from this byte of the log on, or from its end [default: output: end, pattern: 0]
    #[arg(long, value_name = "BYTE|end", value_parser = crate::cli::wait::from, allow_hyphen_values = true)]
    pub(crate) offset: Option<crate::model::LogStart>,
    /// Wait this long at most
    #[arg(long, value_name = "TIME", value_parser = duration::zero_or_more, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Writes to a command's stdin.
#[derive(ClapArgs, Clone, Debug)]
#[command(
    group = clap::ArgGroup::new("what").args(["text", "submit", "eof"]).multiple(true).required(true),
    after_help = "\
Examples:
  qd send k7f3 --submit yes
  qd send k7f3 --text 'no line end' --expect-offset 1204
  qd send k7f3 --eof

The command must have been started with its stdin open: `qd exec -i`, in the
background `qd exec -d --stdin-open`, or Ctrl-O in the terminal UI. The caller of
`exec -i` goes on writing beside you. What a command does not read
yet waits, at most 16 batches; it is told when something waits (exit code 0), and
more is refused (1). With --expect-offset, next_offset of `qd logs --json` or of a
result, nothing is sent when more output came since (1, code `outdated`).

Others on this machine can see the words of a command line: no secrets here."
)]
pub(crate) struct SendArgs {
    /// The command's id, or a unique prefix of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Write this, as it is
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) text: Option<String>,
    /// Write this and a line end, after --text
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    pub(crate) submit: Option<String>,
    /// End the stdin, after the rest
    #[arg(long)]
    pub(crate) eof: bool,
    /// Send nothing when the output is longer than this
    #[arg(long, value_name = "BYTE", allow_negative_numbers = true)]
    pub(crate) expect_offset: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Ends processes.
#[derive(ClapArgs, Clone, Debug)]
#[command(after_help = "\
Without -s the command and all that it started are ended: first politely (TERM),
after the grace time for certain (KILL), and it is checked that nothing is left.
With -s one signal is sent and nothing more is done; it is told who got it, and an
error (exit code 1) when nobody did. Of several commands each failure is told, and
the highest of their exit codes is that of qd.")]
pub(crate) struct KillArgs {
    /// The commands' ids, or unique prefixes of them
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Send this signal alone: a name as TERM, or a number
    #[arg(short, long, value_name = "SIGNAL", value_parser = crate::cli::kill::signal_name, conflicts_with = "grace")]
    pub(crate) signal: Option<String>,
    /// Time between TERM and KILL [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration::zero_or_more, allow_hyphen_values = true)]
    pub(crate) grace: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
