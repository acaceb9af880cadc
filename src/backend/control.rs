//! Talks to the control shell of a far side: looks after the processes of commands there.
//!
//! Invariant: one task owns the shell; a request that was accepted is answered or fails as lost, and a caller that goes away
//! takes nothing back: an ending goes on.

use super::{Ask, BackendError, ErrorKind, Exit, Family, Members, Shell};
use crate::shell::control::{Answer, Answers, Named, Request, begin, line};
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};

/// Seconds that the control shell waits after the daemon has gone before it ends foreground commands.
pub const LINGER: u32 = 30;
/// Requests that may wait to be written: more than commands start at once.
const QUEUE: usize = 256;

/// A handle on a control shell. Cheap to clone; when the last one is dropped, the control shell's stdin ends.
#[derive(Clone, Debug)]
pub struct Control {
    queue: mpsc::Sender<Job>,
    lost: watch::Receiver<Option<BackendError>>,
}

#[derive(Debug)]
struct Job {
    request: Owned,
    reply: Option<oneshot::Sender<Result<Answer, BackendError>>>,
}

/// A request that owns its words.
#[derive(Clone, Debug)]
enum Owned {
    Ping,
    Keep,
    Note(Family),
    Forget(u32),
    Ask(Family, Ask),
}

impl Control {
    /// Makes a control shell of a shell (bash or sh) that was started and has not got its script. `nonce` is the one of its
    /// start. The shell's death shows in every later request.
    pub fn new(shell: Shell, nonce: &str, linger: u32) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let (tell, lost) = watch::channel(None);
        let Shell { ready, stdin, stdout, stderr, exit, .. } = shell;
        let begin = begin(nonce, linger, ready.kind == "bash");
        let actor = Actor {
            stdin,
            stdout,
            stderr,
            exit,
            answers: Answers::new(nonce),
            waiting: BTreeMap::new(),
            endless: BTreeSet::new(),
            next: 1,
        };
        tokio::spawn(actor.run(begin, jobs, tell));
        Self { queue, lost }
    }

    /// Makes one round trip. Cancel safe.
    pub async fn ping(&self) -> Result<Duration, BackendError> {
        let began = Instant::now();
        match self.ask(Owned::Ping).await? {
            Answer::Pong => Ok(began.elapsed()),
            other => Err(strange(&other)),
        }
    }

    /// Looks for a command's processes, or ends them, or signals them. Cancel safe: an ending that was asked for goes on.
    pub async fn family(&self, family: Family, ask: Ask) -> Result<Members, BackendError> {
        if ask == Ask::Readers {
            return Err(BackendError::new(ErrorKind::Unsupported, "what its processes wait for is known on this machine alone"));
        }
        members(self.ask(Owned::Ask(family, ask)).await?)
    }

    /// Asks for the end of everything of a command ([`Ask::Gone`]). What it gives is waited for without this handle, so that a
    /// control shell is let go of although somebody waits there: the wait then fails as lost. Waits itself only while the queue is
    /// full.
    pub async fn gone_of(
        &self,
        family: Family,
    ) -> Result<impl Future<Output = Result<Members, BackendError>> + Send + use<>, BackendError> {
        let (reply, answer) = oneshot::channel();
        let request = Owned::Ask(family, Ask::Gone);
        self.queue.send(Job { request, reply: Some(reply) }).await.map_err(|_| self.why())?;
        let lost = self.lost.clone();
        let why = move || lost.borrow().clone().unwrap_or_else(vanished);
        Ok(async move { members(answer.await.unwrap_or_else(|_| Err(why()))?) })
    }

    /// Tells of a foreground command, so that it is ended when the daemon is gone for good. Waits only while the queue is full.
    pub async fn note(&self, family: Family) -> Result<(), BackendError> {
        self.tell(Owned::Note(family)).await
    }

    /// Tells that a command has ended. Waits only while the queue is full.
    pub async fn forget(&self, pid: u32) -> Result<(), BackendError> {
        self.tell(Owned::Forget(pid)).await
    }

    /// Tells that noted commands are to stay when the daemon is gone (`on_lost: keep`).
    pub async fn keep(&self) -> Result<(), BackendError> {
        self.tell(Owned::Keep).await
    }

    /// Why it is gone, once it is.
    pub fn lost(&self) -> Option<BackendError> {
        self.lost.borrow().clone()
    }

    /// Waits until it is gone. Cancel safe.
    pub async fn gone(&self) -> BackendError {
        let mut lost = self.lost.clone();
        match lost.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_else(vanished),
            Err(_) => vanished(),
        }
    }

    async fn ask(&self, request: Owned) -> Result<Answer, BackendError> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Job { request, reply: Some(reply) }).await.map_err(|_| self.why())?;
        answer.await.unwrap_or_else(|_| Err(self.why()))
    }

    async fn tell(&self, request: Owned) -> Result<(), BackendError> {
        self.queue.send(Job { request, reply: None }).await.map_err(|_| self.why())
    }

    fn why(&self) -> BackendError {
        self.lost().unwrap_or_else(vanished)
    }
}

fn members(answer: Answer) -> Result<Members, BackendError> {
    match answer {
        Answer::Members { alive, ending, tails } => Ok(Members { alive, ending, tails, ..Members::default() }),
        Answer::Ended { left } => Ok(Members { verified: left.is_empty(), alive: left, ..Members::default() }),
        other => Err(strange(&other)),
    }
}

fn vanished() -> BackendError {
    BackendError::new(ErrorKind::Lost, "the control shell is gone")
}

fn strange(answer: &Answer) -> BackendError {
    BackendError::new(ErrorKind::Internal, format!("the control shell gave an answer that does not fit: {answer:?}"))
}

