//! Outputs looked through by a real engine, in time that the tests move.

use super::*;
use crate::config::Config;
use crate::model::{Event, ProcessState, Stream, Told, Who, WhoKind};
use crate::paths::{Paths, Vars};
use tokio::sync::{broadcast, mpsc};

/// An engine and the events that it tells.
struct Rig {
    _folder: tempfile::TempDir,
    core: Arc<Core>,
    events: broadcast::Receiver<Event>,
}

/// A process of it, whose output a test writes.
struct Process {
    id: String,
    log: Arc<Log>,
}

impl Rig {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let vars = [("HOME", text("")), ("QD_STATE_DIR", text("state")), ("QD_RUNTIME_DIR", text("run"))];
        let paths = Paths::resolve(&Vars::from_pairs(vars)).unwrap();
        paths.ensure().unwrap();
        let core = Core::start(Config::default(), paths, None).await.unwrap();
        let events = core.shared.events.subscribe();
        Self { _folder: folder, core, events }
    }

    /// Has the output of a new process looked through.
    fn process(&self, id: &str, watch: &[&str], notify: bool) -> Process {
        let log = Log::create(self.core.shared.paths.logs().join(format!("{id}.log")), 1 << 30);
        let info = ProcessInfo {
            id: id.into(),
            backend: "local".into(),
            session: "main".into(),
            command: "serve".into(),
            who: Who { kind: WhoKind::Agent, name: "script".into(), peer_pid: None },
            state: ProcessState::Running,
            started: self.core.shared.clock.now(),
            ended: None,
            pid: None,
            output_bytes: 0,
            stray: None,
            timeout_ms: None,
            variables: Vec::new(),
            restarts: 0,
            reads_stdin: false,
            background: false,
            detached: false,
            notify,
            watch: watch.iter().map(|p| (*p).to_owned()).collect(),
            cwd: "/".into(),
            exit_code_meaning: None,
            warnings: vec![],
            hints: vec![],
        };
        self.core.state().table.add(info, log.clone(), mpsc::channel(1).0, watch::channel(false).1);
        self.core.look_through(id, 0);
        Process { id: id.into(), log }
    }

    async fn end(&self, process: &Process) {
        process.log.finish();
        self.core.looked_through(&process.id).await;
        {
            let mut state = self.core.state();
            let entry = state.table.get_mut(&process.id).unwrap();
            entry.info.state = ProcessState::Ended(crate::model::Outcome::Exited { exit_code: 3 });
            entry.info.ended = Some(self.core.shared.clock.now());
        }
        self.core.tell_end(&process.id);
    }

    /// What is told next, and when it came, in milliseconds of the engine's clock.
    async fn told(&mut self) -> Told {
        loop {
            if let Event::Told { told } = self.events.recv().await.unwrap() {
                return *told;
            }
        }
    }

    /// Whether nothing was told.
    fn is_quiet(&mut self) -> bool {
        std::iter::from_fn(|| self.events.try_recv().ok()).all(|event| !matches!(event, Event::Told { .. }))
    }
}

impl Process {
    async fn say(&self, text: &str) {
        self.log.append(Stream::Out, text.as_bytes()).await;
    }
}

