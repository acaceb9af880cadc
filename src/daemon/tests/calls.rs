//! The plain calls, and calls that are no calls.

use super::*;
use crate::client::Waited;
use crate::model::{EndedBy, Event, LogRead, LogStart, News, Of, ProcessState, Run, SessionInfo, Told, Who, WhoKind};
use crate::protocol::calls::{
    Call, Complete, Connect as ConnectCall, Disconnect, Doctor, ErrorCode, Kill, SendCall, SessionClose, SessionReset, SessionShow, Wait,
};
use serde::{Deserialize, Serialize};

async fn started(client: &Client, text: &str) -> (Items, String) {
    let mut items = client.exec(command(text)).await.unwrap();
    let Item::Started(process) = next(&mut items).await else { panic!("the start comes first") };
    (items, process.id)
}

fn code(error: ClientError) -> ErrorCode {
    let ClientError::Call(error) = error else { panic!("{error}") };
    error.code
}

#[tokio::test]
async fn the_overview_tells_about_the_daemon_too() {
    let bench = Bench::new();
    bench.hub.tell(crate::model::Level::Alert, "look here".into());
    let client = bench.agent().await;
    let overview = client.call(OverviewCall {}).await.unwrap();
    assert_eq!((overview.daemon.pid, overview.daemon.config.as_deref()), (77, Some("/etc/qd.yaml")));
    assert_eq!(overview.notices[0].message, "look here");
}

#[tokio::test]
async fn a_piece_of_a_log_comes_with_its_streams() {
    let client = Bench::new().agent().await;
    let (mut items, id) = started(&client, "err oops").await;
    finish(&mut items).await.unwrap();
    let chunk = client.read(LogRead { process: id.clone(), start: LogStart::Offset(1), max: 2 }).await.unwrap();
    assert_eq!((chunk.offset, chunk.total, chunk.ended, chunk.bytes.as_slice()), (1, 4, true, &b"op"[..]));
    assert_eq!(chunk.runs, [Run { stream: Stream::Err, len: 2 }]);
    let empty = client.read(LogRead { process: id, start: LogStart::Offset(4), max: 100 }).await.unwrap();
    assert!(empty.bytes.is_empty() && empty.ended);
    let missing = client.read(LogRead { process: "nope".into(), start: LogStart::Offset(0), max: 1 }).await.unwrap_err();
    assert_eq!(code(missing), ErrorCode::NotFound);
}

#[tokio::test]
async fn a_piece_of_a_log_is_at_most_a_mebibyte() {
    let client = Bench::new().agent().await;
    let (mut items, id) = started(&client, "flood 9000000").await;
    finish(&mut items).await.unwrap();
    let chunk = client.read(LogRead { process: id, start: LogStart::Offset(0), max: u64::MAX }).await.unwrap();
    assert_eq!(chunk.bytes.len(), 1 << 20);
}

#[tokio::test]
async fn wait_answers_in_the_order_asked_or_when_its_time_is_over() {
    let client = Bench::new().agent().await;
    let (mut held, first) = started(&client, "hold").await;
    let (_done, second) = started(&client, "exit 0").await;
    let wait =
        |processes: &[&String], timeout_ms| Wait { processes: processes.iter().map(|p| (*p).clone()).collect(), timeout_ms, told: false };
    let rows = capped(client.call(wait(&[&second, &first], Some(20)))).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.state.is_ended()).collect::<Vec<_>>(), [true, false]);
    let both = wait(&[&second, &first], None);
    let (rows, ()) = capped(async {
        tokio::join!(client.call(both), async {
            held.cancel().await.unwrap();
            finish(&mut held).await.unwrap();
        })
    })
    .await;
    assert_eq!(rows.unwrap().iter().map(|row| row.id.clone()).collect::<Vec<_>>(), [second.clone(), first]);
    assert_eq!(code(client.call(wait(&[&second, &"nope".into()], None)).await.unwrap_err()), ErrorCode::NotFound);
}

#[tokio::test]
async fn a_kill_is_done_when_it_is_answered_and_says_by_whom() {
    let bench = Bench::new();
    let (agent, operator) = (bench.agent().await, bench.operator().await);
    let (mut first, one) = started(&agent, "hold").await;
    let (mut second, two) = started(&agent, "hold").await;
    let kill = |id: &str| Kill { processes: vec![id.into()], ..Kill::default() };
    let rows = operator.call(kill(&one)).await.unwrap();
    let by = |ended_by| ProcessState::Ended(crate::model::Outcome::Cancelled { ended_by });
    assert_eq!(rows[0].process.state, by(EndedBy::Operator));
    assert_eq!(agent.call(kill(&two)).await.unwrap()[0].process.state, by(EndedBy::Agent));
    finish(&mut first).await.unwrap();
    finish(&mut second).await.unwrap();
}

