//! `requests list|show|wait|export`: requests and their answers.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde::Serialize;

use super::arguments::OneArgs;
use super::client::Call;
use super::failure::{Failure, note};
use super::har::archive;
use super::help::examples;
use super::output::{cell, compact, optional, print, print_as_is, table, warnings};
use super::records::{ListArgs, Records, WaitArgs};
use super::run::LIMIT;
use super::run_file::{DOCUMENT_BOUND, RunFile, read, unreadable};
use super::target::Target;
use super::value;
use crate::control::api::{self, Attempt, Bytes, DeliveryWhole, KeyState, Request, Run, Time};
use crate::control::operation_named;
use crate::redact::{Redactor, visible, visible_json};
use crate::wording::counted;

/// `requests …`
#[derive(Debug, Subcommand)]
#[command(after_help = examples(["requests --status 404", "requests show req_01k...", "requests export --har requests.har"]))]
pub(super) enum RequestsCommand {
    /// List requests, newest first.
    #[command(after_help = examples([
        "requests list --operation events.subscribe --status 422",
        "requests list --key sk_test_mine --limit 100 --json",
        "requests list --follow",
    ]))]
    List(ListArgs<Requests>),
    /// Show one request and its answer in full.
    #[command(after_help = examples(["requests show req_01k...", "requests show req_01k... --json"]))]
    Show(OneArgs),
    /// Wait until requests match; on timeout, show the nearest ones and what differs, and exit 1.
    #[command(after_help = examples([
        "requests wait --operation events.subscribe --timeout 30s",
        "requests wait --status 429 --count 3 --since now",
    ]))]
    Wait(WaitArgs<Requests>),
    /// Write requests and their answers to an HTTP archive (HAR 1.2), oldest first.
    #[command(after_help = examples([
        "requests export --har requests.har",
        "requests export --har failed.har --operation events.subscribe --status 422",
        "requests export --har - --key sk_test_mine --deliveries | jq '.log.entries[].request.url'",
        "requests export --har old.har --from run.json  # of a saved run",
    ]))]
    Export(ExportArgs),
}

/// Arguments of `requests export`.
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

/// Filters of requests.
#[derive(Debug, Args, Serialize)]
pub(super) struct Requests {
    /// Only requests of this key, or workspace `ws_…`; by default all, also those without a key.
    #[arg(long, env = "WRS_API_KEY", default_value = "*", hide_env_values = true)]
    #[serde(skip)]
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
    #[arg(long, value_name = "TIME", value_parser = value::since)]
    since: Option<String>,
}

impl Records for Requests {
    type Row = api::Request;
    type List = api::ListRequests;
    type Wait = api::WaitRequests;
    type Streamed = api::Request;
    const NAME: &'static str = "requests";
    const EVENT: &'static str = "request";
    const FOLLOW: &'static str = "Print requests as they come, until interrupted";
    const PAGED: &'static [&'static str] = &["operation", "status", "method", "path", "since", "cursor"];

    fn key(&self) -> &str {
        &self.key
    }

    fn table(rows: &[api::Request]) -> String {
        table(["ID", "AT", "KEY", "STATUS", "METHOD", "PATH", "REASON"], rows.iter().map(columns))
    }

    fn line(streamed: &api::Request) -> String {
        columns(streamed).join("  ")
    }
}

pub(super) fn run(command: RequestsCommand) -> Result<ExitCode, Failure> {
    match command {
        RequestsCommand::List(args) => args.run(),
        RequestsCommand::Show(args) => args.call::<api::ShowRequest>().show(whole),
        RequestsCommand::Wait(args) => args.run(),
        RequestsCommand::Export(args) => export(&args),
    }
}

fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
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
        None => Call::<api::ShowRun>::to(&args.target).key(filter.key()).limit(LIMIT).send()?.body,
    };
    let (scope, mut left) = (Scope::of(args, &run)?, args.limit.unwrap_or(usize::MAX));
    let takes_request = |request: &Request| {
        let takes = left > 0 && scope.covers(request.workspace.as_ref(), &request.at) && filter.matches(request);
        left -= usize::from(takes);
        takes
    };
    let takes_attempt = |delivery: &DeliveryWhole, attempt: &Attempt| {
        args.deliveries && scope.covers(delivery.workspace.as_ref(), &attempt.at)
    };
    let chosen = archive(&run, takes_request, takes_attempt).map_err(|error| unreadable(&run, &error))?;
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

/// The key and the time by which `requests export` chooses records of a document.
struct Scope {
    /// Checked when the flag was read.
    since: Option<Timestamp>,
    workspace: Option<String>,
}

impl Scope {
    fn of(args: &ExportArgs, run: &Run) -> Result<Self, Failure> {
        let since = args.filter.since.as_ref().and_then(|since| since.parse().ok());
        // A running emulator returns only the requests of the key.
        let is_chosen_here = args.from.is_some() && args.filter.key != "*";
        let workspace = is_chosen_here.then(|| workspace_of(&args.filter.key, run)).transpose()?;
        Ok(Self { since, workspace })
    }

    fn covers(&self, workspace: Option<&api::WorkspaceId>, at: &Time) -> bool {
        self.workspace.as_ref().is_none_or(|chosen| workspace.is_some_and(|workspace| workspace.0 == *chosen))
            && self.since.is_none_or(|since| at.0.parse::<Timestamp>().is_ok_and(|at| at >= since))
    }
}

/// The workspace of a key in a saved run.
fn workspace_of(key: &str, run: &Run) -> Result<String, Failure> {
    let shown = Redactor::default().key(key);
    let mut keys = run.keys.iter().filter_map(|known| known.read_as::<KeyState>().ok());
    let known = keys.find(|known| known.key == shown || known.workspace.0 == key);
    known.map(|known| known.workspace.0).ok_or_else(|| {
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

/// A request as a row of the listing.
fn columns(row: &api::Request) -> [String; 7] {
    let key = optional(row.key.as_ref());
    [cell(&row.id), cell(&row.at), key, status(row), cell(&row.method), cell(&row.path), cell(&row.reason)]
}

/// The status of the answer, or how the connection was broken instead.
fn status(row: &api::Request) -> String {
    row.broken.clone().unwrap_or_else(|| row.status.to_string())
}

/// A request and its answer, as on the wire.
fn whole(request: &api::RequestWhole) -> String {
    let (row, answer) = (&request.row, &request.answer);
    let query = row.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
    format!(
        "{} {}{query}\n{}\n{}\n\n{}\n{}\n{}\n\nat {}, {} ms, key {}, reason {}\n{}{}wrs-emulator explain {} shows why\n",
        cell(&row.method),
        cell(&row.path),
        headers(&request.headers),
        text(&request.body),
        status(row),
        headers(&answer.headers),
        text(&answer.body),
        row.at,
        row.latency_ms,
        optional(row.key.as_ref()),
        cell(&row.reason),
        request.connection.as_ref().map(connection).unwrap_or_default(),
        warnings(&request.warnings),
        row.id
    )
}

/// The connection, and when the bytes went over it.
fn connection(connection: &api::Connection) -> String {
    let begun = match &connection.first_byte_at {
        Some(at) => format!("first byte at {at}"),
        None => "sent together with the request before it".to_owned(),
    };
    let answered = connection
        .answered_at
        .as_ref()
        .map_or_else(|| "answer not written".to_owned(), |at| format!("answered at {at}"));
    format!("request {} on connection {}: {begun}, {answered}\n", connection.sequence, connection.number)
}

/// Headers as on the wire, one a line.
pub(super) fn headers(headers: &api::Headers) -> String {
    headers.iter().map(|(name, value)| format!("{}: {}\n", cell(name), cell(value))).collect()
}

/// A body: text with control characters other than line ends escaped, anything else as JSON.
pub(super) fn text(body: &Bytes) -> String {
    match body {
        Bytes::Text(text) => text.split('\n').map(visible).collect::<Vec<_>>().join("\n"),
        Bytes::Binary { .. } => compact(body),
    }
}
