//! `subscriptions list|create|show|rotate|delete|disable|enable`: what is subscribed, and changes that the emulated API has no call
//! for.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use super::client::{SHORT, call, segment};
use super::failure::Failure;
use super::output::{cell, plain, print, print_json, print_table};
use super::{OneArgs, Target};
use crate::contract::keys::SAMPLE_KEY;

/// `subscriptions …`
#[derive(Debug, Subcommand)]
pub(super) enum SubscriptionsCommand {
    /// List subscriptions, oldest first.
    List(ListArgs),
    /// Subscribe a URL, as a client of the key would, without a request of its own.
    Create(CreateArgs),
    /// Show one subscription.
    Show(OneArgs),
    /// Give a subscription a new secret and print it; the old one keeps signing for a while.
    Rotate(RotateArgs),
    /// Delete a subscription.
    Delete(OneArgs),
    /// Stop deliveries to a subscription, as a 410 would.
    Disable(OneArgs),
    /// Let deliveries to a subscription go on.
    Enable(OneArgs),
}

/// Arguments of `subscriptions list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    target: Target,
    /// Only subscriptions of this key, or workspace `ws_…`; by default those of all keys.
    #[arg(long, env = "WRS_API_KEY", default_value = "*", hide_env_values = true)]
    key: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `subscriptions create`.
#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// Where events go; the rules are those of a client's subscribe.
    #[arg(value_name = "URL")]
    hook: String,
    /// Event types, joined by commas; by default every type that can be subscribed.
    #[arg(long, value_name = "TYPES", value_delimiter = ',')]
    events: Vec<String>,
    /// The signing secret; by default one is generated and printed.
    #[arg(long, env = "WRS_WEBHOOK_SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// A short label.
    #[arg(long)]
    description: Option<String>,
    /// Whose subscription: a key, or a workspace `ws_…`.
    #[arg(long, env = "WRS_API_KEY", default_value = SAMPLE_KEY, hide_env_values = true)]
    key: String,
    #[command(flatten)]
    target: Target,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `subscriptions rotate`.
#[derive(Debug, Args)]
pub(super) struct RotateArgs {
    #[command(flatten)]
    one: OneArgs,
    /// The new secret; by default one is generated.
    #[arg(long, env = "WRS_WEBHOOK_SECRET", hide_env_values = true)]
    secret: Option<String>,
}

pub(super) fn run(command: SubscriptionsCommand) -> Result<ExitCode, Failure> {
    match command {
        SubscriptionsCommand::List(args) => list(&args),
        SubscriptionsCommand::Create(args) => create(&args),
        SubscriptionsCommand::Show(args) => {
            let body = on(&args, Method::GET, "", None)?;
            Ok(told(&args, &body, &lines(&body)))
        }
        SubscriptionsCommand::Rotate(args) => {
            let body = on(&args.one, Method::POST, "/rotate", Some(&json!({ "secret": args.secret })))?;
            let grace = cell(&body, "old_secret_signs_for");
            let text = format!("{}\nthe old secret signs on for {grace}\n", cell(&body, "secret"));
            Ok(told(&args.one, &body, &text))
        }
        SubscriptionsCommand::Delete(args) => {
            let body = on(&args, Method::DELETE, "", None)?;
            Ok(told(&args, &body, &format!("{} deleted\n", cell(&body, "deleted"))))
        }
        SubscriptionsCommand::Disable(args) => put_in(&args, "disabled"),
        SubscriptionsCommand::Enable(args) => put_in(&args, "active"),
    }
}

fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let query = [("key", args.key.as_str())];
    let body = call(&args.target, Method::GET, "subscriptions", &query, None, SHORT)?.success()?;
    if args.json {
        print_json(&body);
        return Ok(ExitCode::SUCCESS);
    }
    let rows = body["data"].as_array().into_iter().flatten().map(|row| {
        let [id, key, status, url] = ["id", "key", "status", "url"].map(|field| cell(row, field));
        vec![id, key, status, events(row), url]
    });
    print_table(&["ID", "KEY", "STATUS", "EVENTS", "URL"], &rows.collect::<Vec<_>>());
    Ok(ExitCode::SUCCESS)
}

fn create(args: &CreateArgs) -> Result<ExitCode, Failure> {
    let wish = json!({
        "url": args.hook,
        "events": Some(&args.events).filter(|events| !events.is_empty()),
        "secret": args.secret,
        "description": args.description,
        "key": args.key,
    });
    let body = call(&args.target, Method::POST, "subscriptions", &[], Some(&wish), SHORT)?.success()?;
    if args.json {
        print_json(&body);
        return Ok(ExitCode::SUCCESS);
    }
    let subscription = &body["subscription"];
    let did = if body["created"] == true { "created" } else { "updated" };
    print(&format!("{} {did}: {} to {}\n", cell(subscription, "id"), events(subscription), cell(subscription, "url")));
    if let Some(secret) = body["secret"].as_str() {
        print(&format!("secret: {secret}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn put_in(args: &OneArgs, status: &str) -> Result<ExitCode, Failure> {
    let body = on(args, Method::PUT, "", Some(&json!({ "status": status })))?;
    Ok(told(args, &body, &format!("{} is {}\n", cell(&body, "id"), cell(&body, "status"))))
}

/// A call about one subscription.
fn on(args: &OneArgs, method: Method, below: &str, body: Option<&Value>) -> Result<Value, Failure> {
    let path = format!("subscriptions/{}{below}", segment(&args.id));
    call(&args.target, method, &path, &[], body, SHORT)?.success()
}

fn told(args: &OneArgs, body: &Value, text: &str) -> ExitCode {
    if args.json {
        print_json(body);
    } else {
        print(text);
    }
    ExitCode::SUCCESS
}

fn lines(body: &Value) -> String {
    let fields = ["id", "key", "workspace", "status", "url", "description", "created_at", "signing_secrets"];
    let lines = fields.map(|field| format!("{field}: {}\n", cell(body, field)));
    format!("{}events: {}\n", lines.concat(), events(body))
}

fn events(row: &Value) -> String {
    row["events"].as_array().into_iter().flatten().map(plain).collect::<Vec<_>>().join(",")
}
