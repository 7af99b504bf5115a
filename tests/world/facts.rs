//! What the journal says, in its order, between marks of what was done to the emulator.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use wrs_emulator::state::journal::{Entry, Journal, RequestRecord};
use wrs_emulator::state::workspace::{AttemptOutcome, AttemptRecord, EventRecord, FailureReason};

#[derive(Clone, Debug)]
pub(crate) enum Fact {
    Request(Row),
    Event(Event),
    Attempt(Attempt),
    /// The key was reset; all keys if there is none.
    Reset(Option<String>),
    /// Entries were cleared before they were read.
    Missed,
    /// A call that deletes a subscription begins, or was answered.
    Deleting {
        key: String,
        id: String,
        is_done: bool,
    },
    Rotated {
        key: String,
        id: String,
        secret: String,
    },
    /// The state was saved, and put in place again.
    Saved,
    Loaded,
    Restarted,
}

/// A request as it was recorded.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: Option<String>,
    pub(crate) marker: String,
    /// Its place among the requests of the journal.
    pub(crate) place: usize,
    pub(crate) id: String,
    /// The emulator's time, in milliseconds since 1970.
    pub(crate) at: i64,
    pub(crate) status: u16,
    pub(crate) is_broken: bool,
    pub(crate) quota: Option<Quota>,
    pub(crate) target: String,
    pub(crate) request: Vec<u8>,
    pub(crate) answer: Vec<u8>,
}

impl Row {
    /// The number in its id: those of a key count what it has drawn.
    pub(crate) fn number(&self) -> u64 {
        number(&self.id)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.answer).unwrap_or_default()
    }
}

pub(crate) fn number(id: &str) -> u64 {
    id.rsplit_once('_').and_then(|(_, number)| number.parse().ok()).unwrap_or_default()
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub(crate) allowed: bool,
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    pub(crate) wait_ms: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) body: Vec<u8>,
    /// Delivery and subscription.
    pub(crate) deliveries: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) key: String,
    pub(crate) event: String,
    pub(crate) delivery: String,
    pub(crate) subscription: String,
    pub(crate) number: u32,
    pub(crate) at: i64,
    pub(crate) latency_ms: u64,
    pub(crate) body: Vec<u8>,
    pub(crate) timestamp: String,
    pub(crate) signature: String,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered(u16),
    Failed,
    /// The subscription was deleted or disabled before.
    Gone,
}

fn row(record: &RequestRecord) -> Row {
    let (_, target) = record.transcript.request_line();
    let headers = record.transcript.header_map();
    let marker = headers.get("x-marker").and_then(|marker| marker.to_str().ok()).unwrap_or_default();
    Row {
        key: record.workspace.as_ref().map(|workspace| workspace.name().to_string()),
        marker: marker.to_owned(),
        place: 0,
        id: record.transcript.id().to_owned(),
        at: record.at.as_millisecond(),
        status: record.status,
        is_broken: record.broken.is_some(),
        quota: record.quota.map(|quota| Quota {
            allowed: quota.allowed,
            limit: quota.limit,
            remaining: quota.remaining,
            wait_ms: u64::try_from(quota.wait.as_millis()).unwrap_or(u64::MAX),
        }),
        target: target.to_owned(),
        request: record.transcript.body().to_vec(),
        answer: record.transcript.answer_body().to_vec(),
    }
}

fn event(record: &EventRecord) -> Event {
    let planned = record.deliveries.iter().map(|planned| (planned.id.clone(), planned.subscription.clone()));
    Event {
        key: record.workspace.to_string(),
        id: record.id.clone(),
        kind: record.event_type.clone(),
        body: record.body.to_vec(),
        deliveries: planned.collect(),
    }
}

fn attempt(record: &AttemptRecord) -> Attempt {
    let header = |name: &str| {
        let value = record.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        value.map(|(_, value)| value.into_owned()).unwrap_or_default()
    };
    Attempt {
        key: record.event.workspace.to_string(),
        event: record.event.id.clone(),
        delivery: record.delivery.id.clone(),
        subscription: record.delivery.subscription.clone(),
        number: record.number,
        at: Timestamp::as_millisecond(record.at),
        latency_ms: u64::try_from(record.latency.as_millis()).unwrap_or(u64::MAX),
        body: record.body.to_vec(),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
        outcome: match &record.outcome {
            AttemptOutcome::Answered { status, .. } => Outcome::Answered(*status),
            AttemptOutcome::Failed { reason: FailureReason::SubscriptionGone, .. } => Outcome::Gone,
            AttemptOutcome::Failed { .. } => Outcome::Failed,
        },
    }
}

/// Reads the journal as it grows.
pub(crate) struct Reading {
    pub(crate) journal: Arc<Journal>,
    pub(crate) next: u64,
}

impl Reading {
    /// Passes on what was appended since the last time.
    pub(crate) fn read(&mut self, facts: &mut Vec<Fact>) {
        loop {
            let entries = self.journal.read(self.next, 1_000);
            if entries.is_empty() {
                return;
            }
            for (number, entry) in entries {
                if number > self.next {
                    facts.push(Fact::Missed);
                }
                self.next = number + 1;
                match entry {
                    Entry::Request(record) => facts.push(Fact::Request(row(&record))),
                    Entry::Event(record) => facts.push(Fact::Event(event(&record))),
                    Entry::Attempt(record) => facts.push(Fact::Attempt(attempt(&record))),
                    Entry::Cleared => facts.push(Fact::Missed),
                    Entry::Notice(notice) => {
                        if let Some(whose) = notice.message.strip_prefix("reset: ") {
                            let key = whose.split_whitespace().find(|word| word.starts_with("sk_test_"));
                            facts.push(Fact::Reset(key.map(str::to_owned)));
                        }
                    }
                }
            }
        }
    }
}
