//! The reaper: a tiny child of the daemon that ends local foreground commands when the daemon is killed.
//!
//! Invariant: it acts only when the pipe to the daemon ends, and only on commands that are in the table then. The table is
//! memory that both share, so that noting a command costs a copy and wakes nobody.

use super::{children, end, procfs, spawn};
use crate::backend::Family;
use nix::sys::signal::{SigSet, Signal};
use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Bytes of one entry: `PID START COOKIE`, filled up with NUL.
const SLOT: usize = 160;
/// Where the entries surely have ended: more commands than a machine can run.
const BEHIND: u64 = 4 << 20;
/// Between TERM and KILL: everything must be gone 5 s after the daemon.
const GRACE: Duration = Duration::from_secs(1);
/// A reaper that dies is started again, but not for ever.
const RESTARTS: u32 = 5;

/// The daemon's side. Cheap to clone; when the last one is dropped the reaper ends.
#[derive(Clone)]
pub struct Reaper {
    inner: Arc<Inner>,
}

struct Inner {
    program: PathBuf,
    args: Vec<CString>,
    table: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The end whose closing tells the reaper that the daemon is gone.
    pipe: Option<OwnedFd>,
    slots: BTreeMap<u32, usize>,
    free: Vec<usize>,
    used: usize,
}

impl Reaper {
    /// Starts the reaper: `program` with `args` (the first is its name) must call [`main_loop`] and nothing else. Must be
    /// called on a tokio runtime.
    pub fn start(program: &Path, args: &[&str]) -> io::Result<Self> {
        let table = rustix::fs::memfd_create("qd-reaper", MemfdFlags::CLOEXEC)?;
        // The table is the child's stdout: should anything there print, it lands behind the entries.
        rustix::fs::seek(&table, rustix::fs::SeekFrom::Start(BEHIND))?;
        let inner = Inner { program: program.to_owned(), args: spawn::words(args)?, table, state: Mutex::default() };
        let inner = Arc::new(inner);
        let child = inner.launch()?;
        tokio::spawn(keep_alive(Arc::downgrade(&inner), child));
        Ok(Self { inner })
    }

    /// Notes a command that must not outlive the daemon; a second note of the same pid replaces the first (to add the cookie).
    pub fn watch(&self, family: &Family) {
        let mut state = self.inner.state();
        let slot = match state.slots.get(&family.pid) {
            Some(slot) => *slot,
            None => {
                let slot = state.free.pop().unwrap_or(state.used);
                state.used = state.used.max(slot + 1);
                state.slots.insert(family.pid, slot);
                slot
            }
        };
        self.inner.write(slot, &entry(family));
    }

    /// Takes a command off the table: it has ended, or it may stay.
    pub fn forget(&self, pid: u32) {
        let mut state = self.inner.state();
        if let Some(slot) = state.slots.remove(&pid) {
            state.free.push(slot);
            self.inner.write(slot, &[0; SLOT]);
        }
    }
}

impl Inner {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an entry in one go: it is never seen half.
    fn write(&self, slot: usize, entry: &[u8; SLOT]) {
        if let Err(e) = rustix::io::pwrite(&self.table, entry, (slot * SLOT) as u64) {
            tracing::warn!("a command could not be noted for the reaper: {e}");
        }
    }

    fn launch(&self) -> io::Result<children::Own> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let null = OwnedFd::from(std::fs::OpenOptions::new().write(true).open("/dev/null")?);
        let child = spawn::run(&self.program, &self.args, &[], [&read, &self.table, &null], [0; 3])?;
        self.state().pipe = Some(write);
        Ok(child)
    }
}

/// Starts the reaper again when it dies before the daemon.
async fn keep_alive(inner: Weak<Inner>, mut child: children::Own) {
    for _ in 0..RESTARTS {
        let ended = child.wait().await;
        let Some(inner) = inner.upgrade() else { return };
        tracing::warn!("the reaper ended ({ended:?}); starting it again");
        child = match inner.launch() {
            Ok(child) => child,
            Err(e) => {
                tracing::error!("the reaper cannot be started: {e}; commands may outlive a killed daemon");
                return;
            }
        };
    }
    if child.wait().await.is_ok() && inner.strong_count() > 0 {
        tracing::error!("the reaper keeps ending; commands may outlive a killed daemon");
    }
}

