//! `deliveries list`, `deliveries show`, `deliveries redeliver`.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use super::client::{SHORT, call, segment};
use super::failure::Failure;
use super::follow::follow;
use super::mistakes::value;
use super::output::{cell, plain, print, print_json, print_table};
use super::requests::{headers, text, waited};
use super::{OneArgs, Target};
use crate::journal::is_elsewhere;
use crate::redact::{Redactor, visible};

/// `deliveries …`
#[derive(Debug, Subcommand)]
pub(super) enum DeliveriesCommand {
    /// List deliveries, newest first.
    List(ListArgs),
    /// Show one delivery with each attempt: what was signed and sent, what came back.
    Show(OneArgs),
    /// Wait until deliveries fit; on time-out, show the nearest and what differed, and exit 1.
    Wait(WaitArgs),
    /// Send the same event to the same subscription again, signed afresh.
    Redeliver(OneArgs),
}

/// Which deliveries are meant.
#[derive(Debug, Args)]
struct Which {
    #[command(flatten)]
    target: Target,
    /// Only deliveries of this key, or workspace `ws_…`; by default those of all keys.
    #[arg(long, env = "WRS_API_KEY", default_value = "*", hide_env_values = true)]
    key: String,
    /// Only these: pending, delivered, exhausted or cancelled.
    #[arg(long)]
    status: Option<String>,
    /// Only deliveries of this event.
    #[arg(long)]
    event: Option<String>,
    /// Only deliveries of this event type.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only deliveries to this subscription.
    #[arg(long)]
    subscription: Option<String>,
}

/// Arguments of `deliveries list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    which: Which,
    /// At most this many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Go on where another page ended: its `next_cursor`.
    #[arg(long)]
    cursor: Option<String>,
    /// Print attempts as they are made, until interrupted.
    #[arg(long, conflicts_with_all = ["status", "event", "event_type", "subscription", "cursor"])]
    follow: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `deliveries wait`.
#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    #[command(flatten)]
    which: Which,
    /// How many must fit.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// How long to wait.
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = value::duration)]
    timeout: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: DeliveriesCommand) -> Result<ExitCode, Failure> {
    match command {
        DeliveriesCommand::List(args) => list(&args),
        DeliveriesCommand::Show(args) => {
            let path = format!("deliveries/{}", segment(&args.id));
            let body = call(&args.target, Method::GET, &path, &[], None, SHORT)?.success()?;
            Ok(show(&body, args.json))
        }
        DeliveriesCommand::Wait(args) => wait(&args),
        DeliveriesCommand::Redeliver(args) => {
            let path = format!("deliveries/{}/redeliver", segment(&args.id));
            let limit = Duration::from_mins(1);
            let body = call(&args.target, Method::POST, &path, &[("wait", "30s")], None, limit)?.success()?;
            Ok(show(&body["delivery"], args.json))
        }
    }
}

fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    if args.follow {
        return follow(&args.which.target, &args.which.key, "attempt", args.json, |attempt| {
            Some(attempt_line(attempt))
        });
    }
    let limit = args.limit.to_string();
    let mut query = vec![("key", args.which.key.as_str()), ("limit", limit.as_str())];
    let optional = [
        ("status", &args.which.status),
        ("event", &args.which.event),
        ("type", &args.which.event_type),
        ("subscription", &args.which.subscription),
        ("cursor", &args.cursor),
    ];
    query.extend(optional.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))));
    let body = call(&args.which.target, Method::GET, "deliveries", &query, None, SHORT)?.success()?;
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

/// An attempt of the event stream on one line.
fn attempt_line(attempt: &Value) -> String {
    let fields = ["at", "delivery", "type", "number"].map(|field| cell(attempt, field)).join("  ");
    format!("{fields}  {}  {}{}", destination(attempt), said(&attempt["outcome"]), damaged(attempt))
}

/// What a receiver answered, with the first line of its body, or why it did not.
pub(super) fn said(outcome: &Value) -> String {
    let line = outcome["body"].as_str().and_then(|body| Redactor::default().first_line(body.as_bytes()));
    match (outcome["status"].as_u64(), outcome["detail"].as_str()) {
        (Some(status), _) => match line {
            Some(line) => format!("answered {status}: {}", visible(&line)),
            None => format!("answered {status}"),
        },
        (None, Some(detail)) => visible(detail).into_owned(),
        (None, None) => "not tried yet".to_owned(),
    }
}

/// Where a delivery with its attempts, or an attempt, goes: the subscription's URL, and where it was sent if that is elsewhere.
pub(super) fn destination(view: &Value) -> String {
    let url = cell(view, "url");
    let last = view["attempts"].as_array().and_then(|attempts| attempts.last()).unwrap_or(view);
    match last["dialled"].as_str() {
        Some(dialled) if is_elsewhere(&url, dialled) => format!("{url}, sent to {}", visible(dialled)),
        _ => url,
    }
}

/// What is deliberately wrong with an event or a delivery, as the end of a line.
pub(super) fn damaged(view: &Value) -> String {
    view["damage"].as_str().map_or_else(String::new, |damage| format!("; {}", visible(damage)))
}

fn wait(args: &WaitArgs) -> Result<ExitCode, Failure> {
    let wish = json!({
        "key": args.which.key,
        "status": args.which.status,
        "event": args.which.event,
        "type": args.which.event_type,
        "subscription": args.which.subscription,
        "count": args.count,
        "timeout": args.timeout,
    });
    let body = waited(&args.which.target, "deliveries/wait", &wish, args.json, "delivery")?;
    if !args.json {
        print_rows(&body);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_rows(body: &Value) {
    let rows = body["data"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| ["id", "event", "type", "status", "attempts", "url"].map(|field| cell(row, field)).to_vec());
    print_table(&["ID", "EVENT", "TYPE", "STATUS", "ATTEMPTS", "URL"], &rows.collect::<Vec<_>>());
}

fn show(delivery: &Value, json: bool) -> ExitCode {
    if json {
        print_json(delivery);
        return ExitCode::SUCCESS;
    }
    print(&format!(
        "{} {} of {} to {}\n",
        cell(delivery, "id"),
        cell(delivery, "status"),
        cell(delivery, "event"),
        cell(delivery, "url")
    ));
    if let Some(damage) = delivery["damage"].as_str() {
        print(&format!("{damage}\n"));
    }
    for attempt in delivery["attempts"].as_array().into_iter().flatten() {
        print(&format!(
            "\nattempt {} at {}, {} ms, to {}\n\n",
            cell(attempt, "number"),
            cell(attempt, "at"),
            cell(attempt, "latency_ms"),
            cell(attempt, "dialled")
        ));
        print(&format!("{}\n{}\n\n", headers(&attempt["request"]["headers"]), text(&attempt["request"]["body"])));
        print(&format!("signed: {}\n", text(&attempt["signed_content"])));
        let outcome = &attempt["outcome"];
        match outcome["detail"].as_str() {
            Some(detail) => print(&format!("failed: {} ({})\n", plain(&outcome["failure"]), visible(detail))),
            None => print(&format!("answered: {} {}\n", plain(&outcome["status"]), text(&outcome["body"]))),
        }
    }
    ExitCode::SUCCESS
}
