//! `deliveries redeliver`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;

use super::arguments::OneArgs;
use super::failure::Failure;
use super::help::examples;
use super::output::show;
use crate::control::api::{self, DeliveryStatus, DeliveryWhole, DurationInput, Forgery};
use crate::control::render::Text as _;

/// `deliveries …`, besides those in `calls`.
#[derive(Debug, Subcommand)]
#[command(after_help = examples(["deliveries --status exhausted", "deliveries wait --count 2"]))]
pub(super) enum DeliveriesCommand {
    /// Send the same event to the same subscription again, with a new signature, or forged as before; exit 1 if it does not arrive.
    #[command(display_order = 100, after_help = examples(["deliveries redeliver dlv_01k..."]))]
    Redeliver(OneArgs),
}

pub(super) fn run(command: DeliveriesCommand) -> Result<ExitCode, Failure> {
    let DeliveriesCommand::Redeliver(args) = command;
    let wait = api::Wait { wait: Some(DurationInput("30s".to_owned())) };
    let call = args.common.call::<api::Redeliver>().id(&args.id).query(&wait).limit(Duration::from_mins(1));
    let answer = call.send()?.body;
    show(args.common.json, &answer.delivery, || answer.text());
    // A forged delivery is forged again, and succeeds if it is refused.
    let succeeded = |delivery: &DeliveryWhole| match delivery.forgery {
        Some(forgery) => forgery == Forgery::Refused,
        None => delivery.status == DeliveryStatus::Delivered,
    };
    Ok(if answer.delivery.as_ref().is_some_and(succeeded) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
