//! Tests of the watcher: what is read, and when its thread ends. `tests/it/reload.rs` has the ways in which files are saved.

use std::fs;
use std::io::Write as _;
use std::sync::mpsc;

use super::*;

/// Ends a test that would hang.
const BOUND: Duration = Duration::from_secs(20);

/// A folder that the user named.
fn given(folder: PathBuf) -> Folders {
    Folders { given: vec![folder], usual: None }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("the file can be written");
}

#[test]
fn unfit_files_are_told_and_never_block() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    fs::write(path("bytes.toml"), b"title = \"\xff\"").expect("it can be written");
    fs::create_dir(path("folder.toml")).expect("it can be made");
    fs::File::create(path("huge.toml")).and_then(|file| file.set_len(LARGEST_FILE + 1)).expect("it can be written");
    write(&path("notes.txt"), "");
    write(&path(".hidden.toml"), "");
    #[cfg_attr(windows, expect(unused_mut))]
    let mut expected =
        vec![("bytes.toml", "file/not-utf8"), ("folder.toml", "file/not-regular"), ("huge.toml", "file/too-large")];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nowhere", path("link.toml")).expect("it can be linked");
        expected.push(("link.toml", "file/unreadable"));
        let made = std::process::Command::new("mkfifo").arg(path("pipe.toml")).status();
        if made.is_ok_and(|status| status.success()) {
            expected.push(("pipe.toml", "file/not-regular"));
        }
    }
    let read = read_directory(directory.path());
    let found: Vec<_> = read
        .iter()
        .map(|(path, text)| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            (name, text.as_ref().expect_err("it is unfit").code)
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_folder_that_nobody_asked_for_may_come_later_and_go_again() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let later = directory.path().join("scenarios");
    let (sender, changes) = mpsc::channel();
    let folders = Folders { given: Vec::new(), usual: Some(later.clone()) };
    let (_watcher, files) = Watcher::start(folders, move |files| {
        let _ = sender.send(files.len());
    })
    .expect("a thread can be started");
    assert!(files.is_empty(), "no file and no problem: {files:?}");
    fs::create_dir(&later).expect("it can be made");
    write(&later.join("a.toml"), "one");
    assert_eq!(changes.recv_timeout(BOUND), Ok(1));
    fs::remove_dir_all(&later).expect("it can be removed");
    assert_eq!(changes.recv_timeout(BOUND), Ok(0));
    // A missing folder that the user named is a problem.
    assert_eq!(given(later).read().len(), 1);
}

#[test]
fn a_quiet_directory_stays_quiet_and_dropping_ends_the_thread() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("a.toml");
    write(&file, "one");
    let (sender, changes) = mpsc::channel();
    let watcher = Watcher::start(given(directory.path().to_owned()), move |files| {
        let _ = sender.send(files.len());
    });
    // Reading and touching are events, and change nothing. The file is never empty in between, as `write` would leave it.
    for _ in 0..5 {
        assert!(read_file(&file).is_ok());
        let same = fs::OpenOptions::new().write(true).open(&file).and_then(|mut file| file.write_all(b"one"));
        same.expect("the file can be written");
    }
    drop(watcher);
    assert!(changes.try_recv().is_err());
}

#[test]
fn dropping_does_not_wait_for_a_thread_that_is_held_up() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (entered, entries) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let (watcher, _) = Watcher::start(given(directory.path().to_owned()), move |_| {
        let _ = entered.send(());
        let _ = released.recv();
    })
    .expect("a thread can be started");
    write(&directory.path().join("a.toml"), "one");
    entries.recv_timeout(BOUND).expect("the change is reported");
    let (dropped, drops) = mpsc::channel();
    std::thread::spawn(move || {
        drop(watcher);
        let _ = dropped.send(());
    });
    let outcome = drops.recv_timeout(BOUND);
    drop(release);
    outcome.expect("the watcher is dropped while its thread is held up");
}

/// The names and codes of what is read from a folder with so many files of so many bytes.
fn read_many(count: usize, bytes: usize) -> (usize, Option<&'static str>) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let text = "#".repeat(bytes);
    for number in 0..count {
        write(&directory.path().join(format!("{number:04}.toml")), &text);
    }
    let read = read_directory(directory.path());
    let taken = read.iter().take_while(|(path, text)| path != directory.path() && text.is_ok()).count();
    assert!(read.len() <= taken + 1, "what is beyond the cap is not read");
    let problem = read.into_iter().nth(taken).and_then(|(_, text)| text.err());
    assert!(problem.as_ref().is_none_or(|problem| !problem.is_error()));
    (taken, problem.map(|problem| problem.code))
}

#[test]
fn a_folder_is_read_up_to_a_number_of_files_and_bytes() {
    assert_eq!(read_many(MOST_FILES, 1), (MOST_FILES, None));
    assert_eq!(read_many(MOST_FILES + 5, 1), (MOST_FILES, Some("file/too-many")));
    assert_eq!(read_many(16, 1024 * 1024), (16, None));
    assert_eq!(read_many(20, 1000 * 1024), (16, Some("file/too-many")));
}

#[test]
fn folders_are_read_again_only_if_their_files_changed_or_are_young() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (file, folders) = (directory.path().join("a.toml"), given(directory.path().to_owned()));
    write(&file, "one");
    let (mut known, _) = FolderState::read(&folders);
    assert!(known.young && !known.holds(&folders), "another save might leave the same stamp");
    known.young = false;
    assert!(known.holds(&folders));
    for change in [
        &|| write(&file, "longer"),
        &|| fs::rename(&file, directory.path().join("b.toml")).expect("it can be renamed"),
        &|| write(&file, "longer"),
        &|| fs::remove_file(&file).expect("it can be removed"),
        &|| fs::remove_dir_all(directory.path()).expect("it can be removed"),
    ] as [&dyn Fn(); 5]
    {
        change();
        assert!(!known.holds(&folders));
        known = FolderState { young: false, ..FolderState::read(&folders).0 };
        assert!(known.holds(&folders));
    }

    let at = |second| Timestamp::from_second(second).expect("a time");
    for (modified, changed, young) in
        [(97, 97, false), (98, 90, true), (90, 98, true), (90, 100, true), (200, 90, false)]
    {
        assert_eq!(is_young([Some(at(modified)), Some(at(changed))], at(100)), young, "{modified} {changed}");
    }
}
