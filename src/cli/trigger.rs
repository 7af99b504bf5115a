//! `trigger` fires an event and prints what each receiver answered; `deliveries redeliver` sends one again.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::arguments::{CallArgs, examples};
use super::call_command::print_answer;
use super::client::ControlClient;
use super::failure::{Failure, note};
use super::judging::ProblemKind;
use super::output::show;
use crate::advice::{Advice, Audience};
use crate::contract::signature::Tamper;
use crate::control::api::{
    self, AttemptResult, ControlCall as _, DeliveryId, DeliveryShown, DeliveryStatus, DeliveryWhole, DurationInput,
    FireBody, FireQuery, Forgery, Integer, WaitedFor,
};
use crate::control::render::Text as _;
use crate::control::story;
use crate::util::duration::parse_duration;
use crate::util::wording::counted;

/// The commands that show why a delivery was not accepted.
fn explain(id: &DeliveryId, reader: &Audience) -> String {
    let attempts = Advice::ShowDelivery { id: id.to_string() }.worded(reader);
    format!("{}, and what to try; `{attempts}` shows each attempt", reader.look(&Advice::explain(id.to_string())))
}

#[derive(Debug, Args)]
#[command(after_help = examples([
    "trigger workflow.completed --wait",
    "trigger workflow.completed --data workflow_id=wf_42 --count 3",
    "trigger reference.matched --data-json '{\"reference_id\":\"ref_1\"}' --key sk_test_other",
]))]
pub(super) struct TriggerArgs {
    /// The event type, such as workflow.completed.
    #[arg(required_unless_present = "emit")]
    event: Option<String>,
    /// Trigger this emission of the active scenarios instead of an event.
    #[arg(long, value_name = "NAME", conflicts_with_all = [
        "event", "data", "data_json", "subscription", "count", "delay", "tamper", "duplicate", "shuffle", "drop", "wait",
    ])]
    emit: Option<String>,
    #[command(flatten)]
    common: CallArgs,
    /// Whose subscriptions: a key, or a workspace `ws_…`.
    #[arg(long, env = "WRS_API_KEY", default_value = "sk_test_local", hide_env_values = true)]
    key: String,
    /// Change one field of the event's data: `path=value`; a value that is not JSON is text. Repeatable.
    #[arg(long, value_name = "PATH=VALUE")]
    data: Vec<String>,
    /// The whole data, as a JSON object.
    #[arg(long, value_name = "JSON")]
    data_json: Option<String>,
    /// Only this subscription.
    #[arg(long, value_name = "SUB_ID")]
    subscription: Option<String>,
    /// Fire this many events.
    #[arg(long, default_value_t = 1)]
    count: u32,
    /// Delay the first attempts by this long, by the emulator's clock.
    #[arg(long, value_name = "DURATION")]
    delay: Option<DurationInput>,
    /// Forge each delivery: a receiver must refuse it with a 4xx. A refused one is not retried.
    #[arg(long, value_parser = Tamper::ALL.map(Tamper::name))]
    tamper: Option<String>,
    /// Send each delivery this many times in all.
    #[arg(long, default_value_t = 1, value_name = "COPIES", value_parser = clap::value_parser!(u32).range(1..=100))]
    duplicate: u32,
    /// Shuffle the order of the events of --count.
    #[arg(long)]
    shuffle: bool,
    /// Deliver nothing, as if the delivery were lost.
    #[arg(long)]
    drop: bool,
    /// Wait until each receiver has been tried once, or under `clock auto` until each delivery has ended; exit 1 if one was not
    /// accepted, or with --tamper if one was not refused.
    #[arg(long)]
    wait: bool,
    /// The timeout of --wait.
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    timeout: DurationInput,
}

