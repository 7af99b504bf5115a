//! `start`, `stop`, `status`, `env` and `logs`: an emulator in the background, one for each name, which is that of a folder.
//!
//! `start` runs the program once more, with `--record`: that process serves, and keeps its record and its log until it ends.

mod record;

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::json;

pub(super) use record::OwnRecord;
use record::{PAUSE, Place, State, options};
pub(super) use record::{Record, started_here};

use super::arguments::{LAST, Target, examples};
use super::client::Call;
use super::failure::{Code, Failure, note};
use super::output::{print, show, try_print};
use super::serve::{ServeArgs, serve_as};
use super::stream::Stream;
use super::trust::TrustFiles;
use crate::app::Emulator;
use crate::clock::machine;
use crate::contract::DEFAULT_ADDRESS;
use crate::contract::keys::SAMPLE_KEY;
use crate::control::api::{AskHealth, GetVerdict, Query};
use crate::redact::visible_lines;
use crate::util::duration::duration_text;
use crate::util::file;
use crate::util::process::{leave_session, terminate};
use crate::util::wording::{counted, shell_word};

/// How long an emulator may take until it is ready.
const READY: Duration = Duration::from_secs(10);
/// How much longer than its grace an emulator may take to end.
const SPARE: Duration = Duration::from_secs(5);
/// Lines of the log below the failure of a start.
const SHOWN_LINES: usize = 10;
/// Most bytes of the log; the older half of it goes first.
const MAX_LOG: u64 = 10 * 1024 * 1024;

#[derive(Debug, Args)]
#[command(after_help = examples([
    "start",
    "start --clock auto --scenario rate-limit-burst",
    "start --name shop --listen 127.0.0.1:0",
]) + "\n\nThe base URL goes to stdout once the emulator is ready. Started again with the same options, it is found and not started \
twice. Commands in the same folder, or below it, then call it without --url.

Exit status: 0 ready, 1 not ready within 10 s, or started already with other options.")]
pub(super) struct StartArgs {
    /// A name, for several emulators of one folder; else the folder names it.
    #[arg(long, env, value_name = "NAME")]
    name: Option<String>,
    /// Serve, and keep this record. For the process that `start` starts.
    #[arg(long, hide = true, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Args)]
pub(super) struct NameArgs {
    /// The name it was started with; else the present folder or the nearest one above it names it.
    #[arg(long, env, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = examples(["stop", "stop --name shop"]))]
pub(super) struct StopArgs {
    #[command(flatten)]
    named: NameArgs,
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
    "env",
    "env --shell fish",
    "env --unset",
]) + "\n\nIn a shell: eval \"$(wrs-emulator env)\"; in fish: wrs-emulator env --shell fish | source")]
pub(super) struct EnvArgs {
    #[command(flatten)]
    named: NameArgs,
    /// The shell that reads it.
    #[arg(long, value_enum, default_value = "posix")]
    shell: Shell,
    /// Take the variables back.
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
    /// Go on as the emulator writes, until it ends.
    #[arg(long, short)]
    follow: bool,
}

