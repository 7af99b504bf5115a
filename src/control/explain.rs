//! `GET explain/{id}`: why a request got its answer, where an event went, what happened to a delivery.
//!
//! An explanation of a request lists the checks in their order, one of which decided the answer. `diagnosis` explains deliveries.

use std::cmp::Ordering;
use std::sync::Arc;

use clap::Args;
use hyper::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call::{Context, Scope};
use super::deliveries::destination;
use super::diagnosis::{Advice, Diagnosis, Step, StepVerdict, damage_step, delivery_summary};
use super::endpoint::{Call, Command, Endpoint};
use super::fields::AnyKey;
use super::render::{Text, cell, optional, warnings};
use super::{Control, ControlError, deliveries, events, requests};
use crate::contract::routes::Operation;
use crate::redact::Redactor;
use crate::scenario::rule_counters::LimitTrace;
use crate::scenario::{DecidedBy, RequestView, RuleTrace};
use crate::state::journal::record::{DeliveryWhole, Event, RequestWhole};
use crate::state::journal::{Entry, KEPT_BODY, Reason, RequestRecord};
use crate::state::quota::QuotaCheck;
use crate::state::workspace::{EventRecord, SkipReason};
use crate::util::duration::duration_text;

/// Explain an answer, an event or a delivery.
///
/// Step by step, with advice on what to check next. The id is that of a request (`req_…`), an event (`evt_…`) or a delivery (`dlv_…`);
/// `latest` is the newest request or delivery. Of a request, the rule that decided, as recorded, and why the rules before it did not
/// apply, by the settings and scenarios in force when it was answered; what counters were then is not recorded, so a limit that depends
/// on them is named as a possible reason.
#[derive(Args, Debug, Deserialize, JsonSchema, Serialize)]
pub(crate) struct Explain {
    /// The id of a request (`X-Emulator-Request-Id`, `request_id`), an event or a delivery; by default the newest request or delivery.
    #[arg(default_value = NEWEST)]
    pub(crate) id: String,
    #[command(flatten)]
    #[serde(default)]
    pub(crate) key: AnyKey,
}

impl Endpoint for Explain {
    type Answer = Explanation;
    const CALL: Call<Self> = Call::at_once("GET explain/{id}", explain);

    fn commands() -> Vec<Command> {
        vec![Command::of::<Self>(
            "explain",
            &[
                "explain  the newest request or delivery",
                "explain req_01k...  why this answer",
                "explain evt_01k...  where the event went, and where not",
                "explain dlv_01k...  what the receiver answered, and what to try",
            ],
        )]
    }
}

/// An explanation: checks in the order in which they were made.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
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
    /// What each active rule did with the request, up to the one that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rules: Option<Vec<RuleTrace>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

/// What is explained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Explained {
    #[default]
    Request,
    Event,
    Delivery,
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
        } else if let Some(note) = &self.note {
            text.push_str(&format!("{}\n", cell(note)));
        }
        text
    }
}

const NEWEST: &str = "latest";

