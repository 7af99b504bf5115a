//! The log on stderr: one line per record, as text or JSON, read from the journal with its own cursor. A log that
//! cannot keep up skips entries and prints how many; it never delays a request.
//!
//! A line of JSON has its own fields: fewer than a record that the control API shows, and the text of the line.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use tokio::sync::{oneshot, watch};

use super::failure::colored;
use super::output::{CYAN, DIM, GREEN, RED, YELLOW, compact, painted};
use super::stream::Stream;
use crate::advice::Audience;
use crate::app::ControlHandle;
use crate::contract::routes::Operation;
use crate::contract::timestamp::{Precision, format_timestamp};
use crate::control::api::Millis;
use crate::control::story::{self, damage_text};
use crate::redact::{Redactor, visible};
use crate::state::journal::{Entry, Interest, Reason, RequestRecord};
use crate::state::workspace::{AttemptOutcome, AttemptRecord, EventRecord, Forgery, PlannedDelivery};
use crate::util::duration::duration_text;
use crate::util::wording::counted;

/// How the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// One line of text per record.
    Text,
    /// One JSON object per record.
    Json,
}

/// The log of a running emulator, written by its own thread, so that a blocked stderr delays nothing else.
pub(super) struct LogThread {
    ending: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

impl LogThread {
    /// Starts the log, beginning with the entries already in the journal.
    pub(super) fn start(control: &ControlHandle, format: LogFormat) -> std::io::Result<Self> {
        let control = control.clone();
        let is_colored = colored(&std::io::stderr());
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let (ending, end) = watch::channel(false);
        let (done, ended) = oneshot::channel();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            runtime.block_on(follow(&control, format, is_colored, end));
            // The receiver may have been dropped.
            let _ = done.send(());
        })?;
        Ok(Self { ending, ended })
    }

    /// Writes the remaining entries, unless stderr is blocked.
    pub(super) async fn finish(self) {
        self.ending.send_replace(true);
        let _ = tokio::time::timeout(Duration::from_millis(500), self.ended).await;
    }
}

/// Prints entries as they are appended, until `end` is true and none is left.
async fn follow(control: &ControlHandle, format: LogFormat, is_colored: bool, mut end: watch::Receiver<bool>) {
    let journal = control.journal();
    let reader = journal.reader(Interest::Everything);
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
                let message = format!("{} records were skipped: the log could not keep up", number - next);
                text.push_str(&line(&recorded(redactor, None, "skipped", json!({}), message), format, is_colored));
            }
            next = number + 1;
            let record = match &entry {
                Entry::Request(request) => request_record(request, redactor),
                Entry::Event(event) => event_record(event, redactor),
                Entry::Attempt(attempt) => attempt_record(attempt, redactor),
                // It was cleared.
                Entry::Cleared => continue,
                Entry::Notice(notice) => {
                    let level = json!({ "level": if notice.warning { "warning" } else { "info" } });
                    recorded(redactor, Some(notice.at), "notice", level, notice.message.clone())
                }
            };
            text.push_str(&line(&record, format, is_colored));
        }
        // The emulator keeps serving without a reader.
        Stream::Err.write(text);
    }
}

/// The line of a record.
fn line(record: &Value, format: LogFormat, is_colored: bool) -> String {
    if format == LogFormat::Json {
        return compact(record) + "\n";
    }
    let field = |name| record.get(name).and_then(Value::as_str);
    let at = field("at").and_then(|at| at.get(11..23)).unwrap_or_default();
    let text = visible(field("message").unwrap_or_default());
    let (first, rest) = text.split_once(' ').unwrap_or((&text, ""));
    format!("{} {} {rest}\n", painted(DIM, at, is_colored), painted(color(record), first, is_colored))
}

/// The color of a line's first word, by outcome.
fn color(record: &Value) -> &'static str {
    let status = record.get("status").and_then(Value::as_u64);
    let forgery = record.get("forgery").and_then(|forgery| Forgery::deserialize(forgery).ok());
    let accepted = record.get("accepted").and_then(Value::as_bool).map(|accepted| story::went_well(accepted, forgery));
    match (status, accepted, record.get("level").and_then(Value::as_str)) {
        (Some(200..=299), ..) | (_, Some(true), _) => GREEN,
        (Some(400..=499), ..) | (.., Some("warning")) => YELLOW,
        (Some(_), ..) | (_, Some(false), _) => RED,
        _ => CYAN,
    }
}

/// A record: a JSON object whose `message` is the line of text.
fn recorded(
    redactor: Redactor<'_>,
    at: Option<Timestamp>,
    event: &'static str,
    fields: Value,
    message: String,
) -> Value {
    let mut record = Map::new();
    record.extend(at.map(|at| ("at".to_owned(), format_timestamp(at, Precision::Milliseconds).into())));
    record.insert("event".to_owned(), event.into());
    record.extend(fields.as_object().cloned().unwrap_or_default());
    record.insert("message".to_owned(), message.into());
    redactor.shown(&record)
}