pub(super) fn start(args: &StartArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.record {
        return serve_recorded(&args.serve, path);
    }
    let place = Place::new(args.name.as_deref())?;
    // The same faults as in a process of its own, said here.
    super::serve::settings(&args.serve)?;
    let options = options(std::env::args_os().skip(2), std::env::vars_os());
    let mut child = None;
    let begun = machine::monotonic();
    loop {
        match place.state()? {
            State::Serving(record) if answers(&record) => return found(&place, &record, &options, args.serve.json),
            State::Absent | State::Died(_) if child.is_none() => child = Some(spawn(&place, args)?),
            _ => {}
        }
        // If another start was quicker, its emulator is waited for.
        let has_ended = child.as_mut().is_some_and(|child: &mut Child| matches!(child.try_wait(), Ok(Some(_))));
        if has_ended && matches!(place.state()?, State::Absent | State::Died(_)) {
            return Err(not_ready(&place, "the emulator ended before it was ready".to_owned()));
        }
        if begun.elapsed() > READY {
            if let Some(child) = &mut child {
                terminate(child.id());
            }
            return Err(not_ready(&place, format!("the emulator is not ready after {}", duration_text(READY))));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Starts the process that serves.
fn spawn(place: &Place, args: &StartArgs) -> Result<Child, Failure> {
    let cannot = |what: &str, error: &dyn std::fmt::Display| Failure::io(format!("cannot {what}: {error}"));
    let log = place.log();
    let open = || file::append_private(&log).map_err(|error| cannot(&format!("write `{}`", log.display()), &error));
    open()?.set_len(0).map_err(|error| cannot(&format!("write `{}`", log.display()), &error))?;
    let program = std::env::current_exe().map_err(|error| cannot("find this program", &error))?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).arg("--record").arg(place.record());
    if args.serve.is_usual_address() && is_taken() {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    command.stdin(Stdio::null()).stdout(open()?).stderr(open()?);
    command.spawn().map_err(|error| cannot("start the emulator", &error))
}

/// True if something listens at the usual address already.
fn is_taken() -> bool {
    std::net::TcpListener::bind(DEFAULT_ADDRESS).is_err()
}

/// Serves as the process that `start` has started.
fn serve_recorded(args: &ServeArgs, path: &std::path::Path) -> Result<ExitCode, Failure> {
    leave_session();
    let Some(record) = OwnRecord::claim(path)? else {
        return Err(Failure::check_failed("another start of the same name was quicker"));
    };
    let log = path.with_extension("log");
    let opened = file::append_private(&log);
    let opened = opened.map_err(|problem| Failure::io(format!("cannot write `{}`: {problem}", log.display())))?;
    Stream::write_messages_to(opened, MAX_LOG);
    serve_as(args, Some(record))
}

impl OwnRecord {
    /// Writes down that this emulator is ready.
    pub(super) fn ready(
        &self,
        emulator: &Emulator,
        grace: Duration,
        trust: Option<&TrustFiles>,
    ) -> Result<(), Failure> {
        let trust = trust.iter().flat_map(|files| files.variables());
        self.write(&Record {
            url: super::arguments::reachable(&emulator.base_url()),
            control_url: super::arguments::reachable(&emulator.control_url()),
            control_token: emulator.control_token().map(str::to_owned),
            process: std::process::id(),
            started_at: machine::wall_time(),
            grace: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX),
            options: options(std::env::args_os().skip(2).take_while(|word| word != "--record"), std::env::vars_os()),
            trust: trust.map(|(name, value)| (name.to_owned(), value.to_string_lossy().into_owned())).collect(),
        })
    }
}

fn target(record: &Record) -> Target {
    let Record { control_url, control_token, .. } = record;
    Target { url: control_url.clone(), control_token: control_token.clone(), ca: Vec::new(), insecure: true }
}

fn answers(record: &Record) -> bool {
    Call::new(&target(record)).limit(Duration::from_secs(1)).send(&AskHealth {}).is_ok()
}

/// The emulator serves, with these options if it was started by this command.
fn found(place: &Place, record: &Record, options: &[String], json: bool) -> Result<ExitCode, Failure> {
    let Record { url, control_url, process, .. } = record;
    if record.options != options {
        let only = |these: &[String], those: &[String]| {
            let words: Vec<&str> = these.iter().filter(|word| !those.contains(word)).map(String::as_str).collect();
            if words.is_empty() { "nothing else".to_owned() } else { words.join(" ") }
        };
        let lines = vec![
            format!("it was started with: {}", only(&record.options, options)),
            format!("now asked for:       {}", only(options, &record.options)),
        ];
        let name = shell_word(&place.name);
        return Err(Failure::check_failed(format!(
            "`{}` was started already with other options, at {url}",
            place.name
        ))
        .with_lines(lines)
        .with_hint(format!("`wrs-emulator stop --name {name}` first, or start another with `--name`")));
    }
    let found =
        json!({ "name": place.name, "url": url, "control_url": control_url, "process": process, "log": place.log() });
    let shown = show(json, &found, || format!("{url}\n"));
    note("`eval \"$(wrs-emulator env)\"` sets WRS_BASE_URL and WRS_API_KEY; `wrs-emulator stop` ends it");
    Ok(shown)
}

fn not_ready(place: &Place, message: String) -> Failure {
    let text = String::from_utf8_lossy(&file::read(&place.log(), 2 * MAX_LOG).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(SHOWN_LINES)..].iter().map(|line| (*line).to_owned()).collect();
    Failure::check_failed(message).with_lines(last)
}

pub(super) fn stop(args: &StopArgs) -> Result<ExitCode, Failure> {
    let place = Place::of_started(args.named.name.as_deref())?;
    let record = match place.state()? {
        State::Serving(record) => record,
        State::Died(record) => {
            place.clear()?;
            note(&format!("`{}` (process {}) had ended already, without being stopped", place.name, record.process));
            return Ok(ExitCode::SUCCESS);
        }
        State::Absent | State::Starting => {
            note(&format!("nothing to stop: no emulator `{}` serves", place.name));
            return Ok(ExitCode::SUCCESS);
        }
    };
    terminate(record.process);
    let (begun, limit) = (machine::monotonic(), Duration::from_millis(record.grace) + SPARE);
    while matches!(place.state()?, State::Serving(now) if now.process == record.process) {
        if begun.elapsed() > limit {
            return Err(Failure::check_failed(format!(
                "process {} has not ended within {}",
                record.process,
                duration_text(limit)
            ))
            .with_hint(format!("`kill -9 {}` ends it at once", record.process)));
        }
        std::thread::sleep(PAUSE);
    }
    note(&format!("stopped `{}`, which served at {}", place.name, record.url));
    Ok(ExitCode::SUCCESS)
}

/// An emulator in the background, as `status` shows it.
#[derive(Serialize)]
struct Status<'a> {
    name: &'a str,
    url: &'a str,
    control_url: &'a str,
    process: u32,
    started_at: String,
    keys: usize,
    problems: usize,
}

pub(super) fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let (place, record) = serving(args.named.name.as_deref())?;
    let verdict = Call::new(&target(&record)).send(&Query { query: GetVerdict { key: "*".into(), wait: None } })?;
    let (keys, problems) = (verdict.keys.len(), verdict.causes.len());
    let Record { url, control_url, process, started_at, .. } = &*record;
    let age = machine::wall_time().duration_since(*started_at).as_secs().max(0).cast_unsigned();
    let shown = Status {
        name: &place.name,
        url,
        control_url,
        process: *process,
        started_at: started_at.to_string(),
        keys,
        problems,
    };
    Ok(show(args.json, &shown, || {
        let age = duration_text(Duration::from_secs(age));
        format!("{}: {url}, for {age}, {}, {}\n", place.name, counted(keys, "key"), counted(problems, "problem"))
    }))
}

