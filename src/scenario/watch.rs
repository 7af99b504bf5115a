//! Watches scenario directories: reports when contents changed, however an editor or a container platform changed them.
//!
//! The directory is watched, not its files, as a watch on a file dies when an editor saves by renaming; it is polled as well, for
//! mounts where no event arrives. Contents are compared by hash, and read only if a file's stamp changed or is too young to be sure of. What a rule means is not known here.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use jiff::Timestamp;
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::files::FileTexts;
use crate::clock::machine;
use crate::diagnostic::Diagnostic;
use crate::file::{self, FileProblem, Stamp};

/// Largest scenario file taken, in bytes.
pub const LARGEST_FILE: u64 = 1024 * 1024;
/// Most files read from one directory.
pub(crate) const MOST_FILES: usize = 1_000;
/// Most entries of a folder named that are not read.
const MOST_IGNORED: usize = 20;
/// Most bytes of their texts.
pub(crate) const MOST_BYTES: usize = 16 * 1024 * 1024;
/// For how many seconds after its last change a file's stamp does not prove that it is the same.
const YOUNG: u64 = 2;
/// How often contents are compared without an event.
const POLL: Duration = Duration::from_secs(1);
/// Events within this time are one change, and contents must stay the same for as long before they are read.
const SETTLE: Duration = Duration::from_millis(25);
/// How long dropping a watcher waits for its thread, which a slow disk may hold up.
const FAREWELL: Duration = Duration::from_millis(500);
/// How often contents may still be changing, or a file still be open for writing, before they are read all the same.
const PATIENCE: usize = 30;

/// The folders that scenarios are read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    /// Those that were asked for.
    pub given: Vec<PathBuf>,
    /// One that nobody asked for: while it is not there, it holds nothing.
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
        self.given.iter().chain(usual).flat_map(|folder| read_directory(folder)).collect()
    }
}

/// Reads one file: regular, UTF-8, at most 1 MiB. Symbolic links are followed; pipes and devices are refused.
pub fn read_file(path: &Path) -> Result<String, Box<Diagnostic>> {
    let bytes = file::read(path, LARGEST_FILE).map_err(|problem| match problem {
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

/// Reads every `*.toml` of the directory, in the order of names. A sub-directory, or a file that somebody may take for a
/// scenario, is an entry with a warning. Hidden files, as editors make them while saving, are passed over. A directory that cannot be read is one entry with its problem; a path that is a file
/// is read as one.
pub fn read_directory(directory: &Path) -> FileTexts {
    if directory.is_file() {
        return vec![(directory.to_owned(), read_file(directory))];
    }
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            let message = format!("the folder cannot be read: {error}");
            let problem = Diagnostic::of_file("file/unreadable", message, "check the path and its permissions");
            return vec![(directory.to_owned(), Err(problem.into()))];
        }
    };
    let (paths, ignored) = listed(entries);
    let (count, mut bytes) = (paths.len(), 0);
    let mut files = FileTexts::new();
    for path in paths {
        let text = read_file(&path);
        bytes += text.as_ref().map_or(0, String::len);
        if files.len() == MOST_FILES || bytes > MOST_BYTES {
            let message = format!(
                "of {count} scenario files the first {} by name are read: at most {MOST_FILES} and {} MiB of a folder are",
                files.len(),
                MOST_BYTES / (1024 * 1024)
            );
            let hint = "split the folder, or move other files elsewhere";
            let problem = Diagnostic::of_file("file/too-many", message, hint).as_warning();
            files.push((directory.to_owned(), Err(problem.into())));
            break;
        }
        files.push((path, text));
    }
    let more = ignored.len().saturating_sub(MOST_IGNORED);
    files.extend(ignored.into_iter().take(MOST_IGNORED).map(|path| {
        let problem = not_read(&path);
        (path, Err(problem))
    }));
    if more > 0 {
        let message = format!("{more} more files or folders in it are not read");
        files.push((directory.to_owned(), Err(not_taken(message, "a scenario is a file NAME.toml"))));
    }
    files
}

/// The scenario files of a folder and what else somebody may take for one, each in the order of names.
fn listed(entries: std::fs::ReadDir) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort_unstable();
    let (scenarios, others): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| is_scenario(path));
    (scenarios, others.into_iter().filter(|path| is_mistaken(path)).collect())
}

