//! A TCP proxy that makes a link slow, frozen or broken, without root.
//!
//! Invariant: bytes keep their order, whatever is done to them.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Bytes that wait in one direction before the sender is held up.
const WAITING: usize = 1 << 20;

/// A proxy on a loopback port.
pub(crate) struct Proxy {
    address: SocketAddr,
    link: Arc<Link>,
    closing: Arc<AtomicBool>,
}

#[derive(Default)]
struct Link {
    state: Mutex<LinkState>,
    changed: Condvar,
}

#[derive(Default)]
struct LinkState {
    /// Each way.
    delay: Duration,
    frozen: bool,
    refuse: bool,
    /// Both ends of every connection.
    sockets: Vec<TcpStream>,
    accepted: usize,
}

impl Proxy {
    /// Starts a proxy to an address.
    pub(crate) fn to(target: impl ToSocketAddrs) -> Self {
        let target = target.to_socket_addrs().expect("the address can be resolved").next().expect("it has an address");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a loopback port is free");
        let address = listener.local_addr().expect("it is bound");
        let link = Arc::new(Link::default());
        let closing = Arc::new(AtomicBool::new(false));
        let (shared, stop) = (Arc::clone(&link), Arc::clone(&closing));
        std::thread::spawn(move || accept(&listener, target, &shared, &stop));
        Self { address, link, closing }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Holds everything for this long, each way.
    pub(crate) fn delay(&self, delay: Duration) {
        self.change(|state| state.delay = delay);
    }

    /// Lets nothing through any more; connections stay open.
    pub(crate) fn freeze(&self) {
        self.change(|state| state.frozen = true);
    }

    /// Lets through what has waited.
    pub(crate) fn thaw(&self) {
        self.change(|state| state.frozen = false);
    }

    /// Breaks every connection with RST.
    pub(crate) fn reset(&self) {
        self.change(|state| {
            for socket in state.sockets.drain(..) {
                let socket = socket2::Socket::from(socket);
                // Already closed by its peer is as good.
                let _ = socket.set_linger(Some(Duration::ZERO));
                let _ = socket.shutdown(Shutdown::Both);
            }
        });
    }

    /// Closes new connections at once, or no longer.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.change(|state| state.refuse = refuse);
    }

    /// Connections made so far.
    pub(crate) fn accepted(&self) -> usize {
        self.link.state.lock().expect("no pump panics").accepted
    }

    fn change(&self, change: impl FnOnce(&mut LinkState)) {
        change(&mut self.link.state.lock().expect("no pump panics"));
        self.link.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        self.thaw();
        self.reset();
        // Wakes the accepting thread so that it sees the flag; a refused connection means that it is gone.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, target: SocketAddr, link: &Arc<Link>, closing: &AtomicBool) {
    for near in listener.incoming() {
        if closing.load(Ordering::SeqCst) {
            return;
        }
        let Ok(near) = near else { continue };
        let mut state = link.state.lock().expect("no pump panics");
        state.accepted += 1;
        if state.refuse {
            continue;
        }
        drop(state);
        // The caller sees its connection close when the target does not answer.
        let Ok(far) = TcpStream::connect(target) else { continue };
        for socket in [&near, &far] {
            let _ = socket.set_nodelay(true);
        }
        let copies = (near.try_clone(), far.try_clone(), near.try_clone(), far.try_clone());
        let (Ok(near_in), Ok(far_in), Ok(near_kept), Ok(far_kept)) = copies else { continue };
        link.state.lock().expect("no pump panics").sockets.extend([near_kept, far_kept]);
        pump(near_in, far, Arc::clone(link));
        pump(far_in, near, Arc::clone(link));
    }
}

/// What waits in one direction: bytes with the time at which they came; an empty piece is the end.
#[derive(Default)]
struct Waiting {
    pieces: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    stopped: bool,
}

/// Carries one direction, with a thread that reads and one that writes.
fn pump(mut from: TcpStream, mut to: TcpStream, link: Arc<Link>) {
    let queue = Arc::new((Mutex::new(Waiting::default()), Condvar::new()));
    let filling = Arc::clone(&queue);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 65536];
        loop {
            let n = from.read(&mut buffer).unwrap_or(0);
            let mut waiting = filling.0.lock().expect("no pump panics");
            while waiting.bytes > WAITING && !waiting.stopped {
                waiting = filling.1.wait(waiting).expect("no pump panics");
            }
            waiting.pieces.push_back((Instant::now(), buffer[..n].to_vec()));
            waiting.bytes += n;
            filling.1.notify_all();
            if n == 0 || waiting.stopped {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        loop {
            let mut waiting = queue.0.lock().expect("no pump panics");
            while waiting.pieces.is_empty() {
                waiting = queue.1.wait(waiting).expect("no pump panics");
            }
            let (came, piece) = waiting.pieces.pop_front().expect("not empty");
            waiting.bytes -= piece.len();
            queue.1.notify_all();
            drop(waiting);
            link.hold(came);
            if piece.is_empty() || to.write_all(&piece).is_err() {
                let mut waiting = queue.0.lock().expect("no pump panics");
                waiting.stopped = true;
                queue.1.notify_all();
                // Closed by its peer is as good.
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
        }
    });
}

impl Link {
    /// Waits until what came at this time may go on.
    fn hold(&self, came: Instant) {
        let mut state = self.state.lock().expect("no pump panics");
        loop {
            let left = (came + state.delay).saturating_duration_since(Instant::now());
            state = match (state.frozen, left.is_zero()) {
                (false, true) => return,
                (true, _) => self.changed.wait(state).expect("no pump panics"),
                (false, false) => self.changed.wait_timeout(state, left).expect("no pump panics").0,
            };
        }
    }
}
