//! `calibrate`: the flags, progress, files, and the results for people. `lab::calibrate` makes the calls and infers.

use std::io::{IsTerminal as _, stderr, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use url::Url;

use super::call_log::{CallLog, Caller, Exchange};
use super::delivery::CapturedDelivery;
use super::evidence::RowOutcome;
use super::openapi;
use super::report::{REFUSES_KEY, Report, Row};
use super::run::Calibration;
use crate::cli::arguments::OutputFile;
use crate::cli::arguments::examples;
use crate::cli::client::run_task;
use crate::cli::failure::{Failure, FailureCode, note, warn};
use crate::cli::output::{cell, print, print_json};
use crate::cli::profile::load_profile;
use crate::cli::signals::Signals;
use crate::clock::machine;
use crate::http::tls::Trust;
use crate::settings::Layered;
use crate::util::duration::parse_duration;
use crate::util::file;
use crate::util::wording::{counted, quoted};
use crate::webhook::dial::DialContext;
use crate::webhook::egress::Egress;
use crate::webhook::resolve::{LookUp, Resolver};

const MIN_KEY: usize = 8;
const MAX: u64 = 16 * 1024 * 1024;
/// Of a browser's recording, most is what pages consist of.
const MAX_RECORDING: u64 = 32 * 1024 * 1024;
const RECORD: &str = "record calls of the API with `calibrate --record FILE.har`, with `mitmdump --set hardump=FILE.har`, or in a browser's \
                      network panel, and save them as HAR with sensitive data";
/// A document uses up to 40 times as much memory once it is read.
const MAX_DOCUMENT: u64 = 4 * 1024 * 1024;

#[derive(Debug, Args)]
#[command(after_help = examples([
    "calibrate https://sandbox.example.com",
    "calibrate https://sandbox.example.com --delivery delivery.http --openapi openapi.json",
    "calibrate https://sandbox.example.com --check sandbox.toml",
    "calibrate --from sandbox.har",
]) + "\n\nThe key is read from WRS_API_KEY, a secret of --delivery from WRS_WEBHOOK_SECRET. The key is sent to the host of URL alone, and kept in no file.\n\
      Exit status: 0 done, 1 a setting has drifted (--check) or the service cannot be calibrated, 2 wrong usage, or nothing answers.")]
