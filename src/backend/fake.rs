//! A backend for tests: real shells of this machine behind a link that can be slow, silent or broken at will.
//!
//! Invariant: stricter than any real backend: what a real one might forgive (a nonce used twice, a question about a process
//! that it never started) is an error here.

use super::local::{ClientEnv, Local};
use super::{About, Ask, Backend, BackendError, ErrorKind, Exit, Family, Link, Members, Reached, Shell, Start};
use crate::model::{BackendKind, Capabilities};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;

/// Bytes on the way in each direction.
const WINDOW: usize = 256 * 1024;

/// The fake. Not connected at first, as every remote kind.
pub struct Fake {
    about: About,
    local: Local,
    link: watch::Sender<Link>,
    /// What the network does now; every stream watches it.
    weather: watch::Sender<Weather>,
    state: Mutex<State>,
    /// Held while a connection is made: at most one attempt is under way.
    connecting: tokio::sync::Mutex<()>,
}

/// The state of the network between us and the far side.
#[derive(Clone, Debug, Default)]
struct Weather {
    /// Nothing arrives, nothing fails.
    black_hole: bool,
    /// Number of the connection that is whole; streams of an older one are lost.
    epoch: u64,
    /// Why the last one broke.
    why: Option<BackendError>,
}

#[derive(Debug, Default)]
struct State {
    refusal: Option<BackendError>,
    delay: Duration,
    nonces: BTreeSet<String>,
    pids: BTreeSet<u32>,
    asked: Vec<(Family, Ask)>,
    attempts: u32,
}

impl Fake {
    /// Makes a fake of this name, not connected.
    pub fn new(name: &str) -> Arc<Self> {
        let link = watch::Sender::new(Link::default());
        let capabilities = Capabilities { pty: false, separate_streams: true, verified_kill: true, same_files: false };
        let about =
            About { name: name.into(), kind: BackendKind::Ssh, address: format!("fake@{name}:22"), capabilities, link: link.subscribe() };
        Arc::new(Self {
            about,
            local: Local::new(ClientEnv::default()),
            link,
            weather: watch::Sender::new(Weather::default()),
            state: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        })
    }

    /// Breaks the connection: every open shell is lost. The next check or start connects again.
    pub fn lose(&self, why: &str) {
        self.broken(BackendError::new(ErrorKind::Lost, why));
    }

    /// Has every attempt to connect fail with this error, or succeed again. An open connection stays.
    pub fn refuse(&self, error: Option<BackendError>) {
        self.state().refusal = error;
    }

    /// Swallows everything in both directions without a failure, as a firewall that drops does, or lets it through again.
    pub fn black_hole(&self, on: bool) {
        self.weather.send_modify(|w| w.black_hole = on);
    }

    /// Makes every answer later by this much.
    pub fn delay(&self, delay: Duration) {
        self.state().delay = delay;
    }

    /// How many connections were tried.
    pub fn attempts(&self) -> u32 {
        self.state().attempts
    }

    /// How many shells came up.
    pub fn started(&self) -> usize {
        self.state().pids.len()
    }

    /// Names a process that a shell there left running on purpose: it may be asked about, too.
    pub fn knows(&self, pid: u32) {
        self.state().pids.insert(pid);
    }

