//! `review differential`: which runs are made, each with an emulator of its own and until all that it started has ended, and the
//! report for people and for CI systems. `crate::review::differential` has the changes and compares.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::arguments::{created, examples, period};
use super::client::runtime;
use super::command::{Authority, exit_code, shown, spawn, target, whole_run};
use super::document::RunRecords;
use super::failure::{Failure, colored, is_json, note, warn};
use super::junit::{Suite, TestCase, TestResult, junit};
use super::output::{BOLD_RED, GREEN, YELLOW, cell, painted, print_as_is, print_json, show, table};
use super::run::RunFile;
use super::serve::{ServeArgs, settings, start};
use super::signals::Signals;
use crate::app::{FileLimit, Settings};
use crate::clock::machine;
use crate::control::api::{ClockMode, ExecFacts, List, name_of};
use crate::redact::Redactor;
use crate::review::differential::{
    Aspect, CHANGES, Difference, Part, Record, Sight, UnpromisedChange, compare, is_exercised,
};
use crate::util::duration::duration_text;
use crate::util::file;
use crate::util::process::Group;
use crate::util::wording::counted;

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

Each run has an emulator of its own on a free port, and the command finds it as with `exec`: WRS_BASE_URL, WRS_API_KEY and so on. \
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
    /// Limit for each run; by default five times as long as the plain run, and at least 30 s. A run that takes longer has failed.
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
        let header = ["name", "what is different", "clause that leaves it open"];
        return Ok(show(args.serve.json, &changes, || table(header, rows)));
    }
    if cfg!(windows) {
        return Err(Failure::io(
            "a run could not be ended with all that its command starts: Windows has no process groups",
        )
        .with_hint("run it on Linux or macOS, or in the Windows Subsystem for Linux"));
    }
    let mut settings = settings(&args.serve)?;
    for (flag, is_given) in [("--state", settings.state.is_some()), ("--port-file", args.serve.port_file.is_some())] {
        if is_given {
            return Err(Failure::usage(format!("{flag} is of no use here: each run has a new emulator")));
        }
    }
    if args.jobs > 1 && settings.listen.port() != 0 {
        return Err(Failure::usage("--jobs: several emulators cannot listen on one port")
            .with_hint("leave out --listen: each takes a free port, and the command reads it from WRS_BASE_URL"));
    }
    settings.seed.get_or_insert(1);
    let mut results = args.junit.as_deref().map(|path| created("--junit", path)).transpose()?;
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
    let mut report = match found? {
        Ok(report) => report,
        Err(number) => return Ok(ExitCode::from(128 + number)),
    };
    let has_failed = report.failed > 0 || !report.plain.passed;
    folder.is_kept |= has_failed || report.unstable > 0;
    if folder.is_kept {
        report.folder = Some(folder.path.display().to_string());
    }
    if let (Some(file), Some(path)) = (&mut results, &args.junit) {
        let written = file.write_all(junit(&suite(&report)).as_bytes());
        written.map_err(|error| Failure::io(format!("--junit: cannot write `{}`: {error}", path.display())))?;
    }
    if args.serve.json {
        print_json(&report);
    } else {
        print_as_is(&text(&report, colored(&std::io::stdout())));
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn examine(args: &DifferentialArgs, runner: &Runner<'_>) -> Result<Report, Failure> {
    let began = machine::monotonic();
    let chosen = |change: &&UnpromisedChange| args.only.is_empty() || args.only.iter().any(|name| name == change.name);
    let chosen: Vec<&UnpromisedChange> = CHANGES.iter().filter(chosen).collect();
    let progress = Progress { all: chosen.len(), done: AtomicUsize::new(0) };
    let plain = runner.run("plain", &[], args.timeout.unwrap_or(FIRST)).await?;
    progress.ended("the command as it is", if plain.passed { "passed" } else { "failed" });
    let limit = args.timeout.unwrap_or_else(|| (plain.took * TIMES).max(LEAST));
    let mut changes = Vec::new();
    if plain.passed {
        let judging =
            stream::iter(chosen.into_iter().map(|change| judge(runner, change, &plain.record, limit, &progress)));
        let mut judged = judging.buffered(usize::from(args.jobs));
        while let Some(judged) = judged.next().await {
            changes.push(judged?);
        }
    }
    let count = |outcome| changes.iter().filter(|judged| judged.outcome == outcome).count();
    Ok(Report {
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
    progress: &Progress,
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
        // An event that is held back would wait until somebody moves the clock.
        judged.reason =
            Some("the command freezes the clock; to see it, let events arrive while the clock runs".to_owned());
        progress.ended(name, &judged.outcome.name());
        return Ok(judged);
    }
    let ran = runner.run(name, &settings, limit).await?;
    judged.ending.clone_from(&ran.ending);
    if ran.passed {
        if is_exercised(plain, &ran.record, change.aspect) {
            judged.outcome = Outcome::Passed;
        } else {
            judged.reason = Some(change.exercise.to_owned());
        }
    } else {
        // A failure proves nothing if the command also fails without the change, or passes with it.
        let unstable = if !runner.run(&format!("{name}-without"), &[], limit).await?.passed {
            Some("the command fails now and then without any change, too")
        } else if runner.run(&format!("{name}-again"), &settings, limit).await?.passed {
            Some("the command failed once with the change, and passed when it was run again")
        } else {
            None
        };
        judged.reason = unstable.map(str::to_owned);
        judged.outcome = if unstable.is_some() { Outcome::Unstable } else { Outcome::Failed };
        let mut shown = ran;
        if judged.outcome == Outcome::Failed {
            let (parts, first) = smallest(runner, change, limit).await?;
            judged.smallest = parts;
            shown = first.unwrap_or(shown);
            (judged.difference, judged.seen) = compare(plain, &shown.record, change.aspect);
        }
        judged.printed = tail(&shown.output);
        judged.output = Some(shown.output.display().to_string());
    }
    progress.ended(name, &judged.outcome.name());
    Ok(judged)
}

/// The parts of a change that make the command fail by themselves, and the run of the first.
async fn smallest(
    runner: &Runner<'_>,
    change: &'static UnpromisedChange,
    limit: Duration,
) -> Result<(Vec<Part>, Option<RunResult>), Failure> {
    let (mut parts, mut first) = (Vec::new(), None);
    for (part, number) in change.parts.iter().zip(1..) {
        let ran = runner.run(&format!("{}-part-{number}", change.name), part.settings, limit).await?;
        if !ran.passed {
            parts.push(*part);
            first.get_or_insert(ran);
        }
    }
    Ok((parts, first))
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
    // It was written a moment ago; if somebody has removed it since, there is nothing to show.
    let bytes = file::read_end(path, TAIL_BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let masked = |line: &&str| Redactor::default().text(line).into_owned();
    lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(masked).collect()
}

/// The folder with what the runs printed. One that nobody named is removed, unless it is kept.
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
struct Report {
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
    reason: Option<String>,
    /// The parts that make the command fail by themselves; none if it has no parts, or only all of them together do.
    smallest: Vec<Part>,
    /// The first request that differs from the plain run.
    difference: Option<Difference>,
    /// What the command last saw of the change before that request.
    seen: Option<Sight>,
    /// The last lines that the command printed, if it failed.
    printed: Vec<String>,
    output: Option<String>,
}

fn text(report: &Report, colors: bool) -> String {
    let outcome = |outcome: Outcome, width: usize| {
        let color = match outcome {
            Outcome::Passed => GREEN,
            Outcome::Failed => BOLD_RED,
            Outcome::Unstable | Outcome::NotExercised => YELLOW,
        };
        painted(color, format!("{:width$}", outcome.name()), colors)
    };
    let mut text = String::new();
    if !report.plain.passed {
        text.push_str(&lines(&report.plain.printed));
        let (failed, ending) = (outcome(Outcome::Failed, 0), &report.plain.ending);
        text.push_str(&format!("{failed}  without any change: the command {ending}; make the command pass first\n"));
    }
    let width = report.changes.iter().map(|judged| judged.change.name.len()).max().unwrap_or_default();
    for judged in &report.changes {
        let (outcome, UnpromisedChange { name, changes, .. }) = (outcome(judged.outcome, 13), &judged.change);
        text.push_str(&format!("{outcome}  {name:width$}  {changes}\n"));
    }
    for judged in report.changes.iter().filter(|judged| judged.outcome == Outcome::Failed) {
        let (name, failed, ending) = (judged.change.name, outcome(judged.outcome, 0), &judged.ending);
        text.push_str(&format!("\n{name}: {failed}: the command {ending}\n"));
        text.extend(particulars(judged).iter().map(|line| format!("  {}\n", cell(line))));
        text.push_str(&lines(&judged.printed));
    }
    for (outcome, title) in
        [(Outcome::Unstable, "unstable, so nothing is proven"), (Outcome::NotExercised, "not exercised, so unproven")]
    {
        let mut found = report.changes.iter().filter(|judged| judged.outcome == outcome).peekable();
        if found.peek().is_some() {
            text.push_str(&format!("\n{title}:\n"));
        }
        text.extend(found.map(|judged| {
            format!("  {}: {}\n", judged.change.name, cell(judged.reason.as_deref().unwrap_or_default()))
        }));
    }
    text.push_str(&format!("\n{}\n", summary(report)));
    text
}

fn lines(printed: &[String]) -> String {
    printed.iter().map(|line| format!("    | {}\n", cell(line))).collect()
}

fn summary(report: &Report) -> String {
    let took = duration_text(std::time::Duration::from_millis(report.took_ms));
    let (changes, runs) = (counted(report.changes.len() as u64, "change"), counted(report.runs as u64, "run"));
    let Report { passed, failed, unstable, not_exercised, .. } = report;
    let kept = report.folder.as_ref().map(|folder| format!("; what each run printed is in {}", cell(folder)));
    format!(
        "{changes} with {runs} in {took}: {passed} passed, {failed} failed, {unstable} unstable, {not_exercised} not exercised{}",
        kept.unwrap_or_default()
    )
}

fn particulars(judged: &Judged) -> Vec<String> {
    let mut found = vec![format!("change    {}", judged.change.changes), format!("clause    {}", judged.change.clause)];
    let smallest = match &judged.smallest[..] {
        [] if judged.change.parts.is_empty() => None,
        [] => Some("only all parts together".to_owned()),
        parts => Some(parts.iter().map(|part| part.name).collect::<Vec<_>>().join(", ")),
    };
    found.extend(smallest.map(|parts| format!("smallest  {parts}")));
    let first = judged.difference.as_ref().map(|difference| difference.what.as_str());
    found.push(format!("first     {}", first.unwrap_or("no request differs: the command fails on what it has read")));
    if let Some(seen) = &judged.seen {
        found.extend([format!("after     {}", seen.what), format!("          {}", seen.text)]);
    }
    let settings = judged.smallest.first().map_or(&judged.settings[..], |part| part.settings);
    let settings: String = settings.iter().map(|setting| format!(" --set '{setting}'")).collect();
    found.push(format!("repeat    wrs-emulator exec{settings} -- CMD, with your own flags"));
    found.extend(judged.output.as_ref().map(|output| format!("printed   {output}")));
    found
}

fn suite(report: &Report) -> Suite {
    let failed =
        |kind: &str, message: String, lines: Vec<String>| TestResult::Failed { kind: kind.to_owned(), message, lines };
    let plain = TestCase {
        name: "plain".to_owned(),
        result: if report.plain.passed {
            TestResult::Passed
        } else {
            failed("plain", format!("the command {}", report.plain.ending), report.plain.printed.clone())
        },
    };
    let case = |judged: &Judged| TestCase {
        name: judged.change.name.to_owned(),
        result: match judged.outcome {
            Outcome::Passed => TestResult::Passed,
            Outcome::Failed => failed(
                judged.change.name,
                format!("{}: the command {}", judged.change.changes, judged.ending),
                [particulars(judged), judged.printed.clone()].concat(),
            ),
            outcome => {
                TestResult::Skipped(format!("{}: {}", outcome.name(), judged.reason.as_deref().unwrap_or_default()))
            }
        },
    };
    let cases = std::iter::once(plain).chain(report.changes.iter().map(case)).collect();
    Suite { name: "review.differential", cases, notes: vec![summary(report)] }
}
