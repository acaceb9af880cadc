//! The life of a session.

use super::{Rig, command};

#[tokio::test]
async fn state_carries_over() {
    let rig = Rig::new();
    let s = rig.session("main");
    let done = rig.run(&s, "export A='one two'; cd /usr; f() { echo F; }; alias q='echo Q'; echo hi").await;
    assert_eq!((done.code(), done.output.as_str(), done.ended.cwd.as_str()), (0, "hi\n", "/usr"), "{:?}", done.ended.warnings);
    let done = rig.run(&s, "echo \"$A $PWD\"; f; q; env | grep -c QD_PROCESS").await;
    assert_eq!((done.code(), done.output.as_str()), (0, "one two /usr\nF\nQ\n1\n"), "{:?}", done.ended.warnings);
    let _ = command("x");
}
