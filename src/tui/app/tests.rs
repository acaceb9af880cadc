//! The loop on a real terminal, with a scripted daemon behind it.

use super::super::fake::{Fake, Stage};
use super::super::testing;
use crate::model::{Event, HealthState, ProcessState};

#[tokio::test]
async fn it_draws_runs_what_is_typed_and_leaves_the_terminal_as_it_was() {
    let mut stage = Stage::start(Fake::new(), 24, 80).await;
    stage.wait("local:main").await;
    assert!(stage.screen(|s| s.alternate_screen() && s.bracketed_paste()));
    stage.send(b"echo hi\r");
    let call = stage.fake.called("exec").await;
    assert_eq!(call, "exec local main echo hi stdin=false");
    stage.wait("you  echo hi").await;
    stage.wait("running").await;
    stage.fake.write("x1", b"hi there\n");
    stage.wait("hi there").await;
    stage.fake.finish("x1", 3);
    stage.wait("exit 3").await;
    stage.send(b"\x1dd");
    assert!(stage.end().await.unwrap().contains("42"));
    assert!(stage.screen(|s| !s.alternate_screen() && !s.hide_cursor() && !s.bracketed_paste()));
}

#[tokio::test]
async fn a_command_from_elsewhere_appears_and_a_flood_is_skipped() {
    let mut stage = Stage::start(Fake::new(), 45, 160).await;
    stage.wait("local:main").await;
    stage.fake.begin(testing::process("p9", "web", "yes"));
    stage.wait("you  yes").await;
    let flood: Vec<u8> = (0..400_000).flat_map(|i| format!("line {i}\n").into_bytes()).collect();
    stage.fake.write("p9", &flood);
    stage.wait("line 399999").await;
    let read = stage.fake.bytes_read();
    assert!(read < 400_000, "{read} of {} bytes were read", flood.len());
    assert_eq!(stage.fake.most_reads_at_once(), 1);
    stage.send(b"\x1dd");
    stage.end().await.unwrap();
}

#[tokio::test]
async fn hidden_and_folded_output_is_not_read() {
    let mut stage = Stage::start(Fake::new(), 24, 80).await;
    stage.wait("local:main").await;
    stage.fake.begin(testing::process("p9", "web", "make"));
    stage.fake.write("p9", &b"x\n".repeat(5000));
    stage.send(b"ready");
    stage.wait("ready").await;
    assert_eq!(stage.fake.bytes_read(), 0);
    stage.send(b"\x1d1");
    stage.wait("you  make").await;
    stage.fake.read_something().await;
    stage.send(b"\x1dd");
    stage.end().await.unwrap();
}

#[tokio::test]
async fn a_lost_daemon_is_said_and_found_again() {
    let mut stage = Stage::start(Fake::new(), 30, 120).await;
    stage.wait("local:main").await;
    stage.send(b"sleep 9\r");
    stage.fake.called("exec").await;
    stage.wait("running").await;
    stage.fake.cut();
    stage.wait("unknown: the daemon ended while it ran").await;
    stage.wait("no daemon").await;
    stage.send(b"kept text\r");
    stage.wait("enter is refused").await;
    stage.fake.mend();
    stage.wait("the daemon is back").await;
    stage.wait("kept text").await;
    assert_eq!(stage.fake.calls("exec").len(), 1, "nothing is run later");
    stage.send(b"\x1dd");
    stage.end().await.unwrap();
}

#[tokio::test]
async fn a_stopped_daemon_is_not_started_until_asked() {
    let mut stage = Stage::start(Fake::new(), 30, 120).await;
    stage.wait("local:main").await;
    stage.fake.emit(Event::Stopping);
    stage.fake.cut();
    stage.fake.mend();
    stage.wait("the daemon was stopped").await;
    stage.send(b"\x1dr");
    stage.wait("the daemon is back").await;
    let dials = stage.fake.calls("dial");
    assert_eq!((dials.first().map(String::as_str), dials.last().map(String::as_str)), (Some("dial start=true"), Some("dial start=true")));
    assert!(dials[1..dials.len() - 1].iter().all(|d| d == "dial start=false"), "{dials:?}");
    stage.send(b"\x1dd");
    stage.end().await.unwrap();
}

