//! A whole daemon in this process: lock, socket, ending, and finding it.

use super::*;
use crate::config::Sources;
use crate::daemon::run::Life;
use crate::daemon::signals::Signals;
use crate::daemon::{DaemonError, Listening};
use crate::model::{EndedBy, Event, Outcome};
use crate::paths::{Paths, Vars};
use crate::protocol::calls::Shutdown;
use crate::protocol::launch::LockContent;
use std::path::Path;
use tokio::sync::oneshot;

struct Daemon {
    double: Double,
    paths: Paths,
    config: std::path::PathBuf,
    running: JoinHandle<Result<(), DaemonError>>,
}

fn life(folder: &Path, config: &str) -> (Life, oneshot::Receiver<Listening>) {
    let file = folder.join("config.yaml");
    std::fs::write(&file, config).unwrap();
    let sources = Sources { explicit: Some(file), vars: Vars::default(), home: Some(folder.to_owned()) };
    let paths = Paths::under(folder);
    paths.ensure().unwrap();
    let config = crate::config::load(&sources).unwrap();
    let (ready, listening) = oneshot::channel();
    (Life { config, paths, sources, notices: Vec::new(), signals: Signals::none(), detached: false, ready: Some(ready) }, listening)
}

async fn daemon(folder: &Path, config: &str) -> Daemon {
    let (life, listening) = life(folder, config);
    let (double, paths) = (Double::new(), life.paths.clone());
    let engine = double.clone();
    let running = tokio::spawn(life.run(|_, _| async { Ok(engine) }));
    let listening = capped(listening).await.unwrap();
    Daemon { double, paths, config: listening.config.unwrap(), running }
}

impl Daemon {
    async fn client(&self) -> Client {
        let stream = tokio::net::UnixStream::connect(self.paths.socket()).await.unwrap();
        Client::over(stream, &Connect { kind: "cli".into(), agent: Some("a".into()), ..Connect::default() }).await.unwrap()
    }
}

#[tokio::test]
async fn the_lock_file_leads_to_the_socket_until_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "").await;
    let lock = || LockContent::parse(&std::fs::read(daemon.paths.lock_file()).unwrap());
    assert_eq!(lock().unwrap().socket, daemon.paths.socket());
    assert!(crate::protocol::lock::is_held(&daemon.paths.lock_file()).unwrap());
    let client = daemon.client().await;
    assert!(client.call(Shutdown { force: false }).await.unwrap().stopping);
    capped(daemon.running).await.unwrap().unwrap();
    assert!(!daemon.paths.socket().exists() && lock_text(&daemon.paths).is_empty());
    assert!(!crate::protocol::lock::is_held(&daemon.paths.lock_file()).unwrap());
    assert!(matches!(client.call(OverviewCall {}).await, Err(ClientError::Gone(reason)) if reason == "it was stopped"));
}

fn lock_text(paths: &Paths) -> Vec<u8> {
    std::fs::read(paths.lock_file()).unwrap()
}

#[tokio::test]
async fn a_second_daemon_is_refused_and_the_first_is_undisturbed() {
    let folder = tempfile::tempdir().unwrap();
    let first = daemon(folder.path(), "").await;
    let (second, _listening) = life(folder.path(), "");
    let error = capped(second.run(|_, _| async { Ok(Double::new()) })).await.unwrap_err();
    assert!(matches!(error, DaemonError::AlreadyRuns { pid } if pid == std::process::id()));
    first.client().await.call(OverviewCall {}).await.unwrap();
}

#[tokio::test]
async fn a_start_meets_a_daemon_that_puts_its_socket_back() {
    let folder = tempfile::tempdir().unwrap();
    let first = daemon(folder.path(), "").await;
    std::fs::remove_file(first.paths.socket()).unwrap();
    let (second, _listening) = life(folder.path(), "");
    let error = capped(second.run(|_, _| async { Ok(Double::new()) })).await.unwrap_err();
    assert!(matches!(error, DaemonError::AlreadyRuns { pid } if pid == std::process::id()), "{error:?}");
    first.client().await.call(OverviewCall {}).await.unwrap();
}

