//! One run of the command: with an emulator of its own, for a limited time, and until all that it started has ended.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::timeout;

use crate::app::{FileLimit, Settings};
use crate::cli::command::{Authority, exit_code, spawn, target, whole_run};
use crate::cli::failure::{Failure, warn};
use crate::cli::run_file::RunFile;
use crate::cli::serve::{ServeArgs, start};
use crate::clock::machine;
use crate::control::api::{ClockMode, ExecFacts, Run};
use crate::redact::Redactor;
use crate::review::differential::Record;
use crate::util::duration::duration_text;
use crate::util::file;
use crate::util::process::Group;

/// How often, and at what interval, processes that were asked to end are checked; those still running are then killed.
const LAST_STEPS: u32 = 40;
const STEP: Duration = Duration::from_millis(50);
/// Lines of a command's output that are shown, and the most bytes of it that are read for them.
const TAIL_LINES: usize = 15;
const TAIL_BYTES: u64 = 4096;

pub(super) struct Runner<'a> {
    pub(super) command: &'a [OsString],
    pub(super) settings: Settings,
    pub(super) serve: &'a ServeArgs,
    pub(super) folder: &'a Path,
    pub(super) raised: FileLimit,
    /// The limit of a run, once it is known from the plain run.
    pub(super) limit: OnceLock<Duration>,
    pub(super) count: AtomicUsize,
}

pub(super) struct RunResult {
    pub(super) record: Record,
    pub(super) passed: bool,
    pub(super) ending: String,
    pub(super) took: Duration,
    pub(super) output: PathBuf,
}

impl Runner<'_> {
    /// Runs the command once under these settings. What it prints, and what happened, is in the folder under this name.
    pub(super) async fn run(&self, name: &str, assignments: &[&str], limit: Duration) -> Result<RunResult, Failure> {
        let is_first = self.count.fetch_add(1, Ordering::Relaxed) == 0;
        let mut settings = self.settings.clone();
        for assignment in assignments {
            let changed = settings.profile.with_assignment(assignment, "review differential");
            settings.profile = changed.map_err(|problem| Failure::usage(format!("{name}: {}", problem.message)))?;
        }
        let (emulator, _) = start(self.serve, settings, false).await?;
        if is_first {
            emulator.control().warnings().iter().for_each(|warning| warn(warning));
        }
        let output = self.folder.join(format!("{name}.txt"));
        let cannot =
            |error: &dyn std::fmt::Display| Failure::io(format!("cannot write `{}`: {error}", output.display()));
        let stdout = file::create(&output).map_err(|problem| cannot(&problem))?;
        let stderr = stdout.try_clone().map_err(|error| cannot(&error))?;
        let authority = Authority::write(&emulator)?;
        let began = machine::monotonic();
        let (mut child, group) = spawn(self.command, &emulator, authority.as_ref(), self.raised, |command| {
            Group::start(command.stdin(Stdio::null()).stdout(stdout).stderr(stderr))
        })
        .map_err(|failure| Failure { status: 2, ..failure })?;
        // Dropped before the child, which is not reaped until then, so that no other process can have taken over the id of the group.
        let ending = GroupGuard(group);
        let is_late = timeout(limit, tokio::task::spawn_blocking(move || group.wait())).await.is_err();
        let took = began.elapsed();
        // What it started must not still run during the next run.
        block_in_place(|| drop(ending));
        let status = child.wait().await;
        let status = status.map_err(|error| Failure::io(format!("cannot wait for the command: {error}")))?;
        let run = whole_run(&target(&emulator), ExecFacts::of(self.command, status)).await?;
        RunFile::at("", &self.folder.join(format!("{name}.json")))?.write(&run)?;
        let ending = match status.code() {
            _ if is_late => format!("did not end within {}", duration_text(limit)),
            Some(code) => format!("ended with exit status {code}"),
            None => format!("ended by a signal (exit status {})", exit_code(status)),
        };
        Ok(RunResult { record: record(run), passed: status.success() && !is_late, ending, took, output })
    }
}

/// Ends all processes of a command when it is dropped.
struct GroupGuard(Group);

impl Drop for GroupGuard {
    fn drop(&mut self) {
        if !self.0.has_ended() {
            self.0.terminate();
            let has_ended = |_| {
                std::thread::sleep(STEP);
                self.0.has_ended()
            };
            let _ = (0..LAST_STEPS).any(has_ended);
        }
        self.0.kill();
    }
}

/// What the command saw in a run.
fn record(run: Run) -> Record {
    let mut clocks = run.keys.iter().filter_map(|key| key.clock.as_ref()).chain([&run.clock]);
    let frozen = clocks.any(|clock| clock.mode != ClockMode::Real);
    let requests = run.requests.into_iter().rev().map(|record| record.request).collect();
    let attempted = run.deliveries.into_iter().rev().filter(|delivery| !delivery.attempts.0.is_empty());
    Record { requests, deliveries: attempted.collect(), frozen }
}

pub(super) fn tail(path: &Path) -> Vec<String> {
    // It was written a moment ago; if somebody has removed it since, there is nothing to show.
    let bytes = file::read_end(path, TAIL_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let masked = |line: &&str| Redactor::default().text(line).into_owned();
    lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(masked).collect()
}

/// The folder with what the runs printed. One that nobody named is removed, unless it is kept.
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) is_kept: bool,
}

impl Folder {
    pub(super) fn at(named: Option<&Path>) -> Result<Self, Failure> {
        let name = u64::from_be_bytes(machine::entropy());
        let path = named.map_or_else(|| std::env::temp_dir().join(format!("wrs-emulator-{name:016x}")), Path::to_owned);
        let flag = if named.is_some() { "--keep: " } else { "" };
        // Only its owner may read what the command prints.
        file::create_folder(&path, named.is_some())
            .map_err(|error| Failure::io(format!("{flag}cannot create the folder `{}`: {error}", path.display())))?;
        Ok(Self { path, is_kept: named.is_some() })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_kept {
            // It is in the folder for temporary files.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
