//! `exec --under`: the command once for each reading of what the contract leaves open, each time with a fresh emulator, and one
//! grid at the end. `exec` has how a command runs, `settings/readings.rs` the changes that are readings.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};

use super::child::{Streams, exit_code, whole_run};
use super::ci::Ci;
use super::client::{in_background, run_task};
use super::exec::{EndedCommand, ExecArgs, Runner};
use super::failure::{Failure, colored, note, note_with, report};
use super::output::{cell, mark, optional, print_as_is, print_json, table};
use super::profile::is_path;
use super::run::write_run;
use super::serve::{PortFile, profile, settings, stop};
use super::signals::{Adopted, Signals};
use super::verdict::{RunVerdict, reader_of_report};
use crate::app::{FileLimit, Settings};
use crate::contract::nearest;
use crate::control::api::{ExecFacts, ReadingGrid, ReadingRow, RecordedRun};
use crate::settings::{Layered, PRESETS, Preset, UNPROMISED};
use crate::util::wording::{any_of, quoted};

/// The reading that the others are compared with.
const CONTRACT: &str = "contract";
/// Every change of one thing.
const EACH: &str = "each";
/// How many lines are shown of what a failed run printed.
const SHOWN_LINES: usize = 40;

/// A reading of what the contract leaves open.
struct NamedProfile {
    name: String,
    /// How this reading differs, to complete "unless …".
    unless: String,
    profile: Layered,
}

/// A run under a reading.
struct ReadingRun {
    row: ReadingRow,
    unless: String,
    facts: ExecFacts,
    /// Of the first run and those that failed, if a report is requested.
    document: Option<RecordedRun>,
}

pub(super) fn run(args: &ExecArgs) -> Result<ExitCode, Failure> {
    let settings = settings(&args.serve)?;
    let raised = FileLimit::raise();
    run_task(run_all(args, settings, raised))?
}

async fn run_all(args: &ExecArgs, mut settings: Settings, raised: FileLimit) -> Result<ExitCode, Failure> {
    let addresses = [Some(settings.listen), settings.control_listen];
    if args.jobs > 1 && addresses.into_iter().flatten().any(|address| address.port() != 0) {
        return Err(Failure::usage("--jobs: several emulators cannot listen on one port")
            .with_hint("leave out --listen: each uses a free port, and the command reads it from WRS_BASE_URL"));
    }
    settings.seed.get_or_insert(1);
    let readings = readings(args)?;
    let runner = Runner::new(args, raised)?;
    // Each run has its own from now on, so that it notices a signal that comes before its turn.
    let mut signals = Signals::install()?;
    let with_signals = readings.into_iter().map(|reading| Ok((reading, Signals::install()?)));
    let mut readings = with_signals.collect::<Result<Vec<_>, Failure>>()?.into_iter();
    let (all, done) = (readings.len(), AtomicUsize::new(0));
    let run = |(reading, signals): (NamedProfile, Signals), streams| {
        let (runner, settings, done) = (&runner, settings.clone(), &done);
        async move {
            let run = run_under(&reading, args, runner, settings, signals, streams).await?;
            if let Some(run) = run.as_ref().filter(|_| !args.serve.quiet) {
                let number = done.fetch_add(1, Ordering::Relaxed) + 1;
                let (message, lines) = progress(run, streams);
                note_with(&format!("[{number}/{all}] {message}"), &lines);
            }
            Ok::<_, Failure>(run)
        }
    };
    let contract = run(readings.next().expect("`contract` is among them"), Streams::StderrAndKept).await?;
    let mut runs: Vec<ReadingRun> = contract.into_iter().collect();
    if runs.iter().all(|run| run.row.exit_status == 0) {
        // In this order, whichever ends first.
        let others = stream::iter(readings).map(|reading| run(reading, Streams::Kept));
        let others: Vec<_> = others.buffered(usize::from(args.jobs)).try_collect().await?;
        runs.extend(others.into_iter().flatten());
    }
    let signalled = signals.wait().now_or_never();
    let contract = runs.first().map_or(0, |run| run.row.exit_status);
    let failed = runs.iter().position(|run| run.row.exit_status != 0);
    let sentence = match signalled {
        Some(_) => format!("interrupted: {} of {all} readings were tried", runs.len()),
        None => sentence(&runs),
    };
    let rows: Vec<ReadingRow> = runs.iter().map(|run| run.row.clone()).collect();
    let reported = runs.into_iter().nth(failed.unwrap_or_default());
    let reading = reported.as_ref().map_or(CONTRACT, |run| &run.row.reading).to_owned();
    let grid = ReadingGrid { reading, sentence, readings: rows };
    if let (Some(file), Some(ReadingRun { facts, document: Some(document), .. })) = (&runner.report_file, reported) {
        let facts = ExecFacts { under: Some(grid.clone()), ..facts };
        write_run(file, document.after(facts))?;
        if let Some(path) = args.report.as_deref().filter(|_| !args.serve.quiet) {
            note(&format!("the report of `{}` is in `{}`", grid.reading, path.display()));
        }
    }
    publish(args, &grid, failed.is_none() && signalled.is_none());
    Ok(ExitCode::from(match signalled {
        Some(number) => 128 + number,
        None if contract != 0 => contract,
        None => u8::from(failed.is_some()),
    }))
}