#[tokio::test]
async fn what_a_killed_daemon_left_is_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let (life, listening) = life(folder.path(), "");
    let paths = life.paths.clone();
    drop(std::os::unix::net::UnixListener::bind(paths.socket()).unwrap());
    let stale = LockContent { pid: 1, socket: paths.socket(), version: String::new() };
    std::fs::write(paths.lock_file(), stale.line()).unwrap();
    let _running = tokio::spawn(life.run(|_, _| async { Ok(Double::new()) }));
    capped(listening).await.unwrap();
    assert_eq!(LockContent::parse(&lock_text(&paths)).unwrap().pid, std::process::id());
    tokio::net::UnixStream::connect(paths.socket()).await.unwrap();
}

#[tokio::test]
async fn an_engine_that_does_not_start_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (life, _listening) = life(folder.path(), "");
    let paths = life.paths.clone();
    let failing = |_, _| async { Err::<Double, _>(crate::engine::EngineError::Internal("no".into())) };
    assert!(matches!(capped(life.run(failing)).await, Err(DaemonError::Engine(_))));
    assert!(!paths.socket().exists() && lock_text(&paths).is_empty());
    assert!(!crate::protocol::lock::is_held(&paths.lock_file()).unwrap());
}

#[tokio::test]
async fn a_stop_is_refused_while_commands_run_and_forced_it_tells_their_callers() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "").await;
    let (worker, stopper) = (daemon.client().await, daemon.client().await);
    let mut events = worker.watch().await.unwrap();
    let mut items = worker.exec(command("hold")).await.unwrap();
    next(&mut items).await;
    let refused = stopper.call(Shutdown { force: false }).await.unwrap();
    assert!(!refused.stopping && refused.running.len() == 1);
    let reply = capped(stopper.call(Shutdown { force: true })).await.unwrap();
    assert!(reply.stopping && daemon.double.heard().shut_down, "the reply comes when it is done");
    assert_eq!(finish(&mut items).await.unwrap().2.outcome, Outcome::Cancelled { ended_by: EndedBy::Daemon });
    let mut seen = Vec::new();
    while let Some(event) = capped(events.recv()).await {
        seen.push(event);
    }
    assert_eq!(seen.iter().filter(|event| **event == Event::Stopping).count(), 1);
    assert!(matches!(seen.last(), Some(Event::Process { .. })), "what happened at the end is told: {seen:?}");
    capped(daemon.running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_cannot_hold_up_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "").await;
    let (deaf, stopper) = (daemon.client().await, daemon.client().await);
    let mut items = deaf.exec(command("flood 100000000")).await.unwrap();
    next(&mut items).await;
    stopper.call(Shutdown { force: true }).await.unwrap();
    capped(daemon.running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_changed_config_is_taken_up_and_a_broken_one_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "").await;
    let client = daemon.client().await;
    let mut events = client.watch().await.unwrap();
    let mut told = async || {
        loop {
            match capped(events.recv()).await.unwrap() {
                Event::Notice { notice } => return notice,
                Event::Config => {}
                other => panic!("{other:?}"),
            }
        }
    };
    std::fs::write(&daemon.config, "nonsense_key: 1\n").unwrap();
    let broken = told().await;
    assert_eq!(broken.level, crate::model::Level::Alert);
    assert!(broken.message.contains("nonsense_key"), "{}", broken.message);
    assert_eq!(daemon.double.heard().reloads, 0);
    std::fs::write(&daemon.config, "idle_exit: 5m\n").unwrap();
    assert!(told().await.message.contains("in force"));
    assert_eq!(daemon.double.heard().reloads, 1);
    assert!(client.call(OverviewCall {}).await.unwrap().notices.len() == 2);
}

