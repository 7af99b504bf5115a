//! `explain --from RUN`: the explanation of a record in a saved run, when no emulator is left to ask. What a running emulator explains,
//! `control::explain` does; two runs are compared by `since`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::failure::{Failure, FailureCode};
use super::output::{cell, show};
use super::run::workspace_of;
use super::verdict::reader_of_file;
use crate::advice::Audience;
use crate::control::api::{
    Attempt, AttemptResult, CallCommand, Cause, DeliveryWhole, Event, ExecFacts, Explained, Explanation, NEWEST,
    RecordedRun, RunRecord, RunRequest, Standing, WorkspaceId,
};
use crate::control::render::Text as _;
use crate::control::story;
use crate::control::{ExplainedStep, StepVerdict};
use crate::util::wording::quoted;

/// The file that this option names, if the command can read saved runs.
pub(super) fn file<'a>(option: &str, command: &CallCommand, matches: &'a ArgMatches) -> Option<&'a Path> {
    command.reads_runs.then(|| matches.get_one::<PathBuf>(option)).flatten().map(PathBuf::as_path)
}

/// Prints the explanation of a record in a file.
pub(super) fn saved(file: &Path, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let run = RecordedRun::read(file)?;
    let reader = reader_of_file(file);
    let (shown, omitted) = (file.display(), run.omitted.records());
    let text = |name| matches.get_one::<String>(name).map(String::as_str);
    let key = text("key").filter(|key| *key != "*");
    let mut id = text("id").unwrap_or(NEWEST);
    let mut cause = None;
    if matches.value_source("id") != Some(ValueSource::CommandLine) {
        let is_of = |cause: &&Cause| {
            key.is_none_or(|key| cause.keys.iter().chain(cause.tests.iter().map(|test| &test.key)).any(|of| of == key))
        };
        // Without an id, explain why the run failed, or else its first warning.
        let has_failed = run.exec.as_ref().is_none_or(ExecFacts::has_failed);
        let is_told = |cause: &&Cause| has_failed || cause.standing == Standing::Warning;
        cause = run.verification.causes.iter().filter(is_told).find(is_of);
        match cause.map(|cause| (cause, cause.records.first())) {
            Some((_, Some(record))) => id = record,
            Some((cause, None)) if !cause.tests.is_empty() => {
                return Ok(show(matches.get_flag("json"), cause, || told(cause, &reader)));
            }
            _ => cause = None,
        }
    }
    let found = if id == NEWEST {
        let of = key.map(|key| workspace_of(key, &run)).transpose()?;
        newest(of.as_ref(), run.requests, run.deliveries)
    } else {
        find(id, run.requests, run.deliveries, run.events)
    };
    let explanation = found.ok_or_else(|| {
        let failure = match id {
            NEWEST => {
                Failure::new(1, FailureCode::NotFound, format!("`{shown}` has no request and no delivery to explain"))
            }
            id => Failure::new(1, FailureCode::NotFound, format!("`{shown}` has no record `{}`", quoted(id))),
        };
        let hint = format!("{omitted} older records are not in it; `--key` of `run save` leaves more room for one key");
        if omitted > 0 { failure.with_hint(hint) } else { failure }
    })?;
    Ok(show(matches.get_flag("json"), &explanation, || {
        cause.map(|cause| told(cause, &reader)).unwrap_or_default() + &explanation.text(&reader)
    }))
}

/// A cause as lines.
fn told(cause: &Cause, reader: &Audience) -> String {
    let details: String =
        cause.details(reader, None, &HashMap::new()).iter().map(|line| format!("    {line}\n")).collect();
    format!("{}\n{details}", cell(&cause.sentence))
}

fn find(
    id: &str,
    requests: Vec<RunRequest>,
    deliveries: Vec<RunRecord<DeliveryWhole>>,
    events: Vec<RunRecord<Event>>,
) -> Option<Explanation> {
    let request = || requests.into_iter().find(|it| it.request.row.id.0 == id).map(request_explanation);
    let delivery = || deliveries.into_iter().find(|it| it.record.id.0 == id).map(delivery_explanation);
    let event = || events.into_iter().find(|it| it.record.id.0 == id).map(event_explanation);
    request().or_else(delivery).or_else(event)
}

