//! Reads and watches scenario folders: reports when contents changed, however an editor or a container platform changed them.
//!
//! The folder is watched, not its files, because a watch on a file dies when an editor saves by renaming; it is polled as well, for
//! mounts where no event arrives. Contents are compared by hash, and read only if a file's stamp changed or is too recent to be
//! relied on. A change counts once it is whole: on Linux when the file that was written is closed, elsewhere when two readings agree.
//! Independent of the meaning of rules.

use std::convert::Infallible;
use std::fs::DirEntry;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use jiff::Timestamp;
use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;

use crate::clock::machine;
use crate::diagnostic::Diagnostic;
use crate::util::file::{self, FileProblem, Stamp};

pub const MAX_FILE: u64 = 1024 * 1024;
pub(crate) const MAX_FILES: usize = 1_000;
/// Maximum number of entries of a folder that are named in warnings because they are not read.
const MAX_IGNORED: usize = 20;
pub(crate) const MAX_BYTES: usize = 16 * 1024 * 1024;
/// For how many seconds after its last change a file's stamp does not prove that it is the same.
const STAMP_UNRELIABLE_SECONDS: u64 = 2;
/// How often contents are compared without an event, unless that takes more than a fiftieth of the time.
const POLL: Duration = Duration::from_secs(1);
/// How long dropping a watcher waits for its thread, which a slow disk may hold up.
const JOIN_TIMEOUT: Duration = Duration::from_millis(500);
/// A change is over once no event has arrived for this long, and at the latest after the second time.
const SETTLE_TIME: Duration = Duration::from_millis(20);
const TIMEOUT: Duration = Duration::from_millis(600);
/// Contents that were not reported as complete are read again after this time.
const CONFIRM: Duration = Duration::from_millis(200);

/// Scenario files as they were read, in the order of their paths; for one that could not be read, why. It is a warning if the
/// other files are accepted all the same.
pub type FileTexts = Vec<(PathBuf, Result<String, Box<Diagnostic>>)>;

/// The folders that scenarios are read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    /// The folders that the user named.
    pub given: Vec<PathBuf>,
    /// The default folder, which was not named: while it does not exist, it counts as empty.
    pub usual: Option<PathBuf>,
}

impl Folders {
    /// All of them, whether or not they are there.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.given.iter().chain(&self.usual)
    }

    /// The contents of all scenario files in them.
    pub fn read(&self) -> FileTexts {
        let usual = self.usual.iter().filter(|folder| folder.is_dir());
        self.given.iter().chain(usual).flat_map(|folder| read_folder(folder)).collect()
    }
}

/// Reads one file: regular, UTF-8, at most 1 MiB. Symbolic links are followed; pipes and devices are refused.
pub fn read_file(path: &Path) -> Result<String, Box<Diagnostic>> {
    let bytes = file::read(path, MAX_FILE).map_err(|problem| match problem {
        FileProblem::Io(error) => {
            let message = format!("the file cannot be read: {error}");
            Diagnostic::of_file("file/unreadable", message, "check the path and its permissions")
        }
        FileProblem::NotRegular => Diagnostic::of_file(
            "file/not-regular",
            "expected a regular file, found a pipe, socket, device or folder",
            "a scenario is read from a regular file or a link to one",
        ),
        FileProblem::TooLarge(_) => Diagnostic::of_file(
            "file/too-large",
            "the file is larger than 1 MiB",
            "a scenario is one story; split it into several files",
        ),
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let message = format!("the file is not UTF-8 text; the first wrong byte is number {}", at + 1);
        Diagnostic::of_file("file/not-utf8", message, "save it as UTF-8")
    })?;
    Ok(text)
}

