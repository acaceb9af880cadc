//! Tables for the folders and names on disk. Invariant: none of them touches a folder outside its temporary one.

use super::*;

fn resolve(pairs: &[(&str, &str)], run_user: &Path) -> Result<Paths, PathError> {
    Paths::resolve_at(&Vars::from_pairs(pairs.iter().copied()), run_user)
}

#[test]
fn folders_follow_the_environment() {
    let nowhere = Path::new("/nonexistent");
    let host = host_name();
    type Row<'r> = (&'r [(&'r str, &'r str)], &'r str, String);
    let table: &[Row<'_>] = &[
        (&[("HOME", "/h")], "/h/.local/state/quarterdeck", format!("/h/.local/state/quarterdeck/run/{host}")),
        (&[("HOME", "/h"), ("XDG_STATE_HOME", "/x")], "/x/quarterdeck", format!("/x/quarterdeck/run/{host}")),
        (&[("HOME", "/h"), ("XDG_STATE_HOME", "rel")], "/h/.local/state/quarterdeck", format!("/h/.local/state/quarterdeck/run/{host}")),
        (&[("HOME", "/h"), ("XDG_STATE_HOME", "")], "/h/.local/state/quarterdeck", format!("/h/.local/state/quarterdeck/run/{host}")),
        (&[("HOME", "/h"), ("QD_STATE_DIR", "/s"), ("XDG_STATE_HOME", "/x")], "/s", format!("/s/run/{host}")),
        (&[("HOME", "/h"), ("QD_STATE_DIR", "/s"), ("QD_RUNTIME_DIR", "/r")], "/s", "/r".to_owned()),
    ];
    for (pairs, state, runtime) in table {
        let paths = resolve(pairs, nowhere).unwrap();
        assert_eq!((paths.state.as_path(), paths.runtime.as_path()), (Path::new(state), Path::new(runtime)), "{pairs:?}");
    }
}

#[test]
fn a_bare_environment_finds_what_a_full_one_finds() {
    let six = [("HOME", "/h"), ("LOGNAME", "a"), ("PATH", "/bin"), ("SHELL", "/bin/sh"), ("TERM", "dumb"), ("USER", "a")];
    let run = tempfile::tempdir().unwrap();
    std::fs::create_dir(run.path().join(uid().to_string())).unwrap();
    let full: Vec<_> = six.iter().copied().chain([("XDG_RUNTIME_DIR", "/somewhere"), ("LANG", "C")]).collect();
    let bare = resolve(&six, run.path()).unwrap();
    let full = resolve(&full, run.path()).unwrap();
    assert_eq!(bare, full);
    assert_eq!(bare.socket(), full.socket());
    assert_eq!(bare.runtime, run.path().join(uid().to_string()).join("quarterdeck"));
}

#[test]
fn without_home_the_password_database_is_asked() {
    let expected = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().map(|user| user.dir);
    for vars in [Vars::default(), Vars::from_pairs([("HOME", "")]), Vars::from_pairs([("HOME", "relative")])] {
        assert_eq!(vars.home(), expected);
    }
}

#[test]
fn relative_folders_are_refused() {
    for name in ["QD_STATE_DIR", "QD_RUNTIME_DIR"] {
        let error = resolve(&[("HOME", "/h"), (name, "some/where")], Path::new("/nonexistent")).unwrap_err();
        assert_eq!(error.to_string(), format!("{name} must be an absolute path, not \"some/where\""));
    }
}

#[test]
fn a_run_folder_of_another_is_not_used() {
    let run = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/tmp", run.path().join(uid().to_string())).unwrap();
    let paths = resolve(&[("HOME", "/h")], run.path()).unwrap();
    assert!(paths.runtime.starts_with("/h/.local/state"), "{paths:?}");
}