fn request_record(request: &RequestRecord, redactor: Redactor<'_>) -> Value {
    let (method, target) = request.transcript.request_line();
    let scripted = request.scripted.as_ref();
    let is_plain = match &request.reason {
        Reason::Answered | Reason::Scripted => true,
        Reason::Subscribed { warnings, .. } => warnings.is_empty(),
        _ => false,
    };
    let why = if is_plain { String::new() } else { format!(" - {}", story::decision(request).1) };
    let line = story::request_line(method, target);
    let status = request.broken.map_or_else(|| request.status.to_string(), str::to_owned);
    let key = request.carried_key(redactor.key_settings()).map(|key| redactor.key(&key).into_owned());
    let about = about(request.latency, key.as_deref(), scripted.map(story::rule_text));
    let id = request.transcript.id();
    let fields = json!({
        "id": id,
        "key": key,
        "method": method,
        "target": target,
        "operation": request.operation.map(Operation::name),
        "status": request.status,
        "broken": request.broken,
        "latency_ms": Millis::from(request.latency),
        "scenario": scripted.map(|by| &*by.scenario),
        "rule": scripted.map(|by| &*by.rule),
    });
    recorded(redactor, Some(request.at), "request", fields, format!("{status} {line} {id} ({about}){why}"))
}

fn event_record(event: &EventRecord, redactor: Redactor<'_>) -> Value {
    // One subscription may get several copies.
    let subscriptions = event.deliveries.iter().map(|delivery| &delivery.subscription).collect::<BTreeSet<_>>().len();
    let key = redactor.key(&event.workspace);
    // The text of the damage already names the scenario.
    let scenario = event.origin.in_scenario().filter(|_| event.damage.is_none());
    let about = [Some(key.to_string()), scenario].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let EventRecord { id, event_type, .. } = event;
    let (to, damaged) = (counted(subscriptions, "subscription"), damage_text(event.damage.as_deref()));
    let message = format!("event {event_type} {id} goes to {to} ({about}){damaged}");
    let fields = json!({
        "id": &**id,
        "type": &**event_type,
        "key": key,
        "deliveries": event.deliveries.len(),
        "damage": event.damage.as_deref(),
    });
    recorded(redactor, Some(event.handed_at), "event", fields, message)
}

fn attempt_record(attempt: &AttemptRecord, redactor: Redactor<'_>) -> Value {
    let outcome = story::ending(&attempt.outcome, redactor);
    // A log is often read after the emulator has ended, so the advice is an option for the next start.
    let next = match &attempt.outcome {
        AttemptOutcome::Failed { hint: Some(hint), .. } => format!("; {}", hint.line(&Audience::Nobody)),
        _ => String::new(),
    };
    let to = story::destination(attempt.delivery.url.as_str(), Some(&attempt.dialled));
    let key = redactor.key(&attempt.event.workspace);
    let about = about(attempt.latency, Some(&key), None);
    let (PlannedDelivery { id, url, .. }, number) = (&*attempt.delivery, attempt.number);
    let (damaged, judged) = (damage_text(attempt.event.damage.as_deref()), story::forgery_text(attempt.forgery()));
    let message = format!("delivery {id} attempt {number} to {to}: {outcome}{next} ({about}){damaged}{judged}");
    let fields = json!({
        "id": &**id,
        "number": number,
        "key": key,
        "url": url.as_str(),
        "dialled": &*attempt.dialled,
        "latency_ms": Millis::from(attempt.latency),
        "accepted": attempt.outcome.is_success(),
        "damage": attempt.event.damage.as_deref(),
        "forgery": attempt.forgery(),
    });
    recorded(redactor, Some(attempt.at), "attempt", fields, message)
}

/// The latency, the key, and what a scenario did.
fn about(latency: Duration, key: Option<&str>, scenario: Option<String>) -> String {
    let parts = [Some(duration_text(latency)), key.map(str::to_owned), scenario];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_show_the_outcome_and_come_after_escaping() {
        for (outcome, color) in [
            (json!({ "status": 200 }), GREEN),
            (json!({ "status": 302 }), RED),
            (json!({ "status": 429 }), YELLOW),
            (json!({ "status": 503 }), RED),
            (json!({ "status": 0 }), RED),
            (json!({ "accepted": true }), GREEN),
            (json!({ "accepted": false }), RED),
            (json!({ "accepted": false, "forgery": Forgery::Refused }), GREEN),
            (json!({ "accepted": true, "forgery": Forgery::Accepted }), RED),
            (json!({ "level": "warning" }), YELLOW),
            (json!({ "level": "info" }), CYAN),
        ] {
            let record = recorded(Redactor::default(), Some(Timestamp::UNIX_EPOCH), "x", outcome, "a \u{1b}b".into());
            let expected = format!("\u{1b}[2m00:00:00.000\u{1b}[0m \u{1b}[{color}ma\u{1b}[0m \\u{{1b}}b\n");
            assert_eq!(line(&record, LogFormat::Text, true), expected);
            assert_eq!(line(&record, LogFormat::Text, false), "00:00:00.000 a \\u{1b}b\n");
            assert!(!line(&record, LogFormat::Json, true).contains('\u{1b}'));
        }
    }
}
