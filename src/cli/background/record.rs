//! What is known of an emulator in the background: a private file, which its process keeps locked while it serves.
//!
//! The lock and not the process id says whether it still serves: the id of a process that has ended may belong to another one.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::cli::failure::Failure;
use crate::util::file::{self, Claim, FileProblem};
use crate::util::process;

/// Most bytes of a record.
const MAX_RECORD: u64 = 1024 * 1024;
/// How often the lock is looked at while something is waited for.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// An emulator that serves in the background.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Record {
    /// The base URL of the emulated API.
    pub(crate) url: String,
    pub(crate) control_url: String,
    pub(crate) control_token: Option<String>,
    pub(crate) process: u32,
    pub(crate) started_at: Timestamp,
    /// How long its stop may take, in milliseconds.
    pub(super) grace: u64,
    pub(super) options: Vec<String>,
    /// The variables that make clients trust its certificate.
    pub(super) trust: BTreeMap<String, String>,
}

/// Where the record and the log of a name are.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(super) name: String,
    folder: PathBuf,
}

/// What a record says.
#[derive(Debug)]
pub(super) enum State {
    /// None was started, or it was stopped.
    Absent,
    /// Its process holds the lock and is not ready yet.
    Starting,
    Serving(Box<Record>),
    /// Its process ended without being stopped.
    Died(Box<Record>),
}

impl Place {
    /// The place of a name, or without one, that of the present folder.
    pub(super) fn new(name: Option<&str>) -> Result<Self, Failure> {
        let name = match name {
            Some(name) => valid_name(name)?,
            None => {
                let present = std::env::current_dir();
                name_of(&present.map_err(|error| Failure::io(format!("cannot find the present folder: {error}")))?)
            }
        };
        Ok(Self { name, folder: private_folder()? })
    }

    /// The same for a command about what was started already: without a name, also in a folder above the present one.
    pub(super) fn of_started(name: Option<&str>) -> Result<Self, Failure> {
        match name {
            None => Ok(Self::near().map_or_else(|| Self::new(None), Ok)?),
            name => Self::new(name),
        }
    }

    /// The place of the present folder or of the nearest one above it that has a record.
    fn near() -> Option<Self> {
        let present = std::env::current_dir().ok()?;
        let folder = existing_folder()?;
        let places = present.ancestors().map(|above| Self { name: name_of(above), folder: folder.clone() });
        places.into_iter().find(|place| place.record().exists())
    }

    pub(super) fn record(&self) -> PathBuf {
        self.folder.join(format!("{}.json", self.name))
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    pub(super) fn state(&self) -> Result<State, Failure> {
        let path = self.record();
        if !path.exists() {
            return Ok(State::Absent);
        }
        let unusable = |problem: FileProblem| Failure::io(format!("cannot use `{}`: {problem}", path.display()));
        let claim = Claim::new(&path).map_err(unusable)?;
        let text = match file::read(&path, MAX_RECORD) {
            Err(problem) if problem.is_missing() => return Ok(State::Absent),
            text => text.map_err(unusable)?,
        };
        // A record is written whole. One that cannot be read is of another version, and says nothing.
        let record = serde_json::from_slice(&text).ok().map(Box::new);
        Ok(match (claim, record) {
            (None, Some(record)) => State::Serving(record),
            (None, None) => State::Starting,
            (Some(_), Some(record)) => State::Died(record),
            (Some(_), None) => State::Absent,
        })
    }

    /// Forgets an emulator that has ended.
    pub(super) fn clear(&self) -> Result<(), Failure> {
        let path = self.record();
        file::remove(&path).map_err(|problem| Failure::io(format!("cannot remove `{}`: {problem}", path.display())))
    }

    /// The names that have a record.
    pub(super) fn all(&self) -> Vec<Self> {
        let files = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = files.filter_map(|file| {
            let path = PathBuf::from(file.file_name());
            let is_record = path.extension() == Some(OsStr::new("json"));
            is_record.then(|| path.file_stem().map(|stem| stem.to_string_lossy().into_owned())).flatten()
        });
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names.into_iter().map(|name| Self { name, folder: self.folder.clone() }).collect()
    }
}

/// The emulator that was started for the present folder, if it serves.
pub(crate) fn started_here() -> Option<Record> {
    match Place::near()?.state() {
        Ok(State::Serving(record)) => Some(*record),
        _ => None,
    }
}

/// The record of this process, which is locked until it ends.
pub(in crate::cli) struct OwnRecord {
    path: PathBuf,
    claim: Claim,
}

impl OwnRecord {
    /// `None` if another process has the name.
    pub(super) fn claim(path: &Path) -> Result<Option<Self>, Failure> {
        let unusable = |problem: FileProblem| Failure::io(format!("cannot write `{}`: {problem}", path.display()));
        // What an earlier one left behind says nothing of this one.
        for _ in 0..50 {
            if let Some(claim) = Claim::new(path).map_err(unusable)? {
                claim.write(|_| Ok(())).map_err(|error| unusable(error.into()))?;
                return Ok(Some(Self { path: path.to_owned(), claim }));
            }
            // A command that only looks at the lock has it for an instant.
            std::thread::sleep(PAUSE / 10);
        }
        Ok(None)
    }

