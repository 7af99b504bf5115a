//! `deliveries list`, `deliveries show`, `deliveries redeliver`.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::client::Call;
use super::failure::Failure;
use super::follow::follow;
use super::mistakes::value;
use super::output::{cell, print, print_json, table};
use super::requests::{headers, more, text, waited};
use super::{OneArgs, Target};
use crate::control::api::{
    self, Attempt, Bytes, Delivery, DeliveryStatus, DeliveryWhole, DurationInput, Forgery, Integer, Outcome, name_of,
};
use crate::redact::Redactor;
use crate::workspace::is_elsewhere;

/// `deliveries …`
#[derive(Debug, Subcommand)]
pub(super) enum DeliveriesCommand {
    /// List deliveries, newest first.
    List(ListArgs),
    /// Show one delivery with each attempt: what was signed and sent, what came back.
    Show(OneArgs),
    /// Wait until deliveries fit; on time-out, show the nearest and what differed, and exit 1.
    Wait(WaitArgs),
    /// Send the same event to the same subscription again, signed afresh, or forged as before; exit 1 if it does not arrive.
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
    /// Only deliveries of the event with this id.
    #[arg(long, value_name = "ID", value_parser = event_id)]
    event: Option<String>,
    /// Only deliveries of this event type.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Only deliveries to the subscription with this id.
    #[arg(long, value_name = "ID", value_parser = subscription_id)]
    subscription: Option<String>,
}

fn event_id(text: &str) -> Result<String, String> {
    let expected = "expected the id of an event, such as evt_01k...; `--type` takes an event type";
    if text.starts_with("evt_") { Ok(text.to_owned()) } else { Err(expected.to_owned()) }
}

fn subscription_id(text: &str) -> Result<String, String> {
    let expected = "expected the id of a subscription, such as sub_01k...";
    if text.starts_with("sub_") { Ok(text.to_owned()) } else { Err(expected.to_owned()) }
}

