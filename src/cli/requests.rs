//! `requests export`: requests and their answers as an HTTP archive.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::arguments;
use super::client::Call;
use super::failure::{Failure, note};
use super::har::archive;
use super::help::examples;
use super::output::{print, print_as_is};
use super::run::LIMIT;
use super::run_file::{RunFile, read};
use super::target::Target;
use crate::control::api::{self, Attempt, DOCUMENT_BOUND, DeliveryWhole, Request, Run, Time, WorkspaceId};
use crate::control::operation_named;
use crate::redact::{Redactor, visible_json};
use crate::util::wording::counted;

#[derive(Debug, Subcommand)]
#[command(after_help = examples(["requests --status 404", "requests show req_01k...", "requests export --har requests.har"]))]
pub(super) enum RequestsCommand {
    /// Write requests and their answers to an HTTP archive (HAR 1.2), oldest first.
    #[command(display_order = 100, after_help = examples([
        "requests export --har requests.har",
        "requests export --har failed.har --operation events.subscribe --status 422",
        "requests export --har - --key sk_test_mine --deliveries | jq '.log.entries[].request.url'",
        "requests export --har old.har --from run.json  # of a saved run",
    ]))]
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The file to write; `-` is stdout. It has no secrets and no live keys.
    #[arg(long, value_name = "FILE")]
    har: PathBuf,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    filter: Requests,
    /// At most this many, the newest; by default all that a run document has room for.
    #[arg(long)]
    limit: Option<usize>,
    /// Also the delivery attempts of the same key and time.
    #[arg(long)]
    deliveries: bool,
    /// Read a file made by `run save` or `exec --report` instead of a running emulator; `-` is stdin.
    #[arg(long, value_name = "RUN")]
    from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct Requests {
    /// Only requests of this key, or workspace `ws_…`; by default all, also those without a key.
    #[arg(long, env = "WRS_API_KEY", default_value = "*", hide_env_values = true)]
    key: String,
    /// Only this operation, such as system.status.
    #[arg(long)]
    operation: Option<String>,
    /// Only answers with this status.
    #[arg(long)]
    status: Option<u16>,
    /// Only this method.
    #[arg(long)]
    method: Option<String>,
    /// Only this path.
    #[arg(long)]
    path: Option<String>,
    /// Only from this time on: a timestamp, or `now`.
    #[arg(long, value_name = "TIME", value_parser = arguments::since)]
    since: Option<String>,
}

pub(super) fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let filter = &args.filter;
    if let Some(operation) = &filter.operation {
        operation_named(operation).map_err(|problem| Failure::usage(format!("--{problem}")))?;
    }
    if filter.since.as_deref() == Some("now") {
        let failure = Failure::usage("--since now: nothing has happened since then");
        return Err(failure.with_hint("pass a timestamp such as 2026-01-31T09:30:00Z"));
    }
    let file = (args.har.as_os_str() != "-").then(|| RunFile::at("--har", &args.har)).transpose()?;
    let run = match &args.from {
        Some(path) => read(path)?,
        None => Call::<api::ShowRun>::to(&args.target).key(&*filter.key).limit(LIMIT).send()?,
    };
    // Checked when the flag was read.
    let since: Option<Timestamp> = filter.since.as_ref().and_then(|since| since.parse().ok());
    // A running emulator returns only the requests of the key.
    let is_chosen_here = args.from.is_some() && filter.key != "*";
    let chosen = is_chosen_here.then(|| workspace_of(&filter.key, &run)).transpose()?;
    let covers = |workspace: Option<&WorkspaceId>, at: &Time| {
        chosen.is_none_or(|chosen| workspace == Some(chosen))
            && since.is_none_or(|since| at.0.parse::<Timestamp>().is_ok_and(|at| at >= since))
    };
    let mut left = args.limit.unwrap_or(usize::MAX);
    let takes_request = |request: &Request| {
        let takes = left > 0 && covers(request.workspace.as_ref(), &request.at) && filter.matches(request);
        left -= usize::from(takes);
        takes
    };
    let takes_attempt = |delivery: &DeliveryWhole, attempt: &Attempt| {
        args.deliveries && covers(delivery.workspace.as_ref(), &attempt.at)
    };
    let chosen = archive(&run, takes_request, takes_attempt);
    let requests = counted(chosen.requests, "request");
    let exported =
        if args.deliveries { format!("{requests} and {}", counted(chosen.attempts, "attempt")) } else { requests };
    match file {
        Some(file) => {
            file.write_text(chosen.json)?;
            print(&format!("{exported} exported\n"));
        }
        None => print_as_is(&visible_json(&chosen.json)),
    }
    if chosen.requests == 0 {
        note(&format!("no request matches, of {}", counted(run.requests.len(), "request")));
    }
    if run.omitted.requests > 0 {
        let older = counted(run.omitted.requests, "older request");
        note(&format!("{older} left out, as {DOCUMENT_BOUND}; `--key` leaves more room for one key"));
    }
    Ok(ExitCode::SUCCESS)
}

fn workspace_of<'r>(key: &str, run: &'r Run) -> Result<&'r WorkspaceId, Failure> {
    let shown = Redactor::default().key(key);
    let known = run.keys.iter().find(|known| known.key == shown || known.workspace.0 == key);
    known.map(|known| &known.workspace).ok_or_else(|| {
        Failure::check_failed(format!("--key: the run has no `{shown}`"))
            .with_hint("without --key, the requests of all its keys are exported")
    })
}

impl Requests {
    /// Whether a request matches the filters other than key and time.
    fn matches(&self, request: &Request) -> bool {
        let Self { key: _, operation, status, method, path, since: _ } = self;
        operation.as_ref().is_none_or(|operation| request.operation.as_ref() == Some(operation))
            && status.is_none_or(|status| request.status == status)
            && method.as_ref().is_none_or(|method| request.method.eq_ignore_ascii_case(method))
            && path.as_ref().is_none_or(|path| request.path == *path)
    }
}