#[tokio::test]
async fn nothing_is_killed_when_one_of_the_names_is_wrong() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let (_held, id) = started(&client, "hold").await;
    let wrong = Kill { processes: vec![id.clone(), "nope".into()], ..Kill::default() };
    assert_eq!(code(client.call(wrong).await.unwrap_err()), ErrorCode::NotFound);
    let wrong = Kill { processes: vec![id.clone()], signal: Some("BOGUS".into()), ..Kill::default() };
    assert_eq!(code(client.call(wrong).await.unwrap_err()), ErrorCode::Usage);
    let heard = bench.double.heard();
    assert!(heard.ended.is_empty() && heard.signals.is_empty());
    let rows = client.call(Kill { processes: vec![id.clone()], signal: Some("usr1".into()), ..Kill::default() }).await.unwrap();
    assert_eq!((rows[0].process.id.as_str(), rows[0].signalled.as_slice()), (id.as_str(), &[7, 9][..]));
    assert_eq!(bench.double.heard().signals, [(id, 10)]);
}

#[tokio::test]
async fn what_is_sent_is_attributed_and_refused_when_more_came() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let (_cat, id) = started(&client, "hold").await;
    let send = |expect_offset| SendCall { process: id.clone(), text: "y\n".into(), eof: true, expect_offset };
    assert_eq!(client.call(send(Some(0))).await.unwrap().waiting, 3);
    let heard = bench.double.heard().sent;
    assert_eq!((heard.len(), heard[0].1.as_str(), heard[0].2.as_slice(), heard[0].3), (1, id.as_str(), &b"y\n"[..], true));
    assert_eq!(heard[0].0, bench.double.heard().execs[0].0.name);
    let (mut said, id) = started(&client, "say something").await;
    finish(&mut said).await.unwrap();
    let late = SendCall { process: id, expect_offset: Some(0), ..SendCall::default() };
    assert_eq!(code(client.call(late).await.unwrap_err()), ErrorCode::Outdated);
}

#[tokio::test]
async fn backends_and_sessions() {
    let client = Bench::new().agent().await;
    assert_eq!(client.call(ConnectCall { backend: "gpu".into() }).await.unwrap().name, "gpu");
    assert_eq!(client.call(Disconnect { backend: "gpu".into() }).await.unwrap().name, "gpu");
    let Err(ClientError::Call(error)) = client.call(ConnectCall { backend: "away".into() }).await else { panic!() };
    assert_eq!((error.code, error.fix.as_deref()), (ErrorCode::Unavailable, Some("plug it in")));
    let (backend, session) = (Some("gpu".to_owned()), Some("two".to_owned()));
    let shown = client.call(SessionShow { backend: backend.clone(), session: session.clone() }).await.unwrap();
    assert_eq!((shown.info.backend.as_str(), shown.info.name.as_str()), ("gpu", "two"));
    assert_eq!(client.call(SessionReset { backend: None, session: None }).await.unwrap().name, "main");
    assert_eq!(code(client.call(SessionClose { backend, session }).await.unwrap_err()), ErrorCode::Refused);
    let complete = Complete { backend: "gpu".into(), session: "main".into(), word: "ma".into(), command: true };
    assert_eq!(client.call(complete).await.unwrap(), ["gpu main ma true"]);
}

#[tokio::test]
async fn a_watch_tells_what_happens_and_is_counted() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let mut events = client.watch().await.unwrap();
    assert_eq!(bench.double.heard().watchers, [1]);
    let session = SessionInfo { backend: "gpu".into(), name: "main".into(), cwd: "/".into(), generation: 1, running: 0 };
    let event = Event::Session { session };
    bench.double.emit(event.clone());
    bench.hub.tell(crate::model::Level::Notice, "look".into());
    assert_eq!(capped(events.recv()).await, Some(event));
    assert!(matches!(capped(events.recv()).await, Some(Event::Notice { notice }) if notice.message == "look"));
    let second = client.watch().await.unwrap();
    drop(events);
    drop(second);
    until(&client, || bench.double.heard().watchers == [1, 2, 1, 0]).await;
}

#[tokio::test]
async fn a_watch_ends_with_its_connection() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let mut events = client.watch().await.unwrap();
    drop(client);
    assert_eq!(capped(events.recv()).await, None);
}

/// A call of another version.
#[derive(Default, Serialize, Deserialize)]
struct Strange {
    processes: u32,
}

