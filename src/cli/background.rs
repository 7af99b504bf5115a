//! `start`, `stop`, `status`, `env` and `logs`: an emulator in the background, one for each name, by default that of the folder.
//!
//! `start` runs itself once more, in a process that serves, and waits until that is ready.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread::sleep;
use std::time::Duration;

use clap::{ArgMatches, Args, ValueEnum};
use serde::Serialize;
use serde_json::json;

use super::arguments::{LAST, Target, examples};
use super::client::ControlClient;
use super::failure::{Failure, FailureCode, note};
use super::output::{print, show, try_print};
use super::serve::{ServeArgs, serve, settings};
use super::started::{Background, BackgroundState, Record, ServeOptions, Served};
use super::stream::{MAX_LOG, Stream, older_log};
use super::trust::is_of_emulator;
use crate::clock::machine;
use crate::contract::keys::SAMPLE_KEY;
use crate::control::api::{GetVerdict, ProblemCounts, Query};
use crate::redact::visible_lines;
use crate::util::duration::duration_text;
use crate::util::file::{self, FileProblem};
use crate::util::process::{leave_session, terminate};
use crate::util::wording::{counted, shell_word};

/// Names the log of the process that serves. `start` sets it for that process.
const LOG_VARIABLE: &str = "_WRS_EMULATOR_LOG";
/// The time limit until an emulator is ready.
const READY: Duration = Duration::from_secs(10);
/// The time beyond its grace period that an emulator has to stop.
const SPARE: Duration = Duration::from_secs(5);
/// How often another process is looked at while it is waited for.
const PAUSE: Duration = Duration::from_millis(20);
/// Lines of the log below the failure of a start.
const SHOWN_LINES: usize = 10;

#[derive(Debug, Args)]
#[command(after_help = examples([
    "start",
    "start --clock auto --scenario rate-limit-burst",
    "start --name shop --listen 127.0.0.1:0  # a second one, on a free port",
]) + "\n\nIt prints the base URL once the emulator is ready. Started again with the same options, it prints \
the same URL. Commands in this folder and below use that emulator without --url, whatever listens on \
the default port.

Exit status: 0 ready, 1 not ready within 10 s, or started with other options, 2 wrong usage, or a file \
cannot be written.")]
pub(super) struct StartArgs {
    #[command(flatten)]
    named: NameArgs,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Args)]
struct NameArgs {
    /// Which emulator; by default the one of this folder.
    ///
    /// For several emulators of a folder, or one of several folders.
    #[arg(long = "name", id = "started", env = "NAME", value_name = "NAME")]
    name: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = examples(["stop", "stop --name shop"]) + "\n\nIt waits until the emulator has ended. Exit status: 0 nothing runs, 1 it \
does not end.")]
pub(super) struct StopArgs {
    #[command(flatten)]
    named: NameArgs,
    /// Print JSON.
    #[arg(long, display_order = LAST)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = examples(["status", "status --json"]) + "\n\nExit status: 0 it serves, 3 it does not.")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    named: NameArgs,
    /// Print JSON.
    #[arg(long, display_order = LAST)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = examples([
    "env  # in a shell: eval \"$(wrs-emulator env)\"",
    "env --shell fish  # in fish: wrs-emulator env --shell fish | source",
    "env --unset",
]))]
pub(super) struct EnvArgs {
    #[command(flatten)]
    named: NameArgs,
    /// The shell that reads them.
    #[arg(long, value_enum, default_value = "posix")]
    shell: Shell,
    /// Print commands that remove the variables.
    ///
    /// Variables that named other certificates before are removed as well; open a new shell to restore them.
    #[arg(long)]
    unset: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Posix,
    Fish,
    Powershell,
}

#[derive(Debug, Args)]
#[command(after_help = examples(["logs", "logs --follow", "logs --name shop"]))]
pub(super) struct LogsArgs {
    #[command(flatten)]
    named: NameArgs,
    /// Print further lines as they are written, until the emulator ends.
    #[arg(long, short)]
    follow: bool,
}