fn lines(told: &Told) -> (usize, u64) {
    match &told.news {
        News::Matched { lines, dropped } => (lines.len(), *dropped),
        other => panic!("no match: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_match_is_told_at_once_and_what_follows_at_the_windows_end() {
    let mut rig = Rig::new().await;
    let p = rig.process("k7f3q2", &["ready", "re:^E[0-9]"], false);
    p.say("not yet\nrea").await;
    p.say("dy to go\nmore\n").await;
    let first = rig.told().await;
    assert_eq!(first.news, News::Matched { lines: vec!["ready to go".into()], dropped: 0 });
    assert_eq!(first.of.as_ref().map(|of| (of.process.as_str(), of.command.as_str())), Some(("k7f3q2", "serve")));
    p.say("E1 a\nE2 b\nx E3\n").await;
    let second = rig.told().await;
    assert_eq!(second.news, News::Matched { lines: vec!["E1 a".into(), "E2 b".into()], dropped: 0 });
    assert!(second.at - first.at >= 15_000, "{} {}", first.at, second.at);
    p.say("E4 without an end").await;
    rig.end(&p).await;
    let last = rig.told().await;
    assert_eq!(last.news, News::Matched { lines: vec!["E4 without an end".into()], dropped: 0 });
    assert!(last.at - second.at < 15_000, "the last is told at the end");
    let heard = rig.core.state().table.find(&p.id).unwrap().told.clone();
    assert_eq!(heard.after(None).await.number, first.number);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_matches_turns_the_watch_off_and_says_so() {
    let mut rig = Rig::new().await;
    let p = rig.process("k7f3q2", &["x"], false);
    let flood = "x\n".repeat(1_000);
    let began = rig.core.shared.clock.now();
    let mut told = Vec::new();
    loop {
        p.say(&flood).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        while let Ok(event) = rig.events.try_recv() {
            if let Event::Told { told: one } = event {
                told.push(*one);
            }
        }
        assert!(rig.core.shared.clock.now() - began < 100_000, "{told:?}");
        if told.iter().any(|one| matches!(one.news, News::WatchOff { .. })) {
            break;
        }
    }
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!((lines(&told[0]), lines(&told[1]).0), ((20, 0), 20));
    assert!(lines(&told[1]).1 > 10_000 && lines(&told[3]).1 > 10_000);
    assert!((44_000..50_000).contains(&(told[4].at - began)), "{}", told[4].at - began);
    assert!(rig.core.state().table.find(&p.id).unwrap().info.watch.is_empty());
    p.say(&flood).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(rig.is_quiet(), "it is off");
}

#[tokio::test(start_paused = true)]
async fn all_together_are_quiet_for_a_while_and_a_wait_hears_its_own_all_the_same() {
    let mut rig = Rig::new().await;
    let all: Vec<Process> = (0..20).map(|n| rig.process(&format!("process{n:02}"), &["x"], false)).collect();
    for p in &all {
        p.say("x\n").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut told = Vec::new();
    for _ in 0..17 {
        told.push(rig.told().await);
    }
    assert!(told[..15].iter().all(|one| lines(one) == (1, 0)), "{told:?}");
    assert_eq!((&told[15].news, &told[16].news), (&News::Quiet { for_ms: 30_000 }, &News::QuietOver { lines: 5 }));
    assert!((30_000..31_000).contains(&(told[16].at - told[15].at)));
    let queue = rig.core.state().table.find("process19").unwrap().told.clone();
    assert_eq!(lines(&queue.after(None).await), (1, 0));
    all[0].say("x\n").await;
    assert_eq!(rig.told().await.of.map(|of| of.process).as_deref(), Some("process00"));
    let known = rig.core.overview().told;
    assert_eq!((known.len(), known[15].number), (18, told[15].number), "who comes later sees them");
}

#[tokio::test(start_paused = true)]
async fn the_end_is_told_once_by_whoever_reaches_it() {
    let mut rig = Rig::new().await;
    let p = rig.process("aaaaaa", &[], true);
    p.say(&format!("{} ghp_{}\n", "ü".repeat(3_000), "aB3".repeat(12))).await;
    rig.end(&p).await;
    let told = rig.told().await;
    let News::Ended { outcome, output, truncated, .. } = &told.news else { panic!("{told:?}") };
    assert_eq!((outcome.process_exit_code(), output.chars().count(), *truncated), (3, 2_000, true));
    assert!(output.starts_with('ü') && output.ends_with("ü [redacted]\n"), "{output}");
    rig.core.tell_end(&p.id);
    drop(rig.core.waits(&p.id).unwrap());

    let p = rig.process("bbbbbb", &[], true);
    let waiting = rig.core.waits("bbbb").unwrap();
    let another = rig.core.waits("bbbb").unwrap();
    rig.end(&p).await;
    drop(another);
    waiting.delivered();

    let p = rig.process("cccccc", &[], true);
    let waiting = rig.core.waits("cccc").unwrap();
    rig.end(&p).await;
    assert!(rig.is_quiet(), "a wait is about to tell it");
    drop(waiting);
    let told = rig.told().await;
    assert_eq!(told.of.map(|of| of.process).as_deref(), Some("cccccc"), "the wait went without having told it");

    let p = rig.process("dddddd", &[], false);
    rig.end(&p).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(rig.is_quiet(), "nobody asked for it");
}
