//! `GET explain/{id}`: why a request got its answer, where an event went, what happened to a delivery.
//!
//! An explanation of a request lists the checks in their order, one of which decided the answer. `diagnosis` explains deliveries.

use std::cmp::Ordering;
use std::sync::Arc;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call::{Call, ControlCall, Tag};
use super::command::CallCommand;
use super::context::{Context, KeyScope};
use super::diagnosis::{Diagnosis, ExplainedStep, StepVerdict, damage_step};
use super::fields::KeyFilter;
use super::refusal::AdviceTime;
use super::render::{Text, cell, optional, warnings};
use super::{Control, ControlError, deliveries, events, refusal, requests, story};
use crate::advice::{Advice, Audience, Hint};
use crate::contract::routes::Operation;
use crate::redact::Redactor;
use crate::scenario::RuleTrace;
use crate::state::journal::record::{DeliveryWhole, Event, RequestWhole};
use crate::state::journal::{DecidingRule, Entry, Reason, RequestRecord};
use crate::state::workspace::{EventRecord, SkipReason, SkippedSubscription};
use crate::util::wording::quoted;

/// Explain an answer, an event or a delivery.
///
/// Step by step, with advice on what to check next. The id is that of a request (`req_…`), an event (`evt_…`) or a delivery (`dlv_…`);
/// `latest` is the newest request or delivery. Of a request, the rule that decided, why the rules before it did not apply, and
/// which rules after it match too, as recorded when it was answered.
#[derive(Args, Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) path: ExplainPath,
    #[command(flatten)]
    pub(crate) query: ExplainQuery,
}

#[derive(Args, Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ExplainPath {
    /// The id of a request (`X-Emulator-Request-Id`, `request_id`), an event or a delivery; by default the newest request or delivery.
    #[arg(default_value = NEWEST)]
    #[schemars(length(min = 1), extend("examples" = [NEWEST]))]
    pub(crate) id: String,
}

#[derive(Args, Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct ExplainQuery {
    #[command(flatten)]
    #[serde(default)]
    pub(crate) key: KeyFilter,
}

impl ControlCall for Explain {
    type Answer = Explanation;

    fn call() -> Call {
        Call::at_once::<Self>(Tag::RESULTS, "GET explain/{id}", explain)
    }

    fn commands() -> Vec<CallCommand> {
        let examples = &[
            "explain  the newest request or delivery",
            "explain req_01k...  why this answer",
            "explain evt_01k...  where the event went, and where not",
            "explain dlv_01k...  what the receiver answered, and what to try",
            "explain req_01k... --from report.html  of a saved run",
            "explain --from red.html --since green.html  what each test did differently",
        ];
        let command = CallCommand::new("explain", examples, |request: Self| request.sent());
        vec![CallCommand { reads_runs: true, ..command }.after("forwards")]
    }
}

/// An explanation: checks in the order in which they were made.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub(crate) struct Explanation {
    pub(crate) id: String,
    pub(crate) kind: Explained,
    pub(crate) summary: String,
    pub(crate) steps: Vec<ExplainedStep>,
    /// The next checks or steps, the likeliest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) advice: Option<Vec<Hint>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivery: Option<DeliveryWhole>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<Event>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<RequestWhole>,
    /// The effect of each active rule on the request; after the deciding one, those that match as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rules: Option<Vec<RuleTrace>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

/// The explained object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Explained {
    #[default]
    Request,
    Event,
    Delivery,
}

