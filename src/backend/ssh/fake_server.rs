//! A ssh server of the tests that asks questions: keyboard-interactive in rounds, passwords, a key as the first factor. (A real
//! sshd asks them only through PAM, whose set-up is the machine's own.)

use super::rig::Rig;
use russh::keys::PrivateKey;
use russh::server::{Auth, Config, Handler, Response, Server, Session, VerifiedPublicKey};
use russh::{MethodKind, MethodSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// A password.
    Password,
    /// A password as a question, then a code and a word in one round, then nothing but a notice.
    Rounds,
    /// Any key, then a code.
    KeyAndCode,
}

/// A running server; ends with its last holder.
pub(super) struct FakeServer {
    /// Where it listens.
    pub(super) port: u16,
    /// What it heard, in order.
    pub(super) heard: Arc<Mutex<Vec<String>>>,
    _stop: tokio_util::sync::DropGuard,
}

#[derive(Clone)]
struct Door {
    wants: Wants,
    heard: Arc<Mutex<Vec<String>>>,
    round: u32,
}

impl FakeServer {
    /// Starts one with the host key of a rig.
    pub(super) async fn start(rig: &Rig, wants: Wants) -> Self {
        let key = std::fs::read_to_string(rig.path("host_ed25519")).expect("a key");
        let config = Config {
            auth_rejection_time: Duration::from_millis(1),
            auth_rejection_time_initial: Some(Duration::ZERO),
            keys: vec![PrivateKey::from_openssh(key).expect("a key")],
            methods: match wants {
                Wants::Password => MethodSet::from(&[MethodKind::Password][..]),
                Wants::Rounds => MethodSet::from(&[MethodKind::KeyboardInteractive][..]),
                Wants::KeyAndCode => MethodSet::from(&[MethodKind::PublicKey][..]),
            },
            ..Config::default()
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bind");
        let port = listener.local_addr().expect("an address").port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let mut door = Door { wants, heard: heard.clone(), round: 0 };
        let stop = tokio_util::sync::CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                done = door.run_on_socket(Arc::new(config), &listener) => drop(done),
            }
        });
        Self { port, heard, _stop: stop.drop_guard() }
    }

    /// Takes what it heard.
    pub(super) fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().expect("whole"))
    }
}

impl Server for Door {
    type Handler = Self;

    fn new_client(&mut self, _peer: Option<std::net::SocketAddr>) -> Self {
        self.clone()
    }
}

impl Door {
    fn note(&self, what: String) {
        self.heard.lock().expect("whole").push(what);
    }

    fn no(&self, partial_success: bool) -> Auth {
        let methods = match (self.wants, partial_success) {
            (Wants::Password, _) => MethodKind::Password,
            (Wants::KeyAndCode, false) => MethodKind::PublicKey,
            _ => MethodKind::KeyboardInteractive,
        };
        Auth::Reject { proceed_with_methods: Some(MethodSet::from(&[methods][..])), partial_success }
    }

    fn ask(name: &'static str, instructions: &'static str, prompts: Vec<(&'static str, bool)>) -> Auth {
        Auth::Partial {
            name: name.into(),
            instructions: instructions.into(),
            prompts: prompts.into_iter().map(|(text, echo)| (text.into(), echo)).collect::<Vec<_>>().into(),
        }
    }
}

impl Handler for Door {
    type Error = russh::Error;

    async fn auth_password(&mut self, _user: &str, password: &str) -> Result<Auth, russh::Error> {
        self.note(format!("password {password}"));
        Ok(if password == "hunter2" { Auth::Accept } else { self.no(false) })
    }

    async fn auth_publickey(&mut self, _user: &str, _key: VerifiedPublicKey<'_>) -> Result<Auth, russh::Error> {
        if self.wants != Wants::KeyAndCode {
            return Ok(self.no(false));
        }
        self.note("key".into());
        Ok(self.no(true))
    }

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        _user: &str,
        _submethods: &str,
        response: Option<Response<'a>>,
    ) -> Result<Auth, russh::Error> {
        let given: Option<Vec<String>> =
            response.map(|r| r.into_iter().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect());
        self.note(format!("answer {given:?}"));
        let given = given.unwrap_or_default();
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        self.round += 1;
        Ok(match (self.wants, self.round, &given[..]) {
            (Wants::Rounds, 1, []) => Self::ask("", "", vec![("Password: ", false)]),
            (Wants::Rounds, 2, ["hunter2"]) => {
                Self::ask("second", "from your \x1b[2Jdevice", vec![("Verification code: ", false), ("Colour: ", true)])
            }
            (Wants::Rounds, 3, ["123456", "blue"]) => Self::ask("", "look at your telephone", vec![]),
            (Wants::Rounds, 4, []) => Auth::Accept,
            (Wants::KeyAndCode, 1, []) => Self::ask("", "", vec![("Verification code: ", false)]),
            (Wants::KeyAndCode, 2, ["123456"]) => Auth::Accept,
            _ => {
                self.round = 0;
                self.no(false)
            }
        })
    }

    async fn auth_succeeded(&mut self, _session: &mut Session) -> Result<(), russh::Error> {
        self.note("in".into());
        Ok(())
    }
}
