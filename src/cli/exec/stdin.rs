//! The caller's bytes on their way to the command's stdin.
//!
//! Invariant: stdin is read only when it was asked for, and never faster than the command takes it.

use crate::cli::args::ExecArgs;
use crate::cli::failure::Failure;
use crate::client::Stdin;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use tokio::sync::mpsc;

const BLOCK: usize = 65_536;

/// Opens what is to be forwarded; none when nothing is.
pub(crate) fn open(args: &ExecArgs) -> Result<Option<File>, Failure> {
    let is_stdin = |path: &Path| path == Path::new("-");
    let from_stdin = args.stdin || args.stdin_file.as_deref().is_some_and(is_stdin);
    if from_stdin && args.command_file.as_deref().is_some_and(is_stdin) {
        return Err(Failure::usage("stdin cannot be both the command's text and its stdin"));
    }
    if from_stdin {
        let own = io::stdin().as_fd().try_clone_to_owned();
        return own.map(|fd| Some(File::from(fd))).map_err(|e| Failure::usage(format!("failed to open stdin: {e}")));
    }
    let Some(path) = &args.stdin_file else { return Ok(None) };
    let failed = |e: io::Error| Failure::usage(format!("failed to read stdin from {}: {e}", path.display()));
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    Ok(Some(file))
}

/// Forwards a file until its end or until the command no longer reads. An error means that the file could not be read to its
/// end: the command would take what it has for the whole.
pub(crate) async fn forward(source: File, mut stdin: Stdin) -> Result<(), Failure> {
    let mut blocks = read(source).map_err(failed)?;
    while let Some(block) = blocks.recv().await {
        if stdin.send(block.map_err(failed)?).await.is_err() {
            // The command has ended or closed its stdin: its result tells the rest.
            return Ok(());
        }
    }
    stdin.end();
    Ok(())
}

fn failed(error: io::Error) -> Failure {
    Failure::Internal(format!("failed to read stdin: {error}; the command was ended"))
}

/// Reads on a thread, because a read of a terminal or a pipe cannot be interrupted; the thread ends with the program.
fn read(mut source: File) -> io::Result<mpsc::Receiver<io::Result<Vec<u8>>>> {
    let (blocks, waiting) = mpsc::channel(2);
    thread::Builder::new().name("stdin".into()).spawn(move || {
        loop {
            let mut block = vec![0; BLOCK];
            let read = match source.read(&mut block) {
                Ok(0) => return,
                Ok(count) => {
                    block.truncate(count);
                    Ok(block)
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let mut wanted = [rustix::event::PollFd::new(&source, rustix::event::PollFlags::IN)];
                    match rustix::event::poll(&mut wanted, None) {
                        Ok(_) | Err(rustix::io::Errno::INTR) => continue,
                        Err(e) => Err(e.into()),
                    }
                }
                Err(e) => Err(e),
            };
            let failed = read.is_err();
            if blocks.blocking_send(read).is_err() || failed {
                return;
            }
        }
    })?;
    Ok(waiting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[tokio::test]
    async fn a_file_is_read_to_its_end() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'x'; BLOCK * 3 + 7]).unwrap();
        let mut blocks = read(file.reopen().unwrap()).unwrap();
        let mut total = 0;
        while let Some(block) = blocks.recv().await {
            total += block.unwrap().len();
        }
        assert_eq!(total, BLOCK * 3 + 7);
    }

    #[tokio::test]
    async fn a_read_that_fails_is_told() {
        let mut blocks = read(File::open("/").unwrap()).unwrap();
        assert!(blocks.recv().await.unwrap().is_err());
        assert!(blocks.recv().await.is_none());
    }
}