/// Reads every `*.toml` of the folder, in the order of names. A folder in it, or a file that may be taken for a scenario,
/// is an entry with a warning. Hidden files, as editors make them while saving, are skipped. A folder that cannot be read is one
/// entry with its problem; a path that is a file is read as one.
pub fn read_folder(folder: &Path) -> FileTexts {
    if folder.is_file() {
        return vec![(folder.to_owned(), read_file(folder))];
    }
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            let message = format!("the folder cannot be read: {error}");
            let problem = Diagnostic::of_file("file/unreadable", message, "check the path and its permissions");
            return vec![(folder.to_owned(), Err(problem.into()))];
        }
    };
    let (paths, ignored) = listed(entries);
    let (count, mut bytes) = (paths.len(), 0);
    let mut files = FileTexts::new();
    for path in paths {
        let text = read_file(&path);
        bytes += text.as_ref().map_or(0, String::len);
        if files.len() == MAX_FILES || bytes > MAX_BYTES {
            let message = format!(
                "only the first {} of {count} scenario files, by name, are read: at most {MAX_FILES} per folder, and {} MiB together",
                files.len(),
                MAX_BYTES / (1024 * 1024)
            );
            let hint = "split the folder, or move other files elsewhere";
            let problem = Diagnostic::of_file("file/too-many", message, hint).as_warning();
            files.push((folder.to_owned(), Err(problem.into())));
            break;
        }
        files.push((path, text));
    }
    let more = ignored.len().saturating_sub(MAX_IGNORED);
    files.extend(ignored.into_iter().take(MAX_IGNORED).map(|path| {
        let problem = not_read(&path);
        (path, Err(problem))
    }));
    if more > 0 {
        let message = format!("{more} more files or folders in it are not read");
        files.push((folder.to_owned(), Err(not_taken(message, "a scenario is a file NAME.toml"))));
    }
    files
}

/// The scenario files of a folder and others that may be taken for one, each in the order of names.
fn listed(entries: std::fs::ReadDir) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut scenarios, mut mistaken) = (Vec::new(), Vec::new());
    // A folder may have a hundred thousand other files, so of these only the names are looked at.
    for entry in entries.flatten() {
        let name = entry.file_name();
        if is_scenario(Path::new(&name)) {
            scenarios.push(entry.path());
        } else if is_mistaken(&entry, Path::new(&name)) {
            mistaken.push(entry.path());
        }
    }
    scenarios.sort_unstable();
    mistaken.sort_unstable();
    (scenarios, mistaken)
}

/// True if scenarios are read from a file of this name.
fn is_scenario(path: &Path) -> bool {
    !is_hidden(path) && path.extension().is_some_and(|extension| extension == "toml")
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// True if a user may expect scenarios to be read from this entry. A JSON Schema is for editors.
fn is_mistaken(entry: &DirEntry, name: &Path) -> bool {
    if is_hidden(name) {
        return false;
    }
    let name = name.to_string_lossy().to_ascii_lowercase();
    let is_other = [".yaml", ".yml", ".json", ".toml", ".tml", ".toml.txt"].iter().any(|ending| name.ends_with(ending));
    let is_folder = || entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink() && entry.path().is_dir());
    is_other && !name.ends_with("schema.json") || is_folder()
}

/// True if a link leads to a file outside of its folder. Such a file may be anything, so that nothing of it is shown.
pub(super) fn leads_out(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let file = path.canonicalize().ok();
    folder.zip(file).is_some_and(|(folder, file)| !file.starts_with(folder))
}

fn not_read(path: &Path) -> Box<Diagnostic> {
    if path.is_dir() {
        let hint = "move its files up, or name it with a separate --scenarios";
        return not_taken("this folder is not read: only files directly in a scenario folder are", hint);
    }
    let hint = "write it as TOML and name it NAME.toml; `wrs-emulator scenarios new NAME` writes one to start from";
    not_taken("this file is not read: the name of a scenario file ends with .toml", hint)
}

/// A warning about something in a folder that is not a scenario file.
fn not_taken(message: impl Into<String>, hint: &str) -> Box<Diagnostic> {
    Diagnostic::of_file("file/ignored", message, hint).as_warning().into()
}

/// The state of the folders when they were read.
struct FolderState {
    stamps: Vec<(PathBuf, Option<Stamp>)>,
    hash: u64,
    /// True if a file was so young that another save could leave the same stamp.
    young: bool,
}