fn explain(request: Explain, cx: &Context) -> Result<Explanation, ControlError> {
    let scope = request.key.scope(cx)?;
    let newest = (request.id == NEWEST).then(|| newest(cx, &scope)).transpose()?;
    let id = newest.as_deref().unwrap_or(&request.id);
    let (registry, redactor) = (&cx.registry, cx.redactor());
    match id.split_once('_').map(|(prefix, _)| prefix) {
        Some("req") => {
            let request = requests::find(cx, &scope, id)?;
            let explained = of_request(cx, &request, redactor);
            Ok(Explanation { request: Some(requests::whole(&request, redactor)), ..explained })
        }
        Some("evt") => {
            let found = cx.journal.search(None, 1, |_, entry| match entry {
                Entry::Event(event) if event.id == id && scope.covers(Some(&event.workspace)) => {
                    Some(Arc::clone(event))
                }
                _ => None,
            });
            let Some(record) = found.into_iter().next() else { return Err(unknown(id, scope.of_this_key())) };
            Ok(Explanation {
                id: id.to_owned(),
                kind: Explained::Event,
                summary: event_summary(&record),
                steps: event_steps(&record),
                event: Some(events::shown(&record, registry, redactor)),
                ..Explanation::default()
            })
        }
        Some("dlv") => {
            let delivery = deliveries::find(cx, &scope, id)?;
            let diagnosis = Diagnosis::new(cx, &delivery, redactor);
            Ok(Explanation {
                id: id.to_owned(),
                kind: Explained::Delivery,
                summary: delivery_summary(&delivery, redactor),
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
pub(super) fn of_request(control: &Control, request: &RequestRecord, redactor: Redactor<'_>) -> Explanation {
    let steps = request_steps(request, redactor);
    let decided = steps.iter().find(|step| step.verdict == StepVerdict::Decided);
    let why = decided.map_or("all checks passed", |step| &step.detail);
    let summary = format!("{} because {why}", status_text(request));
    let (rules, note) = rules_of(control, request);
    Explanation { id: request.transcript.id().to_owned(), summary, steps, rules, note, ..Explanation::default() }
}

/// The id of the newest request or delivery.
fn newest(cx: &Context, scope: &Scope) -> Result<String, ControlError> {
    let found = cx.journal.search(None, 1, |_, entry| {
        let id = match entry {
            _ if !scope.covers_entry(entry, &cx.profile.keys) => return None,
            Entry::Request(request) => return Some(request.transcript.id().to_owned()),
            Entry::Attempt(attempt) => &attempt.delivery.id,
            Entry::Event(event) => &event.deliveries.first()?.id,
            Entry::Notice(_) | Entry::Gone => return None,
        };
        cx.deliveries.get(id).map(|_| id.clone())
    });
    let none = || ControlError::not_found("there is no request and no delivery to explain yet");
    found.into_iter().next().ok_or_else(none)
}

fn unknown(id: &str, owner: &str) -> ControlError {
    let message = format!(
        "unknown id `{}`{owner}; expected the id of a request (req_…), an event (evt_…) or a delivery (dlv_…)",
        id.escape_debug()
    );
    ControlError::not_found(message)
}

fn status_text(request: &RequestRecord) -> String {
    let status = request.status;
    let words = hyper::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    match (request.broken, words) {
        (Some("reset"), _) => "connection reset".to_owned(),
        (Some("empty"), _) => "connection closed without an answer".to_owned(),
        (Some(broken), _) => format!("{broken} instead of an answer"),
        (None, Some(words)) => format!("{status} {words}"),
        (None, None) => status.to_string(),
    }
}

/// Why a request matched no endpoint; `None` if it matched one.
pub(super) fn no_endpoint(request: &RequestRecord) -> Option<String> {
    let (method, target) = request.transcript.request_line();
    let path = target.split('?').next().unwrap_or_default();
    match &request.reason {
        Reason::Refused(_, text) if request.operation.is_none() => Some(text.clone()),
        Reason::NotFound(message) => Some(message.to_string()),
        Reason::Announced(entry) => Some(format!("`{entry}` is announced in the contract but not available yet")),
        Reason::MethodNotAllowed(allow) => Some(format!("`{path}` accepts {allow}, not {method}")),
        _ => None,
    }
}

/// The checks in the order of the contract's implementation, one of which decided: those before it passed, and those after it were not
/// reached.
fn request_steps(request: &RequestRecord, redactor: Redactor<'_>) -> Vec<Step> {
    let (method, target) = request.transcript.request_line();
    let path = target.split('?').next().unwrap_or_default();
    let needs_key =
        request.operation.is_some_and(|operation| ![Operation::Hello, Operation::OauthToken].contains(&operation));
    let key = match request.checked_key() {
        Some(key) => format!("the key {} is valid", redactor.key(key)),
        None if needs_key => "no key was looked at".to_owned(),
        None => "the operation needs no key".to_owned(),
    };
    let quota = match (&request.reason, &request.quota) {
        (Reason::Scripted, None) => "the scripted answer is not counted".to_owned(),
        (_, None) => "the operation is not counted".to_owned(),
        // A quota that refuses would have decided, so a scenario changed it afterwards.
        (_, Some(quota)) if !quota.allowed => format!(
            "the request was let through; the scenario then shows the quota as used up: 0 of {} requests left",
            quota.limit
        ),
        (_, Some(quota)) => quota_text(quota),
    };
    let scripted = request.scripted.as_ref().map(|scripted| {
        format!("scenario `{}`, {}, turn {}: {}", scripted.scenario, scripted.rule, scripted.turn, scripted.action)
    });
    let scripted = scripted.unwrap_or_else(|| "no scenario rule applied".to_owned());
    let (decided_by, why) = match &request.reason {
        Reason::Refused(_, text) if request.operation.is_none() => ("http", text.clone()),
        Reason::NotFound(_) | Reason::Announced(_) | Reason::MethodNotAllowed(_) => {
            ("route", no_endpoint(request).unwrap_or_default())
        }
        Reason::Unauthorized { advice, .. } => ("authentication", advice.to_string()),
        Reason::RateLimited => {
            let used = request.quota.as_ref().map(quota_text).unwrap_or_default();
            ("quota", format!("the quota is used up: {used}"))
        }
        Reason::Refused(_, text) => ("content", text.clone()),
        Reason::Scripted => ("scenario", scripted.clone()),
        Reason::Invalid(problems) => {
            let texts = problems.iter().map(|problem| format!("`{}` {}", problem.field, problem.reason));
            ("operation", texts.collect::<Vec<_>>().join("; "))
        }
        Reason::Answered => ("operation", "every check passed".to_owned()),
        Reason::Subscribed { id, created, warnings } => {
            let made = if *created { "was created" } else { "had the same URL, so it was updated" };
            let warned: String = warnings.iter().map(|warning| format!("; warning: {warning}")).collect();
            ("operation", format!("every check passed and {id} {made}{warned}"))
        }
        Reason::Panicked(text) => ("operation", format!("the emulator failed: {text}")),
    };
    let operation = request.operation.map_or("-", |operation| operation.name());
    let checks = [
        ("http", "a proper HTTP/1.1 request".to_owned()),
        ("route", format!("{method} {path} is the operation {operation}")),
        ("authentication", key),
        ("quota", quota),
        ("content", "the content could be read".to_owned()),
        ("scenario", scripted),
        ("operation", String::new()),
    ];
    let decided = checks.iter().position(|(check, _)| *check == decided_by).unwrap_or(checks.len());
    let step = |(at, (check, passed)): (usize, (&str, String))| match at.cmp(&decided) {
        Ordering::Less => Step::new(check, StepVerdict::Passed, passed),
        Ordering::Equal => Step::new(check, StepVerdict::Decided, why.as_str()),
        Ordering::Greater => Step::new(check, StepVerdict::NotReached, "an earlier check decided"),
    };
    checks.into_iter().enumerate().map(step).collect()
}

fn quota_text(quota: &QuotaCheck) -> String {
    let used = quota.limit - quota.remaining.min(quota.limit);
    let mut text = format!("{used} of {} requests used in a window of {}", quota.limit, duration_text(quota.window));
    if !quota.allowed {
        text.push_str(&format!("; the next is allowed in {}", duration_text(quota.wait)));
    }
    text
}

/// The note on a trace.
const RULES_NOTE: &str = "the rules as they were when the request was answered, up to the one that decided; conditions are compared \
     with the first 64 KiB of its body";
/// The note instead of a trace.
const RULES_GONE: &str = "the rules that did not apply are not shown: the scenarios and settings that answered this request have \
     been replaced too often since to be kept";

/// What each active rule did with a request, up to the one that decided, and a note on it; nothing if no rule was active, or the
/// request was refused before the rules.
///
/// Which rule decided is in the record. Why the others did not is worked out here, from the scenarios and settings that answered, so
/// that traces add almost nothing to the cost of answering a request.
fn rules_of(control: &Control, request: &RequestRecord) -> (Option<Vec<RuleTrace>>, Option<String>) {
    let is_early = matches!(request.reason, Reason::Unauthorized { .. } | Reason::RateLimited | Reason::Refused(..));
    if request.operation.is_none() || is_early {
        return (None, None);
    }
    let Some(config) = request.config.upgrade() else { return (None, Some(RULES_GONE.to_owned())) };
    let (method, target) = request.transcript.request_line();
    let Ok(method) = Method::from_bytes(method.as_bytes()) else { return (None, None) };
    if config.rules.is_empty() {
        return (None, None);
    }
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let headers = request.transcript.header_map();
    let view = RequestView {
        operation: request.operation,
        method: &method,
        path,
        query,
        headers: &headers,
        body: request.transcript.body(),
        key: request.checked_key(),
        keys: &config.profile.keys,
    };
    let workspace = request.workspace.clone().unwrap_or_else(|| control.registry.anonymous());
    let started_at = workspace.lock().started_at(config.activation).unwrap_or(config.activated_at);
    let decided = request.scripted.as_ref();
    let decided = decided.map(|by| DecidedBy { scenario: &by.scenario, rule: &by.rule, action: &by.action });
    // Of a body that was cut, other rules may match.
    let limits = if view.body.len() < KEPT_BODY { request.limits } else { LimitTrace::default() };
    let traces = config.rules.trace(&view, decided, request.instant.since(started_at), limits);
    let present = control.library.load().number;
    let since = if present == request.generation {
        String::new()
    } else {
        format!("; scenarios or settings have changed since, from generation {} to {present}", request.generation)
    };
    (Some(traces), Some(format!("{RULES_NOTE}{since}")))
}

fn event_summary(event: &EventRecord) -> String {
    match (event.deliveries.len(), event.skipped.len()) {
        (0, 0) => "no receiver got it: there was no subscription".to_owned(),
        (0, skipped) => format!("no receiver got it: {skipped} subscriptions did not match"),
        (deliveries, skipped) => format!("it went to {deliveries} of {} subscriptions", deliveries + skipped),
    }
}

fn event_steps(event: &EventRecord) -> Vec<Step> {
    let went = event.deliveries.iter().map(|delivery| {
        let detail = format!("delivery {} to {}", delivery.id, delivery.url);
        Step::new(delivery.subscription.clone(), StepVerdict::Passed, detail)
    });
    let skipped = event.skipped.iter().map(|skipped| {
        let detail = match skipped.reason {
            SkipReason::TypeNotSubscribed => format!("{} is not subscribed to {}", skipped.url, event.event_type),
            SkipReason::Disabled => {
                format!(
                    "{} is disabled, by a 410 of its receiver or by a call; `wrs-emulator subscriptions enable {}` makes it active again",
                    skipped.url, skipped.subscription
                )
            }
            SkipReason::NotNamed => "another subscription was named".to_owned(),
        };
        Step::new(skipped.subscription.clone(), StepVerdict::NotReached, detail)
    });
    went.chain(skipped).chain(damage_step(event)).collect()
}