    pub(super) fn write(&self, record: &Record) -> Result<(), Failure> {
        let written = self.claim.write(|to| Ok(serde_json::to_writer(to, record)?));
        written.map_err(|error| Failure::io(format!("cannot write `{}`: {error}", self.path.display())))
    }
}

impl Drop for OwnRecord {
    fn drop(&mut self) {
        // What stays behind if this fails is recognised by its lock, which ends with the process.
        let _ = file::remove(&self.path);
    }
}

/// The name of a folder's emulator: that of the folder, and a part of the hash of its path, because many folders have one name.
fn name_of(folder: &Path) -> String {
    let path = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let hash = Sha256::digest(path.as_os_str().as_encoded_bytes());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().filter(|c| is_of_name(*c)).skip_while(|c| !c.is_alphanumeric()).take(40).collect();
    let name = if name.is_empty() { "folder" } else { &name };
    hash[..4].iter().fold(format!("{name}-"), |name, byte| format!("{name}{byte:02x}"))
}

fn valid_name(name: &str) -> Result<String, Failure> {
    let is_valid =
        !name.is_empty() && name.len() <= 64 && !name.starts_with(['-', '.']) && name.chars().all(is_of_name);
    if is_valid {
        return Ok(name.to_owned());
    }
    Err(Failure::usage(format!(
        "--name: expected at most 64 letters, digits, `-`, `_` and `.`, beginning with a letter or a digit, found `{name}`"
    )))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// The folder of records and logs: where the system keeps what belongs to a session of the user, else among temporary files.
fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("wrs-emulator"),
        None => std::env::temp_dir().join(format!("wrs-emulator-{}", process::user())),
    }
}

fn existing_folder() -> Option<PathBuf> {
    let folder = folder();
    file::is_private(&folder).unwrap_or(false).then_some(folder)
}

/// The folder, which is made if it does not exist. Nobody else may be able to read or to replace what is in it.
fn private_folder() -> Result<PathBuf, Failure> {
    let folder = folder();
    let made = match file::create_folder(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => file::is_private(&folder),
    };
    let shown = folder.display();
    match made {
        Ok(true) => Ok(folder),
        Ok(false) => Err(Failure::io(format!("`{shown}` belongs to another user, or others can read it"))
            .with_hint(format!("remove it, or run `chmod 700 {shown}`; or name another folder in XDG_RUNTIME_DIR"))),
        Err(error) => Err(Failure::io(format!("cannot make the folder `{shown}`: {error}"))
            .with_hint("name a folder that you can write to in XDG_RUNTIME_DIR")),
    }
}

/// The options of a start: what was typed but for the name, and the variables that stand for flags.
pub(super) fn options(
    typed: impl Iterator<Item = OsString>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<String> {
    let text = |word: &OsStr| word.to_string_lossy().into_owned();
    let mut typed = typed.map(|word| text(&word));
    let mut options = Vec::new();
    while let Some(word) = typed.next() {
        match word.as_str() {
            "--name" => drop(typed.next()),
            "--json" | "--quiet" => {}
            word if word.starts_with("--name=") => {}
            _ => options.push(word),
        }
    }
    let variables = variables.map(|(name, value)| (text(&name), text(&value)));
    let of_flags = |name: &str| {
        name.starts_with("WRS_EMULATOR_")
            && !["URL", "NAME", "JSON", "QUIET", "CA", "INSECURE"].contains(&&name["WRS_EMULATOR_".len()..])
    };
    let mut variables: Vec<String> = variables
        .filter(|(name, value)| of_flags(name) && !value.trim().is_empty())
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    variables.sort_unstable();
    options.extend(variables);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_what_was_typed_and_the_variables_of_flags() {
        let typed = ["--clock", "frozen", "--name", "shop", "--name=shop", "--json", "--seed=1"].map(OsString::from);
        let variables = [
            ("WRS_EMULATOR_URL", "http://x"),
            ("WRS_EMULATOR_TLS", "self-signed"),
            ("HOME", "/"),
            ("WRS_EMULATOR_SEED", " "),
        ];
        let found = options(typed.into_iter(), variables.map(|(name, value)| (name.into(), value.into())).into_iter());
        assert_eq!(found, ["--clock", "frozen", "--seed=1", "WRS_EMULATOR_TLS=self-signed"]);
    }

    #[test]
    fn each_folder_has_a_name_of_its_own_that_is_a_file_name() {
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
