//! What the system reports about the files of a folder, and when a change is over.
//!
//! Reports are summed up as they come, so that a burst of them takes no room. Files other than scenarios wake nobody.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{EventKind, RecommendedWatcher};
use parking_lot::{Condvar, Mutex};

use crate::clock::machine;

/// A change is over once nothing has happened for this long.
pub(super) const SETTLE: Duration = Duration::from_millis(20);
/// How long files may keep changing, or one may stay open for writing, before they are read all the same.
const PATIENCE: Duration = Duration::from_millis(600);
/// Most files that are known to be written at a time.
const MOST_OPEN: usize = 1_000;

/// What the system reports about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    Changed,
    /// A program is writing this file; its close is reported.
    Writing,
    /// The program has closed it.
    Closed,
    /// The entry was renamed or removed. It may be a folder, or a link to one.
    Moved,
}

/// The reports so far, summed up: however many come, they take no more room than the names of the files.
#[derive(Debug, Default)]
struct Reported {
    /// How many concerned a scenario file, or may have.
    changes: u64,
    /// The scenario files that are being written.
    open: BTreeSet<PathBuf>,
    /// The watcher is to end.
    is_stopped: bool,
}

/// The reports, shared with the thread that reads the folders.
#[derive(Debug, Default)]
pub(super) struct Reports {
    reported: Mutex<Reported>,
    news: Condvar,
}

impl Reports {
    fn add(&self, report: Report, path: PathBuf) {
        if matches!(report, Report::Writing | Report::Closed) && !is_scenario(&path) {
            return;
        }
        let mut reported = self.reported.lock();
        match report {
            Report::Writing if reported.open.len() < MOST_OPEN => drop(reported.open.insert(path)),
            Report::Closed | Report::Moved => drop(reported.open.remove(&path)),
            Report::Writing | Report::Changed => {}
        }
        reported.changes += 1;
        self.news.notify_one();
    }

    /// Asks the thread that waits for reports to end.
    pub(super) fn stop(&self) {
        self.reported.lock().is_stopped = true;
        self.news.notify_one();
    }

    /// A source of reports; `None` where the system has none.
    pub(super) fn watch(self: &Arc<Self>) -> Option<RecommendedWatcher> {
        let reports = Arc::clone(self);
        notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let (kind, paths) = event.map_or((EventKind::Other, Vec::new()), |event| (event.kind, event.paths));
            let report = match kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) => Report::Closed,
                EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => Report::Moved,
                // Our own reading is an event as well; if it were taken for a change, reading would never end.
                EventKind::Access(_) => return,
                // Only Linux reports the close that ends the writing.
                EventKind::Modify(ModifyKind::Data(_)) if cfg!(target_os = "linux") => Report::Writing,
                _ => Report::Changed,
            };
            if paths.is_empty() {
                reports.add(Report::Changed, PathBuf::new());
            }
            for path in paths {
                reports.add(report, path);
            }
        })
        .ok()
    }

    /// Waits at most this long for reports beyond those `seen`.
    pub(super) fn next(&self, seen: &mut u64, limit: Duration) -> Next {
        let mut reported = self.reported.lock();
        self.news.wait_while_for(&mut reported, |new| !new.is_stopped && new.changes == *seen, limit);
        let is_new = std::mem::replace(seen, reported.changes) != reported.changes;
        match *reported {
            Reported { is_stopped: true, .. } => Next::Stop,
            _ if is_new => Next::Change,
            _ if reported.open.is_empty() => Next::Quiet,
            _ => Next::Open,
        }
    }

    /// Waits until no scenario file has changed for a while, but not forever.
    pub(super) fn settled(&self, seen: &mut u64) -> Waited {
        let began = machine::monotonic();
        let passed = || machine::monotonic().duration_since(began);
        let mut quiet_at = SETTLE;
        loop {
            match self.next(seen, quiet_at.saturating_sub(passed())) {
                Next::Stop => return Waited::Stopped,
                Next::Quiet => return Waited::UntilQuiet,
                Next::Change | Next::Open => quiet_at = passed() + SETTLE,
            }
            if passed() > PATIENCE {
                return Waited::StillChanging;
            }
        }
    }

    /// Forgets which files are being written: a program that never closes its file must not hold every later change back.
    pub(super) fn close_all(&self) {
        self.reported.lock().open.clear();
    }
}

/// What came while the reports were waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A scenario file may have changed.
    Change,
    /// Nothing, and no scenario file is being written.
    Quiet,
    /// Nothing, and a scenario file is still being written.
    Open,
    /// The watcher is to end.
    Stop,
}

/// The result of waiting for a change to be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// No change was reported.
    ForNothing,
    /// Nothing more happened, and every file that was being written is closed.
    UntilQuiet,
    /// Files still change, or one is still open.
    StillChanging,
    /// The watcher is to end.
    Stopped,
}

/// Whether scenarios are read from a file of this name.
pub(super) fn is_scenario(path: &Path) -> bool {
    !is_hidden(path) && path.extension().is_some_and(|extension| extension == "toml")
}

/// Whether the name begins with a dot.
pub(super) fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_over_when_files_are_closed_and_nothing_more_comes() {
        for (reported, stopped, expected) in [
            (vec![], false, Waited::UntilQuiet),
            (vec![(Report::Writing, "a.toml"), (Report::Closed, "a.toml")], false, Waited::UntilQuiet),
            (vec![(Report::Writing, "a.log")], false, Waited::UntilQuiet),
            (vec![(Report::Writing, "a.toml"), (Report::Moved, "a.toml")], false, Waited::UntilQuiet),
            (vec![(Report::Writing, "a.toml")], false, Waited::StillChanging),
            (vec![(Report::Changed, "a.toml")], true, Waited::Stopped),
        ] {
            let reports = Reports::default();
            for (report, path) in reported {
                reports.add(report, path.into());
            }
            if stopped {
                reports.stop();
            }
            assert_eq!(reports.settled(&mut 0), expected);
            assert_eq!(reports.reported.lock().open.is_empty(), expected != Waited::StillChanging);
        }
    }

    #[test]
    fn reports_take_bounded_room_and_other_files_wake_nobody() {
        let (reports, mut seen) = (Reports::default(), 0);
        for number in 0..MOST_OPEN * 3 {
            reports.add(Report::Writing, format!("{number}.log").into());
        }
        assert_eq!(reports.next(&mut seen, Duration::ZERO), Next::Quiet);
        // A volume that is exchanged by a link is seen at once.
        reports.add(Report::Moved, "..data".into());
        assert_eq!(reports.next(&mut seen, Duration::ZERO), Next::Change);
        for number in 0..MOST_OPEN * 3 {
            reports.add(Report::Writing, format!("{number}.toml").into());
        }
        assert_eq!(reports.next(&mut seen, Duration::ZERO), Next::Change);
        assert_eq!(reports.next(&mut seen, Duration::ZERO), Next::Open);
        assert_eq!(reports.reported.lock().open.len(), MOST_OPEN);
    }
}