impl Text for Explanation {
    fn text(&self, reader: &Audience) -> String {
        let mut text = format!("{}: {}\n", cell(&self.id), cell(&self.summary));
        if self.kind == Explained::Delivery
            && let Some(delivery) = &self.delivery
        {
            let to = story::destination(&delivery.url, delivery.dialled());
            text.push_str(&format!("  {} {} to {}\n", cell(&delivery.event_type), cell(&delivery.event), cell(to)));
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
        for hint in self.advice.iter().flatten() {
            text.push_str(&format!("{}\n", cell(&hint.text)));
            text.extend(hint.advice.iter().map(|advice| format!("  {}\n", cell(advice.worded(reader)))));
        }
        if let Some(rules) = &self.rules {
            text.push_str(&format!("rules ({}):\n", optional(self.note.as_ref())));
            for RuleTrace { scenario, rule, applied, outcome, .. } in rules {
                let mark = if *applied { '▸' } else { '·' };
                text.push_str(&format!("  {mark} {}, {}: {}\n", cell(scenario), cell(rule), cell(outcome)));
            }
        } else if let Some(note) = &self.note {
            text.push_str(&format!("{}\n", cell(note)));
        }
        text
    }
}

/// The id that stands for the newest request or delivery.
pub(crate) const NEWEST: &str = "latest";

fn explain(Explain { path, query }: Explain, cx: &Context) -> Result<Explanation, ControlError> {
    let scope = query.key.scope(&cx.engine)?;
    let newest = (path.id == NEWEST).then(|| newest(cx, &scope)).transpose()?;
    let id = newest.as_deref().unwrap_or(&path.id);
    let (registry, redactor) = (&cx.engine.registry, cx.redactor());
    match id.split_once('_').map(|(prefix, _)| prefix) {
        Some("req") => {
            let request = requests::find(cx, &scope, id)?;
            let explained = explain_request(&cx.control, &request, AdviceTime::Now, redactor);
            Ok(Explanation { request: Some(requests::whole(&request, redactor)), ..explained })
        }
        Some("evt") => {
            let found = cx.engine.journal.search(None, 1, |_, entry| match entry {
                Entry::Event(event) if event.id == id && scope.covers(Some(&event.workspace)) => {
                    Some(Arc::clone(event))
                }
                _ => None,
            });
            let Some(record) = found.into_iter().next() else { return Err(unknown(id, scope.of_this_key())) };
            Ok(Explanation {
                id: id.to_owned(),
                kind: Explained::Event,
                summary: story::event_summary(&record),
                steps: event_steps(&record),
                advice: enabling(&record),
                event: Some(events::to_view(&record, registry, redactor)),
                ..Explanation::default()
            })
        }
        Some("dlv") => {
            let delivery = deliveries::find(&cx.control, &scope, id)?;
            let diagnosis = Diagnosis::new(&cx.control, &delivery, redactor);
            Ok(Explanation {
                id: id.to_owned(),
                kind: Explained::Delivery,
                summary: story::delivery_summary(&delivery, redactor),
                steps: diagnosis.steps(),
                advice: Some(diagnosis.advice()),
                delivery: Some(deliveries::whole(&delivery, registry, redactor)),
                ..Explanation::default()
            })
        }
        _ => Err(unknown(id, "")),
    }
}

/// Why a request got its answer, without the request itself.
pub(super) fn explain_request(
    control: &Control,
    request: &RequestRecord,
    read_at: AdviceTime,
    redactor: Redactor<'_>,
) -> Explanation {
    let steps = request_steps(request, redactor);
    let decided = steps.iter().find(|step| step.verdict == StepVerdict::Decided);
    let why = decided.map_or("all checks passed", |step| &step.detail);
    let beside =
        story::rule_beside_api(request).map_or_else(String::new, |rule| format!("; {}", story::rule_text(rule)));
    let summary = format!("{} because {why}{beside}", story::answer_text(request));
    let (rules, note) = rules_of(control, request);
    let advice = refusal::advice(control, request, read_at, redactor);
    Explanation {
        id: request.transcript.id().to_owned(),
        summary,
        steps,
        advice,
        rules,
        note,
        ..Explanation::default()
    }
}

/// The id of the newest request or delivery.
fn newest(cx: &Context, scope: &KeyScope) -> Result<String, ControlError> {
    let found = cx.engine.journal.search(None, 1, |_, entry| {
        let id = match entry {
            _ if !scope.covers_entry(entry, &cx.profile.keys) => return None,
            Entry::Request(request) => return Some(request.transcript.id().to_owned()),
            Entry::Attempt(attempt) => &attempt.delivery.id,
            Entry::Event(event) => &event.deliveries.first()?.id,
            Entry::Notice(_) | Entry::Cleared => return None,
        };
        cx.engine.deliveries.get(id).map(|_| id.clone())
    });
    let none = || ControlError::not_found("there is no request and no delivery to explain yet");
    found.into_iter().next().ok_or_else(none)
}

fn unknown(id: &str, owner: &str) -> ControlError {
    let message = format!(
        "unknown id `{}`{owner}; expected the id of a request (req_…), an event (evt_…) or a delivery (dlv_…)",
        quoted(id)
    );
    ControlError::not_found(message)
}

/// The checks in the order of the contract's implementation, one of which decided: those before it passed, and those after it were not
/// reached.
fn request_steps(request: &RequestRecord, redactor: Redactor<'_>) -> Vec<ExplainedStep> {
    let (method, target) = request.transcript.request_line();
    let path = target.split('?').next().unwrap_or_default();
    let is_stub = request.operation == Some(Operation::Stub);
    let needs_key = request.operation.is_some_and(|operation| operation != Operation::Hello) && !is_stub;
    let key = match request.checked_key() {
        Some(key) => format!("the key {} is valid", redactor.key(key)),
        None if needs_key => "no key was looked at".to_owned(),
        None => "the operation needs no key".to_owned(),
    };
    let quota = match (&request.reason, &request.quota) {
        (Reason::Scripted, None) => "the answer of the scenario is not counted".to_owned(),
        (_, None) => "the operation is not counted".to_owned(),
        // A quota that refuses would have decided, so a scenario changed it afterwards.
        (_, Some(quota)) if !quota.allowed => format!(
            "the request was let through; the scenario then shows the quota as used up: 0 of {} requests left",
            quota.limit
        ),
        (_, Some(quota)) => story::quota_text(quota),
    };
    let scripted = request.scripted.as_ref();
    let scripted = scripted.map_or_else(|| "no scenario rule applied".to_owned(), story::rule_text);
    let (decided_by, why) = story::decision(request);
    let operation = request.operation.map_or("-", |operation| operation.name());
    let route = if is_stub {
        format!("{method} {path} is a path without an endpoint, which scenarios answer")
    } else {
        format!("{method} {path} is the operation {operation}")
    };
    let checks = [
        ("http", "a proper HTTP/1.1 request".to_owned()),
        ("route", route),
        ("authentication", key),
        ("quota", quota),
        ("content", "the content could be read".to_owned()),
        ("scenario", scripted),
        ("operation", String::new()),
    ];
    let decided = checks.iter().position(|(check, _)| *check == decided_by).unwrap_or(checks.len());
    let step = |(at, (check, passed)): (usize, (&str, String))| match at.cmp(&decided) {
        Ordering::Less => ExplainedStep::new(check, StepVerdict::Passed, passed),
        Ordering::Equal => ExplainedStep::new(check, StepVerdict::Decided, why.as_str()),
        Ordering::Greater => ExplainedStep::new(check, StepVerdict::NotReached, "an earlier check decided"),
    };
    checks.into_iter().enumerate().map(step).collect()
}

/// The note on the rules.
const RULES_NOTE: &str = "as they were when the request was answered";

/// The effect of each active rule on a request, with the one that decided in its place, and a note on it; nothing if no rule was active,
/// or the request was refused before the rules.
fn rules_of(control: &Control, request: &RequestRecord) -> (Option<Vec<RuleTrace>>, Option<String>) {
    let Some(tried) = &request.tried_rules else { return (None, None) };
    let decided = request.scripted.as_ref().map(|DecidingRule { scenario, rule, line, action, .. }| RuleTrace {
        scenario: Arc::clone(scenario),
        rule: Arc::clone(rule),
        line: *line,
        applied: true,
        outcome: Arc::clone(action),
    });
    let mut note = RULES_NOTE.to_owned();
    note.extend(tried.unlisted().map(|unlisted| format!("; not listed: {unlisted}")));
    let present = control.engine.library.load().number;
    if present != request.generation {
        note.push_str("; scenarios or settings have changed since");
    }
    (Some(tried.listed.iter().cloned().chain(decided).chain(tried.later.iter().cloned()).collect()), Some(note))
}

fn event_steps(event: &EventRecord) -> Vec<ExplainedStep> {
    let went = event.deliveries.iter().map(|delivery| {
        let detail = format!("delivery {} to {}", delivery.id, delivery.url);
        ExplainedStep::new(delivery.subscription.clone(), StepVerdict::Passed, detail)
    });
    let skipped = event.skipped.iter().map(|skipped| {
        let detail = match skipped.reason {
            SkipReason::TypeNotSubscribed => format!("{} is not subscribed to {}", skipped.url, event.event_type),
            SkipReason::Disabled => {
                format!("{} is disabled, by a 410 of its receiver or by a call", skipped.url)
            }
            SkipReason::NotNamed => "another subscription was named".to_owned(),
        };
        ExplainedStep::new(skipped.subscription.clone(), StepVerdict::NotReached, detail)
    });
    went.chain(skipped).chain(damage_step(event)).collect()
}

/// How to make each disabled subscription active again.
fn enabling(event: &EventRecord) -> Option<Vec<Hint>> {
    let disabled = event.skipped.iter().filter(|skipped| skipped.reason == SkipReason::Disabled);
    let hint = |skipped: &SkippedSubscription| Hint {
        text: format!("to make {} active again:", skipped.subscription),
        advice: Some(Advice::EnableSubscription { id: skipped.subscription.clone() }),
    };
    let hints: Vec<Hint> = disabled.map(hint).collect();
    (!hints.is_empty()).then_some(hints)
}