/// Arguments of `deliveries list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    which: Which,
    /// At most this many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Continue where another page ended: its `next_cursor`.
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
        DeliveriesCommand::Show(args) => Ok(args.call::<api::ShowDelivery>().send()?.print(args.json, whole)),
        DeliveriesCommand::Wait(args) => wait(&args),
        DeliveriesCommand::Redeliver(args) => {
            let wait = api::Wait { wait: Some(DurationInput("30s".to_owned())) };
            let call = args.call::<api::Redeliver>().query(&wait).limit(Duration::from_mins(1));
            let delivery = call.send()?.body.delivery;
            if args.json {
                print_json(&delivery);
            } else if let Some(delivery) = &delivery {
                print(&whole(delivery));
            }
            // A forgery is sent forged again, and refused as it should be.
            let is_well = |delivery: &DeliveryWhole| match delivery.forgery {
                Some(forgery) => forgery == Forgery::Refused,
                None => delivery.status == DeliveryStatus::Delivered,
            };
            Ok(if delivery.as_ref().is_some_and(is_well) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let which = &args.which;
    if args.follow {
        return follow(&which.target, &which.key, "attempt", args.json, attempt_line);
    }
    let query = api::DeliveriesQuery {
        limit: Some(args.limit.to_string()),
        cursor: args.cursor.clone(),
        status: which.status.clone(),
        event: which.event.clone(),
        event_type: which.event_type.clone(),
        subscription: which.subscription.clone(),
    };
    let answer = Call::<api::ListDeliveries>::to(&which.target).key(&*which.key).query(&query).send()?;
    Ok(answer.print(args.json, |page| rows(&page.data) + &more(page)))
}

/// An attempt of the event stream on one line.
fn attempt_line(streamed: &api::StreamedAttempt) -> String {
    let api::StreamedAttempt { attempt, delivery, event_type, .. } = streamed;
    let (at, number) = (&attempt.at, attempt.number);
    let to = destination(&attempt.url, Some(&attempt.dialled));
    let (said, damaged) = (said(Some(&attempt.outcome)), damaged(attempt.damage.as_deref()));
    format!("{at}  {delivery}  {}  {number}  {to}  {said}{damaged}", cell(event_type))
}

/// What a receiver answered, with the first line of its body, or why it did not.
pub(super) fn said(outcome: Option<&Outcome>) -> String {
    match outcome {
        Some(Outcome::Answered { status, body, .. }) => {
            let line = match body {
                Bytes::Text(body) => Redactor::default().first_line(body.as_bytes()),
                Bytes::Binary { .. } => None,
            };
            line.map_or_else(|| format!("answered {status}"), |line| format!("answered {status}: {}", cell(line)))
        }
        Some(Outcome::Failed { detail, .. }) => cell(detail),
        None => "not tried yet".to_owned(),
    }
}

/// Where a delivery or an attempt goes: the subscription's URL, and where it was sent if that is elsewhere.
pub(super) fn destination(url: &str, dialled: Option<&str>) -> String {
    match dialled {
        Some(dialled) if is_elsewhere(url, dialled) => format!("{}, sent to {}", cell(url), cell(dialled)),
        _ => cell(url),
    }
}

/// Where the last attempt of a delivery went.
pub(super) fn dialled(delivery: &DeliveryWhole) -> Option<&str> {
    delivery.attempts.0.last().map(|attempt| attempt.dialled.as_str())
}

/// What is deliberately wrong with an event or a delivery, as the end of a line.
pub(super) fn damaged(damage: Option<&str>) -> String {
    damage.map_or_else(String::new, |damage| format!("; {}", cell(damage)))
}

fn wait(args: &WaitArgs) -> Result<ExitCode, Failure> {
    let which = &args.which;
    let body = api::WaitForDeliveries {
        status: which.status.clone(),
        event: which.event.clone(),
        event_type: which.event_type.clone(),
        subscription: which.subscription.clone(),
        count: Some(Integer(args.count as usize)),
        timeout: Some(DurationInput(args.timeout.clone())),
        ..Default::default()
    };
    let call = Call::<api::WaitDeliveries>::to(&which.target).key(&*which.key).body(&body);
    waited(call, args.json, |found| rows(&found.data))
}

fn rows(rows: &[Delivery]) -> String {
    let columns = |row: &Delivery| {
        let forgery = row.forgery.map_or_else(String::new, |forgery| format!(" (forgery {})", name_of(forgery)));
        let (status, attempts) = (name_of(row.status) + &forgery, row.attempts.0.to_string());
        [cell(&row.id), cell(&row.event), cell(&row.event_type), status, attempts, cell(&row.url)]
    };
    table(["ID", "EVENT", "TYPE", "STATUS", "ATTEMPTS", "URL"], rows.iter().map(columns))
}

/// A delivery with each attempt.
fn whole(delivery: &DeliveryWhole) -> String {
    let DeliveryWhole { id, status, event, url, .. } = delivery;
    let mut shown = format!("{id} {} of {event} to {}\n", name_of(status), cell(url));
    if let Some(damage) = &delivery.damage {
        shown.push_str(&format!("{damage}\n"));
    }
    for attempt in &delivery.attempts.0 {
        let Attempt { number, at, latency_ms, dialled, request, signed_content, .. } = attempt;
        let (headers, body, signed) = (headers(&request.headers), text(&request.body), text(signed_content));
        shown.push_str(&format!("\nattempt {number} at {at}, {latency_ms} ms, to {}\n\n", cell(dialled)));
        shown.push_str(&format!("{headers}\n{body}\n\nsigned: {signed}\n"));
        shown.push_str(&match &attempt.outcome {
            Outcome::Failed { failure, detail, .. } => format!("failed: {failure} ({})\n", cell(detail)),
            Outcome::Answered { status, body, .. } => format!("answered: {status} {}\n", text(body)),
        });
    }
    shown
}
