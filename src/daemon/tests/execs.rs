//! Commands: output, stdin, and every way of ending.

use super::*;
use crate::model::{EndedBy, Outcome};
use crate::protocol::calls::ErrorCode;

#[tokio::test]
async fn a_command_starts_speaks_and_ends() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let mut items = client.exec(command("say hello")).await.unwrap();
    let Item::Started(process) = next(&mut items).await else { panic!("the start comes first") };
    assert_eq!((process.command.as_str(), process.who.name.as_str(), process.who.peer_pid), ("say hello", "builder", Some(55)));
    let (out, err, result) = finish(&mut items).await.unwrap();
    assert_eq!((out.as_slice(), err.as_slice()), (&b"hello"[..], &b""[..]));
    assert_eq!(result.outcome, Outcome::Exited { exit_code: 0 });
}

#[tokio::test]
async fn stderr_stays_apart() {
    let client = Bench::new().agent().await;
    let mut items = client.exec(command("err oh no")).await.unwrap();
    let (out, err, _) = finish(&mut items).await.unwrap();
    assert_eq!((out.as_slice(), err.as_slice()), (&b""[..], &b"oh no"[..]));
}

#[tokio::test]
async fn without_follow_only_the_result_comes() {
    let client = Bench::new().agent().await;
    let mut items = client.exec(ExecCall { follow: false, ..command("say hello") }).await.unwrap();
    let (out, _, result) = finish(&mut items).await.unwrap();
    assert_eq!((out.len(), result.total_bytes), (0, 5));
}

#[tokio::test]
async fn a_command_gets_the_clients_directory() {
    let bench = Bench::new();
    let client = bench.agent().await;
    finish(&mut client.exec(command("exit 3")).await.unwrap()).await.unwrap();
    let cwd = std::env::current_dir().unwrap().to_str().unwrap().to_owned();
    assert_eq!(bench.double.heard().execs[0].1.client_cwd, Some(cwd));
}

#[tokio::test]
async fn wrong_use_is_an_error_and_the_connection_goes_on() {
    let client = Bench::new().agent().await;
    let mut items = client.exec(command("wrong")).await.unwrap();
    let Err(ClientError::Call(error)) = finish(&mut items).await else { panic!("refused") };
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::Usage, "that is wrong"));
    assert!(items.next().await.is_none());
    finish(&mut client.exec(command("exit 0")).await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn stdin_reaches_the_command_whole_and_ends() {
    let client = Bench::new().agent().await;
    let mut items = client.exec(with_stdin("cat")).await.unwrap();
    let sent: Vec<u8> = (0..3_000_000u32).flat_map(|i| [i as u8, (i >> 8) as u8]).collect();
    let mut stdin = items.take_stdin().unwrap();
    assert!(items.take_stdin().is_none());
    let feed = async {
        for piece in sent.chunks(700_001) {
            stdin.send(piece.to_vec()).await.unwrap();
        }
        stdin.end();
    };
    let (end, ()) = capped(async { tokio::join!(finish(&mut items), feed) }).await;
    let (out, _, result) = end.unwrap();
    assert!(out == sent, "{} of {} bytes", out.len(), sent.len());
    assert_eq!(result.outcome, Outcome::Exited { exit_code: 0 });
}

#[tokio::test]
async fn stdin_through_the_items_themselves() {
    let client = Bench::new().agent().await;
    let mut items = client.exec(with_stdin("cat")).await.unwrap();
    items.send_stdin(b"one ".to_vec()).await.unwrap();
    items.send_stdin(b"two".to_vec()).await.unwrap();
    items.end_stdin().await.unwrap();
    assert_eq!(finish(&mut items).await.unwrap().0, b"one two");
}

#[tokio::test]
async fn a_command_that_does_not_read_holds_its_stdin_back_and_nothing_else() {
    let client = Bench::new().agent().await;
    let mut items = client.exec(with_stdin("deaf")).await.unwrap();
    let mut stdin = items.take_stdin().unwrap();
    let mut sent = 0;
    let feed = async {
        loop {
            stdin.send(vec![0; 64 << 10]).await.unwrap();
            sent += 64 << 10;
        }
    };
    let others = async {
        for _ in 0..200 {
            client.call(OverviewCall {}).await.unwrap();
        }
    };
    tokio::select! {
        () = feed => panic!("stdin without bound"),
        () = capped(others) => {}
    }
    assert!(sent < 4 << 20, "{sent} bytes taken");
    items.cancel().await.unwrap();
    assert_eq!(finish(&mut items).await.unwrap().2.outcome, Outcome::Cancelled { ended_by: EndedBy::Client });
}

#[tokio::test]
async fn a_command_that_closed_its_stdin_says_so() {
    let client = Bench::new().agent().await;
    let mut items = client.exec(with_stdin("shut")).await.unwrap();
    let error = capped(async {
        loop {
            match items.send_stdin(vec![0; 1000]).await {
                Ok(()) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        }
    });
    assert!(matches!(error.await, ClientError::Call(error) if error.code == ErrorCode::Refused));
}

#[tokio::test]
async fn a_command_without_stdin_takes_none() {
    let client = Bench::new().agent().await;
    let mut follow = client.follow(crate::protocol::calls::Follow::default()).await.unwrap();
    assert!(follow.take_stdin().is_none() && follow.send_stdin(vec![1]).await.is_err());
}

#[tokio::test]
async fn cancel_ends_the_command_and_its_result_still_comes() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let mut items = client.exec(command("hold")).await.unwrap();
    assert!(matches!(next(&mut items).await, Item::Started(_)));
    items.cancel().await.unwrap();
    items.cancel().await.unwrap();
    assert_eq!(finish(&mut items).await.unwrap().2.outcome, Outcome::Cancelled { ended_by: EndedBy::Client });
    assert_eq!(bench.double.heard().ended, [("p001".to_owned(), EndedBy::Client)]);
}

#[tokio::test]
async fn dropping_the_items_ends_the_command() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let mut items = client.exec(command("hold")).await.unwrap();
    assert!(matches!(next(&mut items).await, Item::Started(_)));
    drop(items);
    until(&client, || bench.double.heard().ended == [("p001".to_owned(), EndedBy::Client)]).await;
    // Even before its start was heard of.
    drop(client.exec(command("hold")).await.unwrap());
    until(&client, || bench.double.heard().ended.len() == 2).await;
}

