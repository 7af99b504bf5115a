//! `review differential`: which runs are made, each with its own emulator and until all that it started has ended, and the
//! report for people and for CI systems. `crate::review::differential` has the changes and compares.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::arguments::{OutputFile, examples, period};
use super::child::{exit_code, note_proxy, shown, spawn, target, whole_run};
use super::client::runtime;
use super::document::RunRecords;
use super::failure::{Failure, is_json, note, warn};
use super::output::{cell, show, table};
use super::report::{Case, Report, Row, TableReport};
use super::run::write_run;
use super::serve::{PortFile, ServeArgs, settings, start};
use super::signals::Signals;
use super::trust::TrustFiles;
use crate::app::{FileLimit, Settings};
use crate::clock::machine;
use crate::control::api::{ClockMode, ExecFacts, List, name_of};
use crate::redact::Redactor;
use crate::review::differential::{
    Aspect, CHANGES, Difference, Exercised, Part, Record, UnpromisedChange, compare, is_exercised,
};
use crate::util::duration::duration_text;
use crate::util::file;
use crate::util::process::Group;
use crate::util::wording::{counted, shell_word};

/// The limit of the first run, unless --timeout gives one.
const FIRST: Duration = Duration::from_mins(10);
/// The limit of the other runs: this many times as long as the plain run took, and at least `LEAST`.
const TIMES: u32 = 5;
const LEAST: Duration = Duration::from_secs(30);
/// How often, and at what interval, processes that were asked to end are checked; those still running are then killed.
const LAST_STEPS: u32 = 40;
const STEP: Duration = Duration::from_millis(50);
/// Lines of a command's output that are shown, and the most bytes of it that are read for them.
const TAIL_LINES: usize = 15;
const TAIL_BYTES: u64 = 4096;

const NOTES: &str = "

Each run has its own emulator on a free port, and the command finds it as with `exec`: WRS_BASE_URL, WRS_API_KEY and so on. \
All runs have the same seed. What the command leaves running is ended with it.

Exit status: 0 no change makes the command fail, 1 one does, or it fails without any; 2 wrong usage, or a command that cannot be run.";

#[derive(Debug, Args)]
#[command(after_help = examples([
    "review differential -- npm test",
    "review differential --scenarios tests/scenarios --scenario rate-limit-burst -- pytest -q",
    "review differential --only extra-fields,key-order --json -- ./client-test",
    "review differential --jobs 4 --junit differential.xml -- make check",
    "review differential --list",
]) + NOTES)]
pub(super) struct DifferentialArgs {
    /// The command and its arguments.
    #[arg(last = true, required_unless_present = "list", value_name = "CMD")]
    command: Vec<OsString>,
    /// Make these changes only; separated by commas.
    #[arg(long, value_name = "CHANGE", value_delimiter = ',', hide_possible_values = true, value_parser = PossibleValuesParser::new(CHANGES.iter().map(|change| change.name)))]
    only: Vec<String>,
    /// List the changes, and run nothing.
    #[arg(long)]
    list: bool,
    /// Runs at a time. More than one only if the command can run several times at once: without fixed ports or files.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
    /// Limit for each run; by default five times as long as the plain run, and at least 30 s. A longer run fails.
    #[arg(long, value_name = "DURATION", value_parser = period)]
    timeout: Option<Duration>,
    /// Keep what each run printed and what happened in it in this folder; otherwise in a temporary one, removed if nothing failed.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Write the results to this file as well, as XML that CI systems read.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    #[command(flatten)]
    serve: ServeArgs,
}

