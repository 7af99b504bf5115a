//! `--state FILE`: loaded at the start, saved within a second of each change, and when the emulator stops. Each save is atomic.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::StartError;
use crate::state::engine::{ChangeStamp, Engine};
use crate::util::file::Claim;
use crate::util::tasks::spawn_blocking;

/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The least time from the start of one save to the next look. A change just after a save has begun is still on disk within a
/// second.
const PAUSE: Duration = Duration::from_millis(850);

#[derive(Debug)]
pub(super) struct StateFile {
    engine: Arc<Engine>,
    file: PathBuf,
    claim: Claim,
    /// The content of the file; `None` if the last save failed. Held while a state is taken and written, so that an older one never
    /// replaces a newer one.
    saved: Mutex<Option<ChangeStamp>>,
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
        let opened = spawn_blocking(move || Self::open_now(engine, file).map(Arc::new));
        opened.await.map_err(|error| StartError::Setting(format!("--state: {error}")))?
    }

    /// Saves every change, for as long as this is polled.
    pub(super) async fn keep(self: Arc<Self>) {
        let mut is_failing = false;
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if *self.saved.lock() == Some(self.engine.change_stamp()) {
                continue;
            }
            let pause = tokio::time::sleep(PAUSE);
            // If it fails, the file keeps the last state that was saved. It is tried again, and reported once.
            let result = self.save().await;
            if let Err(problem) = &result
                && !is_failing
            {
                self.engine.note(None, problem.to_string(), true);
            }
            is_failing = result.is_err();
            pause.await;
        }
    }

    /// Saves the present state if it differs from that of the file, on a thread that may block. If this is no longer polled, the save
    /// is still made.
    pub(super) async fn save(self: &Arc<Self>) -> Result<(), StopProblem> {
        let state = Arc::clone(self);
        let saved = spawn_blocking(move || state.save_now()).await;
        saved
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|source| StopProblem { file: self.file.clone(), source })
    }

    fn open_now(engine: Arc<Engine>, file: PathBuf) -> Result<Self, StartError> {
        let refused =
            |problem: &dyn std::fmt::Display| StartError::Setting(format!("--state: `{}`: {problem}", file.display()));
        let claim = Claim::new(&file).map_err(|problem| refused(&problem))?;
        let claim =
            claim.ok_or_else(|| refused(&"another process keeps its state there; stop it, or name another file"))?;
        if let Some(kept) = claim.open().map_err(|problem| refused(&problem))? {
            let loaded = engine.read_snapshot(kept).and_then(|snapshot| engine.load_snapshot(snapshot));
            for warning in loaded.map_err(|problem| refused(&problem))? {
                engine.note(None, format!("state loaded, but {warning}"), true);
            }
        }
        let state = Self { engine, file: file.clone(), claim, saved: Mutex::default() };
        state.save_now().map_err(|error| refused(&error))?;
        Ok(state)
    }

    fn save_now(&self) -> io::Result<()> {
        let mut saved = self.saved.lock();
        let mark = Some(self.engine.change_stamp());
        if *saved != mark || !self.claim.is_kept() {
            *saved = None;
            self.claim.write(|to| self.engine.snapshot(None).write(to))?;
            *saved = mark;
        }
        Ok(())
    }
}