    /// What was asked about families, in order.
    pub fn asked(&self) -> Vec<(Family, Ask)> {
        self.state().asked.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn broken(&self, why: BackendError) {
        self.link.send_modify(|link| {
            link.up = false;
            link.lost = Some(why.clone());
        });
        self.weather.send_modify(|w| {
            w.epoch += 1;
            w.why = Some(why);
        });
    }

    /// One round trip over the present connection: waits for the weather and the delay.
    async fn round_trip(&self) -> Result<(), BackendError> {
        let mut weather = self.weather.subscribe();
        let epoch = weather.borrow().epoch;
        let delay = self.state().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        through(&mut weather, epoch).await
    }

    /// Connects when there is no connection; tells whether it did.
    async fn connect(&self) -> Result<bool, BackendError> {
        let _one_at_a_time = self.connecting.lock().await;
        if self.link.borrow().up {
            return Ok(false);
        }
        self.state().attempts += 1;
        self.round_trip().await?;
        let refusal = self.state().refusal.clone();
        if let Some(error) = refusal {
            self.link.send_modify(|link| link.lost = Some(error.clone()));
            return Err(error);
        }
        self.link.send_modify(|link| {
            link.up = true;
            link.epoch += 1;
            link.last_heard = Some(Instant::now());
            link.lost = None;
        });
        Ok(true)
    }

    fn is_on(&self, number: u64) -> bool {
        let link = self.link.borrow();
        link.up && link.epoch == number
    }

    fn strict(&self, text: String) -> BackendError {
        BackendError::new(ErrorKind::Internal, format!("used wrongly: {text}"))
    }

    async fn begin(&self, start: Start) -> Result<Shell, BackendError> {
        let well_formed = start.nonce.len() == 16 && start.nonce.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase());
        if !well_formed || !self.state().nonces.insert(start.nonce.clone()) {
            return Err(self.strict(format!("nonce {:?} is not 16 hex digits or was used before", start.nonce)));
        }
        let limit = start.timeout;
        let started = async {
            match start.on {
                Some(number) if !self.is_on(number) => return Err(BackendError::new(ErrorKind::Lost, "that connection is gone")),
                Some(_) => {}
                None => drop(self.connect().await?),
            }
            let epoch = self.weather.borrow().epoch;
            self.round_trip().await?;
            let shell = self.local.start(start).await?;
            self.state().pids.insert(shell.ready.pid);
            self.round_trip().await?;
            Ok(wrap(shell, &self.weather, epoch))
        };
        match tokio::time::timeout(limit, started).await {
            Ok(shell) => shell,
            Err(_) => Err(BackendError::new(ErrorKind::TimedOut, format!("no shell was ready on {} in time", self.about.address))),
        }
    }
}

impl Backend for Fake {
    fn about(&self) -> &About {
        &self.about
    }

    fn check(&self) -> BoxFuture<'_, Result<Reached, BackendError>> {
        async {
            let began = Instant::now();
            let fresh = self.connect().await?;
            if !fresh {
                self.round_trip().await?;
                self.link.send_modify(|link| link.last_heard = Some(Instant::now()));
            }
            Ok(Reached { round_trip: began.elapsed(), fresh })
        }
        .boxed()
    }

    fn start(&self, start: Start) -> BoxFuture<'_, Result<Shell, BackendError>> {
        self.begin(start).boxed()
    }

    fn family(&self, family: Family, ask: Ask) -> BoxFuture<'_, Result<Members, BackendError>> {
        async move {
            self.state().asked.push((family.clone(), ask.clone()));
            if !self.state().pids.contains(&family.pid) {
                return Err(self.strict(format!("process {} was never started here", family.pid)));
            }
            if !family.cookie.split_once('=').is_some_and(|(name, value)| name == "QD_PROCESS" && !value.is_empty()) {
                return Err(self.strict(format!("{:?} is not a cookie", family.cookie)));
            }
            self.connect().await?;
            self.round_trip().await?;
            let members = self.local.family(family, ask).await?;
            self.round_trip().await?;
            Ok(members)
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            if self.link.borrow().up {
                self.broken(BackendError::new(ErrorKind::Lost, "the connection was closed"));
                self.link.send_modify(|link| link.lost = None);
            }
        }
        .boxed()
    }
}

fn reason(weather: &Weather) -> BackendError {
    weather.why.clone().unwrap_or_else(|| BackendError::new(ErrorKind::Lost, "the link broke"))
}