macro_rules! strange_call {
    ($name:ident, $method:literal) => {
        #[derive(Default, Serialize, Deserialize)]
        struct $name(Strange);
        impl Call for $name {
            const METHOD: &'static str = $method;
            type Reply = ();
        }
    };
}
strange_call!(FromTheFuture, "levitate");
strange_call!(Garbled, "kill");

#[tokio::test]
async fn an_unknown_call_and_bad_parameters_are_different_errors_and_end_nothing() {
    let client = Bench::new().agent().await;
    assert_eq!(code(client.call(FromTheFuture::default()).await.unwrap_err()), ErrorCode::UnknownMethod);
    assert_eq!(code(client.call(Garbled::default()).await.unwrap_err()), ErrorCode::BadParameters);
    client.call(OverviewCall {}).await.unwrap();
}

#[tokio::test]
async fn findings_come_one_by_one_and_an_examination_ends_with_its_client() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let doctor = |backend: &str| Doctor { backend: backend.into() };
    let mut findings = client.doctor(doctor("gpu")).await.unwrap();
    let mut checks = Vec::new();
    while let Some(finding) = capped(findings.next()).await {
        checks.push(finding.unwrap().check);
    }
    assert_eq!(checks, ["name", "port"]);
    let mut findings = client.doctor(doctor("nope")).await.unwrap();
    assert_eq!(code(capped(findings.next()).await.unwrap().unwrap_err()), ErrorCode::NotFound);
    assert!(findings.next().await.is_none());
    let mut findings = client.doctor(doctor("held")).await.unwrap();
    assert_eq!(capped(findings.next()).await.unwrap().unwrap().check, "name", "it comes although the examination goes on");
    assert!(!bench.double.heard().given_up);
    drop(findings);
    until(&client, || bench.double.heard().given_up).await;
}

#[tokio::test]
async fn a_wait_hears_what_its_processes_tell_and_before_their_end() {
    let bench = Bench::new();
    let client = bench.agent().await;
    let (mut held, id) = started(&client, "hold").await;
    let told = |number, process: &str| Told {
        number,
        at: 1,
        of: Some(Of {
            process: process.into(),
            backend: "local".into(),
            session: "main".into(),
            command: "hold".into(),
            who: Who { kind: WhoKind::Operator, name: "you".into(), peer_pid: None },
        }),
        news: News::Matched { lines: vec!["ready".into()], dropped: 0 },
    };
    bench.double.tell(told(1, &id));
    bench.double.tell(told(2, "another"));
    let mut waits = client.wait(Wait { processes: vec![id.clone()], timeout_ms: None, told: true }).await.unwrap();
    let number = |waited| match waited {
        Some(Ok(Waited::Told(told))) => told.number,
        other => panic!("nothing told: {other:?}"),
    };
    assert_eq!(number(waits.next().await), 1);
    bench.double.tell(told(3, &id));
    assert_eq!(number(waits.next().await), 3);
    bench.double.tell(told(4, &id));
    let killed = client.call(Kill { processes: vec![id.clone()], signal: None, grace_ms: None }).await.unwrap();
    assert!(killed[0].failed.is_none());
    assert_eq!(number(waits.next().await), 4);
    assert!(matches!(waits.next().await, Some(Ok(Waited::Rows(rows))) if rows[0].id == id && rows[0].state.is_ended()));
    assert!(waits.next().await.is_none());
    finish(&mut held).await.unwrap();
}

#[tokio::test]
async fn of_several_each_failure_is_told_and_of_one_it_is_the_calls() {
    let client = Bench::new().agent().await;
    let (mut held, runs) = started(&client, "hold").await;
    let (mut done, ended) = started(&client, "exit 0").await;
    finish(&mut done).await.unwrap();
    let signal = |processes: &[&String]| Kill {
        processes: processes.iter().map(|p| (*p).clone()).collect(),
        signal: Some("TERM".into()),
        grace_ms: None,
    };
    assert_eq!(code(client.call(signal(&[&ended])).await.unwrap_err()), ErrorCode::Refused);
    let rows = client.call(signal(&[&ended, &runs, &ended])).await.unwrap();
    let failed: Vec<Option<ErrorCode>> = rows.iter().map(|row| row.failed.as_ref().map(|error| error.code)).collect();
    assert_eq!(failed, [Some(ErrorCode::Refused), None, Some(ErrorCode::Refused)]);
    assert_eq!(rows[1].signalled, [7, 9]);
    client.call(Kill { processes: vec![runs], signal: None, grace_ms: None }).await.unwrap();
    finish(&mut held).await.unwrap();
}