pub(crate) struct CalibrateArgs {
    /// The base URL of the service.
    #[arg(value_name = "URL", required_unless_present = "from")]
    url: Option<String>,
    /// Make no subscription; the report names the settings that stay unknown.
    #[arg(long, env)]
    no_subscribe: bool,
    /// The URL that is subscribed, posted at most three times.
    #[arg(long, env, value_name = "URL")]
    subscribe_url: Option<String>,
    /// Use the quota up at the end, if the calls left suffice, without asking. The key is then refused for a window.
    #[arg(long, env)]
    yes: bool,
    /// Make at most this many calls.
    #[arg(long, env, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u8).range(1..=40))]
    max_calls: u8,
    /// Wait this long between two calls. Below 1s, the kind of the quota's window cannot be inferred.
    #[arg(long, env, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pause: Duration,
    /// A captured delivery: a raw request, HAR or JSON. Its secret is read from the environment.
    #[arg(long, env, value_name = "FILE")]
    delivery: Option<PathBuf>,
    /// A published OpenAPI document, as JSON.
    #[arg(long, env, value_name = "FILE")]
    openapi: Option<PathBuf>,
    /// Compare with this profile, and fail if anything has drifted.
    #[arg(long, env, value_name = "PROFILE")]
    check: Option<PathBuf>,
    /// Make no calls, and infer from this HAR file: one of --record, or a recording of a browser or a proxy.
    #[arg(long, env, value_name = "FILE", conflicts_with = "url")]
    from: Option<PathBuf>,
    /// Write the profile to this file; sandbox.toml unless --check or --from is given. An existing file is an error.
    #[arg(long, env, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the calls and answers to this file as HAR, credentials masked; sandbox.har unless --check is given.
    #[arg(long, env, value_name = "FILE", conflicts_with = "from")]
    record: Option<PathBuf>,
    /// Trust the authorities in this PEM file. Repeatable.
    #[arg(long, env, value_name = "FILE", value_delimiter = ';')]
    ca: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: CalibrateArgs) -> Result<ExitCode, Failure> {
    let profile = load_profile("--profile", args.check.as_deref(), &[])?;
    let mut others = Vec::new();
    if let Some(path) = &args.delivery {
        let delivery = CapturedDelivery::read(&read("--delivery", path, MAX)?);
        let delivery = delivery.map_err(|problem| invalid("--delivery", path, &problem))?;
        others.push(delivery.shows(&variable("WRS_WEBHOOK_SECRET", "the secret of the subscription")?));
    }
    if let Some(path) = &args.openapi {
        let text = String::from_utf8_lossy(&read("--openapi", path, MAX_DOCUMENT)?).into_owned();
        others.push(openapi::shows(&text).map_err(|problem| invalid("--openapi", path, &problem))?);
    }
    let writes = args.from.is_none() && args.check.is_none();
    let file = |flag, path: &Option<PathBuf>, name: &str| {
        let path = path.clone().or_else(|| writes.then(|| PathBuf::from(name)));
        path.map(|path| new_file(flag, path)).transpose()
    };
    let out = file("--out", &args.out, "sandbox.toml")?;
    let kept = file("--record", &args.record, "sandbox.har")?;
    let call_log = match (&args.from, &args.url) {
        (Some(path), _) => call_log("--from", path)?,
        (None, url) => called(&args, url.as_deref().unwrap_or_default())?,
    };
    let report = Report::new(&call_log, &others, &profile);
    let stopped = report.stopped.as_deref().unwrap_or("too few calls were made");
    if !call_log.is_api() {
        let seen = call_log.calls.iter().take(3).map(ended).collect::<Vec<_>>().join(", ");
        return Err(Failure::check_failed(format!("cannot calibrate `{}`: {stopped}", call_log.url))
            .with_hint(format!("expected {{base_url}} of the API; it answered {seen}")));
    }
    // A key that is refused shows too little for a profile.
    let is_refused = call_log.is_key_refused();
    let written = Report::new(&call_log, &others, &Layered::default()).profile(&call_log);
    if out.is_some() && written.ends_with(REFUSES_KEY) && !is_refused {
        warn(
            "the profile may refuse the key, because the calls do not show which keys are valid; its last lines say more",
        );
    }
    for (file, text) in [(out, written), (kept, call_log.to_har())] {
        let Some((path, file)) = file.filter(|_| !is_refused) else { continue };
        file.write_shared(text)?;
        note(&format!("wrote {}", path.display()));
    }
    if args.json {
        print_json(&report);
    } else {
        print(&text(&report, args.check.is_some()));
    }
    let drift = |row: &Row| row.change().map(|(is, was)| format!("\n{}: was {was}, is {is}", row.setting));
    let drifted: Vec<String> = report.data.iter().filter(|_| args.check.is_some()).filter_map(drift).collect();
    match counted(drifted.len() as u64, "setting") {
        count if !drifted.is_empty() => Err(Failure::check_failed(format!("{count} drifted{}", drifted.concat()))),
        _ if call_log.interrupted || is_refused => {
            Err(Failure::check_failed(format!("not all calls were made: {stopped}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn read(flag: &str, path: &Path, largest: u64) -> Result<Vec<u8>, Failure> {
    let read = file::read_input(path, largest);
    read.map_err(|problem| Failure::io(format!("{flag}: cannot read `{}`: {problem}", path.display())))
}

/// The calls and answers in a HAR file.
pub(crate) fn call_log(flag: &str, path: &Path) -> Result<CallLog, Failure> {
    CallLog::from_har(&read(flag, path, MAX_RECORDING)?)
        .map_err(|problem| invalid(flag, path, &problem).with_hint(RECORD))
}

fn invalid(flag: &str, path: &Path, problem: &impl std::fmt::Display) -> Failure {
    Failure::invalid_file(format!("{flag}: `{}`: {problem}", path.display()))
}

fn variable(name: &str, content: &str) -> Result<String, Failure> {
    let value = std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    let unset =
        || Failure::usage(format!("{name} is not set")).with_hint(format!("set it to {content}; it has no flag"));
    value.ok_or_else(unset)
}

/// A file that is written at the end. Nothing is overwritten, and what cannot be written is noticed before the first call.
fn new_file(flag: &'static str, path: PathBuf) -> Result<(PathBuf, OutputFile), Failure> {
    if path.exists() {
        return Err(Failure::io(format!("{flag}: `{}` exists", path.display()))
            .with_hint(format!("remove it, or name another file with {flag} FILE")));
    }
    OutputFile::at(flag, &path).map(|file| (path, file))
}

fn called(args: &CalibrateArgs, text: &str) -> Result<CallLog, Failure> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.filter(|url| url.query().is_none() && url.fragment().is_none() && url.username().is_empty());
    let url = url.ok_or_else(|| {
        Failure::usage(format!("expected the base URL of the service, found `{}`", quoted(text)))
            .with_hint("for example https://sandbox.example.com")
    })?;
    let key = variable("WRS_API_KEY", "the key")?;
    if key.len() < MIN_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::usage("WRS_API_KEY is not a key"));
    }
    if url.scheme() == "http" && !matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
        warn("the key is sent without encryption, because the URL begins with http://");
    }
    let trust = Trust::new(&args.ca, false).map_err(|problem| Failure::invalid_file(format!("--ca: {problem}")))?;
    // A name that leads nowhere, so that the events are not received.
    let nonce = u64::from_be_bytes(machine::entropy());
    let nowhere = || format!("https://wrs-calibrate.invalid/{nonce:016x}");
    let exhausts = args.yes || agrees();
    let mut call_log = CallLog::new(url.as_str(), &key, args.max_calls.into(), !args.no_subscribe, exhausts);
    let calibration = Calibration {
        url,
        reach: DialContext {
            egress: Arc::new(Egress::new(&["any".to_owned()])),
            trust: Arc::new(trust),
            resolver: Arc::new(Resolver::new(LookUp::default())),
        },
        caller: Caller {
            key,
            url: args.subscribe_url.clone().unwrap_or_else(nowhere),
            secret: format!("whsec_{}", STANDARD.encode(machine::entropy::<32>())),
        },
        pause: args.pause,
    };
    run_task(until_stopped(&calibration, &mut call_log))??;
    Ok(call_log)
}

/// True if the quota may be used up: asked at a terminal alone.
fn agrees() -> bool {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return false;
    }
    note(
        "use up the key's quota at the end, if the calls left suffice, to see a 429? The key is refused for a window then. [y/N]",
    );
    let mut answer = String::new();
    stdin().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Makes the calls; a signal ends them, and the answers until then count.
async fn until_stopped(calibration: &Calibration, call_log: &mut CallLog) -> Result<(), Failure> {
    let mut signals = Signals::install()?;
    let progress = |call: &Exchange| note(&format!("call {}: {} after {} ms", call.number, ended(call), call.took_ms));
    tokio::select! {
        result = calibration.run(call_log, progress) => return result.map_err(|problem| {
            Failure::new(2, FailureCode::Unreachable, format!("`{}` does not answer: {problem}", calibration.url))
        }),
        _ = signals.wait() => call_log.interrupted = true,
    }
    Ok(())
}

/// A call and how it ended.
fn ended(call: &Exchange) -> String {
    let target = call.target.get(..50).unwrap_or(&call.target);
    let status = call.answer.as_ref().map(|answer| answer.status.to_string());
    let ended = status.or_else(|| call.failed.clone()).unwrap_or_default();
    format!("{} {target}: {ended}", call.method)
}

/// The results, what matters most first.
fn text(report: &Report, checks: bool) -> String {
    let mut text = String::new();
    for (outcome, words) in [
        (RowOutcome::Contradicts, "contradicts the contract"),
        (RowOutcome::Differs, "observed: differs"),
        (RowOutcome::AsAssumed, if checks { "observed: as expected" } else { "observed: as assumed" }),
        (RowOutcome::NotReached, "not reached"),
        (RowOutcome::NotObservable, "not observable"),
    ] {
        let rows: Vec<&Row> = report.data.iter().filter(|row| row.result == outcome).collect();
        let mut lines: Vec<String> = rows.iter().map(|row| line(row)).collect();
        if outcome == RowOutcome::Contradicts {
            // Other contradictions.
            let others = report.broken.iter().filter(|broken| rows.iter().all(|row| row.clause != Some(broken.clause)));
            lines.extend(
                others.map(|broken| {
                    format!("  {}   (call {}; {})\n", cell(&broken.observed), broken.call, broken.clause)
                }),
            );
        }
        if !lines.is_empty() {
            text.push_str(&format!("{words} ({})\n{}\n", lines.len(), lines.concat()));
        }
    }
    text.push_str("other observations\n");
    text.extend(report.notes.iter().map(|note| format!("  {}\n", cell(note))));
    let ended = report.stopped.as_ref().map_or_else(String::new, |stopped| format!(", then {}", cell(stopped)));
    text + &format!("\n{}{ended}\n", counted(report.calls as u64, "call"))
}

fn line(row: &Row) -> String {
    let from = if row.expected_from == "default" { "assumed" } else { &row.expected_from };
    let value = match (row.change(), &row.observed) {
        (Some((is, was)), _) => format!(" = {}; {}: {}", cell(is.to_string()), cell(from), cell(was.to_string())),
        (None, Some(value)) => format!(" = {}", cell(value.to_string())),
        (None, None) => String::new(),
    };
    let (detail, clause) = (cell(&row.detail), row.clause.unwrap_or_default());
    let parts = [row.source.as_str(), clause, &detail].into_iter().filter(|part| !part.is_empty());
    format!("  {}{value}   ({})\n", row.setting, parts.collect::<Vec<_>>().join("; "))
}