/// Waits while nothing gets through; fails when the connection is lost.
async fn through(weather: &mut watch::Receiver<Weather>, epoch: u64) -> Result<(), BackendError> {
    match weather.wait_for(|w| !w.black_hole || w.epoch != epoch).await {
        Ok(w) if w.epoch == epoch => Ok(()),
        Ok(w) => Err(reason(&w)),
        Err(_) => Err(BackendError::new(ErrorKind::Lost, "the fake is gone")),
    }
}

/// Resolves when the connection is lost.
async fn lost(weather: &mut watch::Receiver<Weather>, epoch: u64) -> BackendError {
    match weather.wait_for(|w| w.epoch != epoch).await {
        Ok(w) => reason(&w),
        Err(_) => BackendError::new(ErrorKind::Lost, "the fake is gone"),
    }
}

/// Puts the network between a shell and its user.
fn wrap(shell: Shell, weather: &watch::Sender<Weather>, epoch: u64) -> Shell {
    let Shell { ready, noise, stdin, stdout, stderr, exit, held_up } = shell;
    let (near_in, far_in) = duplex(WINDOW);
    tokio::spawn(send(far_in, stdin, weather.subscribe(), epoch));
    let (mut watching, mut breaks) = (weather.subscribe(), weather.subscribe());
    let exit = async move {
        tokio::select! {
            why = lost(&mut breaks, epoch) => Exit::Lost(why),
            how = exit => match through(&mut watching, epoch).await {
                Ok(()) => how,
                Err(why) => Exit::Lost(why),
            },
        }
    };
    Shell {
        ready,
        noise,
        stdin: Box::new(near_in),
        stdout: receive(stdout, weather, epoch),
        stderr: receive(stderr, weather, epoch),
        exit: exit.boxed(),
        held_up,
    }
}

/// Carries stdin to the far side; when the link is lost the near side's writes fail.
async fn send(mut near: DuplexStream, mut far: Box<dyn AsyncWrite + Send + Unpin>, mut weather: watch::Receiver<Weather>, epoch: u64) {
    let mut buf = vec![0; 16 * 1024];
    loop {
        let n = match until_lost(&mut weather, epoch, near.read(&mut buf)).await {
            Some(Ok(n)) if n > 0 => n,
            // The end of input, carried on by dropping the far end; or the link is lost.
            _ => return,
        };
        if through(&mut weather, epoch).await.is_err() {
            return;
        }
        match until_lost(&mut weather, epoch, far.write_all(&buf[..n])).await {
            Some(Ok(())) => {}
            _ => return,
        }
    }
}

/// Carries output to the near side; when the link is lost it ends there.
fn receive(mut far: Box<dyn AsyncRead + Send + Unpin>, weather: &watch::Sender<Weather>, epoch: u64) -> Box<dyn AsyncRead + Send + Unpin> {
    let (near, mut inner) = duplex(WINDOW);
    let mut weather = weather.subscribe();
    tokio::spawn(async move {
        let mut buf = vec![0; 64 * 1024];
        loop {
            let n = match until_lost(&mut weather, epoch, far.read(&mut buf)).await {
                Some(Ok(n)) if n > 0 => n,
                _ => return,
            };
            if through(&mut weather, epoch).await.is_err() {
                return;
            }
            match until_lost(&mut weather, epoch, inner.write_all(&buf[..n])).await {
                Some(Ok(())) => {}
                _ => return,
            }
        }
    });
    Box::new(near)
}