#[tokio::test]
async fn a_connection_ends_with_the_last_handle_on_it() {
    let bench = Bench::new();
    let (stream, served) = bench.stream();
    let how = Connect { kind: "cli".into(), agent: Some("a".into()), ..Connect::default() };
    let client = Client::over(stream, &how).await.unwrap();
    let clone = client.clone();
    let mut items = client.exec(command("hold")).await.unwrap();
    next(&mut items).await;
    drop(client);
    clone.call(OverviewCall {}).await.unwrap();
    drop(clone);
    items.cancel().await.unwrap();
    finish(&mut items).await.unwrap();
    assert!(!served.is_finished());
    drop(items);
    capped(served).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_breaks_ends_its_commands() {
    let bench = Bench::new();
    let (mut near, far) = tokio::io::duplex(64 << 10);
    let (mut outer, inner) = tokio::io::duplex(64 << 10);
    let served = tokio::spawn(serve(far, bench.hub.clone(), Peer { uid: UID, pid: None }));
    // A cable between both that can be cut.
    let cable = tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut outer).await });
    let how = Connect { kind: "cli".into(), agent: Some("a".into()), ..Connect::default() };
    let client = Client::over(inner, &how).await.unwrap();
    let mut items = client.exec(command("hold")).await.unwrap();
    let mut waits = client.exec(command("hold")).await.unwrap();
    next(&mut items).await;
    next(&mut waits).await;
    cable.abort();
    capped(served).await.unwrap();
    let ended = bench.double.heard().ended;
    assert_eq!(ended.len(), 2);
    assert!(ended.iter().all(|(_, by)| *by == EndedBy::ClientGone), "{ended:?}");
    assert!(matches!(finish(&mut items).await, Err(ClientError::Gone(_))));
    assert!(matches!(client.call(OverviewCall {}).await, Err(ClientError::Gone(_))));
}

#[tokio::test]
async fn a_long_command_text_travels_in_parts_and_one_too_long_is_refused() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let text = "x".repeat(3_000_000);
    finish(&mut client.exec(command(&text)).await.unwrap()).await.unwrap();
    assert!(bench.double.heard().execs[0].1.command == text);
    let Err(ClientError::Call(error)) = client.exec(command(&"x".repeat(17 << 20))).await else { panic!("too long") };
    assert_eq!(error.code, ErrorCode::Usage);
    finish(&mut client.exec(command("exit 0")).await.unwrap()).await.unwrap();
}
