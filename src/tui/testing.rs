//! States and values for tests.

use super::effect::Effect;
use super::input::decode::Decoder;
use super::input::keymap::{DEFAULT_LEADER, Keymap};
use super::state::apply::Msg;
use super::state::{Facts, State};
use super::theme::{Look, Theme};
use crate::model::*;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// 2026-11-30 08:53:12 UTC.
pub(super) const NOW: Millis = 1_796_028_792_000;

pub(super) fn backend(slot: u32, name: &str, kind: BackendKind, address: &str, state: HealthState) -> BackendInfo {
    BackendInfo {
        name: name.to_owned(),
        slot,
        kind,
        address: address.to_owned(),
        tags: Vec::new(),
        capabilities: Capabilities::default(),
        health: Health { state, since: NOW - 60_000, round_trip_us: Some(23_000), ..Health::default() },
        shell: Some("bash 5.2".to_owned()),
        running: 0,
    }
}

pub(super) fn overview() -> Overview {
    let mut gpu = backend(2, "gpu", BackendKind::Ssh, "lab@gpu.lab:22", HealthState::Reconnecting);
    gpu.health.next_try = Some(NOW + 14_000);
    gpu.health.attempt = 4;
    gpu.health.reason = Some("no answer for 10 s".to_owned());
    let mut day = backend(3, "day", BackendKind::Ssh, "ada@day.lab:22", HealthState::Down);
    day.health.reason = Some("the key was refused".to_owned());
    day.health.fix = Some("put a key that it accepts under key:".to_owned());
    Overview {
        daemon: DaemonInfo {
            pid: 42,
            version: "0.1.0".to_owned(),
            state_dir: "/state".to_owned(),
            host: "lap".to_owned(),
            ..DaemonInfo::default()
        },
        default_backend: "local".to_owned(),
        backends: vec![
            backend(0, "local", BackendKind::Local, "", HealthState::Up),
            backend(1, "web", BackendKind::Ssh, "deploy@web:22", HealthState::Up),
            gpu,
            day,
        ],
        processes: Vec::new(),
        sessions: vec![
            SessionInfo {
                backend: "local".to_owned(),
                name: "main".to_owned(),
                cwd: "/home/ada/proj".to_owned(),
                generation: 3,
                running: 0,
            },
            SessionInfo {
                backend: "web".to_owned(),
                name: "main".to_owned(),
                cwd: "/home/deploy/srv/app".to_owned(),
                generation: 3,
                running: 0,
            },
        ],
        told: Vec::new(),
        notices: Vec::new(),
        prompts: Vec::new(),
    }
}

pub(super) fn blank(width: u16, height: u16, look: Look) -> State {
    let (keymap, _) = Keymap::new(DEFAULT_LEADER, &BTreeMap::new());
    let facts = Facts { home: Some("/home/ada".to_owned()), fleet: Some("lab".to_owned()), ..Facts::default() };
    let mut state = State::new((width, height), Theme::new(look), keymap, TimeZone::UTC, facts);
    state.now = NOW;
    state.mono = 10_000;
    state
}

/// A connected state of four backends at 160x45.
pub(super) fn state() -> State {
    sized(160, 45)
}

pub(super) fn sized(width: u16, height: u16) -> State {
    let mut state = blank(width, height, Look::default());
    state.apply(Msg::Connected { epoch: 1, overview: Box::new(overview()) });
    state
}

pub(super) fn pane_of(state: &State, backend: &str) -> usize {
    state.backend_index(backend).unwrap()
}

pub(super) fn process(id: &str, backend: &str, command: &str) -> ProcessInfo {
    ProcessInfo {
        id: id.to_owned(),
        backend: backend.to_owned(),
        session: "main".to_owned(),
        command: command.to_owned(),
        who: Who { kind: WhoKind::Operator, name: "you".to_owned(), peer_pid: None },
        state: ProcessState::Running,
        started: NOW - 42_000,
        ended: None,
        pid: Some(77),
        stray: None,
        timeout_ms: None,
        variables: Vec::new(),
        restarts: 0,
        output_bytes: 0,
        reads_stdin: false,
        background: false,
        detached: false,
        notify: false,
        watch: Vec::new(),
        cwd: String::new(),
        exit_code_meaning: None,
        warnings: Vec::new(),
        hints: Vec::new(),
    }
}

/// A process of the operator starts.
pub(super) fn run(state: &mut State, id: &str, backend: &str, command: &str, order: i64) {
    let mut info = process(id, backend, command);
    info.started = NOW - 60_000 + order * 1000;
    state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
}

/// Output of a process is read.
pub(super) fn output(state: &mut State, id: &str, bytes: &[u8]) {
    let offset = state.blocks[id].next;
    let total = offset + bytes.len() as u64;
    state.apply(Msg::Event(Event::Output { process: id.to_owned(), total }));
    let chunk = Chunk { offset, total, bytes: bytes.to_vec(), ..Chunk::default() };
    let epoch = state.epoch;
    state.apply(Msg::Read { epoch, process: id.to_owned(), chunk: Ok(Box::new(chunk)) });
}

/// A process ran, wrote and ended with a code.
pub(super) fn ended(state: &mut State, id: &str, code: i32) {
    let mut info = state.blocks[id].info.clone();
    info.ended = Some(info.started + 340);
    info.output_bytes = state.blocks[id].total;
    info.state = ProcessState::Ended(Outcome::Exited { exit_code: code });
    state.apply(Msg::Event(Event::Process { process: Box::new(info) }));
}

/// A process ran, wrote and ended with 0.
pub(super) fn ran(state: &mut State, id: &str, backend: &str, command: &str, order: i64, bytes: &[u8]) {
    run(state, id, backend, command, order);
    if !bytes.is_empty() {
        output(state, id, bytes);
    }
    ended(state, id, 0);
}

/// Types bytes; gives what they make the state want.
pub(super) fn typed(state: &mut State, bytes: &[u8]) -> Vec<Effect> {
    let mut decoder = Decoder::default();
    let mut events = decoder.feed(bytes);
    events.extend(decoder.flush());
    events.into_iter().flat_map(|e| state.input(e)).collect()
}