/// Does something unless the link is lost first.
async fn until_lost<T>(weather: &mut watch::Receiver<Weather>, epoch: u64, what: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        _ = lost(weather, epoch) => None,
        done = what => Some(done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::local::tests::{nonce, start};

    const CAP: Duration = Duration::from_secs(20);

    async fn within<T>(what: impl Future<Output = T>) -> T {
        tokio::time::timeout(CAP, what).await.expect("in time")
    }

    async fn open(fake: &Fake) -> Shell {
        within(fake.start(Start { nonce: nonce(), ..start() })).await.expect("started")
    }

    async fn send_script(shell: &mut Shell, text: &str) {
        shell.stdin.write_all(format!("{} 0\n{text}", text.len()).as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn it_carries_a_command() {
        let fake = Fake::new("far");
        assert!(!fake.about().link.borrow().up);
        let mut shell = open(&fake).await;
        assert!(fake.about().link.borrow().up);
        send_script(&mut shell, "cat; echo err >&2; exit 3").await;
        shell.stdin.write_all(b"in").await.unwrap();
        shell.stdin.shutdown().await.unwrap();
        drop(shell.stdin);
        let (mut out, mut err) = (String::new(), String::new());
        within(shell.stdout.read_to_string(&mut out)).await.unwrap();
        within(shell.stderr.read_to_string(&mut err)).await.unwrap();
        assert!(matches!(within(shell.exit).await, Exit::Code(3)));
        assert_eq!((out.as_str(), err.as_str(), fake.started()), ("in", "err\n", 1));
    }

    #[tokio::test]
    async fn a_lost_link_ends_everything_and_the_next_start_connects() {
        let fake = Fake::new("far");
        let mut shell = open(&fake).await;
        send_script(&mut shell, "echo one; read -r x; echo never").await;
        let mut buf = [0; 4];
        within(shell.stdout.read_exact(&mut buf)).await.unwrap();
        fake.lose("the cable was cut");
        let mut rest = Vec::new();
        within(shell.stdout.read_to_end(&mut rest)).await.unwrap();
        let Exit::Lost(why) = within(shell.exit).await else { panic!("not lost") };
        assert_eq!((why.message.as_str(), rest.len()), ("the cable was cut", 0));
        let written = async {
            loop {
                if let Err(e) = shell.stdin.write_all(b"x\n").await {
                    return e;
                }
                tokio::task::yield_now().await;
            }
        };
        within(written).await;
        assert!(!fake.about().link.borrow().up);
        let reached = within(fake.check()).await.unwrap();
        assert!(reached.fresh && !within(fake.check()).await.unwrap().fresh);
        assert_eq!((fake.about().link.borrow().epoch, fake.attempts()), (2, 2));
    }

    #[tokio::test]
    async fn a_black_hole_holds_everything_until_it_is_gone() {
        let fake = Fake::new("far");
        let mut shell = open(&fake).await;
        fake.black_hole(true);
        send_script(&mut shell, "echo late; exit 0").await;
        let mut out = String::new();
        let held = tokio::time::timeout(Duration::from_millis(50), shell.stdout.read_to_string(&mut out)).await;
        assert!(held.is_err() && fake.check().now_or_never().is_none());
        fake.black_hole(false);
        within(shell.stdout.read_to_string(&mut out)).await.unwrap();
        assert_eq!(out, "late\n");
        fake.black_hole(true);
        let mut start = Start { nonce: nonce(), ..start() };
        start.timeout = Duration::from_millis(20);
        assert_eq!(fake.start(start).await.err().unwrap().kind, ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn it_refuses_what_is_wrong() {
        let fake = Fake::new("far");
        let first = Start { nonce: nonce(), ..start() };
        let _shell = within(fake.start(first.clone())).await.unwrap();
        for wrong in [first, Start { nonce: "short".into(), ..start() }] {
            assert_eq!(within(fake.start(wrong)).await.err().unwrap().kind, ErrorKind::Internal);
        }
        let family = Family { pid: 1, start_time: None, age: None, cookie: "QD_PROCESS=x".into() };
        assert_eq!(within(fake.family(family, Ask::Survivors)).await.unwrap_err().kind, ErrorKind::Internal);
        fake.lose("gone");
        fake.refuse(Some(BackendError::new(ErrorKind::Unreachable, "connection refused")));
        assert_eq!(within(fake.check()).await.unwrap_err().kind, ErrorKind::Unreachable);
        assert_eq!(fake.about().link.borrow().lost.as_ref().unwrap().message, "connection refused");
        fake.refuse(None);
        assert!(within(fake.check()).await.unwrap().fresh);
    }
}