fn is_scenario(path: &Path) -> bool {
    !is_hidden(path) && path.extension().is_some_and(|extension| extension == "toml")
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Whether somebody may expect that scenarios are read from this entry. A JSON Schema is there for editors.
fn is_mistaken(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let is_other = [".yaml", ".yml", ".json", ".toml"].iter().any(|ending| name.ends_with(ending));
    !is_hidden(path) && (is_other && !name.ends_with("schema.json") || path.is_dir())
}

/// Why an entry of a folder is not read.
fn not_read(path: &Path) -> Box<Diagnostic> {
    if path.is_dir() {
        let hint = "move its files up, or name it with a --scenarios of its own";
        return not_taken("this folder is not read: only files directly in a scenario folder are", hint);
    }
    let hint = "write it as TOML and name it NAME.toml; `wrs-emulator scenarios new NAME` writes one to start from";
    not_taken("this file is not read: the name of a scenario file ends with .toml", hint)
}

/// A warning about something in a folder that is not a scenario file.
fn not_taken(message: impl Into<String>, hint: &str) -> Box<Diagnostic> {
    Diagnostic::of_file("file/ignored", message, hint).as_warning().into()
}

/// What the folders were when they were read.
struct Known {
    stamps: Vec<(PathBuf, Option<Stamp>)>,
    hash: [u8; 32],
    /// Whether a file was so young that another save could leave the same stamp.
    young: bool,
}

impl Known {
    /// Reads everything in the folders.
    fn read(folders: &Folders) -> (Self, FileTexts) {
        // Before the contents, so that what is written meanwhile is seen the next time.
        let (stamps, now) = (stamps(folders), machine::wall_time());
        let young = stamps.iter().filter_map(|(_, stamp)| *stamp).any(|stamp| is_young(stamp.times, now));
        let (hash, files) = read(folders);
        (Self { stamps, hash, young }, files)
    }

    /// Whether the folders hold the same, as far as can be known without reading them.
    fn holds(&self, folders: &Folders) -> bool {
        !self.young && self.stamps == stamps(folders)
    }
}

/// Every entry of the folders that matters with its stamp; none where there is none to be had.
fn stamps(folders: &Folders) -> Vec<(PathBuf, Option<Stamp>)> {
    let mut found = Vec::new();
    for folder in folders.paths() {
        let (mut paths, mut ignored) =
            std::fs::read_dir(folder).map_or_else(|_| (vec![folder.clone()], Vec::new()), listed);
        // One more than are read shows that there are more.
        paths.truncate(MOST_FILES + 1);
        ignored.truncate(MOST_IGNORED + 1);
        paths.append(&mut ignored);
        found.extend(paths.into_iter().map(|path| {
            let stamp = Stamp::of(&path);
            (path, stamp)
        }));
    }
    found
}

/// Whether a file was changed so shortly before `now` that the clock of its file system may not have moved since.
fn is_young(times: [Option<Timestamp>; 2], now: Timestamp) -> bool {
    times.into_iter().flatten().any(|at| now.as_second().abs_diff(at.as_second()) <= YOUNG)
}

/// Everything in the folders, with a hash over it.
fn read(folders: &Folders) -> ([u8; 32], FileTexts) {
    let files = folders.read();
    let mut hash = Sha256::new();
    for (path, text) in &files {
        let content = match text {
            Ok(text) => ["", text],
            Err(problem) => [problem.code, &problem.message],
        };
        for part in [path.as_os_str().as_encoded_bytes(), content[0].as_bytes(), content[1].as_bytes()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    (hash.finalize().into(), files)
}

enum Message {
    Changed,
    /// A program is writing this file; its close is reported.
    Writing(PathBuf),
    /// The file is closed, renamed or gone.
    Closed(PathBuf),
    Stop,
}

/// A thread that watches directories; it ends when this is dropped.
#[derive(Debug)]
pub struct Watcher {
    sender: Sender<Message>,
    /// Disconnected once the thread has ended.
    ended: Mutex<Receiver<Infallible>>,
}

impl Watcher {
    /// Calls `on_change` with the contents of the folders each time that they have changed and settled: those that were compared,
    /// so that nothing half-written can come between the telling and the reading. The contents at present come back, and
    /// count as known. Folders need not be there yet.
    pub fn start(
        folders: Folders,
        on_change: impl Fn(FileTexts) + Send + 'static,
    ) -> std::io::Result<(Self, FileTexts)> {
        let (sender, messages) = channel();
        // Without events there is still the polling, so a platform that has none is no error.
        let mut events = watch_events(sender.clone());
        // Before the first reading, so that nothing falls between the two.
        watch_again(&mut events, &folders);
        let (known, files) = Known::read(&folders);
        let (running, ended) = channel();
        std::thread::Builder::new().name("scenario-watch".to_owned()).spawn(move || {
            let _running = running;
            run(&folders, known, events, &messages, &on_change);
        })?;
        Ok((Self { sender, ended: Mutex::new(ended) }, files))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // If the thread is gone already there is nobody to stop.
        let _ = self.sender.send(Message::Stop);
        let _ = self.ended.get_mut().recv_timeout(FAREWELL);
    }
}

fn watch_events(sender: Sender<Message>) -> Option<RecommendedWatcher> {
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let (kind, paths) = event.map_or((EventKind::Other, Vec::new()), |event| (event.kind, event.paths));
        let message: fn(PathBuf) -> Message = match kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Remove(_)
            | EventKind::Modify(ModifyKind::Name(_)) => Message::Closed,
            // Our own reading is an event as well; taking it for a change would never end.
            EventKind::Access(_) => return,
            // Only Linux reports the close that ends the writing.
            EventKind::Modify(ModifyKind::Data(_)) if cfg!(target_os = "linux") => Message::Writing,
            _ => |_| Message::Changed,
        };
        // A watcher that is gone has nobody to tell.
        let _ = sender.send(Message::Changed);
        for path in paths {
            let _ = sender.send(message(path));
        }
    })
    .ok()
}

