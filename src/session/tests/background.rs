//! Background processes behind a link that breaks, with bash and with sh.

use super::{Rig, command, until};
use crate::backend::fake::Fake;
use crate::backend::{Ask, Backend, ShellChoice};
use crate::model::Outcome;
use crate::session::{Begin, Cap, FollowSettings, Followed, Follower, Heard, Input, Session, Spot, Stdin, write_input};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

const CAP: Cap = Cap { head: 1 << 20, tail: 1 << 17 };

/// A far side with this shell.
fn far(shell: ShellChoice) -> (Rig, Arc<Fake>) {
    let mut rig = Rig::new();
    let fake = Fake::new("box");
    rig.settings.shell = shell;
    rig.settings.env.insert("XDG_STATE_HOME".into(), rig.home().to_str().unwrap().into());
    rig.backend = fake.clone();
    (rig, fake)
}

/// What is heard of one process, over as many followers as it takes.
struct Ear {
    backend: Arc<dyn Backend>,
    settings: FollowSettings,
    followed: Followed,
    follower: Option<Follower>,
    text: Vec<u8>,
    ended: Option<Outcome>,
    gaps: Vec<(u64, u64)>,
}

impl Ear {
    fn new(rig: &Rig, spot: Spot) -> Self {
        let settings = FollowSettings { shell: rig.settings.shell, timeout: Duration::from_secs(20), cap: CAP };
        let followed = Followed { spot, offset: 0, kept: 0 };
        Self { backend: rig.backend.clone(), settings, followed, follower: None, text: Vec::new(), ended: None, gaps: Vec::new() }
    }

    /// Listens until this holds.
    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let listening = async {
            while !holds(self) {
                self.once().await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(30), listening).await.is_ok(), "never: {what}");
    }

    async fn once(&mut self) {
        let list = [self.followed.clone()];
        let mut follower = match self.follower.take() {
            Some(follower) => follower,
            None => Follower::open(&self.backend, &self.settings, &list[0].spot.root).await.unwrap(),
        };
        if follower.ask(&list).await.is_err() {
            return;
        }
        let wake = Notify::new();
        loop {
            match follower.next(&list, &wake).await {
                Ok(None) => break,
                Ok(Some((id, heard))) => {
                    assert_eq!(id, list[0].spot.id);
                    match heard {
                        Heard::Output(bytes) => {
                            self.followed.offset += bytes.len() as u64;
                            self.text.extend(bytes);
                        }
                        Heard::Gap(len) => {
                            self.gaps.push((self.followed.offset, len));
                            self.followed.offset += len;
                        }
                        Heard::Ended { outcome, .. } => self.ended = Some(outcome),
                    }
                }
                // The link is gone: the next one goes on.
                Err(_) => return,
            }
        }
        self.follower = Some(follower);
    }

    fn has(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.text).contains(text)
    }
}

async fn launch(session: &Arc<Session>, text: &str, stdin: Stdin) -> Spot {
    session.launch(&command(text), Begin { stdin, cap: CAP }, &|_| Box::pin(async {})).await.unwrap().spot
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_followed_over_links_to_its_end() {
    for shell in [ShellChoice::Auto, ShellChoice::Sh] {
        let (rig, fake) = far(shell);
        let s = rig.session("main");
        rig.run(&s, "export A=7; cd /usr").await;
        let spot = launch(&s, "echo \"$A $PWD\"; read -r x; echo \"got $x\"; exit 9", Stdin::Open).await;
        let mut ear = Ear::new(&rig, spot.clone());
        ear.until("its first line", |ear| ear.has("7 /usr\n")).await;
        fake.lose("the cable was pulled");
        assert!(write_input(&rig.backend, &ear.settings, &spot, b"a\0b\n", false).await.unwrap());
        ear.until("its end", |ear| ear.ended.is_some()).await;
        // A NUL goes through; what a shell's `read` makes of it is its own affair.
        assert!(ear.has("7 /usr\ngot a"), "{:?}", String::from_utf8_lossy(&ear.text));
        assert_eq!(ear.ended, Some(Outcome::Exited { exit_code: 9 }));
        assert!(!write_input(&rig.backend, &ear.settings, &spot, b"more", false).await.unwrap(), "it has ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_it_is_ended() {
    for shell in [ShellChoice::Auto, ShellChoice::Sh] {
        let (rig, fake) = far(shell);
        let s = rig.session("main");
        let spot = launch(&s, "trap '' TERM; (sleep 1000 &); echo up; while :; do sleep 0.1; done", Stdin::Open).await;
        let mut ear = Ear::new(&rig, spot.clone());
        ear.until("its first line", |ear| ear.has("up")).await;
        fake.knows(spot.pid);
        let done = rig.backend.family(spot.family(), Ask::End { grace: Duration::from_millis(100) }).await.unwrap();
        assert!(done.verified, "{done:?}");
        ear.until("its end", |ear| ear.ended.is_some()).await;
        until("the end of all", || !super::alive(spot.pid)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_brought_is_its_stdin() {
    for shell in [ShellChoice::Auto, ShellChoice::Sh] {
        let (rig, _fake) = far(shell);
        let s = rig.session("main");
        let command = command("cat; echo end");
        let (send, receive) = mpsc::channel(2);
        let bring = s.bring_input(&command.id, Input::from(receive));
        let feed = async move {
            send.send(b"one\0".to_vec()).await.unwrap();
            send.send(b"two\n".to_vec()).await.unwrap();
        };
        let (brought, ()) = tokio::join!(bring, feed);
        assert_eq!(brought.unwrap(), 8);
        let spot = s.launch(&command, Begin { stdin: Stdin::Brought, cap: CAP }, &|_| Box::pin(async {})).await.unwrap().spot;
        let mut ear = Ear::new(&rig, spot);
        ear.until("its end", |ear| ear.ended.is_some()).await;
        assert_eq!(ear.text, b"one\0two\nend\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_over_its_cap_there_is_stepped_over() {
    for shell in [ShellChoice::Auto, ShellChoice::Sh] {
        let (rig, _fake) = far(shell);
        let s = rig.session("main");
        // Bytes of their own at every place: nine to a line.
        let spot =
            launch(&s, "echo up; until [ -e \"$XDG_STATE_HOME/go\" ]; do sleep 0.05; done; seq 10000000 10999999", Stdin::Empty).await;
        let mut ear = Ear::new(&rig, spot.clone());
        ear.until("its first line", |ear| ear.has("up")).await;
        // Nobody follows while it writes nine times the cap.
        ear.follower = None;
        std::fs::write(rig.home().join("go"), "").unwrap();
        let log = std::path::Path::new(&spot.root).join(&spot.id).join("log");
        until("all of it", || std::fs::metadata(&log).unwrap().len() == 9_000_003).await;
        ear.until("its end", |ear| ear.ended.is_some()).await;
        let [(from, len)] = ear.gaps[..] else { panic!("{:?}", ear.gaps) };
        assert_eq!(from + len, 9_000_003 - CAP.tail);
        assert!(from >= CAP.head, "the head is whole");
        let mut whole = b"up\n".to_vec();
        (10_000_000..11_000_000).for_each(|i| whole.extend(format!("{i}\n").bytes()));
        let (head, tail) = ear.text.split_at(usize::try_from(from).unwrap());
        assert!(whole.starts_with(head) && whole.ends_with(tail) && tail.len() as u64 == CAP.tail);
    }
}
