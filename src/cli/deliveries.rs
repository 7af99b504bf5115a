//! `deliveries list`, `deliveries show`, `deliveries wait`, `deliveries redeliver`.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::arguments::OneArgs;
use super::failure::Failure;
use super::help::examples;
use super::output::{cell, show, table};
use super::records::{ListArgs, Records, WaitArgs};
use super::requests::{headers, text};
use crate::control::api::{
    self, Attempt, Bytes, Delivery, DeliveryStatus, DeliveryWhole, DurationInput, Forgery, Outcome, name_of,
};
use crate::redact::Redactor;
use crate::workspace::is_elsewhere;

/// `deliveries …`
#[derive(Debug, Subcommand)]
#[command(after_help = examples(["deliveries --status exhausted", "deliveries wait --count 2"]))]
pub(super) enum DeliveriesCommand {
    /// List deliveries, newest first.
    #[command(after_help = examples([
        "deliveries list --status pending",
        "deliveries list --event evt_01k... --json",
        "deliveries list --follow",
    ]))]
    List(ListArgs<Deliveries>),
    /// Show one delivery with each attempt: what was signed and sent, what came back.
    #[command(after_help = examples(["deliveries show dlv_01k...", "deliveries show dlv_01k... --json"]))]
    Show(OneArgs),
    /// Wait until deliveries match; on timeout, show the nearest ones and what differs, and exit 1.
    #[command(after_help = examples([
        "deliveries wait --status delivered --type workflow.completed --timeout 30s",
        "deliveries wait --count 3 --key sk_test_mine",
    ]))]
    Wait(WaitArgs<Deliveries>),
    /// Send the same event to the same subscription again, with a new signature, or forged as before; exit 1 if it does not arrive.
    #[command(after_help = examples(["deliveries redeliver dlv_01k..."]))]
    Redeliver(OneArgs),
}

/// Filters of deliveries.
#[derive(Debug, Args, Serialize)]
pub(super) struct Deliveries {
    /// Only deliveries of this key, or workspace `ws_…`; by default those of all keys.
    #[arg(long, env = "WRS_API_KEY", default_value = "*", hide_env_values = true)]
    #[serde(skip)]
    key: String,
    /// Only these: pending, delivered, exhausted or cancelled.
    #[arg(long)]
    status: Option<String>,
    /// Only deliveries of the event with this id.
    #[arg(long, value_name = "ID", value_parser = event_id)]
    event: Option<String>,
    /// Only deliveries of this event type.
    #[arg(long = "type", value_name = "TYPE")]
    #[serde(rename = "type")]
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

impl Records for Deliveries {
    type Row = Delivery;
    type List = api::ListDeliveries;
    type Wait = api::WaitDeliveries;
    type Streamed = api::StreamedAttempt;
    const NAME: &'static str = "deliveries";
    const EVENT: &'static str = "attempt";
    const FOLLOW: &'static str = "Print attempts as they are made, until interrupted";
    const PAGED: &'static [&'static str] = &["status", "event", "event_type", "subscription", "cursor"];

    fn key(&self) -> &str {
        &self.key
    }

    fn table(rows: &[Delivery]) -> String {
        let columns = |row: &Delivery| {
            let forgery = row.forgery.map_or_else(String::new, |forgery| format!(" (forgery {})", name_of(forgery)));
            let (status, attempts) = (name_of(row.status) + &forgery, row.attempts.0.to_string());
            [cell(&row.id), cell(&row.event), cell(&row.event_type), status, attempts, cell(&row.url)]
        };
        table(["ID", "EVENT", "TYPE", "STATUS", "ATTEMPTS", "URL"], rows.iter().map(columns))
    }

    fn line(streamed: &api::StreamedAttempt) -> String {
        let api::StreamedAttempt { attempt, delivery, event_type, .. } = streamed;
        let (at, number) = (&attempt.at, attempt.number);
        let to = destination(&attempt.url, Some(&attempt.dialled));
        let (said, damaged) = (said(Some(&attempt.outcome)), damaged(attempt.damage.as_deref()));
        format!("{at}  {delivery}  {}  {number}  {to}  {said}{damaged}", cell(event_type))
    }
}

pub(super) fn run(command: DeliveriesCommand) -> Result<ExitCode, Failure> {
    match command {
        DeliveriesCommand::List(args) => args.run(),
        DeliveriesCommand::Show(args) => args.call::<api::ShowDelivery>().show(whole),
        DeliveriesCommand::Wait(args) => args.run(),
        DeliveriesCommand::Redeliver(args) => {
            let wait = api::Wait { wait: Some(DurationInput("30s".to_owned())) };
            let call = args.call::<api::Redeliver>().query(&wait).limit(Duration::from_mins(1));
            let delivery = call.send()?.body.delivery;
            show(args.common.json, &delivery, || delivery.as_ref().map(whole).unwrap_or_default());
            // A forged delivery is forged again, and succeeds if it is refused.
            let succeeded = |delivery: &DeliveryWhole| match delivery.forgery {
                Some(forgery) => forgery == Forgery::Refused,
                None => delivery.status == DeliveryStatus::Delivered,
            };
            Ok(if delivery.as_ref().is_some_and(succeeded) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

/// What a receiver answered, with the first line of its body, or why it did not answer.
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

/// Where a delivery or an attempt goes: the subscription's URL, and the forward's target if there is one.
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

/// The deliberate damage of an event or a delivery, as the end of a line.
pub(super) fn damaged(damage: Option<&str>) -> String {
    damage.map_or_else(String::new, |damage| format!("; {}", cell(damage)))
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
