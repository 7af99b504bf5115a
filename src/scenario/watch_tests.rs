//! Tests of the watcher, over every way in which editors and platforms change files. Each waits for the event, not for a
//! length of time; the bound only ends a test that would hang.

use std::fs;
use std::sync::mpsc;

use super::*;

const BOUND: Duration = Duration::from_secs(20);

/// A folder that the user named.
fn given(folder: PathBuf) -> Folders {
    Folders { given: vec![folder], usual: None }
}

struct Scene {
    directory: tempfile::TempDir,
    changes: mpsc::Receiver<FileTexts>,
    /// Ends with the scene.
    watcher: Watcher,
}

impl Scene {
    fn new(prepare: impl FnOnce(&Path), choose: impl FnOnce(&Path) -> PathBuf) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        prepare(directory.path());
        let (sender, changes) = mpsc::channel();
        let (watcher, _) = Watcher::start(given(choose(directory.path())), move |files| {
            // A test that is over has no receiver any more.
            let _ = sender.send(files);
        })
        .expect("a thread can be started");
        Self { directory, changes, watcher }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Waits until these files are reported.
    fn expect(&self, expected: &[(&str, &str)]) {
        loop {
            let read = self.changes.recv_timeout(BOUND).expect("the change is reported");
            let found: Vec<_> = read
                .iter()
                .map(|(path, text)| {
                    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                    (name, text.as_deref().unwrap_or_else(|problem| problem.code))
                })
                .collect();
            if found == expected {
                return;
            }
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("the file can be written");
}

#[test]
fn every_way_of_saving_is_seen() {
    let scene = Scene::new(|directory| write(&directory.join("a.toml"), "one"), Path::to_owned);
    write(&scene.path("a.toml"), "two");
    scene.expect(&[("a.toml", "two")]);
    write(&scene.path(".a.toml.swp"), "three");
    fs::rename(scene.path(".a.toml.swp"), scene.path("a.toml")).expect("it can be renamed");
    scene.expect(&[("a.toml", "three")]);
    fs::remove_file(scene.path("a.toml")).expect("it can be removed");
    scene.expect(&[]);
    write(&scene.path("a.toml"), "four");
    write(&scene.path("b.toml"), "five");
    scene.expect(&[("a.toml", "four"), ("b.toml", "five")]);
}

/// Only Linux reports when a file that is being written is closed.
#[cfg(target_os = "linux")]
#[test]
fn a_file_is_not_read_while_it_is_being_written() {
    use std::io::Write as _;
    let scene = Scene::new(|directory| write(&directory.join("a.toml"), "one"), Path::to_owned);
    let mut file = fs::File::create(scene.path("a.toml")).expect("it can be written");
    for piece in ["first half, ", "second half"] {
        file.write_all(piece.as_bytes()).expect("it can be written");
        // Longer than contents take to settle, shorter than patience lasts.
        std::thread::sleep(crate::scenario::reports::SETTLE * 8);
    }
    drop(file);
    let read = scene.changes.recv_timeout(BOUND).expect("the change is reported");
    assert_eq!(read[0].1.as_deref(), Ok("first half, second half"));
    assert!(scene.changes.try_recv().is_err(), "it is reported once");
}

#[test]
fn a_directory_that_comes_later_or_again_is_seen() {
    let scene = Scene::new(|_| {}, |directory| directory.join("later"));
    let directory = scene.path("later");
    fs::create_dir(&directory).expect("it can be made");
    write(&directory.join("a.toml"), "one");
    scene.expect(&[("a.toml", "one")]);
    fs::remove_dir_all(&directory).expect("it can be removed");
    scene.expect(&[("later", "file/unreadable")]);
    fs::create_dir(&directory).expect("it can be made");
    write(&directory.join("a.toml"), "two");
    scene.expect(&[("a.toml", "two")]);
}

#[cfg(unix)]
#[test]
fn links_and_config_map_swaps_are_followed() {
    use std::os::unix::fs::symlink;
    let scene = Scene::new(
        |directory| {
            for version in ["v1", "v2"] {
                fs::create_dir_all(directory.join(version)).expect("it can be made");
                write(&directory.join(version).join("a.toml"), version);
            }
            fs::create_dir(directory.join("mount")).expect("it can be made");
            symlink("../v1", directory.join("mount/..data")).expect("it can be linked");
            symlink("..data/a.toml", directory.join("mount/a.toml")).expect("it can be linked");
        },
        |directory| directory.join("mount"),
    );
    symlink("../v2", scene.path("mount/..data_tmp")).expect("it can be linked");
    fs::rename(scene.path("mount/..data_tmp"), scene.path("mount/..data")).expect("it can be renamed");
    scene.expect(&[("a.toml", "v2")]);
    write(&scene.path("v2/a.toml"), "v3");
    scene.expect(&[("a.toml", "v3")]);
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

/// A file that is closed is read at once. One that stays open, or changes again and again, is waited for, but not forever.
#[test]
fn a_quiet_directory_stays_quiet_and_dropping_ends_the_thread() {
    let scene = Scene::new(|directory| write(&directory.join("a.toml"), "one"), Path::to_owned);
    // Reading and touching are events, and change nothing.
    for _ in 0..5 {
        assert!(read_file(&scene.path("a.toml")).is_ok());
        write(&scene.path("a.toml"), "one");
    }
    drop(scene.watcher);
    assert!(scene.changes.try_recv().is_err());
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
    let (mut known, _) = Known::read(&folders);
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
        known = Known { young: false, ..Known::read(&folders).0 };
        assert!(known.holds(&folders));
    }

    let at = |second| Timestamp::from_second(second).expect("a time");
    for (modified, changed, young) in
        [(97, 97, false), (98, 90, true), (90, 98, true), (90, 100, true), (200, 90, false)]
    {
        assert_eq!(is_young([Some(at(modified)), Some(at(changed))], at(100)), young, "{modified} {changed}");
    }
}