/// The readings that are named, each once, `contract` first.
fn readings(args: &ExecArgs) -> Result<Vec<NamedProfile>, Failure> {
    let changes = || UNPROMISED.iter().map(|change| change.name);
    let mut names = vec![CONTRACT];
    for name in &args.under {
        if name == EACH { names.extend(changes()) } else { names.push(name) }
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    names.into_iter().map(|name| reading(name, args)).collect()
}

fn reading(name: &str, args: &ExecArgs) -> Result<NamedProfile, Failure> {
    let changes = || UNPROMISED.iter().map(|change| change.name);
    let presets = || PRESETS.iter().map(|preset| preset.name);
    let (unless, profile) = if let Some(change) = UNPROMISED.iter().find(|change| change.name == name) {
        let base = profile(&args.serve, "--under", None)?;
        let changed = base.with(|draft| draft.text(change.settings, &format!("reading {name}")));
        let changed = changed.map_err(|problems| Failure::usage(format!("--under {name}: {}", problems[0].message)))?;
        (format!("{} (`{name}`)", change.unless), changed)
    } else if Preset::named(name).is_some() || is_path(name) {
        (format!("the profile is `{name}`"), profile(&args.serve, "--under", Some(Path::new(name)))?)
    } else {
        let near = nearest(name, changes().chain(presets()).chain([EACH]));
        let near = near.map_or_else(String::new, |near| format!("did you mean `{near}`? "));
        let (presets, changes) = (presets().collect::<Vec<_>>(), changes().collect::<Vec<_>>());
        return Err(Failure::usage(format!("--under: unknown reading `{}`", quoted(name))).with_hint(format!(
            "{near}a reading is {}, the path of a profile file, `{EACH}`, or one of its changes: {}",
            presets.join(", "),
            changes.join(", ")
        )));
    };
    Ok(NamedProfile { name: name.to_owned(), unless, profile })
}

/// Runs the command; nothing if a signal came before its turn.
async fn run_under(
    reading: &NamedProfile,
    args: &ExecArgs,
    runner: &Runner<'_>,
    settings: Settings,
    mut signals: Signals,
    streams: Streams,
) -> Result<Option<ReadingRun>, Failure> {
    if signals.wait().now_or_never().is_some() {
        return Ok(None);
    }
    let settings = Settings { profile: reading.profile.clone(), ..settings };
    let no_file = PortFile::default();
    let ended = runner.command(settings, &no_file, streams, &mut signals, &mut Adopted::ignored()).await?;
    let EndedCommand { emulator, log, target, status, signalled, interrupted, mut facts } = ended;
    let signalled = signalled.or(interrupted);
    let judging = args.judging()?;
    facts.fail_on = judging.names();
    let settle = if signalled.is_some() { Duration::ZERO } else { args.settle(Some(exit_code(status))) };
    let (asked, reader) = (target.clone(), reader_of_report(args.report.as_deref()));
    let judged = in_background(move || RunVerdict::ask(&asked, "*", settle, &judging, reader));
    let (verdict, signalled) = tokio::select! {
        verdict = judged => (Some(verdict?), signalled),
        number = signals.wait() => (None, Some(number)),
    };
    if let Some(verdict) = &verdict {
        verdict.add_to(&mut facts);
    }
    let document = match runner.report_file {
        Some(_) => Some(whole_run(&target, facts.clone()).await?),
        None => None,
    };
    let (stopped, _) = stop(emulator, log, &mut signals, signalled).await;
    if let Err(failure) = &stopped {
        report(failure);
    }
    let exit_status = match (exit_code(status), stopped) {
        (0, Err(failure)) => failure.status,
        (0, Ok(())) => u8::from(!facts.failed_by.is_empty()),
        (code, _) => code,
    };
    let document = document.filter(|_| exit_status != 0 || streams != Streams::Kept);
    let row = ReadingRow {
        reading: reading.name.clone(),
        exit_status,
        problems: verdict.as_ref().map_or(0, RunVerdict::problem_count),
        failed_test: verdict.as_ref().and_then(RunVerdict::failed_test).map(str::to_owned),
    };
    Ok(Some(ReadingRun { row, unless: reading.unless.clone(), facts, document }))
}

/// How a run ended. A failure is followed by the end of the output, unless it was already shown.
fn progress(run: &ReadingRun, streams: Streams) -> (String, Vec<String>) {
    let ReadingRow { reading, exit_status, .. } = &run.row;
    if *exit_status == 0 {
        return (format!("{reading}: passed"), Vec::new());
    }
    let mut text = format!("{reading}: failed, exit status {exit_status}");
    for because in &run.facts.failed_because {
        text.push_str(&format!("; {because}"));
    }
    let output = run.facts.output.as_deref().filter(|_| streams == Streams::Kept).unwrap_or_default();
    let lines: Vec<&str> = output.lines().collect();
    let shown = lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().map(|line| format!("    | {line}"));
    (text, shown.collect())
}

fn sentence(runs: &[ReadingRun]) -> String {
    let failed: Vec<&ReadingRun> = runs.iter().filter(|run| run.row.exit_status != 0).collect();
    match &failed[..] {
        [] => "your suite passes under every reading".to_owned(),
        [first, ..] if first.row.reading == CONTRACT => {
            format!("your suite fails under `{CONTRACT}` itself; mend that first")
        }
        failed => {
            let clauses: Vec<&str> = failed.iter().map(|run| &*run.unless).collect();
            format!("your suite passes unless {}", any_of(&clauses))
        }
    }
}

/// Prints the grid, or the same as JSON, and reports it to a CI system.
fn publish(args: &ExecArgs, grid: &ReadingGrid, passes: bool) {
    let header = ["reading", "exit", "problems", "first failed test"];
    let row = |row: &ReadingRow| {
        [cell(&row.reading), row.exit_status.to_string(), row.problems.to_string(), optional(row.failed_test.as_ref())]
    };
    let rows = table(header, grid.readings.iter().map(row));
    if args.serve.json {
        print_json(grid);
    } else {
        let mark = mark(passes, colored(&std::io::stdout()));
        print_as_is(&format!("{rows}\n{mark} {}\n", cell(&grid.sentence)));
    }
    if let Some(ci) = Ci::from_environment() {
        ci.publish_table(&cell(&grid.sentence), &rows, !passes, args.report.as_deref());
    }
}