/// The record of an emulator that serves; otherwise, what is known.
fn serving(name: Option<&str>) -> Result<(Place, Box<Record>), Failure> {
    let place = Place::of_started(name)?;
    let message = match place.state()? {
        State::Serving(record) => return Ok((place, record)),
        State::Starting => format!("`{}` is not ready yet", place.name),
        State::Died(record) => format!("`{}` (process {}) ended without being stopped", place.name, record.process),
        State::Absent => format!("no emulator `{}` was started", place.name),
    };
    let is_other = |other: &Place| other.name != place.name && matches!(other.state(), Ok(State::Serving(_)));
    let others: Vec<String> = place.all().into_iter().filter(is_other).map(|other| other.name).collect();
    let lines = if others.is_empty() { Vec::new() } else { vec![format!("others serve: {}", others.join(", "))] };
    let hint = if place.log().exists() {
        "`wrs-emulator start` starts it, `wrs-emulator logs` shows its log"
    } else {
        "`wrs-emulator start` starts it"
    };
    Err(Failure::new(3, Code::Unreachable, message).with_lines(lines).with_hint(hint))
}

pub(super) fn env(args: &EnvArgs) -> Result<ExitCode, Failure> {
    let (_, record) = serving(args.named.name.as_deref())?;
    let mut variables = BTreeMap::from([
        ("WRS_BASE_URL", record.url.as_str()),
        ("WRS_EMULATOR_URL", record.control_url.as_str()),
        ("WRS_API_KEY", SAMPLE_KEY),
    ]);
    variables.extend(record.control_token.as_deref().map(|token| ("WRS_EMULATOR_CONTROL_TOKEN", token)));
    variables.extend(record.trust.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let line = |(name, value): (&str, &str)| match (args.shell, args.unset) {
        (Shell::Posix, false) => format!("export {name}={}\n", shell_word(value)),
        (Shell::Posix, true) => format!("unset {name}\n"),
        (Shell::Fish, false) => format!("set -gx {name} {}\n", shell_word(value)),
        (Shell::Fish, true) => format!("set -e {name}\n"),
        (Shell::Powershell, false) => format!("$env:{name} = '{}'\n", value.replace('\'', "''")),
        (Shell::Powershell, true) => format!("Remove-Item -ErrorAction Ignore Env:{name}\n"),
    };
    print(&variables.into_iter().map(line).collect::<String>());
    Ok(ExitCode::SUCCESS)
}

pub(super) fn logs(args: &LogsArgs) -> Result<ExitCode, Failure> {
    let place = Place::of_started(args.named.name.as_deref())?;
    let path = place.log();
    let cannot = |error: std::io::Error| Failure::io(format!("cannot read `{}`: {error}", path.display()));
    let mut file = std::fs::File::open(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(1, Code::NotFound, format!("no emulator `{}` was started", place.name))
                .with_hint("`wrs-emulator start` starts it")
        }
        _ => cannot(error),
    })?;
    let mut at = 0;
    loop {
        let serves = matches!(place.state()?, State::Serving(_) | State::Starting);
        // It is shorter after the older half of it went, or after another start.
        if file.metadata().map_err(cannot)?.len() < at {
            at = 0;
        }
        file.seek(SeekFrom::Start(at)).map_err(cannot)?;
        let mut text = Vec::new();
        file.by_ref().take(2 * MAX_LOG).read_to_end(&mut text).map_err(cannot)?;
        at += text.len() as u64;
        let is_read = try_print(&visible_lines(&String::from_utf8_lossy(&text)));
        if !args.follow || !serves || !is_read {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(5 * PAUSE);
    }
}
