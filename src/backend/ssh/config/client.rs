//! Asks the OpenSSH client what its config says: `ssh -G`.
//!
//! Invariant: nothing is connected to and nobody is asked anything; a client that hangs is ended after 5 s.

use super::reader::{Values, Whose};
use super::{Here, Question, found};
use crate::backend::ssh::child::{self, Failure};
use crate::backend::{BackendError, ErrorKind};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait: `Match exec` and looking up names may hang.
const LIMIT: Duration = Duration::from_secs(5);

/// Asks; none when there is no such program.
pub(super) async fn ask(
    client: &Path,
    question: &Question<'_>,
    here: &Here,
    files: &[(PathBuf, Whose)],
) -> Result<Option<Values>, BackendError> {
    let shown = format!("`ssh -G {}`", question.host);
    let mut args: Vec<OsString> = vec!["-T".into(), "-G".into()];
    // The usual files need no mention, unless our home is not OpenSSH's.
    if let [(file, whose)] = files
        && (*whose == Whose::Named || here.home != here.own_home)
    {
        args.extend(["-F".into(), file.into()]);
    }
    if let Some(user) = question.user {
        args.extend(["-l".into(), user.into()]);
    }
    if let Some(port) = question.port {
        args.extend(["-p".into(), port.to_string().into()]);
    }
    if let Some(jump) = question.jump {
        args.extend(["-J".into(), jump.into()]);
    }
    args.extend(["--".into(), question.host.into()]);
    let output = match child::output(client, &args, &here.variables, LIMIT).await {
        Ok(output) => output,
        Err(Failure::Missing) => return Ok(None),
        Err(Failure::Late) => {
            return Err(BackendError::new(ErrorKind::TimedOut, format!("{shown} did not end within {} s", LIMIT.as_secs()))
                .with_fix("a `Match exec` or a name that cannot be looked up may hold it up: try it by hand"));
        }
        Err(Failure::Broken(e)) => return Err(BackendError::new(ErrorKind::Internal, format!("{shown} could not be run: {e}"))),
    };
    if !output.status.success() {
        return Err(BackendError::new(ErrorKind::Config, format!("{shown} failed ({}): {}", output.status, output.said()))
            .with_fix("correct the ssh_config, or set `ssh_config: none` for the backend and give what it needs in its own keys"));
    }
    Ok(Some(found::printed(&String::from_utf8_lossy(&output.stdout))))
}
