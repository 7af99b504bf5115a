//! `trigger`: fires an event and says what each receiver answered.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hyper::Method;
use serde_json::{Map, Value, json};

use super::Target;
use super::client::{SHORT, call};
use super::deliveries::{damaged, destination, said};
use super::failure::Failure;
use super::mistakes::value;
use super::output::{cell, counted, print, print_json};
use super::verdict::Kind;
use crate::contract::signature::Tamper;

const EXPLAIN: &str = "`wrs-emulator explain ID` says why and what to try; `deliveries show ID` shows each attempt";

/// Arguments of `trigger`.
#[derive(Debug, Args)]
pub(super) struct TriggerArgs {
    /// The event type, such as workflow.completed.
    #[arg(required_unless_present = "emit")]
    event: Option<String>,
    /// Set off this emission of the active scenarios in place of an event.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["event", "data", "data_json", "subscription", "delay", "wait", "tamper"])]
    emit: Option<String>,
    #[command(flatten)]
    target: Target,
    /// Whose subscriptions: a key, or a workspace `ws_…`.
    #[arg(long, env = "WRS_API_KEY", default_value = "sk_test_local", hide_env_values = true)]
    key: String,
    /// Change one field of the event's data: `path=value`; the value is JSON, or else text. Repeatable.
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
    /// Let the first attempts wait this long, by the emulator's clock.
    #[arg(long, value_name = "DURATION", value_parser = value::duration)]
    delay: Option<String>,
    /// Forge each delivery: a receiver must refuse it with a 4xx. One that was refused is not retried.
    #[arg(long, value_parser = Tamper::ALL.map(Tamper::name))]
    tamper: Option<String>,
    /// Send each delivery this often in all.
    #[arg(long, default_value_t = 1, value_name = "COPIES", value_parser = clap::value_parser!(u32).range(1..=100))]
    duplicate: u32,
    /// Send the events of --count in another order.
    #[arg(long)]
    shuffle: bool,
    /// Deliver nothing, as if it were lost on the way.
    #[arg(long)]
    drop: bool,
    /// Wait until each receiver has been tried; exit 1 if one did not accept, or with --tamper if one did not refuse.
    #[arg(long)]
    wait: bool,
    /// How long --wait waits.
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = value::duration)]
    timeout: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: TriggerArgs) -> Result<ExitCode, Failure> {
    if let Some(name) = &args.emit {
        return set_off(&args, name);
    }
    let mut wish = json!({
        "type": args.event,
        "key": args.key,
        "count": args.count,
        "duplicate": args.duplicate,
        "shuffle": args.shuffle,
        "drop": args.drop,
    });
    if let Some(tamper) = &args.tamper {
        wish["tamper"] = tamper.as_str().into();
    }
    let mut set = Map::new();
    for assignment in &args.data {
        // A name of a field begins otherwise.
        let is_json = assignment.trim_start().starts_with(['{', '[', '"']);
        let (path, value) = assignment.split_once('=').filter(|_| !is_json).ok_or_else(|| {
            let hint = if is_json { "for JSON use `--data-json`" } else { "for example `--data workflow_id=wf_42`" };
            Failure::usage(format!("--data: expected path=value, found `{assignment}`")).with_hint(hint)
        })?;
        set.insert(path.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned())));
    }
    wish["set"] = Value::Object(set);
    if let Some(text) = &args.data_json {
        let data: Value =
            serde_json::from_str(text).map_err(|error| Failure::usage(format!("--data-json: {error}")))?;
        wish["data"] = data;
    }
    if let Some(id) = &args.subscription {
        wish["subscription"] = id.as_str().into();
    }
    if let Some(delay) = &args.delay {
        wish["delay"] = delay.as_str().into();
    }
    let limit = crate::duration::parse_duration(&args.timeout)
        .map_err(|problem| Failure::usage(format!("--timeout: {problem}")))?;
    let query: Vec<(&str, &str)> = if args.wait { vec![("wait", &args.timeout)] } else { Vec::new() };
    let answer = call(&args.target, Method::POST, "events", &query, Some(&wish), limit + Duration::from_secs(30))?;
    if args.json && (answer.status < 300 || answer.status == 404) {
        print_json(&answer.body);
    }
    let nobody = answer.body["error"]["code"] == "no_match";
    let body = answer.success().map_err(|failure| match key_from_environment(&args.key) {
        Some(hint) if nobody => failure.with_hint(hint),
        _ => failure,
    })?;
    let deliveries = body["deliveries"].as_array().cloned().unwrap_or_default();
    if !args.json {
        print_fired(&body);
        deliveries.iter().filter(|_| !args.drop).for_each(print_delivery);
    }
    if args.drop {
        if !args.json {
            let events = body["events"].as_array().into_iter().flatten();
            let count = events.map(|event| event["deliveries"].as_array().map_or(0, Vec::len)).sum::<usize>() as u64;
            let was = if count == 1 { "was" } else { "were" };
            print(&format!("{} {was} dropped, as asked for\n", counted(count, "delivery")));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if args.wait && args.tamper.is_some() {
        return forged(&deliveries);
    }
    let accepted = |delivery: &Value| delivery["status"] == "delivered";
    let missed = deliveries.iter().filter(|delivery| !accepted(delivery)).count();
    if args.wait && missed > 0 {
        let were = if missed == 1 { "was" } else { "were" };
        let message = format!("{missed} of {} {were} not accepted", counted(deliveries.len() as u64, "delivery"));
        return Err(Failure::short(message).with_hint(EXPLAIN));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether every forged delivery was refused, as it should be. One that its receiver cannot detect may be accepted.
fn forged(deliveries: &[Value]) -> Result<ExitCode, Failure> {
    let count = |is_one: fn(&Value) -> bool| deliveries.iter().filter(|delivery| is_one(delivery)).count() as u64;
    let accepted = count(|delivery| delivery["forgery"] == "accepted");
    if accepted > 0 {
        return Err(Failure::short(Kind::Forged.sentence(accepted)));
    }
    let is_refused = |delivery: &Value| matches!(delivery["last"]["status"].as_u64(), Some(400..=499));
    let unjudged = count(|delivery| delivery["status"] != "delivered") - count(is_refused);
    if unjudged > 0 {
        let were = if unjudged == 1 { "delivery was" } else { "deliveries were" };
        let message = format!("{unjudged} forged {were} neither accepted nor refused: a receiver refuses with a 4xx");
        return Err(Failure::short(message).with_hint(EXPLAIN));
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the key came from, if it was not typed: a shell remembers it longer than people do.
fn key_from_environment(key: &str) -> Option<&'static str> {
    let set = std::env::var("WRS_API_KEY").is_ok_and(|value| value == key);
    set.then_some("the key is that of WRS_API_KEY; `--key KEY` names another")
}

/// Sets off a named emission; the scenario says what is fired.
fn set_off(args: &TriggerArgs, name: &str) -> Result<ExitCode, Failure> {
    let wish = json!({ "emit": name, "key": args.key });
    let body = call(&args.target, Method::POST, "events", &[], Some(&wish), SHORT)?.success()?;
    if args.json {
        print_json(&body);
    } else {
        let damage = body["damage"].as_str().map_or_else(String::new, |damage| format!(": {damage}"));
        print(&format!("emission {name} set off{damage}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn print_fired(body: &Value) {
    let events = body["events"].as_array().map(Vec::as_slice).unwrap_or_default();
    // Of many events the answer has the ids alone.
    if let [first, .., last] = events
        && first["type"].is_null()
    {
        let count = counted(events.len() as u64, "event");
        return print(&format!("{count} fired, {} to {}{}\n", cell(first, "id"), cell(last, "id"), damaged(body)));
    }
    for event in events {
        // One subscription may get several copies.
        let deliveries = event["deliveries"].as_array().into_iter().flatten();
        let count = deliveries.map(|delivery| delivery["subscription"].as_str()).collect::<BTreeSet<_>>().len();
        let subscriptions = counted(count as u64, "subscription");
        let (id, kind) = (cell(event, "id"), cell(event, "type"));
        print(&format!("{id} {kind} fired at {subscriptions}{}\n", damaged(event)));
    }
}

fn print_delivery(delivery: &Value) {
    let (id, status) = (cell(delivery, "id"), cell(delivery, "status"));
    let judged = match delivery["forgery"].as_str() {
        Some("accepted") => "; accepted, but must be refused",
        Some("refused") => "; refused, as it should be",
        _ => "",
    };
    print(&format!("  {id} {status} {}: {}{judged}\n", destination(delivery), said(&delivery["last"])));
}
