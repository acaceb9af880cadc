//! The daemon and the client against each other over an in-memory stream, with a scripted engine.
//!
//! Invariant: no test waits for time to pass; "nothing happens" is shown by a round trip that overtakes it.

mod calls;
mod execs;
mod greeting;
mod life;
mod slow;

use super::double::Double;
use super::{Hub, Peer, serve};
use crate::client::{Client, ClientError, Connect, Item, Items};
use crate::model::{DaemonInfo, Exec, ExecResult, Stream};
use crate::protocol::calls::{ExecCall, OverviewCall};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;

/// A cap for what must happen: long enough for a loaded machine.
const CAP: Duration = Duration::from_secs(30);
const UID: u32 = 4321;

/// A daemon without a socket.
struct Bench {
    double: Double,
    hub: Arc<Hub<Double>>,
}

impl Bench {
    fn new() -> Self {
        let double = Double::new();
        let info = DaemonInfo { pid: 77, version: "0.1.0".into(), config: Some("/etc/qd.yaml".into()), ..DaemonInfo::default() };
        let hub = Hub::new(double.clone(), info, UID, vec!["PATH".into(), "LC_*".into()]);
        Self { double, hub }
    }

    /// Gives the client's end of a connection that is being served.
    fn stream(&self) -> (DuplexStream, JoinHandle<()>) {
        let (near, far) = tokio::io::duplex(64 << 10);
        let served = tokio::spawn(serve(far, self.hub.clone(), Peer { uid: UID, pid: Some(55) }));
        (near, served)
    }

    async fn agent(&self) -> Client {
        let how = Connect { kind: "cli".into(), agent: Some("builder".into()), ..Connect::default() };
        Client::over(self.stream().0, &how).await.unwrap()
    }

    async fn operator(&self) -> Client {
        Client::over(self.stream().0, &Connect { kind: "tui".into(), ..Connect::default() }).await.unwrap()
    }
}

fn command(text: &str) -> ExecCall {
    ExecCall { exec: Exec { command: text.into(), ..Exec::default() }, follow: true, files: false }
}

fn with_stdin(text: &str) -> ExecCall {
    ExecCall { exec: Exec { command: text.into(), stdin: true, ..Exec::default() }, follow: true, files: false }
}

async fn capped<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(CAP, what).await.expect("within the cap")
}

/// Waits until something about the double holds, by asking the daemon in between.
async fn until(client: &Client, holds: impl Fn() -> bool) {
    capped(async {
        while !holds() {
            client.call(OverviewCall {}).await.unwrap();
        }
    })
    .await;
}

async fn next(items: &mut Items) -> Item {
    capped(items.next()).await.expect("an item").expect("no error")
}

/// Reads an exec to its end: stdout, stderr, result.
async fn finish(items: &mut Items) -> Result<(Vec<u8>, Vec<u8>, ExecResult), ClientError> {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    loop {
        match capped(items.next()).await.expect("a result at the end")? {
            Item::Started(_) => {}
            Item::Data { offset, stream, bytes } => {
                assert_eq!(offset as usize, out.len() + err.len(), "offsets go on");
                match stream {
                    Stream::Out => out.extend(bytes),
                    Stream::Err => err.extend(bytes),
                }
            }
            Item::Result(result) => {
                assert!(items.next().await.is_none(), "the result is the last item");
                return Ok((out, err, *result));
            }
            Item::Followed(_) | Item::File(_) | Item::Kept(_) => panic!("not asked for"),
        }
    }
}
