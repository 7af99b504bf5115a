//! `subscriptions list|show|rotate|delete|disable|enable`: what is subscribed, and changes that the emulated API has no call
//! for.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use super::client::{SHORT, call, segment};
use super::failure::Failure;
use super::output::{cell, plain, print, print_json, print_table};
use super::{OneArgs, Target};

/// `subscriptions …`
#[derive(Debug, Subcommand)]
pub(super) enum SubscriptionsCommand {
    /// List subscriptions, oldest first.
    List(ListArgs),
    /// Show one subscription.
    Show(OneArgs),
    /// Give a subscription a new secret and print it; the old one signs on for a while.
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
        let [id, workspace, status, url] = ["id", "workspace", "status", "url"].map(|field| cell(row, field));
        vec![id, workspace, status, events(row), url]
    });
    print_table(&["ID", "WORKSPACE", "STATUS", "EVENTS", "URL"], &rows.collect::<Vec<_>>());
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
    let fields = ["id", "workspace", "status", "url", "description", "created_at", "signing_secrets"];
    let lines = fields.map(|field| format!("{field}: {}\n", cell(body, field)));
    format!("{}events: {}\n", lines.concat(), events(body))
}

fn events(row: &Value) -> String {
    row["events"].as_array().into_iter().flatten().map(plain).collect::<Vec<_>>().join(",")
}