type Reply = oneshot::Sender<Result<Answer, BackendError>>;

/// The task that owns the shell.
struct Actor {
    stdin: Box<dyn AsyncWrite + Send + Unpin>,
    stdout: Box<dyn AsyncRead + Send + Unpin>,
    stderr: Box<dyn AsyncRead + Send + Unpin>,
    exit: BoxFuture<'static, Exit>,
    answers: Answers,
    waiting: BTreeMap<u64, Reply>,
    /// Of these, those that wait for an end.
    endless: BTreeSet<u64>,
    next: u64,
}

impl Actor {
    /// Serves until the shell is gone or nobody holds a handle any more.
    async fn run(mut self, begin: String, mut jobs: mpsc::Receiver<Job>, tell: watch::Sender<Option<BackendError>>) {
        let why = match self.stdin.write_all(begin.as_bytes()).await {
            Ok(()) => self.serve(&mut jobs).await,
            Err(_) => Some(self.how_it_ended().await),
        };
        let why = why.unwrap_or_else(|| BackendError::new(ErrorKind::Lost, "the control shell was closed"));
        tell.send_replace(Some(why.clone()));
        jobs.close();
        while let Some(job) = jobs.recv().await {
            refuse(job.reply, &why);
        }
        for reply in std::mem::take(&mut self.waiting).into_values() {
            refuse(Some(reply), &why);
        }
    }

    /// Gives why it ended; none when it was let go.
    async fn serve(&mut self, jobs: &mut mpsc::Receiver<Job>) -> Option<BackendError> {
        let (mut out, mut err) = (vec![0_u8; 8192], [0_u8; 1024]);
        let mut err_open = true;
        loop {
            tokio::select! {
                job = jobs.recv() => {
                    let Some(job) = job else {
                        return self.let_go(&mut out).await;
                    };
                    if self.send(job).await.is_err() {
                        return Some(self.how_it_ended().await);
                    }
                }
                got = self.stdout.read(&mut out) => match got {
                    Ok(n) if n > 0 => self.answered(&out[..n]),
                    _ => return Some(self.how_it_ended().await),
                },
                // It says nothing there; what comes is drained so that it never waits.
                got = self.stderr.read(&mut err), if err_open => err_open = matches!(got, Ok(n) if n > 0),
            }
        }
    }

    /// Nobody holds a handle any more: what was asked is still answered, then stdin ends.
    async fn let_go(&mut self, out: &mut [u8]) -> Option<BackendError> {
        // But what may never be answered.
        let endless = std::mem::take(&mut self.endless);
        self.waiting.retain(|id, _| !endless.contains(id));
        while !self.waiting.is_empty() {
            match self.stdout.read(out).await {
                Ok(n) if n > 0 => self.answered(&out[..n]),
                _ => return Some(self.how_it_ended().await),
            }
        }
        // Whatever comes of it, the shell sees the end of its stdin when this task lets go of it.
        let _ = self.stdin.shutdown().await;
        None
    }

    async fn send(&mut self, job: Job) -> std::io::Result<()> {
        let id = self.next;
        self.next += 1;
        let Some(line) = job.request.line(id) else {
            refuse(job.reply, &BackendError::new(ErrorKind::Internal, "a cookie is not one word"));
            return Ok(());
        };
        if let Some(reply) = job.reply {
            if matches!(job.request, Owned::Ask(_, Ask::Gone)) {
                self.endless.insert(id);
            }
            self.waiting.insert(id, reply);
        }
        self.stdin.write_all(line.as_bytes()).await?;
        self.stdin.flush().await
    }

    fn answered(&mut self, bytes: &[u8]) {
        for (id, answer) in self.answers.feed(bytes) {
            self.endless.remove(&id);
            if let Some(reply) = self.waiting.remove(&id) {
                // The caller may be gone.
                let _ = reply.send(Ok(answer));
            }
        }
    }

    /// Its streams have ended: so has it, or it will in a moment.
    async fn how_it_ended(&mut self) -> BackendError {
        const MOMENT: Duration = Duration::from_secs(5);
        match tokio::time::timeout(MOMENT, &mut self.exit).await {
            Ok(Exit::Lost(error)) => error,
            Ok(Exit::Code(code)) => BackendError::new(ErrorKind::Lost, format!("the control shell ended with code {code}")),
            Ok(Exit::Signal(name)) => BackendError::new(ErrorKind::Lost, format!("the control shell was ended by {name}")),
            Err(_) => BackendError::new(ErrorKind::Lost, "the control shell closed its output"),
        }
    }
}

impl Owned {
    fn line(&self, id: u64) -> Option<String> {
        let request = match self {
            Self::Ping => Request::Ping,
            Self::Keep => Request::Keep,
            Self::Note(family) => Request::Note(named(family)),
            Self::Forget(pid) => Request::Forget(*pid),
            Self::Ask(family, Ask::Survivors) => Request::Family(named(family)),
            Self::Ask(family, Ask::Gone) => Request::Gone(named(family)),
            Self::Ask(family, Ask::End { grace }) => {
                Request::End { named: named(family), grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX) }
            }
            Self::Ask(_, Ask::Readers) => return None,
            Self::Ask(family, Ask::Signal(number)) => Request::Signal { named: named(family), number: *number },
        };
        line(id, &request)
    }
}

fn named(family: &Family) -> Named<'_> {
    Named { pid: family.pid, start: family.start_time, age: family.age, cookie: &family.cookie }
}

fn refuse(reply: Option<Reply>, why: &BackendError) {
    if let Some(reply) = reply {
        // The caller may be gone.
        let _ = reply.send(Err(why.clone()));
    }
}

#[cfg(test)]
mod tests;