pub(super) fn run(args: &DifferentialArgs) -> Result<ExitCode, Failure> {
    if args.list {
        let changes = List { data: CHANGES.iter().collect() };
        let rows = CHANGES.iter().map(|change| [change.name, change.changes, change.clause].map(str::to_owned));
        let header = ["name", "difference", "clause that leaves it open"];
        return Ok(show(args.serve.json, &changes, || table(header, rows)));
    }
    let settings = settings_of_runs(args)?;
    let results = args.junit.as_deref().map(|path| OutputFile::at("--junit", path)?.cleared()).transpose()?;
    let mut folder = Folder::at(args.keep.as_deref())?;
    let raised = FileLimit::raise();
    let runtime = runtime(Builder::new_multi_thread())?;
    let runner = Runner {
        command: &args.command,
        settings,
        serve: &args.serve,
        folder: &folder.path,
        raised,
        count: AtomicUsize::new(0),
    };
    let found = runtime.block_on(async {
        let mut signals = Signals::install()?;
        // A run that is dropped ends its command.
        tokio::select! {
            found = examine(args, &runner) => found.map(Ok),
            number = signals.wait() => Ok(Err(number)),
        }
    });
    runtime.shutdown_background();
    let mut outcome = match found? {
        Ok(outcome) => outcome,
        Err(number) => return Ok(ExitCode::from(128 + number)),
    };
    let has_failed = outcome.failed > 0 || !outcome.plain.passed;
    folder.is_kept |= has_failed || outcome.unstable > 0;
    if folder.is_kept {
        outcome.folder = Some(folder.path.display().to_string());
    }
    report(&outcome).publish(args.serve.json.then_some(&outcome), results.as_ref())?;
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The settings that all runs have in common.
fn settings_of_runs(args: &DifferentialArgs) -> Result<Settings, Failure> {
    let mut settings = settings(&args.serve)?;
    for (flag, is_given) in [("--state", settings.state.is_some()), ("--port-file", args.serve.port_file.is_some())] {
        if is_given {
            return Err(Failure::usage(format!("{flag} is of no use here: each run has a new emulator")));
        }
    }
    if args.jobs > 1 && settings.listen.port() != 0 {
        return Err(Failure::usage("--jobs: several emulators cannot listen on one port")
            .with_hint("leave out --listen: each uses a free port, and the command reads it from WRS_BASE_URL"));
    }
    settings.seed.get_or_insert(1);
    Ok(settings)
}

async fn examine(args: &DifferentialArgs, runner: &Runner<'_>) -> Result<Examination, Failure> {
    let began = machine::monotonic();
    let chosen = |change: &&UnpromisedChange| args.only.is_empty() || args.only.iter().any(|name| name == change.name);
    let chosen: Vec<&UnpromisedChange> = CHANGES.iter().filter(chosen).collect();
    let progress = Progress { all: chosen.len(), done: AtomicUsize::new(0) };
    let plain = runner.run("plain", &[], args.timeout.unwrap_or(FIRST)).await?;
    progress.ended("the command as it is", if plain.passed { "passed" } else { "failed" });
    let limit = args.timeout.unwrap_or_else(|| (plain.took * TIMES).max(LEAST));
    let mut changes: Vec<Judged> = Vec::new();
    if plain.passed {
        let (record, progress) = (&plain.record, &progress);
        let judging = stream::iter(chosen).map(|change| async move {
            let judged = judge(runner, change, record, limit).await?;
            progress.ended(change.name, &judged.outcome.name());
            Ok::<_, Failure>(judged)
        });
        changes = judging.buffered(usize::from(args.jobs)).try_collect().await?;
    }
    let count = |outcome| changes.iter().filter(|judged| judged.outcome == outcome).count();
    Ok(Examination {
        command: shown(&args.command),
        seed: runner.settings.seed.unwrap_or_default(),
        runs: runner.count.load(Ordering::Relaxed),
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        passed: count(Outcome::Passed),
        failed: count(Outcome::Failed),
        unstable: count(Outcome::Unstable),
        not_exercised: count(Outcome::NotExercised),
        plain: Plain {
            printed: if plain.passed { Vec::new() } else { tail(&plain.output) },
            passed: plain.passed,
            ending: plain.ending,
            requests: plain.record.requests.len(),
            deliveries: plain.record.deliveries.len(),
        },
        changes,
        folder: None,
    })
}

/// Runs the command under a change; if it fails, finds out whether it always does, and which part is to blame.
async fn judge(
    runner: &Runner<'_>,
    change: &'static UnpromisedChange,
    plain: &Record,
    limit: Duration,
) -> Result<Judged, Failure> {
    let (name, settings) = (change.name, change.settings());
    let mut judged = Judged {
        change: *change,
        settings: settings.clone(),
        outcome: Outcome::NotExercised,
        ending: String::new(),
        reason: None,
        smallest: Vec::new(),
        difference: None,
        seen: None,
        printed: Vec::new(),
        output: None,
    };
    if change.aspect == Aspect::Order && plain.frozen {
        // An event that is held back would wait until the clock is moved.
        judged.reason = Some("the command freezes the clock; to see it, let events arrive while the clock runs");
        return Ok(judged);
    }
    let mut ran = runner.run(name, &settings, limit).await?;
    judged.ending.clone_from(&ran.ending);
    if ran.passed {
        if is_exercised(plain, &ran.record, change.aspect) {
            judged.outcome = Outcome::Passed;
        } else {
            judged.reason = Some(change.exercise);
        }
        return Ok(judged);
    }
    // A failure proves nothing if the command also fails without the change, or passes with it.
    judged.outcome = Outcome::Unstable;
    if !runner.run(&format!("{name}-without"), &[], limit).await?.passed {
        judged.reason = Some("the command fails now and then without any change, too");
    } else if runner.run(&format!("{name}-again"), &settings, limit).await?.passed {
        judged.reason = Some("the command failed once with the change, and passed when it was run again");
    } else {
        judged.outcome = Outcome::Failed;
        for (part, number) in change.parts.iter().zip(1..) {
            let of_part = runner.run(&format!("{name}-part-{number}"), part.settings, limit).await?;
            if !of_part.passed {
                if judged.smallest.is_empty() {
                    ran = of_part;
                }
                judged.smallest.push(*part);
            }
        }
        (judged.difference, judged.seen) = compare(plain, &ran.record, change.aspect);
    }
    judged.printed = tail(&ran.output);
    judged.output = Some(ran.output.display().to_string());
    Ok(judged)
}

/// What is reported on stderr while the runs last.
struct Progress {
    all: usize,
    done: AtomicUsize,
}

impl Progress {
    fn ended(&self, name: &str, outcome: &str) {
        let number = self.done.fetch_add(1, Ordering::Relaxed);
        if is_json() {
            note(&format!("[{number}/{}] {name}: {outcome}", self.all));
        } else {
            // There is nowhere to report a closed stderr.
            let _ = writeln!(std::io::stderr().lock(), "[{number}/{}] {name} … {outcome}", self.all);
        }
    }
}

struct Runner<'a> {
    command: &'a [OsString],
    settings: Settings,
    serve: &'a ServeArgs,
    folder: &'a Path,
    raised: FileLimit,
    count: AtomicUsize,
}

