//! `subscriptions list|create|show|rotate|delete|disable|enable`: shows subscriptions, and changes them in ways that the emulated API
//! does not offer.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::arguments::{CallArgs, OneArgs};
use super::failure::Failure;
use super::help::examples;
use super::output::{cell, optional, table};
use crate::contract::keys::SAMPLE_KEY;
use crate::control::api::{self, Subscription, SubscriptionState, name_of};

/// `subscriptions …`
#[derive(Debug, Subcommand)]
#[command(after_help = examples(["subscriptions", "subscriptions create https://app.example.com/hooks"]))]
pub(super) enum SubscriptionsCommand {
    /// List subscriptions, oldest first.
    #[command(after_help = examples(["subscriptions list", "subscriptions list --key sk_test_a --json"]))]
    List(ListArgs),
    /// Subscribe a URL, as a client of the key would, without a request of its own.
    #[command(after_help = examples([
        "subscriptions create https://app.example.com/hooks",
        "subscriptions create https://app.example.com/hooks --events workflow.completed --key sk_test_a",
    ]))]
    Create(CreateArgs),
    /// Show one subscription.
    #[command(after_help = examples(["subscriptions show sub_01k..."]))]
    Show(OneArgs),
    /// Give a subscription a new secret and print it; the old one keeps signing for a while.
    #[command(after_help = examples([
        "subscriptions rotate sub_01k...",
        "subscriptions rotate sub_01k... --secret whsec_...",
    ]))]
    Rotate(RotateArgs),
    /// Delete a subscription.
    #[command(after_help = examples(["subscriptions delete sub_01k..."]))]
    Delete(OneArgs),
    /// Stop deliveries to a subscription, as a 410 would.
    #[command(after_help = examples(["subscriptions disable sub_01k..."]))]
    Disable(OneArgs),
    /// Resume deliveries to a subscription.
    #[command(after_help = examples(["subscriptions enable sub_01k..."]))]
    Enable(OneArgs),
}

/// Arguments of `subscriptions list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    common: CallArgs,
    /// Only subscriptions of this key, or workspace `ws_…`; by default those of all keys.
    #[arg(long, env = "WRS_API_KEY", default_value = "*", hide_env_values = true)]
    key: String,
}

/// Arguments of `subscriptions create`.
#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// Where events go; the rules are those of a client's subscribe.
    #[arg(value_name = "URL")]
    hook: String,
    /// Event types, joined by commas; by default every type that can be subscribed to.
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
    common: CallArgs,
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
        SubscriptionsCommand::Create(args) => create(args),
        SubscriptionsCommand::Show(args) => args.call::<api::ShowSubscription>().show(lines),
        SubscriptionsCommand::Rotate(RotateArgs { one, secret }) => {
            let call = one.call::<api::RotateSecret>().body(&api::Rotate { secret, ..Default::default() });
            call.show(|api::Rotated { secret, old_secret_signs_for: grace, .. }| {
                format!("{}\nthe old secret keeps signing for {}\n", cell(secret), cell(grace))
            })
        }
        SubscriptionsCommand::Delete(args) => {
            args.call::<api::DeleteSubscription>().show(|api::Deleted { deleted }| format!("{deleted} deleted\n"))
        }
        SubscriptionsCommand::Disable(args) => put_in(&args, SubscriptionState::Disabled),
        SubscriptionsCommand::Enable(args) => put_in(&args, SubscriptionState::Active),
    }
}

fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let columns = |row: &Subscription| {
        [cell(&row.id), cell(&row.key), name_of(row.status), cell(row.events.join(",")), cell(&row.url)]
    };
    args.common
        .call::<api::ListSubscriptions>()
        .key(&*args.key)
        .show_list(|found| table(["ID", "KEY", "STATUS", "EVENTS", "URL"], found.data.iter().map(columns)))
}

fn create(args: CreateArgs) -> Result<ExitCode, Failure> {
    let body = api::NewSubscription {
        url: args.hook,
        events: Some(args.events).filter(|events| !events.is_empty()),
        secret: args.secret,
        description: args.description,
        ..Default::default()
    };
    let call = args.common.call::<api::CreateSubscription>().key(&*args.key).body(&body);
    call.show(|api::Created { subscription, secret, created }| {
        let did = if *created { "created" } else { "updated" };
        let Subscription { id, events, url, .. } = subscription;
        let secret = secret.as_ref().map_or_else(String::new, |secret| format!("secret: {secret}\n"));
        format!("{id} {did}: {} to {}\n{secret}", cell(events.join(",")), cell(url))
    })
}

fn put_in(args: &OneArgs, status: SubscriptionState) -> Result<ExitCode, Failure> {
    let change = api::SubscriptionChange { status: Some(status), ..Default::default() };
    let call = args.call::<api::ChangeSubscription>().body(&change);
    call.show(|Subscription { id, status, .. }| format!("{id} is {}\n", name_of(status)))
}

fn lines(subscription: &Subscription) -> String {
    let Subscription { id, url, events, description, status, created_at, signing_secrets, workspace, key } =
        subscription;
    let (status, description, events) = (name_of(status), optional(description.as_ref()), cell(events.join(",")));
    format!(
        "id: {id}\nkey: {}\nworkspace: {workspace}\nstatus: {status}\nurl: {}\ndescription: {description}\n\
         created_at: {created_at}\nsigning_secrets: {signing_secrets}\nevents: {events}\n",
        cell(key),
        cell(url)
    )
}