pub(super) fn start(args: &StartArgs, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    if let Some(log) = std::env::var_os(LOG_VARIABLE) {
        leave_session();
        Stream::write_messages_to(log.into()).map_err(|problem| unreadable(&problem, "write its log"))?;
        return serve(&args.serve, true);
    }
    let background = Background::new(args.named.name.as_deref())?;
    // Wrong options are reported here, not in the log.
    settings(&args.serve)?;
    let options = matches.subcommand_matches("start").map(options).unwrap_or_default();
    background.create_folder()?;
    let began = machine::monotonic();
    loop {
        if let Some(lock) = background.lock()? {
            let record = Record {
                process: 0,
                started_at: machine::wall_time(),
                grace_ms: u64::try_from(args.serve.grace.as_millis()).unwrap_or(u64::MAX),
                options,
                served: None,
            };
            return launch(&background, lock, record, args.serve.json);
        }
        if let BackgroundState::Running(Record { served: Some(served), process, options: first, .. }) =
            background.state()?
        {
            return match differences(&first, options, &served) {
                lines if lines.is_empty() => Ok(found(&background, &served, process, args.serve.json)),
                lines => Err(Failure::check_failed(format!(
                    "the emulator `{}` was started with other options, at {}",
                    background.name, served.url
                ))
                .with_lines(lines)
                .with_hint(format!(
                    "use it as it is, stop it with `wrs-emulator stop --name {}`, or start a second one: `--name NAME --listen 127.0.0.1:0`",
                    background.name
                ))),
            };
        }
        if began.elapsed() > READY {
            let message = format!("another start of `{}` is not ready after {}", background.name, duration_text(READY));
            return Err(Failure::check_failed(message)
                .with_hint(format!("`wrs-emulator stop --name {}` ends it", background.name)));
        }
        // Another start was quicker, or a command is just looking at the lock.
        sleep(PAUSE);
    }
}

/// Every option of `serve` with its values, by its flag. How the output looks makes no difference.
fn options(matches: &ArgMatches) -> ServeOptions {
    let definition = ServeArgs::augment_args(clap::Command::new("serve"));
    let ids = definition.get_arguments().map(|argument| argument.get_id().as_str());
    let values = |id: &str| {
        let values = matches.try_get_raw(id).ok().flatten().into_iter().flatten();
        (id.replace('_', "-"), values.map(|value| value.to_string_lossy().into_owned()).collect())
    };
    ids.filter(|id| !matches!(*id, "json" | "quiet")).map(values).collect()
}

/// A line for each option that is not the one of the first start.
fn differences(first: &ServeOptions, mut now: ServeOptions, served: &Served) -> Vec<String> {
    const TOKEN: &str = "control-token";
    let is_same_token = now.get(TOKEN).and_then(|values| values.first()) == served.control_token.as_ref();
    // `env` sets it, also where it was generated.
    if let (true, Some(given)) = (is_same_token, first.get(TOKEN)) {
        now.insert(TOKEN.to_owned(), given.clone());
    }
    let shown = |values: Option<&Vec<String>>| match values.map(Vec::as_slice) {
        None | Some([]) => "nothing".to_owned(),
        Some(values) => values.iter().map(|value| shell_word(value)).collect::<Vec<_>>().join(" "),
    };
    let differing = now.iter().filter(|(flag, values)| first.get(*flag) != Some(values));
    let line = |(flag, values): (&String, &Vec<String>)| match flag.as_str() {
        TOKEN => format!("--{flag}: another one"),
        _ => format!("--{flag}: started with {}, now {}", shown(first.get(flag)), shown(Some(values))),
    };
    differing.map(line).collect()
}

/// Starts the process that serves, which inherits the lock, and waits until it is ready.
fn launch(background: &Background, lock: File, mut record: Record, json: bool) -> Result<ExitCode, Failure> {
    let path = background.log();
    let cannot = |error: std::io::Error| Failure::io(format!("cannot start the emulator: {error}"));
    file::remove(&older_log(&path)).map_err(|problem| unreadable(&problem, "remove its older log"))?;
    let log = file::append_private(&path).and_then(|log| Ok(log.set_len(0).map(|()| log)?));
    let log = log.map_err(|problem| unreadable(&problem, "write its log"))?;
    // Before the process starts, so that a full disk leaves none behind.
    background.write(&record)?;
    let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
    command.args(std::env::args_os().skip(1)).env(LOG_VARIABLE, &path);
    // A shell's other files: a test runner waits until they are closed, and a lock would last as long as the emulator.
    close_fds::set_fds_cloexec(3, &[]);
    let spawned = command.stdin(lock).stdout(Stdio::piped()).stderr(log).spawn();
    // The lock and the log stay open there alone.
    drop(command);
    let mut child = spawned.map_err(cannot)?;
    record.process = child.id();
    let ready = background.write(&record).and_then(|()| {
        record.served = Some(served(&mut child).map_err(|failure| with_log(background, failure))?);
        background.write(&record)
    });
    if let Err(failure) = ready {
        // It may have ended already. It has no state yet that it could save.
        let _ = child.kill().and_then(|()| child.wait());
        background.remove()?;
        return Err(failure);
    }
    let served = record.served.as_ref().expect("it was just set");
    Ok(found(background, served, record.process, json))
}

