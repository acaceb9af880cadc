//! Clients that do not read: nobody else is delayed, and nothing grows.

use super::*;
use crate::daemon::double::flood;
use crate::model::Event;
use crate::protocol::calls::Follow;
use crate::protocol::credit::WINDOW;
use crate::protocol::outbox::DATA_BUDGET;

const FLOOD: u64 = 50_000_000;

#[tokio::test]
async fn output_that_nobody_reads_waits_in_the_log_and_other_calls_go_on() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let mut items = client.exec(command(&format!("flood {FLOOD}"))).await.unwrap();
    let mut other = client.exec(command("say quick")).await.unwrap();
    assert_eq!(finish(&mut other).await.unwrap().0, b"quick");
    for _ in 0..200 {
        capped(client.call(OverviewCall {})).await.unwrap();
    }
    let read = bench.double.heard().read_to;
    assert!(read <= u64::from(WINDOW) + 2 * DATA_BUDGET as u64, "{read} bytes were read for a client that takes none");
    assert!(bench.hub.service.running_now().is_empty(), "the process itself was not delayed");
    let (out, _, result) = finish(&mut items).await.unwrap();
    assert_eq!(result.total_bytes, FLOOD);
    assert!(out == flood(0, FLOOD as usize), "every byte in its place");
}

#[tokio::test]
async fn a_client_that_has_the_file_open_is_told_where_output_is() {
    let client = Bench::new().agent().await;
    let mut items = client.exec(ExecCall { files: true, ..command(&format!("flood {FLOOD}")) }).await.unwrap();
    let (mut at, mut named) = (0, 0);
    let mut offered = false;
    loop {
        match capped(items.next()).await.expect("it has not ended").unwrap() {
            Item::Started(_) => {}
            Item::Data { offset, bytes, .. } => {
                assert!(offset == at && bytes == flood(at, bytes.len()));
                at += bytes.len() as u64;
            }
            Item::File(path) => {
                assert!(!std::mem::replace(&mut offered, true) && path == "/the/log" && named == 0);
                items.file_opened();
            }
            Item::Kept(kept) => {
                assert!(offered && kept.offset == at);
                let len: u64 = kept.runs.iter().map(|run| run.len).sum();
                (at, named) = (at + len, named + len);
            }
            Item::Result(result) => break assert_eq!(result.total_bytes, FLOOD),
            Item::Followed(_) => panic!("this is no follow"),
        }
    }
    assert_eq!(at, FLOOD);
    assert!(named > 0, "some of it was named");
}

#[tokio::test]
async fn many_streams_share_one_connection() {
    let client = Bench::new().agent().await;
    let one = |i: u64| {
        let client = client.clone();
        async move {
            let size = 1_000_000 + i;
            let mut items = client.exec(command(&format!("flood {size}"))).await.unwrap();
            assert!(finish(&mut items).await.unwrap().0 == flood(0, size as usize));
        }
    };
    capped(futures::future::join_all((0..40).map(one))).await;
}

#[tokio::test]
async fn a_forgotten_flood_frees_the_connection() {
    let client = Bench::new().agent().await;
    for _ in 0..10 {
        let mut items = client.exec(command(&format!("flood {FLOOD}"))).await.unwrap();
        next(&mut items).await;
        next(&mut items).await;
    }
    let mut items = client.exec(command("flood 5000000")).await.unwrap();
    assert_eq!(finish(&mut items).await.unwrap().0.len(), 5_000_000);
}

#[tokio::test]
async fn events_that_nobody_takes_are_dropped_and_that_is_said() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let mut events = client.watch().await.unwrap();
    let event = |total| Event::Output { process: "x".repeat(5000), total };
    for total in 0..5000 {
        bench.double.emit(event(total));
        if total % 16 == 0 {
            client.call(OverviewCall {}).await.unwrap();
        }
    }
    let last = event(u64::MAX);
    bench.double.emit(last.clone());
    let (mut seen, mut lagged) = (0, 0);
    loop {
        match capped(events.recv()).await.unwrap() {
            Event::Lagged => lagged += 1,
            got if got == last => break,
            _ => seen += 1,
        }
    }
    assert!(lagged > 0 && seen < 5000, "{seen} seen, lagged {lagged} times");
}

#[tokio::test]
async fn a_log_is_followed_from_its_tail_to_its_end() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let mut exec = client.exec(ExecCall { follow: false, ..with_stdin("cat") }).await.unwrap();
    exec.send_stdin(b"0123456789".to_vec()).await.unwrap();
    let Item::Started(process) = next(&mut exec).await else { panic!() };
    until(&client, || bench.hub.service.log_len(&process.id) == 10).await;
    let start = crate::protocol::calls::StartParams(crate::model::LogStart::TailBytes(3));
    let mut present = client.follow(Follow { process: process.id.clone(), start, until_end: false }).await.unwrap();
    assert!(matches!(next(&mut present).await, Item::Data { offset: 7, bytes, .. } if bytes == b"789"));
    assert!(matches!(next(&mut present).await, Item::Followed(row) if !row.state.is_ended()));
    assert!(present.next().await.is_none());

    let mut follow = client.follow(Follow { process: process.id.clone(), start, until_end: true }).await.unwrap();
    assert!(matches!(next(&mut follow).await, Item::Data { offset: 7, .. }));
    exec.send_stdin(b"ab".to_vec()).await.unwrap();
    assert!(matches!(next(&mut follow).await, Item::Data { offset: 10, bytes, .. } if bytes == b"ab"));
    exec.end_stdin().await.unwrap();
    assert!(matches!(next(&mut follow).await, Item::Followed(row) if row.state.is_ended()));
    finish(&mut exec).await.unwrap();
}

#[tokio::test]
async fn a_log_that_grows_is_read_to_the_end_that_it_had() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let mut exec = client.exec(ExecCall { follow: false, ..with_stdin("cat") }).await.unwrap();
    let Item::Started(process) = next(&mut exec).await else { panic!() };
    let had = 4 * u64::from(WINDOW);
    for _ in 0..had / 65536 {
        exec.send_stdin(vec![b'x'; 65536]).await.unwrap();
    }
    until(&client, || bench.hub.service.log_len(&process.id) == had).await;
    let mut present = client.follow(Follow { process: process.id.clone(), ..Follow::default() }).await.unwrap();
    let Item::Data { bytes, .. } = next(&mut present).await else { panic!() };
    let mut came = bytes.len() as u64;
    // No more than a window of it was sent by now.
    exec.send_stdin(b"later".to_vec()).await.unwrap();
    until(&client, || bench.hub.service.log_len(&process.id) > had).await;
    loop {
        match next(&mut present).await {
            Item::Data { bytes, .. } => came += bytes.len() as u64,
            Item::Followed(_) => break,
            _ => panic!(),
        }
    }
    assert_eq!(came, had);
}

#[tokio::test]
async fn a_cancelled_follow_answers_with_the_row() {
    let client = Bench::new().agent().await;
    let mut exec = client.exec(command("hold")).await.unwrap();
    let Item::Started(process) = next(&mut exec).await else { panic!() };
    let mut follow = client.follow(Follow { process: process.id, until_end: true, ..Follow::default() }).await.unwrap();
    follow.cancel().await.unwrap();
    assert!(matches!(next(&mut follow).await, Item::Followed(row) if !row.state.is_ended()));
}