/// The reaper's whole life: waits for the end of its stdin, then ends what is in the table that is its stdout. Blocking.
pub fn main_loop() -> io::Result<()> {
    // A signal to the whole of the daemon's service must not end it before its work is done.
    let mut ignored = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGPIPE] {
        ignored.add(signal);
    }
    ignored.thread_block()?;
    serve(io::stdin().as_fd(), io::stdout().as_fd())
}

fn serve(pipe: impl AsFd, table: impl AsFd) -> io::Result<()> {
    let mut nothing = [0_u8; 64];
    loop {
        match rustix::io::read(&pipe, &mut nothing) {
            Ok(0) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let watched = read_table(table)?;
    std::thread::scope(|scope| {
        for family in &watched {
            // Only while the command itself still runs: what it left in the background is not foreground.
            let runs = procfs::stat(family.pid).is_some_and(|p| !p.gone() && Some(p.start) == family.start_time);
            if runs {
                scope.spawn(|| end::end(family, GRACE));
            }
        }
    });
    Ok(())
}

fn read_table(table: impl AsFd) -> io::Result<Vec<Family>> {
    let mut found = Vec::new();
    let mut entry = [0_u8; SLOT];
    let mut at = 0;
    while rustix::io::pread(&table, &mut entry, at)? == SLOT {
        found.extend(parse(&entry));
        at += SLOT as u64;
    }
    Ok(found)
}

fn entry(family: &Family) -> [u8; SLOT] {
    let mut out = [0; SLOT];
    let start = family.start_time.unwrap_or(0);
    let mut text = format!("{} {start} {}", family.pid, family.cookie);
    if text.len() > SLOT {
        // No cookie of ours is that long; without it the session and the descent still tell.
        text = format!("{} {start} ", family.pid);
    }
    out[..text.len()].copy_from_slice(text.as_bytes());
    out
}

fn parse(entry: &[u8; SLOT]) -> Option<Family> {
    let text = std::str::from_utf8(entry).ok()?.trim_end_matches('\0');
    let mut words = text.splitn(3, ' ');
    let (pid, start) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(Family { pid, start_time: Some(start), age: None, cookie: words.next()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::local::tests::{alive, gone, local, run};
    use crate::backend::{Ask, Backend};

    const CAP: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn it_ends_what_is_in_the_table_and_nothing_else() {
        let local = local();
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let table = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        let inner = Inner { program: PathBuf::new(), args: Vec::new(), table, state: Mutex::default() };
        let reaper = Reaper { inner: Arc::new(inner) };
        let mut runs = Vec::new();
        for _ in 0..3 {
            let mut run = run(&local, "trap '' TERM; (setsid sh -c 'echo $$; sleep 600; :' &); while :; do sleep 600; done").await;
            let child: u32 = run.line().await.parse().unwrap();
            reaper.watch(&Family { cookie: String::new(), ..run.family.clone() });
            reaper.watch(&run.family);
            runs.push((run, child));
        }
        reaper.forget(runs[1].0.family.pid);
        let mut recycled = runs[1].0.family.clone();
        recycled.start_time = Some(1);
        reaper.watch(&recycled);
        assert_eq!(read_table(&reaper.inner.table).unwrap().len(), 3);
        let kept = reaper.inner.table.try_clone().unwrap();
        let reaped = tokio::task::spawn_blocking(move || serve(read, kept));
        drop(write);
        tokio::time::timeout(CAP, reaped).await.expect("in time").unwrap().unwrap();
        for (i, (run, child)) in runs.iter().enumerate() {
            let stays = i == 1;
            if !stays {
                tokio::time::timeout(CAP, gone(run.family.pid)).await.expect("collected");
            }
            assert_eq!((alive(run.family.pid), alive(*child)), (stays, stays), "{i}");
        }
        let ended = local.family(runs[1].0.family.clone(), Ask::End { grace: Duration::ZERO }).await.unwrap();
        assert!(ended.verified && !alive(runs[1].1));
    }

    #[tokio::test]
    async fn the_child_gets_the_pipe_and_the_table_and_is_started_again() {
        let dir = tempfile::tempdir().unwrap();
        let script = "echo $$ >\"$0/pid.new\"; mv \"$0/pid.new\" \"$0/pid\"; cat; tr '\\0' '\\n' </proc/self/fd/1 >\"$0/new\"; mv \"$0/new\" \"$0/table\"";
        let sh = super::super::login::find("sh").unwrap();
        let reaper = Reaper::start(&sh, &["sh", "-c", &format!("PATH=/usr/bin:/bin; {script}"), dir.path().to_str().unwrap()]).unwrap();
        let appears = async |name: &str| loop {
            match std::fs::read_to_string(dir.path().join(name)) {
                Ok(text) => break text,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let pid: i32 = tokio::time::timeout(CAP, appears("pid")).await.unwrap().trim().parse().unwrap();
        reaper.watch(&Family { pid: 7, start_time: Some(8), age: None, cookie: "QD_PROCESS=x".into() });
        std::fs::remove_file(dir.path().join("pid")).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
        let again: i32 = tokio::time::timeout(CAP, appears("pid")).await.unwrap().trim().parse().unwrap();
        assert_ne!(again, pid);
        drop(reaper);
        let table = tokio::time::timeout(CAP, appears("table")).await.unwrap();
        assert_eq!(table.trim(), "7 8 QD_PROCESS=x");
    }

    /// The name by which this test binary runs one of the bodies below as a process of its own.
    fn body(name: &str) -> [String; 5] {
        ["test".into(), "--exact".into(), format!("backend::local::reaper::tests::{name}"), "--ignored".into(), "--nocapture".into()]
    }

    #[test]
    #[ignore = "the body of a process that another test starts"]
    fn reaper_process() {
        main_loop().unwrap();
    }

    #[tokio::test]
    #[ignore = "the body of a process that another test starts"]
    async fn daemon_process() {
        let args = body("reaper_process");
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let reaper = Reaper::start(&std::env::current_exe().unwrap(), &args).unwrap();
        let local = local().with_reaper(reaper.clone());
        let mut busy = run(&local, "trap '' TERM; (setsid sh -c 'echo $$; exec sleep 600' &); while :; do sleep 600; done").await;
        let child = busy.line().await;
        reaper.watch(&busy.family);
        let mut left = run(&local, "sleep 600 >/dev/null 2>&1 & echo $!").await;
        let background = left.line().await;
        left.exit().await;
        let waiting = local.start(crate::backend::local::tests::start()).await.unwrap();
        println!("PIDS {} {child} {} {background}", busy.family.pid, waiting.ready.pid);
        std::future::pending::<()>().await;
    }

    #[tokio::test]
    async fn a_killed_daemon_leaves_no_foreground_command() {
        use std::io::BufRead;
        local();
        let mut daemon = std::process::Command::new(std::env::current_exe().unwrap())
            .args(&body("daemon_process")[1..])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(daemon.stdout.take().unwrap()).lines();
        let said = tokio::task::spawn_blocking(move || {
            lines.map_while(Result::ok).find_map(|l| l.split_once("PIDS ").map(|(_, pids)| pids.to_owned()))
        });
        let said = tokio::time::timeout(CAP, said).await.unwrap().unwrap().expect("the daemon is up");
        let pids = crate::backend::local::tests::pids(&said);
        assert!(pids.iter().all(|pid| alive(*pid)), "{pids:?}");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        // What it left comes to this process, which is a subreaper too.
        for pid in &pids[..3] {
            tokio::time::timeout(CAP, gone(*pid)).await.expect("ended by the reaper, or by the end of its input");
        }
        assert!(alive(pids[3]), "what a command left in the background stays");
        rustix::process::kill_process(rustix::process::Pid::from_raw(pids[3].cast_signed()).unwrap(), rustix::process::Signal::KILL)
            .unwrap();
    }
}