#[tokio::test]
async fn health_and_reconnecting() {
    let mut stage = Stage::start(Fake::new(), 45, 160).await;
    stage.wait("reconnecting").await;
    stage.send(b"\x1d2");
    stage.wait("gpu:main").await;
    stage.send(b"\x1dr");
    assert_eq!(stage.fake.called("connect").await, "connect gpu");
    let up = testing::backend(2, "gpu", crate::model::BackendKind::Ssh, "lab@gpu.lab:22", HealthState::Up);
    stage.fake.emit(Event::Backend { backend: Box::new(up) });
    stage.wait_for("no pane is lost", |s| !s.contains("reconnecting")).await;
    stage.send(b"\x1dd");
    stage.end().await.unwrap();
}

#[tokio::test]
async fn sizes_down_to_one_cell_and_back() {
    let mut stage = Stage::start(Fake::new(), 24, 80).await;
    stage.wait("local:main").await;
    for (rows, cols) in [(1, 1), (2, 80), (3, 3), (80, 250), (10, 40), (1, 250), (80, 1)] {
        stage.resize(rows, cols);
    }
    stage.resize(24, 80);
    stage.send(b"after");
    stage.wait("after").await;
    stage.send(b"\x1dd");
    stage.end().await.unwrap();
}

#[tokio::test]
async fn stdin_can_be_left_open_typed_into_and_ended() {
    let mut stage = Stage::start(Fake::new(), 24, 80).await;
    stage.wait("local:main").await;
    stage.send(b"cat\x0f");
    assert_eq!(stage.fake.called("exec").await, "exec local main cat stdin=true");
    stage.wait("stdin of x1").await;
    stage.send(b"hello\r");
    assert_eq!(stage.fake.called("stdin").await, "stdin \"hello\\n\"");
    stage.send(b"\x04");
    stage.fake.called("end").await;
    stage.fake.finish("x1", 0);
    stage.wait("exit 0").await;
    stage.send(b"\x1dd");
    stage.end().await.unwrap();
}

#[tokio::test]
async fn quitting_with_own_commands_asks_and_a_fast_key_does_not_answer() {
    let mut stage = Stage::start(Fake::new(), 30, 100).await;
    stage.wait("local:main").await;
    stage.send(b"sleep 9\r");
    stage.wait("running").await;
    stage.send(b"\x1dd");
    stage.wait("1 command started here will be stopped").await;
    // A key meant for something else, just after the question came up.
    stage.send(b"y");
    stage.until_guard().await;
    assert!(stage.screen(|s| s.contents().contains("will be stopped")));
    stage.send(b"y");
    stage.end().await.unwrap();
}

#[tokio::test]
async fn the_first_start_asks_for_the_leader_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = Stage::first(Fake::new(), 24, 80, dir.path()).await;
    stage.wait("Press ^] now").await;
    stage.send(b"x");
    stage.wait("needed for typing").await;
    stage.send(b"\x01");
    stage.wait("^A is the leader").await;
    stage.send(b"\x01d");
    stage.end().await.unwrap();
    let mut stage = Stage::first(Fake::new(), 24, 80, dir.path()).await;
    stage.wait("^A commands").await;
    stage.send(b"\x01d");
    stage.end().await.unwrap();
}

#[tokio::test]
async fn a_terminal_that_goes_away_ends_it() {
    let mut stage = Stage::start(Fake::new(), 24, 80).await;
    stage.wait("local:main").await;
    stage.hang_up();
    assert!(stage.end().await.unwrap_err().to_string().contains("terminal is gone"));
}

#[tokio::test]
async fn a_daemon_that_refuses_at_the_start_leaves_the_screen_alone() {
    let fake = Fake::new();
    fake.cut();
    let mut stage = Stage::start(fake, 24, 80).await;
    assert!(stage.end().await.is_err());
    assert!(stage.raw().is_empty());
}

#[tokio::test]
async fn at_rest_nothing_is_written() {
    let mut stage = Stage::start(Fake::calm(), 45, 160).await;
    stage.wait("local:main").await;
    stage.fake.begin(testing::process("p9", "web", "true"));
    stage.wait("you  true").await;
    stage.fake.finish("p9", 0);
    stage.wait("exit 0").await;
    assert!(stage.quiet().await, "something still draws");
    let live = stage.fake.overview().processes.iter().filter(|p| !matches!(p.state, ProcessState::Ended(_))).count();
    assert_eq!(live, 0);
    stage.send(b"\x1dd");
    stage.end().await.unwrap();
}
