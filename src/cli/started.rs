//! An emulator that `start` has started: its record, its lock and its log, in a private folder, one of each for a name.
//!
//! Its process has the lock until it ends. The lock and not the process id says whether it still runs, because the id of a process that has
//! ended may belong to another one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::failure::Failure;
use crate::util::file::{self, FileProblem};
use crate::util::process;

/// Names the emulator that all commands use instead of the one of the present folder.
const NAME_VARIABLE: &str = "WRS_EMULATOR_NAME";
/// Maximum bytes of a record: more than the options of any command line, which systems limit to a few MiB.
const MAX_RECORD: u64 = 64 * 1024 * 1024;

/// The record of an emulator in the background. It contains its control token.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Record {
    pub(super) process: u32,
    pub(super) started_at: Timestamp,
    /// How long its stop may take, in milliseconds.
    pub(super) grace_ms: u64,
    /// Every option of `serve` with its values, given or not.
    pub(super) options: ServeOptions,
    /// Absent until it is ready.
    pub(super) served: Option<Served>,
}

pub(super) type ServeOptions = BTreeMap<String, Vec<String>>;

/// The line that an emulator prints for the waiting `start` once it is ready.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Served {
    /// The base URL of the emulated API.
    pub(super) url: String,
    pub(super) control_url: String,
    pub(super) control_token: Option<String>,
    /// The variables that make clients trust its certificate.
    pub(super) trust: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(super) enum BackgroundState {
    /// None was started, or it was stopped.
    Absent,
    /// Its process ended without `stop`.
    Died(Record),
    /// Its process runs.
    Running(Record),
}

/// Where the files of a name are.
#[derive(Debug)]
pub(super) struct Background {
    pub(super) name: String,
    folder: PathBuf,
}

impl Background {
    /// The emulator of this name, by default that of the present folder.
    pub(super) fn new(name: Option<&str>) -> Result<Self, Failure> {
        let name = match name {
            Some(name) => valid_name(name)?,
            None => name_of(&present_folder()?),
        };
        let folder = folder();
        match file::is_private(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(true) => {}
            Ok(false) => {
                let shown = folder.display();
                return Err(Failure::io(format!("`{shown}` belongs to another user, or other users can read it"))
                    .with_hint(format!(
                        "run `chmod 700 {shown}` if it is yours; else name another folder in XDG_RUNTIME_DIR"
                    )));
            }
            Err(error) => return Err(unusable(&folder, &error.into())),
        }
        Ok(Self { name, folder })
    }

    /// The same for an emulator that was started already: without a name also in the nearest folder above the present one.
    pub(super) fn existing(name: Option<&str>) -> Result<Self, Failure> {
        let own = Self::new(name)?;
        if name.is_some() {
            return Ok(own);
        }
        let present = present_folder()?;
        let mut above = present.ancestors().map(|folder| Self { name: name_of(folder), folder: own.folder.clone() });
        Ok(above.find(|found| found.record().exists()).unwrap_or(own))
    }

    pub(super) fn exists(&self) -> bool {
        self.folder.exists()
    }

    /// Creates the folder. Nobody else can read it.
    pub(super) fn create_folder(&self) -> Result<(), Failure> {
        match file::create_folder(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(unusable(&self.folder, &error.into())),
            _ => Ok(()),
        }
    }

    fn path(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", self.name))
    }

    fn record(&self) -> PathBuf {
        self.path("json")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path("log")
    }

    /// The lock, which ends with the last process that has the file open; `None` if another one has it.
    pub(super) fn lock(&self) -> Result<Option<File>, Failure> {
        let path = self.path("lock");
        file::try_lock(&path).map_err(|problem| unusable(&path, &problem))
    }

    pub(super) fn write(&self, record: &Record) -> Result<(), Failure> {
        let path = self.record();
        let text = serde_json::to_vec(record).map_err(io::Error::from);
        text.and_then(|text| file::write_whole(&path, text)).map_err(|error| unusable(&path, &error.into()))
    }

    pub(super) fn remove(&self) -> Result<(), Failure> {
        let path = self.record();
        file::remove(&path).map_err(|problem| unusable(&path, &problem))
    }

    pub(super) fn state(&self) -> Result<BackgroundState, Failure> {
        let path = self.record();
        let text = match file::read(&path, MAX_RECORD) {
            Err(problem) if problem.is_missing() => return Ok(BackgroundState::Absent),
            text => text.map_err(|problem| unusable(&path, &problem))?,
        };
        // It is written whole: one that cannot be read is of another version, or of something else.
        let Ok(record) = serde_json::from_slice(&text) else { return Ok(BackgroundState::Absent) };
        let lock = self.path("lock");
        let is_locked = file::is_locked(&lock).map_err(|problem| unusable(&lock, &problem))?;
        Ok(if is_locked { BackgroundState::Running(record) } else { BackgroundState::Died(record) })
    }

    /// All that have a record.
    pub(super) fn all() -> Vec<Self> {
        let files = std::fs::read_dir(folder()).into_iter().flatten().flatten();
        let names = files.filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".json")?.to_owned()));
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names.into_iter().map(|name| Self { name, folder: folder() }).collect()
    }
}

/// The emulator that commands use without `--url`: the one of the name in the environment, or of the present folder.
pub(super) fn started_here() -> BackgroundState {
    let name = std::env::var(NAME_VARIABLE).ok().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    // A folder that cannot be used has none; `status` says why.
    Background::existing(name.as_deref()).and_then(|found| found.state()).unwrap_or(BackgroundState::Absent)
}

fn unusable(path: &Path, problem: &FileProblem) -> Failure {
    let hint = match problem {
        FileProblem::Io(error) if error.kind() == io::ErrorKind::StorageFull => {
            "free some space there, or name another folder"
        }
        _ => "name a folder that you can write to",
    };
    Failure::io(format!("cannot use `{}`: {problem}", path.display()))
        .with_hint(format!("{hint} in XDG_RUNTIME_DIR: `XDG_RUNTIME_DIR=$PWD wrs-emulator start`"))
}

/// Where the system keeps what belongs to a session of the user, else among temporary files.
fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("wrs-emulator"),
        None => std::env::temp_dir().join(format!("wrs-emulator-{}", process::user())),
    }
}

fn present_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| Failure::io(format!("cannot find the present folder: {error}")))
}

/// The name of a folder's emulator: that of the folder, and a part of the hash of its path, because many folders have one name.
fn name_of(folder: &Path) -> String {
    let hash = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(|c| is_of_name(*c)).skip_while(|c| !c.is_alphanumeric()).take(40).collect();
    let name = if name.is_empty() { "folder" } else { &name };
    hash[..4].iter().fold(format!("{name}-"), |name, byte| format!("{name}{byte:02x}"))
}

fn valid_name(name: &str) -> Result<String, Failure> {
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins_well && name.len() <= 64 && name.chars().all(is_of_name) {
        return Ok(name.to_owned());
    }
    Err(Failure::usage(format!("--name: expected at most 64 letters, digits, `-`, `_` and `.`, found `{name}`"))
        .with_hint("begin with a letter or a digit, for example `--name shop`"))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_has_a_separate_name_that_is_valid() {
        let names = ["/", "/a/shop", "/b/shop", "/a/ä ö/..x"].map(|path| name_of(Path::new(path)));
        assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
        for name in &names {
            assert!(valid_name(name).is_ok(), "{name}");
        }
        assert!(names[1].starts_with("shop-"), "{}", names[1]);
        for wrong in ["", "-x", ".x", "a/b", "a b", &"x".repeat(65)] {
            assert!(valid_name(wrong).is_err(), "{wrong}");
        }
    }
}
