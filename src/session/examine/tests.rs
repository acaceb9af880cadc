//! The checks on real shells of this machine.

use super::*;
use crate::backend::fake::Fake;
use crate::backend::local::Local;

async fn findings(backend: Arc<dyn Backend>, path: Option<Vec<u8>>) -> Vec<Finding> {
    let (tell, mut told) = mpsc::channel(64);
    let start = Duration::from_secs(10);
    let work = async { examine(Examination { backend: &backend, shell: ShellChoice::Auto, start, path, tell: &tell }).await };
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends");
    drop(tell);
    let mut all = Vec::new();
    while let Some(finding) = told.recv().await {
        all.push(finding);
    }
    all
}

fn names(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.check.as_str()).collect()
}

fn of<'f>(findings: &'f [Finding], check: &str) -> &'f Finding {
    findings.iter().find(|finding| finding.check == check).unwrap_or_else(|| panic!("no {check} in {findings:#?}"))
}

#[tokio::test]
async fn a_whole_place_has_every_check_and_no_failure() {
    let local: Arc<dyn Backend> = Arc::new(Local::new(crate::backend::ClientEnv::default()));
    let all = findings(local, None).await;
    assert_eq!(names(&all), checks(true));
    assert!(all.iter().all(|f| f.verdict == Verdict::Ok || f.verdict == Verdict::Warn), "{all:#?}");
    assert!(of(&all, "shell").fact.contains("ready after"), "{all:#?}");
    assert!(of(&all, "kill").fact.contains("processes of our own ended and seen gone"), "{all:#?}");
    assert!(of(&all, "login_environment").fact.contains("PATH has /"), "{all:#?}");
    assert!(of(&all, "limits").fact.contains("open files"), "{all:#?}");
}

#[tokio::test]
async fn a_far_place_has_its_link_looked_at_too() {
    let fake = Fake::new("far");
    fake.check().await.expect("it connects");
    let all = findings(fake, Some(b"/only/here".to_vec())).await;
    assert_eq!(names(&all), checks(false));
    assert!(all.iter().all(|f| f.verdict == Verdict::Ok || f.verdict == Verdict::Warn), "{all:#?}");
    assert!(of(&all, "clock").fact.contains("within 2 s"), "{all:#?}");
    assert!(of(&all, "round_trip").fact.contains("of 5"), "{all:#?}");
    assert!(of(&all, "throughput").fact.contains("iB/s"), "{all:#?}");
    let login = of(&all, "login_environment");
    assert!(login.verdict == Verdict::Warn && login.fact.contains("session main lacks /"), "{login:#?}");
}

#[tokio::test]
async fn after_a_shell_that_does_not_come_the_rest_is_skipped() {
    let why = crate::backend::BackendError::new(ErrorKind::NoShell, "no shell here").with_fix("give it one");
    let absent: Arc<dyn Backend> = Arc::new(crate::backend::absent::Absent::new("x", crate::model::BackendKind::Docker, why));
    let all = findings(absent, None).await;
    assert_eq!(names(&all), checks(false));
    assert_eq!((all[0].verdict, all[0].fact.as_str(), all[0].fix.as_deref()), (Verdict::Fail, "no shell here", Some("give it one")));
    assert!(all[1..].iter().all(|f| f.verdict == Verdict::Skipped && f.fact == "the step `shell` failed"), "{all:#?}");
}

#[test]
fn gaps_are_filled_and_comments_go() {
    let script = "# @A@\nx @A@ y @B@\n";
    assert_eq!(fill(script, &[("@A@", b"1\n2"), ("@B@", b"@A@")]), b"x 1\n2 y @A@\n");
}

/// A small file system of a test's own; none where this may not be made (it needs root).
struct Small {
    dir: tempfile::TempDir,
}

impl Small {
    fn mount(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a folder");
        let done = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(dir.path()).output();
        if done.is_ok_and(|done| done.status.success()) {
            return Some(Self { dir });
        }
        eprintln!("skipped: no file system can be mounted here");
        None
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        std::process::Command::new("umount").arg(self.dir.path()).status().ok();
    }
}

async fn state_folder(home: &std::path::Path) -> Finding {
    let local: Arc<dyn Backend> = Arc::new(Local::new(crate::backend::ClientEnv::default()));
    let (tell, _told) = mpsc::channel(1);
    let start = Duration::from_secs(10);
    let examination = Examination { backend: &local, shell: ShellChoice::Auto, start, path: None, tell: &tell };
    let homes = crate::session::files::Homes { home: Some(home.to_str().expect("text").into()), state: None };
    examination.state_folder(homes).await.expect("it is looked at")
}

fn is_empty(dir: &std::path::Path) -> bool {
    std::fs::read_dir(dir).expect("it is there").next().is_none()
}

#[tokio::test]
async fn a_folder_that_is_not_there_yet_is_not_made() {
    let home = tempfile::tempdir().expect("a folder");
    let finding = state_folder(home.path()).await;
    assert!(finding.verdict == Verdict::Ok && finding.fact.contains("/.local/state/quarterdeck, "), "{finding:?}");
    assert!(is_empty(home.path()));
}

#[tokio::test]
async fn full_read_only_and_noexec_places_are_told() {
    let Some(full) = Small::mount("size=32k") else { return };
    let finding = state_folder(full.dir.path()).await;
    assert!(finding.verdict == Verdict::Warn && finding.fact.contains("(No space left on device)"), "{finding:?}");
    assert!(finding.fact.starts_with("/var/tmp/quarterdeck-") && is_empty(full.dir.path()), "{finding:?}");

    let Some(locked) = Small::mount("ro") else { return };
    let finding = state_folder(locked.dir.path()).await;
    assert!(finding.verdict == Verdict::Warn && finding.fact.contains("(Read-only file system)"), "{finding:?}");

    let Some(still) = Small::mount("noexec") else { return };
    let finding = state_folder(still.dir.path()).await;
    assert!(finding.verdict == Verdict::Ok && finding.fact.contains("programs in it cannot be run"), "{finding:?}");
    assert!(is_empty(still.dir.path()));
}

#[tokio::test]
async fn little_processes_end_when_the_check_is_given_up() {
    let local: Arc<dyn Backend> = Arc::new(Local::new(crate::backend::ClientEnv::default()));
    let (tell, _told) = mpsc::channel(1);
    let examination = Examination { backend: &local, shell: ShellChoice::Auto, start: Duration::from_secs(10), path: None, tell: &tell };
    let found = || {
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        entries
            .filter(|e| {
                std::fs::read(e.path().join("environ"))
                    .is_ok_and(|env| env.windows(25).any(|w| w == b"QD_PROCESS=doctor-given-up"[..25].as_ref()))
            })
            .count()
    };
    // As the check starts them, then dropped with nobody who ends them.
    let script = String::from_utf8(fill(include_str!("../../../assets/examine-kill.sh"), &[("@ID@", b"doctor-given-up")])).expect("text");
    let errand = examination.errand("start processes");
    let answer =
        tokio::time::timeout(Duration::from_secs(30), errand.run(|_, _, _| script.into_bytes())).await.expect("it ends with its stdin");
    assert!(answer.is_ok_and(|answer| answer.stdout.split(|b| *b == b' ').count() >= 1));
    tokio::time::timeout(Duration::from_secs(15), async {
        while found() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("they are gone long before they would end by themselves");
}