/// The line that the process prints once it is ready.
fn served(child: &mut Child) -> Result<Served, Failure> {
    let mut output = BufReader::new(child.stdout.take().expect("it was piped"));
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        // Without a line it has ended. After the time limit there is no receiver.
        let _ = output.read_line(&mut line).map(|_| sender.send(line));
    });
    let line = receiver.recv_timeout(READY).map_err(|_| {
        Failure::check_failed(format!("the emulator is not ready after {}; its log ends with", duration_text(READY)))
    })?;
    serde_json::from_str(&line)
        .map_err(|_| Failure::check_failed("the emulator ended before it was ready; its log ends with"))
}

/// The failure with the last lines of the log.
fn with_log(background: &Background, failure: Failure) -> Failure {
    let text = file::read(&background.log(), MAX_LOG).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
    failure.with_lines(last.iter().map(|line| format!("  {line}")).collect()).with_hint(
        "`wrs-emulator logs` shows all of it; `wrs-emulator serve` with the same options serves in the foreground",
    )
}

fn found(background: &Background, served: &Served, process: u32, json: bool) -> ExitCode {
    let Served { url, control_url, .. } = served;
    let found = json!({ "name": background.name, "url": url, "control_url": control_url, "process": process, "log": background.log() });
    let shown = show(json, &found, || format!("{url}\n"));
    note("`eval \"$(wrs-emulator env)\"` sets WRS_BASE_URL and WRS_API_KEY; `wrs-emulator stop` ends it");
    shown
}

fn absent(named: &NameArgs) -> String {
    match &named.name {
        Some(name) => format!("no emulator `{name}` was started"),
        None => "no emulator was started for this folder".to_owned(),
    }
}

pub(super) fn stop(args: &StopArgs) -> Result<ExitCode, Failure> {
    let background = Background::existing(args.named.name.as_deref())?;
    let name = &background.name;
    let (message, stopped) = match background.state()? {
        BackgroundState::Running(record) => {
            end(&background, &record)?;
            (format!("the emulator `{name}` (process {}) has ended", record.process), true)
        }
        BackgroundState::Died(record) => {
            (format!("the emulator `{name}` (process {}) had already ended, without `stop`", record.process), false)
        }
        BackgroundState::Absent => (absent(&args.named), false),
    };
    // Unless another one is being started, which has the lock.
    if let Some(_lock) = background.exists().then(|| background.lock()).transpose()?.flatten() {
        background.remove()?;
    }
    if args.json {
        show(true, &json!({ "name": name, "stopped": stopped }), String::new);
    } else {
        note(&message);
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the process as SIGTERM does, and waits for it.
fn end(background: &Background, record: &Record) -> Result<(), Failure> {
    let (process, limit) = (record.process, Duration::from_millis(record.grace_ms).saturating_add(SPARE));
    terminate(process);
    let began = machine::monotonic();
    while matches!(background.state()?, BackgroundState::Running(now) if now.process == process) {
        if began.elapsed() > limit {
            let message = format!("process {process} has not ended within {}", duration_text(limit));
            return Err(Failure::check_failed(message).with_hint(format!("`kill -9 {process}` ends it at once")));
        }
        sleep(PAUSE);
    }
    Ok(())
}

/// An emulator in the background, as `status` shows it.
#[derive(Serialize)]
struct BackgroundStatus<'a> {
    name: &'a str,
    url: &'a str,
    control_url: &'a str,
    process: u32,
    started_at: String,
    keys: usize,
    problems: usize,
}

pub(super) fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let (background, record, served) = serving(&args.named)?;
    let Served { url, control_url, control_token, .. } = &served;
    // The record is private, and the lock shows that this process serves there.
    let target =
        Target { url: control_url.clone(), control_token: control_token.clone(), ca: Vec::new(), insecure: true };
    let verdict = ControlClient::new(&target).send(&Query { query: GetVerdict { key: "*".into(), wait: None } })?;
    let ProblemCounts { unmatched, undelivered, forged, unfinished, .. } = verdict.counts;
    let (keys, problems) = (verdict.keys.len(), unmatched + undelivered + forged + unfinished);
    let seconds = machine::wall_time().duration_since(record.started_at).as_secs().max(0).cast_unsigned();
    let (name, process, started_at) = (&*background.name, record.process, record.started_at.to_string());
    let status = BackgroundStatus { name, url, control_url, process, started_at, keys, problems };
    Ok(show(args.json, &status, || {
        let age = duration_text(Duration::from_secs(seconds.max(1)));
        format!("{url}  {name}, for {age}: {}, {}\n", counted(keys, "key"), counted(problems, "problem"))
    }))
}