/// The newest request or delivery, of one workspace or of all.
fn newest(
    of: Option<&WorkspaceId>,
    requests: Vec<RunRequest>,
    deliveries: Vec<RunRecord<DeliveryWhole>>,
) -> Option<Explanation> {
    let is_of = |workspace: &Option<WorkspaceId>| of.is_none() || workspace.as_ref() == of;
    let request = requests.into_iter().find(|it| is_of(&it.request.row.workspace));
    let at = |delivery: &RunRecord<DeliveryWhole>| {
        let last = delivery.record.attempts.0.last().map_or(&delivery.record.created_at, |attempt| &attempt.at);
        last.0.clone()
    };
    // Times of one form are in the order of their texts.
    let deliveries = deliveries.into_iter().filter(|it| is_of(&it.record.workspace));
    let delivery = deliveries.max_by(|one, other| at(one).cmp(&at(other)));
    match (request, delivery) {
        (Some(request), Some(delivery)) if at(&delivery) > request.request.row.at.0 => {
            Some(delivery_explanation(delivery))
        }
        (Some(request), _) => Some(request_explanation(request)),
        (None, delivery) => delivery.map(delivery_explanation),
    }
}

pub(super) fn request_explanation(RunRequest { request, explanation, .. }: RunRequest) -> Explanation {
    Explanation { request: Some(request), ..explanation }
}

pub(super) fn delivery_explanation(RunRecord { record, summary, advice, .. }: RunRecord<DeliveryWhole>) -> Explanation {
    let attempts = record.attempts.0.iter().map(|attempt| step(attempt, &record));
    let steps = attempts.chain(record.damage.as_deref().map(damage)).collect();
    Explanation {
        id: record.id.0.clone(),
        kind: Explained::Delivery,
        summary,
        steps,
        advice: advice.map(|hint| vec![hint]),
        delivery: Some(record),
        ..Explanation::default()
    }
}

fn event_explanation(RunRecord { record, summary, .. }: RunRecord<Event>) -> Explanation {
    let went = record.deliveries.iter().map(|target| {
        let detail = format!("delivery {} to {}", target.id, target.url);
        ExplainedStep::new(target.subscription.to_string(), StepVerdict::Passed, detail)
    });
    let skipped = record.skipped.iter().map(|skipped| {
        let detail = format!("not to {}: {}", skipped.url, skipped.reason.replace('_', " "));
        ExplainedStep::new(skipped.subscription.to_string(), StepVerdict::NotReached, detail)
    });
    let steps = went.chain(skipped).chain(record.damage.as_deref().map(damage)).collect();
    Explanation {
        id: record.id.0.clone(),
        kind: Explained::Event,
        summary,
        steps,
        event: Some(record),
        ..Explanation::default()
    }
}

/// An attempt as a step on the way to its delivery's end.
fn step(attempt: &Attempt, delivery: &DeliveryWhole) -> ExplainedStep {
    let (AttemptResult::Answered { accepted, .. } | AttemptResult::Failed { accepted, .. }) = &attempt.outcome;
    let ending = story::outcome_text(Some(&attempt.outcome));
    let detail = match attempt.outcome {
        AttemptResult::Answered { .. } => format!("the receiver {ending}"),
        AttemptResult::Failed { .. } => ending,
    };
    let went_well = story::went_well(*accepted, delivery.forgery.filter(|_| attempt.forged));
    let verdict = if went_well { StepVerdict::Passed } else { StepVerdict::Failed };
    ExplainedStep::new(format!("attempt {}", attempt.number), verdict, detail)
}

/// The deliberate damage of an event's deliveries.
fn damage(text: &str) -> ExplainedStep {
    ExplainedStep::new("damage", StepVerdict::Decided, text)
}