#[test]
fn sockets_differ_by_state_and_stay_short() {
    let paths = |state: &str, runtime: &str| Paths { state: state.into(), runtime: runtime.into(), host: "h".into() };
    let one = paths("/a", "/r").socket();
    assert_ne!(one, paths("/b", "/r").socket());
    assert_ne!(one, Paths { host: "g".into(), ..paths("/a", "/r") }.socket());
    assert_eq!(one, paths("/a", "/r").socket());
    assert_eq!(one.parent().unwrap(), Path::new("/r"));
    let long = format!("/{}", "x".repeat(120));
    let short = paths("/a", &long).socket();
    assert!(short.as_os_str().len() <= SOCKET_MAX, "{short:?}");
    assert_eq!(short, paths("/a", &long).socket());
    assert_ne!(short, paths("/a", &format!("{long}y")).socket());
    for length in 60..110 {
        let runtime = format!("/{}", "y".repeat(length));
        assert!(paths("/a", &runtime).socket().as_os_str().len() <= SOCKET_MAX);
    }
}

#[test]
fn folders_are_made_private_and_tightened() {
    let root = tempfile::tempdir().unwrap();
    let paths = Paths::under(root.path());
    std::fs::create_dir(&paths.state).unwrap();
    std::fs::set_permissions(&paths.state, std::fs::Permissions::from_mode(0o755)).unwrap();
    paths.ensure().unwrap();
    paths.ensure().unwrap();
    for folder in [&paths.state, &paths.runtime, &paths.sessions(), &paths.logs(), &paths.log_dir()] {
        assert_eq!(std::fs::metadata(folder).unwrap().mode() & 0o7777, 0o700, "{folder:?}");
    }
}

#[test]
fn a_file_in_the_way_is_named() {
    let root = tempfile::tempdir().unwrap();
    let paths = Paths::under(root.path());
    std::fs::write(&paths.state, "").unwrap();
    let expected = format!("{} is not a folder: move it away, or set QD_STATE_DIR", paths.state.display());
    assert_eq!(paths.ensure().unwrap_err().to_string(), expected);
}

#[test]
fn a_folder_of_another_account_is_refused() {
    let Some(strange) = ["/", "/proc"].into_iter().find(|path| std::fs::metadata(path).unwrap().uid() != uid()) else {
        // Run as root these are ours: a folder given away stands in for them.
        let root = tempfile::tempdir().unwrap();
        let given = root.path().join("given");
        std::fs::create_dir(&given).unwrap();
        std::os::unix::fs::chown(&given, Some(12345), None).unwrap();
        let text = ensure_folder(&given, "QD_STATE_DIR", false).unwrap_err().to_string();
        assert!(text.ends_with("belongs to uid 12345, not to you (uid 0): set QD_STATE_DIR to a folder of your own"), "{text}");
        return;
    };
    let text = ensure_folder(Path::new(strange), "QD_STATE_DIR", false).unwrap_err().to_string();
    assert!(text.contains("belongs to uid"), "{text}");
}

#[test]
fn a_link_is_refused_where_anyone_may_write() {
    let root = tempfile::tempdir().unwrap();
    let (real, link) = (root.path().join("real"), root.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    assert!(matches!(ensure_folder(&link, "QD_RUNTIME_DIR", true), Err(PathError::NotFolder { .. })));
    ensure_folder(&link, "QD_STATE_DIR", false).unwrap();
}

#[test]
fn the_id_is_made_once() {
    let root = tempfile::tempdir().unwrap();
    let paths = Paths::under(root.path());
    paths.ensure().unwrap();
    let ids: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| paths.daemon_id().unwrap())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(is_id(&ids[0]), "{ids:?}");
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let file = paths.state.join("daemon-id");
    assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    std::fs::write(&file, "cut").unwrap();
    let anew = paths.daemon_id().unwrap();
    assert!(is_id(&anew) && anew != ids[0]);
    assert_eq!(paths.daemon_id().unwrap(), anew);
    let left: Vec<_> = std::fs::read_dir(&paths.state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn variables_are_never_shown() {
    let shown = format!("{:?}", Vars::from_pairs([("API_KEY", "hunter2hunter2")]));
    assert!(shown.contains("API_KEY") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_wrong_setting_and_a_wrong_folder_exit_differently() {
    let relative = resolve(&[("HOME", "/h"), ("QD_STATE_DIR", "rel")], Path::new("/nonexistent")).unwrap_err();
    assert_eq!(Report::from(relative).exit_code(), 78);
    let root = tempfile::tempdir().unwrap();
    let paths = Paths::under(root.path());
    std::fs::write(&paths.state, "").unwrap();
    assert_eq!(Report::from(paths.ensure().unwrap_err()).exit_code(), 125);
}