struct RunResult {
    record: Record,
    passed: bool,
    ending: String,
    took: Duration,
    output: PathBuf,
}

impl Runner<'_> {
    /// Runs the command once under these settings. What it prints, and what happened, is in the folder under this name.
    async fn run(&self, name: &str, assignments: &[&str], limit: Duration) -> Result<RunResult, Failure> {
        let is_first = self.count.fetch_add(1, Ordering::Relaxed) == 0;
        let mut settings = self.settings.clone();
        for assignment in assignments {
            let changed = settings.profile.with_assignment(assignment, "review differential");
            settings.profile = changed.map_err(|problem| Failure::usage(format!("{name}: {}", problem.message)))?;
        }
        let (emulator, _) = start(self.serve, settings, &PortFile::default(), false).await?;
        if is_first {
            emulator.control().warnings().iter().for_each(|warning| warn(warning));
            note_proxy();
        }
        let output = self.folder.join(format!("{name}.txt"));
        let cannot =
            |error: &dyn std::fmt::Display| Failure::io(format!("cannot write `{}`: {error}", output.display()));
        let stdout = file::create(&output).map_err(|problem| cannot(&problem))?;
        let stderr = stdout.try_clone().map_err(|error| cannot(&error))?;
        let trust = TrustFiles::write(&emulator, self.serve.tls.as_ref())?;
        let began = machine::monotonic();
        let (mut child, group) = spawn(self.command, &emulator, trust.as_ref(), self.raised, |command| {
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
        write_run(&OutputFile::at("", &self.folder.join(format!("{name}.json")))?, &run)?;
        let ending = match status.code() {
            _ if is_late => format!("did not end within {}", duration_text(limit)),
            Some(code) => format!("ended with exit status {code}"),
            None => format!("ended by a signal (exit status {})", exit_code(status)),
        };
        Ok(RunResult { record: record(run.records), passed: status.success() && !is_late, ending, took, output })
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
fn record(run: RunRecords) -> Record {
    let mut clocks = run.keys.iter().filter_map(|key| key.clock.as_ref()).chain([&run.clock]);
    let frozen = clocks.any(|clock| clock.mode != ClockMode::Real);
    let requests = run.requests.into_iter().rev().map(|record| record.request).collect();
    let attempted = run.deliveries.into_iter().rev().filter(|delivery| !delivery.attempts.0.is_empty());
    Record { requests, deliveries: attempted.collect(), frozen }
}

fn tail(path: &Path) -> Vec<String> {
    // It was written a moment ago; if it was removed since, there is nothing to show.
    let bytes = file::read_end(path, TAIL_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let masked = |line: &&str| Redactor::default().text(line).into_owned();
    lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(masked).collect()
}

/// The folder with what the runs printed. One that was not named is removed, unless it is kept.
struct Folder {
    path: PathBuf,
    is_kept: bool,
}

impl Folder {
    fn at(named: Option<&Path>) -> Result<Self, Failure> {
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

#[derive(Serialize)]
struct Examination {
    /// The command, credentials masked.
    command: Vec<String>,
    seed: u64,
    runs: usize,
    took_ms: u64,
    plain: Plain,
    passed: usize,
    failed: usize,
    unstable: usize,
    not_exercised: usize,
    changes: Vec<Judged>,
    /// The folder with what each run printed and what happened in it, if it was kept.
    folder: Option<String>,
}

#[derive(Serialize)]
struct Plain {
    passed: bool,
    ending: String,
    requests: usize,
    deliveries: usize,
    /// The last lines that the command printed, if it failed.
    printed: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Passed,
    Failed,
    /// The command fails now and then, whether with the change or without it.
    Unstable,
    /// The command passed, and saw nothing of the change.
    NotExercised,
}

impl Outcome {
    fn name(self) -> String {
        name_of(self).replace('-', " ")
    }
}

#[derive(Serialize)]
struct Judged {
    #[serde(flatten)]
    change: UnpromisedChange,
    settings: Vec<&'static str>,
    outcome: Outcome,
    ending: String,
    /// Why it proves nothing, if it is unstable or not exercised.
    reason: Option<&'static str>,
    /// The parts that make the command fail by themselves; none if it has no parts, or only all of them together do.
    smallest: Vec<Part>,
    /// The first request that differs from the plain run.
    difference: Option<Difference>,
    /// What the command last saw of the change before that request.
    seen: Option<Exercised>,
    /// The last lines that the command printed, if it failed.
    printed: Vec<String>,
    output: Option<String>,
}

fn report(examined: &Examination) -> TableReport {
    let Examination { plain: Plain { ending, printed, .. }, changes, .. } = examined;
    let (mut before, mut plain) = (String::new(), Case::passed("plain"));
    if !examined.plain.passed {
        before = quoted(printed).map(|line| format!("  {}\n", cell(line))).collect();
        before += &format!("failed  without any change: the command {ending}; make the command pass first\n");
        plain = Case::failed("plain", "plain", format!("the command {ending}"), printed.clone());
    }
    let mut after = String::new();
    for (outcome, title) in
        [(Outcome::Unstable, "unstable, so nothing is proven"), (Outcome::NotExercised, "not exercised, so unproven")]
    {
        let found = changes.iter().filter(|judged| judged.outcome == outcome);
        let line = |judged: &Judged| format!("  {}: {}\n", judged.change.name, cell(judged.reason.unwrap_or_default()));
        let lines: String = found.map(line).collect();
        if !lines.is_empty() {
            after.push_str(&format!("\n{title}:\n{lines}"));
        }
    }
    TableReport {
        outcome_width: Outcome::NotExercised.name().len(),
        rows: changes.iter().map(Judged::row).collect(),
        before,
        after,
        summary: summary(examined),
        report: Report { cases: vec![plain], ..Report::empty("review.differential") },
    }
}

/// Lines that the command printed, as particulars.
fn quoted(printed: &[String]) -> impl Iterator<Item = String> + '_ {
    printed.iter().map(|line| format!("  | {line}"))
}

fn summary(examined: &Examination) -> String {
    let took = duration_text(Duration::from_millis(examined.took_ms));
    let (changes, runs) = (counted(examined.changes.len(), "change"), counted(examined.runs, "run"));
    let Examination { passed, failed, unstable, not_exercised, folder, .. } = examined;
    let kept = folder.as_ref().map(|folder| format!("; what each run printed is in {}", cell(folder)));
    format!(
        "{changes} with {runs} in {took}: {passed} passed, {failed} failed, {unstable} unstable, {not_exercised} not exercised{}",
        kept.unwrap_or_default()
    )
}

impl Judged {
    fn row(&self) -> Row {
        let (UnpromisedChange { name, changes, .. }, outcome) = (self.change, self.outcome.name());
        let case = match self.outcome {
            Outcome::Passed => Case::passed(name),
            Outcome::Failed => {
                Case::failed(name, name, format!("{changes}: the command {}", self.ending), self.particulars())
            }
            Outcome::Unstable | Outcome::NotExercised => {
                Case::skipped(name, format!("{outcome}: {}", self.reason.unwrap_or_default()))
            }
        };
        Row { outcome, shown: changes.to_owned(), heading: format!(": the command {}", self.ending), case }
    }

    fn particulars(&self) -> Vec<String> {
        let UnpromisedChange { changes, clause, parts, .. } = self.change;
        let mut found = vec![format!("change    {changes}"), format!("clause    {clause}")];
        let smallest = match &self.smallest[..] {
            [] if parts.is_empty() => None,
            [] => Some("only all parts together".to_owned()),
            parts => Some(parts.iter().map(|part| part.name).collect::<Vec<_>>().join(", ")),
        };
        found.extend(smallest.map(|parts| format!("smallest  {parts}")));
        let first = self.difference.as_ref().map(|difference| difference.what.as_str());
        found.push(format!(
            "first     {}",
            first.unwrap_or("no request differs: the command fails on the contents of an answer")
        ));
        if let Some(seen) = &self.seen {
            found.extend([format!("after     {}", seen.what), format!("          {}", seen.text)]);
        }
        let settings = self.smallest.first().map_or(&self.settings[..], |part| part.settings);
        let settings: String = settings.iter().map(|setting| format!(" --set {}", shell_word(setting))).collect();
        found.push(format!("repeat    wrs-emulator exec{settings} -- CMD, with your own flags"));
        found.extend(self.output.as_ref().map(|output| format!("printed   {output}")));
        found.extend(quoted(&self.printed));
        found
    }
}
