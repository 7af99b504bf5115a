//! The log on stderr: one line a record, as text or JSON, read from the journal with a cursor of its own. A log that
//! cannot keep up skips entries and says how many; it never holds a request back.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::output::{compact, counted};
use crate::app::ControlHandle;
use crate::contract::profile::Precision;
use crate::contract::timestamp::format_timestamp;
use crate::journal::{AttemptOutcome, AttemptRecord, Entry, Reason, RequestRecord};
use crate::redact::{Redactor, visible};
use crate::workspace::EventRecord;

/// How the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// One line of text a record.
    Text,
    /// One JSON object a record.
    Json,
}

/// The log of a running emulator, written by a thread of its own: a stderr that nobody reads holds nothing up.
pub(super) struct Log {
    ending: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

impl Log {
    /// Starts the log; everything that the journal has so far is told as well.
    pub(super) fn start(control: &ControlHandle, format: LogFormat) -> std::io::Result<Self> {
        let control = control.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let (ending, end) = watch::channel(false);
        let (done, ended) = oneshot::channel();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            runtime.block_on(follow(&control, format, end));
            // Whoever started the log may be gone.
            let _ = done.send(());
        })?;
        Ok(Self { ending, ended })
    }

    /// Writes what is left, as long as somebody reads it.
    pub(super) async fn finish(self) {
        self.ending.send_replace(true);
        let _ = tokio::time::timeout(Duration::from_millis(500), self.ended).await;
    }
}

/// Prints what is appended until the end is near and nothing is left.
async fn follow(control: &ControlHandle, format: LogFormat, mut end: watch::Receiver<bool>) {
    let journal = control.journal();
    let reader = journal.reader();
    let mut next = 1;
    loop {
        let ending = *end.borrow();
        let mut appended = pin!(reader.appended());
        appended.as_mut().enable();
        let entries = journal.read(next, 256);
        if entries.is_empty() {
            if ending {
                return;
            }
            tokio::select! {
                () = appended => {}
                _ = end.changed() => {}
            }
            continue;
        }
        let profile = control.profile_of_all();
        let redactor = Redactor::new(&profile.keys);
        let mut text = String::new();
        for (number, entry) in entries {
            if number > next {
                push_line(&mut text, format, &skipped(number - next));
            }
            next = number + 1;
            if let Some(mut record) = record(&entry, redactor) {
                redactor.value(&mut record);
                push_line(&mut text, format, &record);
            }
        }
        // Nobody is left to read the log if stderr is gone; the emulator serves on.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}

fn skipped(count: u64) -> Value {
    json!({ "event": "skipped", "message": format!("{count} records were skipped: the log could not keep up") })
}

fn push_line(text: &mut String, format: LogFormat, record: &Value) {
    match format {
        LogFormat::Json => text.push_str(&compact(record)),
        LogFormat::Text => {
            let at = record["at"].as_str().and_then(|at| at.get(11..23)).unwrap_or("");
            let message = record["message"].as_str().unwrap_or_default();
            text.push_str(&format!("{at} {}", visible(message)));
        }
    }
    text.push('\n');
}

/// An entry as a JSON object whose `message` is the line of text.
fn record(entry: &Entry, redactor: Redactor<'_>) -> Option<Value> {
    match entry {
        Entry::Request(request) => Some(request_record(request, redactor)),
        Entry::Event(event) => Some(event_record(event)),
        Entry::Attempt(attempt) => Some(attempt_record(attempt)),
        Entry::Notice(notice) if notice.message.is_empty() => None,
        Entry::Notice(notice) => {
            let level = if notice.warning { "warning" } else { "info" };
            Some(json!({ "at": stamp(notice.at), "event": "notice", "level": level, "message": notice.message }))
        }
    }
}

fn request_record(request: &RequestRecord, redactor: Redactor<'_>) -> Value {
    let (method, target) = request.transcript.request_line();
    let why = match &request.reason {
        Reason::Unauthorized(refusal) => format!(" - {refusal}"),
        Reason::Invalid(problems) => {
            let texts: Vec<String> =
                problems.iter().map(|problem| format!("{}: {}", problem.field, problem.reason)).collect();
            format!(" - {}", texts.join("; "))
        }
        Reason::Subscribed { warnings, .. } if !warnings.is_empty() => format!(" - warning: {}", warnings.join("; ")),
        Reason::RateLimited => " - the quota is used up".to_owned(),
        Reason::Refused(_, text) => format!(" - {text}"),
        Reason::Announced(_) => " - announced, not open yet".to_owned(),
        Reason::Panicked(text) => format!(" - the emulator failed: {text}"),
        Reason::Scripted => request
            .scripted
            .as_ref()
            .map(|scripted| format!(" - scenario {}, {}", scripted.scenario, scripted.rule))
            .unwrap_or_default(),
        _ => String::new(),
    };
    let line = if method.is_empty() { "unreadable request".to_owned() } else { format!("{method} {target}") };
    json!({
        "at": stamp(request.at),
        "event": "request",
        "id": request.transcript.id(),
        "key": request.key().map(|key| redactor.key(key)),
        "method": method,
        "target": target,
        "operation": request.operation.map(super::super::contract::routes::Operation::name),
        "status": request.status,
        "message": format!("{} {line} {}{why}", request.status, request.transcript.id()),
    })
}

fn event_record(event: &EventRecord) -> Value {
    // One subscription may get several copies.
    let subscriptions = event.deliveries.iter().map(|delivery| &delivery.subscription).collect::<BTreeSet<_>>().len();
    json!({
        "at": stamp(event.created_at),
        "event": "event",
        "id": event.id,
        "type": event.event_type,
        "deliveries": event.deliveries.len(),
        "damage": event.damage.as_deref(),
        "message": format!(
            "event {} {} goes to {}{}",
            event.event_type,
            event.id,
            counted(subscriptions as u64, "subscription"),
            damage(event.damage.as_deref())
        ),
    })
}

fn attempt_record(attempt: &AttemptRecord) -> Value {
    let outcome = match &attempt.outcome {
        AttemptOutcome::Answered { status, .. } => format!("answered {status}"),
        AttemptOutcome::Failed { detail, .. } => detail.clone(),
    };
    json!({
        "at": stamp(attempt.at),
        "event": "attempt",
        "id": attempt.delivery,
        "number": attempt.number,
        "url": attempt.url.as_ref(),
        "accepted": attempt.outcome.is_success(),
        "damage": attempt.damage.as_deref(),
        "message": format!(
            "delivery {} attempt {} to {}: {outcome}{}",
            attempt.delivery,
            attempt.number,
            attempt.url,
            damage(attempt.damage.as_deref())
        ),
    })
}

/// What is deliberately wrong, as the end of a line.
fn damage(damage: Option<&str>) -> String {
    damage.map_or_else(String::new, |damage| format!("; {damage}"))
}

fn stamp(at: Timestamp) -> String {
    format_timestamp(at, Precision::Milliseconds)
}
