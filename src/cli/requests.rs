//! `requests list`, `requests show`, `requests wait`: requests and their answers.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::arguments::OneArgs;
use super::failure::Failure;
use super::help::examples;
use super::output::{cell, compact, optional, table, warnings};
use super::records::{ListArgs, Records, WaitArgs};
use super::value;
use crate::control::api::{self, Bytes};
use crate::redact::visible;

/// `requests …`
#[derive(Debug, Subcommand)]
#[command(after_help = examples(["requests --status 404", "requests show req_01k..."]))]
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
}

/// Filters of requests.
#[derive(Debug, Args, Serialize)]
pub(super) struct Requests {
    /// Only requests of this key, or workspace `ws_…`; by default those of all keys and of none.
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
        "{} {}{query}\n{}\n{}\n\n{}\n{}\n{}\n\nat {}, {} ms, key {}, reason {}\n{}{}wrs-emulator explain {} says why\n",
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
