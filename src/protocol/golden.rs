//! One encoded example of each message.
//!
//! Invariant: lines are only appended. A line that no longer reads back means that old clients and daemons no longer
//! understand each other: then the protocol's number goes up instead.

use super::calls::{self, CallError, ErrorCode};
use super::frame::{self, FRAME_CAP, Frame, FrameReader, Kind};
use super::hello::{ClientEnv, Hello, Reason, Refused, Welcome};
use super::launch::{LockContent, Report};
use super::message::{AnyRequest, Bye, Request};
use crate::model::{Event, Stream};
use serde::{Serialize, de::DeserializeOwned};

/// Frames: name, then the bytes.
const FRAMES: &[(&str, &[u8])] = &[
    ("hello", b"\x00\x00\x00\x07\x01\x00\x00\x00\x00{}"),
    ("welcome", b"\x00\x00\x00\x07\x02\x00\x00\x00\x00{}"),
    ("refused", b"\x00\x00\x00\x07\x03\x00\x00\x00\x00{}"),
    ("request", b"\x00\x00\x00\x07\x04\x00\x00\x00\x01{}"),
    ("reply", b"\x00\x00\x00\x07\x05\x00\x00\x00\x01{}"),
    ("error", b"\x00\x00\x00\x07\x06\x00\x00\x00\x01{}"),
    ("item", b"\x00\x00\x00\x07\x07\x00\x00\x00\x01{}"),
    ("event", b"\x00\x00\x00\x07\x08\x00\x00\x00\x01{}"),
    ("cancel", b"\x00\x00\x00\x05\x09\x00\x00\x00\x01"),
    ("data", b"\x00\x00\x00\x10\x0a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01\x00\x01hi"),
    ("end", b"\x00\x00\x00\x05\x0b\x00\x00\x00\x01"),
    ("credit", b"\x00\x00\x00\x09\x0c\x00\x00\x00\x01\x00\x08\x00\x00"),
    ("forget", b"\x00\x00\x00\x05\x0d\x00\x00\x00\x01"),
    ("part", b"\x00\x00\x00\x07\x0e\x00\x00\x00\x01{}"),
    ("env", b"\x00\x00\x00\x07\x0f\x00\x00\x00\x00{}"),
    ("bye", b"\x00\x00\x00\x07\x10\x00\x00\x00\x00{}"),
    ("opened", b"\x00\x00\x00\x05\x11\x00\x00\x00\x01"),
];

#[tokio::test]
async fn golden_frames_still_read() {
    for (i, (name, bytes)) in FRAMES.iter().enumerate() {
        let mut reader = FrameReader::new(std::io::Cursor::new(bytes.to_vec()), FRAME_CAP);
        let frame = reader.next().await.unwrap().unwrap();
        let again = match &frame {
            Frame::Message { kind, stream, payload } => {
                assert_eq!(*kind as usize, i + 1, "{name}");
                [&frame::head(*kind, *stream, payload.len())[..], payload].concat()
            }
            Frame::Data { stream, offset, tag, bytes } => {
                assert_eq!((*offset, *tag), (256, Stream::Err));
                [&frame::data_head(*stream, *offset, *tag, bytes.len())[..], bytes].concat()
            }
        };
        assert_eq!(again, *bytes, "{name}");
    }
    assert!(Kind::from_byte(FRAMES.len() as u8 + 1).is_none(), "a new kind has no golden frame");
}

/// Reads the golden text, and writes the value again: the golden fields must still be there.
fn check<T: Serialize + DeserializeOwned>(golden: &str) -> T {
    let value: T = serde_json::from_str(golden).unwrap_or_else(|error| panic!("{golden}: {error}"));
    let again = serde_json::to_value(&value).unwrap();
    let old: serde_json::Value = serde_json::from_str(golden).unwrap();
    assert_holds(&again, &old, golden);
    value
}

fn assert_holds(new: &serde_json::Value, old: &serde_json::Value, golden: &str) {
    match (new, old) {
        (serde_json::Value::Object(new), serde_json::Value::Object(old)) => {
            for (name, value) in old {
                assert_holds(new.get(name).unwrap_or_else(|| panic!("{name} is gone: {golden}")), value, golden);
            }
        }
        _ => assert_eq!(new, old, "{golden}"),
    }
}