pub(super) fn run(args: TriggerArgs) -> Result<ExitCode, Failure> {
    if args.emit.is_some() {
        let call = ControlClient::new(&args.common.target);
        return print_answer(call, &planned(&args).sent(), args.common.json).map(|_| ExitCode::SUCCESS);
    }
    let fire = fire(&args)?;
    // Checked when the flag was read.
    let limit = parse_duration(&args.timeout.0).unwrap_or_default();
    let call = ControlClient::new(&args.common.target).limit(limit + Duration::from_secs(30));
    let answer = call.send(&fire).map_err(|failure| {
        let code = failure.answer.as_ref().and_then(|answer| answer.pointer("/error/code"));
        // The environment's key is easily forgotten.
        let is_forgotten = std::env::var("WRS_API_KEY").is_ok_and(|key| key.trim() == args.key);
        if code.is_some_and(|code| code == "no_match") && is_forgotten {
            return failure.with_hint("the key is that of WRS_API_KEY; `--key KEY` names another");
        }
        failure
    })?;
    show(args.common.json, &answer, || answer.text(&args.common.target.reader()));
    let reader = args.common.target.reader();
    let deliveries: Vec<DeliveryShown> = answer.deliveries.unwrap_or_default();
    let due = args.delay.as_ref().map(|DurationInput(delay)| {
        let advance = Advice::AdvanceClock { advance: delay.clone(), key: Some(args.key.clone()) };
        format!("the first attempts are due in {delay}; `{}` moves the clock there", advance.worded(&reader))
    });
    if args.drop || !args.wait {
        if let Some(due) = due.filter(|_| !args.drop && !args.common.json) {
            note(&due);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.tamper.is_some() {
        return forged(&deliveries, &reader);
    }
    let missed: Vec<_> = deliveries.iter().filter(|delivery| delivery.status != DeliveryStatus::Delivered).collect();
    if let Some(first) = missed.first() {
        let missed = missed.len();
        let (all, were) = (counted(deliveries.len(), "delivery"), were(missed));
        let is_due = deliveries.iter().any(|delivery| delivery.status == DeliveryStatus::Pending);
        // An attempt that failed was due.
        let not_due = due.filter(|_| deliveries.iter().all(|delivery| delivery.last.is_none()));
        let so_far = match answer.waited_for {
            _ if !is_due => String::new(),
            _ if let Some(due) = &not_due => format!(" so far: {due}"),
            Some(WaitedFor::FirstAttempt) => format!(
                " so far: --wait waits for the first attempt; `deliveries list` shows the retries, and after \
                 `{}` it waits for them, without the time between",
                Advice::AutomateClock { key: Some(args.key.clone()) }.worded(&reader)
            ),
            _ => format!(" within {}; `deliveries list` shows what comes later", args.timeout.0),
        };
        let what = if not_due.is_some() && is_due { "tried" } else { "accepted" };
        let failure = Failure::check_failed(format!("{missed} of {all} {were} not {what}{so_far}"));
        return Err(failure.with_hint(explain(&first.id, &reader)));
    }
    Ok(ExitCode::SUCCESS)
}

/// The scenario defines the event.
fn planned(args: &TriggerArgs) -> api::Fire {
    let body = FireBody { key: args.key.as_str().into(), emit: args.emit.clone(), ..Default::default() };
    api::Fire { query: FireQuery::default(), body }
}

/// Fields of an event's data as they are typed: `path=value`.
pub(super) fn assignments(data: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut set = Map::new();
    for assignment in data {
        // No field name begins with one of these.
        let is_json = assignment.trim_start().starts_with(['{', '[', '"']);
        let (path, value) = assignment.split_once('=').filter(|_| !is_json).ok_or_else(|| {
            let hint = if is_json { "for JSON use `--data-json`" } else { "for example `--data workflow_id=wf_42`" };
            Failure::usage(format!("--data: expected path=value, found `{assignment}`")).with_hint(hint)
        })?;
        set.insert(path.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned())));
    }
    Ok(set)
}

fn fire(args: &TriggerArgs) -> Result<api::Fire, Failure> {
    let set = assignments(&args.data)?;
    let data = args.data_json.as_deref().map(serde_json::from_str).transpose();
    let query = FireQuery { wait: args.wait.then(|| args.timeout.clone()) };
    let body = FireBody {
        event_type: args.event.clone(),
        data: data.map_err(|error| Failure::usage(format!("--data-json: {error}")))?.flatten(),
        set,
        subscription: args.subscription.clone(),
        count: Some(Integer(args.count as usize)),
        delay: args.delay.clone(),
        tamper: args.tamper.clone(),
        duplicate: Some(Integer(args.duplicate)),
        shuffle: args.shuffle,
        drop: args.drop,
        key: args.key.as_str().into(),
        emit: None,
    };
    Ok(api::Fire { query, body })
}

fn were(count: usize) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

/// True if every forged delivery was refused, as it should be. One that its receiver cannot detect may be accepted.
fn forged(deliveries: &[DeliveryShown], reader: &Audience) -> Result<ExitCode, Failure> {
    let chosen = |is_one: fn(&DeliveryShown) -> bool| deliveries.iter().filter(move |delivery| is_one(delivery));
    let accepted = || chosen(|delivery| delivery.forgery == Some(Forgery::Accepted));
    if let Some(first) = accepted().next() {
        return Err(Failure::check_failed(ProblemKind::Forged.sentence(accepted().count()))
            .with_hint(explain(&first.id, reader)));
    }
    let unjudged = || {
        chosen(|delivery| {
            let is_refused = matches!(delivery.last, Some(AttemptResult::Answered { status: 400..=499, .. }));
            delivery.status != DeliveryStatus::Delivered && !is_refused
        })
    };
    if let Some(first) = unjudged().next() {
        let unjudged = unjudged().count();
        let forged = counted(unjudged, "forged delivery");
        let were = were(unjudged);
        let message = format!("{forged} {were} neither accepted nor refused: a receiver refuses with a 4xx");
        return Err(Failure::check_failed(message).with_hint(explain(&first.id, reader)));
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Subcommand)]
pub(super) enum DeliveriesCommand {
    /// Send the same event to the same subscription again, with a new signature, or forged as before; exit 1 if it does not arrive.
    #[command(display_order = 100, after_help = examples(["deliveries redeliver dlv_01k..."]))]
    Redeliver(RedeliverArgs),
}

#[derive(Debug, Args)]
pub(super) struct RedeliverArgs {
    /// Its id.
    id: String,
    #[command(flatten)]
    common: CallArgs,
}

pub(super) fn redeliver(args: &RedeliverArgs) -> Result<ExitCode, Failure> {
    let path = api::DeliveryPath { id: args.id.clone() };
    let query = api::RedeliverQuery { wait: Some(DurationInput("30s".to_owned())) };
    let request = api::Redeliver { path, query, body: api::NoFields::default() };
    let answer = ControlClient::new(&args.common.target).limit(Duration::from_mins(1)).send(&request)?;
    show(args.common.json, &answer.delivery, || answer.text(&args.common.target.reader()));
    // A forged delivery is forged again, and succeeds if it is refused.
    let succeeded =
        |delivery: &DeliveryWhole| story::went_well(delivery.status == DeliveryStatus::Delivered, delivery.forgery);
    Ok(if answer.delivery.as_ref().is_some_and(succeeded) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
