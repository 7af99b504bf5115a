//! `requests list`, `requests show`, `requests wait`: what came and what was answered.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::client::Call;
use super::explain::warnings;
use super::failure::Failure;
use super::follow::follow;
use super::mistakes::value;
use super::output::{cell, compact, optional, print_json, table};
use super::{OneArgs, Target};
use crate::control::api::{self, Bytes, DurationInput, Endpoint, Integer};
use crate::redact::visible;

/// `requests …`
#[derive(Debug, Subcommand)]
pub(super) enum RequestsCommand {
    /// List requests, newest first.
    List(ListArgs),
    /// Show one request and its answer whole.
    Show(OneArgs),
    /// Wait until requests fit; on time-out, show the nearest and what differed, and exit 1.
    Wait(WaitArgs),
}

/// Which requests are meant.
#[derive(Debug, Args)]
struct FilterArgs {
    /// Only requests of this key, or workspace `ws_…`; by default those of all keys and of none.
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
    #[arg(long, value_name = "TIME", value_parser = value::since)]
    since: Option<String>,
}

/// Arguments of `requests list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    filter: FilterArgs,
    /// At most this many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Continue where another page ended: its `next_cursor`.
    #[arg(long)]
    cursor: Option<String>,
    /// Print requests as they come, until interrupted.
    #[arg(long, conflicts_with_all = ["operation", "status", "method", "path", "since", "cursor"])]
    follow: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `requests wait`.
#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    filter: FilterArgs,
    /// How many must fit.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// How long to wait, at most 300s.
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = value::duration)]
    timeout: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: RequestsCommand) -> Result<ExitCode, Failure> {
    match command {
        RequestsCommand::List(args) => list(&args),
        RequestsCommand::Show(args) => show(&args),
        RequestsCommand::Wait(args) => wait(&args),
    }
}

fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let filter = &args.filter;
    if args.follow {
        return follow(&args.target, &filter.key, "request", args.json, |row| columns(row).join("  "));
    }
    let query = api::RequestsQuery {
        limit: Some(args.limit.to_string()),
        cursor: args.cursor.clone(),
        operation: filter.operation.clone(),
        status: filter.status.map(|status| status.to_string()),
        since: filter.since.clone(),
        method: filter.method.clone(),
        path: filter.path.clone(),
    };
    let answer = Call::<api::ListRequests>::to(&args.target).key(&*filter.key).query(&query).send()?;
    Ok(answer.print(args.json, |page| rows(&page.data) + &more(page)))
}

/// A request as a row of the listing.
fn columns(row: &api::Request) -> [String; 7] {
    let key = optional(row.key.as_ref());
    [cell(&row.id), cell(&row.at), key, status(row), cell(&row.method), cell(&row.path), cell(&row.reason)]
}

/// A request's status, or what its connection did in place of an answer.
fn status(row: &api::Request) -> String {
    row.broken.clone().unwrap_or_else(|| row.status.to_string())
}

fn rows(rows: &[api::Request]) -> String {
    table(["ID", "AT", "KEY", "STATUS", "METHOD", "PATH", "REASON"], rows.iter().map(columns))
}

/// How to get the next page, if there is one.
pub(super) fn more<T>(page: &api::Page<T>) -> String {
    page.next_cursor.as_ref().map_or_else(String::new, |cursor| format!("… more: --cursor {cursor}\n"))
}

fn wait(args: &WaitArgs) -> Result<ExitCode, Failure> {
    let filter = &args.filter;
    let body = api::WaitForRequests {
        operation: filter.operation.clone(),
        method: filter.method.clone(),
        path: filter.path.clone(),
        status: filter.status.map(Integer),
        since: filter.since.clone(),
        count: Some(Integer(args.count as usize)),
        timeout: Some(DurationInput(args.timeout.clone())),
        ..Default::default()
    };
    let call = Call::<api::WaitRequests>::to(&args.target).key(&*filter.key).body(&body);
    waited(call, args.json, |found| rows(&found.data))
}

/// Waits by a call of the control API; on timeout it fails and shows the nearest.
pub(super) fn waited<E: Endpoint>(
    call: Call<'_, E>,
    json: bool,
    text: impl FnOnce(&E::Answer) -> String,
) -> Result<ExitCode, Failure> {
    // A little longer than the longest wait there is, so that the emulator has the last word.
    let refusal = match call.limit(Duration::from_secs(330)).outcome()? {
        Ok(answer) => return Ok(answer.print(json, text)),
        Err(refusal) => refusal,
    };
    if json {
        print_json(&refusal.json());
    }
    if refusal.status != 408 {
        return Err(refusal.into_failure());
    }
    let mut text = refusal.error.error.message;
    for near in refusal.error.nearest.into_iter().flatten() {
        let id = near.request.map(|request| request.id.0).or(near.delivery.map(|delivery| delivery.id.0));
        let differs: Vec<String> = near.differs.iter().map(cell).collect();
        text.push_str(&format!("\n  {}: {}", optional(id), differs.join("; ")));
    }
    Err(Failure::short(text))
}

fn show(args: &OneArgs) -> Result<ExitCode, Failure> {
    Ok(args.call::<api::ShowRequest>().send()?.print(args.json, whole))
}

/// A request and its answer, as on the wire.
fn whole(request: &api::RequestWhole) -> String {
    let (row, answer) = (&request.row, &request.answer);
    let query = row.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
    format!(
        "{} {}{query}\n{}\n{}\n\n{}\n{}\n{}\n\nat {}, {} ms, key {}, reason {}\n{}wrs-emulator explain {} says why\n",
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
        warnings(&request.warnings),
        row.id
    )
}

/// Headers as on the wire, one a line.
pub(super) fn headers(headers: &api::Headers) -> String {
    headers.iter().map(|(name, value)| format!("{}: {}\n", cell(name), cell(value))).collect()
}

/// A body: text as it is but for control bytes other than line ends, anything else as JSON.
pub(super) fn text(body: &Bytes) -> String {
    match body {
        Bytes::Text(text) => text.split('\n').map(visible).collect::<Vec<_>>().join("\n"),
        Bytes::Binary { .. } => compact(body),
    }
}
