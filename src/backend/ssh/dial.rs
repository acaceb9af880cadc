//! Makes the TCP connection: every address of the name gets its chance, and a dead link is noticed by the kernel.
//!
//! Invariant: an attempt that is given up leaves no socket and no task.

use super::diary::Step;
use super::target::Target;
use crate::backend::{BackendError, ErrorKind};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

/// Limit for one address.
const PER_ADDRESS: Duration = Duration::from_secs(10);
/// How long one address is alone before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);
/// How long sent bytes may stay unacknowledged before the kernel gives the connection up.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(12);

/// Connects within the target's limit. Cancel safe: nothing is left behind.
pub(super) async fn dial(target: &Target) -> Result<TcpStream, BackendError> {
    let began = Instant::now();
    let addrs = resolve(target).await?;
    target.diary.note(Step::Resolved { addrs: addrs.clone(), took: began.elapsed() });
    let began = Instant::now();
    let mut failures: Vec<(SocketAddr, io::Error)> = Vec::new();
    let from = source(target).await?;
    let stream = race(addrs, from, &mut failures).await.ok_or_else(|| explain(target, &failures))?;
    tune(&stream).map_err(|e| BackendError::new(ErrorKind::Internal, format!("cannot set up the socket to {}: {e}", target.place())))?;
    if let Ok(addr) = stream.peer_addr() {
        target.diary.note(Step::Connected { addr, took: began.elapsed() });
    }
    Ok(stream)
}

async fn resolve(target: &Target) -> Result<Vec<SocketAddr>, BackendError> {
    let found = tokio::net::lookup_host((target.host.as_str(), target.port)).await.map_err(|e| {
        let text = e.to_string();
        let why = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
        BackendError::new(ErrorKind::Unreachable, format!("the name {} cannot be resolved: {why}", target.host))
            .with_fix(format!("check `host:` of backend {}, and the network or VPN", target.name))
    })?;
    let wanted = found.filter(|addr| target.only_ipv6.is_none_or(|six| addr.is_ipv6() == six));
    let (six, four): (Vec<SocketAddr>, Vec<SocketAddr>) = wanted.partition(SocketAddr::is_ipv6);
    let mut mixed = Vec::with_capacity(six.len() + four.len());
    let (mut six, mut four) = (six.into_iter(), four.into_iter());
    loop {
        match (six.next(), four.next()) {
            (None, None) => break,
            (a, b) => mixed.extend(a.into_iter().chain(b)),
        }
    }
    if mixed.is_empty() {
        return Err(BackendError::new(ErrorKind::Unreachable, format!("the name {} has no address{}", target.host, only(target))));
    }
    Ok(mixed)
}

fn only(target: &Target) -> &'static str {
    match target.only_ipv6 {
        None => "",
        Some(true) => " of IPv6, and the ssh_config wants no other",
        Some(false) => " of IPv4, and the ssh_config wants no other",
    }
}

/// The address here that connections come from, if one is wanted.
async fn source(target: &Target) -> Result<Option<IpAddr>, BackendError> {
    let Some(bind) = &target.bind else { return Ok(None) };
    let found = tokio::net::lookup_host((bind.as_str(), 0)).await.ok().and_then(|mut found| found.next());
    found.map(|addr| Some(addr.ip())).ok_or_else(|| {
        BackendError::new(ErrorKind::Config, format!("BindAddress {bind} for {} is no address", target.shown()))
            .with_fix("correct it in the ssh_config")
    })
}

async fn connect(addr: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if addr.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    if let Some(from) = from {
        socket.bind(SocketAddr::new(from, 0))?;
    }
    socket.connect(addr).await
}

/// Tries the addresses, each with a head start over the next; the first that connects wins and the others are dropped.
async fn race(addrs: Vec<SocketAddr>, from: Option<IpAddr>, failures: &mut Vec<(SocketAddr, io::Error)>) -> Option<TcpStream> {
    let mut waiting = addrs.into_iter();
    let mut running = FuturesUnordered::new();
    let attempt = |addr: SocketAddr| async move {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer");
        (addr, timeout(PER_ADDRESS, connect(addr, from)).await.unwrap_or_else(|_| Err(late())))
    };
    running.push(attempt(waiting.next()?));
    loop {
        tokio::select! {
            ended = running.next() => match ended {
                Some((_, Ok(stream))) => return Some(stream),
                Some((addr, Err(e))) => {
                    failures.push((addr, e));
                    match waiting.next() {
                        Some(addr) => running.push(attempt(addr)),
                        None if running.is_empty() => return None,
                        None => {}
                    }
                }
                None => return None,
            },
            () = sleep(HEAD_START), if waiting.len() > 0 => {
                if let Some(addr) = waiting.next() {
                    running.push(attempt(addr));
                }
            }
        }
    }
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    // Between the checks of an idle link the kernel asks too.
    let probes = socket2::TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
    socket.set_tcp_keepalive(&probes)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(())
}

/// Says why no address answered; the first failure that is not a missing route is the telling one.
fn explain(target: &Target, failures: &[(SocketAddr, io::Error)]) -> BackendError {
    let telling = failures.iter().find(|(_, e)| !no_route(e)).or(failures.first());
    let Some((addr, e)) = telling else {
        return BackendError::new(ErrorKind::Unreachable, format!("no address of {} answered", target.host));
    };
    let at = if target.host == addr.ip().to_string() {
        format!("{} port {}", addr.ip(), addr.port())
    } else {
        format!("{} ({}) port {}", target.host, addr.ip(), addr.port())
    };
    match e.kind() {
        io::ErrorKind::ConnectionRefused => BackendError::new(ErrorKind::Unreachable, format!("connection refused by {at}"))
            .with_fix("check that the machine runs sshd and that `port:` is right"),
        io::ErrorKind::TimedOut => BackendError::new(ErrorKind::TimedOut, format!("no answer from {at}"))
            .with_fix("check that the machine is up and that no firewall or missing VPN is in between"),
        _ if no_route(e) => {
            BackendError::new(ErrorKind::Unreachable, format!("no route to {at}: {e}")).with_fix("check the network or VPN")
        }
        _ => BackendError::new(ErrorKind::Unreachable, format!("cannot connect to {at}: {e}")),
    }
}

fn no_route(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::AddrNotAvailable)
}