impl FolderState {
    /// Reads everything in the folders.
    fn read(folders: &Folders) -> (Self, FileTexts) {
        // Before the contents, so that writes in the meantime are seen the next time.
        let (stamps, now) = (stamps(folders), machine::wall_time());
        let young = stamps.iter().filter_map(|(_, stamp)| *stamp).any(|stamp| is_young(stamp.times, now));
        let files = folders.read();
        let mut hasher = DefaultHasher::new();
        for (path, text) in &files {
            path.hash(&mut hasher);
            text.as_ref().map_err(|problem| (&problem.code, &problem.message)).hash(&mut hasher);
        }
        (Self { stamps, hash: hasher.finish(), young }, files)
    }

    /// True if the folders are unchanged, as far as can be known without reading them.
    fn holds(&self, folders: &Folders) -> bool {
        !self.young && self.stamps == stamps(folders)
    }
}

/// Every entry of the folders that matters, with its stamp if it has one.
fn stamps(folders: &Folders) -> Vec<(PathBuf, Option<Stamp>)> {
    let mut found = Vec::new();
    for folder in folders.paths() {
        let (mut paths, mut ignored) =
            std::fs::read_dir(folder).map_or_else(|_| (vec![folder.clone()], Vec::new()), listed);
        // One more than are read shows that there are more.
        paths.truncate(MAX_FILES + 1);
        ignored.truncate(MAX_IGNORED + 1);
        paths.append(&mut ignored);
        found.extend(paths.into_iter().map(|path| {
            let stamp = Stamp::of(&path);
            (path, stamp)
        }));
    }
    found
}

/// True if a file was changed so shortly before `now` that the clock of its file system may not have moved since.
fn is_young(times: [Option<Timestamp>; 2], now: Timestamp) -> bool {
    times.into_iter().flatten().any(|at| now.as_second().abs_diff(at.as_second()) <= STAMP_UNRELIABLE_SECONDS)
}

enum Signal {
    /// A scenario file may have changed.
    Change,
    Stop,
}

/// A thread that watches folders; it ends when this is dropped.
#[derive(Debug)]
pub struct Watcher {
    signals: Sender<Signal>,
    /// Disconnected once the thread has ended.
    ended: Mutex<Receiver<Infallible>>,
}

impl Watcher {
    /// Calls `on_change` with the contents of the folders each time that a change is complete. These are the contents
    /// that were compared, so that nothing half-written can come between the notification and the read. The present contents are
    /// returned, and count as known. Folders need not be there yet.
    pub fn start(
        folders: Folders,
        on_change: impl Fn(FileTexts) + Send + 'static,
    ) -> std::io::Result<(Self, FileTexts)> {
        let (signals, received) = channel();
        let reported = signals.clone();
        // Without events there is still the polling, so a platform that has none is no error.
        let mut events = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_change(&event)) {
                let _ = reported.send(Signal::Change);
            }
        })
        .ok();
        // Before the first reading, so that nothing falls between the two.
        watch_again(&mut events, &folders);
        let (known, files) = FolderState::read(&folders);
        let (running, ended) = channel();
        // In a simulation nothing happens by itself: there, the folders are read again only by a call.
        if !cfg!(feature = "simulation") {
            std::thread::Builder::new().name("scenario-watch".to_owned()).spawn(move || {
                let _running = running;
                run(&folders, known, events, &received, &on_change);
            })?;
        }
        Ok((Self { signals, ended: Mutex::new(ended) }, files))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.signals.send(Signal::Stop);
        let _ = self.ended.get_mut().recv_timeout(JOIN_TIMEOUT);
    }
}

fn is_change(event: &notify::Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => event.paths.iter().any(|path| is_scenario(path)),
        // Our own reading is an event as well; if it were taken for a change, reading would never end.
        EventKind::Access(_) => false,
        // Only Linux reports the close that ends the writing; a link exists at once.
        EventKind::Create(CreateKind::File) if cfg!(target_os = "linux") => {
            event.paths.iter().any(|path| path.is_symlink())
        }
        EventKind::Modify(ModifyKind::Data(_)) if cfg!(target_os = "linux") => false,
        _ => true,
    }
}

