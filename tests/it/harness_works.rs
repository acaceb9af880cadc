//! The harness itself: what the other suites build on does what it says.

use crate::harness::proxy::Proxy;
use crate::harness::pty::Pty;
use crate::harness::run::{Running, clean};
use crate::harness::{lab, procs, wait};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

fn bash(script: &str) -> Pty {
    Pty::start(Pty::command(&["bash".into(), "--norc".into(), "-c".into(), script.into()]), 10, 40)
}

#[test]
fn a_program_runs_with_its_streams_apart_and_without_a_terminal() {
    let mut command = clean(OsStr::new("bash"));
    command.args(["-c", "cat; echo e >&2; (: </dev/tty) 2>/dev/null || echo no tty; trap; exit 3"]);
    let done = Running::start(command, b"in\n".to_vec()).done();
    assert_eq!((done.code, done.out().as_str(), done.err().as_str()), (Some(3), "in\nno tty\n", "e\n"));
}

#[test]
fn a_program_gets_signals_and_is_ended_with_its_handle() {
    let start = || {
        let mut command = clean(OsStr::new("bash"));
        command.args(["-c", "trap 'echo int; exit 7' INT; echo up; while :; do read -t 0.05 <> <(:); done"]);
        let mut running = Running::start(command, Vec::new());
        running.wait_out("up");
        running
    };
    let running = start();
    running.signal(Signal::SIGINT);
    assert_eq!(running.done().code, Some(7));
    let running = start();
    let process = procs::Proc::find(running.pid()).expect("it runs");
    drop(running);
    assert!(!process.alive());
}

#[test]
fn a_terminal_shows_what_a_person_sees() {
    let mut pty = bash("printf 'size '; stty size; read -r line </dev/tty; printf '\\033[2Jgot %s' \"$line\"; exit 4");
    pty.wait_text("size 10 40");
    pty.send("word\r");
    let screen = pty.wait_text("got word");
    assert!(!screen.contains("size"), "{screen}");
    assert_eq!(pty.end().code(), Some(4));
    pty.assert_restored();
}

#[test]
fn a_terminal_can_be_resized_and_interrupted_and_answers_questions() {
    let mut pty = bash(
        "trap 'stty size </dev/tty' WINCH; trap 'echo bye; exit 5' INT; stty -echo; printf '\\033[3;5H\\033[6n'; read -r -d R pos; echo \"at ${pos#?}\"; while :; do read -t 0.05 <> <(:); done",
    );
    pty.wait_text("at [3;5");
    assert_eq!(pty.not_restored(), ["no echo"]);
    pty.resize(20, 60);
    pty.wait_text("20 60");
    pty.send("\x03");
    pty.wait_text("bye");
    assert_eq!(pty.end().code(), Some(5));
}

#[test]
fn a_terminal_left_in_disorder_is_noticed() {
    let mut pty = bash("stty raw -echo; printf '\\033[?1049h\\033[?25l\\033[?1000h\\033[?2004hx'");
    pty.wait_text("x");
    pty.end();
    let bad = ["raw mode", "no echo", "no signals from keys", "alternate screen", "hidden cursor", "bracketed paste", "mouse reports"];
    assert_eq!(pty.not_restored(), bad);
}

#[test]
fn the_proxy_delays_freezes_and_resets() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let proxy = Proxy::to(listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for link in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut to = link.try_clone().expect("a descriptor can be copied");
                std::io::copy(&mut { link }, &mut to)
            });
        }
    });
    let mut link = std::net::TcpStream::connect(("127.0.0.1", proxy.port())).expect("the proxy listens");
    link.set_read_timeout(Some(Duration::from_millis(200))).expect("a time-out can be set");
    let mut echo = |byte: u8| {
        let began = Instant::now();
        link.write_all(&[byte]).expect("the proxy reads");
        let mut back = [0];
        link.read_exact(&mut back).map(|()| (back[0], began.elapsed()))
    };
    assert_eq!(echo(1).expect("an answer").0, 1);
    proxy.delay(Duration::from_millis(40));
    let (byte, took) = echo(2).expect("an answer");
    assert!(byte == 2 && took >= Duration::from_millis(80), "{took:?}");
    proxy.delay(Duration::ZERO);
    proxy.freeze();
    assert!(echo(3).is_err());
    proxy.thaw();
    let mut back = [0];
    link.read_exact(&mut back).expect("what had waited");
    assert_eq!(back, [3]);
    proxy.reset();
    wait::until("the end of the connection", wait::CAP, || matches!(link.read(&mut [0]), Ok(0) | Err(_)).then_some(()));
    assert_eq!(proxy.accepted(), 1);
}

#[test]
fn the_labs_machines_are_machines_of_their_own() {
    let Some(machines) = lab::share(2) else { return };
    let ask = |m: &lab::Machine| {
        let done = m.ssh().arg("cat /proc/sys/kernel/random/boot_id; echo $$; hostname").output().expect("ssh starts");
        assert!(done.status.success(), "{}: {}", m.name, String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (one, two) = (ask(&machines[0]), ask(&machines[1]));
    assert_ne!(one[0], two[0]);
    assert_eq!([&one[2], &two[2]], [&machines[0].name, &machines[1].name]);
}

#[test]
fn a_machine_can_be_lost_and_comes_back() {
    let Some(machines) = lab::alone(1) else { return };
    let machine = &machines[0];
    let answer = || {
        let done = machine.ssh().args(["-o", "ConnectTimeout=1", "cat /proc/sys/kernel/random/boot_id"]).output().expect("ssh starts");
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let first = answer().expect("it answers");
    for (lose, regain) in [("blackhole", "unblackhole"), ("cut", "mend"), ("off", "on")] {
        machine.ctl(&[lose]);
        assert_eq!(answer(), None, "{lose}");
        machine.ctl(&[regain]);
        let again = wait::until(regain, wait::CAP, answer);
        assert_eq!(again == first, lose != "off", "{lose}");
    }
    std::fs::write(machine.folder("tmp").join("x"), "x").expect("its /tmp can be written");
    machine.ctl(&["reboot"]);
    assert!(!machine.folder("tmp").join("x").exists());
    machine.ctl(&["slow", "150"]);
    let began = Instant::now();
    assert!(answer().is_some());
    assert!(began.elapsed() >= Duration::from_millis(300));
}
