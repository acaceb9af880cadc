//! Where a command's stdin comes from: its caller, and whoever else writes to it while it is open.
//!
//! Invariant: what waits for a command that does not read is bounded, and counted until the command has it or never will.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot};

/// Batches of others that may wait: a command that reads has none, and one that does not read needs no more to wake up to.
const BATCHES: usize = 16;

/// A command's stdin, as its shell is fed.
pub struct Input {
    /// The caller's bytes; the channel's end is the end of input.
    pub(super) caller: mpsc::Receiver<Vec<u8>>,
    /// Batches of others; the channel's end says nothing.
    pub(super) others: Option<mpsc::Receiver<Batch>>,
}

impl From<mpsc::Receiver<Vec<u8>>> for Input {
    fn from(caller: mpsc::Receiver<Vec<u8>>) -> Self {
        Self { caller, others: None }
    }
}

impl Input {
    /// Opens it to others than its caller, too.
    pub fn shared(caller: mpsc::Receiver<Vec<u8>>) -> (Self, Typing) {
        let (sender, others) = mpsc::channel(BATCHES);
        (Self { caller, others: Some(others) }, Typing { sender, waiting: Arc::default(), ending: Arc::default() })
    }
}

/// One batch of input, written whole and in order.
pub struct Batch {
    /// They.
    pub bytes: Vec<u8>,
    /// Whether the input ends after it.
    pub end: bool,
    /// What is owed for it.
    pub receipt: Receipt,
}

/// Batches that wait for a command whose stdin is not fed from here.
pub struct Batches(mpsc::Receiver<Batch>);

impl Batches {
    /// Waits for the next one; none when nobody can write any more. Cancel safe.
    pub async fn next(&mut self) -> Option<Batch> {
        self.0.recv().await
    }
}

/// What is owed to whoever sent a batch. Dropped before it is written it says, without a word, that the command stopped reading.
pub struct Receipt {
    tell: oneshot::Sender<Result<(), String>>,
    counted: Counted,
    /// Of one that ends the stdin: says so to those who come later.
    ends: Option<Arc<AtomicBool>>,
}

impl Receipt {
    /// Says that the batch is written.
    pub fn written(self) {
        drop(self.counted);
        // Whoever waited for it may have gone.
        let _ = self.tell.send(Ok(()));
    }

    /// Says why it is not known to be written.
    pub fn failed(self, why: String) {
        if let Some(ends) = &self.ends {
            ends.store(false, Ordering::Release);
        }
        drop(self.counted);
        let _ = self.tell.send(Err(why));
    }
}

/// The way of others to a command's stdin. Cheap to clone.
#[derive(Clone)]
pub struct Typing {
    sender: mpsc::Sender<Batch>,
    waiting: Arc<AtomicU64>,
    /// Whether its end is queued: nothing can come behind it.
    ending: Arc<AtomicBool>,
}

/// Why a batch was not taken; nothing of it will be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untaken {
    /// As much as may wait is waiting.
    Full,
    /// The stdin has ended.
    Over,
}

impl Typing {
    /// Opens a stdin that is not fed from here.
    pub fn alone() -> (Self, Batches) {
        let (sender, batches) = mpsc::channel(BATCHES);
        (Self { sender, waiting: Arc::default(), ending: Arc::default() }, Batches(batches))
    }

    /// Queues a batch; the receiver hears when it is written or why that is not known, or ends without a word when the command does not
    /// read any more. Never waits. One caller at a time: behind an end nothing is taken.
    pub fn queue(&self, bytes: Vec<u8>, end: bool) -> Result<oneshot::Receiver<Result<(), String>>, Untaken> {
        if self.ending.load(Ordering::Acquire) {
            return Err(Untaken::Over);
        }
        let (tell, told) = oneshot::channel();
        let counted = Counted::new(&self.waiting, bytes.len() as u64);
        let ends = end.then(|| self.ending.clone());
        let queued = self.sender.try_send(Batch { bytes, end, receipt: Receipt { tell, counted, ends } });
        if end && queued.is_ok() {
            self.ending.store(true, Ordering::Release);
        }
        queued.map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Untaken::Full,
            mpsc::error::TrySendError::Closed(_) => Untaken::Over,
        })?;
        Ok(told)
    }

    /// Bytes that were queued and are not written yet.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Acquire)
    }

    /// Whether the stdin has ended for everybody.
    pub fn is_over(&self) -> bool {
        self.sender.is_closed() || self.ending.load(Ordering::Acquire)
    }
}

/// Counts bytes as waiting while it lives.
struct Counted(Arc<AtomicU64>, u64);

impl Counted {
    fn new(of: &Arc<AtomicU64>, bytes: u64) -> Self {
        of.fetch_add(bytes, Ordering::AcqRel);
        Self(of.clone(), bytes)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was taken, and dropped when the end was reached.
    #[tokio::test]
    async fn nothing_is_taken_behind_an_end_unless_that_failed() {
        let (typing, mut batches) = Typing::alone();
        let _told = typing.queue(Vec::new(), true).unwrap();
        assert!(typing.is_over());
        assert_eq!(typing.queue(b"more".to_vec(), false).err(), Some(Untaken::Over));
        batches.next().await.expect("the end").receipt.failed("the link was lost".into());
        assert!(!typing.is_over());
        let told = typing.queue(b"more".to_vec(), true).unwrap();
        batches.next().await.expect("again").receipt.written();
        assert_eq!(told.await, Ok(Ok(())));
        assert!(typing.is_over());
    }

    #[test]
    fn what_waits_is_bounded_and_counted() {
        let (_caller, receiver) = mpsc::channel(1);
        let (input, typing) = Input::shared(receiver);
        let told: Vec<_> = (0..BATCHES).map(|_| typing.queue(b"abc".to_vec(), false).unwrap()).collect();
        assert_eq!(typing.queue(b"more".to_vec(), false).err(), Some(Untaken::Full));
        assert_eq!(typing.waiting(), 3 * BATCHES as u64);
        assert!(!typing.is_over());
        drop(input);
        assert!(typing.is_over() && typing.waiting() == 0);
        assert_eq!(typing.queue(Vec::new(), true).err(), Some(Untaken::Over));
        assert!(told.into_iter().all(|mut told| told.try_recv().is_err()));
    }
}
