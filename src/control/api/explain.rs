//! Why a request got its answer, where an event went, what happened to a delivery.

use serde::{Deserialize, Serialize};

use super::{DeliveryWhole, Event, Form, Nothing, RequestWhole, destination, endpoint};
use crate::control::render::{Text, cell, optional, warnings};
pub(crate) use crate::scenario::RuleTrace;

endpoint! {
    /// Why a request was answered as it was, or where an event or delivery went; `latest` is the newest.
    Explain: GET "explain/{id}", Form::Masked, Nothing, Nothing => Explanation;
}

/// An explanation: checks in the order in which they were made.
#[derive(Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, deny_unknown_fields))]
pub(crate) struct Explanation {
    pub(crate) id: String,
    pub(crate) kind: Explained,
    pub(crate) summary: String,
    pub(crate) steps: Vec<Step>,
    /// What to check or do next, most likely first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<Vec<Advice>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivery: Option<DeliveryWhole>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<Event>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<RequestWhole>,
    /// What each active rule does with the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rules: Option<Vec<RuleTrace>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

/// What is explained.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Explained {
    Request,
    Event,
    Delivery,
}

/// One check on the way to an answer, or one attempt.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Step {
    /// What was looked at.
    pub(crate) check: String,
    /// How it went.
    pub(crate) verdict: StepVerdict,
    /// What was found, in words.
    pub(crate) detail: String,
}

impl Step {
    /// One step.
    pub(crate) fn new(check: impl Into<String>, verdict: StepVerdict, detail: impl Into<String>) -> Self {
        Self { check: check.into(), verdict, detail: detail.into() }
    }
}

/// How a step went.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepVerdict {
    /// The check passed, or the attempt was accepted.
    Passed,
    /// The attempt was not accepted.
    Failed,
    /// The check decided the answer.
    Decided,
    /// An earlier check decided, or the attempt is still to come.
    NotReached,
}

/// What to check or do next.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub(crate) struct Advice {
    /// What, and why.
    pub(crate) text: String,
    /// A command for a shell.
    pub(crate) command: Option<String>,
}

impl Text for Explanation {
    fn text(&self) -> String {
        let mut text = format!("{}: {}\n", cell(&self.id), cell(&self.summary));
        if self.kind == Explained::Delivery
            && let Some(delivery) = &self.delivery
        {
            let to = destination(&delivery.url, delivery.dialled());
            text.push_str(&format!("  {} {} to {to}\n", cell(&delivery.event_type), delivery.event));
        }
        for step in &self.steps {
            let mark = match step.verdict {
                StepVerdict::Passed => '✓',
                StepVerdict::Failed => '✗',
                StepVerdict::Decided => '▸',
                StepVerdict::NotReached => '·',
            };
            text.push_str(&format!("  {mark} {:<16} {}\n", cell(&step.check), cell(&step.detail)));
        }
        text.extend(self.request.iter().map(|request| warnings(&request.warnings)));
        text.extend(self.event.iter().map(|event| warnings(&event.warnings)));
        for advice in self.advice.iter().flatten() {
            text.push_str(&format!("{}\n", cell(&advice.text)));
            text.extend(advice.command.iter().map(|command| format!("  {command}\n")));
        }
        if let Some(rules) = &self.rules {
            text.push_str(&format!("rules ({}):\n", optional(self.note.as_ref())));
            for RuleTrace { scenario, rule, applied, outcome, .. } in rules {
                let mark = if *applied { '▸' } else { '·' };
                text.push_str(&format!("  {mark} {}, {}: {}\n", cell(scenario), cell(rule), cell(outcome)));
            }
        }
        text
    }
}