fn run(
    folders: &Folders,
    mut known: FolderState,
    mut events: Option<RecommendedWatcher>,
    signals: &Receiver<Signal>,
    on_change: &impl Fn(FileTexts),
) {
    let (mut passed_on, mut pause) = (known.hash, POLL);
    loop {
        watch_again(&mut events, folders);
        let is_reported = match signals.recv_timeout(pause) {
            Ok(Signal::Change) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        };
        if is_reported && !wait_for_quiet(signals) {
            return;
        }
        let began = machine::monotonic();
        let is_unchanged = known.hash == passed_on && known.holds(folders);
        pause = POLL.max(machine::monotonic().duration_since(began) * 50);
        if is_unchanged {
            continue;
        }
        let before = known.hash;
        let files;
        (known, files) = FolderState::read(folders);
        if known.hash == passed_on {
            continue;
        }
        // A file that is being written is read again until it stays the same; Linux reports a file once its writer has closed it.
        if known.hash == before || is_reported && cfg!(target_os = "linux") {
            passed_on = known.hash;
            on_change(files);
        } else {
            pause = CONFIRM;
        }
    }
}

/// Waits until no event has arrived for a while, but not forever; false if the watcher is to end.
fn wait_for_quiet(signals: &Receiver<Signal>) -> bool {
    let began = machine::monotonic();
    while machine::monotonic().duration_since(began) < TIMEOUT {
        match signals.recv_timeout(SETTLE_TIME) {
            Ok(Signal::Change) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Ok(Signal::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
    true
}

/// Done again each time: a folder that was deleted and made anew has lost its watch. One that is not there is polled for.
fn watch_again(events: &mut Option<RecommendedWatcher>, folders: &Folders) {
    let Some(events) = events else { return };
    for folder in folders.paths() {
        let _ = events.watch(folder, RecursiveMode::NonRecursive);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
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
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("bytes.toml"), b"title = \"\xff\"").expect("it can be written");
        fs::create_dir(path("folder.toml")).expect("it can be made");
        fs::File::create(path("huge.toml")).and_then(|file| file.set_len(MAX_FILE + 1)).expect("it can be written");
        write(&path("notes.txt"), "");
        write(&path(".hidden.toml"), "");
        let mut expected =
            vec![("bytes.toml", "file/not-utf8"), ("folder.toml", "file/not-regular"), ("huge.toml", "file/too-large")];
        std::os::unix::fs::symlink("nowhere", path("link.toml")).expect("it can be linked");
        expected.push(("link.toml", "file/unreadable"));
        let made = std::process::Command::new("mkfifo").arg(path("pipe.toml")).status();
        if made.is_ok_and(|status| status.success()) {
            expected.push(("pipe.toml", "file/not-regular"));
        }
        let read = read_folder(folder.path());
        let found: Vec<_> = read
            .iter()
            .map(|(path, text)| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                (name, &*text.as_ref().expect_err("it is unfit").code)
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_folder_is_read_up_to_a_number_of_files() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for number in 0..MAX_FILES + 5 {
            write(&folder.path().join(format!("{number:04}.toml")), "");
        }
        let read = read_folder(folder.path());
        let problem = read[MAX_FILES].1.as_ref().expect_err("there are more");
        assert!(read.len() == MAX_FILES + 1 && problem.code == "file/too-many" && !problem.is_error());
    }

    #[test]
    fn a_folder_that_nobody_asked_for_may_come_later_and_go_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let later = folder.path().join("scenarios");
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
    fn dropping_does_not_wait_for_a_thread_that_is_held_up() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (entered, entries) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let (watcher, _) = Watcher::start(given(folder.path().to_owned()), move |_| {
            let _ = entered.send(());
            let _ = released.recv();
        })
        .expect("a thread can be started");
        write(&folder.path().join("a.toml"), "one");
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

    #[test]
    fn folders_are_read_again_only_if_their_files_changed_or_are_young() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (file, folders) = (folder.path().join("a.toml"), given(folder.path().to_owned()));
        write(&file, "one");
        let (mut known, _) = FolderState::read(&folders);
        assert!(known.young && !known.holds(&folders), "another save might leave the same stamp");
        known.young = false;
        assert!(known.holds(&folders));
        for change in [
            &|| write(&file, "longer"),
            &|| fs::rename(&file, folder.path().join("b.toml")).expect("it can be renamed"),
            &|| write(&file, "longer"),
            &|| fs::remove_file(&file).expect("it can be removed"),
            &|| fs::remove_dir_all(folder.path()).expect("it can be removed"),
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
}
