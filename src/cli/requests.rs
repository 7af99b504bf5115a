//! `requests list`, `requests show`, `requests wait`: what came and what was answered.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use super::client::{SHORT, call, segment};
use super::explain::push_warnings;
use super::failure::Failure;
use super::follow::follow;
use super::mistakes::value;
use super::output::{cell, compact, plain, print, print_json, print_table};
use super::{OneArgs, Target};
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
    /// Go on where another page ended: its `next_cursor`.
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
        return follow(&args.target, &filter.key, "request", args.json, |row| Some(columns(row).join("  ")));
    }
    let (limit, status) = (args.limit.to_string(), filter.status.map(|status| status.to_string()));
    let mut query = vec![("key", filter.key.as_str()), ("limit", limit.as_str())];
    let optional = [
        ("operation", &filter.operation),
        ("status", &status),
        ("method", &filter.method),
        ("path", &filter.path),
        ("since", &filter.since),
        ("cursor", &args.cursor),
    ];
    query.extend(optional.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))));
    let body = call(&args.target, Method::GET, "requests", &query, None, SHORT)?.success()?;
    if args.json {
        print_json(&body);
        return Ok(ExitCode::SUCCESS);
    }
    print_rows(&body);
    if let Some(cursor) = body["next_cursor"].as_str() {
        print(&format!("… more: --cursor {cursor}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// A request as a row of the listing.
fn columns(row: &Value) -> [String; 7] {
    ["id", "at", "key", "status", "method", "path", "reason"].map(|field| match field {
        "status" => status(row),
        field => cell(row, field),
    })
}

/// A request's status, or what its connection did in place of an answer.
fn status(row: &Value) -> String {
    row["broken"].as_str().map_or_else(|| cell(row, "status"), str::to_owned)
}

fn print_rows(body: &Value) {
    let rows = body["data"].as_array().into_iter().flatten().map(|row| columns(row).to_vec());
    print_table(&["ID", "AT", "KEY", "STATUS", "METHOD", "PATH", "REASON"], &rows.collect::<Vec<_>>());
}

fn wait(args: &WaitArgs) -> Result<ExitCode, Failure> {
    let filter = &args.filter;
    let wish = json!({
        "key": filter.key,
        "operation": filter.operation,
        "method": filter.method,
        "path": filter.path,
        "status": filter.status,
        "since": filter.since,
        "count": args.count,
        "timeout": args.timeout,
    });
    let body = waited(&args.target, "requests/wait", &wish, args.json, "request")?;
    if !args.json {
        print_rows(&body);
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits by a call of the control API; on timeout it fails and shows the nearest, each by its id below `thing`.
pub(super) fn waited(target: &Target, path: &str, wish: &Value, json: bool, thing: &str) -> Result<Value, Failure> {
    // A little longer than the longest wait there is, so that the emulator has the last word.
    let limit = Duration::from_secs(330);
    let answer = call(target, Method::POST, path, &[], Some(wish), limit)?;
    if json {
        print_json(&answer.body);
    }
    if answer.status == 408 {
        let mut text = answer.body["error"]["message"].as_str().unwrap_or("nothing fitted").to_owned();
        for near in answer.body["nearest"].as_array().into_iter().flatten() {
            let differs: Vec<String> = near["differs"].as_array().into_iter().flatten().map(plain).collect();
            text.push_str(&format!("\n  {}: {}", cell(&near[thing], "id"), differs.join("; ")));
        }
        return Err(Failure::short(text));
    }
    answer.success()
}

fn show(args: &OneArgs) -> Result<ExitCode, Failure> {
    let body =
        call(&args.target, Method::GET, &format!("requests/{}", segment(&args.id)), &[], None, SHORT)?.success()?;
    if args.json {
        print_json(&body);
        return Ok(ExitCode::SUCCESS);
    }
    let target = match body["query"].as_str() {
        Some(query) => format!("{}?{query}", cell(&body, "path")),
        None => cell(&body, "path"),
    };
    print(&format!("{} {target}\n{}\n{}\n\n", cell(&body, "method"), headers(&body["headers"]), text(&body["body"])));
    print(&format!(
        "{}\n{}\n{}\n\n",
        status(&body),
        headers(&body["answer"]["headers"]),
        text(&body["answer"]["body"])
    ));
    print(&format!(
        "at {}, {} ms, key {}, reason {}\n",
        cell(&body, "at"),
        cell(&body, "latency_ms"),
        cell(&body, "key"),
        cell(&body, "reason")
    ));
    let mut warnings = String::new();
    push_warnings(&mut warnings, &body);
    print(&warnings);
    print(&format!("wrs-emulator explain {} says why\n", cell(&body, "id")));
    Ok(ExitCode::SUCCESS)
}

/// Headers as on the wire, one a line.
pub(super) fn headers(headers: &Value) -> String {
    let lines =
        headers.as_array().into_iter().flatten().map(|header| format!("{}: {}", plain(&header[0]), plain(&header[1])));
    lines.map(|line| format!("{line}\n")).collect()
}

/// A body: text as it is but for control bytes other than line ends, anything else as JSON.
pub(super) fn text(body: &Value) -> String {
    match body.as_str() {
        Some(text) => text.split('\n').map(visible).collect::<Vec<_>>().join("\n"),
        None => compact(body),
    }
}
