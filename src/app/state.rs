//! `--state FILE`: loaded at the start, saved every few seconds while something happens and when the emulator stops, each time
//! whole or not at all.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::StartError;
use crate::clock::{ClockMode, SavedClock};
use crate::control::{Control, load_snapshot, take_snapshot};
use crate::file::{self, FileProblem, write_whole};
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

fn read(file: &Path) -> Result<Option<Vec<u8>>, FileProblem> {
    match file::read(file, LARGEST) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(problem) if problem.is_missing() => Ok(None),
        Err(problem) => Err(problem),
    }
}

fn note(control: &Control, message: String) {
    let at = control.registry.clock().now().wall;
    control.journal.append(Entry::Notice(Arc::new(Notice { at, workspace: None, message, warning: true })));
}
