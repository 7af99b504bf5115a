//! `explain`: why a request got its answer, where an event went, what happened to a delivery.

use std::process::ExitCode;

use clap::Args;

use super::arguments::{CallArgs, is_typed};
use super::deliveries::{destination, dialled};
use super::failure::Failure;
use super::help::examples;
use super::output::{cell, optional, warnings};
use crate::control::api::{self, Explained, Explanation, RuleTrace, StepVerdict};

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(after_help = examples([
    "explain  the newest request or delivery",
    "explain req_01k...  why this answer",
    "explain evt_01k...  where the event went, and where not",
    "explain dlv_01k...  what the receiver answered, and what to try",
]))]
pub(super) struct ExplainArgs {
    /// The id of a request (`X-Emulator-Request-Id`, `request_id`), an event or a delivery; by default the newest request or
    /// delivery.
    id: Option<String>,
    /// Only of this key, or workspace `ws_…`; by default of any key or without one. With an id, `WRS_API_KEY` is ignored.
    #[arg(long, env = "WRS_API_KEY", default_value = "*", hide_env_values = true)]
    key: String,
    #[command(flatten)]
    common: CallArgs,
}

pub(super) fn run(args: ExplainArgs) -> Result<ExitCode, Failure> {
    let call = args.common.call::<api::Explain>().id(args.id.as_deref().unwrap_or("latest"));
    // An id names one thing, whichever key it belongs to; a key in the environment is set for all commands and must not restrict that.
    let key = (args.id.is_none() || is_typed("--key")).then_some(&*args.key);
    call.key(key).show(text)
}

/// The explanation as lines.
pub(super) fn text(explanation: &Explanation) -> String {
    let mut text = format!("{}: {}\n", cell(&explanation.id), cell(&explanation.summary));
    if explanation.kind == Explained::Delivery
        && let Some(delivery) = &explanation.delivery
    {
        let to = destination(&delivery.url, dialled(delivery));
        text.push_str(&format!("  {} {} to {to}\n", cell(&delivery.event_type), delivery.event));
    }
    for step in &explanation.steps {
        let mark = match step.verdict {
            StepVerdict::Passed => '✓',
            StepVerdict::Failed => '✗',
            StepVerdict::Decided => '▸',
            StepVerdict::NotReached => '·',
        };
        text.push_str(&format!("  {mark} {:<16} {}\n", cell(&step.check), cell(&step.detail)));
    }
    let request = explanation.request.iter().map(|request| &request.warnings);
    text.extend(request.chain(explanation.event.iter().map(|event| &event.warnings)).map(|found| warnings(found)));
    for advice in explanation.advice.iter().flatten() {
        text.push_str(&format!("{}\n", cell(&advice.text)));
        text.extend(advice.command.iter().map(|command| format!("  {command}\n")));
    }
    if let Some(rules) = &explanation.rules {
        text.push_str(&format!("rules ({}):\n", optional(explanation.note.as_ref())));
        for RuleTrace { scenario, rule, applied, outcome, .. } in rules {
            let mark = if *applied { '▸' } else { '·' };
            text.push_str(&format!("  {mark} {}, {}: {}\n", cell(scenario), cell(rule), cell(outcome)));
        }
    }
    text
}
