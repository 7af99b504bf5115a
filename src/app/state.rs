//! `--state FILE`: loaded at the start, saved every few seconds while something happens and when the emulator stops, each time
//! whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::StartError;
use crate::clock::{ClockMode, SavedClock};
use crate::control::{Control, load_snapshot, take_snapshot};
use crate::http::stopped;
use crate::journal::{Entry, Notice};

/// How often the state is saved while something happens.
const INTERVAL: Duration = Duration::from_secs(10);
/// Largest file that is read.
const LARGEST: u64 = 1024 * 1024 * 1024;

/// The file in which an emulator keeps its state.
#[derive(Clone, Debug)]
pub(super) struct StateFile {
    control: Arc<Control>,
    file: PathBuf,
}

impl StateFile {
    /// Loads the state if the file is there, and writes it, so that a file that cannot be written is told at the start.
    pub(super) fn open(control: Arc<Control>, file: PathBuf) -> Result<Self, StartError> {
        let told =
            |problem: &dyn std::fmt::Display| StartError::Setting(format!("--state: `{}`: {problem}", file.display()));
        match read(&file) {
            Ok(Some(bytes)) => {
                for warning in load_snapshot(&control, &bytes).map_err(|problem| told(&problem))? {
                    note(&control, format!("state loaded, but {warning}"));
                }
            }
            Ok(None) => {}
            Err(error) => return Err(told(&error)),
        }
        let state = Self { control, file: file.clone() };
        state.save().map_err(|error| told(&error))?;
        Ok(state)
    }

    /// Saves until `stop` becomes true.
    pub(super) async fn keep(self, mut stop: watch::Receiver<bool>) {
        let mut saved = self.mark();
        loop {
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            let mark = self.mark();
            if mark != saved {
                self.save_or_tell();
                saved = mark;
            }
        }
    }

    /// Saves; a failure is told in the journal, and the last state that was saved stays.
    pub(super) fn save_or_tell(&self) {
        if let Err(error) = self.save() {
            note(&self.control, format!("the state was not saved in `{}`: {error}", self.file.display()));
        }
    }

    fn save(&self) -> io::Result<()> {
        write_whole(&self.file, &take_snapshot(&self.control))
    }

    /// What is different when something has happened.
    fn mark(&self) -> (u64, u64, usize, ClockMode, bool, jiff::SignedDuration) {
        let control = &self.control;
        let clock = control.registry.clock();
        let SavedClock { frozen, wall_offset, .. } = clock.save();
        let generation = control.library.load().number;
        (control.journal.next_number(), generation, control.registry.kept(), clock.mode(), frozen, wall_offset)
    }
}

fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::metadata(file) {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a regular file")),
        Ok(metadata) if metadata.len() > LARGEST => Err(io::Error::other("it is larger than 1 GiB")),
        Ok(_) => std::fs::read(file).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn note(control: &Control, message: String) {
    let at = control.registry.clock().now().wall;
    control.journal.append(Entry::Notice(Arc::new(Notice { at, workspace: None, message, warning: true })));
}

/// Writes a file so that it holds either what it held before or all of this; readable by its owner alone, as it holds secrets.
pub(crate) fn write_whole(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = file.file_name().ok_or_else(|| io::Error::other("it names no file"))?.to_owned();
    name.push(".tmp");
    let beside = file.with_file_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&beside).and_then(|mut new: File| new.write_all(bytes).and_then(|()| new.sync_all()));
    let moved = written.and_then(|()| std::fs::rename(&beside, file));
    if moved.is_err() {
        // What is half written helps nobody.
        let _ = std::fs::remove_file(&beside);
    }
    moved
}
