//! Turns what russh and the operating system say into what a person can use.
//!
//! Invariant: every text names the place, and whether another attempt may help is decided by what was seen, not guessed.

use super::handler::Ended;
use super::link::LinkState;
use super::target::Target;
use crate::backend::{BackendError, ErrorKind};
use russh::client::DisconnectReason;
use russh::{ChannelOpenFailure, Sig};
use std::io;

/// The name of a signal as `SIGKILL`.
pub(super) fn signal(signal: &Sig) -> String {
    let name = match signal {
        Sig::Custom(name) => name.as_str(),
        Sig::ABRT => "ABRT",
        Sig::ALRM => "ALRM",
        Sig::FPE => "FPE",
        Sig::HUP => "HUP",
        Sig::ILL => "ILL",
        Sig::INT => "INT",
        Sig::KILL => "KILL",
        Sig::PIPE => "PIPE",
        Sig::QUIT => "QUIT",
        Sig::SEGV => "SEGV",
        Sig::TERM => "TERM",
        Sig::USR1 => "USR1",
    };
    // OpenSSH says `SIG@openssh.com` of every signal that is not on the standard's list.
    match name.split('@').next().unwrap_or(name) {
        "SIG" | "" => "unknown".to_owned(),
        name => format!("SIG{name}"),
    }
}

/// Why the connection never came up.
pub(super) async fn handshake(target: &Target, link: &LinkState, ended: Ended) -> BackendError {
    let at = target.place();
    let e = match ended {
        Ended::Refused(e) => return e,
        Ended::Russh(e) => e,
    };
    if let Some(why) = link.carrier_broke().await {
        return BackendError::new(ErrorKind::Unreachable, format!("the way to {at} broke: {why}"));
    }
    let opening = link.heard.opening();
    let spoke_ssh = opening.windows(4).any(|w| w == b"SSH-");
    match e {
        russh::Error::NoCommonAlgo { kind, theirs, .. } => BackendError::new(
            ErrorKind::Config,
            format!("{at} offers no {kind:?} algorithm that is safe enough; it offers {}", theirs.join(", ")),
        )
        .with_fix("update the ssh server there"),
        russh::Error::Version => no_ssh(target, &opening),
        russh::Error::Disconnect | russh::Error::HUP | russh::Error::IO(_) if !spoke_ssh && opening.is_empty() => {
            let what = match &e {
                russh::Error::IO(e) if e.kind() == io::ErrorKind::ConnectionReset => "reset the connection",
                _ => "closed the connection",
            };
            BackendError::new(ErrorKind::Unreachable, format!("{at} {what} before it said anything"))
                .with_fix("too many connections at once or a ban after failed logins do that; wait a little before you try again")
        }
        russh::Error::Disconnect | russh::Error::HUP | russh::Error::IO(_) if !spoke_ssh => no_ssh(target, &opening),
        russh::Error::IO(e) => BackendError::new(ErrorKind::Unreachable, format!("the handshake with {at} failed: {}", io_words(&e))),
        russh::Error::Disconnect | russh::Error::HUP => {
            BackendError::new(ErrorKind::Unreachable, format!("{at} closed the connection during the handshake"))
        }
        other => BackendError::new(ErrorKind::Unreachable, format!("the handshake with {at} failed: {other}")),
    }
}

/// The server's name for itself, `SSH-2.0-OpenSSH_9.2p1`, from its first bytes; empty when it did not say one.
pub(super) fn own_name(opening: &[u8]) -> String {
    let text = String::from_utf8_lossy(opening);
    let line = text.lines().find(|line| line.starts_with("SSH-")).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(120).collect::<String>().trim().to_owned()
}

/// Something answered, but not as an ssh server does.
fn no_ssh(target: &Target, opening: &[u8]) -> BackendError {
    let text = String::from_utf8_lossy(opening);
    let first = text.lines().next().unwrap_or_default().trim();
    let shown: String = first.chars().filter(|c| !c.is_control()).take(80).collect();
    let at = target.place();
    if first.contains("MaxStartups") || first.starts_with("Not allowed at this time") {
        return BackendError::new(ErrorKind::Unreachable, format!("{at} takes no more connections now: {shown}"))
            .with_fix("wait a little before you try again");
    }
    BackendError::new(ErrorKind::Config, format!("what answers at {at} is no ssh server: it said `{shown}`"))
        .with_fix(format!("check `host:` and `port:` of backend {}", target.name))
}

/// Why a machine does not pass a connection on.
pub(super) fn not_passed_on(hop: &Target, link: &LinkState, host: &str, port: u16, reason: ChannelOpenFailure) -> BackendError {
    let (shown, said) = (hop.shown(), link.refusal());
    let said = if said.is_empty() { format!("{reason:?}") } else { said };
    let to = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    match reason {
        ChannelOpenFailure::AdministrativelyProhibited => {
            BackendError::new(ErrorKind::Config, format!("the jump host {shown} does not pass connections on to {to}: {said}"))
                .with_fix("its sshd must allow it (AllowTcpForwarding, PermitOpen), for this account and key too")
        }
        _ => BackendError::new(ErrorKind::Unreachable, format!("the jump host {shown} cannot connect to {to}: {said}"))
            .with_fix("check that the machine is up and that the jump host reaches it under this name"),
    }
}

/// Why a connection that was up ended.
pub(super) async fn disconnected(target: &Target, link: &LinkState, reason: &DisconnectReason<Ended>) -> BackendError {
    let at = target.place();
    let lost = |text: String| BackendError::new(ErrorKind::Lost, text);
    if let (DisconnectReason::Error(Ended::Russh(_)), Some(why)) = (reason, link.carrier_broke().await) {
        return lost(format!("the way to {at} broke: {why}"));
    }
    match reason {
        DisconnectReason::ReceivedDisconnect(info) if info.message.is_empty() => lost(format!("{at} ended the connection")),
        DisconnectReason::ReceivedDisconnect(info) => lost(format!("{at} ended the connection: {}", info.message.trim())),
        DisconnectReason::Error(Ended::Refused(e)) => e.clone(),
        DisconnectReason::Error(Ended::Russh(e)) => match e {
            russh::Error::KeepaliveTimeout => {
                let since = link.heard.last().map_or(0, |at| at.elapsed().as_secs());
                lost(format!("no answer from {at} for {since} s (ServerAliveInterval)"))
            }
            russh::Error::IO(e) if e.kind() == io::ErrorKind::TimedOut => {
                let since = link.heard.last().map_or(0, |at| at.elapsed().as_secs());
                lost(format!("no answer from {at} for {since} s"))
            }
            russh::Error::IO(e) => lost(format!("the connection to {at} broke: {}", io_words(e))),
            russh::Error::Disconnect | russh::Error::HUP => lost(format!("{at} closed the connection")),
            other => lost(format!("the connection to {at} broke: {other}")),
        },
    }
}

fn io_words(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::UnexpectedEof => "the other side closed it".to_owned(),
        io::ErrorKind::ConnectionReset => "the other side reset it".to_owned(),
        io::ErrorKind::BrokenPipe => "the other side is gone".to_owned(),
        io::ErrorKind::TimedOut => "no answer".to_owned(),
        _ => e.to_string(),
    }
}
