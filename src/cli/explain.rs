//! `explain`: why a request was answered so, where an event went, how a delivery came about.

use std::process::ExitCode;

use clap::Args;
use hyper::Method;
use serde_json::Value;

use super::Target;
use super::client::{SHORT, call, segment};
use super::deliveries::destination;
use super::failure::Failure;
use super::output::{cell, plain, print, print_json};

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The id of a request (`X-Emulator-Request-Id`, `request_id`), an event or a delivery; by default the newest request or
    /// delivery.
    id: Option<String>,
    /// Without an id: only of this key, or workspace `ws_…`; by default of all keys and of none.
    #[arg(long, env = "WRS_API_KEY", default_value = "*", hide_env_values = true)]
    key: String,
    #[command(flatten)]
    target: Target,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: ExplainArgs) -> Result<ExitCode, Failure> {
    let (path, query) = match &args.id {
        Some(id) => (format!("explain/{}", segment(id)), vec![]),
        None => ("explain/latest".to_owned(), vec![("key", args.key.as_str())]),
    };
    let body = call(&args.target, Method::GET, &path, &query, None, SHORT)?.success()?;
    if args.json {
        print_json(&body);
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{}: {}\n", cell(&body, "id"), cell(&body, "summary"));
    if body["kind"] == "delivery" {
        let delivery = &body["delivery"];
        let (kind, event) = (cell(delivery, "type"), cell(delivery, "event"));
        text.push_str(&format!("  {kind} {event} to {}\n", destination(delivery)));
    }
    for step in body["steps"].as_array().into_iter().flatten() {
        let mark = match step["verdict"].as_str() {
            Some("passed") => "  ✓",
            Some("failed") => "  ✗",
            Some("decided") => "  ▸",
            _ => "  ·",
        };
        text.push_str(&format!("{mark} {:<16} {}\n", cell(step, "check"), cell(step, "detail")));
    }
    push_warnings(&mut text, &body["request"]);
    push_warnings(&mut text, &body["event"]);
    for advice in body["advice"].as_array().into_iter().flatten() {
        text.push_str(&format!("{}\n", cell(advice, "text")));
        if let Some(command) = advice["command"].as_str() {
            text.push_str(&format!("  {command}\n"));
        }
    }
    push_rules(&mut text, &body);
    print(&text);
    Ok(ExitCode::SUCCESS)
}

/// What a request's answer or an event lacks that was meant to be there.
pub(super) fn push_warnings(text: &mut String, record: &Value) {
    for warning in record["warnings"].as_array().into_iter().flatten() {
        text.push_str(&format!("warning: {}\n", plain(warning)));
    }
}

/// The rules of the active scenarios and what each makes of the request, if there are any.
fn push_rules(text: &mut String, body: &Value) {
    let Some(rules) = body["rules"].as_array() else { return };
    text.push_str(&format!("rules ({}):\n", cell(body, "note")));
    for rule in rules {
        let mark = if rule["applied"] == true { "  ▸" } else { "  ·" };
        let name = format!("{}, {}", cell(rule, "scenario"), cell(rule, "rule"));
        text.push_str(&format!("{mark} {name}: {}\n", cell(rule, "outcome")));
    }
}