#[tokio::test]
async fn a_socket_that_is_removed_is_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "").await;
    let client = daemon.client().await;
    for _ in 0..2 {
        std::fs::remove_file(daemon.paths.socket()).unwrap();
        until(&client, || daemon.paths.socket().exists()).await;
        daemon.client().await.call(OverviewCall {}).await.unwrap();
    }
    std::fs::remove_dir_all(&daemon.paths.runtime).unwrap();
    until(&client, || daemon.paths.socket().exists()).await;
    daemon.client().await.call(Shutdown::default()).await.unwrap();
    capped(daemon.running).await.unwrap().unwrap();
    assert!(!daemon.paths.socket().exists());
}

#[tokio::test]
async fn a_state_folder_that_is_wiped_does_not_hide_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "").await;
    let client = daemon.client().await;
    let found = || {
        let text = std::fs::read(daemon.paths.lock_file()).unwrap_or_default();
        LockContent::parse(&text).is_some_and(|content| content.socket.exists())
            && crate::protocol::lock::is_held(&daemon.paths.lock_file()).unwrap()
    };
    for wiped in [vec![daemon.paths.lock_file()], vec![daemon.paths.socket(), daemon.paths.lock_file()]] {
        wiped.iter().for_each(|file| std::fs::remove_file(file).unwrap());
        until(&client, found).await;
        daemon.client().await.call(OverviewCall {}).await.unwrap();
    }
    std::fs::remove_dir_all(&daemon.paths.state).unwrap();
    until(&client, found).await;
    daemon.client().await.call(Shutdown::default()).await.unwrap();
    capped(daemon.running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_daemon_whose_place_is_taken_ends_when_it_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "").await;
    let client = daemon.client().await;
    // The lock goes from one file to the other without a moment in which nobody holds it.
    let other = daemon.paths.lock_file().with_extension("other");
    let _held = crate::protocol::lock::try_take(&other).unwrap().unwrap();
    std::fs::rename(&other, daemon.paths.lock_file()).unwrap();
    let mut events = client.watch().await.unwrap();
    while !matches!(capped(events.recv()).await.unwrap(), Event::Notice { notice } if notice.message.contains("place")) {}
    assert!(!daemon.running.is_finished(), "a client is there");
    drop((client, events));
    capped(daemon.running).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_idle_daemon_ends_by_itself_once_clients_and_commands_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = daemon(folder.path(), "idle_exit: 1s\n").await;
    let client = daemon.client().await;
    let mut items = client.exec(command("hold")).await.unwrap();
    next(&mut items).await;
    assert!(!daemon.running.is_finished());
    drop(items);
    drop(client);
    capped(daemon.running).await.unwrap().unwrap();
    assert_eq!(daemon.double.heard().ended.len(), 1);
    assert!(!daemon.paths.socket().exists());
}

#[tokio::test]
async fn a_client_or_a_process_or_no_limit_keeps_an_idle_daemon() {
    use crate::daemon::idle::idle;
    let bench = Bench::new();
    let (sender, limits) = tokio::sync::watch::channel(None);
    let mut waiting = std::pin::pin!(idle(&bench.hub, limits));
    let mut waits = || futures::FutureExt::now_or_never(&mut waiting).is_none();
    assert!(waits(), "no limit");
    let client = bench.hub.count_client();
    assert!(waits());
    sender.send_replace(Some(Duration::ZERO));
    assert!(waits(), "a client");
    let who = crate::model::Who { kind: crate::model::WhoKind::Agent, name: "a".into(), peer_pid: None };
    let exec = Exec { command: "hold".into(), ..Exec::default() };
    let process = crate::daemon::Service::exec(&bench.double, who, exec, None).await.unwrap().process;
    drop(client);
    assert!(waits(), "a process");
    bench.double.emit(Event::Process { process: Box::new(process.clone()) });
    assert!(waits(), "still");
    crate::daemon::Service::end(&bench.double, &process.id, EndedBy::Operator, Duration::ZERO).await.unwrap();
    capped(waiting).await;
}