#[test]
fn golden_words_of_the_connection_still_read() {
    let hello: Hello = check(
        r#"{"protocol_min":1,"protocol_max":1,"version":"0.1.0","kind":"cli","agent":"builder","terminal":false,"cwd":"/srv","config":"/etc/qd.yaml","pid":7}"#,
    );
    assert_eq!((hello.protocol_min, hello.protocol_max, hello.pid), (1, 1, 7));
    let welcome: Welcome = check(r#"{"protocol":1,"version":"0.1.0","pid":7,"config":null,"client_env":["SSH_AUTH_SOCK","LC_*"]}"#);
    assert_eq!(welcome.protocol, 1);
    for (word, reason) in [
        ("protocol", Reason::Protocol),
        ("config", Reason::Config),
        ("peer", Reason::Peer),
        ("stopping", Reason::Stopping),
        ("other", Reason::Other),
    ] {
        let refused: Refused = check(&format!(r#"{{"reason":"{word}","message":"no"}}"#));
        assert_eq!(refused.reason, reason);
    }
    let env: ClientEnv = check(r#"{"variables":[["LANG","C"]]}"#);
    assert_eq!(env.variables, [("LANG".to_owned(), "C".to_owned())]);
    let bye: Bye = check(r#"{"message":"it was stopped"}"#);
    assert_eq!(bye.message, "it was stopped");
    check::<LockContent>(r#"{"pid":7,"socket":"/run/user/0/quarterdeck/qd-1.sock","version":"0.1.0"}"#);
    check::<Report>(r#"{"daemon":"ready","pid":7}"#);
    check::<Report>(r#"{"daemon":"bad_config","message":"config.yaml:3: ..."}"#);
    check::<Report>(r#"{"daemon":"failed","message":"..."}"#);
}

#[test]
fn golden_errors_still_read() {
    for (word, code) in [
        ("unknown_method", ErrorCode::UnknownMethod),
        ("bad_parameters", ErrorCode::BadParameters),
        ("not_found", ErrorCode::NotFound),
        ("usage", ErrorCode::Usage),
        ("config", ErrorCode::Config),
        ("unavailable", ErrorCode::Unavailable),
        ("refused", ErrorCode::Refused),
        ("internal", ErrorCode::Internal),
        ("outdated", ErrorCode::Outdated),
    ] {
        let error: CallError = check(&format!(r#"{{"code":"{word}","message":"m","fix":"f"}}"#));
        assert_eq!(error.code, code);
    }
}

#[test]
fn golden_events_still_read() {
    for golden in [
        r#"{"event":"backend","backend":{"name":"gpu","slot":1,"kind":"ssh","address":"ada@gpu:22","tags":["x"],"capabilities":{"pty":true,"separate_streams":true,"verified_kill":true,"same_files":false},"health":{"state":"up","since":1,"attempt":0,"next_try":null,"round_trip_us":90,"last_heard":2,"reason":null,"fix":null},"shell":"bash 5.2","running":1}}"#,
        r#"{"event":"process","process":{"id":"k7f3","backend":"local","session":"main","command":"true","who":{"kind":"agent","name":"script","peer_pid":7},"state":"running","started":1,"pid":9,"output_bytes":0,"reads_stdin":false,"cwd":"/"}}"#,
        r#"{"event":"output","process":"k7f3","total":12}"#,
        r#"{"event":"process","process":{"id":"k7f3","backend":"local","session":"main","command":"true","who":{"kind":"agent","name":"script","peer_pid":7},"state":"unknown","started":1,"pid":9,"output_bytes":0,"reads_stdin":false,"background":true,"detached":true,"cwd":"/"}}"#,
        r#"{"event":"session","session":{"backend":"gpu","name":"main","cwd":"/srv","generation":3,"running":0}}"#,
        r#"{"event":"session_closed","backend":"gpu","name":"main"}"#,
        r#"{"event":"config"}"#,
        r#"{"event":"notice","notice":{"at":1,"level":"alert","backend":"gpu","message":"m"}}"#,
        r#"{"event":"lagged"}"#,
        r#"{"event":"stopping"}"#,
        r#"{"event":"prompt","prompt":{"id":7,"backend":"gpu","address":"ada@gpu:22","question":{"kind":"passphrase","key":"/k","again":false}}}"#,
        r#"{"event":"prompt","prompt":{"id":7,"backend":"gpu","address":"a","question":{"kind":"password","again":true}}}"#,
        r#"{"event":"prompt","prompt":{"id":7,"backend":"gpu","address":"a","question":{"kind":"challenge","name":"n","instructions":"i","fields":[{"label":"l","echo":true}],"round":1,"may_keep":false}}}"#,
        r#"{"event":"prompt","prompt":{"id":7,"backend":"gpu","address":"a","question":{"kind":"host_key","host":"gpu","key":{"key_type":"ssh-ed25519","fingerprint":"SHA256:x","authority":"SHA256:y"},"file":"/f"}}}"#,
        r#"{"event":"prompt","prompt":{"id":7,"backend":"gpu","address":"a","question":{"kind":"host_key_changed","host":"gpu","key":{"key_type":"ssh-ed25519","fingerprint":"SHA256:x"},"known":[{"place":"/f:1","key_type":"ssh-rsa","fingerprint":"SHA256:z","marker":"@revoked"}]}}}"#,
        r#"{"event":"prompt_closed","id":7}"#,
        r#"{"event":"prompt","prompt":{"id":7,"backend":"gpu","address":"a","question":{"kind":"password","again":true},"waiting":["run make"]}}"#,
        r#"{"event":"process","process":{"id":"b2c4","backend":"gpu","session":"main","command":"sleep 600","who":{"kind":"agent","name":"script"},"state":"stray","stray":{"of":"k7f3","pids":[7,9]},"started":1,"output_bytes":0,"detached":true,"cwd":"/"}}"#,
        r#"{"event":"process","process":{"id":"b2c4","backend":"gpu","session":"main","command":"sleep 600","who":{"kind":"agent","name":"script"},"state":"running","stray":{"of":"k7f3","pids":[7],"adopted_by":{"kind":"operator","name":"you"}},"started":1,"background":true,"detached":true,"cwd":"/"}}"#,
        r#"{"event":"process","process":{"id":"k7f3","backend":"local","session":"main","command":"true","who":{"kind":"agent","name":"script"},"state":"running","started":1,"notify":true,"watch":["ready","re:^E[0-9]+"]}}"#,
        r#"{"event":"told","told":{"number":7,"at":1,"of":{"process":"k7f3","backend":"gpu","session":"main","command":"make","who":{"kind":"agent","name":"script","peer_pid":7}},"news":{"news":"ended","outcome":"exited","exit_code":2,"output":"x","truncated":true,"duration_ms":812}}}"#,
        r#"{"event":"told","told":{"number":8,"at":1,"of":{"process":"k7f3","backend":"gpu","session":"main","command":"make","who":{"kind":"operator","name":"you"}},"news":{"news":"matched","lines":["listening on 80"],"dropped":3}}}"#,
        r#"{"event":"told","told":{"number":9,"at":1,"of":{"process":"k7f3","backend":"gpu","session":"main","command":"make","who":{"kind":"operator","name":"you"}},"news":{"news":"watch_off","reason":"r"}}}"#,
        r#"{"event":"told","told":{"number":10,"at":1,"news":{"news":"quiet","for_ms":30000}}}"#,
        r#"{"event":"told","told":{"number":11,"at":1,"news":{"news":"quiet_over","lines":12}}}"#,
    ] {
        check::<Event>(golden);
    }
}

/// Requests: one of each method, in the order of the calls.
const REQUESTS: &[&str] = &[
    r#"{"method":"exec","params":{"exec":{"backend":"gpu","session":"main","command":"make","workdir":"/srv","client_cwd":"/home","timeout_ms":1000,"env":[["A","b"]],"stdin":true,"split":true,"max_output_bytes":0,"description":"d"},"follow":true}}"#,
    r#"{"method":"overview","params":{}}"#,
    r#"{"method":"watch","params":{}}"#,
    r#"{"method":"read","params":{"read":{"process":"k7f3","start":{"offset":7},"max":100}}}"#,
    r#"{"method":"follow","params":{"process":"k7f3","start":{"tailbytes":100},"until_end":true}}"#,
    r#"{"method":"wait","params":{"processes":["k7f3"],"timeout_ms":10}}"#,
    r#"{"method":"wait_input","params":{"process":"k7f3"}}"#,
    r#"{"method":"kill","params":{"processes":["k7f3"],"signal":"INT","grace_ms":2000}}"#,
    r#"{"method":"find","params":{"backend":"gpu"}}"#,
    r#"{"method":"adopt","params":{"process":"k7f3"}}"#,
    r#"{"method":"send","params":{"process":"k7f3","text":"y\n","eof":true,"expect_offset":7}}"#,
    r#"{"method":"recheck","params":{"process":"k7f3"}}"#,
    r#"{"method":"connect","params":{"backend":"gpu"}}"#,
    r#"{"method":"disconnect","params":{"backend":"gpu"}}"#,
    r#"{"method":"session_show","params":{"backend":"gpu","session":"main"}}"#,
    r#"{"method":"session_reset","params":{"backend":"gpu","session":"main"}}"#,
    r#"{"method":"session_close","params":{"backend":"gpu","session":"main"}}"#,
    r#"{"method":"complete","params":{"backend":"gpu","session":"main","word":"ma","command":true}}"#,
    r#"{"method":"answer","params":{"id":7,"answer":{"answer":"texts","texts":["s"],"keep":true}}}"#,
    r#"{"method":"host_keys","params":{"backend":"gpu","look":true}}"#,
    r#"{"method":"host_key_change","params":{"backend":"gpu","change":"replace","fingerprint":"SHA256:x"}}"#,
    r#"{"method":"shutdown","params":{"force":true}}"#,
    r#"{"method":"doctor","params":{"backend":"gpu"}}"#,
];

#[test]
fn golden_requests_still_read() {
    fn again<C: calls::Call>(golden: &str) {
        let request = AnyRequest::parse(golden.as_bytes()).unwrap();
        assert_eq!(request.method, C::METHOD);
        let params: C = request.params().unwrap();
        let new = serde_json::to_value(Request { method: C::METHOD, params }).unwrap();
        assert_holds(&new, &serde_json::from_str(golden).unwrap(), golden);
    }
    let readers: &[fn(&str)] = &[
        again::<calls::ExecCall>,
        again::<calls::OverviewCall>,
        again::<calls::Watch>,
        again::<calls::Read>,
        again::<calls::Follow>,
        again::<calls::Wait>,
        again::<calls::WaitInput>,
        again::<calls::Kill>,
        again::<calls::FindCall>,
        again::<calls::AdoptCall>,
        again::<calls::SendCall>,
        again::<calls::Recheck>,
        again::<calls::Connect>,
        again::<calls::Disconnect>,
        again::<calls::SessionShow>,
        again::<calls::SessionReset>,
        again::<calls::SessionClose>,
        again::<calls::Complete>,
        again::<calls::AnswerCall>,
        again::<calls::HostKeysCall>,
        again::<calls::HostKeyChangeCall>,
        again::<calls::Shutdown>,
        again::<calls::Doctor>,
    ];
    assert_eq!((REQUESTS.len(), readers.len()), (calls::METHODS.len(), calls::METHODS.len()), "a call has no golden request");
    for ((golden, again), method) in REQUESTS.iter().zip(readers).zip(calls::METHODS) {
        assert!(golden.contains(method));
        again(golden);
    }
    again::<calls::ExecCall>(r#"{"method":"exec","params":{"exec":{"command":"make","background":true,"yield_ms":1000}}}"#);
    again::<calls::ExecCall>(r#"{"method":"exec","params":{"exec":{"command":"make","background":true,"notify":true,"watch":["re:^E"]}}}"#);
    again::<calls::Wait>(r#"{"method":"wait","params":{"processes":["k7f3"],"told":true}}"#);
}

#[test]
fn golden_replies_still_read() {
    check::<crate::model::ExecResult>(
        r#"{"process_id":"k7f3","backend":"gpu","session":"main","outcome":"exited","exit_code":1,"exit_code_meaning":"no lines matched","output":"x","truncated":false,"total_bytes":1,"next_offset":1,"output_path":"/l","cwd":"/srv","generation":42,"duration_ms":812,"timeout_ms":180000,"warnings":[{"code":"orphans_left","message":"m","pids":[3],"names":["n"]}],"hints":[{"code":"c","message":"m"}]}"#,
    );
    check::<crate::model::Chunk>(
        r#"{"offset":1,"total":9,"ended":true,"skipped":0,"runs":[{"stream":"out","len":8},{"stream":"err","len":0}]}"#,
    );
    check::<crate::model::Overview>(
        r#"{"daemon":{"pid":7,"version":"0.1.0","started":1,"config":"/c","state_dir":"/s","host":"h"},"default_backend":"local","backends":[],"processes":[],"sessions":[],"notices":[]}"#,
    );
    check::<crate::model::Overview>(r#"{"told":[{"number":1,"at":1,"news":{"news":"quiet_over","lines":1}}]}"#);
    check::<crate::model::Told>(r#"{"number":1,"at":1,"news":{"news":"quiet","for_ms":30000}}"#);
    check::<crate::model::SessionDetail>(
        r#"{"info":{"backend":"gpu","name":"main","cwd":"/srv","generation":3,"running":0},"variables":[["A","declare -x A=b"]],"functions":["f"],"aliases":[["ll","ls -l"]],"options":["shopt -s nullglob"],"umask":"0022"}"#,
    );
    check::<calls::LogItem>(r#"{"file":"/l"}"#);
    check::<calls::LogItem>(r#"{"kept":{"offset":1,"runs":[{"stream":"out","len":8}]}}"#);
    check::<crate::model::HostKeys>(
        r#"{"backend":"gpu","host":"gpu","standing":"changed","shown":{"key_type":"ssh-ed25519","fingerprint":"SHA256:x"},"known":[],"file":"/f"}"#,
    );
    for answer in [r#"{"answer":"cancel"}"#, r#"{"answer":"trust","save":true}"#] {
        check::<crate::model::Answer>(answer);
    }
    check::<calls::Killed>(
        r#"{"id":"k7f3","backend":"local","session":"main","command":"true","who":{"kind":"agent","name":"script"},"state":"running","started":1,"signalled":[7,9]}"#,
    );
    check::<calls::Found>(r#"{"strays":[],"others":[7]}"#);
    check::<crate::model::Warning>(r#"{"code":"orphans_left","message":"m","pids":[3],"stray":"b2c4"}"#);
    check::<calls::Killed>(
        r#"{"id":"k7f3","backend":"gpu","session":"main","command":"true","who":{"kind":"agent","name":"script"},"state":"unknown","started":1,"failed":{"code":"unavailable","message":"m","fix":"f"}}"#,
    );
    check::<calls::Sent>(
        r#"{"id":"k7f3","backend":"local","session":"main","command":"cat","who":{"kind":"agent","name":"script"},"state":"running","started":1,"waiting":3}"#,
    );
    check::<calls::ShutdownReply>(r#"{"stopping":true,"running":[]}"#);
    for verdict in ["ok", "warn", "fail", "skipped"] {
        check::<crate::model::Finding>(&format!(r#"{{"backend":"gpu","check":"port","verdict":"{verdict}","fact":"f","fix":"x"}}"#));
    }
}

#[test]
fn golden_outcomes_still_read() {
    for golden in [
        r#"{"outcome":"exited","exit_code":0}"#,
        r#"{"outcome":"signaled","signal":"SIGKILL"}"#,
        r#"{"outcome":"timed_out"}"#,
        r#"{"outcome":"cancelled","ended_by":"operator"}"#,
        r#"{"outcome":"cancelled","ended_by":"client"}"#,
        r#"{"outcome":"cancelled","ended_by":"client_gone"}"#,
        r#"{"outcome":"cancelled","ended_by":"daemon"}"#,
        r#"{"outcome":"transport_lost","reason":"r"}"#,
        r#"{"outcome":"spawn_failed","reason":"r"}"#,
        r#"{"outcome":"backend_unavailable","reason":"r"}"#,
        r#"{"outcome":"cancelled","ended_by":"agent"}"#,
        r#"{"outcome":"running"}"#,
        r#"{"outcome":"lost","reason":"r"}"#,
        r#"{"outcome":"code_unknown"}"#,
    ] {
        check::<crate::model::Outcome>(golden);
    }
}
