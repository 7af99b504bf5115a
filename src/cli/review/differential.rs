//! `review differential`: the flags, and which runs are made. `differential_run` makes one, `crate::review::differential` has the
//! changes and compares, `differential_report` renders.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use futures_util::{StreamExt as _, stream};
use tokio::runtime::Builder;

use super::differential_report::{Judged, Outcome, Plain, Report, listed, suite, text};
use super::differential_run::{Folder, RunResult, Runner, tail};
use crate::app::FileLimit;
use crate::cli::arguments::{created, period};
use crate::cli::client::runtime;
use crate::cli::command::shown;
use crate::cli::failure::{Failure, colored, is_json, note};
use crate::cli::help::examples;
use crate::cli::junit::junit;
use crate::cli::output::{print_as_is, print_json, show};
use crate::cli::serve::{ServeArgs, settings};
use crate::cli::signals::Signals;
use crate::clock::machine;
use crate::control::api::List;
use crate::review::differential::{Aspect, CHANGES, Part, Record, UnpromisedChange, compare, is_exercised};

/// The limit of the first run, unless --timeout gives one.
const FIRST: Duration = Duration::from_mins(10);
/// The limit of the other runs: this many times as long as the plain run took, and at least `LEAST`.
const TIMES: u32 = 5;
const LEAST: Duration = Duration::from_secs(30);

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
pub(crate) struct DifferentialArgs {
    /// The command and its arguments.
    #[arg(last = true, required_unless_present = "list", value_name = "CMD")]
    command: Vec<OsString>,
    /// Make these changes only; separated by commas.
    #[arg(long, value_name = "CHANGE", value_delimiter = ',', hide_possible_values = true, value_parser = names())]
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

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(CHANGES.iter().map(|change| change.name))
}

pub(crate) fn run(args: &DifferentialArgs) -> Result<ExitCode, Failure> {
    if args.list {
        let changes = List { data: CHANGES.iter().collect() };
        return Ok(show(args.serve.json, &changes, || listed(CHANGES)));
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
    let seed = *settings.seed.get_or_insert(1);
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
        limit: args.timeout.map_or_else(OnceLock::new, OnceLock::from),
        count: AtomicUsize::new(0),
    };
    let found = runtime.block_on(async {
        let mut signals = Signals::install()?;
        // A run that is dropped ends its command.
        tokio::select! {
            found = examine(args, &runner, seed) => found.map(Ok),
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

async fn examine(args: &DifferentialArgs, runner: &Runner<'_>, seed: u64) -> Result<Report, Failure> {
    let began = machine::monotonic();
    let chosen = |change: &&UnpromisedChange| args.only.is_empty() || args.only.iter().any(|name| name == change.name);
    let chosen: Vec<&UnpromisedChange> = CHANGES.iter().filter(chosen).collect();
    let progress = Progress { all: chosen.len(), done: AtomicUsize::new(0) };
    let plain = runner.run("plain", &[], *runner.limit.get().unwrap_or(&FIRST)).await?;
    progress.ended("the command as it is", if plain.passed { "passed" } else { "failed" });
    let _ = runner.limit.set((plain.took * TIMES).max(LEAST));
    let mut changes = Vec::new();
    if plain.passed {
        let judging = stream::iter(chosen.into_iter().map(|change| judge(runner, change, &plain.record, &progress)));
        let mut judged = judging.buffered(usize::from(args.jobs));
        while let Some(judged) = judged.next().await {
            changes.push(judged?);
        }
    }
    let count = |outcome| changes.iter().filter(|judged| judged.outcome == outcome).count();
    Ok(Report {
        command: shown(&args.command),
        seed,
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
    let limit = *runner.limit.get().unwrap_or(&FIRST);
    let ran = runner.run(name, &settings, limit).await?;
    judged.ending.clone_from(&ran.ending);
    if ran.passed {
        if is_exercised(plain, &ran.record, change.aspect) {
            judged.outcome = Outcome::Passed;
        } else {
            judged.reason = Some(change.exercise.to_owned());
        }
    } else {
        judged.reason = unstable(runner, name, &settings, limit).await?;
        judged.outcome = if judged.reason.is_some() { Outcome::Unstable } else { Outcome::Failed };
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

/// Why a failure proves nothing, if it does not: the command is run again, with the change and without it.
async fn unstable(
    runner: &Runner<'_>,
    name: &str,
    settings: &[&str],
    limit: Duration,
) -> Result<Option<String>, Failure> {
    if !runner.run(&format!("{name}-without"), &[], limit).await?.passed {
        return Ok(Some("the command fails now and then without any change, too".to_owned()));
    }
    let again = runner.run(&format!("{name}-again"), settings, limit).await?;
    Ok(again.passed.then(|| "the command failed once with the change, and passed when it was run again".to_owned()))
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