fn run(
    folders: &Folders,
    mut known: Known,
    mut events: Option<RecommendedWatcher>,
    messages: &Receiver<Message>,
    on_change: &impl Fn(FileTexts),
) {
    let mut open = BTreeSet::new();
    loop {
        watch_again(&mut events, folders);
        match messages.recv_timeout(POLL) {
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
            Ok(message) => {
                note(message, &mut open);
                if stopped_while_waiting(messages, &mut open) {
                    return;
                }
            }
        }
        if known.holds(folders) {
            continue;
        }
        let told = known.hash;
        let mut files;
        (known, files) = Known::read(folders);
        if known.hash == told {
            continue;
        }
        for _ in 0..PATIENCE {
            if stopped_while_waiting(messages, &mut open) {
                return;
            }
            let before = known.hash;
            (known, files) = Known::read(folders);
            if known.hash == before && open.is_empty() {
                break;
            }
        }
        // A program that never closes its file must not hold every later change back.
        open.clear();
        if known.hash != told {
            on_change(files);
        }
    }
}

/// Again each time: a directory that was deleted and made anew has lost its watch. One that is not there is polled for.
fn watch_again(events: &mut Option<RecommendedWatcher>, folders: &Folders) {
    for directory in folders.paths() {
        if let Some(events) = events {
            if cfg!(windows) {
                // There a second watch does not take the place of the first, which would never be closed.
                let _ = events.unwatch(directory);
            }
            let _ = events.watch(directory, RecursiveMode::NonRecursive);
        }
    }
}

/// Waits until contents may have settled, and folds the events of that time into one.
fn stopped_while_waiting(messages: &Receiver<Message>, open: &mut BTreeSet<PathBuf>) -> bool {
    std::thread::sleep(SETTLE);
    messages.try_iter().any(|message| note(message, open))
}

/// Keeps the list of scenario files that are being written. Says whether to stop.
fn note(message: Message, open: &mut BTreeSet<PathBuf>) -> bool {
    match message {
        Message::Writing(path) if is_scenario(&path) => drop(open.insert(path)),
        Message::Closed(path) => drop(open.remove(&path)),
        Message::Changed | Message::Writing(_) => {}
        Message::Stop => return true,
    }
    false
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
