//! `--state FILE`: loaded at the start, saved within a second of each change, and when the emulator stops. Each save is atomic.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::StartError;
use crate::state::engine::Engine;
use crate::state::workspace::Snapshot;
use crate::util::file::{self, Claim};
use crate::util::tasks::stopped;

/// How long a change may go unnoticed.
const LOOK: Duration = Duration::from_millis(50);
/// The least time from the start of one save to the next look. A change just after a save has begun is still on disk within a
/// second.
const PAUSE: Duration = Duration::from_millis(850);
const LARGEST: u64 = 1024 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct StateFile {
    engine: Arc<Engine>,
    file: PathBuf,
    /// Held while a state is taken and written, so that an older one never replaces a newer one.
    saving: Mutex<()>,
    claim: Claim,
}

/// The state could not be saved when the emulator stopped; everything else ended normally.
#[derive(Debug, thiserror::Error)]
#[error("the state was not saved in `{}`: {source}", file.display())]
pub struct StopProblem {
    file: PathBuf,
    source: io::Error,
}

impl StateFile {
    /// Loads the state if the file exists, and writes it back, so that a file that cannot be written is reported at the start.
    pub(super) async fn open(engine: Arc<Engine>, file: PathBuf) -> Result<Arc<Self>, StartError> {
        let opened = tokio::task::spawn_blocking(move || Self::open_now(engine, file).map(Arc::new));
        opened.await.map_err(|error| StartError::Setting(format!("--state: {error}")))?
    }

    pub(super) async fn keep(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        // Changes from before this task began are in the file already, or are found by the first look.
        let mut saved = None;
        let mut is_failing = false;
        let mut pause = tokio::time::sleep(LOOK);
        loop {
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = pause => {}
            }
            pause = tokio::time::sleep(LOOK);
            let mark = Some(self.engine.mark());
            if mark == saved {
                continue;
            }
            pause = tokio::time::sleep(PAUSE);
            // If it fails, the file keeps the last state that was saved. It is tried again, and reported once.
            let result = self.save().await;
            saved = if result.is_ok() { mark } else { None };
            if let Err(problem) = &result
                && !is_failing
            {
                self.engine.note(None, problem.to_string(), true);
            }
            is_failing = result.is_err();
        }
    }

    /// Saves the present state, on a thread that may block.
    pub(super) async fn save(self: &Arc<Self>) -> Result<(), StopProblem> {
        let state = Arc::clone(self);
        let saved = tokio::task::spawn_blocking(move || state.save_now()).await;
        saved
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|source| StopProblem { file: self.file.clone(), source })
    }

    /// The problem if saving took longer than a stop may wait.
    pub(super) fn too_slow(&self, limit: Duration) -> StopProblem {
        let source = io::Error::new(io::ErrorKind::TimedOut, format!("it took longer than {} s", limit.as_secs_f64()));
        StopProblem { file: self.file.clone(), source }
    }

    fn open_now(engine: Arc<Engine>, file: PathBuf) -> Result<Self, StartError> {
        let refused =
            |problem: &dyn std::fmt::Display| StartError::Setting(format!("--state: `{}`: {problem}", file.display()));
        let claim = Claim::new(&file).map_err(|problem| refused(&problem))?;
        let claim =
            claim.ok_or_else(|| refused(&"another process keeps its state there; stop it, or name another file"))?;
        match file::read(&file, LARGEST) {
            Ok(bytes) => {
                let snapshot = Snapshot::read(&bytes).map_err(|problem| refused(&problem))?;
                for warning in engine.load_snapshot(&snapshot).map_err(|problem| refused(&problem))? {
                    engine.note(None, format!("state loaded, but {warning}"), true);
                }
            }
            Err(problem) if problem.is_missing() => {}
            Err(problem) => return Err(refused(&problem)),
        }
        let kept = Self { engine, file: file.clone(), saving: Mutex::default(), claim };
        kept.save_now().map_err(|error| refused(&error))?;
        Ok(kept)
    }

    fn save_now(&self) -> io::Result<()> {
        let _saving = self.saving.lock();
        self.claim.write(self.engine.snapshot(None).written())
    }
}