/// An emulator that serves; otherwise, what is known.
fn serving(named: &NameArgs) -> Result<(Background, Record, Served), Failure> {
    let background = Background::existing(named.name.as_deref())?;
    let name = &background.name;
    let (message, hint) = match background.state()? {
        BackgroundState::Running(mut record) => match record.served.take() {
            Some(served) => return Ok((background, record, served)),
            None => (format!("the emulator `{name}` is not ready yet"), "try again, or see `wrs-emulator logs`"),
        },
        BackgroundState::Died(record) => (
            format!("the emulator `{name}` (process {}) has ended, without `stop`", record.process),
            "`wrs-emulator logs` shows its log, and `wrs-emulator start` starts it again",
        ),
        BackgroundState::Absent => (absent(named), "start it with `wrs-emulator start`"),
    };
    let is_other = |other: &Background| other.name != *name && matches!(other.state(), Ok(BackgroundState::Running(_)));
    let others = Background::all().into_iter().filter(is_other).map(|other| other.name);
    let lines = others.map(|other| format!("`{other}` serves: choose it with `--name {other}`")).collect();
    Err(Failure::new(3, FailureCode::Unreachable, message).with_lines(lines).with_hint(hint))
}

pub(super) fn env(args: &EnvArgs) -> Result<ExitCode, Failure> {
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    if args.unset {
        let ours = ["WRS_BASE_URL", "WRS_EMULATOR_URL", "WRS_API_KEY", "WRS_EMULATOR_CONTROL_TOKEN"];
        // Others are only ours if they name a file of an emulator, which `stop` has removed.
        let certificates = std::env::vars_os().filter(|(_, value)| is_of_emulator(value));
        let certificates = certificates.filter_map(|(name, _)| name.into_string().ok());
        variables.extend(ours.map(str::to_owned).into_iter().chain(certificates).map(|name| (name, String::new())));
    } else {
        let (_, _, served) = serving(&args.named)?;
        let ours = [
            ("WRS_BASE_URL", Some(served.url)),
            ("WRS_EMULATOR_URL", Some(served.control_url)),
            ("WRS_API_KEY", Some(SAMPLE_KEY.to_owned())),
            ("WRS_EMULATOR_CONTROL_TOKEN", served.control_token),
        ];
        variables.extend(ours.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        variables.extend(served.trust);
    }
    let line = |(name, value): (String, String)| match (args.shell, args.unset) {
        (Shell::Posix, false) => format!("export {name}={}\n", shell_word(&value)),
        (Shell::Posix, true) => format!("unset {name}\n"),
        (Shell::Fish, false) => format!("set -gx {name} {}\n", shell_word(&value)),
        (Shell::Fish, true) => format!("set -e {name}\n"),
        (Shell::Powershell, false) => format!("$env:{name} = '{}'\n", value.replace('\'', "''")),
        (Shell::Powershell, true) => format!("Remove-Item -ErrorAction Ignore Env:{name}\n"),
    };
    print(&variables.into_iter().map(line).collect::<String>());
    Ok(ExitCode::SUCCESS)
}

pub(super) fn logs(args: &LogsArgs) -> Result<ExitCode, Failure> {
    let background = Background::existing(args.named.name.as_deref())?;
    let path = background.log();
    let open = |path: &Path| file::open_growing(path).map_err(|problem| unreadable(&problem, "read its log"));
    if !path.exists() {
        return Err(
            Failure::new(1, FailureCode::NotFound, absent(&args.named)).with_hint("start it with `wrs-emulator start`")
        );
    }
    let older = older_log(&path);
    let mut file = open(if older.exists() { &older } else { &path })?;
    loop {
        // Asked before the log is read to its end.
        let is_running = matches!(background.state()?, BackgroundState::Running(_));
        // While it is replaced, there is none.
        let is_newest = !path.exists() || file::is_at(&file, &path).unwrap_or(true);
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(|error| unreadable(&error.into(), "read its log"))?;
        if !try_print(&visible_lines(&String::from_utf8_lossy(&text))) || (is_newest && !(args.follow && is_running)) {
            return Ok(ExitCode::SUCCESS);
        }
        if is_newest {
            sleep(5 * PAUSE);
        } else {
            // It was renamed when it was full.
            file = open(&path)?;
        }
    }
}

fn unreadable(problem: &FileProblem, what: &str) -> Failure {
    Failure::io(format!("cannot {what}: {problem}"))
}
