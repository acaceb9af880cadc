//! Leaving the client that started us: a session of our own, nothing of its files, and our first words.
//!
//! Invariant: after [`detach`] nothing that the starting client was given stays open here: whoever waits for the end of its
//! pipes does not wait for the daemon.

use crate::protocol::launch::Report;
use std::io::{self, Write};
use std::os::fd::RawFd;

/// Leaves the session and the inherited files of the client that started us. Call it first in `main`, before any thread,
/// runtime or file of our own: every descriptor above 2 is closed.
pub fn detach() -> io::Result<()> {
    match rustix::process::setsid() {
        // EPERM: we lead a group already, so that the client's terminal does not reach us either.
        Ok(_) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    std::env::set_current_dir("/")?;
    for descriptor in inherited()? {
        match nix::unistd::close(descriptor) {
            // The listing's own descriptor is among them and closed by now.
            Ok(()) | Err(nix::errno::Errno::EBADF) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn inherited() -> io::Result<Vec<RawFd>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/dev/fd")? {
        let number = entry?.file_name().to_str().and_then(|name| name.parse().ok());
        found.extend(number.filter(|number: &RawFd| *number > 2));
    }
    Ok(found)
}

/// Says the first words to the client that waits on our stdout. It may have gone; then nobody needs them.
pub(super) fn report(report: &Report) {
    let told = serde_json::to_string(report).map_err(io::Error::from).and_then(|line| {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{line}")?;
        stdout.flush()
    });
    if let Err(error) = told {
        tracing::debug!(%error, "the client that started us is gone");
    }
}

/// Lets go of the client's pipes: from here on nobody reads what we print.
pub(super) fn silence() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    // A panic's text would go to stderr and be lost.
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(())
}
