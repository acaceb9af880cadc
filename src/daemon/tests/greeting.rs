//! The hello: who is served, and what the others are told.

use super::*;
use crate::model::WhoKind;
use crate::protocol::frame::{FRAME_CAP, Frame, FrameReader, Kind, head};
use crate::protocol::hello::{Hello, Reason, Refused};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn hello() -> Hello {
    Hello { protocol_min: 1, protocol_max: 1, version: "0.1.0".into(), kind: "cli".into(), ..Hello::default() }
}

fn frame(kind: Kind, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&head(kind, stream, payload.len())[..], payload].concat()
}

/// Sends raw bytes and gives all that comes back.
async fn say(bench: &Bench, peer: Peer, bytes: &[u8]) -> Vec<Frame> {
    let (mut near, far) = tokio::io::duplex(64 << 10);
    let served = tokio::spawn(serve(far, bench.hub.clone(), peer));
    near.write_all(bytes).await.unwrap();
    near.shutdown().await.unwrap();
    let mut reader = FrameReader::new(near, FRAME_CAP);
    let mut frames = Vec::new();
    while let Some(frame) = capped(reader.next()).await.unwrap() {
        frames.push(frame);
    }
    capped(served).await.unwrap();
    frames
}

async fn refusal(bench: &Bench, peer: Peer, hello: &Hello) -> Refused {
    let frames = say(bench, peer, &frame(Kind::Hello, 0, &serde_json::to_vec(hello).unwrap())).await;
    let [Frame::Message { kind: Kind::Refused, stream: 0, payload }] = &frames[..] else { panic!("{frames:?}") };
    serde_json::from_slice(payload).unwrap()
}

const OURS: Peer = Peer { uid: UID, pid: None };

#[tokio::test]
async fn another_account_is_refused() {
    let refused = refusal(&Bench::new(), Peer { uid: UID + 1, pid: None }, &hello()).await;
    assert_eq!(refused.reason, Reason::Peer);
    assert!(refused.message.contains(&UID.to_string()), "{}", refused.message);
}

#[tokio::test]
async fn another_protocol_is_refused_with_the_command_that_repairs_it() {
    let strange = Hello { protocol_min: 7, protocol_max: 9, version: "9.0.0".into(), ..hello() };
    let refused = refusal(&Bench::new(), OURS, &strange).await;
    assert_eq!(refused.reason, Reason::Protocol);
    for part in ["qd stop", "7 to 9", "0.1.0", "9.0.0", "77"] {
        assert!(refused.message.contains(part), "{part}: {}", refused.message);
    }
}

#[tokio::test]
async fn another_config_is_refused_naming_both() {
    let bench = Bench::new();
    let how = |config: &str| Connect { config: Some(config.into()), kind: "cli".into(), ..Connect::default() };
    let Err(ClientError::OtherConfig(message)) = Client::over(bench.stream().0, &how("/home/me/other.yaml")).await else { panic!() };
    assert!(message.contains("/home/me/other.yaml") && message.contains("/etc/qd.yaml"), "{message}");
    Client::over(bench.stream().0, &how("/etc/qd.yaml")).await.unwrap();
}

#[tokio::test]
async fn a_daemon_that_is_ending_serves_nobody_new() {
    let bench = Bench::new();
    bench.hub.stopping.cancel();
    assert_eq!(refusal(&bench, OURS, &hello()).await.reason, Reason::Stopping);
}

#[tokio::test]
async fn what_is_no_hello_gets_no_answer() {
    let bench = Bench::new();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &frame(Kind::Request, 1, br#"{"method":"overview"}"#), b"", b"\0\0"] {
        assert_eq!(say(&bench, OURS, bytes).await, [], "{bytes:?}");
    }
    let garbled = say(&bench, OURS, &frame(Kind::Hello, 0, b"{")).await;
    assert!(matches!(&garbled[..], [Frame::Message { kind: Kind::Refused, .. }]));
}

#[tokio::test]
async fn a_hello_of_a_later_version_is_understood() {
    let text = br#"{"protocol_min":1,"protocol_max":9,"kind":"hologram","mood":"good"}"#;
    let frames = say(&Bench::new(), OURS, &frame(Kind::Hello, 0, text)).await;
    assert!(matches!(&frames[..], [Frame::Message { kind: Kind::Welcome, .. }]), "{frames:?}");
}

#[tokio::test]
async fn an_operators_variables_are_taken_and_an_agents_are_not() {
    let bench = Bench::new();
    let agent = bench.agent().await;
    agent.call(OverviewCall {}).await.unwrap();
    assert!(bench.double.heard().env.is_empty());
    let operator = bench.operator().await;
    operator.call(OverviewCall {}).await.unwrap();
    let env = bench.double.heard().env;
    assert!(env.iter().any(|(name, _)| name == "PATH"), "{env:?}");
    assert!(env.iter().all(|(name, _)| name == "PATH" || name.starts_with("LC_")), "{env:?}");
    let mut items = operator.exec(command("exit 0")).await.unwrap();
    finish(&mut items).await.unwrap();
    assert_eq!(bench.double.heard().execs[0].0.kind, WhoKind::Operator);
}

#[tokio::test]
async fn a_fault_of_the_client_ends_its_connection_with_a_word() {
    let bench = Bench::new();
    let greeting = frame(Kind::Hello, 0, &serde_json::to_vec(&hello()).unwrap());
    let too_long = [&greeting[..], &(3u32 << 20).to_be_bytes()].concat();
    let frames = say(&bench, OURS, &too_long).await;
    assert!(
        matches!(frames.last(), Some(Frame::Message { kind: Kind::Bye, payload, .. }) if payload.starts_with(b"{\"message\"")),
        "{frames:?}"
    );
}

#[tokio::test]
async fn streams_are_numbered_upwards() {
    let bench = Bench::new();
    let (mut near, _served) = bench.stream();
    let overview = |id| frame(Kind::Request, id, br#"{"method":"overview"}"#);
    let all = [frame(Kind::Hello, 0, &serde_json::to_vec(&hello()).unwrap()), overview(2), overview(2), overview(1), overview(3)].concat();
    near.write_all(&all).await.unwrap();
    let mut reader = FrameReader::new(&mut near, FRAME_CAP);
    let mut ends = Vec::new();
    while ends.len() < 5 {
        let Some(Frame::Message { kind, stream, .. }) = capped(reader.next()).await.unwrap() else { panic!() };
        ends.push((stream, kind));
    }
    ends.sort_by_key(|(stream, kind)| (*stream, *kind as u8));
    let expected = [(0, Kind::Welcome), (1, Kind::Error), (2, Kind::Reply), (2, Kind::Error), (3, Kind::Reply)];
    assert_eq!(ends, expected);
    drop(reader);
    near.shutdown().await.unwrap();
    near.read_to_end(&mut Vec::new()).await.unwrap();
}
